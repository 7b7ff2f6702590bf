"""The training runs of the study of retrieval: which they are, and their results in the store.

The key of a run depends on its settings, not on the source of the package: raise `VERSION`
when a change of model, tasks or training makes old runs wrong. Runs that fail to learn are
results like others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from slrlab._result import Status
from slrlab._types import Report
from slrlab.experiments.running.encoding import storable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.mixers import MIXERS
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import MarkovTask, MaxTask, RecallTask, RetrievalTask
from slrlab.retrieval.text import TextTask
from slrlab.retrieval.training import TrainedModel, Training, train

VERSION = 1
WIDTH, PAIRS = 16, (4, 8, 16)
PILOT_SEED = 1000
"""Seed of the runs that choose a learning rate; no other run has it."""

_TEXT = "text:"

storable(TrainedModel)


@dataclass(frozen=True)
class Run:
    """One training run; ``task`` is ``recall``, ``markov``, ``max`` or ``text:FILE``."""

    task: str
    mixer: str
    width: int
    seed: int
    steps: int
    learning_rate: float

    @property
    def key(self) -> str:
        """Key of its result in the store."""
        known = f"retrieval {VERSION} {asdict(self)!r}"
        task = task_of(self.task)
        if isinstance(task, TextTask):  # by what the file holds
            known += task.digest
        return hashlib.sha256(known.encode()).hexdigest()

    @property
    def model(self) -> Model:
        """The model that is trained."""
        return Model.of(task_of(self.task), self.mixer, self.width)


@dataclass(frozen=True)
class Profile:
    """Sizes of a study.

    ``seeds`` are those of recall at the default width; ``map_seeds`` those of the maps of the atlas
    and of the Markov source there; ``other_seeds`` those of all else. ``rates`` are the learning
    rates that pilot runs of ``pilot`` times the steps choose from, ``markov_rates`` those of the
    Markov source; ``sequences`` those of a test.
    """

    seeds: int
    map_seeds: int
    other_seeds: int
    widths: tuple[int, ...]
    steps: int
    markov_steps: int
    mixers: tuple[str, ...] = MIXERS
    maps: tuple[str, ...] = tuple(MAPS)
    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)
    markov_rates: tuple[float, ...] = (3e-2, 1e-1, 3e-1, 1.0, 3.0)
    pilot: float = 0.5
    sequences: int = 512


PROFILES = {
    "toy": Profile(
        *(2, 1, 1, (8, 16), 20, 10, ("softmax", "tnl"), ("softmax", "linear")),
        rates=(1e-2, 3e-2),
        markov_rates=(3e-2,),
        sequences=32,
    ),
    "quick": Profile(
        *(1, 1, 1, (8, 16, 24, 32), 400, 200),
        rates=(1e-2,),
        markov_rates=(3e-1,),
        sequences=256,
    ),
    "full": Profile(5, 3, 2, (8, 16, 24, 32), 1000, 300),
}


def task_of(name: str, split: str = "train") -> RetrievalTask:
    """Return the task that a model is trained on, or the held-out part of a text."""
    if name.startswith(_TEXT):
        return TextTask(Path(name.removeprefix(_TEXT)), split=split)
    tasks: dict[str, RetrievalTask] = {
        "recall": RecallTask(pairs=PAIRS),
        "markov": MarkovTask(),
        "max": MaxTask(),
    }
    return tasks[name]


def check_of(name: str) -> RetrievalTask:
    """Return the task that it is checked on: the most pairs."""
    return RecallTask(pairs=max(PAIRS)) if name == "recall" else task_of(name, "validation")


def is_linguistic(name: str) -> bool:
    """Return whether every token asks for the next one: no accuracy is 1 there.

    >>> is_linguistic("markov"), is_linguistic("recall")
    (True, False)
    """
    return name == "markov" or name.startswith(_TEXT)


def train_run(run: Run, folder: Path | None = None) -> TrainedModel:
    """Train; the checkpoint is in the folder while it runs."""
    settings = Training(learning_rate=run.learning_rate, steps=run.steps)
    if is_linguistic(run.task):
        settings = replace(settings, stop=2.0)
    file = None if folder is None else folder / f"{run.key[:16]}.npz"
    task, check = task_of(run.task), check_of(run.task)
    return train(run.model, task, check, seed=run.seed, settings=settings, checkpoint=file)


def run_all(
    runs: Sequence[Run], label: str, folder: Path | None = None, report: Report | None = None
) -> dict[Run, TrainedModel]:
    """Train all that the store does not hold, in their order."""
    wanted = list(dict.fromkeys(runs))
    known = {run: run.key for run in wanted}
    trained = parallel_map(
        partial(train_run, folder=folder), wanted, label=label, report=report, key=known.__getitem__
    )
    return dict(zip(wanted, trained, strict=True))


def study(
    profile: Profile,
    folder: Path | None = None,
    report: Report | None = None,
    text: Path | None = None,
) -> dict[Run, TrainedModel]:
    """Return all runs of a profile, with the learning rates that pilot runs choose.

    With a text the mixers are also trained on it, at the default width.

    Learning rates are chosen at the default width for each task and mixer, by the least loss of a
    pilot run of a seed of its own. The most wanted runs come first.
    """
    mixers, maps = profile.mixers, profile.maps
    others = [width for width in profile.widths if width != WIDTH]
    more = [name for name in maps if name not in mixers]
    done: dict[Run, TrainedModel] = {}

    def add(label: str, task: str, names: Sequence[str], widths: Sequence[int], seeds: int) -> None:
        best = _best_rates(
            profile, task, names, done, partial(run_all, folder=folder, report=report)
        )
        steps = profile.markov_steps if is_linguistic(task) else profile.steps
        runs = [
            Run(task, name, width, seed, steps, best[name])
            for seed, width, name in product(range(seeds), widths, names)
        ]
        done.update(run_all(runs, label, folder, report))

    add("recall", "recall", mixers, [WIDTH], profile.seeds)
    add("Markov source", "markov", mixers, [WIDTH], profile.map_seeds)
    add("recall, maps of the atlas", "recall", more, [WIDTH], profile.map_seeds)
    add("Markov source, maps of the atlas", "markov", more, [WIDTH], profile.map_seeds)
    add("recall, other widths", "recall", mixers, others, profile.other_seeds)
    add("Markov source, other widths", "markov", mixers, others, profile.other_seeds)
    add("recall, maps, other widths", "recall", more, others, profile.other_seeds)
    add("Markov source, maps, other widths", "markov", more, others, profile.other_seeds)
    add("maximum", "max", mixers, [WIDTH], profile.other_seeds)
    add("maximum, maps of the atlas", "max", more, [WIDTH], profile.other_seeds)
    if text is not None:
        add("text", f"{_TEXT}{text}", mixers, [WIDTH], profile.other_seeds)
    return done


def _best_rates(
    profile: Profile,
    task: str,
    names: Sequence[str],
    done: dict[Run, TrainedModel],
    run: Callable[[Sequence[Run], str], dict[Run, TrainedModel]],
) -> dict[str, float]:
    """Return the learning rate of least loss of each mixer, from pilot runs."""
    rates = profile.markov_rates if task == "markov" else profile.rates
    if len(rates) == 1:
        return dict.fromkeys(names, rates[0])
    steps = profile.markov_steps if is_linguistic(task) else profile.steps
    pilots = [
        Run(task, name, WIDTH, PILOT_SEED, round(profile.pilot * steps), rate)
        for name, rate in product(names, rates)
    ]
    missing = [pilot for pilot in pilots if pilot not in done]
    done.update(run(missing, f"learning rates, {task}"))
    chosen = best_pilots({pilot: done[pilot] for pilot in pilots})
    return {one.mixer: one.learning_rate for one in chosen}


def best_pilots(pilots: dict[Run, TrainedModel]) -> set[Run]:
    """Return the pilot run of least loss of each task and mixer."""
    best: dict[tuple[str, str], Run] = {}
    for run, trained in pilots.items():
        known = best.setdefault((run.task, run.mixer), run)
        if _loss(trained) < _loss(pilots[known]):
            best[run.task, run.mixer] = run
    return set(best.values())


def pilot_rows(pilots: dict[Run, TrainedModel]) -> dict[Run, dict[str, Any]]:
    """Return what a table says of each pilot run."""
    chosen = best_pilots(pilots)
    return {
        run: {
            "task": run.task.partition(":")[0],
            "mixer": run.mixer,
            "learning_rate": run.learning_rate,
            "steps": trained.steps,
            "loss": trained.loss,
            "accuracy": trained.accuracy,
            "status": str(trained.status),
            "chosen": run in chosen,
        }
        for run, trained in pilots.items()
    }


def _loss(trained: TrainedModel) -> float:
    return trained.loss if trained.status is not Status.DIVERGED else float("inf")
