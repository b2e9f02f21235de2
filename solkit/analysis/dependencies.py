"""Dependencies of an answer about a kernel file: the files that were read for it, and SolKit.

A worker notes each file that is opened for reading (`Reads`), including modules that the kernel
file imports. The process that asks compares them with the disk (`Files`).

torch, triton, Python's own library and the rooms of SolKit that analyse are not among the files:
`surroundings` gives their versions, or the state of their sources.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import itertools
import os
import platform
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, Union

from solkit.extras import installed_version
from solkit.processes.sources import source_stamps

Stamp = Union[tuple[int, int], None]
"""A file's size in bytes and modification time in ns; ``None`` if there is no file."""

T = TypeVar("T")

_ROOT = Path(__file__).parents[1]
_ROOMS = ("adapters", "analysis", "core", "kernelfiles", "ops", "processes", "roofline")
_LIBRARIES = ("torch", "triton", "numpy", "sympy", "pydantic", "functorch")
_PACKAGES = ("torch", "triton", "numpy", "sympy", "pydantic", "nvidia-cuda-nvrtc")
_PREFIXES = ("TRITON_", "TORCH", "PYTORCH_", "LLVM_", "MLIR_", "NVCC_", "CUDA_")
_PLACES = ("CACHE", "DIR", "HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that name a place or hide a GPU do not change answers."""
_ENVIRONMENT = ("environ", "environb", "getenv", "getenvb")
_WRITES = os.O_WRONLY | os.O_RDWR
_LOOKS = 3  # at a file that changes while it is read
_HASHED_BYTES = 16 << 20
"""A larger file is identified by its stamp."""
_TRUSTED_S = 1.0
"""So long a file of an installed package is taken to be as it was, and a list of them once more: a
kernel that imports a package may read thousands, and each answer depends on all of them."""


def stamp_of_file(path: str) -> Stamp:
    """Return a file's stamp."""
    try:
        status = os.stat(path)  # noqa: PTH116 - thousands of times a second
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=1 << 16)
def is_installed(path: str) -> bool:
    """Tell whether a file is one of an installed package."""
    return any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))


class Lately(Generic[T]):
    """Cache of what is known of installed packages for a second."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, T]] = {}

    def get(self, key: str) -> T | None:
        """``None`` if nothing was found so lately."""
        entry = self._known.get(key)
        return entry[1] if entry and time.monotonic() - entry[0] <= _TRUSTED_S else None

    def add(self, key: str, value: T) -> T:
        """Keep it; returns it."""
        self._known[key] = time.monotonic(), value
        return value


_SEEN: Lately[tuple[Stamp]] = Lately()


def recent_stamp(path: str) -> Stamp:
    """Return a file's stamp; that of an installed one as it was up to a second ago."""
    if not is_installed(path):
        return stamp_of_file(path)
    return (_SEEN.get(path) or _SEEN.add(path, (stamp_of_file(path),)))[0]


class Stamps(Mapping[str, Stamp]):
    """The stamps of files, of which thousands may be of installed packages.

    Attributes:
        own: of the other files.
        installed: of files of installed packages.
    """

    def __init__(self, own: Mapping[str, Stamp], installed: Mapping[str, Stamp]) -> None:
        self.own, self.installed = own, installed

    @staticmethod
    def of(stamps: Mapping[str, Stamp]) -> Stamps:
        """Return the same stamps."""
        if isinstance(stamps, Stamps):
            return stamps
        own = {file: then for file, then in stamps.items() if not is_installed(file)}
        return Stamps(own, {file: then for file, then in stamps.items() if file not in own})

    def and_(self, others: Mapping[str, Stamp]) -> Stamps:
        """Add the stamps of other files, which replace those of the same files."""
        new = Stamps.of(others)
        if new.installed:
            return Stamps({**self.own, **new.own}, {**self.installed, **new.installed})
        if not new.own:
            return self
        joined = Stamps({**self.own, **new.own}, self.installed)
        joined.__dict__["name"] = self.name  # it takes a while, and is the same
        return joined

    @functools.cached_property
    def name(self) -> str:
        """Name of the installed ones; equal stamps have equal names."""
        return str(hash(frozenset(self.installed.items())))

    def are_current(self) -> bool:
        """Tell whether the files are as they were; installed ones are looked at once a second."""
        if any(stamp_of_file(file) != then for file, then in self.own.items()):
            return False
        if _CURRENT.get(self.name) is None:
            if any(recent_stamp(file) != then for file, then in self.installed.items()):
                return False
            _CURRENT.add(self.name, True)
        return True

    def __getitem__(self, file: str) -> Stamp:
        return self.own[file] if file in self.own else self.installed[file]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self.own, self.installed)

    def __len__(self) -> int:
        return len(self.own) + len(self.installed)


_CURRENT: Lately[bool] = Lately()


class Files:
    """Digests of files by path, computed again only if their stamps change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, str, bool]] = {}

    def digest(self, path: str) -> str:
        """SHA-256 of a file, in hexadecimal; empty if it cannot be read."""
        return self.read(path)[1]

    def read(self, path: str) -> tuple[Stamp, str, bool]:
        """Return a file's stamp, the digest that goes with it, and whether it is self-contained.

        Python code that reads environment variables is not.
        """
        contents = self._known.get(path)
        if contents is None or contents[0] != recent_stamp(path):
            contents = self._known[path] = _read_and_stamp(path)
        return contents


def _read_and_stamp(path: str) -> tuple[Stamp, str, bool]:
    for _ in range(_LOOKS):
        now = stamp_of_file(path)
        contents = (now, *_digested(path, now))
        if stamp_of_file(path) == now:  # it did not change while it was read
            return contents
    return None, "", False


def _digested(path: str, now: Stamp) -> tuple[str, bool]:
    if now is None:
        return "", False
    if now[0] > _HASHED_BYTES:
        return repr(now), True
    try:
        data = Path(path).read_bytes()
    except OSError:
        return "", False
    return hashlib.sha256(data).hexdigest(), not _asks(path, data)


def _asks(path: str, data: bytes) -> bool:
    """Tell whether a file that is not installed is Python code that may read the environment."""
    if not path.endswith(".py") or is_installed(path):
        return False
    if b"environ" not in data and b"getenv" not in data:
        return False
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return True
    return any(_names_environment(node) for node in ast.walk(tree))


def _names_environment(node: ast.AST) -> bool:
    """Tell whether a node names it: comments, and words such as "environment", do not."""
    for field in ("attr", "id", "name", "value"):  # of an attribute, name, import or constant
        if getattr(node, field, None) in _ENVIRONMENT:
            return True
    return False


class Reads:
    """The files that this process opens for reading from now on.

    An audit hook cannot be removed, so use it in a throw-away process.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._told = 0
        self._ignored = tuple(_ignored_folders())
        sys.addaudithook(self._note)

    def new(self) -> dict[str, Stamp]:
        """List files opened since the last call, by absolute path, with their stamps then."""
        fresh = list(itertools.islice(self._stamps.items(), self._told, None))
        self._told += len(fresh)
        return {path: file_stamp for path, file_stamp in fresh if file_stamp is not None}

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "ctypes.dlopen":
            reads = isinstance(args[0], str) and os.sep in args[0]
        else:
            reads = event == "open" and isinstance(args[0], str) and not args[2] & _WRITES
        if not reads:
            return
        path = os.path.abspath(args[0])  # noqa: PTH100 - a Path would be slow
        if path.endswith(".pyc"):
            path = _source_of(path)
        if path not in self._stamps and not path.startswith(self._ignored):
            self._stamps[path] = stamp_of_file(path)


def _source_of(path: str) -> str:
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return path


def _ignored_folders() -> Iterator[str]:
    """Yield folders, which end in a slash; `surroundings` covers them."""
    places = [Path(tempfile.gettempdir()), *map(Path, ("/proc", "/sys", "/dev"))]
    places += [Path(os.environ.get("TRITON_CACHE_DIR", "~/.triton")).expanduser()]
    places += [
        Path(file).parent  # of a compiler that lies elsewhere
        for name in _LIBRARIES
        if (file := getattr(sys.modules.get(name), "__file__", None))
    ]
    library = sysconfig.get_paths()
    places += [Path(library[name], part) for name in ("purelib", "platlib") for part in _LIBRARIES]
    places += [place for room in _ROOMS for place in (_ROOT / room, (_ROOT / room).resolve())]
    yield from (f"{place}{os.sep}" for place in places)
    for entry in Path(str(os.__file__)).parent.iterdir():  # Python's own library
        if entry.name not in ("site-packages", "dist-packages"):
            yield f"{entry}{os.sep}" if entry.is_dir() else str(entry)


# ----------------------------------------------------------------------------- SolKit itself


def surroundings() -> tuple[object, ...]:
    """Return what all answers of this process depend on besides files that kernels read."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PREFIXES) and not name.endswith(_PLACES)
    }
    return (*_installed(), tuple(sys.path), tuple(sorted(variables.items())))


@functools.cache
def _installed() -> tuple[object, ...]:
    """Return versions, and the state of SolKit's sources, which change without a version."""
    versions = tuple(map(installed_version, _PACKAGES))
    sources = tuple(
        sorted(stamped for room in _ROOMS for stamped in source_stamps(str(_ROOT / room)))
    )
    return platform.python_version(), versions, sources
