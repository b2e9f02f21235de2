"""Sectors that the lanes of requests touch.

A warp's instruction is one request. It touches the 32-byte sectors of its lanes' addresses, each
counted once (Nsight Compute's ``l1tex__t_sectors_pipe_lsu_mem_global_op_*`` over
``l1tex__t_requests_*``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solkit.analysis.common.regions import SECTOR
from solkit.analysis.interpreter.values import Array

LINE_SECTORS = 4
"""Sectors of an L1 line: 128 bytes (Nsight Compute, "Hardware Model": L1/TEX)."""


def sorted_last_axis(values: Array) -> Array:
    """Sorted along the last axis; mostly they are sorted already."""
    in_order = (values[..., 1:] >= values[..., :-1]).all()
    return values if in_order else np.sort(values, axis=-1)


def count_distinct(values: Array) -> Array:
    """Count the different values along the last, sorted axis, without -1."""
    changes: Array = (values[..., 1:] != values[..., :-1]).sum(-1)
    return changes + (values[..., 0] >= 0)  # from -1 to the first is a change as well


@dataclass(frozen=True, eq=False)
class TouchedSectors:
    """Sectors that an execution touches, for each program, or for one if all are equal.

    Attributes:
        requests, sectors, lines, distinct, paired: as in
            `solkit.analysis.interpreter.access_counts.TOTALS`.
        numbers: of the distinct sectors, in order, of shape [programs or 1, any]; -1 in between.
    """

    requests: Array
    sectors: Array
    lines: Array
    distinct: Array
    paired: Array
    numbers: Array

    @staticmethod
    def of(lanes: Array, width_bytes: int = 0) -> TouchedSectors:
        """Group the lanes of some requests.

        Args:
            lanes: the sector of each, of shape [programs or 1, requests, lanes]; -1 for none.
            width_bytes: of a lane, if it may touch several sectors.
        """
        by_request = sorted_last_axis(lanes)
        flat = sorted_last_axis(by_request.reshape(len(lanes), -1))
        is_first = flat >= 0
        is_first[:, 1:] &= flat[:, 1:] != flat[:, :-1]
        numbers = np.where(is_first, flat, -1)
        per_lane = max(width_bytes // SECTOR, 1)
        distinct = is_first.sum(1) * per_lane
        return TouchedSectors(
            requests=(by_request[..., -1] >= 0).sum(1),
            sectors=count_distinct(by_request).sum(1) * per_lane,
            lines=count_distinct(by_request // LINE_SECTORS).sum(1),
            distinct=distinct,
            paired=np.maximum(2 * count_distinct(flat // 2), distinct),
            numbers=numbers[:, is_first.any(0)] if is_first.any() else numbers[:, :1],
        )


def distinct_together(pieces: Sequence[Array]) -> Array:
    """Count the distinct sectors of several executions, from their numbers."""
    programs = max(map(len, pieces))
    every = [np.broadcast_to(numbers, (programs, numbers.shape[1])) for numbers in pieces]
    return count_distinct(sorted_last_axis(np.concatenate(every, axis=1)))
