"""State of source files, which change without a version."""

from __future__ import annotations

import os
from collections.abc import Iterator


def source_stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, bytes and modification time in ns of the sources and tables under a folder."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from source_stamps(entry.path)
        elif entry.name.endswith((".py", ".cuh", ".json", ".toml")):
            status = entry.stat()
            yield entry.path, status.st_size, status.st_mtime_ns
