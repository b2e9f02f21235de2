"""Work that an implementation need not do: common subexpressions, and constants.

An op that was called before with the same operands is not done again. A copy of a tensor that the
program has computed is that tensor, as a kernel may return one twice. What follows from the program
alone (a causal mask, a table of frequencies) can be computed ahead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.program import Program, TensorUse, TracedOp, Zeros


def merged(program: Program) -> Program:
    """Return the program without repeated ops: their readers read the first one's results."""
    rewrites = _Rewrites(program)
    renamed: dict[int, int] = {}
    first: dict[Any, tuple[int, TracedOp]] = {}
    writes: Counter[int] = Counter()
    kept: list[TracedOp] = []
    done: set[int] = set()

    def rename(leaf: Any) -> Any:
        if isinstance(leaf, TensorUse) and leaf.storage in renamed:
            return replace(leaf, storage=renamed[leaf.storage])
        return leaf

    for position, op in enumerate(program.ops):
        if position in done:
            continue
        if any(use.storage in renamed for use in op.inputs):
            op = op.mapped(rename)
        if rewrites.is_copy(op):
            renamed[op.result.storage] = op.inputs[0].storage
            continue
        key = _key(op, rewrites.keys_of(op, rename), writes)
        end, before = first.setdefault(key, (rewrites.end(op), op)) if key is not None else (0, op)
        if before is op or end > position:
            kept.append(op)
        else:
            renamed |= {new.storage: old.storage for new, old in zip(op.outputs, before.outputs)}
            done |= rewrites.positions(op)
        writes.update(use.storage for use in op.written)
    results = tuple(map(rename, program.results))
    return _without_constants(replace(program, ops=tuple(kept), results=results))


class _Rewrites:
    """Writes of a program into results of its own ops, as in ``x.mean().add_(1e-6)``."""

    def __init__(self, program: Program) -> None:
        self.ops = program.ops
        self.storages = {use.storage for op in program.ops for use in op.written}
        self.created = {use.storage for op in program.ops for use in op.outputs}
        self.touching: defaultdict[int, list[int]] = defaultdict(list)
        for position, op in enumerate(program.ops):
            uses = {use.storage for use in (*op.inputs, *op.written)}
            for storage in uses & self.storages:
                self.touching[storage].append(position)

    def is_copy(self, op: TracedOp) -> bool:
        """Tell whether an op copies what the program has computed, and no one writes to either."""
        if not (op.operator.moves and op.operator.aligned) or len(op.inputs) != 1 or op.written:
            return False
        source, copy = op.inputs[0], op.result
        return (
            {source.storage, copy.storage}.isdisjoint(self.storages)
            and source.storage in self.created
            and replace(source, storage=copy.storage) == copy
        )

    def positions(self, op: TracedOp) -> set[int]:
        """Return the ops that write into what an op makes, by their numbers."""
        created = {use.storage for use in op.outputs} & self.storages
        return {
            position
            for storage in created
            for position in self.touching[storage]
            if any(use.storage == storage for use in self.ops[position].written)
        }

    def end(self, op: TracedOp) -> int:
        """Return the number of the last op that writes into what an op makes; 0 without one."""
        return max(self.positions(op), default=0)

    def keys_of(self, op: TracedOp, rename: Callable[[Any], Any]) -> tuple[Any, ...] | None:
        """Return a key of what is written into what an op makes.

        Returns:
            ``None`` if others read that before the last write, if it is written with what else the
            program writes in place, or if a launch does, of which numbers are not known: what two
            such ops make may part ways.
        """
        created = {use.storage: place for place, use in enumerate(op.outputs)}
        writing = sorted(self.positions(op))
        touching = {at for storage in created for at in self.touching.get(storage, ())}
        if any(at <= max(writing, default=-1) for at in touching - set(writing)):
            return None
        keys = []
        for position in writing:
            write = self.ops[position]
            others = {use.storage for use in (*write.inputs, *write.written)} - created.keys()
            if write.outputs or torch.Tag.nondeterministic_seeded in write.tags:
                return None
            if write.name.startswith("launch."):
                return None
            if not others.isdisjoint(self.storages):
                return None
            keys.append(_call(write, lambda leaf: _placed(rename(leaf), created)))
        return tuple(keys)


def _placed(leaf: Any, created: Mapping[int, int]) -> Any:
    """Return an argument with the storages that an op makes by their place among its results."""
    if isinstance(leaf, TensorUse) and leaf.storage in created:
        return replace(leaf, storage=~created[leaf.storage])
    return leaf


def _call(op: TracedOp, changed: Callable[[Any], Any]) -> Any:
    """Return a key that ops share if they are called with the same, after `changed`."""
    leaves, structure = tree_flatten((op.args, dict(op.kwargs)), is_leaf=_is_use)
    return op.name, tuple(_plain(changed(leaf)) for leaf in leaves), str(structure)


def _without_constants(program: Program) -> Program:
    """Return the program without the ops whose results follow from the program alone."""
    rewritten = {use.storage for op in program.ops for use in op.written}
    constants = set(program.constants) - rewritten
    algebra = Fixed(rewritten)
    kept: list[TracedOp] = []
    ahead: list[TracedOp] = []
    zeros = dict(program.zeros)
    for op in program.ops:
        outputs = {use.storage for use in op.outputs}
        is_fixed = algebra.fixes(op)
        if (is_fixed or _is_constant(op, constants)) and outputs.isdisjoint(rewritten):
            constants |= outputs
            if is_fixed and algebra.is_zero(op):
                zeros[op.result.storage] = Zeros(np.ones(1, dtype=bool), 1, op.result.distinct)
            elif not is_fixed and op.result.value is None:
                ahead.append(op)
            continue
        algebra.learn(op)
        kept.append(op)
    return replace(
        program,
        ops=tuple(kept),
        constants=frozenset(constants),
        zeros=zeros,
        ahead=tuple(ahead),
    )


def _is_constant(op: TracedOp, constants: set[int]) -> bool:
    if op.written or op.operator.random or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    return op.name.startswith("aten.") and all(use.storage in constants for use in op.inputs)


def _key(op: TracedOp, rewrites: tuple[Any, ...] | None, writes: Counter[int]) -> Any:
    """Return a key that ops share if they compute the same; ``None`` if an op is never merged."""
    if op.written or not op.inputs or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    if rewrites is None:
        return None
    state = tuple(writes[use.storage] for use in op.inputs)
    shapes = tuple((use.shape, use.stride, use.dtype) for use in op.outputs)
    return _call(op, lambda leaf: leaf), rewrites, state, shapes


def _is_use(leaf: Any) -> bool:
    return isinstance(leaf, TensorUse)


def _plain(leaf: Any) -> Any:
    """Return an argument in hashable form, in which 1, 1.0 and True differ."""
    return leaf if isinstance(leaf, TensorUse) else (type(leaf).__name__, str(leaf))
