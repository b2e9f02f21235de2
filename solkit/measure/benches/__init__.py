"""Benches take configurations and yield outcomes as they come.

There are three, and a driver cannot tell which one it has: *guarded* (untrusted candidates, each in
its own process beside a referee), *trusted* (handfuls that share inputs, compiled ahead) and
*recorded* (a store or another tool's file, on a virtual clock, without a GPU). `many` makes one of
several: of the GPUs of a machine (`local`) or of a Ray cluster (`ray`).
"""

from __future__ import annotations

from solkit.measure.benches._base import AHEAD, HANDFUL, Bench, Clock, WallClock, group_handfuls
from solkit.measure.benches.recorded import RecordedBench

__all__ = ["AHEAD", "HANDFUL", "Bench", "Clock", "RecordedBench", "WallClock", "group_handfuls"]
