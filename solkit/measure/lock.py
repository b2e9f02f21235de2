"""One SolKit at a time on a GPU, and who else is there.

Other SolKits wait for each other: `exclusive` locks a file named after the GPU's UUID with
``flock``, which the kernel undoes when the holder ends, however it ends. What else runs on the GPU
cannot be kept away, only seen: `processes` asks NVML, `company` says what that means.

The lock's folder is the first of ``$SOLKIT_LOCKS``, ``/tmp`` and ``$XDG_RUNTIME_DIR`` that can be
written to. Containers that share a GPU but no folder see each other through NVML alone.
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
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit.errors import GpuBusyError, UnsupportedError

__all__ = [
    "VARIABLE",
    "Company",
    "GpuProcess",
    "Holder",
    "Neighbours",
    "company",
    "exclusive",
    "processes",
    "uuid_of",
]

VARIABLE = "SOLKIT_LOCKS"
"""The environment variable that names a folder for the locks, such as one that containers share."""

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_SILENCE_S = 1.0  # after which whoever waits is told for whom
_MOST_BYTES = 4096  # of a lock file that is read
_COMMAND_LENGTH = 200
_MPS_SERVER = "nvidia-cuda-mps"  # /proc/<pid>/comm: 15 characters of nvidia-cuda-mps-server


@dataclass(frozen=True)
class Holder:
    """Who holds a GPU.

    Attributes:
        pid: its process, in its own process namespace.
        command: its command line.
        since: when it took the lock, ISO 8601 in UTC.
    """

    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) since {self.since}"


@contextlib.contextmanager
def exclusive(uuid: str, limit_s: float) -> Iterator[None]:
    """Keep other SolKits off a GPU meanwhile; they wait in this line.

    Hold it as long as processes of yours have a CUDA context there: another SolKit takes them for
    strangers. It is not re-entrant: a second one in the same process waits as any other does.

    Args:
        uuid: NVML's identifier of the GPU, or of the MIG slice.
        limit_s: how long to wait for it.

    Raises:
        GpuBusyError: somebody else held it all the while; says who.
        UnsupportedError: no lock file can be had.
    """
    path = _path(uuid)
    with _opened(path) as file:
        _wait_for(file, path, uuid, limit_s)
        _sign(file)
        try:
            yield
        finally:
            _wipe(file)  # closing the file unlocks it


def _path(uuid: str) -> Path:
    return _folder() / f"solkit-{uuid}.lock"


def _folder() -> Path:
    """The first folder that can be written to; ``/tmp`` is the one that users share."""
    named = (os.environ.get(VARIABLE), "/tmp", os.environ.get("XDG_RUNTIME_DIR"))
    for name in filter(None, named):
        if os.access(name, os.W_OK | os.X_OK) and Path(name).is_dir():
            return Path(name)
    raise UnsupportedError(
        f"no folder for the lock of a GPU: neither ${VARIABLE}, /tmp nor $XDG_RUNTIME_DIR can be "
        "written to"
    )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The lock file's descriptor; the file is there afterwards, for every user to lock.

    It is made and opened in two steps, since Linux may refuse ``O_CREAT`` on another user's file
    in a sticky folder (sysctl fs.protected_regular). It is never removed: whoever still waited on
    the removed one would not see the next.

    Raises:
        UnsupportedError: it cannot be opened, or is something else than a file of ours.
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
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise UnsupportedError(f"cannot lock the GPU by {path}: it is no plain file")
        yield file
    finally:
        os.close(file)


def _wait_for(file: int, path: Path, uuid: str, limit_s: float) -> None:
    start, is_told = time.monotonic(), False
    while not _lock(file):
        by = _signature(file) or "another process, which did not sign"
        waited_s = time.monotonic() - start
        if waited_s >= limit_s:
            raise GpuBusyError(f"{uuid} is measured on by {by}; waited {limit_s:g} s for {path}")
        if waited_s > _SILENCE_S and not is_told:
            _log.warning("waiting for %s, measured on by %s", uuid, by)
            is_told = True
        time.sleep(_POLL_S)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise UnsupportedError(f"the lock of a GPU cannot be taken: {error.strerror}") from error
    return True


def _sign(file: int) -> None:
    command = " ".join(sys.orig_argv)[:_COMMAND_LENGTH]
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    _write(file, json.dumps(asdict(Holder(os.getpid(), command, since))).encode())


def _wipe(file: int) -> None:
    _write(file, b"")


def _write(file: int, text: bytes) -> None:
    """Tell who holds the lock: a courtesy that a full disk may forbid, and that decides nothing."""
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, text, 0)


def _signature(file: int) -> Holder | None:
    """Who signed; ``None`` where nobody did yet, or none of ours."""
    try:
        told = json.loads(os.pread(file, _MOST_BYTES, 0))
        return Holder(int(told["pid"]), str(told["command"]), str(told["since"]))
    except (KeyError, TypeError, ValueError):
        return None


# ---------------------------------------------------------------------------- foreign processes


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU, as NVML lists it.

    Attributes:
        pid: as the driver knows it. In a container that may be the host's number.
        memory_bytes: GPU memory that it holds; ``None`` where NVML does not tell.
    """

    pid: int
    memory_bytes: int | None = None

    def __str__(self) -> str:
        name = _command(self.pid)
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**20:.0f} MiB"
        return f"process {self.pid} ({name or 'not of this namespace'}{memory})"


def processes(uuid: str) -> tuple[GpuProcess, ...]:
    """The processes that have a CUDA context on a GPU; empty where NVML tells of none.

    Raises:
        UnsupportedError: NVML fails.
    """
    with _nvml() as library:
        gpu = library.nvmlDeviceGetHandleByUUID(uuid)
        found = library.nvmlDeviceGetComputeRunningProcesses(gpu)
        return tuple(GpuProcess(int(each.pid), _memory(each)) for each in found)


def uuid_of(visible: str) -> str:
    """The UUID of the GPU that an entry of ``CUDA_VISIBLE_DEVICES`` means.

    Args:
        visible: a number in PCI bus order, or a UUID, which need not be whole.

    Raises:
        UnsupportedError: there is no such GPU, or NVML fails.
    """
    if visible.startswith("MIG-"):  # never shortened in practice, and under a GPU's handle only
        return visible
    with _nvml() as library:
        if visible.isdecimal():
            gpu = library.nvmlDeviceGetHandleByIndex(int(visible))
            return str(library.nvmlDeviceGetUUID(gpu))
        for index in range(library.nvmlDeviceGetCount()):
            uuid = str(library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(index)))
            if visible and uuid.startswith(visible):
                return uuid
    raise UnsupportedError(f"NVML knows no GPU {visible!r}")


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml  # 60 ms, and not wanted by `import solkit`

    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise UnsupportedError(f"NVML: {error}") from error


def _memory(process: Any) -> int | None:
    return None if process.usedGpuMemory is None else int(process.usedGpuMemory)


@dataclass(frozen=True)
class Company:
    """Who else was on a GPU.

    Attributes:
        evidence: why a measurement there is unstable; empty where nobody was seen.
        notes: why nobody could be seen, or be named.
    """

    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


_BLIND = "NVML lists no process on the GPU, not even SolKit's: others would not show either."
_UNNAMED = "NVML counts processes in another namespace: those on the GPU cannot be named."


def company(seen: Sequence[GpuProcess], ours: Collection[int]) -> Company:
    """What NVML's list says of others on the GPU.

    Process numbers mean something where one of ours is on the list. If none is, though ours are
    there, the driver counts in another namespace than this container's: only how many there are
    can then be held against how many are ours. A container that hides the others' processes from
    NVML hides ours as well, as a rule; then nobody can tell, and a note says so.

    Args:
        seen: NVML's list.
        ours: processes of ours that have a CUDA context on that GPU. What they or this process
            started is ours too.
    """
    family = {os.getpid(), *ours}
    others = [each for each in seen if not _is_ours(each.pid, family)]
    if len(others) < len(seen) or not ours:
        if not others:
            return Company()
        return Company((f"Others computed on the GPU: {', '.join(map(str, others))}.",))
    if not seen:
        return Company((), (_BLIND,))
    if len(seen) <= len(ours):
        return Company((), (_UNNAMED,))
    counted = f"NVML lists {len(seen)} processes on the GPU, of which {len(ours)} are SolKit's."
    return Company((counted,), (_UNNAMED,))


class Neighbours:
    """Who else was seen on a GPU, look by look.

    Args:
        uuid: NVML's identifier of the GPU.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._evidence: dict[str, None] = {}  # ordered sets
        self._notes: dict[str, None] = {}

    def look(self, ours: Collection[int]) -> None:
        """Look now; `ours` as for `company`."""
        try:
            found = company(processes(self._uuid), ours)
        except UnsupportedError as error:
            found = Company((), (f"Who else was on the GPU is unknown: {error}.",))
        self._evidence.update(dict.fromkeys(found.evidence))
        self._notes.update(dict.fromkeys(found.notes))

    @property
    def seen(self) -> Company:
        """What all looks together saw."""
        return Company(tuple(self._evidence), tuple(self._notes))


def _is_ours(pid: int, ours: Collection[int]) -> bool:
    """Whether a process is one of ours, was started by one, or is the server that ours share."""
    if (_comm(pid) or "").startswith(_MPS_SERVER):
        return True
    while pid > 1:
        if pid in ours:
            return True
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    """The parent process; 0 where there is none, or it is gone. Source: proc(5), ``stat``."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _comm(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.strip()


def _command(pid: int) -> str | None:
    """Its command line, or its name where that is hidden; ``None`` where there is no such."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    text = b" ".join(words).decode(errors="replace").strip()
    return text[:_COMMAND_LENGTH] or _comm(pid)
