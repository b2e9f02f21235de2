"""A winner at shapes that it was not tuned for."""

from __future__ import annotations

import pytest

from solkit.core import Configuration, Difference, Final, Ratio
from solkit.tuner.holdout import Winner, nearest_shape, pass_gate, pass_gates

BASE = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 16})
RIVAL = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 32})


def held(difference, value=None, strict=True):
    """The gate's answer to one comparison, and what was compared."""
    seen = []

    def judge(base, rival):
        seen.append((base, rival))
        ratio = None if value is None else Ratio(value, value / 1.01, value * 1.01, 0.001, 9)
        return Final(rival.params, difference, ratio, "turns", ("evidence.",))

    (result,) = pass_gate(BASE, RIVAL, [({"M": 7}, strict)], judge)
    assert [(b.shape, b.params, r.shape, r.params) for b, r in seen] == [
        ({"M": 7}, BASE.params, {"M": 7}, RIVAL.params)
    ]
    return result


@pytest.mark.parametrize(
    ("difference", "value", "passed"),
    [
        (Difference.FASTER, 0.8, True),
        (Difference.NOT_SHOWN, 1.005, True),
        (Difference.NOT_SHOWN, 1.2, False),  # few samples: it may well be slower
        (Difference.SLOWER, 1.002, False),
        (Difference.UNSTABLE, 0.9, False),
        (Difference.NOT_COMPARED, None, False),
    ],
)
def test_a_winner_must_be_correct_and_not_slower(difference, value, passed):
    result = held(difference, value)
    assert (result.passed, result.difference, result.shape) == (passed, difference, {"M": 7})


def test_where_another_winner_is_nearer_it_need_only_be_correct():
    assert held(Difference.SLOWER, 2.0, strict=False).passed
    wrong = held(Difference.NOT_COMPARED, strict=False)
    assert (wrong.passed, wrong.why) == (False, "evidence.")


def test_the_nearest_shape_is_so_in_doublings():
    shapes = [{"M": 16, "dtype": "bf16"}, {"M": 1024, "dtype": "bf16"}]
    assert nearest_shape({"M": 100, "dtype": "bf16"}, shapes) == 0  # 2.6 doublings against 3.4
    assert nearest_shape({"M": 200, "dtype": "bf16"}, shapes) == 1
    other = [{"M": 16, "dtype": "bf16"}, {"M": 16, "dtype": "fp8"}]
    assert nearest_shape({"M": 16, "dtype": "fp8"}, other) == 1


def test_several_winners_are_compared_at_once():
    requests = []

    def judge(pairs):
        requests.append([(base.shape["M"], rival.params["BLOCK"]) for base, rival in pairs])
        slow = [rival.shape["M"] == 9 for _, rival in pairs]
        return [
            Final(
                rival.params, Difference.FASTER, Ratio(1 + item, 1 + item, 1 + item, 0.001, 9), ""
            )
            for item, (_, rival) in zip(slow, pairs, strict=True)
        ]

    other = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 64})
    winners = [
        Winner(BASE, RIVAL, [({"M": 7}, True), ({"M": 9}, True)]),
        Winner(BASE, other, []),
        Winner(BASE, other, [({"M": 8}, True)]),
    ]
    results = pass_gates(winners, judge)
    assert requests == [[(7, 32), (9, 32), (8, 64)]]
    assert [[(e.shape["M"], e.passed) for e in result] for result in results] == [
        [(7, True), (9, False)],
        [],
        [(8, True)],
    ]
