"""Ops that move, select, convert or invent data, and those that only ask or check."""

from __future__ import annotations

from solkit.roofline.work.costs._base import FREE, Cost, rule
from solkit.roofline.work.program import TracedOp

_MOVED = """
alias as_strided as_strided_copy block_diag broadcast_tensors cat channel_shuffle clone complex
constant_pad_nd contiguous copy copy_ cumulative_trapezoid detach diag diag_embed diagonal_copy
diagonal_scatter embedding expand_copy flip gather im2col index index_select lift_fresh
lift_fresh_copy masked_fill masked_scatter masked_select narrow_copy native_channel_shuffle
permute_copy pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d
repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize_ roll rot90
select_backward select_copy select_scatter set_ slice_backward slice_copy slice_scatter split_copy
split_with_sizes_copy squeeze_copy stack t_copy take transpose_copy tril triu unbind_copy
unfold_backward unfold_copy unsqueeze_copy upsample_nearest1d upsample_nearest2d
upsample_nearest3d view_copy threshold_backward where _local_scalar_dense _to_copy _unsafe_view
_reshape_copy _reshape_alias _unsafe_index index_copy index_fill isin nonzero nonzero_static
expand_as alias_copy detach_copy as_strided_scatter diagonal_backward _conj_copy _neg_view_copy
_fw_primal_copy _make_dual_copy view_as_complex_copy view_as_real_copy _lazy_clone unsafe_split
unsafe_split_with_sizes t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_ as_strided_ detach_
lift resize resize_as resize_as_ set _resize_output _copy_from _copy_from_and_resize _stack
_chunk_cat masked_scatter_backward max_unpool2d max_unpool3d _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d lu_unpack record_stream pin_memory _pin_memory
is_pinned _to_cpu to_mkldnn _mkldnn_reshape _mkldnn_transpose is_set_to allclose
_unsafe_masked_index _pack_padded_sequence _print _jagged_to_padded_dense_forward
_padded_dense_to_jagged_forward _nested_from_padded to_padded_tensor _nested_from_padded_tensor
"""

_INVENTED = """
arange empty empty_like empty_permuted empty_strided eye fill fill_ full full_like linspace
new_empty new_empty_strided new_full new_ones new_zeros ones ones_like scalar_tensor tril_indices
triu_indices zero zero_ zeros zeros_like _efficientzerotensor range logspace bartlett_window
blackman_window hamming_window hann_window kaiser_window fft_fftfreq fft_rfftfreq empty_quantized
_empty_affine_quantized _empty_per_channel_affine_quantized _new_zeros_with_same_feature_meta
"""

_RANDOM = """
bernoulli exponential multinomial normal normal_ rand rand_like randint randint_like randn
randn_like randperm random random_ uniform uniform_ native_dropout binomial cauchy geometric
log_normal poisson _standard_gamma _sample_dirichlet normal_functional _fused_dropout
_philox_key_fold_in _philox_key_split _philox_normal _philox_uniform
"""

_SPARSE = """
sparse_coo_tensor _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
_sparse_coo_tensor_unsafe sparse_compressed_tensor _sparse_compressed_tensor_with_dims
_sparse_compressed_tensor_unsafe sparse_mask _sparse_mask_projection
_validate_compressed_sparse_indices _convert_indices_from_coo_to_csr
_convert_indices_from_csr_to_coo _to_dense to_dense _to_sparse to_sparse _to_sparse_bsc
_to_sparse_bsr _to_sparse_csc _to_sparse_csr _coalesce _coalesced _nnz _dimI _dimV dense_dim
sparse_dim is_coalesced _indices_copy _values_copy indices_copy values_copy crow_indices_copy
col_indices_copy ccol_indices_copy row_indices_copy sparse_resize sparse_resize_and_clear
copy_sparse_to_sparse resize_as_sparse _spdiags _sparse_broadcast_to_copy
"""

_QUANTIZED = """
int_repr q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
qscheme _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor
_convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight
_cslt_compress _to_sparse_semi_structured
"""

_ASKED = """
sym_size equal is_same_size _assert_async _assert_scalar _assert_tensor_metadata
_linalg_check_errors _functional_assert_async _functional_assert_scalar
_functional_sym_constrain_range _functional_sym_constrain_range_for_size sym_constrain_range
sym_constrain_range_for_size _has_same_storage_numel _use_cudnn_ctc_loss _fused_sdp_choice
_cudnn_init_dropout_state _cudnn_rnn_flatten_weight
"""


@rule(" ".join((_MOVED, _INVENTED, _RANDOM, _SPARSE, _QUANTIZED, _ASKED)))
def _move(op: TracedOp) -> Cost:
    """Bytes, if any, and no arithmetic; how random numbers are made is not said."""
    del op
    return FREE
