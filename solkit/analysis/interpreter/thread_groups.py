"""The threads that are followed together, and the sink of what they access."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from solkit.analysis.interpreter.control_flow import BasicBlock, Instruction
from solkit.analysis.interpreter.values import Array, Value


@dataclass(frozen=True)
class Grid:
    """The blocks of a launch, the threads of each, and the blocks of a cluster."""

    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)


class Active:
    """Threads that take part, of shape [blocks, threads]."""

    def __init__(self, mask: Array, warps_of: Array) -> None:
        self.mask = mask
        self.warps_of = warps_of

    @cached_property
    def lanes(self) -> Array:
        """Threads of each block."""
        lanes: Array = self.mask.sum(1).astype(np.float64)
        return lanes

    @cached_property
    def any(self) -> Array:
        """True if a block has some."""
        return np.asarray(self.mask.any(1))

    @cached_property
    def warps(self) -> Array:
        """Warps of each block that have some."""
        warps: Array = np.logical_or.reduceat(self.mask, self.warps_of, axis=1).sum(1)
        return warps.astype(np.float64)

    def where(self, mask: Array) -> Active:
        """Return the active threads that are also in a mask."""
        return Active(self.mask & mask, self.warps_of)


class AccessSink(Protocol):
    """Receiver of each block of code that runs, and of each access there."""

    def access(
        self, instruction: Instruction, space: str, addresses: Value, active: Active
    ) -> None:
        """Observe an access of memory.

        Args:
            instruction: makes it.
            space: ``"global"`` or ``"shared"``.
            addresses: storage numbers above `ADDRESS_BITS`; offsets in shared memory.
            active: the threads that make it.
        """

    def block_ends(self, block: BasicBlock, active: Active) -> None:
        """Observe that a block of the code ran."""
