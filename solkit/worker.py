"""Throw-away processes that have torch and triton loaded, one for each job.

What patches torch or triton must not touch the caller's process, and user code may crash. So a job
runs in a process of its own that is thrown away after it, forked from a server that has imported
torch already (`solkit.measure._forkserver`, which says when such a process ends). The caller needs
no torch.

Within `sandboxed` the server, and so the jobs, run under bubblewrap (`solkit.measure.sandbox`). An
answer may then be a forgery, too: nothing but SolKit's own records is read from it.

Jobs see no GPU (``CUDA_VISIBLE_DEVICES`` is empty) and print to standard error. Else they find
what the caller has at the time of the call: its working directory, environment and module path.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from solkit.errors import JobDiedError, SolkitError, WorkerError
from solkit.measure._forkserver import Fork, ForkServer
from solkit.measure.channel import Channel, ClosedError, NonsenseError, pair
from solkit.measure.sandbox import Sandbox

__all__ = ["call", "sandboxed", "shutdown", "start"]

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    # A process that forks should have no threads, and jobs compute next to nothing themselves.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

_PREPARE = "solkit.study:warm_up"
_server = ForkServer(_PREPARE, _ENVIRONMENT)
_sandbox: Sandbox | None = None
_shown: tuple[str, ...] = ()  # in the sandbox
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
        data = _answer_of(function, args, timeout_s)
    try:
        ok, value = pickle.loads(data) if _sandbox is None else _Records(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise WorkerError(f"{function} answered with something else: {error}") from error
    if ok:
        return value
    raise value


def start() -> None:
    """Start the server without waiting for it: it loads torch while the caller goes on."""
    _server.start()


@contextlib.contextmanager
def sandboxed(*paths: str) -> Iterator[None]:
    """Have jobs run in a sandbox meanwhile.

    Args:
        paths: files that jobs are to read; their folders show.

    Raises:
        UnsupportedError: there can be no sandbox here; says what to do about it.
    """
    global _sandbox, _shown
    _sandbox, _shown = Sandbox(_PREPARE, _ENVIRONMENT, "cpu"), paths
    try:
        yield
    finally:
        _sandbox.close()
        _sandbox = None


def shutdown() -> None:
    """Stop the server and its job; the next `call` starts another."""
    _server.close()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _answer_of(function: str, args: tuple[Any, ...], timeout_s: float) -> bytes:
    """What the job has to say; one that says nothing is explained.

    Raises:
        JobDiedError, WorkerError: the job, or the server, ended without an answer.
    """
    ours, theirs = pair()
    answers = Channel(ours, trusting=True)
    with ours:
        with theirs:
            job = _job(f"{__name__}:_answer", (function, args), (theirs.fileno(),))
        data, timed_out = None, False
        try:
            data = answers.receive(timeout_s).payload
        except TimeoutError:
            timed_out = True
        except (ClosedError, NonsenseError):
            pass  # how it ended is what is to be told
        finally:
            ended = job.end()
    if data is not None:
        return data
    if _sandbox is None and not _server.is_alive:
        raise WorkerError(f"the worker process died while running {function}")
    why = f"ran for over {timeout_s:g} s and was killed" if timed_out else _end(ended)
    raise JobDiedError(f"its process {why}", timed_out)


def _job(function: str, args: tuple[Any, ...], descriptors: tuple[int, ...]) -> Fork:
    env = {**os.environ, **_ENVIRONMENT}
    if _sandbox is None:
        return _server.fork(function, args, env=env, descriptors=descriptors)
    server, env = _sandbox.server(_shown), _sandbox.environment(env)
    folder = _sandbox.folder
    return server.fork(function, args, env=env, descriptors=descriptors, folder=folder)


class _Records(pickle.Unpickler):
    """Reads what consists of SolKit's nouns and errors, and of Python's plain values."""

    def find_class(self, module: str, name: str) -> Any:
        """A class; raises `pickle.UnpicklingError` where it may not come."""
        found = None
        if module in ("solkit.core", "solkit.errors"):
            found = getattr(sys.modules[module], name, None)
        if not isinstance(found, type) or found.__module__ != module:
            raise pickle.UnpicklingError(f"{module}.{name} is no record of SolKit's")
        return found


def _end(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    if returncode == -signal.SIGKILL:
        return "was killed by SIGKILL, as happens where memory runs out"
    return f"died of {signal.Signals(-returncode).name}"


# ----------------------------------------------------------------------------------- the job


def _answer(function: str, args: tuple[Any, ...], descriptor: int) -> None:
    """In the job's process: run the function and send what comes of it, pickled."""
    module, _, name = function.partition(":")
    try:
        answer = True, getattr(importlib.import_module(module), name)(*args)
        data = pickle.dumps(answer)
    except SolkitError as error:
        data = pickle.dumps((False, error))
    except BaseException:  # whatever it was, the caller must hear of it
        data = pickle.dumps((False, WorkerError(f"{function} failed:\n{traceback.format_exc()}")))
    Channel.of(descriptor, trusting=True).send({}, data)
