import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from slrlab import CheckpointWarning
from slrlab.retrieval import training
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import MarkovTask, MaxTask, NeedleTask, RecallTask
from slrlab.retrieval.training import Training, evaluate, head_scores, head_weights, train

TASK = RecallTask(vocabulary=16, length=16, pairs=(1, 2))
MODEL = Model.of(TASK, width=8)
SHORT = Training(learning_rate=3e-2, steps=40, batch=16, warm_up=5, check_every=10)


def test_the_rate_rises_and_falls_to_zero():
    settings = Training(learning_rate=0.5, steps=300, warm_up=100)
    rates = [settings.rate(step) for step in (1, 50, 100, 200, 300)]
    assert rates == pytest.approx([0.005, 0.25, 0.5, 0.25, 0.0])


@pytest.mark.parametrize("name", ["learning_rate", "clip", "steps", "batch", "check_every"])
def test_bad_settings_are_named(name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Training(**{name: 0})


@pytest.mark.extra
@pytest.mark.parametrize("mixer", ["softmax", "tnl", "hgrn2", "sigmoid"])
def test_training_lowers_the_loss_below_that_of_guessing(mixer):
    trained = train(Model.of(TASK, mixer, 8), TASK, settings=replace(SHORT, steps=120))
    assert trained.status == "sampled"
    assert trained.loss < math.log(8)  # a value at random
    assert trained.accuracy > 1.0 / 8.0
    assert len(trained.checks) == trained.steps // 10


@pytest.mark.extra
def test_softmax_learns_to_recall_and_stops_early():
    task = RecallTask(vocabulary=32, length=16, pairs=(1, 2, 4))
    check = RecallTask(vocabulary=32, length=16, pairs=4)
    model = Model.of(task, width=16)
    settings = Training(learning_rate=2e-2, steps=1500, batch=32, stop=0.99)
    trained = train(model, task, check, settings=settings)
    assert trained.accuracy >= 0.99
    assert trained.steps < 1500
    assert trained.steps_to_99 == trained.steps
    loss, accuracy = evaluate(model, trained.vector, check)
    assert accuracy > 0.97
    assert loss < 0.3
    scores, locations = head_scores(model, trained.vector, check, sequences=200)
    hits = np.nanargmax(scores, axis=1) == locations
    assert hits.mean() > 0.9


@pytest.mark.extra
def test_adam_is_that_of_pytorch():
    import torch

    trained = train(MODEL, TASK, seed=4, settings=SHORT)
    vector = torch.from_numpy(MODEL.start(4)).requires_grad_(True)
    adam = torch.optim.Adam([vector], betas=(0.9, 0.99), eps=1e-8)
    for step in range(1, 41):
        batch = TASK.draw(np.random.default_rng([4, 1, step]), 16)
        logits = MODEL.answers(
            vector, torch.from_numpy(batch.inputs), torch.from_numpy(batch.positions)
        )
        targets = torch.from_numpy(batch.targets).flatten()
        adam.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets).backward()
        torch.nn.utils.clip_grad_norm_([vector], 1.0)
        adam.param_groups[0]["lr"] = SHORT.rate(step)
        adam.step()
    # rounding grows over the steps; an error in a formula would be of the size of the change
    apart = np.abs(vector.detach().numpy() - trained.vector).max()
    assert apart < 0.01 * np.abs(trained.vector - MODEL.start(4)).max()


KILLED = """
import os, pathlib, signal, sys
from slrlab.retrieval import training
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import RecallTask

task, advance = RecallTask(vocabulary=16, length=16, pairs=(1, 2)), training._advance
settings = training.Training(learning_rate=3e-2, steps=40, batch=16, warm_up=5, check_every=10)

def dies(torch, model, task, seed, settings, state):
    if state.step == 25:
        os.kill(os.getpid(), signal.SIGKILL)
    advance(torch, model, task, seed, settings, state)

training._advance = dies
model = Model.of(task, width=8)
training.train(model, task, seed=1, settings=settings, checkpoint=pathlib.Path(sys.argv[1]))
"""


@pytest.mark.extra
def test_a_killed_process_goes_on_and_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    file = tmp_path / "runs" / "run.npz"
    whole = train(MODEL, TASK, seed=1, settings=SHORT)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert list(file.parent.iterdir()) == [file]
    advance, taken = training._advance, []

    def counts(torch, model, task, seed, settings, state):
        taken.append(state.step)
        advance(torch, model, task, seed, settings, state)

    monkeypatch.setattr(training, "_advance", counts)
    resumed = train(MODEL, TASK, seed=1, settings=SHORT, checkpoint=file)
    # 25 steps were taken, 5 of them again: less than one interval between checks is lost
    assert taken == [*range(20, 40)]
    assert resumed.checks == pytest.approx(whole.checks)
    assert resumed.vector == pytest.approx(whole.vector, rel=1e-4, abs=1e-4)
    assert list(file.parent.iterdir()) == []


def interrupted(file, monkeypatch):
    """Leave a checkpoint of a run."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path, **options: None)
        return train(MODEL, TASK, seed=1, settings=SHORT, checkpoint=file)


@pytest.mark.extra
def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    interrupted(file, monkeypatch)
    with pytest.raises(ValueError, match=r"^checkpoint must be a file of this run, got .*run\.npz"):
        train(MODEL, TASK, seed=2, settings=SHORT, checkpoint=file)
    assert file.exists()


@pytest.mark.extra
@pytest.mark.parametrize("share", [None, 0.0, 0.02, 0.5, 0.99])
def test_a_damaged_checkpoint_is_a_warning_and_a_new_start(tmp_path, monkeypatch, share):
    file = tmp_path / "run.npz"
    whole = interrupted(file, monkeypatch)
    content = file.read_bytes()
    file.write_bytes(b"no arrays" if share is None else content[: int(share * len(content))])
    with pytest.warns(CheckpointWarning, match=r"run\.npz is damaged \(.*: training starts again$"):
        again = train(MODEL, TASK, seed=1, settings=SHORT, checkpoint=file)
    assert again.checks == pytest.approx(whole.checks)
    assert not file.exists()


@pytest.mark.extra
def test_a_checkpoint_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    said = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (said.append("fsync"), fsync(number)))
    monkeypatch.setattr(
        Path, "replace", lambda path, other: (said.append("replace"), replace(path, other))[1]
    )
    train(MODEL, TASK, seed=1, settings=SHORT, checkpoint=tmp_path / "run.npz")
    assert said == ["fsync", "replace"] * (len(said) // 2)
    assert said


@pytest.mark.extra
def test_a_loss_that_is_no_number_ends_the_run(monkeypatch):
    monkeypatch.setattr(
        Model, "start", lambda self, seed: np.full(self.parameters, np.nan, dtype=np.float32)
    )
    trained = train(MODEL, TASK, settings=SHORT)
    assert trained.status == "diverged"
    assert trained.steps == 10
    assert math.isnan(trained.steps_to_99)


@pytest.mark.extra
def test_a_test_in_parts_is_that_in_one(monkeypatch):
    task = NeedleTask(vocabulary=16, length=40)
    vector = MODEL.start(0)
    whole = evaluate(MODEL, vector, task, sequences=50)
    monkeypatch.setattr(training, "_ENTRIES", 2**13)
    assert evaluate(MODEL, vector, task, sequences=50) == pytest.approx(whole, rel=1e-5)


@pytest.mark.extra
def test_scores_need_a_location():
    task = MarkovTask(vocabulary=16, length=16)
    with pytest.raises(ValueError, match=r"^task must be one whose answers stand at a location"):
        head_scores(MODEL, MODEL.start(0), task)


@pytest.mark.extra
def test_weights_of_softmax_are_those_of_its_scores():
    task = NeedleTask(vocabulary=16, length=40)
    scores, locations = head_scores(MODEL, MODEL.start(0), task, sequences=20)
    weights, same = head_weights(MODEL, MODEL.start(0), task, sequences=20)
    np.testing.assert_array_equal(locations, same)
    np.testing.assert_allclose(weights, special.softmax(scores, axis=1), rtol=1e-5)


@pytest.mark.extra
def test_items_that_are_vectors_are_learned_too():
    task = MaxTask(items=4, kinds=3)
    trained = train(Model.of(task, width=8), task, settings=replace(SHORT, steps=150))
    assert trained.accuracy > 0.5
