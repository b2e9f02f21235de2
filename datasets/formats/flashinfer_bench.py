"""Traces of FlashInfer-Bench (https://github.com/flashinfer-ai/flashinfer-bench): JSON Lines."""

from __future__ import annotations

from solkit.datasets.formats import _bench_traces, sol_execbench
from solkit.datasets.formats._base import Document, Format, Imported, Labels


def _recognises(document: Document) -> bool:
    is_trace = _bench_traces.is_trace(document.first)
    return is_trace and not sol_execbench.FORMAT.recognises(document)


def _read_document(document: Document, labels: Labels) -> Imported:
    return _bench_traces.read(document, labels, "flashinfer_bench")


FORMAT = Format(
    "flashinfer_bench", "FlashInfer-Bench's traces (JSONL)", _recognises, _read_document
)
