"""The command `marion`: training on the sphere, and what other predictors could reach there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from slrlab._result import as_text
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_table, progress
from slrlab.cli.options import (
    ACTIVATION,
    CSV,
    LENGTH,
    NOISE,
    NOT_NEGATIVE,
    POSITIVE,
    SEED,
    option,
    whole,
)
from slrlab.experiments.descent.sphere import sphere_training
from slrlab.model.marion import MarionSLR
from slrlab.theory.landscape.sphere import STARTS
from slrlab.theory.population.bayes_risk import bayes_risk

_SIGNAL = "Signal strength ν ≥ 0; default D/2, as in the paper."
_STD = "Standard deviation γ of the relevant token."
_RATE = "Also descend on fresh sequences: a step takes this time. Default: flows only."
_START = f"Starts: {' or '.join(STARTS)} (on the manifold M)."


@command(MarionSLR, sphere_training)
def marion(
    *,
    dim: Annotated[int, option("Dimensions D ≥ 4.", whole(4), "D")] = 400,
    signal: Annotated[float | None, option(_SIGNAL, NOT_NEGATIVE, "ν")] = None,
    length: Annotated[Any, LENGTH] = 10,
    noise: Annotated[float, NOISE],
    relevant_std: Annotated[float, option(_STD, POSITIVE, "γ")],
    activation: Annotated[str, ACTIVATION],
    scale: Annotated[float, option("Length λ of the keys at the start.", POSITIVE, "λ")] = 0.1,
    decay: Annotated[
        float, option("The length of the keys is λ/(1 + decay·t).", NOT_NEGATIVE, "c")
    ],
    start: Annotated[str, option(_START, metavar="|".join(STARTS))],
    time: Annotated[float, option("End of training.", POSITIVE, "t")],
    rate: Annotated[float | None, option(_RATE, POSITIVE, "η")],
    batch: Annotated[int, option("Sequences in a step of the descent.", whole(1), "n")],
    seeds: Annotated[int, option("Number of starts.", whole(1), "n")],
    seed: Annotated[int, SEED],
    csv: Annotated[Path | None, CSV] = None,
    output: Output,
) -> bool:
    """Training with keys and values on the sphere, the setting of Marion et al. (2024).

    The relevant token has its own variance; attention is erf(χ) unless another is given. Prints
    where training ends, and the least risk of predictors that see more or less of the tokens.

    Example: slrlab marion --scale 1 --decay 0.025 --time 480 --seeds 3

    Example: slrlab marion --dim 80 --scale 0.3 --rate 0.002 --time 5 --seeds 2 --csv paths.csv
    """
    strength = dim / 2.0 if signal is None else signal
    task = MarionSLR(strength, length, noise, relevant_std=relevant_std)
    with progress("training on the sphere") as report:
        result = sphere_training(
            task,
            activation,
            scale=scale,
            decay=decay,
            dim=dim,
            start=start,
            time=time,
            rate=rate,
            batch=batch,
            seeds=seeds,
            seed=seed,
            report=report,
        )
        shown = result.to_dict()
        for knows in ("keys", "scores", "tokens"):
            known = bayes_risk(task, knows=knows, dim=dim if knows == "tokens" else None)
            shown[f"bayes_risk_{knows}"] = known.risk
    if csv is not None:
        result.to_frame().to_csv(csv, index=False)
        shown["csv"] = str(csv)
    if output.as_json:
        print_json(shown)
    else:
        rows = [(name, as_text(value)) for name, value in shown.items()]
        print_table("Training on the sphere", ("quantity", "value"), rows)
    return result.status.usable
