"""``solkit run``: a program with its tuned configurations, unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from solkit.cli import _options, exit_codes
from solkit.errors import InputError

_Command = Annotated[
    list[str],
    typer.Argument(metavar="[--] COMMAND...", help="A program or script, with its arguments."),
]
_Apply = Annotated[
    Path,
    typer.Option("--apply", metavar="FOLDER", help="What `solkit batch` or `precompile` wrote."),
]


def run(command: _Command, folder: _Apply, verbose: _options.Tracebacks = False) -> None:
    """Run a program so that its Triton launches get their tuned configurations.

    Python processes that it starts do the same. SOLKIT_APPLY=0 turns it off. At exit a line on
    stderr says what was applied, what was not, and why.
    """
    with exit_codes.failures_as_exit_codes(verbose, "run"):
        from solkit.integrations.applying import environment_for, read_applied_folder
        from solkit.processes.startup import command_words

        read_applied_folder(folder)
        replace_process(command_words(command), environment_for(folder))


def replace_process(command: list[str], environment: dict[str, str]) -> None:
    """Become another program.

    Raises:
        InputError: it cannot be run.
    """
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from error
