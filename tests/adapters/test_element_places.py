"""Memory that elements of a launch access: boxes by counting, kernels by the compiler's IR."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.driver import driver as triton_driver

from solkit.adapters import fake_triton
from solkit.adapters.argument_overlaps import ArgumentBuffers
from solkit.adapters.element_places import Box, Places, have_common_byte
from solkit.adapters.live_captures import specialise
from solkit.adapters.triton_compiler import ttgir_text
from solkit.roofline import devices

STRIDES = (-12, -4, 2, 3, 4, 6, 8, 12, 24, 48)


def bytes_of(box):
    """Every byte of a box, one by one."""
    digits = itertools.product(*(range(count) for count, _ in box.digits))
    starts = (
        box.start + sum(n * step for n, (_, step) in zip(row, box.digits, strict=True))
        for row in digits
    )
    return {start + byte for start in starts for byte in range(box.width)}


def random_box(rng):
    digits = [(rng.randint(0, 5), rng.choice(STRIDES)) for _ in range(rng.randint(0, 3))]
    return Box(rng.randint(-40, 40), tuple(digits), rng.choice((1, 2, 4)))


def test_boxes_meet_where_a_byte_is_in_both():
    rng, meetings = random.Random(0), 0
    for _ in range(2000):
        one, other = random_box(rng), random_box(rng)
        is_common = bool(bytes_of(one) & bytes_of(other))
        assert have_common_byte(one, other) == is_common, (one, other)
        meetings += is_common
    assert 200 < meetings < 1800


def test_boxes_of_large_tensors_are_decided_at_once():
    rows, heads = (2**20, 3 * 4096 * 2), (32, 128 * 2)
    query = Box(0, (rows, heads, (128, 2)), 2)
    assert not have_common_byte(query, query._replace(start=4096 * 2))
    assert have_common_byte(query, query._replace(start=4095 * 2))


def test_boxes_that_take_too_long_are_taken_to_meet():
    primes = (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079)
    one = Box(0, tuple((50, step * 2) for step in primes), 1)
    assert have_common_byte(one, Box(1234567, tuple((50, step * 6) for step in primes), 2))


# ------------------------------------------------------------------------------ kernels


@triton.jit
def flat(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def unmasked(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def columns(x, out, n, wide, pitch, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = at // wide * pitch + at % wide
    tl.store(out + place, tl.load(x + place, mask=at < n), mask=n > at)


@triton.jit
def heads(x, out, n, wide, pitch, BLOCK: tl.constexpr):
    """Rows of two heads of `wide` elements each, by bits where the compiler has them."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    head, row = (at // wide) & 1, (at // wide) >> 1
    place = row * pitch + head * wide * 2 + at % wide
    tl.store(out + place, tl.load(x + place, mask=at <= n - 1), mask=at <= n - 1)


@triton.jit
def batches(x, out, n, pitch, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * pitch
    keep = (at < n) & (tl.program_id(0) < 3)
    tl.store(out + row + at, tl.load(x + row + at, mask=keep), mask=keep)


@triton.jit
def gathered(x, out, index, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + tl.load(index + at).to(tl.int32)), mask=at < n)


@triton.jit
def overflowing(x, out, pitch, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at * pitch, tl.load(x + at * pitch))


@triton.jit
def shifted(x, out, n, wide, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = (at + 7) % n + (at + 7) // wide
    tl.store(out + place, tl.load(x + place))


def column_places(wide, pitch, n):
    return {i // wide * pitch + i % wide for i in range(n)}


def head_places(wide, pitch, n):
    return {i // wide // 2 * pitch + i // wide % 2 * wide * 2 + i % wide for i in range(n)}


def batch_places(rows, pitch, n):
    return {row * pitch + i for row in range(rows) for i in range(n)}


CASES = {
    "flat": (flat, (9,), 0, {"n": 500}, set(range(500))),
    "unmasked": (unmasked, (3,), 0, {}, set(range(192))),
    "columns": (columns, (9,), 0, {"n": 480, "wide": 24, "pitch": 70}, column_places(24, 70, 480)),
    "rest": (columns, (9,), 0, {"n": 490, "wide": 24, "pitch": 70}, column_places(24, 70, 504)),
    "one row": (columns, (9,), 0, {"n": 500, "wide": 600, "pitch": 9}, set(range(500))),
    "heads": (heads, (6,), 0, {"n": 320, "wide": 16, "pitch": 200}, head_places(16, 200, 320)),
    "shifted": (shifted, (3,), 0, {"n": 100, "wide": 50}, set(range(103))),  # 198 // 50 is 3
    "batches": (batches, (5, 2), 1, {"n": 90, "pitch": 300}, batch_places(3, 300, 90)),
}
"""Kernel, grid, axis, numbers, and elements that a box of it has: of a row all."""


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(triton_driver, "_active", fake_triton.fake_driver(devices.find("h200")))


def places_of(kernel, axis, scalars):
    tensors = {name: torch.zeros(4) for name in ("x", "out", "index") if name in kernel.arg_names}
    values = {**tensors, **scalars, "BLOCK": 64}
    made_from, _ = specialise(kernel, (), {**values, "num_warps": 4})
    return Places(ttgir_text(made_from, triton_driver.active.get_current_target()), axis)


@pytest.mark.parametrize("case", CASES)
def test_views_are_apart_by_the_elements_that_are_accessed(case):
    kernel, grid, axis, scalars, reached = CASES[case]
    places = places_of(kernel, axis, scalars)
    answers = {
        by: places.are_apart(ArgumentBuffers((0, 1), ((0, 1, 4 * by),)), grid, scalars)
        for by in (*range(-40, 40), *range(-1600, 1600, 13), -500, 500, -499, 499)
    }
    expected = {by: not reached & {place + by for place in reached} for by in answers}
    assert answers == expected
    assert set(answers.values()) == {True, False}


def test_bytes_between_two_elements_belong_to_both():
    places = places_of(unmasked, 0, {})
    for by, is_apart in ((4 * 192, True), (4 * 192 - 1, False), (-4 * 192, True)):
        buffers = ArgumentBuffers((0, 1), ((0, 1, by),))
        assert places.are_apart(buffers, (3,), {}) == is_apart


FAR = ArgumentBuffers((0, 1), ((0, 1, 2**30),))


def test_what_is_not_understood_is_not_apart():
    index = places_of(gathered, 0, {"n": 64})
    assert not index.are_apart(ArgumentBuffers((0, 1, 2), ((0, 1, 2**30),)), (1,), {"n": 64})
    assert index.are_apart(ArgumentBuffers((0, 1, 2), ((1, 2, 2**30),)), (1,), {"n": 64})
    assert not places_of(overflowing, 0, {"pitch": 2**26}).are_apart(FAR, (1,), {"pitch": 2**26})
    assert not places_of(columns, 0, {"n": 64, "wide": 8, "pitch": 9}).are_apart(FAR, (1,), {})
    assert not places_of(unmasked, 0, {}).are_apart(ArgumentBuffers((0,), ()), (1,), {})


def test_what_is_only_read_is_apart():
    places = places_of(gathered, 0, {"n": 64})
    assert places.are_apart(ArgumentBuffers((0, 1, 2), ((0, 2, 0),)), (1,), {"n": 64})
