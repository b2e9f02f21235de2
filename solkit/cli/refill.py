"""``solkit data refill``: facts for measured rows, without a GPU."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.cli.exit_codes import Exit

if TYPE_CHECKING:
    from solkit.collect.refill import Progress
    from solkit.core import Outcome, Source

_From = Annotated[
    list[str],
    typer.Argument(metavar="FROM...", help="Stores, shipped sets or run files (*.jsonl)."),
]
_Out = Annotated[Path, typer.Option(metavar="FILE", help="Run file; resumed if it exists.")]
_Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Only N random rows.")]
_Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Parallel processes. Default: one per core.")
]


_DepthOption = Annotated[
    _options.FactsDepth, typer.Option("--depth", help="How deep the analysis goes.")
]


def refill(
    from_: _From,
    out: _Out,
    limit: _Limit = None,
    workers: _Workers = None,
    depth: _DepthOption = _options.FactsDepth.COMPILED,
    verbose: _options.Tracebacks = False,
) -> None:
    """Analyse measured rows again, from their sources, and write their facts to a run file.

    No GPU is needed. Each batch is saved immediately; the same command resumes an interrupted
    refill. `solkit data merge NEW STORE FILE` makes a store whose rows have the facts. GPUs with
    the same compute capability and SM count share facts, so give their stores together. Rows made
    with another version of Triton, or of torch or NVRTC if these made the code, are left out. Exit
    code 2 if no row can be refilled.

    With `--depth lowered` it writes what Triton's IR shows, from which `solkit train` learns to
    rank kernels that are not compiled. This takes a fifth of the time. CUDA C++ is compiled.
    `--depth captured` writes what each launch was launched with, which needs no compiler.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.collect.refill import refill_facts as refilling
        from solkit.core import Depth
        from solkit.datasets import outcomelog

        held = outcomelog.read(out) if out.exists() else outcomelog.Contents()
        read = [_read_rows(name) for name in from_]
        rows = sorted((row for rows, _ in read for row in rows), key=_random_rank_of_row)[:limit]
        sources = [source for _, sources in read for source in sources]
        with outcomelog.OutcomeLog(out, {"what": "refill"}) as log:
            report = _base.show_at_most_often(partial(_print_refilled, time.monotonic()))
            done = refilling(rows, sources, log, held, workers, report, Depth(depth.value))
        _print_finished(done, len(held.facts_of))
    if not done.done and not held.facts_of:
        raise typer.Exit(Exit.BAD_INPUT)


def _random_rank_of_row(row: Outcome) -> bytes:
    """Return a row's rank in a random order that does not depend on the order of the rows."""
    return hashlib.sha256(f"{row.run_id} {row.sequence}".encode()).digest()


def _read_rows(name: str) -> tuple[Iterable[Outcome], tuple[Source, ...]]:
    from solkit.datasets import outcomelog

    if Path(name).is_file():
        held = outcomelog.read(name, whole=True)
        return held.rows, held.sources
    from solkit.cli.data import open_store
    from solkit.core import Source

    store = open_store(name)
    return store.rows(), tuple(Source(**row) for row in store.sources().collect().to_dicts())


def _print_refilled(start_s: float, progress: Progress) -> None:
    rate = progress.done / max(time.monotonic() - start_s, 1e-9)
    _base.print_complaint(f"{progress.done} of {progress.total} rows, {rate:.1f} a second")


def _print_finished(done: Progress, before: int) -> None:
    counts = [f"{done.done} rows refilled", f"{before} had facts before"]
    counts += [f"{done.failed} failed"] if done.failed else []
    counts += [f"{count} left out: {reason}" for reason, count in done.left_out.items()]
    _base.print_complaint("; ".join(counts))
    for why in done.why:
        _base.print_complaint(why)
