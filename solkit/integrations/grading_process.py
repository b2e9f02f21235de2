"""An `Evaluator` in a process of its own, which threads and forked processes may ask.

Loops fork their workers. An evaluator has threads and libraries that do not survive a fork (polars
hangs), so it lives apart, behind a socket that only its starter's processes can use. It ends with
the last of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Client as Dialled
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from solkit.core import Value
from solkit.core.codec import from_json, to_json
from solkit.errors import InputError, SolkitError, WorkerError
from solkit.integrations.candidates import source_text
from solkit.integrations.client import grade_from_json
from solkit.integrations.grading import Graded

LIMIT_S = 270.0
"""Seconds that a grade may take: less than the 300 that OpenEvolve waits by default."""

_READY = b"ready\n"


@dataclass(frozen=True)
class GradingTarget:
    """Task and place for which candidates are graded.

    Attributes:
        problem: the file with the reference.
        shape: sizes to override, as canonical JSON.
        device: the target; by default the GPU of this machine, else an H100.
        recorded: a store whose rows answer instead of a GPU: its folder, or a shipped set's name.
        url: a `solkit serve` that grades instead of this process; it has its own device.
        search: a name; the service holds candidates of one search against its best.
        budget_s: GPU seconds, at the most.
        limit_s: seconds after which a grade is given up.

    Raises:
        InputError: the problem cannot be read, the shape is no JSON object, or options exclude
            each other.
    """

    problem: str
    shape: str = "{}"
    device: str | None = None
    recorded: str | None = None
    url: str | None = None
    search: str = ""
    budget_s: float | None = None
    limit_s: float = LIMIT_S

    def __post_init__(self) -> None:
        source_text(self.problem)
        _ = self.sizes
        own = (self.recorded, self.device, self.budget_s)
        if self.url is not None and any(value is not None for value in own):
            raise InputError("url: the service has its own device, recording and budget")

    @property
    def sizes(self) -> dict[str, Value]:
        """The shape.

        Raises:
            InputError: it is no JSON object.
        """
        try:
            sizes = json.loads(self.shape)
        except ValueError as error:
            raise InputError(f"shape {self.shape!r} is no JSON: {error}") from error
        if not isinstance(sizes, dict):
            raise InputError(f"shape is {self.shape!r}; expected a JSON object")
        return sizes


@dataclass(frozen=True)
class _Started:
    """A running process.

    Attributes:
        process: it ends when every copy of its standard input is closed.
        folder: of its socket.
        key: who knows it may ask.
    """

    process: subprocess.Popen[bytes]
    folder: str
    key: bytes

    @property
    def address(self) -> str:
        """Socket of the process."""
        return _socket_address(self.folder)


class GradingProcess:
    """Starts the process at the first question.

    Args:
        where: what candidates are graded for.
    """

    def __init__(self, where: GradingTarget) -> None:
        self._where = where
        self._started: _Started | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._serve_in_fork)

    def grade(self, source: str, stage: str) -> Graded:
        """Return the grade of a text, at a stage: ``"1"``, ``"2"`` or ``"both"``.

        Raises:
            WorkerError: the process failed, or did not answer in time.
        """
        started = self._running_process()
        try:
            with Dialled(started.address, "AF_UNIX", authkey=started.key) as connection:
                return self._ask_process(connection, {"source": source, "stage": stage})
        except (OSError, EOFError) as error:
            self._forget_process(started)
            raise WorkerError(f"the grading process is gone: {error!r}") from error

    def close(self) -> None:
        """End the process."""
        with self._lock:
            started, self._started = self._started, None
        if started is not None:
            _end_process(started)

    def _ask_process(self, connection: Connection, question: Mapping[str, str]) -> Graded:
        connection.send_bytes(json.dumps(question).encode())
        if not connection.poll(self._where.limit_s):
            raise WorkerError(f"no grade within {self._where.limit_s:.0f} s")
        answer = json.loads(connection.recv_bytes())
        if "error" in answer:
            raise WorkerError(answer["error"])
        return grade_from_json(answer)

    def _running_process(self) -> _Started:
        with self._lock:
            if self._started is None:
                self._started = _start_process(self._where)
            return self._started

    def _forget_process(self, started: _Started) -> None:
        """Start another process at the next question."""
        with self._lock:
            if self._started is started:
                self._started = None

    def _serve_in_fork(self) -> None:
        """Serve in a forked process: the parent's process serves on; its threads are not here."""
        self._lock = threading.Lock()


def _start_process(where: GradingTarget) -> _Started:
    """Start a process.

    Raises:
        WorkerError: it ends at once.
    """
    folder, key = tempfile.mkdtemp(prefix="solkit-grading-"), secrets.token_bytes(32)
    process = subprocess.Popen(
        [sys.executable, "-m", "solkit.integrations.grading_process", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    setup = {"key": key.hex(), "where": to_json(where)}
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(setup).encode() + b"\n")
        process.stdin.flush()
    if process.stdout.readline() != _READY:
        process.communicate()  # it ends with its input
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkerError(f"the grading process ended with status {process.returncode}")
    return _Started(process, folder, key)


def _end_process(started: _Started) -> None:
    process = started.process
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(ChildProcessError, subprocess.TimeoutExpired):
        process.wait(10)  # a fork has no such child, and it may keep the process running
    if not Path(started.address).exists():
        shutil.rmtree(started.folder, ignore_errors=True)


def _socket_address(folder: str) -> str:
    return os.path.join(folder, "socket")  # noqa: PTH118 - a socket's address is text


# ------------------------------------------------------------------------- within the process


class _GradingServer:
    """Answers questions; the evaluator is opened for the first, and tried again if that fails."""

    def __init__(self, where: GradingTarget) -> None:
        self._where, self._lock = where, threading.Lock()
        self._stack = contextlib.ExitStack()
        self._evaluator: Any = None

    def close(self) -> None:
        """End the evaluator's processes."""
        with self._lock:
            self._stack.close()

    def answer(self, connection: Connection) -> None:
        """Answer one question."""
        with connection, contextlib.suppress(OSError, EOFError):
            question = json.loads(connection.recv_bytes())
            try:
                answer = to_json(self._grade_source(question["source"], question["stage"]))
            except Exception as error:  # it is the asker who must know
                if not isinstance(error, SolkitError):
                    traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            connection.send_bytes(json.dumps(answer).encode())

    def _grade_source(self, source: str, stage: str) -> Graded:
        with self._lock:
            if self._evaluator is None:
                self._evaluator = self._stack.enter_context(_open_evaluator(self._where))
        doing = {"1": self._evaluator.stage1, "2": self._evaluator.stage2}
        graded: Graded = doing.get(stage, self._evaluator.evaluate)(source)
        return graded


def _open_evaluator(where: GradingTarget) -> Any:
    """Return the evaluator."""
    from solkit.datasets.store import shipped
    from solkit.integrations.evaluator import Evaluator

    if where.recorded is None:
        return Evaluator(where.problem, where.device, shape=where.sizes, budget_s=where.budget_s)
    recording = Path(where.recorded)
    return Evaluator.recorded(
        recording if recording.is_dir() else shipped(where.recorded).folder,
        where.problem,
        shape=where.sizes,
        device=where.device,
        budget_s=where.budget_s,
    )


def _serve_questions(listener: Listener, desk: _GradingServer) -> None:
    """Answer whoever knows the key, each in a thread."""
    while True:
        try:
            connection = listener.accept()
        except Exception:  # a stranger, or who asked is gone
            continue
        threading.Thread(target=desk.answer, args=(connection,), daemon=True).start()


def main() -> None:
    """Serve until standard input ends."""
    folder, setup = sys.argv[1], json.loads(sys.stdin.buffer.readline())
    desk, key = (
        _GradingServer(from_json(GradingTarget, setup["where"])),
        bytes.fromhex(setup["key"]),
    )
    try:
        with Listener(_socket_address(folder), "AF_UNIX", backlog=64, authkey=key) as listener:
            threading.Thread(target=_serve_questions, args=(listener, desk), daemon=True).start()
            os.write(1, _READY)
            os.dup2(2, 1)  # what candidates print must not fill a pipe that nobody reads
            sys.stdin.buffer.read()
    finally:
        desk.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
