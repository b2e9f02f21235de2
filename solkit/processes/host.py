"""Child processes: how one is started, called, limited and ended, and why it died.

::

    Program   a command of its own ────┐
    Fork      of a fork server ────────┴► Process: wait, end ─► Host: call over a channel

A `Program` costs an interpreter's start and inherits nothing; a fork costs milliseconds and has
torch loaded. A `Host` speaks with either. `describe_ending` says how any of them ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from solkit.errors import JobDiedError, WorkerError
from solkit.processes.channel import Channel, ClosedError, Frame, NonsenseError, connected_pair

P = TypeVar("P", bound="Process")


class Process(Protocol):
    """A child process, with all its descendants."""

    @property
    def pid(self) -> int:
        """Process id of the child."""

    @property
    def is_lost(self) -> bool:
        """True if the child died with the server that forked it."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the return code as in `subprocess`; ``None`` if it has not ended by then."""

    def end(self, grace_s: float = 0.0) -> int:
        """Kill it unless it ends by itself within `grace_s`; returns its return code."""


class Program:
    """A command in a session of its own: Ctrl-C does not reach it, and its group ends with it.

    Args:
        command: what to run.
        env: its environment; the caller's by default.
        descriptors: open files that it inherits under the same numbers.
        output: a descriptor for what it prints; standard error by default, if that is a file.
    """

    is_lost = False

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        output: int | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=descriptor_of(sys.stderr) if output is None else output,
            stderr=output,
            env=env,
            start_new_session=True,
        )
        self.pid, self._is_ended = self._process.pid, False

    def wait(self, timeout_s: float) -> int | None:
        """See `Process.wait`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, grace_s: float = 0.0) -> int:
        """See `Process.end`."""
        self.wait(grace_s)
        if not self._is_ended:  # else the system may have given the group's number away
            self._is_ended = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()

    def run(self, limit_s: float) -> str:
        """Wait until it ends, or end it; returns how it ended, in words."""
        try:
            returncode = self.wait(limit_s)
        finally:
            ended = self.end()
        return describe_ending(ended, limit_s if returncode is None else None)

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._process.send_signal(number)


class Host(Generic[P]):
    """A child process that answers over a channel; calls come from one thread, `end` from any.

    Args:
        start: starts it, with the number of its end of the channel.
        task: what it is for, in errors: ``"running f"``.
        grace_s: for one that hung up to end by itself.

    Attributes:
        process: as started.
    """

    def __init__(self, start: Callable[[int], P], task: str, grace_s: float = 0.0) -> None:
        self._task, self._grace_s, self._lock = task, grace_s, threading.Lock()
        ours, theirs = connected_pair()
        self._channel = Channel(ours, trusting=True)
        try:
            with theirs:
                self.process = start(theirs.fileno())
        except BaseException:
            ours.close()
            raise

    @property
    def is_alive(self) -> bool:
        """True if the child runs."""
        with self._lock:
            return self.process.wait(0.0) is None

    def call(
        self, header: Mapping[str, Any], payload: bytes = b"", *, limit_s: float | None
    ) -> Frame:
        """Send a request, and receive its answer; see `receive`."""
        with self._explaining_death(limit_s):
            self._channel.send(header, payload, timeout_s=limit_s)
        return self.receive(limit_s)

    def receive(self, limit_s: float | None) -> Frame:
        """Return the next frame that is not empty: empty ones say that there is progress.

        Args:
            limit_s: without progress, after which the process is killed.

        Raises:
            JobDiedError: it ended, sent nonsense, or ran out of time.
            WorkerError: it died with the server that forked it.
        """
        with self._explaining_death(limit_s):
            while True:
                frame = self._channel.receive(limit_s)
                if frame.header or frame.payload:
                    return frame

    def end(self, grace_s: float = 0.0) -> int:
        """End the process; returns its return code."""
        with self._lock:
            return self.process.end(grace_s)

    def hang_up(self) -> None:
        """Close this end of the channel, and leave the process alone; from the calling thread."""
        self._channel.close()

    def close(self) -> None:
        """Hang up, and end the process unless it does so in its grace; from the calling thread."""
        self.hang_up()
        self.end(self._grace_s)

    @contextlib.contextmanager
    def _explaining_death(self, limit_s: float | None) -> Iterator[None]:
        try:
            yield
            return
        except TimeoutError:
            returncode = self.end()
            timed_out = True
        except (ClosedError, NonsenseError, OSError):  # how the process ended explains it
            returncode = self.end(self._grace_s)
            timed_out = False
        if not timed_out and self.process.is_lost:
            raise WorkerError(f"the worker process died while {self._task}")
        why = describe_ending(returncode, limit_s if timed_out else None)
        ran_out_of_cpu = not timed_out and returncode == -signal.SIGXCPU
        raise JobDiedError(why, timed_out or ran_out_of_cpu, ran_out_of_cpu)


def describe_ending(returncode: int, limit_s: float | None = None) -> str:
    """Describe in words how a process ended.

    Args:
        returncode: as in `subprocess`.
        limit_s: its time limit in seconds, if it was killed for exceeding it.
    """
    if limit_s is not None:
        return f"its process ran for over {limit_s:g} s and was killed"
    if returncode >= 0:
        return f"its process ended with exit code {returncode}"
    if returncode == -signal.SIGXCPU:
        return "its process used too much CPU time"
    if returncode == -signal.SIGKILL:
        return "its process was killed by SIGKILL, usually because memory ran out"
    return f"its process died of {signal.Signals(-returncode).name}"


@dataclass(frozen=True)
class Python:
    """A Python for child processes: by default this process's own.

    Attributes:
        executable: another interpreter, with the libraries that are installed for it; it runs this
            copy of SolKit all the same. Empty for this process's own.
        folders: of modules that come before all others, as ``pip install --target`` makes them.
    """

    executable: str = ""
    folders: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """True if it finds the same modules as this process."""
        return not self.executable and not self.folders

    def command(self, code: str) -> list[str]:
        """Return the command that runs code in it; see `python_command`."""
        if not self.executable:
            return python_command(code)
        return [self.executable, *python_command(f"{_LOAD.format(root=_root())}; {code}")[1:]]

    def path(self) -> str:
        """Return its ``PYTHONPATH``; another interpreter must not find this one's libraries."""
        own = os.environ.get("PYTHONPATH", "") if self.executable else python_path()
        return os.pathsep.join(filter(None, [*self.folders, own]))

    def module_path(self) -> list[str]:
        """Return the caller's module path, with the folders in front."""
        return [*self.folders, *sys.path]


OWN_PYTHON = Python()
"""This process's own."""

_LOAD = (
    "import importlib.util as u; s = u.spec_from_file_location('solkit', {root!r} + "
    "'/solkit/__init__.py', submodule_search_locations=[{root!r} + '/solkit']); "
    "m = u.module_from_spec(s); sys.modules['solkit'] = m; s.loader.exec_module(m)"
)
"""Loads SolKit alone from its place, where a whole environment may lie next to it."""


def _root() -> str:
    return str(Path(__file__).absolute().parents[2])


def python_command(code: str) -> list[str]:
    """Return the command that runs code in this Python, as ``python -P`` does from Python 3.11 on.

    A user's ``random.py`` in the working directory must not shadow the standard library's.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = filter(None, sys.path); {code}"]


def python_path() -> str:
    """Return the inherited ``PYTHONPATH``, with this copy of SolKit in front."""
    return os.pathsep.join(filter(None, [_root(), os.environ.get("PYTHONPATH")]))


def descriptor_of(stream: Any) -> int:
    """Return a stream's descriptor; `subprocess.DEVNULL`, which is negative, if it has none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL


# -------------------------------------------------- Failures caused by the machine, not the kernel


_MESSAGES = (
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT)),  # the same in tools and Python
    # the system kills processes when memory is short
    "`ptxas` failed with error code -9",  # Triton
    "died due to signal 9",  # nvcc, about cicc, ptxas and others that it runs
    "Killed signal terminated program",  # g++, about cc1plus
    "terminated with signal 9",  # g++, about the linker
)


def is_machine_fault(text: str) -> bool:
    """Tell whether a whole log says that the disk was full, or that the compiler was killed."""
    return any(message in text for message in _MESSAGES)
