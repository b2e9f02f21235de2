"""The referee's side of the candidate's process: what may be asked of it, and reading its answers.

Each answer is checked for its form before it is used; it remains a claim.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

import solkit.errors
from solkit.core import KernelAnalysis, Value, Verdict
from solkit.errors import SolkitError, WorkerError
from solkit.measure.checking.faults import CandidateError
from solkit.measure.distrust.findings import Finding
from solkit.measure.guarded.sharing import Block, Packed
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.processes.channel import Channel, ClosedError, NonsenseError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["CandidateDiedError", "Form", "Look", "Remote", "prepare"]

T = TypeVar("T")

_FAILURES = {Verdict.CRASHED, Verdict.DOES_NOT_COMPILE, Verdict.OUT_OF_MEMORY}
_ALIGNMENT = 512  # bytes between outputs, so that each can be viewed as its dtype
_MOST_OUTPUTS = 10_000
_MOST_SAMPLES = 1_000_000
_MOST_TEXT = 4000


class CandidateDiedError(Exception):
    """The candidate's process ended; how it ended is for its parent to say.

    Args:
        doing: what it was at.
        place: which of the candidates' processes, where there are several.
    """

    def __init__(self, doing: str, place: int = 0) -> None:
        self.doing, self.place = doing, place
        super().__init__(doing, place)


@dataclass(frozen=True)
class Form:
    """What an output looks like, as the candidate's process tells.

    Attributes:
        shape, dtype, device: as of any tensor.
        kind: the class's full name.
        is_input: whether it lies in the memory of the inputs.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    kind: str
    is_input: bool

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Look:
    """What the candidate's process tells after calls.

    Attributes:
        outputs: of the last call.
        findings: the guard's.
    """

    outputs: tuple[Form, ...]
    findings: tuple[Finding, ...]


class Remote:
    """The candidate's process.

    Args:
        channel: to it.
        deadline: when to give up on it, on `time.monotonic`'s clock.
        limit_s: the time limit that the deadline comes from.
        say: told what it is asked to do.
    """

    def __init__(
        self, channel: Channel, deadline: float, limit_s: float, say: Callable[[str], None]
    ) -> None:
        self._channel, self._deadline, self._limit_s = channel, deadline, limit_s
        self._say = say

    def wait_until_ready(self) -> None:
        """Wait for a process that was just started.

        Raises:
            WorkerError: it did not start.
        """
        try:
            self._channel.receive(self._left())
        except (TimeoutError, ClosedError, NonsenseError) as error:
            raise WorkerError("the candidate's process did not start") from error

    def load(self, path: str, reference: str | None, device: str) -> None:
        """Import the candidate.

        Raises:
            SolkitError: the file is at fault. (So for `bind`.)
            CandidateError: the candidate failed, or took too long. (So for all.)
            CandidateDiedError: its process ended. (So for all.)
        """
        given = {"path": path, "reference": reference, "device": device}
        self._ask("load", "loading the kernel file", given)

    def bind(self, shape: Mapping[str, Value], params: Mapping[str, Value]) -> None:
        """Prepare it for a shape."""
        given = {"shape": dict(shape), "params": dict(params)}
        self._ask("bind", "preparing the candidate", given)

    def attach(self, name: str, packed: Packed, block: Block) -> None:
        """Share inputs with it under a name."""
        ticket, descriptors = block.ticket()
        given = {"name": name, "ticket": ticket}
        self._ask("attach", "sharing the inputs", given, packed.dumps(), descriptors)

    def detach(self, name: str) -> None:
        """Have it let go of inputs."""
        self._ask("detach", "taking the inputs back", {"name": name})

    def run(
        self, name: str, seed: int, sizes: Sequence[int], shares: bool, guarded: bool = False
    ) -> Look:
        """Call it on inputs; see `solkit.measure.guarded.candidate`."""
        doing = "running the candidate"
        given = {"name": name, "seed": seed, "sizes": list(sizes), "shares": shares}
        return self._read(_look, self._ask("run", doing, {**given, "guarded": guarded}), doing)

    def look(self, guarded: bool = False) -> Look:
        """What the last call left."""
        doing = "looking at the candidate"
        return self._read(_look, self._ask("look", doing, {"guarded": guarded}), doing)

    def fetch(self, block: Block, forms: Sequence[Form], is_new: bool) -> list[torch.Tensor]:
        """The last call's outputs, in memory that the candidate does not reach.

        Args:
            block: where it puts them; spoilt before.
            forms: what they look like.
            is_new: whether it does not know the block yet.
        """
        ticket, descriptors = block.ticket()
        offsets = offsets_of([form.size for form in forms])[0]
        block.at(0, block.size).fill_(0xFF)  # NaN in every floating dtype
        block.settle()  # or it might spoil what the candidate writes
        given = {"ticket": ticket if is_new else None, "offsets": offsets}
        self._ask("fetch", "reading the outputs", given, b"", descriptors if is_new else ())
        return [
            block.at(offset, form.size).clone().view(form.dtype).reshape(form.shape)
            for offset, form in zip(offsets, forms, strict=True)
        ]

    def operators(self, name: str, seed: int) -> list[str]:
        """Call it once more; torch's operators that it says it called."""
        doing = "running the candidate"
        told = self._ask("operators", doing, {"name": name, "seed": seed})
        return self._read(lambda names: [str(n)[:_MOST_TEXT] for n in names], told, doing)

    def kernels(self) -> dict[str, float]:
        """What it says ran on the GPU in the last round, and how long in milliseconds."""
        doing = "reading a timer"
        told = self._ask("kernels", doing, {})
        return self._read(lambda k: {str(n): float(ms) for n, ms in k.items()}, told, doing)

    def launches(self, name: str, seed: int) -> tuple[KernelAnalysis, ...]:
        """Call it once more; the Triton launches that it says it made."""
        doing = "running the candidate"
        told = self._ask("launches", doing, {"name": name, "seed": seed})
        return self._read(_launches().validate_python, told, doing)

    def start(self, protocol: str, method: str) -> None:
        """Begin a round of timed calls."""
        self._ask("start", "starting a timer", {"protocol": protocol, "method": method})

    def call(self, name: str, seed: int, calls_in_graph: int) -> None:
        """Make one timed call."""
        given = {"name": name, "seed": seed, "calls_in_graph": calls_in_graph}
        self._ask("call", "timing", given)

    def stop(self) -> list[CallTime]:
        """End the round; the times that it tells."""
        doing = "reading a timer"
        return self._read(_times, self._ask("stop", doing, {}), doing)

    def repeat(self, name: str, seed: int, calls: int, behind_s: float, wait: bool = True) -> float:
        """Make that many calls in a row; seconds from asking to the answer, by this clock."""
        given = {"name": name, "seed": seed, "calls": calls, "behind_s": behind_s, "wait": wait}
        start = time.monotonic()
        self._ask("repeat", "timing by the wall clock", given)
        return time.monotonic() - start

    def settle(self) -> None:
        """Have it wait for what it launched."""
        self._ask("settle", "timing by the wall clock", {})

    def reset(self) -> int:
        """Have it forget the candidate; bytes of device memory that are still in use."""
        doing = "clearing up"
        return self._read(lambda told: int(told["memory_bytes"]), self._ask("reset", doing, {}), "")

    # --------------------------------------------------------------------------------- frames

    def _ask(
        self,
        op: str,
        doing: str,
        given: Mapping[str, Any],
        payload: bytes = b"",
        descriptors: Sequence[int] = (),
    ) -> Any:
        self._say(doing)
        message = {"op": op, "doing": doing, "given": given}
        try:
            self._channel.send(message, payload, descriptors, self._left())
            header = self._channel.receive(self._left()).header
        except TimeoutError:
            error = f"{doing}: killed after {self._limit_s:g} s"
            raise CandidateError(Verdict.TIMED_OUT, (error,)) from None
        except ClosedError:
            raise CandidateDiedError(doing) from None
        except NonsenseError as error:
            raise _nonsense(doing, error) from error
        if "ok" in header:
            return header["ok"]
        raise self._read(_failure, header, doing)

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 1e-3)

    def _read(self, read: Callable[[Any], T], told: Any, doing: str) -> T:
        try:
            return read(told)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _nonsense(doing, error) from error


def offsets_of(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where things of these sizes lie one behind the other, and how much that takes."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def _nonsense(doing: str, error: Exception) -> CandidateError:
    text = str(error)[:_MOST_TEXT]
    return CandidateError(
        Verdict.CRASHED, (f"{doing}: the candidate's process answered nonsense: {text}",)
    )


def _failure(header: Any) -> Exception:
    if "untimed" in header:
        return ActivityError(str(header["untimed"])[:_MOST_TEXT])
    if "error" in header:
        kind = getattr(solkit.errors, header["error"])
        if not issubclass(kind, SolkitError):
            raise ValueError(f"no error of SolKit's: {header['error']!r}")
        error: Exception = kind(*header["args"])
        return error
    verdict = Verdict(header["failed"])
    if verdict not in _FAILURES:
        raise ValueError(f"no failure: {verdict.value}")
    return CandidateError(verdict, tuple(str(line)[:_MOST_TEXT] for line in header["errors"]))


@functools.cache
def _launches() -> TypeAdapter[tuple[KernelAnalysis, ...]]:
    from pydantic import TypeAdapter  # 0.1 s, and not wanted where nothing is measured

    return TypeAdapter(tuple[KernelAnalysis, ...])


def prepare() -> None:
    """Make now, in a server, what every one of its forks would make on its own."""
    _launches()


def _look(told: Any) -> Look:
    if len(told["outputs"]) > _MOST_OUTPUTS:
        raise ValueError(f"{len(told['outputs'])} outputs")
    found = [
        Finding(str(f["trick"]), str(f["evidence"])[:_MOST_TEXT], bool(f["is_proof"]))
        for f in told["findings"]
    ]
    return Look(tuple(_form(form) for form in told["outputs"]), tuple(found))


def _form(told: Any) -> Form:
    dtype = getattr(torch, str(told["dtype"]))
    shape = tuple(int(size) for size in told["shape"])
    if not isinstance(dtype, torch.dtype) or any(size < 0 for size in shape):
        raise ValueError(f"no output: {told!r}")
    return Form(shape, dtype, str(told["device"]), str(told["type"]), bool(told["is_input"]))


def _times(told: Any) -> list[CallTime]:
    if len(told) > _MOST_SAMPLES:
        raise ValueError(f"{len(told)} times")
    times = [CallTime(float(span), None if total is None else float(total)) for span, total in told]
    for taken in times:
        if not (math.isfinite(taken.span_ms) and taken.span_ms > 0):
            raise ValueError(f"a time of {taken.span_ms} ms")
    return times
