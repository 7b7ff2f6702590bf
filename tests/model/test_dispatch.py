"""What depends on the class of a task: refusals, and the entry of a table."""

import math
from dataclasses import dataclass

import pytest

from slrlab import MarionSLR, MaxSLR, NeedlesSLR, SelectionTask, SpikedSLR, TiltedTask, VarianceSLR
from slrlab.model.dispatch import check_task, lookup

TABLE = {SpikedSLR: "spiked", TiltedTask: "tilted", SelectionTask: "selection"}


@dataclass(frozen=True, init=False)
class Steeper(SpikedSLR):
    """Another density ratio than that of the class it is derived from."""

    def log_ratio(self, scores):
        return 2.0 * scores - 2.0


@pytest.mark.parametrize(
    ("task", "entry"),
    [
        (SpikedSLR(2.0, 3), "spiked"),
        (Steeper(2.0, 3), "tilted"),
        (VarianceSLR(2.0, 3), "tilted"),
        (MaxSLR(2.0, 3), "selection"),
    ],
    ids=str,
)
def test_a_task_has_the_entry_of_its_class_or_of_its_family(task, entry):
    assert lookup(task, TABLE) == entry


@pytest.mark.parametrize("task", [NeedlesSLR(4.0, 3), MarionSLR(4.0, 3)], ids=lambda t: t.name)
def test_a_task_of_another_family_has_no_entry(task):
    kind = type(task).__name__
    with pytest.raises(TypeError, match=rf"^task must be one of SpikedSLR, .* got {kind}$"):
        lookup(task, TABLE)
    with pytest.raises(TypeError, match=rf"^task must be a TiltedTask or a .* got {kind}$"):
        check_task(task)


def test_the_nearest_family_comes_first():
    from slrlab.model.tasks import IndependentTask, Task

    table = {Task: "any", IndependentTask: "independent", TiltedTask: "tilted"}
    assert lookup(SpikedSLR(2.0, 3), table) == "tilted"
    assert lookup(MarionSLR(2.0, 3), table) == "independent"
    assert lookup(MaxSLR(2.0, 3), table) == "any"


@pytest.mark.parametrize(
    ("task", "infinite", "hard"),
    [
        (SpikedSLR(math.inf, 3), True, False),
        (MaxSLR(math.inf, 3), False, True),
        (SpikedSLR(1e300, 3), False, False),
        (MaxSLR(1e300, 3), False, False),
        (NeedlesSLR(4.0, 3), False, False),
    ],
    ids=str,
)
def test_an_infinite_signal_is_an_infinite_score_or_a_hard_choice(task, infinite, hard):
    assert (task.has_infinite_score, task.hard) == (infinite, hard)
