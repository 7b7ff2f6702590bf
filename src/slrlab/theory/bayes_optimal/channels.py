"""Registry of output channels: one entry for each class of tasks that has its own.

`TiltedChannel` and `SelectionChannel` serve every task of their family. The channels of spiked-SLR
and max-SLR use special formulas and are tested against the general ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from slrlab.model.dispatch import check_task, lookup
from slrlab.model.tasks import MaxSLR, SelectionTask, SpikedSLR, Task, TiltedTask
from slrlab.theory.bayes_optimal.curve import Channel
from slrlab.theory.bayes_optimal.selected import MaxChannel, SelectionChannel
from slrlab.theory.bayes_optimal.spiked import SpikedChannel
from slrlab.theory.bayes_optimal.tilted import TiltedChannel


class ChannelClass(Protocol):
    """A class of channels, with the channels of each computation.

    `known_key` is ``M_k`` where the location is known and ``M_k`` a constant, None elsewhere.
    """

    @property
    def sampled(self) -> bool: ...

    def known_key(self, task: Any, /) -> float | None: ...

    def for_fixed_points(self, task: Any, /) -> tuple[Channel, Channel]: ...

    def for_thresholds(self, task: Any, /) -> Sequence[Channel]: ...

    def for_paths(self, task: Any, /) -> Sequence[Channel]: ...


CHANNELS: dict[type, ChannelClass] = {
    SpikedSLR: SpikedChannel,
    MaxSLR: MaxChannel,
    TiltedTask: TiltedChannel,
    SelectionTask: SelectionChannel,
}
"""The channel of each class of tasks; a task that is not listed has the channel of its family."""


def channel_class(task: Task) -> ChannelClass:
    """Return the class of channels that serves the task, after `check_task`."""
    check_task(task)
    return lookup(task, CHANNELS)
