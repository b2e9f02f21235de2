"""The far end of a bench elsewhere: a worker that opens a bench and answers a driver's requests.

::

    driver: RemoteBench ──request──► BenchServer: ManyBench ─► the bench of one GPU
            log (on disk)  ◄─reports── Parcel (no log)

A `Kind` says which bench to open; it travels to the worker. A worker needs no folder of the
driver's: kernel files come as bundles, outcomes go back with their facts, and the driver writes the
log. It is the same whether the worker is a process of this machine or an actor on a Ray cluster.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import solkit
from solkit.core import Configuration, Device, MeasureSettings, Outcome, Source, StoredFacts
from solkit.errors import SolkitError, WorkerError
from solkit.measure.benches._base import Bench, WrappedBench
from solkit.measure.benches.multi_gpu import ManyBench
from solkit.measure.benches.recorded import RecordedBench
from solkit.measure.benches.remote_compile import FarAhead, Lender
from solkit.measure.benches.source_archive import Bundle
from solkit.measure.outcomes import PreparedCandidate


@dataclass(frozen=True)
class Order:
    """A configuration to measure.

    Attributes:
        ticket: names it; no other one of this driver has the number.
        configuration: what to measure, with the driver's paths.
        on: the model of GPU, by its key; ``None``: any.
        bundle: its files, if the worker has another disk: the digest, once the bundle was sent.
        prospect: what is known of it, where the bench needs that.
    """

    ticket: int
    configuration: Configuration
    on: str | None = None
    bundle: Bundle | str | None = None
    prospect: PreparedCandidate | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of an order, with facts that were not reported before."""

    ticket: int
    outcome: Outcome
    facts: tuple[StoredFacts, ...] = ()


@dataclass(frozen=True)
class About:
    """Description of a worker."""

    devices: tuple[Device, ...]
    is_virtual: bool  # whether its GPU seconds are those of a recording
    version: str = field(default_factory=lambda: solkit.__version__)


@dataclass(frozen=True)
class Answer:
    """Reports of a worker's orders since the last answer.

    Attributes:
        reports: outcomes.
        notes: what the bench has to say.
        gpu_s: seconds for which its GPUs were held so far.
        gpus: number of GPUs in use.
        capacity: as for `Bench.capacity`.
        error: why it cannot go on.
    """

    reports: tuple[Report, ...] = ()
    notes: tuple[str, ...] = ()
    gpu_s: float = 0.0
    gpus: int = 1
    capacity: int = 1
    error: Exception | None = None


class Parcel:
    """A substitute for a log: it keeps facts until the driver, which has the log, gets the rows."""

    def __init__(self) -> None:
        self._facts: dict[str, StoredFacts] = {}
        self._sent: set[str] = set()

    def append(
        self,
        rows: Iterable[Outcome] = (),
        sources: Iterable[Source] = (),  # noqa: ARG002 - the driver has them
        facts: Iterable[StoredFacts] = (),
    ) -> tuple[Outcome, ...]:
        """Keep what the driver cannot know."""
        self._facts.update((fact.id, fact) for fact in facts if fact.id not in self._sent)
        return tuple(rows)

    def take_facts(self, outcome: Outcome) -> tuple[StoredFacts, ...]:
        """Take the facts of an outcome: they are returned once."""
        facts = self._facts.pop(outcome.facts_id or "", None)
        if facts is None:
            return ()
        self._sent.add(facts.id)
        return (facts,)


@dataclass(frozen=True)
class Surroundings:
    """Log and callbacks with which a `Kind` opens its bench.

    Attributes:
        log: where it writes.
        prospects: gives the prospect of a configuration, where orders have one.
        tell: receives sentences for the user.
        stack: closes after the bench what it needs.
        lender: machines without a GPU that compile for this one, if there are any.
    """

    log: Parcel
    prospects: Callable[[Configuration], PreparedCandidate]
    tell: Callable[[str], None]
    stack: ExitStack
    lender: Lender | None = None


class Kind(Protocol):
    """The kind of bench that a worker opens."""

    def open(self, around: Surroundings) -> Bench:
        """Open it, in the worker.

        Raises:
            SolkitError: it cannot be opened there.
        """


@dataclass(frozen=True)
class Trusted:
    """A `TrustedBench` of the worker's first GPU.

    Attributes:
        gpu: the GPU, as ``CUDA_VISIBLE_DEVICES`` names it; by default, what the worker sees.
        workers: processes that compile; 0 for all cores except one.
        limit_s: seconds for compiling one configuration.
        seed: of the inputs.
        facts: whether the facts of each launch are found, which may take longer than compiling.
    """

    gpu: str | None = None
    workers: int = 0
    limit_s: float = 20.0
    seed: int = 0
    facts: bool = True

    def open(self, around: Surroundings) -> Bench:
        """Open it; see `Kind`."""
        from solkit.measure.benches.trusted import Ahead, TrustedBench

        gpu, lender = _worker_gpu(self.gpu), around.lender
        if lender is None:
            ahead = Ahead(gpu, self.workers, self.limit_s, self.facts)
        else:
            ahead = FarAhead(gpu, lender, self.workers, self.limit_s, around.tell, self.facts)
        around.stack.enter_context(ahead)
        return TrustedBench(ahead, around.log, (), around.tell, self.seed)


@dataclass(frozen=True)
class Guarded:
    """A `GuardedBench` of the worker's first GPU.

    Attributes:
        settings: how to measure.
        software: versions by name, for the log.
        gpu: as for `Trusted`.
    """

    settings: MeasureSettings = field(default_factory=MeasureSettings)
    software: Mapping[str, str | None] = field(default_factory=dict)
    gpu: str | None = None

    def open(self, around: Surroundings) -> Bench:
        """Open it; see `Kind`."""
        from solkit.measure.benches.guarded import GuardedBench

        settings = replace(self.settings, on=None)
        device = _worker_gpu(self.gpu)
        return GuardedBench(device, around.prospects, around.log, settings, self.software)


@dataclass(frozen=True)
class Recorded:
    """A `RecordedBench`, for tests and rehearsals of many machines.

    Attributes:
        rows: the recording, if it is not read from a file of the worker's.
        path, where, device: as for `RecordedBench.read`.
        pace: seconds that pass for each recorded GPU second.
    """

    rows: tuple[Outcome, ...] = ()
    path: str | None = None
    where: str | None = None
    device: str | None = None
    pace: float = 0.0

    def open(self, around: Surroundings) -> Bench:  # noqa: ARG002 - it writes nothing
        """Open it; see `Kind`."""
        if self.path is not None:
            bench = RecordedBench.read(self.path, self.where, self.device)
        else:
            bench = RecordedBench(self.rows, self.device)
        return _Paced(bench, self.pace) if self.pace else bench


class _Paced(WrappedBench):
    """A recorded bench whose outcomes take real time."""

    def __init__(self, bench: RecordedBench, pace: float) -> None:
        super().__init__(bench)
        self._pace = pace

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        begun_s = self.clock.now_s()
        for pair in super().outcomes(until_s):
            time.sleep(self._pace * (self.clock.now_s() - begun_s))
            begun_s = self.clock.now_s()
            yield pair


class BenchServer:
    """A bench in a worker, for a driver elsewhere. Requests may come from several threads.

    Args:
        kind: which bench.
        lender: as for `Surroundings`.

    Raises:
        SolkitError: the bench cannot be opened here.
    """

    def __init__(self, kind: Kind, lender: Lender | None = None) -> None:
        self._stack = ExitStack()
        temporary = tempfile.TemporaryDirectory(prefix="solkit-worker-", ignore_cleanup_errors=True)
        self._folder = Path(self._stack.enter_context(temporary))
        self._orders: dict[int, Order] = {}  # by identity of the configuration that is measured
        self._measured: dict[int, Configuration] = {}  # keeps it alive
        self._bundles: dict[str, tuple[str, str | None]] = {}
        self._notes: deque[str] = deque()
        self._parcel = Parcel()
        self._lock = threading.Lock()
        tell = self._notes.append
        around = Surroundings(self._parcel, self._localize_prospect, tell, self._stack, lender)
        with self._stack:
            bench = kind.open(around)
            if not isinstance(bench, ManyBench):
                bench = ManyBench([bench])
            self._bench = self._stack.enter_context(bench)
            self._stack = self._stack.pop_all()

    def about(self) -> About:
        """Describe the GPUs that it measures on."""
        is_virtual = any(
            isinstance(bench, (_Paced, RecordedBench)) for bench in self._bench.benches
        )
        return About(self._bench.devices, is_virtual)

    def submit(self, orders: Sequence[Order]) -> None:
        """Queue orders, those of one kernel and shape to be measured together.

        Raises:
            InputError: as for `Bench.submit`.
        """
        if not orders:
            return
        with self._lock:
            configurations = [self._localize_order(order) for order in orders]
            for order, configuration in zip(orders, configurations, strict=True):
                self._orders[id(configuration)] = order
                self._measured[id(configuration)] = configuration
        try:
            self._bench.submit(configurations, orders[0].on)
        except SolkitError:
            with self._lock:
                for local_configuration in configurations:
                    self._pop_order(local_configuration)
            raise

    def take(self, wait_s: float) -> Answer:
        """Report what was measured; waits for something, but not for longer."""
        error: Exception | None = None
        pairs: list[tuple[Configuration, Outcome]] = []
        try:
            pairs = self._bench.poll(wait_s)
        except Exception as fault:
            error = make_portable(fault)
        while self._bench.unheard:
            pairs.append(self._bench.unheard.popleft())
        notes = tuple(self._notes.popleft() for _ in range(len(self._notes)))
        with self._lock:
            reports = tuple(
                Report(
                    self._pop_order(configuration).ticket, outcome, self._parcel.take_facts(outcome)
                )
                for configuration, outcome in pairs
            )
        bench = self._bench
        return Answer(reports, notes, bench.clock.gpu_s(), bench.gpus, bench.capacity, error)

    def discard(self) -> None:
        """Drop what is not being timed."""
        self._bench.discard()

    def close(self) -> None:
        """End the bench."""
        self._stack.close()

    def _localize_order(self, order: Order) -> Configuration:
        """Return the configuration with this machine's paths: an object of its own."""
        configuration = replace(order.configuration)
        if order.bundle is None:
            return configuration
        if isinstance(order.bundle, Bundle):
            bundle = order.bundle
            self._bundles[bundle.digest] = bundle.unpack(self._folder)
        digest = order.bundle if isinstance(order.bundle, str) else order.bundle.digest
        path, reference = self._bundles[digest]
        return replace(configuration, path=path, reference=reference)

    def _localize_prospect(self, configuration: Configuration) -> PreparedCandidate:
        """Return the order's prospect, with this machine's paths."""
        prospect = self._orders[id(configuration)].prospect
        if prospect is None:
            raise WorkerError(f"{configuration.path} came without what is known of it")
        file = prospect.file
        assert file.candidate is not None
        problem = configuration.reference or configuration.path
        return replace(
            prospect,
            file=replace(
                file,
                problem=replace(file.problem, path=problem),
                candidate=replace(file.candidate, path=configuration.path),
            ),
        )

    def _pop_order(self, configuration: Configuration) -> Order:
        del self._measured[id(configuration)]
        return self._orders.pop(id(configuration))


def _worker_gpu(name: str | None) -> Device:
    """Return the GPU of a worker, which sees no other."""
    from solkit.roofline.nvml import live_device

    if name is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = name
    return live_device(0)


def make_portable(error: Exception) -> Exception:
    """Return an error that the driver can raise: others may not unpickle there."""
    if isinstance(error, SolkitError):
        return error
    return WorkerError(f"{type(error).__name__}: {error}")


def answer_request(host: BenchServer, method: str, args: Sequence[Any]) -> tuple[bool, Any]:
    """Answer a request: whether it was done, and what it gave, or the error."""
    try:
        return True, getattr(host, method)(*args)
    except Exception as error:
        return False, make_portable(error)
