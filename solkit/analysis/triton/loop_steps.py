"""Loops of Triton's IR whose iterations differ only by constant steps."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from solkit.adapters.triton_ir import Block, Operation
from solkit.analysis.triton.relevance import ACCESSES

PICKS = {"arith.minsi", "arith.maxsi"}
"""Operations whose result changes its step when the other operand is picked."""

_LINEAR = {
    *("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci"),
    *("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout"),
    *("arith.minsi", "arith.maxsi", "arith.index_cast", "arith.cmpi", "arith.andi", "tt.load"),
    *("tt.reshape", "tt.trans", "scf.yield", "arith.shli", "tt.bitcast"),
}
"""Operations that keep a step constant, except where a comparison changes."""


_MET = {"eq", "ne"}
"""Predicates that change where a value meets another one, and back behind it."""
_ON_FLAGS = {"arith.ori", "arith.xori"}


def is_linear(operation: Operation, relevant: frozenset[str]) -> bool:
    """Tell whether a loop's iterations differ only by constant steps, except for comparisons."""
    loop = operation.loop
    carried = {loop.variable, *relevant.intersection(loop.names)}
    return _keeps_steps(operation.blocks, carried, relevant)


def is_linear_while(operation: Operation, relevant: frozenset[str]) -> bool:
    """Tell the same of an ``scf.while``, whose condition may not branch."""
    before, after = operation.blocks
    if any(inner.blocks for inner in before.operations):
        return False
    carried = {*(name for name, _ in carried_pairs(operation)), *after.arguments}
    return _keeps_steps(operation.blocks, carried & relevant, relevant)


def meetings_in_condition(operation: Operation) -> list[Operation]:
    """Return the comparisons for equality in the condition of an ``scf.while``."""
    return [inner for inner in operation.blocks[0].operations if predicate_of(inner) in _MET]


def alternatives_in_condition(operation: Operation) -> list[Operation]:
    """Return the comparisons of an ``scf.while`` that goes on if any of some flags is set."""
    condition = operation.blocks[0].operations
    names = {inner.name for inner in condition}
    if "arith.ori" not in names or "arith.xori" in names:
        return []
    return [inner for inner in condition if predicate_of(inner)]


def predicate_of(operation: Operation) -> str:
    """Return the predicate of a comparison of integers; empty for other operations."""
    return operation.text.split(",")[0].strip()[-2:] if operation.name == "arith.cmpi" else ""


def carried_pairs(operation: Operation) -> list[tuple[str, str]]:
    """Return the names of what an ``scf.while`` carries, each with where it starts."""
    return re.findall(r"(%[\w$.\-]+) = (%[\w$.\-#]+)", operation.text)


def _starts(loop: Operation) -> list[tuple[str, str]]:
    if loop.name == "scf.while":
        return carried_pairs(loop)
    return [*zip(loop.loop.names, loop.loop.starts, strict=False)]


def _keeps_steps(blocks: Sequence[Block], carried: Set[str], relevant: frozenset[str]) -> bool:
    varying = set(carried)
    for inner in (inner for block in blocks for inner in block.walk()):
        if inner.name == "ttg.local_store" and inner.operands[1] in relevant:
            return False
        used = varying.intersection(inner.operands)
        if not used or (inner.name in ACCESSES and not relevant.intersection(inner.results)):
            continue
        if inner.name == "scf.if":
            return False
        if inner.name in ("scf.for", "scf.while"):
            varying.update(name for name, start in _starts(inner) if start in varying)
            varying.update(inner.results)
        elif relevant.intersection(inner.results):
            joins_flags = inner.name in _ON_FLAGS and inner.result_type.element == "i1"
            if inner.name not in _LINEAR and not joins_flags:
                return False
            varying.update(inner.results)
    return True
