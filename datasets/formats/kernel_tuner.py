"""Cache files of Kernel Tuner, schema 1.x and the unversioned ones before.

https://github.com/KernelTuner/kernel_tuner: one file per kernel and GPU, one entry per
configuration, times in milliseconds. A cache that is still being written lacks its closing
brackets, and after a crash maybe part of its last entry. A damaged entry costs no other.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
    instant,
)

VERDICTS = {
    "CompilationFailedConfig": Verdict.DOES_NOT_COMPILE,
    "RuntimeFailedConfig": Verdict.CRASHED,
    "InvalidConfig": Verdict.NOT_MEASURED,  # outside the user's restrictions: never run
}
_FAILED_MS = 1e20  # what caches before schema 1.0 have as the time of a failure
_KNOWN = {"time", "times", "compile_time", "timestamp"}
_CACHE = re.compile(r'"cache"\s*:\s*\{')
_ENTRY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*(?=\{)')
_DECODER = json.JSONDecoder()


def _recognises(document: Document) -> bool:
    return '"tune_params_keys"' in document.text[:100_000]


def _read_document(document: Document, labels: Labels) -> Imported:
    cache, lost = (document.json, []) if document.json is not None else _open_cache(document.text)
    device = document.device(labels, cache.get("device_name"))

    def convert_record(entry: dict[str, Any]) -> Outcome:
        return _outcome_of_entry(cache, entry, device, document, labels)

    imported = converted(document.path, cache["cache"].items(), convert_record)
    damage = (
        f"{document.path}: {part[:40]!r}, {len(part)} characters: is cut off or damaged"
        for part in lost
    )
    return replace(imported, faults=(*imported.faults, *damage))


def _open_cache(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the whole entries of a cache that is not JSON, and the text between and after them.

    Raises:
        ValueError: it ends before its entries begin.
    """
    start = _CACHE.search(text)
    if start is None:
        raise ValueError("is cut off before its first entry")
    cache, end = json.loads(text[: start.end()] + "}}"), start.end()
    params, lost, looked = set(cache["tune_params_keys"]), [], end
    while name := _ENTRY.search(text, looked):
        looked = name.end()  # search inside a non-entry too: it may hold later entries
        with contextlib.suppress(ValueError):
            entry, after = _DECODER.raw_decode(text, looked)
            if _is_entry(entry, params):
                lost.append(text[end : name.start()])
                cache["cache"][name[1]] = entry
                end = looked = after
    lost.append(text[end:])
    return cache, [part for piece in lost if (part := piece.strip(" \n\r\t,}"))]


def _is_entry(value: Any, params: set[str]) -> bool:
    """Tell whether it is one configuration and holds no other entry."""
    if not isinstance(value, dict) or not value.keys() >= params:
        return False
    return not any(_is_entry(item, params) for item in value.values())


def _outcome_of_entry(
    cache: dict[str, Any], entry: dict[str, Any], device: str, document: Document, labels: Labels
) -> Outcome:
    params = {name: entry[name] for name in cache["tune_params_keys"]}
    time = entry["time"]
    failed = isinstance(time, str) or time >= _FAILED_MS
    return imported_row(
        "kernel_tuner",
        labels,
        cache["kernel_name"],
        _problem_sizes(cache.get("problem_size")),
        cache["kernel_name"],
        device=device,
        device_name=cache.get("device_name") or None,
        params=params,
        verdict=VERDICTS.get(time, Verdict.CRASHED) if failed else Verdict.CORRECT,
        message=str(time) if failed else None,
        time_ms=None if failed else float(time),
        samples_ms=() if failed else tuple(entry.get("times", ())),
        compile_s=entry["compile_time"] / 1000 if "compile_time" in entry else None,
        created=instant(entry["timestamp"]) if "timestamp" in entry else document.changed,
        extra={k: v for k, v in entry.items() if k not in _KNOWN and k not in params},
    )


def _problem_sizes(size: Any) -> dict[str, Any]:
    """Return the problem's size along x, y and z, or as given."""
    if isinstance(size, list):
        return dict(zip("xyz", size))
    return {} if size is None else {"size": size}


FORMAT = Format("kernel_tuner", "Kernel Tuner's cache files", _recognises, _read_document)
