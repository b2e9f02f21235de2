"""Checks of a store: reads every part and checks what its rows say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solkit.core import ROW_KEY, Outcome, Source, StoredFacts, Verdict
from solkit.datasets import parts
from solkit.datasets.store import Store
from solkit.datasets.tables import polars_module

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Verification:
    """The result of checking a store.

    Attributes:
        rows, sources, facts: how many can be read.
        damage: files that cannot be read completely, and how much of each can.
        faults: of the readable rows, a sentence each.
        notes: worth knowing, but not faults.
    """

    rows: int
    sources: int
    damage: tuple[parts.Damage, ...] = ()
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: int = 0

    @property
    def is_whole(self) -> bool:
        """True if nothing is wrong."""
        return not self.damage and not self.faults


def verify_store(store: Store) -> Verification:
    """Read all of a store and say what is wrong with it."""
    pl = polars_module()
    tables, damage = [], []
    for form in (Outcome, Source, StoredFacts):
        read = [parts.salvage_row_groups(path, form) for path in store.files(form)]
        damage += [fault for _, fault in read if fault is not None]
        empty = pl.from_arrow(parts.empty_table(form))
        tables.append(pl.concat([empty, *(pl.from_arrow(table) for table, _ in read)]))
    rows, sources, facts = tables
    return Verification(
        len(rows),
        len(sources),
        tuple(damage),
        (*_row_faults(rows), *_source_faults(sources), *_facts_faults(facts)),
        (*_missing_references(rows, sources, facts), *_count_unsealed(store), *_unfinished(store)),
        len(facts),
    )


def _row_faults(rows: polars.DataFrame) -> list[str]:
    pl = polars_module()
    faults = []
    double = len(rows) - rows.n_unique(list(ROW_KEY))
    if double:
        faults.append(f"{double} rows are there twice (same {' and '.join(ROW_KEY)})")
    verdicts = [verdict.value for verdict in Verdict]
    for name in rows["verdict"].filter(~rows["verdict"].is_in(verdicts)).unique().sort():
        faults.append(f"{name!r} is not a verdict; expected one of: {', '.join(verdicts)}")
    bad = rows.filter((pl.col("time_ms") <= 0) | ~pl.col("time_ms").is_finite())
    if len(bad):
        faults.append(f"{len(bad)} times are not positive numbers")
    under = rows.filter(
        pl.col("time_ms") < pl.col("hard_bound_ms"),
        ~pl.col("verdict").is_in([Verdict.IMPOSSIBLE.value, Verdict.CHEATING.value]),
        pl.col("hard_evidence").fill_null("") != "static",  # where nothing is called impossible
    )
    if len(under):
        problem = under["problem_id"][0]
        faults.append(f"{len(under)} times are below their hard bound, e.g. of {problem}")
    return faults


def _source_faults(sources: polars.DataFrame) -> list[str]:
    return [
        f"source {name} does not have the SHA-256 that it is stored under ({sha256})"
        for sha256, name, text in sources.rows()
        if hashlib.sha256((text or "").encode()).hexdigest() != sha256
    ]


def _facts_faults(facts: polars.DataFrame) -> list[str]:
    faults = []
    for name, text in facts.rows():
        try:
            json.loads(text)
        except ValueError as error:
            faults.append(f"facts {name} are not JSON: {error}")
    return faults


def _missing_references(
    rows: polars.DataFrame, sources: polars.DataFrame, facts: polars.DataFrame
) -> list[str]:
    """Return what rows refer to and the store lacks, as imported rows often do."""
    files = polars_module().concat([rows["source_sha256"], rows["problem_sha256"]])
    notes = []
    for what, hashes, there in (
        ("files", files, sources["sha256"]),
        ("facts", rows["facts_id"], facts["id"]),
    ):
        named = hashes.drop_nulls().unique()
        if count := named.is_in(there.implode()).not_().sum():
            notes.append(f"{count} of {len(named)} {what} that rows refer to are not here")
    return notes


def _count_unsealed(store: Store) -> list[str]:
    files = [file for file in store.files() if not parts.has_sealed_name(file)]
    if not files:
        return []
    return [
        f"{len(files)} files have no SHA-256 in their names, so damage to their footers may go "
        f"unnoticed; to seal them: solkit data merge NEW {store.folder}"
    ]


def _unfinished(store: Store) -> list[str]:
    drafts = [leftover for folder in store.folders for leftover in parts.unfinished_files(folder)]
    return [
        f"{draft} is being written or was left unfinished; it is not part of the store"
        for draft in drafts
    ]
