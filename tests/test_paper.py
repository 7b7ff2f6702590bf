"""The paper: its form, its references, and each number against the committed tables."""

import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "assets" / "tables"
HEAD, BODY = (ROOT / "paper.md").read_text(encoding="utf-8").split("\n---\n", 1)
SECTIONS = ["Summary", "Statement of need", "State of the field", "Software design"]
SETTINGS = {"9", "ten", "10,000", "0", "1", "0.05"}  # what was chosen, not measured
# the words of the paper around each measured number, which stand once in it
SENTENCES = (
    "softmax attention has the Bayes risk, {softmax}.",
    "attention with erf is {erf}, with softplus {softplus} and linear attention has {linear}.",
    "risks are high: {long softmax} for softmax, which is again the Bayes risk,"
    " and {long linear} for linear attention,",
    "has {activations} published activations on {settings} settings, {rows} minimal risks.",
    "The largest stated error is {largest error}.",
    "Softmax equals the Bayes risk within {softmax and Bayes} on all settings.",
    "for {compared} settings of trained attention with {seeds} seeds each,"
    " at dimensions {small dimension} and {large dimension} and extrapolated to infinity.",
    "Of the {p-values} p-values {small p-values} are below 0.05, where {expected} are expected",
    "The smallest is {smallest p-value}, which is not small among {p-values}.",
)


def measured():
    """Return each number that the paper reads from a table, as it prints it."""
    atlas = pd.read_csv(TABLES / "atlas.csv", dtype={"length": str})
    spiked = atlas[(atlas.task == "spiked") & (atlas.signal == 9.0) & (atlas.noise == 0.0)]
    risk = spiked.set_index(["activation", "length"]).risk
    numbers = {name: f"{risk[name, '10']:.4f}" for name in ("softmax", "erf", "softplus", "linear")}
    numbers |= {f"long {name}": f"{risk[name, '10000']:.4f}" for name in ("softmax", "linear")}
    numbers["activations"] = str(atlas.activation.nunique())
    numbers["settings"] = str(len(atlas.groupby(["task", "signal", "length", "noise"])))
    numbers["rows"] = str(len(atlas))
    numbers["largest error"] = f"{atlas.error.max():.1e}"
    softmax = atlas[atlas.activation == "softmax"]
    numbers["softmax and Bayes"] = f"{softmax.excess.abs().max():.1e}"
    agreement = pd.read_csv(TABLES / "figure-agreement-full.csv")
    (seeds,) = agreement.seeds.unique()
    numbers["compared"] = str(agreement.number.nunique())
    numbers["seeds"] = str(seeds)
    small, large, _ = sorted(agreement.dim.unique())
    numbers |= {"small dimension": f"{small:.0f}", "large dimension": f"{large:.0f}"}
    numbers["p-values"] = str(len(agreement))
    numbers["small p-values"] = str((agreement.p_value < 0.05).sum())
    numbers["expected"] = f"{0.05 * len(agreement):.0f}"
    numbers["smallest p-value"] = f"{agreement.p_value.min():.4f}"
    return numbers


def missing(body):
    """Return the sentences with a measured number that a text does not contain."""
    text, numbers = " ".join(body.split()), measured()
    filled = [re.sub(r"\{(.+?)\}", lambda name: numbers[name[1]], one) for one in SENTENCES]
    return [one for one in filled if one not in text]


def numbers_of(text):
    """Return the numbers of a text, those of references left out."""
    text = re.sub(r"\[@.*?\]", "", text)
    return set(re.findall(r"(?<![\w.@-])\d(?:[\d,.]*\d)?(?:e-?\d+)?(?![\w@])", text))


def test_each_number_of_a_table_is_in_its_sentence():
    assert missing(BODY) == []
    named = set(re.findall(r"\{(.+?)\}", "".join(SENTENCES)))
    assert named == set(measured())


def test_the_paper_has_no_number_that_no_table_has():
    assert numbers_of(BODY) - SETTINGS - set(measured().values()) == set()


@pytest.mark.parametrize(("one", "two"), [("0.2541", "0.3467"), (" 43 ", " 14 "), ("400", "1600")])
def test_numbers_in_each_others_places_are_noticed(one, two):
    swapped = BODY.replace(one, "#").replace(two, one).replace("#", two)
    assert numbers_of(swapped) == numbers_of(BODY)
    assert missing(swapped) != []


def test_a_wrong_number_is_noticed():
    assert numbers_of("risk 0.1426, [@x2026], 1e-3 and p2") == {"0.1426", "1e-3"}
    changed = BODY.replace("0.1426", "0.1427")
    assert numbers_of(changed) - SETTINGS - set(measured().values()) == {"0.1427"}
    assert len(missing(changed)) == 1


def test_the_paper_has_the_sections_and_fields_of_the_journal():
    titles = re.findall(r"^# (.+)$", BODY, re.M)
    assert titles[:4] == SECTIONS
    assert titles[-1] == "References"
    for field in ("title", "tags", "authors", "affiliations", "date", "bibliography"):
        assert re.search(rf"^{field}:", HEAD, re.M), field


def test_cited_and_listed_references_are_the_same():
    cited = set(re.findall(r"@(\w+)", BODY))
    listed = re.findall(r"^@\w+\{(\w+),$", (ROOT / "paper.bib").read_text(encoding="utf-8"), re.M)
    assert sorted(cited) == sorted(listed)
