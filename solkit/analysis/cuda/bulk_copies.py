"""Bulk copies (TMA) of PTX: what their text says, and what they touch in global memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.common.ptx_code import ADDRESS, Statement
from solkit.analysis.common.regions import SECTOR
from solkit.analysis.interpreter.front_end import Bulk
from solkit.analysis.interpreter.values import Array

SECTOR_BYTES = SECTOR
"""Bytes of the pieces in which a bulk copy is counted."""

_MOST_BYTES = 1 << 18
"""More than the shared memory of a block."""

_DESCRIBED = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+)\s*)?,\s*\{([^}]*)\}")
"""The operand of a tensor's copy: its descriptor's address and coordinates."""


@dataclass(frozen=True)
class BulkCopy:
    """A bulk copy between global and shared memory, as its text says.

    Attributes:
        kind: ``"load"``, ``"store"`` or, of a reduction, ``"atomic"``.
        address: the operand in global memory, an address or a descriptor and coordinates.
        size: the operand that gives its bytes; empty if a descriptor does.
    """

    kind: str
    address: str
    size: str = ""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The operands that place a tile in a tensor, innermost first; empty without a tensor."""
        described = _DESCRIBED.search(self.address)
        return tuple(part.strip() for part in described[3].split(",")) if described else ()

    @property
    def base(self) -> tuple[str, int]:
        """Register or symbol of the address or of the descriptor's, and the offset behind it."""
        place = _DESCRIBED.search(self.address) or ADDRESS.search(self.address)
        return (place[1], int(place[2] or "0", 0)) if place else ("", 0)


def bulk_copy_of(statement: Statement) -> BulkCopy | None:
    """Return the bulk copy that a statement makes; ``None`` if it makes none.

    Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk and their tensor forms.
    """
    modifiers, operands = statement.modifiers, statement.operands
    if statement.name != "cp" or "bulk" not in modifiers or "global" not in modifiers:
        return None
    if "prefetch" in modifiers or any(m.startswith("im2col") for m in modifiers):
        return None
    behind = modifiers[modifiers.index("global") :]
    is_store = any(modifier.startswith("shared") for modifier in behind)
    kind = "atomic" if "reduce" in modifiers else "store" if is_store else "load"
    size = "" if "tensor" in modifiers else operands[2]
    return BulkCopy(kind, operands[0 if is_store else 1], size)


def row_bulk(addresses: Array, sizes: Array) -> Bulk:
    """Return what a copy of adjacent bytes touches.

    Args:
        addresses: of its first byte, of shape [blocks, threads].
        sizes: of the copy in bytes, likewise; what exceeds shared memory is none of a copy's.
    """
    offsets = _granules(int(sizes.clip(0, _MOST_BYTES).max()))

    def pieces(thread: int) -> tuple[Array, Array]:
        touched = _column(addresses, thread) + offsets[None, :]
        there = offsets[None, :] < _column(sizes, thread)
        return touched, np.broadcast_to(there, touched.shape)

    return Bulk(addresses, pieces)


def tile_bulk(tensor: TensorArgument, address: int, coordinates: list[Array]) -> Bulk:
    """Return what a copy of a tensor's tile touches; parts outside of the tensor are left out.

    Args:
        tensor: the descriptor's: shape, strides and block, outermost first.
        address: of its first element.
        coordinates: of the tile's first element, innermost first, each of shape [blocks, threads].
    """
    width = tensor.element_bytes
    steps = [stride * width for stride in tensor.strides[::-1]]
    sizes, box = tensor.shape[::-1], tensor.block[::-1]
    signed = [np.where(at >= 1 << 31, at - (1 << 32), at) for at in coordinates]
    corner = np.full((1, 1), address, np.int64)
    for at, step in zip(signed, steps):
        corner = corner + np.clip(at, 0, None) * step
    inner = _granules(box[0] * width)
    outer = np.stack(np.meshgrid(*map(np.arange, box[1:]), indexing="ij"), -1).reshape(
        -1, len(box) - 1
    )

    def pieces(thread: int) -> tuple[Array, Array]:
        first = _column(signed[0], thread) * width + inner[None, :]
        inside = (first + width > 0) & (first < sizes[0] * width)
        touched, there = first[:, None, :], inside[:, None, :]
        rows = np.zeros((1, len(outer)), np.int64)
        fits = np.ones((1, len(outer)), bool)
        for axis, (at, step, size) in enumerate(zip(signed[1:], steps[1:], sizes[1:])):
            places = _column(at, thread) + outer[None, :, axis]
            rows = rows + places * step
            fits = fits & (places >= 0) & (places < size)
        touched = address + touched + rows[:, :, None]
        there = np.broadcast_to(there & fits[:, :, None], touched.shape)
        return touched.reshape(len(touched), -1), there.reshape(len(there), -1)

    return Bulk(corner, pieces)


def _granules(size_bytes: int) -> Array:
    """Return the offsets of the pieces of a row."""
    return np.arange(math.ceil(size_bytes / SECTOR_BYTES), dtype=np.int64) * SECTOR_BYTES


def _column(values: Array, thread: int) -> Array:
    """Return one thread's values, of shape [blocks, 1]."""
    at = min(thread, values.shape[1] - 1)
    return values[:, at : at + 1]
