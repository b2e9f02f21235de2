"""SolKit's own logs (`solkit.datasets.outcomelog`)."""

from __future__ import annotations

from functools import partial

from solkit.datasets import outcomelog
from solkit.datasets.formats._base import Document, Format, Imported, Labels
from solkit.errors import InputError


def _begins_as(schema: str, document: Document) -> bool:
    first = document.first
    return isinstance(first, dict) and str(first.get("schema")).startswith(schema)


def _read_document(document: Document, labels: Labels) -> Imported:
    log = outcomelog.read(document.path, whole=True)
    if log.runs and labels != Labels():
        raise InputError(f"{document.path}: rows of a run name their GPU and family themselves")
    return Imported(log.rows, log.sources, log.facts, log.facts_of, log.faults)


RUN = Format("run", "a log of SolKit's", partial(_begins_as, "solkit.run/"), _read_document)
