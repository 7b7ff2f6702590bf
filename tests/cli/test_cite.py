"""The command cite."""

import json
import re
from pathlib import Path

import slrlab

CITATION = Path(__file__).resolve().parents[2] / "CITATION.cff"


def test_the_entries_say_what_the_citation_file_says(run):
    code, out, err = run("cite")
    assert (code, err) == (0, "")
    written = CITATION.read_text(encoding="utf-8")
    families = re.findall(r"family-names: (\w+)", written)
    assert len(families) == 5
    plain = out.replace(r"{\'a}", "á")
    for words in (" and ".join(families), *re.findall(r'title: "(.+)"', written)):
        assert words in plain, words
    for pattern in (r"arXiv:([\d.]+)\"", r"^license: (\S+)", r"name: \"(.+)\"", r"  year: (\d+)"):
        assert re.search(pattern, written, re.M).group(1) in plain, pattern
    assert f"version = {{{slrlab.__version__}}}" in out
    assert f"version: {slrlab.__version__}\n" in written


def test_braces_are_balanced(run):
    _, out, _ = run("cite")
    entries = out.strip().split("\n\n")
    assert [entry.split("{")[0] for entry in entries] == ["@software", "@inproceedings"]
    assert all(entry.count("{") == entry.count("}") for entry in entries)


def test_json_has_both_entries(run):
    code, out, _ = run("cite", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["software", "paper"]
