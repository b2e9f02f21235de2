"""Values as written in a kernel file or on the command line."""

from __future__ import annotations

from typing import Union

__all__ = ["Value"]


Value = Union[int, float, bool, str, None]
"""A shape size or a tuning parameter, as written in a kernel file or on the command line."""
