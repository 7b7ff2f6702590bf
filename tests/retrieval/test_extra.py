import importlib.util

import pytest

from slrlab import SlrlabError
from slrlab.retrieval.extra import import_torch


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SlrlabError, match=r"^training needs .* pip install 'slrlab\[retrieval\]'$"):
        import_torch()


@pytest.mark.extra
def test_with_the_extra_it_is_the_module():
    assert import_torch().zeros(2).tolist() == [0.0, 0.0]
