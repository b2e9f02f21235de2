from __future__ import annotations

import sys

import pytest

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)

from solkit.core import Configuration, Depth, Forecast  # noqa: E402
from solkit.errors import InputError, UnsupportedError  # noqa: E402
from solkit.integrations.optuna import SurrogatePruner, SurrogateSampler  # noqa: E402
from solkit.surrogate.plan import Action, Plan, Ranked  # noqa: E402
from solkit.tuner.ask_tell import AskTell  # noqa: E402

BLOCKS, WARPS = (16, 32, 64, 128), (1, 2, 4)


def rank_plan(files=("k.py",)):
    """Twelve points, believed to be the faster the more threads they have; three are planned."""
    points = [(b, w) for b in BLOCKS for w in WARPS]
    points.sort(key=lambda point: -point[0] * point[1])
    ranked = []
    for place, (block, warps) in enumerate(points):
        params = {"BLOCK": block, "num_warps": warps}
        forecast = Forecast(1000 / (block * warps), None, None, 0.0, False)
        action = Action.MEASURE if place < 3 else Action.SKIP
        for file in files:
            configuration = Configuration(file, "run", {}, params)
            ranked.append(Ranked(configuration, Depth.CAPTURED, forecast, action, ""))
    return AskTell(Plan({}, tuple(ranked), 1.0))


def suggested(trial):
    block = trial.suggest_categorical("BLOCK", BLOCKS)
    return block, trial.suggest_int("num_warps", 1, 4)


def study(sampler, **options):
    return optuna.create_study(sampler=sampler, **options)


def points(result):
    return [(t.params["BLOCK"], t.params["num_warps"]) for t in result.trials]


def time_ms(block, warps):
    return abs(block - 64) + abs(warps - 2) + 1.0


def test_trials_follow_the_plan_and_then_the_forecasts_without_repeating():
    pool = rank_plan()
    new_study = study(SurrogateSampler(pool))
    new_study.optimize(lambda trial: time_ms(*suggested(trial)), n_trials=12)
    assert points(new_study)[:3] == [(128, 4), (64, 4), (128, 2)]
    assert sorted(points(new_study)) == [(b, w) for b in BLOCKS for w in WARPS]
    assert new_study.best_params == {"BLOCK": 64, "num_warps": 2}
    ranked, best_ms = pool.best
    assert (ranked.configuration.params, best_ms) == (new_study.best_params, 1.0)


def test_an_exhausted_plan_goes_on_at_random():
    new_study = study(SurrogateSampler(rank_plan()))
    new_study.optimize(lambda trial: time_ms(*suggested(trial)), n_trials=15)
    assert len(new_study.trials) == 15


def test_failures_and_pruned_trials_are_told():
    pool, seen = rank_plan(), []
    tell = pool.tell
    pool.tell = lambda configuration, time: (seen.append(time), tell(configuration, time))

    def objective(trial):
        suggested(trial)
        if trial.number == 0:
            raise ValueError
        for step, value in enumerate((5.0, 7.0, 6.0)):
            trial.report(value, step)
        if trial.number == 1:
            raise optuna.TrialPruned
        return 4.0

    new_study = study(SurrogateSampler(pool))
    new_study.optimize(objective, n_trials=3, catch=ValueError)
    assert seen == [None, 6.0, 4.0]


def test_what_a_study_knew_before_is_learned():
    new_study = study(optuna.samplers.RandomSampler(0))
    new_study.enqueue_trial({"BLOCK": 128, "num_warps": 4})
    new_study.enqueue_trial({"BLOCK": 128, "num_warps": 3})  # not in the space
    new_study.optimize(lambda trial: time_ms(*suggested(trial)), n_trials=2)
    new_study.sampler = SurrogateSampler(rank_plan())
    new_study.optimize(lambda trial: time_ms(*suggested(trial)), n_trials=1)
    assert points(new_study)[2] == (64, 4)


def test_values_that_the_study_does_not_allow_are_drawn():
    new_study = study(SurrogateSampler(rank_plan()))

    def objective(trial):
        trial.suggest_float("other", 0.0, 1.0)
        return trial.suggest_categorical("BLOCK", (16, 32))

    new_study.optimize(objective, n_trials=4)
    assert {t.params["BLOCK"] for t in new_study.trials} <= {16, 32}


def test_only_one_file_and_a_time_to_minimise():
    with pytest.raises(InputError, match="one kernel file; the plan has 2"):
        SurrogateSampler(rank_plan(("k.py", "l.py")))
    with pytest.raises(InputError, match="must minimise"):
        study(SurrogateSampler(rank_plan()), direction="maximize").optimize(
            lambda _: 1.0, n_trials=1
        )


def test_a_trial_far_above_the_best_stops_early():
    stopped = []

    def objective(trial):
        first = {0: 10.0, 1: 20.0, 2: 12.0}[trial.number]
        for step in range(3):
            trial.report(first - step / 10, step)
            if trial.should_prune():
                stopped.append((trial.number, step))
                raise optuna.TrialPruned
        return first

    new_study = study(SurrogateSampler(rank_plan()), pruner=SurrogatePruner(least=2))
    new_study.optimize(objective, n_trials=3)
    assert stopped == [(1, 1)]  # 20 is far above 10, 12 is not; one time alone does not tell
    with pytest.raises(InputError, match=r"factor is 0\.9"):
        SurrogatePruner(0.9)


def test_without_optuna_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "solkit.integrations.optuna")
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[optuna\]'"):
        import solkit.integrations.optuna  # noqa: F401
