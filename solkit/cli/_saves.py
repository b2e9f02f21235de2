"""Noticing that source files were saved, whichever way an editor does it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_SOURCES = (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".json", ".jsonl")
_POLL_S = 0.05
_EMPTY_S = 1.0  # an editor that truncates a file before writing it is quicker

_State = dict[str, tuple[int, int, int]]
"""Time of the last change in ns, size in bytes and inode of each file."""


def watch_saves(paths: Iterable[str], poll_s: float = _POLL_S) -> Iterator[float]:
    """Yield the time of each save of the sources beside some files, and first of all now.

    Times are those of `time.time`.

    A save that an editor makes in several steps counts once: it is over when nothing has changed
    for `poll_s` and no watched file is missing or empty. A save while the caller is busy is not
    missed.

    Args:
        paths: files, or problem folders.
        poll_s: seconds between two checks.
    """
    watched = [Path(path) for path in paths]
    state, saved_s = _wait_until_settled(watched, poll_s), time.time()
    while True:
        yield saved_s
        began = time.monotonic()
        while _state_of_sources(watched) == state:
            time.sleep(max(poll_s, 10 * (time.monotonic() - began)))  # longer for a large folder
            began = time.monotonic()
        saved_s = time.time()
        state = _wait_until_settled(watched, poll_s)


def _wait_until_settled(watched: Iterable[Path], poll_s: float) -> _State:
    """Wait until a save is over, and return the state."""
    state, since = _state_of_sources(watched), time.monotonic()
    while True:
        time.sleep(poll_s)
        whole = all(state.get(str(path), (0, 1))[1] and path.exists() for path in watched)
        before, state = state, _state_of_sources(watched)
        if before == state and (whole or time.monotonic() - since > _EMPTY_S):
            return state


def _state_of_sources(watched: Iterable[Path]) -> _State:
    state: _State = {}
    for path in watched:
        folder = path if path.is_dir() else path.parent
        for file in folder.iterdir() if folder.is_dir() else ():
            if file.suffix in _SOURCES:
                with contextlib.suppress(OSError):  # an editor's temporary file may be gone again
                    status = file.stat()
                    state[str(file)] = status.st_mtime_ns, status.st_size, status.st_ino
    return state
