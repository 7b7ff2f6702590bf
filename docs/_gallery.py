"""The gallery: its order, and notebooks that hold what the scripts printed and drew.

A notebook has the code of a script; the build has run that script and written its page. The outputs
of each cell are read from there, so nothing runs twice and no kernel is needed.
"""

from __future__ import annotations

import base64
import json
import re
import textwrap
from pathlib import Path

from sphinx.application import Sphinx

ORDER = (
    "one_sequence",
    "infinite_data",
    "needle_in_a_haystack",
    "few_samples",
    "descent",
    "own_activation",
    "own_task",
    "own_data",
    "diagnose_a_head",
    "sweep_on_a_cluster",
)


class TeachingOrder:
    """Sort the scripts as a reader would take them; a script that is not listed is an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        """Return the place of a script."""
        return ORDER.index(Path(name).stem)


def outputs_of(page: str, folder: Path) -> list[list[dict[str, object]]]:
    """Return the outputs of each cell of code on a page that sphinx-gallery has written."""
    parts = page.split(".. GENERATED FROM PYTHON SOURCE LINES")
    return [list(_outputs(part, folder)) for part in parts if ".. code-block:: Python" in part]


def _outputs(part: str, folder: Path):  # type: ignore[no-untyped-def]
    if printed := re.search(r"code-block:: none\n\n((?: {4,}.*\n|\s*\n)+)", part):
        text = textwrap.dedent(printed[1]).strip("\n") + "\n"
        yield {"output_type": "stream", "name": "stdout", "text": text}
    for name in re.findall(r"^ *\.\. image-sg:: /gallery/(images/\S+\.png)", part, re.MULTILINE):
        data = base64.b64encode((folder / name).read_bytes()).decode("ascii")
        yield {"output_type": "display_data", "metadata": {}, "data": {"image/png": data}}


def _fill(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "gallery"
    for path in folder.glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        page = path.with_suffix(".rst").read_text(encoding="utf-8")
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, found) in enumerate(
            zip(cells, outputs_of(page, folder), strict=True), start=1
        ):
            cell |= {"outputs": found, "execution_count": number}
        path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill the notebooks once the gallery is written."""
    app.connect("builder-inited", _fill, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
