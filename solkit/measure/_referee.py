"""The referee's process: answers the session's requests, one candidate's process at a time.

Inputs, expected outputs, comparing and the verdict are its own (`solkit.measure.examination`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any

from solkit.core import Verdict
from solkit.errors import SolkitError, WorkerError
from solkit.measure.activities import ActivityError
from solkit.measure.channel import Channel, ClosedError
from solkit.measure.examination import examine
from solkit.measure.faults import CandidateError
from solkit.measure.machine import CpuMachine, CudaMachine, Machine
from solkit.measure.messages import Request, decode, encode
from solkit.measure.remote import CandidateDiedError, Remote

__all__ = ["main", "warm_up"]

_START_S = 120.0  # for the candidate's process to load torch, which is no part of its time limit
_RESET_S = 10.0
_LEFT_BYTES = 64 << 20  # of device memory; cuBLAS keeps a workspace of up to 32 MiB


class _Referee:
    """The process: answers the session's requests, one candidate's process at a time."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._candidate: Channel | None = None
        self._candidate_pid: int | None = None
        self._is_new = False  # whether it has not said yet that it is ready
        self._machines: dict[str, Machine] = {}
        self._stage = ""

    def serve(self) -> None:
        """Answer until the session hangs up."""
        threading.Thread(target=self._end_with_the_session, daemon=True).start()
        with contextlib.suppress(ClosedError):
            while True:
                frame = self._control.receive()
                if "candidate" in frame.header:
                    self._take(int(frame.header["candidate"]), frame.descriptors[0])
                else:
                    request = decode(Request, frame.header["request"])
                    self._control.send(self._answer(request))

    def _take(self, pid: int, descriptor: int) -> None:
        if self._candidate is not None:
            self._candidate.close()
        self._candidate = Channel.of(descriptor, trusting=False)
        self._candidate_pid = pid
        self._is_new = True

    def _answer(self, request: Request) -> dict[str, Any]:
        with contextlib.ExitStack() as blocks:
            return self._answer_with(request, blocks)

    def _answer_with(self, request: Request, blocks: contextlib.ExitStack) -> dict[str, Any]:
        assert self._candidate is not None
        try:
            machine = self._machine(request.device)
            self._wait_for(self._candidate)
            outcome = examine(request, machine, self._candidate, self._say, blocks)
            answer: dict[str, Any] = {"outcome": encode(outcome)}
            if outcome.verdict in (Verdict.CHEATING, Verdict.TIMED_OUT):
                return {**answer, "keep": False}
        except CandidateDiedError as death:
            return {"died": death.doing}
        except SolkitError as error:
            answer = {"error": type(error).__name__, "args": list(error.args)}
        except BaseException:  # the session must hear of it, whatever it was
            text = f"the referee's process failed:\n{traceback.format_exc()}"
            return {"error": WorkerError.__name__, "args": [text], "keep": False}
        return {**answer, "keep": self._is_fit_for_another(self._candidate)}

    def _wait_for(self, candidate: Channel) -> None:
        if self._is_new:
            deadline = time.monotonic() + _START_S
            Remote(candidate, deadline, _START_S, self._say).wait_until_ready()
            self._is_new = False
        self._stage = ""  # the time limit counts from the next stage on

    def _machine(self, device: str) -> Machine:
        if device not in self._machines:
            self._machines[device] = CpuMachine() if device == "cpu" else CudaMachine()
        return self._machines[device]

    def _is_fit_for_another(self, candidate: Channel) -> bool:
        remote = Remote(candidate, time.monotonic() + _RESET_S, _RESET_S, self._say)
        try:
            has_room = remote.reset() <= _LEFT_BYTES
            # what it left behind (a flag, a thread, a patch) would be held against the next one
            return has_room and not remote.look(guarded=True).findings
        except (CandidateError, CandidateDiedError, ActivityError, SolkitError):
            return False

    def _say(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._control.send({"stage": stage})

    def _end_with_the_session(self) -> None:
        """Where the session's process is gone, whatever became of it, nothing may stay."""
        poll = select.poll()
        poll.register(self._control, select.POLLRDHUP)
        poll.poll()
        for group in (self._candidate_pid, os.getpid()):
            if group is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)


def warm_up() -> None:
    """In the server that forks this process and the candidate's: import what both need."""
    importlib.import_module("solkit.measure._candidate")


def main(descriptor: int) -> None:
    """The process: serve on an inherited socket, then end without any exit handler."""
    faulthandler.enable()
    gc.collect()
    gc.freeze()  # collections would go through all of torch
    _Referee(Channel.of(descriptor, trusting=True)).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
