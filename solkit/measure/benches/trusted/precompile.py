"""Work without a GPU, on the other cores while the GPU times.

Jobs run in forks of a server that has torch and triton loaded (`survey`). A kernel file that comes
again gets a server of its own, a fork of that one, which has its packages imported as well: each
configuration is compiled in a process of its own, and some packages take seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.core import Device, Params, Verdict, canonical
from solkit.datasets.kernels import Kernel
from solkit.errors import WorkerError
from solkit.measure.benches.trusted import toolchain
from solkit.processes.forkserver import DerivedServer, ForkServer

_JOBS = "solkit.measure.benches.trusted.survey"
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
_SURVEY_S = 60.0
_START_S = 60.0
_BUILD_S = 300.0  # for an extension; most take 30 s, mainly over torch's headers
_MOST_TEXT = 500
_MOST_SERVERS = 4  # of files; each takes the memory of what its file imports


@dataclass(frozen=True)
class Compiled:
    """The result of compiling a configuration ahead."""

    # how long it took, including the capture of its launches; ``None`` if unknown
    seconds: float | None
    error: str = ""  # why it was not compiled; empty if it was
    facts: str = ""  # of all its launches, as JSON (`solkit.datasets.facts`); empty if unknown
    # of a failure; ``not_measured`` if the configuration is not at fault
    verdict: Verdict = Verdict.DOES_NOT_COMPILE


_End = tuple[int | None, str]
"""End of a process: the return code, ``None`` if it ran out of time; and in words."""


class Ahead:
    """Processes that survey kernels and compile configurations, in a ``with`` block.

    Args:
        device: the GPU to compile for.
        workers: number of processes that compile at once; 0 for all cores except one.
        limit_s: seconds for compiling one configuration.
        facts: whether the facts of each launch are found as well, which may take longer than
            compiling.

    Attributes:
        environment: variables with which other processes find built extensions.
    """

    def __init__(
        self, device: Device, workers: int = 0, limit_s: float = 20.0, facts: bool = True
    ) -> None:
        self.device, self._limit_s, self._facts = device, limit_s, facts
        self.workers = workers or max((os.cpu_count() or 2) - 1, 1)
        self._folder = tempfile.TemporaryDirectory(
            prefix="solkit-extensions-", ignore_cleanup_errors=True
        )
        self.environment: Mapping[str, str] = toolchain.environment(device, self._folder.name)
        self._unbuilt: dict[Path, Compiled] = {}  # why extensions do not build
        self._compiled: dict[tuple[str | None, ...], Compiled] = {}
        self._server = ForkServer(f"{_JOBS}:warm_up", _NO_GPU, borrows=True)
        self._by_file = FileServers(self._derived_server)
        self._is_closed = False
        self._pool = ThreadPoolExecutor(self.workers)
        self._surveys = ThreadPoolExecutor(self.workers)  # or surveys would wait for compiles
        self._builds = ThreadPoolExecutor(max(1, self.workers // 2))

    def load(self) -> None:
        """Start what compiles, which loads torch and Triton, while the caller continues."""
        self._server.start()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for pool in (self._pool, self._surveys, self._builds):
            pool.shutdown(wait=False, cancel_futures=True)
        self._server.close()  # what it forked ends, so nothing waits for a file that is loading
        self._by_file.close()
        self._folder.cleanup()

    def space(self, kernel: Kernel, build: bool = True) -> Future[list[dict[str, Any]]]:
        """List the shapes of a file: ``shape``, ``default`` and ``valid``, its configurations.

        The extension of a file that loads one is built here, once, before anything else of it is
        compiled. If it does not build, one configuration of each shape remains, to report why.

        The future raises `WorkerError` if the file cannot be read.
        """
        surveyed = self._surveys.submit(self._run_survey, "survey_space", str(kernel.path))
        if not (build and kernel.builds_extension):
            return surveyed
        return self._builds.submit(self._build_extension, kernel, surveyed)

    def bound(self, path: str, reference: str | None, shape: Params) -> Future[dict[str, Any]]:
        """Return the bound of a file's problem at a shape.

        The future gives every size as ``shape``, and either fields of `Outcome` or why there is no
        bound, as ``error``. It raises `WorkerError` if the file cannot be read.
        """
        return self._pool.submit(self._run_survey, "survey_bound", path, reference, shape)

    def compiled(
        self, kernel: Kernel, reference: str | None, shape: Params, choices: Sequence[Params]
    ) -> Future[list[Compiled]]:
        """Return the result of compiling each configuration into Triton's cache.

        Those that compiled before are there: repeats, as of finals, wait for nothing.
        """
        if kernel.path in self._unbuilt:
            return self._pool.submit(lambda: [self._unbuilt[kernel.path]] * len(choices))
        keys = [(*_key(kernel, reference, shape), canonical(params)) for params in choices]
        if all(key in self._compiled for key in keys):
            ready: Future[list[Compiled]] = Future()
            ready.set_result([self._compiled[key] for key in keys])
            return ready
        return self._pool.submit(self._compile_new, kernel, reference, shape, choices, keys)

    def _compile_new(
        self,
        kernel: Kernel,
        reference: str | None,
        shape: Params,
        choices: Sequence[Params],
        keys: Sequence[tuple[str | None, ...]],
    ) -> list[Compiled]:
        results = self._compile_each(kernel, reference, shape, choices)
        rows = zip(keys, results, strict=True)
        self._compiled.update({key: result for key, result in rows if not result.error})
        return results

    def _run_survey(self, function: str, path: str, *arguments: Any) -> Any:
        try:
            with _answer_file() as answer:
                code, message = self._run_forked(
                    function, (path, *arguments, self.device, str(answer)), _SURVEY_S
                )
                if code != 0 or not answer.exists():  # an answer may be incomplete
                    raise WorkerError(f"{path} cannot be surveyed: {message}")
                return json.loads(answer.read_text(encoding="utf-8"))
        except OSError as error:  # no process or file is available
            raise WorkerError(f"{path} cannot be surveyed: {error}") from error

    def _build_extension(
        self, kernel: Kernel, surveyed: Future[list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Return the survey, once the extension is built."""
        shapes = surveyed.result()
        first = next((shape for shape in shapes if shape["valid"]), None)
        if first is None:
            return shapes
        (built,) = self._compile_each(kernel, None, first["shape"], first["valid"][:1])
        if not built.error:
            return shapes
        self._unbuilt[kernel.path] = built
        return [{**shape, "valid": shape["valid"][:1]} for shape in shapes]

    def _compile_each(
        self, kernel: Kernel, reference: str | None, shape: Params, choices: Sequence[Params]
    ) -> list[Compiled]:
        """Compile each; one that ends the process, or takes too long, does not affect the others.

        If no process or file is available, the rest of the handful is not measured.
        """
        limit_s = _BUILD_S if kernel.builds_extension else self._limit_s
        file = None if kernel.builds_extension else _key(kernel, reference, {})[:3]
        done: list[Compiled] = []
        while len(done) < len(choices):
            rest = choices[len(done) :]
            try:
                with _answer_file() as answer:
                    arguments = str(kernel.path), reference, shape, rest, limit_s, self.device
                    job_s = _START_S + limit_s * len(rest)
                    with self._by_file.server(file, self._server) as server:
                        end = self._run_forked(
                            "compile_ahead", (*arguments, str(answer), self._facts), job_s, server
                        )
                    text = answer.read_text(encoding="utf-8") if answer.exists() else ""
            except OSError as error:
                why = f"it could not be compiled: {error}"
                failed = Compiled(None, why, verdict=Verdict.NOT_MEASURED)
                return [*done, *[failed] * len(rest)]
            lines = text.split("\n")[:-1]  # what follows the last newline was cut off
            done += map(_parse_compiled, lines)
            if len(lines) < len(rest):
                done.append(_result_of_death(end, limit_s))
        return done

    def _derived_server(self, file: _File) -> ForkServer:
        path, _, reference = file
        loads = f"{_JOBS}:load_packages"
        arguments = path, reference, self.device
        return DerivedServer(self._server, loads, arguments, env=self._job_environment())

    def _job_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, **_NO_GPU}

    def _run_forked(
        self,
        function: str,
        arguments: tuple[Any, ...],
        limit_s: float,
        server: ForkServer | None = None,
    ) -> _End:
        """Run it in a process of its own."""
        if self._is_closed:  # forking would start a new server
            raise WorkerError("compiling has ended")
        with tempfile.TemporaryFile("w+") as output:
            job = (server or self._server).fork(
                f"{_JOBS}:{function}",
                arguments,
                env=self._job_environment(),
                output=output.fileno(),
            )
            if self._is_closed:  # meanwhile: the fork may have started a server again
                (server or self._server).close()
            code = job.wait(limit_s)
            if code is None:
                job.end()
                return None, f"it took over {limit_s:g} s"
            output.seek(0)
            return code, f"exit code {code}. {output.read()[-_MOST_TEXT:]}"


_File = tuple[str, str, str | None]
"""A kernel file: its path, the digest of its source, and the file with its reference."""


@dataclass
class _FileServer:
    """A server that has a file's packages; ``None`` until the file comes again."""

    server: ForkServer | None = None
    loaded: Future[None] | None = None
    jobs: int = 0

    @property
    def is_ready(self) -> bool:
        """True if it can fork: a file that it cannot load is left to the common server."""
        return (
            self.server is not None
            and self.loaded is not None
            and self.loaded.done()
            and self.loaded.exception() is None
            and self.server.is_alive
        )


class FileServers:
    """Servers that have imported what a kernel file needs, for the files in use last.

    Args:
        derive: gives the server of a file, not started.
    """

    def __init__(self, derive: Callable[[_File], ForkServer]) -> None:
        self._derive, self._lock = derive, threading.Lock()
        self._servers: OrderedDict[_File, _FileServer] = OrderedDict()
        self._loading = ThreadPoolExecutor(_MOST_SERVERS, thread_name_prefix="solkit-packages")

    @contextlib.contextmanager
    def server(self, file: _File | None, common: ForkServer) -> Iterator[ForkServer]:
        """Yield the server of a file if it is ready, else the common one, which never waits."""
        with self._lock:
            entry = None if file is None else self._entry_of(file)
            ready = entry.server if entry is not None and entry.is_ready else None
            if entry is not None:
                entry.jobs += 1
        try:
            yield ready or common
        finally:
            if entry is not None:
                with self._lock:
                    entry.jobs -= 1

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            entries = list(self._servers.values())
            self._servers.clear()
        self._loading.shutdown(wait=False, cancel_futures=True)
        for entry in entries:
            if entry.server is not None:
                entry.server.close()

    def _entry_of(self, file: _File) -> _FileServer | None:
        """Return the entry of a file; its server is started when the file comes again."""
        if file not in self._servers:
            if len(self._servers) >= _MOST_SERVERS and not self._drop_idle():
                return None
            self._servers[file] = _FileServer()
            return self._servers[file]
        self._servers.move_to_end(file)
        entry = self._servers[file]
        if entry.server is None:
            entry.server = self._derive(file)
            entry.loaded = self._loading.submit(entry.server.load)
        return entry

    def _drop_idle(self) -> bool:
        """End the server that was not needed for longest, unless all are in use."""
        idle = next((file for file, entry in self._servers.items() if not entry.jobs), None)
        if idle is None:
            return False
        dropped = self._servers.pop(idle).server
        if dropped is not None:
            self._loading.submit(dropped.close)
        return True


def _key(kernel: Kernel, reference: str | None, shape: Params) -> tuple[str, str, str | None, str]:
    return str(kernel.path), kernel.kernel_id, reference, canonical(shape)


def _result_of_death(end: _End, limit_s: float) -> Compiled:
    """Return the result for a configuration that ended its process.

    A crashing compiler dies by its own signal. If the whole handful ran out of time, the process
    was killed (the system does so when memory is short) or an exception came from outside the
    compiler (a full disk), the configuration is not at fault.
    """
    code, message = end
    if code == -signal.SIGALRM:
        error = f"compiling it took over {limit_s:g} s"
        return Compiled(limit_s, error, verdict=Verdict.TIMED_OUT)
    crashed = code is not None and code < 0 and code != -signal.SIGKILL
    verdict = Verdict.DOES_NOT_COMPILE if crashed else Verdict.NOT_MEASURED
    return Compiled(None, f"compiling it ended its process: {message}", verdict=verdict)


def _parse_compiled(line: str) -> Compiled:
    """Return a line of `solkit.measure.benches.trusted.survey.compile_ahead`."""
    seconds, error, facts, is_machine_fault = json.loads(line)
    verdict = Verdict.NOT_MEASURED if is_machine_fault else Verdict.DOES_NOT_COMPILE
    return Compiled(seconds, error, facts, verdict)


@contextlib.contextmanager
def _answer_file() -> Iterator[Path]:
    """Yield the path of a file that does not exist yet."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="solkit-collect-", ignore_cleanup_errors=True)
    except OSError as error:
        raise WorkerError(f"temporary files cannot be written: {error}") from error
    with folder:
        yield Path(folder.name) / "answer"
