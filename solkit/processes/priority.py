"""Priority of processes that compute while others measure on the GPU."""

from __future__ import annotations

import os

__all__ = ["lower_priority"]

_NICENESS = 10


def lower_priority() -> None:
    """Leave the cores to processes that measure: their launches must not wait."""
    os.nice(max(_NICENESS - os.nice(0), 0))
