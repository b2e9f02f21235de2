from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import pytest

from solkit.core import (
    ComparedBase,
    Difference,
    LiveLaunch,
    Outcome,
    Ratio,
    Source,
    StoredFacts,
    Verdict,
    canonical,
)
from solkit.datasets import codec
from solkit.datasets.codec import from_json, to_json
from solkit.errors import InputError

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
        assert {each.name for each in fields(form)} <= named


def test_columns_that_others_rely_on_keep_their_names():
    kept = (
        "kernel_id family kind origin problem_id device params time_ms bound_ms verdict clock_mhz"
    )
    assert set(kept.split()) <= {each.name for each in fields(Outcome)}


def test_what_is_as_by_default_is_left_out_of_json():
    assert set(to_json(BARE)) == {
        "kernel_id", "family", "kind", "origin", "problem_id", "device", "params", "verdict",
        "created", "chosen_by", "schema_version",
    }  # fmt: skip


def test_times_are_kept_in_utc():
    local = replace(BARE, created=BARE.created.astimezone(timezone(timedelta(hours=5))))
    assert to_json(local)["created"] == "2026-01-02T03:04:05.678901+00:00"


def test_numbers_that_json_lacks_become_words():
    told = to_json(replace(BARE, max_error=math.nan, params={"x": -math.inf}))
    assert (told["max_error"], told["params"]) == ("NaN", {"x": "-Infinity"})
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
    told = to_json(BARE)
    assert from_json(Outcome, {**told, "later": 1}) == BARE
    del told["family"]
    with pytest.raises(ValueError, match="family is missing"):
        from_json(Outcome, told)


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
    assert len({each.key for each in (BARE, *others)}) == 6


def test_parameters_are_a_set_of_names_in_any_order():
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1}) == '{"a":1,"b":2}'


def test_a_kernels_name_depends_on_all_it_is_made_of():
    names = {
        codec.kernel_id(*each)
        for each in [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]
    }
    assert len(names) == 4
    assert codec.kernel_id("a", "b", "c") in names


def test_a_problems_name_is_readable_and_unambiguous():
    name = codec.problem_id("layer norm", {"N": 1000, "M": 4, "eps": 1e-5, "causal": True})
    assert name == "layer norm/M=4,N=1000,causal=true,eps=1e-05"
    assert codec.problem_id("f", {"a": "1,b=2"}) != codec.problem_id("f", {"a": 1, "b": 2})
    assert codec.problem_id("f", {"M": 1, "N": 2}) == codec.problem_id("f", {"N": 2, "M": 1})


def test_a_source_is_known_by_the_sha256_of_its_bytes():
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert codec.source_of(b"", "x.py") == Source(empty, "x.py", "")
    with pytest.raises(InputError, match=r"x\.py is not UTF-8"):
        codec.source_of(b"\xff", "x.py")
