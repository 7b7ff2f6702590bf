"""Progress on the terminal."""

import io
import sys

from slrlab.cli.console import Bars, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_labelled_from_the_first_moment(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress("best ridge"):
        pass
    assert "best ridge" in screen.getvalue()


def test_bars_never_go_back():
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(file=io.StringIO()))
    bars, before = Bars(bar, "sweep"), {}
    calls = [(0, 3, "a"), (2, 3, "a: 1 failed"), (1, 3, "a: 1 failed"), (3, 3, "a")]
    calls += [(0, 5, "b"), (4, 5, "b"), (0, 5, "c"), *((0, 2, str(number)) for number in range(9))]
    for call in calls:
        bars(*call)
        assert bar.tasks[-1].total == call[1]
        for task in bar.tasks:
            assert task.completed >= before.get(task.id, 0)
            before[task.id] = task.completed
    shown = [task for task in bar.tasks if task.visible]
    assert [task.description for task in bar.tasks][:3] == ["a", "b", "c"]
    assert all(task.completed == task.total for task in bar.tasks[:-1])
    assert len(shown) <= 6
