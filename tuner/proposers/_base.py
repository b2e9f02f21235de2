"""Interface of a proposer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from solkit.core import Brief, Proposal


class Proposer(Protocol):
    """Writes variants of a kernel file."""

    name: str
    """``"rewriter"``, or the model's name; for the archive and the report."""

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """Yield variants of the brief's source, the most promising first; none if nothing applies.

        It may be left before its end: what is not taken costs nothing.

        Raises:
            SolkitError: it cannot go on: no key, the budget of money is spent, the model is gone.
        """
