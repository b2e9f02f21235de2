"""Failures that all configurations have in common: parameters cannot change their reason.

A launcher that raises, an output of another dtype than the reference's or a kernel that does not
compile may be so whatever the parameters are. Then more measurements find nothing. It shows where
the parameters in use and five others fail with the same words, nothing runs, and those that fail so
differ in every parameter: at both ends of numbers, and in all other values.

What wants too much of the GPU, or breaks its context, proves nothing: other parameters want less.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solkit.core import Outcome, Params, Space, Value, Verdict
from solkit.measure.checking.remedies import is_about_form, remedy_of, wants_resources

ENOUGH = 6
"""Configurations that fail alike, the one in use among them."""

_TELLING = (Verdict.WRONG, Verdict.CRASHED, Verdict.DOES_NOT_COMPILE)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class CommonFailure:
    """The reason for which every configuration fails.

    Attributes:
        reason: of each.
        count: configurations that were measured and fail so.
    """

    reason: str
    count: int

    @property
    def note(self) -> str:
        """Reason and remedy, as sentences."""
        return (
            f"{self.count} configurations that differ in every parameter fail alike: "
            f"{self.reason.rstrip('.')}. {remedy_of(self.reason)}"
        )


def failure_reason(verdict: Verdict, message: str | None) -> str | None:
    """Return the reason of a failure if it may hold for other parameters; ``None`` otherwise."""
    if verdict not in _TELLING or not message or wants_resources(message):
        return None
    return _ADDRESS.sub("0x…", message)


def find_common_failure(
    space: Space, default: Params, outcomes: Iterable[Outcome]
) -> CommonFailure | None:
    """Return the reason why nothing can run; ``None`` if something may.

    Args:
        space: what may be chosen.
        default: the parameters in use.
        outcomes: the last one of each configuration.
    """
    by_reason: dict[str, list[Params]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict.is_right:
            return None
        if (reason := failure_reason(outcome.verdict, outcome.message)) is not None:
            by_reason[reason].append(outcome.params)
    for reason, failed in by_reason.items():
        if len(failed) >= ENOUGH and default in failed and _spans_space(space, failed, reason):
            return CommonFailure(reason, len(failed))
    return None


def _spans_space(space: Space, failed: Sequence[Params], reason: str) -> bool:
    """Tell whether failures differ in every parameter as much as the space allows."""
    few = 2 if is_about_form(reason) else None
    return all(
        _are_spanned(values, {point[name] for point in failed if name in point}, few)
        for name, values in space.values.items()
    )


def _are_spanned(values: Sequence[Value], seen: set[Value], few: int | None) -> bool:
    if any(isinstance(value, (str, bool, type(None))) for value in values):
        return seen.issuperset(values)
    if few is not None:
        return len(seen) >= min(few, len(values))
    numbers = [value for value in values if isinstance(value, (int, float))]
    return {min(numbers), max(numbers)} <= seen
