"""Timers of calls on a CUDA device."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import record_function

from solkit.adapters import torch_profiler
from solkit.measure.timing.activities import (
    Activity,
    ActivityError,
    CallTime,
    Kind,
    call_times,
    kernels_ms,
)
from solkit.measure.timing.sampling import Subject

_MIN_FLUSH_BYTES = 256 << 20
_WARM_UP_PASSES = 100  # about 10 ms, in which the clocks rise
_TIMED, _PASSES_TIMED = 5, 4
_MOST_PASSES = 400  # a stream queues about a thousand launches before the host has to wait
_HOST_TIMES, _HOST_MORE_S = 2.0, 100e-6
_FASTEST_HZ = 3.0e9  # above any GPU's SM clock; at a lower clock waiting takes longer
_MOST_HIDDEN_S = 0.005
_CUDA_CALL = re.compile(r"cu(da)?[A-Z]")


class FlushBuffer:
    """A buffer larger than L2.

    Reading it leaves its clean lines in L2. Writing it would leave dirty lines, whose write-back
    the next kernel would pay for.
    """

    def __init__(self) -> None:
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self.size = max(2 * l2_bytes, _MIN_FLUSH_BYTES)
        self._buffer = torch.zeros(self.size // 4, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), dtype=torch.float32, device="cuda")
        self.read_passes(_WARM_UP_PASSES)
        self.pass_s = math.inf
        self.time_pass()

    @property
    def description(self) -> str:
        """Method of flushing, in words."""
        return f"a {self.size >> 20} MiB buffer read before each call: clean lines are left in L2"

    def read_passes(self, passes: int) -> None:
        """Queue that many reads of it."""
        for _ in range(passes):
            torch.sum(self._buffer, dim=0, out=self._sum)

    def time_pass(self) -> None:
        """Time a pass and keep the minimum ever seen, so that passes never end too early.

        Once is not enough: at an idle GPU's clocks a pass takes several times as long.
        """
        for _ in range(_TIMED):
            start, end = _timing_event(), _timing_event()
            start.record()
            self.read_passes(_PASSES_TIMED)
            end.record()
            end.synchronize()
            taken_s = float(start.elapsed_time(end)) / 1e3
            self.pass_s = min(self.pass_s, taken_s / _PASSES_TIMED)

    def occupy(self, seconds: float) -> None:
        """Keep the GPU busy for at least that long once it gets there."""
        passes = 1 + math.ceil(seconds / self.pass_s)
        if passes <= _MOST_PASSES:
            self.read_passes(passes)
        else:
            torch.cuda._sleep(int(seconds * _FASTEST_HZ))  # type: ignore[no-untyped-call]


class L2Flush:
    """Makes L2 cold, and keeps the GPU busy while the host queues the next call.

    It reads the buffer once before each call, and more often if the host needs longer to queue the
    call, so that the GPU never waits for the host within a call that does not synchronise. It
    covers a little over twice the host's best time, which suffices on a busy machine.
    """

    def __init__(self, buffer: FlushBuffer) -> None:
        self._buffer = buffer
        self._host_s: dict[str, float] = {}

    def __call__(self, name: str) -> None:
        """Queue the flush before a call of the subject with that name."""
        host_s = _HOST_TIMES * self._host_s.get(name, 0.0) + _HOST_MORE_S
        self._buffer.occupy(min(host_s, _MOST_HIDDEN_S))

    def record_host_s(self, name: str, host_s: float) -> None:
        """Record the host's time for a call (the minimum is kept)."""
        self._host_s[name] = min(host_s, self._host_s.get(name, math.inf))


_running: list[Any] = []
"""The round's profiler session, if any: torch allows one per process."""


def _end_what_was_broken_off() -> None:
    """End the session of a round that a failing candidate interrupted."""
    while _running:
        _running.pop().__exit__(None, None, None)


class CuptiTimer:
    """Times calls by CUPTI's activity records, through PyTorch's profiler.

    `flush` makes L2 cold before each call. If `warm`, the subject's warming precedes, or an untimed
    call of the same, so that L2 holds what fits.
    """

    method = "cupti"

    def __init__(self, flush: L2Flush, *, warm: bool = False) -> None:
        self._flush, self._warm = flush, warm
        self._labels: list[str] = []
        self._activities: list[Activity] = []

    @property
    def kernels_ms(self) -> Mapping[str, float]:
        """See `solkit.measure.timing.sampling.Timer`."""
        return kernels_ms(self._activities, self._labels)

    def start(self) -> None:
        """See `solkit.measure.timing.sampling.Timer`."""
        _end_what_was_broken_off()
        self._labels = []
        session = torch_profiler.cuda_session()
        session.__enter__()
        _running.append(session)

    def time(self, subject: Subject) -> None:
        """See `solkit.measure.timing.sampling.Timer`."""
        label = f"solkit::{subject.name}::{len(self._labels)}"
        self._labels.append(label)
        call = _prepare_call(subject, self._flush, self._warm)
        with record_function(label):
            start = time.perf_counter()
            call()
            self._flush.record_host_s(subject.name, time.perf_counter() - start)
        torch.cuda.synchronize()

    def stop(self) -> list[CallTime]:
        """See `solkit.measure.timing.sampling.Timer`.

        Raises:
            ActivityError: CUPTI recorded no unambiguous GPU activity for a call.
        """
        session = _running.pop()
        session.__exit__(None, None, None)
        events = session.kineto_results.events()
        self._activities = read_activities(events)
        return call_times(self._activities, self._labels)


class EventTimer:
    """Times calls by CUDA events on the current stream; the events add a few µs.

    If the subject's call is a graph of many `calls`, the time is divided by their number, so that
    events and launches hardly matter: this is the method ``"graph replay"``. `flush` and `warm` are
    as for `CuptiTimer`.
    """

    def __init__(self, flush: L2Flush, *, warm: bool = False, calls: int = 1) -> None:
        self._flush, self._warm, self._calls = flush, warm, calls
        self._times: list[CallTime] = []

    @property
    def kernels_ms(self) -> Mapping[str, float]:
        """Events do not show what ran."""
        return {}

    @property
    def method(self) -> str:
        """See `solkit.measure.timing.sampling.Timer`."""
        return "events" if self._calls == 1 else "graph replay"

    def start(self) -> None:
        """See `solkit.measure.timing.sampling.Timer`."""
        _end_what_was_broken_off()
        self._times = []

    def time(self, subject: Subject) -> None:
        """See `solkit.measure.timing.sampling.Timer`."""
        call = _prepare_call(subject, self._flush, self._warm)
        start, end = _timing_event(), _timing_event()
        since = time.perf_counter()
        start.record()
        call()
        end.record()
        self._flush.record_host_s(subject.name, time.perf_counter() - since)
        torch.cuda.synchronize()
        self._times.append(CallTime(float(start.elapsed_time(end)) / self._calls, None))

    def stop(self) -> list[CallTime]:
        """See `solkit.measure.timing.sampling.Timer`."""
        return self._times


def capture_graph(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Capture a CUDA graph of what `work` launches, after running it once.

    Raises:
        ActivityError: it cannot be captured, since it synchronises or allocates by itself.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            work()
    except Exception as error:
        raise ActivityError(f"it cannot be captured in a CUDA graph: {error}") from error
    return graph


def _prepare_call(subject: Subject, flush: L2Flush, warm: bool) -> Callable[[], Any]:
    before = subject.warming() if warm and subject.warming is not None else None
    call = subject.prepare()
    flush(subject.name)
    if warm:
        (before or call)()
    return call


def read_activities(events: Iterable[Any]) -> list[Activity]:
    """Read the profiler's raw events (``torch._C._autograd._KinetoEvent``) that timing needs.

    PyTorch's ops have their own correlation ids, unrelated to CUDA's, so ops are left out.
    """
    activities = []
    for event in events:  # dozens for each timed call
        name = event.name()
        kind = _event_kind(event, name)
        if kind is not None:
            start_ns = event.start_ns()
            end_ns = start_ns + event.duration_ns()
            stream = event.device_index(), event.device_resource_id()
            activities.append(
                Activity(kind, name, start_ns, end_ns, event.correlation_id(), stream)
            )
    return activities


def _event_kind(event: Any, name: str) -> Kind | None:
    on_gpu = event.device_type() == DeviceType.CUDA
    if event.is_user_annotation():
        return Kind.GPU_RANGE if on_gpu else Kind.RANGE
    if on_gpu:
        return Kind.GPU
    # runtime and driver calls are CPU events named after the CUDA function
    return Kind.LAUNCH if _CUDA_CALL.match(name) else None


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
