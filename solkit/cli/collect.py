"""``solkit data collect``: times many configurations of many kernels on this machine's GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.collect import Progress
    from solkit.datasets.record import TimedConfiguration

__all__ = ["collect"]

_TOLD_EVERY_S = 10.0

_What = Annotated[
    list[str],
    typer.Argument(metavar="WHAT...", help="'zoo', 'inductor', or kernel files and folders."),
]
_Minutes = Annotated[float, typer.Option(min=0.05, metavar="N", help="How long to time.")]
_Out = Annotated[
    Path, typer.Option(metavar="FILE", help="The run's file; one that is there is gone on with.")
]
_After = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="An earlier run's file: only a share of it is tried again."),
]
_Families = Annotated[list[str] | None, typer.Option("--family", help="Only this one; repeatable.")]
_Part = Annotated[
    str, typer.Option(metavar="I/N", help="Only the I-th of N parts: one a GPU, say.")
]
_Repeats = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="The share of earlier runs that is timed again.")
]
_PerCell = Annotated[
    int, typer.Option(min=1, metavar="N", help="Configurations of one kernel at one shape.")
]
_Workers = Annotated[
    int, typer.Option(min=0, metavar="N", help="Processes that compile; 0: all cores but one.")
]
_Index = Annotated[
    int, typer.Option("--device", min=0, metavar="INDEX", help="Which GPU, as CUDA counts.")
]


def collect(
    what: _What,
    gpu_minutes: _Minutes,
    out: _Out,
    after: _After = None,
    family: _Families = None,
    part: _Part = "1/1",
    repeats: _Repeats = 0.05,
    per_shape: _PerCell = 72,
    workers: _Workers = 0,
    device: _Index = 0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Time configurations of kernels on a GPU of this machine; rows are on disk as they are had.

    Every kernel and shape gets a handful of configurations in turn, so that a run that is cut has
    looked at all alike; the same command goes on with it. `solkit data import` takes the file.
    """
    with _base.failures_as_exit_codes(verbose), _base.stdout_kept_for_the_report():
        from solkit.collect import Limits, part_of, sources
        from solkit.collect import collect as collecting
        from solkit.datasets.runlog import RunLog
        from solkit.roofline.nvml import live_device

        kernels = part_of(sources(what, family or ()), part)
        if out.resolve() in {path.resolve() for path in after or ()}:
            raise InputError(f"--after: {out} is the run itself")
        earlier = [row for path in after or () for row in _rows(path)]
        gpu = live_device(device)
        about = {"what": what, "part": part, "device": gpu.key, "per_shape": per_shape}
        limits = Limits(60 * gpu_minutes, per_shape, repeats, workers)
        with RunLog(out, about) as log:
            earlier += _rows(out)
            _base.complain(f"{len(kernels)} kernels on {gpu.name}; {len(earlier)} rows from before")
            told = _Teller(limits.seconds)
            progress = collecting(kernels, gpu, log, limits, earlier, told.progress, _base.complain)
        told.line(progress)


def _rows(path: Path) -> tuple[TimedConfiguration, ...]:
    """The rows of a run's file; lines that hold none are told."""
    from solkit.datasets import runlog

    if path.is_dir():
        raise InputError(
            f"{path} is a folder, not a run's file; a store is exported first: "
            f"solkit data export {path} tried.jsonl --to tried"
        )
    run = runlog.read(path)
    for fault in run.faults:
        _base.complain(fault)
    return run.rows


class _Teller:
    """Tells now and then how far it is."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, 0.0

    def progress(self, progress: Progress) -> None:
        """Tell it unless that was only just done."""
        if time.monotonic() - self._last > _TOLD_EVERY_S:
            self._last = time.monotonic()
            self.line(progress)

    def line(self, progress: Progress) -> None:
        """Tell it."""
        count = sum(progress.rows.values())
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in progress.rows.most_common())
        waited = progress.waited_s / max(progress.seconds, 1e-9)
        _base.complain(
            f"{count} configurations ({verdicts or 'none'}) in {progress.seconds:.0f} of "
            f"{self._seconds:.0f} s: {count / max(progress.seconds, 1e-9):.1f} a second; "
            f"waited for the compiler {waited:.0%}; {progress.now}"
        )
