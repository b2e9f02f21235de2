"""The referee's side of the candidate's process: requests to it, and its answers.

The form of each answer is checked before it is used. Its content remains a claim.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

import solkit.errors
from solkit.core import KernelAnalysis, Value, Verdict
from solkit.core.codec import from_json, to_json
from solkit.core.tuned import TunerChoice
from solkit.errors import SolkitError, WorkerError
from solkit.measure.anti_cheating import Finding
from solkit.measure.checking.faults import CandidateError
from solkit.measure.guarded.messages import TUNING, TUNING_S
from solkit.measure.guarded.sharing import Block, Packed, offsets_of
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.processes.channel import Channel, ClosedError, NonsenseError

T = TypeVar("T")

Say = Callable[[str], None]
"""Receives the current step, so that it is known if a process dies."""

_FAILURES = {Verdict.CRASHED, Verdict.DOES_NOT_COMPILE, Verdict.OUT_OF_MEMORY}
_MOST_OUTPUTS = 10_000
_MOST_SAMPLES = 1_000_000
_MOST_CHOICES = 1000
_MOST_TEXT = 4000


class CandidateDiedError(Exception):
    """The candidate's process ended at a step; its parent knows how. `place` is its number."""

    def __init__(self, doing: str, place: int = 0) -> None:
        self.doing, self.place = doing, place
        super().__init__(doing, place)


@dataclass(frozen=True)
class Form:
    """The form of an output, as the candidate's process reports it."""

    shape: tuple[int, ...]  # of the tensor
    dtype: torch.dtype
    device: str
    is_input: bool  # whether it lies in the memory of the inputs

    @property
    def size(self) -> int:
        """Bytes of the output."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Look:
    """Report of the candidate's process after calls."""

    outputs: tuple[Form, ...]  # of the last call
    findings: tuple[Finding, ...]  # the guard's


class Remote:
    """The candidate's process. The time limit counts from `spent_s` before construction on.

    Any request raises `CandidateError` if the candidate fails or all requests together take over
    `limit_s`, and `CandidateDiedError` if its process ends. Calls in which an autotuner times its
    list do not count, up to `TUNING_S` seconds.
    """

    def __init__(self, channel: Channel, limit_s: float, say: Say, spent_s: float = 0.0) -> None:
        self._channel, self._limit_s, self._say = channel, limit_s, say
        self._deadline_s = time.monotonic() + limit_s - spent_s
        self._tuning_left_s, self._tuned_s, self._listed = TUNING_S, 0.0, 0

    def wait_until_ready(self) -> None:
        """Wait for a process that was just started.

        Raises:
            WorkerError: it did not start.
        """
        try:
            self._channel.receive(self.remaining_s)
        except (TimeoutError, ClosedError, NonsenseError) as error:
            raise WorkerError("the candidate's process did not start") from error

    def adopt(self, surroundings: Mapping[str, Any]) -> None:
        """Have it belong to another caller; see `solkit.processes.forkserver`."""
        self._send_request("adopt", "taking over a process", surroundings=dict(surroundings))

    def load(
        self,
        path: str,
        reference: str | None,
        device: str,
        *,
        tf32: bool = False,
        tuned: Sequence[TunerChoice] = (),
    ) -> None:
        """Import the candidate, whose convolutions may round to tf32 or not.

        Its autotuners keep what they chose in an earlier process (`tuned`).

        Raises:
            SolkitError: the file is at fault. (So for `bind`.)
        """
        what = "loading the kernel file"
        arguments: dict[str, Any] = {
            "path": path,
            "reference": reference,
            "device": device,
            "tf32": tf32,
        }
        self._send_request("load", what, **arguments, tuned=[to_json(choice) for choice in tuned])

    def tuned(self) -> tuple[TunerChoice, ...]:
        """Return what its autotuners have chosen, as it reports."""
        return self._send_request("tuned", "looking at the candidate", _read_choices)

    def tuning_compiled_s(self) -> float:
        """Return what compiling took while autotuners timed lists: at most what that took."""
        if not self._tuned_s:
            return 0.0
        told_s = self._send_request("compiled_s", "looking at the candidate", float)
        return min(told_s, self._tuned_s) if told_s > 0.0 else 0.0  # NaN is not

    def bind(self, shape: Mapping[str, Value], params: Mapping[str, Value]) -> None:
        """Prepare it for a shape."""
        self._send_request(
            "bind", "preparing the candidate", shape=dict(shape), params=dict(params)
        )

    def attach(self, name: str, packed: Packed, block: Block) -> None:
        """Share inputs with it under a name."""
        ticket, descriptors = block.ticket()
        files = packed.dumps(), descriptors
        self._send_request("attach", "sharing the inputs", files=files, name=name, ticket=ticket)

    def detach(self, name: str) -> None:
        """Take inputs back."""
        self._send_request("detach", "taking the inputs back", name=name)

    def run(
        self, name: str, seed: int, sizes: Sequence[int], shares: bool, guarded: bool = False
    ) -> Look:
        """Call it on inputs; see `solkit.measure.guarded.candidate`."""
        arguments: dict[str, Any] = {"sizes": list(sizes), "shares": shares, "guarded": guarded}
        return self._send_request(
            "run", "running the candidate", _read_look, name=name, seed=seed, **arguments
        )

    def look(self, guarded: bool = False) -> Look:
        """Return the state after the last call."""
        return self._send_request("look", "looking at the candidate", _read_look, guarded=guarded)

    def fetch(
        self, block: Block, forms: Sequence[Form], is_new: bool, stays: bool = True
    ) -> list[torch.Tensor]:
        """Return the last call's outputs, in memory out of the candidate's reach.

        The candidate writes them to the block, which is overwritten before, may be new to it, and
        stays for further calls or not.
        """
        ticket, descriptors = block.ticket() if is_new else (None, ())
        offsets = offsets_of([form.size for form in forms])[0]
        block.bytes_at(0, block.size).fill_(0xFF)  # NaN in every floating dtype
        block.settle()  # or this could overwrite what the candidate writes
        arguments: dict[str, Any] = {"ticket": ticket, "offsets": offsets, "stays": stays}
        self._send_request("fetch", "reading the outputs", files=(b"", descriptors), **arguments)
        return [
            block.bytes_at(offset, form.size).clone().view(form.dtype).reshape(form.shape)
            for offset, form in zip(offsets, forms, strict=True)
        ]

    def operators(self, name: str, seed: int) -> list[str]:
        """Call it once more; gives the torch operators that it reports."""
        return self._send_request(
            "operators", "running the candidate", _read_names, name=name, seed=seed
        )

    def kernels(self) -> dict[str, float]:
        """GPU milliseconds by kernel name of the last round, as it reports them."""
        return self._send_request("kernels", "reading a timer", _read_kernels)

    def launches(self, name: str, seed: int) -> tuple[KernelAnalysis, ...]:
        """Call it once more; gives the Triton launches that it reports."""
        return self._send_request(
            "launches", "running the candidate", _read_launches, name=name, seed=seed
        )

    def start(self, protocol: str, method: str) -> None:
        """Begin a round of timed calls."""
        self._send_request("start", "starting a timer", protocol=protocol, method=method)

    def capture(self, name: str, seed: int, calls_in_graph: int) -> None:
        """Have it capture a graph of calls, which `call` replays."""
        arguments: dict[str, Any] = {"seed": seed, "calls_in_graph": calls_in_graph}
        self._send_request("capture", "capturing a graph", name=name, **arguments)

    def call(self, name: str, seed: int, calls_in_graph: int, other: str | None = None) -> None:
        """Make one timed call; for a warm L2, after an untimed one on other inputs if there are."""
        arguments: dict[str, Any] = {"seed": seed, "calls_in_graph": calls_in_graph, "other": other}
        self._send_request("call", "timing", name=name, **arguments)

    def stop(self) -> list[CallTime]:
        """End the round; gives the times that it reports."""
        return self._send_request("stop", "reading a timer", _read_times)

    def repeat(self, name: str, seed: int, calls: int, behind_s: float, wait: bool = True) -> float:
        """Make calls in a row; gives the seconds until the answer, by the referee's clock."""
        arguments: dict[str, Any] = {"calls": calls, "behind_s": behind_s, "wait": wait}
        start = time.monotonic()
        self._send_request("repeat", "timing by the wall clock", name=name, seed=seed, **arguments)
        return time.monotonic() - start

    def settle(self) -> None:
        """Have it wait for launched work."""
        self._send_request("settle", "timing by the wall clock")

    def reset(self) -> int:
        """Have it forget the candidate; gives the bytes of device memory still in use."""
        return self._send_request(
            "reset", "clearing up", lambda answer: int(answer["memory_bytes"])
        )

    def _send_request(
        self,
        op: str,
        doing: str,
        read: Callable[[Any], T] = lambda answer: answer,
        files: tuple[bytes, Sequence[int]] = (b"", ()),
        **arguments: Any,
    ) -> T:
        """Return an answer, read by `read`; `files` are its payload and descriptors."""
        self._say(doing)
        message = {"op": op, "doing": doing, "given": arguments}
        try:
            self._channel.send(message, *files, self.remaining_s)
            header = self._receive_answer()
        except TimeoutError:
            error = f"{doing}: killed after {self._limit_s:g} s{self._why_late()}"
            raise CandidateError(Verdict.TIMED_OUT, (error,)) from None
        except ClosedError:
            raise CandidateDiedError(doing) from None
        except NonsenseError as error:
            raise _nonsense_error(doing, error) from error
        try:
            if "ok" in header:
                return read(header["ok"])
            failure = _read_failure(header)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _nonsense_error(doing, error) from error
        raise failure

    def _receive_answer(self) -> Any:
        """Return the answer's header; the deadline leaves out a call in which autotuners time."""
        begun_s = None
        while "tuning" in (header := self._channel.receive(self.remaining_s).header):
            if time.monotonic() > self._deadline_s:  # it may say so without an end
                raise TimeoutError
            count = header["tuning"]
            self._listed = count if isinstance(count, int) else 0
            if begun_s is None:
                begun_s = time.monotonic()
                self._deadline_s += self._tuning_left_s
                self._say(TUNING)
        if begun_s is not None:
            taken_s = time.monotonic() - begun_s
            unused_s = max(self._tuning_left_s - taken_s, 0.0)
            self._deadline_s -= unused_s
            self._tuning_left_s, self._tuned_s = unused_s, self._tuned_s + taken_s
        return header

    def _why_late(self) -> str:
        """Say that an autotuner was at work; empty if none was."""
        if not self._listed:
            return ""
        return (
            f" and {TUNING_S:g} s for its autotuner, whose list has {self._listed} configurations"
        )

    @property
    def remaining_s(self) -> float:
        """Seconds of the time limit that are left, above 0."""
        return max(self._deadline_s - time.monotonic(), 1e-3)


def _nonsense_error(doing: str, error: Exception) -> CandidateError:
    text = f"{doing}: an answer of the candidate makes no sense: {str(error)[:_MOST_TEXT]}"
    return CandidateError(Verdict.CRASHED, (text,))


def _read_failure(header: Any) -> Exception:
    if "untimed" in header:
        return ActivityError(str(header["untimed"])[:_MOST_TEXT])
    if "error" in header:
        kind = getattr(solkit.errors, header["error"])
        if not issubclass(kind, SolkitError):
            raise ValueError(f"not a SolKit error: {header['error']!r}")
        error: Exception = kind(*header["args"])
        return error
    verdict = Verdict(header["failed"])
    if verdict not in _FAILURES:
        raise ValueError(f"not a failure: {verdict.value}")
    return CandidateError(verdict, tuple(str(line)[:_MOST_TEXT] for line in header["errors"]))


def _read_launches(answer: Any) -> tuple[KernelAnalysis, ...]:
    launches = tuple(from_json(KernelAnalysis, launch) for launch in answer)
    for kernel in launches:
        for name, value in kernel.launch.constants.items():
            if isinstance(value, (list, dict)):
                raise ValueError(f"constant {name}: expected a number or a word")
    return launches


def _read_choices(answer: Any) -> tuple[TunerChoice, ...]:
    if len(answer) > _MOST_CHOICES:
        raise ValueError(f"{len(answer)} choices of autotuners")
    return tuple(from_json(TunerChoice, choice) for choice in answer)


def _read_look(answer: Any) -> Look:
    if len(answer["outputs"]) > _MOST_OUTPUTS:
        raise ValueError(f"{len(answer['outputs'])} outputs")
    findings = [
        Finding(str(f["trick"]), str(f["evidence"])[:_MOST_TEXT], bool(f["is_proof"]))
        for f in answer["findings"]
    ]
    return Look(tuple(_read_form(form) for form in answer["outputs"]), tuple(findings))


def _read_form(answer: Any) -> Form:
    dtype = getattr(torch, str(answer["dtype"]))
    shape = tuple(int(size) for size in answer["shape"])
    if not isinstance(dtype, torch.dtype) or any(size < 0 for size in shape):
        raise ValueError(f"not an output: {answer!r}")
    return Form(shape, dtype, str(answer["device"]), bool(answer["is_input"]))


def _read_names(answer: Any) -> list[str]:
    return [str(name)[:_MOST_TEXT] for name in answer]


def _read_kernels(answer: Any) -> dict[str, float]:
    return {str(name): float(ms) for name, ms in answer.items()}


def _read_times(answer: Any) -> list[CallTime]:
    if len(answer) > _MOST_SAMPLES:
        raise ValueError(f"{len(answer)} times")
    times = [
        CallTime(float(span), None if total is None else float(total)) for span, total in answer
    ]
    for taken in times:
        if not (math.isfinite(taken.span_ms) and taken.span_ms > 0):
            raise ValueError(f"a time of {taken.span_ms} ms")
    return times
