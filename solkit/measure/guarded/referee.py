"""The referee's process: answers the session's requests, one at a time.

It owns the inputs, the expected outputs, the comparison and the verdict
(`solkit.measure.guarded.examination`, `solkit.measure.timing.alternating_comparison`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Union

import torch

from solkit.core import Verdict
from solkit.errors import SolkitError, WorkerError
from solkit.measure.checking.faults import CandidateError, ContextLostError
from solkit.measure.checking.trials import TrialCache, cache_bytes, context_is_lost
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.examination import examine
from solkit.measure.guarded.messages import (
    ComparisonRequest,
    JudgedTurns,
    Judgement,
    Request,
    decode,
    encode,
)
from solkit.measure.guarded.problem_loading import Imports
from solkit.measure.guarded.remote import CandidateDiedError, Remote, Say
from solkit.measure.timing.activities import ActivityError
from solkit.measure.timing.alternating_comparison import compare_in_turns
from solkit.measure.timing.machine import machine_for, warm_up_machine
from solkit.processes.channel import Channel, ClosedError, Frame
from solkit.processes.forkserver import adopt_surroundings
from solkit.spans import Stages

_START_S = 120.0  # for the candidate's process to load torch, before its time limit counts
_RESET_S = 3.0  # less than the session's grace, or a slow one would cost the candidate its verdict
_LEFT_BYTES = 64 << 20  # of device memory; cuBLAS keeps a workspace of up to 32 MiB

_ENDED = {"lost", "lost_on"}
"""Keys of answers behind which this process cannot use its GPU."""

_Run = Callable[[Sequence[Channel], Setup], Union[Judgement, JudgedTurns]]


@dataclass
class _Process:
    """A candidate's process."""

    channel: Channel
    pid: int
    is_new: bool = True  # whether it has not reported yet that it is ready


class _Referee:
    """The state of the process; `control` is the channel to the session."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._candidates: dict[int, _Process] = {}  # by place, as in the session
        self._cache: TrialCache | None = None
        self._stage = ""
        self._spans = Stages("referee")

    def serve(self) -> None:
        """Answer until the session closes the channel."""
        threading.Thread(target=self._end_with_the_session, daemon=True).start()
        with contextlib.suppress(ClosedError):
            while True:
                frame = self._control.receive()
                if "candidate" in frame.header:
                    self._take_candidate(frame)
                elif "ping" in frame.header:
                    self._control.send({"ready": self._are_candidates_ready()})
                elif "adopt" in frame.header:
                    self._adopt_caller(frame.header["adopt"])
                else:
                    self._control.send(self._answer_request(frame.header))

    def _take_candidate(self, frame: Frame) -> None:
        place = int(frame.header["place"])
        if place in self._candidates:
            self._candidates[place].channel.close()
        channel = Channel.of(frame.descriptors[0], trusting=False)
        self._candidates[place] = _Process(channel, int(frame.header["candidate"]))

    def _are_candidates_ready(self) -> bool:
        for process in self._candidates.values():
            self._wait_until_ready(process, lambda _: None)
        return True

    def _adopt_caller(self, surroundings: dict[str, Any]) -> None:
        """Belong to another caller from now on, as does the candidate's process."""
        adopt_surroundings(**surroundings["referee"])
        for process in self._candidates.values():
            with contextlib.suppress(CandidateError, CandidateDiedError):  # the request reports it
                remote = Remote(process.channel, _RESET_S, lambda _: None)
                remote.adopt(surroundings["candidate"])

    def _answer_request(self, header: dict[str, Any]) -> dict[str, Any]:
        requests: tuple[Request, ...]
        run: _Run
        if "comparison" in header:
            comparison = decode(ComparisonRequest, header["comparison"])
            requests, run = comparison.candidates, partial(compare_in_turns, comparison)
        else:
            request = decode(Request, header["request"])
            requests, run = (request,), partial(examine, request)
        with contextlib.ExitStack() as blocks:
            blocks.callback(self._spans.begin, "")
            blocks.callback(_free_cached_memory)
            blocks.callback(Imports.now().restore)
            answer = self._answer_with(requests, run, blocks)
            if _ENDED & answer.keys():
                blocks.pop_all()  # nothing can be freed without the context, nor need it be
            return answer

    def _answer_with(
        self, requests: Sequence[Request], run: _Run, blocks: contextlib.ExitStack
    ) -> dict[str, Any]:
        """Return the answer, and the places of the processes that the session must end.

        The other processes forget their candidates, before the shared memory is closed.
        """
        places = range(len(requests))
        lost: set[int] = set()
        try:
            channels = [
                self._wait_until_ready(self._candidates[place], self._report_stage)
                for place in places
            ]
            self._stage = ""  # the time limit counts from the next stage on
            machine = machine_for(requests[0].device)
            if self._cache is None:
                self._cache = TrialCache(cache_bytes(machine.total_bytes()))
            outcome = run(channels, Setup(machine, self._report_stage, blocks, self._cache))
            answer: dict[str, Any] = {"outcome": encode(outcome)}
            culprit = outcome.failed if isinstance(outcome, JudgedTurns) else 0
            if culprit is not None and outcome.verdict in (Verdict.CHEATING, Verdict.TIMED_OUT):
                lost.add(culprit)
            dropped = set(lost)
        except CandidateDiedError as death:
            answer = {"died": death.doing, "place": death.place}
            lost, dropped = {death.place}, set()  # the session finds out how it ended
        except ContextLostError as lost_on:
            return {"lost_on": lost_on.trial}  # all processes must be replaced, this one too
        except SolkitError as error:
            answer, dropped = {"error": type(error).__name__, "args": list(error.args)}, set()
            if context_is_lost():  # by the reference: no process is of use any more
                return {**answer, "lost": True}
        except BaseException:  # the session must receive any error
            text = f"the referee's process failed:\n{traceback.format_exc()}"
            return {"error": WorkerError.__name__, "args": [text], "drop": list(places)}
        unfit = {place for place in places if place not in lost and not self._is_reusable(place)}
        return {**answer, "drop": sorted(dropped | unfit)}

    def _wait_until_ready(self, process: _Process, say: Say) -> Channel:
        if process.is_new:
            Remote(process.channel, _START_S, say).wait_until_ready()
            process.is_new = False
        return process.channel

    def _is_reusable(self, place: int) -> bool:
        remote = Remote(self._candidates[place].channel, _RESET_S, self._report_stage)
        try:
            has_room = remote.reset() <= _LEFT_BYTES
            # what it left behind (a flag, a thread, a patch) would be blamed on the next one
            return has_room and not remote.look(guarded=True).findings
        except (CandidateError, CandidateDiedError, ActivityError, SolkitError):
            return False

    def _report_stage(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._spans.begin(stage)
            self._control.send({"stage": stage})

    def _end_with_the_session(self) -> None:
        """When the session's process ends, end all processes."""
        poll = select.poll()
        poll.register(self._control, select.POLLRDHUP)
        poll.poll()
        children = list(self._candidates.values())  # the other thread may take one meanwhile
        for group in (*(child.pid for child in children), os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


def main(device: str, descriptor: int) -> None:
    """Serve on an inherited socket, then end without any exit handler."""
    faulthandler.enable()
    warm_up_machine(device, "referee")
    gc.collect()
    gc.freeze()  # collections would go through all of torch
    _Referee(Channel.of(descriptor, trusting=True)).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _free_cached_memory() -> None:
    """Leave to the next candidate what this process's allocator would keep."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
