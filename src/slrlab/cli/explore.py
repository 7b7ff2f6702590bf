"""The command `explore`: the theory in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab import _checks
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_lines, progress
from slrlab.cli.options import option, whole

_STATIC = "Write pages that need no server into this folder, and end."
_VIEW = "View to begin with: retrieve, population, samples, landscape, atlas or plan."


@command()
def explore(
    *,
    port: Annotated[int, option("Port of the server.", whole(1, 65535), "n")] = 8501,
    view: Annotated[str, option(_VIEW, metavar="NAME")] = "retrieve",
    static: Annotated[Path | None, option(_STATIC, Path, "DIR")] = None,
    output: Output,
) -> bool:
    """Explore the theory in a browser: a server on this machine, or pages that need none.

    Nothing is sent anywhere: the server answers this machine alone.

    Example: slrlab explore --view population

    Example: slrlab explore --static pages
    """
    from slrlab.explorer.server import address, need_extra, serve
    from slrlab.explorer.views import VIEWS

    _checks.choice(view, "view", VIEWS)
    if static is not None:
        from slrlab.explorer.static import build_static

        with progress("static pages") as report:
            paths = build_static(static, report=report)
        output.files(paths)
        return True
    need_extra()
    print_lines([address(port, view)])
    return serve(port) == 0
