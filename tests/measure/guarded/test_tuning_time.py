"""Time that an autotuner takes for its list: beyond the limit, and what is told of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from solkit.core import Verdict
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.remedies import remedy_of
from solkit.measure.guarded import remote as remote_module
from solkit.measure.guarded import session
from solkit.measure.guarded.messages import TUNING, TUNING_S
from solkit.measure.guarded.remote import Remote

LIMIT_S = 20.0
NO_LOOK = {"ok": {"outputs": [], "findings": []}}


class Process:
    """A channel to a candidate that takes seconds before each of its frames, by its own clock."""

    def __init__(self):
        self.now_s, self.frames = 0.0, []

    def monotonic(self):
        return self.now_s

    def send(self, *_):
        pass

    def receive(self, timeout_s):
        seconds, header = self.frames.pop(0)
        self.now_s += min(seconds, timeout_s)
        if seconds > timeout_s:
            raise TimeoutError
        return SimpleNamespace(header=header)


@pytest.fixture
def process(monkeypatch):
    process = Process()
    monkeypatch.setattr(remote_module, "time", process)
    return process


def run(process, remote, *frames):
    process.frames = list(frames)
    return remote.run("typical", 0, [], False)


def test_timing_a_list_does_not_count_as_the_candidates_time(process):
    stages = []
    remote = Remote(process, LIMIT_S, stages.append)
    run(process, remote, (1.0, {"tuning": 96}), (30.0, {"tuning": 4}), (20.0, NO_LOOK))
    assert stages == ["running the candidate", TUNING]
    assert remote.remaining_s == LIMIT_S - 1.0
    run(process, remote, (2.0, NO_LOOK))
    assert remote.remaining_s == LIMIT_S - 3.0
    process.frames = [(0.0, {"ok": 40.0})]
    assert remote.tuning_compiled_s() == 40.0
    process.frames = [(0.0, {"ok": 1e9})]
    assert remote.tuning_compiled_s() == 50.0  # no more than it took


def test_no_compiler_is_asked_for_without_a_list(process):
    remote = Remote(process, LIMIT_S, lambda _: None)
    run(process, remote, (2.0, NO_LOOK))
    assert remote.tuning_compiled_s() == 0.0


def late(process, remote, *frames):
    with pytest.raises(CandidateError) as caught:
        run(process, remote, *frames)
    assert caught.value.verdict is Verdict.TIMED_OUT
    return caught.value.errors[0]


def test_a_list_that_takes_longer_is_named_and_no_verdict_on_the_kernel(process):
    remote = Remote(process, LIMIT_S, lambda _: None)
    why = late(process, remote, (1.0, {"tuning": 96}), (TUNING_S + LIMIT_S, NO_LOOK))
    assert process.now_s == LIMIT_S + TUNING_S
    assert "96 configurations" in why
    assert "no verdict" in remedy_of(why)
    assert "Correct" not in remedy_of(why)


def test_all_lists_of_a_candidate_share_one_allowance(process):
    remote = Remote(process, LIMIT_S, lambda _: None)
    run(process, remote, (0.0, {"tuning": 9}), (TUNING_S - 10.0, NO_LOOK))
    late(process, remote, (0.0, {"tuning": 9}), (31.0, NO_LOOK))
    assert process.now_s == TUNING_S + LIMIT_S


def test_what_announces_lists_without_end_is_ended(process):
    remote = Remote(process, LIMIT_S, lambda _: None)
    late(process, remote, *[(1e-6, {"tuning": 2})] * 5, *[(TUNING_S, {"tuning": 2})] * 9)
    assert process.now_s <= TUNING_S + LIMIT_S + 1e-3


def test_the_session_waits_as_long(monkeypatch):
    clock = SimpleNamespace(now_s=0.0, closed=False)
    messages = [{"stage": "running the candidate"}, {"stage": TUNING}]

    def is_waiting(_):
        clock.now_s += 0.0 if messages else 1.0
        return bool(messages)

    control = SimpleNamespace(
        is_waiting=is_waiting, receive=lambda _: SimpleNamespace(header=messages.pop(0))
    )
    processes = SimpleNamespace(uuid=None, pids=(), close=lambda: None)
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    candidate = SimpleNamespace(resident_bytes=lambda: 0)
    waiting = session.Wait(processes, control, [candidate], LIMIT_S, 1)
    with pytest.raises(session.LostError):
        waiting.await_answer()
    assert LIMIT_S + TUNING_S < clock.now_s < LIMIT_S + TUNING_S + 10.0
