"""Count what the accesses of a kernel's programs touch: requests, sectors, bytes.

A warp's instruction is one request. It touches the 32-byte sectors of its lanes' addresses, each
counted once (Nsight Compute's ``l1tex__t_sectors_pipe_lsu_mem_global_op_*`` over
``l1tex__t_requests_*``). Which lane holds which element follows from the tensor's layout, how many
elements one instruction moves from the PTX; without PTX from the layout and the addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from solkit.adapters.triton_ir import Operation
from solkit.adapters.triton_ptx import Widths
from solkit.analysis.common.out_of_bounds import outside_bytes
from solkit.analysis.common.regions import SECTOR
from solkit.analysis.interpreter.access_recorders import ContentionRecorder, ExtentRecorder
from solkit.analysis.interpreter.coalescing import LINE_SECTORS, TouchedSectors, distinct_together
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.triton.arithmetic import along_programs, element_bytes
from solkit.analysis.triton.layouts import tensor_spread
from solkit.analysis.triton.relevance import mask_operand
from solkit.analysis.triton.tensor_sink import Descriptor

Array = np.ndarray[Any, np.dtype[Any]]

_VECTOR_BYTES = 16
"""Most that one instruction of a thread moves (PTX ISA, ld: .v4.b32)."""

_SUSPECTS = 4
"""Programs that are looked at closely, as corners do not show where a mask ends."""


def access_kind(operation: Operation) -> str:
    """``"load"``, ``"store"`` or ``"atomic"``, as in `solkit.core.Access`."""
    if "atomic" in operation.name or "reduce" in operation.name:
        return "atomic"
    stores = ("store" in operation.name, operation.name.endswith("local_to_global"))
    return "store" if any(stores) else "load"


def access_path(operation: Operation) -> str:
    """``"tma"``, ``"async"`` or ``"global"``, as in `solkit.core.Access`."""
    if "tma" in operation.name or "descriptor" in operation.name:
        return "tma"
    return "async" if "async" in operation.name else "global"


def vector_bytes(operation: Operation, widths: Widths) -> int | None:
    """Return bytes of one thread's instruction; ``None`` if the PTX has none at that place."""
    kind = "async" if access_path(operation) == "async" else access_kind(operation)
    for place in operation.places[:1]:
        width = widths.get((place.file_name, place.line, place.column, kind))
        if width:
            return max(width, element_bytes(operation.all_types[0]))
    return None


class Whole:
    """Counts every lane of every request of the followed programs.

    Keys of the counters: (operation, name) with the names of
    `solkit.analysis.interpreter.access_counts.TOTALS`; and for plain loads, over each step of the
    code: ``"apart"``, the sum of their distinct sectors,
    and ``"together"``, the sectors that are distinct among all.

    Args:
        counters: where all is counted.
        widths: bytes of each access, as `vector_widths` gives them; those missing are estimated.
        num_warps: warps per block.
        mask_runs: gives the elements in a row for which masks are constant, if asked.
    """

    def __init__(
        self,
        counters: Counters,
        widths: Widths | None,
        num_warps: int,
        mask_runs: Callable[[], Mapping[Operation, int]] = dict,
    ) -> None:
        self.counters = counters
        self.widths = widths or {}
        self.mask_runs = cache(mask_runs)
        self.num_warps = num_warps
        self.lanes: dict[Operation, _Lanes] = {}
        self.touched: dict[Operation, _Execution] = {}  # the last time
        self.step: list[TouchedSectors] = []
        self.contention = ContentionRecorder(counters)

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        kind = operation.all_types[0]
        if not kind.shape or addresses is None or kind.layout is None:
            self._uniform(operation, mask, active, addresses is not None)
            if access_kind(operation) == "atomic":
                self._met_at_one(operation, addresses, mask, active)
            return
        lanes = self.lanes.get(operation)
        if lanes is None:
            lanes = self.lanes[operation] = self._lanes(operation, addresses)
        self._add(
            operation, "bytes", _accessed_elements(mask, active, kind.shape) * lanes.element_bytes
        )
        first, participating = lanes.pick(addresses), lanes.participating(mask, active)
        before = self.touched.get(operation)
        execution = before.moved(first, participating) if before else None
        if execution is None:
            execution = _Execution.by(first, participating, lanes.width_bytes)
        self.touched[operation] = execution
        for name in ("requests", "sectors", "lines", "distinct", "paired"):
            self._add(operation, name, getattr(execution.touched, name))
        if operation.name == "tt.load":
            self.step.append(execution.touched)
        if access_kind(operation) == "atomic":
            self._met(operation, first, participating, lanes)

    def _met(self, operation: Operation, first: Array, participating: Array, lanes: _Lanes) -> None:
        """Note where the lanes of an atomic meet."""
        elements = max(lanes.width_bytes // lanes.element_bytes, 1)
        at = np.where(participating, first, -1)
        at = np.broadcast_to(at, (self.counters.programs, *at.shape[1:]))
        at = at.reshape(len(at), -1, at.shape[-1])
        self.contention.note_lanes(operation, lanes.element_bytes, elements, at)

    def _met_at_one(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """Note the meetings of a scalar, or of elements at unknown places."""
        kind = operation.all_types[0]
        elements = math.prod(kind.shape)
        wide = 1.0 if mask is None else mask.reshape(len(mask), -1).mean(1)
        executions = np.broadcast_to(active * wide, (self.counters.programs,))
        for name in ("operations", "warp_addresses"):
            self._add(operation, name, executions * elements)
        meetings = self.contention.of_access(operation, element_bytes(kind))
        if addresses is None:
            meetings.is_assumed = True
        elif not kind.shape:
            at = np.broadcast_to(addresses.reshape(len(addresses)), executions.shape)
            meetings.add(at[executions > 0], np.flatnonzero(executions > 0))

    def step_ends(self) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        if not self.step:
            return
        apart = together = self.step[0].distinct
        if len(self.step) > 1:
            apart = sum((touched.distinct for touched in self.step[1:]), apart)
            together = distinct_together([touched.numbers for touched in self.step])
        self.counters.add(("apart",), apart)
        self.counters.add(("together",), together)
        self.step = []

    def _lanes(self, operation: Operation, addresses: Array) -> _Lanes:
        kind = operation.all_types[0]
        size = element_bytes(kind)
        if width := vector_bytes(operation, self.widths):
            return _Lanes.by(operation, width)
        in_a_row = tensor_spread(kind).in_a_row
        most = math.gcd(in_a_row, self.mask_runs().get(operation, in_a_row))
        return _Lanes.by(operation, _Lanes.by(operation, size).width_at(addresses, most))

    def vector_bytes(self, operation: Operation) -> int:
        """Return the bytes that one thread's instruction of an access moves."""
        if operation in self.lanes:
            return self.lanes[operation].width_bytes
        return vector_bytes(operation, self.widths) or element_bytes(operation.all_types[0])

    def _uniform(
        self, operation: Operation, mask: Array | None, active: Array, is_known: bool
    ) -> None:
        """Count a scalar, which each warp loads or one thread writes; or an unknown address."""
        kind = operation.all_types[0]
        wide = None if mask is None else mask.reshape(len(mask), -1).mean(1, keepdims=True)
        executions = active * (1.0 if wide is None else wide[:, 0])  # of a mask's shape, its share
        elements = math.prod(kind.shape)
        size = elements * element_bytes(kind)
        warps = self.num_warps if operation.name == "tt.load" and not kind.shape else 1
        requests = warps if is_known else math.ceil(elements / 32)
        sectors = warps if is_known else elements  # unknown places: each element in its own sector
        amounts = (
            ("requests", requests),
            ("sectors", sectors),
            ("lines", sectors),
            ("bytes", size),
        )
        for name, amount in amounts:
            self._add(operation, name, executions * amount)
        self._add(operation, "distinct", executions * (1 if is_known else elements))

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`; a bulk copy is one request."""
        sizes, first = _clipped_box(operation, at, corner)
        rows = math.prod(sizes[:-1], start=np.array([1]))
        row_bytes = sizes[-1] * at.element_bytes
        per_row = -(-(first % SECTOR + row_bytes) // SECTOR) * (row_bytes > 0)
        self._add(operation, "requests", active * (rows * row_bytes > 0))
        self._add(operation, "sectors", active * rows * per_row)
        self._add(operation, "distinct", active * rows * per_row)
        self._add(operation, "bytes", active * rows * row_bytes)
        if access_kind(operation) == "atomic":  # a bulk copy meets each element once
            for name in ("operations", "warp_addresses"):
                self._add(operation, name, active * rows * row_bytes / at.element_bytes)

    def _add(self, operation: Operation, name: str, amount: Array) -> None:
        self.counters.add((operation, name), amount)


@dataclass(frozen=True, eq=False)
class _Lanes:
    """Cover of a tensor by the lanes of an access through pointers.

    Attributes:
        indices: of the first element that each lane accesses, by dimension; each of shape
            [warps, requests, lanes].
        taking: which lanes take part; of the same shape.
        element_bytes: of one element.
        width_bytes: that one instruction of a lane moves.
    """

    indices: tuple[Array, ...]
    taking: Array
    element_bytes: int
    width_bytes: int

    @staticmethod
    def by(operation: Operation, width: int) -> _Lanes:
        """Return the lanes of an operation on a tensor of known layout, for an access width."""
        kind = operation.all_types[0]
        size = element_bytes(kind)
        distinct = operation.name != "tt.load"  # loads are made by all threads alike
        elements = tensor_spread(kind).elements(distinct)[:, :: max(width // size, 1), :]
        taking = elements >= 0
        indices = np.unravel_index(np.where(taking, elements, 0), kind.shape)
        return _Lanes(indices, taking, size, width)

    def width_at(self, addresses: Array, most: int) -> int:
        """Count bytes of an instruction, estimated from lanes of one element.

        At most so many elements and 16 bytes; less if elements are not in order or not aligned.
        """
        size = self.element_bytes
        width = min(size * most, max(_VECTOR_BYTES, size))
        picked = self.pick(addresses)
        first = np.broadcast_to(picked, (len(picked), *self.taking.shape))
        while width > size:
            rows = first.reshape(*first.shape[:2], -1, width // size, first.shape[3])
            if not (rows[..., 0, :] % width).any() and (np.diff(rows, axis=3) == size).all():
                break
            width //= 2
        return width

    def pick(self, values: Array) -> Array:
        """Return the lanes' elements of values that broadcast to [programs, *shape]."""
        values = values.reshape(values.shape + (1,) * (1 + len(self.indices) - values.ndim))
        along = zip(self.indices, values.shape[1:], strict=True)
        where = (slice(None), *(index if size > 1 else 0 for index, size in along))
        picked: Array = values[where]
        return picked.reshape(len(values), *(picked.shape[1:] or (1, 1, 1)))

    def participating(self, mask: Array | None, active: Array) -> Array:
        """Tell which lanes make the access, of shape [programs or 1, warps, requests, lanes]."""
        participating = self.taking[None]
        if not active.all():
            participating = participating & active.reshape(-1, 1, 1, 1)
        return participating if mask is None else participating & self.pick(mask)


@dataclass(frozen=True, eq=False)
class _Execution:
    """One execution of an access.

    Attributes:
        first: each lane's address.
        participating: which lanes make the access.
        touched: the sectors.
    """

    first: Array
    participating: Array
    touched: TouchedSectors

    @staticmethod
    def by(first: Array, participating: Array, width_bytes: int) -> _Execution:
        """Build it for lanes of a given width."""
        lanes = np.where(participating, first // SECTOR, -1)
        touched = TouchedSectors.of(lanes.reshape(len(lanes), -1, lanes.shape[-1]), width_bytes)
        return _Execution(first, participating, touched)

    def moved(self, first: Array, participating: Array) -> _Execution | None:
        """Return the same counts, if all lanes of a program moved by as many whole lines."""
        if first.shape != self.first.shape or not np.array_equal(participating, self.participating):
            return None
        way = (first - self.first).reshape(len(first), -1)
        lines, beyond = np.divmod(way[:, :1], SECTOR * LINE_SECTORS)
        if beyond.any() or (way != way[:, :1]).any():
            return None
        before = self.touched.numbers
        numbers = np.where(before < 0, -1, before + lines * LINE_SECTORS)
        return replace(self, first=first, touched=replace(self.touched, numbers=numbers))


class Corners:
    """Notes how often and where each operation of many programs accesses memory.

    Keys of the counters: (operation, ``"runs"``), executions that access anything; ``"made"``, the
    same, weighted by the share that the mask lets through; and ``"moves"``, those at another place
    than the previous one.
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.recorder = ExtentRecorder(counters)
        self.sizes: Array = np.zeros(1, np.int64)  # of the storages, by number, from 1 on
        self.outside: dict[Operation, int] = {}  # bytes beyond their ends
        self.suspects: set[int] = set()  # which programs a mask may not keep inside

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        programs = self.counters.programs
        share = active.astype(float)
        if mask is not None:
            wide = mask.reshape(mask.shape[0], -1)
            share = share * np.broadcast_to(wide.mean(1), (programs,))
        if addresses is None:
            self._note(operation, share)
            return
        # the whole tensor if masked in part: corners do not show where the mask ends
        where = np.ascontiguousarray(addresses.reshape(len(addresses), -1).T)  # along programs
        size = element_bytes(operation.all_types[0])
        low, high = where.min(0), where.max(0) + size
        self._note(operation, share, (low, high))
        is_known = mask is not None or mask_operand(operation) is None
        if is_known and outside_bytes(low, high, self.sizes).any():
            self._reach(operation, addresses, mask, active)

    def _reach(
        self, operation: Operation, addresses: Array, mask: Array | None, active: Array
    ) -> None:
        """Note how far the elements that are accessed lie outside of their storages."""
        end = addresses + element_bytes(operation.all_types[0])
        reached = outside_bytes(addresses, end, self.sizes) * along_programs(active, addresses)
        if mask is not None:
            if len(self.suspects) < _SUSPECTS:
                self.suspects.add(int(reached.reshape(len(reached), -1).max(1).argmax()))
            reached = reached * mask.astype(bool)
        farthest = int(reached.max())
        if farthest:
            self.outside[operation] = max(farthest, self.outside.get(operation, 0))

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        sizes, first = _clipped_box(operation, at, corner)
        spans = [(n - 1) * stride for n, stride in zip(sizes, at.strides, strict=True)]
        high = first + sum(spans, np.array([0])) + at.element_bytes
        share = active * np.minimum(math.prod(sizes, start=np.array([1])), 1).astype(float)
        self._note(operation, share, (first, high))

    def step_ends(self) -> None:
        """See `TensorSink`; corners do not show what loads share."""

    def _note(
        self, operation: Operation, share: Array, ends: tuple[Array, Array] | None = None
    ) -> None:
        self.counters.add((operation, "runs"), share > 0)
        self.recorder.note_execution(operation, share, ends)


def _accessed_elements(mask: Array | None, active: Array, shape: tuple[int, ...]) -> Array:
    """Count the elements of a tensor of that shape that each program accesses."""
    elements = math.prod(shape)
    if mask is None:
        return active * elements
    flat = mask.reshape(len(mask), -1)
    unmasked: Array = flat.sum(1) * (elements // flat.shape[1])
    return active * unmasked


def _clipped_box(
    operation: Operation, at: Descriptor, corner: Sequence[Array]
) -> tuple[list[Array], Array]:
    """Return the sizes of a box within its tensor, and the address of its first element."""
    block = next(kind.shape for kind in operation.all_types if kind.shape)
    block = (1,) * (len(corner) - len(block)) + block[-len(corner) :]
    sizes, first = [], at.base
    for start, extent, whole, stride in zip(corner, block, at.shape, at.strides, strict=True):
        inside = np.clip(start, 0, whole)
        sizes.append(np.clip(np.minimum(start + extent, whole) - inside, 0, None))
        first = first + inside * stride
    return sizes, first
