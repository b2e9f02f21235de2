"""Elementwise ops.

A negation, an absolute value and a clamp to [0, 1] are modifiers of the instructions around them
(`-x`, `|x|` and `.SAT` in SASS) and cost nothing.
"""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, compute_like, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

# Per element of the result: (scalar operations, special-function results). A sigmoid is
# (1 + tanh(x/2)) / 2: a product, one tanh, a multiply-add.
_POINTWISE: dict[str, tuple[int, int]] = {
    **dict.fromkeys("abs neg positive conj_physical _conj_physical real imag".split(), (0, 0)),
    **dict.fromkeys(
        """
        and bitwise_and bitwise_not bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
        ceil clamp clamp_max clamp_min copysign eq floor fmax fmin ge gt hardtanh heaviside isfinite
        isinf isnan le leaky_relu logical_and logical_not logical_or logical_xor lt maximum minimum
        mul ne relu relu6 round sgn sign signbit threshold trunc nan_to_num
        __and__ __or__ __xor__ __lshift__ __rshift__ __ilshift__ __irshift__ prelu _prelu_kernel
        hardshrink softshrink frac square gcd lcm rrelu_with_noise rrelu_with_noise_functional
        _add_relu leaky_relu_backward hardtanh_backward hardshrink_backward softshrink_backward
        hardsigmoid_backward rrelu_with_noise_backward elu_backward _prelu_kernel_backward
        native_dropout_backward _masked_scale
        """.split(),
        (1, 0),
    ),
    **dict.fromkeys(
        "exp exp2 log log2 log10 sin cos tanh rsqrt sqrt reciprocal".split(),
        (0, 1),
    ),
    **dict.fromkeys("expm1 log1p xlogy special_xlog1py special_entr".split(), (1, 1)),
    "sigmoid": (3, 1),
    "silu": (3, 1),  # h tanh(h) + h with h = x/2
    "mish": (5, 2),  # x n / (n + 2) with n = e (e + 2), e = exp x
    "softplus": (2, 2),  # log(1 + exp x)
    "log_sigmoid_forward": (2, 2),
    "elu": (2, 1),
    "selu": (3, 1),
    "celu": (2, 1),
    "hardsigmoid": (2, 0),  # a saturating multiply-add
    "hardswish": (3, 0),
    "tan": (1, 3),  # sin * rcp(cos)
    "sinh": (2, 2),
    "cosh": (2, 2),
    **dict.fromkeys("asinh acosh".split(), (3, 2)),  # log(x + sqrt(x x ± 1))
    "atanh": (3, 2),  # log((1 + x) / (1 - x)) / 2
    "logit": (2, 2),  # log(x / (1 - x))
    "sinc": (2, 2),
    "lerp": (3, 0),
    "erf": (8, 0),  # a polynomial or rational form; CUDA's erff takes more
    "erfc": (8, 1),
    "erfinv": (8, 1),
    **dict.fromkeys("lgamma digamma polygamma igamma igammac".split(), (8, 1)),
    "floor_divide": (2, 1),
    **dict.fromkeys("remainder fmod".split(), (4, 1)),  # x - y floor(x / y)
    "atan": (8, 0),
    **dict.fromkeys("asin acos atan2 angle".split(), (8, 1)),
    "hypot": (3, 1),
    **dict.fromkeys("logaddexp logaddexp2".split(), (3, 2)),
    "sigmoid_backward": (3, 0),  # g (y - y y)
    "tanh_backward": (3, 0),
    "silu_backward": (7, 1),
    "mish_backward": (8, 2),
    "hardswish_backward": (2, 0),
    "softplus_backward": (3, 1),
    "log_sigmoid_backward": (2, 1),
    "glu": (4, 1),
    "polar": (2, 2),
}

# Of complex elements, in real operations: (a+bi)(c+di) is two products and two multiply-adds.
_COMPLEX: dict[str, tuple[int, int]] = {
    **dict.fromkeys("add sub rsub eq ne".split(), (2, 0)),
    "mul": (6, 0),
    "div": (9, 1),  # a product with the conjugate, |z|² and its reciprocal, two products
    "reciprocal": (5, 1),
    "square": (5, 0),  # a a - b b by a product and a multiply-add, 2 a b
    "abs": (3, 1),
    "sgn": (5, 1),
    "angle": (8, 1),  # an arctangent
    "exp": (2, 3),
    "log": (11, 2),  # log |z| and an arctangent
    "sqrt": (5, 2),
}
_FREE_OF_COMPLEX = "neg positive conj_physical _conj_physical real imag polar".split()

_LOGIC = """
bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or logical_xor logical_not and
__and__ __or__ __xor__
""".split()


@rule(" ".join(_POINTWISE))
def _pointwise(op: TracedOp) -> Cost:
    """So many operations for each distinct element of the result."""
    return _per_element(op, *_POINTWISE[_base(op)])


def _per_element(op: TracedOp, operations: int, sfu: int) -> Cost:
    """So many operations an element, as far as its dtype does not say otherwise."""
    count, like = op.result.distinct, compute_like(op)
    if any(use.dtype.is_complex for use in op.inputs):
        operations, sfu = _of_complex(op, operations, sfu)
    elif not (like.dtype.is_floating_point or like.dtype.is_complex):
        return _of_integers(op, like, min(operations, 1) * count)
    return scalar(like, operations * count, sfu * count)


def _of_complex(op: TracedOp, operations: int, sfu: int) -> tuple[int, int]:
    """What a complex element takes; where the table has nothing, at least two operations."""
    name = _base(op)
    if name in _FREE_OF_COMPLEX:
        return operations, sfu
    factors = [op.arguments.get(part) for part in ("self", "other")]
    if name in ("mul", "div") and not all(map(_is_complex, factors)):
        return 2, 0 if name == "mul" else 1
    return _COMPLEX.get(name, (2, sfu))


def _is_complex(factor: object) -> bool:
    return factor.dtype.is_complex if isinstance(factor, TensorUse) else isinstance(factor, complex)


def _of_integers(op: TracedOp, like: TensorUse, operations: int) -> Cost:
    """Logic works on 32-bit words, so on four one-byte elements at once."""
    if _base(op) in _LOGIC and like.dtype.itemsize == 1:
        operations = -(-operations // 4)
    return scalar(like, operations)


def _base(op: TracedOp) -> str:
    name = op.name.removeprefix("aten.")
    return name if name in _POINTWISE else name.removesuffix("_")


@rule("add sub rsub")
def _add(op: TracedOp) -> Cost:
    """An addition, or a multiply-add where a factor is given."""
    return _per_element(op, 1 if op.arguments.get("alpha", 1) in (1, -1) else 2, 0)


@rule("addcmul")
def _addcmul(op: TracedOp) -> Cost:
    """A multiply-add, and a product where a factor is given."""
    return _per_element(op, 2 if op.arguments.get("value", 1) in (1, -1) else 3, 0)


@rule("addcdiv")
def _addcdiv(op: TracedOp) -> Cost:
    """A reciprocal per distinct divisor, a product and a multiply-add."""
    return scalar(op.result, 3 * op.result.distinct, sfu=op.inputs[-1].distinct)


@rule("div true_divide")
def _div(op: TracedOp) -> Cost:
    """One reciprocal per distinct divisor, one multiplication per element."""
    if any(use.dtype.is_complex for use in op.inputs) or not op.result.dtype.is_floating_point:
        return _per_element(op, 1, 0)
    divisor = op.arguments.get("other")
    reciprocals = divisor.distinct if isinstance(divisor, TensorUse) else 0
    rounded = 1 if op.arguments.get("rounding_mode") else 0
    count = op.result.distinct
    return scalar(op.result, (1 + rounded) * count, sfu=min(reciprocals, count))


@rule("pow float_power")
def _pow(op: TracedOp) -> Cost:
    """Whole powers by multiplication, halves by a root as well, others through log and exp."""
    base, exponent = op.arguments["self"], op.arguments["exponent"]
    if not isinstance(base, TensorUse):
        return _per_element(op, 1, 1)  # the base's logarithm is known
    if isinstance(exponent, TensorUse) or not float(2 * exponent).is_integer():
        return _per_element(op, 1, 2)
    whole = int(abs(exponent))
    half = float(abs(exponent)) != whole
    products = max(whole - 1, 0).bit_length() + int(half and whole > 0)
    roots = int(half or exponent < 0)  # x^-0.5 is one function
    return _per_element(op, products, roots)


@rule("gelu")
def _gelu(op: TracedOp) -> Cost:
    """With h = x/2: h f(x) + h; f is erf(x/√2), or tanh of x (c + d x x)."""
    if op.arguments.get("approximate", "none") == "tanh":
        return _per_element(op, 7, 1)
    return _per_element(op, 3 + _POINTWISE["erf"][0], 0)


@rule("gelu_backward")
def _gelu_backward(op: TracedOp) -> Cost:
    """G (Φ(x) + x φ(x)): erf, an exponential, two multiply-adds, two products."""
    tanh = op.arguments.get("approximate", "none") == "tanh"
    return _per_element(op, 12 if tanh else 6 + _POINTWISE["erf"][0], 1)


@rule("glu_backward")
def _glu_backward(op: TracedOp) -> Cost:
    """Of a and b at once: sigmoid(b) (3), g s (1), g a s (1 - s) (3)."""
    pairs = op.result.distinct // 2
    return scalar(op.result, 7 * pairs, sfu=pairs)


@rule("cross linalg_cross")
def _cross(op: TracedOp) -> Cost:
    """Each component is a product and a multiply-add."""
    return _per_element(op, 3, 0)


@rule("addr")
def _addr(op: TracedOp) -> Cost:
    """A multiply-add per element: beta M + alpha a bᵀ."""
    return _per_element(op, 2, 0)
