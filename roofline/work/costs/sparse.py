"""Products with sparse matrices."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule
from solkit.roofline.work.program import TracedOp


@rule("spmm")
def _spmm(op: TracedOp) -> Cost:
    """Multiply each stored value, zeros in blocks too, with each column of the dense operand."""
    values, dense = op.arguments["values"], op.arguments["dense"]
    columns = dense.shape[1] if len(dense.shape) == 2 else 1
    return contraction(values, values.numel * columns)
