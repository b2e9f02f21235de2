"""Convolutions: only the taps that fall inside the input.

Where each channel has a kernel of its own and the kernel is long, Fourier transforms of blocks that
overlap take fewer operations (A. Oppenheim and R. Schafer, "Discrete-Time Signal Processing",
section 8.7.3): transforms of a block and back, a complex product for each of n/2 frequencies. They
count where they are faster on any GPU.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import torch

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule, scalar
from solkit.roofline.work.costs.spectral import real_transforms
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
    dtype = common_dtype(x, weight)
    if not op.arguments.get("transposed") and weight.shape[1] == 1:
        operations = _operations_by_transforms(op, x, weight)
        if operations * (_PASSES_FASTER if dtype == "fp32" else _FASTER) < 2 * count:
            return scalar(x if dtype == "fp64" else replace(x, dtype=torch.float32), operations)
    return contraction(x, count, dtype=dtype)


_FASTER = 32
"""Rate of halves on tensor cores over that of fp32 elsewhere, at the most: a B200's, 8192 over 256
FLOP a clock and SM (its ceilings in `solkit.roofline.devices`)."""
_PASSES_FASTER = 11
"""A third of that: fp32 products take three passes (`solkit.roofline.precision_routes`)."""


def _operations_by_transforms(op: TracedOp, x: TensorUse, weight: TensorUse) -> int:
    """Count operations of the transforms, with the best length of blocks along each axis."""
    axes = windows_of(op)
    if x.dtype.is_complex or any((axis.stride, axis.dilation) != (1, 1) for axis in axes):
        return 1 << 62
    blocks, lengths = 1, []
    for axis, out in zip(axes, op.result.shape[2:]):
        length = min(_lengths(axis.size, out), key=lambda n: -(-out // (n - axis.size + 1)) * n)
        blocks *= -(-out // (length - axis.size + 1))
        lengths.append(length)
    dims = range(len(lengths))
    once = real_transforms(lengths, dims)
    parts = op.result.shape[0] * op.result.shape[1] * blocks
    products = 3 * math.prod(lengths)  # of n/2 complex numbers
    return math.floor(parts * (2 * once + products) + weight.shape[0] * once)


def _lengths(taps: int, out: int) -> list[int]:
    """Return powers of two, up to the first that holds all, of which a block may be."""
    least, most = taps.bit_length(), (taps + out - 2).bit_length()
    return [1 << n for n in range(min(least + 1, most), most + 1)]


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
