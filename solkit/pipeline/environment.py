"""Versions of the software that makes a report."""

from __future__ import annotations

import importlib.metadata
import platform

import solkit
from solkit.datasets.facts import nvrtc_release
from solkit.roofline import nvml

__all__ = ["environment"]


def environment() -> dict[str, str | None]:
    """Return versions by name; ``None`` if a package or the driver is missing."""
    return {
        "solkit": solkit.__version__,
        "python": platform.python_version(),
        "torch": _package_version("torch"),
        "triton": _package_version("triton"),
        "cuda": nvrtc_release(),
        "driver": nvml.driver_version(),
        "platform": platform.platform(),
    }


def _package_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
