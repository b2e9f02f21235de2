"""Wait for the referee's answer, and watch the candidates meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import solkit.errors
from solkit.core import Verdict
from solkit.errors import WorkerError
from solkit.measure.checking.faults import ContextLostError
from solkit.measure.guarded.processes import QUOTED_LINES, Processes
from solkit.measure.timing.gpu_lock import Company, Neighbours
from solkit.processes.channel import Channel, NonsenseError
from solkit.processes.child import Child

__all__ = ["LostError", "Wait"]

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

    def __post_init__(self) -> None:
        self._deadline_s = time.monotonic() + _START_S
        uuid = self.processes.uuid
        self._neighbours = None if uuid is None else Neighbours(uuid)

    def answer(self) -> str:
        """Return the referee's outcome.

        Raises:
            LostError: a candidate's process ended, or the referee does not respond.
            ContextLostError: the reference broke the referee's CUDA context.
            SolkitError: the referee raised it.
        """
        while True:
            if not self.control.is_waiting(_POLL_S):
                self._watch()
                if time.monotonic() > self._deadline_s:
                    raise self._timeout()
                continue
            message = self._receive()
            if "outcome" in message:
                self._look_around()
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
            _log.debug("%s", self._stage)

    def printed(self, place: int) -> list[str]:
        """Return the last lines that a candidate printed."""
        return self.candidates[place].printed()[-QUOTED_LINES:]

    @property
    def company(self) -> Company | None:
        """Other users of the GPU; ``None`` if NVML does not know the GPU."""
        return None if self._neighbours is None else self._neighbours.seen

    def _raise_failure(self, message: dict[str, Any]) -> None:
        if "lost_on" in message:
            taken_s = 0.0 if self._begun_s is None else time.monotonic() - self._begun_s
            raise ContextLostError(str(message["lost_on"]), taken_s)
        if "error" in message:
            raise getattr(solkit.errors, message["error"])(*message["args"])
        if "died" in message:
            raise self._death(message["died"], message["place"])

    def _receive(self) -> dict[str, Any]:
        try:
            return self.control.receive(_GRACE_S).header
        except (NonsenseError, TimeoutError) as error:
            raise WorkerError(f"an answer of the referee makes no sense: {error}") from error

    def _watch(self) -> None:
        if self._stage == "timing":
            self._look_around()
        for candidate in self.candidates:
            used = candidate.resident_bytes()
            if used > self.host_bytes and self._killed_for is None:
                self._killed_for = (
                    f"killed at {used / 2**30:.1f} GiB of host memory; "
                    f"{self.host_bytes / 2**30:.1f} GiB are allowed"
                )
                candidate.end()  # the referee notices, and reports the last step

    def _look_around(self) -> None:
        """Look for other users of the GPU."""
        if self._neighbours is not None:
            self._neighbours.look(self.processes.pids)

    def _timeout(self) -> Exception:
        """Return the error for a referee that does not respond: the problem hangs, or the GPU."""
        self.processes.close()
        if self._stage == "starting":
            return WorkerError(f"the measuring processes did not start within {_START_S:g} s")
        error = f"{self._stage}: killed after {self.time_limit_s:g} s"
        return LostError(Verdict.TIMED_OUT, error)

    def _death(self, doing: str, place: int) -> LostError:
        ended = self.processes.candidate_ended(place)
        verdict = Verdict.CRASHED if self._killed_for is None else Verdict.OUT_OF_MEMORY
        return LostError(verdict, f"{doing}: {self._killed_for or ended}", *self.printed(place))
