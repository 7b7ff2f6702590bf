"""Calls for several users: what is known, what is kept, what fails."""

import os
import time

import pytest

from slrlab.experiments.running.executors import InProcess, Processes
from slrlab.explorer import background
from slrlab.explorer.background import Work, shared_work
from slrlab.explorer.view import Call


def double(number):
    if number < 0:
        raise ValueError("number must be >= 0")
    return [{"number": number, "double": 2 * number}]


def die():
    os._exit(1)


@pytest.fixture
def work():
    made = Work(InProcess)
    yield made
    made.close()


def finished(work, user, calls):
    end = time.monotonic() + 60.0
    while not (result := work.progress(user, calls)).complete:
        assert time.monotonic() < end
        time.sleep(0.01)
    return result


def test_quick_calls_are_there_at_once_and_others_follow(work):
    quick, slow = Call(double, (1,), quick=True), Call(double, (2,))
    first = work.progress("a", [quick, slow])
    assert first.rows[0] == {"number": 1, "double": 2}
    assert first.total == 2
    assert [row["double"] for row in finished(work, "a", [quick, slow]).rows] == [2, 4]


def test_users_share_what_is_known_and_are_served_in_turn(work):
    ours, theirs = ([Call(double, (n,)) for n in range(k, k + 20)] for k in (0, 10))
    work.progress("a", ours)
    work.progress("b", theirs)
    assert len(finished(work, "b", theirs).rows) == 20
    assert len(finished(work, "a", ours).rows) == 20
    assert work.progress("c", ours).complete


def test_an_error_is_a_line_and_the_other_calls_go_on(work):
    result = finished(work, "a", [Call(double, (-1,)), Call(double, (3,))])
    assert result.errors == ["number must be >= 0"]
    assert [row["double"] for row in result.rows] == [6]


def test_a_bounded_number_of_rows_is_kept(work, monkeypatch):
    monkeypatch.setattr(background, "_KEPT", 5)
    for n in range(20):
        finished(work, "a", [Call(double, (n,))])
    assert len(work._results) == 5
    assert work.progress("a", [Call(double, (19,))]).complete


@pytest.mark.slow
def test_a_worker_that_dies_is_an_error_and_not_the_end():
    work = Work(lambda: Processes(1))
    try:
        assert "worker process ended" in finished(work, "a", [Call(die, ())]).errors[0]
        assert len(finished(work, "a", [Call(double, (1,))]).rows) == 1
    finally:
        work.close()


def test_the_workers_of_a_process_are_the_same_for_all():
    assert shared_work() is shared_work()
