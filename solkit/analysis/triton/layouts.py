"""Threads that hold the elements of a tensor.

Triton's layouts are linear over bits (Zhou et al., "Linear Layouts: Robust Code Generation of
Efficient Tensor Computation Using F2", 2025): each bit of the register's, lane's and warp's number
adds (by exclusive or) a vector of coordinates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solkit.adapters.triton_ir import Layout, TensorType

Basis = tuple[int, ...]


@dataclass(frozen=True)
class Spread:
    """A tensor over the threads of a block: for each bit, the coordinates that it adds.

    Attributes:
        shape: the tensor's.
        registers, lanes, warps: one vector of coordinates per bit, lowest bit first. Zeros mean
            that threads or registers hold the same element.
    """

    shape: tuple[int, ...]
    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]

    @property
    def per_thread(self) -> int:
        """Elements that one thread holds, equal ones included."""
        return 1 << len(self.registers)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return 1 << (len(self.lanes) + len(self.warps))

    @property
    def row_dimension(self) -> int:
        """The dimension along which successive registers of a thread go."""
        first = self.registers[0] if self.registers else ()
        return next((d for d, step in enumerate(first) if step), len(self.shape) - 1)

    @property
    def in_a_row(self) -> int:
        """Elements along one dimension that successive registers of a thread hold."""
        count = 1
        for basis in self.registers:
            if sum(basis) != count or not self.registers[0][basis.index(count)]:
                break
            count *= 2
        return count

    @functools.lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and kept by `tensor_spread` anyway
    def elements(self, distinct: bool = False) -> npt.NDArray[np.int64]:
        """Row-major positions in the tensor, of shape [warps, registers, lanes].

        Args:
            distinct: -1 for all but the first of the threads that hold the same element, as for
                stores, atomics and asynchronous copies.
        """
        strides = [math.prod(self.shape[d + 1 :]) for d in range(len(self.shape))]
        positions = _combined_positions(self.warps, strides)[:, None, None]
        positions = positions ^ _combined_positions(self.registers, strides)[None, :, None]
        positions = positions ^ _combined_positions(self.lanes, strides)[None, None, :]
        if distinct:
            mine = _first_of_equals(self.warps)[:, None, None] & _first_of_equals(self.lanes)
            positions = np.where(mine, positions, -1)
        return positions


def _combined_positions(bases: Sequence[Basis], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    # sizes are powers of two, so exclusive or of coordinates is that of positions
    positions = [sum(c * s for c, s in zip(basis, strides, strict=True)) for basis in bases]
    combined = np.zeros(1, np.int64)
    for position in positions:
        combined = np.concatenate([combined, combined ^ position])
    return combined


def _first_of_equals(bases: Sequence[Basis]) -> npt.NDArray[np.bool_]:
    is_first = np.ones(1, bool)
    for basis in bases:
        is_first = np.concatenate([is_first, is_first if any(basis) else np.zeros_like(is_first)])
    return is_first


def tensor_spread(tensor: TensorType) -> Spread:
    """Return how a tensor is spread over a block's threads.

    Raises:
        ValueError: its layout is of an unknown kind.
    """
    if tensor.layout is None:
        raise ValueError("a tensor without a layout")
    return _cached_spread(tensor.layout, tensor.shape)


@functools.lru_cache(maxsize=4096)
def _cached_spread(layout: Layout, shape: tuple[int, ...]) -> Spread:
    return _fitted_to_shape(_layout_tile(layout, shape), shape, _register_order(layout, len(shape)))


def _layout_tile(layout: Layout, shape: tuple[int, ...]) -> Spread:
    """Return the layout before it is fitted to the shape."""
    if layout.kind == "blocked":
        return _blocked_layout(layout, shape)
    if layout.kind == "nvidia_mma":
        return _mma_layout(layout, shape)
    if layout.kind == "amd_mfma":
        return _mfma_layout(layout, shape)
    if layout.kind == "slice" and layout.parent is not None:
        return _slice_layout(layout, shape)
    if layout.kind == "linear":
        return Spread(shape, *(dict(layout.bases).get(n, ()) for n in ("register", "lane", "warp")))
    if layout.kind == "dot_op" and layout.parent is not None and layout.parent.kind == "blocked":
        return _blocked_layout(layout.parent, shape)
    if layout.kind == "dot_op" and layout.parent is not None and layout.parent.kind == "nvidia_mma":
        return _dot_operand(layout, layout.parent, shape)
    if layout.kind == "dot_op" and layout.parent is not None and layout.parent.kind == "amd_mfma":
        return _mfma_operand(layout, layout.parent, shape)
    raise ValueError(f"a layout that is not known: {layout.kind}")


def _register_order(layout: Layout, rank: int) -> tuple[int, ...]:
    """Return dimensions in the order in which registers repeat along them."""
    if layout.kind == "blocked":
        return layout.ints("order")
    dims = tuple(range(rank))[::-1]
    if layout.kind == "dot_op" and layout.ints("opIdx") == (1,):
        return (dims[1], dims[0], *dims[2:])  # along the dimension that is summed over
    return dims


def _axis_basis(rank: int, dim: int, size: int) -> Basis:
    return tuple(size if d == dim else 0 for d in range(rank))


def _bits_in_order(
    counts: Sequence[int], order: Sequence[int], start: Sequence[int]
) -> tuple[tuple[Basis, ...], tuple[int, ...]]:
    """Return bits that walk through `counts` in `order` in steps of `start`; and the next step."""
    at, bases = list(start), []
    for dim in order:
        for _ in range(counts[dim].bit_length() - 1):
            bases.append(_axis_basis(len(counts), dim, at[dim]))
            at[dim] *= 2
    return tuple(bases), tuple(at)


def _blocked_layout(layout: Layout, shape: tuple[int, ...]) -> Spread:
    """Source: triton/include/triton/Dialect/TritonGPU/IR/TritonGPUAttrDefs.td, BlockedEncoding."""
    order = layout.ints("order")
    at: tuple[int, ...] = (1,) * len(order)
    registers, at = _bits_in_order(layout.ints("sizePerThread"), order, at)
    lanes, at = _bits_in_order(layout.ints("threadsPerWarp"), order, at)
    warps, at = _bits_in_order(layout.ints("warpsPerCTA"), order, at)
    return Spread(shape, registers, lanes, warps)


def _mma_layout(layout: Layout, shape: tuple[int, ...]) -> Spread:
    """Return the accumulators of ``mma.sync`` and ``wgmma``.

    Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "Register Fragments for
    wgmma.mma_async.m64nNk16": lane / 4 is the row and lane % 4 a pair of columns of 16 x 8.
    """
    rank = len(shape)
    row, col = rank - 2, rank - 1
    hopper = layout.ints("versionMajor")[0] == 3
    columns = layout.ints("instrShape")[1 if hopper else -1]
    registers = [_axis_basis(rank, col, 1), _axis_basis(rank, row, 8)]
    step = 8
    while hopper and step < columns:
        registers.append(_axis_basis(rank, col, step))
        step *= 2
    lanes = [_axis_basis(rank, col, 2), _axis_basis(rank, col, 4)]
    lanes += [_axis_basis(rank, row, 1 << bit) for bit in range(3)]
    start = [1] * rank
    start[row], start[col] = 16, step
    dims = tuple(range(rank)) if hopper else tuple(range(rank))[::-1]
    warps, _ = _bits_in_order(layout.ints("warpsPerCTA"), dims, start)
    return Spread(shape, tuple(registers), tuple(lanes), warps)


def _dot_operand(layout: Layout, mma: Layout, shape: tuple[int, ...]) -> Spread:
    """Return an operand of ``mma.sync``, or the first one of ``wgmma``, in registers.

    A thread holds `kWidth` neighbours along the dimension that is summed over. Warps along that
    dimension of the result hold the same elements.

    Source: triton/lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp, nvidiaDotToLinearLayout.
    """
    rank = len(shape)
    (side,), (width,) = layout.ints("opIdx"), layout.ints("kWidth")
    summed, other = (rank - 2, rank - 1) if side else (rank - 1, rank - 2)
    near, at = _bits_in_order(_axis_basis(rank, summed, width), (summed,), [1] * rank)
    lanes, at = _bits_in_order(_axis_basis(rank, summed, 4), (summed,), at)
    rows, at = _bits_in_order(_axis_basis(rank, other, 8), (other,), at)
    far: tuple[Basis, ...] = ()
    if side == 0:  # 16 rows of the first operand meet 8 columns of the second
        far, at = _bits_in_order(_axis_basis(rank, other, 2), (other,), at)
    again, at = _bits_in_order(_axis_basis(rank, summed, 2), (summed,), at)
    hopper = mma.ints("versionMajor")[0] == 3
    order = range(rank) if hopper else range(rank)[::-1]
    warps = _operand_warps(mma.ints("warpsPerCTA"), order, summed, at)
    return Spread(shape, (*near, *far, *again), (*lanes, *rows), warps)


def _operand_warps(
    counts: Sequence[int], order: Sequence[int], summed: int, at: Sequence[int]
) -> tuple[Basis, ...]:
    """Return the warps' bits of an operand: those along the summed dimension share elements.

    Args:
        counts: warps along each dimension of the result.
        order: of the dimensions, the one that changes fastest first.
        summed: the dimension that is summed over.
        at: elements along each dimension that one warp holds.
    """
    rank = len(counts)
    warps: list[Basis] = []
    for dim in order:
        step, at = _bits_in_order(_axis_basis(rank, dim, counts[dim]), (dim,), at)
        warps += [(0,) * rank for _ in step] if dim == summed else step
    return tuple(warps)


_WAVE_THREADS = 64
"""Of AMD's CDNA GPUs, which have ``mfma``."""


def _mfma_layout(layout: Layout, shape: tuple[int, ...]) -> Spread:
    """Return the accumulators of ``v_mfma``.

    A thread holds four rows of a column (one of doubles); the lanes walk along the columns, then
    along the rows. `isTransposed` exchanges rows and columns.

    Source: triton/lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp,
    AMDMfmaEncodingAttr::toLinearLayout.
    """
    rank = len(shape)
    row, col = rank - 2, rank - 1
    rows, cols = layout.ints("instrShape")[:2]
    numbers = dict(layout.numbers)
    if numbers.get("isTransposed", (0,))[0]:
        row, col = col, row
    held = 1 if numbers.get("elementBitWidth", (32,))[0] == 64 else 4
    along = _WAVE_THREADS // cols
    registers, at = _bits_in_order(_axis_basis(rank, row, held), (row,), [1] * rank)
    lanes, at = _bits_in_order(_axis_basis(rank, col, cols), (col,), at)
    more, at = _bits_in_order(_axis_basis(rank, row, along), (row,), at)
    again, at = _bits_in_order(_axis_basis(rank, row, max(rows // (held * along), 1)), (row,), at)
    tiles = numbers.get("tilesPerWarp", (1,) * rank)
    repeated, at = _bits_in_order(tiles, tuple(range(rank))[::-1], at)
    warps, _ = _bits_in_order(layout.ints("warpsPerCTA"), tuple(range(rank))[::-1], at)
    return Spread(shape, (*registers, *again, *repeated), (*lanes, *more), warps)


def _mfma_operand(layout: Layout, mfma: Layout, shape: tuple[int, ...]) -> Spread:
    """Return an operand of ``v_mfma``: `kWidth` neighbours a thread along the summed dimension.

    Source: triton/lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp, mfmaDotToLinearLayout.
    """
    rank = len(shape)
    (side,), (width,) = layout.ints("opIdx"), layout.ints("kWidth")
    summed, other = (rank - 2, rank - 1) if side else (rank - 1, rank - 2)
    count = mfma.ints("instrShape")[1 if side else 0]
    near, at = _bits_in_order(_axis_basis(rank, summed, width), (summed,), [1] * rank)
    lanes, at = _bits_in_order(_axis_basis(rank, other, count), (other,), at)
    more, at = _bits_in_order(
        _axis_basis(rank, summed, max(_WAVE_THREADS // count, 1)), (summed,), at
    )
    reach = max(shape[summed] // at[summed], 1)
    again, at = _bits_in_order(_axis_basis(rank, summed, reach), (summed,), at)
    tiles = dict(mfma.numbers).get("tilesPerWarp", (1,) * rank)[other]
    repeated, at = _bits_in_order(_axis_basis(rank, other, tiles), (other,), at)
    warps = _operand_warps(mfma.ints("warpsPerCTA"), range(rank)[::-1], summed, at)
    return Spread(shape, (*near, *again, *repeated), (*lanes, *more), warps)


def _slice_layout(layout: Layout, shape: tuple[int, ...]) -> Spread:
    """Return the parent's layout without a dimension, which has size 1 there."""
    (dim,) = layout.ints("dim")
    whole = (*shape[:dim], 1, *shape[dim:])
    assert layout.parent is not None
    parent = _cached_spread(layout.parent, whole)

    def dropped(bases: Sequence[Basis]) -> tuple[Basis, ...]:
        return tuple((*basis[:dim], *basis[dim + 1 :]) for basis in bases)

    registers = tuple(basis for basis in dropped(parent.registers) if any(basis))
    return Spread(shape, registers, dropped(parent.lanes), dropped(parent.warps))


def _fitted_to_shape(tile: Spread, shape: tuple[int, ...], order: Sequence[int]) -> Spread:
    """Repeat the tile in registers to fill the shape; drop what is beyond it.

    Source: triton/lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp, combineCtaCgaWithShape.
    """

    def inside(basis: Basis) -> Basis:
        return tuple(c if c < size else 0 for c, size in zip(basis, shape, strict=True))

    registers = [inside(basis) for basis in tile.registers]
    lanes = tuple(inside(basis) for basis in tile.lanes)
    warps = tuple(inside(basis) for basis in tile.warps)
    for dim in order:
        reached = 1 + sum(basis[dim] for basis in (*registers, *lanes, *warps))
        while reached < shape[dim]:
            registers.append(_axis_basis(len(shape), dim, reached))
            reached *= 2
    return Spread(shape, tuple(registers), lanes, warps)
