"""The narrow dtype that data had before it was converted and scaled.

References of quantised products convert fp8 or int8 data to fp32, multiply it by the scales of its
rows or blocks, and multiply matrices then. A kernel multiplies the narrow data on the tensor cores
and scales the sums, so the product belongs to the narrow dtype's pipe. Walking forwards, each
operand is annotated with the dtype that holds its values apart from such scales.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from solkit.roofline.work.program import Program, TensorUse, TracedOp

__all__ = ["with_origins"]

_BLOCK = 16
"""The fewest elements that share a scale: NVFP4 has one for 16, the smallest block in use."""

_FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of e2m1: OCP Microscaling Formats 1.0, table 5."""

_NARROW = {
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    *(torch.float4_e2m1fn_x2, torch.int8),
}


def with_origins(program: Program) -> Program:
    """Return the program, its uses annotated with `TensorUse.origin`."""
    held = _Held()
    return replace(program, ops=tuple(held.annotate(op) for op in program.ops))


class _Held:
    """Contents of each storage at one point of the program."""

    def __init__(self) -> None:
        self._origin: dict[int, torch.dtype] = {}
        self._scales: set[int] = set()  # storages whose elements repeat in blocks

    def annotate(self, op: TracedOp) -> TracedOp:
        """Return the op with the origins of its operands. Notes the origin of its result."""
        origin = self._made_by(op)
        scales = _moves(op) and self._is_scale(op.inputs, op.result)
        annotated = self._annotated(op)
        for use in (*op.outputs, *op.written):
            self._origin.pop(use.storage, None)
            self._scales.discard(use.storage)
        if op.outputs or _is_whole(op):
            if origin is not None:
                self._origin[op.result.storage] = origin
            if scales:
                self._scales.add(op.result.storage)
        return annotated

    def _annotated(self, op: TracedOp) -> TracedOp:
        origins = {id(use): (use, self._of(use)) for use in op.inputs}
        swaps = {key: replace(use, origin=o) for key, (use, o) in origins.items() if o}
        return op.mapped(lambda leaf: swaps.get(id(leaf), leaf)) if swaps else op

    def _of(self, use: TensorUse) -> torch.dtype | None:
        return use.dtype if use.dtype in _NARROW else self._origin.get(use.storage)

    def _made_by(self, op: TracedOp) -> torch.dtype | None:
        """Return the dtype that holds the values of an op's result, apart from scales."""
        if not op.inputs or not op.result.dtype.is_floating_point:
            return None
        if _scales(op):
            data, *others = op.inputs
            if not op.operator.divides and others and others[0].numel > data.numel:
                data, others = others[0], [data]
            return self._of(data) if self._is_scale(others, op.result) else None
        if not _moves(op):
            return None
        sources = [use for use in op.inputs if use.dtype.is_floating_point or use.dtype in _NARROW]
        if op.operator.overwrites:
            sources = list(op.inputs[-1:])
        if sources and _holds_fp4(sources[0]):
            return torch.float4_e2m1fn_x2
        origins = {self._of(use) for use in sources}
        return origins.pop() if len(origins) == 1 else None

    def _is_scale(self, uses: Iterable[TensorUse], result: TensorUse) -> bool:
        """Tell whether operands, broadcast to a result, are the same for whole blocks of it."""
        return all(
            use.distinct * _BLOCK <= result.distinct or use.storage in self._scales for use in uses
        )


def _moves(op: TracedOp) -> bool:
    """Tell if results are elements of operands, up to their sign."""
    return bool(op.operator.moves or op.operator.negates)


def _scales(op: TracedOp) -> bool:
    """Tell if it is a product or a quotient of its operands' elements."""
    return bool(op.operator.linear and op.operator.multiplies)


def _is_whole(op: TracedOp) -> bool:
    """Tell whether an in-place op replaces or scales all of its target."""
    return _scales(op) or (op.operator.overwrites and op.written[0].offset == 0)


def _holds_fp4(table: TensorUse) -> bool:
    """Tell whether a small table of known numbers has those of e2m1: it decodes packed fp4."""
    if table.value is None or table.numel > 1 << 8 or not table.numel:
        return False
    return bool(np.isin(np.abs(table.value), _FP4_VALUES).all())
