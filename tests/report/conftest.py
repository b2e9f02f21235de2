"""Reports built by hand: a matmul on an H100, measured or not, and variations on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solkit.core import (
    Access,
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Candidate,
    Cause,
    Ceiling,
    ClockKind,
    Contributor,
    Demand,
    Depth,
    Device,
    Facts,
    Gap,
    GapFactor,
    KernelAnalysis,
    KernelFile,
    KernelModel,
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
    Term,
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
        facts = Facts(replace(launch, **mine), Depth.COMPILED, 168, 0, 98304, True)
        known_values = {
            k: changes.pop(k) for k in list(changes) if hasattr(facts, k) and k != "error"
        }
        return KernelAnalysis(
            replace(facts, **known_values),
            **{"occupancy": replace(occupancy, **fits), "compile_s": 0.4, **changes},
        )

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
            analysis=Analysis(AnalysisStatus.COMPLETE, (self.kernel(),), is_whole=True),
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

    def demand(self, **changes: Any) -> Demand:
        """Of a matmul whose tiles of w are read in 16-byte pieces, half of each sector unused."""
        x = Access(
            kind="load", path="async", argument="x_ptr", line="examples/matmul.py:76",
            requests=2**20, sectors=2**24, block_sectors=2**24, requested_bytes=2**29,
            unique_bytes=BYTES, vector_bytes=16,
        )  # fmt: skip
        w = replace(x, argument="w_ptr", line="examples/matmul.py:77", sectors=2**25)
        out = Access(
            kind="store", path="global", argument="out_ptr", line="examples/matmul.py:86",
            requests=2**17, sectors=2**20, block_sectors=2**20, requested_bytes=BYTES,
            unique_bytes=BYTES, vector_bytes=8,
        )  # fmt: skip
        demand = Demand(
            accesses=(x, w, out),
            operations={"tensor.bf16": FLOPS, "fp32": 2**24, "int32": 2**28},
            loop_requests=2**20,
            l1_wavefronts=2**22,
            l2_read_bytes=3 * 2**29,
            l2_write_bytes=BYTES,
            dram_read_bytes=5 * BYTES,
            dram_write_bytes=BYTES,
            steps=64 * 1024,
            programs_sampled=8,
            guesses=("Every load that the loop makes is taken to run as often as its first.",),
        )
        return replace(demand, **changes)

    def model(self) -> KernelModel:
        """Of the same: 168 µs, of which tensor cores need most."""
        return KernelModel(
            0.168,
            (
                Term("tensor.bf16", 0.1412, "137 GFLOP at 973 TFLOP/s in 3.88 waves"),
                Term("l2", 0.0912, "1.64 GB at 18 TB/s"),
                Term("latency", 0.0317, "1.9 µs a step, 2 blocks an SM hide half"),
                Term("launch", 0.0011, "one launch"),
            ),
        )

    def gap(self, **changes: Any) -> Gap:
        """A gap of 1.5 in six factors, one of which is a gain."""
        again = Cause("repeated reads", {"place": "a.py:7", "argument": "w", "times": 2.5})
        waits = Cause("waits for loads", {"kernel": "matmul_kernel"})
        fields = {
            "tail": (1.0303, "3.88 waves fill 97 % of their slots"),
            "extra traffic": (1.2, "w is read with 50 % of each sector used", again),
            "latency": (1.1, "2 blocks of 8 warps an SM", waits),
            "clock": (1.15, "1721 MHz seen, 1980 MHz at most"),
            "output in L2": (0.99, "33.6 MB stay in L2"),
        }
        factors = [GapFactor(name, *rest) for name, rest in fields.items()]
        product = 1.0
        for factor in factors:
            product *= factor.factor
        rest = 1.5 / product
        factors.append(GapFactor("unexplained", rest, "what the other factors leave"))
        gap = Gap(0.12839, 1.5 * 0.12839, True, tuple(factors))
        return replace(gap, **changes)

    def explained(self, **changes: Any) -> Result:
        """One shape of which everything is known."""
        whole = self.bound()
        mm = Contributor("aten.mm", FLOPS, 1.0, "/home/me/examples/matmul.py:29")
        resources = (replace(whole.resources[0], contributors=(mm,)), whole.resources[1])
        kernel = self.kernel(demand=self.demand(), model=self.model())
        result = self.measured(
            bound=replace(whole, resources=resources),
            analysis=Analysis(AnalysisStatus.COMPLETE, (kernel,), is_whole=True),
            measurement=self.measurement(sm_clock_mhz=1721.0),
            gap=self.gap(),
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
