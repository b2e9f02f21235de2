"""Convolutions: only the taps that fall inside the input."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule
from solkit.roofline.work.program import Mask, TensorUse, TracedOp
from solkit.roofline.work.windows import axis_line, meet, windows_of


@rule("convolution")
def _convolution(op: TracedOp) -> Cost:
    """Count taps that fall inside the input and are not zero, times channels.

    A convolution's output position o meets input position o*stride - padding + tap*dilation; a
    transposed one is the same relation read backwards, so its taps are counted from the input.
    A bias costs nothing: the accumulators can start from it.
    """
    x = op.arguments["input"]
    weight: TensorUse = op.arguments["weight"]
    count = _convolution_multiply_adds(op, x, op.result, weight.mask)
    return contraction(x, count, dtype=common_dtype(x, weight))


def _convolution_multiply_adds(
    op: TracedOp, x: TensorUse, out: TensorUse, mask: Mask | None = None
) -> int:
    weight: TensorUse = op.arguments["weight"]
    narrow, wide = (x, out) if op.arguments.get("transposed") else (out, x)
    lines = [
        meet(axis_line(narrow, 2 + d), axis_line(wide, 2 + d), window).by_tap
        for d, window in enumerate(windows_of(op))
    ]
    channel_pairs = weight.shape[0] * weight.shape[1]  # [out, in/groups] or [in, out/groups]
    if mask is None:
        return out.shape[0] * channel_pairs * math.prod(int(line.sum()) for line in lines)
    taps = functools.reduce(np.multiply.outer, lines)
    kept = mask.sum(axis=(0, 1)) * (channel_pairs // (mask.shape[0] * mask.shape[1]))
    return out.shape[0] * int((taps * kept).sum())


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
