"""Work that an implementation need not do: common subexpressions, and constants.

An op that was called before with the same operands is not done again. What follows from the program
alone (a causal mask, a table of frequencies) can be computed ahead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.program import Program, TensorUse, TracedOp, Zeros

__all__ = ["merged"]


def merged(program: Program) -> Program:
    """Return the program without repeated ops: their readers read the first one's results."""
    rewritten = {use.storage for op in program.ops for use in op.written}
    renamed: dict[int, int] = {}
    first: dict[Any, TracedOp] = {}
    writes: Counter[int] = Counter()
    kept: list[TracedOp] = []

    def rename(leaf: Any) -> Any:
        if isinstance(leaf, TensorUse) and leaf.storage in renamed:
            return replace(leaf, storage=renamed[leaf.storage])
        return leaf

    for op in program.ops:
        if any(use.storage in renamed for use in op.inputs):
            op = op.mapped(rename)
        key = _key(op, rewritten, writes)
        before = first.setdefault(key, op) if key is not None else op
        if before is op:
            kept.append(op)
        else:
            renamed |= {new.storage: old.storage for new, old in zip(op.outputs, before.outputs)}
        writes.update(use.storage for use in op.written)
    results = tuple(map(rename, program.results))
    return _without_constants(replace(program, ops=tuple(kept), results=results))


def _without_constants(program: Program) -> Program:
    """Return the program without the ops whose results follow from the program alone."""
    rewritten = {use.storage for op in program.ops for use in op.written}
    constants = set(program.constants) - rewritten
    algebra = Fixed(rewritten)
    kept: list[TracedOp] = []
    zeros = dict(program.zeros)
    for op in program.ops:
        outputs = {use.storage for use in op.outputs}
        is_fixed = algebra.fixes(op)
        if (is_fixed or _is_constant(op, constants)) and outputs.isdisjoint(rewritten):
            constants |= outputs
            if is_fixed and algebra.is_zero(op):
                zeros[op.result.storage] = Zeros(np.ones(1, dtype=bool), 1, op.result.distinct)
            continue
        algebra.learn(op)
        kept.append(op)
    return replace(program, ops=tuple(kept), constants=frozenset(constants), zeros=zeros)


def _is_constant(op: TracedOp, constants: set[int]) -> bool:
    if op.written or op.operator.random or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    return op.name.startswith("aten.") and all(use.storage in constants for use in op.inputs)


def _key(op: TracedOp, rewritten: set[int], writes: Counter[int]) -> Any:
    """Return a key that ops share if they compute the same; ``None`` if an op is never merged."""
    if op.written or not op.inputs or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    if any(use.storage in rewritten for use in op.outputs):
        return None  # the copies part ways
    leaves, structure = tree_flatten((op.args, dict(op.kwargs)), is_leaf=_is_use)
    state = tuple(writes[use.storage] for use in op.inputs)
    shapes = tuple((use.shape, use.stride, use.dtype) for use in op.outputs)
    return op.name, tuple(map(_plain, leaves)), str(structure), state, shapes


def _is_use(leaf: Any) -> bool:
    return isinstance(leaf, TensorUse)


def _plain(leaf: Any) -> Any:
    """Return an argument in hashable form, in which 1, 1.0 and True differ."""
    return leaf if isinstance(leaf, TensorUse) else (type(leaf).__name__, str(leaf))
