"""Helion's autotuning log: a CSV with one configuration per line, and a file that describes it.

https://github.com/pytorch/helion (``HELION_AUTOTUNE_LOG=base``): ``base.csv`` in one of two forms,
the newer with ``run_id`` and ``kernel_id``, and ``base.meta.jsonl`` with kernel source, input
shapes and GPU by ``run_id``. Times are milliseconds.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solkit.core import Outcome, Source, Verdict
from solkit.core.parsing import syntax_tree
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
)
from solkit.datasets.identifiers import source_of
from solkit.errors import InputError

_COLUMNS = {"status", "perf_ms", "config", "generation"}
_VERDICTS = {"ok": Verdict.CORRECT, "timeout": Verdict.TIMED_OUT, "error": Verdict.CRASHED}
_NO_GPU = "does not say which GPU it is about, nor does what lies beside it: give --device"
_EXTRA = ("generation", "config_index", "timestamp_s", "sample_id")


def _recognises(document: Document) -> bool:
    return set(document.text.split("\n", 1)[0].strip().split(",")) >= _COLUMNS


def _read_document(document: Document, labels: Labels) -> Imported:
    about, cut = _read_metadata(document)
    if not (labels.device or any(_recorded_device(meta) for meta in about.values())):
        raise InputError("\n".join((*cut, f"{document.path} {_NO_GPU}")))
    sources: dict[str, Source] = {}

    def convert_record(record: dict[str, str]) -> Outcome | None:
        if record["status"] == "started":
            return None
        return _outcome_of_line(
            record, about.get(record.get("run_id") or "", {}), document, labels, sources
        )

    lines = csv.DictReader(io.StringIO(document.text))
    records = ((f"line {lines.line_num}", line) for line in lines)
    imported = converted(document.path, records, convert_record)
    return replace(imported, sources=tuple(sources.values()), faults=cut + imported.faults)


def _read_metadata(document: Document) -> tuple[Mapping[str, dict[str, Any]], tuple[str, ...]]:
    """Return the content of ``*.meta.jsonl`` beside the log, by run, and faults of unusable lines.

    Raises:
        InputError: it cannot be read.
    """
    path = document.path.with_name(document.name.removesuffix(".csv") + ".meta.jsonl")
    if not path.is_file():
        return {}, ()
    by_run, faults = {}, []
    for place, record in Document(path).lines():
        if isinstance(record, dict):
            by_run[record.get("run_id", "")] = record
        else:
            faults.append(f"{path}: {place}: is cut off or damaged")
    return by_run, tuple(faults)


def _recorded_device(about: dict[str, Any]) -> str | None:
    return (about.get("hardware_info") or {}).get("device_name")


def _outcome_of_line(
    record: dict[str, str],
    about: dict[str, Any],
    document: Document,
    labels: Labels,
    sources: dict[str, Source],
) -> Outcome:
    kernel = about.get("kernel_name") or document.name.removesuffix(".csv")
    digest = None
    if about.get("kernel_source"):
        source = source_of(about["kernel_source"].encode(), f"{kernel}.py")
        digest, sources[source.sha256] = source.sha256, source
    hardware = about.get("hardware_info") or {}
    gpu, versions = _recorded_device(about), hardware.get("versions") or {}
    if not (labels.device or gpu):
        raise ValueError(_NO_GPU)
    status, time = record["status"], record["perf_ms"]
    compile_s = record.get("compile_time_s")
    return imported_row(
        "helion",
        labels,
        kernel,
        {"inputs": about["input_shapes"]} if about.get("input_shapes") else {},
        kernel,
        source_sha256=digest,
        device=labels.device or gpu,
        device_name=gpu,
        params=_parse_config(record["config"]),
        created=document.changed,
        torch_version=versions.get("torch"),
        triton_version=versions.get("triton"),
        cuda_version=versions.get("cuda"),
        verdict=_VERDICTS.get(status, Verdict.CRASHED),
        message=None if status == "ok" else status,
        time_ms=float(time) if time and status == "ok" else None,
        compile_s=float(compile_s) if compile_s else None,
        extra={name: record[name] for name in _EXTRA if record.get(name)},
    )


def _parse_config(text: str) -> dict[str, Any]:
    """Parse ``Config(block_sizes=[32, 32], num_warps=4)`` or a literal mapping, as parameters.

    Raises:
        ValueError: it is neither.
    """
    try:
        tree = syntax_tree(text.strip(), mode="eval").body
        if isinstance(tree, ast.Call) and not tree.args:
            return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}
        return dict(ast.literal_eval(tree))
    except (SyntaxError, TypeError, ValueError):
        raise ValueError(f"no configuration: {text!r:.80}") from None


FORMAT = Format("helion", "Helion's autotune log (CSV)", _recognises, _read_document)
