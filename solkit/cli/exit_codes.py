"""Exit codes: of an exception, of a score's verdicts and of a comparison."""

from __future__ import annotations

import contextlib
import enum
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from solkit.cli._base import print_complaint
from solkit.errors import InputError, SolkitError, UnsupportedError
from solkit.extras import needed, translated

if TYPE_CHECKING:
    from solkit.core import ComparisonReport, Report


class Exit(enum.IntEnum):
    """Exit codes. If several apply: 130, 1, 2 (input), 4, 3, 2 (no score), 5."""

    REPORTED = 0
    SOLKIT_FAILED = 1
    """SolKit failed; or `data verify` found a damaged store."""
    BAD_INPUT = 2
    """The input or a shape is invalid, or --fail-under was given and a shape has no score."""
    CANDIDATE_FAILED = 3
    IMPOSSIBLE = 4
    UNDER_THRESHOLD = 5
    INTERRUPTED = 130
    TERMINATED = 143
    """By SIGTERM."""


@contextlib.contextmanager
def failures_as_exit_codes(verbose: bool, extra: str | None = None) -> Iterator[None]:
    """Turn exceptions into a message on stderr and an exit code.

    Args:
        verbose: whether tracebacks are shown.
        extra: the extra of SolKit that brings all that the command needs.
    """
    try:
        with needed(extra):
            yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        print_complaint("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None
    except Exception as error:
        raise typer.Exit(print_blame(error, verbose)) from None


def print_blame(error: Exception, verbose: bool) -> Exit:
    """Print on stderr what went wrong; the exit code says whose fault it is."""
    error = translated(error) or error
    if isinstance(error, (InputError, UnsupportedError)):
        print_complaint(str(error))
        return Exit.BAD_INPUT
    if verbose:
        traceback.print_exception(error)
    kind = "" if isinstance(error, SolkitError) else f"{type(error).__name__}: "
    hint = "" if verbose else " (--verbose shows where)"
    print_complaint(f"{kind}{error}{hint}")
    return Exit.SOLKIT_FAILED


def exit_code_of_score(report: Report, fail_under: float | None = None) -> Exit:
    """Return the exit code of a score's verdicts; `fail_under` is the lowest accepted SOL score."""
    from solkit.core import Verdict  # 40 ms that --help need not take

    verdicts = [result.verdict for result in report.results]
    if Verdict.IMPOSSIBLE in verdicts:
        return Exit.IMPOSSIBLE
    if any(verdict.is_failure for verdict in verdicts):
        return Exit.CANDIDATE_FAILED
    if report.failed:
        return Exit.BAD_INPUT
    if fail_under is None:
        return Exit.REPORTED
    scores = [result.score.sol_score for result in report.results if result.score]
    if len(scores) < len(verdicts) or not scores:
        print_complaint("--fail-under: not every shape was measured, so no score to compare")
        return Exit.BAD_INPUT
    return Exit.UNDER_THRESHOLD if min(scores) < fail_under else Exit.REPORTED


def of_comparison(report: ComparisonReport) -> Exit:
    """Return the exit code of a comparison: 3 if a candidate failed, 2 if a shape did."""
    from solkit.core import Difference  # 40 ms that --help need not take

    if any(comparison.difference is Difference.NOT_COMPARED for comparison in report.comparisons):
        return Exit.CANDIDATE_FAILED
    return Exit.BAD_INPUT if report.failed else Exit.REPORTED


_GRAVEST = (
    Exit.SOLKIT_FAILED,
    Exit.IMPOSSIBLE,
    Exit.CANDIDATE_FAILED,
    Exit.BAD_INPUT,
    Exit.UNDER_THRESHOLD,
    Exit.REPORTED,
)


def gravest_exit_code(codes: Iterable[Exit]) -> Exit:
    """Return the code of a command that reported several kernels."""
    return min(codes, key=_GRAVEST.index)


def exit_code_without_runs(is_interrupted: bool) -> Exit:
    """Return the exit code of a search in which nothing ran."""
    return Exit.INTERRUPTED if is_interrupted else Exit.CANDIDATE_FAILED
