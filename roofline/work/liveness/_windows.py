"""Convolutions and pools: positions that some window touches, channels of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solkit.roofline.work.liveness._base import Box, Needs, Region, rule
from solkit.roofline.work.liveness._geometry import sliced, whole
from solkit.roofline.work.masks import as_axis, both
from solkit.roofline.work.program import Mask, TensorUse, TracedOp
from solkit.roofline.work.windows import Line, axis_line, meet, sources_of, windows_of


@rule("convolution")
def _convolution(op: TracedOp, region: Region) -> Needs:
    """Return batches and channels as a box; along each axis, the positions and taps that meet."""
    x, weight, output = op.arguments["input"], op.arguments["weight"], op.outputs[0]
    bias: TensorUse | None = op.arguments.get("bias")
    transposed, groups = bool(op.arguments.get("transposed")), op.arguments["groups"]
    windows = windows_of(op)
    offset = len(output.shape) - len(windows)
    out = sliced(output, [*region.box[:offset], *[None] * len(windows)], _spatial(region, output))
    channels = region.box[offset - 1]
    into, own = _channels(channels, output.shape[offset - 1], x.shape[offset - 1], groups)
    met = [
        meet(*((a, b) if not transposed else (b, a)), window)
        for axis, window in enumerate(windows)
        for a, b in [(axis_line(out, offset + axis), axis_line(x, offset + axis))]
    ]
    touched = [m.narrow if transposed else m.wide for m in met]
    batch = [region.box[0]] if offset == 2 else []
    box = [*batch, into, *[None] * len(windows)]
    sides = [into, None] if transposed else [own, None]
    return {
        id(x): sliced(x, box, _outer(touched, offset)),
        id(weight): sliced(
            weight, [*sides, *[None] * len(windows)], _outer([m.taps for m in met], 2)
        ),
        **({} if bias is None else {id(bias): sliced(bias, [channels])}),
        id(output): out,
    }


@rule("convolution backward")
def _convolution_backward(op: TracedOp, region: Region) -> Needs:
    """Return the input's gradient needs no input, the weight's no weight, the bias's neither.

    Of an input, the weight's gradient needs what some window touches.
    """
    del region
    grad, x, weight = (op.arguments[name] for name in ("grad_output", "input", "weight"))
    of_input, of_weight, _ = op.arguments["output_mask"]
    transposed = bool(op.arguments.get("transposed"))
    lines = []
    for axis, window in enumerate(windows_of(op), 2):
        narrow, wide = (x, grad) if transposed else (grad, x)
        met = meet(axis_line(narrow, axis), axis_line(wide, axis), window)
        lines.append(met.narrow if transposed else met.wide)
    none = np.zeros((1,) * len(x.shape), dtype=bool)
    return {
        id(x): sliced(x, whole(x), _outer(lines, 2) if of_weight else none),
        id(weight): sliced(weight, whole(weight), None if of_input else none),
        id(op.outputs[0]): op.outputs[0],
    }


def _channels(channels: range, out: int, into: int, groups: int) -> tuple[range, range]:
    """(input channels, output channels) that a range of output channels needs."""
    if groups == 1:
        return range(into), channels
    per_out, per_in = out // groups, into // groups
    first, last = channels.start // per_out, channels[-1] // per_out + 1 if len(channels) else 0
    if channels.step != 1 or channels.start % per_out or len(channels) % per_out:
        return range(first * per_in, last * per_in), range(out)  # part of a group: all of it
    return range(first * per_in, last * per_in), channels


def _spatial(region: Region, output: TensorUse) -> Mask | None:
    """Return the wanted part as a mask, its spatial box included."""
    offset = 2
    lines = []
    for axis in range(offset, len(output.shape)):
        line = np.zeros(output.shape[axis], dtype=bool)
        line[list(region.box[axis])] = True
        lines.append(line)
    return both(_outer(lines, offset))


def _outer(lines: Sequence[Line], leading: int) -> Mask | None:
    """Return the product of one line per axis, behind dimensions that stay whole."""
    if all(line.all() for line in lines):
        return None
    outer = np.ones((1,) * (leading + len(lines)), dtype=bool)
    for axis, line in enumerate(lines):
        outer = outer & as_axis(line, leading + axis, outer.ndim)
    return outer


@rule("pool")
def _pool(op: TracedOp, region: Region) -> Needs:
    """Return batches and channels as a box; along each axis, the positions under some window."""
    x, output = op.inputs[0], op.outputs[0]
    windows = windows_of(op)
    leading = len(output.shape) - len(windows)
    box: list[Any] = [*region.box[:leading], *[None] * len(windows)]
    touched = [
        meet(_line(region.box, leading + d, output), axis_line(x, leading + d), window).wide
        for d, window in enumerate(windows)
    ]
    return {id(x): sliced(x, box, _outer(touched, leading)), id(output): sliced(output, box)}


@rule("windows")
def _unfolded(op: TracedOp, region: Region) -> Needs:
    """Return elements under some window: steps and dilations may leave others out."""
    del region
    x, windows = op.inputs[0], windows_of(op)
    leading = len(x.shape) - len(windows)
    lines = []
    for axis, window in enumerate(windows, leading):
        reach = window.dilation * (window.size - 1) + 1
        count = (x.shape[axis] + 2 * window.padding - reach) // window.stride + 1
        lines.append(meet(np.ones(count, dtype=bool), axis_line(x, axis), window).wide)
    return {id(x): sliced(x, whole(x), _outer(lines, leading)), id(op.outputs[0]): op.outputs[0]}


def _line(box: Box, axis: int, use: TensorUse) -> Line:
    line = np.zeros(use.shape[axis], dtype=bool)
    line[list(box[axis])] = True
    return line


@rule("nearest")
def _nearest(op: TracedOp, region: Region) -> Needs:
    """Output position o reads input position floor(o * size / output size)."""
    del region
    x, output = op.inputs[0], op.outputs[0]
    lines = []
    for n, m in zip(x.shape[2:], output.shape[2:]):
        line = np.zeros(n, dtype=bool)
        line[np.arange(m) * n // m] = True
        lines.append(line)
    return {id(x): sliced(x, whole(x), _outer(lines, 2))}


@rule("linear", "cubic")
def _interpolated(op: TracedOp, region: Region) -> Needs:
    """Return batches and channels as a box; along each axis, the elements next to a result."""
    x, output = op.inputs[0], op.outputs[0]
    taps = np.arange(-1, 3) if op.operator.needs == "cubic" else np.arange(2)
    lines = []
    for axis, source in enumerate(sources_of(op), 2):
        near = np.floor(source[list(region.box[axis])] + _ROUNDING)
        between = np.abs(source[list(region.box[axis])] - near) > _ROUNDING
        reached = near[:, None] + taps * between[:, None]  # on an element, that one alone
        line = np.zeros(x.shape[axis], dtype=bool)
        line[np.clip(reached, 0, line.size - 1).astype(np.int64)] = True
        lines.append(line)
    box = [*region.box[:2], *[None] * len(lines)]
    return {id(x): sliced(x, box, _outer(lines, 2)), id(output): sliced(output, box)}


_ROUNDING = 1e-6
