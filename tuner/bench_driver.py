"""Spend a budget of GPU seconds on tasks: the loop between tasks and a bench.

The search learns from each outcome, so as little as possible is pending: one configuration for each
core that compiles, and a third as many that are compiled and wait for the GPU (`pending_target`).
Each is submitted by itself, so that each core compiles one; the trusted bench times those together
that are ready together. Time is read from the bench's clock alone, so the same loop runs on a
recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from solkit.core import Configuration, Outcome
from solkit.measure.benches import AHEAD, HANDFUL, Bench
from solkit.tuner.tuning_problem import TuningProblem

Choose = Callable[[Sequence[TuningProblem]], TuningProblem]
"""Choice of the task that gets the next place among those that go on; never called with none."""

Heard = Callable[[TuningProblem, Configuration, Outcome, float], None]
"""Receives each outcome once its task knows it, with the GPU seconds spent so far."""

_WAITING = 3  # cores for each compiled configuration that waits for the GPU
_TICK_S = 1e-6


def pending_target(bench: Bench) -> int:
    """Return how many configurations to keep pending, so that neither cores nor GPU idle."""
    cores = bench.capacity // (HANDFUL * AHEAD)
    return cores + math.ceil(cores / _WAITING) if cores else max(bench.capacity, 1)


def gpu_count(bench: Bench) -> int:
    """Return how many times as fast as the time the bench's GPU seconds run."""
    return max(int(getattr(bench, "gpus", 1)), 1)


def first_open(tasks: Sequence[TuningProblem]) -> TuningProblem:
    """Return the first one: one task after the other."""
    return tasks[0]


def drive_bench(
    bench: Bench,
    tasks: Sequence[TuningProblem],
    budget_s: float,
    choose: Choose = first_open,
    heard: Heard = lambda *_: None,
    spent_s: float = 0.0,
) -> float:
    """Measure what tasks ask for until the budget is spent or all of them have stopped.

    The default of a task that was begun is always measured, whatever that costs. If it is
    interrupted, the bench drops what is pending; the tasks know all that was measured.

    Args:
        bench: measures.
        tasks: what may be measured.
        budget_s: GPU seconds, those already spent included.
        choose: which task gets the next place.
        heard: receives each outcome.
        spent_s: GPU seconds that earlier runs spent.

    Returns:
        GPU seconds spent, earlier ones included.

    Raises:
        SolkitError: the bench failed.
    """
    return _Drive(bench, tasks, budget_s, choose, heard, spent_s).run()


class _Drive:
    """The course of one drive."""

    def __init__(
        self,
        bench: Bench,
        tasks: Sequence[TuningProblem],
        budget_s: float,
        choose: Choose,
        heard: Heard,
        spent_s: float,
    ) -> None:
        self._bench, self._tasks, self._budget_s = bench, tasks, budget_s
        self._choose, self._heard = choose, heard
        self._spent = GpuSeconds(bench, spent_s)
        self._asked: dict[int, tuple[TuningProblem, Configuration]] = {}

    def run(self) -> float:
        try:
            while self._fill_bench() or self._asked:
                if self._is_finished():
                    break
                self._take_outcomes()
        finally:
            self._bench.discard()
            for task in {id(task): task for task, _ in self._asked.values()}.values():
                task.withdraw()
        return self._spent.gpu_s

    def _take_outcomes(self) -> None:
        """Hear outcomes until the budget is spent."""
        left_s = self._remaining_s() / gpu_count(self._bench)
        until_s = self._bench.clock.now_s() + left_s if left_s > 0 else None
        for configuration, outcome in self._bench.outcomes(until_s):
            if id(configuration) not in self._asked:
                continue  # left from before the bench failed: it was asked for again
            task, _ = self._asked.pop(id(configuration))
            spent_s = self._spent.gpu_s
            task.tell(configuration, outcome, spent_s)
            self._heard(task, configuration, outcome, spent_s)
            self._fill_bench()
            if self._is_finished():
                return

    def _fill_bench(self) -> bool:
        """Submit what keeps the bench busy; whether anything was."""
        before = len(self._asked)
        closed: set[int] = set()
        while self._remaining_s() > 0:
            room = pending_target(self._bench) - self._bench.pending
            going = [t for t in self._tasks if id(t) not in closed and t.stopped is None]
            if room <= 0 or not going:
                break
            task = self._choose(going)
            configurations = task.ask(room if len(going) == 1 else 1)
            if not configurations:
                closed.add(id(task))
            for configuration in configurations:
                self._asked[id(configuration)] = task, configuration
                self._bench.submit([configuration])
        return len(self._asked) > before

    def _remaining_s(self) -> float:
        """Return seconds left; none if so few that adding them to a clock may not move it."""
        left_s = self._budget_s - self._spent.gpu_s
        return left_s if left_s > _TICK_S else 0.0

    def _is_finished(self) -> bool:
        """Tell whether all problems are stopped or all is spent, and no default is awaited."""
        if any(task.owes_default for task, _ in self._asked.values()):
            return False
        if self._remaining_s() <= 0:
            return True
        return all(task.stopped is not None for task in self._tasks)


class GpuSeconds:
    """GPU seconds since a drive began; until the bench holds the GPU, wall time counts."""

    def __init__(self, bench: Bench, earlier_s: float) -> None:
        self._clock, self._earlier_s = bench.clock, earlier_s
        self._begun_s, self._held_s = bench.clock.now_s(), bench.clock.gpu_s()

    @property
    def gpu_s(self) -> float:
        """Seconds so far, earlier ones included."""
        held_s = self._clock.gpu_s()
        now_s = held_s - self._held_s if held_s else self._clock.now_s() - self._begun_s
        return self._earlier_s + now_s
