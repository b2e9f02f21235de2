"""Work that needs no GPU, done on the other cores while the GPU times."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.collect.choice import Params
from solkit.core import Device, Verdict
from solkit.datasets.record import TimedLaunch, from_json
from solkit.errors import WorkerError
from solkit.measure._forkserver import ForkServer

__all__ = ["Ahead", "Compiled"]

_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
_SURVEY_S = 60.0
_START_S = 60.0
_BUILD_S = 300.0  # of an extension: most take 30 s, headers of torch's above all
_MOST_TEXT = 500


@dataclass(frozen=True)
class Compiled:
    """What compiling a configuration ahead came to.

    Attributes:
        seconds: what it took, capturing its launches among it; ``None`` where that is not known.
        error: why it does not compile, or was not compiled; empty where it was.
        launches: what it launches, with what the code asks for.
        verdict: what a failure is; ``not_measured`` where it is not the configuration's.
    """

    seconds: float | None
    error: str = ""
    launches: tuple[TimedLaunch, ...] = ()
    verdict: Verdict = Verdict.DOES_NOT_COMPILE


@dataclass(frozen=True)
class _End:
    """How a process ended.

    Attributes:
        code: as `subprocess` has it; ``None`` where it took longer than it was given.
        told: the same in words, and the last that it printed.
    """

    code: int | None
    told: str


class Ahead:
    """Processes that survey kernels and compile configurations.

    Args:
        device: what is compiled for.
        workers: how many at once.
        environment: their environment variables, beside this process's.
        limit_s: for compiling one configuration.
    """

    def __init__(
        self,
        device: Device,
        workers: int,
        environment: Mapping[str, str],
        limit_s: float = 20.0,
    ) -> None:
        self._device, self._limit_s = device, limit_s
        self._environment = {**environment, **_NO_GPU}
        self._builders: set[str] = set()  # files that load extensions
        self._unbuilt: dict[str, Compiled] = {}  # why theirs do not build
        self._server = ForkServer("solkit.collect.survey:warm_up", _NO_GPU)
        self._is_closed = False
        self._pool = ThreadPoolExecutor(workers)
        self._surveys = ThreadPoolExecutor(workers)  # or they would wait in line
        self._builds = ThreadPoolExecutor(max(1, workers // 4))

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for pool in (self._pool, self._surveys, self._builds):
            pool.shutdown(wait=False, cancel_futures=True)
        self._server.close()

    def space(self, path: str, builds_extension: bool = False) -> Future[list[dict[str, Any]]]:
        """Each shape of a file: ``shape``, ``default`` and ``valid``, its configurations.

        Args:
            path: the file.
            builds_extension: whether it loads an extension of torch's, which is then built here,
                once, before anything else is compiled. Where it does not build, one configuration
                is left of each shape, to say why.
        """
        surveyed = self._surveys.submit(self._survey, "survey_space", path)
        if not builds_extension:
            return surveyed
        self._builders.add(path)
        return self._builds.submit(self._built, path, surveyed)

    def bounds(self, path: str) -> Future[list[dict[str, Any]]]:
        """The bound of each shape of a file: `solkit.collect.survey.BoundFacts`, or ``error``."""
        return self._surveys.submit(self._survey, "survey_bounds", path)

    def compiled(
        self, path: str, shape: Params, choices: Sequence[Params]
    ) -> Future[list[Compiled]]:
        """What became of each configuration; they are in Triton's cache from then on."""
        if path in self._unbuilt:
            return self._pool.submit(lambda: [self._unbuilt[path]] * len(choices))
        return self._pool.submit(self._compile, path, shape, choices)

    def _survey(self, function: str, path: str) -> list[dict[str, Any]]:
        try:
            with _answers() as answer:
                end = self._run(function, (path, self._device, str(answer)), _SURVEY_S)
                if end.code != 0 or not answer.exists():  # or it may be a part of one
                    raise WorkerError(f"{path} cannot be surveyed: {end.told}")
                found: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))
        except OSError as error:  # the system grants no process, or no file
            raise WorkerError(f"{path} cannot be surveyed: {error}") from error
        return found

    def _built(self, path: str, surveyed: Future[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """What was surveyed, once the extension is there."""
        shapes = surveyed.result()
        first = next((each for each in shapes if each["valid"]), None)
        if first is None:
            return shapes
        (built,) = self._compile(path, first["shape"], first["valid"][:1])
        if not built.error:
            return shapes
        self._unbuilt[path] = built
        return [{**each, "valid": each["valid"][:1]} for each in shapes]

    def _compile(self, path: str, shape: Params, choices: Sequence[Params]) -> list[Compiled]:
        """One that ends the process, or takes too long, costs no other.

        Where the system grants no process, or no file, the rest of the handful is not measured.
        """
        limit_s = _BUILD_S if path in self._builders else self._limit_s
        done: list[Compiled] = []
        while len(done) < len(choices):
            rest = choices[len(done) :]
            try:
                with _answers() as answer:
                    given = path, shape, rest, self._device, limit_s, str(answer)
                    end = self._run("compile_ahead", given, _START_S + limit_s * len(rest))
                    text = answer.read_text(encoding="utf-8") if answer.exists() else ""
            except OSError as error:
                why = f"it could not be compiled: {error}"
                failed = Compiled(None, why, verdict=Verdict.NOT_MEASURED)
                return [*done, *[failed] * len(rest)]
            lines = text.split("\n")[:-1]  # what follows the last newline was cut off
            done += map(_compiled, lines)
            if len(lines) < len(rest):
                done.append(_ended(end, limit_s))
        return done

    def _run(self, function: str, given: tuple[Any, ...], limit_s: float) -> _End:
        """Run it in a process of its own."""
        if self._is_closed:  # forking would start the server anew
            raise WorkerError("compiling has ended")
        with tempfile.TemporaryFile("w+") as output:
            job = self._server.fork(
                f"solkit.collect.survey:{function}",
                given,
                env={**os.environ, **self._environment},
                output=output.fileno(),
            )
            code = job.wait(limit_s)
            if code is None:
                job.end()
                return _End(None, f"it took over {limit_s:g} s")
            output.seek(0)
            return _End(code, f"exit code {code}. {output.read()[-_MOST_TEXT:]}")


def _ended(end: _End, limit_s: float) -> Compiled:
    """What is said of a configuration that ended its process.

    A compiler that crashes dies by a signal of its own. The limit of a whole handful, a process
    that was killed (the system does so where memory is short) and an exception outside the
    compiler (as where the disk is full) tell nothing of the configuration.
    """
    if end.code == -signal.SIGALRM:
        error = f"compiling it took over {limit_s:g} s"
        return Compiled(limit_s, error, verdict=Verdict.TIMED_OUT)
    crashed = end.code is not None and end.code < 0 and end.code != -signal.SIGKILL
    verdict = Verdict.DOES_NOT_COMPILE if crashed else Verdict.NOT_MEASURED
    return Compiled(None, f"compiling it ended its process: {end.told}", verdict=verdict)


def _compiled(line: str) -> Compiled:
    """What `solkit.collect.survey.compile_ahead` wrote of a configuration."""
    seconds, error, launches, is_machine_fault = json.loads(line)
    verdict = Verdict.NOT_MEASURED if is_machine_fault else Verdict.DOES_NOT_COMPILE
    told = tuple(from_json(TimedLaunch, each) for each in launches)
    return Compiled(seconds, error, told, verdict)


@contextlib.contextmanager
def _answers() -> Iterator[Path]:
    """A path that nothing is at yet."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="solkit-collect-", ignore_cleanup_errors=True)
    except OSError as error:
        raise WorkerError(f"temporary files cannot be written: {error}") from error
    with folder:
        yield Path(folder.name) / "answer"
