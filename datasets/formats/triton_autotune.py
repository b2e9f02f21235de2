"""Files of Triton's autotuner: its cache, and what it prints.

https://github.com/triton-lang/triton (``triton/runtime/autotuner.py``): with ``cache_results``,
``<kernel>.autotune.json`` in Triton's cache holds the 50, 20 and 80 % quantiles of each
configuration in milliseconds, infinite if it failed. ``TRITON_PRINT_AUTOTUNING=1`` prints which
configurations were tried and which won, without times. Neither names the GPU or checks results.
Only the line that ends a tuning names its problem, so an unfinished tuning is left out.
"""

from __future__ import annotations

import ast
import math
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

_UNCHECKED = "timed by Triton's autotuner, which checks no results"
_TRIED = re.compile(r"Autotuning kernel (?P<name>\S+) with config (?P<config>.*)")
_FAILED = re.compile(r"Autotuning failed with (?P<why>.*)")
_DONE = re.compile(
    r"Triton autotuning for function (?P<name>[^\s,]+),?\s*(?:with key as (?P<key>.*?),\s*)?"
    r"finished after [\d.]+s[,;]\s*best config selected: (?P<config>.*?);",
    re.DOTALL,
)
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Parameters that are options of `triton.Config`, not constants of the kernel."""


def _recognises(document: Document) -> bool:
    if document.has("configs_timings"):
        return True
    return any(pattern.search(document.text) is not None for pattern in (_TRIED, _DONE))


def _read_document(document: Document, labels: Labels) -> Imported:
    return (
        _read_cache_file(document, labels)
        if document.has("configs_timings")
        else _read_printed_log(document, labels)
    )


# ------------------------------------------------------------------------------------ the cache


def _read_cache_file(document: Document, labels: Labels) -> Imported:
    kernel = document.name.removesuffix(".autotune.json")
    shape, dtypes = _split_autotuner_key(document.json.get("key", ()))

    def convert_record(entry: Any) -> Outcome:
        config, timings = entry
        quantiles = [
            float(timing) for timing in (timings if isinstance(timings, list) else [timings])
        ]
        timed = math.isfinite(quantiles[0])
        return imported_row(
            "triton_autotune",
            labels,
            kernel,
            shape,
            kernel,
            device=document.device(labels),
            dtypes=dtypes,
            params={**config["kwargs"], **_launch_options(config)},
            created=document.changed,
            verdict=Verdict.NOT_MEASURED if timed else Verdict.DOES_NOT_COMPILE,
            message=_UNCHECKED if timed else "Triton's autotuner could not compile or launch it",
            time_ms=quantiles[0] if timed else None,
            chosen_by="exhaustive",
            extra={"quantiles_ms": quantiles} if timed and len(quantiles) > 1 else {},
        )

    configs = ((f"config {i}", config) for i, config in enumerate(document.json["configs_timings"]))
    return converted(document.path, configs, convert_record)


def _launch_options(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in OPTIONS if config.get(name) is not None}


def _split_autotuner_key(key: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Split the values by which the autotuner distinguishes problems from the dtypes among them."""
    dtypes = tuple(str(part)[6:] for part in key if str(part).startswith("torch."))
    sizes = [part for part in key if not str(part).startswith("torch.")]
    return {f"key{i}": size for i, size in enumerate(sizes)}, dtypes


# -------------------------------------------------------------------------------------- the log


def _read_printed_log(document: Document, labels: Labels) -> Imported:
    device = document.device(labels)
    rows: list[Outcome] = []
    faults: list[str] = []
    for shape, dtypes, kernel, configs, best in _printed_tunings(document.text):
        if best is None:
            left_out = f"its configurations ({len(configs)}) are left out"
            faults.append(f"{document.path}: tuning of {kernel} is not finished: {left_out}")
            continue
        for config, failure in configs.items():
            rows.append(
                imported_row(
                    "triton_autotune",
                    labels,
                    kernel,
                    shape,
                    kernel,
                    device=device,
                    dtypes=dtypes,
                    params=_parse_printed_config(config),
                    created=document.changed,
                    verdict=Verdict.DOES_NOT_COMPILE if failure else Verdict.NOT_MEASURED,
                    message=failure[:MESSAGE_LIMIT] or None,
                    chosen_by="tuned" if config == best else "exhaustive",
                )
            )
    return Imported(tuple(rows), faults=tuple(faults))


_Tuning = tuple[dict[str, Any], tuple[str, ...], str, dict[str, str], str | None]


def _printed_tunings(text: str) -> Iterator[_Tuning]:
    """Yield every tuning: shape, dtypes, kernel, configurations' failures (or ``""``), the best.

    An unfinished tuning has neither problem nor best (``None``).
    """
    tried: dict[str, dict[str, str]] = {}
    last: tuple[str, str] | None = None
    marks = sorted(
        (match for pattern in (_TRIED, _FAILED, _DONE) for match in pattern.finditer(text)),
        key=lambda match: match.start(),
    )
    for mark in marks:
        if mark.re is _TRIED:
            last = mark["name"], mark["config"].strip()
            tried.setdefault(last[0], {})[last[1]] = ""
        elif mark.re is _FAILED and last is not None:
            tried[last[0]][last[1]] = mark["why"].strip() or "failed"
        elif mark.re is _DONE:
            configs = tried.pop(mark["name"], {})
            configs.setdefault(mark["config"], "")
            yield (
                *_split_autotuner_key(_parse_literal(mark["key"] or "()")),
                mark["name"],
                configs,
                mark["config"],
            )
    for kernel, configs in tried.items():
        yield {}, (), kernel, configs, None


def _parse_printed_config(text: str) -> dict[str, Any]:
    """Parse ``BLOCK: 128, maxnreg: None`` as parameters without those that are ``None``."""
    pairs = (part.split(": ", 1) for part in re.split(r", (?=\w+: )", text))
    values = {name: _parse_literal(value) for name, value in pairs}
    return {name: value for name, value in values.items() if value is not None}


def _parse_literal(text: str) -> Any:
    """Return the value of a literal; other words stay as they are."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


FORMAT = Format(
    "triton_autotune", "Triton's *.autotune.json, or its log", _recognises, _read_document
)
