"""Files and functions stay small enough to be read: limits, and exceptions with their reasons."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES, PARAMETERS = 1000, 90, 8

EXCEPTIONS = {
    "solkit/adapters/fake_cuda/attention.py:flex_attention": "has torch's signature",
    "solkit/adapters/fake_cuda/autograd.py:grad_of": "has torch.autograd.grad's signature",
    "solkit/adapters/fake_cuda/spectral.py:inverse_short_time_fourier": "has torch's signature",
    "surrogate/language/packed_attention.py:_packed_attention": "is called by transformers",
    "tuner/tuning_problem.py:__init__": "what a task is made of, by name",
    "solkit/calibrate/kernels.py:alu_kernel": "a Triton kernel: its constants are parameters",
}
"""For good: a function's file and name, and why it may have more parameters."""

KERNEL_FILES = (
    *("datasets/zoo", "datasets/inductor"),
    *("datasets/languages", "datasets/libraries", "datasets/public"),
)  # as users write them


@functools.cache
def sources():
    """Each file of product code with its text, by name."""
    results = {}
    for room in ("solkit", "roofline", "surrogate", "tuner", "datasets"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            linked = any(parent.is_symlink() for parent in path.parents)
            if not linked and not name.startswith(KERNEL_FILES):
                results[name] = path.read_text(encoding="utf-8")
    return results


@functools.cache
def functions():
    """Each function, methods and inner ones too: its file and name, its lines, its parameters.

    Trees are not kept: of all files they would slow down every later collection of garbage.
    """
    return [
        (f"{name}:{node.name}", 1 + node.end_lineno - node.lineno, len(parameters(node)))
        for name, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def parameters(function):
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
    names = [item.arg for item in every if item is not None]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def commands():
    """The functions of the command line: Typer makes an option of each parameter."""
    for name, text in sources().items():
        if name.startswith("solkit/cli/"):
            yield from re.findall(r"app\.command\(.*\)(?:\(|\ndef )(\w+)", text)


def test_no_file_is_long():
    count_by_name = {name: text.count("\n") for name, text in sources().items()}
    assert len(count_by_name) > 200
    long = {name: n for name, n in count_by_name.items() if n > FILE_LINES}
    assert long == {}


def test_no_function_is_long():
    assert len(functions()) > 2000
    assert [function for function in functions() if function[1] > FUNCTION_LINES] == []


def test_no_function_has_many_parameters():
    line = set(commands())
    assert {"score", "collect", "query"} <= line
    counts = [
        (name, count)
        for name, _, count in functions()
        if not (name.startswith("solkit/cli/") and name.partition(":")[2] in line)
    ]
    many = {name: count for name, count in counts if count > PARAMETERS}
    assert {n: count for n, count in many.items() if n not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() <= many.keys()  # or they are none any more
