"""Losses."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("nll_loss_forward nll_loss2d_forward nll_loss_nd")
def _nll(op: TracedOp) -> Cost:
    """Picks one element per target and sums."""
    return scalar(op.inputs[0], op.inputs[1].numel)
