"""A child process that has torch and triton loaded, and forks a fresh child for each job.

What patches torch or triton must not touch the caller's process, and user code may crash. So a
job runs in a process of its own that is thrown away after it. Forking it from a *server* that
has imported torch already costs milliseconds instead of seconds. The caller needs no torch.

Jobs see no GPU (``CUDA_VISIBLE_DEVICES`` is empty) and print to standard error. Else they find
what the caller has at the time of the call: its working directory, environment and module path.
Their temporary files go to a folder of their own, which the server removes after them: a job that
is killed cannot.

A job never outlives its caller: the server ends it when the caller closes its end of the pipe,
which the system does for a caller that was killed. Where the server itself is killed, the
system ends the job (Linux only).
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
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from solkit.errors import JobDiedError, SolkitError, WorkerError
from solkit.measure._process import python

__all__ = ["call", "shutdown", "start"]

_HEADER = struct.Struct("<Q")
_STUDY = "solkit.study"  # brings torch and triton with it
_GRACE_S = 2.0  # for the server to end its job
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    # A process that forks should have no threads, and jobs compute next to nothing themselves.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

_server: subprocess.Popen[bytes] | None = None
_channels: tuple[int, int] | None = None
_lock = threading.Lock()


def call(function: str, *args: Any, timeout_s: float = 300.0) -> Any:
    """Run ``module:name`` in a throw-away process and return what it returns.

    Args:
        function: e.g. ``"solkit.study:study"``.
        args: picklable arguments.
        timeout_s: seconds after which the job and all that it started is killed.

    Raises:
        SolkitError: the one that the job raised.
        JobDiedError: the job ended its process, crashed, or ran out of time.
        WorkerError: the job raised anything else; carries its traceback.
    """
    with _lock:
        down, up = _start()
        try:
            _send(down, (function, args, timeout_s, _surroundings()))
            ok, value = _receive(up)
        except (OSError, EOFError) as error:
            shutdown()
            raise WorkerError(f"the worker process died while running {function}") from error
        except BaseException:
            shutdown()  # ends the job; its answer would be taken for the next one's
            raise
    if ok:
        return value
    raise value


def start() -> None:
    """Start the server without waiting for it: it loads torch while the caller goes on."""
    with _lock:
        _start()


def shutdown() -> None:
    """Stop the server and its job; the next `call` starts another."""
    global _server, _channels
    server, channels = _server, _channels
    _server = _channels = None
    if channels is not None:
        for fd in channels:
            with contextlib.suppress(OSError):
                os.close(fd)
    if server is not None:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_GRACE_S)
        server.kill()
        server.wait()


def _forget() -> None:
    """In a process that the caller forked: leave the caller's server to the caller."""
    global _server, _channels, _lock
    _lock = threading.Lock()
    _server = None
    channels, _channels = _channels, None
    for fd in channels or ():  # or the server would not see the caller go
        os.close(fd)


atexit.register(shutdown)
os.register_at_fork(after_in_child=_forget)


def _start() -> tuple[int, int]:
    global _server, _channels
    if _server is not None and _channels is not None and _server.poll() is None:
        return _channels
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    serve = f"_serve({down_read}, {up_write}, {_STUDY!r})"
    command = python(f"from solkit.worker import _serve; {serve}")
    root = str(Path(__file__).absolute().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    path = root if not inherited else os.pathsep.join([root, inherited])
    _server = subprocess.Popen(
        command,
        pass_fds=(down_read, up_write),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_fileno(sys.stderr) else subprocess.DEVNULL,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
        start_new_session=True,  # a Ctrl-C is the caller's to handle
    )
    os.close(down_read)
    os.close(up_write)
    _channels = (down_write, up_read)
    return _channels


def _surroundings() -> tuple[str | None, dict[str, str], list[str]]:
    """The caller's working directory (unless it was removed), environment and module path."""
    try:
        folder = str(Path.cwd())
    except FileNotFoundError:
        folder = None
    return folder, {**os.environ, **_ENVIRONMENT}, list(sys.path)


def _has_fileno(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, io.UnsupportedOperation, ValueError):
        return False
    return True


def _send(fd: int, message: Any) -> None:
    _send_bytes(fd, pickle.dumps(message))


def _send_bytes(fd: int, data: bytes) -> None:
    data = _HEADER.pack(len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def _receive(fd: int) -> Any:
    return pickle.loads(_receive_bytes(fd))


def _receive_bytes(fd: int) -> bytes:
    (size,) = _HEADER.unpack(_read(fd, _HEADER.size))
    return _read(fd, size)


def _read(fd: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


# ------------------------------------------------------------------------------- the server

_job: int | None = None
"""The process, and process group, of the job that runs now."""
_scratch: str | None = None
"""The folder of its temporary files."""


def _serve(down: int, up: int, study: str) -> None:
    importlib.import_module(study).warm_up()
    # A collection in a child would touch every object, and so copy every page that holds one.
    gc.collect()
    gc.freeze()
    # Python 3.12 warns of threads. Those left are torch's idle pools, which hold no lock.
    warnings.filterwarnings("ignore", "This process.*is multi-threaded", DeprecationWarning)
    signal.signal(signal.SIGTERM, lambda *_: _leave())
    while True:
        try:
            _send_bytes(up, _run_in_child(_receive_bytes(down), down))
        except (EOFError, BrokenPipeError):  # the caller is gone
            return


def _leave() -> None:
    if _job is not None:
        _kill(_job)
    if _scratch is not None:
        shutil.rmtree(_scratch, ignore_errors=True)
    os._exit(0)


def _run_in_child(request: bytes, down: int) -> bytes:
    """Fork, run, and return the pickled answer; a child that gives none is an answer too.

    Raises:
        EOFError: the caller hung up; the child was ended.
    """
    global _job, _scratch
    function, args, timeout_s, surroundings = pickle.loads(request)
    _scratch = tempfile.mkdtemp(prefix="solkit-job-")
    read, write = os.pipe()
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        _die_with(server)
        os.close(read)
        _send_bytes(write, _answer(function, args, _scratch, *surroundings))
        sys.stderr.flush()
        os._exit(0)
    _job = pid
    os.close(write)
    data, timed_out = None, False
    try:
        data = _collect(read, down, time.monotonic() + timeout_s)
    except TimeoutError:
        timed_out = True
    finally:
        os.close(read)
        _kill(pid)
        _, status = os.waitpid(pid, 0)
        _job = None
        shutil.rmtree(_scratch, ignore_errors=True)
    if data is not None:
        return data
    why = f"ran for over {timeout_s:g} s and was killed" if timed_out else _end(status)
    return pickle.dumps((False, JobDiedError(f"its process {why}", timed_out)))


def _kill(job: int) -> None:
    """End a job and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(job, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(job, signal.SIGKILL)  # where it had no time to found its group


def _die_with(parent: int) -> None:
    """Have the system kill this process, and those that it forks, as soon as its parent ends."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)
    here = os.getpid()
    os.register_at_fork(after_in_child=lambda: _die_with(here) if os.getppid() == here else None)


def _end(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"ended with exit code {os.WEXITSTATUS(status)}"
    if os.WTERMSIG(status) == signal.SIGKILL:
        return "was killed by SIGKILL, as happens where memory runs out"
    return f"died of {signal.Signals(os.WTERMSIG(status)).name}"


def _answer(
    function: str,
    args: tuple[Any, ...],
    scratch: str,
    folder: str | None,
    environment: dict[str, str],
    path: list[str],
) -> bytes:
    module, _, name = function.partition(":")
    try:
        if folder is not None:
            os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment, TMPDIR=scratch)
        tempfile.tempdir = scratch
        sys.path[:] = path
        value = getattr(importlib.import_module(module), name)(*args)
        return pickle.dumps((True, value))
    except SolkitError as error:
        return pickle.dumps((False, error))
    except BaseException:  # whatever it was, the caller must hear of it
        return pickle.dumps((False, WorkerError(f"{function} failed:\n{traceback.format_exc()}")))


def _collect(fd: int, down: int, deadline: float) -> bytes | None:
    """The child's answer; ``None`` where it ended without one.

    Raises:
        TimeoutError: the deadline passed.
        EOFError: the caller hung up. It sends nothing while it waits for an answer.
    """
    data = bytearray()
    while len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        ready, _, _ = select.select([fd, down], [], [], max(0.0, deadline - time.monotonic()))
        if down in ready:
            raise EOFError
        if not ready:
            raise TimeoutError
        part = os.read(fd, 1 << 20)
        if not part:
            return None
        data += part
    return bytes(data[_HEADER.size :])
