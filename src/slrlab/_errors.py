"""The few named errors of the package; wrong arguments raise plain ``ValueError``/``TypeError``."""

from __future__ import annotations


class SlrlabError(Exception):
    """Base class of every error that is not a wrong argument."""


class ComputationError(SlrlabError):
    """A computation ended without a usable number and the caller asked for ``strict=True``."""


class MissingExtraError(SlrlabError, ImportError):
    """An optional dependency is needed and absent; the message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the optional extra: pip install 'slrlab[{extra}]'")
