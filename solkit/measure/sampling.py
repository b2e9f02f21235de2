"""How many timings are taken, and in what order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from solkit.measure.activities import CallTime
from solkit.measure.statistics import median_interval

__all__ = ["Plan", "Samples", "Subject", "Timer", "plan_for", "sample"]

_SLOW_S = 1.0


@dataclass(frozen=True)
class Subject:
    """What is timed.

    Attributes:
        name: ``"candidate"`` or ``"reference"``.
        prepare: makes inputs ready, untimed, and gives the call to time.
    """

    name: str
    prepare: Callable[[], Callable[[], Any]]


class Timer(Protocol):
    """A way of timing calls.

    Attributes:
        method: `solkit.core.Protocol.method`.
    """

    method: str

    def time(self, subjects: Sequence[Subject]) -> list[CallTime]:
        """Call each subject once, in that order; its time on the GPU.

        Raises:
            ActivityError: this way of timing does not work here.
        """
        ...


@dataclass(frozen=True)
class Plan:
    """How many samples are taken.

    Attributes:
        warmup: untimed pairs of calls before.
        minimum, maximum: samples of the candidate, and as many of the reference.
        precision: enough once the median's 95 % interval is within this share of it.
        budget_s: no more samples than fit, beyond the minimum.
    """

    warmup: int = 10
    minimum: int = 20
    maximum: int = 200
    precision: float = 0.01
    budget_s: float = 2.0


@dataclass(frozen=True)
class Samples:
    """Times of calls, in the order they were taken."""

    candidate: tuple[CallTime, ...]
    reference: tuple[CallTime, ...]


def plan_for(reference_s: float) -> Plan:
    """The plan for a problem whose reference takes that long, by the wall clock."""
    return Plan(warmup=1, minimum=3) if reference_s > _SLOW_S else Plan()


def sample(
    timer: Timer,
    candidate: Subject,
    reference: Subject,
    plan: Plan,
    order: random.Random,
    clock: Callable[[], float] = time.monotonic,
) -> Samples:
    """Time candidate and reference in pairs, each pair in random order, until sure enough.

    The interval is looked at only after the minimum and each doubling, since stopping at the first
    lucky look of many would make it too narrow.

    Raises:
        ActivityError: from the timer.
    """
    timer.time(_pairs(candidate, reference, plan.warmup, order))
    taken: dict[str, list[CallTime]] = {candidate.name: [], reference.name: []}
    start = clock()
    count = plan.minimum
    while count > 0:
        subjects = _pairs(candidate, reference, count, order)
        for subject, call_time in zip(subjects, timer.time(subjects), strict=True):
            taken[subject.name].append(call_time)
        spans = [call_time.span_ms for call_time in taken[candidate.name]]
        have = len(spans)
        if median_interval(spans).relative_error <= plan.precision:
            break
        affordable = int((plan.budget_s / max(clock() - start, 1e-9) - 1) * have)
        count = min(have, plan.maximum - have, affordable)
    return Samples(tuple(taken[candidate.name]), tuple(taken[reference.name]))


def _pairs(
    candidate: Subject, reference: Subject, count: int, order: random.Random
) -> list[Subject]:
    return [s for _ in range(count) for s in order.sample((candidate, reference), k=2)]
