"""Memory that tensors among a launch's arguments share.

A proof about a kernel's reads and writes takes its pointers for different buffers. That holds for
tensors that only one argument reaches, and for those that nothing writes to. Of two arguments that
are the same tensor, as where an operator works in place, one pointer is the other. Of views that
share a storage the kernel's code has to say that it keeps them apart: see `element_places`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

_NUMBERS = frozenset((bool, int, float, str, type(None)))
"""Types of most arguments that are no tensors."""


class _Buffer(NamedTuple):
    """A tensor: where it begins, its elements' type, and the memory that its storage has."""

    address: int
    dtype: Any
    first: int
    end: int
    is_written: bool


class ArgumentBuffers(NamedTuple):
    """Buffers that tensors among a launch's arguments are in.

    Attributes:
        same: for each tensor, in order, the place of the first that is the same pointer.
        shared: pairs of tensors that share a storage which one of them may write, and are not the
            same: their places, and how far the second begins behind the first, in bytes.
    """

    same: tuple[int, ...]
    shared: tuple[tuple[int, int, int], ...] = ()


def argument_buffers(arguments: Iterable[tuple[Any, bool]]) -> ArgumentBuffers:
    """Return buffers of arguments.

    The whole storage of a tensor counts: kernels get the first element of a view, and reach
    others by strides. One that has none that is known shares memory with all others.

    Args:
        arguments: values, tuples among them, and whether the kernel may write to what they point
            to.
    """
    buffers = list(_buffers(arguments))
    shared: set[tuple[int, Any]] = set()
    apart: list[tuple[int, int, int]] = []
    for (n, one), (m, other) in combinations(enumerate(buffers), 2):
        is_written = one.is_written or other.is_written
        if is_written and one.first < other.end and other.first < one.end:
            if one[:2] == other[:2]:
                shared.add(one[:2])
            else:
                apart.append((n, m, other.address - one.address))
    if not shared:
        return ArgumentBuffers(tuple(range(len(buffers))), tuple(apart))
    firsts: dict[tuple[int, Any], int] = {}
    same = (
        firsts.setdefault(buffer[:2], place) if buffer[:2] in shared else place
        for place, buffer in enumerate(buffers)
    )
    return ArgumentBuffers(tuple(same), tuple(apart))


def _buffers(arguments: Iterable[tuple[Any, bool]]) -> Iterator[_Buffer]:
    for value, is_written in arguments:
        if type(value) in _NUMBERS:
            continue
        if isinstance(value, tuple | list):
            yield from _buffers((item, is_written) for item in value)
            continue
        # a descriptor's, or a tensor seen as another type
        tensor: Any = getattr(value, "base", None)
        if not hasattr(tensor, "data_ptr"):
            tensor = value
        pointer = value if hasattr(value, "data_ptr") else tensor
        if not hasattr(pointer, "data_ptr"):
            continue
        address, first, end = int(pointer.data_ptr()), 0, 2**64
        if hasattr(tensor, "untyped_storage"):
            storage = tensor.untyped_storage()
            first = int(storage.data_ptr())
            end = first + int(storage.nbytes())
        yield _Buffer(address, getattr(value, "dtype", None), first, end, is_written)
