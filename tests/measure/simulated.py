"""A machine that times nothing, for examinations and comparisons on the CPU.

`referee` and `candidate` are a session's processes on such machines.
"""

from __future__ import annotations

import contextlib
import math
import time
from types import SimpleNamespace

from solkit.core import Facts, KernelAnalysis, Launch
from solkit.measure.guarded import candidate as candidates
from solkit.measure.guarded import referee as referees
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.clocks import Sample, summarise_samples

HEAD = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
LAUNCH = KernelAnalysis(Facts(Launch("k", (1, 1, 1), 4, 2), registers=32))


class Machine:
    """Its timers tell what they like.

    Args:
        timers: the best one first.
        heated: samples of a GPU that may be throttled.
        free, total: bytes of memory.
    """

    device = "cpu"

    def __init__(self, *timers, heated=(), free=math.inf, total=math.inf):
        self.all_timers, self.heated = timers, heated
        self.free, self.total = free, total

    def synchronize(self):
        pass

    def timers(self, _protocol=None):
        return self.all_timers, "not at all"

    def capture_graph(self, work):
        return work

    def occupy(self, seconds):
        time.sleep(seconds)

    def memory_bytes(self):
        return 0

    def free_bytes(self):
        return self.free

    def total_bytes(self):
        return self.total

    def make_room(self, _needed=math.inf):
        pass

    def idle_bytes(self):
        return 0

    def empty_cache(self):
        pass

    def conditions(self):
        reported_samples = summarise_samples([Sample(0.0, sm_clock_mhz=1410.0)])
        return contextlib.nullcontext(
            SimpleNamespace(samples=self.heated, conditions_since=lambda: reported_samples)
        )

    @contextlib.contextmanager
    def recording(self):
        launches = []
        yield launches
        launches.append(LAUNCH)


class NoGuard:
    """Finds nothing: the real one takes a while, and has tests of its own."""

    def accept_settings(self):
        """Nothing is compared."""

    def findings(self, *_):
        return ()


class FakeTimer:
    """Makes each call, and tells times of its own: 100, 101, 100, ... ms."""

    def __init__(self, method="fake", fails=False, tells=100.0):
        self.method, self.fails, self.tells = method, fails, tells
        self.calls, self.rounds = 0, 0
        self.kernels_ms = {}
        self._times = []

    def start(self):
        self.rounds += 1
        self._times = []

    def time(self, subject):
        subject.prepare()()
        self.calls += 1
        span_ms = self.tells + self.calls % 2
        self._times.append(CallTime(span_ms, span_ms / 2))

    def stop(self):
        if self.fails:
            raise ActivityError("no GPU activity")
        return self._times


class FakeMachine(Machine):
    """Has a timer that works, where none is given."""

    def __init__(self, *timers, **options):
        super().__init__(*(timers or (FakeTimer(),)), **options)


def reference(**options):
    return FakeMachine(FakeTimer(tells=300.0), **options)


def referee(device, descriptor):
    """Times its reference at 300 ms."""
    referees.machine_for = lambda _: Machine(FakeTimer(tells=300.0))
    referees.main(device, descriptor)


def candidate(device, descriptor):
    """Times itself at 100 ms."""
    candidates.CheatDetector = NoGuard
    candidates.machine_for = lambda _: Machine(FakeTimer(tells=100.0))
    candidates.main(device, descriptor)
