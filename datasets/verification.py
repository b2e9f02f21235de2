"""Whether a store is whole: every part read to its end, and what rows claim held against it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solkit.core import Verdict
from solkit.datasets import parts
from solkit.datasets.record import ROW_KEY, Source, TimedConfiguration
from solkit.datasets.store import Store
from solkit.datasets.tables import polars_module

if TYPE_CHECKING:
    import polars

__all__ = ["Verification", "verify"]


@dataclass(frozen=True)
class Verification:
    """What was found in a store.

    Attributes:
        rows, sources: how many can be read.
        damage: files that are not wholly readable, and what can be saved of each.
        faults: what is wrong with what can be read, a sentence each.
        notes: what is worth knowing and no fault.
    """

    rows: int
    sources: int
    damage: tuple[parts.Damage, ...] = ()
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damage and not self.faults


def verify(store: Store) -> Verification:
    """Read all of a store, and say what is wrong with it."""
    pl = polars_module()
    tables, damage = [], []
    for form, files in ((TimedConfiguration, store.parts), (Source, store.source_parts)):
        read = [parts.salvaged(path, form) for path in files]
        damage += [fault for _, fault in read if fault is not None]
        empty = pl.from_arrow(parts.empty(form))
        tables.append(pl.concat([empty, *(pl.from_arrow(table) for table, _ in read)]))
    rows, sources = tables
    return Verification(
        len(rows),
        len(sources),
        tuple(damage),
        (*_row_faults(rows), *_source_faults(sources)),
        (*_missing(rows, sources), *_unsealed(store), *_unfinished(store)),
    )


def _row_faults(rows: polars.DataFrame) -> list[str]:
    pl = polars_module()
    faults = []
    double = len(rows) - rows.n_unique(list(ROW_KEY))
    if double:
        faults.append(f"{double} rows are there twice (same {' and '.join(ROW_KEY)})")
    verdicts = [each.value for each in Verdict]
    for name in rows["verdict"].filter(~rows["verdict"].is_in(verdicts)).unique().sort():
        faults.append(f"{name!r} is no verdict; there are: {', '.join(verdicts)}")
    bad = rows.filter((pl.col("time_ms") <= 0) | ~pl.col("time_ms").is_finite())
    if len(bad):
        faults.append(f"{len(bad)} times are no positive number")
    under = rows.filter(
        pl.col("time_ms") < pl.col("hard_bound_ms"),
        ~pl.col("verdict").is_in([Verdict.IMPOSSIBLE.value, Verdict.CHEATING.value]),
    )
    if len(under):
        problem = under["problem_id"][0]
        faults.append(f"{len(under)} times are under their hard bound, e.g. of {problem}")
    return faults


def _source_faults(sources: polars.DataFrame) -> list[str]:
    return [
        f"source {name} does not have the SHA-256 it is kept under ({sha256})"
        for sha256, name, text in sources.rows()
        if hashlib.sha256((text or "").encode()).hexdigest() != sha256
    ]


def _missing(rows: polars.DataFrame, sources: polars.DataFrame) -> list[str]:
    """Files that rows refer to and the store lacks: what was imported often comes without."""
    pl = polars_module()
    told = pl.concat([rows["source_sha256"], rows["problem_sha256"]]).drop_nulls().unique()
    count = told.is_in(sources["sha256"].implode()).not_().sum()
    return [f"{count} of {len(told)} files that rows refer to are not here"] if count else []


def _unsealed(store: Store) -> list[str]:
    files = [each for each in (*store.parts, *store.source_parts) if not parts.is_sealed(each)]
    if not files:
        return []
    return [
        f"{len(files)} files have no SHA-256 in their names, so that damage to their footers may "
        f"go unseen: solkit data merge NEW {store.folder}"
    ]


def _unfinished(store: Store) -> list[str]:
    drafts = [
        each for name in ("parts", "sources") for each in parts.leftovers(store.folder / name)
    ]
    return [
        f"{each} is being written, or was left unfinished: no part of the store" for each in drafts
    ]
