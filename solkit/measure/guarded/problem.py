"""The problem that a candidate is examined for."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from solkit.errors import KernelFileError
from solkit.kernelfiles import LoadedKernel, load
from solkit.measure.guarded.messages import Request

__all__ = ["digest_of", "problem_of"]


def problem_of(request: Request) -> LoadedKernel:
    """Return the problem, without a candidate from another file."""
    if request.reference is None:
        return _without_candidate(load(request.path))
    try:
        return _without_candidate(load(request.reference))
    except KernelFileError:  # half of the problem is a launch description in the candidate's file
        return _without_candidate(load(request.path, reference=request.reference))


def digest_of(request: Request) -> str:
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
