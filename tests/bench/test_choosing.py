"""Replaying a collection's choice."""

from __future__ import annotations

import sys
from pathlib import Path

import choosing

sys.path.insert(0, str(Path(__file__).parents[1] / "measure" / "benches"))

from recordings import outcome


def space_of(timed):
    """The recording of configurations with their times."""
    return [
        outcome(n, params=params, time_ms=time_ms, shape={"N": 1})
        for n, (params, time_ms) in enumerate(timed)
    ]


SPACE = space_of(
    [({"A": a, "B": b}, 1.0 + abs(a - 7) + abs(b - 3)) for a in range(10) for b in range(8)]
)


def test_each_configuration_comes_once_and_the_good_ones_early():
    results = choosing.searched(SPACE, "seed")
    assert len(results) == max(choosing.TRIALS)
    remaining_times = sorted(choosing.times(SPACE))
    for time_ms in results:
        remaining_times.remove(time_ms)  # none comes more often than it is there
    assert min(results[:32]) == 1.0
    assert sum(results) < sum(choosing.drawn(SPACE, "seed")[: len(results)])


def test_drawing_takes_each_once():
    results = choosing.drawn(SPACE, "seed")
    assert sorted(results) == sorted(choosing.times(SPACE))
    assert results != choosing.drawn(SPACE, "other")


def test_figures_by_hand():
    times_ms = [1.0, 1.05, 2.0] + [3.0] * 60
    space = space_of([({"A": n}, time_ms) for n, time_ms in enumerate(times_ms)])
    result = [3.0] * 15 + [1.05] + [3.0] * 7 + [1.0] + [3.0] * 30
    figures = choosing.figures(space, result)
    assert [figures[trials][0] for trials in (16, 24)] == [False, True]
    assert [round(figures[trials][1], 6) for trials in (16, 24)] == [1.05, 1.0]


def test_recorded_spaces_hold_their_configurations():
    spaces = list(choosing.spaces(choosing.RECORDED))
    assert len(spaces) == 63
    assert sum(map(len, spaces)) == 2202
