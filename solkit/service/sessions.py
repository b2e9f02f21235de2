"""The Labs of a worker: one for its GPU, or one for each problem of a recording."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from solkit.core import MeasureSettings, canonical
from solkit.errors import InputError
from solkit.integrations.candidates import source_text
from solkit.integrations.evaluator import Evaluator, Grading
from solkit.integrations.recordings import Recording, recorded_problem, text_digest
from solkit.measure.benches import RecordedBench
from solkit.pipeline.lab import Lab
from solkit.report.advice import advise
from solkit.service.requests import Evaluate
from solkit.service.settings import QueueSettings

_MOST_LABS = 4
"""Problems of a recording whose processes stay warm."""
_MOST_EVALUATORS = 64


def measure_settings(how: QueueSettings) -> MeasureSettings:
    """Return the settings with which a queue's worker measures."""
    return MeasureSettings(on=how.on, sandbox=how.sandbox, log=how.log)


@dataclass
class Bench:
    """A Lab, and what belongs to it.

    Attributes:
        lab: bounds, analyses and measures.
        recording: what it replays; ``None`` if it measures, or cannot.
        users: threads that are using it.
    """

    lab: Lab
    recording: Recording | None = None
    users: int = 0
    _evaluators: OrderedDict[tuple[str, ...], Evaluator] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def evaluator(self, request: Evaluate, owner: str) -> Evaluator:
        """Return the evaluator of a search, which remembers the best so far."""
        shape = dict(request.shape or {})
        key = (owner, request.search, text_digest(request.problem), canonical(shape))
        with self._lock:
            if key not in self._evaluators:
                texts = () if self.recording is None else self.recording.texts
                how = Grading(sources=texts, advise=advise)
                self._evaluators[key] = Evaluator(
                    request.problem, bench=self.lab, shape=shape, how=how
                )
            self._evaluators.move_to_end(key)
            while len(self._evaluators) > _MOST_EVALUATORS:
                self._evaluators.popitem(last=False)
            return self._evaluators[key]


class LabSessions:
    """Opens Labs when they are needed; threads share it.

    Args:
        how: the worker's queue.
    """

    def __init__(self, how: QueueSettings) -> None:
        self._how = how
        self._open: OrderedDict[str, Bench] = OrderedDict()
        self._changed = threading.Condition()
        self._is_kept = False

    def close(self) -> None:
        """Close all of them."""
        with self._changed:
            for bench in self._open.values():
                bench.lab.close()
            self._open.clear()

    @contextlib.contextmanager
    def of(self, problem: str) -> Iterator[Bench]:
        """Yield the Lab for a problem, given as text or as a path.

        Raises:
            InputError: a recording has no rows of it.
            UnsupportedError: this machine cannot run the sandbox.
        """
        key = "" if self._how.recorded is None else text_digest(source_text(problem))
        with self._changed:
            self._changed.wait_for(lambda: not self._is_kept)
            if key not in self._open:
                self._open[key] = self._open_session(problem)
            bench = self._open[key]
            self._open.move_to_end(key)
            bench.users += 1
            self._close_oldest()
        try:
            yield bench
        finally:
            with self._changed:
                bench.users -= 1
                self._close_oldest()
                self._changed.notify_all()

    @contextlib.contextmanager
    def without(self) -> Iterator[None]:
        """No Lab holds the GPU meanwhile; others wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_kept)
            self._is_kept = True
        try:
            with self._changed:
                self._changed.wait_for(lambda: all(e.users == 0 for e in self._open.values()))
                while self._open:
                    self._open.popitem()[1].lab.close()
            yield
        finally:
            with self._changed:
                self._is_kept = False
                self._changed.notify_all()

    def _recording_of(self, problem: str) -> Recording | None:
        """Return the recording of a problem; ``None`` on a GPU.

        Raises:
            InputError: it has no rows of it.
        """
        path = self._how.recorded
        if path is None:
            return None
        text = source_text(problem)
        if Path(path).is_dir():
            try:
                return recorded_problem(path, text, self._how.device)
            except InputError as error:  # who asks need not know where it lies
                raise InputError(str(error).replace(path, "the recording")) from error
        return Recording(_read_recording(path, self._how.device, text_digest(text)))

    def _open_session(self, problem: str) -> Bench:
        recording = self._recording_of(problem)
        if recording is None:
            return Bench(Lab(self._how.device, settings=measure_settings(self._how)))
        own = MeasureSettings(sandbox=self._how.sandbox)
        return Bench(Lab(settings=own, bench=recording.bench), recording)

    def _close_oldest(self) -> None:
        """Close those that were not used for longest, if there are too many."""
        for key in [key for key, bench in self._open.items() if bench.users == 0]:
            if len(self._open) <= _MOST_LABS:
                return
            self._open.pop(key).lab.close()


def _read_recording(
    path: str | os.PathLike[str], device: str | None, problem_sha256: str
) -> RecordedBench:
    """Return the rows of a file; of this problem, if it names problems."""
    rows = RecordedBench.read(path, device=device).recording
    own = [row for row in rows if row.problem_sha256 in (None, problem_sha256)]
    return RecordedBench(own or rows, device)
