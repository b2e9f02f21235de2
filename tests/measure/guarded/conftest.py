"""Examinations: referee and candidate in two threads, a fake machine beneath."""

from __future__ import annotations

import contextlib
import threading
from textwrap import dedent

import pytest
from simulated import HEAD, FakeMachine, NoGuard, reference

from solkit.measure.guarded.candidate import serve
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.examination import examine
from solkit.measure.guarded.messages import Request
from solkit.processes.channel import Channel, connected_pair


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
