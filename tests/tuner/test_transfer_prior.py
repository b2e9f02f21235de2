from __future__ import annotations

import math

import numpy as np
import pytest
from tuning_rows import SHAPE, row

from solkit.core import Verdict
from solkit.tuner.transfer_prior import CompositePrior, TransferPrior, shape_distance

SMALL, LARGE = {"M": 1024}, {"M": 4096}


def points(*blocks):
    return [{"B": block} for block in blocks]


def test_what_was_measured_at_the_target_is_told_as_it_is():
    known_prior = TransferPrior(
        [row({"B": 64}, 0.5, shape=SMALL), row({"B": 64}, 2.0, shape=SMALL)], SMALL, "h100-sxm"
    )
    mean, deviation = known_prior.log2_ms(points(64, 128))
    assert mean[0] == pytest.approx(math.log2(1.25))
    assert deviation[0] < 0.05
    assert np.isnan(mean[1])
    assert np.isnan(deviation[1])
    assert known_prior.measured == (({"B": 64}, 1.25),)
    assert len(known_prior) == 1


def test_times_of_another_shape_are_carried_over_by_the_roofline():
    rows = [row({"B": b}, ms, shape=SMALL, bound_ms=0.5) for b, ms in ((64, 1.0), (128, 2.0))]
    mean, deviation = TransferPrior(rows, LARGE, "h100-sxm", bound_ms=2.0).log2_ms(points(64, 128))
    assert mean == pytest.approx([math.log2(4.0), math.log2(8.0)])
    assert deviation[0] == pytest.approx(math.sqrt(0.02**2 + 0.04 * 2))  # two doublings


def test_another_gpu_says_more_than_another_shape():
    one = {"B": 64}
    there = TransferPrior([row(one, 1.0, shape=LARGE, device="h200")], LARGE, "h100-sxm")
    other = TransferPrior([row(one, 1.0, shape=SMALL)], LARGE, "h100-sxm")
    assert there.log2_ms([one])[1] < other.log2_ms([one])[1] / 3


def test_cells_that_saw_only_good_points_do_not_make_them_look_worse():
    """Three shapes of one law a(c) + b(p): the far one alone saw the slow points."""
    law = {16: 4.0, 32: 2.0, 64: 1.0, 128: 0.5}
    rows = [row({"B": b}, ms * 8, shape={"M": 8192}, bound_ms=None) for b, ms in law.items()]
    rows += [row({"B": b}, law[b], shape={"M": 2048}, bound_ms=None) for b in (64, 128)]
    known_prior = TransferPrior(rows, {"M": 2048}, "h100-sxm")
    mean, _ = known_prior.log2_ms(points(*law))
    assert mean == pytest.approx([2, 1, 0, -1], abs=1e-6)
    assert known_prior.seeds(2) == points(128, 64)


def test_what_nothing_ties_together_keeps_its_gap():
    rows = [
        row({"B": 16}, 3.0, shape=SMALL, bound_ms=1.0),
        row({"B": 32}, 4.0, shape={"M": 2048}, bound_ms=2.0),
    ]
    known_prior = TransferPrior(rows, LARGE, "h100-sxm", bound_ms=4.0)
    assert known_prior.seeds(9) == points(32, 16)
    assert known_prior.log2_ms(points(16, 32))[0] == pytest.approx([math.log2(12), math.log2(8)])


def test_failures_make_failing_likely_and_no_seed():
    rows = [
        row({"B": 16}, 1.0, shape=SMALL),
        row({"B": 32}, None, shape=SMALL, verdict=Verdict.OUT_OF_MEMORY),
        row({"B": 8}, 0.5, shape={"M": 512}),
        row({"B": 8}, None, shape=SMALL),
        row({"B": 8}, None, shape=SMALL),
    ]
    known_prior = TransferPrior(rows, SMALL, "h100-sxm")
    chances = known_prior.fails(points(16, 32, 64))
    assert chances[0] < 0.25
    assert chances[1] > 0.8
    assert chances[2] == pytest.approx(3 / 5)
    assert known_prior.seeds(5) == points(16)


def test_a_failure_far_away_says_less():
    rows = [row({"B": 16}, 1.0, shape=SMALL), row({"B": 32}, None, shape=SMALL)]
    near = TransferPrior(rows, SMALL, "h100-sxm").fails(points(32))
    far = TransferPrior(rows, {"M": 2**20}, "h200").fails(points(32))
    assert near > far > 0.5  # half of all failed


def test_nothing_known_is_nothing_believed():
    known_prior = TransferPrior([], SMALL, "h100-sxm")
    assert np.isnan(known_prior.log2_ms(points(1))[0]).all()
    assert known_prior.fails(points(1)) == 0
    assert known_prior.seeds(3) == []
    assert known_prior.measured == ()


@pytest.mark.parametrize(
    ("shape", "other", "doublings"),
    [
        ({"M": 1024, "N": 8}, {"M": 4096, "N": 8}, 2),
        ({"M": 4096}, {"M": 1024}, 2),
        ({"M": 1024, "dtype": "bfloat16"}, {"M": 1024, "dtype": "float16"}, 2),
        ({"M": 1024, "causal": True}, {"M": 1024}, 0),
        ({}, {"M": 4}, 2),
        ({"causal": True}, {"causal": False}, 2),
        ({"M": 0}, {"M": 4}, 2),
    ],
)
def test_distance_is_in_doublings(shape, other, doublings):
    assert shape_distance(shape, other) == doublings


class Flat:
    """A belief in times of 8 ms and in failing."""

    def log2_ms(self, points):
        return np.full(len(points), 3.0), np.full(len(points), 0.5)

    def fails(self, points):
        return np.full(len(points), 0.9)


def test_where_nothing_is_known_another_belief_holds_at_the_known_level():
    known_prior = TransferPrior(
        [row({"B": 16}, 1.0), row({"B": 32}, 4.0), row({"B": 8}, None)], SHAPE, "h100-sxm"
    )
    both = CompositePrior(known_prior, Flat())
    mean, deviation = both.log2_ms(points(16, 32, 64))
    assert mean == pytest.approx([0, 2, 1])  # 3 less the median of 3 - 0 and 3 - 2
    assert deviation[2] == 0.5
    assert deviation[0] < 0.1
    chances = both.fails(points(16, 8, 64))
    assert chances[0] < 0.3
    assert chances[1] > 0.5
    assert chances[2] == 0.9


def test_a_belief_that_tells_nothing_of_known_points_keeps_its_level():
    class Mute(Flat):
        def log2_ms(self, points):
            results = [3.0 if point["B"] == 64 else np.nan for point in points]
            return np.array(results), np.full(len(points), 0.5)

    both = CompositePrior(TransferPrior([row({"B": 16}, 1.0)], SHAPE, "h100-sxm"), Mute())
    assert both.log2_ms(points(16, 64))[0] == pytest.approx([0, 3])
