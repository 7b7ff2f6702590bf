import math

import numpy as np
import pytest

from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.mixers import MIXERS
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import MaxTask, RecallTask

TASKS = {"recall": RecallTask(vocabulary=16, length=12, pairs=2), "max": MaxTask(5, 3)}


def normal(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)


def silu(x):
    return x / (1.0 + np.exp(-x))


def softmax_answers(p, vectors, positions, table):
    """Return the logits of one sequence with softmax attention, token by token in NumPy."""
    width = vectors.shape[1]
    kernel = p["convolution"].reshape(3, width, width)
    normed = normal(vectors) * p["before_convolution"]
    x = vectors.copy()
    for t in range(len(x)):
        for back in range(min(3, t + 1)):
            x[t] += normed[t - back] @ kernel[back]
    h = normal(x) * p["before_mixer"]
    logits = []
    for t in positions:
        scores = np.array([h[t] @ p["query"] @ (h[j] @ p["key"]) for j in range(t + 1)])
        weights = np.exp(scores / math.sqrt(width))
        read = (weights / weights.sum()) @ (h[: t + 1] @ p["value"])
        read = normal(read) * p["after_mixer"] * silu(h[t] @ p["gate"])
        logits.append(normal(x[t] + read @ p["output"]) * p["last"] @ table.T)
    return np.array(logits)


@pytest.mark.extra
@pytest.mark.parametrize("name", TASKS)
def test_answers_are_those_of_a_loop_over_tokens(name):
    import torch

    task = TASKS[name]
    model = Model.of(task, width=6)
    vector = model.start(3) + 0.1 * np.random.default_rng(0).standard_normal(model.parameters)
    batch = task.draw(np.random.default_rng(1), 3)
    inputs, positions = torch.from_numpy(batch.inputs), torch.from_numpy(batch.positions)
    given = model.answers(torch.from_numpy(vector), inputs, positions).numpy()
    p = {key: one.numpy() for key, one in model.named(torch.from_numpy(vector)).items()}
    table = p["embedding"] if task.tokens else p["answers"]
    for row in range(3):
        own = batch.inputs[row]
        vectors = p["embedding"][own] if task.tokens else own @ p["embedding"]
        expected = softmax_answers(p, vectors, batch.positions[row], table)
        assert given[row] == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.extra
def test_scores_are_those_behind_the_answers():
    import torch

    task = TASKS["recall"]
    model = Model.of(task, width=6)
    batch = task.draw(np.random.default_rng(1), 3)
    vector = torch.from_numpy(model.start(0))
    inputs, positions = torch.from_numpy(batch.inputs), torch.from_numpy(batch.positions)
    scores = model.scores(vector, inputs, positions).numpy()
    later = np.arange(task.length) > batch.positions[..., None]
    assert (np.isnan(scores) == later).all()
    with pytest.raises(ValueError, match=r"^mixer must be an attention, .* got tnl$"):
        Model.of(task, "tnl", 6).scores(vector, inputs, positions)


@pytest.mark.extra
def test_a_model_that_is_not_gated_adds_what_it_reads():
    import torch

    task = TASKS["recall"]
    gated = Model.of(task, width=6)
    plain = Model("softmax", 6, task.features, task.classes, gated=False)
    batch = task.draw(np.random.default_rng(1), 3)
    inputs, positions = torch.from_numpy(batch.inputs), torch.from_numpy(batch.positions)
    vector = torch.from_numpy(gated.start(0))
    answers = [one.answers(vector, inputs, positions) for one in (gated, plain)]
    assert not torch.allclose(*answers)
    without_gate = gated.named(vector.clone())
    without_gate["gate"].zero_()  # SiLU(0) = 0: nothing that is read arrives
    without_gate["output"].normal_(generator=torch.Generator().manual_seed(0))
    flat = torch.cat([one.flatten() for one in without_gate.values()])
    silent = gated.answers(flat, inputs, positions)
    without_gate["output"].zero_()
    flat = torch.cat([one.flatten() for one in without_gate.values()])
    assert torch.allclose(silent, plain.answers(flat, inputs, positions))


@pytest.mark.parametrize("mixer", sorted({*MIXERS, *MAPS}))
def test_mixers_differ_by_few_parameters(mixer):
    task = RecallTask()
    base, model = Model.of(task), Model.of(task, mixer)
    assert 0 <= model.parameters - base.parameters <= model.width
    start = model.start(0)
    assert start.shape == (model.parameters,)
    assert np.isfinite(start).all()
    # what they share starts alike
    assert (start[: base.parameters] == base.start(0)).all()
    assert (start != model.start(1)).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mixer": "rwkv"}, "mixer must be one of"),
        ({"width": 1}, "width must be"),
        ({"slope": "steep"}, "slope must be one of lightning, fla, got steep"),
    ],
)
def test_bad_input_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        Model(**given)
