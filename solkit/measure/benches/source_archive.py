"""Kernel files on their way to another machine, which shares no folder with this one.

A bundle holds what loading a kernel file reads: the file, its reference, modules beside them that
they import (`solkit.kernelfiles` makes a file's folder importable), and its launch description or
problem folder. Anything else that it imports must be installed on the other machine.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from solkit.core.parsing import syntax_tree
from solkit.errors import InputError
from solkit.userdata import write_atomically

MOST_BYTES = 64 << 20
_PROBLEM = "problem.py"  # the reference of all files in its folder


@dataclass(frozen=True)
class Bundle:
    """Files by their path below a folder.

    Attributes:
        digest: of names and contents.
        path: of the kernel file.
        reference: of the file or folder with the reference, if it is another.
        files: contents.
    """

    digest: str
    path: str
    reference: str | None
    files: Mapping[str, bytes]

    def unpack(self, folder: Path) -> tuple[str, str | None]:
        """Write the files into a folder of their own, unless they are there.

        Returns:
            The paths of the kernel file and of its reference.
        """
        root = folder / self.digest[:16]
        for name, content in self.files.items():
            file = root / name
            if not file.exists():
                write_atomically(file, content)
        return str(root / self.path), self.reference and str(root / self.reference)


def make_bundle(path: str, reference: str | None = None) -> Bundle:
    """Return the files that another machine needs to load a kernel file.

    Raises:
        InputError: a file cannot be read, or there are over 64 MiB.
    """
    paths = [Path(file).resolve() for file in (path, reference) if file is not None]
    files = {file for start in paths for file in _needed_files(start)}
    stamps = tuple(sorted((str(file), *_file_stamp(file)) for file in files))
    return _read_bundle(tuple(map(str, paths)), stamps)


@functools.lru_cache(maxsize=256)
def _read_bundle(paths: tuple[str, ...], stamps: tuple[tuple[str, int, int], ...]) -> Bundle:
    total = sum(size for _, size, _ in stamps)
    if total > MOST_BYTES:
        raise InputError(
            f"{paths[0]}: its files take {total >> 20} MiB; at most {MOST_BYTES >> 20} MiB are "
            "sent to another machine"
        )
    named = [Path(name) for name, _, _ in stamps]
    # a folder's name names the family, so it is kept
    folders = (Path(path) if Path(path).is_dir() else Path(path).parent for path in paths)
    root = Path(os.path.commonpath([*(file.parent for file in named), *folders])).parent
    try:
        files = {file.relative_to(root).as_posix(): file.read_bytes() for file in named}
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from error
    listing = "".join(
        f"{name}\0{hashlib.sha256(files[name]).hexdigest()}\n" for name in sorted(files)
    )
    digest = hashlib.sha256(listing.encode()).hexdigest()
    path, *other = (Path(name).relative_to(root).as_posix() for name in paths)
    return Bundle(digest, path, other[0] if other else None, files)


def _file_stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    return status.st_size, status.st_mtime_ns


def _needed_files(start: Path) -> Iterator[Path]:
    """Yield the files that loading one reads."""
    if start.is_dir() or start.suffix == ".json":
        yield from _files_below(_problem_folder(start))
        return
    yield start
    beside = start.with_suffix(".launch.toml"), start.parent / _PROBLEM
    modules = [start, *(module for module in beside if module.is_file())]
    seen: set[Path] = set()
    while modules:
        module = modules.pop()
        if module not in seen:
            seen.add(module)
            yield module
            modules += _imported_modules(module, start.parent)


def _problem_folder(start: Path) -> Path:
    """Return the folder of a problem, or the one that holds definitions and workloads."""
    folder = start if start.is_dir() else start.parent
    above = [parent for parent in (folder, *folder.parents) if (parent / "definitions").is_dir()]
    return above[0] if above else folder


def _files_below(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return [path for path in paths if path.is_file()]


def _imported_modules(module: Path, root: Path) -> Iterator[Path]:
    """Yield modules in a folder that a file imports; of a package, all files."""
    if module.suffix != ".py":
        return
    try:
        tree = syntax_tree(module.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # loading it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = root if not node.level else module.parents[node.level - 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                yield from _module_files(base, name)


def _module_files(base: Path, name: str) -> Iterator[Path]:
    """Yield the files of a module in a folder; none if it is elsewhere."""
    first = name.partition(".")[0]
    if (base / f"{first}.py").is_file():
        yield base / f"{first}.py"
    elif (base / first).is_dir():
        yield from _files_below(base / first)
