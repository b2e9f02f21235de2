"""Where SolKit keeps what belongs to a user."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["folder"]


def folder(name: str, variable: str) -> Path:
    """A folder of the user's own, which need not exist.

    What the environment variable names, else ``$XDG_DATA_HOME/solkit/<name>``, else the same under
    ``~/.local/share`` (XDG Base Directory Specification 0.8, where a relative path counts as none).

    Args:
        name: of the folder.
        variable: an environment variable that names another folder.
    """
    if chosen := os.environ.get(variable):
        return Path(chosen)
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (data if data.is_absolute() else Path.home() / ".local/share") / "solkit" / name
