"""KernelBench's problems, and what the benches beside this file say of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.datasets.kernelbench import OK, SAME_AS_DEFAULT, VARIANTS

__all__ = [
    "OK",
    "SAME_AS_DEFAULT",
    "VARIANTS",
    "Problem",
    "Row",
    "find_problems",
    "has_matrix_product",
    "sha256_of",
]

Row = dict[str, Any]
"""One line of a journal (`kernelbench_times`)."""

_MATRIX_OPS = frozenset("mm addmm bmm baddbmm addbmm mv addmv dot".split())
_HOLDING_PRODUCTS = ("attention", "rnn", "lstm", "gru")
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


def find_problems(checkout: Path, levels: Iterable[int]) -> list[Problem]:
    """Every problem of those levels, by level and number.

    Args:
        checkout: KernelBench's repository, or its folder ``KernelBench`` with ``level1`` in it.
        levels: which levels.

    Raises:
        FileNotFoundError: a level has no problems there.
    """
    return [problem for level in levels for problem in _level(checkout, level)]


def has_matrix_product(ops: Iterable[str]) -> bool:
    """Tell whether any ATen op is one whose precision ``matmul.allow_tf32`` decides.

    Args:
        ops: such as ``"aten.mm"``.
    """
    names = {op.removeprefix("aten.").partition(".")[0] for op in ops}
    return any(n in _MATRIX_OPS or any(o in n for o in _HOLDING_PRODUCTS) for n in names)


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
