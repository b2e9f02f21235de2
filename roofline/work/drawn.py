"""How arguments are made: which have zeros that are no accident, and which are always the same.

``torch.randn(n, n).tril()``, ``mask.float()`` and a padded batch have zeros by the way they are
made: what they are multiplied with may be read in part only. A causal mask or a table of
frequencies is the same in every draw, so a kernel may know it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from solkit.roofline.work.program import TracedOp, trace
from solkit.roofline.work.sparsity import Sparsity

__all__ = ["Drawn", "drawn"]

_OVERWRITING = {
    f"aten.{name}_" for name in "normal uniform random exponential copy fill log_normal".split()
}


@dataclass(frozen=True)
class Drawn:
    """Arguments of a reference.

    Attributes:
        unknown: those of which a kernel knows no part before the call.
        sparse: those that may hold zeros by the way they are made.
    """

    unknown: list[torch.Tensor]
    sparse: list[torch.Tensor]


def drawn(make: Callable[[], list[torch.Tensor]]) -> Drawn:
    """Make arguments on fake tensors and see how.

    Args:
        make: makes them; random floating numbers are taken to be other than zero.
    """
    made: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        made.extend(make())
        return made

    program = trace(run)
    makers, varying = _makers(program.ops), _varying(program.ops)
    sparsity = Sparsity(makers)
    unknown, sparse = [], []
    for tensor, use in zip(made, program.results, strict=True):
        is_sparse = sparsity.may_be_zero(use)
        if is_sparse:
            sparse.append(tensor)
        varies = use.storage in varying or use.storage not in makers
        if varies and not (is_sparse and tensor.is_floating_point()):
            unknown.append(tensor)
    return Drawn(unknown, sparse)


def _makers(ops: Sequence[TracedOp]) -> dict[int, list[TracedOp]]:
    """The ops whose work each storage still holds."""
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    for op in ops:
        for use in op.written:
            whole = op.name in _OVERWRITING and use.offset == 0
            if whole and all(use.numel >= each.result.numel for each in makers[use.storage]):
                makers[use.storage].clear()
        for use in (*op.outputs, *op.written):
            makers[use.storage].append(op)
    return makers


def _varying(ops: Sequence[TracedOp]) -> set[int]:
    """Storages that depend on random numbers, or on what no op made."""
    made: set[int] = set()
    varying: set[int] = set()
    for op in ops:
        sources = {use.storage for use in op.inputs}
        if torch.Tag.nondeterministic_seeded in op.tags or sources & varying or sources - made:
            varying |= {use.storage for use in (*op.outputs, *op.written)}
        made |= {use.storage for use in (*op.outputs, *op.written)}
    return varying
