"""Cooperative reductions of more rows than programs can run at a time.

Inductor's programs of one row wait for each other, so all must run at once: with many rows it
leaves each to one program, which reads long rows twice. Here programs take one row after another.
Those that run share few rows, so the second read finds them in the L2 cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from solkit.adapters.inductor_space import PROCESSORS, RESIDENT_VALUES, RESIDENT_WARPS

__all__ = ["over_rows", "row_configs", "row_grid", "row_test"]

_L2_SHARE_BYTES = 25 << 20
"""What the rows of all running programs may take: half of the L2 of an H100 or H200."""
_PER_SM = 2
_MOST_SPLIT = 64
"""Inductor's TRITON_MAX_RSPLIT, which sizes its workspace."""
_ELEMENT_BYTES = 4

_ROW = "    xoffset = tl.program_id(1) * XBLOCK\n"


def over_rows(function: str) -> str | None:
    """The function with a loop over blocks of rows; ``None`` if its text has another form.

    Args:
        function: from its name on; ``PER_SM`` becomes its last parameter.
    """
    head, row, body = function.rstrip().partition(_ROW)
    if not row or "tl.program_id(1)" in head or " RSPLIT : tl.constexpr):\n" not in head:
        return None
    loop = (
        "    for xblock in tl.range(tl.program_id(1), tl.cdiv(xnumel, XBLOCK), tl.num_programs(1)):"
    )
    lines = (row + body).replace("tl.program_id(1)", "xblock").split("\n")
    inner = [f"    {line}" if line.strip() else line for line in lines]
    signature = re.sub(r"\):\n", ", PER_SM : tl.constexpr):\n", head, count=1)
    return "\n".join([signature + loop, *inner]) + "\n"


def row_grid(rows: str) -> tuple[str, str]:
    """The grid: programs of one row, and rows at a time, as expressions of the blocks."""
    return "RSPLIT", f"min({rows}, {PROCESSORS} * PER_SM // RSPLIT)"


def row_test(length: int) -> str:
    """Whether the rows of all running programs stay in the L2 cache, of ``params``.

    Args:
        length: of a row, in elements.
    """
    row_bytes = PROCESSORS * length * _ELEMENT_BYTES
    at_once = f'params["PER_SM"] * params["XBLOCK"] * {row_bytes}'
    return f'{at_once} <= params["RSPLIT"] * {_most_bytes(length)}'


def _most_bytes(length: int) -> int:
    """What a program's part of a row may take of the L2, so that the finest split fits."""
    finest = PROCESSORS * length * _ELEMENT_BYTES // _MOST_SPLIT
    return max(_L2_SHARE_BYTES, finest)


def row_configs(configs: Sequence[Mapping[str, int]], length: int) -> list[dict[str, int]]:
    """Inductor's configurations, with as many programs a row as the L2 cache asks for.

    Blocks and warps shrink until the programs fit an SM; a configuration that never does is left
    out, so there may be none.

    Args:
        configs: its own.
        length: of a row, in elements.
    """
    resident = (_resident(each, length) for each in configs)
    return [each for each in resident if each is not None]


def _resident(config: Mapping[str, int], length: int) -> dict[str, int] | None:
    made, rows = dict(config), config.get("XBLOCK", 1)
    while _PER_SM * rows * made.get("R0_BLOCK", 1) > RESIDENT_VALUES and made["R0_BLOCK"] > 1:
        made["R0_BLOCK"] //= 2
    values = rows * made.get("R0_BLOCK", 1)
    while _PER_SM * made["num_warps"] > RESIDENT_WARPS or 32 * made["num_warps"] > max(32, values):
        made["num_warps"] //= 2
    for programs in range(_PER_SM, 0, -1):
        bytes_at_once, split = PROCESSORS * programs * rows * length * _ELEMENT_BYTES, 1
        while split < _MOST_SPLIT and bytes_at_once > split * _most_bytes(length):
            split *= 2
        if bytes_at_once <= split * _most_bytes(length):
            return {**made, "RSPLIT": split, "PER_SM": programs}
    return None
