"""Collect measured data: choose configurations of many kernels and time them on a bench.

::

    cells       one kernel at one shape and its valid configurations: surveyed files, or a recording
       │
    choice      which of them next: Latin hypercube, random, near the best
       │
    collector   the driver: any `solkit.measure.benches.Bench` measures and writes what it chooses
"""

from __future__ import annotations

from solkit.collect.collector import Limits, Progress, collect
from solkit.collect.workloads import Workload, recorded_workloads, survey_kernels

__all__ = ["Limits", "Progress", "Workload", "collect", "recorded_workloads", "survey_kernels"]
