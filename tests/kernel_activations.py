"""One activation of every family and kind that the compiled kernels distinguish."""

import pytest

from slrlab import LengthScaled, Normalised, Projection, Ratio, make_activation
from slrlab.model.activations import SOFTPLUS
from slrlab.model.atlas.elementwise import LOGISTIC
from slrlab.model.families import CosineReweighted, NormMax

MAPS = [
    make_activation("softmax"),
    Normalised("softmax with sink", sink=0.7),
    make_activation("linear"),
    make_activation("erf"),
    make_activation("softplus"),
    make_activation("normalised: 1 + x + x**2/2"),
    make_activation("elementwise: 1 + tanh(x)"),
]
OTHERS = [
    make_activation("l2-softmax"),
    Ratio("logistic ratio", phi=LOGISTIC, gauge=SOFTPLUS.phi, exponent=1.5),
    make_activation("stick-breaking"),
    CosineReweighted("reweighted logistic", phi=LOGISTIC),
    NormMax("normmax1.5", alpha=1.5),
]
PROJECTIONS = [
    make_activation("entmax15"),
    Projection("entmax1.33", power=3.0),
    Projection("budget of entmax1.33", power=3.0, budget=2),
    make_activation("sparsemax"),
    make_activation("budget-2"),
    make_activation("normmax-2"),
]
# scores, bias and weights that depend on the length
SEES_LENGTH = LengthScaled(
    "sees length",
    base=make_activation("erf"),
    score=lambda n: 0.4 * n,
    shift=lambda n: 0.3 - 0.2 * n,
    factor=lambda n: 1.5 / n,
)
SMOOTH = [*MAPS, *OTHERS, *PROJECTIONS[:2]]
ALL = [*MAPS, *OTHERS, *PROJECTIONS]


def by_name(activations):
    """Return the mark that runs a test for each activation."""
    return pytest.mark.parametrize("activation", activations, ids=lambda a: a.name)
