"""Rounding that counts as correct: what the referee allows, and what a bound may rest on.

Both read the same numbers, so that no bound rests on a precision that the referee rejects. The rule
stands in `solkit.measure.checking.tolerance`.
"""

from __future__ import annotations

from solkit.core.problems import Tolerance

__all__ = ["LEAST_SHARE", "MARGIN", "ROUNDOFF", "computing_share", "operand_roundoff"]

ROUNDOFF = {
    **{"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11},
    **{"float16": 2.0**-11, "bfloat16": 2.0**-8},
}
"""Unit roundoff by dtype."""

MARGIN = 4.0
"""Allowance for the largest of many errors over their 99th percentile, and a worse order."""

LEAST_SHARE = 2.0**-15
"""Error of computing that is always allowed in fp32 and wider, relative to ``|y| + sigma``."""

_BF16_OPERANDS, _TF32_OPERANDS = 1e-2, 1e-3


def operand_roundoff(tolerance: Tolerance | None) -> float:
    """Return the unit roundoff of the coarsest factors that an author admits in fp32; 0 if none."""
    if tolerance is None:
        return 0.0
    if tolerance.rtol >= _BF16_OPERANDS:
        return ROUNDOFF["bfloat16"]
    return ROUNDOFF["tf32"] if tolerance.rtol >= _TF32_OPERANDS else 0.0


def computing_share(roundoff: float, tolerance: Tolerance | None) -> float:
    """Return the error of computing that is allowed at least, relative to ``|y| + sigma``.

    Args:
        roundoff: of the output's dtype.
        tolerance: of the problem; it concerns fp32 outputs alone.
    """
    if roundoff > ROUNDOFF["float32"]:
        return 2 * roundoff
    own = operand_roundoff(tolerance) if roundoff == ROUNDOFF["float32"] else 0.0
    return max(LEAST_SHARE, MARGIN * own)
