"""Lines of Triton code that Helion generated, as lines of the file that it was generated from.

Helion writes a comment above each group of statements: ``# src[rows.py:23]: out[tile] = x[tile]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solkit.adapters.foreign_kernels import ForeignKernel

_COMMENT = re.compile(r"\s*# src\[([^\]:]+\.py):(\d+)")


def source_lines(function: Any) -> Mapping[str, str]:
    """Return the origins of a kernel's lines, both as ``file:line``; nothing if it has none.

    Args:
        function: the `triton.runtime.jit.JITFunction`; one of another language has none.
    """
    if isinstance(function, ForeignKernel):
        return {}
    file = Path(function.fn.__code__.co_filename).name
    origins: dict[str, str] = {}
    origin = ""
    for number, text in enumerate(function.raw_src, function.starting_line_number):
        if comment := _COMMENT.match(text):
            origin = f"{Path(comment[1]).name}:{comment[2]}"
        elif origin:
            origins[f"{file}:{number}"] = origin
    return origins
