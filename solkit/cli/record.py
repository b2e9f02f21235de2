"""``solkit record``: the Triton launches of a program, as kernel files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.cli.exit_codes import Exit
from solkit.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from solkit.datasets.launch_recordings import LaunchRecording, RecordedKernel

EPILOG = (
    "Exit codes: 0 launches were recorded, however the program ended; 1 SolKit failed; 2 invalid "
    "input, or nothing was launched."
)

_Program = Annotated[
    str, typer.Argument(metavar="SCRIPT.py|PROGRAM", help="What to run: a script or a command.")
]
_Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="All that follows the program is its own."),
]
_Out = Annotated[str, typer.Option(metavar="FOLDER", help="Where the launches go.")]
_Skip = Annotated[int, typer.Option(min=0, metavar="N", help="Skip N calls of its model.")]
_Calls = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Record N calls of its model. Default: all.")
]


def record(
    program: _Program,
    arguments: _Arguments = None,
    out: _Out = "recorded",
    skip: _Skip = 0,
    calls: _Calls = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Record every Triton launch of a program, and write a kernel file of each kernel.

    The program runs as ever, in this terminal; Python processes that it starts are recorded too.
    The kernel files need none of its libraries: score, rank, tune, batch and evolve take them.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.datasets.launch_recordings import (
            is_recording,
            read_launch_recording,
            write_kernel_files,
        )
        from solkit.processes.startup import run_with_shim

        folder = _made_folder(out)
        variables = {"SOLKIT_RECORD": str(folder)}
        variables |= {"SOLKIT_RECORD_SKIP": str(skip)} if skip else {}
        variables |= {"SOLKIT_RECORD_CALLS": str(calls)} if calls else {}
        code = run_with_shim([program, *_own_arguments(program, arguments or [])], **variables)
        if code:
            _base.print_complaint(f"{program} ended with exit code {code}")
        if not is_recording(folder):
            raise InputError(
                f"{program} launched no Triton kernel that could be recorded: it has to run where "
                "its GPU is, and what Triton's interpreter runs is not recorded"
            )
        recorded = read_launch_recording(folder)
        kernels = write_kernel_files(recorded)
        _show_kernels(_base.rich_console(), out, recorded, kernels)
    raise typer.Exit(Exit.REPORTED)


def _own_arguments(program: str, arguments: list[str]) -> list[str]:
    """Return the program's arguments; `--` may stand before them."""
    if arguments[:1] == ["--"]:
        return arguments[1:]
    names = {argument.partition("=")[0] for argument in arguments}
    for name in sorted({"--out", "--skip", "--calls"} & names):
        _base.print_complaint(
            f"{name} is {program}'s own; put it first to give it to solkit record"
        )
    return arguments


def _made_folder(out: str) -> Path:
    """Make the folder before the program runs, which may take long.

    Raises:
        InputError: it cannot be made.
    """
    folder = Path(out).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot make the folder: {error.strerror}") from error
    return folder


def _show_kernels(
    console: Console, out: str, recorded: LaunchRecording, kernels: tuple[RecordedKernel, ...]
) -> None:
    """Print the kernel files, those that were called most first, and what has none."""
    from solkit.datasets.launch_recordings import kernels_of_recording

    calls = sum(launch.calls for launch in recorded.launches)
    processes = len(recorded.heads)
    console.print(
        f"{out}: {calls} launches, {len(recorded.launches)} distinct, of {processes} "
        f"process{'es' if processes != 1 else ''}"
    )
    for kernel in kernels:
        shapes = len(kernel.launches)
        graphs = sum(launch.graph_calls for launch in kernel.launches)
        inside = f", {graphs} in CUDA graphs" if graphs else ""
        console.print(
            f"  {kernel.calls:6d} calls  {shapes:3d} shape{'s' if shapes != 1 else ' '}  "
            f"{kernel.name}.py{inside}"
        )
    for note in (*kernels_of_recording(recorded)[1], *recorded.notes):
        console.print(f"  {note}")
