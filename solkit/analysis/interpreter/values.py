"""Values that kernels compute: arrays of many programs at once."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

Value = Union[Array, None]
"""Values of shape [blocks, threads], of size 1 along an axis if all agree; ``None`` if unknown."""

ODD = np.int64(-7046029254386353131)
"""2**64 over the golden ratio: sums of it seldom agree, and its products spread well."""


def single_value(number: int) -> Array:
    """Return a number that all threads of all blocks have in common."""
    return np.array([[number]], np.int64)
