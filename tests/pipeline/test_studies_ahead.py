"""Studies of candidates ahead of measuring them."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

import pytest

from solkit.core import Configuration
from solkit.errors import InputError
from solkit.pipeline.studies_ahead import StudiesAhead
from solkit.tuner.evolution import Point

LIMIT_S = 120.0  # a test that waits for so long has failed


def candidates(count):
    configurations = [Configuration("k.py", "kernel", {}, {"BLOCK": n}) for n in range(count)]
    return [Point("id", configuration, 0.0, 0.0) for configuration in configurations]


class Gate:
    """A study that goes on when it may, and notes what began."""

    def __init__(self):
        self.may_go_on, self.began = threading.Event(), threading.Semaphore(0)

    def __call__(self, configuration, _):
        self.began.release()
        assert self.may_go_on.wait(LIMIT_S)
        return configuration.params["BLOCK"]


def begin_and_wait(waits_for, begun):
    """Wait for an answer that comes never, until it is cancelled."""
    answer, ended = Future(), threading.Event()
    answer.add_done_callback(lambda _: ended.set())
    waits_for.add(answer)
    begun.set()
    assert ended.wait(LIMIT_S)


def test_as_many_are_studied_as_there_are_slots_and_what_ended_makes_room():
    gate, points = Gate(), candidates(5)
    studies = StudiesAhead(gate, slots=2)
    studies.foresee(points)
    studies.foresee(points)
    assert len(studies.running()) == 2
    assert studies.ended() == []
    gate.may_go_on.set()
    results = [future.result() for future in studies.running()]
    assert results == [0, 1]
    studies.foresee(points[::-1])  # what promises more by then comes first
    assert [future.result() for future in studies.running()[2:]] == [4, 3]
    assert [point for point, _ in studies.ended()] == [*points[:2], points[4], points[3]]
    assert (studies.ended(), studies.running()) == ([], [])
    studies.close()


def test_what_takes_long_is_late_until_it_ends():
    now_s, gate, points = [0.0], Gate(), candidates(2)
    studies = StudiesAhead(gate, slots=1, clock_s=lambda: now_s[0])
    studies.foresee(points)
    assert gate.began.acquire(timeout=LIMIT_S)
    assert not studies.is_late(points[0].configuration)
    now_s[0] = 60.0
    assert studies.is_late(points[0].configuration)
    assert not studies.is_late(points[1].configuration)  # it has not begun
    assert not studies.is_done(points[0].configuration)
    gate.may_go_on.set()
    assert studies.get(points[0].configuration).result() == 0
    assert studies.is_done(points[0].configuration)
    studies.ended()
    assert not studies.is_late(points[0].configuration)
    studies.close()


def test_what_has_not_begun_is_left_to_who_asks_for_it():
    gate, points = Gate(), candidates(3)
    studies = StudiesAhead(gate, slots=1)
    assert studies.get(points[0].configuration) is None
    studies._threads.submit(gate.may_go_on.wait)
    studies.foresee(points[:1])
    assert studies.get(points[0].configuration) is None
    assert (studies.ended(), studies.running()) == ([], [])  # no cancelled study is read
    gate.may_go_on.set()
    studies.close()


def test_the_error_of_a_study_is_raised_where_it_is_read():
    def refuse(*_):
        raise InputError("It is a twin.")

    (point,) = candidates(1)
    studies = StudiesAhead(refuse)
    studies.foresee([point])
    with pytest.raises(InputError, match="a twin"):
        studies.get(point.configuration).result()
    studies.close()


def test_a_late_study_is_given_up_if_something_else_could_have_its_slot():
    now_s, begun = [0.0], threading.Event()

    def study(configuration, waits_for):
        if configuration.params["BLOCK"] == 0:
            begin_and_wait(waits_for, begun)
        return configuration.params["BLOCK"]

    points = candidates(2)
    studies = StudiesAhead(study, slots=1, clock_s=lambda: now_s[0])
    studies.foresee(points)
    assert begun.wait(LIMIT_S)
    now_s[0] = 60.0
    studies.foresee(points[:1])
    assert studies.running()[0].running()  # nothing else waits
    studies.foresee(points)
    assert len(studies.running()) == 1
    wait(studies.running(), LIMIT_S)
    assert not studies.is_done(points[0].configuration)
    assert studies.get(points[0].configuration) is None  # its study was cancelled
    assert studies.ended() == [(points[0], None)]
    studies.foresee(points)
    assert [future.result() for future in studies.running()] == [1]
    studies.close()


def test_what_is_cleared_makes_room_at_once():
    gate, points = Gate(), candidates(2)
    studies = StudiesAhead(gate, slots=1)
    studies.foresee(points[:1])
    studies.clear()
    studies.foresee(points[1:])
    gate.may_go_on.set()
    wait(studies.running(), LIMIT_S)
    (first, study), (second, answer) = studies.ended()
    assert (first, study, second) == (points[0], None, points[1])
    assert answer.result() == 1
    studies.close()


def test_what_runs_is_given_up_in_the_end():
    answers, began = set(), threading.Event()

    def study(_, waits_for):
        begin_and_wait(waits_for, began)
        answers.update(waits_for)

    studies = StudiesAhead(study, slots=1)
    studies.foresee(candidates(1))
    assert began.wait(LIMIT_S)
    (running,) = studies.running()
    studies.close()
    assert running.exception(LIMIT_S) is None
    assert [answer.cancelled() for answer in answers] == [True]


class SlowStudies:
    """Studies that end when they may, though they were given up, with a clock that is set."""

    def __init__(self, slots):
        self.now_s, self.began, self.may_end = 0.0, threading.Semaphore(0), threading.Event()
        self.ahead = StudiesAhead(self.study, slots, lambda: self.now_s)

    def study(self, configuration, _):
        if configuration.params["BLOCK"] < 0:
            raise InputError("It launches what another does.")
        self.began.release()
        assert self.may_end.wait(LIMIT_S)

    def ages_given_up(self, points, ages_s):
        """Return when studies were given up, which began at 0 s."""
        ages = []
        for age_s in ages_s:
            self.now_s = age_s
            before = len(self.ahead._given_up)
            self.ahead.foresee(points)
            ages += [age_s] * (len(self.ahead._given_up) - before)
        return ages


def test_where_all_studies_take_long_all_but_one_have_longer():
    slow, points = SlowStudies(slots=3), candidates(9)
    slow.ahead.foresee(points[:3])
    assert all(slow.began.acquire(timeout=LIMIT_S) for _ in range(3))
    assert slow.ages_given_up(points[:4], (7.0, 9.0)) == [9.0]
    slow.ahead.foresee(points[:4])  # it takes the slot
    assert slow.ages_given_up(points, (20.0, 30.0)) == []
    assert slow.ages_given_up(points, (40.0,)) == [40.0]
    slow.may_end.set()
    slow.ahead.close()


def test_a_study_without_a_thread_is_not_late():
    slow, points = SlowStudies(slots=1), candidates(3)
    slow.ahead.foresee(points[:1])
    assert slow.began.acquire(timeout=LIMIT_S)
    slow.now_s = 9.0
    slow.ahead.foresee(points[:2])
    slow.ahead.foresee(points[:2])  # the first is given up, but still has the thread
    slow.now_s = 99.0
    assert not slow.ahead.is_late(points[1].configuration)
    slow.may_end.set()
    wait(slow.ahead.running(), LIMIT_S)
    assert slow.ahead.is_done(points[1].configuration)
    slow.ahead.close()


def test_what_is_refused_at_once_does_not_make_others_late():
    slow = SlowStudies(slots=2)
    quick = [
        Point("id", Configuration("k.py", "kernel", {}, {"BLOCK": -n}), 0.0, 0.0) for n in (1, 2, 3)
    ]
    (first, second) = candidates(2)
    slow.ahead.foresee([first])
    assert slow.began.acquire(timeout=LIMIT_S)
    slow.now_s = 7.0
    slow.may_end.set()
    wait(slow.ahead.running(), LIMIT_S)
    slow.ahead.ended()
    slow.may_end.clear()
    for point in quick:
        slow.ahead.foresee([point])
        wait(slow.ahead.running(), LIMIT_S)
        slow.ahead.ended()
    slow.ahead.foresee([second])
    assert slow.began.acquire(timeout=LIMIT_S)
    slow.now_s = 34.0
    assert not slow.ahead.is_late(second.configuration)
    slow.now_s = 36.0
    assert slow.ahead.is_late(second.configuration)
    slow.may_end.set()
    slow.ahead.close()


def test_what_a_study_waits_for_after_it_was_given_up_is_cancelled():
    entered, may_add, answers = threading.Event(), threading.Event(), []

    def study(_, awaited):
        entered.set()
        assert may_add.wait(LIMIT_S)
        answers.append(Future())
        awaited.add(answers[0])

    studies = StudiesAhead(study, slots=1)
    studies.foresee(candidates(1))
    assert entered.wait(LIMIT_S)
    (running,) = studies.running()
    studies.clear()
    may_add.set()
    assert running.exception(LIMIT_S) is None
    assert answers[0].cancelled()
    studies.close()


def test_a_study_that_somebody_waits_for_is_not_given_up_for_being_late():
    now_s, gate, points = [0.0], Gate(), candidates(2)
    studies = StudiesAhead(gate, slots=1, clock_s=lambda: now_s[0])
    studies.foresee(points[:1])
    assert gate.began.acquire(timeout=LIMIT_S)
    needed = studies.get(points[0].configuration)
    now_s[0] = 60.0
    studies.foresee(points)
    gate.may_go_on.set()
    assert needed.result(LIMIT_S) == 0
    assert studies.ended() == [(points[0], needed)]
    studies.close()


def test_a_study_is_taken_back_while_another_thread_foresees(monkeypatch):
    """The thread that foresees waits until the study is gone from all lists."""
    points, blocked, done = candidates(3), threading.Event(), []
    studies = StudiesAhead(lambda *_: blocked.wait(LIMIT_S), slots=3)
    for _ in range(3):
        studies._threads.submit(blocked.wait, LIMIT_S)
    studies.foresee(points[:1])
    other = threading.Thread(target=lambda: done.append(studies.foresee(points[1:])))

    class Futures(dict):
        def __delitem__(self, name):
            super().__delitem__(name)
            other.start()
            other.join(0.05)  # it cannot go on before the other list is changed

    monkeypatch.setattr(studies, "_futures", Futures(studies._futures))
    assert studies.get(points[0].configuration) is None
    other.join(LIMIT_S)
    assert done == [None]
    assert len(studies.running()) == 2
    blocked.set()
    studies.close()
