"""A page for each activation of the atlas: formula, curve, weights, verdict, numbers, source."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from slrlab._types import FloatArray
from slrlab.experiments.atlas.panel import WEIGHTS, advice, verdict
from slrlab.figures import style
from slrlab.figures.page import cell, formula, page, picture, wide
from slrlab.model.activations import SOFTMAX, Activation, make_activation
from slrlab.model.cards import CARDS
from slrlab.model.traits import traits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGNAL, LENGTH = 9.0, 10  # spiked-SLR of the curve and the example
_RELEVANT, _SEED = 3, 1  # index of the relevant token in the example, and its random numbers
_WEIGHT = r"\sigma_l = "
_FAR = 100.0  # stands for keys or a bias at infinity in the pictures
_COLUMNS = (
    *("setting", "risk", "error", "bayes_risk", "loss", "m_k", "m_v", "bias", *WEIGHTS),
    "status",
)
_MOST_COLUMNS = 12  # of a table that fits a window
_CAPTION = (
    "Left: weight of one token against its score, the nine others having typical scores, times the "
    "overlap of the values. Right: the same weights on a sequence whose relevant token is marked. "
    "Grey: the posterior probability that the token is the relevant one, which the best predictor "
    "reads. Spiked-SLR at signal 9 and length 10, keys and bias at their optimum."
)


def file_name(activation: str) -> str:
    """Return the name of the page of an activation.

    >>> file_name("normalised: exp(x) + x**2")
    'normalised-exp-x-x-2.html'
    """
    return re.sub(r"[^\w.]+", "-", activation).strip("-") + ".html"


def write_pages(
    frame: pd.DataFrame, table: pd.DataFrame, out: Path, more: Mapping[str, pd.DataFrame]
) -> list[Path]:
    """Write the pages of all activations of a ranking into a folder; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for _, row in table.iterrows():
        name = str(row["activation"])
        own = frame[frame["activation"] == name]
        extra = {title: rows[rows["activation"] == name] for title, rows in more.items()}
        paths.append(out / file_name(name))
        paths[-1].write_text(_page(row, own, extra), encoding="utf-8")
    return paths


def _page(row: pd.Series, own: pd.DataFrame, more: Mapping[str, pd.DataFrame]) -> str:
    name = str(row["activation"])
    activation = make_activation(name)
    card = CARDS.get(name)
    words = [f"Rank {row['rank']}. {verdict(row)}", advice(row)]
    known = traits(activation)
    if known:
        words.append(f"Traits: {', '.join(known)}.")
    if card is not None:
        words += [card.note, f"Limits: {card.limits}" if card.limits else ""]
        words += [f"Source: {card.source}."]
    written = "" if card is None else f"<p>{formula(_WEIGHT + card.formula)}</p>"
    tables = [f"<h2>Infinite data</h2>{_numbers(own, _COLUMNS)}"]
    for title, rows in more.items():
        if not rows.empty:
            names = [str(column) for column in rows.columns if column != "activation"]
            tables.append(f"<h2>{html.escape(title.capitalize())}</h2>{_numbers(rows, names)}")
    body = "".join(f"<p>{html.escape(text)}</p>" for text in words if text)
    drawn = picture(_drawn(activation, own), f"Weights of {html.escape(name)}", _CAPTION)
    back = "<p><a href='../atlas.html'>All activations</a></p>"
    return page(name, f"{written}{body}{drawn}{''.join(tables)}{back}")


def _numbers(rows: pd.DataFrame, names: Iterable[str]) -> str:
    """Return rows of a table, numbers with four digits.

    What is the same in all rows, and reasons, are sentences below.
    """
    rows = rows[list(names)]
    reasons = dict.fromkeys(str(text) for text in rows.get("reason", ()) if text)
    same = [name for name in rows if len(rows) > 1 and rows[name].nunique(dropna=False) == 1]
    texts = {name: _text(rows[name].iloc[0]) for name in same if name != "reason"}
    shown = rows.drop(columns=[*{*same, *rows.columns[rows.columns == "reason"]}])
    lines = ([_number(value) for value in line] for line in shown.itertuples(index=False))
    head = [*map(str, shown.columns)]
    if len(head) > _MOST_COLUMNS and len(shown) < _MOST_COLUMNS:  # one line for each quantity
        first, *rest = head
        head = [first, *map(_text, shown[first])]
        lines = ([cell(name), *map(_number, shown[name])] for name in rest)
    words = ", ".join(f"{name} {text}" for name, text in texts.items() if text)
    notes = [f"In all rows: {words}." if words else "", *(f"Reason: {text}." for text in reasons)]
    return wide(head, lines) + "".join(
        f"<p class='note'>{html.escape(note)}</p>" for note in notes if note
    )


def _number(value: object) -> str:
    return cell(_text(value), "n" if isinstance(value, float) else "")


def _text(value: object) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return "" if math.isnan(value) else f"{value:.4g}"


def _drawn(activation: Activation, own: pd.DataFrame) -> bytes:
    import matplotlib as mpl

    file = io.BytesIO()
    with style.house_style(), mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        figure = _draw(activation, own)
        figure.savefig(file, format="png")
        plt.close(figure)
    return file.getvalue()


def _draw(activation: Activation, own: pd.DataFrame) -> Figure:
    """Draw the curve of a weight, and the weights of an example."""
    labels = own["setting"] == f"spiked ν={SIGNAL:g} L={LENGTH}"
    optimum = own[labels].iloc[0] if labels.any() else own.iloc[0]
    m_k, m_v, bias = (float(optimum[name]) for name in ("m_k", "m_v", "bias"))
    if activation.bias is None:
        activation = activation.with_bias(float(np.clip(bias, -_FAR, _FAR)))
    m_k = float(np.clip(m_k, -_FAR, _FAR))

    def both(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return m_v * activation.weights(m_k * scores), SOFTMAX.weights(math.sqrt(SIGNAL) * scores)

    figure, axes = style.new_figure(1, 2, 7.2, 2.8)
    curve, example = axes[0]
    typical = np.linspace(-1.5, 1.5, LENGTH - 1)
    x = np.linspace(-3.0, 7.0, 201)
    scores = np.column_stack([x, np.broadcast_to(typical, (len(x), LENGTH - 1))])
    weights, posterior = both(scores)
    curve.plot(x, posterior[:, 0], color="0.7", linewidth=4, label="posterior")
    curve.plot(x, weights[:, 0], color="#0072B2", label=activation.name)
    curve.set(xlabel="score $\\chi_1$ of one token", ylabel="weight × overlap of the values")
    tokens = np.arange(1, LENGTH + 1)
    sequence = np.random.default_rng(_SEED).standard_normal(LENGTH)
    sequence[_RELEVANT] += math.sqrt(SIGNAL)
    weights, posterior = both(sequence)
    example.bar(tokens, posterior, width=0.8, color="0.8")
    example.bar(tokens, weights, width=0.35, color="#0072B2")
    example.annotate(
        "relevant", (_RELEVANT + 1, float(max(posterior[_RELEVANT], weights[_RELEVANT], 0.0)))
    )
    example.set(xlabel="token $\\ell$", xticks=tokens, axisbelow=True)
    style.shared_legend(figure, [curve], ncols=2)
    return figure
