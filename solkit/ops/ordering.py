"""Sorts, searches and counts."""

from __future__ import annotations

from solkit.ops._record import Family, Operator, Selects, copied, plain

_F = Family.ORDER

OPERATORS: tuple[Operator, ...] = (
    *copied("sort", _F, cost="along lines", needs="sorted line", selects=Selects.AFTER_EITHER),
    *copied("msort", _F, cost="along lines", selects=Selects.AFTER_EITHER),
    *copied("topk", _F, cost="along lines", needs="sorted line", chooses=True,
            selects=Selects.AFTER_EITHER),
    *plain("searchsorted bucketize", _F, cost="search", selects=Selects.SOME, limits="bins"),
    *plain("isin", _F, cost="free", selects=Selects.AFTER_ONE),
    *copied("unique _unique _unique2 unique_consecutive unique_dim unique_dim_consecutive", _F,
            cost="each once"),
    *plain("bincount histc histogram hash_tensor", _F, cost="each once", zero_at_zero=None,
           makes_zeros=True),
    *plain("_histogramdd_from_bin_cts _histogramdd_from_bin_tensors _histogramdd_bin_edges", _F,
           cost="each once", makes_zeros=True),
)  # fmt: skip
"""Records of sorts, searches and counts."""
