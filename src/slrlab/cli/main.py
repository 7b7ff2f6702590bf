"""The command line: parses, calls the public API, prints. It holds no formula.

Exit codes: 0 done, 1 a computation failed or a claim does not hold, 2 wrong input (one line on
stderr that names the option, what it accepts and what it was given).
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from slrlab.cli.compare import compare
from slrlab.cli.console import (
    print_lines,
    print_problems,
    print_result,
    progress,
    waiting,
)
from slrlab.cli.flow import flow
from slrlab.cli.options import (
    ActivationOption,
    AlphaOption,
    BiasOption,
    JsonOption,
    LengthOption,
    NoiseOption,
    RidgeKOption,
    RidgeVOption,
    SignalOption,
    TaskOption,
    number,
    read_activation,
    read_task,
    whole,
)
from slrlab.cli.reproduction import claims, figure, reproduce, table
from slrlab.cli.simulation import amp, simulate
from slrlab.cli.sweeps import results, sweep

if TYPE_CHECKING:
    from slrlab.theory.bayes_optimal import BayesOptimal, BayesThresholds
    from slrlab.theory.erm.equations import Stiffness

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Why softmax attention retrieves better than its rivals: the theory of single-location "
    "regression, computed.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from slrlab import __version__

        print_lines([f"slrlab {__version__}"])
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def population(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    activation: ActivationOption = "softmax",
    bias: BiasOption = None,
    m_k: Annotated[
        str | None, typer.Option("--m-k", help="Key overlap; default: the best.", metavar="m")
    ] = None,
    m_v: Annotated[
        str | None, typer.Option("--m-v", help="Value overlap; needs --m-k.", metavar="m")
    ] = None,
    r_k: Annotated[
        str | None, typer.Option("--R-k", help="Residual norm of k; needs --m-k.", metavar="R")
    ] = None,
    r_v: Annotated[
        str | None, typer.Option("--R-v", help="Residual norm of v; needs --m-k.", metavar="R")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Risk with infinite data: the best one, or the one at given order parameters.

    Example: slrlab population --task max --signal inf --length 1,2,3 --activation erf
    """
    from slrlab.model.order_parameters import OrderParameters
    from slrlab.theory.population.minimal import best_value, minimal_risk, risk_at

    chosen_task = read_task(task, signal, length, noise)
    chosen = read_activation(activation, bias)
    if m_k is None and (m_v, r_k, r_v) != (None, None, None):
        accepted = "a finite number if --m-v, --R-k or --R-v is given"
        raise ValueError(f"m_k must be {accepted}, got nothing")
    with waiting(f"{chosen.name} on {chosen_task.name}-SLR"):
        if m_k is None:
            result = minimal_risk(chosen_task, chosen)
        else:
            keys, residuals = number(m_k, "m_k", "a finite number"), "a finite number >= 0"
            order = OrderParameters(
                keys,
                0.0,
                number(r_k or "0", "R_k", residuals),
                number(r_v or "0", "R_v", residuals),
            )
            best = best_value(chosen_task, chosen, order) if m_v is None else None
            values = best if best is not None else number(m_v, "m_v", "a finite number")
            order = OrderParameters(order.m_k, values, order.R_k, order.R_v)
            result = risk_at(chosen_task, chosen, order)
    print_result("Population risk", result, as_json)


@app.command()
def bayes(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    alpha: AlphaOption = None,
    thresholds: Annotated[
        bool, typer.Option("--thresholds", help="The thresholds in alpha instead of a risk.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Risk of the best predictor from N = alpha·D samples, and the risk that AMP reaches.

    Example: slrlab bayes --signal 2 --length 3 --alpha 1.1
    """
    from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds

    chosen = read_task(task, signal, length, noise)
    if thresholds == (alpha is not None):
        accepted = "left out with --thresholds" if thresholds else "a finite number > 0"
        raise ValueError(f"alpha must be {accepted}, got {alpha or 'nothing'}")
    result: BayesOptimal | BayesThresholds
    with waiting(f"Bayes-optimal {chosen.name}-SLR"):
        if alpha is None:
            result = bayes_thresholds(chosen)
        else:
            samples = number(alpha, "alpha", "a finite number > 0")
            result = bayes_optimal(chosen, alpha=samples)
    title = "Bayes-optimal thresholds" if thresholds else "Bayes-optimal risk"
    print_result(title, result, as_json)


@app.command()
def erm(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    activation: ActivationOption = "softmax",
    bias: BiasOption = None,
    alpha: AlphaOption = None,
    ridge_k: RidgeKOption = None,
    ridge_v: RidgeVOption = None,
    ridge: Annotated[
        str | None,
        typer.Option("--ridge", help="optimal: the ridges of least test risk.", metavar="optimal"),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance",
            help="Standard error asked of the test risk; default 3e-4, with --ridge optimal 1e-3.",
            metavar="t",
        ),
    ] = None,
    stiffness: Annotated[
        str,
        typer.Option(
            "--stiffness",
            help="Form of V-hat in the equations: stein counts the jumps of the prox, trace does "
            "not. The result gives both risks as an interval.",
            metavar="stein|trace",
        ),
    ] = "stein",
    seed: Annotated[str, typer.Option("--seed", help="Seed of the sample.", metavar="n")] = "0",
    as_json: JsonOption = False,
) -> None:
    """Attention trained on N = alpha·D samples: exact test error, and whether to trust it.

    Example: slrlab erm --alpha 8 --ridge-k 0.4 --ridge-v 0.8

    Example: slrlab erm --alpha 8 --ridge optimal --activation linear
    """
    from slrlab.theory.erm import erm_theory, optimal_ridge

    chosen_task = read_task(task, signal, length, noise)
    chosen = read_activation(activation, bias)
    samples = number(alpha, "alpha", "a finite number > 0")
    accuracy = (
        number(tolerance, "tolerance", "a finite number > 0") if tolerance is not None else None
    )
    start = whole(seed, "seed")
    if ridge is not None:
        if ridge != "optimal":
            accepted = "optimal (or give --ridge-k and --ridge-v)"
            raise ValueError(f"ridge must be {accepted}, got {ridge}")
        if (ridge_k, ridge_v) != (None, None):
            given = ridge_v if ridge_k is None else ridge_k
            raise ValueError(f"ridge_k, ridge_v must be left out with --ridge optimal, got {given}")
        if stiffness != "stein":
            raise ValueError(f"stiffness must be stein with --ridge optimal, got {stiffness}")
        with progress("best ridge") as report:
            result = optimal_ridge(
                chosen_task,
                chosen,
                alpha=samples,
                tolerance=1e-3 if accuracy is None else accuracy,
                seed=start,
                report=report,
            )
    else:
        accepted = "a finite number >= 0 (or use --ridge optimal)"
        with progress("trained attention") as report:
            result = erm_theory(
                chosen_task,
                chosen,
                alpha=samples,
                ridge_k=number(ridge_k, "ridge_k", accepted),
                ridge_v=number(ridge_v, "ridge_v", accepted),
                tolerance=3e-4 if accuracy is None else accuracy,
                stiffness=cast("Stiffness", stiffness),
                seed=start,
                report=report,
            )
    branches = "; ".join(
        f"{item.branch}: test risk {item.test_risk:.4g}, objective {item.objective:.6g}"
        for item in result.branches
    )
    errors = ", ".join(f"{name} {value:.2g}" for name, value in result.errors.items())
    special = {"test_risk": str(result.risk), "branches": branches, "errors": errors}
    print_result("Trained attention", result, as_json, special)


app.command()(compare)
app.command()(flow)
app.command()(simulate)
app.command()(amp)
app.command()(sweep)
app.command()(results)
app.command()(claims)
app.command()(figure)
app.command()(table)
app.command()(reproduce)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; wrong input ends with one line on stderr and exit code 2."""
    from slrlab._errors import SlrlabError

    command = typer.main.get_command(app)
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = command.main(given or ["--help"], prog_name="slrlab", standalone_mode=False)
        sys.stdout.flush()
    except (ValueError, TypeError) as error:
        _stop(_as_typed(str(error), command, given), 2)
    except SlrlabError as error:
        _stop(str(error), 1)
    except MemoryError:
        _stop("not enough memory for this setting", 1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone: nothing left to say
        sys.exit(1)
    except OSError as error:
        _stop(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except Exception as error:
        # click's own errors (unknown option or command) carry their exit code and a message
        if not hasattr(error, "format_message"):
            if type(error).__name__ == "Abort":
                _stop("interrupted", 130)
            raise
        _stop(error.format_message().replace("\n", " ") or "wrong usage", 2)
    if code == 130:
        _stop("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _as_typed(message: str, command: Any, given: list[str]) -> str:
    """Return "NAME must be …" with the name as the option of the command that was called.

    The library says ``ridge_k``, the shell ``--ridge-k``; what is no option stays as it is.
    """
    called = next((command.commands[word] for word in given if word in command.commands), command)
    options = {text[2:] for param in called.params for text in param.opts if text[:2] == "--"}

    def typed(name: re.Match[str]) -> str:
        option = name[0].replace("_", "-")
        return f"--{option}" if option in options else name[0]

    names, must, rest = message.partition(" must ")
    return re.sub(r"[\w-]+", typed, names) + must + rest if must else message


def _stop(message: str, code: int) -> None:
    print_problems([message])
    sys.exit(code)
