"""The guarded bench: untrusted candidates, each in its own process beside a referee.

It checks and times one candidate at a time (`solkit.measure.guarded`); the processes stay warm
between them. A candidate that is wrong, crashes, hangs or cheats has an outcome like any other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from solkit.core import (
    Candidate,
    Configuration,
    Device,
    MeasureSettings,
    Needed,
    Outcome,
    Verdict,
    canonical,
)
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import GpuBusyError, InputError, SolkitError, UnsupportedError
from solkit.measure.benches._base import Bench, Log, WallClock
from solkit.measure.guarded.messages import JudgedTurns, Judgement
from solkit.measure.guarded.session import Session
from solkit.measure.outcomes import (
    PreparedCandidate,
    complete_compared,
    complete_measured,
    draft_outcome,
    stored_facts,
)
from solkit.roofline.cases import where_needed


def open_session(device: Device, settings: MeasureSettings) -> Session:
    """Return a session on a GPU of this machine, which starts nothing yet."""
    return Session(settings, gpu=device.uuid)


class GuardedBench(Bench):
    """Checks and times candidates one by one; see `solkit.measure.benches.Bench`.

    It may be used from several threads. An interrupt (Ctrl-C) ends the current measurement, which
    then has no outcome; the bench stays usable, and earlier measurements are in the log.

    Args:
        device: the GPU of this machine to measure on.
        prospects: gives what is known about a configuration before it is measured.
        log: where outcomes, kernel files and facts are written.
        settings: how to measure.
        software: versions by name, for the log.
        session: a session of that GPU with the same settings, which may have begun to prepare.

    Raises:
        UnsupportedError: the GPU is not in this machine, or it cannot run the sandbox.
    """

    def __init__(
        self,
        device: Device,
        prospects: Callable[[Configuration], PreparedCandidate],
        log: Log,
        settings: MeasureSettings | None = None,
        software: Mapping[str, str | None] | None = None,
        session: Session | None = None,
    ) -> None:
        if device.uuid is None:
            raise UnsupportedError(f"cannot measure on {device.name}: it is not in this machine")
        self._device, self._prospects, self._log = device, prospects, log
        self._settings, self._software = settings or MeasureSettings(), software or {}
        self._session = session or open_session(device, self._settings)
        self.clock = WallClock()
        self._session.on_leave = self.clock.release_gpu
        self._needed: dict[tuple[str, str], Needed] = {}  # by problem and shape
        self._queue: deque[tuple[Configuration, PreparedCandidate]] = deque()
        self._measuring = threading.Lock()
        self._unmeasured: list[tuple[Configuration, SolkitError]] = []

    @property
    def device(self) -> Device:
        """The GPU that it measures on."""
        return self._device

    @property
    def pending(self) -> int:
        """Number of submitted configurations that are not measured yet."""
        return len(self._queue)

    @property
    def capacity(self) -> int:
        """One: nothing is prepared ahead."""
        return 1

    def load(self, paths: Sequence[str]) -> None:
        """Load torch ahead, without the GPU: see `Session.load`.

        Raises:
            WorkerError: it could not be loaded.
        """
        self._session.load(paths)

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Queue configurations.

        Raises:
            InputError: a kernel file cannot be used.
        """
        self._queue.extend(
            [(configuration, self._prospects(configuration)) for configuration in configurations]
        )

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Measure the queue in order.

        A candidate that cannot be measured, but is not at fault (inputs do not fit into the GPU's
        memory, the reference fails there), is `Verdict.NOT_MEASURED`; the message says why.
        """
        while until_s is None or self.clock.now_s() < until_s:
            with self._measuring:
                if not self._queue:
                    return
                configuration, prospect = self._queue.popleft()
                outcome = self._measure_candidate(configuration, prospect)
            yield configuration, outcome

    def error_of(self, configuration: Configuration) -> SolkitError | None:
        """Return why a configuration was `Verdict.NOT_MEASURED`; ``None`` if it was not."""
        return next((error for one, error in self._unmeasured if one is configuration), None)

    def compared(
        self, configurations: Sequence[Configuration], outcomes: Sequence[Outcome]
    ) -> tuple[Outcome, ...]:
        """Time candidates in turns with their base, the first one.

        Args:
            configurations: of one problem and shape.
            outcomes: of each, measured before or a `draft`; failed candidates do not run again.

        Returns:
            An outcome with an `Outcome.comparison` for each candidate except the base, logged.
        """
        base = outcomes[0]
        sound = [n for n, outcome in enumerate(outcomes) if not outcome.verdict.is_failure]
        if base.verdict.is_failure:
            turns = JudgedTurns((), ("The base failed.",))
        elif len(sound) == 1:
            turns = JudgedTurns((), ("The candidate failed.",))
        else:
            turns = self._time_in_turns([(configurations[n], outcomes[n]) for n in sound])
        places = {number: place for place, number in enumerate(sound)}
        others = range(1, len(outcomes))
        return self._log.append(
            [complete_compared(outcomes[n], base, turns, places.get(n)) for n in others]
        )

    def draft(self, configuration: Configuration) -> Outcome:
        """Return the outcome of a configuration that is measured in turns alone.

        Its files are logged.
        """
        prospect = self._prospects(configuration)
        kernel = kernel_of_file(prospect.file)
        self._log.append((), kernel.files)
        return draft_outcome(configuration, prospect, kernel, self._device, self._software)

    def discard(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def close(self) -> None:
        """End all processes and release the GPU; the next candidate starts new ones."""
        self.discard()
        self._session.close()

    def _measure_candidate(
        self, configuration: Configuration, prospect: PreparedCandidate
    ) -> Outcome:
        kernel = kernel_of_file(prospect.file)
        problem = kernel.problem.sha256, canonical(prospect.shape)
        facts = stored_facts(prospect, kernel, self._device, self._software)
        begun_s = self.clock.gpu_s()
        judgement = self._judge_candidate(
            configuration, self._with_measured_needs(prospect, problem)
        )
        self.clock.leave_out(judgement.compiled_s)
        if judgement.needed is not None:
            self._needed[problem] = judgement.needed
        prospect = self._with_measured_needs(prospect, problem)
        context = prospect, kernel, self._device, self._software
        begun = replace(
            draft_outcome(configuration, *context, facts), gpu_s=self.clock.gpu_s() - begun_s
        )
        outcome = complete_measured(begun, judgement, prospect.result.bound, self._device)
        (written,) = self._log.append([outcome], kernel.files, [facts] if facts else [])
        return written

    def _hold_gpu(self) -> None:
        """Count the GPU's time from now on, once other sessions have released it."""
        self._session.await_gpu()
        self.clock.hold_gpu()

    def _with_measured_needs(
        self, prospect: PreparedCandidate, problem: tuple[str, str]
    ) -> PreparedCandidate:
        """Add the hard bound of what was measured on inputs of the same problem and shape."""
        needed = self._needed.get(problem)
        if needed is None:
            return prospect
        return replace(prospect, result=where_needed(prospect.result, needed, self._device))

    def _judge_candidate(
        self, configuration: Configuration, prospect: PreparedCandidate
    ) -> Judgement:
        """Return the session's judgement, or why there is none.

        If fake tensors ran out of time, half of the time is left.
        """
        ran_out = prospect.result.analysis.failure == Verdict.TIMED_OUT.value
        limit_s = self._settings.time_limit_s / (2 if ran_out else 1)
        try:
            self._hold_gpu()
            return self._session.measure(
                configuration.path,
                prospect.result.shape,
                configuration.params,
                reference=configuration.reference,
                settings=replace(self._settings, time_limit_s=limit_s),
                hard_ms=prospect.result.bound.at.hard_ms,
                hopeless_ms=configuration.hopeless_ms,
            )
        except GpuBusyError:
            raise
        except (InputError, UnsupportedError) as error:
            self._unmeasured.append((configuration, error))
            return Judgement(Verdict.NOT_MEASURED, (str(error),), None, None)

    def _time_in_turns(self, rivals: Sequence[tuple[Configuration, Outcome]]) -> JudgedTurns:
        base, _ = rivals[0]
        candidates = [
            Candidate(configuration.entry_point, configuration.path, outcome.params)
            for configuration, outcome in rivals
        ]
        with self._measuring:
            self._hold_gpu()
            return self._session.compare(
                candidates, base.shape, reference=base.reference or base.path
            )
