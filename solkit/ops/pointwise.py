"""Elementwise operators: functions of one operand, of several, and their gradients.

``operations`` are (scalar operations, special functions) per element of the result. A negation, an
absolute value and a clamp to [0, 1] are modifiers of the instructions around them (``-x``, ``|x|``
and ``.SAT`` in SASS) and cost nothing. A sigmoid is (1 + tanh(x/2)) / 2: a product, one tanh, a
multiply-add. Of complex elements (a+bi)(c+di) is two products and two multiply-adds.

A function that is NaN at minus infinity, but zero at the low numbers that stand for it, has an
unknown `zero_at_minus_inf`. Limits that depend on an argument are unknown.
"""

from __future__ import annotations

import math
from typing import Any

from solkit.ops._record import Family, Monotone, Operator, Selects, plain, records

_RISING, _FALLING, _EITHER, _NO = Monotone.RISING, Monotone.FALLING, Monotone.EITHER, Monotone.NO
_F = Family.POINTWISE
_ONE, _FUNCTION = (1, 0), (0, 1)
# the tangent of a logarithm is a quotient, as in Mish: tanh(log u) = (u² - 1) / (u² + 1)
_LOG: dict[str, Any] = {"taken_in": ("exp", "sigmoid", "tanh")}
_TO_LOGARITHMS = ("divisor", "log", "log2", "log10")
_UNARY: dict[str, Any] = {"cost": "elementwise", "zeros": "elementwise", "monotone": _RISING}
_ZERO: dict[str, Any] = {**_UNARY, "zero_at_zero": True}
_ODD: dict[str, Any] = {**_ZERO, "parity": -1}
_EVEN: dict[str, Any] = {**_UNARY, "monotone": _NO, "parity": 1}
_EVEN_ZERO: dict[str, Any] = {**_EVEN, "zero_at_zero": True}
_TRUTH: dict[str, Any] = {
    "cost": "elementwise",
    "operations": _ONE,
    "least": 0.0,
    "most": 1.0,
    "zero_at_zero": None,
    "zero_at_minus_inf": None,
    "flattens_to_zero": True,
}
_WORDS: dict[str, Any] = {"cost": "elementwise", "operations": _ONE, "zero_at_zero": None,
                          "bitwise": True}  # fmt: skip
_REST: dict[str, Any] = {"cost": "elementwise", "operations": (4, 1),  # x - y floor(x / y)
                         "zero_at_zero": True, "zero_at_minus_inf": None, "least": None,
                         "most": None}  # fmt: skip
_GRADIENT: dict[str, Any] = {"cost": "elementwise", "zero_at_zero": None, "multiplies": True}
_PARTS: dict[str, Any] = {**_GRADIENT, "operations": _ONE, "makes_zeros": True,
                          "selects": Selects.SOME, "decides": ("self",)}  # fmt: skip

_SIGNS_AND_STEPS: tuple[Operator, ...] = (
    *plain("neg", _F, **{**_ZERO, "monotone": _FALLING}, operations=(0, 0),
           complex_operations=(0, 0), negates=True, linear=True, keeps_minus_inf=True,
           replaces=True, limits="negated", wraps=True),
    *plain("positive", _F, **_ZERO, operations=(0, 0), complex_operations=(0, 0),
           keeps_minus_inf=True),
    *plain("abs", _F, **_EVEN_ZERO, operations=(0, 0),
           complex_operations=(3, 1), taken_in=("square", "divisor", "order"), least=0.0,
           keeps_minus_inf=True, limits="absolute",
           wraps=True),
    *plain("conj_physical _conj_physical real imag", _F, **_ZERO, operations=(0, 0),
           complex_operations=(0, 0), keeps_minus_inf=True),
    *plain("sign", _F, **_ODD, operations=(1, 0), least=-1.0, most=1.0, whole=True),
    *plain("sgn", _F, **_ZERO, operations=_ONE, complex_operations=(5, 1), least=-1.0, most=1.0,
           whole=True),
    *plain("ceil floor", _F, **_ZERO, operations=_ONE, keeps_minus_inf=True,
           flattens_to_zero=True, whole=True),
    *plain("round trunc", _F, **_ODD, operations=_ONE, keeps_minus_inf=True,
           flattens_to_zero=True, whole=True),
    *plain("frac", _F, **{**_ZERO, "monotone": _NO}, operations=_ONE, least=-1.0, most=1.0,
           zero_at_minus_inf=None),
    *plain("nan_to_num", _F, **_ZERO, operations=_ONE, keeps_minus_inf=True),
    *plain("signbit", _F, **_TRUTH, zeros="elementwise",
           monotone=_FALLING),
    *plain("isfinite isinf isnan", _F, **{**_TRUTH, "flattens_to_zero": None}),
    *plain("logical_not", _F, **_TRUTH, bitwise=True, zeros="opposite"),
    *records("deg2rad rad2deg", _F, zeros="elementwise", zero_at_zero=True, makes_zeros=False,
             flattens_to_zero=False, zero_at_minus_inf=False, keeps_minus_inf=True,
             minus_inf_at_zero=False, monotone=_RISING, least=-math.inf, most=math.inf,
             selects=Selects.NOTHING),
)  # fmt: skip

_POWERS: tuple[Operator, ...] = (
    *plain("exp", _F, **_UNARY, exponentials="self", operations=_FUNCTION,
           complex_operations=(2, 3), taken_in=("sqrt", *_TO_LOGARITHMS), inverts="aten.log",
           least=0.0, amplifies=True, zero_at_minus_inf=True, nonlinear=True, replaces=True),
    *plain("exp2", _F, **_UNARY, operations=_FUNCTION, least=0.0, zero_at_minus_inf=True,
           amplifies=True, nonlinear=True, replaces=True),
    *plain("expm1", _F, **_ZERO, amplifies=True, operations=(1, 1), least=-1.0, replaces=True),
    *plain("log", _F, **_UNARY, **_LOG, operations=_FUNCTION, complex_operations=(11, 2),
           logarithms="self", minus_inf_at_zero=True),
    *plain("log2 log10", _F, **_UNARY, operations=_FUNCTION, logarithms="self",
           minus_inf_at_zero=True),
    *plain("log1p", _F, **_ZERO, **_LOG, operations=(1, 1)),
    *plain("logit", _F, **_UNARY, operations=(2, 2), minus_inf_at_zero=True),
    *plain("sqrt", _F, **_ZERO, operations=_FUNCTION, complex_operations=(5, 2),
           taken_in=("square", *_TO_LOGARITHMS), least=0.0, replaces=True),
    *plain("rsqrt", _F, **{**_UNARY, "monotone": _FALLING}, operations=_FUNCTION, least=0.0,
           replaces=True),
    *plain("reciprocal", _F, **{**_UNARY, "monotone": _NO}, operations=_FUNCTION,
           complex_operations=(5, 1), zero_at_minus_inf=None),
    *plain("square", _F, **_EVEN_ZERO, operations=_ONE,
           complex_operations=(5, 0), least=0.0, keeps_minus_inf=True, rounds=True, wraps=True),
    # x ** 0 is 1, and so is 0 ** 0
    *records("pow", _F, cost="power", operations=(1, 1), least=None, most=math.inf, replaces=True,
             multiplies=True, limits="power", rounds=True, wraps=True, neutral=("exponent", 1),
             makes_zeros=False, flattens_to_zero=False, selects=Selects.NOTHING),
    *records("float_power", _F, cost="power", multiplies=True, makes_zeros=False,
             flattens_to_zero=False, selects=Selects.NOTHING),
)  # fmt: skip

_WAVES: tuple[Operator, ...] = (
    *plain("sin", _F, **{**_ODD, "monotone": _NO}, operations=_FUNCTION, least=-1.0, most=1.0,
           nonlinear=True, replaces=True),
    *plain("cos", _F, **_EVEN, operations=_FUNCTION, least=-1.0, most=1.0,
           nonlinear=True, replaces=True),
    *plain("tan", _F, **{**_ODD, "monotone": _NO}, operations=(1, 3)),  # sin * rcp(cos)
    *plain("sinc", _F, **_EVEN, operations=(2, 2), least=-0.25, most=1.0,
           zero_at_minus_inf=None),
    *plain("asin", _F, **_ODD, operations=(8, 1), least=-1.58, most=1.58),
    *plain("acos", _F, **{**_UNARY, "monotone": _FALLING}, operations=(8, 1), least=0.0, most=3.15),
    *plain("atan", _F, **_ODD, operations=(8, 0), least=-1.58, most=1.58),
    *plain("sinh", _F, **_ODD, operations=(2, 2), keeps_minus_inf=True),
    *plain("cosh", _F, **_EVEN, operations=(2, 2), least=1.0,
           keeps_minus_inf=True),
    *plain("asinh", _F, **_ODD, operations=(3, 2), keeps_minus_inf=True),  # log(x + sqrt(x x + 1))
    *plain("acosh", _F, **_UNARY, operations=(3, 2), least=0.0),
    *plain("atanh", _F, **_ODD, operations=(3, 2)),  # log((1 + x) / (1 - x)) / 2
    *plain("angle", _F, **{**_UNARY, "monotone": _NO}, operations=(8, 1),
           complex_operations=(8, 1), least=-3.15, most=3.15, flattens_to_zero=True,
           zero_at_zero=True),
)  # fmt: skip

_ACTIVATIONS: tuple[Operator, ...] = (
    *plain("relu", _F, **_ZERO, operations=_ONE, least=0.0, zero_at_minus_inf=True,
           flattens_to_zero=True, nonlinear=True, limits="rectified"),
    *plain("relu6", _F, **_ZERO, operations=_ONE, least=0.0, most=6.0, zero_at_minus_inf=True,
           flattens_to_zero=True),
    *plain("sigmoid", _F, **_UNARY, operations=(3, 1), least=0.0, most=1.0,
           zero_at_minus_inf=True, nonlinear=True, replaces=True),
    *plain("tanh", _F, **_ODD, operations=_FUNCTION, least=-1.0, most=1.0, nonlinear=True,
           replaces=True),
    # with h = x/2: h f(x) + h; f is erf(x/√2), or tanh of x (c + d x x)
    *plain("gelu", _F, **{**_ZERO, "monotone": _NO, "cost": "gelu"},
           least=-0.171, zero_at_minus_inf=None, nonlinear=True, replaces=True),
    # h tanh(h) + h with h = x/2
    *plain("silu", _F, **{**_ZERO, "monotone": _NO}, operations=(3, 1), least=-0.279,
           zero_at_minus_inf=None, nonlinear=True, replaces=True),
    # x n / (n + 2) with n = e (e + 2), e = exp x
    *plain("mish", _F, **{**_ZERO, "monotone": _NO}, operations=(5, 2), least=-0.31,
           zero_at_minus_inf=None, nonlinear=True),
    *plain("hardswish", _F, **{**_ZERO, "monotone": _NO}, operations=(3, 0), least=-0.376,
           zero_at_minus_inf=None, flattens_to_zero=True, nonlinear=True),
    # a saturating multiply-add
    *plain("hardsigmoid", _F, **_UNARY, operations=(2, 0), least=0.0, most=1.0,
           zero_at_minus_inf=True, flattens_to_zero=True, nonlinear=True),
    *plain("softplus", _F, **_UNARY, **_LOG, operations=(2, 2), least=0.0, zero_at_minus_inf=True,
           nonlinear=True),  # log(1 + exp x)
    *plain("log_sigmoid_forward", _F, **_UNARY, **_LOG, operations=(2, 2), most=0.0,
           keeps_minus_inf=True),
    *plain("leaky_relu", _F, **_ZERO, operations=_ONE, keeps_minus_inf=True, nonlinear=True),
    *plain("elu", _F, **_ZERO, operations=(2, 1), least=None, nonlinear=True),
    *plain("celu", _F, **_ZERO, operations=(2, 1), least=None),
    *plain("selu", _F, **_ZERO, operations=(3, 1), least=-1.76),
    *plain("prelu _prelu_kernel rrelu_with_noise rrelu_with_noise_functional", _F, **_ZERO,
           operations=_ONE, keeps_minus_inf=True),
    *plain("hardshrink softshrink", _F, **_ZERO, operations=_ONE, makes_zeros=True,
           flattens_to_zero=True, keeps_minus_inf=True),
    *plain("threshold", _F, cost="elementwise", operations=_ONE, zero_at_zero=None,
           zero_at_minus_inf=None, least=None, monotone=None, makes_zeros=True,
           flattens_to_zero=True),
    *records("hardtanh", _F, cost="elementwise", operations=_ONE, limits="hardtanh",
             nonlinear=True, monotone=_RISING, makes_zeros=False, selects=Selects.NOTHING),
    *records("clamp", _F, cost="elementwise", operations=_ONE, limits="clamp", nonlinear=True,
             monotone=_RISING, makes_zeros=False, selects=Selects.NOTHING),
    *records("clamp_min", _F, cost="elementwise", operations=_ONE, limits="clamp", monotone=_RISING,
             most=math.inf, makes_zeros=False, selects=Selects.AFTER_LARGEST),
    *records("clamp_max", _F, cost="elementwise", operations=_ONE, limits="clamp", monotone=_RISING,
             least=-math.inf, makes_zeros=False, selects=Selects.AFTER_LEAST),
    *plain("glu", _F, cost="elementwise", operations=(4, 1), zero_at_zero=None),
)  # fmt: skip

_SPECIAL: tuple[Operator, ...] = (
    # a polynomial or rational form; CUDA's erff takes more
    *plain("erf", _F, **_ODD, operations=(8, 0), least=-1.0, most=1.0, nonlinear=True),
    *plain("erfc", _F, **{**_UNARY, "monotone": _FALLING}, operations=(8, 1), least=0.0, most=2.0),
    *plain("erfinv", _F, **_ZERO, operations=(8, 1)),
    *plain("lgamma digamma polygamma igamma igammac", _F, cost="elementwise", operations=(8, 1),
           zero_at_zero=None, zero_at_minus_inf=None, minus_inf_at_zero=None, keeps_minus_inf=None,
           monotone=None, flattens_to_zero=None, least=None, most=None),
    *plain("special_entr", _F, **{**_ZERO, "monotone": _NO}, operations=(1, 1), most=0.37,
           logarithms="self", keeps_minus_inf=True),
    *records("special_ndtr", _F, zeros="elementwise", least=0.0, most=1.0, monotone=_RISING,
             zero_at_zero=False, zero_at_minus_inf=True, minus_inf_at_zero=False,
             keeps_minus_inf=False, flattens_to_zero=False, makes_zeros=False,
             selects=Selects.NOTHING),
    # at least an operation each, as torch's tag has it
    *records("i0 special_i0e special_i1 special_i1e special_erfcx special_ndtri special_log_ndtr "
             "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 "
             "special_bessel_y1 special_modified_bessel_i0 special_modified_bessel_i1 "
             "special_modified_bessel_k0 special_modified_bessel_k1 special_spherical_bessel_j0 "
             "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 mvlgamma "
             "logit_backward nextafter frexp isposinf isneginf", _F, makes_zeros=False,
             selects=Selects.NOTHING),
    *records("ldexp", _F, makes_zeros=False, multiplies=True, scales=True,
             selects=Selects.NOTHING),
    *plain("xlogy", _F, cost="elementwise", operations=(1, 1), zero_at_zero=None,
           logarithms="other", minus_inf_at_zero=None, keeps_minus_inf=None, multiplies=True),
    *plain("special_xlog1py", _F, cost="elementwise", operations=(1, 1), zero_at_zero=None,
           minus_inf_at_zero=None, keeps_minus_inf=None, multiplies=True),
    *plain("logaddexp", _F, cost="elementwise", operations=(3, 2), monotone=_RISING,
           exponentials="self other", zero_at_minus_inf=None, keeps_minus_inf=None),
    *plain("logaddexp2", _F, cost="elementwise", operations=(3, 2), monotone=_RISING,
           zero_at_minus_inf=None, keeps_minus_inf=None),
    *plain("hypot", _F, cost="elementwise", operations=(3, 1), least=0.0, keeps_minus_inf=True),
    *plain("atan2", _F, cost="elementwise", operations=(8, 1), zero_at_zero=None,
           flattens_to_zero=None, multiplies=True, least=-3.15, most=3.15),
)  # fmt: skip

_ARITHMETIC: tuple[Operator, ...] = (
    *plain("add", _F, commutes=True, cost="sum", zeros="sum", complex_operations=(2, 0), sums=True,
           adds_terms=True, linear=True, monotone=_RISING, keeps_minus_inf=True, replaces=True,
           limits="moved", rounds=True, wraps=True, neutral=("other", 0)),
    *plain("sub", _F, cost="sum", zeros="sum", complex_operations=(2, 0), sums=True,
           adds_terms=True, linear=True, monotone=_EITHER, keeps_minus_inf=True, replaces=True,
           cancels_equal=True, limits="moved", rounds=True, wraps=True, neutral=("other", 0)),
    *plain("rsub", _F, cost="sum", complex_operations=(2, 0), sums=True, linear=True,
           monotone=_EITHER, keeps_minus_inf=True, cancels_equal=True),
    *plain("_add_relu", _F, cost="elementwise", operations=_ONE, least=0.0, sums=True,
           monotone=_RISING, zero_at_minus_inf=True, flattens_to_zero=True),
    *plain("mul", _F, commutes=True, cost="elementwise", operations=_ONE, complex_operations=(6, 0),
           zeros="factor", zero_at_zero=True, multiplies=True, linear=True, monotone=_EITHER,
           keeps_minus_inf=True, replaces=True, limits="scaled", rounds=True, wraps=True,
           neutral=("other", 1)),
    *plain("div", _F, cost="quotient", complex_operations=(9, 1), zeros="quotient",
           zero_at_zero=True, multiplies=True, divides=True, linear=True, monotone=_EITHER,
           keeps_minus_inf=True, replaces=True, limits="scaled", rounds=True, wraps=True,
           neutral=("other", 1)),
    *plain("true_divide", _F, cost="quotient", complex_operations=(9, 1), zeros="quotient",
           zero_at_zero=True, multiplies=True, divides=True, linear=True, monotone=_EITHER,
           keeps_minus_inf=True),
    *plain("floor_divide", _F, cost="elementwise", operations=(2, 1), zero_at_zero=True,
           multiplies=True, divides=True, monotone=_EITHER, keeps_minus_inf=None,
           flattens_to_zero=True),
    *plain("remainder", _F, **_REST, limits="remainder"),
    *plain("fmod", _F, **_REST),
    *plain("addcmul", _F, cost="sum of products", sums=True, adds_terms=True, multiplies=True,
           monotone=_EITHER, keeps_minus_inf=True, replaces=True),
    *plain("addcdiv", _F, cost="sum of quotients", sums=True, adds_terms=True, multiplies=True,
           monotone=_EITHER, keeps_minus_inf=True, replaces=True),
    *plain("lerp", _F, cost="elementwise", operations=(3, 0), sums=True, adds_terms=True,
           multiplies=True, monotone=_EITHER, keeps_minus_inf=None, replaces=True),
    *plain("addr", _F, cost="rank one", keeps_minus_inf=True, multiplies=True),
    *plain("cross linalg_cross", _F, cost="cross", multiplies=True, zero_at_zero=None),
    *plain("polar", _F, cost="elementwise", operations=(2, 2), complex_operations=(2, 2),
           zero_at_zero=None, multiplies=True),
    # one limit each, if an operand has it; and as a ReLU, where an operand is zero
    *records("maximum fmax", _F, commutes=True, cost="elementwise", operations=_ONE,
           limits="maximum",
             most=math.inf, monotone=_RISING, makes_zeros=False, selects=Selects.AFTER_LARGEST),
    *records("minimum fmin", _F, commutes=True, cost="elementwise", operations=_ONE,
           limits="minimum",
             least=-math.inf, monotone=_RISING, makes_zeros=False, selects=Selects.AFTER_LEAST),
    *plain("copysign", _F, cost="elementwise", operations=_ONE, zero_at_zero=None,
           keeps_minus_inf=True),
    *records("gcd lcm", _F, cost="elementwise", operations=_ONE),
    *plain("heaviside", _F, cost="elementwise", operations=_ONE, zero_at_zero=None,
           zero_at_minus_inf=True, least=None, most=None, monotone=_RISING, flattens_to_zero=True,
           selects=Selects.SOME, decides=("self",)),
)  # fmt: skip

_COMPARISONS: tuple[Operator, ...] = (
    *plain("eq", _F, **_TRUTH, complex_operations=(2, 0), compares="eq", zeros="one hot"),
    *plain("ne", _F, **_TRUTH, complex_operations=(2, 0), compares="ne", zeros="comparison"),
    *plain("gt", _F, **_TRUTH, compares="gt", zeros="comparison"),
    *plain("ge", _F, **_TRUTH, compares="ge", zeros="comparison"),
    *plain("lt", _F, **_TRUTH, compares="lt", zeros="comparison"),
    *plain("le", _F, **_TRUTH, compares="le", zeros="comparison"),
    *plain("logical_and", _F, **_TRUTH, bitwise=True, selects=Selects.AFTER_ONE,
           zeros="conjunction"),
    *plain("logical_or", _F, **_TRUTH, bitwise=True, selects=Selects.AFTER_ONE,
           zeros="disjunction"),
    *plain("logical_xor", _F, **_TRUTH, bitwise=True),
    *plain("bitwise_and __and__ __iand__", _F, **_WORDS, selects=Selects.AFTER_ONE,
           limits="common bits", zeros="conjunction"),
    *plain("bitwise_or __or__ __ior__", _F, **_WORDS, selects=Selects.AFTER_ONE,
           zeros="disjunction"),
    *plain("bitwise_not", _F, **_WORDS, zeros="opposite"),
    *plain("bitwise_xor __xor__ __ixor__", _F, **_WORDS),
    *plain("bitwise_left_shift __lshift__ __ilshift__", _F, cost="elementwise", operations=_ONE,
           zero_at_zero=None),
    *plain("bitwise_right_shift __rshift__ __irshift__", _F, cost="elementwise", operations=_ONE,
           zero_at_zero=None, limits="shifted right"),
)  # fmt: skip

_GRADIENTS: tuple[Operator, ...] = (
    *plain("sigmoid_backward tanh_backward", _F, **_GRADIENT, operations=(3, 0)),  # g (y - y y)
    *plain("silu_backward", _F, **_GRADIENT, operations=(7, 1)),
    *plain("mish_backward", _F, **_GRADIENT, operations=(8, 2)),
    *plain("softplus_backward", _F, **_GRADIENT, operations=(3, 1)),
    *plain("log_sigmoid_backward", _F, **_GRADIENT, operations=(2, 1)),
    *plain("gelu_backward", _F, **{**_GRADIENT, "cost": "gelu backward"}),
    *plain("glu_backward", _F, **{**_GRADIENT, "cost": "glu backward"}),
    *plain("leaky_relu_backward rrelu_with_noise_backward elu_backward _prelu_kernel_backward", _F,
           **_GRADIENT, operations=_ONE),
    *plain("native_dropout_backward _masked_scale", _F, **_GRADIENT, operations=_ONE,
           makes_zeros=True),
    # flat parts of the function need no gradient
    *plain("hardtanh_backward hardshrink_backward softshrink_backward hardsigmoid_backward", _F,
           **_PARTS),
    *plain("hardswish_backward", _F, **{**_PARTS, "operations": (2, 0)}),
    *plain("threshold_backward", _F, **{**_PARTS, "cost": "free", "operations": None}),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    *(*_SIGNS_AND_STEPS, *_POWERS, *_WAVES, *_ACTIVATIONS, *_SPECIAL, *_ARITHMETIC),
    *(*_COMPARISONS, *_GRADIENTS),
)
"""Records of elementwise operators."""
