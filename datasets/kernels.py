"""The kernels to time."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import solkit
from solkit.core import KernelFile, Source, Value
from solkit.core.parsing import syntax_tree
from solkit.datasets.identifiers import kernel_id, problem_id, source_of
from solkit.errors import InputError

ZOO = Path(solkit.__file__).parent / "datasets" / "zoo"
INDUCTOR = ZOO.parent / "inductor"
"""Generated files, a folder per template: see `tools.inductor`."""
LIBRARIES = ZOO.parent / "libraries"
"""Launchers as libraries write them, a folder per family; some import their kernel from one."""
LANGUAGES = ZOO.parent / "languages"
"""The same problems in several tile languages, a folder per problem."""
_ORIGINS = {
    **{ZOO.resolve(): "zoo", LIBRARIES.resolve(): "library"},
    **{LANGUAGES.resolve(): "language"},
}
_GENERATED_KIND = re.compile(r'^KIND = "(\w+)"$', re.MULTILINE)
_PROBLEM, _DEFINITION = "problem.py", "definition.json"
_FOLDER_SUFFIXES = (".json", ".jsonl", ".py")


@dataclass(frozen=True)
class Kernel:
    """A kernel file whose configurations are measured.

    Attributes:
        path: the file.
        name: in rows, e.g. ``"softmax/whole_row"``.
        family: what it computes, e.g. ``"softmax"``.
        kind: the kind of the family, e.g. ``"norm"``.
        origin: ``"zoo"``, ``"inductor"``, ``"library"``, ``"language"`` or ``"file"``.
        source: the file.
        problem: the file with the reference, which may be the same.
        entry_point: the function that is called.
        parts: the files that `problem` lists, if the reference is a folder.
    """

    path: Path
    name: str
    family: str
    kind: str
    origin: str
    source: Source
    problem: Source
    entry_point: str = "kernel"
    parts: tuple[Source, ...] = ()

    @property
    def files(self) -> tuple[Source, ...]:
        """All that an outcome refers to."""
        return (self.source, self.problem, *self.parts)

    @property
    def kernel_id(self) -> str:
        """See `solkit.datasets.identifiers.kernel_id`."""
        return kernel_id(self.source.sha256, self.problem.sha256, self.entry_point)

    def problem_id(self, shape: Mapping[str, Value]) -> str:
        """See `solkit.datasets.identifiers.problem_id`; each of Inductor's graphs is a problem."""
        graph = {"graph": self.path.stem} if self.origin == "inductor" else {}
        return problem_id(self.family, {**graph, **shape})

    @property
    def builds_extension(self) -> bool:
        """True if it builds a torch extension, which needs a C++ compiler."""
        return "cpp_extension" in self.source.text


def kernel_at_path(
    path: str | Path, entry_point: str = "kernel", reference: str | Path | None = None
) -> Kernel:
    """Return the kernel in one file.

    Args:
        path: the file.
        entry_point: the function that is called.
        reference: the file with the reference, or a definition or its folder. By default it is
            ``problem.py`` beside `path`, or `path` itself. The family is named after it.

    Raises:
        InputError: a file cannot be read, or is not Python.
    """
    file = Path(path).resolve()
    if reference is None:
        return replace(_lone_kernel(file), entry_point=entry_point)
    problem_path = Path(reference).resolve()
    if (problem_path / _DEFINITION).is_file():
        problem_path /= _DEFINITION
    if problem_path.suffix != ".py":
        return _of_problem_folder(file, entry_point, problem_path, _definition_name(problem_path))
    family = problem_path.parent.name if problem_path.name == _PROBLEM else problem_path.stem
    problem = _source_at_path(problem_path, f"{family}/{problem_path.name}")
    name, source = f"{family}/{file.stem}", _source_at_path(file, f"{family}/{file.name}")
    return Kernel(
        file, name, family, _kind_of_source(problem, family), "file", source, problem, entry_point
    )


def kernel_of_file(described: KernelFile) -> Kernel:
    """Return the kernel of a loaded file, as the file is now.

    Raises:
        InputError: a file cannot be read, or is not UTF-8.
    """
    candidate, problem = described.candidate, Path(described.problem.path).resolve()
    assert candidate is not None
    file = Path(candidate.path).resolve()
    if file.suffix == problem.suffix == ".py":
        return kernel_at_path(file, candidate.name, None if file == problem else problem)
    return _of_problem_folder(file, candidate.name, problem, described.problem.name)


def _of_problem_folder(file: Path, entry_point: str, problem: Path, name: str) -> Kernel:
    """Return a solution of a problem folder or of a definition; or the kernel in a binary."""
    parts = _folder_parts(problem) if problem.is_dir() else ()
    listing = "".join(f"{part.name}\0{part.sha256}\n" for part in parts).encode()
    problem_source = (
        source_of(listing, problem.name) if parts else _source_at_path(problem, problem.name)
    )
    source = _source_at_path(file, file.name)
    return Kernel(file, file.name, name, name, "file", source, problem_source, entry_point, parts)


def _definition_name(path: Path) -> str:
    """Return the name of the problem that a definition describes.

    Raises:
        InputError: it cannot be read, or has no name.
    """
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no definition with a name: {error}") from error


def _folder_parts(folder: Path) -> tuple[Source, ...]:
    """Return a problem folder's own files: not its tensors."""
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in _FOLDER_SUFFIXES)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from error
    return tuple(_source_at_path(file, file.name) for file in files)


def select_kernels(names: Sequence[str], families: Collection[str] = ()) -> tuple[Kernel, ...]:
    """Return the kernels that a user names, families in alphabetical order.

    Args:
        names: ``"zoo"``, ``"inductor"``, ``"libraries"``, ``"languages"``, or paths of kernel
            files and their folders; a kernel named twice counts once.
        families: only these; all by default.

    Raises:
        InputError: a file or family is missing.
    """
    by_path = {kernel.path: kernel for name in names for kernel in _kernels_named(name)}
    kernels = tuple(_with_own_family(kernel, by_path.values()) for kernel in by_path.values())
    valid = sorted({kernel.family for kernel in kernels})
    for family in families:
        if family not in valid:
            raise InputError(f"no family {family!r}; expected some of: {', '.join(valid)}")
    return tuple(k for k in kernels if not families or k.family in families)


def share_of_gpu(kernels: Sequence[Kernel], part: str) -> tuple[Kernel, ...]:
    """Return the share of one of several GPUs. All kernels of a problem go to the same GPU.

    Args:
        kernels: all of them.
        part: ``"I/N"``: the I-th of N parts, counted from 1, each with about as many kernels.

    Raises:
        InputError: `part` has another form, or is empty.
    """
    place, _, parts = part.partition("/")
    if not (place.isdecimal() and parts.isdecimal() and 1 <= int(place) <= int(parts)):
        raise InputError(f"no part {part!r}; expected I/N, with I from 1 to N: 1/4, say")
    counts = Counter(kernel.problem.sha256 for kernel in kernels)
    largest_first = sorted(counts, key=lambda problem: (-counts[problem], problem))
    chosen = set(largest_first[int(place) - 1 :: int(parts)])
    if not chosen:
        raise InputError(f"part {part} is empty: there are {len(counts)} problems to share out")
    return tuple(kernel for kernel in kernels if kernel.problem.sha256 in chosen)


def _kernels_named(name: str) -> list[Kernel]:
    if name == "zoo":
        return _family_folders(ZOO)
    if name == "languages":
        return _family_folders(LANGUAGES)
    if name == "inductor":
        return [_lone_kernel(file) for file in sorted(INDUCTOR.glob("*/*.py"))]
    if name == "libraries":
        return [
            _lone_kernel(file) for file in sorted(LIBRARIES.glob("*/*.py")) if file.name != _PROBLEM
        ]
    path = Path(name)
    if path.is_dir():
        if (path / _PROBLEM).is_file():
            inside = _family_kernels(path / _PROBLEM)
        else:
            inside = _family_folders(path) or [
                _lone_kernel(file)
                for file in sorted(path.glob("*.py"))
                if _may_be_kernel_file(file)
            ]
        if not inside:
            raise InputError(f"{path} holds no kernel files")
        return inside
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"no kernel file {name!r}; expected 'zoo', 'inductor', 'libraries', "
            "'languages', a *.py file or a folder"
        )
    return [_lone_kernel(path)]


_FORMS = (
    *({"reference", "inputs"}, {"kernel"}),
    *({"Model", "get_inputs"}, {"ModelNew"}),
    {"LAUNCH"},
)
"""Names that a kernel file of each form binds; a candidate alone may have its problem elsewhere."""


def _may_be_kernel_file(path: Path) -> bool:
    """Tell whether a file of a folder has a form of kernel files, or cannot be read.

    Others are modules that kernel files import.
    """
    if path.with_suffix(".launch.toml").is_file():
        return True
    try:
        tree = syntax_tree(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    names = set(_bound_names(tree))
    return "*" in names or any(form <= names for form in _FORMS)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the top level of a module may bind; ``*`` for any."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _with_own_family(kernel: Kernel, others: Collection[Kernel]) -> Kernel:
    """Return the kernel with a family that no other problem has, so that rows differ.

    Only files outside the zoo are renamed.
    """
    if kernel.origin != "file":
        return kernel
    problems = {other.problem.sha256 for other in others if other.family == kernel.family}
    if len(problems) == 1:
        return kernel
    family = f"{kernel.family}-{kernel.problem.sha256[:8]}"
    return replace(kernel, family=family, name=kernel.name.replace(kernel.family, family, 1))


def _family_folders(folder: Path) -> list[Kernel]:
    return [
        kernel
        for problem in sorted(folder.glob(f"*/{_PROBLEM}"))
        for kernel in _family_kernels(problem)
    ]


def _family_kernels(problem_path: Path) -> list[Kernel]:
    problem_path = problem_path.resolve()
    family = problem_path.parent.name
    origin = _ORIGINS.get(problem_path.parent.parent, "file")
    problem = _source_at_path(problem_path, f"{family}/{_PROBLEM}")
    kind = _kind_of_source(problem, family)
    return [
        Kernel(
            path.resolve(),
            f"{family}/{path.stem}",
            family,
            kind,
            origin,
            _source_at_path(path, f"{family}/{path.name}"),
            problem,
        )
        for path in sorted(problem_path.parent.glob("*.py"))
        if path.name != _PROBLEM
    ]


def _lone_kernel(path: Path) -> Kernel:
    """Return a file with its family's reference if it is in a family's folder, else its own."""
    problem = path.parent / _PROBLEM
    if problem.exists() and path.name != _PROBLEM:
        return next(k for k in _family_kernels(problem) if k.path == path.resolve())
    if path.resolve().parent.parent == INDUCTOR.resolve():
        return _generated_kernel(path.resolve())
    if path.resolve().parent.parent == LIBRARIES.resolve():
        family = path.resolve().parent.name
        source = _source_at_path(path, f"{family}/{path.name}")
        kind = _kind_of_source(source, family)
        return Kernel(
            path.resolve(), f"{family}/{path.stem}", family, kind, "library", source, source
        )
    source = _source_at_path(path, path.name)
    kind = _kind_of_source(source, path.stem)
    return Kernel(path.resolve(), path.stem, path.stem, kind, "file", source, source)


def _generated_kernel(path: Path) -> Kernel:
    """Return a file that Inductor's generator wrote; its family is the template."""
    family = path.parent.name
    source = _source_at_path(path, f"{family}/{path.name}")
    said = _GENERATED_KIND.search(source.text)  # to parse all of them takes seconds
    kind = said[1] if said else "inductor"
    return Kernel(path, f"{family}/{path.stem}", family, kind, "inductor", source, source)


def _source_at_path(path: Path, name: str) -> Source:
    try:
        return source_of(path.read_bytes(), name)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _kind_of_source(source: Source, otherwise: str) -> str:
    """Return the file's ``KIND``, if it has one."""
    try:
        statements = syntax_tree(source.text).body
    except SyntaxError as error:
        raise InputError(f"{source.name}:{error.lineno}: {error.msg}") from error
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
            if "KIND" in names:
                return str(statement.value.value)
    return otherwise
