import numpy as np
import pytest

from slrlab.retrieval.tasks import MarkovTask, MaxTask, NeedleTask, RecallTask


def drawn(task, sequences=50, seed=0):
    return task.draw(np.random.default_rng(seed), sequences)


@pytest.mark.parametrize("filler", ["zero", "unused"])
@pytest.mark.parametrize("pairs", [1, 4, 16])
def test_every_question_is_a_key_whose_value_is_the_answer(pairs, filler):
    task = RecallTask(pairs=pairs, filler=filler)
    batch = drawn(task)
    assert batch.inputs.shape == (50, 64)
    assert batch.positions.shape == (50, pairs)
    for tokens, positions, targets, sources in zip(
        batch.inputs, batch.positions, batch.targets, batch.sources, strict=True
    ):
        keys, values = tokens[0 : 2 * pairs : 2], tokens[1 : 2 * pairs : 2]
        assert len(set(keys)) == len(set(values)) == pairs
        assert ((keys >= 1) & (keys < 64)).all()
        assert (values >= 64).all()
        pairing = dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert [pairing[key] for key in tokens[positions].tolist()] == targets.tolist()
        assert sorted(tokens[positions]) == sorted(keys)
        assert (tokens[sources] == targets).all()
        assert (np.diff(positions) > 0).all()
        # nothing else is a value, or a key of this sequence
        rest = np.delete(tokens[2 * pairs :], positions - 2 * pairs)
        assert not set(rest.tolist()) & (set(keys.tolist()) | set(values.tolist()))
        assert (rest < 64).all()
        assert (rest == 0).all() == (filler == "zero")


def test_gaps_before_questions_follow_the_power_law():
    near, flat = (
        drawn(RecallTask(pairs=1, power=power), 20_000).positions[:, 0] for power in (0.01, 1.0)
    )
    gaps = np.arange(31)
    for positions, power in ((near, 0.01), (flat, 1.0)):
        shares = np.bincount((positions - 2) // 2, minlength=31) / len(positions)
        law = (gaps + 1.0) ** (power - 1.0)
        law /= law.sum()
        error = np.sqrt(law * (1.0 - law) / len(positions))
        assert np.abs((shares - law) / error).max() < 4.5


def test_a_batch_has_one_of_several_numbers_of_pairs():
    task = RecallTask(pairs=(2, 5))
    rng = np.random.default_rng(0)
    assert {task.draw(rng, 3).positions.shape[1] for _ in range(30)} == {2, 5}


@pytest.mark.parametrize("filler", ["zero", "unused"])
def test_a_needle_stands_once_in_the_haystack(filler):
    batch = drawn(NeedleTask(length=32, filler=filler), 200)
    for tokens, target, source in zip(
        batch.inputs, batch.targets[:, 0], batch.sources[:, 0], strict=True
    ):
        assert tokens[source] == target >= 64
        assert tokens[source - 1] == tokens[-1]
        assert (tokens == tokens[-1]).sum() == 2
        assert (tokens >= 64).sum() == 1
    assert (batch.positions == 31).all()
    assert set(batch.sources[:, 0]) == set(range(1, 30))


def test_the_largest_item_is_the_answer():
    batch = drawn(MaxTask(items=7, kinds=4))
    assert batch.inputs.shape == (50, 8, 5)
    assert (batch.inputs[:, -1] == 0.0).all()
    assert (batch.inputs[:, :-1, 1:].sum(axis=2) == 1.0).all()
    best = batch.inputs[:, :-1, 0].argmax(axis=1)
    assert (batch.sources[:, 0] == best).all()
    classes = batch.inputs[np.arange(50), best, 1:].argmax(axis=1)
    assert (batch.targets[:, 0] == classes).all()


def test_a_chain_has_the_transitions_and_the_entropy_it_states():
    task = MarkovTask(vocabulary=8, length=500)
    batch = drawn(task, 200)
    assert (batch.inputs[:, 1:] == batch.targets[:, :-1]).all()
    counts = np.zeros((8, 8))
    np.add.at(counts, (batch.inputs.ravel(), batch.targets.ravel()), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    ordered = np.sort(shares, axis=1)[:, ::-1]
    assert (ordered[:, 4:] == 0.0).all()
    assert ordered[:, :4].mean(axis=0) == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=0.01)
    assert task.entropy == pytest.approx(-(ordered[0, :4] * np.log(ordered[0, :4])).sum(), abs=0.02)


@pytest.mark.parametrize("task", [RecallTask(), NeedleTask(), MaxTask(), MarkovTask()])
def test_a_seed_fixes_the_data(task):
    first, again, other = drawn(task, 4), drawn(task, 4), drawn(task, 4, seed=1)
    assert (first.inputs == again.inputs).all()
    assert first.inputs.shape[1] == task.length
    same_shape = first.inputs.shape == other.inputs.shape
    assert not (same_shape and (first.inputs == other.inputs).all())
    assert first.targets.max() < task.classes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecallTask(pairs=17), "pairs must be at most 16"),
        (lambda: RecallTask(pairs=()), "pairs must be"),
        (lambda: RecallTask(pairs=0), "pairs must be"),
        (lambda: RecallTask(vocabulary=7), "vocabulary must be even, got 7"),
        (lambda: RecallTask(length=9), "length must be even, got 9"),
        (lambda: RecallTask(power=0.0), "power must be"),
        (lambda: RecallTask(filler="noise"), "filler must be one of zero, unused, got noise"),
        (lambda: NeedleTask(length=3), "length must be"),
        (lambda: MaxTask(kinds=1), "kinds must be"),
        (lambda: MarkovTask(probabilities=(0.5, 0.6)), "probabilities must be positive numbers"),
        (lambda: MarkovTask(probabilities=()), "probabilities must be positive numbers"),
        (lambda: MarkovTask(vocabulary=2), "vocabulary must be"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
