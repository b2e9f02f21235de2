"""Measuring many candidates with the same two processes: the caller's side, no torch here.

::

    Session (no torch) ──socket── referee (the problem, seeds, verdicts)
        │ starts and ends both        │ socket
        └──────────────────────── candidate (code that nobody vouches for)

Both are forked from a server that has torch and triton loaded (`solkit.measure._forkserver`), so
that a new one takes milliseconds, and a CUDA context. Ending the session ends them and all that
they started, whatever they are at. The candidate's is replaced after a fault, a hang or a finding,
and kept for the next candidate where it behaved. Should the session's own process vanish, server
and referee notice, and end both.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import solkit.errors
from solkit.core import Tolerance, Value, Verdict
from solkit.errors import SolkitError, UnsupportedError, WorkerError
from solkit.measure._forkserver import ForkServer
from solkit.measure._process import Child
from solkit.measure.channel import Channel, ClosedError, NonsenseError, pair
from solkit.measure.lock import Neighbours, exclusive, uuid_of
from solkit.measure.messages import Outcome, Request, decode, encode
from solkit.measure.protocols import find

__all__ = ["Limits", "Session", "is_available", "measure"]

_QUOTED_LINES = 30
_POLL_S = 0.25
_GRACE_S = 15.0  # beyond the time limit, for the referee to say what the candidate was at
_START_S = 150.0  # for both processes to load torch, before the time limit counts
_DEAD_S = 2.0

_server = ForkServer(
    "solkit.measure._referee:warm_up",
    {
        "PYTHONUNBUFFERED": "1",  # the last prints before a crash
        "KINETO_LOG_LEVEL": "99",  # the profiler's chatter
    },
)


@dataclass(frozen=True)
class Limits:
    """What a candidate may use, beside its time.

    Attributes:
        host_bytes: resident memory of its process and of those that it starts.
    """

    host_bytes: int = 32 << 30


class Session:
    """Measures candidates, in a ``with`` block. The processes start with the first one.

    Args:
        gpu_index: which GPU: a place in ``CUDA_VISIBLE_DEVICES`` where that is set, else NVML's
            index (PCI bus order).
        device: ``"cuda"``; on ``"cpu"`` candidates are checked, but nothing is timed.
        limits: of each candidate.
        patience_s: how long to wait for a GPU that another session holds, of this process or
            another; from the first candidate on this one holds it until it is closed.
    """

    def __init__(
        self,
        *,
        gpu_index: int = 0,
        device: str = "cuda",
        limits: Limits | None = None,
        patience_s: float = 600.0,
    ) -> None:
        self._gpu_index, self._device = gpu_index, device
        self._limits, self._patience_s = limits or Limits(), patience_s
        self._seed = secrets.randbelow(1 << 31)  # one that a candidate cannot know beforehand
        self._uuid: str | None = None
        self._lock = contextlib.ExitStack()
        self._referee: Child | None = None
        self._control: Channel | None = None
        self._candidate: Child | None = None

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
        """End both processes and all that they started; the next candidate starts new ones."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
        try:
            for child in (self._candidate, self._referee):
                if child is not None:
                    child.end()
        finally:
            self._candidate = self._referee = None
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
            seed: of the inputs; others are drawn from it. By default one that the session drew, so
                that no candidate can know it beforehand; it is in `Outcome.protocol`.
            protocol: the name of a `solkit.measure.protocols.TimingProtocol`.

        Raises:
            InputError: the kernel file, the shape, the parameters or the protocol are at fault.
            GpuBusyError: another session holds the GPU.
            UnsupportedError: torch sees no CUDA device, or the inputs do not fit into its memory.
            WorkerError: SolKit's own part failed.
        """
        find(protocol)
        request = Request(
            path=path,
            reference=reference,
            shape=dict(shape),
            params=dict(params),
            tolerance=tolerance,
            time_limit_s=time_limit_s,
            seed=self._seed if seed is None else seed,
            device=self._device,
            protocol=protocol,
        )
        try:
            control, candidate = self._started()
            candidate.forget_printed()
            control.send({"request": encode(request)})
            neighbours = None if self._uuid is None else Neighbours(self._uuid)
            return _Wait(request, control, candidate, self._limits, self, neighbours).outcome()
        except ClosedError as error:
            raise WorkerError(self._obituary()) from error
        except BaseException as error:
            if not isinstance(error, SolkitError) or isinstance(error, WorkerError):
                self.close()  # an answer may be under way, and would be taken for the next one's
            raise

    def replace_candidate(self, grace_s: float = 0.0) -> int:
        """End the candidate's process; how it ended. The next candidate gets a new one."""
        assert self._candidate is not None
        candidate, self._candidate = self._candidate, None
        return candidate.end(grace_s)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of ours that may be on the GPU."""
        return tuple(child.pid for child in (self._referee, self._candidate) if child is not None)

    def _take_gpu(self) -> None:
        """Lock the GPU before a process of ours is on it, until none is."""
        if self._device == "cpu":
            return
        visible = _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), self._gpu_index)
        with contextlib.suppress(UnsupportedError):  # without NVML there hardly is a GPU: the
            self._uuid = uuid_of(visible)  # referee says what torch sees
        if self._uuid is not None:
            self._lock.enter_context(exclusive(self._uuid, self._patience_s))

    def _started(self) -> tuple[Channel, Child]:
        """Both processes, running: those that are not are started, and load torch side by side."""
        if self._referee is None or self._control is None or not self._referee.is_alive:
            self.close()
            self._take_gpu()
            ours, theirs = pair()
            self._control = Channel(ours, trusting=True)
            self._referee = self._child("solkit.measure._referee", theirs.fileno())
            theirs.close()
        if self._candidate is None or not self._candidate.is_alive:
            if self._candidate is not None:
                self.replace_candidate()
            referees, theirs = pair()
            self._candidate = self._child("solkit.measure._candidate", theirs.fileno())
            theirs.close()
            self._control.send({"candidate": self._candidate.pid}, b"", (referees.fileno(),))
            referees.close()
        return self._control, self._candidate

    def _child(self, module: str, descriptor: int) -> Child:
        """A new process: a kernel file finds the modules there that it would find here."""
        env = _environment(self._gpu_index)
        return Child(_server, f"{module}:main", env=env, descriptors=(descriptor,))

    def _obituary(self) -> str:
        """What is to be said of a referee that is gone."""
        if self._referee is None:
            return "the referee's process is gone"
        ended = how_it_ended(self._referee.end(_DEAD_S))
        printed = self._referee.printed()[-_QUOTED_LINES:]
        self.close()
        return "\n".join((f"the referee's process failed: {ended}", *printed))


@dataclass
class _Wait:
    """Waiting for the outcome of one request, and seeing to the candidate meanwhile."""

    request: Request
    control: Channel
    candidate: Child
    limits: Limits
    session: Session
    neighbours: Neighbours | None = None
    killed_for: str | None = None
    stage: str = "starting"
    deadline_s: float = field(default_factory=lambda: time.monotonic() + _START_S)

    def outcome(self) -> Outcome:
        """What the referee answers, or what the end of the candidate's process amounts to."""
        while True:
            if not self.control.is_waiting(_POLL_S):
                self._watch()
                if time.monotonic() > self.deadline_s:
                    return self._timeout()
                continue
            message = self._receive()
            if "outcome" in message:
                self._look_around()
            if message.get("keep") is False:
                self.session.replace_candidate()
            if "outcome" in message:
                return self._among_others(self._quoting(decode(Outcome, message["outcome"])))
            if "error" in message:
                raise _error(message["error"], message["args"])
            if "died" in message:
                return self._death(message["died"])
            if self.stage == "starting":
                self.deadline_s = time.monotonic() + self.request.time_limit_s + _GRACE_S
            self.stage = message["stage"]

    def _receive(self) -> dict[str, Any]:
        try:
            return self.control.receive(_GRACE_S).header
        except (NonsenseError, TimeoutError) as error:
            raise WorkerError(f"the referee's process answered nonsense: {error}") from error

    def _watch(self) -> None:
        if self.stage == "timing":
            self._look_around()
        used = self.candidate.resident_bytes()
        if used > self.limits.host_bytes and self.killed_for is None:
            self.killed_for = (
                f"killed at {used / 2**30:.1f} GiB of host memory; "
                f"{self.limits.host_bytes / 2**30:.1f} GiB are allowed"
            )
            self.candidate.end()  # the referee notices, and says what it was at

    def _look_around(self) -> None:
        """See who else is on the GPU."""
        if self.neighbours is not None:
            self.neighbours.look(self.session.pids)

    def _among_others(self, outcome: Outcome) -> Outcome:
        """The outcome; of a candidate that was timed, with what others on the GPU mean for it."""
        if self.neighbours is None or outcome.measurement is None:
            return outcome
        seen = self.neighbours.seen
        unstable = bool(seen.evidence) and outcome.verdict is Verdict.CORRECT
        return replace(
            outcome,
            verdict=Verdict.UNSTABLE if unstable else outcome.verdict,
            errors=(*seen.evidence, *outcome.errors),
            samples=replace(outcome.samples, neighbours=seen.notes),
        )

    def _timeout(self) -> Outcome:
        """The referee does not answer: the problem hangs, or what the candidate did to the GPU."""
        self.session.close()
        if self.stage == "starting":
            raise WorkerError(f"the measuring processes did not start within {_START_S:g} s")
        error = f"{self.stage}: killed after {self.request.time_limit_s:g} s"
        return Outcome(Verdict.TIMED_OUT, (error,), None, None)

    def _death(self, doing: str) -> Outcome:
        ended = how_it_ended(self.session.replace_candidate(_DEAD_S))
        printed = self.candidate.printed()[-_QUOTED_LINES:]
        if self.killed_for is not None:
            error = f"{doing}: {self.killed_for}"
            return Outcome(Verdict.OUT_OF_MEMORY, (error, *printed), None, None)
        return Outcome(Verdict.CRASHED, (f"{doing}: {ended}", *printed), None, None)

    def _quoting(self, outcome: Outcome) -> Outcome:
        """The outcome; of a candidate that was killed, with what it last printed."""
        if outcome.verdict is not Verdict.TIMED_OUT:
            return outcome
        printed = self.candidate.printed()[-_QUOTED_LINES:]
        return Outcome(outcome.verdict, (*outcome.errors, *printed), None, None)


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


def _environment(gpu_index: int) -> dict[str, str]:
    return {
        **os.environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML's order
        "CUDA_VISIBLE_DEVICES": _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), gpu_index),
    }


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
