"""The side bar of the live explorer: widgets, and the controls of the session.

A widget writes into the controls when it changes; a value that is not accepted leaves them as they
were, and a message says why. The address of the page follows the controls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slrlab.experiments.stored import LENGTHS, SIGNALS
from slrlab.explorer.controls import (
    DEMANDS,
    MOST_ACTIVATIONS,
    RANKINGS,
    RIDGES,
    TASKS,
    Controls,
    X,
    read_control,
)
from slrlab.explorer.tables import plain
from slrlab.explorer.view import View
from slrlab.model.activations import ACTIVATIONS

_CONTROLS, _MESSAGES, _PICKED = "controls", "messages", "picked"
_NOISES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_WORDS = {
    "hit_rate": "hit rate at least",
    "risk": "risk at most",
    "best": "the best ridges",
    "given": "given ridges",
    "panel": "the panel",
    "setting": "the setting above",
    "signal": "the signal",
    "length": "the length",
}


def show(view: View) -> Controls:
    """Draw the side bar of a view, and return the controls."""
    import streamlit as st

    state = st.session_state
    if _CONTROLS not in state:
        given = st.query_params.to_dict()
        state[_CONTROLS], state[_MESSAGES] = Controls.from_query(given, view.start)
    with st.sidebar:
        _shared()
        if view.controls:
            st.divider()
        for name in view.controls:
            _OWN[name]()
    controls: Controls = state[_CONTROLS]
    query = controls.to_query()
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)
    return controls


def show_messages() -> None:
    """Show what was not accepted, in the address or in the last change."""
    import streamlit as st

    for message in st.session_state[_MESSAGES]:
        st.error(plain(message))


def take_selection(points: Sequence[dict[str, Any]]) -> None:
    """Start the flow where a user has clicked, unless it was there already."""
    import streamlit as st

    if not points or not {"m_kk", "m_kv"} <= points[0].keys():
        return
    picked = {name: round(float(points[0][name]), 4) for name in ("m_kk", "m_kv")}
    if st.session_state.get(_PICKED) == picked:
        return
    st.session_state[_PICKED] = picked
    st.session_state[_CONTROLS] = replace(st.session_state[_CONTROLS], **picked)
    st.rerun()


def _commit(name: str, key: str) -> None:
    """Take over the value of a widget."""
    import streamlit as st

    state = st.session_state
    try:
        value = read_control(name, state[key])
        state[_CONTROLS] = replace(state[_CONTROLS], **{name: value}).check()
    except ValueError as error:
        state[_MESSAGES] = [str(error)]
    else:
        state[_MESSAGES] = []


def _widget(make: Any, name: str, label: str, *given: Any, kind: str = "", **options: Any) -> None:
    """Draw a widget that shows a control and changes it."""
    import streamlit as st

    key = f"{name}-{kind}"
    st.session_state[key] = options.pop("shown", getattr(st.session_state[_CONTROLS], name))
    make(label, *given, key=key, on_change=partial(_commit, name, key), **options)


def _shared() -> None:
    """Draw what all views share."""
    import streamlit as st

    controls: Controls = st.session_state[_CONTROLS]
    _widget(
        st.segmented_control, "task", "Task", list(TASKS), format_func=_task_name, required=True
    )
    signals = sorted({*SIGNALS[controls.task], controls.signal})
    _widget(st.select_slider, "signal", "Signal ν", signals, format_func=lambda x: f"{x:g}")
    _widget(
        st.select_slider, "length", "Length L", lengths_with(controls.length), format_func=_tokens
    )
    noises = sorted({*_NOISES, controls.noise})
    _widget(st.select_slider, "noise", "Noise Δ", noises, format_func=lambda x: f"{x:g}")
    _widget(
        st.multiselect,
        *("activations", "Activations (type your own)"),
        list(dict.fromkeys([*ACTIVATIONS, *controls.activations])),
        shown=list(controls.activations),
        max_selections=MOST_ACTIVATIONS,
        accept_new_options=True,
        help="A name of the atlas, or an expression in x such as elementwise: 1 + tanh(x) or "
        "normalised: exp(x) + x**2.",
    )
    with st.expander("Exact values"):
        typed = {"kind": "typed"}
        signal = f"{controls.signal:g}"
        _widget(st.text_input, "signal", "signal (inf is allowed)", shown=signal, **typed)
        _widget(st.text_input, "length", "length or law, such as 1,2,3", **typed)
        _widget(st.text_input, "noise", "noise", shown=f"{controls.noise:g}", **typed)


def lengths_with(length: str) -> list[str]:
    """Return the stored lengths and another one in order; a law of lengths comes last."""
    lengths = {*map(str, LENGTHS), length}
    return sorted(lengths, key=lambda text: int(text) if text.isdigit() else math.inf)


def _task_name(name: str) -> str:
    return f"{name}-SLR"


def _tokens(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text


def _choice(name: str, label: str, options: Sequence[str]) -> None:
    import streamlit as st

    _widget(
        st.segmented_control,
        *(name, label, list(options)),
        format_func=lambda option: _WORDS.get(option, option),
        required=True,
    )


def _seed() -> None:
    """Draw a button that draws again, and the number of the draw."""
    import streamlit as st

    controls: Controls = st.session_state[_CONTROLS]

    def again() -> None:
        st.session_state[_CONTROLS] = replace(controls, seed=(controls.seed + 1) % 10**9)

    st.button("Draw again", on_click=again, type="primary")
    _widget(st.text_input, "seed", "draw number", shown=str(controls.seed))


def _activation() -> None:
    import streamlit as st

    controls: Controls = st.session_state[_CONTROLS]
    names = list(controls.activations)
    _widget(st.selectbox, "activation", "Shown alone", names, shown=controls.focus)


def _ridge(name: str) -> None:
    import streamlit as st

    controls: Controls = st.session_state[_CONTROLS]
    label = f"ridge of the {'keys' if name == 'ridge_k' else 'values'}"
    shown = f"{getattr(controls, name):g}"
    _widget(st.text_input, name, label, shown=shown, disabled=controls.ridge == "best")


def _start(name: str) -> None:
    import streamlit as st

    shown = f"{getattr(st.session_state[_CONTROLS], name):g}"
    _widget(st.text_input, name, f"start: {name}", shown=shown)


def _target() -> None:
    import streamlit as st

    _widget(st.text_input, "target", "this number", shown=f"{st.session_state[_CONTROLS].target:g}")


def _exact() -> None:
    import streamlit as st

    help_text = "Trains each activation in theory, from many samples to few: about a minute each."
    _widget(st.toggle, "exact", "Fewest samples at the signal above", help=help_text)


_OWN: dict[str, Any] = {
    "x": lambda: _choice("x", "Against", X),
    "seed": _seed,
    "activation": _activation,
    "ridge": lambda: _choice("ridge", "Training with", RIDGES),
    "ridge_k": lambda: _ridge("ridge_k"),
    "ridge_v": lambda: _ridge("ridge_v"),
    "m_kk": lambda: _start("m_kk"),
    "m_kv": lambda: _start("m_kv"),
    "ranking": lambda: _choice("ranking", "Rank by", RANKINGS),
    "demand": lambda: _choice("demand", "I need a", DEMANDS),
    "target": _target,
    "exact": _exact,
}
