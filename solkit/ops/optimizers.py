"""Optimizer steps, and operators over lists of tensors that they are made of."""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Operator, plain

_F = Family.OPTIMIZER
_UNKNOWN: dict[str, Any] = {"zero_at_zero": None, "zero_at_minus_inf": None,
                            "flattens_to_zero": None}  # fmt: skip
_SUM: dict[str, Any] = {"cost": "foreach", "adds_terms": True}

OPERATORS: tuple[Operator, ...] = (
    *plain("_foreach_abs _foreach_acos _foreach_asin _foreach_atan _foreach_ceil "
           "_foreach_clamp_max _foreach_clamp_min _foreach_clone _foreach_copy _foreach_cos "
           "_foreach_cosh _foreach_erf _foreach_erfc _foreach_exp _foreach_expm1 "
           "_foreach_floor _foreach_frac _foreach_lgamma _foreach_log _foreach_log10 "
           "_foreach_log1p _foreach_log2 _foreach_max _foreach_maximum _foreach_minimum "
           "_foreach_mm _foreach_neg _foreach_reciprocal _foreach_round "
           "_foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh "
           "_foreach_sqrt _foreach_tan _foreach_tanh _foreach_trunc", _F,
           cost="foreach", **_UNKNOWN),
    *plain("_foreach_zero", _F, cost="foreach", makes_zeros=True),
    *plain("_foreach_add", _F, **_SUM, replaces=True, neutral=("other scalar scalars", 0)),
    *plain("_foreach_sub", _F, **_SUM, **_UNKNOWN, neutral=("other scalar scalars", 0)),
    *plain("_foreach_addcdiv", _F, **_SUM, replaces=True, neutral=("value scalars", 0)),
    *plain("_foreach_addcmul", _F, **_SUM, **_UNKNOWN, neutral=("value scalars", 0)),
    *plain("_foreach_lerp", _F, **_SUM, replaces=True, neutral=("weight weights", 0)),
    *plain("_foreach_mul", _F, cost="foreach", replaces=True, zero_at_zero=True, multiplies=True,
           neutral=("other scalar scalars", 1)),
    *plain("_foreach_div", _F, cost="foreach", **_UNKNOWN, neutral=("other scalar scalars", 1)),
    *plain("_foreach_pow", _F, cost="foreach", **_UNKNOWN, neutral=("exponent", 1)),
    *plain("_fused_adam", _F, cost="adam", replaces=True),
    *plain("_fused_adamw", _F, cost="adamw", replaces=True),
    *plain("_fused_adagrad", _F, cost="adagrad"),
    *plain("_fused_sgd", _F, cost="sgd", replaces=True),
    *plain("_amp_foreach_non_finite_check_and_unscale", _F, cost="unscale"),
    *plain("_amp_update_scale", _F, cost="update scale"),
)  # fmt: skip
"""Records of optimizer steps."""
