"""The lower confidence bound, against scipy where it is and by hand."""

from __future__ import annotations

import pytest

from solkit.measure.sensitivity.needed import lower_bound


def test_all_of_n_is_the_nth_root_of_the_risk():
    assert lower_bound(256, 256, 1e-6) == pytest.approx(1e-6 ** (1 / 256))


def test_none_and_few():
    assert lower_bound(0, 256, 1e-6) == 0.0
    assert lower_bound(1, 10, 0.05) == pytest.approx(1 - 0.95**0.1)  # 1 - (1 - p)^10 = 0.05


def test_half_of_many_from_a_table():
    # the 95 % two-sided interval of 10 in 20 starts at 0.2720: Clopper and Pearson's own charts
    assert lower_bound(10, 20, 0.025) == pytest.approx(0.2720, abs=5e-5)
