"""Elementwise ops."""

from __future__ import annotations

import torch

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

# Per element of the result: (scalar operations, special-function results).
_POINTWISE: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        """
        abs add addcmul_ and bitwise_and bitwise_not bitwise_or bitwise_xor bitwise_left_shift
        bitwise_right_shift ceil clamp clamp_max clamp_min copysign eq floor fmax fmin ge gt
        hardtanh heaviside isfinite isinf isnan le leaky_relu logical_and logical_not logical_or
        logical_xor lt maximum minimum mul ne neg relu relu6 round rsub sgn sign signbit sub
        threshold threshold_backward trunc nan_to_num __and__ __or__ __xor__ prelu _prelu_kernel
        positive hardshrink softshrink frac square
        """.split(),
        (1, 0),
    ),
    **dict.fromkeys(
        """
        exp exp2 log log2 log10 sin cos tanh rsqrt sqrt reciprocal
        """.split(),
        (0, 1),
    ),
    "expm1": (1, 1),
    "log1p": (1, 1),
    "sigmoid": (3, 1),  # (1 + tanh(x/2)) / 2: a product, tanh, a multiply-add
    "silu": (4, 1),  # x * sigmoid(x)
    "mish": (5, 2),  # x n / (n + 2) with n = e (e + 2), e = exp x
    "softplus": (2, 2),  # log(1 + exp x)
    "log_sigmoid_forward": (2, 2),
    "elu": (2, 1),
    "selu": (3, 1),
    "celu": (2, 1),
    "hardsigmoid": (3, 0),  # clamp(x/6 + 1/2): multiply-add, one clamp
    "hardswish": (4, 0),
    "tan": (1, 3),  # sin * rcp(cos)
    "sinh": (2, 2),
    "cosh": (2, 2),
    "pow": (1, 2),  # exp2(y log2 x); small whole powers are told apart below
    "lerp": (3, 0),
    "addcmul": (3, 0),
    "addcdiv": (3, 1),
    "erf": (8, 0),  # a polynomial or rational form; CUDA's erff takes more
    "erfc": (8, 1),
    "erfinv": (8, 1),
    "floor_divide": (2, 1),
    "remainder": (4, 1),
    "fmod": (4, 1),
    "atan": (8, 0),
    "asin": (8, 1),
    "acos": (8, 1),
    "atan2": (8, 1),
    "hypot": (3, 1),
    "logaddexp": (3, 2),
    "xlogy": (1, 1),
    "huber_loss": (4, 0),
    "smooth_l1_loss": (4, 0),
    "mse_loss": (2, 0),
    "binary_cross_entropy": (4, 2),
    "binary_cross_entropy_with_logits": (4, 2),
    "sigmoid_backward": (3, 0),
    "tanh_backward": (3, 0),
    "silu_backward": (5, 1),
    "leaky_relu_backward": (1, 0),
    "hardtanh_backward": (1, 0),
    "native_dropout_backward": (2, 0),
    "glu": (4, 1),
}


@rule(" ".join(_POINTWISE))
def _pointwise(op: TracedOp) -> Cost:
    """So many operations for each distinct element of the result."""
    per_element = _POINTWISE[_base(op)]
    like = _compute_like(op)
    if like.dtype in (torch.bool,) and op.inputs:
        like = op.inputs[0]
    return scalar(like, per_element[0] * _elements(op), per_element[1] * _elements(op))


def _base(op: TracedOp) -> str:
    name = op.name.removeprefix("aten.")
    return name if name in _POINTWISE else name.removesuffix("_")


def _compute_like(op: TracedOp) -> TensorUse:
    """The use whose dtype the math is done in."""
    return op.result if op.result.dtype.is_floating_point or not op.inputs else op.inputs[0]


def _elements(op: TracedOp) -> int:
    """Distinct elements that have to be computed: an expanded operand repeats itself."""
    largest = max((use.distinct for use in op.inputs if use.shape == op.result.shape), default=0)
    broadcast = len({use.shape for use in op.inputs}) > 1
    return op.result.numel if broadcast or not largest else min(largest, op.result.numel)


@rule("div true_divide")
def _div(op: TracedOp) -> Cost:
    """One reciprocal per distinct divisor, one multiplication per element."""
    divisor = op.inputs[1] if len(op.inputs) > 1 else None
    reciprocals = 0 if divisor is None else divisor.distinct
    return scalar(op.result, op.result.numel, sfu=reciprocals)


@rule("pow")
def _pow(op: TracedOp) -> Cost:
    """Whole powers by multiplication, halves by a root, others through log and exp."""
    exponent = op.arguments.get("exponent")
    elements = op.result.numel
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and exponent:
        times = max(int(abs(exponent)).bit_length() - 1, 1 if abs(exponent) > 1 else 0)
        return scalar(op.result, times * elements, sfu=elements if exponent < 0 else 0)
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return scalar(op.result, 0, sfu=elements)
    return scalar(op.result, elements, sfu=2 * elements)


@rule("gelu")
def _gelu(op: TracedOp) -> Cost:
    """x/2 (1 + erf(x/sqrt 2)), or the tanh form: one tanh and a cubic polynomial."""
    if op.arguments.get("approximate", "none") == "tanh":
        return scalar(op.result, 8 * op.result.numel, sfu=op.result.numel)
    return scalar(op.result, (3 + _POINTWISE["erf"][0]) * op.result.numel)


@rule("gelu_backward")
def _gelu_backward(op: TracedOp) -> Cost:
    return scalar(op.result, 14 * op.result.numel, sfu=op.result.numel)
