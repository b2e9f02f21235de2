"""Names of sizes and parameters that a kernel file declares, from its syntax tree alone.

A misspelt name, a word for a number or a file of no known kind is refused before torch is loaded,
which takes seconds. What the tree leaves open (a
decorator, ``**kwargs``, a name that is bound twice or imported, another form of kernel file) is
left to whoever reads the file by importing it.
"""

from __future__ import annotations

import ast
import importlib.machinery
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.core.syntax import why_not_python
from solkit.core.values import check_sizes
from solkit.errors import KernelFileError, ParamsError

if TYPE_CHECKING:
    from solkit.core import Value

_MOST_BYTES = 1 << 20
_Sizes = Mapping[str, "Value"]


def check_declared_names(
    kernel: str,
    reference: str | None = None,
    shapes: Sequence[_Sizes] | None = None,
    params: _Sizes | None = None,
) -> None:
    """Refuse names that the files surely do not declare.

    Args:
        kernel: path of the candidate's file.
        reference: of the problem's, if that is another one.
        shapes: sizes by name.
        params: the candidate's parameters by name.

    Raises:
        KernelFileError: a file is of a kind that no form of kernel file has.
        ShapeError: the problem has no such size, or the size is a number; the message tells which.
        ParamsError: the candidate has no such parameter; the message lists its parameters.
    """
    problem = kernel if reference is None else reference
    if not (Path(problem).is_dir() or problem.endswith(".json")):  # a solution may be CUDA C++
        for path in filter(None, (kernel, reference)):
            _check_kind(Path(path))
    if shapes and (sizes := _declared_sizes(_parse_file(problem))) is not None:
        for shape in shapes:
            check_sizes(problem, shape, sizes)
    if params and (names := _declared_params(_parse_file(kernel))) is not None:
        for name in params:
            if name not in names:
                valid = ", ".join(word for word, is_listed in names.items() if is_listed) or "none"
                raise ParamsError(
                    f"{kernel} has no parameter {name!r}; its parameters are: {valid}"
                )


def _check_kind(file: Path) -> None:
    kinds = (*importlib.machinery.all_suffixes(), ".cubin", ".ptx")
    if file.is_file() and not file.name.endswith(kinds):
        raise KernelFileError(why_not_python(file), str(file))


def _parse_file(path: str) -> ast.Module | None:
    """Return the syntax tree of a Python file; ``None`` where there is none to read."""
    file = Path(path)
    try:
        if file.suffix != ".py" or file.stat().st_size > _MOST_BYTES:
            return None
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # whoever imports it reports that


def _declared_sizes(tree: ast.Module | None) -> _Sizes | None:
    """Return the sizes of a problem in SolKit's own form: arguments of ``inputs`` but ``device``.

    With the default of each that is a constant; ``None`` for another.
    """
    if tree is None or _only_function(tree, "reference", decorated=True) is None:
        return None
    inputs = _only_function(tree, "inputs")
    if inputs is None:
        return None
    sizes = dict.fromkeys(_argument_names(inputs))
    last = inputs.args.args[len(inputs.args.args) - len(inputs.args.defaults) :]
    for argument, default in (
        *zip(last, inputs.args.defaults, strict=True),
        *zip(inputs.args.kwonlyargs, inputs.args.kw_defaults, strict=True),
    ):
        if isinstance(default, ast.Constant):
            sizes[argument.arg] = default.value
    sizes.pop("device", None)
    return sizes


def _declared_params(tree: ast.Module | None) -> dict[str, bool] | None:
    """Tell of each name that ``kernel`` takes whether it is a parameter: the others are inputs."""
    if tree is None or (kernel := _only_function(tree, "kernel")) is None:
        return None
    if any("autotune" in name for name in _names_used(tree)):
        return None  # configurations of autotuners are parameters too
    if not {"helion", "tilelang", "cuda"}.isdisjoint(_imported_packages(tree)):
        return None  # and those of Helion's, TileLang's and cuTile's (cuda.tile) kernels
    keywords = [argument.arg for argument in kernel.args.kwonlyargs]
    spaces = [
        statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "SPACE" for t in statement.targets)
    ]
    if len(spaces) != sum(name == "SPACE" for name in _bound_names(tree)):
        return None
    for space in spaces:
        if not isinstance(space, ast.Dict):
            return None
        for key in space.keys:
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                return None
            keywords.append(key.value)
    inputs = {argument.arg: False for argument in kernel.args.args}
    return {**inputs, **dict.fromkeys(keywords, True)}


def _only_function(
    tree: ast.Module, name: str, *, decorated: bool = False
) -> ast.FunctionDef | None:
    """Return a module's function of that name if nothing else can bind it.

    One with a decorator, unless these are allowed, or with ``**kwargs`` takes what it does not say.
    """
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    bound = list(_bound_names(tree))
    if len(functions) != 1 or "*" in bound or bound.count(name) != 1:
        return None
    (function,) = functions
    if (function.decorator_list and not decorated) or function.args.kwarg is not None:
        return None
    return function


def _argument_names(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield what the module's code binds by name anywhere; ``*`` for a star import."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)


def _imported_packages(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _names_used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
