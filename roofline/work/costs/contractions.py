"""Matrix and vector products."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("mm bmm _int_mm _scaled_mm matmul")
def _mm(op: TracedOp) -> Cost:
    """[.., M, K] x [.., K, N]: M*N*K multiply-adds."""
    left = op.inputs[0]
    return contraction(left, op.result.numel * left.shape[-1])


@rule("addmm baddbmm addbmm")
def _addmm(op: TracedOp) -> Cost:
    """beta*C + alpha*(A @ B). A batch that is summed (addbmm) lengthens K."""
    left = op.inputs[-2]
    length = left.shape[-1] * (left.shape[0] if op.name == "aten.addbmm" else 1)
    return contraction(left, op.result.numel * length, extra=op.result.numel)


@rule("linear")
def _linear(op: TracedOp) -> Cost:
    x, bias = op.inputs[0], op.arguments.get("bias")
    return contraction(x, op.result.numel * x.shape[-1], extra=op.result.numel if bias else 0)


@rule("mv dot vdot addmv inner")
def _mv(op: TracedOp) -> Cost:
    """A matrix-vector or dot product: one multiply-add per matrix element."""
    operands = op.inputs[-2:]
    extra = op.result.numel if op.name == "aten.addmv" else 0
    return contraction(operands[0], max(use.numel for use in operands), extra)


@rule("ger outer")
def _outer(op: TracedOp) -> Cost:
    return scalar(op.result, op.result.numel)


@rule("_cdist_forward _pdist_forward")
def _cdist(op: TracedOp) -> Cost:
    """Euclidean distances through |x|^2 + |y|^2 - 2xy: a matrix product and a root each."""
    x = op.inputs[0]
    found = contraction(x, op.result.numel * x.shape[-1])
    return Cost({**found.operations, "sfu": op.result.numel})
