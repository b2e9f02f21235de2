"""Arithmetic in the text of other tools' files."""

from __future__ import annotations

import itertools

import pytest

from solkit.core.arithmetic import Expression, evaluate

CONDITIONS = [
    "32 <= x * y <= 1024",
    "x % 32 != 0 or y == 1",
    "not (x == 128 and y in [1, 2])",
    "x // y - -3 > 2 ** y if y not in (4, 8) else x / 7 < 5",
    "max(x, y) + abs(1 - y) == x",
    "x % ((8 * 16) / y) == 0",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_mean_what_they_do_in_python(text):
    read = Expression.read(text)
    assert set(read.names) == {"x", "y"}
    points = [{"x": x, "y": y} for x, y in itertools.product((1, 7, 32, 128), (1, 2, 4, 8))]
    values = [read.value(point) for point in points]
    assert values == [eval(text, {}, point) for point in points]
    assert len(set(values)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "[16, 32]",
        "[i for i in range(1, 9) if i % 3]",
        "[1] + [2 * i for i in range(1, 11)]",
        "[1, 2] + list(range(32, 129, 32))",
        "['a', \"b\"]",
        "[True, 0.5, None]",
    ],
)
def test_lists_mean_what_they_do_in_python(text):
    assert evaluate(text, {}) == eval(text)


def test_a_range_is_not_listed():
    assert evaluate("list(range(10**7))", {}) == range(10**7)


def test_the_variable_of_a_list_is_no_name_that_is_needed():
    assert Expression.read("[n * i for i in range(4)]").names == ("n",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os')", "may call only cdiv"),
        ("x.real", r"x\.real is not arithmetic"),
        ("lambda: 1", "lambda: 1 is not arithmetic"),
        ("x @ y", "MatMult is not an arithmetic operator"),
        ("min(1, key=2)", "may call only"),
        ("b'text'", "not a number or string"),
        ("[i * j for i in x for j in y]", "more than one variable"),
        ("1 +", "invalid syntax"),
        ("(" * 500, "'[(]+': "),
        ("9 ** 9 ** 9", "too large"),
        ("[0] * 10 ** 9", "not both numbers"),
        ("'%99999999d' % 3", "not both numbers"),
        ("[i for i in range(10 ** 9)]", "more than 1,000,000 items"),
        ("1 // 0", "by zero"),
        ("x + 'a'", "unsupported operand"),
        ("z", "no size is named 'z'"),
    ],
)
def test_anything_else_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        evaluate(text, {"x": 1, "y": 2})
