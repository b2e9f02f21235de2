"""Candidates that ask for more than a multiprocessor has, as far as the text of their kernel tells.

Trees know hardly any of these: the kernels that they learned from rule such parameters out. A
product's sums are kept in registers as long as its loop runs, and its operands wait in shared
memory::

    registers of a thread   > sums of a block in fp32 / threads
    256 x 8                 > values of its largest tile / threads
    shared memory           >= (stages - 1) x operands of a trip, which are under way together

A thread has 255 registers, or fewer if the block's threads share those of a multiprocessor. What
has more sums is spilled, which takes minutes to compile, or ptxas refuses it. Other tiles need not
be kept whole, so more is left to the compiler: a softmax of rows of 4,096 compiles in 2.5 s with
256 values a thread, in 26 s with 1,024, and not in 180 s with 4,096.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability";
triton/lib/Dialect/TritonGPU/Transforms/Pipeliner (buffers of a pipelined loop).
"""

from __future__ import annotations

import numpy as np

from solkit.core import Device
from solkit.surrogate.table import Table
from solkit.surrogate.trees import columns_of

P_OVERLOAD = 0.85
"""The chance that such a candidate fails. Of 68 recorded ones with as many sums as registers, 58
failed with "Insufficient registers"; of 43,399 timed configurations with products, 22 look like
one (`datasets/data/h100`). Of how many with too large tiles fail nothing is known; the same chance
is taken. Of 1,035 that were timed, 32 came within a tenth of the best of their kernel, and one in
four of all others do."""

_MOST_REGISTERS, _WARP = 255, 32
_MOST_VALUES = 2048
"""Values of a tile in a thread: from so many on it asks too much. Eight times its registers."""
_SUMS, _ONCE = "tiles.sums_per_thread", "tiles.staged_once"
_LARGEST = "tiles.largest_per_thread"
_STAGES, _WARPS = "geometry.stages", "geometry.warps"


def explain_overloads(table: Table, device: Device) -> list[str]:
    """Say what each row asks too much of, a sentence; empty where it does not, or if unknown."""
    columns = columns_of(table, (_SUMS, _ONCE, _STAGES, _WARPS, _LARGEST)).T.astype(float)
    sums, once, stages, values = 2.0 ** columns[0], columns[1], columns[2], 2.0 ** columns[4]
    share = device.limits.registers / (_WARP * 2.0 ** columns[3])
    registers = np.minimum(share, _MOST_REGISTERS)
    shared = once * np.maximum(stages - 1, 1)
    explanations = np.full(len(table), "", object)
    for row in np.flatnonzero(shared > 1):
        explanations[row] = (
            f"Its operands take {shared[row]:.1f} times the shared memory of a multiprocessor."
        )
    for row in np.flatnonzero(values >= _MOST_VALUES):
        explanations[row] = (
            f"A thread would hold {values[row]:.0f} values of a tile; it has {registers[row]:.0f} "
            "registers."
        )
    for row in np.flatnonzero(sums >= registers):
        explanations[row] = (
            f"A thread would keep {sums[row]:.0f} sums of products; it has {registers[row]:.0f} "
            "registers."
        )
    return list(explanations)
