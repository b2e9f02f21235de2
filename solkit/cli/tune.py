"""``solkit tune``: faster parameters for one kernel, under a budget of GPU seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _declared, _options, _project, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Tuned
    from solkit.measure.benches import RecordedBench
    from solkit.tuner.emitters import Target

EPILOG = (
    "Exit codes: 0 tuned, whatever the verdict; 1 SolKit failed; 2 invalid input, or no such GPU "
    "here; 3 nothing ran; 130 interrupted before anything was measured."
)

_Kernel = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="The kernel file, or --solution's problem folder. With --recorded also a recorded "
        "kernel's name or id.",
    ),
]
_Seconds = Annotated[
    float, typer.Option(min=0.0, metavar="N", help="Budget of the search; the final comes after.")
]
_StopAt = Annotated[
    float, _options.advanced(metavar="SHARE", help="Share of the speed of light that is enough.")
]
_LeastGain = Annotated[
    float,
    _options.advanced(
        metavar="SHARE",
        help="Stop when the next measurement is expected to save less than this share.",
    ),
]
_Seed = Annotated[int, _options.advanced(min=0, help="Of the search.")]
_Plot = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write best time against GPU seconds, as HTML.")
]
_Emit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT:PATH",
        help="Write the chosen parameters in a form of `solkit emit`; repeatable.",
    ),
]
_Database = Annotated[
    str | None,
    _options.advanced(
        metavar="PLACE",
        help="A tuning database, which warms the search and gets its results: a folder, or a "
        "server's URL.",
    ),
]
_Choices = Annotated[
    list[str] | None,
    _options.advanced(
        metavar="FILE",
        help="Configurations that vLLM, SGLang or others chose for another GPU or size: the "
        "nearest are measured first. Repeatable.",
    ),
]
_Map = Annotated[
    list[str] | None,
    _options.advanced(
        "--map", metavar="M=num_tokens", help="The kernel's name of what --choices call M."
    ),
]


def tune(
    kernel: _Kernel,
    gpu_seconds: _Seconds = 60.0,
    shape: _options.Shape = None,
    reference: _options.Reference = None,
    solution: _options.Solution = None,
    params: _options.InUse = None,
    stop_at: _StopAt = 0.95,
    least_gain: _LeastGain = 1e-4,
    seed: _Seed = 0,
    prior: _options.Prior = True,
    log: _options.Log = None,
    resume: _options.Resume = None,
    recorded: _options.Recorded = None,
    device: _options.Device = None,
    on: _options.On = None,
    gpus: _options.Gpus = None,
    ray: _options.Ray = None,
    workers: _options.Workers = 0,
    plot: _Plot = None,
    emit: _Emit = None,
    database: _Database = None,
    choices: _Choices = None,
    names: _Map = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Search a kernel's parameters for faster ones, and prove that they are.

    The parameters in use are always measured. The best ones found meet them in a final on fresh
    inputs in a new process; without a significant win the answer is to keep what you have. Ctrl-C
    ends the search, and keeps all that was measured.
    """
    with exit_codes.failures_as_exit_codes(verbose, "tune"):
        recorded = _base.find_recording(recorded)
        kernel = kernel if recorded else _base.kernel_file(kernel)
        kernel, reference = _base.candidate_and_problem(kernel, reference, solution)
        _base.check_readable(reference, recorded, resume, None if recorded else kernel)
        _base.check_readable(*(choices or ()))
        _check_outputs(kernel, reference, recorded, plot, json)
        _base.check_one_log(log, resume)
        if recorded and (gpus or ray):
            raise InputError("--recorded needs no GPU: leave out --gpus and --ray")
        targets = _emit_targets(emit)
        in_use = _options.parse_params(params) or {}
        sizes = _project.one_shape_setting(shape, kernel)
        if not recorded:
            shapes = None if sizes is None else [sizes]
            _declared.check_declared_names(kernel, reference, shapes, in_use)
        gpu = None if recorded else _project.device_setting(device, kernel, on)
        from solkit.core import TuneSettings
        from solkit.pipeline.tuning import tune as tuning
        from solkit.report import tuning as page

        settings = TuneSettings(stop_at, least_gain, seed, prior=prior, workers=workers)
        settings = replace(settings, params=in_use, on=on, gpus=gpus, ray=ray)
        settings = replace(settings, log=resume or log, resume=resume is not None)
        own_names = dict(_options.parse_pair("--map", pair) for pair in names or ())
        settings = replace(settings, choices=tuple(choices or ()), names=own_names)
        settings = replace(settings, database=database)
        with (
            _base.stdout_kept_for_the_report(),
            _base.showing_progress("tuning", page.status_line) as show,
        ):
            tuned = tuning(
                kernel,
                gpu_seconds=gpu_seconds,
                device=gpu,
                reference=reference,
                shape=sizes,
                bench=_open_recording(recorded, device, kernel, reference) if recorded else None,
                settings=settings,
                show=show,
            )
        _write_reports(tuned, json, plot)
        _emit_all_forms(tuned, targets)
        if tuned.best is None:
            raise typer.Exit(exit_codes.exit_code_without_runs(tuned.stopped == "interrupted"))


_ENTRY_POINTS = ("kernel", "ModelNew", "run")
"""Entry points whose parameters can be tuned: SolKit's own, KernelBench's and solutions'."""


def _check_outputs(
    kernel: str, reference: str | None, recorded: str | None, plot: str | None, json: str | None
) -> None:
    inputs = (kernel, reference, recorded)
    _base.check_distinct(json=json, plot=plot)
    _base.check_writable(json, inputs=inputs)
    if plot == "-":
        raise InputError("--plot: name a file; only --json takes `-`")
    _base.check_writable(plot, "--plot", inputs)
    if plot is not None:
        from solkit.extras import library

        library("plotly")


def _emit_targets(emit: Sequence[str] | None) -> list[Target]:
    if not emit:
        return []
    from solkit.tuner.emitters import parse_target

    return [parse_target(text) for text in emit]


def _emit_all_forms(tuned: Tuned, targets: Sequence[Target]) -> None:
    """Write the parameters in each form; what one refuses is written in the others."""
    from solkit.tuner.emitters import emit

    faults = []
    for target in targets if tuned.best is not None else ():
        try:
            written = emit([tuned], target.form, target.path)
        except InputError as error:
            faults.append(f"--emit {target.form}:{target.path}: {error}")
            continue
        for note in written.notes:
            _base.print_complaint(note)
    if faults:
        raise InputError("; ".join(faults))


def _open_recording(
    path: str, device: str | None, kernel: str, reference: str | None
) -> RecordedBench:
    """Open the recording; of a store, only the rows of the kernel."""
    from pathlib import Path

    from solkit.measure.benches import RecordedBench

    if not Path(path).is_dir():
        return RecordedBench.read(path, device=device)
    names = {kernel}
    if Path(kernel).is_file():
        from solkit.datasets.kernels import kernel_at_path

        names = {kernel_at_path(kernel, entry, reference).kernel_id for entry in _ENTRY_POINTS}
    quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    where = f"kernel_id in ({quoted}) or implementation in ({quoted})"
    try:
        return RecordedBench.read(path, where=where, device=device)
    except InputError as error:
        raise InputError(
            f"{path} has no row of {kernel!r} ({error}). `solkit data query {path} "
            "'select distinct implementation, device from data'` lists what it holds"
        ) from error


def _write_reports(tuned: Tuned, json: str | None, plot: str | None) -> None:
    from functools import partial

    from solkit.report import tuning as page

    _base.show_page_or_json(json, partial(page.render, tuned), lambda: page.dumps(tuned))
    _base.write_destination(plot, lambda: page.convergence_plot(tuned), "--plot")
