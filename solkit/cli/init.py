"""``solkit init``: a kernel file for kernels that have none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes

if TYPE_CHECKING:
    from solkit.pipeline.starting import StartedFile

_MOST_SHOWN = 8  # places to fill in: what a first look takes in

_Source = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A Python or .cu file with kernels; nothing of it runs."),
]
_Function = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The launcher, class or @triton.jit function to score. Default: found."
    ),
]
_Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The file to write. Default: <stem>_solkit.py beside FILE."),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def init(
    file: _Source,
    function: _Function = None,
    out: _Out = None,
    force: _Force = False,
    verbose: _options.Tracebacks = False,
) -> None:
    """Write what a file with kernels lacks to be scored, with a TODO where only you know it.

    For a function or class that launches kernels: `reference`, `inputs` and `SPACE`. For a bare
    @triton.jit function: a launch description. For CUDA C++: a function that launches it. The new
    file imports or reads yours, which stays as it is.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(file)
        from solkit.pipeline import starting

        target = out or _path_beside(file)
        started = starting.start(file, target, function)
        if started.text:
            starting.check_new(target, file, force)
            text = started.text.removesuffix("\n")
            _base.write_destination(target, lambda: text, "--out")
        for line in _format_started(started, file, target):
            typer.echo(line)


def _path_beside(file: str) -> str:
    path = Path(file)
    return str(path.parent / f"{path.stem.replace('-', '_')}_solkit.py")


def _format_started(started: StartedFile, file: str, target: str) -> list[str]:
    if not started.text:
        return [f"{file} {started.why}: nothing to do", f"Next: {started.command}"]
    lines = [f"{target}: a kernel file for {started.chosen} of {file}"]
    if started.others:
        lines.append(f"Also there (--function NAME): {', '.join(started.others)}")
    lines += [f"{target}:{todo.line}: TODO: {todo.text}" for todo in started.todos[:_MOST_SHOWN]]
    if (more := len(started.todos) - _MOST_SHOWN) > 0:
        lines.append(f"{target}: {more} more TODO")
    after = "Next, with these filled in: " if started.todos else "Next: "
    return [*lines, f"{after}{started.command}"]
