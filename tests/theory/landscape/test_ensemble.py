"""Many flows at once against one flow at a time."""

import numpy as np
import pytest

from slrlab import SpikedSLR, gradient_flow, tabulate
from slrlab.theory.landscape.ensemble import flow_ensemble

TASK = SpikedSLR(signal=2.0, length=5)


@pytest.fixture(scope="module", params=["softmax", "linear"])
def setting(request):
    table = tabulate(TASK, request.param, m=(-1.5, 2.5), std=2.0, tolerance=1e-4)
    starts = [0.3 * np.random.default_rng(seed).standard_normal((2, 4)) for seed in range(3)]
    return request.param, table, np.array(starts).transpose(1, 0, 2)


def test_it_is_the_gradient_flow(setting):
    activation, table, (k, v) = setting
    flows = flow_ensemble(table, k, v, accuracy=1e-5)
    assert flows.status == "converged"
    for index in range(len(k)):
        alone = gradient_flow(TASK, activation, start=(k[index], v[index]), landscape=table)
        assert str(flows.kinds[index]) == alone.minimum
        assert np.allclose(flows.k[index], alone.k, atol=1e-3)
        assert np.allclose(flows.v[index], alone.v, atol=1e-3)
        floor = alone.destination.risk
        left = alone.risk - floor
        time = np.interp(-np.log(0.01), -np.log(left), alone.times)
        assert flows.time_within(0.01, floor)[index] == pytest.approx(time, rel=0.02)


def test_errors_fall_with_the_square_of_the_step(setting):
    _, table, (k, v) = setting
    ends = [
        flow_ensemble(table, k, v, time=3.0, tolerance=1e-12, accuracy=accuracy).k
        for accuracy in (1e-3, 1e-5, 1e-7)
    ]
    coarse, fine = (np.abs(end - ends[-1]).max() for end in ends[:-1])
    # a step has an error of h³, and h² is left of their sum: 100 times less by step, 20 in all
    assert fine < coarse / 10.0
    assert coarse < 0.02


def test_risks_fall_and_start_where_they_should(setting):
    _, table, (k, v) = setting
    flows = flow_ensemble(table, k, v)
    for index in range(len(k)):
        assert flows.risk[0, index] == pytest.approx(table(k[index], v[index], 0.0).risk)
        assert flows.risk[-1, index] == pytest.approx(
            table(flows.k[index], flows.v[index], 0.0).risk
        )
    assert (np.diff(flows.risk, axis=0) < 1e-9).all()
    assert np.isnan(flows.time_within(1e-3, 0.0)).all()


def test_keys_that_leave_the_table_are_told():
    table = tabulate(TASK, "linear", m=(-1.5, 2.5), std=2.5, tolerance=1e-6)
    flows = flow_ensemble(table, [[0.0, 2.0, 0.0, 0.0]], [[0.1, 0.0, 0.0, 0.0]])
    assert flows.statuses == ("diverged",)
    assert flows.kinds == ["mismatched"]
    short = flow_ensemble(table, [[0.5, 0.0, 0.0, 0.0]], [[0.0, 0.1, 0.0, 0.0]], time=0.1)
    assert short.statuses == ("not converged",)
    assert short.times[-1, 0] == pytest.approx(0.1)


def test_bad_starts(setting):
    _, table, (k, v) = setting
    with pytest.raises(ValueError, match=r"k must be finite vectors of shape \(n, 4\)"):
        flow_ensemble(table, k[0], v)
    with pytest.raises(ValueError, match="k must lie inside the table"):
        flow_ensemble(table, k + 10.0, v)
