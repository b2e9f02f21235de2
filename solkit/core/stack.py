"""Values of nested ``with`` blocks, of which the innermost counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class Stack(list[T]):
    """A value for each open ``with`` block, the innermost last; empty outside all of them."""

    @contextlib.contextmanager
    def holding(self, value: T) -> Iterator[T]:
        """Let a value be the innermost within the ``with`` block."""
        self.append(value)
        try:
            yield value
        finally:
            self.pop()
