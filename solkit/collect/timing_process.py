"""The process that times, from outside: started, asked, and replaced when a kernel ends it."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from solkit.collect.bench import NOTHING_CALLED, Called, Environment, Handful, Lost, Tried, serve
from solkit.core import Verdict
from solkit.errors import WorkerError

__all__ = ["LostError", "TimingProcess"]

_START_S = 180.0
_LIMIT_S = 60.0
_GONE_S = 10.0  # from its last word to its exit code: the driver has much to clear away
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


@dataclass
class _Started:
    """A process, and the two ways to it."""

    process: BaseProcess
    connection: Connection
    called: Called


class TimingProcess:
    """One that is there whenever it is asked, and a spare one, as another takes 10 s to start.

    Args:
        uuid: of the GPU.
        environment: its environment variables, beside this process's.
        limit_s: for a call, and for all that follows the last one; then it is killed.
    """

    def __init__(
        self, uuid: str, environment: Mapping[str, str], limit_s: float = _LIMIT_S
    ) -> None:
        self._uuid, self._environment, self._limit_s = uuid, dict(environment), limit_s
        self._now: _Started | None = None
        self._spare: _Started | None = None
        self._asked = 0  # of configurations, since it started

    def __enter__(self) -> TimingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._now, self._spare):
            _end(each, patience_s=0.0)
        self._now = self._spare = None

    def start(self) -> Environment:
        """Start it anew, and hear what it runs on.

        Raises:
            WorkerError: it ended, or said nothing for a while.
        """
        _end(self._now)
        self._now, self._spare = self._spare or self._begun(), None
        self._asked = 0
        told = self._heard(_START_S)
        if not isinstance(told, Environment):
            code = _end(self._now)
            self._now = None
            raise WorkerError(f"the process that times did not start (exit code {code})")
        self._spare = self._begun()
        return told

    def _begun(self) -> _Started:
        spawned = multiprocessing.get_context("spawn")
        connection, other = spawned.Pipe()
        called: Called = spawned.RawArray("q", [NOTHING_CALLED, 0])
        given = other, called, self._uuid, self._environment
        process = spawned.Process(target=serve, args=given, daemon=True)
        process.start()
        other.close()
        return _Started(process, connection, called)

    def tried(self, handful: Handful) -> list[Tried]:
        """What became of each configuration.

        Where the process ended before any was called, none is measured: it was no fault of theirs.

        Raises:
            LostError: one of them ended the process; ask again without it.
            WorkerError: the process cannot be started.
        """
        if self._now is None or not self._now.process.is_alive() or self._asked > _MOST_ASKED:
            self.start()
        assert self._now is not None
        self._asked += len(handful.choices)
        called = self._now.called
        called[0] = NOTHING_CALLED
        told = self._answer(handful)
        if isinstance(told, list):
            return told
        ended = self._lost(told)
        if called[0] == NOTHING_CALLED:
            return [replace(ended, verdict=Verdict.NOT_MEASURED)] * len(handful.choices)
        raise LostError(called[0], ended)

    def _answer(self, handful: Handful) -> object:
        """What is said of a handful, as `_heard` has it."""
        assert self._now is not None
        try:
            self._now.connection.send(handful)
        except OSError:  # it died since it was last seen alive
            return EOFError
        return self._heard(self._limit_s)

    def _lost(self, told: object) -> Tried:
        """What ended it, where it could still say so and where it could not.

        What kills it from outside, as the system does where memory is short, is no configuration's
        fault.
        """
        assert self._now is not None
        if told is EOFError:
            self._now.process.join(_GONE_S)
        was_killed = self._now.process.exitcode == -signal.SIGKILL  # not by us, as yet
        code, self._now = _end(self._now), None
        if isinstance(told, Lost):
            return told.tried
        if told is TimeoutError:
            return Tried(Verdict.TIMED_OUT, f"killed after {self._limit_s:g} s")
        verdict = Verdict.NOT_MEASURED if was_killed else Verdict.CRASHED
        return Tried(verdict, f"it ended its process (exit code {code})")

    def _heard(self, limit_s: float) -> object:
        """The next message; ``TimeoutError`` where none came, ``EOFError`` where it is gone."""
        assert self._now is not None
        connection, called = self._now.connection, self._now.called
        calls, deadline = called[1], time.monotonic() + limit_s
        try:
            while not connection.poll(min(_LOOK_S, limit_s)):
                if called[1] != calls:
                    calls, deadline = called[1], time.monotonic() + limit_s
                elif time.monotonic() >= deadline:
                    return TimeoutError
            return connection.recv()
        except (EOFError, OSError):
            return EOFError


def _end(started: _Started | None, patience_s: float = 0.5) -> int | None:
    """Kill a process; its exit code. It may be about to end on its own, with one that says why."""
    if started is None:
        return None
    started.process.join(patience_s)
    started.process.kill()
    started.process.join()
    started.connection.close()
    return started.process.exitcode
