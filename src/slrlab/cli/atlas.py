"""The command `atlas`: all activations, ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab._errors import ComputationError
from slrlab._types import DataFrame
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_lines, print_table, progress
from slrlab.cli.options import OUT, RESULTS, flag, option
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.tasks import SpikedSLR

_ADD = (
    "Rank this expression in x, such as 'normalised: exp(x) + x**2', among the rest and say what "
    "it lacks; repeatable. The others are not computed again."
)
_POPULATION = "Only the risks with infinite data on the panel: skip all that is listed above."
_COMPLETE = "With --add: compute and write everything, for all activations, not only the rank."


@command()
def atlas(
    *,
    add: Annotated[list[str] | None, option(_ADD, str, "EXPR")] = None,
    population: Annotated[bool, flag("--population", _POPULATION)] = False,
    complete: Annotated[bool, flag("--complete", _COMPLETE)] = False,
    out: Annotated[Path, OUT] = RESULTS,
    output: Output,
) -> None:
    """Rank every published activation by its risk with infinite data on a panel of settings.

    Writes the table of all risks, the ranking (CSV, Markdown, HTML), pictures, and a page for each
    activation. For a few settings it adds the parts of the excess, what the weights do, how vectors
    fare at another length, and for a small one test risks after training on finite data,
    stability, mismatched minima and training times. What is finished is kept in the folder: after
    an interruption, or with another expression, a second start computes only what is missing. With
    --add alone nothing but the rank of the expression is computed, in seconds.

    Example: slrlab atlas --add "normalised: exp(x) + x**2" --out results
    """
    added = list(add or [])
    for text in added:  # refused before any work, imports among it
        try:
            make_activation(text)
        except ValueError as error:
            raise ValueError(str(error).replace("activation", "add", 1)) from None
    if complete and not added:
        raise ValueError("complete must not be given without --add, got --complete")
    out.mkdir(parents=True, exist_ok=True)  # an impossible folder is refused before any work
    if added and not (complete or population):
        _rank_added(added, out, output)
        return
    from slrlab.experiments.atlas import panel as experiment
    from slrlab.experiments.atlas.properties import properties
    from slrlab.experiments.atlas.training import atlas_training
    from slrlab.experiments.atlas.training_table import training_texts
    from slrlab.experiments.atlas.transfer import atlas_transfer
    from slrlab.experiments.atlas.weights import atlas_weights
    from slrlab.experiments.running.parallel import remember, shared_workers

    kinds, training, more = list(dict.fromkeys([*ACTIVATIONS, *added])), None, {}
    with (
        remember(out / "finished-atlas.sqlite"),
        shared_workers(),
        progress("atlas") as report,
    ):
        frame = experiment.atlas(kinds, report=report)
        if not population:
            more["parts of the excess"] = properties(
                [SpikedSLR(9.0, 10), SpikedSLR(9.0, experiment.RANDOM)],
                kinds,
                samples=16384,
                workers=None,
                report=report,
            )
            more["weights"] = atlas_weights(kinds, report=report)
            more["length transfer"] = atlas_transfer(kinds, report=report)
            training = atlas_training(kinds, report=report)
    from slrlab.figures.atlas import write_atlas

    table = experiment.ranking(frame)
    paths = write_atlas(frame, out, more, training)
    if not output.as_json:
        _print_ranking(table)
        if training is not None:
            columns, cells = training_texts(training)
            lines = [[name, *cells[name][:-1]] for name in table["activation"]]
            where = experiment.setting_labels(training).iloc[0]
            print_table(f"After training, {where}", ["activation", *columns[:-1]], lines)
        print_lines(_answers(table, added))
    records = {} if training is None else {"training": training.to_dict("records")}
    output.files(paths, ranking=table.to_dict("records"), **records)


def _rank_added(added: list[str], out: Path, output: Output) -> None:
    """Rank expressions among the activations whose risks the package ships."""
    from slrlab.experiments.atlas.panel import ranked_among_stored

    with progress("atlas") as report:
        frame, table = ranked_among_stored(added, report=report)
        answers = _answers(table, added)
    if not output.as_json:
        _print_ranking(table)
        print_lines(answers)
    paths = [out / "atlas.csv", out / "atlas-ranking.csv"]
    for path, content in zip(paths, (frame, table), strict=True):
        content.to_csv(path, index=False)
    output.files(paths, ranking=table.to_dict("records"), answers=answers)


def _print_ranking(table: DataFrame) -> None:
    from slrlab.experiments.atlas.panel import COLUMNS, texts

    rows = [line[:-1] for line in texts(table)]  # sources are too long for a screen
    print_table("Activations by their mean loss over the panel", COLUMNS[:-1], rows)


def _answers(table: DataFrame, added: list[str]) -> list[str]:
    """Return the rank of each expression, its verdict and what it lacks."""
    from slrlab.experiments.atlas.panel import verdict
    from slrlab.experiments.atlas.properties import lacks

    def lacking(name: str) -> str:
        try:
            return lacks(name)
        except ComputationError as error:
            return f"What it lacks is not known: {error}."

    own = table[table["activation"].isin(added)]
    return [
        f"{row['activation']}: rank {row['rank']} of {len(table)}. {verdict(row)} "
        f"{lacking(row['activation'])}"
        for _, row in own.iterrows()
    ]
