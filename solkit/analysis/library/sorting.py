"""Traffic of PyTorch's sort besides its operands: indices, passes over memory, shared memory.

Sources: PyTorch, aten/src/ATen/native/cuda/Sort.cpp, SortImpl.cuh and SortUtils.cuh; CUB,
BlockRadixSort, BlockRadixRank and BlockExchange. Lines of up to 4,096 elements are copied to the
result, and the indices are filled in; then a block sorts a line in place. Blocks sort by digits of
4 bits. Longer lines go through memory once for each byte of a key.

::

    wavefronts for 32 keys and a digit:
        rank      3         a counter is read, written and read again, in each thread's own column
        counters  27 / 32   9 words of a thread cleared, read and written, for its 32 keys
        exchange  4.5 a word of key and index: stored at random, 3.5 of 32 lanes at the busiest of
                  32 banks, and read in order
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from solkit.core import SharedAccess
from solkit.ops import Family
from solkit.roofline.work.program import TracedOp

_IN_A_BLOCK, _IN_A_WARP = 4096, 128
_SIZES = (1024, 2048, 4096)
"""Elements of a line that the block's kernels have room for."""
_DIGIT_BITS = 4
_RANKED = 3 + 27 / 32
_RANDOM = 3.5
"""Lanes of 32 at the busiest of 32 banks, if each goes to one at random: the mean, simulated."""
_INDEX_BYTES = 8


@dataclass(frozen=True)
class Sorting:
    """A sort.

    Attributes:
        passes: times that all results are written, and read but for the first.
        shared: accesses of shared memory.
    """

    passes: int
    shared: tuple[SharedAccess, ...] = ()


def sorting_of(op: TracedOp, line: str) -> Sorting | None:
    """Return how an operator sorts; ``None`` if it is no sort."""
    record = op.operator
    if record.family is not Family.ORDER or record.cost != "along lines" or record.chooses:
        return None
    source, dim = op.inputs[0], op.arguments.get("dim", -1)
    if not source.shape or not isinstance(dim, int):
        return None
    length, key_bytes = source.shape[dim], source.dtype.itemsize
    if length > _IN_A_BLOCK:
        return Sorting(1 + key_bytes)
    if length <= _IN_A_WARP:
        return Sorting(2)
    room = next(size for size in _SIZES if length <= size)
    return Sorting(2, (_shared(source.numel // length * room, key_bytes, line),))


def _shared(keys: int, key_bytes: int, line: str) -> SharedAccess:
    digits = math.ceil(8 * key_bytes / _DIGIT_BITS)
    words = math.ceil(key_bytes / 4) + _INDEX_BYTES // 4
    warps = keys / 32 * digits
    wavefronts = warps * (_RANKED + words * (_RANDOM + 1))
    least = warps * (_RANKED + words * 2)
    return SharedAccess("store", line, round(least), round(wavefronts), round(least))
