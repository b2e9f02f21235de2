"""Compiled kernels on their way into the Triton cache of another machine.

A key of Triton's cache depends on the kernel's source, its arguments, the target, and Triton's own
files, but on no path or machine. So what one machine compiled is found in another's cache, if both
run the same Triton. Only the groups (``__grp__*.json``) name files by their full path
(triton/runtime/cache.py, `FileCacheManager.put_group`): those are written for their new place.

It needs neither torch nor triton. Tested with Triton 3.6 and 3.7.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

__all__ = ["add_to_cache", "cache_folder", "pack_cache"]

_GROUP = "__grp__"
_PATHS = "child_paths"


def cache_folder() -> Path:
    """Triton's cache of this process: ``$TRITON_CACHE_DIR``, else below ``$TRITON_HOME``."""
    chosen = os.environ.get("TRITON_CACHE_DIR")
    home = os.environ.get("TRITON_HOME") or Path.home()
    return Path(chosen) if chosen else Path(home, ".triton", "cache")


def pack_cache(folder: Path) -> dict[str, bytes]:
    """Return the content of a cache, by path below it; nothing that is being written."""
    files = (path for path in folder.glob("*/*") if not path.name.startswith("tmp."))
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in files if file.is_file()
    }


def add_to_cache(files: Mapping[str, bytes], folder: Path) -> int:
    """Put files into a cache, where those that are there stay; returns how many are new.

    Groups come last: who finds one finds its files.

    Raises:
        OSError: the cache cannot be written.
    """
    named = sorted(files, key=lambda name: (Path(name).name.startswith(_GROUP), name))
    return sum(_write_new_file(folder / name, files[name]) for name in named)


def _write_new_file(place: Path, content: bytes) -> bool:
    if place.exists():
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.name.startswith(_GROUP):
        content = _relocated_group(content, place.parent)
    part = place.with_name(f"tmp.{secrets.token_hex(8)}")  # as Triton writes: others see it whole
    part.write_bytes(content)
    part.replace(place)
    return True


def _relocated_group(content: bytes, folder: Path) -> bytes:
    """Return a group whose files are in this folder."""
    group = json.loads(content)
    group[_PATHS] = {name: str(folder / name) for name in group.get(_PATHS, {})}
    return json.dumps(group).encode()
