"""Candidates that ask for more than a block can have, as far as the text of their kernel tells.

Trees know none of these: the kernels that they learned from rule such parameters out. A product's
sums are kept in registers as long as its loop runs, and its operands wait in shared memory::

    registers of a thread   >= sums of a block in fp32 / threads; more than 255 are spilled
    shared memory           >= (stages - 1) x operands of a trip, which are under way together

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability" (255
registers); triton/lib/Dialect/TritonGPU/Transforms/Pipeliner (buffers of a pipelined loop).
"""

from __future__ import annotations

import numpy as np

from solkit.surrogate.table import Table
from solkit.surrogate.trees import columns_of

__all__ = ["P_OVERLOAD", "overloads"]

P_OVERLOAD = 0.95
"""The chance that such a candidate fails. Of 43,399 timed configurations with products, 3 look like
one: a text does not tell everything."""

_MOST_REGISTERS = 255
_SUMS, _ONCE, _STAGES = "tiles.sums_per_thread", "tiles.staged_once", "geometry.stages"


def overloads(table: Table) -> list[str]:
    """What each row asks too much of, a sentence; empty where it does not, or nothing is known."""
    sums, once, stages = columns_of(table, (_SUMS, _ONCE, _STAGES)).T.astype(float)
    registers, shared = 2.0**sums, once * np.maximum(stages - 1, 1)
    return [
        _spilled(registers[row])
        if registers[row] > _MOST_REGISTERS
        else f"Its operands take {shared[row]:.1f} times the shared memory of a block."
        if shared[row] > 1
        else ""
        for row in range(len(table))
    ]


def _spilled(registers: float) -> str:
    return (
        f"A thread would keep {registers:.0f} sums of products; it has {_MOST_REGISTERS} registers."
    )
