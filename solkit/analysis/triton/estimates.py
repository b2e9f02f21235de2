"""Estimates of what LLVM and ptxas decide, from the IR alone: registers, instructions, wavefronts.

Used at the lowered depth. The constants are medians over compiled kernels of the zoo, for an H100;
nothing is fitted to measured times. `bench/depths.py` compares the estimates with real compiles.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from solkit.adapters.triton_ir import Block, Function, Operation, TensorType, bits_of
from solkit.analysis.triton.layouts import spread
from solkit.analysis.triton.operations import COSTS, DOTS
from solkit.analysis.triton.relevance import ACCESSES, LOADS, mask_of
from solkit.analysis.triton.shared_memory import SharedTraffic, summed, user_line
from solkit.core import SharedAccess

__all__ = ["estimated_registers", "estimated_shared_traffic", "mask_runs"]

_BASE_REGISTERS = 18
"""Addresses, indices and loop counters of a thread."""
_MOST_REGISTERS = 255
_SM_REGISTERS = 1 << 16
"""CUDA C++ Programming Guide, technical specifications; ptxas hands out registers by eights."""

_FREE = {
    *("arith.constant", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape"),
    *("tt.trans", "tt.make_range", "ttg.memdesc_subview", "ttg.memdesc_index", "ttg.memdesc_trans"),
    "scf.yield",
}
"""Operations that become no instruction, or constants in others."""

_EXCHANGES = {"tt.reduce": 15, "tt.scan": 20}
"""Shuffles, and the way through shared memory."""
_KEEP_DIVISORS = {
    *("arith.addi", "arith.subi", "arith.remsi", "arith.minsi", "arith.maxsi", "arith.select"),
    *("arith.cmpi", "arith.andi", "arith.ori", "arith.extsi", "arith.extui", "arith.trunci"),
    *("tt.splat", "tt.broadcast", "tt.expand_dims"),
}
"""Operations whose result is a multiple of whatever all operands are multiples of."""
_WAITS = {"ttg.convert_layout", "ttg.async_wait", "ttg.local_alloc", "ttng.wait_barrier"}
_VECTOR_BYTES = 16
_WAVEFRONT_BYTES = 128
_PRODUCT = 16 * 8 * 32
"""Multiply-adds of one ``mma.sync`` times the bytes of an element: m16n8k16 of 2 bytes."""


# -------------------------------------------------------------------------------------- registers


def estimated_registers(function: Function, limit: int | None = None) -> tuple[int, int]:
    """Registers per thread, and 32-bit words per thread that do not fit.

    Registers hold the tensors of a thread, each from where it is computed to its last use; the most
    at any point counts. Integers and pointers are recomputed from a few indices, so only loaded
    ones count.

    Args:
        function: the kernel.
        limit: the ``maxnreg`` that the launch asks for.
    """
    most = math.ceil(_Lives(function).most()) + _BASE_REGISTERS
    by_block = _SM_REGISTERS // (32 * function.num_warps) // 8 * 8
    limit = min(limit or _MOST_REGISTERS, by_block, _MOST_REGISTERS)
    return min(most, limit), max(most - limit, 0)


class _Lives:
    """Where each value of a kernel is born and dies, by position in the text, and its registers."""

    def __init__(self, function: Function) -> None:
        self.at = 0
        self.warps = function.num_warps
        self.births: dict[str, int] = {}
        self.deaths: dict[str, int] = {}
        self.registers: dict[str, float] = {}
        self._walk(function.blocks)

    def most(self) -> float:
        """The most registers that values hold at once."""
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
        for operation in (each for block in blocks for each in block.operations):
            self.at += 1
            self.deaths |= dict.fromkeys(operation.operands, self.at)
            if operation.name == "scf.for":
                self._loop(operation)
            elif operation.name not in _EXCHANGES:
                self._walk(operation.blocks)
            for name, held in zip(operation.results, _held(operation, self.warps), strict=False):
                self.births[name] = self.at
                self.registers.setdefault(name, held)

    def _loop(self, operation: Operation) -> None:
        """Values from outside that the body uses live to its end."""
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


def _held(operation: Operation, warps: int) -> Iterator[float]:
    """Registers of one thread for each result."""
    kinds = (operation.result_type,) if len(operation.results) == 1 else operation.all_types
    for kind in kinds or (TensorType((), "i1"),) * len(operation.results):
        whole = kind.element.startswith(("i", "!tt.ptr")) and operation.name not in LOADS
        in_registers = kind.layout is not None and "shared" not in kind.layout.kind
        free = whole or not in_registers or operation.name in _FREE
        yield 0.0 if free else _per_thread(kind, warps) * bits_of(kind.element) / 32


def _per_thread(kind: TensorType, warps: int) -> int:
    """Elements that one thread holds; those of a scalar are one."""
    if not kind.shape:
        return 1
    try:
        return spread(kind).per_thread
    except ValueError:  # operands of products, and shared memory
        return max(math.prod(kind.shape) // (32 * warps), 1)


# ------------------------------------------------------------------------------------------ masks


def mask_runs(function: Function) -> Mapping[Operation, int]:
    """Elements in a row for which the compiler knows a mask to be constant, for each masked access.

    As in triton/lib/Analysis/AxisInfo.cpp: a comparison of indices in a row with a bound is
    constant over what divides both.
    """
    operations = [each for block in function.blocks for each in block.walk()]
    divisors = _Divisors(function, operations)
    found: dict[Operation, int] = {}
    for operation in operations:
        mask = mask_of(operation) if operation.name in ACCESSES else None
        if mask is not None and operation.all_types[0].layout is not None:
            with contextlib.suppress(ValueError):  # of a layout that is not known
                dim = spread(operation.all_types[0]).row_dimension
                found[operation] = divisors.of(mask, dim) or 1 << 30
    return found


class _Divisors:
    """The largest known divisor of the first of any aligned run of a value's elements.

    Of a mask, the length of the runs for which it is constant. 0 stands for infinity.
    """

    def __init__(self, function: Function, operations: Sequence[Operation]) -> None:
        self.made = {name: each for each in operations for name in each.results}
        self.known: dict[tuple[str, int], int] = {}
        self.bases = dict.fromkeys(function.divisible, 16)
        self.carried: dict[str, tuple[str, str]] = {}
        for each in operations:
            if each.name == "scf.for":
                loop = each.loop
                yielded = each.blocks[0].operations[-1].operands if loop.names else ()
                pairs = zip(loop.starts, yielded, strict=True)
                self.carried |= dict(zip(loop.names, pairs, strict=True))
                self.carried[loop.variable] = loop.bounds[0], loop.bounds[2]

    def of(self, name: str, dim: int) -> int:
        """Of a value, along a dimension."""
        key = name, dim
        if key not in self.known:
            self.known[key] = 0  # what a loop passes on to itself adds nothing
            self.known[key] = self._found(name, dim)
        return self.known[key]

    def _found(self, name: str, dim: int) -> int:
        if name in self.carried:
            return math.gcd(*(self.of(each, dim) for each in self.carried[name]))
        operation = self.made.get(name)
        if operation is None:
            return self.bases.get(name, 1)
        if operation.name == "tt.make_range":
            return operation.attribute("start") or 0
        if operation.name == "arith.constant":
            number = re.search(r"\d+", operation.text)
            return int(number.group()) if number else 0
        if operation.name == "tt.splat" and operation.result_type.element == "i1":
            return 0
        if operation.name == "tt.broadcast" and operation.all_types[0].shape[dim] == 1:
            return 0
        if operation.name == "tt.expand_dims":
            dim -= (operation.attribute("axis") or 0) < dim
        inputs = [self.of(each, dim) for each in operation.operands]
        if operation.name == "arith.muli":
            return math.prod(inputs)
        return math.gcd(*inputs) if operation.name in _KEEP_DIVISORS else 1


# ----------------------------------------------------------------- shared memory and instructions


def estimated_shared_traffic(
    function: Function, executions: Mapping[Any, float], programs: int
) -> SharedTraffic:
    """What `shared_traffic` reads in the PTX; no bank conflicts are assumed.

    Args:
        function: the kernel.
        executions: how often each of its blocks runs, over the launch.
        programs: of the launch.
    """
    known: dict[tuple[str, str], SharedAccess] = {}
    barriers = instructions = 0.0
    for block, operation, depth in function.walk():
        times = executions.get(block, 0.0) if depth else float(programs)
        instructions += times * _instructions(operation, function.num_warps)
        barriers += times * _barriers(operation)
        for kind, moved in _moved(operation, function.num_warps):
            amount = round(times * max(moved / _WAVEFRONT_BYTES, 1))
            made = SharedAccess(kind, user_line(operation.places), amount, amount, amount)
            before = known.get((kind, made.line))
            known[kind, made.line] = summed(before, made) if before else made
    accesses = tuple(access for access in known.values() if access.requests)
    return SharedTraffic(accesses, barriers, instructions)


def _moved(operation: Operation, warps: int) -> Iterator[tuple[str, float]]:
    """Kind and bytes of a block's accesses of shared memory in one execution."""
    name = operation.name
    if name == "ttg.async_copy_global_to_local":
        kind = operation.all_types[0].pointee
        yield "copy", math.prod(kind.shape) * bits_of(kind.element) / 8
    elif name in ("ttg.local_load", "ttg.convert_layout"):
        moved = _block_bytes(operation.result_type, warps)
        if name == "ttg.convert_layout":
            yield "store", _block_bytes(operation.all_types[0], warps)
        yield "load", moved
    elif name == "tt.reduce" and (passes := _passes(operation)):
        yield from ((way, passes * warps * _WAVEFRONT_BYTES) for way in ("store", "load"))
    elif name == "ttg.local_store" or (name == "ttg.local_alloc" and operation.operands):
        yield "store", _block_bytes(operation.all_types[0], warps)


def _barriers(operation: Operation) -> int:
    return 2 if operation.name == "tt.reduce" and _passes(operation) else operation.name in _WAITS


def _passes(operation: Operation) -> int:
    """Wavefronts of one warp to store, or load, what warps reduce together; 0 if each has all.

    Each warp stores its part of a row, the parts side by side; then a row's result, for all to
    load. Lanes whose rows are neighbours in a thread are so many words apart, and meet in banks.
    """
    kind, axis = operation.all_types[0], operation.attribute("axis") or 0
    try:
        layout = spread(kind)
    except ValueError:
        return 0
    parts = 1 << sum(bool(basis[axis]) for basis in layout.warps)
    if parts == 1:
        return 0
    own = replace(layout, registers=tuple(b for b in layout.registers if not b[axis]))
    lanes = 1 << sum(not basis[axis] for basis in layout.lanes)
    return own.per_thread * len(operation.results) * (min(lanes, own.in_a_row * parts) + 1)


def _block_bytes(kind: TensorType, warps: int) -> float:
    """Bytes of a tensor in all threads of a block, copies included.

    Operands of ``mma.sync`` are copied to all warps along the dimension that they lack.
    """
    held = _per_thread(kind, warps) * 32 * warps
    parent = kind.layout.parent if kind.layout is not None else None
    if kind.layout is not None and kind.layout.kind == "dot_op" and parent is not None:
        (side,) = kind.layout.ints("opIdx")
        held = math.prod(kind.shape) * dict(parent.numbers).get("warpsPerCTA", (1, 1))[-1 - side]
    return held * bits_of(kind.element) / 8


def _instructions(operation: Operation, warps: int) -> float:
    """Of one warp, in one execution."""
    name = operation.name
    if name in _FREE or operation.name.startswith(("scf.", "cf.")):
        return 0.0
    if not operation.types or not (operation.results or operation.all_types):
        return 1.0
    if name in DOTS:
        return _product(operation, warps)
    if name in _EXCHANGES:
        each = 2 if name == "tt.scan" else 1
        return each * _per_thread(operation.all_types[0], warps) + _EXCHANGES[name]
    if name.startswith(("ttg.", "ttng.")) and name not in ACCESSES:
        moved = sum(moved for _, moved in _moved(operation, warps))
        return max(moved / (32 * warps * _VECTOR_BYTES), 1.0)
    of_operand = name in ACCESSES or not operation.results
    kind = operation.all_types[0] if of_operand else operation.result_type
    held = _per_thread(kind, warps)
    if name in ACCESSES or kind.element.startswith(("i", "!tt.ptr")):
        return held / _in_one(kind)
    return held * max(sum(COSTS.get(name, {}).values()), 1.0)


def _in_one(kind: TensorType) -> int:
    """Elements that one instruction handles: those in a row, of a pointer what it points to."""
    try:
        in_a_row = spread(kind).in_a_row
    except ValueError:
        return 1
    bits = kind.pointee_bits if kind.element.startswith("!tt.ptr") else bits_of(kind.element)
    return min(in_a_row, max(8 * _VECTOR_BYTES // bits, 1))


def _product(operation: Operation, warps: int) -> float:
    tensors = [kind for kind in operation.all_types if len(kind.shape) >= 2]
    a, b, result = tensors[0], tensors[1], tensors[-1]
    products = math.prod(a.shape) * b.shape[-1]
    if result.layout is not None and result.layout.kind == "blocked":
        return products / (32 * warps)
    if operation.name != "tt.dot":  # asynchronous: one instruction for many products
        return 4.0
    return products * max(bits_of(a.element), 8) / 8 / _PRODUCT / warps
