"""Hardware counters: run a command under Nsight Compute (``ncu``) and read its CSV.

Clocks are not locked (``--clock-control none``), so times are the GPU's usual ones. Each kernel is
replayed on the same memory as often as its metrics need. Sources: Nsight Compute CLI, "Command Line
Options"; Profiling Guide, "Metrics Reference". Names and units of metrics by chip are NVIDIA's
(``ncu --query-metrics --chips gh100``), compared with CUPTI 13's for GA100, GA102, AD102, GH100,
GB100 and GB202.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from solkit.core import Counters
from solkit.errors import CountersError
from solkit.processes.host import Program

Capability = tuple[int, int]


@dataclass(frozen=True)
class _Metric:
    """A metric of Nsight Compute, and the field of `Counters` that it adds to.

    Attributes:
        field: of `Counters`; ``"operations.<pipe>"`` and ``"stalls.<reason>"`` for an entry there.
        name: the full name.
        weight: what one unit adds to the field.
        since, until: the compute capabilities that have it, excluding `until`.
    """

    field: str
    name: str
    weight: float = 1.0
    since: Capability = (0, 0)
    until: Capability = (99, 0)


_L1 = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum".format
_TENSOR = "sm__ops_path_tensor_src_{}.sum".format
_COPIES = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts.sum".format
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum".format
_ASYNC, _TMA, _BLACKWELL = (8, 0), (9, 0), (10, 0)

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio".format
_REASONS = (
    "barrier branch_resolving dispatch_stall drain lg_throttle long_scoreboard "
    "math_pipe_throttle membar mio_throttle misc no_instruction not_selected selected "
    "short_scoreboard sleeping tex_throttle wait"
).split()

_METRICS = (
    _Metric("time_ms", "gpu__time_duration.sum"),
    _Metric("registers", "launch__registers_per_thread"),
    # L1's counts of loads include asynchronous copies (LDGSTS, cp.async), even those that bypass
    # L1: see the 16 kernels with such copies on an H100 in bench/data/sectors_h100.json. Copies
    # have no hardware counter; they are counted in software.
    _Metric("load_sectors", _L1("sectors", "global", "ld")),
    _Metric("load_sectors", _COPIES("sectors"), -1, since=_ASYNC),
    _Metric("load_requests", _L1("requests", "global", "ld")),
    _Metric("load_requests", _COPIES("requests"), -1, since=_ASYNC),
    _Metric("async_sectors", _COPIES("sectors"), since=_ASYNC),
    _Metric("store_sectors", _L1("sectors", "global", "st")),
    _Metric("store_requests", _L1("requests", "global", "st")),
    _Metric("atomic_sectors", _L1("sectors", "global", "atom")),
    _Metric("atomic_sectors", _L1("sectors", "global", "red")),
    _Metric(
        "tma_read_sectors", "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum", since=_TMA
    ),
    _Metric(
        "tma_write_sectors",
        "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum",
        since=_TMA,
    ),
    _Metric(
        "tma_write_sectors",
        "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_red.sum",
        since=_TMA,
    ),
    _Metric("local_sectors", _L1("sectors", "local", "ld")),
    _Metric("local_sectors", _L1("sectors", "local", "st")),
    _Metric("l2_read_bytes", "lts__t_sectors_srcunit_tex_op_read.sum", 32),
    _Metric("l2_write_bytes", "lts__t_sectors_srcunit_tex_op_write.sum", 32),
    _Metric("l2_write_bytes", "lts__t_sectors_srcunit_tex_op_atom.sum", 32),
    _Metric("l2_write_bytes", "lts__t_sectors_srcunit_tex_op_red.sum", 32),
    _Metric("dram_read_bytes", "dram__bytes_read.sum", until=(12, 0)),
    _Metric("dram_read_bytes", "dram__bytes_op_read.sum", since=(12, 0)),
    _Metric("dram_write_bytes", "dram__bytes_write.sum", until=(12, 0)),
    _Metric("dram_write_bytes", "dram__bytes_op_write.sum", since=(12, 0)),
    # a multiply-add is two: 1024 x 1024 x 1024 counts 2^31
    _Metric("operations.tensor.bf16", _TENSOR("bf16_dst_fp32")),
    _Metric("operations.tensor.fp16", _TENSOR("fp16"), since=(9, 0), until=_BLACKWELL),
    _Metric("operations.tensor.fp16", _TENSOR("fp16_dst_fp16"), until=(9, 0)),
    _Metric("operations.tensor.fp16", _TENSOR("fp16_dst_fp32"), until=(9, 0)),
    _Metric("operations.tensor.fp16", _TENSOR("fp16_dst_fp16"), since=_BLACKWELL),
    _Metric("operations.tensor.fp16", _TENSOR("fp16_dst_fp32"), since=_BLACKWELL),
    _Metric("operations.tensor.tf32", _TENSOR("tf32_dst_fp32")),
    _Metric("operations.tensor.fp8", _TENSOR("fp8"), since=(8, 9), until=_BLACKWELL),
    _Metric("operations.tensor.fp8", _TENSOR("fp8_dst_fp16"), since=(12, 0)),
    _Metric("operations.tensor.fp8", _TENSOR("fp8_dst_fp32"), since=(12, 0)),
    _Metric("operations.tensor.int8", _TENSOR("int8")),
    _Metric("operations.tensor.fp64", _TENSOR("fp64")),
    _Metric("operations.fp32", _SASS("ffma"), 2),
    _Metric("operations.fp32", _SASS("fadd")),
    _Metric("operations.fp32", _SASS("fmul")),
    _Metric("operations.fp32", _SASS("ffma2"), 4, since=_BLACKWELL, until=(12, 0)),
    _Metric("operations.fp32", _SASS("fadd2"), 2, since=_BLACKWELL, until=(12, 0)),
    _Metric("operations.fp32", _SASS("fmul2"), 2, since=_BLACKWELL, until=(12, 0)),
    _Metric("multiply_adds", _SASS("ffma")),
    _Metric("multiply_adds", _SASS("ffma2"), 2, since=_BLACKWELL, until=(12, 0)),
    _Metric("occupancy", "sm__maximum_warps_per_active_cycle_pct", 0.01),
    _Metric("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", 0.01),
    _Metric("waves", "launch__waves_per_multiprocessor"),
    *(_Metric(f"stalls.{reason}", _STALL(reason)) for reason in _REASONS),
    _Metric("stalls.imc_miss", _STALL("imc_miss"), until=_BLACKWELL),
    _Metric("stalls.gmma", _STALL("gmma"), since=_TMA, until=_BLACKWELL),
)
_WHOLE = {field.name for field in fields(Counters) if field.type == "int | None"}

_SCALES = {
    **dict.fromkeys(("ns", "nsecond"), 1e-6),  # times in ms
    **dict.fromkeys(("us", "usecond"), 1e-3),
    **dict.fromkeys(("s", "second"), 1e3),
    **{"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
}
"""Units that `Counters` does not use; ``--print-units base`` gives only ns and byte."""

_UNQUERIED = ("launch__", "sm__maximum_warps_per_active_cycle_pct")
"""Nsight Compute derives these from the launch: no chip lists them."""

_PERMISSIONS = (
    "the user may not read the GPU's counters (ERR_NVGPUCTRPERM). Run as root or with "
    "CAP_SYS_ADMIN (a container needs --cap-add SYS_ADMIN), or ask the administrator to load the "
    "driver with NVreg_RestrictProfilingToAdminUsers=0: "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
_TAKEN = (
    "another profiler holds the GPU's counters, often DCGM: `dcgmi profile --pause` releases them "
    "until `--resume`"
)
_LEAST_S = 20.0
"""Time limit for listing Nsight Compute's metrics."""


def metrics_of(capability: Capability, stalls: bool = True) -> tuple[str, ...]:
    """Return the metrics for a GPU.

    Args:
        capability: its compute capability.
        stalls: whether to include stall reasons.
    """
    metrics = (
        metric.name
        for metric in _METRICS
        if metric.since <= capability < metric.until
        and (stalls or not metric.field.startswith("stalls."))
    )
    return tuple(dict.fromkeys(metrics))


def ncu_command(
    program: Sequence[str], metrics: Sequence[str], kernels: Sequence[str], cold: bool, limit: int
) -> list[str]:
    """Return the command that runs a program under Nsight Compute, without its log file.

    Only launches between ``cudaProfilerStart`` and ``cudaProfilerStop`` are counted.

    Args:
        program: with its arguments.
        metrics: full names.
        kernels: names of the functions to count, without parameters.
        cold: whether to empty all caches before each replay.
        limit: the number of launches to count.
    """
    names = "|".join(re.escape(name) for name in sorted(set(kernels)))
    return [
        "ncu",
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function"),
        *("--kernel-name-base", "function", "--kernel-name", f"regex:^({names})$"),
        *("--replay-mode", "kernel", "--clock-control", "none"),
        *("--cache-control", "all" if cold else "none"),
        *("--profile-from-start", "off", "--target-processes", "all"),
        *("--launch-count", str(limit), "--metrics", ",".join(metrics)),
        *program,
    ]


def count_kernels(
    program: Sequence[str],
    kernels: Sequence[str],
    capability: Capability,
    *,
    cold: bool = True,
    stalls: bool = True,
    limit: int = 32,
    env: Mapping[str, str] | None = None,
    time_limit_s: float = 120.0,
) -> tuple[Counters, ...]:
    """Run a program and count what its kernels do.

    The result names the metrics that this GPU or this Nsight Compute lacks.

    Args:
        program: as for `ncu_command`.
        kernels: as for `ncu_command`.
        capability: the GPU's compute capability.
        cold: as for `ncu_command`.
        stalls: whether to count stall reasons.
        limit: as for `ncu_command`.
        env: of the program.
        time_limit_s: for the whole run.

    Returns:
        One entry per launch, in order.

    Raises:
        CountersError: ``ncu`` is missing or may not count, or it or the program failed.
    """
    if shutil.which("ncu", path=(env or os.environ).get("PATH")) is None:
        raise CountersError(
            "ncu (Nsight Compute) is not on PATH; it comes with the CUDA toolkit, often in "
            "/usr/local/cuda/bin"
        )
    metrics = metrics_of(capability, stalls)
    output = _run_ncu(ncu_command(program, metrics, kernels, cold, limit), env, time_limit_s)
    if "Failed to find metric" in output:
        supported = _without_unknown(metrics, output, env)
        output = _run_ncu(ncu_command(program, supported, kernels, cold, limit), env, time_limit_s)
    _check_output(output)
    return parse_report(output, metrics)


def _run_ncu(arguments: Sequence[str], env: Mapping[str, str] | None, time_limit_s: float) -> str:
    """Nsight Compute's table and messages; after a failure, also the program's last line."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = [arguments[0], "--log-file", str(log), *arguments[1:]]
        environment = {**(env or os.environ), "LC_ALL": "C.UTF-8"}  # so that numbers have a point
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            process = Program(command, env=environment, output=file.fileno())
            try:
                code = process.wait(time_limit_s)
            finally:
                process.end()  # the program may still run
            if code is None:
                raise CountersError(f"counting ran for over {time_limit_s:g} s and was stopped")
            file.seek(0)
            printed = file.read()
        output = log.read_text(errors="replace") if log.exists() else ""
    if code == 0:
        return output
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("==")]
    last = lines[-1] if lines else "it failed without a message"
    return "\n".join([output, *own, f"==ERROR== {last}"])


def _check_output(output: str) -> None:
    """Raise with a helpful reason if there is no table."""
    if "ERR_NVGPUCTRPERM" in output:
        raise CountersError(_PERMISSIONS)
    if "driver resource was unavailable" in output:
        raise CountersError(_TAKEN)
    if any(_is_table_line(line) for line in output.splitlines()):
        return
    errors = dict.fromkeys(re.findall(r"==ERROR==\s*(.*\S)", output))
    if errors:
        raise CountersError(f"ncu: {'; '.join(errors)}")


def _without_unknown(
    metrics: Sequence[str], output: str, env: Mapping[str, str] | None
) -> tuple[str, ...]:
    """Return the metrics that Nsight Compute knows on this GPU."""
    listed = _run_ncu(["ncu", "--query-metrics"], env, _LEAST_S)
    supported = set(re.findall(r"^\s*(\w+__\w+)\b", listed, re.MULTILINE))
    refused = set(re.findall(r"Failed to find metric (?:regex:\^?)?([\w.]+)", output))
    return tuple(
        name
        for name in metrics
        if name not in refused
        and name.partition(".")[0] not in refused
        and (not supported or name.startswith(_UNQUERIED) or name.partition(".")[0] in supported)
    )


# --------------------------------------------------------------------------------- reading


def parse_report(text: str, metrics: Sequence[str] = ()) -> tuple[Counters, ...]:
    """Read ``ncu --csv --page raw``: a row of names, a row of units, then one per launch.

    Args:
        text: may contain Nsight Compute's messages.
        metrics: metrics to report as missing if the table lacks them.
    """
    lines = (line for line in text.splitlines() if _is_table_line(line))
    rows = csv.reader(lines)
    names, units = next(rows, []), next(rows, [])
    records = [dict(zip(names, row)) for row in rows]
    return tuple(_read_counters(row, dict(zip(names, units)), metrics) for row in records)


def _is_table_line(line: str) -> bool:
    return line.startswith('"')


def _read_counters(
    row: Mapping[str, str], units: Mapping[str, str], metrics: Sequence[str]
) -> Counters:
    numbers = dict(_read_numbers(row, units))
    missing = tuple(name for name in metrics if name not in numbers)
    amounts: dict[str, float] = {}
    for metric in _METRICS:
        if metric.name in numbers:
            amount = metric.weight * numbers[metric.name]
            amounts[metric.field] = amounts.get(metric.field, 0.0) + amount
    for metric in _METRICS:
        if metric.name in missing:  # a partial sum is meaningless
            amounts.pop(metric.field, None)
    plain = {name: amount for name, amount in amounts.items() if "." not in name}
    # a difference of two counters from two replays may be negative
    whole = {name: max(round(amount), 0) for name, amount in plain.items() if name in _WHOLE}
    x, y, z = (int(n) for n in re.findall(r"\d+", row["Grid Size"])[:3])
    return Counters(
        name=row["Kernel Name"],
        grid=(x, y, z),
        operations={pipe: round(n) for pipe, n in _select_entries(amounts, "operations.")},
        stalls=dict(sorted(_select_entries(amounts, "stalls."), key=lambda entry: -entry[1])),
        missing=missing,
        **{**plain, **whole},  # type: ignore[arg-type]
    )


def _select_entries(amounts: Mapping[str, float], prefix: str) -> Iterator[tuple[str, float]]:
    for name, amount in amounts.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), amount


def _read_numbers(row: Mapping[str, str], units: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield the metrics with a value, in the units of `Counters`."""
    for name, text in row.items():
        if "__" not in name:
            continue
        try:
            number = float(text.replace(",", ""))
        except ValueError:  # "n/a" or empty
            continue
        yield name, number * _SCALES.get(units.get(name, ""), 1.0)
