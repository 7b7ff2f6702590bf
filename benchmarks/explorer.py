"""The explorer in a browser: how fast it answers, and ten users at once for a minute.

It needs the extra, Playwright and a Chromium, and ends by itself after about two minutes. An answer
is the time from a key on a slider of the population view until table and chart have changed, as the
page itself sees it.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from live_explorer import ARGUMENTS, chromium, live_explorer

USERS, SECONDS, MOVES = 10, 60.0, 30
BOUND = 0.3  # seconds of an answer
VIEWS = ("population", "atlas", "plan", "samples", "")
WATCH = """() => new Promise((done) => {
  const state = () => [document.querySelector("[data-testid=stTable]")?.innerText,
    document.querySelector("[data-testid=stVegaLiteChart] svg.marks")?.outerHTML];
  const [words, drawn] = state();
  addEventListener("keydown", () => {
    const start = performance.now();
    const look = () => {
      const [now, picture] = state();
      if (now !== words && picture !== drawn) done((performance.now() - start) / 1e3);
      else if (performance.now() - start > 10e3) done(10);
      else setTimeout(look, 4);
    };
    look();
  }, { once: true, capture: true });
})"""


def family(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def memory(pid: int) -> tuple[float, float]:
    """Return the memory of a server, and that of its workers, in MB."""
    sizes = []
    for one in family(pid):
        try:
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
        except OSError:
            continue
        sizes.append(sum(float(x.split()[1]) for x in lines if x.startswith("VmRSS:")) / 1024.0)
    return sum(sizes[:2]), sum(sizes[2:])  # the command, its server, and what that has started


def ready(page: Any, address: str, view: str) -> None:
    page.goto(f"{address}/{view}")
    page.get_by_role("button", name="CSV", exact=True).wait_for(timeout=120e3)
    page.locator("[data-testid=stVegaLiteChart] svg.marks").first.wait_for()


def answers(browser: Any, address: str) -> None:
    page = browser.new_page()
    ready(page, address, "population")
    slider = page.locator("[data-testid=stSlider] input").first
    slider.focus()
    seconds = []
    for move in range(MOVES):
        waiting = page.evaluate_handle(f"() => ({{promise: ({WATCH})()}})")
        page.keyboard.press("ArrowRight" if move % 20 < 10 else "ArrowLeft")
        seconds.append(page.evaluate("(handle) => handle.promise", waiting))
        page.wait_for_timeout(150)
    page.close()
    later = sorted(seconds[2:])  # the first ones fill caches
    middle, most = statistics.median(later), later[int(0.95 * len(later))]
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(
        f"a move of a slider of the population view: median {1e3 * middle:.0f} ms, 95 % within "
        f"{1e3 * most:.0f} ms, {middle / BOUND:.2f} and {most / BOUND:.2f} of the bound of "
        f"{1e3 * BOUND:.0f} ms; {MOVES} moves, load {load:.1f} per core"
    )


def user(path: str, address: str, number: int, end: float, seen: dict[str, Any]) -> None:
    """Move sliders and change views until the end, in a browser of one's own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=ARGUMENTS)
        page = browser.new_page()
        page.on("pageerror", lambda error: seen["errors"].append(str(error)))
        page.on("request", lambda request: seen["requests"].append(request.url))
        try:
            turn = number
            while time.monotonic() < end:
                ready(page, address, VIEWS[turn % len(VIEWS)])
                for _ in range(6):
                    page.locator("[data-testid=stSlider] input").first.focus()
                    page.keyboard.press("ArrowRight" if turn % 2 else "ArrowLeft")
                    page.wait_for_timeout(700)
                    seen["moves"][number] += 1
                    alerts = page.locator("[data-testid=stException]").count()
                    seen["errors"] += ["an exception is shown"] * alerts
                turn += 1
        except Exception as error:
            seen["errors"].append(f"user {number}: {error}")
        browser.close()


def crowd(path: str, address: str, pid: int, log: Path) -> None:
    seen: dict[str, Any] = {"errors": [], "requests": [], "moves": [0] * USERS}
    end = time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=user, args=(path, address, number, end, seen))
        for number in range(USERS)
    ]
    for thread in threads:
        thread.start()
    sizes = []
    while time.monotonic() < end:
        time.sleep(5.0)
        sizes.append(memory(pid))
    for thread in threads:
        thread.join()
    sizes.append(memory(pid))
    outside = [one for one in seen["requests"] if "//localhost" not in one and "http" in one[:4]]
    ours = log.read_text().count("slrlab/explorer")
    print(
        f"{USERS} users for {SECONDS:.0f} s: {sum(seen['moves'])} moves, the fewest of a user "
        f"{min(seen['moves'])}, {len(seen['errors'])} errors in pages, {ours} in the log, "
        f"{len(outside)} of {len(seen['requests'])} requests to other machines"
    )
    for error in seen["errors"][:5]:
        print("  " + error.splitlines()[0])
    print("  every five seconds, in MB; workers load compiled code when they first need it")
    for name, values in zip(("server", "workers"), zip(*sizes, strict=True), strict=True):
        print(f"  memory of the {name}: " + " ".join(f"{size:.0f}" for size in values))


def main() -> None:
    path = chromium()
    needed = ("playwright", "streamlit")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if path is None or missing:
        print(f"explorer: skipped, without {'a Chromium' if path is None else ', '.join(missing)}")
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with live_explorer(log) as (address, process):
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=path, args=ARGUMENTS)
                answers(browser, address)
                browser.close()
            crowd(path, address, process.pid, log)


if __name__ == "__main__":
    main()
