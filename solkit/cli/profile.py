"""``solkit profile``: where a model's GPU time goes, and how much could be saved."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.cli._options import Precision
from solkit.cli.exit_codes import Exit

if TYPE_CHECKING:
    from solkit.datasets.launch_recordings import RecordedKernel

_Source = Annotated[
    str,
    typer.Argument(metavar="TRACE|SCRIPT.py", help="A saved torch.profiler trace, or a script."),
]
_Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The script's arguments; put `--` before any with dashes."),
]
_Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=_options.device_names,
        help="The GPU that it ran on, named as in `solkit devices`. Default: the trace's.",
    ),
]
_Skip = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Skip the first N steps. Default for a script: 3."),
]
_Calls = Annotated[
    int, typer.Option(min=1, metavar="N", help="Stop the script after N more calls of its model.")
]
_TraceOut = Annotated[
    str | None, typer.Option(metavar="FILE", help="Save the script's trace (.json, .json.gz).")
]
_Manifest = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Write what is worth tuning to FILE (.toml), for `solkit batch`."
    ),
]
_All = Annotated[bool, typer.Option("--all", help="Show every op with all its kernels.")]
_ScriptLimit = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="Wall time for the script.")
]


def profile(
    source: _Source,
    arguments: _Arguments = None,
    device: _Device = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    skip: _Skip = None,
    calls: _Calls = 5,
    trace_out: _TraceOut = None,
    manifest: _Manifest = None,
    show_all: _All = False,
    json: _options.Json = None,
    script_limit: _ScriptLimit = 600.0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Rank the ops of a model by the time that closing their gap would save.

    A script needs a GPU; a saved trace does not.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(source)
        _base.check_distinct(**{"json": json, "trace-out": trace_out, "manifest": manifest})
        _base.check_writable(json, inputs=(source,))
        _base.check_writable(manifest, "--manifest", inputs=(source,))
        with _base.stdout_kept_for_the_report(), _base.showing_work(f"profiling {source}"):
            from solkit.processes import jobs as worker

            worker.start()  # it loads torch while the trace is read
            import solkit.profiling
            from solkit.profiling import profile_with_problems

            writes_files = manifest is not None and manifest != "-"
            with _recording_launches(source, manifest, skip):
                result = (profile_with_problems if writes_files else solkit.profiling.profile)(
                    source,
                    arguments or (),
                    device=device,
                    precision=precision.value,
                    skip=skip,
                    calls=calls,
                    trace_out=trace_out,
                    time_limit_s=script_limit,
                )
        from solkit.report import profile as page

        render = partial(page.render, result, complete=show_all)
        _base.show_page_or_json(json, render, lambda: page.dumps(result))
        if manifest is not None:
            kernels = _recorded_kernels(_launches_folder(manifest))
            from solkit.profiling.reference_files import write_reference_files
            from solkit.tuner.recorded_manifest import profiled_manifest_of

            files = write_reference_files(result, _folder_beside(manifest, "references"))
            _base.write_destination(
                manifest,
                lambda: profiled_manifest_of(result, kernels, files).rstrip("\n"),
                "--manifest",
            )
    raise typer.Exit(Exit.BAD_INPUT if result.failure else Exit.REPORTED)


_WARM_CALLS = 3


def _launches_folder(manifest: str) -> Path:
    """Return where the launches of a profiled script go."""
    return _folder_beside(manifest, "kernels")


def _folder_beside(manifest: str, what: str) -> Path:
    return Path(manifest).with_name(f"{Path(manifest).stem}_{what}")


def _recording_launches(
    source: str, manifest: str | None, skip: int | None
) -> contextlib.AbstractContextManager[None]:
    """Let a script record the calls that the profile skips, so that the profile is as without."""
    calls = _WARM_CALLS if skip is None else skip
    if manifest is None or manifest == "-" or not source.endswith(".py") or not calls:
        return contextlib.nullcontext()
    from solkit.processes.startup import asking_programs

    folder = str(_launches_folder(manifest).absolute())
    return asking_programs(SOLKIT_RECORD=folder, SOLKIT_RECORD_CALLS=str(calls))


def _recorded_kernels(folder: Path) -> tuple[RecordedKernel, ...]:
    from solkit.datasets.launch_recordings import (
        is_recording,
        read_launch_recording,
        write_kernel_files,
    )

    return write_kernel_files(read_launch_recording(folder)) if is_recording(folder) else ()
