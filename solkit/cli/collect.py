"""``solkit data collect``: time many configurations of many kernels on this machine's GPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.collect import Progress
    from solkit.core import Device, Outcome
    from solkit.measure.benches.trusted import TrustedBench

_What = Annotated[
    list[str],
    typer.Argument(
        metavar="WHAT...", help="'zoo', 'inductor', 'libraries', 'languages', or files and folders."
    ),
]
_Seconds = Annotated[
    float | None,
    typer.Option(min=3.0, metavar="N", help="Budget: wall time for which the GPU is held."),
]
_Minutes = Annotated[
    float | None, typer.Option(min=0.05, metavar="N", help="The same budget in minutes.")
]
_Log = Annotated[Path, typer.Option(metavar="FILE", help="Run file; resumed if it exists.")]
_After = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Earlier run file; only a share of it is timed again."),
]
_Families = Annotated[
    list[str] | None, typer.Option("--family", help="Only this family; repeatable.")
]
_Part = Annotated[str, typer.Option(metavar="I/N", help="Only part I of N, e.g. one part per GPU.")]
_Repeats = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of earlier runs to time again.")
]
_PerCell = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Configurations per kernel and shape; 0: only earlier runs' again."
    ),
]
_Workers = Annotated[
    int, typer.Option(min=0, metavar="N", help="Compiling processes; 0: all cores but one.")
]
_Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=_options.device_names,
        help="Fail unless the GPU is this model, named as in `solkit devices`.",
    ),
]
_On = Annotated[str, typer.Option("--on", metavar="cuda:N", help="GPU of this machine to time on.")]


def collect(
    what: _What,
    log: _Log,
    gpu_seconds: _Seconds = None,
    gpu_minutes: _Minutes = None,
    after: _After = None,
    family: _Families = None,
    part: _Part = "1/1",
    repeats: _Repeats = 0.05,
    per_shape: _PerCell = 72,
    workers: _Workers = 0,
    device: _Device = None,
    on: _On = "cuda:0",
    verbose: _options.Tracebacks = False,
) -> None:
    """Time configurations of kernels on this machine's GPU; each result is saved immediately.

    Every kernel and shape gets a few configurations in turn, so an interrupted run covers all of
    them evenly. The same command resumes it. `solkit data import` reads the file.
    """
    with exit_codes.failures_as_exit_codes(verbose), _base.stdout_kept_for_the_report():
        seconds = _budget_in_seconds(gpu_seconds, gpu_minutes)
        from solkit.collect import Limits, survey_kernels
        from solkit.collect import collect as collecting
        from solkit.datasets.kernels import select_kernels, share_of_gpu
        from solkit.datasets.outcomelog import OutcomeLog
        from solkit.measure.benches.trusted import Ahead, TrustedBench

        kernels = share_of_gpu(select_kernels(what, family or ()), part)
        if log.resolve() in {path.resolve() for path in after or ()}:
            raise InputError(f"--after: {log} is the run file itself")
        earlier = [row for path in after or () for row in _read_finished_rows(path)]
        gpu = _check_gpu(on, device)
        about = {"what": what, "part": part, "device": gpu.key, "per_shape": per_shape}
        limits = Limits(seconds, per_shape, repeats)
        with (
            OutcomeLog(log, about, resume=True) as run,
            Ahead(gpu, workers) as ahead,
            TrustedBench(ahead, run, kernels, _base.print_complaint) as bench,
        ):
            kernel_ids = {kernel.kernel_id for kernel in kernels}
            earlier = [
                row for row in [*earlier, *_read_finished_rows(log)] if row.kernel_id in kernel_ids
            ]
            _base.print_complaint(
                f"{len(kernels)} kernels on {gpu.name}; {len(earlier)} earlier rows"
            )
            report = partial(_print_collected, limits.gpu_s, bench)
            cells = survey_kernels(kernels, ahead, _base.print_complaint)
            report(
                collecting(
                    cells, bench, limits, earlier, run.run_id, _base.show_at_most_often(report)
                )
            )


def _check_gpu(on: str, device: str | None) -> Device:
    from solkit.core import MeasureSettings
    from solkit.roofline.devices import find
    from solkit.roofline.nvml import live_device

    gpu = live_device(MeasureSettings(on=on).gpu_index)
    if device is not None and find(device).key != gpu.key:
        raise InputError(f"--device {device}: {on} is {gpu.name}")
    return gpu


def _budget_in_seconds(seconds: float | None, minutes: float | None) -> float:
    if minutes is not None and seconds is None:
        return 60 * minutes
    if seconds is None or minutes is not None:
        raise InputError("give one of --gpu-seconds N and --gpu-minutes N")
    return seconds


def _read_finished_rows(path: Path) -> tuple[Outcome, ...]:
    """Read the rows of a run file; damaged lines are reported."""
    from solkit.datasets import outcomelog

    if path.is_dir():
        raise InputError(
            f"{path} is a folder, not a run file; export a store first: "
            f"solkit data export {path} tried.jsonl --to tried"
        )
    run = outcomelog.read(path)
    for fault in run.faults:
        _base.print_complaint(fault)
    return run.rows


def _print_collected(budget_s: float, bench: TrustedBench, progress: Progress) -> None:
    """Print progress on stderr; the budget is in seconds of the GPU."""
    count, gpu_s = sum(progress.rows.values()), max(progress.gpu_s, 1e-9)
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in progress.rows.most_common())
    _base.print_complaint(
        f"{count} configurations ({verdicts or 'none'}) in {gpu_s:.0f} of {budget_s:.0f} s: "
        f"{count / gpu_s:.1f} a second; waited for the compiler {bench.waited_s / gpu_s:.0%}; "
        f"{progress.now}"
    )
