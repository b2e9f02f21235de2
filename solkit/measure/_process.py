"""Running a child process that may do anything, and always getting rid of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from solkit.errors import WorkerError

__all__ = ["Ended", "python", "read_request", "supervise"]

_KEPT_BYTES = 16 << 10
_REAP_S = 30.0


@dataclass(frozen=True)
class Ended:
    """How a child process ended.

    Attributes:
        answer: all that it wrote to the answer's descriptor.
        printed: the last 16 KiB that it and its children printed.
        returncode: as `subprocess` has it: negative where a signal ended it.
        timed_out: whether it was killed at the time limit.
    """

    answer: str
    printed: str
    returncode: int
    timed_out: bool


def supervise(
    command: Sequence[str], request: str, limit_s: float, env: Mapping[str, str] | None = None
) -> Ended:
    """Run a command, and kill it and all that it started when it ends or its time is up.

    The number of a file descriptor is added to the command. The file behind it holds the request
    (`read_request`); what the child appends to it is the answer. It is a file and not a pipe, so
    that neither side ever waits for the other.

    Args:
        command: the program and its arguments.
        request: one line.
        limit_s: seconds after which the whole process group is killed.
        env: the child's environment; the caller's by default.

    Raises:
        WorkerError: the process outlived being killed.
    """
    with tempfile.TemporaryFile() as channel:
        question = request.encode() + b"\n"
        channel.write(question)
        channel.flush()
        process = subprocess.Popen(
            [*command, str(channel.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(channel.fileno(),),
            start_new_session=True,
            env=env,
        )
        assert process.stdout is not None
        tail = _Tail(process.stdout)
        timed_out = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:  # a KeyboardInterrupt, too, leaves no child behind
            _kill(process)
        channel.seek(len(question))
        answer = channel.read().decode(errors="replace")
        return Ended(answer, tail.text(), process.returncode, timed_out)


def python(code: str) -> list[str]:
    """The command that runs code in this Python, with no module found in the working directory.

    There a ``random.py`` or ``copy.py`` of the user's would be taken for the standard library's.
    ``python -P`` does the same from Python 3.11 on.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = filter(None, sys.path); {code}"]


def read_request(fd: int) -> str:
    """In the child: the request behind the descriptor, which then stands at the answer's start."""
    os.lseek(fd, 0, os.SEEK_SET)
    data = b""
    while part := os.read(fd, 1 << 16):
        data += part
    return data.decode()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its own children as well
    try:
        process.wait(_REAP_S)
    except subprocess.TimeoutExpired as error:
        message = f"process {process.pid} is still there {_REAP_S:g} s after being killed"
        raise WorkerError(message) from error


class _Tail:
    """Keeps the end of a stream, read in the background so that its writer never waits."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """What was kept. A process that left the group may hold the stream open: don't wait."""
        self._thread.join(timeout=1.0)
        return self._kept.decode(errors="replace")

    def _read(self) -> None:
        with self._stream:
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._kept = (self._kept + part)[-_KEPT_BYTES:]
