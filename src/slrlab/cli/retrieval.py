"""The command `retrieval`: small models trained on tasks of retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slrlab import _checks
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_table, progress
from slrlab.cli.options import OUT, RESULTS, option

if TYPE_CHECKING:
    import pandas as pd

_PROFILE = (
    "quick (one seed, about 4 minutes on two idle cores), full (up to five seeds, learning rates "
    "searched, about 90) or toy."
)


_TEXT = "Plain text whose next bytes models also learn; music21: the text of that package."


@command()
def retrieval(
    *,
    profile: Annotated[str, option(_PROFILE, metavar="NAME")] = "quick",
    out: Annotated[Path, OUT] = RESULTS,
    text: Annotated[str | None, option(_TEXT, metavar="FILE")] = None,
    output: Output,
) -> None:
    """Train small models that differ in how they mix tokens, and test what they retrieve.

    Writes a table of all tests, one of diagnosed heads, and the figures retrieval and prediction.
    Finished runs are kept in the folder: after an interruption a second start goes on from the last
    checkpoint. It needs the extra retrieval.

    Example: slrlab retrieval --profile quick --out results

    Example: slrlab retrieval --profile quick --text novel.txt
    """
    from slrlab.experiments.retrieval.prediction import prediction_table
    from slrlab.experiments.retrieval.study import retrieval_study
    from slrlab.figures import draw_figure, write_figure_table

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:  # before any work
        _checks.fail("out", f"a folder that can be made ({problem.strerror})", str(out))
    with progress("retrieval") as report:
        study = retrieval_study(profile, out, report, text=text)
    paths = []
    tables = {"retrieval": study.tests, "retrieval-heads": study.heads}
    if len(study.pilots):
        tables["retrieval-pilots"] = study.pilots
    for name, frame in tables.items():
        paths.append(out / f"{name}.csv")
        frame.to_csv(paths[-1], index=False, float_format="%.9g")
    drawn = {
        "retrieval": study.tests,
        "prediction": prediction_table(study.tests, study.heads),
    }
    for name, frame in drawn.items():
        paths += draw_figure(name, out, write_figure_table(name, out, frame, profile))
    if not output.as_json:
        print_table("Means over seeds, width 16", *_summary(study.tests))
    output.files(paths, profile=profile)


def _summary(tests: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: what each mixer reaches at the default width."""
    from slrlab.experiments.retrieval.runs import PAIRS, WIDTH

    own = tests[tests["width"] == WIDTH]
    names = ["mixer", "recall, 16 pairs (seeds that learn)", "Markov loss (nats)"]
    names += ["largest of 16", "largest of 4096"]
    columns = [
        ("recall", max(PAIRS), "accuracy"),
        ("markov", 64, "loss"),
        ("max", 16, "accuracy"),
        ("max", 4096, "accuracy"),
    ]
    if (own["test"] == "text").any():
        names.append("text loss (nats)")
        columns.append(("text", 64, "loss"))
    rows = []
    for name in own["mixer"].unique():
        line = [str(name)]
        for test, size, value in columns:
            chosen = (own["mixer"] == name) & (own["test"] == test) & (own["size"] == size)
            part = own[chosen]
            text = f"{part[value].mean():.3f} ({int((~part['failed']).sum())} of {len(part)})"
            line.append(text if len(part) else "")
        rows.append(line)
    return names, rows
