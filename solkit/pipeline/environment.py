"""Versions of the software that makes a report."""

from __future__ import annotations

import platform

import solkit
from solkit.datasets.facts import nvrtc_release
from solkit.extras import installed_version
from solkit.roofline import nvml


def environment() -> dict[str, str | None]:
    """Return versions by name; ``None`` if a package or the driver is missing."""
    return {
        "solkit": solkit.__version__,
        "python": platform.python_version(),
        "torch": installed_version("torch"),
        "triton": installed_version("triton"),
        "cuda": nvrtc_release(),
        "driver": nvml.driver_version(),
        "platform": platform.platform(),
    }
