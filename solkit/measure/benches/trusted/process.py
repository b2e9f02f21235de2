"""The timing process, from outside: start it, ask it, replace it when a kernel ends it.

It is forked from the server of the guarded bench's processes, which has torch and triton loaded: a
final after the search finds it ready. A process that `multiprocessing` spawns
would run the caller's script again unless that guards its main part: a user's program that tunes as
it runs (`solkit.compile`) need not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from solkit.core import Device, Outcome, Verdict
from solkit.errors import WorkerError
from solkit.measure.benches.trusted.timing import (
    NOTHING_CALLED,
    Called,
    Environment,
    Handful,
    Lost,
    shared_numbers,
)
from solkit.measure.guarded.processes import measuring_server
from solkit.processes.forkserver import Fork

_SERVE = "solkit.measure.benches.trusted.timing:serve_descriptors"
_START_S = 180.0
_LIMIT_S = 60.0
_GONE_S = 10.0  # from its last message to its exit code: the driver has much to free
_LOOK_S = 0.5  # between two checks of which configuration was called last
_MOST_ASKED = 10_000  # Triton unloads nothing and keeps some 150 kB per kernel


class LostError(Exception):
    """A configuration ended the process: its number in the handful, and its outcome."""

    def __init__(self, number: int, outcome: Outcome) -> None:
        self.number, self.outcome = number, outcome
        super().__init__(number, outcome)


@dataclass
class _Started:
    """A process, and the connections to it."""

    process: Fork
    connection: Connection
    called: Called


class TimingProcess:
    """A process that is always ready, and a spare one: starting one takes seconds.

    `load` starts what forks them, without the GPU, for a caller that has other things to wait for.
    A process is killed if one call, or everything after the last call, takes over `limit_s`.
    `environment` holds additional variables.
    """

    def __init__(
        self, device: Device, environment: Mapping[str, str], limit_s: float = _LIMIT_S
    ) -> None:
        self._device, self._environment, self._limit_s = device, dict(environment), limit_s
        self._now: _Started | None = None
        self._spare: _Started | None = None
        self._asked = 0  # configurations since it started

    def close(self) -> None:
        """End all; the next `start` starts anew.

        Raises:
            WorkerError: a process outlived being killed; the others are gone all the same.
        """
        processes = self._now, self._spare
        self._now = self._spare = None
        with contextlib.ExitStack() as stack:
            for process in processes:
                stack.callback(_kill_process, process, patience_s=0.0)

    def end(self) -> None:
        """End the one that times; the spare takes its place."""
        _kill_process(self._now, patience_s=0.0)
        self._now = None

    def load(self) -> None:
        """Begin to load torch and Triton; nothing takes the GPU until `start`."""
        measuring_server.start()

    def start(self) -> Environment:
        """Start a new one; gives its environment.

        Raises:
            WorkerError: it ended, or did not answer in time.
        """
        _kill_process(self._now)
        spare, self._spare = self._spare, None
        if spare is not None and not spare.process.is_alive:  # memory was short, say
            _kill_process(spare)
            spare = None
        self._now = spare or self._spawn_process()
        self._asked = 0
        answer = self._receive_message(_START_S)
        if not isinstance(answer, Environment):
            code = _kill_process(self._now)
            self._now = None
            raise WorkerError(f"the timing process did not start (exit code {code})")
        self._spare = self._spawn_process()
        return answer

    def _spawn_process(self) -> _Started:
        connection, other = Pipe()
        with other, _shared_file() as (shared, called):
            process = measuring_server.fork(
                _SERVE,
                (self._device, self._environment),
                env={**os.environ, **self._environment},
                descriptors=(other.fileno(), shared),
            )
        return _Started(process, connection, called)

    def outcomes(self, handful: Handful) -> list[Outcome]:
        """Return the outcome of each configuration.

        If the process ended before any call, none is measured: they are not at fault.

        Raises:
            LostError: one of them ended the process; ask again without it.
            WorkerError: the process cannot be started.
        """
        try:
            if self._now is None or not self._now.process.is_alive or self._asked > _MOST_ASKED:
                self.start()
            assert self._now is not None
            self._asked += len(handful.drafts)
            called = self._now.called
            called[0] = NOTHING_CALLED
            answer = self._request_answer(handful)
        except BaseException:  # Ctrl-C: a late answer would be taken for the next handful's
            self.end()
            raise
        if isinstance(answer, list):
            return answer
        verdict, message = self._end_process(answer)
        if called[0] == NOTHING_CALLED:
            unmeasured = Verdict.NOT_MEASURED
            return [replace(d, verdict=unmeasured, message=message) for d in handful.drafts]
        if isinstance(answer, Lost):
            raise LostError(called[0], answer.outcome)
        draft = handful.drafts[called[0]]
        raise LostError(called[0], replace(draft, verdict=verdict, message=message))

    def load_file(self, path: str, reference: str | None) -> None:
        """Load a kernel file, which may import a package for seconds.

        What fails here, the first handful meets and reports.

        Args:
            path: the kernel file.
            reference: the file with the reference, if `path` has none.

        Raises:
            WorkerError: the process cannot be started.
        """
        self.outcomes(Handful(path, reference, {}, ()))

    def _request_answer(self, handful: Handful) -> object:
        """Return the answer to a handful, as `_receive_message` has it."""
        assert self._now is not None
        try:
            self._now.connection.send(handful)
        except OSError:  # it died meanwhile
            return EOFError
        return self._receive_message(self._limit_s)

    def _end_process(self, answer: object) -> tuple[Verdict, str]:
        """End the process; gives the verdict and the reason.

        If something outside killed it, as the system does when memory is short, no configuration is
        at fault.
        """
        assert self._now is not None
        if answer is EOFError:
            self._now.process.wait(_GONE_S)
        was_killed = self._now.process.wait(0.0) == -signal.SIGKILL  # not by us, as yet
        code, self._now = _kill_process(self._now), None
        if answer is TimeoutError:
            return Verdict.TIMED_OUT, f"killed after {self._limit_s:g} s"
        verdict = Verdict.NOT_MEASURED if was_killed else Verdict.CRASHED
        return verdict, f"it ended its process (exit code {code})"

    def _receive_message(self, limit_s: float) -> object:
        """Receive a message; ``TimeoutError`` if none came, ``EOFError`` if the process is gone."""
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


def _kill_process(started: _Started | None, patience_s: float = 0.5) -> int | None:
    """Kill a process, unless it is just ending on its own; gives its exit code."""
    if started is None:
        return None
    try:
        return started.process.end(patience_s)
    finally:
        started.connection.close()


@contextlib.contextmanager
def _shared_file() -> Iterator[tuple[int, Called]]:
    """Yield a file for another process to map, and its memory, which outlives the block."""
    file = os.memfd_create("solkit-called")
    try:
        called = shared_numbers(file)
        called[0] = NOTHING_CALLED
        yield file, called
    finally:
        os.close(file)
