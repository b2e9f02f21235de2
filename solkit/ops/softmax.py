"""Softmax and its logarithm."""

from __future__ import annotations

import math

from solkit.ops._record import Family, Normalised, OfOne, Operator, plain

_F = Family.SOFTMAX
_EXP = {"exponentials": "self"}
_ONE = {**_EXP, "least": 0.0, "most": 1.0, "zero_at_minus_inf": True, "of_one": OfOne.CONSTANT,
        "normalises": Normalised.SUM_ONE, "amplifies": True}  # fmt: skip
_LOG = {**_EXP, "most": 0.0, "keeps_minus_inf": True, "of_one": OfOne.CONSTANT,
        "normalises": Normalised.LOG_SUM_ONE}  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    *plain("_softmax", _F, cost="softmax", needs="line", zeros="elementwise", nonlinear=True,
           **_ONE),
    *plain("_safe_softmax", _F, cost="softmax", needs="line", zeros="elementwise", **_ONE),
    *plain("softmax", _F, cost="softmax", **_ONE),
    # hidden elements may have any value, and rows that are all hidden are zero
    *plain("_masked_softmax", _F, cost="softmax", **{**_ONE, "makes_zeros": True, "selects": None}),
    *plain("_log_softmax", _F, cost="softmax", needs="line", zeros="floor kept", nonlinear=True,
           **_LOG),
    *plain("log_softmax", _F, cost="softmax", **_LOG),
    *plain("_softmax_backward_data", _F, cost="softmax backward", needs="line",
           multiplies=True, zeros="row of zeros"),
    *plain("_log_softmax_backward_data", _F, cost="log softmax backward", needs="line",
           multiplies=True, exponentials="output", zeros="row of zeros"),
    *plain("_masked_softmax_backward", _F, cost="softmax backward", makes_zeros=True,
           selects=None),
    *plain("_sparse_softmax", _F, cost="softmax", least=0.0, most=1.0, makes_zeros=None,
           selects=None, amplifies=True),
    *plain("_sparse_log_softmax", _F, cost="softmax", least=-math.inf, most=0.0, makes_zeros=None,
           selects=None),
    *plain("_sparse_softmax_backward_data", _F, cost="softmax backward", selects=None),
    *plain("_sparse_log_softmax_backward_data", _F, cost="log softmax backward", selects=None),
)  # fmt: skip
"""Records of softmax, forwards and backwards."""
