"""Copies, and other ways to bring elements elsewhere as they are; views that copy."""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Monotone, Operator, Selects, copied, plain

_RISING = Monotone.RISING
_C, _M = Family.COPY, Family.MOVE
_SAME: dict[str, Any] = {"cost": "free", "needs": "aligned", "aligned": True, "zeros": "same"}
_CUT: dict[str, Any] = {
    "cost": "free",
    "needs": "aligned",
    "aligned": True,
    "zero_at_zero": True,
    "keeps_minus_inf": None,
    "makes_zeros": True,
    "selects": Selects.SOME,
}

_COPIES: tuple[Operator, ...] = (
    *copied("clone", _C, **_SAME, limits="kept"),
    *copied("_to_copy", _C, **_SAME, crosses=True, limits="kept", rounds=True, wraps=True),
    *copied("copy", _C, **_SAME, crosses=True, limits="kept", overwrites=True, replaces=True,
            writes="in place"),
    *copied("contiguous", _C, **_SAME),
    *copied("_unsafe_view", _M, **{**_SAME, "needs": "reshaped"}, limits="kept", launches=False),
    *copied("alias", _M, cost="free", zeros="same"),
    *copied("cat", _C, cost="free", needs="cat", zeros="cat"),
    *copied("stack", _M, cost="free", needs="stack"),
    *copied("repeat", _M, cost="free", needs="repeat", limits="kept"),
    *copied("flip", _M, cost="free", needs="flip", limits="kept"),
    *copied("roll", _M, cost="free", needs="roll", limits="kept"),
)  # fmt: skip

_CUTS: tuple[Operator, ...] = (
    *plain("tril", _M, **_CUT, zeros="lower triangle"),
    *plain("triu", _M, **_CUT, zeros="upper triangle"),
    # in the branch that is not chosen, an element is not needed
    *plain("where", _M, cost="free", needs="where", zeros="where", zero_at_zero=None,
           keeps_minus_inf=None, makes_zeros=True, selects=Selects.SOME, decides=("condition",),
           monotone=_RISING),
    *copied("constant_pad_nd", _M, cost="free", needs="pad", zeros="pad", makes_zeros=True,
            selects=Selects.SOME),
    *copied("diag", _M, cost="free", makes_zeros=True, selects=Selects.SOME),
    *copied("diag_embed", _M, cost="free", zeros="diagonal matrix", makes_zeros=True),
    *copied("block_diag", _M, cost="free", zeros="diagonal blocks", makes_zeros=True),
    *copied("diagonal_copy", _M, cost="free", selects=Selects.SOME),
    *copied("im2col", _M, cost="free", axes=2, needs="windows", zeros="windows"),
    *copied("reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
            "replication_pad2d replication_pad3d", _M, cost="free"),
    *plain("repeat_interleave", _M, cost="free"),  # makes indices of repeats
)  # fmt: skip

_WHOLE = """
_chunk_cat _conj_copy _fw_primal_copy _lazy_clone _make_dual_copy _neg_view_copy _reshape_copy
_stack alias_copy channel_shuffle detach_copy expand_as expand_copy lift_fresh_copy
native_channel_shuffle permute_copy pixel_shuffle pixel_unshuffle rot90 squeeze_copy t_copy
transpose_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy complex
swapaxes_ swapdims_ t_ transpose_ squeeze_ unsqueeze_ broadcast_tensors
"""
"""All elements, in another order or shape."""

_PARTS = """
_pack_padded_sequence _padded_dense_to_jagged_forward as_strided as_strided_ as_strided_copy
narrow_copy select_copy slice_copy split_copy split_with_sizes_copy unbind_copy unfold_copy
unsafe_split unsafe_split_with_sizes _to_cpu to_mkldnn _mkldnn_reshape _mkldnn_transpose
resize_as resize_as_ _resize_output pin_memory _pin_memory
"""
"""Some elements, or elements in a place of their own."""

_PADDED = """
_jagged_to_padded_dense_forward _nested_from_padded _nested_from_padded_tensor to_padded_tensor
"""

OPERATORS: tuple[Operator, ...] = (
    *_COPIES,
    *_CUTS,
    *copied(_WHOLE, _M, cost="free"),
    *copied("_reshape_alias detach lift lift_fresh", _M, cost="free", launches=False),
    *copied(_PARTS, _M, cost="free", selects=None),
    *copied("_copy_from _copy_from_and_resize", _M, cost="free", crosses=True, selects=None),
    *copied("resize set", _M, cost="free", launches=False, selects=None),
    *copied(_PADDED, _M, cost="free", makes_zeros=True, selects=None),
    *plain("cumulative_trapezoid", _M, cost="free", selects=None),
)
"""Records of moves."""
