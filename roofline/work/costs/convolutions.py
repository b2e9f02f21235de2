"""Convolutions: only the taps that fall inside the input."""

from __future__ import annotations

import math
from typing import Any

from solkit.roofline.work.costs._base import Cost, contraction, rule
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("convolution _convolution cudnn_convolution conv2d")
def _convolution(op: TracedOp) -> Cost:
    """Taps that fall inside the input, times channels.

    A convolution's output position o meets input position o*stride - padding + tap*dilation; a
    transposed one is the same relation read backwards, so its taps are counted from the input.
    """
    extra = op.result.numel if op.arguments.get("bias") is not None else 0
    x = op.arguments["input"]
    return contraction(x, _convolution_multiply_adds(op, x, op.result), extra)


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


@rule("convolution_backward")
def _convolution_backward(op: TracedOp) -> Cost:
    """As many multiply-adds as the forward pass, for each gradient asked for."""
    grad, x = op.arguments["grad_output"], op.arguments["input"]
    forward = _convolution_multiply_adds(op, x, grad)
    wanted = list(op.arguments["output_mask"])
    extra = grad.numel if wanted[2] else 0
    return contraction(x, forward * (int(wanted[0]) + int(wanted[1])), extra)
