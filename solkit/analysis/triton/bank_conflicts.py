"""Traffic of shared memory: the wavefronts that a warp's accesses take, and barriers.

Shared memory has 32 banks of 4 bytes. A wavefront takes one word of each, which any number of lanes
may share (CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later).
Different words of one bank take one wavefront each. Accesses of 8 bytes are served half a warp at a
time, of 16 bytes a quarter (at least 4 wavefronts for a warp's ``LDS.128``, as Nsight Compute
counts them), ``ldmatrix`` the 8 rows of one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solkit.adapters.triton_ir import Function, Location, Operation, element_bits
from solkit.analysis.common.ptx_code import Place
from solkit.analysis.triton.shared_addresses import (
    SharedInstruction,
    barriers_of,
    instructions_of,
    shared_instructions,
)
from solkit.core import SharedAccess

Array = np.ndarray[Any, np.dtype[Any]]

_BANKS, _WORD, _LANES = 32, 4, 32
_NOWHERE = np.iinfo(np.int64).max
_TRITON = "triton/language"  # its own library, whose functions are inlined


@dataclass(frozen=True)
class SharedTraffic:
    """A launch's use of shared memory.

    Attributes:
        accesses: by line of the source.
        barriers: how often all warps of a block synchronise, over the launch.
        instructions: of a warp of each block, over the launch.
        guesses: what is unknown, each a sentence.
    """

    accesses: tuple[SharedAccess, ...] = ()
    barriers: float = 0.0
    instructions: float = 0.0
    guesses: tuple[str, ...] = ()


def wavefronts(addresses: Array, width_bytes: int) -> tuple[int, int, int]:
    """Return the cost of one instruction, run by all warps of a block.

    Args:
        addresses: of each thread, in bytes; -1 for one that does not take part.
        width_bytes: of each thread's access.

    Returns:
        Requests (warps that take part), wavefronts, and wavefronts without bank conflicts: one for
        each half or quarter of a warp that takes part.
    """
    warps = np.concatenate([addresses, np.full(-len(addresses) % _LANES, -1)])
    requests = int((warps.reshape(-1, _LANES) >= 0).any(1).sum())
    lanes = _BANKS * _WORD // max(width_bytes, _WORD)
    if lanes < _LANES and _in_pairs(warps):
        lanes *= 2
    parts = warps.reshape(-1, lanes, 1)
    words = parts // _WORD + np.arange(max(width_bytes // _WORD, 1))
    words = np.sort(np.where(parts >= 0, words, -1).reshape(len(parts), -1), axis=1)
    first = words >= 0
    first[:, 1:] &= words[:, 1:] != words[:, :-1]
    part, _ = np.nonzero(first)
    banks = part * _BANKS + words[first] % _BANKS
    taken = np.bincount(banks, minlength=len(parts) * _BANKS).reshape(-1, _BANKS).max(1)
    return requests, int(taken.sum()), int((taken > 0).sum())


def _in_pairs(warps: Array) -> bool:
    """Tell whether lanes n and n ^ 1, or n and n ^ 2, always have the same address."""
    lanes = np.arange(len(warps))
    return any(bool((warps == warps[lanes ^ apart]).all()) for apart in (1, 2))


def shared_traffic(
    ptx: str, function: Function, executions: Mapping[Any, float], programs: int
) -> SharedTraffic:
    """Return what a launch requests of shared memory, and how often its warps synchronise.

    An instruction runs as often as the IR's operations at the same place of the source and loop
    depth: the compiler unrolls no loop on its way to PTX.

    Args:
        ptx: of the kernel.
        function: its IR.
        executions: how often each block of the IR runs, over the launch.
        programs: of the launch.
    """
    if any(operation.name == "ttg.warp_specialize" for _, operation, _ in function.walk()):
        sentence = "what warps that do different things do with shared memory is not counted"
        return SharedTraffic(guesses=(sentence,))
    runs = _Runs(function, executions, programs)
    instructions = shared_instructions(ptx)
    by_line: dict[tuple[str, str], SharedAccess] = {}
    patterns: dict[tuple[int, bytes], tuple[int, int, int]] = {}
    for instruction in instructions:
        if instruction.addresses is None:
            continue
        access = _cached_wavefronts(instruction, runs, patterns)
        before = by_line.get((access.kind, access.line))
        by_line[access.kind, access.line] = summed_accesses(before, access) if before else access
    unknown = sum(instruction.addresses is None for instruction in instructions)
    guesses: tuple[str, ...] = ()
    if unknown:
        guesses = (
            f"{unknown} of {len(instructions)} accesses of shared memory depend on data or are "
            "atomics: the wavefronts that they take are not counted",
        )
    barriers = sum(runs.of(place, depth) for place, depth in barriers_of(ptx))
    executed = sum(n * runs.of(place, depth) for (place, depth), n in instructions_of(ptx).items())
    requested = tuple(access for access in by_line.values() if access.requests)
    return SharedTraffic(requested, barriers, executed, guesses)


def _cached_wavefronts(
    instruction: SharedInstruction,
    runs: _Runs,
    patterns: dict[tuple[int, bytes], tuple[int, int, int]],
) -> SharedAccess:
    """Return wavefronts, computed once for those that differ by a multiple of the banks' width."""
    assert instruction.addresses is not None
    there = instruction.addresses >= 0
    start = int(instruction.addresses.max(initial=0)) // (_BANKS * _WORD) * (_BANKS * _WORD)
    moved = np.where(there, instruction.addresses - start, _NOWHERE)
    key = instruction.width_bytes, moved.tobytes()
    if key not in patterns:
        patterns[key] = wavefronts(instruction.addresses, instruction.width_bytes)
    times = runs.of(instruction.place, instruction.depth)
    amounts = (round(n * times) for n in patterns[key])
    return SharedAccess(instruction.kind, runs.line(instruction.place), *amounts)


def summed_accesses(a: SharedAccess, b: SharedAccess) -> SharedAccess:
    """Merge two lots of accesses of one kind and line."""
    return replace(
        a,
        requests=a.requests + b.requests,
        wavefronts=a.wavefronts + b.wavefronts,
        least_wavefronts=a.least_wavefronts + b.least_wavefronts,
    )


class _Runs:
    """Number of times that code runs, by its place in the source and the loops around it."""

    def __init__(self, function: Function, executions: Mapping[Any, float], programs: int) -> None:
        self.places: dict[Place, tuple[Location, ...]] = {}
        by_place: dict[tuple[Place, int], list[float]] = {}
        by_depth: dict[int, list[float]] = {}
        for block, operation, depth in function.walk():
            times = executions.get(block, 0.0)
            by_depth.setdefault(depth, []).append(times)
            if operation.places:
                at = operation.places[0]
                place = (at.file_name, at.line, at.column)
                self.places.setdefault(place, operation.places)
                by_place.setdefault((place, depth), []).append(times)
        self.by_place = {key: sum(counts) / len(counts) for key, counts in by_place.items()}
        self.by_depth = {key: sum(counts) / len(counts) for key, counts in by_depth.items()}
        self.by_depth[0] = float(programs)

    def of(self, place: Place, depth: int) -> float:
        """Over the launch; the mean of code at that depth if no operation has the place."""
        runs = self.by_place.get((place, depth))
        return self.by_depth.get(depth, 0.0) if runs is None else runs

    def line(self, place: Place) -> str:
        """As `user_line` gives it."""
        return user_line(self.places.get(place, ())) or f"{place[0]}:{place[1]}"


def user_line(places: Sequence[Location]) -> str:
    """Return the innermost of an operation's places that is not in Triton's own library."""
    return next((str(at) for at in places if _TRITON not in at.file), "")


def tensor_shared_bytes(function: Function, executions: Mapping[Any, float]) -> float:
    """Count bytes of shared memory that ``wgmma`` reads as operands, over the launch.

    Each instruction of 64 x n x k reads its 64 x k of A, if A is in shared memory, and its n x k of
    B (PTX ISA, wgmma.mma_async). ``mma.sync`` has both in registers.
    """
    return sum(
        _operand_bytes(operation) * executions.get(block, 0.0)
        for block, operation, _ in function.walk()
        if operation.name == "ttng.warp_group_dot"
    )


def _operand_bytes(operation: Operation) -> float:
    a, b, result = [kind for kind in operation.all_types if len(kind.shape) >= 2][:3]
    assert result.layout is not None
    columns = result.layout.ints("instrShape")[1]
    a_bytes = math.prod(a.shape) * element_bits(a.element) / 8 * (b.shape[-1] / columns)
    b_bytes = math.prod(b.shape) * element_bits(b.element) / 8 * (a.shape[-2] / 64)
    in_registers = a.layout is not None and a.layout.kind == "dot_op"
    return b_bytes + (0.0 if in_registers else a_bytes)
