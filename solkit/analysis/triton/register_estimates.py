"""Estimates of what LLVM and ptxas decide, from the IR alone: registers, instructions, wavefronts.

Used at the lowered depth. The constants are medians over compiled kernels of the zoo, for an H100;
nothing is fitted to measured times. `bench/depths.py` compares the estimates with real compiles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from solkit.adapters.triton_ir import Block, Function, Operation, TensorType, element_bits
from solkit.analysis.triton.bank_conflicts import SharedTraffic, summed_accesses, user_line
from solkit.analysis.triton.exchanges import elements_per_thread, is_through_shared
from solkit.analysis.triton.layouts import tensor_spread
from solkit.analysis.triton.relevance import LOADS
from solkit.analysis.triton.steps import steps_of
from solkit.core import SharedAccess

_BASE_REGISTERS = 15
"""Scalars, counters and what instructions need on their way."""
_INTEGERS = 0.5
"""Share of the integers of a thread that are kept; the rest are computed again when needed."""
_MOST_REGISTERS = 255
_SM_REGISTERS = 1 << 16
"""CUDA C++ Programming Guide, technical specifications; ptxas hands out registers by eights."""

_FREE = {
    *("arith.constant", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape"),
    *("tt.trans", "tt.make_range", "ttg.memdesc_subview", "ttg.memdesc_index", "ttg.memdesc_trans"),
    "scf.yield",
}
"""Operations that become no instruction, or constants in others."""

_EXCHANGES = ("tt.reduce", "tt.scan")
_WAITS = {"ttg.async_wait": 1, "ttg.local_alloc": 1, "ttg.local_store": 1, "ttng.wait_barrier": 1}
_SCRATCH = ("tt.reduce", "tt.scan", "ttg.convert_layout")
"""Operations through memory that others use, too."""
_WAVEFRONT_BYTES = 128


# -------------------------------------------------------------------------------------- registers


def estimated_registers(function: Function, limit: int | None = None) -> tuple[int, int]:
    """Estimate registers per thread, and 32-bit words per thread that do not fit.

    Registers hold the tensors of a thread, each from where it is computed to its last use; the most
    at any point counts. Pointers and integers that differ by constants share a register
    (`Steps.spreads`).

    Args:
        function: the kernel.
        limit: the ``maxnreg`` that the launch asks for.
    """
    most = math.ceil(_Lives(function).most()) + _BASE_REGISTERS
    by_block = _SM_REGISTERS // (32 * function.num_warps) // 8 * 8
    limit = min(limit or _MOST_REGISTERS, by_block, _MOST_REGISTERS)
    return min(most, limit), max(most - limit, 0)


class _Lives:
    """Lives of a kernel's values, by positions in the text, and their registers."""

    def __init__(self, function: Function) -> None:
        self.at = 0
        self.warps = function.num_warps
        self.steps = steps_of(function)
        self.births: dict[str, int] = {}
        self.deaths: dict[str, int] = {}
        self.registers: dict[str, float] = {}
        self._walk(function.blocks)

    def most(self) -> float:
        """Return the most registers that values hold at once."""
        changes: dict[int, float] = defaultdict(float)
        for name, death in self.deaths.items():
            if name in self.births:
                changes[self.births[name]] += self.registers[name]
                changes[death] -= self.registers[name]
        live = most = 0.0
        for at in sorted(changes):
            live += changes[at]
            most = max(most, live)
        return most

    def _walk(self, blocks: Sequence[Block]) -> None:
        for operation in (operation for block in blocks for operation in block.operations):
            self.at += 1
            self.deaths |= dict.fromkeys(operation.operands, self.at)
            if operation.name == "scf.for":
                self._loop(operation)
            elif operation.name not in _EXCHANGES:
                self._walk(operation.blocks)
            for name, words in zip(operation.results, self._held(operation), strict=False):
                self.births[name] = self.at
                self.registers.setdefault(name, words)

    def _loop(self, operation: Operation) -> None:
        """Walk a loop: values from outside that the body uses live to its end."""
        start, body = self.at, operation.blocks[0]
        loop, outside = operation.loop, set(self.births)
        self._walk(operation.blocks)
        self.at += 1
        yielded = body.operations[-1].operands if loop.names else ()
        for i, name in enumerate(loop.names):
            self.births[name] = start
            held = self.registers.get(yielded[i], 0.0)
            self.registers[name] = held
            if i < len(operation.results):
                self.registers[operation.results[i]] = held
        for name in outside:
            if self.deaths.get(name, 0) >= start:
                self.deaths[name] = self.at

    def _held(self, operation: Operation) -> Iterator[float]:
        """Yield the registers of one thread for each result."""
        kinds = (operation.result_type,) if len(operation.results) == 1 else operation.all_types
        kinds = kinds or (TensorType((), "i1"),) * len(operation.results)
        for name, kind in zip(operation.results, kinds, strict=False):
            in_registers = kind.layout is not None and "shared" not in kind.layout.kind
            whole = kind.element.startswith(("i", "!tt.ptr")) and operation.name not in LOADS
            words = element_bits(kind.element) / 32
            if not in_registers or (whole and kind.element == "i1"):
                yield 0.0  # scalars and flags have registers of their own
            elif whole:
                kept = 1.0 if kind.element.startswith("!tt.ptr") else _INTEGERS
                yield kept * words * math.prod(self.steps.spreads.get(name, (1,)))
            else:
                yield (
                    0.0
                    if operation.name in _FREE
                    else elements_per_thread(kind, self.warps) * words
                )


# ----------------------------------------------------------------- shared memory and instructions


def estimated_shared_traffic(
    function: Function, executions: Mapping[Any, float], programs: int
) -> SharedTraffic:
    """Estimate what `shared_traffic` reads in the PTX; no bank conflicts are assumed.

    Args:
        function: the kernel.
        executions: how often each of its blocks runs, over the launch.
        programs: of the launch.
    """
    by_line: dict[tuple[str, str], SharedAccess] = {}
    barriers = instructions = 0.0
    steps, used = steps_of(function), False
    for block, operation, depth in function.walk():
        times = executions.get(block, 0.0) if depth else float(programs)
        issued = (step.count for step in steps.of(operation) if step.kind != "move")
        instructions += times * sum(issued)
        needed = float(_barriers(operation))
        if operation.name == "ttg.async_wait" and depth:  # two an iteration: after it, and before
            needed = max(2 / sum(other.name == operation.name for other in block.operations), 1)
        barriers += times * (
            needed + (needed and operation.name in _SCRATCH and (used or depth > 0))
        )
        used |= bool(needed)
        for kind, moved in _shared_block_access(operation, function.warps_of_32):
            amount = round(times * max(moved / _WAVEFRONT_BYTES, 1))
            access = SharedAccess(kind, user_line(operation.places), amount, amount, amount)
            before = by_line.get((kind, access.line))
            by_line[kind, access.line] = summed_accesses(before, access) if before else access
    accesses = tuple(access for access in by_line.values() if access.requests)
    return SharedTraffic(accesses, barriers, instructions)


def _shared_block_access(operation: Operation, warps: int) -> Iterator[tuple[str, float]]:
    """Kind and bytes of a block's accesses of shared memory in one execution."""
    name = operation.name
    if name == "ttg.convert_layout" and not is_through_shared(operation):
        return
    if name == "ttg.async_copy_global_to_local":
        kind = operation.all_types[0].pointee
        yield "copy", math.prod(kind.shape) * element_bits(kind.element) / 8
    elif name in ("ttg.local_load", "ttg.convert_layout"):
        moved = _block_bytes(operation.result_type, warps)
        if name == "ttg.convert_layout":
            yield "store", _block_bytes(operation.all_types[0], warps)
        yield "load", moved
    elif name in ("tt.reduce", "tt.scan"):
        yield from _exchanged(operation, warps)
    elif name == "ttg.local_store" or (name == "ttg.local_alloc" and operation.operands):
        yield "store", _block_bytes(operation.all_types[0], warps)


def _barriers(operation: Operation) -> int:
    """Count those of one execution, without the one before that what is there was read."""
    if operation.name in ("tt.reduce", "tt.scan"):
        return 2 if _warps_sharing_row(operation) > 1 else 0
    if operation.name == "ttg.convert_layout":
        return int(is_through_shared(operation))
    return _WAITS.get(operation.name, 0)


def _warps_sharing_row(operation: Operation) -> int:
    """Count warps that share a row of a reduction."""
    axis = operation.attribute("axis") or 0
    try:
        return 1 << sum(bool(basis[axis]) for basis in tensor_spread(operation.all_types[0]).warps)
    except ValueError:
        return 1


def _exchanged(operation: Operation, warps: int) -> Iterator[tuple[str, float]]:
    """Let each warp store its part of a row; one loads them and stores the sum; all load that.

    Lanes whose rows are neighbours in a thread are so many words apart, and meet in banks.
    """
    kind, axis = operation.all_types[0], operation.attribute("axis") or 0
    parts = _warps_sharing_row(operation)
    if parts == 1:
        return
    layout = tensor_spread(kind)
    own = replace(layout, registers=tuple(b for b in layout.registers if not b[axis]))
    lanes = 1 << sum(not basis[axis] for basis in layout.lanes)
    rows = len({b for b in own.registers if any(b)})
    words = (1 << rows) * max(len(operation.results), 1)
    met = min(lanes, own.in_a_row * parts)
    yield "store", words * (met * warps + 1) * _WAVEFRONT_BYTES
    yield "load", words * (warps + 1) * _WAVEFRONT_BYTES


def _block_bytes(kind: TensorType, warps: int) -> float:
    """Count bytes of a tensor in all threads of a block, copies included."""
    return elements_per_thread(kind, warps) * 32 * warps * element_bits(kind.element) / 8
