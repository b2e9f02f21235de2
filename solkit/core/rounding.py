"""Rounding that counts as correct: what the referee allows, and what a bound may rest on.

Both read the same numbers, so that no bound rests on a precision that the referee rejects. The rule
stands in `solkit.measure.checking.tolerance`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from solkit.core.problems import Tolerance

ROUNDOFF = {
    **{"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11},
    **{"float16": 2.0**-11, "bfloat16": 2.0**-8},
}
"""Unit roundoff by dtype."""

MARGIN = 4.0
"""Allowance for the largest of many errors over their 99th percentile, and a worse order."""

LEAST_SHARE = 2.0**-15
"""Error of computing that is always allowed in fp32 and wider, relative to ``|y| + sigma``."""

LARGEST = 6.0
"""The largest of some 2^28 normal errors, over their root mean square."""

_SIGNAL_SHARE = 0.25
"""An `atol` that is a larger share of the outputs would let zeros pass."""

ADMITTED_OPERANDS = {"bf16": 1e-2, "tf32": 1e-3}
"""The least `rtol` that admits fp32 factors of products rounded so, the coarsest first."""


def operand_roundoff(tolerance: Tolerance | None) -> float:
    """Return the unit roundoff of the coarsest factors that an author admits in fp32; 0 if none."""
    if tolerance is None:
        return 0.0
    if tolerance.rtol >= ADMITTED_OPERANDS["bf16"]:
        return ROUNDOFF["bfloat16"]
    return ROUNDOFF["tf32"] if tolerance.rtol >= ADMITTED_OPERANDS["tf32"] else 0.0


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


def with_usable_atol(tolerance: Tolerance, level: float, usual: float | None = None) -> Tolerance:
    """Return a tolerance with an `atol` that fits outputs of a size.

    An author chose `atol` for outputs of the file's own inputs. For larger outputs, of inputs that
    the referee makes, it grows in proportion; it is never more than a quarter of their size.

    Args:
        tolerance: the file's own.
        level: root mean square of the outputs; 0 if there are none.
        usual: the same on the file's own inputs; ``None`` if these are they.
    """
    growth = max(1.0, level / usual) if usual else 1.0
    limit = _SIGNAL_SHARE * level if level else math.inf
    return replace(tolerance, atol=min(growth * tolerance.atol, limit))


def admitted_error(tolerance: Tolerance, mean: float, deviation: float) -> float:
    """Return the root mean square of normal errors of which a tolerance admits enough.

    Args:
        tolerance: of which `Tolerance.matched` says how many elements must be within it.
        mean: of the outputs, taken to be normal too.
        deviation: of the outputs.
    """
    usable = with_usable_atol(tolerance, math.hypot(mean, deviation))
    # places in deviations, dense around outputs of zero, where a relative tolerance is least
    zero = min(max(-mean / deviation, -6.0), 6.0) if deviation else 0.0
    places = [zero + 12 * (step / 100) ** 3 for step in range(-100, 101)]
    weights = [
        (step / 100) ** 2 * math.exp(-(place**2) / 2) for step, place in enumerate(places, -100)
    ]
    limits = [usable.atol + usable.rtol * abs(mean + place * deviation) for place in places]
    if not max(limits):
        return 0.0

    def missed(error: float) -> float:
        outside = (math.erfc(limit / error / math.sqrt(2)) for limit in limits)
        return sum(w * out for w, out in zip(weights, outside)) / sum(weights)

    most = max(1 - tolerance.matched, math.erfc(LARGEST / math.sqrt(2)))
    low, high = math.log(max(limits)) - 30, math.log(max(limits)) + 10
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(math.exp(middle)) <= most else (low, middle)
    return math.exp(low)
