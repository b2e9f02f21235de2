"""The score at its edges, and what a time says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import ClockKind, Verdict, Work
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.score import score, sol_score, time_verdict

H100 = devices.find("h100-sxm")
# 4 GB read and nothing else: roofline and hard bound agree; 100 MiB written: they differ
READ = bound(Work({}, {}, 4_000_000_000, 0, 4_000_000_000, 0), H100)
FILL = bound(Work({}, {}, 0, 100 << 20, 0, 100 << 20), H100)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (1.0, 1.0),  # at the speed of light
        (0.9, 1.0),
        (2.0, 0.5),  # at the baseline
        (1.5, 1 / 1.5),  # halfway: 1 / (1 + 0.5)
        (5.0, 0.2),  # 1 / (1 + 4)
    ],
)
def test_sol_score(time_ms, expected):
    assert sol_score(time_ms, sol_ms=1.0, baseline_ms=2.0) == pytest.approx(expected)


def test_a_baseline_at_the_speed_of_light_leaves_nothing_to_gain():
    assert sol_score(1.0, 1.0, 1.0) == 1.0
    assert sol_score(1.1, 1.0, 1.0) == 0.0
    assert sol_score(1.1, 1.0, 0.5) == 0.0


def test_gap_and_fraction_are_inverse():
    report = score(READ, 2 * READ.time_ms, 3 * READ.time_ms)
    assert (report.gap, report.fraction_of_sol) == (pytest.approx(2.0), pytest.approx(0.5))
    assert report.gap_calibrated is None


def verdict(time_ms, device=H100):
    return time_verdict(time_ms, FILL.time_ms, FILL.at.hard_ms, device)


def test_verdict_of_a_time():
    between = (FILL.at.hard_ms + FILL.time_ms) / 2
    assert FILL.at.hard_ms < between < FILL.time_ms
    assert verdict(between) is Verdict.BEATS_ALGORITHM
    assert verdict(0.98 * FILL.at.hard_ms) is Verdict.IMPOSSIBLE
    assert verdict(1.01 * FILL.time_ms) is Verdict.CORRECT


def test_nothing_is_impossible_where_the_maximum_clock_is_not_known():
    boost = replace(H100, clock_kind=ClockKind.BOOST)
    assert verdict(0.5 * FILL.at.hard_ms, boost) is Verdict.BEATS_ALGORITHM
