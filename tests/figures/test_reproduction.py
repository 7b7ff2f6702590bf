"""How everything is computed: order, progress, resumption; and the page that shows it."""

import re
import subprocess
import sys

import pandas as pd
import pytest

from slrlab.cli.main import main
from slrlab.experiments.claims import Verdict
from slrlab.experiments.claims.checks import below
from slrlab.experiments.stored import table as stored
from slrlab.figures import draw_figure, registry, report, reproduction
from slrlab.figures.registry import FIGURES, TABLES, figure_module, table_module
from slrlab.figures.report import CLAIMS_ITEM, Contents, figure_item, render
from slrlab.figures.reproduction import Overall, reproduce_all

ITEMS = ["figure 2", "figure 3", "claims"]


def _few(patch):
    """Leave two short figures, no table, one claim."""
    chosen = {name: FIGURES[name] for name in ("length", "2")}
    patch.setattr(registry, "FIGURES", chosen)
    for module in (report, reproduction):
        patch.setattr(module, "TABLES", {})
    check = below("case", ("left", 1.0), ("right", 2.0))
    verdict = Verdict("C4", "text", "A statement.", (check,))
    patch.setattr(reproduction, "run_claims", lambda report: [verdict])
    patch.setattr(reproduction, "_compile", lambda report: None)


@pytest.fixture
def few(monkeypatch):
    _few(monkeypatch)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return the folder of a first run, its pages and lines, its files and whether claims hold."""
    folder, pages, lines = tmp_path_factory.mktemp("reproduction"), [], []
    with pytest.MonkeyPatch.context() as patch:
        _few(patch)
        patch.setattr(
            reproduction, "_replace", lambda path, text: pages.append(text) or path.write_text(text)
        )
        paths, holds = reproduce_all(
            folder,
            profile="toy",
            report=lambda done, total, line: lines.append((done, total, line)),
        )
    return folder, pages, lines, paths, holds


def test_the_page_is_there_with_the_first_figure_and_grows(first):
    folder, pages, lines, paths, holds = first
    assert holds
    assert paths[-1] == folder / "report.html"
    shown = [page.count("data:image/png") for page in pages]
    assert shown == [1, 2, 2]
    assert ["Pending: figure 2, claims" in page for page in pages] == [True, False, False]
    assert [">pending<" in page for page in pages] == [True, True, False]
    assert "1 of 1 claims hold" in pages[-1]
    shares = [done for done, *_ in lines]
    assert shares == sorted(shares)  # never starts again
    assert shares[-1] == 1000
    assert {total for _, total, _ in lines} == {1000}
    assert lines[0][2].startswith("item 1 of 3: figure length, 0 %, about ")
    assert any(line.startswith("item 3 of 3: claims, ") for *_, line in lines)
    assert any(line.endswith(f"; see {paths[-1]}") for *_, line in lines)


def test_a_second_run_computes_nothing(first, few, monkeypatch):
    folder = first[0]
    kept = {path: path.read_bytes() for path in folder.glob("figure-*.csv")}
    assert len(kept) == 2
    monkeypatch.setattr("slrlab.figures.points.minimal_risk", None)  # a call would fail
    reproduce_all(folder, profile="toy")
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.slow
def test_several_workers_give_the_same_files(tmp_path, few, monkeypatch):
    reproduce_all(tmp_path / "one", profile="toy")
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    lines = []
    paths, holds = reproduce_all(
        tmp_path / "two", profile="toy", report=lambda *line: lines.append(line)
    )
    assert holds
    assert [done for done, *_ in lines] == sorted(done for done, *_ in lines)
    assert lines[-1] == (1000, 1000, "all 3 items")
    for path in paths:
        if path.suffix == ".csv":
            assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()


def test_an_error_in_one_item_ends_the_run(tmp_path, few, monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    monkeypatch.setattr(reproduction, "draw_figure", lambda *item: [])
    monkeypatch.setattr(reproduction, "render", lambda contents: "page")

    def compute(name, out, **_):
        raise ValueError(f"figure {name} fails")

    monkeypatch.setattr(reproduction, "compute_figure", compute)
    with pytest.raises(ValueError, match="figure length fails"):
        reproduce_all(tmp_path, profile="toy")


def test_the_line_about_the_whole_run(tmp_path, monkeypatch):
    costs = {"figure 2": 10.0, "figure 3: theory": 60.0, "claims": 30.0}
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(reproduction.time, "monotonic", lambda: float(next(clock)))
    lines = []
    overall = Overall(ITEMS, tmp_path / "page", costs, lambda *line: lines.append(line))
    overall.stage(0, 10, "figure 2")
    # at first as expected: two workers, each a second of cost a second
    assert lines[-1] == (0, 1000, "item 1 of 3: figure 2, 0 %, about 1 min left")
    overall.stage(10, 10, "figure 2")
    assert lines[-1][:2] == (100, 1000)
    overall.stage(0, 6, "figure 3: theory")
    overall.stage(3, 6, "figure 3: theory")
    overall.ended("figure 2")
    line = f"item 2 of 3: figure 3, 40 %, about 1 min left; see {tmp_path / 'page'}"
    assert lines[-1] == (400, 1000, line)
    overall.stage(1, 6, "figure 3: theory")  # late news of another thread
    assert lines[-1][0] == 400
    for item in ITEMS[1:]:
        overall.ended(item)
    assert lines[-1] == (1000, 1000, "all 3 items")


def test_what_was_known_before_says_nothing_about_the_speed(tmp_path, monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
    monkeypatch.setattr(reproduction.time, "monotonic", lambda: 0.0)
    overall = Overall(ITEMS, tmp_path / "page", {"figure 2": 100.0, "figure 3": 100.0})
    overall.stage(5, 5, "figure 2")
    assert str(overall) == "item 1 of 3: figure 2, 50 %, about 2 min left"


def test_the_items_that_need_no_compiled_code_come_first(tmp_path):
    items = list(reproduction._items(tmp_path, "full"))
    assert items[-1] == CLAIMS_ITEM
    assert set(items) == {*map(figure_item, FIGURES), *map(report.table_item, TABLES), CLAIMS_ITEM}
    figures = [figure_module(item.split()[1]).ABOUT for item in items if item[:6] == "figure"]
    compiled = [about.compiled for about in figures]
    assert compiled == sorted(compiled)
    assert set(compiled) == {False, True}
    costs = [sum(about.costs.values()) for about in figures]
    first = compiled.index(True)
    assert costs == sorted(costs[:first]) + sorted(costs[first:], reverse=True)


def test_long_figures_are_in_the_report_of_the_full_profile_only(tmp_path):
    quick, toy = (registry.reported_figures(profile) for profile in ("quick", "toy"))
    assert quick == toy
    left = set(FIGURES) - set(quick)
    assert left == {name for name in FIGURES if figure_module(name).ABOUT.report == ("full",)}
    assert {"capacity", "departures", "heads"} <= left
    assert registry.reported_figures("full") == list(FIGURES)
    page = render(Contents(tmp_path, "quick"))
    assert "Figure length" in page
    assert not any(f"Figure {name}:" in page for name in left)
    assert not {figure_item(name) for name in left} & set(reproduction._items(tmp_path, "quick"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in FIGURES if not figure_module(name).ABOUT.compiled]
)
def test_a_figure_says_whether_it_calls_compiled_code(name, tmp_path):
    """A figure that comes first would otherwise compile in every worker at once."""
    script = (
        "import sys, os; os.environ['SLRLAB_WORKERS'] = '1'\n"
        "from slrlab.figures.registry import figure_module\n"
        f"figure_module({name!r}).compute('toy')\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_every_figure_has_a_title_a_caption_and_its_costs():
    for name in FIGURES:
        about = figure_module(name).ABOUT
        sentences = re.findall(r"[^.!?]+[.!?](?:\s|$)", about.caption)
        assert about.title
        assert 2 <= len(sentences) <= 4, name
        assert "\n" not in about.caption, name
        assert min(about.costs.values()) > 0.0, name
    assert all(table_module(name).ABOUT.title for name in TABLES)


def test_the_page_shows_captions_and_escapes_what_files_say(tmp_path, first):
    frame = pd.read_csv(first[0] / "figure-2.csv")
    frame["status"] = "<script>alert(1)</script>"
    frame.to_csv(tmp_path / "figure-2.csv", index=False)
    draw_figure("2", tmp_path, frame)
    page = render(Contents(tmp_path, "toy", None, {"figure 2": 1.0}))
    assert f"<figcaption><p>{figure_module('2').ABOUT.caption}</p></figcaption>" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert pd.read_csv(tmp_path / "figure-2.csv")["status"].iloc[0].startswith("<script>")


def test_the_atlas_is_a_ranking_below_its_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "FIGURES", {"atlas": FIGURES["atlas"]})
    frame = stored("atlas")
    frame[frame["activation"].isin(["softmax", "sparsemax", "linear"])].to_csv(
        tmp_path / "figure-atlas.csv", index=False
    )
    draw_figure("atlas", tmp_path, pd.read_csv(tmp_path / "figure-atlas.csv"))
    page = render(Contents(tmp_path, "toy", None, {"figure atlas": 1.0}))
    (ranks,) = re.findall(r"</figure><div class='wide'><table>(.*?)</table>", page)
    cells = re.findall(r"<tr><td>(\d+)</td><td>(\w+)</td>", ranks)
    assert cells == [("1", "softmax"), ("2", "sparsemax"), ("3", "linear")]
    assert "spiked ν=9 L=10000" in ranks


def test_nothing_on_the_page_has_a_fixed_width(tmp_path, few):
    page = render(Contents(tmp_path, "toy"))
    assert "width=device-width" in page
    style = page.split("<style>")[1].split("</style>")[0]
    assert "img{display:block;max-width:100%" in style
    assert not re.search(
        r"(?<![-\w])(min-)?width:\s*\d+(px|rem)", style.replace("td.t{min-width:10rem}", "")
    )
    assert page.count("<table>") == page.count("<div class='wide'><table>")


def test_the_report_links_the_explorer_if_its_pages_are_there_and_else_says_how_to_get_them(
    tmp_path,
):
    link, way = "<a href='explorer/index.html'>", "pip install 'slrlab[explorer]'"
    page = render(Contents(tmp_path, "toy"))
    assert link not in page
    assert way in page
    (tmp_path / "explorer").mkdir()
    (tmp_path / "explorer" / "index.html").touch()
    page = render(Contents(tmp_path, "toy"))
    assert link in page
    assert way not in page


@pytest.mark.extra
def test_with_the_extra_the_pages_of_the_explorer_are_written_unless_told_not_to(
    tmp_path, few, monkeypatch, capsys
):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from slrlab.explorer.views import VIEWS, landscape

    monkeypatch.setattr(landscape, "_STATIC_SIGNALS", (2.0,))  # half the time
    reproduce = ["reproduce", "--profile", "toy", "--out"]
    with pytest.raises(SystemExit) as stopped:
        main([*reproduce, str(tmp_path / "without"), "--no-explorer"])
    assert stopped.value.code == 0
    assert not (tmp_path / "without" / "explorer").exists()
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([*reproduce, str(tmp_path / "with")])
    assert stopped.value.code == 0
    pages = [tmp_path / "with" / "explorer" / f"{name}.html" for name in (*VIEWS, "index")]
    assert set(map(str, pages)) <= set(capsys.readouterr().out.split())
    report_page = (tmp_path / "with" / "report.html").read_text(encoding="utf-8")
    assert "<a href='explorer/index.html'>" in report_page
    written = [page.stat().st_mtime_ns for page in pages]
    with pytest.raises(SystemExit):
        main([*reproduce, str(tmp_path / "with")])
    assert [page.stat().st_mtime_ns for page in pages] == written  # not again
