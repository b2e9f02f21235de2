"""Folders for the user's data and caches, what replaces unwritable ones, and atomic writes."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

_LEAST_BYTES = 64 << 20  # a kernel's files take up to some MB
_CACHES = {
    "TRITON_CACHE_DIR": ("TRITON_HOME", ".triton/cache"),  # triton/knobs.py
    "TORCH_EXTENSIONS_DIR": ("", ".cache/torch_extensions"),  # torch/utils/cpp_extension.py
}
"""Caches of other libraries: variable, the variable of the folder above it, and path below that."""


def folder(name: str, variable: str = "") -> Path:
    """Return the user's data folder of that name, which may be missing.

    ``$variable``, else ``$XDG_DATA_HOME/solkit/<name>``, else ``~/.local/share/solkit/<name>`` (XDG
    Base Directory Specification 0.8, which ignores relative paths). A user without a home gets a
    temporary folder.

    Args:
        name: of the folder.
        variable: an environment variable that names another folder.
    """
    return _folder(name, variable, "XDG_DATA_HOME", ".local/share")


def cache_folder(name: str, variable: str = "") -> Path:
    """Return the same for caches: under ``$XDG_CACHE_HOME``, else ``~/.cache``."""
    return _folder(name, variable, "XDG_CACHE_HOME", ".cache")


def write_atomically(path: Path, data: bytes, *, durably: bool = False) -> None:
    """Write a file that others see whole or not at all; the folder is made.

    Any number of threads and processes may write the same file.

    Args:
        path: of the file.
        data: all that it is to hold.
        durably: whether it is on disk before it takes the place of an old one, whose mode it keeps.

    Raises:
        OSError: the file cannot be written; the old one, if any, stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".solkit-{secrets.token_hex(8)}")
    try:
        draft.write_bytes(data)
        if durably:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            if path.exists():
                shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _folder(name: str, variable: str, base: str, default: str) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen)
    above = Path(os.environ.get(base, ""))
    return (above if above.is_absolute() else _home() / default) / "solkit" / name


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no $HOME, and the user is not in the password database
        return Path(tempfile.gettempdir())


def replaced_caches(instead: str) -> dict[str, str]:
    """Environment variables that move unwritable or full caches of Triton and torch.

    Args:
        instead: a folder for them.
    """
    caches = {}
    for variable, (above, path) in _CACHES.items():
        default = Path(os.environ.get(above) or _home(), path)
        if not has_room(Path(os.environ.get(variable) or default)):
            caches[variable] = str(Path(instead, variable))
    return caches


def has_room(cache: Path) -> bool:
    """Tell whether a folder, which may be missing, can be written and has 64 MiB free."""
    try:
        parent = next(path for path in (cache, *cache.parents) if path.exists())
        free = shutil.disk_usage(parent).free
    except OSError:
        return False
    return parent.is_dir() and os.access(parent, os.W_OK | os.X_OK) and free >= _LEAST_BYTES
