"""Softmax and normalisations."""

from __future__ import annotations

import math

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("_softmax softmax _safe_softmax")
def _softmax(op: TracedOp) -> Cost:
    """Per element: maximum, shift-and-scale (a multiply-add), exponential, sum, product."""
    rows = _rows(op)
    return scalar(op.result, 5 * op.result.numel, sfu=op.result.numel + rows)


@rule("_log_softmax log_softmax")
def _log_softmax(op: TracedOp) -> Cost:
    """As softmax, but one logarithm per row and a difference per element."""
    rows = _rows(op)
    return scalar(op.result, 5 * op.result.numel, sfu=op.result.numel + rows)


def _rows(op: TracedOp) -> int:
    dim = op.arguments.get("dim", -1)
    shape = op.result.shape
    return op.result.numel // max(shape[dim], 1) if shape else 1


@rule("_softmax_backward_data _log_softmax_backward_data")
def _softmax_backward(op: TracedOp) -> Cost:
    """Dx = y (dy - sum(y dy)); the log form adds an exponential."""
    sfu = op.result.numel if "log" in op.name else 0
    return scalar(op.result, 4 * op.result.numel, sfu=sfu)


_NORMS = """
    native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update
    _batch_norm_no_update _native_batch_norm_legit_functional batch_norm layer_norm group_norm
    instance_norm
"""


@rule(_NORMS)
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
        return scalar(op.inputs[0], 2 * elements)
    return scalar(op.inputs[0], per_element * elements, sfu=statistics)


@rule("_fused_rms_norm rms_norm")
def _rms_norm(op: TracedOp) -> Cost:
    """Square-and-add (2), scale (1) and weight (1) per element; a root per row."""
    x = op.inputs[0]
    rows = x.numel // max(math.prod(op.arguments["normalized_shape"]), 1)
    weighted = 1 if op.arguments.get("weight") is not None else 0
    return scalar(x, (3 + weighted) * x.numel, sfu=rows)


@rule(
    """
    native_layer_norm_backward native_group_norm_backward native_batch_norm_backward
    _fused_rms_norm_backward
    """
)
def _norm_backward(op: TracedOp) -> Cost:
    """Two row sums (4), the input's gradient (5), the weight's and the bias's (3) per element."""
    return scalar(op.inputs[0], 12 * op.inputs[0].numel)
