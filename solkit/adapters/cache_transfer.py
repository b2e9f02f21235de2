"""Compiled kernels on their way into the Triton cache of another machine.

A key of Triton's cache depends on the kernel's source, its arguments, the target, and Triton's own
files, but on no path or machine. So what one machine compiled is found in another's cache, if both
run the same Triton. Only the groups (``__grp__*.json``) name files by their full path
(triton/runtime/cache.py, `FileCacheManager.put_group`): those are written for their new place.

It needs neither torch nor triton. Tested with Triton 3.6 and 3.7.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from solkit.errors import UnsupportedError

CACHE = "triton_cache"
"""A cache's name in a recorded or tuned folder."""

_GROUP = "__grp__"
_PATHS = "child_paths"


def cache_folder() -> Path:
    """Triton's cache of this process: ``$TRITON_CACHE_DIR``, else below ``$TRITON_HOME``."""
    chosen = os.environ.get("TRITON_CACHE_DIR")
    home = os.environ.get("TRITON_HOME") or Path.home()
    return Path(chosen) if chosen else Path(home, ".triton", "cache")


def pack_cache(folder: Path) -> dict[str, bytes]:
    """Return the content of a cache, by path below it; nothing that is being written."""
    places = [place for place in folder.glob("*") if place.is_dir()]
    return {name: data for place in places for name, data in _files_below(place, folder).items()}


def _files_below(place: Path, folder: Path) -> dict[str, bytes]:
    files = (path for path in place.iterdir() if not path.name.startswith("tmp."))
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


def add_folder_to_cache(source: Path, folder: Path) -> int:
    """Put what a cache has into another, which may be the same; returns how many files are new.

    Raises:
        OSError: the other cannot be written.
        UnsupportedError: its disk would be full; nothing is put there then.
    """
    if folder.exists() and source.samefile(folder):
        return 0
    places = [
        place
        for place in source.iterdir()
        if place.is_dir() and not any((folder / place.name).glob(f"{_GROUP}*"))
    ]
    _check_space(places, folder)
    return sum(add_to_cache(_files_below(place, source), folder) for place in places)


def _check_space(places: Iterable[Path], folder: Path) -> None:
    """Refuse to take the room that the program itself needs to compile.

    Raises:
        UnsupportedError: less than twice what is missing is free.
    """
    needed = sum(file.stat().st_size for place in places for file in place.iterdir())
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < 2 * needed:
        sizes = f"{free / 1e6:.1f} MB are free at {there}, and {needed / 1e6:.1f} MB are missing"
        raise UnsupportedError(f"{sizes}, twice of which must be free")


def versions_of_cache(folder: Path) -> set[str]:
    """Return the versions of Triton that compiled a cache's kernels."""
    versions = set()
    for file in folder.glob("*/*.json"):
        if not file.name.startswith((_GROUP, "tmp.")):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # not Triton's
                versions.add(str(json.loads(file.read_text()).get("triton_version")))
    return versions - {"None"}


def _write_new_file(place: Path, content: bytes) -> bool:
    if place.exists():
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.name.startswith(_GROUP):
        content = _relocated_group(content, place.parent)
    part = place.with_name(f"tmp.{secrets.token_hex(8)}")  # as Triton writes: others see it whole
    try:
        part.write_bytes(content)
        part.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)  # what little there is of it takes room
        raise
    return True


def _relocated_group(content: bytes, folder: Path) -> bytes:
    """Return a group whose files are in this folder."""
    group = json.loads(content)
    group[_PATHS] = {name: str(folder / name) for name in group.get(_PATHS, {})}
    return json.dumps(group).encode()
