"""Reference files of a profile's problems, for `solkit evolve` and as a kernel's reference."""

from __future__ import annotations

import re
from pathlib import Path

from solkit.core import Profile, ProfiledProblem
from solkit.datasets.launch_recordings import write_generated_files

__all__ = ["reference_file_text", "write_reference_files"]

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
    tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    if dtype == torch.bool:
        return tensor.copy_(torch.rand(shape, device=device) < 0.5)
    if not (dtype.is_floating_point or dtype.is_complex):
        high = min(limit, torch.iinfo(dtype).max)  # they may be indices
        return tensor.copy_(torch.randint(0, high, shape, device=device))
    return tensor.copy_(torch.randn(shape, device=device))
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
    names: dict[str, ProfiledProblem] = {}
    for problem in profile.problems:
        if problem.reference:
            names[_free_name(problem, names)] = problem
    if names:
        write_generated_files(folder, {n: reference_file_text(p) for n, p in names.items()})
    return {problem: folder / f"{name}.py" for name, problem in names.items()}


def _free_name(problem: ProfiledProblem, names: dict[str, ProfiledProblem]) -> str:
    words = "_".join(op.rpartition("::")[2].strip("_") for op in problem.ops)
    stem = re.sub(r"\W", "_", words)[:_MOST_LETTERS].rstrip("_")
    numbered = (f"{stem}_{number}" for number in range(2, len(names) + 3))
    return stem if stem not in names else next(name for name in numbered if name not in names)
