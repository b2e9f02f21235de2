"""Distributions on which a search's original is wrong: its variants may be wrong there as well.

A kernel that multiplies in fp16 gives infinities for large values, where the reference gives
numbers. So does each variant that computes the same, and a failure that both have says nothing
about what was changed. The file's own inputs and held-out shapes excuse nobody, and few
distributions do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from solkit.core import canonical
from solkit.measure.guarded.messages import Judgement, Request

_MOST = 3
"""Distributions; a kernel that is wrong on more is wrong."""
_PATIENCE = 4
"""Times as long as a variant may an original take for its checks, if it is judged again."""


@dataclass
class OriginalFailures:
    """Distributions on which an original is wrong.

    Attributes:
        original: its request, the first of the problem's own file.
        trials: the distributions.
    """

    original: Request
    trials: tuple[str, ...] = ()
    _passed: set[tuple[str, str]] = field(default_factory=set)

    def excuse(
        self, request: Request, failed_on: str, judge: Callable[[Request], Judgement]
    ) -> bool:
        """Tell whether a candidate's failure is the original's as well, and note it then.

        An original that had no time for the distribution is judged again, on that one alone and
        with more time: what takes it, the reference's outputs, is there now, but autotuners choose
        once more.

        Args:
            request: of the candidate.
            failed_on: the distribution on which it is wrong; empty for other inputs.
            judge: gives the judgement of a request.
        """
        if not failed_on or failed_on in self.trials or len(self.trials) == _MOST:
            return False
        if not (self._is_original(request) or self._fails_too(request, failed_on, judge)):
            return False
        self.trials = (*self.trials, failed_on)
        return True

    def _is_original(self, request: Request) -> bool:
        own = self.original
        return request.path == own.path and canonical(request.params) == canonical(own.params)

    def _fails_too(
        self, request: Request, failed_on: str, judge: Callable[[Request], Judgement]
    ) -> bool:
        key = failed_on, canonical(request.shape)
        if key in self._passed:
            return False
        limit_s = self.original.checks_limit_s
        again = replace(
            self.original,
            shape=request.shape,
            tried_on=failed_on,
            checks_limit_s=None if limit_s is None else _PATIENCE * limit_s,
        )
        if judge(again).failed_on == failed_on:
            return True
        self._passed.add(key)
        return False


class Excuses:
    """Failures of the originals of a session's searches, by problem."""

    def __init__(self) -> None:
        self._by_problem: dict[str, OriginalFailures] = {}

    def of(self, request: Request) -> OriginalFailures | None:
        """Return the failures of the original; ``None`` if its own file was not measured yet."""
        if request.reference is None:
            self._by_problem.setdefault(request.path, OriginalFailures(request))
        return self._by_problem.get(request.reference or request.path)
