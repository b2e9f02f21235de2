"""Tuned configurations of SGLang's Triton kernels (https://github.com/sgl-project/sglang).

Unlike vLLM's, they have a space in the block's shape, other settings, a suffix, or a folder with
SGLang's name.
"""

from __future__ import annotations

import re

from solkit.datasets.formats import _tuned_files
from solkit.datasets.formats._base import Document, Format, Imported, Labels


def _recognises(document: Document) -> bool:
    named = _tuned_files.settings(document)
    return _tuned_files.is_tuned(document) and (
        ", " in named.get("block_shape", "")
        or "per_channel_quant" in named
        or document.name.endswith("_down.json")
        or any(re.fullmatch(r"sglang|triton_\d[\d_]*", part) for part in document.path.parts)
    )


def _read_document(document: Document, labels: Labels) -> Imported:
    return _tuned_files.read(document, labels, "sglang")


FORMAT = Format("sglang", "SGLang's tuned configurations (E=..,N=..)", _recognises, _read_document)
