"""A machine that times nothing, for examinations and comparisons on the CPU."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace

from solkit.core import KernelAnalysis, Launch
from solkit.measure.conditions import Sample, summarise

HEAD = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
LAUNCH = KernelAnalysis(Launch("k", (1, 1, 1), 4, 2), registers=32)


class Machine:
    """Its timers tell what they like.

    Args:
        timers: the best one first.
        heated: samples of a GPU that may be throttled.
    """

    device = "cpu"

    def __init__(self, *timers, heated=()):
        self.all_timers, self.heated = timers, heated

    def synchronize(self):
        pass

    def timers(self, _protocol=None):
        return self.all_timers, "not at all"

    def captured(self, work):
        return work

    def occupy(self, seconds):
        time.sleep(seconds)

    def memory_bytes(self):
        return 0

    def conditions(self):
        told = summarise([Sample(0.0, sm_clock_mhz=1410.0)])
        return contextlib.nullcontext(SimpleNamespace(samples=self.heated, since=lambda: told))

    @contextlib.contextmanager
    def recording(self):
        launches = []
        yield launches
        launches.append(LAUNCH)


class NoGuard:
    """Finds nothing: the real one takes a while, and has tests of its own."""

    @classmethod
    def armed(cls):
        return cls()

    def findings(self, *_):
        return ()
