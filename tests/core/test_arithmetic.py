"""Arithmetic in the text of other tools' files."""

from __future__ import annotations

import itertools

import pytest

from solkit.core.arithmetic import evaluate

CONDITIONS = [
    "32 <= x * y <= 1024",
    "x % 32 != 0 or y == 1",
    "not (x == 128 and y < 3)",
    "x // y - -3 > 2 ** y if y != 4 else x / 7 < 5",
    "round(x / 7) == int(x / 7)",
    "max(x, y) + abs(1 - y) == x",
    "x % ((8 * 16) / y) == 0",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_mean_what_they_do_in_python(text):
    points = [{"x": x, "y": y} for x, y in itertools.product((1, 7, 32, 128), (1, 2, 4, 8))]
    values = [evaluate(text, point) for point in points]
    assert values == [eval(text, {}, point) for point in points]
    assert len(set(values)) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os')", "may call only cdiv"),
        ("x.real", r"x\.real is not arithmetic"),
        ("lambda: 1", "lambda: 1 is not arithmetic"),
        ("x @ y", "MatMult is not an arithmetic operator"),
        ("min(1, key=2)", "may call only"),
        ("b'text'", "b'text' is not arithmetic"),
        ("[1, 2]", r"\[1, 2\] is not arithmetic"),
        ("x in y", "In is not an arithmetic operator"),
        ("1 +", "invalid syntax"),
        ("(" * 500, "'[(]+': "),
        ("9 ** 9 ** 9", "too large"),
        ("'a' * 10 ** 9", "not both numbers"),
        ("'%99999999d' % 3", "not both numbers"),
        ("1 // 0", "by zero"),
        ("x + 'a'", "unsupported operand"),
        ("z", "no size is named 'z'"),
    ],
)
def test_anything_else_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        evaluate(text, {"x": 1, "y": 2})
