"""The command `cite`: how to cite slrlab and the paper that it implements."""

from __future__ import annotations

from slrlab import __version__
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_lines

_ENTRIES = {
    "software": rf"""@software{{slrlab,
  title   = {{slrlab: the theory of single-location regression as software}},
  author  = {{{{The slrlab developers}}}},
  version = {{{__version__}}},
  year    = {{2026}},
  license = {{BSD-3-Clause}},
}}""",
    "paper": r"""@inproceedings{duranthon2026statistical,
  title     = {Statistical Advantage of Softmax Attention: Insights from Single-Location Regression},
  author    = {Duranthon and Marion and Boyer and Loureiro and Zdeborov{\'a}},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year      = {2026},
  eprint    = {2509.21936},
  archivePrefix = {arXiv},
}""",  # noqa: E501
}


@command()
def cite(*, output: Output) -> None:
    """Print how to cite slrlab and the paper that it implements, as BibTeX.

    Example: slrlab cite > slrlab.bib
    """
    if output.as_json:
        print_json(dict(_ENTRIES))
    else:
        print_lines(["\n\n".join(_ENTRIES.values())])
