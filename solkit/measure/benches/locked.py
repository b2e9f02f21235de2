"""One bench for several threads: each submits configurations and waits for their outcomes."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Collection
from concurrent.futures import Future, InvalidStateError

from solkit.core import Configuration, Outcome
from solkit.errors import SolkitError
from solkit.measure.benches._base import Bench


class SharedBench:
    """Gives each outcome of a bench to the thread that asked for it.

    It starts no thread: a waiting thread takes the bench's outcomes, also those of other threads,
    until one of its own arrives.

    Args:
        bench: nothing else may submit to it.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._turn = threading.Lock()
        self._queue: deque[tuple[Configuration, Future[Outcome]]] = deque()
        self._begun: dict[int, tuple[Configuration, Future[Outcome]]] = {}

    def submit(self, configuration: Configuration) -> Future[Outcome]:
        """Queue a configuration; `wait_for_first` waits for its outcome."""
        future: Future[Outcome] = Future()
        self._queue.append((configuration, future))
        return future

    def wait_for_first(self, futures: Collection[Future[Outcome]]) -> Future[Outcome]:
        """Wait until one of them is done.

        An interrupted wait (Ctrl-C, an error of the bench) withdraws all of them. Other threads
        lose nothing: their configurations are submitted again.

        Raises:
            SolkitError: as for `Bench.outcomes`.
        """
        try:
            while True:
                for future in futures:
                    if future.done():
                        return future
                with self._turn:
                    if not any(future.done() for future in futures):
                        self._measure_until_done(futures)
        except BaseException:
            self.withdraw(futures)
            raise

    def withdraw(self, futures: Collection[Future[Outcome]]) -> None:
        """Drop these, unless they are being measured."""
        for future in futures:
            future.cancel()

    def _measure_until_done(self, futures: Collection[Future[Outcome]]) -> None:
        """Take outcomes until one of these is done."""
        try:
            self._submit_waiting()
            for configuration, outcome in self.bench.outcomes():
                _, future = self._begun.pop(id(configuration))
                with contextlib.suppress(InvalidStateError):  # withdrawn meanwhile
                    future.set_result(outcome)
                if any(future.done() for future in futures):
                    return
                self._submit_waiting()
        except BaseException:
            self.bench.discard()
            others = [pair for pair in self._begun.values() if pair[1] not in futures]
            self._queue.extendleft(reversed(others))
            self._begun.clear()
            raise

    def _submit_waiting(self) -> None:
        """Submit as many configurations as keep the bench busy."""
        while self._queue and len(self._begun) < self.bench.capacity:
            configuration, future = self._queue.popleft()
            if future.cancelled():
                continue
            try:
                self.bench.submit([configuration])
            except SolkitError as error:  # e.g. it is not recorded
                with contextlib.suppress(InvalidStateError):  # withdrawn meanwhile
                    future.set_exception(error)
            else:
                self._begun[id(configuration)] = configuration, future
