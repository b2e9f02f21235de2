"""Measure many candidates with the same two processes: the caller's side, without torch.

::

    Session (no torch) ──socket── referee (the problem, seeds, verdicts)
        │ starts and ends both        │ socket
        └──────────────────────── candidate (untrusted code)

Closing the session ends both processes and their descendants, whatever they are doing. If the
session's own process dies, server and referee end both. In a comparison each candidate has its own
process (`solkit.measure.guarded.processes`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import solkit.errors
from solkit.core import Candidate, MeasureSettings, Value, Verdict, canonical
from solkit.errors import InputError, SolkitError, UnsupportedError, WorkerError
from solkit.measure.checking.faults import ALL_DISTRIBUTIONS, ContextLostError
from solkit.measure.guarded.excuses import Excuses
from solkit.measure.guarded.messages import (
    TUNING,
    TUNING_S,
    ComparisonRequest,
    JudgedTurns,
    Judgement,
    Request,
    decode,
    encode,
)
from solkit.measure.guarded.processes import QUOTED_LINES, Processes
from solkit.measure.guarded.tuner_choices import TunerChoices
from solkit.measure.timing.gpu_lock import Company, Neighbours, nvml
from solkit.measure.timing.protocols import find_protocol
from solkit.processes.channel import Channel, ClosedError, NonsenseError
from solkit.processes.child import Child

_IDLE_S = 1.0
"""Seconds without a request, after which a session leaves its GPU to one that waits for it."""
_PRECISION = 0.002  # of a ratio's interval, at which turns stop
_TURN_S = 10.0
"""Seconds after which it does so between two requests: new processes cost a tenth of them."""
_LOOK_S = 0.5  # between looks for a session that waits

_CHOICES = TunerChoices()
"""Choices that all sessions of this process share: a search, its practice and its gate."""
_RETRIES_SHARE = 0.5  # of the time limit: for trials that break the reference's context


class Session:
    """Measures candidates, in a ``with`` block.

    The first candidate starts the processes; from then on the session holds its GPU until it is
    closed, or idle for a moment while another session waits for the GPU. The server that forks the
    processes also serves other sessions of this process.

    Args:
        settings: how to measure; the defaults if ``None``. ``cuda:N`` in `MeasureSettings.on` is
            an index into ``CUDA_VISIBLE_DEVICES`` if that is set, else NVML's index.
        gpu: the UUID of the GPU instead, as in NVML.
        device: ``"cuda"``; on ``"cpu"`` candidates are checked, but nothing is timed.

    Raises:
        UnsupportedError: this machine cannot run a sandbox; the message says what to do.
    """

    def __init__(
        self,
        settings: MeasureSettings | None = None,
        *,
        gpu: str | None = None,
        device: str = "cuda",
    ) -> None:
        self.settings = settings or MeasureSettings()
        if gpu is None:
            gpu = visible_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), self.settings.gpu_index)
        self._device = device
        self._common_seed = _draw_seed()
        self._skipped: dict[str, tuple[str, ...]] = {}  # trials, by the problem's path
        self._right: set[tuple[str, str | None, str]] = set()  # candidates, in a search
        self._excuses = Excuses()  # in a search
        self._gpu = gpu
        self._processes = Processes(gpu, device, self.settings)
        self._preparation: _Preparation | None = None
        self._turn_lock = threading.Lock()  # leaving the GPU, against whatever begins to use it
        self._uses, self._idle_since_s = 0, 0.0
        self._is_closed = threading.Event()  # nothing watches the GPU
        self._is_closed.set()
        self.on_leave: Callable[[], object] = lambda: None  # called when the GPU may be another's

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, paths: Sequence[str]) -> None:
        """Load torch for the processes, without the GPU: else the first candidate waits for it.

        Args:
            paths: the problem's file, and candidates'; a sandbox shows these and their folders.

        Raises:
            WorkerError: it could not be loaded.
        """
        with self._using_gpu():
            self._await_preparation()
            self._processes.load(paths)

    def prepare(self, paths: Sequence[str], count: int = 1, loads: Sequence[str] = ()) -> None:
        """Start the processes in the background, so that the first candidate finds them warm.

        The session holds its GPU from then on. If another one holds it, nothing is prepared.

        Args:
            paths: as for `load`.
            count: processes of candidates: those of a comparison warm up together.
            loads: modules that candidates will import: that takes seconds, in which the GPU is
                held, so they are imported before.
        """
        with self._using_gpu():
            self._await_preparation()
            self._processes.loads = tuple(loads)
            self._preparation = _Preparation(self._processes, paths, count)
            self._preparation.start()

    def await_gpu(self) -> None:
        """Take the GPU, once no other session holds it; else the first candidate does so.

        After a turn of ten seconds a session that waits comes first. When the GPU is back, so are
        the processes that were ended for it.

        Raises:
            GpuBusyError: another session holds it for too long. It does not happen to a session
                that had the GPU and left it.
        """
        with self._using_gpu():
            self._await_preparation()
            held_s = self._processes.held_s
            if held_s is None:  # not yet, or no more: a candidate that hangs costs the processes
                self.on_leave()
            elif held_s > _TURN_S:
                self._leave_gpu()
            self._processes.await_gpu()

    @contextlib.contextmanager
    def _using_gpu(self) -> Iterator[None]:
        """Keep the GPU in this block, if the session has it."""
        with self._turn_lock:
            self._uses += 1
        try:
            yield
        finally:
            with self._turn_lock:
                self._uses -= 1
                self._idle_since_s = time.monotonic()
                if self._processes.held_s is not None or self._preparation is not None:
                    self._start_watch()

    def _start_watch(self) -> None:
        """Watch from now on whether the GPU is idle."""
        if self._is_closed.is_set():
            self._is_closed = threading.Event()
            run = partial(self._watch_idleness, self._is_closed)
            threading.Thread(target=run, name="solkit-watching-gpu", daemon=True).start()

    def _watch_idleness(self, is_closed: threading.Event) -> None:
        """Leave the GPU to others whenever it is idle, until the session is closed."""
        while not is_closed.wait(_LOOK_S):
            with self._turn_lock:
                preparation = self._preparation
                is_used = self._uses > 0 or (preparation is not None and preparation.is_alive())
                is_idle = time.monotonic() - self._idle_since_s > _IDLE_S
                if is_idle and not is_used and not is_closed.is_set():
                    with contextlib.suppress(SolkitError):  # the next candidate meets it
                        self._leave_gpu()

    def _leave_gpu(self) -> None:
        """Leave the GPU to another session that waits for it."""
        if self._processes.leave_gpu():
            self.on_leave()

    def _await_preparation(self) -> None:
        preparation, self._preparation = self._preparation, None
        if preparation is not None:
            preparation.join()

    def close(self) -> None:
        """End all processes and their descendants; the next candidate starts new ones."""
        with self._turn_lock:
            self._is_closed.set()
            preparation, self._preparation = self._preparation, None
            if preparation is not None and not preparation.end():
                self._processes = Processes(self._gpu, self._device, self.settings)
            self._processes.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of this session that may use the GPU."""
        return self._processes.pids

    def measure(
        self,
        path: str,
        shape: Mapping[str, Value],
        params: Mapping[str, Value],
        *,
        reference: str | None = None,
        settings: MeasureSettings | None = None,
        hard_ms: float = 0.0,
        hopeless_ms: float | None = None,
    ) -> Judgement:
        """Check a candidate against its reference and time both.

        Inputs that a candidate is only checked on are drawn once per session. Inputs that it is
        timed on are drawn for each candidate, unless `MeasureSettings.seed` is set, so it cannot
        know them beforehand, from another candidate either. `Judgement.protocol` has the seed.

        In a search a candidate that was right before is not checked at held-out shapes again, where
        an autotuner would time its configurations each time.

        Args:
            path: the kernel file.
            shape: sizes that override the file's defaults.
            params: the candidate's tuning parameters.
            reference: the file with the reference, if `path` has none.
            settings: replace the session's, except those of its processes.
            hard_ms: the hard bound: of a shorter time the judgement says what the inputs need.
            hopeless_ms: as in `solkit.core.Configuration`.

        Raises:
            InputError: the kernel file, the shape, the parameters or the protocol is invalid.
            GpuBusyError: another session holds the GPU.
            UnsupportedError: torch sees no CUDA device, or the inputs do not fit into its memory.
            WorkerError: SolKit's own part failed.
        """
        own = settings or self.settings
        request = self._make_request(path, reference, shape, params, own)
        candidate = path, reference, canonical(params)
        is_known = own.searching and candidate in self._right
        request = replace(
            request, hard_ms=hard_ms, hopeless_ms=hopeless_ms, is_right_elsewhere=is_known
        )
        failures = self._excuses.of(request) if own.searching else None
        trials = () if failures is None else failures.trials
        outcome = self._judge(replace(request, excused=trials))
        while failures is not None and failures.excuse(request, outcome.failed_on, self._judge):
            outcome = self._judge(replace(request, excused=failures.trials))
        if outcome.verdict.is_right and outcome.is_right_elsewhere:
            self._right.add(candidate)
        return outcome

    def _judge(self, request: Request) -> Judgement:
        """Return the referee's judgement of a candidate."""
        try:
            paths = request.path, request.reference or request.path
            answer, wait = self._ask_referee([request], paths)
        except LostError as lost:
            return Judgement(lost.verdict, lost.errors, None, None)
        outcome = decode(Judgement, answer)
        _CHOICES.keep(self._gpu, wait.candidates, [request], [outcome.tuned])
        outcome = replace(outcome, tuned=())
        if outcome.verdict is Verdict.TIMED_OUT:
            return replace(outcome, errors=(*outcome.errors, *wait.last_printed(0)))
        return _with_company(outcome, wait.company)

    def compare(
        self,
        candidates: Sequence[Candidate],
        shape: Mapping[str, Value],
        *,
        reference: str | None = None,
        settings: MeasureSettings | None = None,
        repeats: int = 1,
    ) -> JudgedTurns:
        """Check candidates against one reference, and time them in turns.

        The time limit of the settings is multiplied by the number of candidates.

        Args:
            candidates: the base first, then those that are compared with it.
            shape: as for `measure`.
            reference: the file with the reference, if the base has none.
            settings: as for `measure`.
            repeats: as in `ComparisonRequest`.

        Raises:
            InputError: there are fewer than two candidates; else as for `measure`.
            GpuBusyError, UnsupportedError, WorkerError: as for `measure`.
        """
        if len(candidates) < 2:
            raise InputError(f"candidates: expected two or more to compare, got {len(candidates)}")
        own = settings or self.settings
        own = replace(own, time_limit_s=own.time_limit_s * len(candidates))
        problem = candidates[0].path if reference is None else reference
        seed = _draw_seed() if own.seed is None else own.seed
        requests = tuple(
            replace(
                self._make_request(candidate.path, problem, shape, candidate.params, own),
                reference=None if candidate.path == problem else problem,
                seed=seed,
            )
            for candidate in candidates
        )
        paths = (problem, *(candidate.path for candidate in candidates))
        failures = self._excuses.of(requests[0]) if own.searching else None

        def judge() -> JudgedTurns:
            excused = () if failures is None else failures.trials
            own_requests = tuple(replace(request, excused=excused) for request in requests)
            comparison = ComparisonRequest(own_requests, _PRECISION, own.turns_s, repeats)
            try:
                answer, wait = self._ask_referee(own_requests, paths, comparison)
            except LostError as lost:
                return JudgedTurns((), lost.errors, verdict=lost.verdict)
            outcome = decode(JudgedTurns, answer)
            _CHOICES.keep(self._gpu, wait.candidates, own_requests, outcome.tuned)
            return _compared_with_company(replace(outcome, tuned=()), wait.company)

        turns = judge()
        while failures is not None and failures.excuse(
            requests[turns.failed or 0], turns.failed_on, self._judge
        ):
            turns = judge()
        return turns

    def _make_request(
        self,
        path: str,
        reference: str | None,
        shape: Mapping[str, Value],
        params: Mapping[str, Value],
        settings: MeasureSettings,
    ) -> Request:
        return Request(
            path=path,
            reference=reference,
            shape=dict(shape),
            params=dict(params),
            time_limit_s=settings.time_limit_s,
            checks_limit_s=settings.checks_limit_s,
            searching=settings.searching,
            seed=_draw_seed() if settings.seed is None else settings.seed,
            device=self._device,
            protocol=find_protocol(settings.protocol).name,
            common_seed=self._common_seed if settings.seed is None else settings.seed,
            custom_kernel=settings.custom_kernel,
            tuned=_CHOICES.of(self._gpu, path, params),
        )

    def _ask_referee(
        self,
        requests: Sequence[Request],
        paths: Sequence[str],
        comparison: ComparisonRequest | None = None,
    ) -> tuple[str, Wait]:
        """Return `_await_answer`'s result, and keep the GPU meanwhile."""
        with self._using_gpu():
            return self._await_answer(requests, paths, comparison)

    def _await_answer(
        self,
        requests: Sequence[Request],
        paths: Sequence[str],
        comparison: ComparisonRequest | None,
    ) -> tuple[str, Wait]:
        """Return the referee's answer to a request, or to a comparison, and the wait for it.

        If the reference breaks the referee's CUDA context on a trial, new processes skip the trial.
        All of them share the time limit, and so does starting new ones; after half of it no
        distributions are tried.
        """
        problem = requests[0].reference or requests[0].path
        spent_s, begun_s = 0.0, math.inf
        while True:
            skip = self._skipped.setdefault(problem, ())
            attempt = tuple(replace(request, skip=skip, spent_s=spent_s) for request in requests)
            if comparison is None:
                message = {"request": encode(attempt[0])}
            else:
                message = {"comparison": encode(replace(comparison, candidates=attempt))}
            try:
                return self._send_message(message, paths, attempt)
            except ContextLostError as lost:
                self.close()
                if lost.trial in skip:
                    raise WorkerError(f"the reference broke CUDA's context on {skip}") from lost
                begun_s = min(begun_s, time.monotonic() - lost.spent_s)
                spent_s = time.monotonic() - begun_s
                late = spent_s > _RETRIES_SHARE * requests[0].time_limit_s
                others = (ALL_DISTRIBUTIONS,) if late and ALL_DISTRIBUTIONS not in skip else ()
                self._skipped[problem] = (*skip, lost.trial, *others)

    def _send_message(
        self, message: Mapping[str, Any], paths: Sequence[str], requests: Sequence[Request]
    ) -> tuple[str, Wait]:
        """Return the answer to a message about these requests, and the wait for it."""
        try:
            self._await_preparation()
            control, candidates = self._processes.start_candidates(len(requests), paths)
            for candidate in candidates:
                candidate.forget_printed()
            _CHOICES.note_run(candidates, requests)
            control.send(message)
            common = requests[0]
            limits = common.time_limit_s, self.settings.host_bytes, common.spent_s
            wait = Wait(self._processes, control, candidates, *limits)
            answer = wait.await_answer()
            self._processes.restock()
            return answer, wait
        except ClosedError as error:
            raise WorkerError(self._processes.report_death()) from error
        except LostError:
            self._processes.restock()
            raise
        except ContextLostError:
            raise
        except BaseException as error:
            if not isinstance(error, SolkitError) or isinstance(error, WorkerError):
                self.close()  # a late answer would be taken for the next request's
            raise


class _Preparation(threading.Thread):
    """Starts a session's processes, while the session does something else."""

    def __init__(self, processes: Processes, paths: Sequence[str], count: int) -> None:
        super().__init__(name="solkit-preparing", daemon=True)
        self._processes, self._paths, self._count = processes, tuple(paths), count
        self._lock, self._is_unwanted, self._is_done = threading.Lock(), False, False

    def run(self) -> None:
        """Start the processes; what fails here, the first candidate meets and reports."""
        try:
            with contextlib.suppress(SolkitError, ClosedError, OSError):
                self._processes.start_candidates(self._count, self._paths, patience_s=0.0)
        finally:
            with self._lock:
                self._is_done = True
                if self._is_unwanted:
                    self._processes.close()

    def end(self) -> bool:
        """Tell whether it has ended; else it ends the processes itself, as soon as it has."""
        with self._lock:
            self._is_unwanted = True
            return self._is_done


def _with_company(outcome: Judgement, company: Company | None) -> Judgement:
    """Return the outcome of a timed candidate, with the effect of other users of the GPU."""
    if company is None or outcome.measurement is None:
        return outcome
    unstable = bool(company.evidence) and outcome.verdict is Verdict.CORRECT
    return replace(
        outcome,
        verdict=Verdict.UNSTABLE if unstable else outcome.verdict,
        errors=(*company.evidence, *outcome.errors),
        samples=replace(outcome.samples, neighbours=company.notes),
    )


def _compared_with_company(outcome: JudgedTurns, company: Company | None) -> JudgedTurns:
    """Return the same for times that were measured in turns."""
    if company is None:
        return outcome
    evidence, notes = company.evidence, company.notes
    turns = tuple(
        replace(turn, unstable=(*evidence, *turn.unstable), notes=(*turn.notes, *notes))
        for turn in outcome.turns
    )
    return replace(outcome, turns=turns)


def measure(
    path: str,
    shape: Mapping[str, Value],
    params: Mapping[str, Value],
    *,
    reference: str | None = None,
    settings: MeasureSettings | None = None,
) -> Judgement:
    """Measure one candidate in a session of its own: see `Session` and `Session.measure`."""
    with Session(settings) as session:
        return session.measure(path, shape, params, reference=reference)


def is_available() -> bool:
    """Tell whether there is a GPU to measure on: NVML sees it, the environment does not hide it."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    try:
        with nvml() as library:
            return int(library.nvmlDeviceGetCount()) > 0
    except UnsupportedError:
        return False


def _draw_seed() -> int:
    """Return a seed that no candidate can predict."""
    return secrets.randbelow(1 << 31)


def visible_gpu(inherited: str | None, index: int) -> str:
    """Return the only GPU that the processes see."""
    if inherited is None:
        return str(index)
    listed = [name.strip() for name in inherited.split(",") if name.strip()]
    return listed[index] if index < len(listed) else ""


# ------------------------------- Wait for the referee's answer, and watch the candidates meanwhile


_POLL_S = 0.25
_GRACE_S = 5.0  # beyond the time limit, for the referee to report the candidate's last step
_START_S = 150.0  # for both processes to load torch, before the time limit counts

_log = logging.getLogger(__name__)


class LostError(Exception):
    """A request without an answer: the verdict and errors to report, as in `Judgement`."""

    def __init__(self, verdict: Verdict, *errors: str) -> None:
        self.verdict, self.errors = verdict, errors
        super().__init__(verdict, errors)


@dataclass
class Wait:
    """Waiting for the answer to one request."""

    processes: Processes  # of the session
    control: Channel  # the channel to the referee
    candidates: Sequence[Child]  # the processes that take part
    time_limit_s: float  # for everything, from when all processes have started
    host_bytes: int  # resident memory that a candidate's processes may use
    spent_s: float = 0.0  # of the time limit, by earlier attempts
    _killed_for: str | None = field(default=None, init=False)
    _stage: str = field(default="starting", init=False)
    _neighbours: Neighbours | None = field(init=False)
    _deadline_s: float = field(init=False)
    _begun_s: float | None = field(default=None, init=False)
    _tuning_left: int = field(init=False)  # candidates whose autotuners may still take their time

    def __post_init__(self) -> None:
        self._deadline_s = time.monotonic() + _START_S
        self._tuning_left = len(self.candidates)
        uuid = self.processes.uuid
        self._neighbours = None if uuid is None else Neighbours(uuid)

    def await_answer(self) -> str:
        """Return the referee's outcome.

        Raises:
            LostError: a candidate's process ended, or the referee does not respond.
            ContextLostError: the reference broke the referee's CUDA context.
            SolkitError: the referee raised it.
        """
        while True:
            if not self.control.is_waiting(_POLL_S):
                self._watch_candidates()
                if time.monotonic() > self._deadline_s:
                    raise self._timeout_error()
                continue
            message = self._receive_message()
            if "outcome" in message:
                self._look_for_neighbours()
            for place in message.get("drop", ()):
                self.processes.replace_candidate(place)
            if "outcome" in message:
                return str(message["outcome"])
            self._raise_failure(message)
            if self._stage == "starting":
                self._begun_s = time.monotonic()
                left_s = max(self.time_limit_s - self.spent_s, 0.0)
                self._deadline_s = self._begun_s + left_s + _GRACE_S
            self._stage = message["stage"]
            if self._stage == TUNING and self._tuning_left:
                self._tuning_left -= 1
                self._deadline_s += TUNING_S
            _log.debug("%s", self._stage)

    def last_printed(self, place: int) -> list[str]:
        """Return the last lines that a candidate printed."""
        return self.candidates[place].printed_lines()[-QUOTED_LINES:]

    @property
    def company(self) -> Company | None:
        """Other users of the GPU; ``None`` if NVML does not know the GPU."""
        return None if self._neighbours is None else self._neighbours.seen

    def _raise_failure(self, message: dict[str, Any]) -> None:
        if "lost_on" in message:
            taken_s = 0.0 if self._begun_s is None else time.monotonic() - self._begun_s
            raise ContextLostError(str(message["lost_on"]), taken_s)
        if "lost" in message:
            self.processes.close()
        if "error" in message:
            raise getattr(solkit.errors, message["error"])(*message["args"])
        if "died" in message:
            doing, place = message["died"], message["place"]
            ended = self.processes.describe_candidate_end(place)
            verdict = Verdict.CRASHED if self._killed_for is None else Verdict.OUT_OF_MEMORY
            why = f"{doing}: {self._killed_for or ended}"
            raise LostError(verdict, why, *self.last_printed(place))

    def _receive_message(self) -> dict[str, Any]:
        try:
            return self.control.receive(_GRACE_S).header
        except (NonsenseError, TimeoutError) as error:
            raise WorkerError(f"an answer of the referee makes no sense: {error}") from error

    def _watch_candidates(self) -> None:
        if self._stage == "timing":
            self._look_for_neighbours()
        for candidate in self.candidates:
            used = candidate.resident_bytes()
            if used > self.host_bytes and self._killed_for is None:
                self._killed_for = (
                    f"killed at {used / 2**30:.1f} GiB of host memory; "
                    f"{self.host_bytes / 2**30:.1f} GiB are allowed"
                )
                candidate.end()  # the referee notices, and reports the last step

    def _look_for_neighbours(self) -> None:
        """Look for other users of the GPU."""
        if self._neighbours is not None:
            self._neighbours.look(self.processes.pids)

    def _timeout_error(self) -> Exception:
        """Return the error for a referee that does not respond: the problem hangs, or the GPU."""
        self.processes.close()
        if self._stage == "starting":
            return WorkerError(f"the measuring processes did not start within {_START_S:g} s")
        error = f"{self._stage}: killed after {self.time_limit_s:g} s"
        return LostError(Verdict.TIMED_OUT, error)
