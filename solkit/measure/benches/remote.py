"""A bench whose GPU is elsewhere: in a worker of this machine, or of another.

`RemoteBench` sends orders to a `BenchServer` (`solkit.measure.benches.bench_server`) over a link,
and writes each outcome to the driver's log before it yields it. Nothing counts twice: every order
has a number, and a number is answered once. If the worker ends, `outcomes` raises, and what it had
is measured elsewhere (`ManyBench`).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import solkit
from solkit.core import Configuration, Device, Outcome
from solkit.datasets.kernels import Kernel, kernel_at_path, kernel_of_file
from solkit.errors import UnsupportedError
from solkit.measure.benches._base import Bench, Log
from solkit.measure.benches.bench_server import About, Answer, Order, Report
from solkit.measure.benches.source_archive import Bundle, make_bundle
from solkit.measure.outcomes import PreparedCandidate, kernel_fields

_WAIT_S = 0.2  # for which a worker waits for an outcome before it answers


class Link(Protocol):
    """The way to a worker."""

    name: str

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the worker's `BenchServer`, from one thread at a time.

        Raises:
            WorkerError: the worker has ended, or does not answer.
            SolkitError: the method raised it.
        """

    def close(self) -> None:
        """End the worker, whatever it is doing."""


@dataclass(frozen=True)
class Trade:
    """Log, sources of facts and callbacks that a driver gives to its remote benches.

    Attributes:
        log: where outcomes are written; ``None``: nowhere, as for recorded ones.
        prospects: gives what is known of a configuration, where workers need it.
        kernels: names of files in outcomes; `kernel_at` names other files.
        tell: receives sentences of workers.
    """

    log: Log | None = None
    prospects: Callable[[Configuration], PreparedCandidate] | None = None
    kernels: Sequence[Kernel] = ()
    tell: Callable[[str], None] = lambda _: None


@dataclass(eq=False)
class _Sent:
    """An order that has no report yet."""

    configuration: Configuration
    kernel: Kernel | None  # ``None`` if its path is no file: a recorded kernel
    problem_path: str | None
    is_dropped: bool = False


class _RemoteClock:
    """Wall time here; the GPU seconds that the worker told, and those since."""

    def __init__(self) -> None:
        self._opened_s = time.monotonic()
        self._told_s, self._told_at_s, self._pace = 0.0, 0.0, 0

    def now_s(self) -> float:
        return time.monotonic() - self._opened_s

    def gpu_s(self) -> float:
        return self._told_s + self._pace * (self.now_s() - self._told_at_s)

    def record_gpu_s(self, gpu_s: float, pace: int) -> None:
        """Note the GPU seconds that the worker reported; since then so many GPUs are held."""
        self._told_s = max(gpu_s, self.gpu_s())
        self._told_at_s, self._pace = self.now_s(), pace if gpu_s > 0 else 0


class RemoteBench(Bench):
    """Measures in a worker; see `solkit.measure.benches.Bench` and this module.

    An interrupt loses nothing: a thread of its own talks to the worker.

    Args:
        open_link: starts a worker.
        trade: what the driver gives.
        sends_files: whether the worker has another disk.

    Raises:
        WorkerError: the worker does not start.
        SolkitError: its bench cannot be opened there.
        UnsupportedError: it runs another version of SolKit.
    """

    def __init__(
        self, open_link: Callable[[], Link], trade: Trade, sends_files: bool = False
    ) -> None:
        self._open_link, self._trade, self._sends_files = open_link, trade, sends_files
        self._kernels: dict[tuple[str, str, str | None], Kernel] = {
            (str(kernel.path), kernel.entry_point, None): kernel for kernel in trade.kernels
        }
        self._numbers = itertools.count()
        self._sent: dict[int, _Sent] = {}
        self._reports: deque[Report] = deque()
        self._bundled: set[str] = set()  # digests of files that the worker has
        self._error: Exception | None = None
        self.clock = _RemoteClock()
        self._last = Answer()
        self._talking = ThreadPoolExecutor(1, thread_name_prefix="solkit-remote")
        self._asked: Future[None] | None = None
        self._link = open_link()
        try:
            self._about: About = self._link.call("about")
            theirs, ours = self._about.version, solkit.__version__
            if theirs != ours:
                raise UnsupportedError(
                    f"{self._link.name} runs SolKit {theirs}, this machine {ours}: install the same"
                )
            self._take_answer(self._link.call("take", 0.0))
        except BaseException:
            self.close()
            raise

    @property
    def device(self) -> Device:
        """The GPU that it measures on; the first one's, if the worker has several."""
        return self._about.devices[0]

    @property
    def devices(self) -> tuple[Device, ...]:
        """A GPU of each model."""
        return self._about.devices

    @property
    def gpus(self) -> int:
        """Number of GPUs in use."""
        return self._last.gpus

    @property
    def pending(self) -> int:
        """Number of submitted configurations without an outcome."""
        return sum(not order.is_dropped for order in self._sent.values())

    @property
    def capacity(self) -> int:
        """As the worker told last."""
        return self._last.capacity

    def reopened(self) -> RemoteBench:
        """Return a new worker in place of one that ended.

        Raises:
            SolkitError: none can be started.
        """
        return RemoteBench(self._open_link, self._trade, self._sends_files)

    def submit(self, configurations: Sequence[Configuration], on: str | None = None) -> None:
        """Send configurations to the worker.

        Args:
            configurations: what to measure.
            on: only on this model of GPU, if the worker has several.

        Raises:
            InputError: a kernel file cannot be used. None is queued then.
            WorkerError: the worker has ended.
        """
        orders: list[Order] = []
        try:
            for configuration in configurations:
                orders.append(self._make_order(configuration, on))
            self._call_worker("submit", orders)
        except BaseException:
            for order in orders:
                self._sent.pop(order.ticket, None)
            raise
        self._bundled |= {o.bundle.digest for o in orders if isinstance(o.bundle, Bundle)}

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Yield outcomes as they come; the worker goes on with what it was given after `until_s`.

        Raises:
            TraceError: outcomes could not be written; they come with the next call.
            WorkerError: the worker has ended.
        """
        while self.pending or self._reports:
            if self._reports:
                pair = self._write_first_report()
                if pair is not None:
                    yield pair
                continue
            if self._error is not None:
                raise self._error  # again, whenever asked: the rest gets no outcome here
            left_s = _WAIT_S if until_s is None else until_s - self.clock.now_s()
            if left_s <= 0:
                return
            self._await_reports(min(left_s, _WAIT_S))

    def discard(self) -> None:
        """Drop everything; what is being timed then is only logged."""
        for order in self._sent.values():
            order.is_dropped = True
        self._call_worker("discard")

    def close(self) -> None:
        """End the worker; what it had measured is logged."""
        if self._trade.log is not None and self._reports:
            with contextlib.suppress(Exception):
                while self._reports:
                    self._write_first_report()
        self._talking.shutdown(wait=False, cancel_futures=True)
        self._link.close()

    # -------------------------------------------------------------------------------------- talk

    def _call_worker(self, method: str, *args: Any) -> Any:
        return self._talking.submit(self._link.call, method, *args).result()

    def _await_reports(self, wait_s: float) -> None:
        """Ask for reports and wait for them; an interrupt leaves them to the next call."""
        if self._asked is None or self._asked.done():
            self._asked = self._talking.submit(self._request_reports, wait_s)
        self._asked.result()

    def _request_reports(self, wait_s: float) -> None:
        self._take_answer(self._link.call("take", wait_s))

    def _take_answer(self, answer: Answer) -> None:
        self._last = answer
        self.clock.record_gpu_s(answer.gpu_s, 0 if self._about.is_virtual else answer.gpus)
        self._reports.extend(answer.reports)
        for note in answer.notes:
            self._trade.tell(note)
        self._error = self._error or answer.error

    # ------------------------------------------------------------------------------------ orders

    def _make_order(self, configuration: Configuration, on: str | None) -> Order:
        """Return the order of a configuration.

        Raises:
            InputError: its file cannot be used.
        """
        ticket, prospects = next(self._numbers), self._trade.prospects
        prospect = None if prospects is None else prospects(configuration)
        kernel = self._find_kernel(configuration, prospect)
        problem = None if kernel is None else configuration.reference or configuration.path
        bundle: Bundle | str | None = None
        if self._sends_files and kernel is not None:
            bundle = make_bundle(configuration.path, configuration.reference)
            bundle = bundle.digest if bundle.digest in self._bundled else bundle
        resolved = None if problem is None else str(Path(problem).resolve())
        self._sent[ticket] = _Sent(configuration, kernel, resolved)
        return Order(ticket, configuration, on, bundle, prospect)

    def _find_kernel(
        self, configuration: Configuration, prospect: PreparedCandidate | None
    ) -> Kernel | None:
        if prospect is not None:
            return kernel_of_file(prospect.file)
        named = configuration.path, configuration.entry_point, configuration.reference
        if named not in self._kernels:
            if not Path(configuration.path).exists() and not configuration.path.endswith(".py"):
                return None
            self._kernels[named] = kernel_at_path(*named)
        return self._kernels[named]

    def _write_first_report(self) -> tuple[Configuration, Outcome] | None:
        """Write the first report; ``None`` if nobody waits for it."""
        report = self._reports[0]
        sent = self._sent.get(report.ticket)
        outcome = report.outcome
        if sent is not None:
            outcome = _with_local_names(outcome, sent)
            if self._trade.log is not None:
                sources = () if sent.kernel is None else sent.kernel.files
                (outcome,) = self._trade.log.append([outcome], sources, report.facts)
            del self._sent[report.ticket]
        self._reports.popleft()
        return None if sent is None or sent.is_dropped else (sent.configuration, outcome)


def _with_local_names(outcome: Outcome, sent: _Sent) -> Outcome:
    """Return the outcome with the driver's names and paths, and how the driver chose it."""
    outcome = replace(outcome, chosen_by=sent.configuration.chosen_by)
    if sent.kernel is None:
        return outcome
    named: Mapping[str, Any] = kernel_fields(sent.kernel, outcome.shape)
    problem = sent.problem_path if outcome.problem_path is not None else None
    return replace(outcome, **{**named, "problem_path": problem})
