"""Processes that a daemon keeps ready: the side of the commands that use them.

::

    command ──"lend"──► daemon    ◄─ a further control channel of a fork server that is loaded
            ──"pair"──►           ◄─ a referee and a candidate's process, with contexts open
            ──"status", "stop"──►

`solkit.measure.guarded.standby` is the daemon. A command asks it only if its socket exists, and
starts processes of its own if it refuses. Both belong to one user, and to the same Python, sources,
versions and environment (`Identity`). The command keeps the connection until it ends, so that the
daemon knows who uses what it lent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import logging
import os
import select
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.processes.channel import Channel, ClosedError, Frame, NonsenseError, is_readable
from solkit.processes.sources import source_stamps

VARIABLE = "SOLKIT_STANDBY"
"""The environment variable with the socket's path; empty: nothing is asked of a daemon."""

IDLE_NAME = "solkit-standby"
"""Name of the processes of a pair that nobody uses yet, as the system shows it (15 characters)."""

_ANSWER_S = 2.0  # a daemon that is slower is of no use
_LIBRARIES = {"torch": "version.py", "triton": "__init__.py", "numpy": "version.py"}
_ROOT = Path(__file__).parents[1]
_ROOMS = (
    *("adapters", "analysis", "core", "datasets", "kernelfiles", "measure", "ops"),
    *("processes", "roofline"),
)
_OF_SESSIONS = (
    *("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "COLORTERM", "LS_COLORS", "WINDOWID"),
    *("DISPLAY", "XAUTHORITY", "STY", "PS1", "PROMPT_COMMAND", "PYTEST_CURRENT_TEST"),
    *("TMPDIR", "TRITON_CACHE_DIR", "TRITON_HOME", "TORCH_EXTENSIONS_DIR"),
)
_OF_SESSIONS_BY_PREFIX = ("SOLKIT_", "TERM", "SSH_", "TMUX", "VSCODE_", "XDG_", "HIST")
"""Variables that no library reads when it is loaded. A process gets the command's own."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """Digests, by name, that must be alike for a process to be of use to another.

    Attributes:
        versions: of Python, the libraries and SolKit's sources.
        variables: of the environment, as far as libraries may read them when loaded.
    """

    versions: Mapping[str, str]
    variables: Mapping[str, str]

    @staticmethod
    @functools.cache
    def here() -> Identity:
        """Return the identity of this process, with versions as they are installed now."""
        variables = {
            name: hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]
            for name, value in os.environ.items()
            if name not in _OF_SESSIONS and not name.startswith(_OF_SESSIONS_BY_PREFIX)
        }
        return Identity(installed_versions(), variables)

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> Identity:
        """Return the identity in a request."""
        return Identity(dict(header["versions"]), dict(header["variables"]))

    def changed_versions(self, other: Identity) -> list[str]:
        """Return the names of versions that differ."""
        return _differing_names(self.versions, other.versions)

    def changed_variables(self, other: Identity) -> list[str]:
        """Return the names of variables that differ."""
        return _differing_names(self.variables, other.variables)


def installed_versions() -> dict[str, str]:
    """Return the state of Python, the libraries and SolKit's sources as they are installed now."""
    versions = {"Python": _stamp_of_python(), "SolKit": _digest_sources()}
    return versions | {name: _stamp_of_library(name, file) for name, file in _LIBRARIES.items()}


@dataclass(frozen=True)
class ReadyPair:
    """A referee and a candidate's process that wait for their first request.

    Attributes:
        control: the session's channel to the referee.
        pids: of referee and candidate.
        lifelines: sockets to the server that forked them, as `Fork` has them.
        outputs: descriptors of what they print.
    """

    control: Channel
    pids: tuple[int, int]
    lifelines: tuple[socket.socket, socket.socket]
    outputs: tuple[int, int]

    @property
    def is_alive(self) -> bool:
        """True if neither process has ended while it waited."""
        return not any(is_readable(end, 0.0) for end in self.lifelines)

    def detach(self) -> list[int]:
        """Return all descriptors, in the order of `from_frame`, which the caller owns then."""
        return [self.control.detach(), *(end.detach() for end in self.lifelines), *self.outputs]

    @staticmethod
    def from_frame(frame: Frame) -> ReadyPair:
        """Return the pair that a frame brings, whose receiver owns the descriptors."""
        control, one, other, *outputs = frame.descriptors
        first, second = (int(pid) for pid in frame.header["pids"])
        return ReadyPair(
            Channel.of(control, trusting=True),
            (first, second),
            (socket.socket(fileno=one), socket.socket(fileno=other)),
            (outputs[0], outputs[1]),
        )

    def close(self) -> None:
        """Close all descriptors: processes whose lifelines nobody else holds are killed."""
        self.control.close()
        for end in self.lifelines:
            end.close()
        for output in self.outputs:
            os.close(output)


class BorrowedServer:
    """A fork server that a daemon started, as `solkit.processes.host.Program` shows its own.

    It ends with the daemon. Its forks end when the control channel closes.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self._file = pid, os.pidfd_open(pid)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, whose return code nobody here learns: 0."""
        if self._file < 0:
            return 0
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        return 0 if poll.poll(max(timeout_s, 0.0) * 1e3) else None

    def end(self, grace_s: float = 0.0) -> int:  # noqa: ARG002 - as a program has it
        """Leave it to the daemon."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        return 0

    def signal(self, number: int) -> None:
        """Leave it to the daemon."""


def socket_path() -> Path | None:
    """Return where this user's daemon listens; ``None`` if nothing is asked of one."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    folder = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(folder) / f"solkit-{os.getuid()}" / "standby"


def borrow_server(prepare: str, env: Mapping[str, str]) -> tuple[BorrowedServer, Channel] | None:
    """Borrow a fork server, and a control channel of one's own; ``None`` if there is no daemon.

    Args:
        prepare: as for `ForkServer`.
        env: likewise.
    """
    frame = _request_from_daemon({"lend": prepare, "env": dict(env)})
    if frame is None:
        return None
    control = Channel.of(frame.descriptors[0], trusting=True)
    try:
        return BorrowedServer(int(frame.header["pid"])), control
    except OSError:  # it has ended meanwhile
        control.close()
        return None


def take_pair(gpu: str | None, device: str) -> ReadyPair | None:
    """Take the daemon's pair; ``None`` if it has none for this GPU.

    Args:
        gpu: the GPU's UUID, which the caller has locked.
        device: ``"cuda"`` or ``"cpu"``.
    """
    frame = _request_from_daemon({"pair": {"gpu": gpu, "device": device}})
    return None if frame is None else ReadyPair.from_frame(frame)


def ask_daemon(header: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the daemon's answer to a request that brings nothing; ``None`` without a daemon."""
    with _connection() as channel:
        if channel is None:
            return None
        channel.send({**header, **dataclasses.asdict(Identity.here())}, timeout_s=_ANSWER_S)
        return channel.receive(_ANSWER_S).header


def is_own_peer(end: socket.socket) -> bool:
    """Tell whether the process at the other end is this user's."""
    return _peer_credentials(end)[1] == os.getuid()


def is_descendant(end: socket.socket) -> bool:
    """Tell whether the process at the other end descends from this one: a candidate may ask too."""
    pid = _parent_of(_peer_credentials(end)[0])
    while pid > 1 and pid != os.getpid():
        pid = _parent_of(pid)
    return pid == os.getpid()


def _peer_credentials(end: socket.socket) -> tuple[int, int]:
    """Return process and user of the other end."""
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", credentials)
    return int(pid), int(user)


def _parent_of(pid: int) -> int:
    """Return the process's parent (proc(5), stat: it follows the state, behind the name)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


_kept: list[Channel] = []
"""Connections that tell the daemon, as long as this process lives, that something is in use."""


def _request_from_daemon(header: Mapping[str, Any]) -> Frame | None:
    """Return the daemon's answer with what it lends; ``None`` if it lends nothing."""
    with _connection() as channel:
        if channel is None:
            return None
        try:
            channel.send({**header, **dataclasses.asdict(Identity.here())}, timeout_s=_ANSWER_S)
            frame = channel.receive(_ANSWER_S)
        except (ClosedError, NonsenseError, TimeoutError, OSError) as error:
            _log.debug("the standby does not answer: %s", error)
            return None
        if "refused" in frame.header:
            _log.debug("the standby refuses: %s", frame.header["refused"])
            return None
        _kept.append(channel)
        return frame


@contextlib.contextmanager
def _connection() -> Iterator[Channel | None]:
    """Yield a channel to this user's daemon; closed unless it is kept."""
    path = socket_path()
    if path is None or not _is_socket(path):
        yield None
        return
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.settimeout(_ANSWER_S)
    try:
        end.connect(str(path))
    except OSError as error:  # it was killed, and left its socket
        _log.debug("no standby listens at %s: %s", path, error)
        end.close()
        yield None
        return
    if not is_own_peer(end):
        _log.warning("%s belongs to another user, so nothing is asked of it", path)
        end.close()
        yield None
        return
    channel = Channel(end, trusting=True)
    try:
        yield channel
    finally:
        if channel not in _kept:
            channel.close()


def _is_socket(path: Path) -> bool:
    """Tell whether there is a socket: none in a folder that may not be entered."""
    try:
        return path.is_socket()
    except OSError as error:
        _log.debug("no standby is asked: %s", error)
        return False


def release_borrowed() -> None:
    """Tell the daemon that nothing is in use: in a fork of the caller, which did not borrow it."""
    while _kept:
        _kept.pop().close()


os.register_at_fork(after_in_child=release_borrowed)


def _differing_names(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _stamp_of_python() -> str:
    """Return which Python runs, and the state of its program, which an upgrade replaces."""
    program = Path(sys.executable).resolve()
    status = program.stat()
    return f"{sys.executable} {sys.version} {program} {status.st_size} {status.st_mtime_ns}"


def _stamp_of_library(name: str, file: str) -> str:
    """Return where a library is, and the state of a file that each release of it changes."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return "missing"
    path = Path(spec.origin).with_name(file)
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _digest_sources() -> str:
    """Return a digest of the state of SolKit's sources."""
    shared = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in _ROOT.glob("*.py")
    ]
    stamps = sorted([*shared, *(s for room in _ROOMS for s in source_stamps(str(_ROOT / room)))])
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
