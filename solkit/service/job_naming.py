"""Names of jobs: the kernels that a request is about, and its answer in a few words."""

from __future__ import annotations

import ast
import functools
import json
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from solkit.core.quantities import duration
from solkit.report.units import format_settings
from solkit.service.store import Job
from solkit.service.summaries import result_facts

_MOST_NAMES = 3
_MOST_WORDS = 60  # characters of a docstring
_GLOBAL = re.compile(r"__global__[^;{}]*?\b(\w+)\s*\(")
"""A kernel of CUDA C++, after its type and its launch bounds."""
_DEFINED = re.compile(r"^(?:def|class)\s+(\w+)", re.MULTILINE)


def job_title(job: Job) -> str:
    """Return the kernels of a job and its shape, e.g. ``softmax_kernel M=8192,N=4096``."""
    return _request_title(job.kind, job.request)


@functools.lru_cache(maxsize=512)
def _request_title(kind: str, request: str) -> str:
    ask = json.loads(request)
    names = list(
        dict.fromkeys(name for text in _kernel_sources(ask) for name in kernel_names(text))
    )
    listed = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        listed += f" and {len(names) - _MOST_NAMES} more"
    shapes = [ask["shape"]] if ask.get("shape") else ask.get("shapes") or []
    sizes = format_settings(shapes[0]) if shapes else ""
    more = f" and {len(shapes) - 1} more" if len(shapes) > 1 else ""
    return " ".join(filter(None, (listed or kind, sizes))) + more


def _kernel_sources(ask: Mapping[str, Any]) -> Iterator[str]:
    """Yield sources of kernels; the problem's only if there is no other."""
    base = [ask["base"]] if ask.get("base") else []
    sources = [candidate["source"] for candidate in (*base, *(ask.get("candidates") or []))]
    yield from sources
    for name in ("source", "path", "problem"):
        if ask.get(name) and not sources:
            yield str(ask[name])
            return


def kernel_names(text: str) -> list[str]:
    """Return the kernels of a source, or the file's name if it is a path.

    Functions that a ``jit`` decorates count, less those that others of them call, and
    ``__global__`` functions. A source with neither is called by its docstring or its first
    ``reference``, class or function.
    """
    if "\n" not in text:
        return [Path(text).stem]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. of a "\d" in the user's strings
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return _cuda_kernels(text) or _DEFINED.findall(text)[:1]
    return _jitted_functions(tree) or _cuda_kernels(text) or _module_summary(tree)


def _jitted_functions(tree: ast.Module) -> list[str]:
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(_is_jit_decorator, node.decorator_list))
    ]
    called = {
        node.id
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }
    return [function.name for function in functions if function.name not in called]


def _is_jit_decorator(decorator: ast.expr) -> bool:
    """Say whether ``@jit``, ``@triton.jit``, ``@gluon.jit`` or a call of one decorates."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr == "jit"
    return isinstance(decorator, ast.Name) and decorator.id == "jit"


def _cuda_kernels(text: str) -> list[str]:
    bare = re.sub(r"__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)", "", text)
    return list(dict.fromkeys(_GLOBAL.findall(bare)))


def _module_summary(tree: ast.Module) -> list[str]:
    doc = ast.get_docstring(tree)
    if doc:
        return [textwrap.shorten(doc.splitlines()[0].rstrip("."), _MOST_WORDS, placeholder=" ...")]
    named = [n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
    return named[:1]


# ---------------------------------------------------------------------------------------- answers


def job_headline(job: Job) -> str:
    """Return the answer of a finished job in a few words; empty if it has none."""
    return "" if job.result is None else _result_headline(job.kind, job.id, job.result)


@functools.lru_cache(maxsize=512)
def _result_headline(kind: str, _: str, result: str) -> str:
    facts = result_facts(kind, json.loads(result))
    return _HEADLINES[kind](facts)


def _headline_of_shapes(facts: Mapping[str, Any]) -> str:
    results = facts["results"]
    if not results:
        return "no shape worked"
    first = results[0]
    parts = [] if first.get("verdict") in (None, "not_measured") else [str(first["verdict"])]
    time_ms = first.get("time_ms")
    if time_ms is not None:
        parts.append(duration(time_ms))
    elif first.get("modelled_ms") is not None:
        parts.append(f"{duration(first['modelled_ms'])} modelled")
    if first.get("gap") is not None:
        parts.append(f"gap {first['gap']:.2f}")
    parts.append(f"SOL {duration(first['sol_ms'])}")
    more = f" and {len(results) - 1} more shapes" if len(results) > 1 else ""
    return ", ".join(parts) + more


def _headline_of_rank(facts: Mapping[str, Any]) -> str:
    ranking = facts["ranking"]
    if not ranking or ranking[0]["time_ms"] is None:
        return ""
    return f"first: {format_settings(ranking[0]['params'])} {duration(ranking[0]['time_ms'])}"


def _of_compare(facts: Mapping[str, Any]) -> str:
    comparisons = facts["comparisons"]
    if not comparisons:
        return ""
    words = str(comparisons[0]["difference"]).replace("_", " ")
    ratio = comparisons[0]["ratio"]
    return words if ratio is None else f"{words}, {ratio['value']:.3f} of the base's time"


def _headline_of_search(facts: Mapping[str, Any]) -> str:
    words = "keep what you have" if facts["verdict"] == "keep" else str(facts["verdict"])
    speedup = facts["speedup"]
    return words if speedup is None else f"{words}, {speedup['value']:.2f} times as fast"


def _of_evaluate(facts: Mapping[str, Any]) -> str:
    best_ms = facts["best_ms"]
    return "" if best_ms is None else f"best {duration(best_ms)}"


def _of_profile(facts: Mapping[str, Any]) -> str:
    return f"{duration(facts['span_ms'])}; closing every gap: {facts['speedup']:.2f} times as fast"


_HEADLINES = {
    "bound": _headline_of_shapes,
    "analyse": _headline_of_shapes,
    "score": _headline_of_shapes,
    "rank": _headline_of_rank,
    "evaluate": _of_evaluate,
    "compare": _of_compare,
    "tune": _headline_of_search,
    "evolve": _headline_of_search,
    "profile": _of_profile,
}
