import pytest

from slrlab import LengthLaw
from slrlab.theory.population.rates import elementwise_rate, linear_rate, softmax_rate


@pytest.mark.parametrize("length", ["2", "10", "1,2,3"])
def test_linear_falls_as_the_mean_length_over_the_signal(length):
    law = LengthLaw.of(length)
    power, prefactor = linear_rate(law)
    assert power.fitted == pytest.approx(1.0, abs=5e-3)
    assert prefactor.fitted == pytest.approx(law.mean, rel=2e-2)
    assert prefactor.deviation < 2e-2


@pytest.mark.parametrize("length", [2, 10])
@pytest.mark.parametrize(("rate", "decay"), [(softmax_rate, 0.25), (elementwise_rate, 0.125)])
def test_softmax_falls_exponentially_and_elementwise_at_half_the_rate(rate, decay, length):
    fitted, power, prefactor = rate(length)
    assert fitted.fitted == pytest.approx(decay, abs=1e-5)
    assert power.fitted == pytest.approx(0.5, abs=5e-3)
    assert prefactor.deviation < 2e-2
