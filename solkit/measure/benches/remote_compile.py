"""Compiling ahead, and analysing, on machines without a GPU, for one that times.

::

    FarAhead (beside the GPU) ──Job: files, configurations──► a helper: `run_helper_job`
       Triton's cache there  ◄──Done: what compiling them put into a new cache──┘

The timing process finds a helper's binaries in Triton's cache as if they had been compiled beside
it (`solkit.adapters.cache_transfer`). The facts of all launches come along; a problem's bound is a
job too. A helper that is lost, or runs another Triton, costs time and
nothing else: its configurations are compiled beside the GPU.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from solkit import userdata
from solkit.adapters import cache_transfer
from solkit.core import Device, Params
from solkit.datasets.kernels import Kernel, kernel_at_path
from solkit.errors import SolkitError, WorkerError
from solkit.measure.benches.source_archive import Bundle, make_bundle
from solkit.measure.benches.trusted.precompile import Ahead, Compiled


@dataclass(frozen=True)
class Job:
    """Configurations of one kernel at one shape to compile; without any, the problem's bound.

    Attributes:
        bundle: the kernel's files.
        entry_point: the function that is called.
        shape: sizes that override the file's defaults.
        choices: the configurations.
        device: the GPU to compile for.
        limit_s: seconds for one.
    """

    bundle: Bundle
    entry_point: str
    shape: Params
    choices: Sequence[Params]
    device: Device
    limit_s: float


@dataclass(frozen=True)
class Done:
    """Result of a helper's job.

    Attributes:
        compiled: the result for each configuration.
        files: what they put into Triton's cache.
        triton: the helper's version of Triton.
        bound: as `Ahead.bound` gives it.
        error: why there is no bound: the file cannot be read.
    """

    compiled: tuple[Compiled, ...]
    files: Mapping[str, bytes]
    triton: str
    bound: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class Lender:
    """Helpers.

    Attributes:
        slots: jobs that they do at once.
        run: does a job, and waits for it; raises `SolkitError` if the helper is lost.
    """

    slots: int
    run: Callable[[Job], Done]


class FarAhead(Ahead):
    """Compiles beside the GPU and on helpers, each as far as it has cores.

    Args:
        device, workers, limit_s: as for `Ahead`.
        lender: the helpers.
        tell: receives a sentence once helpers are of no use.
        facts: as for `Ahead`; of what helpers compile they are always found.

    Attributes:
        lent: configurations that helpers compiled.
    """

    def __init__(
        self,
        device: Device,
        lender: Lender,
        workers: int = 0,
        limit_s: float = 20.0,
        tell: Callable[[str], None] = lambda _: None,
        facts: bool = True,
    ) -> None:
        super().__init__(device, workers, limit_s, facts)
        self._lender, self._tell, self.lent = lender, tell, 0
        self._here, self._far = [0, self.workers], [0, lender.slots]  # jobs, and cores
        self.workers += lender.slots
        self._counting = threading.Lock()
        self._lending = ThreadPoolExecutor(max(lender.slots, 1))

    def __exit__(self, *exception: object) -> None:
        self._lending.shutdown(wait=False, cancel_futures=True)
        super().__exit__(*exception)

    def compiled(
        self, kernel: Kernel, reference: str | None, shape: Params, choices: Sequence[Params]
    ) -> Future[list[Compiled]]:
        """As for `Ahead`, where fewer jobs wait for each core: helpers first.

        A torch extension is built beside the GPU, since no cache is handed over.
        """
        is_far = not kernel.builds_extension and _jobs_per_core(self._far) <= _jobs_per_core(
            self._here
        )
        jobs = self._far if is_far else self._here
        with self._counting:
            jobs[0] += 1
        arguments = kernel, reference, shape, choices
        future = (
            self._lending.submit(self._compile_on_helper, *arguments)
            if is_far
            else super().compiled(*arguments)
        )
        future.add_done_callback(lambda _: self._finish_job(jobs))
        return future

    def bound(self, path: str, reference: str | None, shape: Params) -> Future[dict[str, Any]]:
        """As for `Ahead`, on a helper as long as there is one."""
        if not self._far[1]:
            return super().bound(path, reference, shape)
        return self._lending.submit(self._bound_on_helper, path, reference, shape)

    def _bound_on_helper(self, path: str, reference: str | None, shape: Params) -> dict[str, Any]:
        try:
            bundle = make_bundle(path, reference)
            done = self._lender.run(Job(bundle, "kernel", shape, (), self.device, self._limit_s))
        except SolkitError as error:
            self._stop_lending(error)
            return super().bound(path, reference, shape).result()
        if done.error is not None:
            raise WorkerError(done.error)
        return dict(done.bound)

    def _finish_job(self, jobs: list[int]) -> None:
        with self._counting:
            jobs[0] -= 1

    def _compile_on_helper(
        self, kernel: Kernel, reference: str | None, shape: Params, choices: Sequence[Params]
    ) -> list[Compiled]:
        try:
            bundle = make_bundle(str(kernel.path), reference)
            job = Job(bundle, kernel.entry_point, shape, choices, self.device, self._limit_s)
            done = self._lender.run(job)
            ours = _triton_version()
            if done.triton != ours:
                raise SolkitError(f"a helper runs Triton {done.triton}, this machine {ours}")
            cache_transfer.add_to_cache(done.files, cache_transfer.cache_folder())
        except (SolkitError, OSError) as error:
            self._stop_lending(error)
            return self._compile_each(kernel, reference, shape, choices)
        with self._counting:
            self.lent += len(choices)
        return list(done.compiled)

    def _stop_lending(self, error: Exception) -> None:
        """Lend no more: the rest is compiled here."""
        if self._far[1]:
            self._far[1] = 0
            self._tell(f"Helpers compile no more: {error}")


def _jobs_per_core(jobs: Sequence[int]) -> float:
    """Return jobs for each core, this one included."""
    return (jobs[0] + 1) / jobs[1] if jobs[1] else float("inf")


def _triton_version() -> str:
    return version("triton")


# ----------------------------------------------------------------------------------- the helper


def run_helper_job(job: Job) -> Done:
    """Compile a job's configurations, on a machine that needs no GPU."""
    path, reference = job.bundle.unpack(userdata.cache_folder("helping"))
    if not job.choices:
        return _bound_job(job, path, reference)
    kernel = kernel_at_path(path, job.entry_point, reference)
    folder = tempfile.mkdtemp(prefix="solkit-helping-")
    try:
        ahead = _helper_ahead(job.device, job.limit_s)
        ahead.environment = {**ahead.environment, "TRITON_CACHE_DIR": folder}
        compiled = ahead.compiled(kernel, reference, job.shape, job.choices).result()
        return Done(tuple(compiled), cache_transfer.pack_cache(Path(folder)), _triton_version())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bound_job(job: Job, path: str, reference: str | None) -> Done:
    try:
        bound = _helper_ahead(job.device, job.limit_s).bound(path, reference, job.shape).result()
        return Done((), {}, _triton_version(), bound)
    except WorkerError as error:
        return Done((), {}, _triton_version(), error=str(error))


_aheads: dict[tuple[str, float], Ahead] = {}


def _helper_ahead(device: Device, limit_s: float) -> Ahead:
    """Return a server that has torch loaded; it lives as long as the helper's process."""
    named = device.key, limit_s
    if named not in _aheads:
        _aheads[named] = Ahead(device, 1, limit_s)
    return _aheads[named]
