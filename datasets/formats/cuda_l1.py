"""CUDA-L1's kernels for KernelBench: JSON Lines, with speed-ups over the reference.

https://github.com/deepreinforce-ai/CUDA-L1 (``optimized_cuda_code/*.json``). A line brings its own
reference (``ref_code``), since sizes are those of an older KernelBench. It has no time: the
speed-up is kept in `Outcome.extra`, and whoever knows the reference's time can turn it into one.
"""

from __future__ import annotations

import hashlib
from typing import Any

from solkit.core import Outcome, Source, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
)

SPEED_UP = "speed_up"
"""The key of `Outcome.extra` that holds the reference's time over the kernel's."""


def _recognises(document: Document) -> bool:
    first = document.first
    return isinstance(first, dict) and {"level_id", "task_id", "score_default"} <= first.keys()


def _read_document(document: Document, labels: Labels) -> Imported:
    sources: dict[str, Source] = {}

    def convert_record(record: dict[str, Any]) -> Outcome:
        if record is None:
            raise ValueError("is not JSON")
        problem = {"level": int(record["level_id"]), "problem": int(record["task_id"])}
        name = f"level{problem['level']}/{problem['problem']}"
        kept = [
            Source(hashlib.sha256(text.encode()).hexdigest(), f"{name}.{kind}.py", text)
            for kind, text in (("ref_code", record["ref_code"]), ("code", record["custom_code"]))
            if text
        ]
        sources.update((source.sha256, source) for source in kept)
        speed_up = record["score_default"]
        return imported_row(
            "cuda_l1",
            labels,
            "kernelbench",
            problem,
            "ModelNew",
            implementation=f"{document.name}/{name}",
            params={},
            device=document.device(labels),
            created=document.changed,
            verdict=Verdict.CORRECT if speed_up else Verdict.NOT_MEASURED,
            problem_sha256=kept[0].sha256,
            source_sha256=kept[1].sha256 if len(kept) > 1 else None,
            extra={SPEED_UP: speed_up},
        )

    imported = converted(document.path, document.lines(), convert_record)
    return Imported(imported.rows, tuple(sources.values()), faults=imported.faults)


FORMAT = Format("cuda_l1", "CUDA-L1's kernels for KernelBench (JSONL)", _recognises, _read_document)
