"""Static pages in a real browser, from disk and without a network: every view."""

import contextlib
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pandas as pd
import pytest

from live_explorer import CUT_OFF
from slrlab import SpikedSLR, draw_haystack, minimal_risk, require
from slrlab.cli.main import main
from slrlab.experiments.stored import stored_trained_row, table
from slrlab.explorer import charts, static
from slrlab.explorer.static import build_static
from slrlab.explorer.views import VIEWS

pytest.importorskip("vl_convert")
pytest.importorskip("playwright")
pytestmark = pytest.mark.extra

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXPLORER_LINK = re.compile(r"(?:href|src)=\"[./]*explorer/([^\"]+)\"")
READ_TABLE = """() => [...document.querySelectorAll("#numbers tr")]
    .map((row) => [...row.children].map((cell) => cell.innerText.trim()))"""
READ_MARKS = """() => [...document.querySelectorAll(".panels:not([hidden]) svg")]
    .map((svg) => [...svg.querySelectorAll("path")].map((path) =>
        `${path.getAttribute("d")}${path.getAttribute("transform")}${path.getAttribute("fill")}`)
        .join())"""
ASKED = {  # what a reader chooses, and what it means for the controls
    "retrieve": ({"length": "1000"}, {"length": "1000"}),
    "population": ({"signal": "10", "length": "100"}, {}),
    "samples": ({"signal": "8"}, {"signal": 8.0}),
    "landscape": ({"start": "(1.5, 0.3)"}, {"m_kk": 1.5, "m_kv": 0.3}),
    "atlas": ({"by": "spiked ν=9 L=100"}, {}),
    "plan": ({"target": "0.2", "length": "100"}, {"target": 0.2, "length": "100"}),
}


@pytest.fixture
def show(new_page, static_page):
    """Return what opens a static page from disk with the network off."""

    def opened(view, hash_="", width=1440):
        page = new_page(viewport={"width": width, "height": 900})
        page.context.set_offline(True)
        page.goto(static_page(view) + hash_)
        page.locator("body[data-ready=yes]").wait_for()
        return page

    return opened


def numbers(page):
    head, *rows = page.evaluate(READ_TABLE)
    return pd.DataFrame(rows, columns=head).set_index(head[0])


def choose(page, name, value):
    """Set a control as a reader would: a menu, or a slider by its keys."""
    control = page.locator(f"#{name}")
    if control.evaluate("(element) => element.tagName") == "SELECT":
        control.select_option(label=value)
    else:
        place = page.evaluate(
            "([name, value]) => page.choices.find((one) => one.name === name).values"
            ".findIndex((one) => String(one) === value)",
            [name, value],
        )
        control.fill(str(place))
    page.wait_for_function(
        "([name, value]) => String(JSON.parse(document.body.dataset.state)[name]) === value",
        arg=[name, value],
    )


def chosen(show, view):
    page = show(view)
    for name, value in ASKED[view][0].items():
        choose(page, name, value)
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_controls_change_the_picture_and_the_address_restores_it(show, view):
    page = show(view)
    assert page.get_by_role("heading", level=1).inner_text() == VIEWS[view].title
    assert VIEWS[view].about in page.inner_text("body")
    before = page.evaluate(READ_MARKS)
    assert min(map(len, before)) > 200  # curves, not only axes
    for name, value in ASKED[view][0].items():
        choose(page, name, value)
    after = page.evaluate(READ_MARKS)
    assert after != before
    again = show(view, page.evaluate("() => location.hash"))
    # axes may have another width after a change than at once: pictures differ by pixels
    assert len(again.evaluate(READ_MARKS)) == len(after)
    assert again.evaluate(READ_MARKS) != before
    for read in ("() => document.body.dataset.state", READ_TABLE):
        assert again.evaluate(read) == page.evaluate(read)
    narrow = show(view, page.evaluate("() => location.hash"), width=390)
    assert narrow.evaluate("() => document.documentElement.scrollWidth") <= 390
    for one in (page, narrow):
        assert one.evaluate(CUT_OFF) == []


def test_the_pages_that_the_documentation_names_are_written(tmp_path, monkeypatch):
    linked = set()
    for page in DOCS.rglob("*.md"):
        linked |= set(EXPLORER_LINK.findall(page.read_text(encoding="utf-8")))
    assert {"retrieve.html", "population.html", "samples.html", "index.html"} <= linked
    monkeypatch.setattr(static, "static_page", lambda *_: "")  # others open what it returns
    with pytest.raises(SystemExit) as stop:
        main(["explore", "--static", str(tmp_path)])
    assert stop.value.code == 0
    assert linked <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("width", [720, 350])
def test_charts_inside_the_story_are_drawn(new_page, static_page, tmp_path, width):
    story = (DOCS / "start" / "why-softmax.md").read_text(encoding="utf-8")
    frames = re.findall(r"<iframe .*?</iframe>", story)
    assert len(frames) == 3
    assert all(re.search(r' title="[^"]+"', frame) for frame in frames)
    for view in EXPLORER_LINK.findall("".join(frames)):
        address = static_page(view.removesuffix(".html"))
        (tmp_path / "explorer").mkdir(exist_ok=True)
        shutil.copy(url2pathname(urlsplit(address).path), tmp_path / "explorer" / view)
    (tmp_path / "start").mkdir()
    path = tmp_path / "start" / "story.html"
    style = "<style>iframe {width: 100%; height: 46rem}</style>"
    path.write_text(style + "\n".join(frames), encoding="utf-8")
    page = new_page(viewport={"width": width, "height": 900})
    page.context.set_offline(True)
    page.goto(path.as_uri())
    for place in page.locator("iframe").all():
        place.scroll_into_view_if_needed()
        inside = place.element_handle().content_frame()
        inside.wait_for_selector("body[data-ready=yes]")
        assert min(map(len, inside.evaluate(READ_MARKS))) > 200


def test_retrieve_has_the_librarys_numbers(show):
    page = chosen(show, "retrieve")
    drawn = draw_haystack(SpikedSLR(16.0, 1000), seed=1)
    shown = numbers(page)["prediction"].astype(float).to_dict()
    assert shown == pytest.approx(drawn.predictions, rel=1e-4)


def test_population_has_the_librarys_numbers(show):
    shown = numbers(chosen(show, "population"))["risk"].astype(float)
    for name in ("softmax", "linear", "erf", "softplus"):
        assert shown[name] == pytest.approx(minimal_risk(SpikedSLR(10.0, 100), name).risk, rel=1e-4)


def test_samples_have_the_stored_numbers(show):
    page = chosen(show, "samples")
    assert "Hard phase (shaded)" in show("samples").inner_text("#notes")
    assert "Fixed: spiked-SLR, length L = 3, noise Δ = 0" in page.inner_text("body")
    shown = numbers(page).loc["linear"].set_index("alpha")["risk"].astype(float)
    for alpha, risk in shown.items():
        row = stored_trained_row(SpikedSLR(8.0, 3), "linear", float(alpha))
        assert risk == pytest.approx(row["risk"], rel=1e-4)


def test_landscape_has_the_librarys_minima(show):
    page = chosen(show, "landscape")
    assert numbers(page)["at infinity"].tolist() == ["no", "no"]  # without mirror images
    assert "From (1.5, 0.3) the flow leads to the matched minimum" in page.inner_text("#notes")
    assert "L = 10" in page.inner_text("body")
    shown = numbers(page)["risk"].astype(float)
    assert shown["matched"] == pytest.approx(minimal_risk(SpikedSLR(2.0, 10), "softmax").risk, 1e-4)
    box = page.locator("g.mark-rect").first.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.wait_for_function(
        "() => JSON.parse(document.body.dataset.state).start.startsWith('(-1.5')"
    )


def test_the_atlas_is_ranked_by_a_setting_and_sorted_by_a_click(show):
    page = chosen(show, "atlas")
    own = table("atlas")
    own = own[own["setting"] == ASKED["atlas"][0]["by"]].sort_values("loss", kind="stable")
    shown = numbers(page)
    assert shown["mean loss"].astype(float).tolist() == pytest.approx(
        own["loss"].tolist(), rel=1e-4, abs=1e-12
    )
    page.get_by_role("columnheader", name="activation").click()
    names = numbers(page)["activation"].tolist()
    assert names == sorted(names)
    assert names != shown["activation"].tolist()


def test_plan_has_what_require_answers(show):
    page = chosen(show, "plan")
    assert "linear cannot at signals up to 100" in page.inner_text("#notes")
    assert "softmax" not in page.inner_text("#notes")
    shown = numbers(page)["signal"].astype(float)
    result = require(risk=0.2, length=100, activations=["softmax", "erf"])
    for need in result.needs:
        assert shown[need.activation] == pytest.approx(need.signal, rel=0.005)
    assert "linear" not in shown  # it would need more than the table has


@pytest.mark.parametrize("view", VIEWS)
def test_the_script_is_that_of_the_live_explorer(show, view):
    page = chosen(show, view)
    code = page.locator("#code").text_content()
    assert len(code) > 100
    compile(code, view, "exec")
    if view == "population":
        start = replace(VIEWS[view].start, signal=10.0, length="100")
        assert code == VIEWS[view].code(start)
    elif ASKED[view][1]:
        assert code == VIEWS[view].code(replace(VIEWS[view].start, **ASKED[view][1]))
    assert VIEWS[view].formula.count("\\") > 1
    page.get_by_text("Formula and Python").click()
    assert page.locator("details img").bounding_box()["width"] > 50
    page.locator("#copy").click()
    page.locator("#copy", has_text="Copied").wait_for()
    page.evaluate("() => document.body.prepend(document.createElement('textarea'))")
    page.locator("textarea").focus()
    page.keyboard.press("Control+V")  # a page from disk may not read what it has copied
    assert page.locator("textarea").input_value().strip() == code.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "column", "accuracy"),
    # six digits of a page; lines of the plan are interpolated
    [("retrieve", "prediction", 1e-4), ("landscape", "risk", 1e-4), ("plan", "signal", 0.005)],
)
def test_the_script_prints_the_numbers_of_the_page(show, view, column, accuracy):
    page = chosen(show, view)
    shown = numbers(page)[column].astype(float).to_dict()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(page.locator("#code").text_content(), "copied", "exec"), {})
    printed = pd.read_csv(io.StringIO(out.getvalue()))
    if view == "landscape":
        printed = printed[printed["part"] == "minimum"].rename(columns={"kind": "activation"})
    theirs = printed.set_index("activation")[column]
    assert len(shown) > 1
    assert theirs[list(shown)].to_dict() == pytest.approx(shown, rel=accuracy)


@pytest.mark.parametrize("view", VIEWS)
def test_downloads(show, view):
    page = show(view)
    for kind, begin in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", b"")):
        with page.expect_download() as waiting:
            page.locator(f"#{kind}").click()
        data = waiting.value.path().read_bytes()
        assert data.startswith(begin)
        if kind == "svg":
            words = re.findall(r"<text[^>]*>([^<]*)", data.decode())
    compared = {"softmax"} if view == "landscape" else {"softmax", "linear", "erf", "softplus"}
    assert compared <= set(re.split(r"[ ,]+", " ".join(words)))
    assert VIEWS[view].title in words
    assert "noise Δ = 0" in " ".join(words) or view == "atlas"
    frame = pd.read_csv(io.StringIO(data.decode()))
    assert len(frame) > 30
    assert set(frame["activation"]) >= compared


def test_all_pages_are_listed_and_linked(tmp_path):
    names = ["samples", "atlas"]
    paths = build_static(tmp_path, names)
    assert [path.name for path in paths] == ["samples.html", "atlas.html", "index.html"]
    for path in paths[1:]:
        assert "href='samples.html'" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="view must be one of retrieve"):
        build_static(tmp_path, ["map"])


def test_an_address_that_is_not_known_is_said_and_the_page_goes_on(show):
    page = show("population", "#signal=12345&colour=red")
    assert re.search(r"Not known in this address: signal, colour", page.inner_text("#message"))
    assert len(numbers(page)) == 5


def test_the_slider_ends_where_the_numbers_of_the_task_do(show):
    page = show("population", "#task=spiked&signal=100")
    choose(page, "task", "max")
    assert len(numbers(page)) == 5
    state = "() => JSON.parse(document.body.dataset.state).signal"
    page.wait_for_function(f"() => ({state})() === 10")
    assert page.locator("#signal").evaluate("(slider) => slider.value === slider.max")
    choose(page, "task", "spiked")
    page.locator("#signal").press("End")
    page.wait_for_function(f"() => ({state})() === 100")
    page = show("population", "#task=max&signal=100")
    assert "Not known in this address: signal" in page.inner_text("#message")
    assert len(numbers(page)) == 5


def test_a_change_removes_the_message(show):
    page = show("population", "#signal=12345")
    assert "Not known" in page.inner_text("#message")
    choose(page, "signal", "10")
    assert page.inner_text("#message") == ""


def test_hidden_charts_follow_the_window(show):
    page = show("population")
    menu = page.locator("#variant")
    menu.select_option(label="length")
    page.wait_for_function("() => JSON.parse(document.body.dataset.state).variant === 'length'")
    page.set_viewport_size({"width": 800, "height": 900})
    menu.select_option(label="signal")
    page.wait_for_function(
        """() => [...document.querySelectorAll(".panels:not([hidden]) svg")].every((svg) =>
            Math.abs(svg.clientWidth - svg.closest(".panels > div").clientWidth) < 20)"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_in_charts_has_the_colour_of_the_page(new_page, static_page, scheme):
    page = new_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page.goto(static_page("population"))
    page.locator("body[data-ready=yes]").wait_for()
    shown = "(e) => getComputedStyle(e)"
    ink = page.locator("svg text").first.evaluate(f"(e) => ({shown})(e).fill")
    assert ink == page.locator("body").evaluate(f"(e) => ({shown})(e).color")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_legend_are_lightened_on_a_dark_page(new_page, static_page, scheme):
    page = new_page(color_scheme=scheme)
    page.goto(static_page("population"))
    page.locator("body[data-ready=yes]").wait_for()
    compared = ["softmax", "linear", "erf", "softplus"]
    shades = [charts.color_of(name, compared) for name in compared]
    wanted = charts.on_dark(shades) if scheme == "dark" else shades
    lines = """() => [...document.querySelectorAll("g.mark-line path")]
        .map((path) => path.getAttribute("stroke"))"""
    assert {shade.lower() for shade in wanted} <= {shade.lower() for shade in page.evaluate(lines)}
    first = (
        page.locator(".legend span span").nth(1).evaluate("(e) => getComputedStyle(e).background")
    )
    channels = ", ".join(str(int(wanted[0][i : i + 2], 16)) for i in (1, 3, 5))
    assert f"rgb({channels})" in first
