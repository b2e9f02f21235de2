"""Quantisation: conversions to and from small integers, and products with packed weights."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic")
def _quantize(op: TracedOp) -> Cost:
    """A multiply-add, x / scale + zero point; rounding and clamping come with the conversion."""
    return scalar(op.inputs[0], 2 * op.inputs[0].distinct)


@rule("dequantize")
def _dequantize(op: TracedOp) -> Cost:
    """(q - zero point) scale, a multiply-add."""
    return scalar(op.result, 2 * op.result.distinct)


@rule("fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask")
@rule("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
@rule("_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine")
@rule("_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional")
def _fake_quantize(op: TracedOp) -> Cost:
    """There and back: a product, rounding, a clamp, a product."""
    return scalar(op.inputs[0], 4 * op.inputs[0].distinct)


@rule("_fake_quantize_learnable_per_tensor_affine_backward")
@rule("_fake_quantize_learnable_per_channel_affine_backward")
def _fake_quantize_backward(op: TracedOp) -> Cost:
    """A product per element of the incoming gradient."""
    return scalar(op.inputs[0], op.inputs[0].distinct)


@rule("_weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu")
@rule("_weight_int4pack_mm_with_scales_and_zeros _dyn_quant_matmul_4bit _mixed_dtypes_linear")
def _packed_weight(op: TracedOp) -> Cost:
    """[M, K] times packed [K, N], in the activations' dtype."""
    x = op.inputs[0]
    return contraction(x, op.result.numel * x.shape[-1])


@rule("_scaled_mm_v2")
def _scaled_product(op: TracedOp) -> Cost:
    """[M, K] x [K, N] under block scales; two fp4 values may share a byte."""
    left = op.inputs[0]
    return contraction(left, op.result.numel * left.shape[-1])


@rule("_sparse_semi_structured_linear _sparse_semi_structured_mm _sparse_semi_structured_addmm")
@rule("_cslt_sparse_mm")
def _semi_structured(op: TracedOp) -> Cost:
    """Two of four weights are kept: the packed operand's elements, once per row or column."""
    dense = op.inputs[-1] if op.name.endswith("_linear") is False else op.inputs[0]
    inner = dense.shape[-1] if op.name.endswith("_linear") else dense.shape[-2]
    return contraction(dense, op.result.numel * inner // 2)
