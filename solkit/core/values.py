"""Values as written in a kernel file, on the command line, or in a row."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Union

from solkit.errors import ShapeError

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


def finite_or_none(value: float | None) -> float | None:
    """Return a number if it is one that can be shown."""
    return value if value is not None and math.isfinite(value) else None


def is_number(value: Value) -> bool:
    """Tell whether a value is a number; a truth value is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_sizes(
    problem: str,
    shape: Mapping[str, Value],
    sizes: Mapping[str, Value],
    also: Collection[str] = (),
) -> None:
    """Refuse what a problem has no size for, and a word in the place of a number.

    Args:
        problem: path of the problem, which messages name.
        shape: the sizes that were given.
        sizes: the problem's, each with a value it may have; ``None`` where that is not known.
        also: names that pass and are no sizes.

    Raises:
        ShapeError: names the size, and what the problem has.
    """
    for name, value in shape.items():
        if name in also:
            continue
        if name not in sizes:
            raise ShapeError(
                f"{problem} has no size {name!r} (given as {name}={value}); "
                f"its sizes are: {', '.join(sizes) or 'none'}"
            )
        if isinstance(value, str) and is_number(sizes[name]):
            raise ShapeError(
                f"{problem}: size {name!r} is a number, as in {name}={sizes[name]}; "
                f"given is {name}={value}"
            )
