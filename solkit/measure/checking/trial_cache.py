"""Trials that the referee reuses from candidate to candidate.

A trial's inputs, correct outputs and sensitivities take about ten runs of the reference and depend
only on the problem. They stay in the referee's own memory, out of reach of a candidate's process,
which gets copies as always. Trials that a candidate is timed on are never kept.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

from solkit.measure.checking.trials import Trial

__all__ = ["TrialCache"]

_MOST_BYTES = 1 << 30


class TrialCache:
    """The trials of the most recently used problems, up to `most_bytes` of tensors in all.

    A problem that needs more is never kept, nor one whose trials lack what memory was short for.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, tuple[tuple[Trial, ...], int]] = OrderedDict()

    def trials(self, key: Hashable, make: Callable[[], Iterator[Trial]]) -> Iterator[Trial]:
        """Yield the trials of a key; made one at a time, and kept if all were requested.

        The key holds everything that the trials depend on.
        """
        if key in self._kept:
            self._kept.move_to_end(key)
            yield from self._kept[key][0]
            return
        taken: list[Trial] = []
        size = 0.0
        for trial in make():
            size = math.inf if trial.is_short else size + trial.size_bytes
            if size <= self._most_bytes:
                taken.append(trial)
            else:
                taken.clear()
            yield trial
            del trial  # while the next one is made, memory may be short
        if size <= self._most_bytes:
            self._keep(key, tuple(taken), int(size))

    def _keep(self, key: Hashable, taken: tuple[Trial, ...], size: int) -> None:
        self._kept[key] = taken, size
        while sum(size for _, size in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)
