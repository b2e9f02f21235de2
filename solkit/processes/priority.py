"""Priority of processes that compute while others measure on the GPU."""

from __future__ import annotations

import os

_NICENESS, _AWAITED_NICENESS = 10, 5


def lower_priority(is_awaited: bool = False) -> None:
    """Leave the cores to processes that measure: their launches must not wait.

    Args:
        is_awaited: whether others that leave the cores wait for this one. All checks of a
            parent wait for it, and on busy cores for a minute while twenty were compiled.
    """
    os.nice(max((_AWAITED_NICENESS if is_awaited else _NICENESS) - os.nice(0), 0))
