"""Laws of the entries of tokens: variance 1, the correlations that they say, and bad texts."""

import math

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, TokenLaw, draw_dataset

FOURTH = {"gaussian": 3.0, "rademacher": 1.0, "uniform": 1.8, "laplace": 6.0, "student(9)": 4.2}


@pytest.mark.parametrize("text", FOURTH)
def test_entries_have_variance_one_and_their_fourth_moment(text):
    tokens = np.empty((200, 2000))
    TokenLaw.of(text).fill(np.random.default_rng(0), tokens, np.full(100, 2))
    assert abs(tokens.mean()) < 0.01
    assert tokens.var() == pytest.approx(1.0, abs=0.02)
    assert (tokens**4).mean() == pytest.approx(FOURTH[text], rel=0.1)


@pytest.mark.parametrize("entries", ["gaussian", "rademacher"])
def test_correlations(entries):
    lengths = np.full(4000, 3)
    tokens = np.empty((12_000, 40), dtype=np.float32)
    TokenLaw.of(f"{entries}+ar1(0.6)+shared(0.25)").fill(np.random.default_rng(1), tokens, lengths)
    x = tokens.reshape(4000, 3, 40).astype(float)
    for lag in (0, 1, 3):
        seen = (x[..., lag:] * x[..., : 40 - lag]).mean()
        assert seen == pytest.approx(0.6**lag, abs=0.02)
    assert (x[:, 0] * x[:, 1]).mean() == pytest.approx(0.25, abs=0.02)


def test_the_spectrum_is_that_of_the_covariance():
    law, index = TokenLaw.of("ar1(0.5)"), np.arange(800)
    exact = np.linalg.eigvalsh(0.5 ** np.abs(index[:, None] - index))
    ours = np.sort(law.spectrum(800))
    np.testing.assert_allclose(ours, exact, atol=0.02)
    assert ours.mean() == pytest.approx(1.0, abs=1e-12)
    assert (1.0 / ours).mean() == pytest.approx((1.0 + 0.25) / (1.0 - 0.25), abs=1e-12)


@pytest.mark.parametrize("task", [SpikedSLR(4.0, 3), MaxSLR(4.0, 3)], ids=lambda task: task.name)
def test_the_task_holds_for_every_law(task):
    """The relevant score has the mean of the task: by the shift, or because it is selected."""
    means = []
    for law in ("gaussian", "rademacher"):
        data = draw_dataset(task, dim=400, samples=4000, token_law=law)
        scores = (data.tokens @ data.teacher.keys / 20.0).reshape(4000, 3)
        chosen = scores[np.arange(4000), data.locations]
        means.append((chosen.mean(), chosen.std() / math.sqrt(4000)))
    (one, first), (two, second) = means
    assert abs(one - two) < 4.0 * math.hypot(first, second)


def test_gaussian_data_do_not_depend_on_how_the_law_is_given():
    drawn = [
        draw_dataset(SpikedSLR(2.0, 3), dim=20, samples=30, token_law=law).tokens
        for law in ("gaussian", TokenLaw())
    ]
    np.testing.assert_array_equal(*drawn)
    assert TokenLaw.of("gaussian") == TokenLaw() != TokenLaw.of("gaussian+ar1(0.1)")


@pytest.mark.parametrize(
    "text",
    ["gaus", "student", "student(2)", "student(inf)", "student(x)", "gaussian(3)", "ar1", "ar1(1)"]
    + ["shared(-0.1)", "laplace+laplace", "ar1(0.1)+ar1(0.2)", "ar1(nan)", ""],
)
def test_bad_laws_are_named(text):
    with pytest.raises(ValueError, match=r"^token_law must be one of gaussian, .*, got "):
        TokenLaw.of(text)


def test_a_law_is_a_text_or_a_law():
    with pytest.raises(TypeError, match=r"^token_law must be one of gaussian"):
        TokenLaw.of(5)
    assert str(TokenLaw.of(" student(5) + shared(0.25)")) == "student(5)+shared(0.25)"
