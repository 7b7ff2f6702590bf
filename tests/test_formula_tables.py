"""The tables of the pages that name the function and the file of each formula."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_FORMULAS = {"index", "limits", "paper"}  # theory pages that derive nothing
WITH_FORMULAS = {  # other pages that do
    *("guide/capacity", "guide/diagnosis", "guide/labels", "guide/length-transfer"),
    *("guide/simulation", "maintainer/architecture"),
}


def definitions(path):
    """Return the functions, classes and methods that a file defines."""
    functions = (ast.FunctionDef, ast.ClassDef)
    top = ast.parse(path.read_text(encoding="utf-8")).body
    names = {node.name for node in top if isinstance(node, functions)}
    classes = (node for node in top if isinstance(node, ast.ClassDef))
    return names | {
        f"{node.name}.{part.name}"
        for node in classes
        for part in node.body
        if isinstance(part, functions)
    }


def undefined(page):
    """Return the sections, files and functions of a table "Where it is computed" that are not."""
    table = page.partition("## Where it is computed\n")[2].partition("\n## ")[0]
    headings = set(re.findall(r"^#+ (.+)$", page, re.M))
    wrong = []
    for line in (line for line in table.splitlines() if line.startswith("| ")):
        *_, section, functions, file = (part.strip() for part in line.split("|")[1:-1])
        path = ROOT / "src" / "slrlab" / file.strip("`")
        if file != "file":
            title = section.partition("](")[0].removeprefix("[")
            wrong += [(file, title)] if title not in headings else []
            known = definitions(path) if path.is_file() else set()
            wrong += [(file, one) for one in re.findall("`(.+?)`", functions) if one not in known]
    return wrong


def test_formulas_are_computed_where_the_pages_say():
    docs = ROOT / "docs"
    paths = {path.relative_to(docs).with_suffix("").as_posix(): path for path in docs.rglob("*.md")}
    pages = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    tables = {name for name, text in pages.items() if "\n## Where it is computed\n" in text}
    derive = {name for name in pages if name.startswith("theory/")}
    assert tables == derive - {f"theory/{name}" for name in WITHOUT_FORMULAS} | WITH_FORMULAS
    wrong = {name: undefined(pages[name]) for name in tables}
    assert {name: rows for name, rows in wrong.items() if rows} == {}


def test_a_formula_without_its_function_is_noticed():
    row = "| risk | [a](#a) | `bayes_risk`, `BayesRisk.posterior_weight`, `{}` | `{}` |"
    table = (
        "## a\n\n"
        "## Where it is computed\n\n| formula | section | function | file |\n|---|---|---|---|\n"
    )
    file = "theory/population/bayes_risk.py"
    assert undefined(table + row.format("bayes_risk", file)) == []
    assert undefined(table + row.format("gone", file)) == [(f"`{file}`", "gone")]
    assert len(undefined(table + row.format("bayes_risk", "gone.py"))) == 3
    moved = table.replace("## a", "## b") + row.format("bayes_risk", file)
    assert undefined(moved) == [(f"`{file}`", "a")]
