"""Pooling."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule(
    """
    avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d_with_indices max_pool3d_with_indices
    max_pool2d max_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d
    adaptive_max_pool2d adaptive_max_pool3d
    """
)
def _pool(op: TracedOp) -> Cost:
    """At the least one operation per result: overlapping windows can share partial results."""
    return scalar(op.result, op.result.numel)
