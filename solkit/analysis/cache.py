"""Answers about kernel files on disk, so that nothing is traced or compiled twice.

An entry has a key, and is valid while the files that were read for it have the same contents. Those
of installed packages, which may be thousands, are a list of their own that many entries share. Many
processes may share a folder: each entry is written atomically. If the folder cannot be read or
written, or the disk is full, nothing is kept and nothing fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solkit.analysis.dependencies import Files, Lately, Stamp, Stamps
from solkit.processes.jobs import read_records
from solkit.userdata import cache_folder, write_atomically

MOST_BYTES = 1 << 30
"""Default size of a cache."""

Digests = tuple[tuple[str, str], ...]
"""Files and the SHA-256 of each."""

_SHARDS = 256
_KEPT = 0.75  # of a full shard


def default_folder() -> Path | None:
    """``$SOLKIT_CACHE``, else ``solkit/analysis`` in the user's cache folder; "off" is for none."""
    if os.environ.get("SOLKIT_CACHE", "").lower() == "off":
        return None
    return cache_folder("analysis", "SOLKIT_CACHE")


class Cache:
    """A folder of answers.

    Args:
        folder: ``None`` keeps nothing.
        most_bytes: beyond this size, the least recently used entries are removed.
    """

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes / _SHARDS
        self._lists: dict[str, Digests] = {}
        self._held: Lately[str] = Lately()
        self.files = Files()

    def get(self, key: str) -> Any:
        """Return the answer under a key; ``None`` if missing, or if a file for it has changed."""
        if self._folder is None:
            return None
        path = self._path(key)
        try:
            own, installed, answer = read_records(path.read_bytes())
            if not self._holds(own) or not self._list_holds(installed):
                return None
            os.utime(path)
        except FileNotFoundError:
            return None
        except Exception:  # whatever is wrong with it, it can be computed again
            return None
        return answer

    def put(self, key: str, answer: Any, stamps: Mapping[str, Stamp]) -> None:
        """Keep an answer, unless a file has changed since or reads environment variables.

        Args:
            key: in hexadecimal.
            answer: SolKit's nouns and plain values.
            stamps: of each file that was read for it, at that time.
        """
        if self._folder is None:
            return
        read = Stamps.of(stamps)
        with contextlib.suppress(OSError):
            digests, listed = self._digests(read.own), self._list_of(read)
            if digests is not None and listed is not None:
                self._write(self._path(key), pickle.dumps((digests, listed, answer)))

    def _holds(self, digests: Digests) -> bool:
        """Tell whether files have the same contents as then."""
        return all(self.files.digest(file) == digest for file, digest in digests)

    def _digests(self, stamps: Mapping[str, Stamp]) -> Digests | None:
        """Return digests of files; ``None`` if one has changed or reads environment variables."""
        pairs = []
        for file in sorted(stamps):
            now, digest, is_self_contained = self.files.read(file)
            if now != stamps[file] or not is_self_contained:
                return None
            pairs.append((file, digest))
        return tuple(pairs)

    # ------------------------------------------------------------------ files of installed packages

    def _list_holds(self, name: str) -> bool:
        """Tell whether the files of a list have the same contents as then.

        Raises:
            OSError: it is not there any more.
        """
        if not name or self._held.get(name) is not None:
            return True
        path = self._path(name)
        if name not in self._lists:
            self._lists[name] = read_records(path.read_bytes())
        if not self._holds(self._lists[name]):
            return False
        os.utime(path)
        self._held.add(name, name)
        return True

    def _list_of(self, stamps: Stamps) -> str | None:
        """Return the name of the list of installed files: its digest, or empty; as `_digests`."""
        if not stamps.installed:
            return ""
        if (held_list := self._held.get(stamps.name)) is not None:
            return held_list
        if (digests := self._digests(stamps.installed)) is None:
            return None
        data = pickle.dumps(digests)
        name = hashlib.sha256(data).hexdigest()
        try:
            os.utime(self._path(name))
        except FileNotFoundError:
            self._write(self._path(name), data)
        self._held.add(stamps.name, name)
        return name

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / key[2:]

    def _write(self, path: Path, data: bytes) -> None:
        write_atomically(path, data)
        with contextlib.suppress(FileNotFoundError):  # another process removes entries as well
            self._trim(path.parent)

    def _trim(self, shard: Path) -> None:
        entries = [(entry.stat(), entry.path) for entry in os.scandir(shard)]
        held = sum(status.st_size for status, _ in entries)
        if held <= self._most_bytes:
            return
        for status, path in sorted(entries, key=lambda entry: entry[0].st_mtime_ns):
            if held <= _KEPT * self._most_bytes:
                return
            Path(path).unlink(missing_ok=True)  # another process may have been quicker
            held -= status.st_size
