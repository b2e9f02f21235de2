"""Starting a kernel file: what a file holds, and what it lacks, from its text alone."""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from solkit.core.syntax import advice_on_launching, names_bound_by_import, package_of
from solkit.errors import InputError, KernelFileError
from solkit.pipeline.starting import _cuda_files, _texts
from solkit.pipeline.starting._source import Source, read_source
from solkit.pipeline.starting._tensors import tensors_of

__all__ = ["StartedFile", "Todo", "check_new", "start"]


_TODO = re.compile(r"TODO[:,]? ([^\"]*)")
_MOST_LISTED = 12  # names in a message


@dataclass(frozen=True)
class Todo:
    """A place to fill in.

    Attributes:
        line: in the written file.
        text: what is wanted.
    """

    line: int
    text: str


@dataclass(frozen=True)
class StartedFile:
    """Result of starting from a file.

    Attributes:
        text: the kernel file; empty if nothing is missing.
        chosen: the function, class or kernel that it is for.
        others: further ones that it might be for.
        todos: the places to fill in.
        why: what the file is, if nothing is missing.
        command: that is run next.
    """

    text: str = ""
    chosen: str = ""
    others: tuple[str, ...] = ()
    todos: tuple[Todo, ...] = ()
    why: str = ""
    command: str = ""


def start(path: str, out: str, function: str | None = None) -> StartedFile:
    """Return the kernel file that a Python file lacks. Nothing of the file runs.

    Args:
        path: the file with kernels.
        out: where the kernel file will be, which decides how it imports.
        function: the function, class or kernel that it is for; by default found.

    Raises:
        KernelFileError: the file cannot be parsed, or has nothing of that kind; names what it has.
    """
    if Path(path).suffix in (".cu", ".cuh"):
        return _start_cuda(path, out, function)
    source = read_source(path)
    if function is None and (whole := _complete_file(source)) is not None:
        return whole
    candidates = _list_candidates(source)
    chosen = _choose_candidate(source, candidates, function)
    if chosen in source.factories:
        parts = _texts.factory_text(source, chosen)
    elif chosen in source.kernels:
        parts = _texts.description_text(source, chosen)
    elif chosen in source.classes and not source.is_function(source.classes[chosen]):
        parts = _texts.module_text(source, chosen)
    else:
        parts = _texts.launched_text(source, chosen)
    text = _write_parts(source, Path(out), parts)
    others = tuple(candidate for candidate in candidates if candidate != chosen)
    return StartedFile(text, chosen, others, _todo_lines(text), command=f"solkit score {out}")


def _start_cuda(path: str, out: str, function: str | None) -> StartedFile:
    kernels = _cuda_files.cuda_kernels(path)
    chosen = function or next(iter(kernels))
    if chosen not in kernels:
        listed = ", ".join(itertools.islice(kernels, _MOST_LISTED))
        raise KernelFileError(f"has no kernel named {chosen!r}; it has: {listed}", path)
    text = _cuda_files.cuda_file_text(path, out, kernels[chosen])
    others = tuple(name for name in kernels if name != chosen)
    return StartedFile(text, chosen, others, _todo_lines(text), command=f"solkit score {out}")


def _complete_file(source: Source) -> StartedFile | None:
    """Return the answer for a file that lacks nothing."""
    bound = source.bound.keys() - source.kernels.keys()
    path = source.path
    if "LAUNCH" in bound or Path(path).with_suffix(".launch.toml").is_file():
        return StartedFile(why="has a launch description", command=f"solkit score {path}")
    if {"reference", "inputs", "kernel"} <= bound:
        return StartedFile(
            why="has reference(), inputs() and kernel()", command=f"solkit score {path}"
        )
    if {"reference", "inputs"} <= bound and not source.kernels:
        return StartedFile(why="is a problem without a kernel", command=f"solkit bound {path}")
    if {"Model", "get_inputs", "ModelNew"} <= bound:
        why = "is in KernelBench's form, with Model and ModelNew"
        return StartedFile(why=why, command=f"solkit score {path}")
    if {"Model", "get_inputs"} <= bound:
        return StartedFile(why="is a problem in KernelBench's form", command=f"solkit bound {path}")
    if "custom_kernel" in bound and "reference" not in bound:
        why = "is a submission in GPU MODE's form"
        command = f"solkit score {path}  (and --reference, unless reference.py is next to it)"
        return StartedFile(why=why, command=command)
    if "ModelNew" in bound and "Model" not in bound:
        why = "is a candidate in KernelBench's form"
        return StartedFile(why=why, command=f"solkit score {path} --reference PROBLEM.py")
    return None


def _list_candidates(source: Source) -> list[str]:
    """List what a kernel file can be for, the likeliest first: launchers, classes, bare kernels.

    A launcher that makes its tensors itself, as tests do, takes no inputs: its kernels stand bare.
    """
    functions = [name for name in source.functions if name in source.launching]
    launchers = _topmost_functions(
        source, [e for e in functions if tensors_of(source, source.functions[e])]
    )
    launchers.sort(key=lambda name: (name != "kernel", name.startswith("_")))
    classes = [name for name, node in source.classes.items() if source.forward(node)[0] is not None]
    in_use = [name for name in classes if name in source.launching]
    autograd = [name for name in in_use if source.is_function(source.classes[name])]
    modules = [name for name in classes if name not in autograd]
    if source.launching:
        modules = [name for name in modules if name in in_use]
    else:  # the kernels are another file's
        modules = [name for name in modules if name != "Model" and source.classes[name].bases]
    launched = {launch.name for launch in source.launches(source.tree)}
    bare = [name for name in source.entries if name not in launched]
    return [*launchers, *autograd, *modules, *source.factories, *bare] or list(source.entries)


def _topmost_functions(source: Source, names: list[str]) -> list[str]:
    """Return functions that none of the others calls; all if they call each other."""
    called = {
        node.id
        for name in names
        for node in ast.walk(source.functions[name])
        if isinstance(node, ast.Name) and node.id != name
    }
    return [name for name in names if name not in called] or names


def _choose_candidate(source: Source, candidates: list[str], function: str | None) -> str:
    launching = [name for name in source.functions if name in source.launching]
    on_device = ", ".join(source.device_functions[:_MOST_LISTED])
    if function in source.device_functions or not (candidates or launching or not on_device):
        raise KernelFileError(
            f"has code for the GPU ({on_device}), which a function must launch: write one that "
            "takes PyTorch's tensors",
            source.path,
        )
    if function is not None:
        if _can_be_started(source, function):
            return function
        raise KernelFileError(
            f"has no function, kernel or class with forward() named {function!r}; it has: "
            f"{_list_usable(source, source.functions) or 'none'}",
            source.path,
        )
    if candidates:
        return candidates[0]
    names = ", ".join(launching[:_MOST_LISTED])
    if launching or source.launching:
        where = f"where the tensors are made ({names})" if names else "outside functions"
        lacks = f"launches kernels only {where}: write a function that takes the tensors"
    else:
        lacks = "has no @triton.jit function, and no function or class that launches a kernel of "
        lacks += "any language that SolKit reads"
        if advice := advice_on_launching(itertools.chain(*source.imported.values())):
            raise KernelFileError(f"{lacks}; {advice}", source.path)
    usable = _list_usable(source, launching or source.functions)
    raise KernelFileError(
        f"{lacks}, or name what to score with --function: {usable or 'the file defines nothing'}",
        source.path,
    )


def _list_usable(source: Source, functions: Iterable[str]) -> str:
    every = (*functions, *source.factories, *source.classes, *source.entries)
    usable = [name for name in every if _can_be_started(source, name)]
    return ", ".join(usable[:_MOST_LISTED]) + (", …" if len(usable) > _MOST_LISTED else "")


def _can_be_started(source: Source, name: str) -> bool:
    if name in source.classes:
        return source.forward(source.classes[name])[0] is not None
    return name in {*source.functions, *source.factories, *source.kernels}


def _write_parts(source: Source, out: Path, parts: _texts.Parts) -> str:
    """Return the whole file: what it is, imports, and its body."""
    name = Path(source.path).name
    title = f"Kernel file for {name}: fill in each TODO, then run `solkit score {out.name}`."
    own, plain, paths = _needed_imports(source, out, parts)
    lines = [f'"""{title}"""', ""]
    lines += [*paths[0], ""] if paths[0] else []
    lines += [*sorted({"import torch", *plain}), "", *paths[1], *own, "", ""]
    return "\n".join(lines) + parts.body.rstrip("\n") + "\n"


_Names = list[str | tuple[str, str]]


def _needed_imports(
    source: Source, out: Path, parts: _texts.Parts
) -> tuple[list[str], set[str], tuple[list[str], list[str]]]:
    """Return the imports from the user's file, those of packages, and what finds the file."""
    mine: _Names = []
    plain: set[str] = set()
    for name in parts.names:
        statement = None if isinstance(name, tuple) else _of_package(source, name)
        if statement is None:
            mine.append(name)
        else:
            plain.add(statement)
    words = [
        imported if isinstance(imported, str) else f"{imported[0]} as {imported[1]}"
        for imported in mine
    ]
    if not words:
        return [], plain, ([], [])
    where = _module_place(source, out)
    return [f"from {where.module} import {', '.join(words)}"], plain, (where.header, where.setup)


def _of_package(source: Source, name: str) -> str | None:
    """Return the import that binds a name, if it is of a package and stands alone."""
    bindings = source.bound.get(name, [])
    if len(bindings) != 1:
        return None
    node = bindings[0]
    if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if bound == name and not _is_beside_file(source.path, node, alias.name):
                text = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                before = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
                return f"{before}import {text}"
    return None


def _is_beside_file(path: str, node: ast.Import | ast.ImportFrom, name: str) -> bool:
    """Tell if an import is of a module beside the file, which another folder does not have."""
    full = (node.module or "") if isinstance(node, ast.ImportFrom) else name
    top = Path(path).resolve().parent / full.partition(".")[0]
    return top.is_dir() or top.with_suffix(".py").is_file()


@dataclass(frozen=True)
class _Place:
    """Import of a file from another one.

    Attributes:
        module: after ``from``.
        header: imports that `setup` needs.
        setup: statements before the import.
    """

    module: str
    header: list[str]
    setup: list[str]


def _module_place(source: Source, out: Path) -> _Place:
    file, target = Path(source.path).resolve(), out.resolve().parent
    stem = file.stem
    package, folder = package_of(file)
    if package and not _uses_package(source, package[0]):  # whose __init__.py may need much more
        package, folder = [], file.parent
    plain = re.fullmatch(r"[^\W\d]\w*", stem) and stem not in sys.stdlib_module_names
    if package and plain and target == file.parent:
        return _Place(f".{stem}", [], [])
    header = ["import sys", "from pathlib import Path"]
    if plain:
        module = ".".join([*package, stem])
        if folder == target:
            return _Place(module, [], [])
        there = os.path.relpath(folder, target)
        setup = [f'sys.path.insert(0, str(Path(__file__).resolve().parent / "{there}"))', ""]
        return _Place(module, header, setup)
    there = os.path.relpath(file, target)
    name = re.sub(r"\W", "_", f"_{stem}")
    setup = [  # the file's name is none that `import` takes
        f'_file = Path(__file__).resolve().parent / "{there}"',
        f'_spec = importlib.util.spec_from_file_location("{name}", _file)',
        f'{name} = sys.modules["{name}"] = importlib.util.module_from_spec(_spec)',
        f"_spec.loader.exec_module({name})",
        "",
    ]
    return _Place(name, ["import importlib.util", *header], setup)


def _uses_package(source: Source, package: str) -> bool:
    """Tell if a file imports from the package that it lies in."""
    return any(
        (isinstance(node, ast.ImportFrom) and node.level > 0)
        or any(full.partition(".")[0] == package for _, full in names_bound_by_import(node))
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def _todo_lines(text: str) -> tuple[Todo, ...]:
    todos = []
    for number, line in enumerate(text.splitlines(), 1):
        if number > 1 and (match := _TODO.search(line)) is not None:
            todos.append(Todo(number, match[1].strip()))
    return tuple(todos)


def check_new(out: str, path: str, force: bool) -> None:
    """Raise if a file would be overwritten.

    Raises:
        InputError: it exists; or it is the file itself.
    """
    target = Path(out)
    if target.suffix != ".py":
        raise InputError(f"--out: {out} does not end in .py, as kernel files do")
    if target.exists() and target.resolve() == Path(path).resolve():
        raise InputError(f"--out: {out} is the file itself, which is never overwritten")
    if target.exists() and not force:
        raise InputError(f"--out: {out} exists; name another file, or give --force to replace it")
