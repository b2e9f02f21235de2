"""Settings of a service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from solkit.analysis.pool import usable_cores
from solkit.errors import InputError

CPU = "cpu"
"""The queue of what needs no GPU."""
TEMPORARY = "solkit-service-"
"""Start of the name of a worker's own folder for temporary files."""
RECORDED = "recorded"
"""The queue of what a recording answers."""

QUEUED_FOR_A_GPU = ("score", "compare", "evaluate", "tune", "evolve")
_GPU_THREADS = 4
"""Jobs of one GPU at once: some are analysed while one is measured."""


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of a service.

    Attributes:
        state: the folder of the jobs.
        device: the target, by its name in the catalogue; by default this machine's GPU, else an
            H100.
        gpus: GPUs of this machine to measure on, such as ``"cuda:0"``; a queue each.
        recorded: a store, a log or another tool's file that is replayed instead.
        sandbox: whether candidates run under bubblewrap.
        log: the file that outcomes are appended to; ``None`` is this month's in the user's data
            folder.
        max_body: bytes of a request, at the most.
        max_queue: unfinished jobs, at the most.
        max_queue_each: unfinished jobs of one token, at the most.
        rate: requests a second and token, in the mean; ``None`` for no limit.
        keep_days: finished jobs answer for so long.

    Raises:
        InputError: a limit is not above 0; or both GPUs and a recording are given.
    """

    state: Path
    device: str | None = None
    gpus: tuple[str, ...] = ()
    recorded: str | None = None
    sandbox: bool = False
    log: str | None = None
    max_body: int = 1 << 20
    max_queue: int = 1000
    max_queue_each: int = 1000
    rate: float | None = None
    keep_days: float = 7.0

    def __post_init__(self) -> None:
        for name in ("max_body", "max_queue", "max_queue_each", "rate", "keep_days"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} is {value!r}; expected a limit above 0")
        if self.gpus and self.recorded is not None:
            raise InputError("GPUs and a recording are both given: choose one")

    @property
    def queues(self) -> tuple[QueueSettings, ...]:
        """One for what needs no GPU, and one for each GPU or for the recording."""
        own = self.gpus or ((RECORDED,) if self.recorded is not None else ())
        return tuple(self._queue_settings(name) for name in (CPU, *own))

    def _queue_settings(self, name: str) -> QueueSettings:
        is_gpu = name not in (CPU, RECORDED)
        return QueueSettings(
            name,
            str(self.state),
            self.device,
            name if is_gpu else None,
            self.recorded if name == RECORDED else None,
            self.sandbox,
            self.log,
            usable_cores() + 1 if name == CPU else _GPU_THREADS,
        )


@dataclass(frozen=True)
class QueueSettings:
    """Settings of a worker process.

    Attributes:
        name: of its queue.
        state: as in `ServiceSettings`, and so on.
        device: the target.
        on: the GPU to measure on.
        recorded: the recording.
        sandbox: whether candidates run under bubblewrap.
        log: the file that outcomes are appended to.
        threads: jobs at once.
    """

    name: str
    state: str
    device: str | None = None
    on: str | None = None
    recorded: str | None = None
    sandbox: bool = False
    log: str | None = None
    threads: int = 2
