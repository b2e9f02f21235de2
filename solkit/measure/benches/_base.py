"""The interface between every bench and its driver.

A driver submits configurations and takes outcomes as they finish. It assumes neither one process
nor one machine, and reads time only from `Bench.clock`: a recorded bench's clock is virtual, so a
replay costs recorded time and never the driver's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from solkit.core import Configuration, Device, Outcome, Source, StoredFacts, canonical

if TYPE_CHECKING:
    from typing_extensions import Self

HANDFUL = 8
"""Configurations that share inputs and a profiler session. A handful costs about 0.1 s besides its
calls; see docs/decisions/0012."""

AHEAD = 3
"""Handfuls per compiling core that are compiled or waiting."""


class Clock(Protocol):
    """The time that a driver's budget is spent in."""

    def now_s(self) -> float:
        """Return seconds since the bench was opened."""

    def gpu_s(self) -> float:
        """Return seconds for which the GPU was held and ready: those of a budget of GPU seconds."""


class WallClock:
    """Wall time; the GPU counts as held from each `hold_gpu` to the next `release_gpu`."""

    def __init__(self) -> None:
        self._opened_s = time.monotonic()
        self._before_s = 0.0  # held, up to the last release
        self._held_since_s: float | None = None
        self._lock = threading.Lock()  # a session releases it in a thread

    def hold_gpu(self) -> None:
        """Count from now on; a second call changes nothing."""
        with self._lock:
            if self._held_since_s is None:
                self._held_since_s = self.now_s()

    def release_gpu(self) -> None:
        """Count no longer, until the GPU is held again."""
        with self._lock:
            self._before_s, self._held_since_s = self._held_s(), None

    def leave_out(self, seconds: float) -> None:
        """Count seconds less for which the GPU was held: the compiler's, not the GPU's."""
        with self._lock:
            self._before_s -= seconds

    def now_s(self) -> float:
        """Return seconds since the bench was opened."""
        return time.monotonic() - self._opened_s

    def gpu_s(self) -> float:
        """Return seconds for which the GPU was held."""
        with self._lock:
            return self._held_s()

    def _held_s(self) -> float:
        now_s = 0.0 if self._held_since_s is None else self.now_s() - self._held_since_s
        return self._before_s + now_s


class Log(Protocol):
    """Log of a bench: an `OutcomeLog`, or a carrier of rows to the one of another process."""

    def append(
        self,
        rows: Iterable[Outcome] = (),
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> tuple[Outcome, ...]:
        """Write a batch; returns the rows as written, in order."""


class Bench(Protocol):
    """Takes configurations and yields outcomes, in a ``with`` block.

    Every outcome is in the bench's log on disk before it is yielded. A recorded bench writes
    nothing: its recording is already on disk.

    Attributes:
        device: the GPU that it measures on.
        clock: the time that a driver may use.
        pending: number of submitted configurations without an outcome.
        capacity: number of pending configurations that keep the bench busy. With fewer the GPU may
            idle; more only wait.
    """

    clock: Clock

    @property
    def device(self) -> Device: ...

    @property
    def pending(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Queue some configurations, which may be compiled ahead and timed together.

        Raises:
            NotRecordedError: a recorded bench does not hold one of them. None is queued then.
        """

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Yield each submitted configuration with its outcome, in any order, until none is pending.

        More may be submitted meanwhile. Leaving the iterator loses nothing: the next one continues.

        Args:
            until_s: also stop at this `Clock.now_s`, after finishing what is being timed.

        Raises:
            GpuBusyError: another SolKit holds the GPU.
            WorkerError: SolKit's own part failed.
            TraceError: outcomes could not be written.
        """

    def discard(self) -> None:
        """Drop pending configurations that are not yet being timed."""

    def close(self) -> None:
        """End all processes. Pending configurations get no outcome."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WrappedBench(Bench):
    """A bench that passes all on to another one; subclasses say what they do differently.

    Args:
        bench: a bench; it is closed with this one.
    """

    def __init__(self, bench: Any) -> None:
        self._bench, self.clock = bench, bench.clock

    @property
    def device(self) -> Device:
        """The GPU that it measures on."""
        return cast(Device, self._bench.device)

    @property
    def pending(self) -> int:
        """Number of submitted configurations without an outcome."""
        return int(self._bench.pending)

    @property
    def capacity(self) -> int:
        """See `Bench`."""
        return int(self._bench.capacity)

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """See `Bench.submit`."""
        self._bench.submit(configurations)

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """See `Bench.outcomes`."""
        yield from self._bench.outcomes(until_s)

    def discard(self) -> None:
        """See `Bench.discard`."""
        self._bench.discard()

    def close(self) -> None:
        """Close both."""
        self._bench.close()


def group_handfuls(configurations: Sequence[Configuration]) -> Iterator[Sequence[Configuration]]:
    """Yield configurations of one kernel and shape together, at most `HANDFUL`, in order."""
    groups: dict[tuple[str, str, str | None, str], list[Configuration]] = {}
    for configuration in configurations:
        kernel = configuration.path, configuration.entry_point, configuration.reference
        groups.setdefault((*kernel, canonical(configuration.shape)), []).append(configuration)
    for alike in groups.values():
        for start in range(0, len(alike), HANDFUL):
            yield alike[start : start + HANDFUL]
