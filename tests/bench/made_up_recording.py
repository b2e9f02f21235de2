"""A recording of twenty configurations, which stands for a GPU."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from solkit.core import Outcome, Verdict
from solkit.measure.benches import RecordedBench

__all__ = ["ROWS", "SeededBench"]

BASE = Outcome(
    *("k" * 16, "made_up", "other", "file", "made_up/N=1", "h200", {}, Verdict.CORRECT),
    *(datetime.now(timezone.utc), "random"),
    shape={"N": 1},
)
ROWS = tuple(
    replace(
        BASE,
        sequence=number,
        params={"BLOCK": block, "num_warps": warps},
        time_ms=1.0 + abs(block - 64) / 64 + warps / 8,
        samples_ms=(1.0 + abs(block - 64) / 64 + warps / 8,) * 12,
        gpu_s=0.05,
        compile_s=0.5,
    )
    for number, (block, warps) in enumerate(
        (block, warps) for block in (16, 32, 64, 128, 256) for warps in (1, 2, 4, 8)
    )
)


class SeededBench(RecordedBench):
    """Has no inputs, so their seed changes nothing."""

    seed, waited_s = 0, 0.0
