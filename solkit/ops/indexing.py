"""Lookups by an index, and scatters to the places that an index names.

Where an index names nothing, the elements of a table need not be read; which those are is data.
"""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Operator, Selects, copied, plain

_L, _S = Family.LOOKUP, Family.SCATTER
_NAMED: dict[str, Any] = {"cost": "free", "selects": Selects.NAMED, "limits": "kept"}
_INTO: dict[str, Any] = {"needs": "into a copy", "zero_at_zero": None, "keeps_minus_inf": None}
_PUT: dict[str, Any] = {**_INTO, "makes_zeros": True, "selects": Selects.SOME}
_ADDED: dict[str, Any] = {"zero_at_zero": None, "keeps_minus_inf": None}
_SPREAD: dict[str, Any] = {"cost": "gradient", "zero_at_zero": None, "keeps_minus_inf": None}

_LOOKUPS: tuple[Operator, ...] = (
    *copied("embedding", _L, **_NAMED, needs="embedding", lookups="weight", decides=("indices",),
            zeros="looked up"),
    *copied("index", _L, **_NAMED, needs="index", lookups="self", decides=("indices",),
            zeros="looked up"),
    *copied("_unsafe_index", _L, **_NAMED, needs="index", lookups="self", decides=("indices",),
            zeros="looked up"),
    *copied("index_select", _L, **_NAMED, needs="index select", lookups="self",
            decides=("index",), zeros="looked up"),
    *copied("gather", _L, **_NAMED, needs="gather", lookups="self", decides=("index",)),
    *copied("take", _L, **_NAMED, needs="take", lookups="self", decides=("index",)),
    *copied("masked_select", _L, cost="free", needs="masked select", selects=Selects.SOME,
            decides=("mask",)),
    *copied("nonzero nonzero_static", _L, cost="free", selects=Selects.SOME),
    *copied("_unsafe_masked_index", _L, cost="free", makes_zeros=True, selects=Selects.SOME,
            decides=("mask", "indices")),
    *plain("_embedding_bag _embedding_bag_forward_only", _L, cost="bag", needs="bag",
           selects=Selects.NAMED, decides=("indices", "offsets"), multiplies=True),
)  # fmt: skip

_SCATTERS: tuple[Operator, ...] = (
    *plain("index_copy", _S, covers=True, cost="free", writes="put rows", replaces=True,
           zeros="rows of an index", decides=("index",), **{**_INTO, "selects": Selects.SOME}),
    *plain("index_fill", _S, cost="free", writes="put rows", zeros="rows of an index",
           decides=("index",), **_PUT),
    *plain("index_add", _S, cost="index add", writes="add rows", adds_terms=True, replaces=True,
           zeros="rows of an index", decides=("index",), **_INTO),
    *plain("index_reduce", _S, cost="index add", writes="add rows", decides=("index",), **_ADDED),
    *plain("scatter", _S, covers=True, cost="scatter", writes="scatter", zeros="scatter",
           replaces=True, decides=("index",), **_PUT),
    *plain("scatter_add", _S, cost="scatter add", writes="scatter add", replaces=True,
           zeros="scatter",
           decides=("index",), makes_zeros=True, **_INTO),
    *plain("scatter_reduce", _S, cost="scatter add", writes="scatter add", decides=("index",),
           **_ADDED),
    *plain("index_put", _S, covers=True, cost="index put", writes="index put", replaces=True,
           zeros="places of indices", decides=("indices",), **_PUT),
    *plain("_unsafe_index_put", _S, covers=True, cost="index put", writes="index put",
           decides=("indices",), **_PUT),
    *plain("_index_put_impl", _S, cost="index put", writes="index put", replaces=True,
           zeros="places of indices", decides=("indices",), makes_zeros=True,
           selects=Selects.SOME, **_ADDED),
    *plain("_unsafe_masked_index_put_accumulate", _S, cost="index put always",
           decides=("mask", "indices"), makes_zeros=True, selects=Selects.SOME, **_ADDED),
    *plain("put", _S, cost="put", decides=("index",), makes_zeros=None, selects=Selects.SOME,
           **_ADDED),
    *plain("masked_fill", _S, cost="free", needs="masked fill", writes="masked fill",
           zeros="masked fill", makes_zeros=True, selects=Selects.SOME, decides=("mask",),
           zero_at_zero=None, keeps_minus_inf=None),
    *plain("masked_scatter", _S, covers=True, cost="free", needs="masked scatter",
           makes_zeros=True, selects=Selects.SOME, decides=("mask",), zero_at_zero=None,
           keeps_minus_inf=None),
    *plain("masked_scatter_backward", _S, cost="free", makes_zeros=True, selects=Selects.SOME,
           decides=("mask",)),
    *plain("select_scatter slice_scatter diagonal_scatter as_strided_scatter", _S, cost="free",
           zero_at_zero=None, keeps_minus_inf=None, selects=None),
    *plain("select_backward slice_backward", _S, cost="free", makes_zeros=True,
           zeros="part of a gradient"),
    *plain("diagonal_backward", _S, cost="free", makes_zeros=True),
    # each element of the incoming gradient is added to one of the result
    *plain("embedding_dense_backward", _S, **_SPREAD, makes_zeros=True, decides=("indices",),
           zeros="rows of a gradient"),
    *plain("_embedding_bag_dense_backward", _S, **_SPREAD, makes_zeros=True,
           zeros="rows of a gradient"),
    *plain("_embedding_bag_backward", _S, **_SPREAD, makes_zeros=True),
    *plain("_embedding_bag_per_sample_weights_backward", _S, cost="bag weights backward",
           selects=None),
    *plain("reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
           "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward "
           "unfold_backward", _S, **_SPREAD),
    *plain("col2im", _S, **_SPREAD, makes_zeros=True),
    *plain("_segment_reduce_backward", _S, **_SPREAD, makes_zeros=None, selects=None),
    *plain("segment_reduce", _S, cost="segment reduce", makes_zeros=None, selects=None),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = (*_LOOKUPS, *_SCATTERS)
"""Records of lookups and scatters."""
