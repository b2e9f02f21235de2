from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch

from solkit.adapters import torch_profiler
from solkit.measure.timing.activities import ActivityError
from solkit.measure.timing.sampling import Subject
from solkit.measure.timing.timers import CuptiTimer, EventTimer, FlushBuffer, L2Flush


class Flush:
    """Stands in for the L2 flush, and notes what is asked of it."""

    def __init__(self):
        self.called, self.learnt = [], []

    def __call__(self, name):
        self.called.append(name)

    def record_host_s(self, name, host_s):
        self.learnt.append((name, host_s))


@pytest.mark.parametrize("warm", [False, True])
def test_a_profiler_that_sees_no_gpu_is_no_timer(monkeypatch, warm):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    flush, ran = Flush(), []
    timer = CuptiTimer(flush, warm=warm)
    timer.start()
    for name in ("one", "two"):
        timer.time(Subject(name, lambda: lambda: ran.append(1)))
    with pytest.raises(ActivityError, match="no GPU activity recorded for the call solkit::one::0"):
        timer.stop()
    assert flush.called == ["one", "two"]
    assert len(ran) == (4 if warm else 2)
    assert [name for name, _ in flush.learnt] == ["one", "two"]
    assert all(host_s > 0 for _, host_s in flush.learnt)


def test_a_round_that_was_broken_off_is_ended_before_the_next(monkeypatch):
    began, ended = [], []

    class Session:
        def __enter__(self):
            assert len(began) == len(ended), "Profiler is already enabled on this thread"
            began.append(self)

        def __exit__(self, *_):
            ended.append(self)

    monkeypatch.setattr(torch_profiler, "cuda_session", Session)
    for timer in (CuptiTimer(Flush()), CuptiTimer(Flush()), EventTimer(Flush())):
        timer.start()  # as if a candidate failed in a call, nobody comes to the end
    assert ended == began
    assert len(began) == 2


class Buffer:
    def __init__(self):
        self.asked = []

    def occupy(self, seconds):
        self.asked.append(seconds)


def test_the_flush_lasts_twice_as_long_as_the_host_needs_at_its_best_and_some():
    buffer = Buffer()
    flush = L2Flush(buffer)
    flush("kernel")
    flush.record_host_s("kernel", 100e-6)
    flush.record_host_s("kernel", 190e-6)
    flush("kernel")
    flush.record_host_s("kernel", 50e-6)
    flush.record_host_s("slow", 3.0)
    flush("kernel")
    flush("slow")
    assert buffer.asked == pytest.approx([100e-6, 300e-6, 200e-6, 5e-3])


def test_occupying_takes_few_launches(monkeypatch):
    buffer = FlushBuffer.__new__(FlushBuffer)  # without its memory, which wants a GPU
    buffer.pass_s = 80e-6
    launched = []
    buffer.read_passes = launched.append
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: launched.append(f"{cycles} cycles"))
    buffer.occupy(0.0)
    buffer.occupy(81e-6)
    buffer.occupy(0.1)
    assert launched == [1, 3, "300000000 cycles"]


def test_the_profiler_s_warning_of_further_cycles_is_not_the_user_s():
    class Session:
        """Warns as torch 2.11's does, and of something else."""

        def __enter__(self):
            warnings.warn(
                "Warning: Profiler clears events at the end of each cycle.Only", stacklevel=1
            )
            warnings.warn("CUPTI is missing", stacklevel=1)

    with pytest.warns(UserWarning, match="CUPTI") as record:
        torch_profiler.enter_session(Session())
    assert [str(warning.message) for warning in record] == ["CUPTI is missing"]


def test_a_session_records_ranges_but_no_operators_and_does_not_load_the_compiler():
    program = (
        "import sys, torch; from solkit.adapters import torch_profiler\n"
        "with torch_profiler.cuda_session() as session:\n"
        "    with torch.profiler.record_function('a call'): torch.ones(3) + 1\n"
        "(event,) = session.kineto_results.events()\n"
        "assert (event.name(), event.is_user_annotation()) == ('a call', True)\n"
        "assert not {'torch._dynamo', 'torch._inductor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
