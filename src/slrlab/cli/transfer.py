"""The command `transfer`: vectors fitted at one length and used at another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import print_json, print_table, progress
from slrlab.cli.options import (
    ANY_ALPHA,
    BEST_RIDGE,
    NOISE,
    RISK_ERROR,
    SEED,
    SIGNAL,
    TASK,
    flag,
    lengths,
    option,
)
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.transfer import RULES, length_transfer
from slrlab.model.activations import Activation
from slrlab.model.task_registry import make_task

if TYPE_CHECKING:
    import pandas as pd

_RULE = (
    "Factor of the scores: constant (1), sqrt-log (√(log use/log fit)), log (log use/log fit, as "
    "in SSMax) or best (least risk at the length of use); repeatable."
)
_ATLAS = "All activations of the atlas on spiked-SLR with infinite data, by all rules."


@command(length_transfer, make_task)
def transfer(
    *,
    task: Annotated[str, TASK] = "spiked",
    signal: Annotated[float, SIGNAL] = 9.0,
    noise: Annotated[float, NOISE],
    activation: Activation,
    fit: Annotated[Any, option("Lengths of the fit.", lengths, "L,L,…")] = "10",
    use: Annotated[Any, option("Lengths of use.", lengths, "L,L,…")] = "2,10,100,1000",
    rule: Annotated[list[str], option(_RULE, None, "NAME")] = [RULES[0]],  # noqa: B006
    alpha: Annotated[float, ANY_ALPHA],
    ridge_k: Annotated[float | None, BEST_RIDGE],
    ridge_v: Annotated[float | None, BEST_RIDGE],
    refit: Annotated[bool, flag("--refit/--no-refit", "Also fit at the lengths of use.")],
    tolerance: Annotated[float, RISK_ERROR],
    seed: Annotated[int, SEED],
    atlas: Annotated[bool, flag("--atlas", _ATLAS)] = False,
    output: TableOutput,
) -> bool:
    """Risk of keys and values fitted at one length and used at another.

    The loss is the part of the attainable gain that is missed: 0 is the Bayes risk, 1 the
    prediction 0. "refitted" is the risk of vectors fitted at the length of use.

    Example: slrlab transfer --activation ssmax --fit 2,10,100 --use 2,10,100,1000

    Example: slrlab transfer --alpha 8 --rule constant --rule log --rule best --no-refit

    Example: slrlab transfer --atlas --use 2,100,1000 --csv transfer.csv
    """
    if atlas:
        return _atlas(task, signal, noise, alpha, (fit, use), output)
    with progress() as report:
        result = length_transfer(
            make_task(task, signal=signal, length=2, noise=noise),
            activation,
            fit=fit,
            use=use,
            rule=rule,
            alpha=alpha,
            ridge_k=ridge_k,
            ridge_v=ridge_v,
            refit=refit,
            tolerance=tolerance,
            seed=seed,
            report=report,
        )
    return output.table(result)


def _atlas(
    task: str,
    signal: float,
    noise: float,
    alpha: float,
    lengths: tuple[list[int], list[int]],
    output: TableOutput,
) -> bool:
    """Print the transfer of all activations from one length, a row for each."""
    from slrlab.experiments.atlas.transfer import atlas_transfer

    fit, use = lengths
    for name, given, accepted, fine in (
        ("task", task, "spiked", task == "spiked"),
        ("noise", noise, "0", noise == 0.0),
        ("alpha", alpha, "inf", math.isinf(alpha)),
        ("fit", ",".join(map(str, fit)), "one length", len(fit) == 1),
    ):
        if not fine:
            raise ValueError(f"{name} must be {accepted} with --atlas, got {given}")
    if output.plot is not None:
        raise ValueError(f"plot must not be given with --atlas, got {output.plot}")
    with progress("transfer of the atlas") as report:
        frame = atlas_transfer(signal=signal, fit=fit[0], use=use, report=report)
    if output.csv is not None:
        frame.to_csv(output.csv, index=False)
    if output.as_json:
        print_json({"rows": frame.to_dict("records")})
    else:
        print_table(f"Loss at signal {signal:g}, fitted at length {fit[0]}", *_summary(frame))
    return True


def _summary(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: losses at each length without a factor, and with the best one."""
    shown = frame[frame["rule"].isin(["constant", "best"])]
    grid = shown.pivot(index="activation", columns=["use", "rule"], values="loss")
    grid = grid.sort_index(axis=1).loc[list(frame["activation"].unique())]
    rows = [
        [str(name), *(f"{loss:.3g}" for loss in line)]
        for name, line in zip(grid.index, grid.to_numpy(), strict=True)
    ]
    names = [", ".join(map(str, column)) for column in grid.columns]
    return ["activation", *names], rows
