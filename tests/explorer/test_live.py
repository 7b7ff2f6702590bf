"""The live explorer in a real browser: every view against the library."""

import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from html import unescape
from io import BytesIO, StringIO
from urllib.parse import urlencode

import pandas as pd
import pytest
from PIL import Image

from live_explorer import CUT_OFF, PATIENCE, live_explorer
from slrlab.explorer.controls import Controls
from slrlab.explorer.server import FIRST
from slrlab.explorer.views import VIEWS

pytest.importorskip("streamlit")
TimedOut = pytest.importorskip("playwright.sync_api").TimeoutError
pytestmark = pytest.mark.extra

OWN = "elementwise: 1 + x/2"  # linear attention, written differently
SETTINGS = {
    "retrieve": Controls(signal=16.0, length="100", activations=("softmax", "linear")),
    "population": Controls(signal=4.0, length="10", activations=("linear",), x="length"),
    "samples": Controls(signal=4.0, length="2", activations=("linear",), ridge="given"),
    "landscape": Controls(signal=2.0, length="3", activations=("linear",), m_kk=0.4, m_kv=0.3),
    "atlas": Controls(activations=("softmax", OWN)),
    "plan": Controls(length="3", target=0.3, activations=("linear",)),
}
CODES = SETTINGS | {
    "atlas": Controls(ranking="setting", length="2", activations=("linear",)),
}
READ_TABLE = """() => [...document.querySelectorAll("[data-testid=stTable] tr")]
    .map((row) => [...row.children].map((cell) => cell.innerText.trim()))"""
READ_MARKS = """() => [...document.querySelectorAll("[data-testid=stVegaLiteChart] svg.marks")]
    .map((svg) => [...svg.querySelectorAll("path")].map((path) =>
        `${path.getAttribute("d")}${path.getAttribute("transform")}${path.getAttribute("fill")}`)
        .join())"""
READ_ALL = """() => ["[data-testid=stVegaLiteChart] svg.marks", "[data-testid=stTable]",
    "[data-testid=stCaptionContainer]"].flatMap((place) => [...document.querySelectorAll(place)])
    .filter((one) => one.checkVisibility())
    .map((one) => one.outerHTML.replaceAll(/(clip|gradient_)\\d+/g, "")).join()"""
CHARTS = "[data-testid=stVegaLiteChart] svg.marks"


def address(server, view, controls):
    path = "" if view == FIRST else view
    return f"{server}/{path}?{urlencode(controls.to_query())}"


def show(page, server, view, controls):
    page.goto(address(server, view, controls))
    settle(page)


def settle(page):
    """Wait until everything is computed: then there are downloads and no progress bar."""
    page.get_by_role("button", name="CSV", exact=True).wait_for()
    page.wait_for_function(
        """() => !document.querySelector("[data-testid=stProgress]")
            && !document.querySelector("[data-stale=true]")
            && document.querySelector("[data-testid=stApp]").dataset.testScriptState !== "running"
        """
    )


def numbers(page):
    head, *rows = page.evaluate(READ_TABLE)
    return pd.DataFrame(rows, columns=head)


def download(page, kind):
    with page.expect_download() as waiting:
        page.get_by_role("button", name=kind, exact=True).click()
    return waiting.value.path().read_bytes()


def copied(page):
    """Return the script of the page, by the button that copies it."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("Formula and Python").click()
    page.locator(".katex").first.wait_for()
    box = page.get_by_test_id("stCode")
    button, end = box.get_by_role("button").first, time.monotonic() + PATIENCE
    while not button.is_visible():  # it grows under the mouse, and the box may still move
        assert time.monotonic() < end
        page.mouse.move(0.0, 0.0)
        box.hover()
        with suppress(TimedOut):
            button.wait_for(timeout=2000.0)
    button.click()
    return page.evaluate("() => navigator.clipboard.readText()")


def printed(code, folder):
    """Run a script as a user would; return the table that it prints."""
    path = folder / "copied.py"
    path.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(StringIO(done.stdout))


def add(page, expression):
    """Type an activation of one's own, and close the menu, which hides the rest from readers."""
    page.get_by_test_id("stMultiSelect").locator("input").fill(expression)
    page.get_by_role("option", name=f"Add: {expression}", exact=True).wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("option", name="Select all").wait_for()  # the menu of what is left
    page.keyboard.press("Escape")
    page.get_by_role("listbox").wait_for(state="detached")


def change(page, view):
    """Change one control of a view as a user would."""
    if view == "retrieve":
        page.get_by_role("button", name="Draw again").click()
    elif view == "population":
        page.locator("[data-testid=stSlider] input").first.focus()
        page.keyboard.press("ArrowRight")
    elif view == "atlas":
        add(page, "elementwise: 1 + x/3")
    else:
        labels = {"samples": "ridge of the keys", "landscape": "start: m_kk", "plan": "this number"}
        texts = {"samples": "2", "landscape": "-0.5", "plan": "0.4"}
        page.get_by_label(labels[view], exact=True).fill(texts[view])
        page.keyboard.press("Enter")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_draws_what_the_library_computes(new_page, server, view):
    controls = SETTINGS[view]
    page = new_page()
    show(page, server, view, controls)
    assert VIEWS[view].title in page.get_by_role("heading").all_inner_texts()
    first_words = " ".join(VIEWS[view].about.split()[:8])
    assert first_words in page.get_by_test_id("stMain").inner_text()
    table = VIEWS[view].table(controls)
    page.locator(CHARTS).first.wait_for()
    marks = page.evaluate(READ_MARKS)
    assert len(marks) == len(VIEWS[view].drawn(table, controls))
    assert min(map(len, marks)) > 200  # curves, not only axes
    theirs = pd.read_csv(StringIO(download(page, "CSV").decode()))
    assert len(theirs) == len(table)
    for name in ("risk", "weight", "mean_loss", "signal"):
        if name in table:
            expected = pd.to_numeric(table[name]).to_numpy()
            assert theirs[name].to_numpy() == pytest.approx(expected, rel=1e-6, nan_ok=True), name
    if view not in ("atlas",):  # a table that scrolls is a picture
        wanted = VIEWS[view].numbers(table, controls).astype(str).to_numpy().tolist()
        assert numbers(page).to_numpy().tolist() == wanted
    drawn = Image.open(BytesIO(download(page, "PNG"))).convert("RGB")
    assert min(drawn.size) > 600
    assert len(drawn.getcolors(maxcolors=2**24)) > 30  # not blank
    picture = unescape(download(page, "SVG").decode())
    assert picture.startswith("<svg")
    words = " ".join(re.findall(r"<text[^>]*>([^<]*)", picture))
    assert VIEWS[view].title in words
    assert VIEWS[view].setting(controls)[:30] in words


@pytest.mark.parametrize("view", VIEWS)
def test_a_control_changes_the_picture_and_the_address_restores_it(new_page, server, view):
    page = new_page()
    show(page, server, view, SETTINGS[view])
    page.locator(CHARTS).first.wait_for()
    before, old = page.evaluate(READ_MARKS), page.url
    change(page, view)
    page.wait_for_function("(old) => location.href !== old", arg=old)
    settle(page)
    page.wait_for_function(f"(old) => ({READ_MARKS})().join() !== old.join()", arg=before)
    assert page.evaluate(CUT_OFF) == []
    restored = new_page(viewport={"width": 390, "height": 900})
    restored.goto(page.url)
    settle(restored)
    restored.locator(CHARTS).first.wait_for()
    # pictures may differ by pixels after a change: axes keep the width that they had
    assert len(restored.evaluate(READ_MARKS)) == len(before)
    assert download(restored, "CSV") == download(page, "CSV")
    assert restored.url == page.url
    assert restored.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("view", VIEWS)
def test_the_copied_script_runs_and_prints_the_same_numbers(new_page, server, view, tmp_path):
    controls = CODES[view]
    page = new_page()
    show(page, server, view, controls)
    code = copied(page)
    assert code.strip() == VIEWS[view].code(controls).strip()
    ours = printed(code, tmp_path)
    theirs = pd.read_csv(StringIO(download(page, "CSV").decode()))
    if "part" in theirs:
        part = {"retrieve": ["prediction"], "samples": ["trained", "bayes"], "plan": ["need"]}
        wanted = part.get(view, ["minimum", "ranking"])
        theirs = theirs[theirs["part"].isin(wanted)]
    if view == "landscape":
        theirs = theirs[~theirs["mirror"].astype(bool)]
        ours = ours[ours["part"] == "minimum"]
    column = {"retrieve": "prediction", "plan": "signal", "atlas": "mean_loss"}.get(view, "risk")
    assert len(theirs) > 0
    assert sorted(theirs[column]) == pytest.approx(sorted(ours[column]), rel=1e-5, abs=1e-9)


def test_a_bad_expression_or_number_is_an_error_and_the_page_goes_on(new_page, server):
    page = new_page()
    query = urlencode({"activations": "normalised: exp(", "signal": "-3", "length": "10"})
    page.goto(f"{server}/population?{query}")
    settle(page)
    shown = " ".join(page.get_by_test_id("stAlert").all_inner_texts())
    assert "signal must be a number from 0 to 10000, or inf, got -3" in shown
    assert "activation" in shown
    assert numbers(page)["activation"].tolist() == ["Bayes", "softmax", "linear", "erf", "softplus"]
    before = numbers(page).to_numpy().tolist()
    add(page, "elementwise: 1 + y")
    page.get_by_test_id("stAlert").filter(has_text="the name y is not x").wait_for()
    add(page, "1+x*y*2")  # shown as it was typed, not in italics
    page.get_by_test_id("stAlert").filter(has_text="1+x*y*2").wait_for()
    settle(page)
    assert numbers(page).to_numpy().tolist() == before
    page.locator("[data-testid=stSlider] input").first.focus()
    page.keyboard.press("ArrowRight")  # an accepted change removes the message
    page.wait_for_function("() => !document.querySelector('[data-testid=stAlert]')")
    page.wait_for_function("() => location.search.includes('signal=5')")


@pytest.mark.parametrize("view", ["retrieve", "landscape", "atlas", "plan"])
def test_a_bad_expression_leaves_every_view_as_it_is(new_page, server, view):
    page = new_page()
    show(page, server, view, SETTINGS[view])
    page.locator(CHARTS).first.wait_for()
    before = page.evaluate(READ_ALL)
    add(page, "elementwise: 1 + y")
    page.get_by_test_id("stAlert").filter(has_text="the name y is not x").wait_for()
    settle(page)
    assert page.evaluate(READ_ALL) == before
    assert page.get_by_test_id("stException").count() == 0
    change(page, view)
    page.wait_for_function("() => !document.querySelector('[data-testid=stAlert]')")


def slide(index):
    def act(page):
        page.locator("[data-testid=stSlider] input").nth(index).focus()
        page.keyboard.press("ArrowRight")

    return act


def write(label, text):
    def act(page):
        page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Enter")

    return act


def click(text):
    return lambda page: page.get_by_test_id("stSidebar").get_by_text(text, exact=True).click()


def alone(name):
    def act(page):
        page.get_by_test_id("stSelectbox").locator("input").click()
        page.get_by_role("option", name=name, exact=True).click()

    return act


def type_activation(page):
    page.get_by_test_id("stMultiSelect").locator("input").fill("elementwise: 1 + x/3")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")


SHARED = {
    "signal": slide(0),
    "length": slide(1),
    "noise": slide(2),
    "exact length": write("length or law, such as 1,2,3", "6"),
    "exact noise": write("noise", "0.3"),
    "exact signal": write("signal (inf is allowed)", "6"),
    "task": click("max-SLR"),
    "own activation": type_activation,
}
OWN_CONTROLS = {  # those that others depend on come first
    "retrieve": {
        "draw": click("Draw again"),
        "seed": write("draw number", "7"),
        "alone": alone("linear"),
    },
    "population": {"x": click("the signal")},
    "samples": {
        "best ridges": click("the best ridges"),
        "given ridges": click("given ridges"),
        "ridge of keys": write("ridge of the keys", "2"),
        "ridge of values": write("ridge of the values", "2"),
    },
    "landscape": {"m_kk": write("start: m_kk", "-0.5"), "m_kv": write("start: m_kv", "0.7")},
    "atlas": {"ranking": click("the setting above")},
    "plan": {
        "target": write("this number", "0.5"),
        "demand": click("hit rate at least"),
        "risk": click("risk at most"),
    },
}
LAST = {
    "plan": {
        "no training": write("length or law, such as 1,2,3", "1000"),
        "samples": click("Fewest samples at the signal above"),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_every_control_changes_what_is_shown(new_page, server, view):
    page = new_page()
    controls = replace(SETTINGS[view], activations=("softmax", "linear"))
    show(page, server, view, controls)
    page.get_by_text("Exact values").click()
    page.locator(CHARTS).first.wait_for()
    for name, act in (OWN_CONTROLS[view] | SHARED | LAST.get(view, {})).items():
        page.wait_for_timeout(300.0)
        before, address = page.evaluate(READ_ALL), page.url
        act(page)
        page.wait_for_function("(old) => location.href !== old", arg=address)
        if (view, name) != ("plan", "exact signal"):  # a mark of lines that are not there
            page.wait_for_function(f"(old) => ({READ_ALL})() !== old", arg=before)
        assert page.get_by_test_id("stException").count() == 0, name
        assert page.get_by_test_id("stAlert").count() == 0, name


@pytest.mark.parametrize("view", VIEWS)
def test_a_dark_page_of_a_tablet_is_whole(new_page, server, view):
    page = new_page(color_scheme="dark", viewport={"width": 800, "height": 900})
    show(page, server, view, SETTINGS[view])
    page.locator(CHARTS).first.wait_for()
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 800
    ground = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    assert max(map(int, re.findall(r"\d+", page.evaluate(ground))[:3])) < 64
    ink = "() => getComputedStyle(document.querySelector('svg.marks text')).fill"
    assert min(map(int, re.findall(r"\d+", page.evaluate(ink))[:3])) > 128


def test_the_server_says_the_address_of_the_view_that_was_asked_for(new_page, tmp_path):
    log = tmp_path / "log"
    with live_explorer(log, "--view", "plan"):
        page = new_page()
        page.goto(log.read_text().split()[0])
        page.get_by_role("heading", name=VIEWS["plan"].title).wait_for()
        settle(page)


def test_a_click_after_typing_an_activation_is_not_lost(new_page, server):
    page = new_page()
    show(page, server, "retrieve", SETTINGS["retrieve"])
    add(page, "elementwise: 1 + x/3")
    page.wait_for_function("() => location.search.includes('elementwise')")
    settle(page)
    place = page.get_by_role("button", name="Draw again").bounding_box()
    page.mouse.move(place["x"] + 20.0, place["y"] + place["height"] / 2.0)
    page.mouse.down()
    # the box has lost the focus: nothing may move before the mouse is let go
    page.wait_for_function("() => !document.activeElement?.closest('[data-testid=stMultiSelect]')")
    page.mouse.up()
    page.wait_for_function("() => location.search.includes('seed=2')")


def test_a_bad_number_stays_on_the_page_while_it_computes(new_page, server):
    page = new_page()
    slow = Controls(signal=4.3, length="6", activations=("linear",), noise=0.2)
    page.goto(address(server, "samples", slow))
    page.get_by_text(re.compile(r"computing: \d+ of \d+")).wait_for()
    page.get_by_text("Exact values").click()
    page.get_by_label("noise", exact=True).fill("-1")
    page.keyboard.press("Enter")
    refused = page.get_by_test_id("stAlert").filter(has_text="noise must be a number from 0 to 10")
    refused.wait_for()
    progress = page.get_by_test_id("stProgress")
    for _ in range(2):  # the page is drawn again after each
        page.wait_for_function(
            "(before) => document.querySelector('[data-testid=stProgress]')?.innerText !== before",
            arg=progress.inner_text(),
        )
    assert refused.is_visible()


def test_a_click_into_the_landscape_starts_the_flow_there(new_page, server):
    page = new_page()
    show(page, server, "landscape", SETTINGS["landscape"])
    chart = page.locator(CHARTS).first
    chart.wait_for()
    old = page.url
    box = chart.locator("g.mark-rect").first.bounding_box()
    page.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 0.3 * box["height"])
    page.wait_for_function("(old) => location.href !== old", arg=old)
    settle(page)
    assert "m_kk=0.4" not in page.url
    assert float(re.search(r"m_kk=([\d.]+)", page.url).group(1)) > 0.5


def pick(page, x, y):
    """Click into the plane of the landscape; return the start of the flow in the address."""
    page.locator(CHARTS).first.wait_for()
    box = page.locator(CHARTS).first.locator("g.mark-rect").first.bounding_box()
    old = page.url
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.wait_for_function("(old) => location.href !== old", arg=old)
    settle(page)
    return re.search(r"m_kk=([-\d.]+)&m_kv=([-\d.]+)", page.url).groups()


def test_a_click_on_the_same_place_after_a_start_was_typed_counts(new_page, server):
    page = new_page()
    show(page, server, "landscape", SETTINGS["landscape"])
    picked = pick(page, 0.8, 0.3)
    page.get_by_label("start: m_kk", exact=True).fill("-0.5")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search.includes('m_kk=-0.5')")
    settle(page)
    assert pick(page, 0.8, 0.3) == picked


@pytest.mark.parametrize("view", ["population", "landscape"])
def test_the_browser_goes_back_and_forward(new_page, server, view):
    """Also to another view."""
    page = new_page()
    show(page, server, view, SETTINGS[view])
    first, before = page.url, numbers(page).to_numpy().tolist()
    slider = page.locator("[data-testid=stSlider] input").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(old) => location.href !== old", arg=first)
    page.wait_for_function(  # a table is absent while it is computed again
        f"""(rows) => {{
          const now = ({READ_TABLE})().slice(1);
          return now.length > 0 && JSON.stringify(now) !== JSON.stringify(rows);
        }}""",
        arg=before,
    )
    settle(page)
    second, after = page.url, numbers(page).to_numpy().tolist()

    def shows(address, rows):
        page.wait_for_url(address)
        page.wait_for_function(
            f"(rows) => JSON.stringify(({READ_TABLE})().slice(1)) === JSON.stringify(rows)",
            arg=rows,
        )

    page.go_back()
    shows(first, before)
    page.go_forward()
    shows(second, after)
    page.get_by_role("link", name="Retrieve").click()
    page.get_by_role("heading", name="Retrieve").wait_for()
    settle(page)
    page.go_back()
    if "landscape" not in page.url and "population" not in page.url:  # the address without values
        page.go_back()
    shows(second, after)


@pytest.mark.parametrize("act", ["button", "click", "view"])
def test_a_later_change_removes_the_message_on_a_refused_value(new_page, server, act):
    page = new_page()
    view = {"button": "retrieve", "click": "landscape", "view": "population"}[act]
    show(page, server, view, SETTINGS[view])
    page.get_by_text("Exact values").click()
    page.get_by_label("noise", exact=True).fill("-1")
    page.keyboard.press("Enter")
    refused = page.get_by_test_id("stAlert").filter(has_text="noise must be a number from 0 to 10")
    refused.wait_for()
    settle(page)
    if act == "button":
        page.get_by_role("button", name="Draw again").click()
    elif act == "click":
        pick(page, 0.8, 0.3)
    else:
        page.get_by_role("link", name="Retrieve").click()
        page.get_by_role("heading", name="Retrieve").wait_for()
    refused.wait_for(state="detached")


def test_the_first_view_has_an_address_of_its_name(new_page, server):
    page = new_page()
    page.goto(f"{server}/retrieve?{urlencode(SETTINGS['retrieve'].to_query())}")
    settle(page)
    assert page.get_by_text("Page not found").count() == 0
    assert page.get_by_role("link", name="Retrieve").count() == 1
    assert numbers(page)["activation"].tolist() == ["Bayes", "softmax", "linear"]


def test_views_share_what_is_set(new_page, server):
    page = new_page()
    show(page, server, "population", Controls(signal=5.0, length="20", activations=("linear",)))
    page.get_by_role("link", name="Retrieve").click()
    page.get_by_role("heading", name="Retrieve").wait_for()
    settle(page)
    assert "signal=5" in page.url
    assert "length=20" in page.url
    assert numbers(page)["activation"].tolist() == ["Bayes", "linear"]


def test_what_takes_long_shows_its_progress_and_what_is_known(new_page, server):
    page = new_page()
    slow = Controls(signal=4.7, length="6", activations=("linear",), noise=0.1)
    page.goto(address(server, "samples", slow))
    page.get_by_test_id("stProgress").wait_for()
    page.get_by_text(re.compile(r"computing: \d+ of \d+")).wait_for()
    page.locator(CHARTS).first.wait_for()
    page.get_by_text("their risk is an upper bound").wait_for()
