"""Problems of public timings whose files name an operation, and hold no program.

They are kernel files in datasets/public, which rows bring with them as their problem.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from solkit.core import Source

RUNS = "runs"
"""The key of `Outcome.extra` that says what was timed: `KERNEL` or `REFERENCE`."""
KERNEL = "kernel"
"""The candidate in the problem's own file."""
REFERENCE = "reference"
"""The reference, as PyTorch runs it without compiling it."""

_FOLDER = Path(__file__).parents[1] / "public"


@functools.cache
def problem_source(name: str) -> Source:
    """Return the problem of a name: the text of datasets/public/NAME.py."""
    text = (_FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return Source(hashlib.sha256(text.encode()).hexdigest(), f"{name}.py", text)
