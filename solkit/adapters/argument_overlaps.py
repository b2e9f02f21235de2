"""Memory that tensors among a launch's arguments share.

A proof about a kernel's reads and writes takes its pointers for different buffers. That holds for
tensors that only one argument reaches, and for those that nothing writes to. Of two arguments that
are the same tensor, as where an operator works in place, one pointer is the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["distinct_buffers"]


@dataclass(frozen=True)
class _Buffer:
    """A tensor: where it begins, its elements' type, and the memory that its storage has."""

    address: int
    dtype: str
    first: int
    end: int
    is_written: bool

    def shares(self, other: _Buffer) -> bool:
        """Tell whether writes through one of both may be seen through the other."""
        is_written = self.is_written or other.is_written
        return is_written and self.first < other.end and other.first < self.end

    def is_same(self, other: _Buffer) -> bool:
        """Tell whether both are one pointer to elements of one type."""
        return (self.address, self.dtype) == (other.address, other.dtype)


def distinct_buffers(arguments: Iterable[tuple[Any, bool]]) -> tuple[int, ...] | None:
    """Return for each tensor, in order, the place of the first that is the same pointer.

    The whole storage of a tensor counts: kernels get the first element of a view, and reach
    others by strides. One that has none that is known shares memory with all others.

    Args:
        arguments: values, tuples among them, and whether the kernel may write to what they point
            to.

    Returns:
        ``None`` if one that is written shares memory with another one, and is not the same.
    """
    buffers = list(_buffers(arguments))
    places: list[int] = []
    for place, buffer in enumerate(buffers):
        sharing = [other for other in buffers if other is not buffer and buffer.shares(other)]
        if not all(map(buffer.is_same, sharing)):
            return None
        same = (n for n, other in enumerate(buffers) if buffer.is_same(other))
        places.append(next(same) if sharing else place)
    return tuple(places)


def _buffers(arguments: Iterable[tuple[Any, bool]]) -> Iterator[_Buffer]:
    for value, is_written in arguments:
        if isinstance(value, tuple | list):
            yield from _buffers((item, is_written) for item in value)
            continue
        tensor = getattr(value, "base", value)  # a descriptor's, or a tensor seen as another type
        if not hasattr(tensor, "data_ptr"):
            continue
        address, first, end = int(tensor.data_ptr()), 0, 2**64
        if hasattr(tensor, "untyped_storage"):
            storage = tensor.untyped_storage()
            first = int(storage.data_ptr())
            end = first + int(storage.nbytes())
        dtype = str(getattr(value, "dtype", ""))
        yield _Buffer(address, dtype, first, end, is_written)
