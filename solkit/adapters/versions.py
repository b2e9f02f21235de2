"""Warnings about versions of torch and Triton that the adapters were not tested with."""

from __future__ import annotations

import warnings

__all__ = ["warn_if_untested"]


def warn_if_untested(library: str, version: str, tested: tuple[str, str]) -> None:
    """Warn if a version is outside the tested minor releases, first and last."""
    minor, first, last = (_minor(each) for each in (version, *tested))
    if not first <= minor <= last:
        warnings.warn(
            f"{library} {version} is outside the range that SolKit was tested with "
            f"({tested[0]} to {tested[1]})",
            stacklevel=4,
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))
