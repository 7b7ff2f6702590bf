"""A live explorer and a browser on this machine, for the tests and a benchmark."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

PATIENCE = float(os.environ.get("SLRLAB_PATIENCE", "120"))  # seconds; machines may be busy
CUT_OFF = """() => [...document.querySelectorAll("svg.marks text")].filter((text) =>
    text.getBoundingClientRect().right > text.closest("svg").getBoundingClientRect().right + 2)
    .map((text) => text.textContent)"""  # words of charts beyond their edge
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium():
    """Return the path of a Chromium on this machine, None if there is none."""
    named = os.environ.get("SLRLAB_CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def live_explorer(log, *options):
    """Run a live explorer with a log, and options; yield its address and its process."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "slrlab", "explore", "--port", str(port), *options]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            address = f"http://localhost:{port}"
            _wait_for(f"{address}/_stcore/health", process)
            yield address, process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait_for(address, process):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5.0):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.2)
