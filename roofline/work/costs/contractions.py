"""Matrix and vector products."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule, scalar
from solkit.roofline.work.products import multiply_adds
from solkit.roofline.work.program import TracedOp


@rule("product")
def _product(op: TracedOp) -> Cost:
    """[.., M, K] x [.., K, N]: a multiply-add for each m, k and n that matters.

    An added term costs nothing: the accumulators can start from it.
    """
    lhs, rhs = (op.arguments[name] for name in op.operator.factors)
    count = multiply_adds(lhs, rhs, op.result, op.is_symmetric)
    return contraction(lhs, count, dtype=common_dtype(lhs, rhs))


@rule("product summed over a batch")
def _addbmm(op: TracedOp) -> Cost:
    """Return a batch that is summed lengthens K."""
    lhs, rhs = op.arguments["batch1"], op.arguments["batch2"]
    terms = lhs.shape[-1] * lhs.shape[0]
    return contraction(lhs, op.result.numel * terms, dtype=common_dtype(lhs, rhs))


@rule("whole product")
def _whole_product(op: TracedOp) -> Cost:
    """Kept whole by some backends: [.., K] x [N, K] or [.., M, K] x [K, N]."""
    lhs, rhs = op.inputs[:2]
    return contraction(lhs, op.result.numel * lhs.shape[-1], dtype=common_dtype(lhs, rhs))


@rule("outer product")
def _outer(op: TracedOp) -> Cost:
    return scalar(op.result, op.result.numel)
