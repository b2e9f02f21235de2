"""Solutions of SOL-ExecBench and FlashInfer-Bench as one Python file, and back.

A search rewrites a Python file with the entry point ``run``. A solution's JSON becomes such a file,
and what is found becomes the same JSON again, with the file as its only source. Both are read here
without torch; `solkit.kernelfiles` has checked them before.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solkit.core import KernelFile
from solkit.core.parsing import syntax_tree
from solkit.core.syntax import is_given_outputs, jitted_functions
from solkit.errors import InputError, UnsupportedError

ENTRY = "run"
"""Entry point of a solution that is a Python file."""
_OURS = "evolved"


def is_record(path: str) -> bool:
    """Tell whether a solution is a JSON, as the benchmarks store it."""
    return path.endswith(".json")


def reference_of_definition(path: str) -> str:
    """Return the Python text of a definition's reference."""
    return str(_read(path)["reference"])


def text_of_solution(path: str, file: KernelFile) -> str:
    """Return a solution as one Python file whose entry point is ``run``.

    Args:
        path: the solution.
        file: the solution and its problem, as loaded.

    Raises:
        InputError: its sources are several files, or its ``run`` is not its entry point.
        UnsupportedError: it has no Triton kernel.
    """
    assert file.candidate is not None
    if not is_record(path):
        text = Path(path).read_text(encoding="utf-8")
        _require_triton(path, text, "")
        return text
    record = _read(path)
    spec = record["spec"]
    languages = ", ".join(spec.get("languages") or [spec.get("language", "")])
    name, _, _ = spec["entry_point"].partition("::")
    if not name.endswith(".py"):
        raise UnsupportedError(
            f"{path} is a solution in {languages} ({name}): only Triton kernels are rewritten"
        )
    source, *others = record["sources"]
    if others:
        listed = ", ".join(one["path"] for one in record["sources"])
        raise InputError(f"{path} has several source files ({listed}): a search rewrites only one")
    text = source.get("content") or (Path(path).parent / name).read_text(encoding="utf-8")
    _require_triton(path, text, languages)
    definition = _read(file.problem.path)
    stated, symbol = spec.get("destination_passing_style"), file.candidate.name
    sizes = len(definition["inputs"]), len(definition["outputs"])
    written = definition["outputs"] if is_given_outputs(stated, text, symbol, *sizes) else ()
    return _with_entry(text, file.candidate.name, (list(definition["inputs"]), list(written)), path)


def solution_record(path: str, text: str) -> str:
    """Return a solution's JSON with another source.

    Args:
        path: the solution that the search began from.
        text: a Python file with ``run``, of the same arguments.
    """
    record = _read(path)
    name, _, _ = record["spec"]["entry_point"].partition("::")
    record["spec"] = {**record["spec"], "entry_point": f"{name}::{ENTRY}"}
    record["sources"] = [{"path": name, "content": text}]
    record["name"] = f"{record.get('name', Path(path).stem)}-{_OURS}"  # a data set has each once
    return json.dumps(record, indent=2) + "\n"


def _read(path: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return record


def _require_triton(path: str, text: str, languages: str) -> None:
    """Refuse a solution in which there is nothing to rewrite."""
    if not jitted_functions(_tree(path, text)):
        kind = f" is a solution in {languages}, and" if languages else ""
        raise UnsupportedError(
            f"{path}{kind} has no @triton.jit function: only Triton kernels are rewritten"
        )


def _tree(path: str, text: str) -> ast.Module:
    try:
        return syntax_tree(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from error


def _with_entry(text: str, symbol: str, names: Sequence[Sequence[str]], path: str) -> str:
    """Return a file with a function ``run``, which calls its entry point.

    Args:
        text: the file.
        symbol: name of its entry point.
        names: of the inputs that a benchmark passes, and of the outputs that it passes after them.
        path: of the solution.
    """
    inputs, outputs = names
    functions = {
        node.name: node for node in _tree(path, text).body if isinstance(node, ast.FunctionDef)
    }
    run = functions.get(ENTRY)
    if run is None:
        listed = ", ".join(itertools.chain(*names))
        call = f"{symbol}({listed})" if outputs else f"return {symbol}({listed})"
        return f"{text.rstrip()}\n\n\ndef {ENTRY}({listed}):\n    {call}\n"
    if symbol != ENTRY:
        raise InputError(f"{path} enters at {symbol}, and its {ENTRY}() is another function")
    needed = len(run.args.posonlyargs) + len(run.args.args) - len(run.args.defaults)
    if (needed > len(inputs)) != bool(outputs):  # so SolKit tells the two styles apart in a file
        passed = ", ".join(itertools.chain(*names))
        raise InputError(f"{path}: {ENTRY}() needs {needed} arguments, and gets: {passed}")
    return text
