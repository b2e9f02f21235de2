"""Origins of arguments: which have zeros that are no accident, and which are always the same.

``torch.randn(n, n).tril()``, ``mask.float()`` and a padded batch have zeros by the way they are
made: what they are multiplied with may be read in part only. A causal mask or a table of
frequencies is the same in every draw, so a kernel may know it. Rows that come sorted have their
largest element at an end, copies of one row say no more than it does, and uniform numbers are
never negative.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from solkit.ops import Family
from solkit.roofline.work.broadcast import without_repeats
from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.program import Drawn, Program, TensorUse, TracedOp, trace
from solkit.roofline.work.sparsity import Sparsity
from solkit.roofline.work.symmetry import symmetric_storages
from solkit.roofline.work.value_samples import samples_of
from solkit.roofline.work.value_signs import of_both_signs
from solkit.roofline.work.zero_propagation import zeros_at_end


def drawn(make: Callable[[], list[torch.Tensor]]) -> Drawn:
    """Make arguments on fake tensors and see how.

    Args:
        make: makes them; random floating numbers are taken to be other than zero.
    """
    tensors: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        tensors.extend(make())
        return tensors

    program = _reaching_results(trace(run))
    makers, varying = _makers(program.ops), _varying(program.ops)
    sparsity, ordered = Sparsity(makers), _ordered(program.ops)
    ranges = _ranges(program.ops)
    zeros, symmetric = zeros_at_end(program), symmetric_storages(program.ops)
    repeated = _repeated(program)
    unknown, sparse = [], []
    for tensor, use in zip(tensors, program.results, strict=True):
        is_sparse = sparsity.may_be_zero(use)
        if is_sparse:
            sparse.append(tensor)
        varies = use.storage in varying or use.storage not in makers
        is_structured = use.storage in repeated | symmetric
        is_partial = is_structured or (is_sparse and tensor.is_floating_point())
        if varies and not is_partial:
            unknown.append(tensor)
    both, samples = of_both_signs(program.ops), samples_of(program)
    named = list(zip(tensors, program.results, strict=True))
    return Drawn(
        unknown,
        sparse,
        _apart(tensors, program),
        [tensor for tensor, use in named if use.storage in both],
        [tensor for tensor, use in named if use.storage in ordered],
        [(tensor, limits) for tensor, use in named if (limits := ranges.range_of(use)) != _ANY],
        [(tensor, zeros[use.storage]) for tensor, use in named if use.storage in zeros],
        [tensor for tensor, use in named if use.storage in symmetric],
        [tensor for tensor, use in named if use.storage in repeated],
        [(tensor, samples[use.storage]) for tensor, use in named if use.storage in samples],
    )


def _reaching_results(program: Program) -> Program:
    """Return the program without ops that no argument is made of, such as those of a module."""
    needed = {use.storage for use in program.results}
    kept: list[TracedOp] = []
    for op in reversed(program.ops):
        if any(use.storage in needed for use in op.stored):
            needed |= {use.storage for use in op.inputs}
            kept.append(op)
    return replace(program, ops=tuple(reversed(kept)))


_ANY = (-math.inf, math.inf)


def _ordered(ops: Sequence[TracedOp]) -> set[int]:
    """Return storages that hold what a sort or a running sum made, or what was made of that."""
    ordered: set[int] = set()
    for op in ops:
        orders = op.operator.family in (Family.ORDER, Family.SCAN)
        if orders or any(use.storage in ordered for use in op.inputs):
            ordered |= {use.storage for use in op.stored}
    return ordered


def _repeated(program: Program) -> set[int]:
    """Return storages whose elements are copies of others, or made of fewer that were drawn."""
    repeated: set[int] = set()
    for op in without_repeats(program.ops):
        if len(op.outputs) == 1 and op.result.values is not None:
            repeated.add(op.result.storage)
    roots, drawn_elements = _roots(program.ops), _drawn_elements(program.ops)
    for use in program.results:
        sources = roots.get(use.storage, set())
        is_drawn = bool(sources) and sources <= drawn_elements.keys()
        if is_drawn and sum(drawn_elements[source] for source in sources) < use.distinct:
            repeated.add(use.storage)
    return repeated


def _is_draw(op: TracedOp) -> bool:
    return torch.Tag.nondeterministic_seeded in op.tags


def _drawn_elements(ops: Sequence[TracedOp]) -> Counter[int]:
    """Count the random numbers that were drawn into each storage."""
    elements: Counter[int] = Counter()
    for op in filter(_is_draw, ops):
        for use in op.stored:
            elements[use.storage] += use.distinct
    return elements


def _roots(ops: Sequence[TracedOp]) -> dict[int, set[int]]:
    """Return the storages that were drawn, or that no op made, of which each one is made."""
    roots: dict[int, set[int]] = {}
    for op in ops:
        sources: set[int] = set()
        for use in op.inputs:
            sources |= roots.get(use.storage, {use.storage})
        for use in op.stored:
            own = {use.storage} if _is_draw(op) else set()
            roots[use.storage] = roots.get(use.storage, set()) | sources | own
    return roots


def _ranges(ops: Sequence[TracedOp]) -> Fixed:
    """Return the ranges of what the ops draw and make of it; none of what is partly rewritten."""
    draws = {op.result.storage for op in ops if op.written and op.operator.random}
    writes = Counter(use.storage for op in ops for use in op.written)
    whole = {storage for storage in draws if writes[storage] == 1}
    ranges = Fixed(writes.keys() - whole)
    for op in ops:
        ranges.learn(op)
    return ranges


def _apart(tensors: Sequence[torch.Tensor], program: Program) -> list[torch.Tensor]:
    """Return tensors that vary, each from a source of its own."""
    roots = _roots(program.ops)

    def sources_of(use: TensorUse) -> set[int]:
        if use.storage in roots:
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
        for use in op.stored:
            makers[use.storage].append(op)
    return makers


def _varying(ops: Sequence[TracedOp]) -> set[int]:
    """Return storages that depend on random numbers, or on what no op made."""
    computed: set[int] = set()
    varying: set[int] = set()
    for op in ops:
        sources = {use.storage for use in op.inputs}
        if _is_draw(op) or sources & varying or sources - computed:
            varying |= {use.storage for use in op.stored}
        computed |= {use.storage for use in op.stored}
    return varying
