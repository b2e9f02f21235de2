"""Accesses outside of the memory behind their argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from solkit.analysis.common.regions import ADDRESS_BITS

Array = np.ndarray[Any, np.dtype[Any]]

_WITHIN = (1 << ADDRESS_BITS) - 1
_BEFORE = 1 << (ADDRESS_BITS - 1)
"""An offset from here on lies before the first byte of the next storage."""


def outside_bytes(low: Array, high: Array, sizes: Array) -> Array:
    """Return the bytes that accesses reach beyond the ends of their storages; 0 for those inside.

    Args:
        low: first byte of each, as in `solkit.analysis.common.regions`.
        high: end of each.
        sizes: bytes of the storages by number; the first entry stands for none. What points
            elsewhere is not known, and counts as inside.
    """
    at = low & _WITHIN
    is_before = at >= _BEFORE
    place = (low >> ADDRESS_BITS) + is_before
    is_known = (low >= 0) & (place >= 1) & (place < len(sizes))
    past = at + (high - low) - sizes[np.where(is_known, place, 0)]
    beyond = np.where(is_before, _WITHIN + 1 - at, past)
    outside: Array = np.where(is_known, np.maximum(beyond, 0), 0)
    return outside
