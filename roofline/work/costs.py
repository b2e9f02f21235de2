"""What each ATen op costs in operations, at the least.

One function per family of ops, registered by name. Counts are those of the op's definition with
every shared subexpression computed once: a softmax needs one exponential per element and one
reciprocal per row. A multiply-add is two operations. What is not listed here and is not tagged
pointwise by torch is reported as unmodelled.

Pipes: half-precision elementwise math is done in fp32 (PyTorch's `opmath`), integers and booleans
on the integer ALUs, and exponentials, logarithms, reciprocals, roots, sines and tangents are one
result each of the special-function unit (MUFU), as in the CUDA C++ Programming Guide's table of
arithmetic instruction throughput.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from solkit.roofline.work.program import TensorUse, TracedOp

__all__ = ["Cost", "contraction_dtype", "cost_of"]


@dataclass(frozen=True)
class Cost:
    """Operations of one op, under the keys of `solkit.core.OpWork.operations`."""

    operations: Mapping[str, int]


_Rule = Callable[[TracedOp], Cost]
_RULES: dict[str, _Rule] = {}

FREE = Cost({})


def cost_of(op: TracedOp) -> Cost | None:
    """The cost of an op; ``None`` where SolKit has no model of it."""
    rule = _RULES.get(op.name) or _RULES.get(op.name.removesuffix("_"))
    if rule is not None:
        return rule(op)
    if torch.Tag.pointwise in op.tags:  # at least one operation per element
        return _scalar(op.result, op.result.distinct)
    return None


def _register(*names: str) -> Callable[[_Rule], _Rule]:
    def decorate(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return decorate


def _scalar(like: TensorUse, flops: int, sfu: int = 0) -> Cost:
    """Elementwise operations on the scalar pipe of a dtype, plus special-function results."""
    found = {_scalar_pipe(like.dtype): flops, "sfu": sfu}
    return Cost({pipe: count for pipe, count in found.items() if count})


def _scalar_pipe(dtype: torch.dtype) -> str:
    if dtype in (torch.float64, torch.complex128):
        return "fp64"
    return "fp32" if dtype.is_floating_point or dtype.is_complex else "int32"


# ------------------------------------------------------------------------------ contractions

_CONTRACTION_DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.float8_e4m3fnuz: "fp8",
    torch.float8_e5m2fnuz: "fp8",
    torch.int8: "int8",
    torch.uint8: "int8",
}


def contraction_dtype(dtype: torch.dtype) -> str:
    """The dtype part of ``contraction.<dtype>``."""
    return _CONTRACTION_DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def _contraction(operand: TensorUse, multiply_adds: int, extra: int = 0) -> Cost:
    """A matrix product; `extra` counts elementwise operations on its result."""
    if operand.dtype in (torch.int16, torch.int32, torch.int64, torch.bool):
        return Cost({"int32": 2 * multiply_adds + extra})
    if operand.dtype.is_complex:  # (a+bi)(c+di): four real multiply-adds
        real = "fp64" if operand.dtype == torch.complex128 else "fp32"
        return Cost({f"contraction.{real}": 8 * multiply_adds})
    found = {f"contraction.{contraction_dtype(operand.dtype)}": 2 * multiply_adds}
    if extra:
        found[_scalar_pipe(operand.dtype)] = extra
    return Cost({key: count for key, count in found.items() if count})


@_register("aten.mm", "aten.bmm", "aten._int_mm", "aten._scaled_mm", "aten.matmul")
def _mm(op: TracedOp) -> Cost:
    """[.., M, K] x [.., K, N]: M*N*K multiply-adds."""
    left = op.inputs[0]
    return _contraction(left, op.result.numel * left.shape[-1])


@_register("aten.addmm", "aten.baddbmm", "aten.addbmm")
def _addmm(op: TracedOp) -> Cost:
    """beta*C + alpha*(A @ B). A batch that is summed (addbmm) lengthens K."""
    left = op.inputs[-2]
    length = left.shape[-1] * (left.shape[0] if op.name == "aten.addbmm" else 1)
    return _contraction(left, op.result.numel * length, extra=op.result.numel)


@_register("aten.linear")
def _linear(op: TracedOp) -> Cost:
    x, bias = op.inputs[0], op.arguments.get("bias")
    return _contraction(x, op.result.numel * x.shape[-1], extra=op.result.numel if bias else 0)


@_register("aten.mv", "aten.dot", "aten.vdot", "aten.addmv", "aten.inner")
def _mv(op: TracedOp) -> Cost:
    """A matrix-vector or dot product: one multiply-add per matrix element."""
    operands = op.inputs[-2:]
    extra = op.result.numel if op.name == "aten.addmv" else 0
    return _contraction(operands[0], max(use.numel for use in operands), extra)


@_register("aten.ger", "aten.outer")
def _outer(op: TracedOp) -> Cost:
    return _scalar(op.result, op.result.numel)


@_register("aten.convolution", "aten._convolution", "aten.cudnn_convolution", "aten.conv2d")
def _convolution(op: TracedOp) -> Cost:
    """Taps that fall inside the input, times channels.

    A convolution's output position o meets input position o*stride - padding + tap*dilation; a
    transposed one is the same relation read backwards, so its taps are counted from the input.
    """
    extra = op.result.numel if op.arguments.get("bias") is not None else 0
    x = op.arguments["input"]
    return _contraction(x, _convolution_multiply_adds(op, x, op.result), extra)


def _convolution_multiply_adds(op: TracedOp, x: TensorUse, out: TensorUse) -> int:
    given = op.arguments
    weight: TensorUse = given["weight"]
    spatial = len(weight.shape) - 2
    axes = [_per_axis(given[name], spatial) for name in ("stride", "padding", "dilation")]
    narrow, wide = (x, out) if given.get("transposed") else (out, x)
    taps = math.prod(
        _taps(narrow.shape[2 + d], wide.shape[2 + d], weight.shape[2 + d], *(a[d] for a in axes))
        for d in range(spatial)
    )
    channel_pairs = weight.shape[0] * weight.shape[1]  # [out, in/groups] or [in, out/groups]
    batch = out.shape[0] if len(out.shape) == spatial + 2 else 1
    return batch * channel_pairs * taps


def _per_axis(value: Any, axes: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * axes if len(values) == 1 else values


def _taps(narrow: int, wide: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs (p, t) of one axis that land inside: 0 <= p*stride - padding + t*dilation < wide."""
    pairs = 0
    for tap in range(kernel):
        shift = tap * dilation - padding
        first = max(0, -(shift // stride))  # ceil(-shift / stride)
        last = min(narrow - 1, (wide - 1 - shift) // stride)
        pairs += max(0, last - first + 1)
    return pairs


@_register("aten.convolution_backward")
def _convolution_backward(op: TracedOp) -> Cost:
    """As many multiply-adds as the forward pass, for each gradient asked for."""
    grad, x = op.arguments["grad_output"], op.arguments["input"]
    forward = _convolution_multiply_adds(op, x, grad)
    wanted = list(op.arguments["output_mask"])
    extra = grad.numel if wanted[2] else 0
    return _contraction(x, forward * (int(wanted[0]) + int(wanted[1])), extra)


@_register("solkit.attention")
def _attention(op: TracedOp) -> Cost:
    """softmax(q k^T) v over the pairs that the mask leaves.

    Per pair: D + Dv multiply-adds, one exponential, and on fp32 a scale-and-shift (a
    multiply-add), a maximum and a sum. Per row: one reciprocal and Dv multiplications.
    """
    query, value = op.arguments["query"], op.arguments["value"]
    pairs = attention_pairs(op)
    rows = op.result.numel // max(op.result.shape[-1], 1)
    found = _contraction(query, pairs * (query.shape[-1] + value.shape[-1]))
    scalar = _scalar(query, 4 * pairs + op.result.numel, sfu=pairs + rows)
    return Cost({**found.operations, **scalar.operations})


def attention_pairs(op: TracedOp) -> int:
    """Pairs of query and key, over all heads, that the mask leaves."""
    query: TensorUse = op.arguments["query"]
    key: TensorUse = op.arguments["key"]
    mask: TensorUse | None = op.arguments["attn_mask"]
    heads = op.result.numel // max(op.result.shape[-1] * query.shape[-2], 1)
    rows, columns = query.shape[-2], key.shape[-2]
    if op.arguments["is_causal"]:  # aligned to the top left: key j is seen by query i >= j
        short = min(rows, columns)
        return heads * (short * (short + 1) // 2 + (rows - short) * columns)
    if mask is not None and mask.dtype == torch.bool and mask.value is not None:
        full = (*op.result.shape[:-1], columns)
        return int(mask.value.sum()) * (math.prod(full) // max(mask.numel, 1))
    return heads * rows * columns


@_register("solkit.lstm", "solkit.gru", "solkit.rnn_tanh", "solkit.rnn_relu")
def _recurrent(op: TracedOp) -> Cost:
    """Every weight matrix once per time step and batch element, and the gates' pointwise math."""
    x, weights = op.arguments["input"], op.arguments["weights"]
    steps = x.numel // max(x.shape[-1], 1)
    multiply_adds = steps * sum(w.numel for w in weights if len(w.shape) == 2)
    gates = steps * sum(w.shape[0] for w in weights if len(w.shape) == 2) // 2
    found = _contraction(x, multiply_adds)
    scalar = _scalar(x, 2 * gates, sfu=0 if op.name.endswith("relu") else gates)
    return Cost({**found.operations, **scalar.operations})


# -------------------------------------------------------------------------------- movement

_MOVES = [
    "alias",
    "as_strided",
    "as_strided_copy",
    "arange",
    "bernoulli",
    "block_diag",
    "broadcast_tensors",
    "cat",
    "channel_shuffle",
    "clone",
    "complex",
    "constant_pad_nd",
    "contiguous",
    "copy",
    "copy_",
    "cumulative_trapezoid",
    "detach",
    "diag",
    "diag_embed",
    "diagonal_copy",
    "diagonal_scatter",
    "embedding",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "expand_copy",
    "exponential",
    "eye",
    "fill",
    "fill_",
    "flip",
    "full",
    "full_like",
    "gather",
    "im2col",
    "index",
    "index_select",
    "lift_fresh",
    "lift_fresh_copy",
    "linspace",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "multinomial",
    "narrow_copy",
    "native_channel_shuffle",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "normal",
    "normal_",
    "ones",
    "ones_like",
    "permute_copy",
    "pixel_shuffle",
    "pixel_unshuffle",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "random",
    "random_",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "repeat",
    "repeat_interleave",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "resize_",
    "roll",
    "rot90",
    "scalar_tensor",
    "scatter",
    "select_backward",
    "select_copy",
    "select_scatter",
    "set_",
    "slice_backward",
    "slice_copy",
    "slice_scatter",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "stack",
    "t_copy",
    "take",
    "transpose_copy",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "unbind_copy",
    "unfold_backward",
    "unfold_copy",
    "uniform",
    "uniform_",
    "unsqueeze_copy",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "view_copy",
    "where",
    "zero",
    "zero_",
    "zeros",
    "zeros_like",
    "_local_scalar_dense",
    "_to_copy",
    "_unsafe_view",
    "_reshape_copy",
    "_reshape_alias",
    "_unsafe_index",
    "index_put",
    "index_copy",
    "index_fill",
    "_index_put_impl_",
    "_efficientzerotensor",
    "native_dropout",
    "sym_size",
    "isin",
    "nonzero",
    "nonzero_static",
    "expand_as",
    "equal",
    "is_same_size",
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
]


@_register(*(f"aten.{name}" for name in _MOVES))
def _move(op: TracedOp) -> Cost:
    """Moves, selects, converts or invents data: bytes, if any, and no arithmetic."""
    del op
    return FREE


# ------------------------------------------------------------------------------- pointwise

# Per element of the result: (scalar operations, special-function results).
_POINTWISE: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        [
            "abs",
            "add",
            "addcmul_",
            "and",
            "bitwise_and",
            "bitwise_not",
            "bitwise_or",
            "bitwise_xor",
            "bitwise_left_shift",
            "bitwise_right_shift",
            "ceil",
            "clamp",
            "clamp_max",
            "clamp_min",
            "copysign",
            "eq",
            "floor",
            "fmax",
            "fmin",
            "ge",
            "gt",
            "hardtanh",
            "heaviside",
            "isfinite",
            "isinf",
            "isnan",
            "le",
            "leaky_relu",
            "logical_and",
            "logical_not",
            "logical_or",
            "logical_xor",
            "lt",
            "maximum",
            "minimum",
            "mul",
            "ne",
            "neg",
            "relu",
            "relu6",
            "round",
            "rsub",
            "sgn",
            "sign",
            "signbit",
            "sub",
            "threshold",
            "threshold_backward",
            "trunc",
            "nan_to_num",
            "__and__",
            "__or__",
            "__xor__",
            "prelu",
            "_prelu_kernel",
            "positive",
            "hardshrink",
            "softshrink",
            "frac",
            "square",
        ],
        (1, 0),
    ),
    **dict.fromkeys(
        [
            "exp",
            "exp2",
            "log",
            "log2",
            "log10",
            "sin",
            "cos",
            "tanh",
            "rsqrt",
            "sqrt",
            "reciprocal",
        ],
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


@_register(*(f"aten.{name}" for name in _POINTWISE))
def _pointwise(op: TracedOp) -> Cost:
    """So many operations for each distinct element of the result."""
    per_element = _POINTWISE[_base(op)]
    like = _compute_like(op)
    if like.dtype in (torch.bool,) and op.inputs:
        like = op.inputs[0]
    return _scalar(like, per_element[0] * _elements(op), per_element[1] * _elements(op))


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


@_register("aten.div", "aten.true_divide")
def _div(op: TracedOp) -> Cost:
    """One reciprocal per distinct divisor, one multiplication per element."""
    divisor = op.inputs[1] if len(op.inputs) > 1 else None
    reciprocals = 0 if divisor is None else divisor.distinct
    return _scalar(op.result, op.result.numel, sfu=reciprocals)


@_register("aten.pow")
def _pow(op: TracedOp) -> Cost:
    """Whole powers by multiplication, halves by a root, others through log and exp."""
    exponent = op.arguments.get("exponent")
    elements = op.result.numel
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and exponent:
        times = max(int(abs(exponent)).bit_length() - 1, 1 if abs(exponent) > 1 else 0)
        return _scalar(op.result, times * elements, sfu=elements if exponent < 0 else 0)
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return _scalar(op.result, 0, sfu=elements)
    return _scalar(op.result, elements, sfu=2 * elements)


@_register("aten.gelu")
def _gelu(op: TracedOp) -> Cost:
    """x/2 (1 + erf(x/sqrt 2)), or the tanh form: one tanh and a cubic polynomial."""
    if op.arguments.get("approximate", "none") == "tanh":
        return _scalar(op.result, 8 * op.result.numel, sfu=op.result.numel)
    return _scalar(op.result, (3 + _POINTWISE["erf"][0]) * op.result.numel)


@_register("aten.gelu_backward")
def _gelu_backward(op: TracedOp) -> Cost:
    return _scalar(op.result, 14 * op.result.numel, sfu=op.result.numel)


# ------------------------------------------------------------------------------- reductions

# Per element that is read: (scalar operations, special-function results).
_REDUCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        [
            "sum",
            "nansum",
            "amax",
            "amin",
            "max",
            "min",
            "any",
            "all",
            "argmax",
            "argmin",
            "prod",
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "mean",
            "median",
            "mode",
            "kthvalue",
            "sort",
            "topk",
            "count_nonzero",
            "aminmax",
            "bincount",
            "unique",
            "_unique2",
            "unique_consecutive",
            "unique_dim",
            "searchsorted",
            "bucketize",
            "histc",
        ],
        (1, 0),
    ),
    "logsumexp": (3, 1),  # maximum, shift, exponential, sum
    "logcumsumexp": (3, 1),
    "norm": (2, 0),
    "linalg_vector_norm": (2, 0),
    "var": (3, 0),  # mean, difference, square-and-add: Welford's is no cheaper
    "std": (3, 0),
    "var_mean": (3, 0),
    "std_mean": (3, 0),
}


@_register(*(f"aten.{name}" for name in _REDUCTIONS))
def _reduction(op: TracedOp) -> Cost:
    """So many operations for each distinct element read, and a root per result for norms."""
    name = op.name.removeprefix("aten.")
    scalar, sfu = _REDUCTIONS[name]
    source = op.inputs[0]
    rooted = name in ("norm", "linalg_vector_norm", "std", "std_mean")
    logs = name in ("logsumexp",)
    per_result = op.result.numel if rooted or logs else 0
    like = source if source.dtype != torch.bool else op.result
    return _scalar(like, scalar * source.distinct, sfu=sfu * source.distinct + per_result)


@_register("aten._softmax", "aten.softmax", "aten._safe_softmax")
def _softmax(op: TracedOp) -> Cost:
    """Per element: maximum, shift-and-scale (a multiply-add), exponential, sum, product."""
    rows = _rows(op)
    return _scalar(op.result, 5 * op.result.numel, sfu=op.result.numel + rows)


@_register("aten._log_softmax", "aten.log_softmax")
def _log_softmax(op: TracedOp) -> Cost:
    """As softmax, but one logarithm per row and a difference per element."""
    rows = _rows(op)
    return _scalar(op.result, 5 * op.result.numel, sfu=op.result.numel + rows)


def _rows(op: TracedOp) -> int:
    dim = op.arguments.get("dim", -1)
    shape = op.result.shape
    return op.result.numel // max(shape[dim], 1) if shape else 1


@_register("aten._softmax_backward_data", "aten._log_softmax_backward_data")
def _softmax_backward(op: TracedOp) -> Cost:
    """Dx = y (dy - sum(y dy)); the log form adds an exponential."""
    sfu = op.result.numel if "log" in op.name else 0
    return _scalar(op.result, 4 * op.result.numel, sfu=sfu)


_NORMS = [
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "cudnn_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update",
    "_batch_norm_no_update",
    "_native_batch_norm_legit_functional",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "instance_norm",
]


@_register(*(f"aten.{name}" for name in _NORMS))
def _norm(op: TracedOp) -> Cost:
    """Mean (1), variance (2) and one multiply-add (2) per element; a root per statistic.

    Weight and bias per channel fold into that multiply-add, those of a layer norm (2) do not.
    With given statistics (batch norm in inference) the multiply-add is all.
    """
    elements = op.inputs[0].distinct
    training = op.arguments.get("training", "no_training" not in op.name)
    statistics = max((use.numel for use in op.outputs[1:]), default=0)
    affine = any(op.arguments.get(name) is not None for name in ("weight", "bias"))
    per_element = 7 if affine and op.name.endswith("layer_norm") else 5
    if not training:
        return _scalar(op.inputs[0], 2 * elements)
    return _scalar(op.inputs[0], per_element * elements, sfu=statistics)


@_register("aten._fused_rms_norm", "aten.rms_norm")
def _rms_norm(op: TracedOp) -> Cost:
    """Square-and-add (2), scale (1) and weight (1) per element; a root per row."""
    x = op.inputs[0]
    rows = x.numel // max(math.prod(op.arguments["normalized_shape"]), 1)
    weighted = 1 if op.arguments.get("weight") is not None else 0
    return _scalar(x, (3 + weighted) * x.numel, sfu=rows)


@_register(
    "aten.native_layer_norm_backward",
    "aten.native_group_norm_backward",
    "aten.native_batch_norm_backward",
    "aten._fused_rms_norm_backward",
)
def _norm_backward(op: TracedOp) -> Cost:
    """Two row sums (4), the input's gradient (5), the weight's and the bias's (3) per element."""
    return _scalar(op.inputs[0], 12 * op.inputs[0].numel)


@_register("aten.nll_loss_forward", "aten.nll_loss2d_forward", "aten.nll_loss_nd")
def _nll(op: TracedOp) -> Cost:
    """Picks one element per target and sums."""
    return _scalar(op.inputs[0], op.inputs[1].numel)


@_register(
    "aten.nll_loss_backward",
    "aten.nll_loss2d_backward",
    "aten.embedding_dense_backward",
    "aten.scatter_add",
    "aten.scatter_reduce",
    "aten.index_add",
    "aten.index_reduce",
    "aten._unsafe_index_put",
    "aten.segment_reduce",
)
def _scatter(op: TracedOp) -> Cost:
    """One addition per element scattered."""
    return _scalar(op.result, min(use.numel for use in op.inputs) if op.inputs else 0)


@_register(
    "aten.avg_pool1d",
    "aten.avg_pool2d",
    "aten.avg_pool3d",
    "aten.max_pool1d",
    "aten.max_pool2d_with_indices",
    "aten.max_pool3d_with_indices",
    "aten.max_pool2d",
    "aten.max_pool3d",
    "aten._adaptive_avg_pool2d",
    "aten._adaptive_avg_pool3d",
    "aten.adaptive_avg_pool1d",
    "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool3d",
)
def _pool(op: TracedOp) -> Cost:
    """At the least one operation per result: overlapping windows can share partial results."""
    return _scalar(op.result, op.result.numel)


@_register("aten._cdist_forward", "aten._pdist_forward")
def _cdist(op: TracedOp) -> Cost:
    """Euclidean distances through |x|^2 + |y|^2 - 2xy: a matrix product and a root each."""
    x = op.inputs[0]
    found = _contraction(x, op.result.numel * x.shape[-1])
    return Cost({**found.operations, "sfu": op.result.numel})
