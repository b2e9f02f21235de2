"""Packages that only figures need: the optional group ``solkit[report]``."""

from __future__ import annotations

import importlib
from types import ModuleType

from solkit.errors import UnsupportedError

__all__ = ["needed"]


def needed(package: str) -> ModuleType:
    """Import a package of the group.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"this needs {package}, which is not installed: pip install 'solkit[report]'"
        ) from error
