"""Softmax and normalisations, forwards and backwards. n elements, in rows that share statistics."""

from __future__ import annotations

import math

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("softmax")
def _softmax(op: TracedOp) -> Cost:
    """Per element: maximum, shift-and-scale (a multiply-add), exponential, sum, product.

    Per row a reciprocal. The log form has a logarithm instead, and a difference for the product.
    The first of a row needs neither maximum nor sum, but its maximum is scaled once.
    """
    n, rows = op.result.distinct, _rows(op)
    return scalar(op.result, max(5 * n - rows, 0), sfu=n + rows)


def _rows(op: TracedOp) -> int:
    """Count rows that have an element that matters."""
    dim: int = op.arguments.get("dim", -1)
    use = op.result
    if not use.shape:
        return use.distinct
    return min(use.distinct, use.numel // max(use.shape[dim], 1))


@rule("softmax backward")
def _softmax_backward(op: TracedOp) -> Cost:
    """Gradient of a softmax y: y (dy - sum(y dy))."""
    return scalar(op.result, 4 * op.result.distinct)


@rule("log softmax backward")
def _log_softmax_backward(op: TracedOp) -> Cost:
    """Gradient of its logarithm y: dy - exp(y) sum(dy)."""
    n = op.result.distinct
    return scalar(op.result, 3 * n, sfu=n)


@rule("norm", "layer norm")
def _norm(op: TracedOp) -> Cost:
    """Mean (1), variance (2) and one multiply-add (2) per element; a root per statistic.

    Weight and bias per channel fold into that multiply-add, those of a layer norm do not: a
    weight takes a product, a bias makes it a multiply-add. With given statistics (batch norm in
    inference) the multiply-add is all.
    """
    n = op.inputs[0].distinct
    if op.arguments.get("training") is False or op.arguments.get("train") is False:
        return _normalise(op)
    statistics = max((use.distinct for use in op.outputs[1:]), default=0)
    own = sum(op.arguments.get(name) is not None for name in ("weight", "bias"))
    affine = own if op.operator.cost == "layer norm" else 0
    return scalar(op.inputs[0], (5 + affine) * n, sfu=statistics)


@rule("rms norm")
def _rms_norm(op: TracedOp) -> Cost:
    """Square-and-add (2), scale (1) and weight (1) per element; a root per row."""
    x = op.inputs[0]
    rows = x.distinct // max(math.prod(op.arguments["normalized_shape"]), 1)
    weighted = 1 if op.arguments.get("weight") is not None else 0
    return scalar(x, (3 + weighted) * x.distinct, sfu=rows)


def _requested(op: TracedOp, count: int) -> list[bool]:
    """Tell which of the gradients (of x, weight, bias) are requested."""
    return list(map(bool, op.arguments.get("output_mask", [True] * count)))


@rule("layer norm backward")
def _layer_norm_backward(op: TracedOp) -> Cost:
    """Per element, with g = w dy.

    ::

        g                                   1 where there is a weight
        sum g, sum g x                      3
        rstd g + k1 x + k0                  4
        of the weight: sum dy (x - mean)    3
        of the bias: sum dy                 1
    """
    x, (of_x, of_weight, of_bias) = op.arguments["input"], _requested(op, 3)
    weighted = 1 if op.arguments.get("weight") is not None else 0
    per_element = (7 + weighted) * of_x + 3 * of_weight + of_bias
    return scalar(x, per_element * x.distinct)


@rule("channel norm backward")
def _channel_norm_backward(op: TracedOp) -> Cost:
    """Sum dy and sum x dy (3), which give weight and bias; k2 dy + k1 x + k0 (4).

    With given statistics the gradient of x is one product.
    """
    x, (of_x, of_weight, of_bias) = op.inputs[1], _requested(op, 3)
    if op.arguments.get("train") is False:
        return scalar(x, (of_x + 2 * of_weight + of_bias) * x.distinct)
    return scalar(x, (7 if of_x else 2 * of_weight + of_bias) * x.distinct)


@rule("rms norm backward")
def _rms_norm_backward(op: TracedOp) -> Cost:
    """Per element w dy (1), times x summed (2), k1 w dy + k2 x (3); weight: dy x summed (2)."""
    x, (of_x, of_weight) = op.arguments["input"], _requested(op, 2)
    weighted = 1 if op.arguments.get("weight") is not None else 0
    return scalar(x, ((5 + weighted) * of_x + 2 * of_weight) * x.distinct)


@rule("statistics")
def _statistics(op: TracedOp) -> Cost:
    """Sum (1) and sum of squares (2) per element."""
    return scalar(op.inputs[0], 3 * op.inputs[0].distinct)


@rule("given norm", "quantise")
def _normalise(op: TracedOp) -> Cost:
    """Count one multiply-add per element; a conversion to integers rounds and clamps by itself."""
    return scalar(op.inputs[0], 2 * op.inputs[0].distinct)


@rule("per statistic")
def _per_statistic(op: TracedOp) -> Cost:
    """Count one operation per element read."""
    return scalar(op.inputs[0], op.inputs[0].distinct)


@rule("weight norm")
def _weight_norm(op: TracedOp) -> Cost:
    """Square-and-add (2) and a product (1) per element; a root per row."""
    v, g = op.inputs[:2]
    return scalar(v, 3 * v.distinct, sfu=g.distinct)


@rule("weight norm backward")
def _weight_norm_backward(op: TracedOp) -> Cost:
    """Per element: dw v summed (2), then k1 dw + k2 v (3)."""
    return scalar(op.inputs[0], 5 * op.inputs[0].distinct)


@rule("rescale")
def _rescale(op: TracedOp) -> Cost:
    """Return a bias for each, a scale for the queries."""
    qkv: TensorUse = op.inputs[0]
    return scalar(qkv, qkv.distinct)
