"""Sizes of candidates that a compiler is done with in time, as far as studies tell.

What a compiler takes follows from the values that a thread holds: blocks of 128 x 128 x 16 took
over 20 s where most candidates take 2, and a search studied 44 such in vain.
"""

from __future__ import annotations

import math
from collections import defaultdict

from solkit.core import Configuration

_ENOUGH = 2  # of those that took too long: one may have had to wait for a core
_WARPS, _OTHERS = "num_warps", ("num_stages", "num_ctas", "maxnreg")


class CompileLimits:
    """Sizes of candidates that were compiled in time, and of those that were not.

    Candidates whose parameters have the same names are compared.
    """

    def __init__(self) -> None:
        self._endless: defaultdict[frozenset[str], list[float]] = defaultdict(list)
        self._largest: dict[frozenset[str], float] = {}  # of what was compiled in time

    def note(self, configuration: Configuration, *, is_endless: bool) -> None:
        """Note a candidate that was compiled in time, or not."""
        names, size = _size_of(configuration)
        if is_endless:
            self._endless[names].append(size)
        else:
            self._largest[names] = max(size, self._largest.get(names, 0.0))

    def is_beyond(self, configuration: Configuration) -> bool:
        """Tell whether some that are no larger took too long, and none as large did not."""
        names, size = _size_of(configuration)
        endless = sum(other <= size for other in self._endless.get(names, ()))
        return endless >= _ENOUGH and size > self._largest.get(names, 0.0)


def _size_of(configuration: Configuration) -> tuple[frozenset[str], float]:
    """Return the names of parameters, and the product of block sizes, by the warps."""
    params = configuration.params
    sizes = {n: abs(v) for n, v in params.items() if isinstance(v, int) and v and v is not True}
    powers = {n: -1 if n.startswith(_WARPS) else int(not n.startswith(_OTHERS)) for n in sizes}
    return frozenset(params), math.prod(size ** powers[name] for name, size in sizes.items())
