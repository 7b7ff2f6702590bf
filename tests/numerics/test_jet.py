import numpy as np
import pytest

from slrlab.numerics.jet import Jet


def test_sums_products_and_functions_carry_their_derivatives():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5))

    def value(x):
        return 3.0 * x[0] * x[1] + x[0] * x[0] * np.sin(x[1])

    a, b = (
        Jet(np.stack([x[0], 1 + 0 * x[0], 0 * x[0]])),
        Jet(np.stack([x[1], 0 * x[1], 1 + 0 * x[1]])),
    )
    combined = 3.0 * (a * b) + a * a * b.through(np.sin(x[1]), np.cos(x[1]))
    assert combined.value == pytest.approx(value(x))
    for i in range(2):
        e = 1e-6 * np.eye(2)[i][:, None]
        assert combined.parts[i + 1] == pytest.approx(
            (value(x + e) - value(x - e)) / 2e-6, abs=1e-8
        )
