"""The explorer in a browser: how fast it answers, and ten users at once.

It needs the extra, Playwright and a Chromium, and takes about eight minutes. An answer is the time
from a key on a slider of the population view until table and chart have changed, as the page itself
sees it. A first sign is the time until a view shows that it is at work: a progress bar, the mark of
a running page, a dimmed chart, or new numbers. Ten users move sliders and change views, first until
the workers have loaded what they need, then for three minutes. Exits with an error if an answer or
a first sign takes too long, a user sees an error, a page asks another machine, or the memory grows.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from live_explorer import ARGUMENTS, PATIENCE, chromium, live_explorer

USERS, WARM, MINUTES, MOVES = 10, 120.0, 3, 30
BOUND = 0.3  # seconds of an answer
SIGN_BOUND = 1.0  # seconds until a first sign
GROWTH = 0.1  # of the mean memory, from the first minute to the last
VIEWS = ("population", "atlas", "plan", "samples", "")
SLIDER = "[data-testid=stSlider] input"
CHART = "[data-testid=stVegaLiteChart] svg.marks"
WATCH = """(signs) => new Promise((done) => {
  const state = () => [document.querySelector("[data-testid=stTable]")?.innerText,
    document.querySelector("[data-testid=stVegaLiteChart] svg.marks")?.outerHTML];
  const [words, drawn] = state();
  const sign = () => {
    for (const name of ["stProgress", "stStatusWidget", "stSkeleton", "stSpinner"]) {
      if (document.querySelector(`[data-testid=${name}]`)?.checkVisibility()) return name;
    }
    const dimmed = [...document.querySelectorAll("[data-stale=true]")]
      .some((one) => getComputedStyle(one).opacity < 0.9);
    return dimmed ? "dimmed" : "";
  };
  const begin = () => {
    const start = performance.now();
    const look = () => {
      const [now, picture] = state();
      const both = now !== words && picture !== drawn;
      const some = now !== words || picture !== drawn;
      const seen = signs ? (some ? "answer" : sign()) : (both ? "answer" : "");
      const spent = (performance.now() - start) / 1e3;
      if (seen || spent > 10) done([spent, seen]);
      else setTimeout(look, 4);
    };
    look();
  };
  for (const kind of ["keydown", "click"]) {
    addEventListener(kind, begin, { once: true, capture: true });
  }
})"""
STEPS = {  # what a user changes in each view; most of it is not in the stored tables
    "": (("button", "Draw again"), ("slider", 0), ("slider", 1)),
    "population": (("slider", 0), ("activation", "elementwise: 1 + tanh(x)")),
    "samples": (("slider", 1), ("button", "given ridges")),
    "landscape": (("slider", 0), ("slider", 1), ("start: m_kk", "-0.5")),
    "atlas": (("button", "the setting above"), ("activation", "elementwise: 1 + x/3")),
    "plan": (("slider", 1), ("this number", "0.4"), ("button", "hit rate at least")),
}


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
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        sizes.append(sum(float(x.split()[1]) for x in lines if x.startswith("Pss:")) / 1024.0)
    return sum(sizes[:2]), sum(sizes[2:])  # the command, its server, and what that has started


async def new_page(browser: Any) -> Any:
    """Return a page with a session and a cache of its own."""
    context = await browser.new_context()
    context.set_default_timeout(1e3 * PATIENCE)
    return await context.new_page()


async def ready(page: Any, address: str, view: str) -> None:
    await page.goto(f"{address}/{view}")
    await page.locator(CHART).first.wait_for()


async def moved(page: Any, act: Any, *, signs: bool) -> tuple[float, str]:
    """Return the seconds from an act of a user until the page shows it, and what it shows."""
    given = "true" if signs else "false"
    waiting = await page.evaluate_handle(f"() => ({{promise: ({WATCH})({given})}})")
    await act()
    seconds, seen = await page.evaluate("(handle) => handle.promise", waiting)
    return float(seconds), str(seen)


def load() -> str:
    return f"load {os.getloadavg()[0] / (os.cpu_count() or 1):.1f} per core"


async def answers(browser: Any, address: str) -> list[str]:
    """Print how long the population view takes to answer; return what is missed."""
    page = await new_page(browser)
    await ready(page, address, "population")
    await page.get_by_role("button", name="CSV", exact=True).wait_for()
    await page.locator(SLIDER).first.focus()
    seconds = []
    for move in range(MOVES):
        press = partial(page.keyboard.press, "ArrowRight" if move % 20 < 10 else "ArrowLeft")
        seconds.append((await moved(page, press, signs=False))[0])
        await page.wait_for_timeout(150)
    await page.close()
    later = sorted(seconds[2:])  # the first ones fill caches
    middle, most = statistics.median(later), later[int(0.95 * len(later))]
    print(
        f"a move of a slider of the population view: median {1e3 * middle:.0f} ms, 95 % within "
        f"{1e3 * most:.0f} ms, {middle / BOUND:.2f} and {most / BOUND:.2f} of the bound of "
        f"{1e3 * BOUND:.0f} ms; {MOVES} moves, {load()}"
    )
    return [f"a median answer takes {1e3 * middle:.0f} ms"] if middle > BOUND else []


async def first_signs(browser: Any, address: str) -> list[str]:
    """Print how soon each view shows that it is at work; return the steps that take too long."""
    missed = []
    for view, steps in STEPS.items():
        signs = []
        for what, value in steps:
            page = await new_page(browser)
            await ready(page, address, view)
            await settled(page)
            act = await prepared(page, what, value)
            signs.append((*await moved(page, act, signs=True), f"{what} {value}"))
            if signs[-1][0] > SIGN_BOUND:
                missed.append(f"no sign of {view or 'retrieve'} for {signs[-1][0]:.1f} s")
            await page.close()
        most = max(signs)[0]
        listed = ", ".join(f"{step}: {1e3 * spent:.0f} ms ({seen})" for spent, seen, step in signs)
        print(
            f"first sign of {view or 'retrieve'}: at most {most / SIGN_BOUND:.2f} of the bound of "
            f"{SIGN_BOUND:g} s; {listed}; {load()}",
            flush=True,
        )
    return missed


async def settled(page: Any) -> None:
    """Wait until nothing shows any more that the page is at work."""
    signs = "stProgress", "stStatusWidget", "stSkeleton"
    found = ", ".join([*(f"[data-testid={name}]" for name in signs), "[data-stale=true]"])
    await page.wait_for_function(
        "(found) => ![...document.querySelectorAll(found)].some((one) => one.checkVisibility())",
        arg=found,
    )


async def prepared(page: Any, what: str, value: Any) -> Any:
    """Return the last act of a change, the one that the page answers."""
    if what == "button":
        return page.get_by_text(value, exact=True).click
    if what == "slider":
        await page.locator(SLIDER).nth(value).focus()
        return partial(page.keyboard.press, "ArrowRight")
    own = page.get_by_test_id("stMultiSelect").locator("input")
    box = own if what == "activation" else page.get_by_label(what, exact=True)
    await box.fill(value)
    return partial(page.keyboard.press, "Enter")


async def user(page: Any, address: str, number: int, end: float, seen: dict[str, Any]) -> None:
    """Move sliders, change views and open the page anew until the end."""
    turn = number
    try:
        while time.monotonic() < end:
            view = VIEWS[turn % len(VIEWS)]
            if turn % len(VIEWS) == number % len(VIEWS):
                await ready(page, address, view)
            else:
                await page.get_by_role("link", name=view.capitalize() or "Retrieve").click()
                await page.get_by_role("heading", name=view.capitalize() or "Retrieve").wait_for()
            for _ in range(6):
                await page.locator(SLIDER).first.focus()
                await page.keyboard.press("ArrowRight" if turn % 2 else "ArrowLeft")
                await page.wait_for_timeout(700)
                seen["moves"][number] += 1
                alerts = await page.get_by_test_id("stException").count()
                seen["errors"] += ["an exception is shown"] * alerts
            turn += 1
    except Exception as error:
        seen["errors"].append(f"user {number}: {error}")


async def crowd(pages: list[Any], address: str, pid: int, seconds: float) -> dict[str, Any]:
    """Let ten users work for some time; return what happened, and the memory every ten seconds."""
    seen: dict[str, Any] = {"errors": [], "requests": [], "moves": [0] * USERS, "memory": []}
    end = time.monotonic() + seconds

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(10.0)
            seen["memory"].append(memory(pid))

    for page in pages:
        page.on("pageerror", lambda error: seen["errors"].append(str(error)))
        page.on("request", lambda request: seen["requests"].append(request.url))
    users = (user(page, address, number, end, seen) for number, page in enumerate(pages))
    await asyncio.gather(watch(), *users)
    return seen


def show_crowd(name: str, seen: dict[str, Any], log: Path) -> list[str]:
    """Print what ten users saw; return what is missed."""
    outside = [one for one in seen["requests"] if "//localhost" not in one and "http" in one[:4]]
    ours = log.read_text().count("slrlab/explorer")
    print(
        f"{USERS} users, {name}: {sum(seen['moves'])} moves, the fewest of a user "
        f"{min(seen['moves'])}, {len(seen['errors'])} errors in pages, {ours} in the log, "
        f"{len(outside)} of {len(seen['requests'])} requests to other machines; {load()}"
    )
    for error in seen["errors"][:5]:
        print("  " + error.splitlines()[0])
    for which, values in zip(("server", "workers"), zip(*seen["memory"], strict=True), strict=True):
        print(f"  MB of the {which}: " + " ".join(f"{size:.0f}" for size in values), flush=True)
    counts = {"errors in pages": len(seen["errors"]), "errors in the log": ours}
    counts |= {"requests to other machines": len(outside), "idle users": seen["moves"].count(0)}
    return [f"{name}: {count} {what}" for what, count in counts.items() if count]


def growth(first: dict[str, Any], last: dict[str, Any]) -> list[str]:
    """Return what has grown too much between two minutes, server or workers."""
    missed = []
    for index, which in enumerate(("server", "workers")):
        before, after = (
            statistics.mean(sizes[index] for sizes in seen["memory"]) for seen in (first, last)
        )
        print(f"mean memory of the {which}: {before:.0f} MB, then {after:.0f} MB")
        if after > (1.0 + GROWTH) * before:
            missed.append(f"the memory of the {which} grows by {after / before - 1.0:.0%}")
    return missed


async def measure(path: str, address: str, pid: int, log: Path) -> list[str]:
    """Run all parts; return what is missed."""
    from playwright.async_api import async_playwright

    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=path, args=ARGUMENTS)
        missed = [*await answers(browser, address), *await first_signs(browser, address)]
        pages = [await new_page(browser) for _ in range(USERS)]
        missed += show_crowd("warm-up", await crowd(pages, address, pid, WARM), log)
        minutes = []
        for minute in range(MINUTES):
            minutes.append(await crowd(pages, address, pid, 60.0))
            missed += show_crowd(f"minute {minute + 1}", minutes[-1], log)
        await browser.close()
    return [*missed, *growth(minutes[0], minutes[-1])]


def main() -> None:
    path = chromium()
    needed = ("playwright", "streamlit")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if path is None or missing:
        print(f"explorer: skipped, without {'a Chromium' if path is None else ', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with live_explorer(log) as (address, process):
            missed = asyncio.run(measure(path, address, process.pid, log))
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
