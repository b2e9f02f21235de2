"""The best algorithm of a reference that holds no kernel, as a further parent.

A plan takes fewer operations than the traced reference (`solkit.pipeline.best_algorithm`). What
`torch.compile` makes of it joins the search once, next to what it makes of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from solkit.core import Brief, Proposal
from solkit.errors import SolkitError


@dataclass
class BestPlan:
    """Proposes the kernel file of a plan.

    Args:
        first: the file that the search starts from; only there the plan is proposed.
        compile: gives the plan's file and what it does; ``None`` if there is no plan.
    """

    first: str
    compile: Callable[[], tuple[str, str] | None]
    name: str = field(default="best algorithm", init=False)

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """Yield the plan, if there is one that compiles."""
        if brief.source != self.first:
            return
        try:
            plan = self.compile()
        except SolkitError:  # the search goes on from the reference's own program
            return
        if plan is not None:
            text, steps = plan
            yield Proposal(text, "best algorithm", f"{steps}.")
