"""A whole calibration, in a separate process that sees one GPU."""

from __future__ import annotations

import json
import logging
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import torch
import triton

import solkit
from solkit.calibrate import probes
from solkit.calibrate.kernels import empty_kernel
from solkit.calibrate.pipes import PIPES
from solkit.calibrate.stopwatch import Probe, Single, Stopwatch, summarise_samples
from solkit.core import Conditions
from solkit.core.codec import from_json, to_json
from solkit.errors import SolkitError, UnsupportedError
from solkit.measure.timing.clocks import ConditionSampler
from solkit.roofline import nvml
from solkit.roofline.calibration.record import (
    SCHEMA,
    Calibration,
    Gpu,
    Reading,
    Regime,
    Software,
    Timer,
)

_log = logging.getLogger(__name__)

_LARGEST_BYTES = 1 << 30  # of a buffer, and at most an eighth of the free memory
_SIZES = tuple(1 << power for power in (18, 20, 22, 24, 25, 26, 27, 28, 30))
_L2_SHARES = (1 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
_MIN_FLUSH_BYTES = 256 << 20
_GRAPH_LAUNCHES = 1000
_STREAM_LAUNCHES = 500
_EXPECTED = ("idle", "power cap", "application clocks")  # of what holds clocks down
_NEAR_MAXIMUM = 0.97


@dataclass(frozen=True)
class _Effort:
    """Number and length of the measurements."""

    bursts: int  # per probe
    sustained_s: float  # per probe of a pipe or of DRAM
    rounds: int  # of launches timed alone
    sizes: tuple[int, ...]  # of memory, in bytes moved, for launches timed alone
    l2_shares: tuple[float, ...]  # working sets, as shares of L2
    budget_s: float  # after so long what is left is skipped, from the process's start


_FULL = _Effort(5, 1.0, 15, _SIZES, _L2_SHARES, 75.0)
_QUICK = _Effort(3, 0.3, 5, _SIZES[1::3], (1 / 4, 1 / 2), 40.0)


class _Session:
    """Takes readings and keeps time; `start_s` is its start on `time.monotonic`'s clock."""

    def __init__(self, uuid: str, effort: _Effort, start_s: float) -> None:
        self._effort, self._start_s = effort, start_s
        self._stopwatch = Stopwatch(uuid)
        self.readings: list[Reading] = []
        self.skipped: dict[str, str] = {}

    def run(self) -> None:
        """Measure every item, the most important first."""
        memory = probes.MemoryProbe(_buffer_bytes())
        items: list[tuple[str, Callable[[], Iterator[Reading]]]] = [
            ("dram", partial(self._measure_dram, memory)),
            *((name, partial(self._measure_tensor, name)) for name in probes.tensor_names()),
            *((name, partial(self._measure_alu, name)) for name in PIPES),
            ("l2", partial(self._measure_l2, memory)),
            ("launch", self._measure_launches),
            ("single launches", partial(self._measure_singles, memory)),
        ]
        for name, item in items:
            self._take_readings(name, item)

    def _take_readings(self, name: str, item: Callable[[], Iterator[Reading]]) -> None:
        """Take the readings of an item, or record why there are none."""
        if time.monotonic() - self._start_s > self._effort.budget_s:
            self.skipped[name] = f"no time left of {self._effort.budget_s:g} s"
            return
        _log.info("%4.0f s  %s", time.monotonic() - self._start_s, name)
        try:
            self.readings += item()
        except (RuntimeError, NotImplementedError, UnsupportedError) as error:  # a missing pipe
            torch.cuda.synchronize()  # a worse error is raised again here
            self.skipped[name] = str(error).splitlines()[0]

    def _time_both_ways(self, probe: Probe) -> Iterator[Reading]:
        yield self._stopwatch.time_burst(probe, self._effort.bursts)
        yield self._stopwatch.time_sustained(probe, self._effort.sustained_s)

    def _measure_dram(self, memory: probes.MemoryProbe) -> Iterator[Reading]:
        for kind in probes.KINDS:
            yield from self._time_both_ways(self._find_best_grid(memory, kind))

    def _find_best_grid(self, memory: probes.MemoryProbe, kind: str) -> Probe:
        size = memory.buffer_bytes * probes.KINDS[kind]
        return self._stopwatch.find_fastest(
            [memory.probe(kind, size, way) for way in (False, True)]
        )

    def _measure_tensor(self, name: str) -> Iterator[Reading]:
        """Yield the fastest burst of any size, and the fastest size sustained."""
        sizes = list(probes.tensor_probes(name))
        bursts = [self._stopwatch.time_burst(probe, self._effort.bursts) for probe in sizes]
        yield max(bursts, key=lambda reading: reading.value)
        fastest = self._stopwatch.find_fastest(sizes)
        yield self._stopwatch.time_sustained(fastest, self._effort.sustained_s)

    def _measure_alu(self, name: str) -> Iterator[Reading]:
        yield from self._time_both_ways(probes.alu_probe(name))

    def _measure_l2(self, memory: probes.MemoryProbe) -> Iterator[Reading]:
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        for kind in ("read", "write"):
            for share in self._effort.l2_shares:
                size = round(share * l2_bytes) // probes.CHUNK_BYTES * probes.CHUNK_BYTES
                yield self._stopwatch.time_burst(memory.probe_l2(kind, size), self._effort.bursts)

    def _measure_launches(self) -> Iterator[Reading]:
        def empty() -> None:
            empty_kernel[(1,)]()

        repeats = 2 * self._effort.bursts
        queued, host = [], []
        for _ in range(repeats):
            on_gpu_s, on_host_s = self._stopwatch.queued_s(empty, _STREAM_LAUNCHES)
            queued.append(on_gpu_s)
            host.append(on_host_s)
        graph = _capture_graph(empty, _GRAPH_LAUNCHES)
        replays = [self._stopwatch.queued_s(graph.replay, 5)[0] for _ in range(repeats)]
        in_graph = [seconds / _GRAPH_LAUNCHES for seconds in replays]
        yield _seconds_reading(
            "launch.graph", in_graph, "events", f"of {_GRAPH_LAUNCHES} in a CUDA graph"
        )
        yield _seconds_reading(
            "launch.stream", queued, "events", f"of {_STREAM_LAUNCHES} queued ahead"
        )
        yield _seconds_reading("launch.host", host, "wall", "the host's part, by Triton's launcher")
        trips = [_round_trip_s(empty) for _ in range(20 * repeats)]
        yield _seconds_reading(
            "launch.round_trip", trips, "wall", "launch, and wait until it is over"
        )

    def _measure_singles(self, memory: probes.MemoryProbe) -> Iterator[Reading]:
        flush_bytes = max(2 * torch.cuda.get_device_properties().L2_cache_size, _MIN_FLUSH_BYTES)
        other = torch.zeros(flush_bytes // 4, device="cuda")
        total = torch.zeros((), device="cuda")
        chosen = {kind: self._find_best_grid(memory, kind).detail for kind in probes.KINDS}
        singles = []
        for kind, detail in chosen.items():
            for size in self._effort.sizes:
                probe = memory.probe(kind, size, detail == "striding grid")
                singles += [
                    Single(probe, Regime.WARM, probe.launch),
                    Single(probe, Regime.CLEAN, lambda: torch.sum(other, dim=0, out=total)),
                    Single(probe, Regime.DIRTY, other.zero_),
                ]
        yield from self._stopwatch.time_one_by_one(singles, self._effort.rounds, random.Random(0))


def _buffer_bytes() -> int:
    free, _ = torch.cuda.mem_get_info()
    return min(_LARGEST_BYTES, free // 8) // probes.CHUNK_BYTES * probes.CHUNK_BYTES


def _capture_graph(launch: Callable[[], None], count: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()
    return graph


def _round_trip_s(launch: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _seconds_reading(name: str, samples: Sequence[float], timer: Timer, detail: str) -> Reading:
    regime = Regime.QUEUED if timer == "events" else Regime.HOST
    return summarise_samples(
        samples, name=name, regime=regime, unit="s", timer=timer, detail=detail
    )


def _measure_gpu(gpu: Gpu, quick: bool, start_s: float) -> Calibration:
    """Measure the one GPU that this process sees; raises `UnsupportedError` if it is another."""
    uuid = _require_gpu(gpu)
    with ConditionSampler(uuid) as sampler:
        time.sleep(0.3)
    _log.info("%4.0f s  compiling", time.monotonic() - start_s)
    probes.compile_kernels()
    session = _Session(uuid, _QUICK if quick else _FULL, start_s)
    session.run()
    return Calibration(
        schema=SCHEMA,
        created=datetime.now(timezone.utc),
        seconds=round(time.monotonic() - start_s, 1),
        quick=quick,
        gpu=gpu,
        software=_software_versions(),
        idle=sampler.conditions_since(),
        readings=tuple(session.readings),
        skipped=session.skipped,
        warnings=tuple(warnings_of(session.readings, gpu)),
    )


def _require_gpu(gpu: Gpu) -> str:
    """Return the GPU's UUID, after checking that torch sees it and no other."""
    if not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
        raise UnsupportedError(f"torch {torch.__version__} ({built}) sees no CUDA device")
    seen = f"GPU-{torch.cuda.get_device_properties().uuid}"
    if gpu.uuid is None or (gpu.uuid.startswith("GPU-") and gpu.uuid != seen):
        raise UnsupportedError(f"torch sees {seen}, not {gpu.uuid}")
    return gpu.uuid


def _software_versions() -> Software:
    return Software(
        solkit=solkit.__version__,
        driver=str(nvml.driver_version()),
        cuda=str(torch.version.cuda),
        torch=torch.__version__,
        triton=triton.__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
    )


def warnings_of(readings: Sequence[Reading], gpu: Gpu) -> Iterator[str]:
    """Avoidable reasons that lowered the clock: heat, hardware, locked clocks."""
    for measured in readings:
        reasons = (measured.conditions or Conditions(samples=0)).reasons
        held = [f"{name} ({share:.0%})" for name, share in reasons.items() if name not in _EXPECTED]
        if held:
            yield f"{measured.name}, {measured.regime.value}: held down by {', '.join(held)}."
    clocks = [r.sm_clock_mhz for r in readings if r.regime is Regime.SUSTAINED and r.sm_clock_mhz]
    if clocks and max(clocks) < _NEAR_MAXIMUM * gpu.max_sm_clock_mhz:
        yield (
            f"The SM clock never rose above {max(clocks):.0f} of {gpu.max_sm_clock_mhz:.0f} MHz, "
            "whatever ran: it is locked, or something lowers it."
        )


def main(request: str, answer: str) -> None:
    """Run the child: read a request (``gpu``, ``quick``, ``start_s``) and write the answer."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="solkit: %(message)s")
    settings = json.loads(request)
    try:
        calibration = _measure_gpu(
            from_json(Gpu, settings["gpu"]), settings["quick"], settings["start_s"]
        )
        text = json.dumps(to_json(calibration))
    except SolkitError as error:
        text = json.dumps({"error": type(error).__name__, "message": str(error)})
    Path(answer).write_text(text, encoding="utf-8")
