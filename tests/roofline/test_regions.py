"""Regions and masks of storages, held against sets of elements."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from solkit.roofline.work.masks import everything, pattern_of
from solkit.roofline.work.program import TensorUse
from solkit.roofline.work.regions import covered_bytes, overlap

BASES = [(4, 3, 8), (2, 6, 4), (3, 5, 2), (8, 8)]


def some_view(rng: random.Random, values: np.random.Generator) -> TensorUse:
    """A permuted, sliced, expanded and masked view of a small tensor."""
    base = rng.choice(BASES)
    shape, stride, offset = [], [], 0
    for d in rng.sample(range(len(base)), len(base)):
        first, step = rng.choice([0, rng.randrange(base[d])]), rng.choice([1, 1, 2])
        span = math.prod(base[d + 1 :])
        shape.append(len(range(first, base[d], step)))
        stride.append(span * step)
        offset += first * span
    if rng.random() < 0.5:
        shape.append(2)
        stride.append(0)
    mask = None
    if rng.random() < 0.8:
        mask = values.random([rng.choice([1, n]) for n in shape]) < 0.3
    return TensorUse(0, tuple(shape), tuple(stride), offset, torch.float32, mask=mask)


def elements(use: TensorUse) -> set[int]:
    places = np.indices(use.shape).reshape(len(use.shape), -1)
    flat = use.offset + sum(i * step for i, step in zip(places, use.stride))
    mask = everything(len(use.shape)) if use.mask is None else use.mask
    return set(flat[np.broadcast_to(mask, use.shape).ravel()].tolist())


def pairs_of_views() -> Iterator[tuple[int, TensorUse, TensorUse]]:
    for seed in range(300):
        rng, values = random.Random(seed), np.random.default_rng(seed)
        yield seed, some_view(rng, values), some_view(rng, values)


def test_regions_are_sets_of_elements():
    for seed, one, other in pairs_of_views():
        if elements(one) and elements(other):  # an empty mask is as good as none
            assert overlap(one, other) == bool(elements(one) & elements(other)), seed
        assert covered_bytes([one, other]) == 4 * len(elements(one) | elements(other)), seed


def test_a_pattern_says_of_one_view_what_it_was_told_of_another():
    for seed, result, request in pairs_of_views():
        mask = everything(len(result.shape)) if result.mask is None else result.mask
        pattern = pattern_of(result, mask, 1 + max(*elements_seen(result), *elements_seen(request)))
        assert pattern is not None, seed
        seen = pattern.under(request)
        assert seen is not None, seed
        places = elements(replace(request, mask=seen))
        assert places == elements(result) & elements_seen(request), seed


def elements_seen(use: TensorUse) -> set[int]:
    """All elements under a view, whatever its mask."""
    return elements(replace(use, mask=None))


def test_a_pattern_of_blocks_stays_small():
    tensor = TensorUse(0, (2048, 3, 8, 1024), (24576, 8192, 1024, 1), 0, torch.float32)
    mask = np.array([True, False, False]).reshape(1, 3, 1, 1)
    pattern = pattern_of(tensor, mask, 2048 * 24576)
    assert pattern is not None
    assert pattern.bits.size == 3
    by_head = TensorUse(0, (2048, 8, 3, 1024), (24576, 1024, 8192, 1), 0, torch.float32)
    seen = pattern.under(by_head)
    assert seen is not None
    assert seen.shape == (1, 1, 3, 1)
