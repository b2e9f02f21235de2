"""A fork server: it imports what other processes need, then forks them.

Importing torch and triton takes seconds; forking a process that has them takes milliseconds. The
server computes nothing, starts no thread and never initialises CUDA, which a fork could not use.
The caller needs no torch.

::

    caller ──control──► server ──fork──► process ── runs module:function
      │ ▲                 │                 │
      │ └──── lifeline ◄──┴─ return code    └─ sends its process id first
      └─ hangs up: the process is killed

One that is forked may be a server as well, with more loaded (`DerivedServer`).

A process never outlives its caller. When the caller closes its socket, or dies, the server kills
the process, its group and its descendants (the server adopts orphans: `PR_SET_CHILD_SUBREAPER`). If
the server itself is killed, the system kills its forks. Both rely on Linux. The server also removes
each process's temporary folder, since a killed process cannot. Caches of Triton and torch that
cannot be written are replaced by folders that last as long as the server.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from solkit import userdata
from solkit.errors import UnsupportedError, WorkerError
from solkit.processes.channel import (
    Channel,
    ClosedError,
    Frame,
    NonsenseError,
    connected_pair,
    is_readable,
)
from solkit.processes.host import OWN_PYTHON, Program, Python, descriptor_of
from solkit.processes.standby import BorrowedServer, borrow_server
from solkit.spans import span

_START_S = 150.0  # for the server to import torch
_GRACE_S = 2.0  # for the server to end its forks
_REAP_S = 30.0
_REQUEST_S = 5.0  # for a borrower to send a request, while all others wait
_NUMBER = struct.Struct("<i")
_servers: weakref.WeakSet[ForkServer] = weakref.WeakSet()

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


class ForkServer:
    """The caller's side.

    The server starts when first needed, and again if it died.

    Args:
        prepare: ``module:function`` that imports what the processes need.
        env: additional environment, including what libraries read when loaded.
        wrapper: a command that runs the server's command, such as a sandbox.
        inherits: whether its environment includes the caller's.
        borrows: whether a daemon's server will do, if there is one
            (`solkit.processes.standby`).
        python: the Python that it runs in.
    """

    def __init__(
        self,
        prepare: str,
        env: Mapping[str, str],
        wrapper: Sequence[str] = (),
        *,
        inherits: bool = True,
        borrows: bool = False,
        python: Python = OWN_PYTHON,
    ) -> None:
        self._inherits, self._borrows = inherits, borrows and python.is_own
        self._python = python
        self._prepare, self._env, self._wrapper = prepare, dict(env), tuple(wrapper)
        self._lock = threading.RLock()
        self._process: Program | BorrowedServer | Fork | None = None
        self._control: Channel | None = None
        _servers.add(self)

    def start(self) -> None:
        """Start it unless it runs; it prepares while the caller continues."""
        with self._lock:
            if not self.is_alive:
                self.close()
                borrowed = borrow_server(self._prepare, self._env) if self._borrows else None
                self._process, self._control = borrowed or self._start_process()

    def load(self) -> None:
        """Start it unless it runs, and wait until it can fork.

        Raises:
            WorkerError: it did not start.
        """
        self.fork("time:sleep", (0,), env=os.environ).end(_START_S)

    @property
    def is_alive(self) -> bool:
        """True if the server runs."""
        process = self._process  # another thread may close it meanwhile
        return process is not None and process.wait(0.0) is None

    @property
    def pid(self) -> int | None:
        """Process id of the server, or of its wrapper; ``None`` if never started."""
        process = self._process
        return None if process is None else process.pid

    def lend(self) -> socket.socket:
        """Return the end of a further control channel; what it forks ends when that is closed.

        Raises:
            WorkerError: the server is gone.
        """
        ours, theirs = connected_pair()
        try:
            with theirs:
                self._send_request({"lent": True}, b"", (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        return ours

    def fork(
        self,
        function: str,
        args: tuple[Any, ...] = (),
        *,
        env: Mapping[str, str],
        descriptors: Sequence[int] = (),
        output: int | None = None,
        folder: str | None = None,
        name: str = "",
        loads: Sequence[str] = (),
    ) -> Fork:
        """Fork a new process that runs ``module:function``, with the caller's module path.

        Args:
            function: called with `args`, then with the process's numbers of `descriptors`.
            args: picklable.
            env: its environment.
            descriptors: open files to pass.
            output: the file that it prints to; the server's standard error by default.
            folder: its working directory; the caller's by default.
            name: as the system shows it; Python's by default.
            loads: modules that the server imports first, for this process and all later ones.

        Raises:
            UnsupportedError: no temporary folder can be written.
            WorkerError: the server is gone, or did not start in time.
        """
        path = self._python.module_path()
        where = pickle.dumps((dict(env), folder or working_directory(), path))
        job = where + pickle.dumps(args)
        with self._lock:
            self.start()
            process = self._process
            if output is None and isinstance(process, BorrowedServer):
                output = descriptor_of(sys.stderr)  # the server's own is the daemon's
        prints = output is not None and output >= 0
        header: dict[str, Any] = {"function": function, "prints": prints, "name": name}
        header["loads"] = [*loads]
        header["adds"] = bool(self._python.executable)
        sent = (*((output,) if prints and output is not None else ()), *descriptors)
        try:
            return self._fork_job(header, job, sent)
        except WorkerError:
            if not self._has_died(process):
                raise
            return self._fork_job(header, job, sent)  # by another that takes its place

    def _fork_job(self, header: Mapping[str, Any], job: bytes, descriptors: Sequence[int]) -> Fork:
        ours, theirs = connected_pair()
        try:
            with theirs:
                self._send_request(header, job, (theirs.fileno(), *descriptors))
            return Fork(ours, self)
        except BaseException:
            ours.close()  # so the server kills what it may have forked meanwhile
            raise

    def _has_died(self, process: Program | BorrowedServer | Fork | None) -> bool:
        """Tell whether a server was killed: its socket closes before its exit is visible.

        Another thread may have replaced it by then. One that was closed did not die.
        """
        present = self._process
        if present is None or process is None:
            return False
        return present is not process or process.wait(_REAP_S) is not None

    def close(self) -> None:
        """End it and all its forks."""
        with self._lock:
            control, self._control = self._control, None
            process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            if not isinstance(process, Fork):  # which ends since its channel is closed
                process.signal(signal.SIGTERM)
            process.end(_GRACE_S)

    def forget(self) -> None:
        """Drop it in a fork of the caller, which owns it."""
        self._lock = threading.RLock()
        self._process = None
        if self._control is not None:
            self._control.close()
            self._control = None

    def _start_process(self) -> tuple[Program | Fork, Channel]:
        ours, theirs = connected_pair()
        _require_temporary_folder()
        code = f"from {__name__} import serve; serve({theirs.fileno()}, {self._prepare!r})"
        inherited = os.environ if self._inherits else {}
        with theirs:
            process = Program(
                [*self._wrapper, *self._python.command(code)],
                env={**inherited, **self._env, "PYTHONPATH": self._python.path()},
                descriptors=(theirs.fileno(),),
            )
        return process, Channel(ours, trusting=True)

    def _send_request(
        self, header: Mapping[str, Any], job: bytes, descriptors: Sequence[int]
    ) -> None:
        with self._lock:
            self.start()
            assert self._control is not None
            try:
                self._control.send(header, job, descriptors, _START_S)
            except (ClosedError, OSError) as error:
                raise WorkerError("the server that was to fork a process is gone") from error


class DerivedServer(ForkServer):
    """A server that is a fork of another one, in which more is loaded. It ends with that one.

    It does not start if loading fails, or starts threads or processes, which no fork would have.

    Args:
        parent: the other server.
        prepare: ``module:function`` that loads.
        args: picklable arguments of that function.
        env: its environment.
    """

    def __init__(
        self, parent: ForkServer, prepare: str, args: tuple[Any, ...], *, env: Mapping[str, str]
    ) -> None:
        super().__init__(prepare, env)
        self._parent, self._args = parent, args

    def _start_process(self) -> tuple[Program | Fork, Channel]:
        ours, theirs = connected_pair()
        with theirs, Path(os.devnull).open("w") as nowhere:
            fork = self._parent.fork(
                f"{__name__}:serve_derived",
                (self._prepare, self._args),
                env=self._env,
                descriptors=(theirs.fileno(),),
                output=nowhere.fileno(),  # those that it forks say what is wrong
            )
        return fork, Channel(ours, trusting=True)


class Fork:
    """The caller's view of a forked process.

    Attributes:
        pid: its process id.
        server: forked it.
    """

    def __init__(self, lifeline: socket.socket, server: ForkServer, pid: int | None = None) -> None:
        self._lifeline, self.server = lifeline, server
        self._returncode: int | None = None
        self._is_reported, self._reading = True, threading.Lock()
        self.pid = self._read_pid() if pid is None else pid

    def detach(self) -> socket.socket:
        """Return the lifeline, whose holder ends the process from now on."""
        return self._lifeline

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the return code as in `subprocess`; ``None`` if it has not ended by then."""
        if self._returncode is None:
            with contextlib.suppress(ValueError):  # another thread has read it, and closed this
                if is_readable(self._lifeline, timeout_s):
                    self._read_returncode()
        return self._returncode

    def _read_returncode(self) -> None:
        with self._reading:
            if self._returncode is None:
                answer = _read_number(self._lifeline, _NUMBER.size)
                # no report: the server was killed, and the system killed its forks
                self._is_reported = bool(answer)
                self._returncode = _NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL
                self._lifeline.close()

    @property
    def is_alive(self) -> bool:
        """True if the process still runs."""
        return self.wait(0.0) is None

    @property
    def is_lost(self) -> bool:
        """True if the process died with the server, which another one may have replaced."""
        return not self._is_reported or not self.server.is_alive

    def end(self, grace_s: float = 0.0) -> int:
        """Kill it and its descendants; returns its return code.

        Args:
            grace_s: how long to wait for it to end by itself.

        Raises:
            WorkerError: it outlived being killed.
        """
        if self.wait(grace_s) is None:
            with contextlib.suppress(OSError):
                self._lifeline.shutdown(socket.SHUT_WR)
        ended = self.wait(_REAP_S)
        if ended is None:
            self.server.close()
            raise WorkerError(f"process {self.pid} still exists {_REAP_S:g} s after being killed")
        return ended

    def _read_pid(self) -> int:
        """Read the process id, which the process sends first."""
        if not is_readable(self._lifeline, _START_S):
            raise WorkerError(f"no process was forked within {_START_S:g} s")
        answer = _read_number(self._lifeline, _NUMBER.size)
        if not answer:
            raise WorkerError("the server that was to fork a process is gone")
        return int(_NUMBER.unpack(answer)[0])


def close_servers() -> None:
    """End all servers of this process, with their forks; each starts again when it is needed."""
    for server in list(_servers):
        server.close()


def _forget_servers() -> None:
    """Forget servers in a fork of the caller: else they would not see the caller end."""
    for server in list(_servers):
        server.forget()


atexit.register(close_servers)
os.register_at_fork(after_in_child=_forget_servers)


def children_of(pid: int | str) -> list[int]:
    """Return a process's children that it has not reaped (proc(5))."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # gone meanwhile
            children += map(int, task.read_text().split())
    return children


def working_directory() -> str | None:
    """Return the working directory, unless it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None


def _require_temporary_folder() -> None:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 12))
    except OSError as error:
        raise UnsupportedError(
            f"temporary files cannot be written: {error.strerror or error}. Set TMPDIR to a folder "
            "with free space"
        ) from error


def _read_number(end: socket.socket, size: int) -> bytes:
    """Return a received number; empty if the other end closed."""
    with contextlib.suppress(ConnectionResetError):
        return end.recv(size, socket.MSG_WAITALL)
    return b""


# ------------------------------------------------------------------------------- the server


def serve(descriptor: int, prepare: str) -> NoReturn:
    """Run the server: prepare, then fork on request until the caller closes its socket."""
    _prepare_server(prepare)
    _Server(Channel.of(descriptor, trusting=True)).run()


def serve_derived(prepare: str, args: tuple[Any, ...], descriptor: int) -> NoReturn:
    """Run a fork as a server of its own.

    Raises:
        UnsupportedError: preparing started threads or processes.
    """
    before = _count_threads()
    _prepare_server(prepare, args)
    if _count_threads() > before or children_of("self"):
        why = "starts threads or processes, which forks would lack"
        raise UnsupportedError(f"{prepare}{args} {why}")
    _Server(Channel.of(descriptor, trusting=True)).run()


def _count_threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _load_modules(names: Sequence[str]) -> None:
    """Import modules that are not imported yet; what fails here fails where it is used."""
    if missing := [name for name in names if name not in sys.modules]:
        for name in missing:
            with span(f"loading {name}", "fork server"), contextlib.suppress(Exception):
                importlib.import_module(name)
        _freeze_objects()


def _freeze_objects() -> None:
    """Spare forks the collection of what is loaded.

    It would touch every object, and so copy every page that holds one.
    """
    gc.collect()
    gc.freeze()


def _prepare_server(prepare: str, args: tuple[Any, ...] = ()) -> None:
    module, _, name = prepare.partition(":")
    with span(f"loading {module}", "fork server"):
        getattr(importlib.import_module(module), name)(*args)
    _freeze_objects()
    # Python 3.12 warns of threads. Those left are torch's idle pools, which hold no lock.
    warnings.filterwarnings("ignore", "This process.*is multi-threaded", DeprecationWarning)
    _prctl(_PR_SET_DUMPABLE, 0)  # what it forked must not write into its memory
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


@dataclass(frozen=True)
class _Job:
    """A process that was forked.

    Attributes:
        lifeline: to the caller.
        scratch: the folder of its temporary files.
        control: the channel by which it was asked for.
    """

    lifeline: socket.socket
    scratch: str
    control: Channel


class _Server:
    """Forks on request, reaps, and kills abandoned processes.

    Args:
        control: the channel of the owner, with whom it ends. Others who borrow it have their own.
    """

    def __init__(self, control: Channel) -> None:
        self._owner, self._controls = control, [control]
        self._jobs: dict[int, _Job] = {}
        self._unwanted: set[int] = set()  # were killed, and not reaped yet
        self._scratch = tempfile.mkdtemp(prefix="solkit-jobs-")
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end_server())
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)

    def run(self) -> NoReturn:
        """Serve until the caller is gone."""
        while True:
            ready = self._wait_for_events()
            if self._wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(1 << 12)
            self._reap_ended()
            for pid, job in self._jobs.items():
                if job.lifeline.fileno() in ready and pid not in self._unwanted:
                    self._unwanted.add(pid)
                    _kill_group(pid)
            for control in [one for one in self._controls if one.fileno() in ready]:
                self._answer_request(control)

    def _answer_request(self, control: Channel) -> None:
        """Fork, or take a further control channel; without its owner the server ends."""
        if control is self._owner:
            try:
                frame = control.receive()
            except ClosedError:
                self._end_server()
            if "lent" in frame.header:
                self._controls.append(Channel.of(frame.descriptors[0], trusting=True))
                return
        else:
            try:
                frame = control.receive(_REQUEST_S)
            except (ClosedError, NonsenseError, TimeoutError):
                self._forget_control(control)
                return
        self._fork_request(frame, control)

    def _forget_control(self, control: Channel) -> None:
        """Kill what a borrower left behind."""
        self._controls.remove(control)
        control.close()
        for pid, job in self._jobs.items():
            if job.control is control and pid not in self._unwanted:
                self._unwanted.add(pid)
                _kill_group(pid)

    def _wait_for_events(self) -> set[int]:
        poll = select.poll()
        for control in self._controls:
            poll.register(control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        for pid, job in self._jobs.items():
            if pid not in self._unwanted:
                poll.register(job.lifeline, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll()}

    def _fork_request(self, frame: Frame, control: Channel) -> None:
        _load_modules(frame.header["loads"])
        lifeline = socket.socket(fileno=frame.descriptors[0])
        scratch = tempfile.mkdtemp(dir=self._scratch)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_job(frame, lifeline, scratch, server)
        for descriptor in frame.descriptors[1:]:
            os.close(descriptor)
        self._jobs[pid] = _Job(lifeline, scratch, control)

    def _become_job(
        self, frame: Frame, lifeline: socket.socket, scratch: str, server: int
    ) -> NoReturn:
        """Drop the server's resources, in the fork, and run the request."""
        ended = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            _die_with_parent(server)
            if frame.header["name"]:
                _name_process(frame.header["name"])
            _prctl(_PR_SET_DUMPABLE, 1)
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # its orphans stay its own while it lives
            lifeline.sendall(_NUMBER.pack(os.getpid()))
            for control in self._controls:
                control.close()
            for end in (lifeline, self._wake, self._waker):
                end.close()
            for job in self._jobs.values():
                job.lifeline.close()
            ended = _run_request(frame, scratch)
        finally:
            os._exit(ended)

    def _reap_ended(self) -> None:
        """Report return codes of ended processes to their callers, and kill their orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            job = self._jobs.pop(pid, None)
            self._unwanted.discard(pid)
            self._kill_orphans()
            if job is not None:
                _kill_group(pid)  # the rest of its group
                shutil.rmtree(job.scratch, ignore_errors=True)
                with contextlib.suppress(OSError), job.lifeline as lifeline:
                    lifeline.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))

    def _kill_orphans(self) -> None:
        for orphan in set(children_of("self")) - self._jobs.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)

    def _end_server(self) -> NoReturn:
        for pid in self._jobs:
            _kill_group(pid)
        limit = time.monotonic() + _GRACE_S / 2
        while (self._jobs or children_of("self")) and time.monotonic() < limit:
            self._reap_ended()
            time.sleep(0.002)
        shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(0)


def _run_request(frame: Frame, scratch: str) -> int:
    """Run the request in its environment; returns the exit code."""
    descriptors = list(frame.descriptors[1:])
    if frame.header["prints"]:
        output = descriptors.pop(0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    try:
        payload = io.BytesIO(frame.payload)
        env, folder, path = pickle.load(payload)
        if frame.header["adds"]:  # another interpreter's: its own libraries come first
            path = [*sys.path, *(place for place in path if _may_follow(place))]
        _take_surroundings(env, folder, path, scratch)
        args = pickle.load(payload)  # only now: this imports the modules of their classes
        module, _, name = frame.header["function"].partition(":")
        getattr(importlib.import_module(module), name)(*args, *descriptors)
        ended = 0
    except SystemExit as error:
        ended = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # any error is printed to the process's output
        traceback.print_exc()
        ended = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return ended


def _may_follow(place: str) -> bool:
    """Tell whether a folder of another interpreter's module path is no folder of its libraries."""
    parts = Path(place).parts
    return place not in sys.path and not any(
        part in ("site-packages", "dist-packages", "lib-dynload") or part.startswith("python3")
        for part in parts
    )


def _take_surroundings(
    env: Mapping[str, str], folder: str | None, path: Sequence[str], scratch: str
) -> None:
    """Give this process the environment, working directory and module path of a caller.

    Args:
        env: the environment.
        folder: the working directory; ``None`` if the caller's was removed.
        path: the module path.
        scratch: this process's folder of temporary files.
    """
    if folder is not None:
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(env, TMPDIR=scratch)
    os.environ.update(userdata.replaced_caches(str(Path(scratch).parent)))
    tempfile.tempdir = scratch
    sys.path[:] = path


def adopt_surroundings(env: Mapping[str, str], folder: str | None, path: Sequence[str]) -> None:
    """Give this fork, which waited for a caller, those of the caller; it keeps its own scratch."""
    _take_surroundings(env, folder, path, tempfile.gettempdir())
    _name_process(Path(sys.executable).name)


def _name_process(name: str) -> None:
    """Give this process a name of up to 15 characters, as the system shows it."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _kill_group(job: int) -> None:
    """End a process and its group."""
    for kill in (os.killpg, os.kill):  # the latter if its group does not exist yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(job, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_parent(parent: int) -> None:
    """Make the system kill this process and its forks as soon as its parent ends.

    To the system the parent is the thread that forked (prctl(2)). So a fork of another thread than
    the main one is left alone, or it would end with that thread: it ends with its job.
    """
    if not parent:
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has already ended
        os._exit(1)
    if not _forking:
        os.register_at_fork(
            before=_note_parent, after_in_child=lambda: _die_with_parent(_forking[-1])
        )


_forking: list[int] = []
"""The process whose main thread forks, or 0 for another thread.

It is noted before, since the child cannot ask: its parent may be gone by then.
"""


def _note_parent() -> None:
    process = os.getpid()
    _forking[:] = [process if threading.get_native_id() == process else 0]
