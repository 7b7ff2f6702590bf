"""Fill in the table of what a sweep can compute while the site is built."""

from __future__ import annotations

from typing import Any

from slrlab.experiments.sweeps.computations import computations_table


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark in the guide to sweeps."""
    return markdown.replace("<!-- computations -->", computations_table())
