"""Values as written in a kernel file, on the command line, or in a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Union

SCHEMA_VERSION = 2
"""The version of new rows: see `solkit.core.outcomes`."""

Value = Union[int, float, bool, str, None]
"""A shape size or a tuning parameter, as written in a kernel file or on the command line."""


def finite(value: Any) -> Any:
    """Turn non-finite numbers, which JSON lacks, into words."""
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
