"""Where atomics meet, from the addresses of some blocks: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.analysis.common.atomic_contention import AtomicContention, contention_of


def meetings(*blocks):
    """Of 4-byte words, by block."""
    contention = AtomicContention(4)
    for number, words in enumerate(blocks):
        at = 4 * np.array(words, np.int64)
        contention.add(at, np.full(len(at), number))
    return contention


def test_blocks_that_were_all_followed_are_counted():
    contention = contention_of(meetings([0, 0, 1, 9], [0, 8, 9, 9]), 8, 6, 64, followed=2, blocks=2)
    assert (contention.operations, contention.warp_addresses, contention.addresses) == (8, 6, 4)
    assert contention.busiest_address == 3  # word 0, and word 9
    assert contention.busiest_sector == 4  # words 0 and 1 lie in one sector, 8 and 9 in the next


def test_an_access_without_an_active_lane_meets_nobody():
    nobody = contention_of(meetings([], []), 8, 8, 64, followed=2, blocks=2)
    assert nobody == contention_of(None, 8, 8, 64, followed=2, blocks=2)


def test_an_address_where_all_followed_blocks_come_is_scaled():
    some = meetings(*([0, 100 + number] for number in range(16)))
    contention = contention_of(some, 3200, 3200, 1600 * 4 + 32, followed=16, blocks=1600)
    assert contention.busiest_address == 1600  # each block of the launch comes once


def test_an_address_of_one_block_alone_is_not_scaled():
    some = meetings(*([8 * number] * 32 for number in range(16)))  # a sector of its own each
    contention = contention_of(some, 32 * 1600, 1600, 32 * 1600, followed=16, blocks=1600)
    assert (contention.addresses, contention.busiest_address) == (1600, 32)


def test_blocks_that_meet_by_chance_count_little():
    draw = np.random.default_rng(0)
    some = meetings(*(draw.integers(0, 100_000, 512).tolist() for _ in range(16)))
    contention = contention_of(some, 512 * 1600, 512 * 1600, 400_000, followed=16, blocks=1600)
    # 8.2 operations an address on average; two of 16 blocks met somewhere: not 2 x 100
    assert contention.addresses == pytest.approx(100_000, rel=0.15)
    assert contention.busiest_address <= 12


def test_unknown_addresses_are_spread_evenly():
    contention = contention_of(None, 4096, 4096, 1024, followed=16, blocks=64)
    assert contention.is_assumed
    assert (contention.addresses, contention.busiest_address, contention.busiest_sector) == (
        256,
        16,
        128,
    )
