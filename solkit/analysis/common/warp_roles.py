"""Roles of a block's warps: code that some warps run while others run other code.

A warp-specialised kernel branches by the warp's number to parts that load, multiply, compute or
store, each in loops of its own. The machine code shows this without the number: behind a branch lie
two parts or more, each with a loop that no other part can reach, and they do different things. An
``if`` inside a loop has no loops of its own; two versions of one loop do the same.

Warps wait for their role in a loop (Triton), so parts are what can be reached without passing the
branch again. Parts may branch into roles themselves. Where all warps load or multiply before or
after a branch, it decides about something else. If no branch says it, warps that change their
number of registers begin a role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from solkit.adapters.sass import Block, Code, Instruction
from solkit.analysis.common.instruction_kinds import instruction_kind
from solkit.core import WarpRole

_LOADS = ("UTMALDG", "LDGSTS")
_STORES = ("UTMASTG", "UTMAREDG")
_COMPUTES = ("fp32", "fp16", "fp64", "sfu", "tensor_memory")
_NARROWS = ("F2F", "F2FP")
_ORDER = ("loads", "products", "computes", "stores")
_REGISTERS = "USETMAXREG"
_FEWEST = 8
"""Instructions of arithmetic from which a part computes: a division for addresses takes some."""


class _Work(NamedTuple):
    """Work of a block of code: whether it loads, multiplies, stores, and its arithmetic.

    Many parts share a block, so its instructions are read once.
    """

    loads: bool
    products: bool
    stores: bool
    arithmetic: int


def warp_roles(code: Code) -> tuple[WarpRole, ...]:
    """Return the roles of a function's warps; none if all warps run the same code."""
    return tuple(_describe_role(code, blocks) for blocks in roles_of(code))


def roles_of(code: Code) -> list[frozenset[int]]:
    """Return the blocks of each role, in the order of the code; none if there are no roles."""
    if not any(_is_bulk(instruction) for instruction in code.instructions):
        return []
    works = [_work_of_block(block.instructions) for block in code.blocks]
    parts = _parts(code.blocks, works, 0, frozenset(range(len(code.blocks))))
    if len(parts) < 2:
        parts = _parts_with_own_registers(code.blocks, works)
    return sorted(parts, key=min) if len(parts) > 1 else []


def _parts(
    blocks: Sequence[Block], works: Sequence[_Work], entry: int, region: frozenset[int]
) -> list[frozenset[int]]:
    """Return the roles inside a region: itself, if no branch splits it."""
    for block in _in_order(blocks, entry, region):
        arms = [arm for arm in dict.fromkeys(blocks[block].successors) if arm in region]
        if len(arms) < 2:
            continue
        own = zip(arms, _exclusive(blocks, block, arms, region), strict=True)
        busy = [(arm, part, _work_of(works, part)) for arm, part in own]
        busy = [row for row in busy if row[2] and _has_loop(blocks, row[1])]
        if len({work for _, _, work in busy}) < 2:
            continue
        shared = region.difference(*(part for _, part, _ in busy))
        if not _feeds(_work_of(works, shared)):
            return [role for arm, part, _ in busy for role in _parts(blocks, works, arm, part)]
    return [region]


def _parts_with_own_registers(
    blocks: Sequence[Block], works: Sequence[_Work]
) -> list[frozenset[int]]:
    """Return the parts that begin with another number of registers (``setmaxnreg``), and the rest.

    A part is what no path reaches without that instruction. Parts may follow one another in the
    code (cuTile), each behind a condition.
    """
    everything = frozenset(range(len(blocks)))
    starts = [
        block
        for block in everything
        if any(instruction.name == _REGISTERS for instruction in blocks[block].instructions)
    ]
    parts = [everything.difference(_in_order(blocks, 0, everything - {b})) for b in starts]
    parts = [part.difference(*(p for p in parts if p < part)) for part in parts]
    rest = everything.difference(*parts)
    own = [(part, work) for part in (*parts, rest) if (work := _work_of(works, part))]
    kinds = {work for _, work in own}
    return [part for part, _ in own] if len(kinds) > 1 and any(map(_feeds, kinds)) else []


def _feeds(work: str) -> bool:
    """Tell whether code loads or multiplies: what all warps run then decides no roles."""
    return not {"loads", "products"}.isdisjoint(work.split("+"))


def _exclusive(
    blocks: Sequence[Block], split: int, arms: Sequence[int], region: frozenset[int]
) -> list[frozenset[int]]:
    """Return what each arm alone reaches without passing the branch again."""
    inside = region - {split}
    reached = [frozenset(_in_order(blocks, arm, inside)) for arm in arms]
    return [
        one.difference(*(other for k, other in enumerate(reached) if k != i))
        for i, one in enumerate(reached)
    ]


def _in_order(blocks: Sequence[Block], entry: int, region: frozenset[int]) -> list[int]:
    """Return the blocks of a region that can be reached from its entry, the nearest first."""
    seen, order = {entry}, [entry] if entry in region else []
    for block in order:  # it grows
        for successor in blocks[block].successors:
            if successor in region and successor not in seen:
                seen.add(successor)
                order.append(successor)
    return order


def _has_loop(blocks: Sequence[Block], part: frozenset[int]) -> bool:
    """Tell whether blocks lead back to one of themselves without leaving the part."""
    remaining = set(part)
    while ends := {b for b in remaining if remaining.isdisjoint(blocks[b].successors)}:
        remaining -= ends
    return bool(remaining)


def _work_of_block(instructions: Sequence[Instruction]) -> _Work:
    kinds = [instruction_kind(instruction) for instruction in instructions]
    names = [instruction.name for instruction in instructions]
    return _Work(
        not set(_LOADS).isdisjoint(names) or any(map(_is_bulk_load, instructions)),
        "tensor" in kinds,
        not set(_STORES).isdisjoint(names),
        sum(kind in _COMPUTES for kind in kinds) + sum(name in _NARROWS for name in names),
    )


def _work_of(works: Sequence[_Work], part: Iterable[int]) -> str:
    """Name what the code of some blocks does: ``"loads+products"``; empty for nothing."""
    inside = [works[block] for block in part]
    does = {
        "loads": any(work.loads for work in inside),
        "products": any(work.products for work in inside),
        "computes": sum(work.arithmetic for work in inside) >= _FEWEST,
        "stores": any(work.stores for work in inside),
    }
    return "+".join(name for name in _ORDER if does[name])


def _describe_role(code: Code, part: frozenset[int]) -> WarpRole:
    inside = list(_instructions(code, part))
    return WarpRole(
        _work_of([_work_of_block(inside)], (0,)),
        len(inside),
        sum(instruction_kind(instruction) == "tensor" for instruction in inside),
        sum(_is_bulk(instruction) for instruction in inside),
        sum("MULTICAST" in instruction.modifiers for instruction in inside),
    )


def _instructions(code: Code, part: Iterable[int]) -> Iterator[Instruction]:
    return (i for block in sorted(part) for i in code.blocks[block].instructions)


def _is_bulk(instruction: Instruction) -> bool:
    return instruction.name in ("UTMALDG", *_STORES, "UBLKCP", "UBLKRED")


def _is_bulk_load(instruction: Instruction) -> bool:
    """``UBLKCP.S.G`` copies from global to shared memory, ``UBLKCP.G.S`` back."""
    return instruction.name == "UBLKCP" and instruction.modifiers[:2] == ("S", "G")
