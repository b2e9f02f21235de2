"""Nsight Compute's table, and what stands in for it where there is none.

The tables follow the documented form of ``--csv --page raw``: a row of names, a row of units, a row
a launch. `ncu` is a script that answers with such a table and runs the program that it was given.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from solkit.adapters import nsight
from solkit.errors import CountersError

H100 = (9, 0)
LAUNCH = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
          "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip
FIGURES = {
    "dram__bytes_read.sum": ("byte", "33,554,432"),
    "gpu__time_duration.sum": ("ns", "12,864"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("", "65,536"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum": ("sector", "3"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", "1,048,576"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum": ("sector", "4"),
    "launch__registers_per_thread": ("register/thread", "32"),
    "launch__waves_per_multiprocessor": ("", "1.94"),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("sector", "1,048,580"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "75"),
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum": ("", "2,147,483,648"),
    "sm__ops_path_tensor_src_fp8.sum": ("", "n/a"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "61.25"),
    "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum": ("", "5,536"),
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum": ("sector", "48,576"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "0.5"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "7.25"),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": ("inst", "10"),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", "1,000"),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": ("inst", "300"),
}


def table(*launches, figures=FIGURES):
    def row(cells):
        return ",".join(f'"{cell}"' for cell in cells)

    lines = [row([*LAUNCH, *figures]), row([""] * len(LAUNCH) + [u for u, _ in figures.values()])]
    for number, (name, grid) in enumerate(launches):
        place = [number, 4242, "python3.12", "127.0.0.1", name, 1, 7, "(128, 1, 1)", grid, 0, "9.0"]
        lines.append(row(place + [value for _, value in figures.values()]))
    return "\n".join(lines)


LOG = f"""==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "scale_kernel": 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4242
{table(("scale_kernel", "(1024, 4, 1)"))}
"""


def test_a_table_is_read():
    (result,) = nsight.parse_report(LOG)
    assert (result.name, result.grid) == ("scale_kernel", (1024, 4, 1))
    assert result.time_ms == pytest.approx(0.012864)
    assert (result.load_sectors, result.load_requests) == (1_000_000, 60_000)
    assert result.async_sectors == 48_576
    assert result.atomic_sectors == 7  # those that give the old value back, and those that don't
    assert (result.l2_read_bytes, result.dram_read_bytes) == (1048580 * 32, 2**25)
    assert result.operations == {"tensor.bf16": 2**31, "fp32": 2 * 1000 + 10 + 300}
    assert result.multiply_adds == 1000
    assert (result.registers, result.waves) == (32, 1.94)
    assert (result.occupancy, result.achieved_occupancy) == (0.75, pytest.approx(0.6125))
    assert list(result.stalls.items()) == [("long_scoreboard", 7.25), ("barrier", 0.5)]
    assert result.store_sectors is None


@pytest.mark.parametrize(
    ("all_loads", "copies", "loads"),
    [
        (4_876_000, 3_000_000, 1_876_000),  # examples/matmul on an H100: 16-byte copies, past L1
        (2_666_752, 2_666_752, 0),  # bench/sectors/convolution
        (1_000, 1_003, 0),  # from two replays
    ],
)
def test_asynchronous_copies_are_no_loads(all_loads, copies, loads):
    figures = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", str(all_loads)),
        "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum": ("sector", str(copies)),
    }
    (result,) = nsight.parse_report(table(("k", "(1, 1, 1)"), figures=figures))
    assert (result.load_sectors, result.async_sectors) == (loads, copies)


def test_loads_are_not_known_where_copies_are_not():
    without = {name: cell for name, cell in FIGURES.items() if "ldgsts" not in name}
    (result,) = nsight.parse_report(
        table(("k", "(1, 1, 1)"), figures=without), nsight.metrics_of(H100)
    )
    assert result.load_sectors is None


def test_what_is_missing_is_named_and_spoils_its_sum():
    without = {name: cell for name, cell in FIGURES.items() if "op_fmul" not in name}
    expected = nsight.metrics_of(H100)
    (result,) = nsight.parse_report(table(("k", "(1, 1, 1)"), figures=without), expected)
    assert "fp32" not in result.operations
    assert result.multiply_adds == 1000
    assert "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum" in result.missing
    assert "sm__ops_path_tensor_src_fp8.sum" in result.missing  # n/a
    assert "gpu__time_duration.sum" not in result.missing


def test_units_of_older_releases():
    figures = {
        "dram__bytes_read.sum": ("Mbyte", "33.5"), "gpu__time_duration.sum": ("usecond", "12.5"),
    }  # fmt: skip
    (result,) = nsight.parse_report(table(("k", "2,3,4"), figures=figures))
    assert (result.dram_read_bytes, result.time_ms) == (33_500_000, pytest.approx(0.0125))
    assert result.grid == (2, 3, 4)


def test_no_launch_is_no_entry():
    assert nsight.parse_report("==WARNING== No kernels were profiled.\n") == ()


def test_metrics_by_chip():
    a100, h100, b200, geforce = map(nsight.metrics_of, ((8, 0), H100, (10, 0), (12, 0)))
    assert not any("tma" in name for name in a100)
    assert any("op_ldgsts" in name for name in a100)
    assert not any("op_ldgsts" in name for name in nsight.metrics_of((7, 5)))  # Turing has none
    assert any("tma_ld" in name for name in h100)
    assert "sm__ops_path_tensor_src_fp16.sum" in h100
    assert "sm__ops_path_tensor_src_fp16_dst_fp32.sum" in b200
    assert "sm__ops_path_tensor_src_fp16.sum" not in b200
    assert "dram__bytes_op_read.sum" in geforce
    assert "dram__bytes_read.sum" not in geforce
    assert len(set(h100)) == len(h100)
    assert len(nsight.metrics_of(H100, stalls=False)) < len(h100) - 15


# ------------------------------------------------------------------------------------ running

NCU = f"""#!{sys.executable}
import json, os, pathlib, subprocess, sys
folder = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with open(folder / "calls", "a") as calls:
    print(json.dumps(arguments), file=calls)
answer = json.loads((folder / "answer.json").read_text())
log = pathlib.Path(arguments[arguments.index("--log-file") + 1])
if "--query-metrics" in arguments:
    told = [f"{{name}}   # of things" for name in answer["known"]]
    log.write_text("\\n".join(["Device H100", *told]))
    sys.exit(0)
metrics = arguments[arguments.index("--metrics") + 1]
refused = [name for name in answer["refused"] if name in metrics.split(",")]
if refused:
    log.write_text(f"==ERROR== Failed to find metric {{refused[0]}}\\n")
    sys.exit(1)
log.write_text(answer["log"])
print(answer["printed"])
program = arguments[arguments.index("--metrics") + 2:]
sys.exit(subprocess.run(program).returncode if answer["runs"] else answer["code"])
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Put a stand-in on PATH; gives what sets its answer and what reads its calls."""
    script = tmp_path / "ncu"
    script.write_text(NCU)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def answer(log=LOG, printed="", code=0, runs=False, refused=(), metrics=()):
        fields = {"log": log, "printed": printed, "code": code, "runs": runs,
                "refused": list(refused), "known": list(metrics)}  # fmt: skip
        (tmp_path / "answer.json").write_text(json.dumps(fields))

    answer.calls = lambda: [
        json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()
    ]
    answer()
    return answer


def counted(program=("true",), kernels=("scale_kernel",), **how):
    return nsight.count_kernels(program, kernels, H100, **how)


def test_only_the_candidates_kernels_are_counted_at_the_gpus_own_clocks(ncu):
    (result,) = counted(kernels=("scale_kernel", "a+b"), cold=True, limit=5)
    assert result.load_sectors == 1_000_000
    (call,) = ncu.calls()
    following = dict(itertools.pairwise(call))
    assert following["--clock-control"] == "none"
    assert following["--cache-control"] == "all"
    assert following["--kernel-name"] == r"regex:^(a\+b|scale_kernel)$"
    assert following["--kernel-name-base"] == "function"
    assert following["--launch-count"] == "5"
    assert following["--profile-from-start"] == "off"
    assert call[-1] == "true"


def test_a_warm_l2_is_left_alone(ncu):
    counted(cold=False)
    (call,) = ncu.calls()
    assert dict(itertools.pairwise(call))["--cache-control"] == "none"


def test_the_program_runs_where_numbers_have_a_point(ncu, tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    ncu(runs=True)
    place = tmp_path / "locale"
    counted(
        [sys.executable, "-c", f"import os; open({str(place)!r}, 'w').write(os.environ['LC_ALL'])"]
    )
    assert place.read_text() == "C.UTF-8"


def test_a_metric_that_is_not_there_is_left_out(ncu):
    refused = "sm__ops_path_tensor_src_int8.sum"
    metrics = [name.partition(".")[0] for name in nsight.metrics_of(H100) if name != refused]
    ncu(refused=[refused], metrics=metrics)
    (result,) = counted()
    assert refused in result.missing
    assert result.load_sectors == 1_000_000
    metrics = dict(itertools.pairwise(ncu.calls()[-1]))["--metrics"].split(",")
    assert refused not in metrics
    assert "launch__waves_per_multiprocessor" in metrics  # in no chip's list
    assert len(metrics) == len(nsight.metrics_of(H100)) - 1


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
            "Performance Counters on the target device 0.\n",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        (
            "==ERROR== An error was reported by the driver\n"
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no "
            "other tool (like DCGM) is concurrently collecting profiling data.\n",
            "another profiler",
        ),
        ("==ERROR== The application returned an error code (1).\n", "error code (1)"),
    ],
)
def test_refusals_say_what_helps(ncu, log, words):
    ncu(log=log, code=1)
    with pytest.raises(CountersError, match=words.replace("(", r"\(").replace(")", r"\)")):
        counted()


def test_a_program_that_fails_is_quoted(ncu):
    ncu(log="==PROF== Connected\n", printed="Traceback\nValueError: no such size", code=1)
    with pytest.raises(CountersError, match="ValueError: no such size"):
        counted()


def test_what_the_program_prints_is_no_table(ncu):
    ncu(printed='"a","b"', code=1)
    (result,) = counted()
    assert result.load_sectors == 1_000_000


def test_a_program_that_hangs_is_ended(ncu):
    ncu(log="", runs=True)
    with pytest.raises(CountersError, match=r"over 0\.3 s"):
        counted(["sleep", "60"], time_limit_s=0.3)


def test_no_ncu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CountersError, match="not on PATH"):
        counted()


CHIPS = {"GA100": (8, 0), "GA102": (8, 6), "AD102": (8, 9), "GH100": (9, 0), "GB100": (10, 0),
         "GB202": (12, 0)}  # fmt: skip


@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_has_what_it_is_asked_for(chip):
    listed = (Path(__file__).parent / "data/metrics.txt").read_text().splitlines()
    known_parts = {line.split()[0] for line in listed if chip in line.split()}
    requests = {name.partition(".")[0] for name in nsight.metrics_of(CHIPS[chip])}
    assert requests - known_parts == {  # these come from the launch, not from the chip
        "launch__registers_per_thread", "launch__waves_per_multiprocessor",
        "sm__maximum_warps_per_active_cycle_pct",
    }  # fmt: skip
