"""``solkit batch``: faster parameters for many kernels, under one budget."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, _project, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import BatchSettings
    from solkit.measure.benches import RecordedBench

EPILOG = (
    "Exit codes: 0 done, whatever changed; 1 SolKit failed, and --resume goes on; 2 invalid input, "
    "or no such GPU here; 3 nothing ran; 130 interrupted before anything was measured."
)

_ManifestArgument = Annotated[
    str,
    typer.Argument(
        metavar="MANIFEST", help="A TOML file (docs/tuning.md), or a folder of `solkit record`."
    ),
]
_Minutes = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="N", help="Budget. Default: the manifest's limits.gpu_minutes."),
]
_Triage = Annotated[
    bool, typer.Option("--triage", help="Only say what is worth tuning: spends no GPU time.")
]
_StopAt = Annotated[
    float | None,
    _options.advanced(metavar="SHARE", help="Share of the speed of light that is enough."),
]
_Seed = Annotated[int, _options.advanced(min=0, help="Of the searches.")]
_Database = Annotated[
    str | None,
    _options.advanced(
        metavar="PLACE",
        help="Tuning database: a folder or server. Default: your data folder's; none if recorded.",
    ),
]
_UseDatabase = Annotated[
    bool, _options.advanced("--use-database/--no-database", help="Whether to read and extend it.")
]
_EmitTo = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Where `emit` and tuned.json of a recording go. Default: beside the manifest.",
    ),
]


def batch(
    manifest: _ManifestArgument,
    gpu_minutes: _Minutes = None,
    triage: _Triage = False,
    stop_at: _StopAt = None,
    seed: _Seed = 0,
    prior: _options.Prior = True,
    log: _options.Log = None,
    resume: _options.Resume = None,
    recorded: _options.Recorded = None,
    database: _Database = None,
    use_database: _UseDatabase = True,
    emit_to: _EmitTo = None,
    device: _options.Device = None,
    on: _options.On = None,
    gpus: _options.Gpus = None,
    ray: _options.Ray = None,
    workers: _options.Workers = 0,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Tune many kernels under one budget, spent where most time can be saved.

    First it says which are worth tuning. The parameters in use are always measured. A winner must
    be faster in a final, and correct and not slower at held-out shapes; else the original stays.
    Ctrl-C ends the search and keeps all that was measured.
    """
    with exit_codes.failures_as_exit_codes(verbose, "tune"):
        recorded = _base.find_recording(recorded)
        _base.check_readable(manifest, recorded, resume)
        _base.check_writable(json, inputs=(manifest, recorded))
        _base.check_one_log(log, resume)
        from solkit.core import BatchSettings
        from solkit.pipeline.batch import batch as tuning
        from solkit.report import batch as page

        where = log if resume is None else resume
        kept = where, resume is not None, database, use_database
        how = BatchSettings(*kept, seed, prior, stop_at, on, gpus, ray, workers, emit_to)
        with (
            _base.stdout_kept_for_the_report(),
            _base.showing_progress("looking at the kernels", page.status_line) as show,
        ):
            result = tuning(
                manifest,
                gpu_minutes=gpu_minutes,
                device=None if recorded else _project.device_setting(device, manifest, on),
                bench=_open_recording(recorded, device, how) if recorded else None,
                triage=triage,
                settings=how,
                show=show,
            )
        _base.show_page_or_json(json, partial(page.render, result), lambda: page.dumps(result))
        if result.items and not any(item.tuned.best for item in result.items):
            raise typer.Exit(exit_codes.exit_code_without_runs(result.interrupted))


def _open_recording(path: str, device: str | None, how: BatchSettings) -> RecordedBench:
    from solkit.measure.benches import RecordedBench

    if how.gpus or how.ray:
        raise InputError("--recorded replays one GPU: leave out --gpus and --ray")
    return RecordedBench.read(path, device=device)
