"""Interface of a rewrite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import libcst as cst

from solkit.core import Brief, Gap, TensorLayout
from solkit.tuner.proposers.rewriter._launch_sizes import (
    constants_of,
    measured_tensors,
    measured_values,
    programs_of,
    size_of,
)
from solkit.tuner.proposers.rewriter._nodes import compact_code
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, parse_kernel

_MOST_STEPS = 12  # in one file


@dataclass(frozen=True)
class Variant:
    """A rewritten file.

    Attributes:
        source: the whole text.
        intent: what it is meant to gain, in one sentence made of facts.
    """

    source: str
    intent: str


@dataclass(frozen=True)
class Facts:
    """Facts of a brief, in the form in which rewrites ask.

    Attributes:
        brief: as told.
        original: the brief's source in the form from which rewrites start; empty for its own.
    """

    brief: Brief
    original: str = ""

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The problem's integer sizes by name."""
        shape = self.brief.shape.items()
        return {n: v for n, v in shape if isinstance(v, int) and not isinstance(v, bool)}

    @property
    def sms(self) -> int:
        """The device's multiprocessors."""
        return self.brief.device.sm_count

    @property
    def _measured_gap(self) -> Gap | None:
        return None if self.brief.result is None else self.brief.result.gap

    @cached_property
    def factors(self) -> Mapping[str, float]:
        """The factors of the gap by name, the causes of large ones likewise."""
        if self._measured_gap is None:
            return {}
        named = {factor.name: factor.factor for factor in self._measured_gap.factors}
        causes = {f.cause.name: f.factor for f in self._measured_gap.factors if f.cause is not None}
        return {**named, **causes}

    def factor(self, *names: str) -> float:
        """Return the largest of these factors and causes of the gap; 1 if none is known."""
        return max((self.factors.get(name, 1.0) for name in names), default=1.0)

    def programs(self, launch: Launch) -> int | None:
        """Return how many programs a launch starts, of a rewritten file too; ``None`` if unknown.

        A function of the original whose grid cannot be computed counts as measured.
        """
        if self.brief.result is None:
            return None
        programs = programs_of(launch, self._launch_values)
        if programs is not None:
            return programs
        launches = (kernel.launch for kernel in self.brief.result.analysis.own)
        grids = [math.prod(own.grid) for own in launches if own.name == launch.function.name]
        return min(grids) if grids else None

    @cached_property
    def _launch_values(self) -> dict[str, int]:
        if self.brief.result is None:
            return {}
        text = parse_kernel(self.original or self.brief.source)
        return {} if text is None else measured_values(text, self.brief)

    def size(self, node: cst.BaseExpression, launch: Launch) -> int | None:
        """Return an integer of a launch's launcher at the shape at hand; ``None`` if unknown."""
        return size_of(node, launch, self._launch_values)

    def constants(self, launch: Launch) -> dict[str, int]:
        """Return integer compile-time constants of a launch by name, those that are known."""
        return constants_of(launch, self._launch_values)

    @cached_property
    def _tensors(self) -> dict[str, TensorLayout]:
        text = parse_kernel(self.original or self.brief.source)
        return {} if text is None else measured_tensors(text, self.brief)

    def tensor(self, param: str, launch: Launch) -> TensorLayout | None:
        """Return the tensor that a parameter got at the shape at hand; ``None`` if unknown."""
        argument = launch.arguments.get(param)
        code = "" if argument is None else compact_code(argument)
        return self._tensors.get(code)

    def explain_factors(self, *names: str) -> str:
        """Return the largest of these factors as a clause; empty if none matters."""
        if self._measured_gap is None:
            return ""
        factors = [f for f in self._measured_gap.factors if f.name in names and f.factor > 1.02]
        if not factors:
            return ""
        largest = max(factors, key=lambda factor: factor.factor)
        return f" ({largest.name} costs {largest.factor:.2f}x)"


class Rewrite(Protocol):
    """One kind of change. Its docstring says when it applies."""

    @property
    def kind(self) -> str:
        """Name of the rewrite, `solkit.core.Proposal.kind`."""

    @property
    def helps(self) -> tuple[str, ...]:
        """The factors of the gap, and causes, that it lessens: large ones have it tried early."""

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """Return the changed files; none if it does not apply."""


Step = tuple[str, tuple[str, ...]]
"""A changed file, and names of what was changed, such as two functions that are one now."""


def changed_repeatedly(
    text: KernelText, change: Callable[[KernelText], Step | None], most: int = _MOST_STEPS
) -> tuple[str, list[str]]:
    """Return a file that was changed until it cannot be any more, and all names of the changes.

    Args:
        text: the file.
        change: makes the first change that can be made.
        most: changes.

    Returns:
        The new file, empty if nothing can be changed; and names, each once, in their order.
    """
    source, names = "", list[str]()
    for _ in range(most):
        step = change(text)
        following = None if step is None else parse_kernel(step[0])
        if step is None or following is None:
            break
        source, text = step[0], following
        names += [name for name in step[1] if name not in names]
    return source, names
