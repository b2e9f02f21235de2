"""A daemon that keeps measuring processes ready, so that a command does not wait for them.

::

    daemon ── owns ──► fork servers (torch loaded)      lent: a control channel of their own
       └──── owns ───► a referee, a candidate's process  taken by one command, for good
                       (contexts open, one profile done)

A pair is used once: the next one is forked when nobody uses anything. Warming it up needs the GPU's
lock, waiting does not: idle processes do nothing there, and `solkit.measure.timing.gpu_lock` knows
them by name. All that user code runs in is new to each command; the servers run none.

It serves one user, and only commands with its own versions and environment. After an upgrade it
refuses, ends and should be started again. It also ends when nobody has asked for a while, or if its
processes take too much memory. What is lent is awaited first.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.errors import GpuBusyError, InputError, SolkitError
from solkit.measure.guarded.processes import ENVIRONMENT, PREPARE, start_ready_pair
from solkit.measure.timing.gpu_lock import exclusive_gpu
from solkit.processes import jobs
from solkit.processes.channel import Channel, ClosedError, NonsenseError
from solkit.processes.child import family_bytes
from solkit.processes.forkserver import ForkServer
from solkit.processes.standby import (
    Identity,
    ReadyPair,
    installed_versions,
    is_descendant,
    is_own_peer,
)

_POLL_S = 0.5
_REQUEST_S = 1.0  # for a command to send its request, while others wait
_READY_S = 150.0  # for a new pair to load torch and open its contexts
_RETRY_S = 2.0  # after the GPU was in use, or a pair could not be started
_BACKLOG = 64
_FAILURES = (SolkitError, ClosedError, NonsenseError, TimeoutError, OSError)
"""Errors of a request or of a pair's start, after which the daemon goes on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StandbySettings:
    """Settings of a daemon.

    Attributes:
        gpu: UUID of the GPU whose pair is kept; ``None`` on the CPU.
        device: ``"cuda"``, or ``"cpu"``, where candidates are checked only.
        idle_s: without any use, after which it ends.
        memory_bytes: resident host memory of its processes, beyond which it ends.
    """

    gpu: str | None
    device: str = "cuda"
    idle_s: float = 1800.0
    memory_bytes: int = 16 << 30


Ended = str
"""Why a daemon ended: ``"stopped"``, ``"idle"``, ``"upgraded"`` or ``"memory"``."""


class Standby:
    """The daemon; `serve` runs it.

    Args:
        settings: what it keeps, and for how long.
        identity: of its processes.
        clock: seconds, for its limits.
    """

    def __init__(
        self,
        settings: StandbySettings,
        identity: Identity | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._identity = identity or Identity.here()
        self._servers: dict[tuple[str, tuple[tuple[str, str], ...]], ForkServer] = {}
        self._connections: dict[int, Channel] = {}
        self._users: set[int] = set()  # connections that something is lent to
        self._pair: ReadyPair | None = None
        self._preparing: threading.Thread | None = None
        self._fault, self._retry_s = "", 0.0
        self._begun_s = self._used_s = clock()
        self._ending: Ended | None = None

    def serve(self, path: Path) -> Ended:
        """Listen at a path until told to stop, idle or outdated, then end all processes.

        Raises:
            InputError: another daemon listens there, or the folder is not this user's alone.
        """
        with _listening(path) as listener:
            try:
                self._server(jobs.PREPARE, jobs.ENVIRONMENT).start()
                while self._ending is None or self._users:
                    self._tend_processes()
                    for descriptor in self._wait_for_events(listener):
                        if descriptor == listener.fileno():
                            self._accept_connection(listener)
                        else:
                            self._answer_connection(descriptor)
                return self._ending
            finally:
                self._end_processes()

    def stop(self) -> None:
        """End once nothing is lent."""
        self._ending = self._ending or "stopped"

    def _wait_for_events(self, listener: socket.socket) -> list[int]:
        poll = select.poll()
        for descriptor in (listener.fileno(), *self._connections):
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(_POLL_S * 1e3)]

    def _accept_connection(self, listener: socket.socket) -> None:
        end, _ = listener.accept()
        if not is_own_peer(end) or is_descendant(end):
            end.close()
            return
        channel = Channel(end, trusting=True)
        self._connections[channel.fileno()] = channel

    def _answer_connection(self, descriptor: int) -> None:
        """Answer a command; one that hangs up uses nothing any more."""
        channel = self._connections[descriptor]
        try:
            request = channel.receive(_REQUEST_S).header
            answer, lent = self._answer_request(request)
            with contextlib.ExitStack() as own:
                for file in lent:
                    own.callback(os.close, file)
                channel.send(answer, b"", lent, _REQUEST_S)
            if lent:
                self._users.add(descriptor)
        except (*_FAILURES, LookupError, TypeError, ValueError, AttributeError):
            channel.close()
            del self._connections[descriptor]
            if descriptor in self._users:
                self._users.remove(descriptor)
                self._used_s = self._clock()

    def _answer_request(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Return the answer, and descriptors for the other end, which are closed here then."""
        refusal = self._refusal(Identity.from_header(request))
        if "status" in request:
            return {"status": {**self._status(), "refusal": refusal}}, []
        if "stop" in request:
            self.stop()
            return {"users": len(self._users)}, []
        if refusal:
            return {"refused": refusal}, []
        self._used_s = self._clock()
        if "lend" in request:
            server = self._server(request["lend"], request["env"])
            control = server.lend()
            return {"pid": server.pid}, [control.detach()]
        return self._hand_over_pair(request["pair"])

    def _refusal(self, identity: Identity) -> str:
        """Return why a command gets nothing; empty if it may."""
        if changed := self._identity.changed_versions(identity):
            if dict(self._identity.versions) != installed_versions():  # else it is another's
                self._ending = self._ending or "upgraded"
            return f"not the same as when the standby started: {', '.join(changed)}"
        if self._ending is not None:
            return "it is ending"
        if changed := self._identity.changed_variables(identity):
            return f"the environment differs from the standby's: {', '.join(changed)}"
        return ""

    def _hand_over_pair(self, wish: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
        own = {"gpu": self._settings.gpu, "device": self._settings.device}
        if dict(wish) != own:
            return {"refused": f"it keeps processes for {own}"}, []
        pair = self._pair  # None is left alone: a thread may set it now
        if pair is None:
            return {"refused": "no processes are ready"}, []
        self._pair = None
        return {"pids": list(pair.pids)}, pair.detach()

    def _server(self, prepare: str, env: Mapping[str, str]) -> ForkServer:
        """Return the fork server of a kind, which loads what its forks need."""
        key = prepare, tuple(sorted(env.items()))
        return self._servers.setdefault(key, ForkServer(prepare, env))  # a thread may ask as well

    def _tend_processes(self) -> None:
        """Prepare a pair if nothing is in use; end after too long a time, or with too much."""
        if self._pair is not None and not self._pair.is_alive:
            self._pair.close()
            self._pair = None
        if self._users or self._ending is not None:
            return
        if self._clock() - self._used_s > self._settings.idle_s:
            self._ending = "idle"
        elif family_bytes(os.getpid()) > self._settings.memory_bytes:
            self._ending = "memory"
        elif self._pair is None and self._preparing is None and self._clock() >= self._retry_s:
            self._preparing = threading.Thread(target=self._prepare_pair, daemon=True)
            self._preparing.start()

    def _prepare_pair(self) -> None:
        """Start a pair and let it warm up, under the GPU's lock."""
        gpu, device = self._settings.gpu, self._settings.device
        try:
            with contextlib.nullcontext() if gpu is None else exclusive_gpu(gpu, 0.0):
                pair = start_ready_pair(self._server(PREPARE, ENVIRONMENT), gpu or "", device)
                try:
                    pair.control.send({"ping": True}, timeout_s=_READY_S)
                    pair.control.receive(_READY_S)
                except BaseException:
                    pair.close()
                    raise
            self._pair, self._fault = pair, ""
        except GpuBusyError:
            self._fault = "the GPU is in use"
        except _FAILURES as error:
            self._fault = f"{type(error).__name__}: {error}"
            if self._ending is None:  # else its server ended meanwhile
                _log.warning("no processes could be made ready: %s", self._fault)
        finally:
            self._retry_s = self._clock() + _RETRY_S
            self._preparing = None

    def _status(self) -> dict[str, Any]:
        pair = "ready" if self._pair else "being started" if self._preparing else self._fault
        return {
            "pid": os.getpid(),
            "gpu": self._settings.gpu or self._settings.device,
            "age_s": self._clock() - self._begun_s,
            "idle_s": 0.0 if self._users else self._clock() - self._used_s,
            "pair": pair or "in use",
            "servers": [prepare for prepare, _ in list(self._servers)],
            "users": len(self._users),
            "resident_bytes": family_bytes(os.getpid()),
        }

    def _end_processes(self) -> None:
        for channel in self._connections.values():
            channel.close()
        preparing = self._preparing
        for server in list(self._servers.values()):
            server.close()
        if preparing is not None:  # it fails, or starts its server again
            preparing.join(_READY_S)
        if self._pair is not None:
            self._pair.close()
        for server in self._servers.values():
            server.close()


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Listen on a socket that only this user may reach; it is removed at the end."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.parent.lstat()  # a link's owner could lead it elsewhere
    except OSError as error:
        raise InputError(f"no standby can listen at {path}: {error.strerror}") from error
    is_folder, is_open = stat.S_ISDIR(status.st_mode), stat.S_IMODE(status.st_mode) & 0o077
    if not is_folder or status.st_uid != os.getuid() or is_open:
        raise InputError(
            f"{path.parent} must be a folder of yours that nobody else may enter (chmod 700), "
            "and no link"
        )
    with _only_one(path), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        if path.is_symlink() or (path.exists() and not path.is_socket()):
            raise InputError(f"{path} is no socket, so it is not replaced: name another path")
        path.unlink(missing_ok=True)  # one that was killed left it
        try:
            listener.bind(str(path))
        except OSError as error:  # the path is too long
            raise InputError(f"no standby can listen at {path}: {error}") from error
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock beside the socket: else two that start at once would take it from each other."""
    beside, flags = path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
    try:
        lock = os.open(beside, flags, 0o600)
    except OSError as error:
        raise InputError(f"no standby can listen at {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise InputError(f"a standby already listens at {path}") from error
    try:
        yield
    finally:
        os.close(lock)  # the file stays: whoever waited for a removed one would miss the next
