"""KernelBench's problems, and what the benches beside this file say of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.core import Verdict
from solkit.datasets.kernelbench import OK, SAME_AS_DEFAULT, VARIANTS

__all__ = [
    "OK",
    "SAME_AS_DEFAULT",
    "VARIANTS",
    "Failure",
    "Job",
    "Problem",
    "Row",
    "find_problems",
    "sha256_of",
]

Row = dict[str, Any]
"""One line of a journal (`kernelbench_times`)."""

_FILE_NAME = re.compile(r"(\d+)_.+\.py")


@dataclass(frozen=True)
class Problem:
    """One file of KernelBench.

    Attributes:
        level: 1 (single ops) to 4.
        number: its number within the level.
        name: the file's stem, number included.
        path: the file.
        sha256: of the file's bytes.
    """

    level: int
    number: int
    name: str
    path: str
    sha256: str

    @property
    def label(self) -> str:
        """Level and name, as in ``1/23_Softmax``."""
        return f"{self.level}/{self.name}"


@dataclass(frozen=True)
class Failure:
    """Why there is no time: a failing `solkit.core.Verdict` and what was said."""

    verdict: Verdict
    message: str

    def row(self) -> Row:
        """The columns of a row that say so."""
        return {"status": self.verdict.value, "message": self.message}


@dataclass(frozen=True)
class Job:
    """What a worker of `kernelbench_times` is asked for.

    Attributes:
        problem: which.
        variants: those of `VARIANTS` that have no row yet.
        compile_failure: how ``torch.compile`` ended its process before: it is not tried again.
        alone: whether no other problem is on the GPU, so that lack of memory is final.
    """

    problem: Problem
    variants: tuple[str, ...]
    compile_failure: Failure | None = None
    alone: bool = False


def find_problems(checkout: Path, levels: Iterable[int]) -> list[Problem]:
    """Every problem of those levels, by level and number.

    Args:
        checkout: KernelBench's repository, or its folder ``KernelBench`` with ``level1`` in it.
        levels: which levels.

    Raises:
        FileNotFoundError: a level has no problems there.
    """
    return [problem for level in levels for problem in _level(checkout, level)]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _level(checkout: Path, level: int) -> Sequence[Problem]:
    for folder in (checkout / f"level{level}", checkout / "KernelBench" / f"level{level}"):
        files = [(m, p) for p in folder.glob("*.py") if (m := _FILE_NAME.fullmatch(p.name))]
        if files:
            problems = [Problem(level, int(m[1]), p.stem, str(p), sha256_of(p)) for m, p in files]
            return sorted(problems, key=lambda problem: problem.number)
    raise FileNotFoundError(f"no problems of KernelBench's level {level} in {checkout}")
