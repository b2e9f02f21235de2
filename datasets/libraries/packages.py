"""The package that a launcher imports its kernel from, which must be the one that was measured."""

from __future__ import annotations

import importlib.metadata

from solkit.errors import InputError

__all__ = ["check_installed"]


def check_installed(package: str, version: str) -> None:
    """Raise an error if another version of a package is installed: its kernels may differ.

    Raises:
        InputError: another version, or none, is installed.
    """
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        installed = "none"
    if installed != version:
        raise InputError(
            f"this launcher was measured with {package} {version}, and {installed} is installed; "
            f"pip install --no-deps {package}=={version}"
        )
