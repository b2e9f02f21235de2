"""Traces of SOL-ExecBench (https://github.com/NVIDIA/SOL-ExecBench): JSON Lines.

Unlike FlashInfer-Bench's, they say which outputs were not finite, and have verdicts on cheating and
on references that do not run.
"""

from __future__ import annotations

from solkit.datasets.formats import _bench_traces
from solkit.datasets.formats._base import Document, Format, Imported, Labels

_MARKS = ('"has_nan"', '"has_inf"', *(f'"{status}"' for status in _bench_traces.SOL_STATUSES))


def _recognises(document: Document) -> bool:
    is_trace = _bench_traces.is_trace(document.first)
    return is_trace and any(mark in document.text for mark in _MARKS)


def _read_document(document: Document, labels: Labels) -> Imported:
    return _bench_traces.read(document, labels, "sol_execbench")


FORMAT = Format("sol_execbench", "SOL-ExecBench's traces (JSONL)", _recognises, _read_document)
