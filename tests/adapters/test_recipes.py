"""What is recorded at one choice of parameters, and done again at others."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from itertools import product

import pytest

from solkit.adapters.recipes import Steps, make_stand_in

PARAMS = {"a": (1, 4, 64, 100), "b": (2, 7, 64), "flag": (False, True), "word": ("", "mask")}


def recorded(function, params):
    """The steps of a call, and where they leave its result each time that they are done."""
    results = []
    steps = Steps(params, make_stand_in)
    steps.call_bare(results.append, (function(**steps.mapping(dict)),))
    steps.close()
    return steps, results


def replayed(function):
    """For each two choices: what doing one's steps at the other gives, where they hold."""
    every = [dict(zip(PARAMS, values)) for values in product(*PARAMS.values())]
    for seed in every[::7]:
        steps, results = recorded(function, seed)
        assert not steps.fault
        for params in every:
            if steps.repeat_with(params):
                yield seed, params, results[-1]


def same(got, want):
    return got == want and type(got) is type(want)


COMPUTED = [
    lambda a, b, **_: (a + b - 1) // b,
    lambda a, b, **_: (a - b, a * b, a / b, -a, abs(b - a), divmod(a, b), 100 % a, 7 // b),
    lambda a, b, **_: (a << 2 | b >> 1) ^ a & b,
    lambda a, b, **_: [math.ceil(a / b), math.floor(a / b), round(a / b, 1)],
    lambda a, b, flag, **_: {"equal": a == b, "less": a < b, "flag": flag},
    lambda a, word, **_: (word + "x", word == "mask", a * 1.5, isinstance(a, int)),
    lambda a, **_: copy.deepcopy([a]),
]


@pytest.mark.parametrize("function", COMPUTED)
def test_what_is_only_computed_holds_everywhere(function):
    times = 0
    for _, params, got in replayed(function):
        assert same(got, function(**params))
        times += 1
    assert times == 7 * 48  # from each seed to each choice


LOOKED_AT = [
    lambda a, b, **_: max(a, b),
    lambda a, flag, **_: a * 2 if flag else -a,
    lambda a, word, **_: a if not word else word.upper(),
    lambda a, **_: list(range(a)),
    lambda a, b, **_: f"{a}:{int(a / b)}",
    lambda a, b, **_: 1 << a if a.bit_length() > 3 and b % 2 else float(a),
    lambda a, **_: [None] * a,
    lambda a, **_: 0 if isinstance(a, Iterable) else a**2,
    lambda a, b, **_: a ** (2 - b),  # of integers, an integer or a fraction
]


@pytest.mark.parametrize("function", LOOKED_AT)
def test_what_is_looked_at_holds_where_it_looks_alike(function):
    seen = set()
    for seed, params, got in replayed(function):
        assert same(got, function(**params))
        seen.add(seed == params)
    assert True in seen


def test_a_branch_holds_on_its_side_alone():
    steps, results = recorded(lambda a, b, **_: a if a < b else b, {"a": 3, "b": 5})
    assert steps.repeat_with({"a": 4, "b": 50})
    assert results[-1] == 4
    assert not steps.repeat_with({"a": 5, "b": 5})


def test_an_operation_is_not_done_where_an_earlier_branch_rules_it_out():
    steps, _ = recorded(lambda a, b, **_: b // a if a > 0 else 0, {"a": 3, "b": 5})
    assert not steps.repeat_with({"a": 0, "b": 5})  # and does not divide by it


def test_a_parameter_of_another_type_raises():
    steps, _ = recorded(lambda a: a + 1, {"a": 1})
    with pytest.raises(TypeError):
        steps.repeat_with({"a": True})


def test_a_hash_is_refused_and_blamed_on_the_parameter():
    steps = Steps({"a": 1, "b": 2}, make_stand_in)
    stand_ins = steps.mapping(dict)
    with pytest.raises(TypeError, match="hashed"):
        {2: "two"}[stand_ins["a"] + 1]
    assert steps.culprits == {"a"}


def test_a_fixed_parameter_is_the_value_itself():
    steps = Steps({"a": 1, "b": 2}, make_stand_in, frozenset({"a"}))
    assert type(steps.mapping(dict)["a"]) is int
    assert steps.repeat_with({"a": 1, "b": 3})
    assert not steps.repeat_with({"a": 2, "b": 2})


def test_a_stand_in_that_outlives_the_run_is_a_fault():
    kept = []
    steps, _ = recorded(lambda a: kept.append(a), {"a": 1})
    assert not steps.fault
    assert kept[0] + 1 == 2
    assert "beyond the run" in steps.fault
