"""The command `capacity`: how many key-value pairs one attention layer can store."""

from __future__ import annotations

from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import SEED, listed, option, whole
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.retrieval.capacity import capacity_test
from slrlab.retrieval.feature_maps import ACCEPTED


@command(capacity_test)
def capacity(
    *,
    feature_map: Annotated[
        Any, option(f"Feature maps: {ACCEPTED}.", listed(str), "NAME,NAME,…")
    ] = "softmax,elu+1",
    pairs: Annotated[
        Any, option("Numbers of key-value pairs.", listed(whole(2)), "N,N,…")
    ] = "20,100",
    seeds: Annotated[int, option("Trainings at each point.", whole(1), "n")],
    seed: Annotated[int, SEED],
    max_steps: Annotated[int, option("Largest number of steps of a training.", whole(100), "n")],
    output: TableOutput,
) -> bool:
    """Train one attention layer to store key-value pairs and read them (Schlag et al. 2021).

    The loss is half the squared distance of the answer from the value; a layer that answers nothing
    has 1/2. No feature map with m features can get below (1 - m/N)/2 on average over all N
    queries; softmax has no such floor.

    Example: slrlab capacity --feature-map softmax,elu+1,dpfp-1 --pairs 100,200
    """
    with progress("capacity") as report:
        result = capacity_test(
            feature_map,
            pairs,
            seeds=seeds,
            seed=seed,
            max_steps=max_steps,
            workers=None,
            report=report,
        )
    return output.table(
        result, f"± one standard error over {seeds} seeds; published: one run, Schlag et al. 2021"
    )
