"""Normalisations, forwards and backwards."""

from __future__ import annotations

from solkit.ops._record import Family, Normalised, Operator, plain

_F = Family.NORM

OPERATORS: tuple[Operator, ...] = (
    *plain("native_layer_norm", _F, cost="layer norm", needs="layer norm", affine=True,
           nonlinear=True, normalises=Normalised.CENTRED),
    *plain("native_group_norm", _F, cost="norm", needs="batch", affine=True, nonlinear=True,
           normalises=Normalised.CENTRED),
    *plain("_fused_rms_norm", _F, cost="rms norm", needs="layer norm", affine=True, nonlinear=True,
           normalises=Normalised.SCALED),
    *plain("rms_norm", _F, cost="rms norm"),
    *plain("layer_norm", _F, cost="layer norm"),
    *plain("group_norm instance_norm batch_norm", _F, cost="norm"),
    *plain("native_batch_norm cudnn_batch_norm", _F, cost="norm", needs="batch norm",
           affine=True, averages=True),
    *plain("_native_batch_norm_legit _batch_norm_with_update miopen_batch_norm", _F, cost="norm",
           affine=True, averages=True),
    *plain("_native_batch_norm_legit_functional _batch_norm_with_update_functional", _F,
           cost="norm"),
    *plain("_native_batch_norm_legit_no_training", _F, cost="given norm",
           needs="given batch norm"),
    *plain("_batch_norm_no_update", _F, cost="given norm"),
    *plain("native_layer_norm_backward", _F, cost="layer norm backward", needs="norm backward",
           zeros="rows of zeros"),
    *plain("native_group_norm_backward", _F, cost="channel norm backward", needs="norm backward",
           zeros="rows of zeros"),
    *plain("native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward", _F,
           cost="channel norm backward"),
    *plain("batch_norm_backward", _F, cost="channel norm backward"),
    *plain("_fused_rms_norm_backward", _F, cost="rms norm backward", needs="norm backward",
           zeros="rows of zeros"),
    *plain("batch_norm_stats", _F, cost="statistics"),
    *plain("batch_norm_elemt", _F, cost="given norm"),
    *plain("batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_update_stats "
           "batch_norm_backward_elemt batch_norm_backward_reduce", _F, cost="per statistic"),
    *plain("_weight_norm_interface", _F, cost="weight norm"),
    *plain("_weight_norm_interface_backward", _F, cost="weight norm backward"),
    *plain("_transform_bias_rescale_qkv", _F, cost="rescale"),
)  # fmt: skip
"""Records of normalisations."""
