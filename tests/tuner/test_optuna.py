"""The search as a sampler of Optuna's."""

from __future__ import annotations

import math

import pytest

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)

from solkit.errors import InputError  # noqa: E402
from solkit.tuner.optuna import SolKitSampler  # noqa: E402

BLOCKS, WARPS = [16, 32, 64, 128, 256], [1, 2, 4, 8]


def objective(trial):
    """A time with its best at 64, 4, on, and near 0.01."""
    block = trial.suggest_categorical("block", BLOCKS)
    warps = trial.suggest_int("log_warps", 0, 3)
    fast = trial.suggest_categorical("fast", [False, True])
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    size = abs(math.log2(block / 64)) + abs(warps - 2) + abs(math.log10(rate) + 2) / 2
    return 2.0 ** (size + (not fast))


def new_study(seed=0, **options):
    return optuna.create_study(sampler=SolKitSampler(seed=seed), **options)


def test_finds_what_random_trials_do_not():
    study = new_study()
    study.optimize(objective, n_trials=45)
    assert study.best_value < 1.3
    chance = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    chance.optimize(objective, n_trials=45)
    assert chance.best_value > 1.5


@pytest.mark.slow
def test_values_lie_in_their_distributions():
    def steps(trial):
        assert trial.suggest_int("even", 2, 1000, step=2) % 2 == 0
        assert trial.suggest_float("quarter", 0.0, 2.0, step=0.25) * 4 % 1 == 0
        assert 1 <= trial.suggest_int("large", 1, 10**9, log=True) <= 10**9
        return trial.params["even"] + trial.params["quarter"]

    study = new_study()
    study.optimize(steps, n_trials=25)
    assert study.best_value < 60


def test_a_study_that_maximises_goes_up_and_values_may_be_negative():
    study = new_study(direction="maximize")
    study.optimize(lambda trial: -((trial.suggest_int("x", -20, 20) - 7) ** 2), n_trials=30)
    assert study.best_params == {"x": 7}


def test_failed_and_pruned_trials_are_learned_from():
    def fails(trial):
        x = trial.suggest_int("x", 0, 400)
        if x > 200:
            raise ValueError
        trial.report(x + 1.0, 0)
        if x > 100:
            raise optuna.TrialPruned
        return x + 1.0

    study = new_study(seed=3)
    study.optimize(fails, n_trials=25, catch=ValueError)
    assert study.best_params["x"] <= 10
    failed = sum(trial.params["x"] > 200 for trial in study.trials)
    assert failed < 0.45 * len(study.trials)  # at random: a half, and the first ones are


def test_no_point_is_tried_twice_until_all_were():
    def tiny(trial):
        return 1.0 + trial.suggest_int("x", 0, 3) + trial.suggest_categorical("y", [0, 5])

    study = new_study()
    study.optimize(tiny, n_trials=12)
    points = [tuple(trial.params.values()) for trial in study.trials]
    assert len(set(points[:8])) >= 7  # the first is drawn before the space is known
    assert len(study.trials) == 12


def test_parameters_that_only_some_trials_have_are_drawn():
    def conditional(trial):
        x = trial.suggest_int("x", 1, 10)
        return x + (trial.suggest_float("y", 0.0, 1.0) if x % 2 else 1.0)

    study = new_study()
    study.optimize(conditional, n_trials=15)
    assert study.best_params["x"] <= 2


def test_threads_share_a_study():
    study = new_study()
    study.optimize(objective, n_trials=40, n_jobs=4)
    assert study.best_value < 2.0
    points = [tuple(trial.params.values()) for trial in study.trials[8:]]
    assert len(set(points)) == len(points)


@pytest.mark.slow
def test_a_study_in_a_database_goes_on_where_another_process_left_it(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    new_study(study_name="s", storage=storage).optimize(objective, n_trials=20)
    again = optuna.load_study(study_name="s", storage=storage, sampler=SolKitSampler(seed=1))
    again.optimize(objective, n_trials=20)
    assert again.best_value < 1.5
    late = sorted(trial.value for trial in again.trials[20:])
    assert late[5] < 3.0  # it knew where to look: one in ten of random trials is


def test_the_same_seed_gives_the_same_trials():
    runs = []
    for _ in range(2):
        study = new_study(seed=7)
        study.optimize(objective, n_trials=15)
        runs.append([trial.params for trial in study.trials])
    assert runs[0] == runs[1]


def test_several_objectives_are_refused():
    study = new_study(directions=["minimize", "minimize"])
    with pytest.raises(InputError, match="2 objectives"):
        study.optimize(lambda trial: (trial.suggest_int("x", 0, 9), 1.0), n_trials=2)
