"""Sizes from which candidates take too long to compile, as far as studies tell.

A compiler's time follows from the values that a thread holds: blocks of 128 x 128 x 16 took over
20 s where most candidates take 2, and a search studied 44 of them without a result.
"""

from __future__ import annotations

import math
from collections import defaultdict

from solkit.core import Configuration

_ENOUGH = 2  # candidates that took too long: a single one may have had to wait for a core
_WARPS, _NO_SIZES = "num_warps", ("num_stages", "num_ctas", "maxnreg")


class CompileLimits:
    """Sizes of candidates that were compiled in time, and of those that were not.

    A size is the product of a candidate's block sizes, divided by its warps. Only candidates whose
    parameters have the same names are compared.
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
        """Tell whether candidates of at most this size took too long, and none as large did not."""
        names, size = _size_of(configuration)
        endless = sum(late <= size for late in self._endless.get(names, ()))
        return endless >= _ENOUGH and size > self._largest.get(names, 0.0)


def _size_of(configuration: Configuration) -> tuple[frozenset[str], float]:
    """Return the names of a candidate's parameters, and its size as of `CompileLimits`."""
    params = configuration.params
    sizes = {n: abs(v) for n, v in params.items() if isinstance(v, int) and v and v is not True}
    powers = {n: -1 if n.startswith(_WARPS) else int(not n.startswith(_NO_SIZES)) for n in sizes}
    return frozenset(params), math.prod(size ** powers[name] for name, size in sizes.items())
