"""Measuring many candidates with the same two processes: the caller's side, no torch here.

::

    Session (no torch) ──socket── referee (the problem, seeds, verdicts)
        │ starts and ends both        │ socket
        └──────────────────────── candidate (code that nobody vouches for)

Both are forked from a server that has torch and triton loaded (`solkit.measure._forkserver`), so
that a new one takes milliseconds, and a CUDA context. Ending the session ends them and all that
they started, whatever they are at. The candidate's is replaced after a fault, a hang or a finding,
and kept for the next candidate where it behaved. Should the session's own process vanish, server
and referee notice, and end both. Candidates that are compared have a process each.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import solkit.errors
from solkit.core import Candidate, Tolerance, Value, Verdict
from solkit.errors import InputError, SolkitError, UnsupportedError, WorkerError
from solkit.measure._forkserver import ForkServer
from solkit.measure._process import Child
from solkit.measure.channel import Channel, ClosedError, NonsenseError, pair
from solkit.measure.lock import Company, Neighbours, exclusive, uuid_of
from solkit.measure.messages import (
    ComparisonOutcome,
    ComparisonRequest,
    Outcome,
    Request,
    decode,
    encode,
)
from solkit.measure.protocols import find
from solkit.measure.sandbox import Sandbox

__all__ = ["Limits", "Session", "is_available", "measure"]

_QUOTED_LINES = 30
_POLL_S = 0.25
_GRACE_S = 15.0  # beyond the time limit, for the referee to say what the candidate was at
_START_S = 150.0  # for both processes to load torch, before the time limit counts
_DEAD_S = 2.0
_MOST_SERVED = 100  # candidates in one process: compiled modules, and what libraries note of them,
# are never unloaded
_MOST_JUDGED = 500  # by one referee: on a GPU it grows by 17 kB a candidate (bench/thousand.py)

_log = logging.getLogger(__name__)

_REFEREE, _CANDIDATE = "solkit.measure._referee", "solkit.measure._candidate"
_PREPARE = "solkit.measure._referee:warm_up"
_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",  # the last prints before a crash
    "KINETO_LOG_LEVEL": "99",  # the profiler's chatter
}
_server = ForkServer(_PREPARE, _ENVIRONMENT)


@dataclass(frozen=True)
class Limits:
    """What a candidate may use, beside its time.

    Attributes:
        host_bytes: resident memory of its process and of those that it starts.
    """

    host_bytes: int = 32 << 30


class Session:
    """Measures candidates, in a ``with`` block. The processes start with the first one.

    The server that they are forked from stays for other sessions of this process, until it ends.

    Args:
        gpu_index: which GPU: a place in ``CUDA_VISIBLE_DEVICES`` where that is set, else NVML's
            index (PCI bus order).
        device: ``"cuda"``; on ``"cpu"`` candidates are checked, but nothing is timed.
        gpu: the UUID of the GPU instead, as NVML gives it.
        limits: of each candidate.
        sandbox: whether candidates, and apart from them the problem, run under bubblewrap
            (`solkit.measure.sandbox`).
        patience_s: how long to wait for a GPU that another session holds, of this process or
            another; from the first candidate on this one holds it until it is closed.

    Raises:
        UnsupportedError: there can be no sandbox here; says what to do about it.
    """

    def __init__(
        self,
        *,
        gpu_index: int = 0,
        gpu: str | None = None,
        device: str = "cuda",
        limits: Limits | None = None,
        sandbox: bool = False,
        patience_s: float = 600.0,
    ) -> None:
        inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._gpu = _visible(inherited, gpu_index) if gpu is None else gpu
        self._device = device
        self._sandboxes = {
            module: Sandbox(_PREPARE, _ENVIRONMENT, device)
            for module in ((_REFEREE, _CANDIDATE) if sandbox else ())
        }
        self._limits, self._patience_s = limits or Limits(), patience_s
        self._common_seed = _drawn()
        self._skipped: dict[str, tuple[str, ...]] = {}  # trials, by the problem's path
        self._paths: tuple[str, ...] = ()  # of candidates and problem, which a sandbox must show
        self._uuid: str | None = None
        self._lock = contextlib.ExitStack()
        self._referee: Child | None = None
        self._judged = 0  # candidates, by this referee
        self._control: Channel | None = None
        self._candidates: dict[int, Child] = {}  # by place: all but the first only to compare
        self._served: Counter[int] = Counter()  # how many candidates each of these had

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and what they started; the next candidate starts new ones."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
        try:
            for child in (*self._candidates.values(), self._referee):
                if child is not None:
                    child.end()
        finally:
            self._candidates, self._referee = {}, None
            for sandbox in self._sandboxes.values():
                sandbox.close()
            self._lock.close()

    def measure(
        self,
        path: str,
        shape: Mapping[str, Value],
        params: Mapping[str, Value],
        *,
        reference: str | None = None,
        tolerance: Tolerance | None = None,
        time_limit_s: float = 120.0,
        seed: int | None = None,
        protocol: str = "cold",
        custom_kernel: bool = False,
    ) -> Outcome:
        """Check a candidate against its reference and time both.

        Args:
            path: the kernel file.
            shape: sizes that override the file's defaults.
            params: the candidate's tuning parameters.
            reference: the file with the reference, where `path` lacks one.
            tolerance: instead of the file's own, or of the defaults by dtype
                (`solkit.measure.compare.default_tolerance`).
            time_limit_s: seconds for everything, but for starting processes that do not run yet.
            seed: of the inputs. By default one that is drawn for each candidate, so that it can
                neither know it beforehand nor have been left anything by another one; it is in
                `Outcome.protocol`. Inputs that it is checked on but not timed are then drawn once
                a session.
            protocol: the name of a `solkit.measure.protocols.TimingProtocol`.
            custom_kernel: whether a kernel of its own is asked for, so that leaving the work to
                cuBLAS, cuDNN or torch is cheating (`solkit.measure.delegation`).

        Raises:
            InputError: the kernel file, the shape, the parameters or the protocol are at fault.
            GpuBusyError: another session holds the GPU.
            UnsupportedError: torch sees no CUDA device, or the inputs do not fit into its memory.
            WorkerError: SolKit's own part failed.
        """
        find(protocol)
        how = self._how(seed, shape, tolerance, time_limit_s, protocol, custom_kernel)
        request = Request(path=path, reference=reference, params=dict(params), **how)
        self._paths = (path, reference or path)
        try:
            answer, wait = self._ask([request], time_limit_s)
        except _LostError as lost:
            return Outcome(lost.verdict, lost.errors, None, None)
        outcome = decode(Outcome, answer)
        if outcome.verdict is Verdict.TIMED_OUT:
            return replace(outcome, errors=(*outcome.errors, *wait.printed(0)))
        return _among_others(outcome, wait.company)

    def compare(
        self,
        candidates: Sequence[Candidate],
        shape: Mapping[str, Value],
        *,
        reference: str | None = None,
        tolerance: Tolerance | None = None,
        time_limit_s: float = 240.0,
        seed: int | None = None,
        protocol: str = "cold",
        precision: float = 0.002,
        budget_s: float = 2.0,
        repeats: int = 1,
        custom_kernel: bool = False,
    ) -> ComparisonOutcome:
        """Check candidates against one reference, and time them in turns.

        Args:
            candidates: the base first, then those that are held against it.
            shape: as for `measure`.
            reference: the file with the reference, where the base lacks one.
            tolerance: as for `measure`.
            time_limit_s: as for `measure`, for all candidates together.
            seed: as for `measure`.
            protocol: as for `measure`.
            precision: turns are enough once every ratio to the base is sure to within this share.
            budget_s: seconds that turns may take, beyond the least number of them.
            repeats: how often they are compared, each time from warming up on.
            custom_kernel: as for `measure`.

        Raises:
            InputError: there are fewer than two candidates; else as for `measure`.
            GpuBusyError, UnsupportedError, WorkerError: as for `measure`.
        """
        find(protocol)
        if len(candidates) < 2:
            raise InputError(f"candidates: expected two or more to compare, got {len(candidates)}")
        problem = candidates[0].path if reference is None else reference
        how = self._how(seed, shape, tolerance, time_limit_s, protocol, custom_kernel)
        requests = tuple(
            Request(
                path=candidate.path,
                reference=None if candidate.path == problem else problem,
                params=dict(candidate.params),
                **how,
            )
            for candidate in candidates
        )
        self._paths = (problem, *(candidate.path for candidate in candidates))
        comparison = ComparisonRequest(requests, precision, budget_s, repeats)
        try:
            answer, wait = self._ask(requests, time_limit_s, comparison)
        except _LostError as lost:
            return ComparisonOutcome((), lost.errors, verdict=lost.verdict)
        return _compared_among_others(decode(ComparisonOutcome, answer), wait.company)

    def _how(
        self,
        seed: int | None,
        shape: Mapping[str, Value],
        tolerance: Tolerance | None,
        time_limit_s: float,
        protocol: str,
        custom_kernel: bool,
    ) -> dict[str, Any]:
        """What the requests of one call have in common, as `Request` has it."""
        return {
            "seed": _drawn() if seed is None else seed,
            "common_seed": self._common_seed if seed is None else seed,
            "shape": dict(shape),
            "tolerance": tolerance,
            "time_limit_s": time_limit_s,
            "protocol": protocol,
            "custom_kernel": custom_kernel,
            "device": self._device,
        }

    def _ask(
        self,
        requests: Sequence[Request],
        time_limit_s: float,
        comparison: ComparisonRequest | None = None,
    ) -> tuple[str, _Wait]:
        """What the referee answers to a request, or a comparison of several, and the wait for it.

        Where the reference breaks the referee's context on a trial, new processes go without it.

        Raises:
            _LostError: there is no answer, by the fault of a candidate or of the problem.
        """
        problem = requests[0].reference or requests[0].path
        while True:
            skip = self._skipped.setdefault(problem, ())
            asked = tuple(replace(request, skip=skip) for request in requests)
            if comparison is None:
                message = {"request": encode(asked[0])}
            else:
                message = {"comparison": encode(replace(comparison, candidates=asked))}
            try:
                return self._asked(message, len(asked), time_limit_s)
            except _ContextLostError as lost:
                self.close()
                if lost.trial in skip:
                    raise WorkerError(f"the reference broke CUDA's context on {skip}") from lost
                self._skipped[problem] = (*skip, lost.trial)

    def _asked(
        self, message: Mapping[str, Any], count: int, time_limit_s: float
    ) -> tuple[str, _Wait]:
        """The answer to a message about so many candidates, and the wait for it."""
        try:
            for sandbox in self._sandboxes.values():
                sandbox.server(self._paths)  # where that is another one, what ran there has ended
            control, candidates = self._started(count)
            for candidate in candidates:
                candidate.forget_printed()
            control.send(message)
            neighbours = None if self._uuid is None else Neighbours(self._uuid)
            wait = _Wait(time_limit_s, control, candidates, self._limits, self, neighbours)
            return wait.answer(), wait
        except ClosedError as error:
            raise WorkerError(self._obituary()) from error
        except (_LostError, _ContextLostError):
            raise
        except BaseException as error:
            if not isinstance(error, SolkitError) or isinstance(error, WorkerError):
                self.close()  # an answer may be under way, and would be taken for the next one's
            raise

    def replace_candidate(self, place: int = 0, grace_s: float = 0.0) -> int:
        """End a candidate's process; how it ended. The next candidate there gets a new one."""
        return self._candidates.pop(place).end(grace_s)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of ours that may be on the GPU."""
        children = (self._referee, *self._candidates.values())
        return tuple(child.pid for child in children if child is not None)

    def _take_gpu(self) -> None:
        """Lock the GPU before a process of ours is on it, until none is."""
        if self._device == "cpu":
            return
        with contextlib.suppress(UnsupportedError):  # without NVML there hardly is a GPU: the
            self._uuid = uuid_of(self._gpu)  # referee says what torch sees
        if self._uuid is not None:
            self._lock.enter_context(exclusive(self._uuid, self._patience_s))

    def _started(self, count: int) -> tuple[Channel, tuple[Child, ...]]:
        """The way to the referee, and so many candidates' processes; what does not run is started.

        All are forked at once, and make their CUDA contexts side by side.
        """
        referee = None if self._judged >= _MOST_JUDGED else self._referee
        if referee is None or self._control is None or not referee.is_alive:
            self.close()
            self._judged = 0
            self._take_gpu()
            for sandbox in self._sandboxes.values():
                sandbox.server(self._paths).start()  # they load torch side by side
            ours, theirs = pair()
            self._control = Channel(ours, trusting=True)
            self._referee = self._child(_REFEREE, theirs.fileno())
            theirs.close()
        for place in range(count):
            is_worn = self._served[place] >= _MOST_SERVED
            if place in self._candidates and (is_worn or not self._candidates[place].is_alive):
                self.replace_candidate(place)
            if place not in self._candidates:
                self._start_candidate(self._control, place)
            self._served[place] += 1
        self._judged += count
        return self._control, tuple(self._candidates[place] for place in range(count))

    def _start_candidate(self, control: Channel, place: int) -> None:
        referees, theirs = pair()
        candidate = self._child(_CANDIDATE, theirs.fileno())
        theirs.close()
        self._candidates[place], self._served[place] = candidate, 0
        control.send({"candidate": candidate.pid, "place": place}, b"", (referees.fileno(),))
        referees.close()

    def _child(self, module: str, descriptor: int) -> Child:
        """A new process: a kernel file finds the modules there that it would find here."""
        function, env = f"{module}:main", _environment(self._gpu)
        sandbox = self._sandboxes.get(module)
        if sandbox is None:
            return Child(_server, function, env=env, descriptors=(descriptor,))
        return Child(
            sandbox.server(self._paths),
            function,
            env=sandbox.environment(env),
            descriptors=(descriptor,),
            folder=sandbox.folder,
        )

    def _obituary(self) -> str:
        """What is to be said of a referee that is gone."""
        if self._referee is None:
            return "the referee's process is gone"
        ended = how_it_ended(self._referee.end(_DEAD_S))
        printed = self._referee.printed()[-_QUOTED_LINES:]
        self.close()
        return "\n".join((f"the referee's process failed: {ended}", *printed))


class _ContextLostError(Exception):
    """The reference broke the referee's context on a trial, whose name this carries."""

    def __init__(self, trial: str) -> None:
        self.trial = trial
        super().__init__(trial)


class _LostError(Exception):
    """No answer to a request: what became of the candidate instead, as in `Outcome`."""

    def __init__(self, verdict: Verdict, *errors: str) -> None:
        self.verdict, self.errors = verdict, errors
        super().__init__(verdict, errors)


@dataclass
class _Wait:
    """Waiting for the answer to one request, and seeing to the candidates meanwhile."""

    time_limit_s: float
    control: Channel
    candidates: Sequence[Child]
    limits: Limits
    session: Session
    neighbours: Neighbours | None = None
    killed_for: str | None = None
    stage: str = "starting"
    deadline_s: float = field(default_factory=lambda: time.monotonic() + _START_S)

    def answer(self) -> str:
        """The outcome that the referee sends.

        Raises:
            _LostError: a candidate's process ended, or the referee is held up.
        """
        while True:
            if not self.control.is_waiting(_POLL_S):
                self._watch()
                if time.monotonic() > self.deadline_s:
                    raise self._timeout()
                continue
            message = self._receive()
            if "outcome" in message:
                self._look_around()
            for place in message.get("drop", ()):
                self.session.replace_candidate(place)
            if "outcome" in message:
                return str(message["outcome"])
            if "lost_on" in message:
                raise _ContextLostError(str(message["lost_on"]))
            if "error" in message:
                raise _error(message["error"], message["args"])
            if "died" in message:
                raise self._death(message["died"], message["place"])
            if self.stage == "starting":
                self.deadline_s = time.monotonic() + self.time_limit_s + _GRACE_S
            self.stage = message["stage"]
            _log.debug("%s", self.stage)

    def printed(self, place: int) -> list[str]:
        """What a candidate printed last."""
        return self.candidates[place].printed()[-_QUOTED_LINES:]

    @property
    def company(self) -> Company | None:
        """Who else was seen on the GPU; ``None`` where NVML could not be asked which GPU it is."""
        return None if self.neighbours is None else self.neighbours.seen

    def _receive(self) -> dict[str, Any]:
        try:
            return self.control.receive(_GRACE_S).header
        except (NonsenseError, TimeoutError) as error:
            raise WorkerError(f"the referee's process answered nonsense: {error}") from error

    def _watch(self) -> None:
        if self.stage == "timing":
            self._look_around()
        for candidate in self.candidates:
            used = candidate.resident_bytes()
            if used > self.limits.host_bytes and self.killed_for is None:
                self.killed_for = (
                    f"killed at {used / 2**30:.1f} GiB of host memory; "
                    f"{self.limits.host_bytes / 2**30:.1f} GiB are allowed"
                )
                candidate.end()  # the referee notices, and says what it was at

    def _look_around(self) -> None:
        """See who else is on the GPU."""
        if self.neighbours is not None:
            self.neighbours.look(self.session.pids)

    def _timeout(self) -> Exception:
        """The referee does not answer: the problem hangs, or what the candidate did to the GPU."""
        self.session.close()
        if self.stage == "starting":
            return WorkerError(f"the measuring processes did not start within {_START_S:g} s")
        error = f"{self.stage}: killed after {self.time_limit_s:g} s"
        return _LostError(Verdict.TIMED_OUT, error)

    def _death(self, doing: str, place: int) -> _LostError:
        ended = how_it_ended(self.session.replace_candidate(place, _DEAD_S))
        if self.killed_for is not None:
            error = f"{doing}: {self.killed_for}"
            return _LostError(Verdict.OUT_OF_MEMORY, error, *self.printed(place))
        return _LostError(Verdict.CRASHED, f"{doing}: {ended}", *self.printed(place))


def _among_others(outcome: Outcome, company: Company | None) -> Outcome:
    """The outcome; of a candidate that was timed, with what others on the GPU mean for it."""
    if company is None or outcome.measurement is None:
        return outcome
    unstable = bool(company.evidence) and outcome.verdict is Verdict.CORRECT
    return replace(
        outcome,
        verdict=Verdict.UNSTABLE if unstable else outcome.verdict,
        errors=(*company.evidence, *outcome.errors),
        samples=replace(outcome.samples, neighbours=company.notes),
    )


def _compared_among_others(
    outcome: ComparisonOutcome, company: Company | None
) -> ComparisonOutcome:
    """The outcome, with what others on the GPU mean for times that were taken in turns."""
    if company is None:
        return outcome
    turns = (
        replace(
            each,
            unstable=(*company.evidence, *each.unstable),
            notes=(*each.notes, *company.notes),
        )
        for each in outcome.turns
    )
    return replace(outcome, turns=tuple(turns))


def measure(
    path: str,
    shape: Mapping[str, Value],
    params: Mapping[str, Value],
    *,
    gpu_index: int = 0,
    **options: Any,
) -> Outcome:
    """Measure one candidate in a session of its own: see `Session` and `Session.measure`."""
    with Session(gpu_index=gpu_index) as session:
        return session.measure(path, shape, params, **options)


def is_available() -> bool:
    """Whether there is a GPU to measure on: NVML sees one and the environment hides it not."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    import pynvml  # 60 ms, and not wanted by `import solkit`

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        return int(pynvml.nvmlDeviceGetCount()) > 0
    finally:
        pynvml.nvmlShutdown()


def how_it_ended(returncode: int) -> str:
    """How a process ended, in words, by `subprocess`'s code."""
    if returncode < 0:
        return f"the process was killed by {signal.Signals(-returncode).name}"
    return f"the process exited by itself with code {returncode}"


def _environment(gpu: str) -> dict[str, str]:
    return {
        **os.environ,
        **_ENVIRONMENT,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML's order
        "CUDA_VISIBLE_DEVICES": gpu,
    }


def _drawn() -> int:
    """A seed that no candidate can know beforehand."""
    return secrets.randbelow(1 << 31)


def _visible(inherited: str | None, gpu_index: int) -> str:
    """The one GPU that the processes may see."""
    if inherited is None:
        return str(gpu_index)
    listed = [name.strip() for name in inherited.split(",") if name.strip()]
    return listed[gpu_index] if gpu_index < len(listed) else ""


def _error(name: str, args: list[Any]) -> SolkitError:
    kind = getattr(solkit.errors, name)
    error: SolkitError = kind(*args)
    return error
