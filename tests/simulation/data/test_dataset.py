"""Drawn data: the law of the scores, the labels, one meaning of a seed, refusals."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from slrlab import Dataset, MaxSLR, SpikedSLR, Teacher, TiltedTask, draw_dataset
from slrlab import _machine as machine
from slrlab.simulation.data import dataset

DIM, SAMPLES = 40, 20_000


@dataclass(frozen=True)
class TwoSided(TiltedTask):
    """The relevant score is shifted up or down: not Gaussian, so no shift of its mean."""

    name: ClassVar[str] = "two-sided"

    @property
    def _root(self):
        return math.sqrt(self.signal)

    def log_ratio(self, scores):
        return np.log(np.cosh(self._root * scores)) - self.signal / 2.0

    @property
    def relevant_interval(self):
        return -self._root - 9.0, self._root + 9.0

    def sample_relevant(self, rng, size):
        return rng.standard_normal(size) + self._root * rng.choice([-1.0, 1.0], size)


def scores(data):
    """Key and value scores of the teacher, and whether a row is the relevant one."""
    relevant = np.zeros(len(data.tokens), dtype=bool)
    relevant[data.offsets[:-1] + data.locations] = True
    tokens, root = data.tokens.astype(float), math.sqrt(data.dim)
    return tokens @ data.teacher.keys / root, tokens @ data.teacher.values / root, relevant


def is_normal(sample, mean=0.0):
    return stats.kstest(sample - mean, "norm").pvalue > 1e-3


@pytest.mark.parametrize("task", [SpikedSLR(4.0, "1,2,5"), TwoSided(4.0, 3)], ids=lambda t: t.name)
def test_the_law_of_tilted_tasks(task):
    chi, z, relevant = scores(draw_dataset(task, dim=DIM, samples=SAMPLES, seed=1))
    assert is_normal(chi[~relevant])
    assert is_normal(z)
    assert abs(np.corrcoef(chi, z)[0, 1]) < 4 / math.sqrt(z.size)
    if task.name == "spiked":
        assert is_normal(chi[relevant], mean=2.0)
    else:
        side = chi[relevant] > 0.0
        assert abs(side.mean() - 0.5) < 4 * 0.5 / math.sqrt(SAMPLES)
        assert abs(chi[relevant].var() - 5.0) < 0.2
        assert (
            stats.ks_2samp(
                chi[relevant], task.sample_relevant(np.random.default_rng(0), SAMPLES)
            ).pvalue
            > 1e-3
        )


def test_places_of_tilted_tasks_are_uniform():
    data = draw_dataset(SpikedSLR(4.0, 5), dim=4, samples=SAMPLES)
    assert stats.chisquare(np.bincount(data.locations, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize("signal", [0.0, 1.5, math.inf])
def test_places_of_max_slr_follow_the_posterior(signal):
    task = MaxSLR(signal, 3)
    data = draw_dataset(task, dim=DIM, samples=SAMPLES, seed=2)
    chi, z, _ = scores(data)
    assert is_normal(chi)
    assert is_normal(z)
    posterior = task.posterior(chi.reshape(-1, 3))
    hit = np.eye(3)[data.locations]
    if math.isinf(signal):
        first, second = np.sort(chi.reshape(-1, 3), axis=1).T[:0:-1]
        clear = first - second > 1e-4  # float32 tokens give scores to about 1e-6
        assert clear.mean() > 0.99
        assert_array_equal(hit[clear], posterior[clear])
        return
    error = hit - posterior  # a martingale difference: zero mean against any function of the scores
    for weight in (np.ones_like(error), chi.reshape(-1, 3), posterior):
        product = (error * weight)[:, 0]
        assert abs(product.mean()) < 4 * product.std() / math.sqrt(SAMPLES)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, "1,3", noise=0.5), MaxSLR(2.0, 3, noise=0.5)])
def test_labels_are_the_value_at_the_place_plus_noise(task):
    data = draw_dataset(task, dim=DIM, samples=SAMPLES, seed=3)
    _, z, relevant = scores(data)
    noise = data.labels - z[relevant]
    assert is_normal(noise / 0.5)
    clean = type(task)(task.signal, task.length)
    data = draw_dataset(clean, dim=DIM, samples=100, seed=3)
    _, z, relevant = scores(data)
    assert_allclose(data.labels, z[relevant], atol=1e-12)


def test_ragged_sequences_lie_one_after_the_other():
    data = draw_dataset(SpikedSLR(1.0, "1:0.2,2:0.3,7:0.5"), dim=6, samples=3000)
    assert data.offsets[0] == 0
    assert data.offsets[-1] == len(data.tokens)
    assert_array_equal(np.unique(data.lengths), [1, 2, 7])
    shares = np.array([np.mean(data.lengths == length) for length in (1, 2, 7)])
    assert np.abs(shares - [0.2, 0.3, 0.5]).max() < 0.04
    assert (data.locations < data.lengths).all()
    assert (data.samples, data.dim) == (3000, 6)
    assert_array_equal(data.sequence(5), data.tokens[data.offsets[5] : data.offsets[6]])


@pytest.mark.parametrize("task", [SpikedSLR(2.0, "1,2,3"), MaxSLR(2.0, 3), TwoSided(1.0, 2)])
def test_a_seed_means_the_same_data_for_any_number_of_threads(task, monkeypatch):
    monkeypatch.setattr(dataset, "_BLOCK", 1 << 12)  # many blocks
    calls = []
    one, two, five = (
        draw_dataset(
            task, dim=DIM, samples=500, seed=4, threads=n, report=lambda *a: calls.append(a)
        )
        for n in (1, 2, 5)
    )
    for other in (two, five):
        assert_array_equal(one.tokens, other.tokens)
        assert_array_equal(one.labels, other.labels)
        assert_array_equal(one.locations, other.locations)
    total = calls[0][1]
    assert total > 5
    assert calls[:total] == [(done, total, "drawing data") for done in range(1, total + 1)]


def test_seeds_and_streams_are_independent_and_streams_share_the_teacher():
    task = SpikedSLR(2.0, 2)
    first = draw_dataset(task, dim=DIM, samples=500, seed=5)
    stream = draw_dataset(task, dim=DIM, samples=500, seed=5, stream=1)
    other = draw_dataset(task, dim=DIM, samples=500, seed=6)
    assert_array_equal(first.teacher.keys, stream.teacher.keys)
    assert not np.array_equal(first.teacher.keys, other.teacher.keys)
    for one, two in [(first, stream), (first, other), (stream, other)]:
        product = (one.tokens * two.tokens).ravel().astype(float)
        assert abs(product.mean()) < 5 * product.std() / math.sqrt(product.size)


def test_precision_and_teachers():
    task = SpikedSLR(2.0, 2)
    fine = draw_dataset(task, dim=DIM, samples=10, dtype="float64")
    assert (fine.tokens.dtype, fine.labels.dtype) == (np.float64, np.float64)
    assert draw_dataset(task, dim=DIM, samples=10).tokens.dtype == np.float32
    exact = Teacher.draw(50, seed=1)
    assert_allclose([exact.keys @ exact.keys, exact.values @ exact.values], 50.0)
    assert abs(exact.keys @ exact.values) < 1e-10
    raw = Teacher.draw(50_000, seed=1, kind="gaussian")
    assert is_normal(raw.keys)
    assert is_normal(raw.values)
    assert raw.keys @ raw.keys != pytest.approx(50_000, abs=1e-3)
    given = draw_dataset(task, dim=50, samples=10, teacher=exact)
    assert given.teacher is exact


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("dim", "samples"), [(1000, 2000), (777, 50), (5000, 1), (301, 907)])
@pytest.mark.parametrize("free", [10**5, 123_457, 10**6])
def test_memory_is_refused_with_a_dimension_that_fits(monkeypatch, dtype, dim, samples, free):
    monkeypatch.setattr(machine, "free_memory", lambda: free)
    task, alpha = SpikedSLR(1.0, 3), samples / dim

    def fits(size):
        count = max(1, round(alpha * size))
        try:
            dataset.check_memory(task, size, count, dtype)
        except ValueError:
            return False
        return True

    if fits(dim):
        draw_dataset(task, dim=dim, samples=samples, dtype=dtype)
        return
    message = rf"^dim must be at most \d+ at alpha {alpha:.4g}, length 3 and {dtype}, got {dim} \("
    with pytest.raises(ValueError, match=message) as caught:
        draw_dataset(task, dim=dim, samples=samples, dtype=dtype)
    most = int(re.search(r"at most (\d+)", str(caught.value))[1])
    assert fits(most)
    assert not fits(most + 1)


def test_free_memory_is_that_of_the_machine_or_its_control_group(monkeypatch, tmp_path):
    assert 0 < machine.free_memory() <= machine._machine()
    monkeypatch.setattr(machine, "_machine", lambda: 10**12)
    group = tmp_path / "slice" / "job"
    group.mkdir(parents=True)
    monkeypatch.setattr(machine, "_groups", lambda: [group, tmp_path])
    (group / "memory.max").write_text("max\n")
    assert machine.free_memory() <= machine._machine()
    (group / "memory.max").write_text("500\n")
    (group / "memory.current").write_text("150\n")
    (group / "memory.stat").write_text("anon 30\ninactive_file 50\n")
    assert machine.free_memory() == 400
    assert machine.allowed_memory() == 360
    assert machine.in_gib(2**20) == "1.0 MiB"


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"dim": 1}, ValueError, "dim must be a whole number >= 2, got 1"),
        ({"samples": 0}, ValueError, "samples must be a whole number >= 1, got 0"),
        ({"seed": -1}, ValueError, "seed must be a whole number >= 0, got -1"),
        ({"teacher": "exact"}, ValueError, "teacher must be one of normalised, gaussian"),
        ({"teacher": Teacher.draw(5)}, ValueError, "teacher must have dimension 10, got 5"),
        ({"dtype": "int8"}, ValueError, "dtype must be one of float32, float64, got int8"),
        ({"threads": 0}, ValueError, "threads must be a whole number >= 1, got 0"),
        ({"task": SpikedSLR(math.inf, 2)}, ValueError, "signal must be finite to draw tokens"),
        (
            {"task": "spiked"},
            TypeError,
            "task must be one of TiltedTask, SelectionTask",
        ),
    ],
)
def test_bad_numbers_are_named(changes, kind, message):
    given = {"task": SpikedSLR(1.0, 2), "dim": 10, "samples": 5} | changes
    with pytest.raises(kind, match=f"^{message}"):
        draw_dataset(given.pop("task"), **given)


def test_sequences_of_users_are_packed_without_padding():
    array = np.arange(24.0).reshape(2, 3, 4)
    packed = Dataset.from_sequences(array, [1, 2])
    assert packed.tokens.dtype == np.float32
    assert_array_equal(packed.tokens, array.reshape(6, 4))
    assert_array_equal(packed.offsets, [0, 3, 6])
    assert_array_equal(packed.labels, [1.0, 2.0])
    ragged = Dataset.from_sequences([array[0], array[1, :1]], dtype="float64")
    assert_array_equal(ragged.lengths, [3, 1])
    assert_array_equal(ragged.sequence(1), array[1, :1])
    assert_array_equal(ragged.labels, [0.0, 0.0])
    objects = np.empty(2, dtype=object)
    objects[:] = [array[0], array[1, :2]]
    assert_array_equal(Dataset.from_sequences(objects).lengths, [3, 2])
    labels = np.ones(2)
    Dataset.from_sequences(array, labels).labels[0] = 5.0
    assert labels[0] == 1.0
    frozen = array.astype(np.float32)
    frozen.setflags(write=False)
    assert Dataset.from_sequences(frozen).tokens.flags.writeable


SHAPES = (
    r"X must be an array of shape \(N, L, D\) or a list of \(L, D\) arrays of real numbers, got "
)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (5, None, SHAPES + "5"),
        (np.ones((2, 3)), None, SHAPES + r"float64 of shape \(2, 3\)"),
        (np.ones((2, 3, 4), dtype=complex), None, SHAPES + "complex128"),
        (np.full((2, 3, 4), "a"), None, SHAPES + "<U1"),
        ([np.ones((2, 3)), np.ones(3)], None, SHAPES + r"float64 of shape \(3,\) at index 1"),
        ([[[1.0, 2.0], [3.0]]], None, SHAPES + "uneven rows at index 0"),
        ([np.ones((2, 3)), np.ones((2, 4))], None, "X must have one dimension D in all sequences"),
        ([], None, "X must hold at least one sequence, got none"),
        (np.ones((0, 2, 3)), None, "X must hold at least one sequence, each of at least one"),
        ([np.ones((2, 3)), np.ones((0, 3))], None, "X must hold at least one sequence, each of"),
        (np.full((1, 1, 2), np.inf), None, "X must hold finite numbers only"),
        (np.full((1, 1, 2), 1e300), None, r"X must hold finite numbers only \(as float32\)"),
        (np.ones((2, 3, 4)), [1.0], r"y must have shape \(2,\), one label a sequence, got sh"),
        (np.ones((2, 3, 4)), [1.0, np.nan], "y must hold finite numbers only, got nan or inf"),
        (np.ones((2, 3, 4)), ["a", "b"], "y must hold real numbers only, got an array of <U1"),
        (np.ones((2, 3, 4)), [1j, 2.0], "y must hold real numbers only, got an array of complex"),
    ],
)
def test_bad_sequences_are_named(X, y, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Dataset.from_sequences(X, y)
