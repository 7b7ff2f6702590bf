"""The documentation: its build, its links, what it loads, its formulas and its reference."""

import importlib.util
import inspect
import json
import os
import pydoc
import re
import runpy
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import slrlab
from slrlab.cli.main import app
from slrlab.experiments.claims import CLAIMS
from slrlab.explorer.views import VIEWS
from slrlab.figures.registry import FIGURES, TABLES

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"<(?:a|link|script|img|iframe|source)\b[^>]*?\s(?:href|src)=\"([^\"]*)\"")
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\s(?:href|src)=\"([^\"]*)\"")
IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')]*)|@import\s+[\"']([^\"']*)")


def build(folder, *options):
    """Build a copy of the documentation, every warning an error, and return the folder of the site.

    The gallery is written among the pages: in a copy, builds do not meet.
    """
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("gallery"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "CONTRIBUTING.md", folder)  # a page shows a part of it
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    places = ["-d", folder / "doctrees", folder / "docs", folder / "site"]
    done = subprocess.run(
        [*command, *options, *places],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def pages_of(site):
    """Return the text of each page of a site; what the theme copies along is no page."""
    paths = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    return {path: path.read_text(encoding="utf-8") for path in paths}


def broken_links(site):
    """Return the links of a site that lead to no file, or to no heading of one."""
    pages = pages_of(site)
    names = {path: set(re.findall(r"\bid=\"([^\"]*)\"", text)) for path, text in pages.items()}
    explorer = {site.resolve() / "explorer" / f"{name}.html" for name in ("index", *VIEWS)}
    broken = []
    for path, text in pages.items():
        for link in map(unescape, LINK.findall(text)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target in explorer and not parts.fragment:  # `make docs` writes it
                continue
            known = names.get(target, set())
            fragment = unquote(parts.fragment)
            if not target.exists() or (fragment and fragment not in known):
                broken.append((path.relative_to(site).as_posix(), link))
    return broken


def loaded_from_elsewhere(site):
    """Return what pages and their style sheets load from another place than the site."""
    result = [url for text in pages_of(site).values() for url in LOADED.findall(text)]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        result += ["".join(pair) for pair in IN_STYLE.findall(text)]
    return [url for url in result if url.startswith(("http:", "https:", "//"))]


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """All pages, without the entries of the reference and without running the gallery."""
    return build(tmp_path_factory.mktemp("brief"), "-t", "brief", "-D", "plot_gallery=0")


@pytest.mark.slow
def test_pages_build_strictly_with_what_the_code_says(brief):
    pages = pages_of(brief)
    assert any("<math" in text for text in pages.values())
    guide = pages[brief / "guide" / "command-line.html"]
    for words in (*(one.callback.__name__ for one in app.registered_commands), *FIGURES):
        spelled = (f"slrlab {words}", f"slrlab figure {words}")
        assert any(f">{part}</" in plain_code(guide) for part in spelled), words
    assert 'id="search-results"' in pages[brief / "search.html"]
    assert (brief / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")


def plain_code(text):
    """Return a page in which code is one piece of text."""
    return re.sub(r"</span>(\s*)<span class=\"pre\">", r"\1", text)


@pytest.mark.slow
def test_pages_lead_nowhere_wrong_and_need_no_network(brief):
    assert broken_links(brief) == []
    assert loaded_from_elsewhere(brief) == []


def test_wrong_links_and_foreign_files_are_noticed(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a class="x" href="b.html#no">b</a><a href="#top">a</a>'
        '<a href="c.html">c</a><a href="https://example.org">out</a>'
        '<iframe src="explorer/population.html"></iframe><a href="explorer/map.html">map</a>'
        '<script async src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="yes">B</h1>')
    (tmp_path / "s.css").write_text('@import "//example.org/s.css"; a {background: url(b.png)}')
    broken = [("a.html", link) for link in ("b.html#no", "c.html", "explorer/map.html")]
    assert broken_links(tmp_path) == broken
    foreign = ["https://example.org/x.js", "//example.org/s.css"]
    assert loaded_from_elsewhere(tmp_path) == foreign


@pytest.mark.slow
def test_the_whole_documentation_builds_and_runs_the_gallery(tmp_path):
    site = build(tmp_path)
    assert broken_links(site) == []
    assert loaded_from_elsewhere(site) == []
    pages = pages_of(site)
    text = "".join(text for path, text in pages.items() if path.parent.name == "reference")
    for name in slrlab.__all__:
        assert f'id="slrlab.{name}"' in text, name
    for address in inventories().values():
        assert f'href="{address}' in text, address
    scripts = sorted((ROOT / "examples").glob("*.py"))
    assert len(scripts) >= 6
    for script in scripts:
        page = pages[site / "gallery" / f"{script.stem}.html"]
        if "plt" in script.read_text(encoding="utf-8"):
            assert f"sphx_glr_{script.stem}_001.png" in page, script.name
        assert "Axes:" not in page, script.name
        printed = re.findall(r'class="sphx-glr-script-out.*?</pre>', page, re.DOTALL)
        assert printed, script.name
        assert "matplotlib." not in "".join(printed), script.name
        (notebook,) = site.rglob(f"{script.stem}.ipynb")
        kinds = [
            output["output_type"]
            for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            for output in cell.get("outputs", [])
        ]
        assert "stream" in kinds, script.name
        assert "display_data" in kinds, script.name


def load(name):
    """Return a module of the folder ``docs``."""
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location(f"docs{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_outputs_of_a_notebook_are_those_of_the_page(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.png").write_bytes(b"picture")
    head = ".. GENERATED FROM PYTHON SOURCE LINES 1-2\n\n"
    code = f"{head}.. code-block:: Python\n\n    print(1)\n\n"
    page = f"{head}A text.\n\n{code}"
    page += ".. image-sg:: /gallery/images/one.png\n   :alt: one\n\n"
    page += f" .. code-block:: none\n\n    a\n      b\n\n    c\n\n.. rst-class:: x\n\n{code}"
    (printed, picture), second = load("_gallery").outputs_of(page, tmp_path)
    assert picture["data"] == {"image/png": "cGljdHVyZQ=="}
    assert printed["text"] == "a\n  b\n\nc\n"
    assert second == []


def test_the_gallery_has_an_order_for_each_script():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert sorted(scripts) == sorted(load("_gallery").ORDER)


class _NoTags:
    """The tags of a build without any."""

    def has(self, name):
        return False


def inventories():
    """Return the addresses of the names of other projects that the configuration lists."""
    from sphinx.util.inventory import InventoryFile

    conf = runpy.run_path(str(ROOT / "docs" / "conf.py"), {"tags": _NoTags()})
    assert "sphinx.ext.intersphinx" in conf["extensions"]
    result = {}
    for address, path in conf["intersphinx_mapping"].values():
        content = (ROOT / "docs" / path).read_bytes()
        for names in InventoryFile.loads(content, uri=address).data.values():
            result |= {name: item.uri for name, item in names.items()}
    return result


def test_the_names_of_other_projects_exist_and_are_listed_in_the_clone(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [*sys.path])
    addresses = inventories()
    assert {"float", "numpy.ndarray", "pandas.DataFrame", "matplotlib.axes.Axes"} <= set(addresses)
    for name, address in addresses.items():
        assert pydoc.locate(name) is not None, name
        assert address.startswith("https://"), name
        assert address.endswith(f".html#{name}"), address


def test_each_public_name_is_on_one_page_of_the_reference():
    names_of = load("_reference").names_of
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    listed = [name for page in pages for name in names_of(page.read_text(encoding="utf-8"))]
    assert sorted(listed) == sorted(slrlab.__all__)


def test_the_table_of_the_paper_names_what_exists():
    covered, _ = rows_of_the_paper()
    claims = set()
    for paper, _, python, tests, claim, reading in covered:
        for name in re.findall(r"`(.+?)`", python):
            kind, _, which = name.removeprefix("slrlab ").partition(" ")
            listed = {"figure": FIGURES, "table": TABLES}.get(kind, slrlab.__all__)
            assert (which or name) in listed, (paper, name)
        for test in re.findall("`(.+?)`", tests):
            assert len(list((ROOT / "tests").rglob(f"{test}.py"))) == 1, (paper, test)
        assert reading.startswith(("paper", "ours")), paper
        claims.add(claim)
    assert claims - {""} == set(CLAIMS)


def rows_of_the_paper():
    """Return the cells of the two tables of the page: what covers the paper, and each claim."""
    text = (ROOT / "docs" / "theory" / "paper.md").read_text(encoding="utf-8")
    parts = text.split("## How each claim is checked")
    rows = [[line for line in part.splitlines() if line.startswith("| ")][1:] for part in parts]
    return [[[cell.strip() for cell in row.split("|")[1:-1]] for row in part] for part in rows]


def test_the_table_of_the_claims_names_what_each_calls():
    _, checked = rows_of_the_paper()
    assert [name for name, *_ in checked] == list(CLAIMS)
    for name, one, other, functions, test in checked:
        assert one, name
        assert other, name
        source = inspect.getsource(inspect.getmodule(CLAIMS[name].run))
        for function in re.findall("`(.+?)`", functions):
            assert f"{function}(" in source, (name, function)
        (file,) = re.findall("`(.+?)`", test)
        assert len(list((ROOT / "tests").rglob(f"{file}.py"))) == 1, (name, file)


@pytest.mark.parametrize(
    ("source", "bars"),
    [
        (r"\tfrac12 r_k \lVert k \rVert^2", 2),
        (r"\lvert x \rvert + |y| + \|z\|", 6),
        (r"\left| \frac12 \right|", 0),
    ],
)
def test_bars_grow_only_between_left_and_right(source, bars):
    formula = load("_math").mathml(source)
    attributes = re.findall(r"<mo([^>]*)>&#x0(?:2016|007C);</mo>", formula)
    assert sum('stretchy="false"' in text for text in attributes) == bars
    assert all("stretchy" in text for text in attributes)


def test_aligned_lines_are_a_table():
    formula = load("_math").mathml(r"\begin{aligned} A &= b, & B &= c \\ P &= d \end{aligned}")
    assert formula.count("<mtr>") == 2
    assert "&<" not in formula


def test_a_formula_that_cannot_be_read_stops_the_build():
    from sphinx.errors import ExtensionError

    with pytest.raises(ExtensionError, match="formula not understood"):
        load("_math").mathml("a & b")

    with pytest.raises(ExtensionError, match=r"^formula not understood: \\nosuchcommand$"):
        load("_math").mathml(r"\nosuchcommand")
