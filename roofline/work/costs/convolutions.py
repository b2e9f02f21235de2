"""Convolutions: only the taps that fall inside the input."""

from __future__ import annotations

import math
from dataclasses import replace

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.windows import axis_line, meet, windows_of


@rule("convolution")
def _convolution(op: TracedOp) -> Cost:
    """Count taps that fall inside the input, times channels.

    A convolution's output position o meets input position o*stride - padding + tap*dilation; a
    transposed one is the same relation read backwards, so its taps are counted from the input.
    A bias costs nothing: the accumulators can start from it.
    """
    x = op.arguments["input"]
    dtype = common_dtype(x, op.arguments["weight"])
    return contraction(x, _convolution_multiply_adds(op, x, op.result), dtype=dtype)


def _convolution_multiply_adds(op: TracedOp, x: TensorUse, out: TensorUse) -> int:
    weight: TensorUse = op.arguments["weight"]
    narrow, wide = (x, out) if op.arguments.get("transposed") else (out, x)
    taps = math.prod(
        meet(axis_line(narrow, 2 + d), axis_line(wide, 2 + d), window).pairs
        for d, window in enumerate(windows_of(op))
    )
    channel_pairs = weight.shape[0] * weight.shape[1]  # [out, in/groups] or [in, out/groups]
    return out.shape[0] * channel_pairs * taps


@rule("convolution backward")
def _convolution_backward(op: TracedOp) -> Cost:
    """Count the forward pass's multiply-adds once for each requested gradient."""
    grad, x = op.arguments["grad_output"], op.arguments["input"]
    output_mask = list(op.arguments["output_mask"])
    if not output_mask[1]:  # which elements of the input matter only concerns the weight's gradient
        x = replace(x, mask=None)
    forward = _convolution_multiply_adds(op, x, grad)
    extra = grad.numel if output_mask[2] else 0
    of_input = contraction(
        x, forward * output_mask[0], extra, common_dtype(grad, op.arguments["weight"])
    )
    return of_input + contraction(x, forward * output_mask[1], dtype=common_dtype(grad, x))
