"""Random numbers, and dropout. How they are made is not said, so they cost their bytes alone.

Integers that are drawn from a few are a mask: `makes_zeros` is unknown where arguments say so.
"""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Operator, Selects, plain

_F = Family.RANDOM
_DRAWN: dict[str, Any] = {"cost": "free", "random": True}

OPERATORS: tuple[Operator, ...] = (
    *plain("normal uniform", _F, **_DRAWN, overwrites=True, replaces=True),
    *plain("exponential log_normal geometric", _F, **_DRAWN, overwrites=True, least=0.0),
    *plain("cauchy", _F, **_DRAWN, overwrites=True),
    *plain("random", _F, **_DRAWN, overwrites=True, makes_zeros=None),
    *plain("bernoulli", _F, **_DRAWN, overwrites=True, makes_zeros=True, selects=Selects.SOME,
           least=0.0, most=1.0),
    *plain("poisson binomial", _F, **_DRAWN, makes_zeros=True, least=0.0),
    *plain("multinomial", _F, **_DRAWN, least=0.0),
    *plain("rand", _F, **_DRAWN, least=0.0, most=1.0),
    *plain("rand_like", _F, **_DRAWN, reads_shape=True, least=0.0, most=1.0),
    *plain("randn", _F, **_DRAWN),
    *plain("randperm", _F, **_DRAWN, least=0.0),
    *plain("randn_like", _F, **_DRAWN, reads_shape=True),
    *plain("randint", _F, **_DRAWN, makes_zeros=None),
    *plain("randint_like", _F, **_DRAWN, reads_shape=True, makes_zeros=None),
    *plain("normal_functional", _F, **_DRAWN),
    *plain("_standard_gamma _sample_dirichlet", _F, **_DRAWN, least=0.0),
    *plain("_philox_key_fold_in _philox_key_split _philox_normal _philox_uniform", _F, **_DRAWN),
    *plain("native_dropout", _F, **_DRAWN, zeros="elementwise", zero_at_zero=True,
           keeps_minus_inf=True, makes_zeros=True, selects=Selects.SOME),
    *plain("_fused_dropout", _F, **_DRAWN, zero_at_zero=True, keeps_minus_inf=True,
           makes_zeros=True, selects=Selects.SOME),
    *plain("dropout", _F, random=True, zeros="same", needs="aligned", aligned=True,
           zero_at_zero=True, keeps_minus_inf=True, makes_zeros=True, selects=Selects.SOME),
)  # fmt: skip
"""Records of what draws."""
