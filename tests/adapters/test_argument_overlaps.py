"""Memory that arguments share, on tensors of the CPU."""

from __future__ import annotations

import pytest
import torch

from solkit.adapters.argument_overlaps import argument_buffers

POOL = torch.zeros(64)
OTHER = torch.zeros(64)


class Seen:
    """A tensor seen as another type, as `triton.reinterpret` makes it."""

    def __init__(self, base, dtype):
        self.base, self.dtype = base, dtype

    def data_ptr(self):
        return self.base.data_ptr()


class Part(Seen):
    """A tensor seen from one of its elements on; `base` is ``None`` in an array of its own."""

    def data_ptr(self):
        return POOL.data_ptr() + 64


class Pointer:
    """An address of memory whose size nobody knows."""

    def __init__(self, tensor):
        self.address = tensor.data_ptr()

    def data_ptr(self):
        return self.address


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ([(POOL, False), (OTHER, True)], (0, 1)),
        ([(POOL, False), (3, False), (OTHER, True), (None, False)], (0, 1)),
        ([(POOL, False), (POOL, True)], (0, 0)),
        ([(OTHER, True), (POOL, False), (POOL[:8], True)], (0, 1, 1)),  # one pointer, one type
        ([(POOL, False), (POOL, False), (POOL, True)], (0, 0, 0)),  # both see what is written
        ([(POOL[:32], False), (POOL[32:], False), (OTHER, True)], (0, 1, 2)),  # both are only read
        ([(POOL, True), (POOL.view(8, 8), False)], (0, 0)),
        ([(POOL, False), (POOL, False), (OTHER, True)], (0, 1, 2)),
        ([((POOL, POOL[1:]), False), (OTHER, True)], (0, 1, 2)),
        ([(Pointer(POOL), True)], (0,)),
        ([(torch.zeros(0), True), (torch.zeros(0), False)], (0, 1)),
    ],
)
def test_pointers_are_apart_or_the_same(arguments, places):
    assert argument_buffers(arguments) == (places, ())


@pytest.mark.parametrize(
    ("arguments", "pairs"),
    [
        ([(POOL, False), (POOL[1:], True)], [(0, 1, 4)]),
        ([(POOL[1:], True), (OTHER, True), (POOL, False)], [(0, 2, -4)]),
        ([(POOL[:32], False), (POOL[32:], True)], [(0, 1, 128)]),  # a kernel may reach further
        ([(POOL, True), (POOL, False), (POOL[2:], False)], [(0, 2, 8)]),  # 0 writes
        ([(POOL, False), (Seen(POOL, torch.int32), True)], [(0, 1, 0)]),
        ([((OTHER, POOL), False), (POOL[1:], True)], [(1, 2, 4)]),
        ([(POOL, False), (Pointer(POOL), True)], [(0, 1, 0)]),
        ([(POOL, True), (Pointer(OTHER), False)], [(0, 1, OTHER.data_ptr() - POOL.data_ptr())]),
        ([(POOL, False), (Part(POOL, torch.float32), True)], [(0, 1, 64)]),
        ([(POOL, False), (Part(None, torch.float32), True)], [(0, 1, 64)]),
    ],
)
def test_pointers_into_memory_that_is_written_are_pairs(arguments, pairs):
    assert list(argument_buffers(arguments).shared) == pairs
