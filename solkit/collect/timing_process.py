"""The process that times, from outside: started, asked, and replaced when a kernel ends it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from solkit.collect.bench import NOTHING_CALLED, Called, Environment, Handful, Lost, Tried, serve
from solkit.core import Verdict
from solkit.errors import WorkerError

__all__ = ["LostError", "TimingProcess"]

_START_S = 180.0
_LIMIT_S = 60.0
_LOOK_S = 0.5  # how often it is looked whether something else was called meanwhile
_MOST_ASKED = 10_000  # Triton unloads nothing, and keeps some 150 kB of each kernel


class LostError(Exception):
    """The process is gone, and which configuration of the handful it was that ended it.

    Attributes:
        number: of the configuration.
        tried: what is told of it.
    """

    def __init__(self, number: int, tried: Tried) -> None:
        self.number, self.tried = number, tried
        super().__init__(number, tried)


class TimingProcess:
    """One that is there whenever it is asked.

    Args:
        uuid: of the GPU.
        environment: its environment variables, beside this process's.
        limit_s: for a call, and for all that follows the last one; then it is killed.
    """

    def __init__(
        self, uuid: str, environment: Mapping[str, str], limit_s: float = _LIMIT_S
    ) -> None:
        self._uuid, self._environment, self._limit_s = uuid, dict(environment), limit_s
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._called: Called = []
        self._asked = 0  # of configurations, since it started

    def __enter__(self) -> TimingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self) -> Environment:
        """Start it if it does not run, and hear what it runs on.

        Raises:
            WorkerError: it ended, or said nothing for a while.
        """
        self._asked = 0
        spawned = multiprocessing.get_context("spawn")
        self._connection, other = spawned.Pipe()
        self._called = spawned.RawArray("q", [NOTHING_CALLED, 0])
        given = other, self._called, self._uuid, self._environment
        self._process = spawned.Process(target=serve, args=given, daemon=True)
        self._process.start()
        other.close()
        told = self._heard(_START_S)
        if not isinstance(told, Environment):
            code = self._end()
            raise WorkerError(f"the process that times did not start (exit code {code})")
        return told

    def tried(self, handful: Handful) -> list[Tried]:
        """What became of each configuration.

        Where the process ended before any was called, all failed alike: it was the problem.

        Raises:
            LostError: one of them ended the process; ask again without it.
            WorkerError: the process cannot be started.
        """
        if self._process is None or not self._process.is_alive() or self._asked > _MOST_ASKED:
            self._end()
            self.start()
        assert self._connection is not None
        self._asked += len(handful.choices)
        self._called[0] = NOTHING_CALLED
        self._connection.send(handful)
        told = self._heard(self._limit_s)
        if isinstance(told, list):
            return told
        ended = self._lost(told)
        if self._called[0] == NOTHING_CALLED:
            return [ended] * len(handful.choices)
        raise LostError(self._called[0], ended)

    def _lost(self, told: object) -> Tried:
        """What ended it, where it could still say so and where it could not."""
        if isinstance(told, Lost):
            self._end()
            return told.tried
        hung = told is TimeoutError
        ended = self._end()
        if hung:
            return Tried(Verdict.TIMED_OUT, f"killed after {self._limit_s:g} s")
        return Tried(Verdict.CRASHED, f"it ended its process (exit code {ended})")

    def _heard(self, limit_s: float) -> object:
        """The next message; ``TimeoutError`` where none came, ``EOFError`` where it is gone."""
        assert self._connection is not None
        calls, deadline = self._called[1], time.monotonic() + limit_s
        try:
            while not self._connection.poll(min(_LOOK_S, limit_s)):
                if self._called[1] != calls:
                    calls, deadline = self._called[1], time.monotonic() + limit_s
                elif time.monotonic() >= deadline:
                    return TimeoutError
            return self._connection.recv()
        except (EOFError, OSError):
            return EOFError

    def _end(self) -> int | None:
        """Kill it; its exit code."""
        if self._process is None or self._connection is None:
            return None
        self._process.join(0.5)  # it may be about to end on its own
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        self._connection.close()
        self._process = self._connection = None
        return code
