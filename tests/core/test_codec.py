from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import pytest

from solkit.core import (
    ComparedBase,
    Depth,
    Difference,
    LiveLaunch,
    Outcome,
    Ratio,
    Source,
    StoredFacts,
    Value,
    Verdict,
    canonical,
)
from solkit.core.codec import from_json, to_json

BARE = Outcome(
    "k", "softmax", "softmax", "zoo", "p", "h100-sxm", {"BLOCK": 64}, Verdict.CORRECT,
    datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc), "random",
)  # fmt: skip
FULL = replace(
    BARE,
    time_ms=0.5,
    samples_ms=(0.5, 0.25),
    max_error=math.inf,
    shape={"M": 4, "dtype": "bfloat16"},
    operations={"fp32": 10},
    live_launches=(LiveLaunch("f", (4, 1, 1), 4, constants={"B": None}, registers=32),),
    evidence=("first", "second"),
    comparison=ComparedBase(
        "k2",
        {"BLOCK": 32},
        Difference.FASTER,
        ratio=Ratio(0.5, 0.4, 0.6, 0.01, 9),
        samples_ms=(1.0, 0.5),
    ),
    compute_capability=(9, 0),
    run_id="r",
    sequence=7,
    extra={"nested": {"list": [1, None]}},
)


def through_json(row):
    return from_json(type(row), json.loads(json.dumps(to_json(row), allow_nan=False)))


@pytest.mark.parametrize("row", [BARE, FULL, Source("ab", "x.py", "text"), StoredFacts("f", "{}")])
def test_a_record_comes_back_from_json(row):
    assert through_json(row) == row


def test_every_field_has_a_line_in_the_docstring():
    for form in (Outcome, Source, LiveLaunch, ComparedBase, StoredFacts):
        named = {
            name.strip()
            for line in form.__doc__.splitlines()
            if line.startswith("        ") and ":" in line
            for name in line.split(":")[0].split(",")
        }
        assert {field.name for field in fields(form)} <= named


def test_columns_that_others_rely_on_keep_their_names():
    kept = (
        "kernel_id family kind origin problem_id device params time_ms bound_ms verdict clock_mhz"
    )
    assert set(kept.split()) <= {field.name for field in fields(Outcome)}


def test_what_is_as_by_default_is_left_out_of_json():
    assert set(to_json(BARE)) == {
        "kernel_id", "family", "kind", "origin", "problem_id", "device", "params", "verdict",
        "created", "chosen_by", "schema_version",
    }  # fmt: skip


def test_times_are_kept_in_utc():
    local = replace(BARE, created=BARE.created.astimezone(timezone(timedelta(hours=5))))
    assert to_json(local)["created"] == "2026-01-02T03:04:05.678901+00:00"


def test_numbers_that_json_lacks_become_words():
    result = to_json(replace(BARE, max_error=math.nan, params={"x": -math.inf}))
    assert (result["max_error"], result["params"]) == ("NaN", {"x": "-Infinity"})
    assert math.isnan(through_json(replace(BARE, max_error=math.nan)).max_error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time_ms": "fast"}, "time_ms: expected a number, not 'fast'"),
        ({"time_ms": True}, "time_ms: expected a number"),
        ({"sequence": 1.5}, "sequence: expected int"),
        ({"verdict": "fine"}, "verdict: 'fine' is not a valid Verdict"),
        ({"params": []}, "params: expected dict"),
        ({"created": "today"}, "created: Invalid isoformat"),
        ({"live_launches": [{"name": "f"}]}, "live_launches: grid is missing"),
        ({"comparison": {"kernel_id": "k"}}, "comparison: params is missing"),
        ({"schema_version": 3}, "schema_version 3 is newer than 2"),
    ],
)
def test_a_bad_field_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        from_json(Outcome, {**to_json(BARE), **change})


def test_a_field_that_is_missing_is_named_and_an_unknown_one_passed_over():
    result = to_json(BARE)
    assert from_json(Outcome, {**result, "later": 1}) == BARE
    del result["family"]
    with pytest.raises(ValueError, match="family is missing"):
        from_json(Outcome, result)


def test_repeats_share_a_key_and_nothing_else_does():
    again = replace(BARE, params=dict(BARE.params), run_id="other", time_ms=3.0)
    assert again.key == BARE.key
    others = [
        replace(BARE, params={"BLOCK": "64"}),
        replace(BARE, params={"BLOCK": 64.5}),
        replace(BARE, device="h200"),
        replace(BARE, kernel_id="l"),
        replace(BARE, problem_id="q"),
    ]
    assert len({item.key for item in (BARE, *others)}) == 6


def test_parameters_are_a_set_of_names_in_any_order():
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1}) == '{"a":1,"b":2}'


@dataclass(frozen=True)
class Inner:
    size: int
    share: float = 0.5


@dataclass(frozen=True)
class Nested:
    """A field of each kind that a record may have."""

    word: Literal["cold", "warm"]
    grid: tuple[int, int, int]
    amounts: Mapping[str, int]
    by_name: Mapping[str, Inner]
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()
    shares: tuple[float, ...] = ()
    setting: Value = None
    depth: Depth | None = None
    kept: bool = False


NESTED = Nested(
    "warm", (1, 2, 3), {"fp32": 4}, {"a": Inner(1)}, Inner(2, math.inf), (Inner(3), Inner(4, 0.25)),
    (1.0, -math.inf), math.inf, Depth.LOWERED, True,
)  # fmt: skip


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("complete", [False, True])
def test_records_in_records_come_back_in_either_layout(columns, complete):
    document = to_json(NESTED, columns=columns, complete=complete)
    text = json.dumps(document, allow_nan=False)
    assert from_json(Nested, json.loads(text)) == NESTED


def test_columns_leave_out_what_all_records_have_by_default():
    assert to_json(replace(NESTED, several=(Inner(3), Inner(4))), columns=True)["several"] == {
        "size": [3, 4]
    }
    assert to_json(NESTED, columns=True)["several"] == {"size": [3, 4], "share": [0.5, 0.25]}
    assert to_json(NESTED)["several"] == [{"size": 3}, {"size": 4, "share": 0.25}]
    assert to_json(Inner(3), complete=True) == {"size": 3, "share": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word": "hot"}, "word: expected one of 'cold', 'warm', not 'hot'"),
        ({"grid": [1, 2]}, "grid: expected 3 values, not 2"),
        ({"grid": [1, 2, "x"]}, "grid: expected int, not 'x'"),
        ({"amounts": {"fp32": "many"}}, "amounts: expected int, not 'many'"),
        ({"by_name": {"a": {}}}, "by_name: size is missing"),
        ({"inner": [1]}, "inner: expected an object, not list"),
        ({"several": {"size": [1], "share": []}}, "several: columns differ in length"),
        ({"several": {"size": 1}}, "several: expected list, not 1"),
        ({"several": {"share": [0.5]}}, "several: size is missing"),
        ({"depth": "deep"}, "depth: 'deep' is not a valid Depth"),
        ({"kept": 1}, "kept: expected bool, not 1"),
        ({"inner": {"size": 1, "share": 10**400}}, "inner: share: int too large"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_field(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        from_json(Nested, {**to_json(NESTED), **change})


def test_a_form_without_json_values_is_a_fault_of_the_program():
    @dataclass(frozen=True)
    class Odd:
        path: Path

    with pytest.raises(TypeError, match="no JSON value has the type"):
        from_json(Odd, {"path": "x"})
