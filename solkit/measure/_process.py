"""A child process that may do anything, and always getting rid of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from solkit.errors import WorkerError

__all__ = ["Child", "python"]

_KEPT_BYTES = 16 << 10
_REAP_S = 30.0
_MARK = "SOLKIT_CHILD"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A process of its own session, with all that it starts.

    Its standard input is empty; of what it and its children print the last 16 KiB are kept.

    Args:
        command: the program and its arguments.
        env: its environment.
        descriptors: open files that it inherits under the same numbers.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int] = ()
    ) -> None:
        self._mark = secrets.token_hex(16)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,
            env={**env, _MARK: self._mark},
        )
        assert self._process.stdout is not None
        self._tail = _Tail(self._process.stdout)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def printed(self) -> list[str]:
        """The last lines that were printed since `forget_printed`."""
        return self._tail.text(wait=not self.is_alive).splitlines()

    def forget_printed(self) -> None:
        """Start anew with what is printed."""
        self._tail.forget()

    def resident_bytes(self) -> int:
        """Host memory that it and what it started hold."""
        return sum(map(_resident_bytes, {self.pid, *_marked(self._mark)}))

    def end(self, grace_s: float = 0.0) -> int:
        """Kill it and all that it started; how it ended, as `subprocess` has it.

        Args:
            grace_s: how long to wait for it to end by itself.

        Raises:
            WorkerError: it outlived being killed.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for stray in _marked(self._mark):  # those that left the process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray, signal.SIGKILL)
        try:
            return self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired as error:
            message = f"process {self.pid} is still there {_REAP_S:g} s after being killed"
            raise WorkerError(message) from error


def python(code: str) -> list[str]:
    """The command that runs code in this Python, with no module found in the working directory.

    There a ``random.py`` or ``copy.py`` of the user's would be taken for the standard library's.
    ``python -P`` does the same from Python 3.11 on.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = filter(None, sys.path); {code}"]


def _marked(mark: str) -> Iterator[int]:
    """Processes that were started with that mark, as far as /proc tells."""
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if wanted in (folder / "environ").read_bytes():
                yield int(folder.name)


def _resident_bytes(pid: int) -> int:
    try:  # proc(5), statm: the second figure is the resident set, in pages
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


class _Tail:
    """Keeps the end of a stream, read in the background so that its writer never waits."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self, *, wait: bool) -> str:
        """What was kept; waits for the stream's end, but not for one who still holds it open."""
        if wait:
            self._thread.join(timeout=0.5)
        return self._kept.decode(errors="replace")

    def forget(self) -> None:
        with self._lock:
            self._kept = b""

    def _read(self) -> None:
        with self._stream:
            while part := os.read(self._stream.fileno(), 1 << 16):
                with self._lock:
                    self._kept = (self._kept + part)[-_KEPT_BYTES:]
