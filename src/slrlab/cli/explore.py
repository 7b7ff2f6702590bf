"""The command `explore`: the theory in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab import _checks
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_lines, progress
from slrlab.cli.options import given, option, whole
from slrlab.experiments.running.executors import default_workers

_STATIC = "Write pages that need no server into this folder, and end."
_VIEW = "View to begin with: retrieve (the default), population, samples, landscape, atlas or plan."
_PORT = "Port of the server, 8501 by default."


@command()
def explore(
    *,
    port: Annotated[int | None, option(_PORT, whole(1, 65535), "n")] = None,
    view: Annotated[str | None, option(_VIEW, metavar="NAME")] = None,
    static: Annotated[Path | None, option(_STATIC, Path, "DIR")] = None,
    output: Output,
) -> bool:
    """Explore the theory in a browser: a server on this machine, or pages that need none.

    Nothing is sent anywhere: the server answers this machine alone.

    Example: slrlab explore --view population

    Example: slrlab explore --static pages
    """
    from slrlab.explorer.server import FIRST, PORT, address, need_extra, serve
    from slrlab.explorer.views import VIEWS

    if view is not None:
        _checks.choice(view, "view", VIEWS)
    if static is not None:
        for name, value in given(port=port, view=view).items():
            _checks.refuse(
                name, "with --static, which writes all pages and starts no server", value
            )
        from slrlab.explorer.static import build_static

        with progress("static pages") as report:
            paths = build_static(static, report=report)
        output.files(paths)
        return True
    need_extra()
    default_workers()  # refuses a bad SLRLAB_WORKERS before the server starts
    print_lines([address(port or PORT, view or FIRST)])
    return serve(port or PORT) == 0
