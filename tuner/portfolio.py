"""Many kernels, one budget: which of them deserves the next measurement.

The policy is a pure function of what the tasks know, so it can be simulated on recordings
(``bench/portfolio.py``) and changes no task.

Notation
    w       calls of a kernel at a shape: its weight
    s       ms a call that its next measurement is expected to save: the search's expected
            improvement (Jones, Schonlau and Welch, J. Global Optimization 13, 1998)
    c       seconds of the budget that a measurement of it costs: of the GPU, or of compiling if
            that is more; cores compile ahead of the GPU, several at once
    p       its measurements that are under way: their outcomes will lower s

::

    next = argmax  w s / (c (1 + p))

Before that each kernel has its default measured and a few more: s means nothing before, and what is
in use must be known. A kernel that has stopped is not among the tasks, so its share goes to the
others. Each `turn`-th measurement goes to the kernel that has had fewest, since s may err.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeVar

from solkit.measure.benches.recorded import Cost


class Contender(Protocol):
    """Facts about a task that the policy needs; see `solkit.tuner.tuning_problem.TuningProblem`."""

    weight: float

    @property
    def measured(self) -> int:
        """Configurations with an outcome."""

    @property
    def pending(self) -> int:
        """Configurations that are asked for and have none yet."""

    @property
    def cost(self) -> Cost | None:
        """Mean cost of a measurement; ``None`` before the first."""

    def expected_saving_ms(self) -> float:
        """Return what the next measurement is expected to save a call, in ms; nan if unknown."""


T = TypeVar("T", bound=Contender)


@dataclass(frozen=True)
class PortfolioSettings:
    """Rules by which a budget is shared out.

    Attributes:
        fair: measurements that each kernel gets before any is preferred, its default included.
        turn: each so many-th measurement goes to the kernel with the fewest; 0 for none.
        cores: that compile at once.
    """

    fair: int = 3
    turn: int = 10
    cores: int = 8


def portfolio_choice(settings: PortfolioSettings | None = None) -> Callable[[Sequence[T]], T]:
    """Return a `solkit.tuner.bench_driver.Choose` with these settings."""
    how = settings or PortfolioSettings()
    return lambda tasks: choose_task(tasks, how)


def choose_task(tasks: Sequence[T], settings: PortfolioSettings) -> T:
    """Return the task that gets the next measurement.

    Args:
        tasks: those that go on, the most promising first; at least one.
        settings: how the budget is shared out.
    """
    fewest = choose_round_robin(tasks)
    if _count_outcomes(fewest) < settings.fair:
        return fewest
    total = sum(map(_count_outcomes, tasks))
    if settings.turn and total % settings.turn == 0:
        return fewest
    costs_s = [_measurement_cost_s(task, settings.cores) for task in tasks]
    positive = [cost_s for cost_s in costs_s if cost_s > 0]
    usual_s = median(positive) if positive else 1.0
    rates = [
        _saving_rate(task, cost_s or usual_s) for task, cost_s in zip(tasks, costs_s, strict=True)
    ]
    best = max(range(len(tasks)), key=rates.__getitem__)
    return tasks[best] if rates[best] > 0 else fewest


def choose_round_robin(tasks: Sequence[T]) -> T:
    """Return the task with the fewest measurements; the first of them."""
    return min(tasks, key=_count_outcomes)


def _count_outcomes(task: Contender) -> int:
    return task.measured + task.pending


def _measurement_cost_s(task: Contender, cores: int) -> float:
    """Return seconds of the budget that a measurement costs; 0 if unknown."""
    cost = task.cost
    return 0.0 if cost is None else max(cost.gpu_s, cost.compile_s / cores)


def _saving_rate(task: Contender, cost_s: float) -> float:
    """Return milliseconds of all calls saved per second of budget; 0 where nothing has run yet."""
    saving_ms = task.expected_saving_ms()
    if not math.isfinite(saving_ms):
        return 0.0
    return task.weight * saving_ms / (cost_s * (1 + task.pending))
