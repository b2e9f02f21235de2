"""One kernel at one shape: what was measured of it, what to measure next, and when to stop.

A task has no bench and no files, so it can be tested alone. A driver asks it for configurations
and tells it their outcomes (`solkit.tuner.bench_driver`).
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from solkit.core import HOPELESS, Configuration, Outcome, Params, Space, Verdict, canonical
from solkit.core.tuning import Stopped, TimedParams, TuneProgress
from solkit.measure.benches import HANDFUL
from solkit.measure.benches.recorded import Cost, recorded_cost
from solkit.measure.timing.median_interval import median_interval
from solkit.tuner.common_failure import CommonFailure, find_common_failure
from solkit.tuner.early_stopping import EarlyStopping, TaskSettings
from solkit.tuner.search import Prior, Search
from solkit.tuner.tie_breaking import are_times_alike, choose_among_equals

DEFAULT, SEARCH, REPEAT = "default", "search", "repeat"
"""`Configuration.chosen_by` of what a task asks for."""

_TRIES = 2  # of a configuration that could not be measured, without being at fault
_NEAR = 0.01  # contenders without an interval are those within this share of the best


@dataclass
class TrialSummary:
    """A configuration and every outcome of it.

    Attributes:
        configuration: as it was first asked for.
        outcomes: in the order told.
    """

    configuration: Configuration
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def timed(self) -> list[Outcome]:
        """The outcomes whose time counts; none if it ever was found wrong."""
        if any(outcome.verdict is Verdict.WRONG for outcome in self.outcomes):
            return []
        return [e for e in self.outcomes if e.verdict.is_right and e.time_ms is not None]

    @property
    def time_ms(self) -> float | None:
        """The median of all samples, or of all times; ``None`` if it failed."""
        return self._pooled_interval()[0]

    @property
    def samples(self) -> int:
        """Number of calls that were timed."""
        return sum(len(outcome.samples_ms) for outcome in self.timed)

    @property
    def cost(self) -> Cost:
        """Cost of the last outcome; as a recorded bench assumes where that is not recorded."""
        last = self.outcomes[-1]
        return recorded_cost(last, last.time_ms or 0.0)

    @property
    def cost_s(self) -> float:
        """GPU and compile seconds of its last outcome."""
        return self.cost.gpu_s + self.cost.compile_s

    def timed_params(self) -> TimedParams:
        """Return the trial as a record."""
        message = next((e.message for e in reversed(self.outcomes) if e.message), None)
        time_ms, low_ms, high_ms = self._pooled_interval()
        failed = message if time_ms is None else None
        return TimedParams(self.configuration.params, time_ms, low_ms, high_ms, failed)

    def _pooled_interval(self) -> tuple[float | None, float | None, float | None]:
        """Return the time and its interval; the samples of all outcomes are pooled."""
        timed = self.timed
        if len(timed) < 2:
            return (timed[0].time_ms, timed[0].low_ms, timed[0].high_ms) if timed else (None,) * 3
        samples = [sample for outcome in timed for sample in outcome.samples_ms]
        if any(not outcome.samples_ms for outcome in timed):
            return median(e.time_ms for e in timed if e.time_ms is not None), None, None
        interval = median_interval(samples)
        return interval.median, interval.low, interval.high


class TuningProblem:
    """One kernel at one shape.

    Args:
        name: for people.
        default: the kernel at that shape with the parameters in use, which are always measured.
        space: what may be chosen instead.
        sol_ms: the speed of light of the problem; by default that of the first outcome with one.
        prior: what is believed before the first measurement.
        first: parameters to measure right after the default.
        weight: how many calls a saving is worth, in a portfolio.
        settings: when it ends.
        search: what to ask and tell; a `Search` of the space by default.

    Attributes:
        name, default, space, weight, settings: as given.
        neighbours: the same kernel at other shapes, the nearest first: they break ties.
        trajectory: how the best time fell.
        common_failure: the reason why nothing can run; ``None`` if something may.
    """

    def __init__(
        self,
        name: str,
        default: Configuration,
        space: Space,
        *,
        sol_ms: float | None = None,
        prior: Prior | None = None,
        first: Sequence[Params] = (),
        weight: float = 1.0,
        settings: TaskSettings | None = None,
        search: Search | None = None,
    ) -> None:
        self.name, self.default, self.space, self.weight = name, default, space, weight
        self.settings = settings or TaskSettings()
        self._sol_ms, self._prior = sol_ms, prior
        self.neighbours: Sequence[TuningProblem] = ()
        self._in_space = default.params in space
        seeds = [default.params, *first] if self._in_space else list(first)
        seed = self.settings.seed
        self._search = search or Search(space, prior=prior, first=seeds, seed=seed)
        self._own = canonical(default.params)
        self._standings: dict[str, TrialSummary] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._again: deque[Configuration] = deque()
        self._pending: dict[str, Configuration] = {}
        self._in_vain: dict[str, int] = {}
        self._asked_default = False
        self._gain: float | None = None
        self._better_chance: float | None = None
        self._stopping = EarlyStopping(self.settings)
        self.common_failure: CommonFailure | None = None
        self._is_given_up = False
        self.trajectory: list[TuneProgress] = []

    # ------------------------------------------------------------------------------ ask and tell

    def ask(self, number: int = 1) -> list[Configuration]:
        """Return what to measure next; the default first. Fewer, or none, if no more are left."""
        configurations: list[Configuration] = []
        if not self._asked_default:
            self._asked_default = True
            if not self._in_space:
                configurations.append(replace(self.default, chosen_by=DEFAULT))
        while self._again and len(configurations) < number:
            configurations.append(self._again.popleft())
        if len(configurations) < number:
            configurations += [
                self._configure_point(point)
                for point in self._search.ask(number - len(configurations))
            ]
        self._pending.update(
            {canonical(configuration.params): configuration for configuration in configurations}
        )
        return configurations

    def tell(self, configuration: Configuration, outcome: Outcome, gpu_s: float = 0.0) -> None:
        """Record an outcome, whether it was asked for or not; one that was told before is ignored.

        Args:
            configuration: what was measured.
            outcome: what became of it.
            gpu_s: GPU seconds spent so far, for `trajectory`.
        """
        name = canonical(configuration.params)
        self._pending.pop(name, None)
        if (identity := identity_of(outcome)) in self._seen:
            return
        self._seen.add(identity)
        if outcome.verdict is Verdict.NOT_MEASURED and self._tried_in_vain(configuration, name):
            return
        standing = self._standings.setdefault(name, TrialSummary(configuration))
        standing.outcomes.append(outcome)
        self._asked_default |= name == self._own
        if self._sol_ms is None:
            self._sol_ms = outcome.bound_ms or None
        if configuration.params in self.space:
            self._search.tell(configuration.params, standing.time_ms, standing.cost_s)
        self._gain = self._better_chance = None
        last = (standing.outcomes[-1] for standing in self._standings.values())
        self.common_failure = find_common_failure(self.space, self.default.params, last)
        self._extend_trajectory(gpu_s)
        self._stopping.note_outcome(self.measured, self.expected_gain, self.better_chance)

    def withdraw(self) -> None:
        """Ask again for pending configurations, which the bench dropped."""
        self._again.extend(self._pending.values())
        self._pending.clear()

    def give_up(self) -> None:
        """Stop, since others deserve the budget: what is pending is still heard."""
        self._is_given_up = True

    # --------------------------------------------------------------------------------- knowledge

    @property
    def sol_ms(self) -> float | None:
        """The speed of light of the problem."""
        return self._sol_ms

    @property
    def incumbent(self) -> TrialSummary | None:
        """The default with its outcomes; ``None`` before it was measured."""
        return self._standings.get(self._own)

    @property
    def best(self) -> TrialSummary | None:
        """The fastest that is correct; ``None`` before that."""
        ranked = self.ranked()
        return ranked[0] if ranked else None

    @property
    def standings(self) -> list[TrialSummary]:
        """All that were measured, in the order first told."""
        return list(self._standings.values())

    def ranked(self) -> list[TrialSummary]:
        """Return all that are correct, fastest first."""
        timed = [(standing.time_ms, standing) for standing in self._standings.values()]
        finished = [(time_ms, standing) for time_ms, standing in timed if time_ms is not None]
        return [standing for _, standing in sorted(finished, key=lambda pair: pair[0])]

    def contenders(self, most: int = HANDFUL) -> list[TrialSummary]:
        """Return those that may be the fastest: whose intervals meet the best's, which is first."""
        ranked = self.ranked()
        if not ranked:
            return []
        best = ranked[0].timed_params()
        assert best.time_ms is not None
        limit_ms = best.time_ms * (1 + _NEAR) if best.high_ms is None else best.high_ms
        near = [e for e in ranked if _lower_bound_ms(e) <= max(limit_ms, best.time_ms)]
        return near[:most]

    def equals(self) -> list[TrialSummary]:
        """Return all that are as fast as the best as far as was measured; the best is first."""
        return self.contenders(len(self._standings))

    @property
    def choice(self) -> TrialSummary | None:
        """The one to use: of those that are as fast as the best, `choose_among_equals`' choice.

        It is faster than the one in use, unless that is the fastest.
        """
        best, incumbent = self.best, self.incumbent
        if best is None or best is incumbent:
            return best
        best_ms = best.time_ms or math.nan
        faster = itertools.takewhile(lambda trial: trial is not incumbent, self.contenders())
        alike = [trial for trial in faster if are_times_alike(trial.time_ms or math.inf, best_ms)]
        times = [
            {name: e.time_ms for name, e in task._standings.items() if e.time_ms is not None}
            for task in self.neighbours
        ]
        return choose_among_equals(alike, times, self._prior)

    @property
    def measured(self) -> int:
        """Different configurations that have an outcome."""
        return len(self._standings)

    @property
    def failed(self) -> int:
        """Number of measured configurations without a valid time."""
        return sum(standing.time_ms is None for standing in self._standings.values())

    @property
    def pending(self) -> int:
        """Configurations that were asked for and not told."""
        return len(self._pending)

    @property
    def cost(self) -> Cost | None:
        """Mean cost of a measurement; ``None`` before the first."""
        costs = [standing.cost for standing in self._standings.values()]
        if not costs:
            return None
        number = len(costs)
        compile_s, gpu_s = sum(e.compile_s for e in costs), sum(e.gpu_s for e in costs)
        return Cost(compile_s / number, gpu_s / number)

    @property
    def owes_default(self) -> bool:
        """True if the default is not measured yet."""
        return self._own not in self._standings and self._in_vain.get(self._own, 0) < _TRIES

    @property
    def gap(self) -> float | None:
        """The best time over the speed of light; ``None`` if either is unknown."""
        best = self.best
        if best is None or best.time_ms is None or not self._sol_ms:
            return None
        return best.time_ms / self._sol_ms

    def expected_gain(self) -> float:
        """Return the next measurement's expected saving, as a share of the best; nan at first."""
        if self._gain is None:
            self._gain = self._search.expected_gain()
        return self._gain

    def better_chance(self) -> float:
        """Return the chance that something clearly faster than the best is left; nan at first."""
        if self._better_chance is None:
            self._better_chance = self._search.chance_of_better()
        return self._better_chance

    def expected_saving_ms(self) -> float:
        """Return the same in ms a call; nan before the first time."""
        best = self.best
        if best is None or best.time_ms is None:
            return math.nan
        return best.time_ms * self.expected_gain()

    @property
    def stopped(self) -> Stopped | None:
        """Reason for the task's end; ``None`` if it goes on."""
        if self.owes_default:
            return None
        is_exhausted = self._search.exhausted and not self._again and not self._pending
        nothing_runs = len(self._in_vain) >= HANDFUL and not self.ranked()
        fails_alike = self.common_failure is not None
        reason = self._stopping.stop_reason(self.gap, is_exhausted, nothing_runs, fails_alike)
        return reason or (Stopped.SMALL_SHARE if self._is_given_up else None)

    def possible_saving_ms(self) -> float:
        """Return what all calls would save at the speed of light; nan before the first time."""
        best = self.best
        if best is None or best.time_ms is None:
            return math.nan
        return self.weight * (best.time_ms - (self._sol_ms or 0.0))

    # ----------------------------------------------------------------------------------- details

    def _configure_point(self, params: Params) -> Configuration:
        how = DEFAULT if canonical(params) == self._own else SEARCH
        best_ms = self.trajectory[-1].best_ms if self.trajectory else None
        hopeless_ms = None if best_ms is None or how is DEFAULT else HOPELESS * best_ms
        return replace(self.default, params=params, chosen_by=how, hopeless_ms=hopeless_ms)

    def _tried_in_vain(self, configuration: Configuration, name: str) -> bool:
        """Tell whether one that could not be measured is tried again."""
        self._in_vain[name] = self._in_vain.get(name, 0) + 1
        if self._in_vain[name] >= _TRIES:
            return False
        self._again.append(configuration)
        return True

    def _extend_trajectory(self, gpu_s: float) -> None:
        """Extend the trajectory if the best time fell."""
        best = self.best
        if best is None or best.time_ms is None:
            return
        if not self.trajectory or best.time_ms < self.trajectory[-1].best_ms:
            self.trajectory.append(TuneProgress(gpu_s, best.time_ms))


def identity_of(outcome: Outcome) -> tuple[object, ...]:
    """Return what tells two measurements of a configuration apart, in whichever file they are."""
    return (
        canonical(outcome.params),
        outcome.created,
        outcome.verdict,
        outcome.time_ms,
        outcome.samples_ms,
    )


def _lower_bound_ms(standing: TrialSummary) -> float:
    timed = standing.timed_params()
    assert timed.time_ms is not None
    return timed.time_ms if timed.low_ms is None else timed.low_ms
