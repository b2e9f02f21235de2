"""Questions about tensors, and checks: most launch nothing."""

from __future__ import annotations

from solkit.ops._record import Family, Operator, Selects, plain, records

_F = Family.QUERY

OPERATORS: tuple[Operator, ...] = (
    *plain("_local_scalar_dense", _F, cost="free", launches=False, looks=True, zero_at_zero=True),
    *plain("equal", _F, cost="free", launches=False, looks=True, selects=Selects.AFTER_ONE),
    *plain("allclose", _F, cost="free", launches=False, looks=True, selects=Selects.AFTER_ONE),
    *records("is_same_size is_set_to record_stream is_pinned _has_same_storage_numel "
             "_assert_async _nested_tensor_from_mask_left_aligned", _F, cost="free",
             launches=False),
    *records("sym_size _assert_scalar _assert_tensor_metadata _linalg_check_errors "
             "_functional_assert_async _functional_assert_scalar _functional_sym_constrain_range "
             "_functional_sym_constrain_range_for_size sym_constrain_range "
             "sym_constrain_range_for_size _use_cudnn_ctc_loss _fused_sdp_choice "
             "_cudnn_init_dropout_state _cudnn_rnn_flatten_weight _print", _F, cost="free"),
)  # fmt: skip
"""Records of questions and checks."""
