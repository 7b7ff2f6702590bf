import math

import numpy as np
import pytest

from slrlab import Elementwise, MaxSLR, OrderParameters, ScalarMap, SpikedSLR, excess_parts
from slrlab._result import Estimate
from slrlab.experiments.comparison.student import normal_score
from slrlab.model.activations import make_activation
from slrlab.simulation.data.monte_carlo import monte_carlo_risk
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.key_sample import BLOCKS, draw_keys
from slrlab.theory.population.parts import PARTS

SPIKED, RANDOM = SpikedSLR(9.0, 10), SpikedSLR(4.0, "1,2,5")
NAMES = ["linear", "sigmoid", "softplus", "sparsemax", "l2-softmax", "stick-breaking"]
FEW = 8192


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", [SPIKED, RANDOM, MaxSLR(3.0, 5)], ids=["spiked", "random", "max"])
def test_the_parts_sum_to_the_excess_of_the_quadrature(task, name):
    parts = excess_parts(task, name, samples=FEW)
    assert parts.excess > 1e-4
    # Student: 16 blocks; 18 settings, at one chance in a thousand for all together
    gap = Estimate(parts.parts - parts.excess, parts.error, BLOCKS - 1.0)
    assert abs(normal_score(gap)) < 4.0
    assert parts.error < 0.02 * parts.excess + 1e-4
    assert min(getattr(parts, f"{part}_part") for part in PARTS) > -1e-15
    assert sum(parts.share(part) for part in PARTS) == pytest.approx(1.0)
    assert parts.per_sequence <= parts.per_length <= parts.parts * (1.0 + 1e-12)
    if len(task.length.lengths) == 1:
        assert parts.length_part == pytest.approx(0.0, abs=1e-15)
        assert parts.per_length == pytest.approx(parts.parts, rel=0.01)


def test_the_sum_is_the_risk_that_monte_carlo_measures():
    """At keys that are not the best: the identity needs the best values only."""
    task, activation, m_k = RANDOM, make_activation("relu2", bias=0.5), 0.7
    moments = draw_keys(task, 10, 0).moments(activation, m_k)
    target, energy = (
        float(moments.probabilities @ row.mean(axis=1)) for row in (moments.target, moments.energy)
    )
    risk = monte_carlo_risk(
        task, activation, OrderParameters(m_k, target / energy), samples=400_000
    )
    blocks = moments.shape + moments.size + moments.length
    assert moments.excess == pytest.approx(float(blocks.mean()), abs=1e-14)
    error = math.hypot(risk.error, float(blocks.std(ddof=1)) / 4.0)
    assert abs(bayes_risk(task).risk + moments.excess - risk.value) < 3.0 * error
    assert risk.error < 0.01 * moments.excess


def test_a_factor_for_each_sequence_leaves_the_shape_alone():
    """Weights that are the posterior times a factor have no shape part; the factor is all."""
    parts = excess_parts(SPIKED, "l2-softmax", samples=FEW)
    assert parts.shape_part < 1e-10
    assert parts.share("size") == pytest.approx(1.0)
    for plain, divided in (("taylor2", "taylor2-normalised"), ("linear", "l1-linear")):
        one, two = (excess_parts(SPIKED, name, samples=FEW) for name in (plain, divided))
        assert one.per_sequence == pytest.approx(two.per_sequence, rel=2e-3)
        assert one.excess > two.excess
    for name in ("consmax", "sigmoid"):  # exponential, or so on the left: the factor cures it
        assert excess_parts(SPIKED, name, samples=FEW).per_sequence < 1e-9


def test_division_by_the_length_is_the_length_part():
    """A factor of the length on weights that equal the posterior costs its weighted variance."""
    sample = draw_keys(RANDOM, 9, 1)
    softmax = make_activation("softmax")
    moments = sample.moments(softmax, 2.0)
    lengths, factor = np.array([1.0, 2.0, 5.0]), np.array([1.0, 0.5, 0.2])
    assert moments.excess < 1e-14
    divided = sample.moments(_over_length(softmax), 2.0)
    weight = divided.energy.mean(axis=1) / lengths.size
    spread = weight @ (1.0 / factor - weight @ (1.0 / factor) / weight.sum()) ** 2
    assert divided.length.mean() == pytest.approx(spread, rel=1e-12)
    assert divided.excess == pytest.approx(spread, rel=1e-10)


def _over_length(base):
    from slrlab import LengthScaled

    return LengthScaled("", base=base, factor=lambda length: 1.0 / length)


def test_a_shared_angle():
    parts = excess_parts(SPIKED, "linear", samples=FEW)
    norm = 1.0 - bayes_risk(SPIKED).risk
    assert norm * math.sin(math.radians(parts.angle)) ** 2 == pytest.approx(parts.excess)


def test_exact_activations_and_limits():
    for name in ("softmax", "softplus-biased", "softmax-sink"):
        parts = excess_parts(SPIKED, name, samples=FEW)
        assert parts.parts == parts.per_sequence == parts.retuned == parts.angle == 0.0
        assert math.isnan(parts.share("shape"))
    hard = excess_parts(MaxSLR(math.inf, 4), "sigmoid", samples=FEW)
    assert abs(hard.parts - hard.excess) < 3.0 * hard.error


def test_weights_that_vanish_have_all_their_excess_in_the_shape():
    step = Elementwise("", phi=ScalarMap(lambda x: (x > 50.0) * 1.0, np.zeros_like, np.zeros_like))
    moments = draw_keys(SPIKED, 6, 0).moments(step, 1.0)
    assert moments.excess == pytest.approx(float(moments.shape.mean()))
    assert moments.excess == pytest.approx(float(moments.norm.mean()))


@pytest.mark.parametrize(
    ("task", "options", "name"),
    [
        (SpikedSLR(math.inf, 3), {}, "signal"),
        (SpikedSLR(2.0, 100_000), {}, "length"),
        (SPIKED, {"samples": 3}, "samples"),
        (SPIKED, {"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_named(task, options, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        excess_parts(task, "linear", **options)
    with pytest.raises(ValueError, match=r"^part must be"):
        excess_parts(SPIKED, "softmax", samples=FEW).share("angle")
    with pytest.raises(TypeError, match=r"^task must be"):
        excess_parts("spiked", "linear")
