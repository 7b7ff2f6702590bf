import pytest

from slrlab import make_activation
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.traits import traits

EXPECTED = {
    "weights sum to 1": {"softmax", "sparsemax", "hardmax", "softplus-biased", "spherical-2"},
    "weights sum to 1 or 0": {"relu-normalised", "relu2-normalised"},
    "weights sum to at most 1": {"softmax-1", "stick-breaking", "softpick"},
    "negative weights": {"linear", "cubic", "cosine", "l1-linear"},
    "exact zeros": {"relu", "sparsemax", "entmax1.2", "hardmax", "top2-softmax", "softpick"},
    "unchanged by a shift of all scores": {"softmax", "entmax15", "l2-softmax", "ssmax"},
    "unchanged by a factor on all scores": {"hardmax", "cosine"},
    "depends on the order of the tokens": {"stick-breaking"},
    "sees the length": {"relu-over-length", "ssmax", "as-entmax", "sigmoid-log-length"},
}


@pytest.mark.parametrize("trait", EXPECTED)
def test_traits_are_those_of_the_formulas(trait):
    having = {name for name, activation in ACTIVATIONS.items() if trait in traits(activation)}
    assert having >= EXPECTED[trait]
    assert not having & {"erf", "sigmoid", "consmax", "laplace"}  # positive, no sum, no limit


def test_traits_of_an_expression():
    assert traits(make_activation("elementwise: x")) == ("negative weights",)
    assert traits(make_activation("normalised: exp(x)")) == traits(ACTIVATIONS["softmax"])
