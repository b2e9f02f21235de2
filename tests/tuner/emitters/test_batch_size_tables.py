from __future__ import annotations

import random

import pytest
from tuned_moe import BEST, tuned

from solkit.core import canonical
from solkit.tuner.emitters._batch_size_tables import nearest_batch_size, needed_batch_sizes


def by_size(times, **fields):
    return {result.shape["M"]: result for result in tuned(times, **fields)}


def test_a_lookup_takes_the_nearest_and_of_two_the_first():
    assert nearest_batch_size(3, [1, 2, 8]) == 2
    assert nearest_batch_size(5, [2, 8]) == 2
    assert nearest_batch_size(5, [8, 2]) == 8
    assert nearest_batch_size(10**6, [1, 64]) == 64


def test_sizes_with_one_choice_are_left_out_but_for_the_ends():
    assert needed_batch_sizes(by_size({m: {16: 1.0, 32: 2.0} for m in (1, 2, 4, 8, 64)})) == [1, 64]


def test_a_size_whose_neighbour_is_as_good_within_the_noise_is_left_out():
    times = {1: {16: 1.0}, 2: {16: 1.003, 32: 1.0}, 4: {32: 1.0, 16: 5.0}}
    assert needed_batch_sizes(by_size(times)) == [1, 4]
    times[2][16] = 1.02
    assert needed_batch_sizes(by_size(times)) == [1, 2, 4]


def test_the_noise_is_what_was_measured():
    times = {1: {16: 1.0}, 2: {16: 1.02, 32: 1.0}, 4: {32: 1.0}}
    assert needed_batch_sizes(by_size(times, low_ms=0.9, high_ms=1.05)) == [1, 4]


def test_a_size_is_kept_if_the_neighbour_was_never_measured_there():
    times = {1: {16: 1.0}, 2: {32: 1.0}, 4: {16: 1.0, 32: 2.0}}
    assert needed_batch_sizes(by_size(times)) == [1, 2, 4]


def test_a_size_is_kept_if_leaving_it_out_would_slow_another():
    """Of 8 and 9 each serves the other, but without 8 the lookup of 5 would reach 1."""
    times = {
        1: {64: 1.0},
        5: {16: 1.0, 64: 9.0, 32: 1.0},
        9: {16: 1.0, 32: 1.0},
        99: {32: 1.0, 16: 9.0},
    }
    kept = needed_batch_sizes(by_size(times))
    assert nearest_batch_size(5, kept) != 1


@pytest.mark.parametrize("seed", range(25))
def test_no_lookup_of_a_tuned_size_is_slower_than_known(seed):
    chance = random.Random(seed)
    sizes = sorted(chance.sample(range(1, 200), 8))
    times = {
        m: {b: round(chance.choice([1.0, 1.002, 1.3]) + 1e-4 * b, 6) for b in blocks}
        for m in sizes
        if (blocks := chance.sample([16, 32, 64, 128], 3))
    }
    result = by_size(times)
    kept = needed_batch_sizes(result)
    assert {sizes[0], sizes[-1]} <= set(kept) <= set(sizes)
    for m in sizes:
        served = result[min(kept, key=lambda k: (abs(k - m), k))].chosen.params
        block = served["BLOCK_SIZE_M"]
        assert canonical(served) == canonical({**BEST, "BLOCK_SIZE_M": block})
        assert times[m][block] <= 1.004 * min(times[m].values())
