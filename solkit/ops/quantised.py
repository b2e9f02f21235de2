"""Quantisation: conversions to and from small integers, products with packed weights."""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Monotone, Operator, copied, plain, records

_RISING = Monotone.RISING
_F = Family.QUANTISATION
_ROUNDED: dict[str, Any] = {"monotone": _RISING, "zero_at_zero": None, "flattens_to_zero": None,
                            "makes_zeros": None}  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    *plain("quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic", _F,
           cost="quantise", **_ROUNDED),
    *plain("dequantize", _F, cost="dequantise", **_ROUNDED),
    *plain("fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask "
           "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
           "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
           "_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional", _F,
           cost="fake quantise", **_ROUNDED),
    *plain("_fake_quantize_learnable_per_tensor_affine_backward "
           "_fake_quantize_learnable_per_channel_affine_backward", _F,
           cost="fake quantise backward", makes_zeros=None, selects=None),
    *plain("_weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu "
           "_weight_int4pack_mm_with_scales_and_zeros _dyn_quant_matmul_4bit "
           "_mixed_dtypes_linear", _F, cost="packed product", multiplies=True),
    *plain("_sparse_semi_structured_linear", _F, cost="semi structured linear", multiplies=True),
    *plain("_sparse_semi_structured_mm _sparse_semi_structured_addmm _cslt_sparse_mm", _F,
           cost="semi structured", multiplies=True),
    *copied("int_repr", _F, cost="free", needs="aligned", aligned=True),
    *records("q_scale q_zero_point q_per_channel_axis q_per_channel_scales "
             "q_per_channel_zero_points qscheme _make_per_tensor_quantized_tensor "
             "_make_per_channel_quantized_tensor _convert_weight_to_int4pack "
             "_convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight _cslt_compress "
             "_to_sparse_semi_structured", _F, cost="free"),
)  # fmt: skip
"""Records of quantisation."""
