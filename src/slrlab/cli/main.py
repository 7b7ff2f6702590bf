"""The command line: finds the commands, calls one, turns errors into one line. It holds no formula.

Exit codes: 0 done, 1 a computation failed or a claim does not hold, 2 wrong input (one line on
stderr that names the option, what it accepts and what it was given).
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from slrlab._errors import SlrlabError
from slrlab.cli.app import app
from slrlab.cli.console import print_lines, print_problems

for _module in iter_modules([str(Path(__file__).parent)]):  # each registers its command
    import_module(f"slrlab.cli.{_module.name}")


def _version(shown: bool) -> None:
    if shown:
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


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; wrong input ends with one line on stderr and exit code 2."""
    group: Any = typer.main.get_command(app)
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = group.main(words or ["--help"], prog_name="slrlab", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe
        sys.exit(1)
    except Exception as error:
        called = next((group.commands[word] for word in words if word in group.commands), group)
        _stop(*_explain(error, called, words))
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        _stop("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception, called: Any, words: list[str]) -> tuple[str, int]:
    """Return the line about an error, and the exit code."""
    if isinstance(error, typer.BadParameter):
        return _refusal(error, called, words), 2
    if hasattr(error, "format_message"):  # other errors of usage, such as an unknown option
        return error.format_message().replace("\n", " ") or "wrong usage", 2
    if isinstance(error, ValueError | TypeError):
        return _as_typed(str(error), called, words), 2
    if isinstance(error, SlrlabError):
        return str(error), 1
    if isinstance(error, MemoryError):
        return "not enough memory for this setting", 1
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1
    if type(error).__name__ == "Abort":
        return "interrupted", 130
    raise error


def _refusal(error: Any, called: Any, words: list[str]) -> str:
    """Return "OPTION must be WHAT, got VALUE" for what a parser refused, or what is missing."""
    message = error.message
    if not message:
        annotation = inspect.signature(called.callback).parameters[error.param.name].annotation
        parser = annotation.__metadata__[0].parser
        if parser is None:
            return str(error.format_message())
        try:
            parser("nothing")
        except typer.BadParameter as refusal:
            message = refusal.message
    return f"{_option(error.param, words)} {message}"


def _as_typed(message: str, called: Any, words: list[str]) -> str:
    """Return "NAME must be …" with the options as names: the library says ``ridge_k``."""
    options = {
        text[2:].replace("-", "_"): _option(param, words)
        for param in called.params
        for text in param.opts
        if text.startswith("--")
    }
    names, must, rest = message.partition(" must ")
    return ", ".join(options.get(name, name) for name in names.split(", ")) + must + rest


def _option(param: Any, words: list[str]) -> str:
    """Return an option by the name that was typed, or else its first."""
    typed = [text for text in param.opts if text in {word.partition("=")[0] for word in words}]
    return str([*typed, *param.opts][0])


def _stop(message: str, code: int) -> None:
    print_problems([message])
    sys.exit(code)
