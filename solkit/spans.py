"""Spans: how long the parts of a command took, across its processes.

If the environment names a file in ``SOLKIT_SPANS``, each part appends a line to it when it ends: a
JSON object with ``name``, ``process``, ``pid``, ``start_s`` and ``end_s``. Seconds are those of
``CLOCK_MONOTONIC``, which all processes of a Linux machine share. Else nothing happens.
`bench/waterfall.py` shows the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator

SPANS_FILE = "SOLKIT_SPANS"
"""The environment's variable with the file's path."""


@contextlib.contextmanager
def span(name: str, process: str = "command") -> Iterator[None]:
    """Record the ``with`` block as a span.

    Args:
        name: of the part.
        process: role of the process that does it.
    """
    path = os.environ.get(SPANS_FILE)
    if not path:
        yield
        return
    begun_s = time.monotonic()
    try:
        yield
    finally:
        _append_span(path, name, process, begun_s)


class Stages:
    """Consecutive spans of a process: each lasts until the next begins.

    Args:
        process: role of the process.
    """

    def __init__(self, process: str) -> None:
        self._process, self._name, self._begun_s = process, "", 0.0

    def begin(self, name: str) -> None:
        """End the stage that runs and begin another; the empty name begins none."""
        path = os.environ.get(SPANS_FILE)
        if path and self._name:
            _append_span(path, self._name, self._process, self._begun_s)
        self._name, self._begun_s = name, time.monotonic()


def _append_span(path: str, name: str, process: str, begun_s: float) -> None:
    """Append a line; a process that may not write there leaves no spans."""
    line = {
        "name": name,
        "process": process,
        "pid": os.getpid(),
        "start_s": begun_s,
        "end_s": time.monotonic(),
    }
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(line)}\n".encode())  # whole: shorter than a pipe's
        finally:
            os.close(descriptor)
