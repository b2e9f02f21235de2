"""Measuring many candidates with the same two processes: the caller's side, no torch here.

::

    Session (no torch) ──socket── referee (the problem, seeds, verdicts)
        │ starts and ends both        │ socket
        └──────────────────────── candidate (code that nobody vouches for)

Ending the session ends both processes and all that they started, whatever they are doing. Should
the session's own process vanish, server and referee notice, and end both. Candidates that are
compared have a process each (`solkit.measure.guarded.processes`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from solkit.core import Candidate, MeasureSettings, Value, Verdict
from solkit.deprecation import moved_to_settings
from solkit.errors import InputError, SolkitError, WorkerError
from solkit.measure.guarded.messages import (
    ComparisonRequest,
    JudgedTurns,
    Judgement,
    Request,
    decode,
    encode,
)
from solkit.measure.guarded.processes import Processes
from solkit.measure.guarded.waiting import ContextLostError, LostError, Wait
from solkit.measure.timing.gpu_lock import Company
from solkit.measure.timing.protocols import find
from solkit.processes.channel import ClosedError

__all__ = ["Session", "is_available", "measure"]

_MEASURING = {
    "time_limit_s": "time_limit_s",
    "seed": "seed",
    "protocol": "protocol",
    "custom_kernel": "custom_kernel",
}


class Session:
    """Measures candidates, in a ``with`` block. The processes start with the first one.

    The server that they are forked from stays for other sessions of this process, until it ends.
    From the first candidate on the session holds its GPU until it is closed.

    Args:
        settings: how to measure; the defaults where ``None``. ``cuda:N`` in `MeasureSettings.on`
            is a place in ``CUDA_VISIBLE_DEVICES`` where that is set, else NVML's index.
        gpu: the UUID of the GPU instead, as NVML gives it.
        device: ``"cuda"``; on ``"cpu"`` candidates are checked, but nothing is timed.

    Raises:
        UnsupportedError: there can be no sandbox here; says what to do about it.
    """

    @moved_to_settings(sandbox="sandbox", patience_s="patience_s")
    def __init__(
        self,
        settings: MeasureSettings | None = None,
        *,
        gpu: str | None = None,
        device: str = "cuda",
    ) -> None:
        self.settings = settings or MeasureSettings()
        if gpu is None:
            gpu = _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), self.settings.gpu_index)
        self._device = device
        self._common_seed = _drawn()
        self._skipped: dict[str, tuple[str, ...]] = {}  # trials, by the problem's path
        self._processes = Processes(gpu, device, self.settings)

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
        self._processes.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of this session that may be on the GPU."""
        return self._processes.pids

    @moved_to_settings(**_MEASURING)
    def measure(
        self,
        path: str,
        shape: Mapping[str, Value],
        params: Mapping[str, Value],
        *,
        reference: str | None = None,
        settings: MeasureSettings | None = None,
    ) -> Judgement:
        """Check a candidate against its reference and time both.

        Inputs that a candidate is checked on but not timed are drawn once a session. Those that it
        is timed on are drawn for each candidate, unless `MeasureSettings.seed` says otherwise, so
        that it can neither know them beforehand nor have been left anything by another one. The
        seed is in `Judgement.protocol`.

        Args:
            path: the kernel file.
            shape: sizes that override the file's defaults.
            params: the candidate's tuning parameters.
            reference: the file with the reference, where `path` lacks one.
            settings: instead of the session's; those of its processes stay.

        Raises:
            InputError: the kernel file, the shape, the parameters or the protocol is invalid.
            GpuBusyError: another session holds the GPU.
            UnsupportedError: torch sees no CUDA device, or the inputs do not fit into its memory.
            WorkerError: SolKit's own part failed.
        """
        own = settings or self.settings
        request = self._request(path, reference, shape, params, own)
        paths = (path, reference or path)
        try:
            answer, wait = self._ask([request], paths)
        except LostError as lost:
            return Judgement(lost.verdict, lost.errors, None, None)
        outcome = decode(Judgement, answer)
        if outcome.verdict is Verdict.TIMED_OUT:
            return replace(outcome, errors=(*outcome.errors, *wait.printed(0)))
        return _among_others(outcome, wait.company)

    @moved_to_settings(**_MEASURING, budget_s="turns_s")
    def compare(
        self,
        candidates: Sequence[Candidate],
        shape: Mapping[str, Value],
        *,
        reference: str | None = None,
        settings: MeasureSettings | None = None,
        precision: float = 0.002,
        repeats: int = 1,
    ) -> JudgedTurns:
        """Check candidates against one reference, and time them in turns.

        The time limit of the settings counts once for each candidate.

        Args:
            candidates: the base first, then those that are held against it.
            shape: as for `measure`.
            reference: the file with the reference, where the base lacks one.
            settings: as for `measure`.
            precision: turns are enough once every ratio to the base is sure to within this share.
            repeats: how often they are compared, each time from warming up on.

        Raises:
            InputError: there are fewer than two candidates; else as for `measure`.
            GpuBusyError, UnsupportedError, WorkerError: as for `measure`.
        """
        if len(candidates) < 2:
            raise InputError(f"candidates: expected two or more to compare, got {len(candidates)}")
        own = settings or self.settings
        own = replace(own, time_limit_s=own.time_limit_s * len(candidates))
        problem = candidates[0].path if reference is None else reference
        seed = _drawn() if own.seed is None else own.seed
        requests = tuple(
            replace(
                self._request(each.path, problem, shape, each.params, own),
                reference=None if each.path == problem else problem,
                seed=seed,
            )
            for each in candidates
        )
        paths = (problem, *(candidate.path for candidate in candidates))
        comparison = ComparisonRequest(requests, precision, own.turns_s, repeats)
        try:
            answer, wait = self._ask(requests, paths, comparison)
        except LostError as lost:
            return JudgedTurns((), lost.errors, verdict=lost.verdict)
        return _compared_among_others(decode(JudgedTurns, answer), wait.company)

    def _request(
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
            seed=_drawn() if settings.seed is None else settings.seed,
            device=self._device,
            protocol=find(settings.protocol).name,
            common_seed=self._common_seed if settings.seed is None else settings.seed,
            custom_kernel=settings.custom_kernel,
        )

    def _ask(
        self,
        requests: Sequence[Request],
        paths: Sequence[str],
        comparison: ComparisonRequest | None = None,
    ) -> tuple[str, Wait]:
        """What the referee answers to a request, or a comparison of several, and the wait for it.

        Where the reference breaks the referee's context on a trial, new processes go without it.

        Raises:
            LostError: there is no answer, by the fault of a candidate or of the problem.
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
                return self._asked(message, paths, asked)
            except ContextLostError as lost:
                self.close()
                if lost.trial in skip:
                    raise WorkerError(f"the reference broke CUDA's context on {skip}") from lost
                self._skipped[problem] = (*skip, lost.trial)

    def _asked(
        self, message: Mapping[str, Any], paths: Sequence[str], requests: Sequence[Request]
    ) -> tuple[str, Wait]:
        """The answer to a message about these requests, and the wait for it."""
        try:
            control, candidates = self._processes.started(len(requests), paths)
            for candidate in candidates:
                candidate.forget_printed()
            control.send(message)
            limits = requests[0].time_limit_s, self.settings.host_bytes
            wait = Wait(self._processes, control, candidates, *limits)
            return wait.answer(), wait
        except ClosedError as error:
            raise WorkerError(self._processes.obituary()) from error
        except (LostError, ContextLostError):
            raise
        except BaseException as error:
            if not isinstance(error, SolkitError) or isinstance(error, WorkerError):
                self.close()  # an answer may be under way, and would be taken for the next one's
            raise


def _among_others(outcome: Judgement, company: Company | None) -> Judgement:
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


def _compared_among_others(outcome: JudgedTurns, company: Company | None) -> JudgedTurns:
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


@moved_to_settings(**_MEASURING)
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
    """Whether there is a GPU to measure on: NVML sees one, and the environment does not hide it."""
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


def _drawn() -> int:
    """A seed that no candidate can know beforehand."""
    return secrets.randbelow(1 << 31)


def _visible(inherited: str | None, index: int) -> str:
    """The one GPU that the processes may see."""
    if inherited is None:
        return str(index)
    listed = [name.strip() for name in inherited.split(",") if name.strip()]
    return listed[index] if index < len(listed) else ""
