"""A run's own file, as `solkit.datasets.runlog` writes it: rows that are numbered already."""

from __future__ import annotations

from dataclasses import replace

from solkit.datasets import runlog
from solkit.datasets.formats._base import Document, Format, Imported, Labels

__all__ = ["FORMAT"]


def _recognises(document: Document) -> bool:
    return isinstance(document.first, dict) and document.first.get("schema") == runlog.SCHEMA


def _read(document: Document, labels: Labels) -> Imported:
    run = runlog.read(document.path)
    told = {name: value for name, value in vars(labels).items() if value is not None}
    return Imported(tuple(replace(row, **told) for row in run.rows), run.sources, run.faults)


FORMAT = Format("run", "a run's own file, as SolKit collects it", _recognises, _read)
