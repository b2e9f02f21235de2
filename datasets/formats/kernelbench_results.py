"""Results of KernelBench's evaluation: ``eval_results.json``, the samples of each problem.

https://github.com/ScalingIntelligence/KernelBench (``scripts/eval_from_generations.py``). The file
names problems only by number: the level is taken from ``level1`` in its path, if present. Its
``runtime`` is a mean in milliseconds (CUDA events' unit), in spite of a comment there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
)
from solkit.datasets.identifiers import MESSAGE_LIMIT

_FIELDS = {"compiled", "correctness", "runtime"}
_ERRORS = ("runtime_error", "compilation_error", "cuda_error", "other_error", "correctness_issue")


def _recognises(document: Document) -> bool:
    if not isinstance(document.json, dict):
        return False
    return all(
        isinstance(sample, dict) and sample.keys() >= _FIELDS
        for _, sample in list(_samples_by_problem(document.json))[:1] or [("", None)]
    )


def _samples_by_problem(by_problem: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every sample with its problem's number; older files have one sample per problem."""
    for problem, samples in by_problem.items():
        for sample in samples if isinstance(samples, list) else [samples]:
            yield problem, sample


def _read_document(document: Document, labels: Labels) -> Imported:
    level = re.search(r"level[_-]?(\d)", str(document.path.resolve()))

    def convert_record(sample: tuple[str, dict[str, Any]]) -> Outcome:
        shape = {"level": int(level[1])} if level else {}
        return _outcome_of_sample({**shape, "problem": int(sample[0])}, sample[1], document, labels)

    records = ((f"problem {sample[0]}", sample) for sample in _samples_by_problem(document.json))
    return converted(document.path, records, convert_record)


def _outcome_of_sample(
    shape: dict[str, int], sample: dict[str, Any], document: Document, labels: Labels
) -> Outcome:
    about, statistics = sample.get("metadata") or {}, sample.get("runtime_stats") or {}
    gpu = about.get("hardware") or statistics.get("hardware")
    verdict, time = _verdict_of_sample(sample, about), sample["runtime"]
    errors = [f"{name}: {about[name]}" for name in _ERRORS if about.get(name)]
    run = document.path.resolve().parent.name
    return imported_row(
        "kernelbench_results",
        labels,
        "kernelbench",
        shape,
        "ModelNew",
        implementation=f"{run}/problem_{shape['problem']}_sample_{sample.get('sample_id', 0)}",
        params={},
        device=document.device(labels, gpu),
        device_name=gpu,
        created=document.changed,
        verdict=verdict,
        message="; ".join(errors)[:MESSAGE_LIMIT] or None,
        time_ms=float(time) if verdict is Verdict.CORRECT and time and time > 0 else None,
        extra={"runtime_stats": statistics} if statistics else {},
    )


def _verdict_of_sample(sample: dict[str, Any], about: dict[str, Any]) -> Verdict:
    if not sample["compiled"]:
        return Verdict.DOES_NOT_COMPILE
    if not sample["correctness"]:
        return Verdict.CRASHED if about.get("runtime_error") else Verdict.WRONG
    return Verdict.CORRECT


FORMAT = Format(
    "kernelbench_results", "KernelBench's eval_results.json", _recognises, _read_document
)
