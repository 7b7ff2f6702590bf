"""The live explorer: a page of Streamlit for each view. `slrlab explore` runs this file.

What a user sets is in the session and in the address of the page. What takes long is computed in
the background, and the page shows what is known so far.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from slrlab.explorer import charts, sidebar
from slrlab.explorer.background import Progress, shared_work
from slrlab.explorer.controls import Controls
from slrlab.explorer.export import picture
from slrlab.explorer.server import FIRST
from slrlab.explorer.tables import plain
from slrlab.explorer.view import Call, Panel, View
from slrlab.explorer.views import VIEWS

# A box of several values has a line of its own to type in: else it would be taller while it has the
# focus, and what is below would move away from under a click that takes the focus from it.
_STYLE = """<style>
.stMainBlockContainer{padding-top:4rem}
.stMain [data-testid=stHorizontalBlock]{flex-wrap:wrap}
.stMain [data-testid=stColumn]{min-width:min(100%,18rem)}
[data-testid=stMultiSelect] input{min-width:100% !important}
</style>"""
_POLL = 1.0  # seconds between checks of what is being computed
_AROUND = 90  # pixels of axes, title and legends, which Streamlit counts as height of a chart
_MOST_LISTED = 12  # rows of a table that does not scroll


def main() -> None:
    """Draw the page of the address."""
    import streamlit as st

    st.set_page_config(page_title="slrlab explorer", layout="wide")
    pages = [
        st.Page(
            partial(_page, view),
            title=name.capitalize(),
            url_path="start" if name == FIRST else name,  # its address is that of the server
            default=name == FIRST,
        )
        for name, view in VIEWS.items()
    ]
    also = partial(_page, VIEWS[FIRST])  # an address of its name, too
    pages.append(st.Page(also, title=FIRST.capitalize(), url_path=FIRST, visibility="hidden"))
    st.navigation(pages, position="top").run()


def _page(view: View) -> None:
    import streamlit as st

    st.html(_STYLE)
    controls = sidebar.show(view)
    st.subheader(view.title)
    st.markdown(view.about)
    sidebar.show_messages()
    calls = view.calls(controls)
    progress = shared_work().progress(_user(), calls)
    if not progress.complete:
        # this part of the page runs again by itself, and the page when there is more to draw
        slow = [call for call in calls if not call.quick]
        watch = st.fragment(_watch, run_every=_POLL)
        watch(slow, progress.done + len(slow) - len(calls))
    _draw(view, controls, progress)
    with st.expander("Formula and Python"):
        st.latex(view.formula)
        st.caption("This script computes the table of this page.")
        st.code(view.code(controls), language="python")


def _watch(calls: list[Call], drawn: int) -> None:
    """Show how much is still to come; draw the page again when more than ``drawn`` is known."""
    import streamlit as st

    now = shared_work().progress(_user(), calls)
    st.progress(now.done / now.total, text=f"computing: {now.done} of {now.total}")
    if now.done > drawn:
        st.rerun()


def _draw(view: View, controls: Controls, progress: Progress) -> None:
    """Draw what is known."""
    import streamlit as st

    for error in progress.errors:
        st.error(plain(error))
    if not progress.rows:
        return
    frame = view.frame(progress.rows, controls)
    panels = view.drawn(frame, controls)
    if panels:
        _show_panels(view, panels, frame, controls)
    for note in view.notes(frame, controls):
        st.caption(plain(note))
    _show_numbers(view, frame, controls)
    if progress.complete:
        _show_downloads(view, frame, controls, ["png", "svg"] if panels else [])


def _user() -> str:
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx()
    return "" if context is None else str(context.session_id)


def _show_panels(view: View, panels: list[Panel], frame: pd.DataFrame, controls: Controls) -> None:
    """Draw the panels beside each other; below each other where the window is narrow."""
    import streamlit as st

    dark = st.context.theme.type == "dark"
    if view.legend:
        st.html(charts.legend(controls.activations, dark=dark))
    for first in range(0, len(panels), _per_row(len(panels))):
        row = panels[first : first + _per_row(len(panels))]
        for offset, (column, panel) in enumerate(zip(st.columns(len(row)), row, strict=True)):
            spec = charts.on_dark(panel.spec) if dark else panel.spec
            spec = spec | {"height": spec["height"] + _AROUND}
            with column:
                _show_panel(view, panel, spec, frame, first + offset)


def _per_row(count: int) -> int:
    return 3 if count == 3 else min(count, 2)


def _show_panel(
    view: View, panel: Panel, spec: dict[str, Any], frame: pd.DataFrame, index: int
) -> None:
    import streamlit as st

    data = frame[frame["part"].isin(panel.parts)] if panel.parts else frame
    data = data.dropna(axis="columns", how="all")
    key = f"{view.name}-{index}"
    # layers share a table only if it has a name
    drawn = spec | {"data": {"name": "table"}, "datasets": {"table": data}}
    if panel.selects:
        key += f"-{sidebar.clicks()}"
        chosen = st.vega_lite_chart(drawn, key=key, on_select="rerun", selection_mode=panel.selects)
        sidebar.take_selection(chosen["selection"].get(panel.selects) or [])
    else:
        st.vega_lite_chart(drawn, key=key)


def _show_numbers(view: View, frame: pd.DataFrame, controls: Controls) -> None:
    import streamlit as st

    numbers = view.numbers(frame, controls)
    if len(numbers) > _MOST_LISTED:
        short = st.column_config.NumberColumn(format="%.3g")  # not 0.001 for 0.00097
        real = dict.fromkeys(numbers.select_dtypes("float").columns, short)
        st.dataframe(numbers, hide_index=True, column_config=real)
    elif len(numbers):
        st.table(numbers, hide_index=True)


def _show_downloads(
    view: View, frame: pd.DataFrame, controls: Controls, pictures: list[str]
) -> None:
    """Offer the picture and the table; a picture is made when it is asked for."""
    import streamlit as st

    name = f"slrlab-{view.name}"
    with st.container(horizontal=True):
        for kind in pictures:
            st.download_button(
                kind.upper(),
                partial(picture, view, frame, controls, kind),
                f"{name}.{kind}",
                {"png": "image/png", "svg": "image/svg+xml"}[kind],
                on_click="ignore",
            )
        st.download_button(
            "CSV", partial(frame.to_csv, index=False), f"{name}.csv", "text/csv", on_click="ignore"
        )


if __name__ == "__main__":
    main()
