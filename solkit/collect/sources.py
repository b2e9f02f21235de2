"""Which kernels are to be timed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import solkit
from solkit.core import Value
from solkit.datasets.record import Source, kernel_id, problem_id, source_of
from solkit.errors import InputError

__all__ = ["INDUCTOR", "ZOO", "Kernel", "part_of", "sources"]

ZOO = Path(solkit.__file__).parent / "datasets" / "zoo"
INDUCTOR = ZOO.parent / "inductor"
"""Folders of generated files, one by template: see `solkit.collect.inductor`."""
_PROBLEM = "problem.py"


@dataclass(frozen=True)
class Kernel:
    """A kernel file of SolKit's own form whose configurations are to be timed.

    Attributes:
        path: the file.
        name: what rows call it, e.g. ``"softmax/whole_row"``.
        family: what it computes, e.g. ``"softmax"``.
        kind: the kind of the family, e.g. ``"norm"``.
        origin: ``"zoo"``, ``"inductor"`` or ``"file"``.
        source, problem: the file, and the one with the reference; maybe the same.
    """

    path: Path
    name: str
    family: str
    kind: str
    origin: str
    source: Source
    problem: Source

    @property
    def kernel_id(self) -> str:
        """See `solkit.datasets.record.kernel_id`."""
        return kernel_id(self.source.sha256, self.problem.sha256, "kernel")

    def problem_id(self, shape: Mapping[str, Value]) -> str:
        """See `solkit.datasets.record.problem_id`; each graph of Inductor's is a problem."""
        graph = {"graph": self.path.stem} if self.origin == "inductor" else {}
        return problem_id(self.family, {**graph, **shape})

    @property
    def builds_extension(self) -> bool:
        """Whether a compiler of C++ is needed: it loads an extension of torch's."""
        return "cpp_extension" in self.source.text


def sources(wanted: Sequence[str], families: Collection[str] = ()) -> tuple[Kernel, ...]:
    """The kernels that are wanted, the families in the order of their names.

    Args:
        wanted: ``"zoo"``, ``"inductor"``, or paths of kernel files and of folders of them; one
            that is named twice counts once.
        families: only these; all where it is empty.

    Raises:
        InputError: there is no such file or family.
    """
    found = {kernel.path: kernel for name in wanted for kernel in _named(name)}
    kernels = tuple(_apart(kernel, found.values()) for kernel in found.values())
    known = sorted({kernel.family for kernel in kernels})
    for family in families:
        if family not in known:
            raise InputError(f"no family {family!r}; expected some of: {', '.join(known)}")
    return tuple(k for k in kernels if not families or k.family in families)


def part_of(kernels: Sequence[Kernel], part: str) -> tuple[Kernel, ...]:
    """What one of several GPUs takes: the kernels of a problem stay together.

    Args:
        kernels: all of them.
        part: ``"I/N"``, the I-th of N parts of about as many kernels, counted from 1.

    Raises:
        InputError: `part` says something else, or nothing falls to it.
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


def _named(name: str) -> list[Kernel]:
    if name == "zoo":
        return _family_folders(ZOO)
    if name == "inductor":
        return [_lone(file) for file in sorted(INDUCTOR.glob("*/*.py"))]
    path = Path(name)
    if path.is_dir():
        if (path / _PROBLEM).is_file():
            inside = _family(path / _PROBLEM)
        else:
            inside = _family_folders(path) or [_lone(file) for file in sorted(path.glob("*.py"))]
        if not inside:
            raise InputError(f"{path} holds no kernel files")
        return inside
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"no kernel file {name!r}; expected 'zoo', 'inductor', a *.py file or a folder"
        )
    return [_lone(path)]


def _apart(kernel: Kernel, others: Collection[Kernel]) -> Kernel:
    """A file of one's own under a family that is no other problem's: rows are told apart by it."""
    problems = {each.problem.sha256 for each in others if each.family == kernel.family}
    if kernel.origin != "file" or len(problems) == 1:
        return kernel
    family = f"{kernel.family}-{kernel.problem.sha256[:8]}"
    return replace(kernel, family=family, name=kernel.name.replace(kernel.family, family, 1))


def _family_folders(folder: Path) -> list[Kernel]:
    return [
        kernel for problem in sorted(folder.glob(f"*/{_PROBLEM}")) for kernel in _family(problem)
    ]


def _family(problem_path: Path) -> list[Kernel]:
    problem_path = problem_path.resolve()
    family = problem_path.parent.name
    origin = "zoo" if problem_path.parent.parent == ZOO.resolve() else "file"
    problem = _source(problem_path, f"{family}/{_PROBLEM}")
    kind = _kind(problem, family)
    return [
        Kernel(
            path.resolve(),
            f"{family}/{path.stem}",
            family,
            kind,
            origin,
            _source(path, f"{family}/{path.name}"),
            problem,
        )
        for path in sorted(problem_path.parent.glob("*.py"))
        if path.name != _PROBLEM
    ]


def _lone(path: Path) -> Kernel:
    """A file that holds its own reference; in a family's folder the family's."""
    problem = path.parent / _PROBLEM
    if problem.exists() and path.name != _PROBLEM:
        return next(k for k in _family(problem) if k.path == path.resolve())
    if path.resolve().parent.parent == INDUCTOR.resolve():
        return _generated(path.resolve())
    source = _source(path, path.name)
    kind = _kind(source, path.stem)
    return Kernel(path.resolve(), path.stem, path.stem, kind, "file", source, source)


def _generated(path: Path) -> Kernel:
    """One of Inductor's, whose family is its template."""
    family = path.parent.name
    source = _source(path, f"{family}/{path.name}")
    kind = _kind(source, "inductor")
    return Kernel(path, f"{family}/{path.stem}", family, kind, "inductor", source, source)


def _source(path: Path, name: str) -> Source:
    try:
        return source_of(path.read_bytes(), name)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _kind(source: Source, otherwise: str) -> str:
    """What the file calls ``KIND``."""
    try:
        statements = ast.parse(source.text).body
    except SyntaxError as error:
        raise InputError(f"{source.name}:{error.lineno}: {error.msg}") from error
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
            if "KIND" in names:
                return str(statement.value.value)
    return otherwise
