"""PyTorch, imported when a model is trained."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from slrlab._errors import SlrlabError


def import_torch() -> Any:
    """Return the module ``torch``.

    Raises
    ------
    SlrlabError
        If the extra ``retrieval`` is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise SlrlabError("training needs the extra retrieval: pip install 'slrlab[retrieval]'")
    return importlib.import_module("torch")
