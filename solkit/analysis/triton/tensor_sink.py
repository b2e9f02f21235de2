"""Accesses of the programs of a Triton kernel, as they are reported to their counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from solkit.adapters.triton_ir import Operation
from solkit.analysis.interpreter.values import Array


@dataclass(frozen=True)
class Descriptor:
    """A TMA descriptor: where a tensor is, outermost dimension first.

    Attributes:
        base: address of the first element.
        shape: in elements.
        strides: in bytes.
        element_bytes: of one.
    """

    base: Array
    shape: tuple[Array, ...]
    strides: tuple[Array, ...]
    element_bytes: int


class TensorSink(Protocol):
    """Receiver of each access that the programs make."""

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """Observe an access through pointers.

        Args:
            operation: makes it.
            addresses: broadcast to [programs, *shape]; ``None`` if unknown.
            mask: likewise; ``None`` if all elements are accessed.
            active: which programs make it.
        """

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """Observe a TMA access of the box that starts at `corner`."""

    def step_ends(self) -> None:
        """Observe the end of a block of the code, such as an iteration of a loop."""


class IgnoringSink:
    """A sink that counts nothing."""

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """See `TensorSink`."""

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """See `TensorSink`."""

    def step_ends(self) -> None:
        """See `TensorSink`."""
