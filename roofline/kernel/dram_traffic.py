"""Traffic between DRAM and an L2 of a given size, from stack distances.

Lines fall into sets by a hash of their address, so that around the capacity some sets overflow and
others do not (Smith, "A comparative study of set associative memory mapping algorithms", 1978).
`solkit.analysis.common.l2_traffic` finds the distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.core import Reuse, Stream

Array = np.ndarray[Any, np.dtype[Any]]

_WAYS = 16
"""Lines of a set, of L2 (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking", 2018, section 3.4); the same is assumed for L1."""


@dataclass(frozen=True)
class Traffic:
    """Bytes between two levels of the memory hierarchy."""

    read: float
    written: float


def lost_share(since_bytes: Array, capacity_bytes: float) -> Array:
    """Return the probability that a cache evicted a line after some further bytes; 1 at infinity.

    A line is lost once as many of those bytes' lines as a set has ways fall into its set; their
    number per set is Poisson distributed.
    """
    mean = np.minimum(_WAYS * np.asarray(since_bytes, float) / max(capacity_bytes, 1.0), 500.0)
    term = np.exp(-mean)
    fewer = np.zeros_like(term)
    for lines in range(_WAYS):
        fewer += term
        term = term * mean / (lines + 1)
    share: Array = np.clip(1 - fewer, 0.0, 1.0)
    return share


def dram_traffic(reuse: Reuse, l2_bytes: float) -> Traffic:
    """Return bytes between DRAM and an initially cold L2, with the final write-back."""
    completed = sum(max(part_bytes - l2_bytes, 0.0) for part_bytes in reuse.partial_bytes)
    read, written = (
        sum(crossing_bytes(stream, l2_bytes) for stream in streams)
        for streams in (reuse.reads, reuse.writes)
    )
    return Traffic(read + completed, written)


def crossing_bytes(stream: Stream, l2_bytes: float) -> float:
    """Return the bytes that one tensor moves between DRAM and an L2 in one direction."""
    lost = lost_share(np.array(stream.distances_bytes, float), l2_bytes)
    crossing = _with_lost(stream.cold_bytes, stream.again_bytes, lost)
    if not stream.distinct_bytes:
        return crossing
    followed = _with_lost(stream.followed_cold_bytes, stream.followed_again_bytes, lost)
    repeated = max(followed / stream.distinct_bytes, 1.0)
    return min(crossing, stream.most_bytes * repeated)


def _with_lost(cold_bytes: int, again_bytes: Sequence[int], lost: Array) -> float:
    return cold_bytes + float(np.array(again_bytes, float) @ lost)
