"""What was counted, on the terminal page and in JSON."""

import io
from dataclasses import replace

from rich.console import Console

from solkit.core import Counters
from solkit.report import schema, terminal

COUNTERS = Counters(
    "matmul_kernel", (1024, 1, 1), time_ms=0.2, load_sectors=2**21, dram_read_bytes=2**26,
    occupancy=0.25, achieved_occupancy=0.24, waves=3.88,
    stalls={"long_scoreboard": 6.0, "selected": 1.0, "barrier": 3.0, "drain": 0.0},
    missing=("sm__ops_path_tensor_src_fp4.sum",),
)  # fmt: skip


def counted(make, **changes):
    result = make.explained()
    kernels = tuple(
        replace(kernel, counters=replace(COUNTERS, **changes)) for kernel in result.analysis.kernels
    )
    return make.report(replace(result, analysis=replace(result.analysis, kernels=kernels)))


def page(report):
    console = Console(file=io.StringIO(), width=100)
    terminal.render(report, console)
    return console.file.getvalue()


def test_modelled_and_counted_stand_side_by_side(make):
    lines = page(counted(make)).splitlines()
    (reads,) = [line for line in lines if line.startswith("DRAM reads")]
    assert reads.split()[2:6] != []
    assert "67.1 MB" in reads
    (waves,) = [line for line in lines if line.startswith("waves")]
    assert waves.split() == ["waves", "3.88", "3.88", "1.00×"]


def test_a_model_that_is_far_off_is_marked(make):
    def marked(report):
        return [line.split("  ")[0] for line in page(report).splitlines() if "disagrees" in line]

    kernel = counted(make).results[0].analysis.kernels[0]
    bytes_read = kernel.demand.dram_read_bytes
    assert "DRAM reads" not in marked(counted(make, dram_read_bytes=bytes_read))
    assert "DRAM reads" in marked(counted(make, dram_read_bytes=2 * bytes_read))


def test_what_warps_wait_for_and_what_is_missing(make):
    text = " ".join(page(counted(make)).split())
    assert "warps wait for long scoreboard 60 %, barrier 30 % · 24 % of an SM's warps" in text
    assert "not counted here: sm__ops_path_tensor_src_fp4.sum" in text


def test_no_counters_no_table(make):
    assert "counted" not in page(make.report(make.explained()))


def test_json(make):
    (result,) = schema.to_json(counted(make))["results"]
    counters = result["launches"][0]["counters"]
    assert counters["load_sectors"] == 2**21
    assert counters["store_sectors"] is None
    assert counters["stalls"]["long_scoreboard"] == 6.0
    assert set(counters) == set(Counters.__dataclass_fields__)
