"""Origins of arguments: which have zeros that are no accident, and which are always the same.

``torch.randn(n, n).tril()``, ``mask.float()`` and a padded batch have zeros by the way they are
made: what they are multiplied with may be read in part only. A causal mask or a table of
frequencies is the same in every draw, so a kernel may know it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from solkit.roofline.work.program import Program, TensorUse, TracedOp, trace
from solkit.roofline.work.sparsity import Sparsity
from solkit.roofline.work.value_signs import of_both_signs

__all__ = ["Drawn", "drawn"]


@dataclass(frozen=True)
class Drawn:
    """Arguments of a reference.

    Attributes:
        unknown: those of which a kernel knows no part before the call.
        sparse: those that may hold zeros by the way they are made.
        apart: those that vary from call to call, and of which no other argument tells anything.
        mixed: those that hold values of both signs.
    """

    unknown: list[torch.Tensor]
    sparse: list[torch.Tensor]
    apart: list[torch.Tensor] = field(default_factory=list)
    mixed: list[torch.Tensor] = field(default_factory=list)


def drawn(make: Callable[[], list[torch.Tensor]]) -> Drawn:
    """Make arguments on fake tensors and see how.

    Args:
        make: makes them; random floating numbers are taken to be other than zero.
    """
    tensors: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        tensors.extend(make())
        return tensors

    program = trace(run)
    makers, varying = _makers(program.ops), _varying(program.ops)
    sparsity = Sparsity(makers)
    unknown, sparse = [], []
    for tensor, use in zip(tensors, program.results, strict=True):
        is_sparse = sparsity.may_be_zero(use)
        if is_sparse:
            sparse.append(tensor)
        varies = use.storage in varying or use.storage not in makers
        if varies and not (is_sparse and tensor.is_floating_point()):
            unknown.append(tensor)
    both = of_both_signs(program.ops)
    mixed = [t for t, use in zip(tensors, program.results, strict=True) if use.storage in both]
    return Drawn(unknown, sparse, _apart(tensors, program), mixed)


def _apart(tensors: Sequence[torch.Tensor], program: Program) -> list[torch.Tensor]:
    """Return tensors that vary, each from a source of its own."""
    roots: dict[int, set[int]] = defaultdict(set)
    computed: set[int] = set()
    for op in program.ops:
        sources: set[int] = set().union(*(roots[use.storage] for use in op.inputs))
        sources |= {use.storage for use in op.inputs} - computed
        outputs = {use.storage for use in (*op.outputs, *op.written)}
        for storage in outputs:
            roots[storage] |= sources
            if torch.Tag.nondeterministic_seeded in op.tags:
                roots[storage].add(storage)
        computed |= outputs

    def sources_of(use: TensorUse) -> set[int]:
        if use.storage in computed:
            return roots[use.storage]
        # integers from outside, such as lengths and their sums, may tell one another
        return {use.storage if use.dtype.is_floating_point else -1}

    of_each = [sources_of(use) for use in program.results]
    shared = Counter(root for sources in of_each for root in sources)
    return [
        tensor
        for tensor, sources in zip(tensors, of_each, strict=True)
        if sources and all(shared[root] == 1 for root in sources)
    ]


def _makers(ops: Sequence[TracedOp]) -> dict[int, list[TracedOp]]:
    """Return the ops whose work each storage still holds."""
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    for op in ops:
        for use in op.written:
            whole = op.operator.overwrites and use.offset == 0
            if whole and all(use.numel >= op.result.numel for op in makers[use.storage]):
                makers[use.storage].clear()
        for use in (*op.outputs, *op.written):
            makers[use.storage].append(op)
    return makers


def _varying(ops: Sequence[TracedOp]) -> set[int]:
    """Return storages that depend on random numbers, or on what no op made."""
    computed: set[int] = set()
    varying: set[int] = set()
    for op in ops:
        sources = {use.storage for use in op.inputs}
        if torch.Tag.nondeterministic_seeded in op.tags or sources & varying or sources - computed:
            varying |= {use.storage for use in (*op.outputs, *op.written)}
        computed |= {use.storage for use in (*op.outputs, *op.written)}
    return varying
