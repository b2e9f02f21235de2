"""One SolKit at a time on a GPU, and which other processes use it.

SolKits wait for each other: `exclusive_gpu` locks a file named after the GPU's UUID with ``flock``,
which the kernel releases when the holder ends, however it ends. Those that wait get it in the order
in which they came (`solkit.measure.timing.wait_queue`); a holder that asks `is_gpu_awaited` between
its measurements can leave it to them. Other processes cannot be kept off
the GPU, only seen: `gpu_processes` queries NVML, `judge_company` interprets the answer.

The lock's folder is the first writable one of ``$SOLKIT_LOCKS``, ``/tmp`` and ``$XDG_RUNTIME_DIR``.
Containers that share a GPU but no folder see each other only through NVML.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit.errors import GpuBusyError, UnsupportedError
from solkit.measure.timing.wait_queue import has_waiter, is_first, join_queue
from solkit.processes.standby import IDLE_NAME

VARIABLE = "SOLKIT_LOCKS"
"""The environment variable for the locks' folder, e.g. one that containers share."""

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_ASLEEP_S = 2.0
"""Seconds that a GPU is free before those behind pass a waiter that does not take it, as one that
was stopped (Ctrl-Z)."""
_MOST_BYTES = 4096  # read from a lock file
_COMMAND_LENGTH = 200
_MPS_SERVER = "nvidia-cuda-mps"  # /proc/<pid>/comm: 15 characters of nvidia-cuda-mps-server


@contextlib.contextmanager
def exclusive_gpu(uuid: str, limit_s: float, silence_s: float = 1.0) -> Iterator[None]:
    """Keep other SolKits off a GPU; they wait on entering this block.

    Hold it as long as your processes have a CUDA context there: another SolKit counts them as
    foreign. It is not re-entrant: a second one in the same process waits too.

    Args:
        uuid: NVML's identifier of the GPU, or of the MIG slice.
        limit_s: how long to wait for it. With 0 nobody sees this one wait, and those that do come
            first.
        silence_s: after so long the waiting user is informed who holds it.

    Raises:
        GpuBusyError: somebody else held it all that time; the message says who.
        UnsupportedError: no lock file is available.
    """
    path = _lock_path(uuid)
    with _open_lock_file(path) as file:
        _wait_for_lock(file, path, uuid, limit_s, silence_s)
        command = " ".join(sys.orig_argv)[:_COMMAND_LENGTH]
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        _write_holder(
            file, json.dumps({"pid": os.getpid(), "command": command, "since": since}).encode()
        )
        try:
            yield
        finally:
            _write_holder(file, b"")  # closing the file releases the lock


def is_gpu_awaited(uuid: str) -> bool:
    """Tell whether another SolKit waits for a GPU; ``False`` if that cannot be found out."""
    with contextlib.suppress(UnsupportedError), _open_queue(_lock_path(uuid)) as queue:
        return has_waiter(queue)
    return False


def _lock_path(uuid: str) -> Path:
    return _lock_folder() / f"solkit-{uuid}.lock"


def _open_queue(path: Path) -> contextlib.AbstractContextManager[int]:
    """Open the file of those that wait: where NFS is shared, both kinds of locks are one."""
    return _open_lock_file(path.with_suffix(".queue"))


def _lock_folder() -> Path:
    """Return the first writable folder; users share ``/tmp``."""
    named = (os.environ.get(VARIABLE), "/tmp", os.environ.get("XDG_RUNTIME_DIR"))
    for name in filter(None, named):
        if os.access(name, os.W_OK | os.X_OK) and Path(name).is_dir():
            return Path(name)
    raise UnsupportedError(
        f"no folder for a GPU's lock: none of ${VARIABLE}, /tmp and $XDG_RUNTIME_DIR is writable"
    )


@contextlib.contextmanager
def _open_lock_file(path: Path) -> Iterator[int]:
    """Yield the lock file's descriptor; creates the file if needed, for every user to lock.

    It is created and opened in two steps, since Linux may refuse ``O_CREAT`` on another user's file
    in a sticky folder (sysctl fs.protected_regular). It is never removed: a process waiting on the
    removed file would miss the next one.

    Raises:
        UnsupportedError: it cannot be opened, or is not a regular file.
    """
    try:
        with contextlib.suppress(FileExistsError):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o666)
            try:
                os.fchmod(file, 0o666)  # whatever the umask
            finally:
                os.close(file)
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UnsupportedError(f"cannot lock the GPU by {path}: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise UnsupportedError(f"cannot lock the GPU by {path}: not a regular file")
        yield file
    finally:
        os.close(file)


def _wait_for_lock(file: int, path: Path, uuid: str, limit_s: float, silence_s: float) -> None:
    start, is_told = time.monotonic(), False
    with _open_queue(path) as queue:
        turn = _Turn(file, queue, joins=limit_s > 0)
        while not (turn.has_come() and _try_lock(file)):
            by = _describe_holder(file)
            waited_s = time.monotonic() - start
            if waited_s >= limit_s:
                raise GpuBusyError(f"{uuid} is in use by {by}; waited {limit_s:g} s for {path}")
            if waited_s > silence_s and not is_told:
                _log.warning("waiting for %s, in use by %s", uuid, by)
                is_told = True
            time.sleep(_POLL_S)


class _Turn:
    """One waiter's turn among those that wait.

    Args:
        file: the lock's descriptor.
        queue: a descriptor of the queue's file, of this waiter alone.
        joins: whether others see it wait; else everybody that waits comes first.
    """

    def __init__(self, file: int, queue: int, joins: bool) -> None:
        self._file, self._queue = file, queue
        self._joins = joins
        self._place = join_queue(queue) if joins else None
        self._free_since_s: float | None = None

    def has_come(self) -> bool:
        """Tell whether nobody is ahead, or whoever is does not take the lock though it is free."""
        if self._place is None:
            return self._joins or not has_waiter(self._queue)
        if is_first(self._queue, self._place):
            return True
        now_s = time.monotonic()
        if not self._is_lock_free():
            self._free_since_s = None
        elif self._free_since_s is None:
            self._free_since_s = now_s
        return self._free_since_s is not None and now_s - self._free_since_s > _ASLEEP_S

    def _is_lock_free(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return True


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise UnsupportedError(f"the lock of a GPU cannot be taken: {error.strerror}") from error
    return True


def _write_holder(file: int, text: bytes) -> None:
    """Write who holds the lock: information only, skipped if the disk is full."""
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, text, 0)


def _describe_holder(file: int) -> str:
    """Describe the process that holds the lock; unknown until the file describes it."""
    try:
        holder = json.loads(os.pread(file, _MOST_BYTES, 0))
        return f"process {int(holder['pid'])} ({holder['command']}) since {holder['since']}"
    except (KeyError, TypeError, ValueError):
        return "an unidentified process"


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU, as NVML lists it."""

    pid: int  # the driver's number for it; in a container perhaps the host's
    memory_bytes: int | None = None  # its GPU memory; ``None`` if NVML does not report it

    def __str__(self) -> str:
        command = _read_proc(self.pid, "cmdline").replace("\0", " ").strip()[:_COMMAND_LENGTH]
        name = command or _read_proc(self.pid, "comm").strip() or "outside this namespace"
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**20:.0f} MiB"
        return f"process {self.pid} ({name}{memory})"


def gpu_processes(uuid: str) -> tuple[GpuProcess, ...]:
    """Return the processes that have a CUDA context on a GPU, according to NVML.

    Raises:
        UnsupportedError: NVML fails.
    """
    with nvml() as library:
        gpu = library.nvmlDeviceGetHandleByUUID(uuid)
        running = library.nvmlDeviceGetComputeRunningProcesses(gpu)
        return tuple(GpuProcess(int(process.pid), process.usedGpuMemory) for process in running)


def gpu_uuid(visible: str) -> str:
    """Return the GPU's UUID for an entry of ``CUDA_VISIBLE_DEVICES``: a number or part of one.

    Raises:
        UnsupportedError: there is no such GPU, or NVML fails.
    """
    if visible.startswith("MIG-"):  # never shortened in practice, and only under a GPU's handle
        return visible
    with nvml() as library:
        if visible.isdecimal():
            gpu = library.nvmlDeviceGetHandleByIndex(int(visible))
            return str(library.nvmlDeviceGetUUID(gpu))
        for index in range(library.nvmlDeviceGetCount()):
            uuid = str(library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(index)))
            if visible and uuid.startswith(visible):
                return uuid
    raise UnsupportedError(f"NVML knows no GPU {visible!r}")


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """NVML's library, initialised; its errors become `UnsupportedError`."""
    import pynvml  # 60 ms, too slow for `import solkit`

    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise UnsupportedError(f"NVML: {error}") from error


@dataclass(frozen=True)
class Company:
    """Other users of a GPU."""

    evidence: tuple[str, ...] = ()  # why a measurement there is unstable; empty if nobody was seen
    notes: tuple[str, ...] = ()  # why others could not be seen or named


_BLIND = "NVML lists no process on the GPU, not even SolKit's, so others would not show either."
_UNNAMED = "NVML uses another process namespace, so processes on the GPU cannot be named."


def judge_company(seen: Sequence[GpuProcess], ours: Collection[int]) -> Company:
    """Other users of the GPU according to NVML's list.

    Process numbers are meaningful if one of ours is on the list. If ours run but none is listed,
    the driver uses another namespace than this container: then only the counts can be compared. A
    container that hides others' processes from NVML usually hides ours too; then a note says that
    nothing is known.

    `ours` are our processes with a CUDA context on that GPU; their children, and this process's,
    are ours too. Processes that wait for their first request (`solkit.processes.standby`) run
    nothing, so they are no company.
    """
    family = {os.getpid(), *ours}
    others = [process for process in seen if not _is_our_process(process.pid, family)]
    if len(others) < len(seen) or not ours:
        if not others:
            return Company()
        return Company((f"Other processes used the GPU: {', '.join(map(str, others))}.",))
    if not seen:
        return Company((), (_BLIND,))
    if len(seen) <= len(ours) + _count_idle_processes():
        return Company((), (_UNNAMED,))
    counted = f"NVML lists {len(seen)} processes on the GPU, of which {len(ours)} are SolKit's."
    return Company((counted,), (_UNNAMED,))


class Neighbours:
    """Other users that were seen on a GPU, check by check."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._evidence: dict[str, None] = {}  # ordered sets
        self._notes: dict[str, None] = {}

    def look(self, ours: Collection[int]) -> None:
        """Check now; `ours` as in `judge_company`."""
        try:
            neighbours = judge_company(gpu_processes(self._uuid), ours)
        except UnsupportedError as error:
            neighbours = Company((), (f"Other users of the GPU are unknown: {error}.",))
        self._evidence.update(dict.fromkeys(neighbours.evidence))
        self._notes.update(dict.fromkeys(neighbours.notes))

    @property
    def seen(self) -> Company:
        """The result of all checks."""
        return Company(tuple(self._evidence), tuple(self._notes))


def _count_idle_processes() -> int:
    """Return the number of processes in this namespace that wait for their first request."""
    numbers = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return sum(_read_proc(pid, "comm").strip() == IDLE_NAME for pid in numbers)


def _is_our_process(pid: int, ours: Collection[int]) -> bool:
    """Tell whether a process is ours, a child of ours, idle, or the server that ours share."""
    name = _read_proc(pid, "comm").strip()
    if name.startswith(_MPS_SERVER) or name == IDLE_NAME:
        return True
    while pid > 1:
        if pid in ours:
            return True
        stat = _read_proc(pid, "stat")  # proc(5): the parent follows the state, behind the name
        pid = int(stat.rpartition(")")[2].split()[1]) if stat else 0
    return False


def _read_proc(pid: int, name: str) -> str:
    """Return the system's description of a process; empty if it is hidden or gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
