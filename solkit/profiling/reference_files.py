"""Reference files of a profile's problems, for `solkit evolve` and as a kernel's reference."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from solkit.core import Profile, ProfiledProblem
from solkit.datasets.launch_recordings import write_generated_files

_MOST_LETTERS = 60

_FILE = '''"""{title}: PyTorch operators of a profiled run, as one problem.

Layouts and types of inputs are as recorded, contents are drawn. A trace lacks Python's numbers that
PyTorch wraps as tensors: they stand as 1 or 1.0 here.
"""

import torch

CASES = [
{cases}
]
SHAPES = [{{"case": case}} for case in range(len(CASES))]


{reference}


def inputs(case=0, device="cuda"):
    return tuple(drawn(*layout, device) for layout in CASES[case])


def drawn(shape, strides, dtype, limit, device):
    dtype = getattr(torch, dtype)
    last = sum((n - 1) * stride for n, stride in zip(shape, strides))
    size = (last + 1 if all(shape) else 0,)  # elements may share memory, as expanded ones do
    if dtype == torch.bool:
        flat = torch.rand(size, device=device) < 0.5
    elif not (dtype.is_floating_point or dtype.is_complex):
        high = min(limit, torch.iinfo(dtype).max)  # they may be indices
        flat = torch.randint(0, high, size, device=device).to(dtype)
    else:
        flat = torch.randn(size, device=device).to(dtype)
    return flat.as_strided(shape, strides)
'''


def reference_file_text(problem: ProfiledProblem) -> str:
    """Return the file of a problem that has a reference; its sizes are the number of a case."""
    cases = "\n".join(f"    {case.layout}," for case in problem.cases)
    return _FILE.format(title=", ".join(problem.ops), cases=cases, reference=problem.reference)


def write_reference_files(profile: Profile, folder: Path) -> dict[ProfiledProblem, Path]:
    """Write a file for each problem that has a reference; files that somebody edited stay.

    Raises:
        InputError: they cannot be written.
    """
    texts = {p: reference_file_text(p) for p in profile.problems if p.reference}
    names = {problem: _name(problem, text) for problem, text in texts.items()}
    if names:
        write_generated_files(folder, {names[p]: text for p, text in texts.items()})
    return {problem: folder / f"{name}.py" for problem, name in names.items()}


def _name(problem: ProfiledProblem, text: str) -> str:
    """Return a name that follows from the content: an edited file stands for no other problem."""
    words = "_".join(op.rpartition("::")[2].strip("_") for op in problem.ops)
    stem = re.sub(r"\W", "_", words)[:_MOST_LETTERS].rstrip("_")
    return f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
