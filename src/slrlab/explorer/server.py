"""Start the live explorer: a server on this machine, for this machine alone."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

from slrlab._errors import SlrlabError

EXTRA = ("streamlit", "altair", "vl_convert")
STATIC_EXTRA = EXTRA[1:]
_APP = Path(__file__).with_name("app.py")
FIRST = "retrieve"  # the view at the root of the server
PORT = 8501
_OPTIONS = {
    "server.address": "localhost",
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorLinks": "false",
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#3381BB",  # readable below white text, and itself on black
    "global.disableWidgetStateDuplicationWarning": "true",
}


def has_extra(modules: tuple[str, ...] = EXTRA) -> bool:
    """Return whether the modules of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in modules)


def need_extra(modules: tuple[str, ...] = EXTRA) -> None:
    """Refuse to go on without the extra.

    Raises
    ------
    SlrlabError
        If a module of the extra ``explorer`` is not installed.
    """
    if not has_extra(modules):
        raise SlrlabError("the explorer needs the extra explorer: pip install 'slrlab[explorer]'")


def address(port: int, view: str = FIRST) -> str:
    """Return the address of a view."""
    return f"http://localhost:{port}/{'' if view == FIRST else view}"


def serve(port: int) -> int:
    """Run the explorer until it is interrupted; return the exit code. It needs the extra."""
    options = [f"--{name}={value}" for name, value in _OPTIONS.items()]
    command = [sys.executable, "-m", "streamlit", "run", str(_APP), f"--server.port={port}"]
    # threads that wait asleep leave the cores to the workers
    environment = {"OMP_WAIT_POLICY": "passive"} | os.environ
    with subprocess.Popen([*command, *options], env=environment) as server:
        before = signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0  # the server has been interrupted too
        finally:
            signal.signal(signal.SIGTERM, before)
