"""Reductions over dimensions, scans along one, and norms of vectors."""

from __future__ import annotations

import math
from typing import Any

from solkit.ops._record import Family, Monotone, OfOne, Operator, Reduction, Selects, plain

_RISING = Monotone.RISING
_F, _S = Family.REDUCTION, Family.SCAN
_ITSELF = OfOne.ITSELF
_ORDERED: dict[str, Any] = {"cost": "reduction", "least": None, "most": None, "monotone": _RISING,
                            "keeps_minus_inf": None}  # fmt: skip
_RUNNING: dict[str, Any] = {"cost": "along lines", "monotone": _RISING, "keeps_minus_inf": True}
_OF_EXPONENTIALS: dict[str, Any] = {"cost": "log sum exp", "exponentials": "self",
                                   "monotone": _RISING}  # fmt: skip
_TRUTHS: dict[str, Any] = {"cost": "reduction", "needs": "reduction",
                           "reduces": Reduction.OTHER, "flattens_to_zero": True,
                           "selects": Selects.AFTER_ONE}  # fmt: skip
_OF_ROOTS = ("square", "divisor", "order")

OPERATORS: tuple[Operator, ...] = (
    *plain("sum", _F, cost="reduction", needs="reduction", zeros="reduction", monotone=_RISING,
           keeps_minus_inf=True, reduces=Reduction.SUM, of_one=_ITSELF, limits="summed"),
    *plain("mean", _F, cost="mean", needs="reduction", zeros="reduction", monotone=_RISING,
           keeps_minus_inf=True, reduces=Reduction.MEAN, of_one=_ITSELF, limits="kept",
           rounds=True, wraps=True),
    *plain("nansum", _F, cost="reduction", monotone=_RISING, keeps_minus_inf=True,
           reduces=Reduction.OTHER, of_one=_ITSELF),
    *plain("nanmean", _F, cost="mean", monotone=_RISING, keeps_minus_inf=True,
           reduces=Reduction.OTHER),
    *plain("amax", _F, cost="reduction", needs="reduction", zeros="reduction", monotone=_RISING,
           keeps_minus_inf=True, reduces=Reduction.LARGEST, of_one=_ITSELF, limits="kept",
           selects=Selects.AFTER_LARGEST),
    *plain("amin", _F, cost="reduction", needs="reduction", zeros="reduction", monotone=_RISING,
           keeps_minus_inf=True, reduces=Reduction.LEAST, of_one=_ITSELF, limits="kept",
           selects=Selects.AFTER_LEAST),
    *plain("max", _F, cost="reduction", monotone=_RISING, keeps_minus_inf=True,
           reduces=Reduction.LARGEST, of_one=_ITSELF, selects=Selects.AFTER_LARGEST),
    *plain("min", _F, cost="reduction", monotone=_RISING, keeps_minus_inf=True,
           reduces=Reduction.LEAST, of_one=_ITSELF, selects=Selects.AFTER_LEAST),
    *plain("aminmax _aminmax", _F, cost="reduction", monotone=_RISING, keeps_minus_inf=True,
           selects=Selects.AFTER_EITHER),
    *plain("prod", _F, cost="reduction", needs="reduction", reduces=Reduction.PRODUCT,
           of_one=_ITSELF, selects=Selects.AFTER_ONE),
    *plain("any", _F, **_TRUTHS, zeros="reduction"),
    *plain("all", _F, **_TRUTHS, zeros="zero where one is"),
    *plain("_is_all_true _is_any_true", _F, cost="reduction", flattens_to_zero=True,
           selects=Selects.AFTER_ONE),
    *plain("argmax", _F, cost="reduction", needs="reduction", chooses=True, least=0.0,
           reduces=Reduction.OTHER, selects=Selects.AFTER_LARGEST),
    *plain("argmin", _F, cost="reduction", needs="reduction", chooses=True, least=0.0,
           reduces=Reduction.OTHER, selects=Selects.AFTER_LEAST),
    *plain("median nanmedian", _F, **_ORDERED, reduces=Reduction.OTHER, of_one=_ITSELF),
    *plain("mode", _F, **_ORDERED, reduces=Reduction.OTHER),
    *plain("kthvalue", _F, **_ORDERED, reduces=Reduction.OTHER, selects=Selects.AFTER_LEAST),
    *plain("count_nonzero", _F, cost="reduction", least=0.0, reduces=Reduction.OTHER),
    *plain("_sparse_sum", _F, cost="reduction", selects=None),
    *plain("logsumexp", _F, **_OF_EXPONENTIALS, needs="reduction", reduces=Reduction.LOG_SUM_EXP,
           of_one=_ITSELF),
    *plain("var", _F, cost="variance", needs="reduction", least=0.0,
           reduces=Reduction.OTHER, of_one=OfOne.CONSTANT),
    *plain("std", _F, cost="deviation", needs="reduction", least=0.0,
           reduces=Reduction.OTHER, of_one=OfOne.CONSTANT),
    *plain("var_mean", _F, cost="variance", reduces=Reduction.OTHER),
    *plain("std_mean", _F, cost="deviation", reduces=Reduction.OTHER),
    *plain("linalg_vector_norm", _F, cost="vector norm", needs="reduction", least=0.0,
           taken_in=_OF_ROOTS, keeps_minus_inf=True, reduces=Reduction.NORM),
    *plain("norm", _F, cost="vector norm", needs="reduction", least=0.0, taken_in=_OF_ROOTS,
           keeps_minus_inf=True),
    *plain("native_norm linalg__powsum", _F, cost="vector norm", least=0.0,
           keeps_minus_inf=True),
    *plain("_foreach_norm _foreach_powsum", _F, cost="vector norm", least=0.0,
           keeps_minus_inf=True),
    *plain("dist", _F, cost="distance", least=0.0),
    *plain("renorm embedding_renorm", _F, cost="renorm", zero_at_zero=True),
    *plain("trace", _F, cost="trace", needs="diagonal", monotone=_RISING),
    *plain("cumsum", _S, **_RUNNING, needs="scan", zero_at_zero=True),
    *plain("cumprod", _S, cost="along lines", needs="scan", zero_at_zero=True,
           selects=Selects.AFTER_ONE),
    *plain("cummax _cummax_helper", _S, **_RUNNING, selects=Selects.AFTER_LARGEST),
    *plain("cummin _cummin_helper", _S, **_RUNNING, selects=Selects.AFTER_LEAST),
    *plain("logcumsumexp", _S, **_OF_EXPONENTIALS, needs="scan", keeps_minus_inf=True,
           least=-math.inf),
    *plain("_logcumsumexp", _S, **_OF_EXPONENTIALS, keeps_minus_inf=True),
)  # fmt: skip
"""Records of reductions and scans."""
