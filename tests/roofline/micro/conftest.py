"""Micro problems: operations and bytes derived by hand, held against the bound and brute force.

A table of a test module maps a name to (inputs, body, operations, bytes read, bytes written).
The conventions of every derivation:

* a multiply-add is two operations, ``contraction.<dtype>`` those of products;
* a bias may start the accumulator of a product, so it is (0, n): anything between is right;
* a reduction of n elements takes n - 1 operations; what two results share is computed once;
* exp, log, sin, cos, tanh, rsqrt, sqrt and reciprocal are one ``sfu`` each, a division is one
  reciprocal per divisor and a product;
* copies, selections and conversions take none; arithmetic on halves is derived as ``fp32``, though
  the bound counts it as ``fp16`` or ``bf16``, for it may be packed;
* bytes are distinct elements that the result depends on, and each element of the result once.

A pair (low, high) of operations is a range where definitions differ; everything else is exact to
1 %, and the bound is never above the derivation. A sixth field says why brute force cannot check
a row (`micro_oracle`).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here

import micro_oracle
import micro_trace

SLACK = 0.01


@pytest.fixture(scope="session")
def traced() -> Callable[..., Any]:
    """The `Work` of one problem of a table; the whole table is traced at the first call."""
    known_values: dict[int, dict[str, Any]] = {}

    def find(table: Mapping[str, tuple[Any, ...]], name: str) -> Any:
        if id(table) not in known_values:
            problems = [micro_trace.Micro(*row[:2]) for row in table.values()]
            known_values[id(table)] = dict(zip(table, micro_trace.works(problems)))
        result = known_values[id(table)][name]
        assert not isinstance(result, str), result
        return result

    return find


@pytest.fixture
def check_bound(traced: Callable[..., Any]) -> Callable[..., None]:
    """Assert that a problem's `Work` is its row's derivation, and never above it."""

    def check(table: Mapping[str, tuple[Any, ...]], name: str) -> None:
        _, _, operations, read, written, *_ = table[name]
        work = traced(table, name)
        wrong = _wrong(work, operations, read, written)
        assert not wrong, "; ".join(wrong)

    return check


def _wrong(work: Any, operations: Mapping[str, Any], read: Any, written: Any) -> list[str]:
    expected = {**operations, "bytes read": read, "bytes written": written}
    counts: Counter[str] = Counter()
    for pipe, count in work.operations.items():
        if count:  # a product counts under its dtype, whatever else is known of it
            counts[re.split(r"[*~>]", pipe)[0]] += count
    for half in counts.keys() & {"fp16", "bf16"}:
        counts["fp32"] = counts.get("fp32", 0) + counts.pop(half)
    results = {
        **counts,
        "bytes read": work.dram_read_bytes,
        "bytes written": work.dram_write_bytes,
    }
    wrong = []
    for what in dict.fromkeys((*expected, *results)):
        low, high = _range(expected.get(what, 0))
        got = results.get(what, 0)
        if not low * (1 - SLACK) <= got <= high:
            wrong.append(f"{what}: {got}, derived {low if low == high else (low, high)}")
    wrong += [f"unmodelled {work.unmodelled}"] if work.unmodelled else []
    most = sum(_range(n)[1] for pipe, n in operations.items() if pipe.startswith("contraction"))
    hard = sum(work.hard_operations.values())
    for what, got, high in (
        ("hard operations", hard, most),
        ("hard bytes read", work.hard_read_bytes, _range(read)[1]),
        ("hard bytes written", work.hard_write_bytes, _range(written)[1]),
    ):
        if got > high:
            wrong.append(f"{what}: {got}, at most {high}")
    return wrong


def _range(value: Any) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (value, value)


@pytest.fixture
def check_derivation() -> Callable[..., None]:
    """Assert that the bytes of a row are those that brute force finds."""

    def check(table: Mapping[str, tuple[Any, ...]], name: str) -> None:
        inputs, body, _, read, written, *reason = table[name]
        if reason:
            pytest.skip(reason[0])
        result = micro_oracle.dependence(micro_trace.Micro(inputs, body), draws=1)
        assert _range(read)[0] * (1 - SLACK) <= result.most <= _range(read)[1]
        assert _range(written)[0] <= result.written <= _range(written)[1]

    return check
