"""Studies of candidates ahead of measuring them: as many at a time as leave cores for the rest.

::

    foreseen, the most promising first ─► slots ─► studied ─► ended, once
                                            │ ▲
                                       late │ └─ nothing waits: what promises more comes next
                                            ▼
                                        given up, if something else could have its slot
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from solkit.analysis.pool import AwaitedFutures, usable_cores
from solkit.core import Configuration

if TYPE_CHECKING:
    from solkit.tuner.evolution.acquisition import Point

_LEAST_SLOTS, _SLOTS_SHARE = 3, 0.5
"""Candidates that are studied at a time: at the least, and as a share of the cores."""
_LATE_S, _LATE_SHARE = 8.0, 4.0
"""A study is late after so many seconds, and so many times what a third of those before took at
the most: most take 1 to 5 s, and what takes longer mostly spills. One that was given up counts as
long as it ran. If it did not, cores that others use would have all of them given up. By the median,
half of the studies can have all others wait until a limit ends them: a search took 110 s."""

T = TypeVar("T")


@dataclass
class _Running:
    """A study that has not ended.

    Attributes:
        point: what is studied.
        awaited: what the study waits for.
        begun_s: since when it has a thread.
        is_needed: whether somebody waits for the study, however long.
    """

    point: Point
    awaited: AwaitedFutures
    begun_s: float | None = None
    is_needed: bool = False

    @property
    def is_given_up(self) -> bool:
        return self.awaited.is_given_up


class StudiesAhead(Generic[T]):
    """Studies candidates in threads; several threads may use it.

    Args:
        study: studies a candidate; its error is kept as the study's. What it adds to the set is
            cancelled if it is given up.
        slots: how many are studied at a time.
        clock_s: tells seconds.
    """

    def __init__(
        self,
        study: Callable[[Configuration, set[Future[Any]]], T],
        slots: int | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._study, self._clock_s = study, clock_s
        self._slots = slots or max(_LEAST_SLOTS, int(_SLOTS_SHARE * usable_cores()))
        self._threads = ThreadPoolExecutor(self._slots, "study")
        self._futures: dict[str, Future[T]] = {}
        self._running: dict[str, _Running] = {}
        self._given_up: set[str] = set()
        self._took_s: list[float] = []
        self._lock = threading.RLock()  # a search goes on with its round while it measures

    def foresee(self, points: Sequence[Point]) -> None:
        """Study the first that were not studied yet, as far as there are slots.

        Late studies are given up if there are not enough.
        """
        with self._lock:
            for point in points:
                if (name := point.configuration.key) in self._futures:
                    continue
                if self._busy() >= self._slots:
                    self._give_up(lambda one: self._is_late(one) and not one.is_needed)
                    return
                self._running[name] = running = _Running(point, AwaitedFutures())
                self._futures[name] = self._threads.submit(self._run, running)

    def _run(self, running: _Running) -> T:
        running.begun_s = self._clock_s()
        return self._study(running.point.configuration, running.awaited)

    def _busy(self) -> int:
        """Count the studies that hold a slot."""
        running = self._running.items()
        return sum(not one.is_given_up and not self._futures[name].done() for name, one in running)

    def clear(self) -> None:
        """Give up all studies that have not ended: others come now."""
        self._give_up(lambda _: True)

    def _give_up(self, is_unwanted: Callable[[_Running], bool]) -> None:
        with self._lock:
            for name, running in self._running.items():
                if running.is_given_up or self._futures[name].done() or not is_unwanted(running):
                    continue
                if self._is_late(running):
                    self._took_s.append(self._age_s(running))
                self._given_up.add(name)
                self._futures[name].cancel()
                running.awaited.give_up()

    def ended(self) -> list[tuple[Point, Future[T] | None]]:
        """Return the candidates whose studies ended since the last call.

        Those that were given up come without a study.
        """
        with self._lock:
            names = [name for name in self._running if self._futures[name].done()]
            ended = [(self._running.pop(name), self._futures[name]) for name in names]
        for running, study in ended:
            if not running.is_given_up and study.exception() is None:  # a refusal may be quick
                self._took_s.append(self._age_s(running))
        return [(one.point, None if one.is_given_up else study) for one, study in ended]

    def running(self) -> list[Future[T]]:
        """Return the studies that did not end by the last call of `ended`."""
        with self._lock:
            return [self._futures[name] for name in self._running]

    def is_late(self, configuration: Configuration) -> bool:
        """Tell whether a study takes longer than the search should wait."""
        running = self._running.get(configuration.key)
        return running is not None and self._is_late(running)

    def _is_late(self, running: _Running) -> bool:
        took_s = sorted(self._took_s) or [0.0]
        usual_s = took_s[min((len(took_s) + 1) // 3, len(took_s) - 1)]
        return self._age_s(running) > max(_LATE_S, _LATE_SHARE * usual_s)

    def _age_s(self, running: _Running) -> float:
        """Return the seconds that a study has had a thread."""
        return 0.0 if running.begun_s is None else self._clock_s() - running.begun_s

    def is_done(self, configuration: Configuration) -> bool:
        """Tell whether a candidate is studied: not if that was given up."""
        name = configuration.key
        return name in self._futures and name not in self._given_up and self._futures[name].done()

    def has_result(self, configuration: Configuration) -> bool:
        """Tell whether a candidate is studied, without an error."""
        is_done = self.is_done(configuration)
        return is_done and self._futures[configuration.key].exception() is None

    def get(self, configuration: Configuration) -> Future[T] | None:
        """Return the study of a candidate; ``None`` if it has not begun, or was given up.

        One that has not begun would wait for those that were foreseen before it. One that has is
        not given up for being late.
        """
        name = configuration.key
        with self._lock:
            future = self._futures.get(name)
            if future is None or name in self._given_up:
                return None
            if future.cancel():
                del self._futures[name], self._running[name]
                return None
            if name in self._running:
                self._running[name].is_needed = True
            return future

    def close(self) -> None:
        """Give up all studies that have not ended."""
        self.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
