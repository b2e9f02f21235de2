"""Measurements of earlier runs, for a run of now; and those of this one, for later ones."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from solkit.core import Params, canonical
from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog
from solkit.pipeline.tuning_context import TuningContext
from solkit.tuner.database import Database
from solkit.tuner.transferred_choices import ChoicesElsewhere

SEEDS = 3
"""So many of the configurations that promise most are measured right after the default."""


@dataclass(frozen=True)
class GroundHistory:
    """A ground with what is known of it.

    Attributes:
        ground: its prior holds what earlier runs measured.
        first: what to measure right after the default.
        measured: configurations that were timed here before, with their times in ms.
        note: why nothing could be read; empty if it could.
    """

    ground: TuningContext
    first: tuple[Params, ...] = ()
    measured: tuple[tuple[Params, float], ...] = ()
    note: str = ""


def remembered(
    ground: TuningContext,
    database: str | os.PathLike[str] | Database | None,
    device: str,
    elsewhere: ChoicesElsewhere | None = None,
) -> GroundHistory:
    """Return what a tuning database holds of a kernel at a shape, and others' choices for it.

    A database that cannot be read is no reason to tune nothing: the note says so.

    Args:
        ground: the kernel at the shape.
        database: the database, or its place; ``None`` for none.
        device: the key of the GPU.
        elsewhere: files of other tools with what they chose.

    Raises:
        InputError: such a file cannot be read.
    """
    history = _measured_before(ground, database, device)
    if elsewhere is None or not elsewhere.files:
        return history
    chosen = elsewhere.nearest(ground.shape, ground.space, ground.default.params)
    note = history.note
    if not chosen:
        note = f"{note} No choice of {', '.join(elsewhere.files)} is in the kernel's SPACE.".strip()
    first = {canonical(point): point for point in (*chosen, *history.first)}
    return replace(history, first=tuple(first.values()), note=note)


def _measured_before(
    ground: TuningContext, database: str | os.PathLike[str] | Database | None, device: str
) -> GroundHistory:
    from solkit.tuner.transfer_prior import CompositePrior

    if database is None:
        return GroundHistory(ground)
    try:
        held = database if isinstance(database, Database) else Database(database)
        history = held.known(ground.kernel_id, ground.shape, device, ground.sol_ms)
        first = tuple(params for params in history.seeds(SEEDS) if params in ground.space)
    except Exception as error:  # it may be a server, with errors of its own
        return GroundHistory(ground, note=f"The tuning database cannot be read: {error}")
    if not first:
        return GroundHistory(ground, measured=history.measured)
    prior = history if ground.prior is None else CompositePrior(history, ground.prior)
    return GroundHistory(replace(ground, prior=prior), first, history.measured)


def keep_in_database(database: str | os.PathLike[str] | Database, log: OutcomeLog | None) -> str:
    """Add a run to a tuning database.

    Args:
        database: the database, or its place.
        log: of the run, which keeps everything even if this fails.

    Returns:
        Why it is not there; empty if it is.
    """
    if log is None:
        return "The results are not in the tuning database: the run has no log (--log FILE)."
    try:
        held = outcomelog.read(log.path)
        rows = [row for row in held.rows if row.run_id == log.run_id]
        if rows:
            target = database if isinstance(database, Database) else Database(database)
            target.add(rows, held.sources, held.facts)
    except Exception as error:  # it may be a server, with errors of its own
        return f"The results are not in the tuning database: {error}. {log.path} has all of them."
    return ""
