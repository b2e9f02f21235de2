"""Live regions of tensors, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solkit.roofline.work.program import Mask, TensorUse, TracedOp

Box = list[range]
"""Indices of a tensor, dimension by dimension."""

Needs = dict[int, TensorUse]
"""Operands that an op needs: by the `id` of a use, the narrower one that replaces it."""


@dataclass(frozen=True)
class Region:
    """The part of an output that matters.

    Attributes:
        box: the indices that hold it.
        mask: which of the box's elements matter; ``None`` where all do.
    """

    box: Box
    mask: Mask | None

    @staticmethod
    def all_of(use: TensorUse) -> Region:
        """Return all of a tensor."""
        return Region([range(n) for n in use.shape], None)

    def is_all_of(self, use: TensorUse) -> bool:
        """Tell whether nothing of a tensor is left out."""
        whole = all(len(r) == n for r, n in zip(self.box, use.shape))
        return whole and self.mask is None


Rule = Callable[[TracedOp, Region], Needs]
_RULES: dict[str, Rule] = {}


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register what operators with these `Operator.needs` need of their operands."""

    def decorate(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, function))
        return function

    return decorate


def rule_of(op: TracedOp) -> Rule | None:
    """Return the rule of an op that makes its output; ``None`` if it needs its operands whole."""
    needs = op.operator.needs or ("aligned" if op.is_elementwise else "")
    return _RULES[needs] if needs else None
