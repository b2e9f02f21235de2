"""Where SolKit keeps what belongs to a user."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "folder"]


def folder(name: str, variable: str) -> Path:
    """A folder of the user's own, which need not exist.

    What the environment variable names, else ``$XDG_DATA_HOME/solkit/<name>``, else the same under
    ``~/.local/share`` (XDG Base Directory Specification 0.8, where a relative path counts as none).

    Args:
        name: of the folder.
        variable: an environment variable that names another folder.
    """
    return _folder(name, variable, "XDG_DATA_HOME", ".local/share")


def cache_folder(name: str, variable: str) -> Path:
    """The same for what can be computed again: under ``$XDG_CACHE_HOME``, else ``~/.cache``."""
    return _folder(name, variable, "XDG_CACHE_HOME", ".cache")


def _folder(name: str, variable: str, base: str, default: str) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen)
    home = Path(os.environ.get(base, ""))
    return (home if home.is_absolute() else Path.home() / default) / "solkit" / name
