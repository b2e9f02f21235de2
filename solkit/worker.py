"""A child process that has torch and triton loaded, and forks a fresh child for each job.

What patches torch or triton must not touch the caller's process, and user code may crash. So a
job runs in a process of its own that is thrown away after it. Forking it from a *server* that
has imported torch already costs milliseconds instead of seconds. The caller needs no torch.

Jobs see no GPU (``CUDA_VISIBLE_DEVICES`` is empty) and print to standard error.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from solkit.errors import JobDiedError, SolkitError, WorkerError

__all__ = ["call", "shutdown", "start"]

_HEADER = struct.Struct("<Q")
_STUDY = "solkit.study"  # brings torch and triton with it

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
            _send(down, (function, args, timeout_s, list(sys.path)))
            ok, value = _receive(up)
        except (OSError, EOFError) as error:
            shutdown()
            raise WorkerError(f"the worker process died while running {function}") from error
        except KeyboardInterrupt:
            shutdown()  # its answer would be taken for the next job's
            raise
    if ok:
        return value
    raise value


def start() -> None:
    """Start the server without waiting for it: it loads torch while the caller goes on."""
    with _lock:
        _start()


def shutdown() -> None:
    """Stop the server; the next `call` starts another."""
    global _server, _channels
    server, channels = _server, _channels
    _server = _channels = None
    if channels is not None:
        for fd in channels:
            with contextlib.suppress(OSError):
                os.close(fd)
    if server is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _start() -> tuple[int, int]:
    global _server, _channels
    if _server is not None and _channels is not None and _server.poll() is None:
        return _channels
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    command = [sys.executable, "-m", "solkit.worker", str(down_read), str(up_write)]
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
    atexit.register(shutdown)
    return _channels


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


def _serve(down: int, up: int) -> None:
    importlib.import_module(_STUDY).warm_up()
    # Python 3.12 warns of threads. Those left are torch's idle pools, which hold no lock.
    warnings.filterwarnings("ignore", "This process.*is multi-threaded", DeprecationWarning)
    while True:
        try:
            request = _receive_bytes(down)
        except EOFError:
            return
        _send_bytes(up, _run_in_child(request))


def _run_in_child(request: bytes) -> bytes:
    """Fork, run, and return the pickled answer; a child that gives none is an answer too."""
    function, args, timeout_s, path = pickle.loads(request)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(read)
        sys.path[:] = path
        _send_bytes(write, _answer(function, args))
        sys.stderr.flush()
        os._exit(0)
    os.close(write)
    data = _collect(read, time.monotonic() + timeout_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if data is not None:
        return data
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        why = f"died of {signal.Signals(os.WTERMSIG(status)).name}"
    elif os.WIFEXITED(status):
        why = f"ended its process with exit code {os.WEXITSTATUS(status)}"
    else:
        why = f"was killed: it ran for over {timeout_s:g} s, or the machine ran out of memory"
    return pickle.dumps((False, JobDiedError(f"{function} {why}")))


def _answer(function: str, args: tuple[Any, ...]) -> bytes:
    module, _, name = function.partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(*args)
        return pickle.dumps((True, value))
    except SolkitError as error:
        return pickle.dumps((False, error))
    except BaseException:  # whatever it was, the caller must hear of it
        return pickle.dumps((False, WorkerError(f"{function} failed:\n{traceback.format_exc()}")))


def _collect(fd: int, deadline: float) -> bytes | None:
    """The child's answer; ``None`` where it ended or ran out of time without one."""
    data = bytearray()
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(fd, 1 << 20) if ready else b""
        data += part
        if len(data) >= _HEADER.size:
            size = _HEADER.unpack_from(data)[0]
            if len(data) >= _HEADER.size + size:
                break
        if not part:
            break
    os.close(fd)
    if len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        return None
    return bytes(data[_HEADER.size :])


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
