"""The ratio of two candidates' times: figures from tables and from simulated GPUs."""

from __future__ import annotations

import itertools
import math
import random
from statistics import median

import pytest

from solkit.core import Difference, Ratio
from solkit.measure.timing import comparison_statistics
from solkit.measure.timing.comparison_statistics import compute_ratio, difference, half_width


@pytest.fixture
def exact(monkeypatch):
    """A method whose clock has no steps, and kernels that are quite like themselves."""
    monkeypatch.setattr(comparison_statistics, "LIKENESS", 0.0)
    monkeypatch.setitem(comparison_statistics.TICK_MS, "cupti", 0.0)


# Critical values of Wilcoxon's signed-rank statistic, two-sided 5 %, as textbooks have them: the
# statistic that is just still significant is C - 1.
@pytest.mark.parametrize(
    ("count", "critical"), [(6, 0), (7, 2), (8, 3), (10, 8), (20, 52), (25, 89)]
)
def test_ranks_are_those_of_the_tables(count, critical):
    assert comparison_statistics._signed_rank_limit(count) == critical + 1


@pytest.mark.parametrize("count", [26, 40, 100])
def test_the_approximation_errs_by_a_rank_or_two_on_the_safe_side(monkeypatch, count):
    approximate = comparison_statistics._signed_rank_limit(count)
    monkeypatch.setattr(comparison_statistics, "_MOST_EXACT", 1000)
    assert 0 <= comparison_statistics._signed_rank_limit(count) - approximate <= 2


def test_fewer_than_six_turns_show_nothing():
    ratio = compute_ratio([2.0] * 5, [1.0] * 5)
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.0, math.inf)
    assert difference(ratio) is Difference.NOT_SHOWN
    assert difference(compute_ratio([2.0] * 6, [1.0] * 6)) is Difference.FASTER


@pytest.mark.usefixtures("exact")
def test_the_interval_is_what_the_test_does_not_reject():
    """By brute force: a ratio is rejected where its signed ranks are among the rarest 5 %."""
    base = [1.0] * 8
    candidate = [1.013, 0.972, 1.051, 1.094, 1.022, 1.067, 0.995, 1.038]
    logs = [math.log(b) for b in candidate]

    def p_value(shift):
        moved = [d - shift for d in logs]
        places = sorted(range(8), key=lambda i: abs(moved[i]))
        rank = {i: place + 1 for place, i in enumerate(places)}
        positive = sum(rank[i] for i in range(8) if moved[i] > 0)
        smaller = min(positive, 36 - positive)
        sums = [sum(chosen) for n in range(9) for chosen in itertools.combinations(range(1, 9), n)]
        return 2 * sum(total <= smaller for total in sums) / 2**8

    ratio = compute_ratio(base, candidate)
    for inside in (ratio.low * 1.0001, ratio.value, ratio.high * 0.9999):
        assert p_value(math.log(inside)) > 0.05
    for outside in (ratio.low * 0.9999, ratio.high * 1.0001):
        assert p_value(math.log(outside)) <= 0.05
    walsh = [(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]]
    assert ratio.value == pytest.approx(math.exp(median(walsh)))


def test_the_interval_is_widened_by_what_turns_cannot_tell():
    ratio = compute_ratio([0.002] * 50, [0.002] * 50)  # 2 µs: a tick of 32 ns is 1.6 %
    assert ratio.resolution == pytest.approx(0.004 + 0.016 / 4)
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(-0.008), math.exp(0.008)))
    assert (ratio.value, ratio.turns) == (1.0, 50)
    assert compute_ratio([20.0] * 50, [20.0] * 50).resolution == pytest.approx(0.004, rel=1e-3)
    short = [0.005] * 50
    assert compute_ratio(short, short, "events").resolution == pytest.approx(0.029)
    assert compute_ratio(short, short, "graph replay").resolution == pytest.approx(0.00525)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.9, 0.999, Difference.FASTER),
        (0.9, 1.0, Difference.NOT_SHOWN),
        (1.0, 1.1, Difference.NOT_SHOWN),
        (1.001, 1.1, Difference.SLOWER),
    ],
)
def test_a_difference_is_shown_where_the_interval_leaves_one_out(low, high, shown):
    assert difference(Ratio((low + high) / 2, low, high, 0.0, 20)) is shown


@pytest.mark.parametrize("times", [([], []), ([1.0], [1.0, 2.0])])
def test_times_without_a_partner(times):
    with pytest.raises(ValueError, match="are not pairs"):
        compute_ratio(*times)


# ------------------------------------------------------------------- simulated GPUs


def run(generator, ratio, turns=60, drift=0.3, second=0.02, noise=0.01, spikes=0.05):
    """Times of a base and of a candidate that takes `ratio` as long.

    The clock falls by `drift` while they are taken; whoever comes second in a turn takes less by
    `second`; each time has noise; a few are doubled.
    """
    taken = [], []
    for turn in range(turns):
        clock = 1 - drift * turn / turns * (1 + 0.2 * math.sin(turn))
        for place, which in enumerate(generator.sample((0, 1), k=2)):
            time_ms = (1.0, ratio)[which] / clock * (1 - second * place)
            time_ms *= math.exp(generator.gauss(0, noise))
            taken[which].append(time_ms * (2 if generator.random() < spikes else 1))
    return taken


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("ratio", [0.5, 0.97, 1.0, 1.04])
def test_intervals_hold_the_ratio_through_drift_and_spikes(ratio):
    generator = random.Random(1)
    ratios = [compute_ratio(*run(generator, ratio)) for _ in range(200)]
    held = sum(item.low <= ratio <= item.high for item in ratios)
    assert held >= 182  # of 200 at 95 %: fewer have a chance under 1 %
    assert median(ratio.value for ratio in ratios) == pytest.approx(ratio, rel=0.002)


@pytest.mark.usefixtures("exact")
def test_medians_alone_would_be_misled():
    """What pairing is for: the same drift, but one candidate after the other."""
    base, candidate = run(random.Random(1), 1.0, turns=120)
    assert difference(compute_ratio(base[:60], base[60:])) is Difference.SLOWER
    assert difference(compute_ratio(base, candidate)) is Difference.NOT_SHOWN


def test_a_kernel_is_hardly_ever_faster_than_itself():
    generator = random.Random(2)
    claims = [difference(compute_ratio(*run(generator, 1.0))) for _ in range(300)]
    assert claims.count(Difference.NOT_SHOWN) >= 297


def test_claims_are_true_and_made():
    generator = random.Random(3)
    claims = [difference(compute_ratio(*run(generator, 0.97))) for _ in range(100)]
    assert claims.count(Difference.FASTER) >= 95
    assert Difference.SLOWER not in claims


def test_more_turns_make_it_surer():
    generator = random.Random(4)
    few, many = (half_width(*run(generator, 1.0, turns=n)) for n in (20, 320))
    assert many == pytest.approx(few / 4, rel=0.5)
