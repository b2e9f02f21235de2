"""Meanings of the names in a Python file, from its syntax tree alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from solkit.core.parsing import syntax_tree

_JITS = ("triton.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit")


Meanings = Mapping[str, Collection[str]]


def imported_full_names(nodes: Iterable[ast.AST]) -> Meanings:
    """Return the full names behind each name that imports bind; several if bound in several places.

    A name may mean ``math`` in one function and ``torch`` elsewhere, so all of them count.
    """
    full_names: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name, full in names_bound_by_import(node):
                full_names[name].add(full)
    return dict(full_names)


def names_bound_by_import(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with the full name of what it means."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            top = alias.name.partition(".")[0]
            yield top, top


def dotted_full_names(node: ast.AST, imported: Meanings) -> list[str]:
    """Return full names that an expression of names and dots may have; none if it is another."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return []
    return [".".join([prefix, *reversed(parts)]) for prefix in imported.get(node.id, (node.id,))]


def leading_name(node: ast.AST) -> str:
    """Return the first name of an expression of dots, subscripts and calls; empty if none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def names_bound_by(statement: ast.stmt) -> dict[str, str]:
    """Return the names that a top-level statement binds, each with a text that says to what.

    Two statements that bind a name to the same have the same text, whatever their layout.
    """
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {name: f"import {full}" for name, full in names_bound_by_import(statement)}
    text = ast.dump(statement)
    return dict.fromkeys(_names_bound(statement), text)


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name  # what its body binds is its own
            todo += node.decorator_list
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (name for name, _ in names_bound_by_import(node))
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs)) and node.name:
            yield node.name
        todo += ast.iter_child_nodes(node)


def names_used_by(node: ast.AST) -> set[str]:
    """Return the names that occur in a piece of code."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def returned_values(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function returns, but not what functions inside it return."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from returned_values(node)


def takes_outputs(function: ast.FunctionDef, inputs: int, outputs: int) -> bool | None:
    """Tell whether a function gets its outputs, to be written, behind its inputs.

    Args:
        function: its definition.
        inputs: how many it gets.
        outputs: how many it might get.

    Returns:
        ``None`` if its parameters admit both.
    """
    positional = len(function.args.posonlyargs) + len(function.args.args)
    if function.args.vararg is not None:  # run(*args)
        returned = (node for node in returned_values(function) if ast.unparse(node) != "None")
        return False if any(returned) else None
    if positional - len(function.args.defaults) > inputs:
        return True
    return False if positional < inputs + outputs else None


def is_given_outputs(
    stated: bool | None, text: str, symbol: str, inputs: int, outputs: int
) -> bool:
    """Tell whether a benchmark's solution gets outputs as arguments (destination passing).

    SOL-ExecBench and FlashInfer-Bench take that for granted where a solution does not say. Those
    from before there was a choice return their outputs, as the entry points' parameters tell.

    Args:
        stated: what the solution says.
        text: the source with the entry point.
        symbol: the entry point.
        inputs: how many the problem has.
        outputs: how many the problem has.
    """
    if stated is not None:
        return stated
    try:
        body = syntax_tree(text).body
    except SyntaxError:  # in another language
        return True
    functions = (node for node in body if isinstance(node, ast.FunctionDef))
    answers = [takes_outputs(node, inputs, outputs) for node in functions if node.name == symbol]
    return False not in answers


def is_main_guard(statement: ast.stmt) -> bool:
    """Tell whether it is ``if __name__ == "__main__"``, which an import does not run."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    test = statement.test
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


def jitted_functions(tree: ast.Module) -> set[str]:
    """Return the names of the functions that Triton compiles."""
    imported = imported_full_names(ast.walk(tree))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            kinds = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            if any(full in _JITS for kind in kinds for full in dotted_full_names(kind, imported)):
                names.add(node.name)
    return names


def package_of(file: Path) -> tuple[list[str], Path]:
    """Return the folders of the package that a Python file lies in, and the folder above these.

    A folder with ``__init__.py`` is one of a package, and so is each that the file's relative
    imports go up to.
    """
    text = file.read_text(errors="replace") if file.is_file() else ""
    levels = [len(dots) for dots in re.findall(r"^[ \t]*from[ \t]+(\.+)", text, re.MULTILINE)]
    names: list[str] = []
    folder = file.parent
    while folder.name and "." not in folder.name:
        is_package = (folder / "__init__.py").is_file() and folder.name.isidentifier()
        if not is_package and len(names) >= max(levels, default=0):
            break
        names.insert(0, folder.name)
        folder = folder.parent
    return names, folder


_UNREAD = {
    "pycuda": "PyCUDA",
    "cupy": "CuPy",
    "numba": "Numba",
    "cuda": "CUDA Python",
    "pynvrtc": "NVRTC",
    "tvm_ffi": "TVM FFI",
    "warp": "Warp",
    "jax": "JAX",
}
"""Packages that launch kernels which SolKit does not follow, by module."""


def advice_on_launching(modules: Iterable[str]) -> str:
    """Return, in a sentence without an end, how to give SolKit kernels that a package launches.

    Args:
        modules: full names of imported modules. SolKit reads ``cuda.tile``, which does not count.
    """
    tops = {name.partition(".")[0] for name in modules if not f"{name}.".startswith("cuda.tile.")}
    launching = [label for module, label in _UNREAD.items() if module in tops]
    if not launching:
        return ""
    return (
        f"SolKit does not follow launches by {' and '.join(launching)}: give the CUDA C++ to "
        "torch.utils.cpp_extension.load_inline, with a function of PyTorch's tensors that launches"
    )


def why_not_python(file: Path) -> str:
    """Return why a file is refused that is not Python's, and how SolKit reads its kernels."""
    if file.suffix in (".ptx", ".cubin"):
        return (
            f"is read as it is: put {file.stem}.launch.toml beside it, or give `solkit score` "
            "--launch 'grid=4096; block=256; args=fp32[1048576], 1048576; outputs=0'"
        )
    is_cuda = file.suffix in (".cu", ".cuh")
    cuda = f"; `solkit init {file}` writes one that launches its kernels" if is_cuda else ""
    return f"is not a Python file: expected a name that ends in .py{cuda}"
