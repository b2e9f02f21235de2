"""Times many configurations of many kernels on the GPU at hand, and writes rows of measured data.

::

    sources     which kernels: the zoo, kernel files
       │
    survey      per kernel and shape: the valid configurations, the bound       processes, no GPU
       │
    choice      which of them next: Latin hypercube, random, near the best
       │
    ahead       compiles them into Triton's own cache                           processes, no GPU
       │
    bench       checks and times handfuls of them                               one process, the GPU
       │
    collector   the loop; rows go to a `solkit.datasets.runlog`, on disk before the next handful

The trust differs from `solkit.measure`, which assumes that a candidate cheats: here the files are
one's own, so that many configurations share a process, inputs and a round of the profiler, which
makes forty a second out of one or two. A kernel that crashes or hangs costs its own row, no other.
"""

from __future__ import annotations

from solkit.collect.collector import Limits, Progress, collect
from solkit.collect.sources import Kernel, part_of, sources

__all__ = ["Kernel", "Limits", "Progress", "collect", "part_of", "sources"]
