"""Reports built by hand: a matmul on an H100, measured or not, and variations on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Candidate,
    Ceiling,
    ClockKind,
    Device,
    KernelAnalysis,
    KernelFile,
    Launch,
    Measurement,
    Occupancy,
    Problem,
    Protocol,
    Report,
    Resource,
    Result,
    Score,
    SMLimits,
    Verdict,
    Work,
)

SHAPE = {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"}
FLOPS = 2 * 4096**3
BYTES = 2 * 4096 * 4096


class Make:
    """Builders; every keyword replaces that field of the noun built."""

    def device(self, **changes: Any) -> Device:
        ceilings = {
            "dram": Ceiling(3.352e12, "B/s", 2619, "NVML"),
            "tensor.bf16": Ceiling(1070.5e12, "FLOP/s", 1980, "datasheet, scaled"),
        }
        device = Device(
            key="h100-sxm",
            name="NVIDIA H100 80GB HBM3",
            source="catalogue",
            compute_capability=(9, 0),
            sm_count=132,
            clock_mhz=1980.0,
            clock_kind=ClockKind.MAXIMUM,
            datasheet_clock_mhz=1830.0,
            memory_bytes=80 * 10**9,
            l2_bytes=50 * 2**20,
            limits=SMLimits(2048, 32, 65536, 233472, 232448, 1024),
            ceilings=ceilings,
            datasheet=ceilings,
        )
        return replace(device, **changes)

    def kernel(self, **changes: Any) -> KernelAnalysis:
        """One compiled launch; keywords of `Launch` and `Occupancy` are understood too."""
        launch = Launch("matmul_kernel", (1024, 1, 1), 8, 3, constants={"BLOCK_M": 128})
        occupancy = Occupancy(0.25, "shared", 2, 3.88, 0.97)
        mine = {k: changes.pop(k) for k in list(changes) if hasattr(launch, k)}
        fits = {k: changes.pop(k) for k in list(changes) if hasattr(occupancy, k)}
        built = KernelAnalysis(
            replace(launch, **mine), 168, 0, 98304, replace(occupancy, **fits), True, 0.4
        )
        return replace(built, **changes)

    def work(self, **changes: Any) -> Work:
        work = Work(
            operations={"contraction.bf16": FLOPS},
            hard_operations={},
            dram_read_bytes=2 * BYTES,
            dram_write_bytes=BYTES,
            hard_read_bytes=2 * BYTES,
            hard_write_bytes=BYTES,
        )
        return replace(work, **changes)

    def bound(self, **changes: Any) -> Bound:
        tensor = Resource("tensor.bf16", FLOPS, "FLOP", 1070.5e12, "datasheet, scaled", 0.12839)
        dram = Resource("dram", 3 * BYTES, "B", 3.352e12, "NVML", 0.03003)
        bound = Bound(
            time_ms=0.12839,
            limiter="tensor.bf16",
            resources=(tensor, dram),
            flops_by_pipe={
                "tensor.bf16": FLOPS,
                "sfu": 10,
                "fp32": 5,
                "int32": 7,
                "tensor.int8": 9,
            },
            precision="tolerance: bf16 as bf16",
            assumptions=("Inputs come from DRAM once.",),
            at=BoundTimes(0.12839, 0.03003, 0.13891),
        )
        return replace(bound, **changes)

    def measurement(self, **changes: Any) -> Measurement:
        measurement = Measurement(0.1926, 0.1919, 0.1933, 0.1901, 0.2054, "cupti", 0.0625, 100)
        return replace(measurement, **changes)

    def result(self, **changes: Any) -> Result:
        """One shape, analysed and not measured."""
        result = Result(
            shape=SHAPE,
            params={"BLOCK_M": 128},
            verdict=Verdict.NOT_MEASURED,
            work=self.work(),
            bound=self.bound(),
            analysis=Analysis(AnalysisStatus.COMPLETE, (self.kernel(),)),
        )
        return replace(result, **changes)

    def measured(self, **changes: Any) -> Result:
        """One shape, analysed and measured: a gap of 1.5."""
        result = self.result(
            verdict=Verdict.CORRECT,
            protocol=Protocol("cupti", "cold", "reading a 256 MB buffer", 10, 100, 120.0, 0),
            measurement=self.measurement(),
            score=Score(1.5, None, 0.5455, 0.6667),
        )
        return replace(result, **changes)

    def report(self, *results: Result, **changes: Any) -> Report:
        problem = Problem("matmul", "examples/matmul.py", "native", "reference", SHAPE, (SHAPE,))
        candidate = Candidate("kernel", "examples/matmul.py", {"BLOCK_M": 128})
        report = Report(
            environment={"solkit": "0.1.0", "torch": "2.13.0", "triton": "3.7.1", "driver": None},
            kernel=KernelFile(problem, candidate),
            device=self.device(),
            results=results or (self.measured(),),
        )
        return replace(report, **changes)

    def reference_alone(self) -> Report:
        """A file without a candidate: its bound and nothing else."""
        report = self.report(self.result(params={}, analysis=Analysis(AnalysisStatus.NO_KERNEL)))
        return replace(report, kernel=replace(report.kernel, candidate=None))


@pytest.fixture
def make() -> Make:
    return Make()
