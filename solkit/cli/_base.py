"""Output of commands to consoles and files."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from solkit.errors import InputError
from solkit.userdata import write_atomically

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_EVERY_S = 10.0
T = TypeVar("T")


def print_complaint(message: str) -> None:
    """Print a message on stderr."""
    typer.echo(f"solkit: {message}", err=True)


def show_at_most_often(show: Callable[[T], None]) -> Callable[[T], None]:
    """Return a function that calls `show_page_or_json` at most every ten seconds."""
    last = -math.inf

    def now_and_then(progress: T) -> None:
        nonlocal last
        if time.monotonic() - last >= _SHOWN_EVERY_S:
            last = time.monotonic()
            show(progress)

    return now_and_then


@contextlib.contextmanager
def showing_progress(doing: str, line: Callable[[T], str]) -> Iterator[Callable[[T], None]]:
    """Show how far a run is: a line that changes on a terminal, else one every ten seconds.

    Args:
        doing: what is shown before the first line.
        line: a status in words.
    """
    if not sys.stderr.isatty():
        yield show_at_most_often(lambda status: print_complaint(line(status)))
        return
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with screen.status(doing) as shown:
        yield lambda status: shown.update(line(status))


@contextlib.contextmanager
def stdout_kept_for_the_report() -> Iterator[None]:
    """Redirect to stderr whatever kernel files, child processes and C libraries print."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def showing_work(what: str) -> Iterator[None]:
    """Show on a terminal what a command is doing and how far it is, until it is done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from solkit.core import progress

    with contextlib.ExitStack() as stack:
        screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
        status = stack.enter_context(screen.status(what))
        stack.enter_context(progress.reported_to(lambda text: status.update(f"{what}: {text}")))
        yield


def rich_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)  # names may contain [..] and :..:


def show_page_or_json(
    json: str | None, render: Callable[[Console], None], dumps: Callable[[], str]
) -> None:
    """Print a page, unless stdout is for JSON, and write the JSON if it has a destination."""
    if json != "-":
        render(rich_console())
    write_destination(json, dumps)


def use_one_thread_of_blas() -> None:
    """Let numpy, which is not loaded yet, compute with one thread.

    Of small matrices, and on busy cores, more threads would only wait for each other.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_readable(*files: str | None) -> None:
    """Raise at once, before anything heavy starts, if a file or folder is missing.

    Raises:
        InputError: it is missing, or reports could not hold its name.
    """
    for file in filter(None, files):
        if file != file.encode(errors="ignore").decode():
            raise InputError(f"{file!a} is not a name in UTF-8: rename it")
        if not Path(file).exists():
            raise InputError(f"{file}: no such file")


def kernel_file(place: str) -> str:
    """Return the file of a kernel: of ``FOLDER/KERNEL`` in a folder of `solkit record`.

    Raises:
        InputError: the folder has no such kernel, or several; names them.
    """
    from solkit.datasets.launch_recordings import is_recording

    path = Path(place)
    if path.is_file() or not (is_recording(path) or is_recording(path.parent)):
        return place
    from solkit.datasets.launch_recordings import kernel_file_in

    return kernel_file_in(place)


def candidate_and_problem(
    kernel: str, reference: str | None, solution: str | None
) -> tuple[str, str | None]:
    """Return the file with a candidate, and its problem's if that is another one.

    Raises:
        InputError: both options are given.
    """
    if solution is None:
        return kernel, reference
    if reference is not None:
        raise InputError(
            f"--solution {solution} and --reference {reference}: give only one. With --solution "
            "KERNEL is the problem, with --reference it is the candidate"
        )
    return solution, kernel


def check_one_log(log: str | None, resume: str | None) -> None:
    """Raise if a run is both new and resumed."""
    if log and resume:
        raise InputError("give one of --log FILE, for a new run, and --resume FILE")


def find_recording(place: str | None) -> str | None:
    """Return the file or folder of a recording, which may be the name of a shipped set.

    Raises:
        InputError: there is neither; names sets of similar names.
    """
    if place is None or "/" in place or Path(place).exists():
        check_readable(place)
        return place
    from solkit.datasets.store import shipped

    return str(shipped(place).folder)


def check_writable(
    destination: str | None, option: str = "--json", inputs: Sequence[str | None] = ()
) -> None:
    """Raise before the work, not after it, if a file cannot be written; leave it unchanged.

    Args:
        destination: a file, ``-`` for stdout, or ``None``.
        option: names it.
        inputs: files that the command reads.

    Raises:
        InputError: it cannot be opened, or it is Python source, an input or a log.
    """
    if destination is None or destination == "-":
        return
    from solkit.datasets import outcomelog

    path = Path(destination)
    if path.suffix == ".py":
        raise InputError(
            f"{option}: {destination} is a Python file, and none is ever overwritten: name another"
        )
    if any(_is_same_file(path, file) for file in inputs if file is not None):
        raise InputError(f"{option}: {destination} is an input of this command: name another file")
    if path.is_fifo():  # the reader would notice that it was opened
        return
    is_new = not path.exists()
    if path.is_file() and outcomelog.is_outcome_log(path):
        raise InputError(
            f"{option}: {destination} is a log, whose measurements are never overwritten: "
            "name another file, or move the log"
        )
    try:
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise InputError(f"{option}: cannot write {destination}: {error.strerror}") from error


def check_distinct(**destinations: str | None) -> None:
    """Raise if two options name one file.

    Raises:
        InputError: both are named.
    """
    named: dict[Path, str] = {}
    for option, destination in destinations.items():
        if destination is None or destination == "-":
            continue
        place = Path(destination).resolve()
        if place in named:
            raise InputError(
                f"--{named[place]} and --{option} both name {destination}: name two files"
            )
        named[place] = option


def _is_same_file(path: Path, other: str) -> bool:
    try:
        return path.samefile(other)
    except OSError:  # one of them is not there
        return False


def write_destination(
    destination: str | None, text: Callable[[], str], option: str = "--json"
) -> None:
    """Write text to a file, or to stdout for ``-``. An existing file is replaced atomically.

    Raises:
        InputError: it cannot be written.
    """
    if destination is None:
        return
    if destination == "-":
        typer.echo(text())
        return
    try:
        _replace_atomically(Path(destination), text() + "\n")
    except OSError as error:
        raise InputError(f"{option}: cannot write {destination}: {error.strerror}") from error


def _replace_atomically(path: Path, text: str) -> None:
    """Write a draft beside the file, then move it into place."""
    target = path.resolve()  # a link stays a link
    held_open = path.parts[:2] in (("/", "dev"), ("/", "proc"))  # e.g. /dev/stdout, a file or not
    if held_open or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
        return
    try:
        write_atomically(target, text.encode(), durably=True)
    except PermissionError:  # the file is writable, its folder is not
        target.write_text(text, encoding="utf-8")
