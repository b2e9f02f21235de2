"""Ops that move, select, convert or invent data."""

from __future__ import annotations

from solkit.roofline.work.costs._base import FREE, Cost, rule
from solkit.roofline.work.program import TracedOp

_MOVES = """
    alias as_strided as_strided_copy arange bernoulli block_diag broadcast_tensors cat
    channel_shuffle clone complex constant_pad_nd contiguous copy copy_ cumulative_trapezoid
    detach diag diag_embed diagonal_copy diagonal_scatter embedding empty empty_like
    empty_permuted empty_strided expand_copy exponential eye fill fill_ flip full full_like
    gather im2col index index_select lift_fresh lift_fresh_copy linspace masked_fill
    masked_scatter masked_select multinomial narrow_copy native_channel_shuffle new_empty
    new_empty_strided new_full new_ones new_zeros normal normal_ ones ones_like permute_copy
    pixel_shuffle pixel_unshuffle rand rand_like randint randint_like randn randn_like randperm
    random random_ reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d resize_ roll rot90 scalar_tensor
    scatter select_backward select_copy select_scatter set_ slice_backward slice_copy
    slice_scatter split_copy split_with_sizes_copy squeeze_copy stack t_copy take transpose_copy
    tril tril_indices triu triu_indices unbind_copy unfold_backward unfold_copy uniform uniform_
    unsqueeze_copy upsample_nearest1d upsample_nearest2d upsample_nearest3d view_copy where zero
    zero_ zeros zeros_like _local_scalar_dense _to_copy _unsafe_view _reshape_copy
    _reshape_alias _unsafe_index index_put index_copy index_fill _index_put_impl_
    _efficientzerotensor native_dropout sym_size isin nonzero nonzero_static expand_as equal
    is_same_size _assert_async _assert_scalar _assert_tensor_metadata
"""


@rule(_MOVES)
def _move(op: TracedOp) -> Cost:
    """Moves, selects, converts or invents data: bytes, if any, and no arithmetic."""
    del op
    return FREE
