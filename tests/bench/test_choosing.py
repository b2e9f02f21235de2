"""Replaying a collection's choice."""

from __future__ import annotations

import choosing

SPACE = [({"A": a, "B": b}, 1.0 + abs(a - 7) + abs(b - 3)) for a in range(10) for b in range(8)]


def test_each_configuration_comes_once_and_the_good_ones_early():
    found = choosing.searched(SPACE, "seed")
    assert len(found) == max(choosing.TRIALS)
    left = sorted(time_ms for _, time_ms in SPACE)
    for time_ms in found:
        left.remove(time_ms)  # none comes more often than it is there
    assert min(found[:32]) == 1.0
    assert sum(found) < sum(choosing.drawn(SPACE, "seed")[: len(found)])


def test_figures_by_hand():
    space = [({"A": n}, time_ms) for n, time_ms in enumerate([1.0, 1.05, 2.0] + [3.0] * 60)]
    found = [3.0] * 15 + [1.05] + [3.0] * 7 + [1.0] + [3.0] * 30
    figures = choosing.figures(space, found)
    assert [figures[trials][0] for trials in (16, 24)] == [False, True]
    assert [round(figures[trials][1], 6) for trials in (16, 24)] == [1.05, 1.0]


def test_recorded_spaces_hold_their_configurations():
    spaces = list(choosing.recorded(choosing.RECORDED))
    assert len(spaces) > 40
    for space in spaces:
        assert len({choosing.canonical(params) for params, _ in space}) == len(space)
