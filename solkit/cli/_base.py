"""What every command does alike: how it fails, what it prints where, and where it writes."""

from __future__ import annotations

import contextlib
import enum
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from solkit.errors import InputError, SolkitError, UnsupportedError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Exit",
    "blame",
    "check_writable",
    "complain",
    "console",
    "failures_as_exit_codes",
    "stdout_kept_for_the_report",
    "write",
]


class Exit(enum.IntEnum):
    """What the exit code says. Where several hold: 130, 1, 2 (input), 4, 3, 2 (no score), 5."""

    REPORTED = 0
    SOLKIT_FAILED = 1
    BAD_INPUT = 2
    """The input or a shape is at fault, or --fail-under was asked for and a shape has no score."""
    CANDIDATE_FAILED = 3
    IMPOSSIBLE = 4
    UNDER_THRESHOLD = 5
    INTERRUPTED = 130


@contextlib.contextmanager
def failures_as_exit_codes(verbose: bool) -> Iterator[None]:
    """Turn what is raised within into a message on stderr and an exit code."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        complain("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None
    except Exception as error:
        raise typer.Exit(blame(error, verbose)) from None


def blame(error: Exception, verbose: bool) -> Exit:
    """Say on stderr what went wrong; the exit code says whose fault it is."""
    if isinstance(error, (InputError, UnsupportedError)):
        complain(str(error))
        return Exit.BAD_INPUT
    if verbose:
        traceback.print_exception(error)
    kind = "" if isinstance(error, SolkitError) else f"{type(error).__name__}: "
    hint = "" if verbose else " (--verbose shows where)"
    complain(f"{kind}{error}{hint}")
    return Exit.SOLKIT_FAILED


def complain(message: str) -> None:
    typer.echo(f"solkit: {message}", err=True)


@contextlib.contextmanager
def stdout_kept_for_the_report() -> Iterator[None]:
    """Send to stderr what kernel files, their child processes and C libraries print meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def check_writable(destination: str | None, option: str = "--json") -> None:
    """Raise before the work, not after it, where a file cannot be written.

    What the file holds stays, and a file that was not there is not left behind.

    Raises:
        InputError: it cannot be opened.
    """
    if destination is None or destination == "-":
        return
    path = Path(destination)
    if path.is_fifo():  # opening it is noticed at its other end
        return
    is_new = not path.exists()
    try:
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise InputError(f"{option}: cannot write {destination}: {error.strerror}") from error


def write(destination: str | None, text: Callable[[], str], option: str = "--json") -> None:
    if destination is None:
        return
    if destination == "-":
        typer.echo(text())
        return
    try:
        Path(destination).write_text(text() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option}: cannot write {destination}: {error.strerror}") from error
