"""The problem that a candidate is examined for."""

from __future__ import annotations

import hashlib
import linecache
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from solkit.errors import KernelFileError
from solkit.kernelfiles import LoadedKernel, load
from solkit.measure.guarded.messages import Request


def load_problem(request: Request) -> LoadedKernel:
    """Return the problem, without a candidate from another file."""
    if request.reference is None:
        return _without_candidate(load(request.path))
    try:
        return _without_candidate(load(request.reference))
    except KernelFileError:  # half of the problem is a launch description in the candidate's file
        return _without_candidate(load(request.path, reference=request.reference))


def digest_problem(request: Request) -> str:
    """Return a digest of the problem's file, or of the sizes and times of a folder's files."""
    path = Path(request.reference or request.path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        content = repr([(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files]).encode()
    else:
        content = str(path.resolve()).encode() + path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def _without_candidate(loaded: LoadedKernel) -> LoadedKernel:
    if loaded.description.problem.reference is None:
        path = loaded.description.path
        raise KernelFileError("has no reference to check the kernel against", path)
    loaded.description = replace(loaded.description, candidate=None)
    return loaded


# ---------------------------------------- Forget the import of one kernel file before the next one


@dataclass(frozen=True)
class Imports:
    """Imports of a process at some moment."""

    path: tuple[str, ...]  # the module path
    modules: frozenset[str]  # names of the loaded modules

    @classmethod
    def now(cls) -> Imports:
        """Return the present state."""
        return cls(tuple(sys.path), frozenset(sys.modules))

    def restore(self) -> None:
        """Forget kernel files imported since then. Libraries stay: importing them takes long."""
        sys.path[:] = self.path
        for name in sys.modules.keys() - self.modules:
            if name.rpartition(".")[2].startswith("solkit_kernel_"):  # it may lie in a package
                del sys.modules[name]
        linecache.clearcache()
