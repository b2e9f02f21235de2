"""Choice of the kind of rewrite to try: the more often one has paid, the more often it is tried.

Thompson sampling (Thompson, "On the Likelihood that One Unknown Probability Exceeds Another in View
of the Evidence of Two Samples", Biometrika 25, 1933): a kind's chance to pay has a beta
distribution, and kinds are ordered by a draw from each.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from solkit.core import Proposal

PAID = 1.02
"""A variant pays if its parent takes at least so many times as long."""
_PRIOR = (1.0, 1.0)  # before anything is known, every chance is as likely
_PLACE = 0.05  # of a chance that each later place among a proposer's own costs


class Bandit:
    """Gains that kinds of rewrite have brought.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._paid: defaultdict[str, int] = defaultdict(int)
        self._tried: defaultdict[str, int] = defaultdict(int)

    def tell(self, kind: str, gain: float | None) -> None:
        """Record the gain that a variant of a kind brought.

        Args:
            kind: `solkit.core.Proposal.kind`.
            gain: its parent's time over its own; ``None`` if it failed.
        """
        self._tried[kind] += 1
        self._paid[kind] += gain is not None and gain >= PAID

    def chosen(self, proposals: Sequence[Proposal], number: int) -> list[Proposal]:
        """Return the proposals to go on with, at most `number`, in their order.

        A proposer yields what it thinks best first, which counts as well.
        """
        drawn = {kind: self._draw_chance(kind) for kind in dict.fromkeys(p.kind for p in proposals)}
        order = sorted(
            range(len(proposals)), key=lambda at: _PLACE * at - drawn[proposals[at].kind]
        )
        return [proposals[at] for at in sorted(order[:number])]

    def _draw_chance(self, kind: str) -> float:
        paid, tried = self._paid[kind], self._tried[kind]
        return self._random.betavariate(_PRIOR[0] + paid, _PRIOR[1] + tried - paid)
