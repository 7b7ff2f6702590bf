"""The study of retrieval in trained models: every run, its tests, and the heads of attention.

A model that was trained on recall is tested with fewer pairs and as a search for one needle in
longer sequences; one that was trained on the largest of 16 items with up to 4096 items. Heads are
diagnosed at one length and measured at four times that length. Which runs there are is in
`slrlab.experiments.retrieval.runs`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._types import Report
from slrlab.experiments.retrieval.heads import HEADS_VERSION, diagnose_head, has_head
from slrlab.experiments.retrieval.runs import (
    PAIRS,
    PILOT_SEED,
    PROFILES,
    Run,
    check_of,
    pilot_rows,
    study,
)
from slrlab.experiments.running.parallel import parallel_map, remember
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.tasks import MaxTask, NeedleTask, RecallTask, RetrievalTask
from slrlab.retrieval.text import find_text
from slrlab.retrieval.training import TrainedModel, evaluate, head_weights

if TYPE_CHECKING:
    import pandas as pd

TESTS_VERSION = 3
"""Raise it when a change of the tests makes old results of them wrong."""

NEEDLE_LENGTHS = (64, 256, 1024)
ITEMS = (16, 64, 256, 1024, 4096)
TRAINED_SIZES = {"recall": max(PAIRS), "max": MaxTask().items}
"""Pairs and items, the most that models are trained on."""

_LEAST_TEXT = 10_000  # bytes
_LONG = 256  # length from which fewer test sequences give as many tokens
Row = dict[str, Any]


@dataclass(frozen=True)
class _Trained:
    """A trained model to be tested on a number of sequences."""

    run: Run
    sequences: int
    vector: Any = field(repr=False, compare=False)

    def key(self, what: str) -> str:
        """Return the key of its tests in the store."""
        text = f"{what} {TESTS_VERSION} {self.run.key} {self.sequences}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class RetrievalStudy:
    """Tables of a study.

    Attributes
    ----------
    tests
        A row for each test of each run.
    heads
        A row for each diagnosed head: see `slrlab.experiments.retrieval.heads.diagnose_head`.
    pilots
        A row for each pilot run, with the learning rate that it tried and whether it was
        ``chosen``; none if the profile has one rate.
    """

    tests: pd.DataFrame
    heads: pd.DataFrame
    pilots: pd.DataFrame


def retrieval_study(
    profile: str = "quick",
    out: Path = Path("results"),
    report: Report | None = None,
    *,
    text: str | Path | None = None,
) -> RetrievalStudy:
    """Train all models of a profile and test them.

    Finished runs are kept in ``out``: stopped and called again, it loses at most the steps since
    the last check of the runs under way.

    Parameters
    ----------
    profile
        ``toy`` (for tests), ``quick`` (about 4 minutes on two cores) or ``full`` (about 90).
    out
        Folder of the store and the checkpoints.
    report
        Called with the progress.
    text
        File of plain text, or ``music21``, whose bytes the mixers also learn: see `TextTask`.

    Returns
    -------
    RetrievalStudy
        A row for each test of each run, for each diagnosed head and for each pilot run.

    Raises
    ------
    ValueError
        If the profile is unknown, or the text is missing or too short.
    SlrlabError
        If the extra ``retrieval``, or the package with the text, is not installed.

    Examples
    --------
    >>> from slrlab import retrieval_study
    >>> retrieval_study("large", "runs")
    Traceback (most recent call last):
        ...
    ValueError: profile must be one of toy, quick, full, got large
    """
    import pandas as pd

    chosen = PROFILES[_checks.choice(profile, "profile", PROFILES)]
    import_torch()  # refused before any work
    file = None if text is None else find_text(text)
    if file is not None and (size := file.stat().st_size) < _LEAST_TEXT:
        _checks.fail("text", f"a file of at least {_LEAST_TEXT} bytes", f"{file} with {size}")
    with remember(out / f"retrieval-{profile}.sqlite") as store:
        trained = study(chosen, out / "checkpoints", report, file)
        pilots = {run: one for run, one in trained.items() if run.seed == PILOT_SEED}
        items = [
            _Trained(run, chosen.sequences, one.vector)
            for run, one in trained.items()
            if run not in pilots
        ]
        tests = parallel_map(
            _tests, items, label="tests", report=report, key=lambda one: one.key("tests")
        )
        attending = [one for one in items if has_head(one.run)]
        known = f"head {HEADS_VERSION}"
        heads = parallel_map(
            _head, attending, label="heads", report=report, key=lambda one: one.key(known)
        )
        finished = store.frame().set_index("key")["finished"].str[:10].to_dict()

    def of(run: Run) -> Row:
        """Return what all tables have of a run; the date is that of its training."""
        return {"study": profile, "date": finished[run.key]}

    rows = [
        _about(one.run, trained[one.run])
        | {"failed": failed(one.run, trained[one.run].status, several)}
        | row
        | of(one.run)
        for one, several in zip(items, tests, strict=True)
        for row in several
    ]
    diagnosed = [row | of(one.run) for one, row in zip(attending, heads, strict=True)]
    tried = [row | of(run) for run, row in pilot_rows(pilots).items()]
    return RetrievalStudy(pd.DataFrame(rows), pd.DataFrame(diagnosed), pd.DataFrame(tried))


def _about(run: Run, trained: TrainedModel) -> Row:
    return {
        "task": run.task.partition(":")[0],
        "mixer": run.mixer,
        "width": run.width,
        "parameters": run.model.parameters,
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "steps": trained.steps,
        "steps_to_99": trained.steps_to_99,
        "status": str(trained.status),
    }


def data_of_tests(task: str) -> Iterable[tuple[str, int, RetrievalTask]]:
    """Return the tests of models trained on a task: name, size and data."""
    if task == "recall":
        yield from (("recall", pairs, RecallTask(pairs=pairs)) for pairs in PAIRS)
        yield from (("needle", length, NeedleTask(length=length)) for length in NEEDLE_LENGTHS)
    elif task == "max":
        yield from (("max", items, MaxTask(items=items)) for items in ITEMS)
    else:
        source = check_of(task)
        yield source.name, source.length, source


def _tests(trained: _Trained) -> list[Row]:
    rows = []
    for name, size, task in data_of_tests(trained.run.task):
        sequences = max(1, trained.sequences // (2 if size >= _LONG else 1))
        loss, accuracy = evaluate(trained.run.model, trained.vector, task, sequences=sequences)
        rows.append({"test": name, "size": size, "loss": loss, "accuracy": accuracy})
        if name == "max" and trained.run.model.attends:
            rows[-1] |= _gaze(trained, task, sequences)
    return rows


def _gaze(trained: _Trained, task: RetrievalTask, sequences: int) -> Row:
    """Return the mean share of the weight on the answer, and the entropy of the shares.

    The entropy is 1 where all tokens have one weight. Shares are of absolute weights, so that they
    exist without a normalisation, too; of sequences in which all weights are 0 there are none, and
    ``reading`` is the share of the others.
    """
    from scipy.special import xlogy

    run = trained.run
    weights, locations = head_weights(run.model, trained.vector, task, sequences=sequences)
    sizes = np.abs(weights)
    total = sizes.sum(axis=1)
    read = total > 0.0
    shares, locations = sizes[read] / total[read, None], locations[read]
    if not len(shares):
        return {"weight": math.nan, "entropy": math.nan, "reading": 0.0}
    entropies = -xlogy(shares, shares).sum(axis=1) / math.log(shares.shape[1])
    on_answer = np.take_along_axis(shares, locations[:, None], axis=1)
    columns = {"weight": on_answer, "entropy": entropies, "reading": read}
    return {name: float(values.mean()) for name, values in columns.items()}


def failed(run: Run, status: str, tests: Sequence[Row]) -> bool:
    """Return whether a seed failed to learn what it was trained on.

    Its loss is not a number, or its accuracy at the size of the training is below twice that of a
    guess: one of the values that stand in the sequence, or one of the classes. On the Markov source
    and on a text only the first counts.

    >>> run = Run("recall", "tnl", 16, 0, 1000, 1e-2)
    >>> failed(run, "sampled", [{"test": "recall", "size": 16, "accuracy": 0.11}])
    True
    """
    size = TRAINED_SIZES.get(run.task)
    guess = 1.0 / MaxTask().kinds if run.task == "max" else 1.0 / max(PAIRS)
    own = [row["accuracy"] for row in tests if (row["test"], row["size"]) == (run.task, size)]
    return status == "diverged" or any(not accuracy >= 2.0 * guess for accuracy in own)


def _head(trained: _Trained) -> Row:
    return diagnose_head(trained.run, trained.vector, 2 * trained.sequences)


def rank_correlation(
    first: Sequence[float], second: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return Spearman's rank correlation and the ends of its 95 % interval.

    The interval is a bootstrap over the pairs, with the percentiles as its ends; resamples in which
    one side is constant are left out.

    >>> rank_correlation([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])[0]
    1.0
    """
    from scipy import stats

    one, two = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.shape != two.shape or len(one) < 3:
        _checks.fail("second", f"as long as first, and at least 3, not {len(one)}", len(two))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(one), size=(resamples, len(one)))
    ranks = [stats.rankdata(side[drawn], axis=1) for side in (one, two)]
    centred = [side - side.mean(axis=1, keepdims=True) for side in ranks]
    sizes = [np.sqrt((side**2).sum(axis=1)) for side in centred]
    fine = (sizes[0] > 0.0) & (sizes[1] > 0.0)
    values = (centred[0] * centred[1]).sum(axis=1)[fine] / (sizes[0] * sizes[1])[fine]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(stats.spearmanr(one, two).statistic), float(low), float(high)
