"""Quantisation: conversions to and from small integers, and products with packed weights."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("dequantise")
def _dequantize(op: TracedOp) -> Cost:
    """(q - zero point) scale, a multiply-add."""
    return scalar(op.result, 2 * op.result.distinct)


@rule("fake quantise")
def _fake_quantize(op: TracedOp) -> Cost:
    """There and back: a product, rounding, a clamp, a product."""
    return scalar(op.inputs[0], 4 * op.inputs[0].distinct)


@rule("fake quantise backward")
def _fake_quantize_backward(op: TracedOp) -> Cost:
    """Return a product per element of the incoming gradient."""
    return scalar(op.inputs[0], op.inputs[0].distinct)


@rule("packed product", "scaled product")
def _packed_product(op: TracedOp) -> Cost:
    """[M, K] times [K, N], packed or under block scales, in the first's dtype."""
    lhs = op.inputs[0]
    return contraction(lhs, op.result.numel * lhs.shape[-1])


@rule("semi structured")
def _semi_structured(op: TracedOp) -> Cost:
    """Count the packed operand's elements, once per column: two of four weights are kept."""
    dense = op.inputs[-1]
    return contraction(dense, op.result.numel * dense.shape[-2] // 2)


@rule("semi structured linear")
def _semi_structured_linear(op: TracedOp) -> Cost:
    """Return the same, once per row."""
    dense = op.inputs[0]
    return contraction(dense, op.result.numel * dense.shape[-1] // 2)
