"""A run's own file, as `solkit.datasets.runlog` writes it: rows that are numbered already."""

from __future__ import annotations

from solkit.datasets import runlog
from solkit.datasets.formats._base import Document, Format, Imported, Labels
from solkit.errors import InputError

__all__ = ["FORMAT"]


def _recognises(document: Document) -> bool:
    return isinstance(document.first, dict) and document.first.get("schema") == runlog.SCHEMA


def _read(document: Document, labels: Labels) -> Imported:
    if labels != Labels():
        raise InputError(f"{document.path}: a run's rows say themselves what they are of")
    run = runlog.read(document.path, whole=True)
    return Imported(run.rows, run.sources, run.faults)


FORMAT = Format("run", "a run's own file, as SolKit collects it", _recognises, _read)
