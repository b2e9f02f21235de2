"""What is measured next, and what measurements say of the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from solkit.core import Configuration, Forecast, Order
from solkit.surrogate.out_of_distribution import VarianceComponents
from solkit.tuner.evolution import Frontier, Point, Shares

SD = 0.5


def point(variant, block, mean=0.0, sd=SD, p_fail=0.0):
    configuration = Configuration(f"{variant}.py", "kernel", {}, {"BLOCK": block})
    return Point(variant, configuration, mean, sd, p_fail)


def measured(frontier, points, times):
    frontier.add(points)
    for point, time_ms in zip(points, times, strict=True):
        frontier.tell(point, time_ms)


def test_a_forecast_is_read_as_a_normal_belief():
    configuration = Configuration("a.py", "kernel")
    forecast = Forecast(4.0, 2.0, 8.0, 0.25, False)
    result = Point.of("a", configuration, forecast, otherwise_ms=1.0)
    assert result.mean == 2.0
    assert result.sd == pytest.approx(1 / norm.ppf(0.95), rel=1e-3)
    assert result.p_fail == 0.25


def test_what_nothing_is_known_of_is_expected_to_take_as_long_as_its_parent():
    nothing = Forecast(None, None, None, 0.0, True)
    result = Point.of("a", Configuration("a.py", "kernel"), nothing, otherwise_ms=0.5)
    assert result.mean == -1.0
    assert result.sd > 0.2


def test_shares_add_up_to_one_and_follow_the_scatter():
    shares = Shares.of(VarianceComponents(family=0.5, kernel=0.7, cell=0.3, rest=1.5))
    assert shares.problem + shares.variant + shares.rest == pytest.approx(1)
    assert shares.variant == pytest.approx(2 * shares.problem)
    assert shares.rest == pytest.approx(3 * shares.problem)


def test_the_belief_is_that_of_a_gaussian_process_by_hand():
    shares = Shares(0.2, 0.3, 0.5)
    frontier = Frontier(shares=shares)
    known_point, sibling = point("a", 1, 0.0, 0.4), point("a", 2, 0.5, 0.6)
    other, twin = point("b", 3, 1.0, 0.8), point("c", 1, 0.33, 0.6)
    measured(frontier, [known_point], [2.0])  # a residual of 1
    requests = [known_point, other, sibling, twin]
    frontier.add(requests)
    mean, sd = frontier.believed(requests)
    inner = 0.4**2 + 0.02**2
    apart = [0.5 * 0.7 * math.exp(-difference / 0.33) for difference in (1.0, 0.5)]
    likeness = [1.0, 0.2 + apart[0], 0.5 + apart[1], 0.2 + 0.5 / math.e]
    for at, (item, share) in enumerate(zip(requests, likeness)):
        across = item.sd * 0.4 * share
        assert mean[at] == pytest.approx(item.mean + across / inner)
        assert sd[at] == pytest.approx(math.sqrt(item.sd**2 - across**2 / inner), rel=1e-6)


def test_the_largest_expected_improvement_is_chosen():
    frontier = Frontier(shares=Shares(0.0, 0.0, 1.0))
    measured(frontier, [point("first", 1)], [1.0])
    options = [point("a", 2, -0.1, 0.01), point("b", 2, 0.1, 1.0), point("c", 2, 0.5, 0.4)]
    frontier.add(options)
    ahead = [-option.mean for option in options]
    by_hand = [a * norm.cdf(a / e.sd) + e.sd * norm.pdf(a / e.sd) for a, e in zip(ahead, options)]
    assert frontier.choose() == options[int(np.argmax(by_hand))]
    assert frontier.gain() == pytest.approx(1 - 2 ** -sorted(by_hand)[-2], rel=1e-6)


def test_whatever_is_learnt_counts_at_once():
    first, *options = [point(name, 1, mean) for name, mean in zip("fabcd", (0, -0.3, -0.2, 0, 0.1))]
    steps = [
        lambda frontier: measured(frontier, [first], [1.0]),
        lambda frontier: frontier.add(options),
        lambda frontier: frontier.refine(replace(options[0], mean=0.2, sd=0.1)),
        lambda frontier: frontier.tell(options[1], 0.7),
        lambda frontier: frontier.tell(options[2], None),
        lambda frontier: frontier.dismiss(options[0]),
        lambda frontier: frontier.drop("d"),
    ]
    queried, gains = Frontier(), []
    for number, step in enumerate(steps, start=1):
        step(queried)
        gains.append(queried.gain())
        fresh = Frontier()
        for earlier in steps[:number]:
            earlier(fresh)
        assert (gains[-1], queried.foremost()) == (fresh.gain(), fresh.foremost())
    assert len(set(gains[1:])) > 3


def test_the_chance_of_something_better_is_that_of_a_normal_by_hand():
    frontier = Frontier(shares=Shares(0.0, 0.0, 1.0))
    measured(frontier, [point("first", 1)], [1.0])
    frontier.add([point("a", 2, 0.3, 0.4)])
    by_hand = norm.cdf((math.log2(0.98) - 0.3) / 0.4)
    assert frontier.better_chance() == pytest.approx(by_hand, abs=0.04)


def test_candidates_that_err_alike_count_as_one():
    alike, apart = Frontier(shares=Shares(1.0, 0.0, 0.0)), Frontier(shares=Shares(0.0, 0.0, 1.0))
    for frontier in (alike, apart):
        measured(frontier, [point("first", 1, 0.0, 1e-3)], [1.0])
        frontier.add([point(f"v{n}", 2 + n, 0.5, 0.5) for n in range(20)])
    one = norm.cdf((math.log2(0.98) - 0.5) / 0.5)
    assert alike.better_chance() == pytest.approx(one, abs=0.05)
    common = 0.5 * math.sqrt(0.7) * np.random.default_rng(0).normal(size=100_000)
    none = norm.sf((math.log2(0.98) - 0.5 - common) / (0.5 * math.sqrt(0.3))) ** 20
    assert apart.better_chance() == pytest.approx(1 - none.mean(), abs=0.05)


def test_nothing_better_is_left_where_nothing_is_left():
    frontier = Frontier()
    assert frontier.better_chance() == 0.0
    frontier.add([point("a", 1)])
    assert frontier.better_chance() == 1.0


def test_the_least_time_follows_what_others_took_of_their_forecasts():
    frontier, twin = Frontier(shares=Shares(0.2, 0.3, 0.5)), point("b", 1, mean=1.0)
    alone = frontier.least_ms([twin])[0]
    assert alone == pytest.approx(2.0 ** (1.0 - norm.ppf(0.95) * SD), rel=1e-3)
    measured(frontier, [point("a", 1, mean=1.0)], [1.0])  # half of its forecast
    mean, sd = frontier.believed([twin])
    assert mean[0] == pytest.approx(1.0 - 0.7, abs=0.01)  # seven tenths are in common
    assert frontier.least_ms([twin])[0] == pytest.approx(
        2.0 ** (mean[0] - norm.ppf(0.95) * sd[0]), rel=1e-3
    )
    assert frontier.least_ms([]) == []


def test_a_variant_is_not_given_up_for_want_of_memory():
    frontier = Frontier()
    points = [point("a", block) for block in range(8)]
    frontier.add(points)
    for item in points[:5]:
        frontier.tell(item, None, is_telling=False)
    assert len(frontier.remaining()) == 3
    for item in points[5:7]:
        frontier.tell(item, None)
    assert len(frontier.remaining()) == 1


def test_a_variant_that_changes_nothing_is_not_measured_after_one_that_disappointed():
    frontier = Frontier()
    tiled = [point(name, 64, -1.0, 0.5) for name in ("retile", "hoist", "constants")]
    untried = point("split", 32, -0.6, 0.5)
    measured(frontier, [point("original", 1)], [1.0])
    frontier.add([*tiled, untried])
    assert frontier.choose() in tiled
    frontier.tell(tiled[0], 2.0)  # forecast: 0.5
    assert frontier.choose() == untried


def test_before_anything_is_measured_the_lowest_forecast_comes_first():
    frontier = Frontier()
    frontier.add([point("a", 1, 1.0), point("b", 1, -1.0), point("c", 1, 0.0)])
    assert frontier.choose().variant == "b"


def test_what_may_fail_counts_less_and_what_must_fail_is_never_chosen():
    frontier = Frontier(shares=Shares(0, 0, 1))
    measured(frontier, [point("first", 1)], [1.0])
    frontier.add([point("a", 1, -0.2, 0.1, p_fail=0.9), point("b", 1, -0.1, 0.1)])
    frontier.add([point("c", 1, -5.0, 0.1, p_fail=1.0)])
    assert [frontier.choose().variant for _ in range(2)] == ["b", "a"]
    assert frontier.choose() is None


def test_nothing_is_chosen_twice_and_in_the_end_everything_is():
    frontier = Frontier(seed=1)
    points = [point(name, block, 0.1 * block) for name in "abc" for block in range(5)]
    frontier.add(points)
    chosen = []
    while (item := frontier.choose()) is not None:
        chosen.append(item.key)
        frontier.tell(item, 1.0 + len(chosen))
    assert sorted(chosen) == sorted(point.key for point in points)


def test_a_failure_makes_others_of_its_variant_less_likely_to_work():
    frontier = Frontier()
    measured(frontier, [point("base", 1, 0.0)], [1.0])
    frontier.add([point("a", n, -0.4, 0.1) for n in range(6)])
    frontier.add([point("b", 1, -0.3, 0.1)])
    first = frontier.choose()
    assert first.variant == "a"
    frontier.tell(first, None)  # 0.4 * 1/2 against 0.3
    second = frontier.choose()
    assert second.variant == "b"
    frontier.tell(second, 2**-0.1)
    third = frontier.choose()
    frontier.tell(third, 2**-0.11)  # one of two works
    assert third.variant == "a"
    chance = frontier._works_chance(frontier.remaining()[0])
    assert chance == pytest.approx(2 / 3)


def test_a_variant_is_given_up_after_three_failures_with_no_success():
    frontier = Frontier()
    bad = [point("bad", block, -3.0) for block in range(5)]
    good = [point("good", block, 0.0) for block in range(5)]
    measured(frontier, [*bad[:3], good[0]], [None, None, None, 1.0])
    frontier.add([*bad, *good])
    assert {items.variant for items in frontier.remaining()} == {"good"}
    for item in good[1:4]:
        frontier.tell(item, None)
    assert [items.variant for items in frontier.remaining()] == ["good"]


def test_random_order_ignores_forecasts_and_follows_the_seed():
    def first(seed):
        frontier = Frontier(Order.RANDOM, seed)
        frontier.add([point(str(n), 1, float(n)) for n in range(20)])
        return [frontier.choose().variant for _ in range(20)]

    assert first(1) == first(1) != first(2)
    starts = {first(seed)[0] for seed in range(40)}
    assert len(starts) > 10


def test_one_choice_in_seven_goes_to_a_variant_that_was_not_measured():
    frontier = Frontier(shares=Shares(0, 0, 1), seed=3)
    measured(frontier, [point("known", 0)], [1.0])
    frontier.add([point("known", block, -1.0, 0.5) for block in range(1, 30)])
    frontier.add([point("new", block, 5.0, 0.01) for block in range(3)])
    chosen = []
    for _ in range(7):
        chosen.append(frontier.choose())
        frontier.tell(chosen[-1], 1.0)
    assert [choice.variant for choice in chosen] == ["known"] * 6 + ["new"]


def test_a_forecast_that_comes_after_the_measurement_is_used():
    frontier = Frontier(shares=Shares(0.0, 0.5, 0.5))
    frontier.tell(point("a", 1, 0.0, 0.0), 2.0)
    frontier.add([point("a", 1, 0.0, 0.5), point("a", 2, 0.0, 0.5)])
    mean, _ = frontier.believed(frontier.remaining())
    assert mean[0] == pytest.approx((0.5 + 0.5 * 0.7) * 0.25 / (0.25 + 0.02**2))


def test_a_time_beyond_all_errors_is_a_fault_of_its_variants_forecasts_and_of_its_childrens():
    lineages = {"a": ("a",), "child": ("child", "a"), "b": ("b",)}
    shares = Shares(0.0, 1.0, 0.0)
    frontier = Frontier(shares=shares, lineage=lineages.__getitem__)
    points = [point("a", 1, -4.0), point("a", 2, -4.0), point("child", 3, -4.0), point("b", 4, -4)]
    frontier.add(points)
    frontier.tell(points[0], 1.0)  # 16 times the forecast: 4, of which 3 SD are an error
    mean, _ = frontier.believed(points[1:])
    shrunk = SD**2 / (SD**2 + 0.02**2)
    assert mean == pytest.approx([-4 + 2.5 + 1.5 * shrunk, -4 + 2.5, -4.0])
    assert frontier.foremost()[0].variant == "b"
    frontier.tell(points[1], 0.125)  # an error explains this one: nothing is left in common
    assert frontier.believed([points[2]])[0] == pytest.approx([-4.0])


def test_faults_of_either_sign_count_and_cancel():
    frontier = Frontier(shares=Shares(0.0, 0.0, 1.0))
    points = [point("a", block) for block in (1, 2, 3)]
    measured(frontier, points[:1], [2.0**-4])
    shrunk = 0.7 * SD**2 / (SD**2 + 0.02**2)
    assert frontier.believed(points[1:2])[0] == pytest.approx([-2.5 - 1.5 * shrunk])
    measured(frontier, points[1:2], [2.0**4])
    assert frontier.believed(points[2:])[0] == pytest.approx([0.0])


def test_what_is_hopeless_is_made_ready_after_all_that_is_not():
    """A wide interval may promise more than a candidate that is surely about as fast."""
    frontier, first = Frontier(), point("a", 1, 0.0, 0.01)
    wide, sure = point("a", 2, 1.5, 2.0), point("a", 3, 0.01, 0.01)
    frontier.add([first, wide, sure])
    frontier.tell(first, 1.0)
    assert frontier.gain(lambda one: one is wide) > frontier.gain(lambda one: one is sure) > 0
    assert frontier.foremost() == [sure, wide]


def test_hopeless_is_what_is_expected_to_take_twice_the_best_time():
    frontier = Frontier(shares=Shares(0.0, 1.0, 0.0))
    slow, fast, other = point("a", 1, 1.2), point("b", 1, 0.9), point("a", 2, 1.2)
    frontier.add([slow, fast, other])
    assert not frontier.is_hopeless(slow)  # no time is known
    measured(frontier, [point("first", 1)], [1.0])
    assert (frontier.is_hopeless(slow), frontier.is_hopeless(fast)) == (True, False)
    frontier.tell(other, 1.9)  # its variant is faster than forecast
    assert not frontier.is_hopeless(slow)


def test_what_compiling_one_candidate_showed_is_expected_of_those_that_are_alike():
    shares = Shares(0.2, 0.3, 0.5)
    frontier = Frontier(shares=shares)
    first, alike, other = point("a", 1, 0.0), point("b", 1, 0.0), point("c", 2, 9.0)
    frontier.add([first, alike, other])
    refined = replace(first, mean=3.0, sd=0.25)
    frontier.refine(refined)
    mean, sd = frontier.believed([refined, alike, other])
    observed = SD**2 + 0.25**2  # the residual's variance: that of the first forecast, and noise
    assert mean == pytest.approx([3.0, 3 * 0.7 * SD**2 / observed, 9 + 3 * 0.2 * SD**2 / observed])
    assert sd[0] == 0.25
    assert sd[1] == pytest.approx(math.sqrt(SD**2 - (0.7 * SD**2) ** 2 / observed))


def test_a_refined_forecast_counts_until_the_candidate_is_timed_and_what_is_dismissed_is_left_out():
    frontier = Frontier()
    fast, slow = point("a", 1, 0.0), point("b", 2, 1.0)
    frontier.add([fast, slow])
    frontier.refine(replace(fast, mean=2.0))
    assert frontier.foremost() == [slow, replace(fast, mean=2.0)]
    frontier.dismiss(slow)
    assert frontier.remaining() == [replace(fast, mean=2.0)]
    frontier.tell(fast, 4.0)
    frontier.refine(replace(fast, mean=9.0))
    assert frontier.believed([replace(fast, mean=2.0)])[0] == pytest.approx([2.0])


def test_what_is_as_large_as_some_that_took_too_long_to_compile_is_hopeless_and_comes_last():
    def sized(block, warps):
        params = {"BLOCK": block, "num_warps": warps, "num_stages": block}
        return Point("a", Configuration("a.py", "kernel", {}, params), 0.0, SD)

    small, large, spread, other = sized(32, 4), sized(256, 4), sized(256, 32), point("b", 256)
    frontier = Frontier()
    frontier.add([large, small, spread, other])
    frontier.tell_endless(sized(64, 4))
    assert not frontier.is_hopeless(large)  # one may have had to wait for a core
    frontier.tell_endless(sized(128, 4))
    assert [p for p in (large, small, spread, other) if frontier.is_hopeless(p)] == [large]
    assert frontier.foremost()[-1] == large
    frontier.refine(large)  # it was compiled
    assert not frontier.is_hopeless(large)
