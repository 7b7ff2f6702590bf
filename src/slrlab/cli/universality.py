"""The command `universality`: training on tokens of several laws, beside the Gaussian theory."""

from __future__ import annotations

from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import (
    ALPHA,
    RIDGE_K,
    RIDGE_V,
    RISK_ERROR,
    SEED,
    TEST_SAMPLES,
    TOKEN_LAW,
    lengths,
    listed,
    option,
    whole,
)
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.comparison.universality import DIMS, LAWS
from slrlab.experiments.comparison.universality import universality as compare_laws
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task

_DIMS = "Two or more dimensions; the differences are fitted as a + b/D."
_SEEDS = "Trainings at each dimension: one number for all, or one for each."


@command(compare_laws)
def universality(
    *,
    task: Task,
    activation: Activation,
    alpha: Annotated[float, ALPHA],
    ridge_k: Annotated[float, RIDGE_K],
    ridge_v: Annotated[float, RIDGE_V],
    token_law: Annotated[list[str], TOKEN_LAW] = list(LAWS),  # noqa: B006
    dims: Annotated[Any, option(_DIMS, lengths, "D,D,…")] = ",".join(map(str, DIMS)),
    seeds: Annotated[Any, option(_SEEDS, listed(whole(2)), "n,n,…")],
    seed: Annotated[int, SEED],
    test_samples: Annotated[int, TEST_SAMPLES],
    tolerance: Annotated[float, RISK_ERROR],
    output: TableOutput,
) -> bool:
    """Attention trained on tokens of several laws, beside the theory of Gaussian tokens.

    Repeat --token-law for several laws. A theory holds for a law if no difference is seen as
    D → ∞; tokens with correlated coordinates have a theory of their own.

    Example: slrlab universality --alpha 4 --ridge-k 0.5 --ridge-v 0.8 --token-law rademacher

    Example: slrlab universality --alpha 4 --ridge-k 0.5 --ridge-v 0.8 --dims 300,600,1200
    --seeds 32,16,8
    """
    with progress("training and theory") as report:
        result = compare_laws(
            task,
            activation,
            alpha=alpha,
            ridge_k=ridge_k,
            ridge_v=ridge_v,
            laws=token_law,
            dims=dims,
            seeds=seeds,
            seed=seed,
            test_samples=test_samples,
            tolerance=tolerance,
            report=report,
        )
    return output.table(
        result,
        "gap: simulation minus theory as D → ∞, with half its 95 % interval; drift b: of a fit "
        "a + b/D",
        "p: of all quantities together (Bonferroni); a theory holds if it is 0.01 or more",
    )
