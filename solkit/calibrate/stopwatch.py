"""Time launches on a CUDA device: in bursts, sustained, and one at a time.

Notation
    amount   what one launch moves or computes, in the probe's unit (without the "/s")
    train    launches in a row between two CUDA events, queued behind a spinning kernel, so that
             the GPU never waits for the host
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from solkit.calibrate.kernels import spin_kernel
from solkit.core import Conditions
from solkit.errors import UnsupportedError
from solkit.measure.timing.activities import Activity, Kind
from solkit.measure.timing.clocks import ConditionSampler
from solkit.measure.timing.median_interval import median_interval
from solkit.measure.timing.timers import read_activities
from solkit.roofline.calibration.record import Reading, Regime, Timer

_BURST_S = 0.001
_REST_S = 0.1
_CHUNK_S = 0.02  # of a sustained run: one sample
_GATE_CYCLES = 2_000_000  # about 1 ms: the host queues a train meanwhile
_SESSION = 200  # launches that the profiler records at a time
_MARKER = "spin_kernel"
_CLOCK_HZ = 1.4e9  # cycles to count per second of a train: most of it
_CLOCK_LAG_CYCLES = 100_000  # after the train's start: about 50 us, longer than a launch takes
_CLOCK_TRAINS = 3


@dataclass(frozen=True)
class Probe:
    """Something to launch that keeps one resource busy."""

    name: str  # as in `Reading`
    ceiling: str | None
    unit: str
    amount: float  # per launch
    launch: Callable[[], object]  # queues it
    detail: str = ""
    size_bytes: int | None = None

    def make_reading(
        self,
        regime: Regime,
        rates: Sequence[float],
        timer: Timer,
        sm_clock_mhz: float | None = None,
        conditions: Conditions | None = None,
    ) -> Reading:
        """Return the record of samples of the rate."""
        return summarise_samples(
            rates,
            name=self.name,
            ceiling=self.ceiling if regime in (Regime.BURST, Regime.SUSTAINED) else None,
            regime=regime,
            unit=self.unit,
            timer=timer,
            detail=self.detail,
            size_bytes=self.size_bytes,
            sm_clock_mhz=sm_clock_mhz,
            conditions=conditions,
        )


def summarise_samples(samples: Sequence[float], **fields: Any) -> Reading:
    """Return the record of samples, with their median and its interval."""
    interval = median_interval(samples)
    spread: dict[str, Any] = {"value": interval.median, "low": interval.low, "high": interval.high}
    return Reading(samples=len(samples), **spread, **fields)


@dataclass(frozen=True)
class Single:
    """A launch to be timed alone, after something else."""

    probe: Probe  # what is timed
    regime: Regime  # what came before, in words
    before: Callable[[], object]  # queues that


class Stopwatch:
    """Times probes on the current device, which NVML knows by `uuid`."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._clock = torch.zeros(2, dtype=torch.int64, device="cuda")
        self._unread = torch.zeros_like(self._clock)
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def launch_s(self, probe: Probe) -> float:
        """Approximate seconds per launch, after an uncounted first one."""
        probe.launch()
        return self._time_train(probe, 1)

    def time_burst(self, probe: Probe, repeats: int) -> Reading:
        """Return the median rate of short trains after rests, with the clock of other trains."""
        count = max(1, round(_BURST_S / self.launch_s(probe)))
        times = []
        for _ in range(repeats):
            time.sleep(_REST_S)
            times.append(self._time_train(probe, count))
        clock = median(
            self._count_clock_mhz(probe, count, min(times)) for _ in range(_CLOCK_TRAINS)
        )
        rates = [probe.amount * count / seconds for seconds in times]
        return probe.make_reading(Regime.BURST, rates, "events", clock)

    def time_sustained(self, probe: Probe, seconds: float) -> Reading:
        """Return the median rate over a long train's second half, and NVML's readings there."""
        count = max(1, round(_CHUNK_S / self.launch_s(probe)))
        chunks = max(6, round(seconds / _CHUNK_S))
        events = [_timing_event() for _ in range(chunks + 1)]
        start = time.monotonic()
        with ConditionSampler(self._uuid) as sampler:
            events[0].record()
            for event in events[1:]:
                for _ in range(count):
                    probe.launch()
                event.record()
            torch.cuda.synchronize()
            end = time.monotonic()
        half = chunks // 2
        rates = [
            probe.amount * count / (first.elapsed_time(last) / 1e3)
            for first, last in zip(events[half:], events[half + 1 :])
        ]
        seen = sampler.conditions_since((start + end) / 2)
        return probe.make_reading(Regime.SUSTAINED, rates, "events", seen.sm_clock_mhz, seen)

    def find_fastest(self, probes: Sequence[Probe]) -> Probe:
        """Return the probe with the highest rate, by three short trains each."""

        def rate(probe: Probe) -> float:
            count = max(1, round(_BURST_S / self.launch_s(probe)))
            return max(probe.amount * count / self._time_train(probe, count) for _ in range(3))

        return max(probes, key=rate)

    def time_one_by_one(
        self, singles: Sequence[Single], rounds: int, order: random.Random
    ) -> list[Reading]:
        """Return the median rate of launches timed alone, in random order, by CUPTI."""
        queue = [single for _ in range(rounds) for single in order.sample(singles, len(singles))]
        times: dict[Single, list[float]] = {single: [] for single in singles}
        for start in range(0, len(queue), _SESSION):
            part = queue[start : start + _SESSION]
            for single, seconds in zip(part, _record_launches(part, self._clock), strict=True):
                times[single].append(seconds)
        return [
            s.probe.make_reading(s.regime, [s.probe.amount / t for t in times[s]], "cupti")
            for s in singles
        ]

    def queued_s(self, launch: Callable[[], object], count: int) -> tuple[float, float]:
        """Return seconds per launch on GPU and host; `count` are queued before the first begins.

        The host must take less than 20 ms for all of them.
        """
        torch.cuda.synchronize()
        self._launch_spin(20 * _GATE_CYCLES)
        first, last = _timing_event(), _timing_event()
        first.record()
        start = time.perf_counter()
        for _ in range(count):
            launch()
        host_s = time.perf_counter() - start
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / 1e3 / count, host_s / count

    def _time_train(self, probe: Probe, count: int) -> float:
        """Return seconds of `count` launches in a row."""
        start, end = _timing_event(), _timing_event()
        torch.cuda.synchronize()
        self._launch_spin(_GATE_CYCLES)
        start.record()
        for _ in range(count):
            probe.launch()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def _count_clock_mhz(self, probe: Probe, count: int, seconds: float) -> float:
        """Return the SM clock during a train after a rest, counted by one parallel warp.

        The warp starts before the train, which might leave it no room.
        """
        torch.cuda.synchronize()
        time.sleep(_REST_S)
        with torch.cuda.stream(self._side):
            self._launch_spin(_GATE_CYCLES + _CLOCK_LAG_CYCLES, int(_CLOCK_HZ * seconds))
        self._launch_spin(_GATE_CYCLES, clock=self._unread)
        for _ in range(count):
            probe.launch()
        torch.cuda.synchronize()
        cycles, nanoseconds = self._clock.tolist()
        return 1e3 * float(cycles) / float(nanoseconds)

    def _launch_spin(self, wait: int, count: int = 1, clock: torch.Tensor | None = None) -> None:
        target = self._clock if clock is None else clock
        spin_kernel[(1,)](target, wait, count, num_warps=1)


def _record_launches(singles: Sequence[Single], clock: torch.Tensor) -> list[float]:
    """Time each launch in seconds, by CUPTI's activity records; a spinning kernel marks its end."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as session:
        for single in singles:
            single.before()
            single.probe.launch()
            spin_kernel[(1,)](clock, 1, 1, num_warps=1)
        torch.cuda.synchronize()
    return marked_seconds(read_activities(session.profiler.kineto_results.events()), len(singles))


def marked_seconds(activities: Iterable[Activity], count: int) -> list[float]:
    """Return seconds of the activity before each spinning kernel, in the order they ran.

    Raises:
        UnsupportedError: there are not `count` of them.
    """
    ran = sorted((a for a in activities if a.kind is Kind.GPU), key=lambda a: a.start_ns)
    times = [
        (timed.end_ns - timed.start_ns) / 1e9
        for timed, marker in itertools.pairwise(ran)
        if marker.name == _MARKER
    ]
    if len(times) != count:
        raise UnsupportedError(
            f"CUPTI recorded {len(times)} of {count} launches (through PyTorch's profiler)"
        )
    return times


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
