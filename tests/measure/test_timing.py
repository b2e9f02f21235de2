from __future__ import annotations

import pytest
import torch

from solkit.measure.activities import ActivityError
from solkit.measure.sampling import Subject
from solkit.measure.timing import CuptiTimer, L2Flush


class Flush:
    """Stands in for the L2 flush, and notes what is asked of it."""

    def __init__(self):
        self.called, self.learnt = [], []

    def __call__(self, name):
        self.called.append(name)

    def learn(self, name, host_s):
        self.learnt.append((name, host_s))


def test_a_profiler_that_sees_no_gpu_is_no_timer(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    flush, ran = Flush(), []
    subjects = [Subject(name, lambda: lambda: ran.append(1)) for name in ("one", "two")]
    with pytest.raises(ActivityError, match="no GPU activity recorded for the call solkit::one::0"):
        CuptiTimer(flush).time(subjects)
    assert flush.called == ["one", "two"]
    assert len(ran) == 2
    assert [name for name, _ in flush.learnt] == ["one", "two"]
    assert all(host_s > 0 for _, host_s in flush.learnt)


def test_the_flush_lasts_as_long_as_the_host_needs():
    flush = L2Flush.__new__(L2Flush)  # without its buffer, which wants a GPU
    flush._host_s, flush._pass_s = {}, 80e-6
    passes = []
    flush._read = passes.append
    flush("candidate")
    flush.learn("candidate", 500e-6)
    flush.learn("candidate", 200e-6)  # the least counts: some calls wait for the flush itself
    flush.learn("candidate", 900e-6)
    flush("candidate")
    flush.learn("slow", 1.0)
    flush("slow")
    flush("reference")
    assert passes == [1, 4, 64, 1]
