"""Throw-away processes with torch and triton loaded, one per job.

Patches of torch or triton must not touch the caller's process, and user code may crash. So each job
runs in its own process, forked from a server that has already imported torch
(`solkit.processes.forkserver` says when such a process ends). The caller needs no torch.

`SandboxedJobs` run under bubblewrap (`solkit.processes.sandbox`). Their answers may be forged, so
only SolKit's own records are unpickled from them.

Jobs see no GPU (``CUDA_VISIBLE_DEVICES`` is empty) and print to standard error. Otherwise they get
the caller's working directory, environment and module path at the time of the call. Everything here
is thread-safe.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from solkit.errors import SolkitError, WorkerError
from solkit.processes.channel import Channel
from solkit.processes.forkserver import DerivedServer, Fork, ForkServer
from solkit.processes.host import OWN_PYTHON, Host, Python
from solkit.processes.sandbox import Sandbox, harmless_variables

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    # A forking process should have no threads, and jobs compute almost nothing themselves.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

PREPARE = "solkit.analysis.warming:warm_up"


class Jobs:
    """Starts processes from one server, which starts when first needed.

    Args:
        prepare: ``module:function`` that imports what jobs need.
        env: additional environment, of the server too.
        private: whether jobs see only harmless variables of the caller's environment: no tokens.
        python: the Python that they run in.
    """

    def __init__(
        self,
        prepare: str = PREPARE,
        env: Mapping[str, str] | None = None,
        *,
        private: bool = False,
        python: Python = OWN_PYTHON,
    ) -> None:
        self._env, self._private = {**ENVIRONMENT, **(env or {})}, private
        seen = {**harmless_variables(os.environ), **self._env} if private else self._env
        self.server = ForkServer(
            prepare, seen, inherits=not private, borrows=not private, python=python
        )

    def start(self, shown: Sequence[str] = ()) -> None:  # noqa: ARG002 - as for `fork`
        """Start the server without waiting for it: a sandbox only if it is told what to show."""
        self.server.start()

    def close(self) -> None:
        """Stop the server and its processes; the next job starts another."""
        self.server.close()

    def fork(
        self,
        function: str,
        args: tuple[Any, ...],
        descriptors: Sequence[int],
        shown: Sequence[str] = (),  # noqa: ARG002 - what a sandbox shows
        env: Mapping[str, str] | None = None,
    ) -> Fork:
        """As `ForkServer.fork`, with `env` added to the environment.

        A sandbox shows the files in `shown`, and their folders.
        """
        own = harmless_variables(os.environ) if self._private else os.environ
        env = {**own, **(env or {}), **self._env}
        return self.server.fork(function, args, env=env, descriptors=descriptors)

    def read(self, answer: bytes) -> Any:
        """Return a process's pickled answer.

        Raises:
            pickle.UnpicklingError: it is not allowed.
        """
        return pickle.loads(answer)

    def call(
        self, function: str, *args: Any, timeout_s: float = 300.0, shown: Sequence[str] = ()
    ) -> Any:
        """Run ``module:function`` in a throw-away process and return its result.

        The job and its descendants are killed after `timeout_s`. `shown` is as for `fork`.

        Raises:
            SolkitError: the job raised it.
            JobDiedError: the job ended its process, crashed, or ran out of time.
            WorkerError: the job raised anything else; carries its traceback.
        """
        data = self._receive_answer(function, args, timeout_s, shown)
        try:
            ok, value = self.read(data)
        except pickle.UnpicklingError as error:
            raise WorkerError(f"{function} gave an invalid answer: {error}") from error
        if ok:
            return value
        raise value

    def _receive_answer(
        self, function: str, args: tuple[Any, ...], timeout_s: float, shown: Sequence[str]
    ) -> bytes:
        def start(descriptor: int) -> Fork:
            return self.fork(f"{__name__}:_answer", (function, args), (descriptor,), shown)

        with contextlib.closing(Host(start, f"running {function}")) as host:
            return host.receive(timeout_s).payload


class DerivedJobs(Jobs):
    """Jobs with more loaded: their server is a fork of another's, and is closed apart from it.

    Args:
        parent: the other's jobs.
        prepare: ``module:function`` that loads what these need besides. It may start no thread.
    """

    def __init__(self, parent: Jobs, prepare: str) -> None:
        self._env, self._private = parent._env, parent._private
        self.server = DerivedServer(parent.server, prepare, (), env={**os.environ, **self._env})


class SandboxedJobs(Jobs):
    """Jobs in sandboxes that show the files of their jobs.

    Args:
        prepare, env: as of `Jobs`.

    Raises:
        UnsupportedError: this machine cannot run a sandbox; the message says what to do.
    """

    def __init__(self, prepare: str = PREPARE, env: Mapping[str, str] | None = None) -> None:
        self._prepare, self._env = prepare, {**ENVIRONMENT, **(env or {})}
        self._sandboxes = [Sandbox(prepare, self._env, "cpu")]
        self._lock = threading.Lock()

    def start(self, shown: Sequence[str] = ()) -> None:
        """See `Jobs.start`."""
        if shown:
            with self._lock:
                self._sandboxes[0].server(shown).start()

    def close(self) -> None:
        """End all sandboxes and their processes."""
        with self._lock:
            for sandbox in self._sandboxes:
                sandbox.close()

    def fork(
        self,
        function: str,
        args: tuple[Any, ...],
        descriptors: Sequence[int],
        shown: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Fork:
        """See `Jobs.fork`."""
        with self._lock:  # a sandbox that shows other files continues
            sandbox = next((sandbox for sandbox in self._sandboxes if sandbox.shows(shown)), None)
            if sandbox is None:
                sandbox = Sandbox(self._prepare, self._env, "cpu")
                self._sandboxes.append(sandbox)
            server = sandbox.server(shown)
        env = sandbox.environment({**os.environ, **(env or {}), **self._env})
        return server.fork(function, args, env=env, descriptors=descriptors, folder=sandbox.folder)

    def read(self, answer: bytes) -> Any:
        """See `Jobs.read`: only SolKit's records."""
        return read_records(answer)


_shared = Jobs()


def shared_jobs() -> Jobs:
    """Return this process's shared jobs, outside any sandbox."""
    return _shared


def call(function: str, *args: Any, timeout_s: float = 300.0) -> Any:
    """`Jobs.call` of the shared ones."""
    return _shared.call(function, *args, timeout_s=timeout_s)


def start() -> None:
    """`Jobs.start` of the shared ones."""
    _shared.start()


def read_records(data: bytes) -> Any:
    """Unpickle only SolKit's nouns and errors, and Python's plain values.

    Raises:
        pickle.UnpicklingError: it contains something else.
    """
    return _Records(io.BytesIO(data)).load()


class _Records(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        record_class = None
        if module.startswith("solkit.core.") or module == "solkit.errors":
            with contextlib.suppress(ImportError):
                record_class = getattr(importlib.import_module(module), name, None)
        if not isinstance(record_class, type) or record_class.__module__ != module:
            raise pickle.UnpicklingError(f"{module}.{name} is not one of SolKit's records")
        return record_class


# ----------------------------------------------------------------------------------- the job


def _answer(function: str, args: tuple[Any, ...], descriptor: int) -> None:
    """Run the function, in the job's process, and send its result, pickled."""
    module, _, name = function.partition(":")
    try:
        answer = True, getattr(importlib.import_module(module), name)(*args)
        data = pickle.dumps(answer)
    except SolkitError as error:
        data = pickle.dumps((False, error))
    except BaseException:  # the caller must receive any error
        data = pickle.dumps((False, WorkerError(f"{function} failed:\n{traceback.format_exc()}")))
    Channel.of(descriptor, trusting=True).send({}, data)
