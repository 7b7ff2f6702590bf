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

_CONTROLS, _MESSAGES, _VIEW = "controls", "messages", "view"
_PICKED, _CLEARED = "picked", "cleared"  # the last click into a chart, and how many are forgotten
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
    given = st.query_params.to_dict()
    if _CONTROLS not in state or (given and _went_back()):
        state[_CONTROLS], state[_MESSAGES] = Controls.from_query(given, view.start)
        _forget_click()
    elif state[_VIEW] != view.name:
        state[_MESSAGES] = []
    state[_VIEW] = view.name
    with st.sidebar:
        _shared()
        if view.controls:
            st.divider()
        for name in view.controls:
            _OWN[name]()
    controls: Controls = state[_CONTROLS]
    query = controls.to_query()
    if given != query:
        st.query_params.from_dict(query)
    return controls


def _went_back() -> bool:
    """Return whether the user went back or forward in the browser, to another address."""
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _set(controls: Controls) -> None:
    """Take over controls that are accepted; what was refused before is settled."""
    import streamlit as st

    st.session_state[_CONTROLS] = controls
    st.session_state[_MESSAGES] = []


def show_messages() -> None:
    """Show what was not accepted, in the address or in the last change."""
    import streamlit as st

    for message in st.session_state[_MESSAGES]:
        st.error(plain(message))


def clicks() -> str:
    """Return what tells a chart from itself before the last click into it was forgotten.

    A chart keeps its selection, and a click on the same place again would not change it.
    """
    import streamlit as st

    return str(st.session_state.get(_CLEARED, 0))


def _forget_click() -> None:
    import streamlit as st

    if st.session_state.pop(_PICKED, None) is not None:
        st.session_state[_CLEARED] = st.session_state.get(_CLEARED, 0) + 1


def take_selection(points: Sequence[dict[str, Any]]) -> None:
    """Start the flow where a user has clicked, unless it was there already."""
    import streamlit as st

    if not points or not {"m_kk", "m_kv"} <= points[0].keys():
        return
    picked = {name: round(float(points[0][name]), 4) for name in ("m_kk", "m_kv")}
    if st.session_state.get(_PICKED) == picked:
        return
    st.session_state[_PICKED] = picked
    _set(replace(st.session_state[_CONTROLS], **picked))
    st.rerun()


def _commit(name: str, key: str) -> None:
    """Take over the value of a widget."""
    import streamlit as st

    state = st.session_state
    try:
        value = read_control(name, state[key])
        _set(replace(state[_CONTROLS], **{name: value}).check())
    except ValueError as error:
        state[_MESSAGES] = [str(error)]
    else:
        if name in ("m_kk", "m_kv"):
            _forget_click()


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
        _set(replace(controls, seed=(controls.seed + 1) % 10**9))

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
