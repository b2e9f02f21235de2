"""Ranges of library versions that SolKit is meant for; others get a warning, never a refusal."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping
from types import MappingProxyType

SUPPORTED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cuda-tile": ("1.7", "1.7"),
        "cutlass": ("4.8", "4.8"),
        "helion": ("1.5", "1.5"),
        "numpy": ("1.26", "2.5"),
        "optuna": ("4", "5"),
        "tilelang": ("0.1.15", "0.1.15"),
        "torch": ("2.11", "2.15"),
        "transformers": ("5.1", "5.24"),
        "triton": ("3.6", "3.9"),
    }
)
"""First and last release, by library; docs/versions.md says which of them were run."""


@functools.cache  # so once a process
def warn_if_untested(library: str, version: str) -> None:
    """Warn if a version is outside `SUPPORTED`, at most once a process."""
    first, last = (_leading_numbers(text) for text in SUPPORTED[library])
    installed = _leading_numbers(version)
    if not first <= installed[: len(first)] or installed[: len(last)] > last:
        warnings.warn(
            f"{library} {version} is outside the range that SolKit supports "
            f"({' to '.join(SUPPORTED[library])}); what goes on with it may be wrong or fail",
            stacklevel=3,
        )


def _leading_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version; none of one such as ``"main"``."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
