"""Windows that slide over an axis, against counting every pair."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solkit.roofline.work.windows import Window, meet


def counted(narrow, wide, window):
    pairs, seen = 0, (np.zeros_like(narrow), np.zeros_like(wide), np.zeros(window.size, bool))
    for place in np.flatnonzero(narrow):
        for tap in range(window.size):
            reached = place * window.stride - window.padding + tap * window.dilation
            if 0 <= reached < wide.size and wide[reached]:
                pairs += 1
                seen[0][place] = seen[1][reached] = seen[2][tap] = True
    return pairs, *seen


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_what_meets(share):
    chance = random.Random(0)
    for _ in range(300):
        sizes = [chance.randint(1, most) for most in (9, 6, 9, 5)]
        window = Window(sizes[0], sizes[1], sizes[2] - 1, sizes[3])
        narrow, wide = (
            np.array([chance.random() < share for _ in range(chance.randint(1, most))])
            for most in (20, 40)
        )
        result = meet(narrow, wide, window)
        pairs, *seen = counted(narrow, wide, window)
        assert result.pairs == pairs
        for got, expected in zip((result.narrow, result.wide, result.taps), seen, strict=True):
            assert (got == expected).all()


def test_many_taps_over_a_long_line_are_not_gone_through():
    places, taps = 1 << 22, 1 << 16  # 2^38 pairs
    line = np.ones(places, bool)
    result = meet(line, line, Window(taps, 1, 0))
    assert result.pairs == taps * (2 * places - taps + 1) // 2  # each tap misses as many at the end
    assert result.narrow.all()
    assert result.taps.all()
    assert result.wide.all()
