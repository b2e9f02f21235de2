"""The command line: ``solkit score`` and ``solkit devices``.

Whatever is heavy (torch, pydantic, rich) is imported inside a command, so that ``solkit --help``
answers at once. The report goes to stdout, all else to stderr.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.core import Value, Verdict
from solkit.errors import InputError, ParamsError, ShapeError, SolkitError, UnsupportedError

if TYPE_CHECKING:
    from rich.console import Console

    from solkit.core import Report

__all__ = ["Exit", "app", "exit_code", "main", "parse_settings"]


class Exit(enum.IntEnum):
    """What the exit code says. Where several hold: 130, 1, 2 (input), 4, 3, 2 (no score), 5."""

    REPORTED = 0
    SOLKIT_FAILED = 1
    BAD_INPUT = 2
    """The input is at fault, or --fail-under was asked for and a shape has no score."""
    CANDIDATE_FAILED = 3
    IMPOSSIBLE = 4
    UNDER_THRESHOLD = 5
    INTERRUPTED = 130


_EPILOG = (
    "Exit codes: 0 reported; 1 SolKit failed; 2 the input is at fault, or --fail-under has no "
    "score to judge; 3 a candidate is wrong, does not compile, crashed or ran out of time or "
    "memory; 4 a time is impossible; 5 a score is under --fail-under; 130 interrupted. Where "
    "several hold, 4 goes before 3, 3 before --fail-under's."
)


class Precision(str, enum.Enum):
    """What `solkit.pipeline.score` takes as precision."""

    TOLERANCE = "tolerance"
    DECLARED = "declared"
    TF32 = "tf32"
    BF16 = "bf16"
    FP8 = "fp8"


app = typer.Typer(
    name="solkit",
    help="How fast a GPU kernel could run, how far it is from that, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The console script: run a command and leave with its exit code."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


def _version(asked: bool) -> None:
    if asked:
        import solkit

        typer.echo(f"solkit {solkit.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version  # its callback has answered


@app.command(epilog=_EPILOG)
def score(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="The kernel file.")],
    device: Annotated[
        str | None,
        typer.Option(help="The target GPU: see `solkit devices`. Default: the one present."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="The file that holds the reference.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="M=4096,N=1000", help="Sizes of one workload; may be repeated."),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(metavar="BLOCK=1024", help="Parameters of the candidate."),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="What fp32 contractions may be computed in.")
    ] = Precision.TOLERANCE,
    measure: Annotated[
        bool | None,
        typer.Option("--measure/--no-measure", help="Default: measure where the GPU is present."),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write JSON; `-`: to stdout, alone.")
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Exit with 5 if a shape's SOL score is lower."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="For measuring one shape, and for all that precedes measuring. Default: 120, 180.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show every shape in full, and tracebacks.")
    ] = False,
) -> None:
    """Say how fast a kernel could run, how fast it does, and what stands between."""
    with _failures_as_exit_codes(verbose):
        shapes = [parse_settings(text, "--shape") for text in shape or ()]
        chosen = parse_settings(",".join(params), "--params") if params else None
        _check_writable(json)
        with _stdout_kept_for_the_report():
            from solkit import worker

            worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline

            report = pipeline.score(
                kernel,
                device=device,
                reference=reference,
                shapes=shapes or None,
                params=chosen,
                precision=precision.value,
                measure=measure,
                time_limit_s=time_limit,
            )
        _show(report, json, verbose)
    raise typer.Exit(exit_code(report, fail_under))


@app.command()
def devices(
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write JSON; `-`: to stdout, alone.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show tracebacks.")] = False,
) -> None:
    """List the GPUs of this machine and those that SolKit knows."""
    with _failures_as_exit_codes(verbose):
        _check_writable(json)
        from solkit.report import devices as listing
        from solkit.roofline.devices import catalogue
        from solkit.roofline.nvml import live_devices

        known = catalogue()
        try:
            live = live_devices()
        except SolkitError as error:  # an unknown GPU: all the more reason to list the known ones
            live = ()
            _complain(str(error))
        if json != "-":
            listing.render(known, live, _console())
        _write(json, lambda: listing.dumps(known, live))


# ------------------------------------------------------------------------------ exit codes


def exit_code(report: Report, fail_under: float | None = None) -> Exit:
    """What the command line says of a report."""
    verdicts = [result.verdict for result in report.results]
    if Verdict.IMPOSSIBLE in verdicts:
        return Exit.IMPOSSIBLE
    if any(verdict.is_failure for verdict in verdicts):
        return Exit.CANDIDATE_FAILED
    if fail_under is None:
        return Exit.REPORTED
    scores = [result.score.sol_score for result in report.results if result.score]
    if len(scores) < len(verdicts) or not scores:
        _complain("--fail-under: not every shape was measured, so there is no score to judge")
        return Exit.BAD_INPUT
    return Exit.UNDER_THRESHOLD if min(scores) < fail_under else Exit.REPORTED


@contextlib.contextmanager
def _failures_as_exit_codes(verbose: bool) -> Iterator[None]:
    """Turn what is raised within into a message on stderr and an exit code."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        _complain("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None
    except (InputError, UnsupportedError) as error:
        _complain(str(error))
        raise typer.Exit(Exit.BAD_INPUT) from None
    except Exception as error:
        if verbose:
            traceback.print_exc()
        kind = "" if isinstance(error, SolkitError) else f"{type(error).__name__}: "
        hint = "" if verbose else " (--verbose shows where)"
        _complain(f"{kind}{error}{hint}")
        raise typer.Exit(Exit.SOLKIT_FAILED) from None


def _complain(message: str) -> None:
    typer.echo(f"solkit: {message}", err=True)


# --------------------------------------------------------------------------- what comes in


def parse_settings(text: str, option: str) -> dict[str, Value]:
    """Read ``"M=4096,dtype=bfloat16"``.

    Values are integers, floats, ``true``, ``false`` and ``None`` where they look so, else words;
    ``torch.bfloat16`` is the word ``bfloat16``.

    Args:
        text: what stands behind the option.
        option: ``"--shape"`` or ``"--params"``.

    Raises:
        ShapeError, ParamsError: a part is not NAME=VALUE, or a name comes twice.
    """
    fault = ShapeError if option == "--shape" else ParamsError
    settings: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name.isidentifier() and equals and value) or "=" in value:
            raise fault(f"{option}: {part!r} in {text!r} is not NAME=VALUE, as in M=4096,N=1000")
        if name in settings:
            raise fault(f"{option}: {name} is given twice in {text!r}")
        settings[name] = _value(value)
    return settings


def _value(word: str) -> Value:
    named: dict[str, Value] = {"true": True, "false": False, "none": None}
    if word.lower() in named:
        return named[word.lower()]
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(word)
    return word.removeprefix("torch.")


# -------------------------------------------------------------------------- what goes out


@contextlib.contextmanager
def _stdout_kept_for_the_report() -> Iterator[None]:
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


def _show(report: Report, json: str | None, verbose: bool) -> None:
    from solkit.report import schema, terminal

    if json != "-":
        terminal.render(report, _console(), details=verbose)
    _write(json, lambda: schema.dumps(report))


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _check_writable(destination: str | None) -> None:
    """Raise before the work, not after it, where a --json file cannot be written.

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
        raise InputError(f"--json: cannot write {destination}: {error.strerror}") from error


def _write(destination: str | None, text: Callable[[], str]) -> None:
    if destination is None:
        return
    if destination == "-":
        typer.echo(text())
        return
    try:
        Path(destination).write_text(text() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--json: cannot write {destination}: {error.strerror}") from error
