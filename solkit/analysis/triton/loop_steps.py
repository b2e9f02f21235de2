"""Loops of Triton's IR whose iterations differ only by constant steps."""

from __future__ import annotations

from solkit.adapters.triton_ir import Operation
from solkit.analysis.triton.relevance import ACCESSES

__all__ = ["PICKS", "is_linear"]

PICKS = {"arith.minsi", "arith.maxsi"}
"""Operations whose result changes its step when the other operand is picked."""

_LINEAR = {
    *("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci"),
    *("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout"),
    *("arith.minsi", "arith.maxsi", "arith.index_cast", "arith.cmpi", "arith.andi", "tt.load"),
    *("tt.reshape", "tt.trans", "scf.yield", "arith.shli", "tt.bitcast"),
}
"""Operations that keep a step constant, except where a comparison changes."""


def is_linear(operation: Operation, relevant: frozenset[str]) -> bool:
    """Tell whether a loop's iterations differ only by constant steps, except for comparisons."""
    loop = operation.loop
    carried = {n for n in loop.names if n in relevant}
    varying = {loop.variable, *carried}
    for inner in operation.blocks[0].walk():
        if inner.name == "ttg.local_store" and inner.operands[1] in relevant:
            return False
        used = varying.intersection(inner.operands)
        if not used or (inner.name in ACCESSES and not relevant.intersection(inner.results)):
            continue
        if inner.name == "scf.if":
            return False
        if inner.name == "scf.for":
            nested = inner.loop
            varying.update(n for n, s in zip(nested.names, nested.starts) if s in varying)
            varying.update(inner.results)
        elif relevant.intersection(inner.results):
            if inner.name not in _LINEAR:
                return False
            varying.update(inner.results)
    return True
