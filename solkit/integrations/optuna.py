"""Optuna with the surrogate: a sampler that suggests promising configurations, and a pruner.

::

    from solkit.integrations.optuna import SurrogatePruner, SurrogateSampler

    sampler = SurrogateSampler(solkit.ask_tell("kernel.py", device="h200"))
    study = optuna.create_study(sampler=sampler, pruner=SurrogatePruner())
    study.optimize(objective, n_trials=30)      # the objective returns a time in ms

The study's parameters are those of the kernel file's space, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from solkit.core import Configuration, Value, canonical
from solkit.errors import InputError
from solkit.extras import needed
from solkit.tuner.ask_tell import AskTell

with needed("optuna"):
    import optuna

    from solkit.tuner.optuna import StudySampler, trial_value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState


class SurrogateSampler(StudySampler):
    """Suggests what a plan of `solkit.rank` measures, then what a model expects that learns on.

    The objective is a time in ms, to be minimised. A trial that fails, or whose time is not
    positive, counts as a failure of its configuration; of a pruned trial the median of what it
    reported counts. Trials that the study had before are learned from. Where the plan is exhausted,
    and for parameters that the space lacks, values are drawn at random.

    Args:
        ask_tell: candidates of one kernel file at one shape.
        seed: of what is drawn at random.
    """

    def __init__(self, ask_tell: AskTell, seed: int | None = 0) -> None:
        files = {(e.configuration.path, e.configuration.entry_point) for e in ask_tell.plan.ranked}
        if len(files) != 1:
            raise InputError(f"a study tunes one kernel file; the plan has {len(files)}")
        super().__init__(seed)
        self._ask_tell = ask_tell
        self._by_params = {
            canonical(ranked.configuration.params): ranked.configuration
            for ranked in ask_tell.plan.ranked
        }
        self._chosen: dict[int, Configuration] = {}  # by the trial's number
        self._seen: set[int] = set()  # numbers of trials that were told

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002 - Optuna's signature
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """None: every parameter is suggested by itself, from the trial's configuration."""
        return {}

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002 - Optuna's signature
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Nothing."""
        return {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the trial's configuration."""
        if study.directions != [optuna.study.StudyDirection.MINIMIZE]:
            raise InputError("the objective is a time in ms: the study must minimise it, alone")
        with self._lock:
            for earlier in study.get_trials(deepcopy=False):
                if earlier.state.is_finished():
                    self._learn(earlier.number, earlier.state, earlier.values, earlier)
            if answers := self._ask_tell.ask():
                self._chosen[trial.number] = answers[0].configuration

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a parameter's value in the trial's configuration, if the study allows it."""
        configuration = self._chosen.get(trial.number)
        if configuration is not None and param_name in configuration.params:
            value = configuration.params[param_name]
            if _allows(param_distribution, value):
                return value
        return super().sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,  # noqa: ARG002 - Optuna's signature
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Learn from the trial."""
        with self._lock:
            self._learn(trial.number, state, values, trial)

    def _learn(
        self, number: int, state: TrialState, values: Sequence[float] | None, trial: FrozenTrial
    ) -> None:
        if number in self._seen:
            return
        self._seen.add(number)
        chosen = self._chosen.pop(number, None)
        params = {**(chosen.params if chosen else {}), **trial.params}
        configuration = self._by_params.get(canonical(_of(params, self._by_params.values())))
        if configuration is not None:
            self._ask_tell.tell(configuration, trial_value(trial, state, values, above=0))


class SurrogatePruner(optuna.pruners.BasePruner):  # type: ignore[misc,unused-ignore]
    """Stops a trial whose intermediate times are far above the best trial's.

    A configuration does not get faster by repeating it: once even the fastest of a trial's reported
    times is far above the best value of a complete trial, the rest would tell nothing.

    Args:
        factor: how far above the best: 1.3 is well beyond what a forecast is off by.
        least: reported times that a trial has before it may be stopped.
    """

    def __init__(self, factor: float = 1.3, least: int = 1) -> None:
        if not factor > 1 or least < 1:
            raise InputError(f"factor is {factor} and least is {least}: expected above 1, and 1")
        self._factor, self._least = factor, least

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial that reports times in ms should stop."""
        times = list(trial.intermediate_values.values())
        complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        times_ms = [
            complete_trial.value
            for complete_trial in complete
            if complete_trial.value is not None and complete_trial.value > 0
        ]
        if len(times) < self._least or not times_ms:
            return False
        return bool(min(times) > self._factor * min(times_ms))


def _of(params: Mapping[str, Value], configurations: Any) -> dict[str, Value]:
    """Return the parameters that the space has; others are the study's own."""
    names = next(iter(configurations)).params
    return {name: value for name, value in params.items() if name in names}


def _allows(distribution: BaseDistribution, value: Value) -> bool:
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except (TypeError, ValueError):
        return False
