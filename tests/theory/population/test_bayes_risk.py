import math

import mpmath
import pytest

from slrlab import MaxSLR, SpikedSLR, bayes_risk
from slrlab.theory.population.closed_forms import softmax_tail

LENGTHS = ["2", "10", "1,2,3", "1:0.2,2:0.3,5:0.5", "poisson(4)", "geometric(6)", "1000000"]


def _two_tokens(signal):
    """L = 2: 1 − E p_ε = E sigmoid(−(ν + √(2ν) g)), by mpmath around the saddle."""
    with mpmath.workdps(40):
        nu = mpmath.mpf(signal)
        centre = -mpmath.sqrt(nu / 2)
        end, count = 9 if signal < 60 else centre + 3, int(61 + signal / 2)
        points = mpmath.linspace(min(centre, -1) - 9, end, count)
        density = lambda g: mpmath.exp(-g * g / 2) / mpmath.sqrt(2 * mpmath.pi)
        miss = lambda g: density(g) / (1 + mpmath.exp(nu + mpmath.sqrt(2 * nu) * g))
        return mpmath.quad(miss, points)


@pytest.mark.parametrize("signal", [0.01, 1.0, 5.0, 20.0, 100.0, 200.0, 400.0])
def test_relative_accuracy_far_below_rounding(signal):
    exact = _two_tokens(signal)
    result = bayes_risk(SpikedSLR(signal, 2))
    assert float(abs(result.risk / exact - 1)) < 1e-10
    assert result.error < 1e-9 * result.risk


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("signal", [0.0, 0.4, 3.0, 30.0, 400.0])
@pytest.mark.parametrize("kind", [SpikedSLR, MaxSLR])
def test_nishimori_identity(kind, signal, length):
    result = bayes_risk(kind(signal, length))
    assert result.nishimori_gap < 1e-10
    assert result.status == "converged"


@pytest.mark.parametrize("length", [2, 3, 10])
def test_exponential_tail(length):
    ratio = bayes_risk(SpikedSLR(400.0, length)).risk / softmax_tail(400.0, length)
    assert ratio == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("kind", [SpikedSLR, MaxSLR])
def test_limits(kind):
    assert bayes_risk(kind(0.0, 10)).risk == pytest.approx(0.9, abs=1e-12)
    assert bayes_risk(kind(math.inf, 10)).risk == 0.0
    assert bayes_risk(kind(3.0, 1)).risk == 0.0
    assert bayes_risk(kind(3.0, 1, noise=0.5)).risk == 0.25


def test_strong_signals():
    """At 1e4 the risk of spiked-SLR is about e^{−2500}, less than any float; that of max is not."""
    assert bayes_risk(SpikedSLR(1e4, 2)).risk == 0.0
    result = bayes_risk(MaxSLR(1e4, 2))
    assert result.risk == pytest.approx(1.0 / (math.sqrt(math.pi) * 1e4), rel=1e-7)
    assert result.error < 1e-9 * result.risk


def test_max_bayes_falls_like_one_over_signal():
    """Two tokens: a mistake needs a gap of order 1/ν."""
    risks = [bayes_risk(MaxSLR(nu, 2)).risk * nu for nu in (100.0, 200.0, 400.0)]
    assert max(risks) / min(risks) < 1.001
    # P(gap) = 1/√π at 0 for the difference of two normals; ∫ 2p(1−p) dx = 2 for a logistic
    assert risks[-1] == pytest.approx(2.0 / math.sqrt(4 * math.pi), rel=1e-3)
