"""Examinations: referee and candidate in two threads, a fake machine beneath."""

from __future__ import annotations

import contextlib
import threading
from textwrap import dedent

import pytest
from simulated import HEAD, FakeMachine, NoGuard, reference

from solkit.measure.guarded import fresh_inputs
from solkit.measure.guarded.candidate import serve
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.examination import examine
from solkit.measure.guarded.messages import Request
from solkit.measure.timing import sampling
from solkit.processes.channel import Channel, connected_pair


@pytest.fixture(autouse=True)
def quick_calls(monkeypatch):
    """No reference and no draw is slow, however busy this machine; a test may say otherwise."""
    for name in ("_SHORT_S", "_SLOW_S", "COSTLY_DRAW_S", "_DRAWING_S"):
        monkeypatch.setattr(sampling, name, 1e6)
    monkeypatch.setattr(fresh_inputs, "COSTLY_DRAW_S", 1e6)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.candidate.CheatDetector", NoGuard)

    def run(kernel, head=HEAD, mine=None, theirs=None, say=lambda _: None, **changes):
        path = tmp_path / "mine.py"
        path.write_text(dedent(head) + dedent(kernel))
        request = {"path": str(path), "reference": None, "shape": {}, "params": {}}
        request |= {"time_limit_s": 60.0, "seed": 5, "device": "cpu"}
        theirs = theirs or FakeMachine()
        ours, other = connected_pair()
        channel = Channel(other, trusting=True)
        thread = threading.Thread(target=serve, args=(channel, lambda _: theirs), daemon=True)
        thread.start()
        with ours:
            referees = Channel(ours, trusting=False)
            referees.receive()  # it is ready
            with contextlib.ExitStack() as blocks:
                expected = Request(**{**request, **changes})
                outcome = examine(expected, [referees], Setup(mine or reference(), say, blocks))
        thread.join()
        return outcome

    return run
