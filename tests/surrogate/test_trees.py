"""Trees and intervals on a law that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("xgboost")

from synthetic import forecast_left_out, table

from solkit.surrogate.conformal_intervals import fit_interval
from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
from solkit.surrogate.evaluation.forecasters import OnTrees, forecast_by_kernel_model
from solkit.surrogate.trees import (
    Belief,
    Settings,
    Trees,
    drawn_rows,
    expect_out_of_family,
    grow_ensemble,
    row_weights,
)

QUICK = Settings(members=2, rounds=40, leaves=8, rate=0.2, columns=1.0, threads=1)
KNOWN, ASKED = table(800), table(400, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return Trees.fit(KNOWN, QUICK)


@pytest.mark.slow
def test_what_the_kernel_model_leaves_is_learned(fitted):
    reported_forecast = fitted.forecast(ASKED)
    assert (
        np.median(np.abs(np.log2(reported_forecast.time_ms / ASKED.time_ms))) < 0.06
    )  # noise: 0.05
    assert np.median(np.abs(np.log2(ASKED.modelled_ms / ASKED.time_ms))) > 0.3


def test_the_interval_holds_nine_in_ten(fitted):
    reported_forecast = fitted.forecast(ASKED)
    inside = (reported_forecast.low_ms <= ASKED.time_ms) & (
        ASKED.time_ms <= reported_forecast.high_ms
    )
    assert 0.84 <= inside.mean() <= 0.96


def test_the_interval_is_wide_where_times_scatter():
    random = np.random.default_rng(2)
    values = random.uniform(size=(4000, 1)).astype(np.float32)
    residuals = np.where(values[:, 0] > 0.5, 2.0, 0.2) * random.normal(size=4000)

    class Means:
        def __init__(self, known_value, target):
            self.means = [
                target[(known_value[:, 0] > 0.5) == upper].mean() for upper in (False, True)
            ]

        def predict(self, request):
            return np.where(request[:, 0] > 0.5, self.means[1], self.means[0])

    interval, _ = fit_interval(values, residuals, np.arange(4000) % 5, Means)
    size = interval.size(np.array([[0.2], [0.8]]))
    low, high = interval.low * size, interval.high * size
    # of a normal residual the 5 % and 95 % quantiles are 1.645 standard deviations away
    assert high == pytest.approx([1.645 * 0.2, 1.645 * 2], rel=0.1)
    assert low == pytest.approx([-1.645 * 0.2, -1.645 * 2], rel=0.1)


def test_families_count_alike_in_an_interval():
    class One:
        def __init__(self, known_value, target):
            pass

        def predict(self, requests):
            return np.zeros(len(requests))

    groups = np.repeat(["many", "few", "fewer"], [900, 9, 9])
    residuals = np.repeat([0.1, 0.5, -0.3], [900, 9, 9])
    interval, _ = fit_interval(np.zeros((918, 1)), residuals, groups, One)
    # each is a third of the weight, so that the tails are those of the families with few rows
    assert (interval.low, interval.high) == (-0.3, 0.5)


@pytest.mark.slow
def test_forecasts_follow_the_seed(fitted):
    again = Trees.fit(KNOWN, QUICK).forecast(ASKED).time_ms
    assert np.array_equal(again, fitted.forecast(ASKED).time_ms)
    assert not np.array_equal(again, Trees.fit(KNOWN, QUICK, seed=1).forecast(ASKED).time_ms)


def test_the_times_of_what_is_asked_are_not_read(fitted):
    hidden = replace(ASKED, time_ms=np.full(len(ASKED), np.nan))
    assert np.array_equal(fitted.forecast(hidden).time_ms, fitted.forecast(ASKED).time_ms)


def test_fast_rows_weigh_more():
    result = table(64, families=1)
    results = row_weights(result, 0.5)
    for name in np.unique(result.about["problem_id"]):
        of = result.about["problem_id"] == name
        assert results[of] == pytest.approx(np.sqrt(result.time_ms[of].min() / result.time_ms[of]))


def test_rows_of_a_kernel_with_many_weigh_less():
    result = table(64, families=1)
    result = result[np.r_[np.arange(64), np.flatnonzero(result.about["kernel_id"] == "kernel0")]]
    results = row_weights(result, 0.0, 1.0)
    assert results.mean() == pytest.approx(1)
    pairs = np.char.add(result.about["kernel_id"], result.about["problem_id"])
    sums = [results[pairs == pair].sum() for pair in np.unique(pairs)]
    assert sums == pytest.approx([24] * 4)  # 96 rows, four kernels and shapes that count alike
    result = result[:64]
    assert row_weights(result, 0.5, 0.0) == pytest.approx(row_weights(result, 0.5))


def test_of_a_kernel_with_many_rows_some_are_learned_from():
    backwards = np.arange(len(KNOWN))[::-1]
    kept = drawn_rows(KNOWN, 10)
    np.testing.assert_array_equal(drawn_rows(KNOWN[backwards], 10), kept[backwards])
    assert kept.sum() == 10 * 32  # of each of 32 kernels at a shape, 25 rows
    few = replace(QUICK, members=1, most=10)
    names, (known_value, *_) = grow_ensemble(KNOWN, few)[:2]
    values = ASKED.values[:, [KNOWN.names.index(name) for name in names]]
    # the law is known from ten of 25: a step of one, where the first feature is above 0
    steps = np.where(values[:, list(names).index(KNOWN.names[0])] > 0, 1.0, 0.0)
    assert np.median(np.abs(known_value.predict(values) - steps)) < 0.1
    every = grow_ensemble(KNOWN, replace(few, most=16))[1][0]
    assert not np.array_equal(known_value.predict(values), every.predict(values))


def test_where_members_differ_the_mean_is_drawn_towards_the_kernel_model():
    parts = np.array([[0.6, 1.0, 0.5, 0.9], [0.6, 0.2, -0.5, 0.1]])
    belief = Belief.from_members(parts, np.array([True, True, True, False]))
    # deviations of two values are their distance / sqrt(2): 0, 0.8 / sqrt(2), 1 / sqrt(2)
    assert belief.spread == pytest.approx([0, 0.5657, 0.7071, 0.5657], abs=1e-4)
    assert belief.mean == pytest.approx(
        [0.6, 0.6 / (1 + 0.32 / 0.16), 0, 0.5]
    )  # the last is not modelled
    alone = Belief.from_members(
        parts[:1], belief.modelled
    )  # a single member has nobody to differ from
    assert list(alone.mean) == [0.6, 1.0, 0.5, 0.9]


def test_no_member_knows_all_families_and_each_family_is_known_to_some():
    families = KNOWN.about["family"]
    shifted = replace(KNOWN, time_ms=KNOWN.time_ms * np.where(families == families[0], 4.0, 1.0))
    rows = families == families[0]
    names, members = grow_ensemble(shifted, QUICK)
    values = shifted.values[rows][:, [shifted.names.index(name) for name in names]]
    normal, slow = (
        np.array([np.median(item.predict(values)) for item in forest])
        for forest in (grow_ensemble(KNOWN, QUICK)[1], members)
    )
    # one of the two has learned from the family that it takes longer, the other has not
    gained = np.sort(slow - normal)
    assert abs(gained[0]) < 0.05
    assert gained[1] > 0.1


def test_what_is_said_of_a_left_out_family_does_not_depend_on_its_times():
    families = KNOWN.about["family"]
    rows = families == families[0]
    shifted = replace(KNOWN, time_ms=KNOWN.time_ms * np.where(rows, 4.0, 1.0))
    for settings in (QUICK, replace(QUICK, members=1)):
        before, after = (
            expect_out_of_family(KNOWN, settings),
            expect_out_of_family(shifted, settings),
        )
        assert np.array_equal(before.member_mean[rows], after.member_mean[rows])
        assert not np.array_equal(before.member_mean[~rows], after.member_mean[~rows])
    assert before.spread.max() == 0


def test_of_a_single_family_nothing_is_expected_that_was_learned_from_it():
    alone = KNOWN[KNOWN.about["family"] == KNOWN.about["family"][0]]
    for settings in (QUICK, replace(QUICK, members=1)):
        assert not expect_out_of_family(alone, settings).member_mean.any()
        assert all(item.predict(alone.values).any() for item in grow_ensemble(alone, settings)[1])


def test_what_was_only_captured_is_relative_to_a_rough_time():
    names = (*KNOWN.names, "tiles.all_gap")
    values = np.column_stack([KNOWN.values, np.resize([2, 20, -1, np.nan], len(KNOWN))])
    rough = replace(KNOWN, names=names, values=values)
    assert np.array_equal(rough.base_ms, KNOWN.modelled_ms)
    captured = replace(rough, modelled_ms=np.full(len(KNOWN), np.nan))
    # the root of the gap, which is taken to be between 1 and 64
    assert captured.base_ms[:4] == pytest.approx(KNOWN.sol_ms[:4] * [2, 8, 1, 1])


def test_features_may_be_left_out():
    assert Trees.fit(KNOWN, replace(QUICK, leave_out=("machine",))).names == (
        "model.a",
        "requests.c",
    )


@pytest.mark.slow
def test_an_evaluation_beats_the_kernel_model_on_families_left_out():
    ours, bare = (
        evaluate_forecasts(KNOWN, forecast_left_out(KNOWN, "families", f))
        for f in (OnTrees(QUICK, 0), forecast_by_kernel_model)
    )
    assert ours.pools["problem"].spearman_median > bare.pools["problem"].spearman_median + 0.05
    assert ours.time_error < 0.75 * bare.time_error
    assert 0.84 <= ours.coverage.share <= 0.96
    assert np.isnan(bare.coverage.share)


def test_every_row_is_forecast_by_a_model_that_did_not_know_it():
    seen = []

    def spying(known_value, request):
        seen.append((set(known_value.about["family"]), set(request.about["family"])))
        return forecast_by_kernel_model(known_value, request)

    forecast_left_out(KNOWN, "families", spying)
    assert all(not known_value & request for known_value, request in seen)
