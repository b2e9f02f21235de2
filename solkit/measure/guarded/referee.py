"""The referee's process: answers the session's requests, one at a time.

Inputs, expected outputs, comparing and the verdict are its own
(`solkit.measure.guarded.examination`,
`solkit.measure.timing.turns`).
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
from dataclasses import dataclass
from typing import Any

import torch

from solkit.core import Verdict
from solkit.errors import SolkitError, WorkerError
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.trial_cache import TrialCache
from solkit.measure.checking.trials import ContextLostError
from solkit.measure.distrust import guard
from solkit.measure.guarded.examination import examine
from solkit.measure.guarded.imports import Imports
from solkit.measure.guarded.messages import (
    ComparisonRequest,
    JudgedTurns,
    Judgement,
    Request,
    decode,
    encode,
)
from solkit.measure.guarded.remote import CandidateDiedError, Remote, prepare
from solkit.measure.timing.activities import ActivityError
from solkit.measure.timing.machine import CpuMachine, CudaMachine, Machine
from solkit.measure.timing.turns import compare
from solkit.processes.channel import Channel, ClosedError, Frame

__all__ = ["main", "warm_up"]

_START_S = 120.0  # for the candidate's process to load torch, which is no part of its time limit
_RESET_S = 10.0
_LEFT_BYTES = 64 << 20  # of device memory; cuBLAS keeps a workspace of up to 32 MiB


@dataclass
class _Process:
    """A candidate's process.

    Attributes:
        is_new: whether it has not said yet that it is ready.
    """

    channel: Channel
    pid: int
    is_new: bool = True


class _Referee:
    """The process: answers the session's requests, one at a time."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._candidates: dict[int, _Process] = {}  # by place, as the session counts
        self._machines: dict[str, Machine] = {}
        self._cache = TrialCache()
        self._stage = ""

    def serve(self) -> None:
        """Answer until the session hangs up."""
        threading.Thread(target=self._end_with_the_session, daemon=True).start()
        with contextlib.suppress(ClosedError):
            while True:
                frame = self._control.receive()
                if "candidate" in frame.header:
                    self._take(frame)
                elif "comparison" in frame.header:
                    self._control.send(
                        self._answer(decode(ComparisonRequest, frame.header["comparison"]))
                    )
                else:
                    self._control.send(self._answer(decode(Request, frame.header["request"])))

    def _take(self, frame: Frame) -> None:
        place = int(frame.header["place"])
        if place in self._candidates:
            self._candidates[place].channel.close()
        channel = Channel.of(frame.descriptors[0], trusting=False)
        self._candidates[place] = _Process(channel, int(frame.header["candidate"]))

    def _answer(self, request: Request | ComparisonRequest) -> dict[str, Any]:
        with contextlib.ExitStack() as blocks:
            blocks.callback(_give_cached_memory_back)
            blocks.callback(Imports.now().restore)
            return self._answer_with(request, blocks)

    def _answer_with(
        self, request: Request | ComparisonRequest, blocks: contextlib.ExitStack
    ) -> dict[str, Any]:
        """The answer, and whose processes the session is to end, by place.

        The others are made to forget their candidates, before the shared memory is closed.
        """
        count = len(request.candidates) if isinstance(request, ComparisonRequest) else 1
        lost: set[int] = set()
        try:
            outcome = self._outcome(request, count, blocks)
            answer: dict[str, Any] = {"outcome": encode(outcome)}
            culprit = outcome.failed if isinstance(outcome, JudgedTurns) else 0
            if culprit is not None and outcome.verdict in (Verdict.CHEATING, Verdict.TIMED_OUT):
                lost.add(culprit)
            dropped = set(lost)
        except CandidateDiedError as death:
            answer = {"died": death.doing, "place": death.place}
            lost, dropped = {death.place}, set()  # the session says how it ended
        except ContextLostError as lost_on:
            return {"lost_on": lost_on.trial}  # all processes are to be replaced, this one too
        except SolkitError as error:
            answer, dropped = {"error": type(error).__name__, "args": list(error.args)}, set()
        except BaseException:  # the session must hear of it, whatever it was
            text = f"the referee's process failed:\n{traceback.format_exc()}"
            return {"error": WorkerError.__name__, "args": [text], "drop": list(range(count))}
        left = set(range(count)) - lost
        unfit = {place for place in left if not self._is_fit_for_another(place)}
        return {**answer, "drop": sorted(dropped | unfit)}

    def _outcome(
        self, request: Request | ComparisonRequest, count: int, blocks: contextlib.ExitStack
    ) -> Judgement | JudgedTurns:
        common = request.candidates[0] if isinstance(request, ComparisonRequest) else request
        machine = self._machine(common.device)
        channels = [self._ready(self._candidates[place]) for place in range(count)]
        self._stage = ""  # the time limit counts from the next stage on
        if isinstance(request, ComparisonRequest):
            return compare(request, machine, channels, self._say, blocks, self._cache)
        return examine(request, machine, channels[0], self._say, blocks, self._cache)

    def _ready(self, process: _Process) -> Channel:
        if process.is_new:
            deadline = time.monotonic() + _START_S
            Remote(process.channel, deadline, _START_S, self._say).wait_until_ready()
            process.is_new = False
        return process.channel

    def _machine(self, device: str) -> Machine:
        if device not in self._machines:
            self._machines[device] = CpuMachine() if device == "cpu" else CudaMachine()
        return self._machines[device]

    def _is_fit_for_another(self, place: int) -> bool:
        channel = self._candidates[place].channel
        remote = Remote(channel, time.monotonic() + _RESET_S, _RESET_S, self._say)
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
        for group in (*(each.pid for each in self._candidates.values()), os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


def warm_up() -> None:
    """In the server that forks this process and the candidates': import what they need.

    Nothing here may ask torch whether there is a GPU: no fork could use CUDA any more.
    """
    importlib.import_module("solkit.measure.guarded.candidate")
    importlib.import_module("torch._dynamo")  # dispatch modes import it when they are first entered
    guard.prepare()
    prepare()


def main(descriptor: int) -> None:
    """The process: serve on an inherited socket, then end without any exit handler."""
    faulthandler.enable()
    gc.collect()
    gc.freeze()  # collections would go through all of torch
    _Referee(Channel.of(descriptor, trusting=True)).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _give_cached_memory_back() -> None:
    """What this process's allocator keeps for later would be missing to the next candidate."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
