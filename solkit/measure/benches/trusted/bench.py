"""The trusted bench: handfuls that share inputs, compiled ahead on all other cores.

The files are the user's own, so many configurations share a process, inputs and a round of the
profiler: about forty a second instead of one or two. A kernel that crashes or hangs affects no
other outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from solkit.core import Configuration, Device, Outcome, Params, StoredFacts, Verdict, canonical
from solkit.datasets.facts import facts_from_json, facts_id
from solkit.datasets.kernels import Kernel, kernel_at_path
from solkit.errors import UnsupportedError, WorkerError
from solkit.measure.benches._base import AHEAD, HANDFUL, Bench, Log, WallClock, group_handfuls
from solkit.measure.benches.trusted.precompile import Ahead, Compiled
from solkit.measure.benches.trusted.process import LostError, TimingProcess
from solkit.measure.benches.trusted.timing import RESIDENT, SEED, Environment, Handful
from solkit.measure.outcomes import device_fields, judge_time, kernel_fields, launched_as_compiled
from solkit.measure.timing.gpu_lock import exclusive_gpu
from solkit.measure.timing.protocols import find_protocol

_PATIENCE_S = 600.0
_POLL_S = 0.02


@dataclass(frozen=True)
class _Order:
    """A handful that is being compiled and its problem that is being bounded."""

    kernel: Kernel
    configurations: Sequence[Configuration]
    compiled: Future[list[Compiled]]
    bound: Future[dict[str, Any]]

    @property
    def timing_key(self) -> tuple[str, str | None, str]:
        """Key that orders have in common if they may be timed together."""
        first = self.configurations[0]
        return self.kernel.kernel_id, first.reference, canonical(first.shape)

    @property
    def unfinished(self) -> list[Future[Any]]:
        """The futures that are not done."""
        return [future for future in (self.compiled, self.bound) if not future.done()]


class TrustedBench(Bench):
    """Times configurations of trusted kernel files; see `solkit.measure.benches.Bench`.

    Args:
        ahead: compiles for the GPU; it must outlive the bench.
        log: where outcomes and kernel files are written.
        kernels: names of files in outcomes; `kernel_at` names other files.
        tell: receives a sentence about each problem that has no bound.
        seed: of the inputs.
        process: a timing process for the same GPU, which may have begun to load.

    Attributes:
        seed: of the inputs; another one holds from the next handful on.
        waited_s: seconds for which the held GPU was idle because nothing was compiled.

    Raises:
        UnsupportedError: the GPU is not in this machine.
    """

    def __init__(
        self,
        ahead: Ahead,
        log: Log,
        kernels: Sequence[Kernel] = (),
        tell: Callable[[str], None] = lambda _: None,
        seed: int = SEED,
        process: TimingProcess | None = None,
    ) -> None:
        if ahead.device.uuid is None:
            key = ahead.device.key
            raise UnsupportedError(f"{key} is from the catalogue: only a live GPU can be timed")
        self._ahead, self._log, self._tell, self.seed = ahead, log, tell, seed
        self._kernels: dict[tuple[str, str, str | None], Kernel] = {
            (str(kernel.path), kernel.entry_point, None): kernel for kernel in kernels
        }
        self._bounds: dict[tuple[str, str], Future[dict[str, Any]]] = {}
        self._unbound: set[tuple[str, str]] = set()
        self._process = process or TimingProcess(ahead.device, ahead.environment)
        self._environment: Environment | None = None
        self._waiting: list[_Order] = []
        self._done: deque[tuple[Configuration, Outcome]] = deque()
        self.clock = WallClock()
        self._stack = ExitStack()
        self.waited_s = 0.0

    @property
    def device(self) -> Device:
        """The GPU that it times on."""
        return self._ahead.device

    @property
    def pending(self) -> int:
        """Number of submitted configurations without an outcome."""
        return len(self._done) + sum(len(order.configurations) for order in self._waiting)

    @property
    def capacity(self) -> int:
        """Number of pending configurations that keep all compiling cores busy."""
        return HANDFUL * AHEAD * self._ahead.workers

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Start compiling configurations, those of one file and shape together.

        Raises:
            InputError: a kernel file cannot be read.
        """
        kernels = [self._find_kernel(handful[0]) for handful in group_handfuls(configurations)]
        for handful, kernel in zip(group_handfuls(configurations), kernels, strict=True):
            shape, reference = handful[0].shape, handful[0].reference
            params = [configuration.params for configuration in handful]
            bound = self._shared_bound(kernel, reference, shape)
            compiled = self._ahead.compiled(kernel, reference, shape, params)
            self._waiting.append(_Order(kernel, handful, compiled, bound))
        if self._environment is None and self._waiting:
            self._process.load()  # while the first ones are compiled

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Yield outcomes, a handful at a time, in the order compiled."""
        while self.pending:
            if self._done:
                yield self._done.popleft()
                continue
            if until_s is not None and self.clock.now_s() >= until_s:
                return
            order = self._first_compiled(until_s)
            if order is None:
                return
            try:
                environment = self._start_process(order)
            except BaseException:  # the GPU is busy, say: nothing is lost
                self._waiting.insert(0, order)
                raise
            order = self._join_ready_orders(order)
            rows = self._time_order(order, environment)
            facts = [
                StoredFacts(row.facts_id, compiled.facts)
                for row, compiled in zip(rows, order.compiled.result(), strict=True)
                if row.facts_id is not None
            ]
            sources = order.kernel.source, order.kernel.problem
            written = self._log.append(rows, sources, facts)
            self._done.extend(zip(order.configurations, written, strict=True))

    def discard(self) -> None:
        """Drop what is not timed yet."""
        for order in self._waiting:
            order.compiled.cancel()
        self._waiting.clear()

    def renew(self, seed: int) -> None:
        """Time what is submitted from now on in a new process, on inputs of another seed."""
        self.discard()
        self._process.end()
        self.seed = seed

    def close(self) -> None:
        """End the timing process and release the GPU."""
        self.discard()
        self._done.clear()
        self._stack.close()
        self._process.close()  # it may have loaded, and waited for the GPU

    def _find_kernel(self, configuration: Configuration) -> Kernel:
        named = configuration.path, configuration.entry_point, configuration.reference
        if named not in self._kernels:
            self._kernels[named] = kernel_at_path(*named)
        return self._kernels[named]

    def _shared_bound(
        self, kernel: Kernel, reference: str | None, shape: Params
    ) -> Future[dict[str, Any]]:
        """Return the bound at a shape, the same for all kernels of a problem."""
        problem = kernel.problem.sha256, canonical(shape)
        if problem not in self._bounds:
            self._bounds[problem] = self._ahead.bound(str(kernel.path), reference, shape)
        return self._bounds[problem]

    def _start_process(self, first: _Order) -> Environment:
        """Return the timing process's environment; the first call takes the GPU and starts it.

        The GPU is not taken before something is compiled. Its time counts from when the process is
        warm and has loaded the first file, which may import a package for seconds: the first
        configuration can be timed then.
        """
        if self._environment is None:
            assert self.device.uuid is not None
            with ExitStack() as stack:  # one that does not start must not keep the next one off
                stack.enter_context(exclusive_gpu(self.device.uuid, _PATIENCE_S))
                stack.callback(self._process.close)  # before others may use the GPU
                self._environment = self._process.start()
                one = first.configurations[0]
                self._process.load_file(str(first.kernel.path), one.reference)
                self._stack.enter_context(stack.pop_all())
            self.clock.hold_gpu()
        return self._environment

    def _first_compiled(self, until_s: float | None) -> _Order | None:
        """Take the first order that is ready: some take a hundred times longer than others.

        ``None`` if none is ready by `until_s`.
        """
        begun_s = now_s = self.clock.now_s()
        try:
            while self._waiting and (until_s is None or now_s < until_s):
                for place, order in enumerate(self._waiting):
                    if not order.unfinished:
                        return self._waiting.pop(place)
                left_s = _POLL_S if until_s is None else min(_POLL_S, until_s - now_s)
                unfinished = [future for order in self._waiting for future in order.unfinished]
                wait(unfinished, timeout=left_s, return_when=FIRST_COMPLETED)
                now_s = self.clock.now_s()
            return None
        finally:
            if self._environment is not None:
                self.waited_s += self.clock.now_s() - begun_s

    def _join_ready_orders(self, first: _Order) -> _Order:
        """Return the order with others of its kernel and shape that are ready, up to a handful."""
        if first.compiled.exception() is not None:
            return first
        orders, room = [first], HANDFUL - len(first.configurations)
        for order in tuple(self._waiting):
            is_ready = not order.unfinished and order.compiled.exception() is None
            if (
                is_ready
                and order.timing_key == first.timing_key
                and len(order.configurations) <= room
            ):
                self._waiting.remove(order)
                orders.append(order)
                room -= len(order.configurations)
        if len(orders) == 1:
            return first
        compiled: Future[list[Compiled]] = Future()
        compiled.set_result([result for order in orders for result in order.compiled.result()])
        together = [configuration for order in orders for configuration in order.configurations]
        return replace(first, configurations=together, compiled=compiled)

    def _time_order(self, order: _Order, environment: Environment) -> list[Outcome]:
        """Return the outcomes of a handful, including configurations that do not compile."""
        bound = dict(self._bound_fields(order))
        resident = tuple(bound.pop(RESIDENT, ()))
        compiled = order.compiled.result()
        drafts = [
            self._draft_outcome(order.kernel, *pair, bound, environment)
            for pair in zip(order.configurations, compiled, strict=True)
        ]
        outcomes = {n: draft for n, draft in enumerate(drafts) if draft.message is not None}
        first = order.configurations[0]
        ran, begun_s = len(drafts) - len(outcomes), self.clock.now_s()
        while remaining := [n for n in range(len(drafts)) if n not in outcomes]:
            requested = [drafts[n] for n in remaining]
            handful = Handful(
                *(str(order.kernel.path), first.reference, first.shape, requested),
                *(self.seed, _hopeless_ms(order), resident),
            )
            try:
                outcomes.update(zip(remaining, self._process.outcomes(handful), strict=True))
            except LostError as lost:  # ask for the others again
                outcomes[remaining[lost.number]] = lost.outcome
        share_s = (self.clock.now_s() - begun_s) / max(ran, 1)
        source = order.kernel.source.text
        finished = [
            _complete_outcome(outcomes[n], compiled[n], share_s, source) for n in range(len(drafts))
        ]
        return [judge_time(outcome, self.device) for outcome in finished]

    def _bound_fields(self, order: _Order) -> Mapping[str, Any]:
        """Return the fields of a row that its problem decides; a missing bound is reported once."""
        shape = order.configurations[0].shape
        try:
            bound = dict(order.bound.result())
        except WorkerError as error:
            bound = {"error": str(error)}
        why = bound.pop("error", None)
        problem = order.kernel.problem.sha256, canonical(shape)
        if why is not None and problem not in self._unbound:
            self._unbound.add(problem)
            self._tell(f"{order.kernel.name} at {dict(shape)} has no bound: {why}")
        return {"shape": shape, **bound}

    def _draft_outcome(
        self,
        kernel: Kernel,
        configuration: Configuration,
        compiled: Compiled,
        bound: Mapping[str, Any],
        environment: Environment,
    ) -> Outcome:
        """Fill in what is known before it runs; the message says why it does not compile."""
        cold = find_protocol("cold")
        how = {"protocol": cold.name, "l2": cold.l2, "launched": cold.launched}
        return Outcome(
            params=configuration.params,
            verdict=compiled.verdict if compiled.error else Verdict.NOT_MEASURED,
            message=compiled.error or None,
            created=datetime.now(timezone.utc),
            chosen_by=configuration.chosen_by,
            compile_s=None if compiled.seconds is None else round(compiled.seconds, 3),
            seed=self.seed,
            **kernel_fields(kernel, bound["shape"]),
            **device_fields(self.device),
            **{**how, **bound},
            **asdict(environment),
        )


def _hopeless_ms(order: _Order) -> float | None:
    """Return the time beyond which none of a handful is of interest; ``None`` if any always is."""
    limits_ms = [
        configuration.hopeless_ms
        for configuration in order.configurations
        if configuration.hopeless_ms is not None
    ]
    return max(limits_ms) if len(limits_ms) == len(order.configurations) else None


def _complete_outcome(outcome: Outcome, compiled: Compiled, share_s: float, source: str) -> Outcome:
    """Return the outcome with its facts, and its share of the handful's time if it compiled."""
    gpu_s = 0.0 if compiled.error else share_s
    outcome = replace(outcome, created=datetime.now(timezone.utc), gpu_s=gpu_s)
    if compiled.facts:
        facts, live = facts_from_json(compiled.facts), outcome.live_launches
        live = () if launched_as_compiled(live, facts) else live
        outcome = replace(outcome, facts_id=facts_id(outcome, source), live_launches=live)
    return outcome
