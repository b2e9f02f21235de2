"""Tuned configurations of vLLM's Triton kernels (https://github.com/vllm-project/vllm)."""

from __future__ import annotations

from solkit.datasets.formats import _tuned_files, sglang
from solkit.datasets.formats._base import Document, Format, Imported, Labels


def _recognises(document: Document) -> bool:
    return _tuned_files.is_tuned(document) and not sglang.FORMAT.recognises(document)


def _read_document(document: Document, labels: Labels) -> Imported:
    return _tuned_files.read(document, labels, "vllm")


FORMAT = Format(
    "vllm", "vLLM's tuned configurations (E=..,N=..,device_name=..)", _recognises, _read_document
)
