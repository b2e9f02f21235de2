"""Timing calls on a CUDA device: what touches the GPU, and little else."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from solkit.measure.activities import Activity, CallTime, Kind, call_times
from solkit.measure.sampling import Subject

__all__ = ["CuptiTimer", "EventTimer", "L2Flush", "read_activities"]

_MIN_FLUSH_BYTES = 256 << 20
_MAX_PASSES = 64
_CUDA_CALL = re.compile(r"cu(da)?[A-Z]")


class L2Flush:
    """Makes L2 cold by reading a large buffer, which leaves clean lines in it.

    A buffer that is written instead leaves dirty lines, whose way to DRAM the next kernel pays.
    One pass is read before each call, and more where the host needs longer than that to queue the
    call, so that the GPU never waits for the host within a call that does not itself wait.
    """

    def __init__(self) -> None:
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self.buffer_bytes = max(2 * l2_bytes, _MIN_FLUSH_BYTES)
        self._buffer = torch.zeros(self.buffer_bytes // 4, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), dtype=torch.float32, device="cuda")
        self._host_s: dict[str, float] = {}
        self._read(1)
        self._pass_s = self._time_passes(4)

    @property
    def description(self) -> str:
        """How it flushes, in words."""
        size = self.buffer_bytes >> 20
        return f"a {size} MiB buffer read before each call: clean lines are left in L2"

    def __call__(self, name: str) -> None:
        """Queue the flush before a call of the subject with that name."""
        queueing_s = self._host_s.get(name, 0.0)
        self._read(min(1 + math.ceil(queueing_s / self._pass_s), _MAX_PASSES))

    def learn(self, name: str, host_s: float) -> None:
        """Take note of how long the host took over a call (the least is kept)."""
        self._host_s[name] = min(host_s, self._host_s.get(name, math.inf))

    def _read(self, passes: int) -> None:
        for _ in range(passes):
            torch.sum(self._buffer, dim=0, out=self._sum)

    def _time_passes(self, passes: int) -> float:
        start, end = _event(), _event()
        start.record()
        self._read(passes)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / passes


class CuptiTimer:
    """Times calls by CUPTI's activity records, had through PyTorch's profiler."""

    method = "cupti"

    def __init__(self, flush: L2Flush) -> None:
        self._flush = flush

    def time(self, subjects: Sequence[Subject]) -> list[CallTime]:
        """See `solkit.measure.sampling.Timer.time`.

        Raises:
            ActivityError: CUPTI recorded no GPU activity for a call, or none that can be told
                apart from another's.
        """
        labels = [f"solkit::{subject.name}::{i}" for i, subject in enumerate(subjects)]
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
            for label, subject in zip(labels, subjects, strict=True):
                call = subject.prepare()
                self._flush(subject.name)
                with record_function(label):
                    start = time.perf_counter()
                    call()
                    self._flush.learn(subject.name, time.perf_counter() - start)
            torch.cuda.synchronize()
        return call_times(read_activities(session.profiler.kineto_results.events()), labels)


class EventTimer:
    """Times calls by CUDA events on the current stream; some µs too long, by the events."""

    method = "events"

    def __init__(self, flush: L2Flush) -> None:
        self._flush = flush

    def time(self, subjects: Sequence[Subject]) -> list[CallTime]:
        """See `solkit.measure.sampling.Timer.time`."""
        pairs = [self._queue(subject) for subject in subjects]
        torch.cuda.synchronize()
        return [CallTime(float(start.elapsed_time(end)), None) for start, end in pairs]

    def _queue(self, subject: Subject) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        call = subject.prepare()
        self._flush(subject.name)
        events = _event(), _event()
        start = time.perf_counter()
        events[0].record()
        call()
        events[1].record()
        self._flush.learn(subject.name, time.perf_counter() - start)
        return events


def read_activities(events: Iterable[Any]) -> list[Activity]:
    """The profiler's raw events (``torch._C._autograd._KinetoEvent``) that bear on timing.

    Correlation ids of PyTorch's own ops are counted apart from CUDA's, so ops are left out.
    """
    kinds = ((event, _kind(event)) for event in events)
    return [
        Activity(
            kind,
            event.name(),
            event.start_ns(),
            event.start_ns() + event.duration_ns(),
            event.correlation_id(),
            (event.device_index(), event.device_resource_id()),
        )
        for event, kind in kinds
        if kind is not None
    ]


def _kind(event: Any) -> Kind | None:
    on_gpu = event.device_type().name == "CUDA"
    if event.is_user_annotation():
        return Kind.GPU_RANGE if on_gpu else Kind.RANGE
    if on_gpu:
        return Kind.GPU
    # runtime and driver calls are CPU events that bear the name of the CUDA function
    return Kind.LAUNCH if _CUDA_CALL.match(event.name()) else None


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
