"""Faults that variants share: what several that are wrong alike have in common is not tried again.

Variants of one parent by one proposer have the form that it brings a file into, and steps such as
``rows`` or ``retile``. Triton's interpreter does not find each fault. If it is in the form, or in a
step, each further variant would cost as much time of the GPU as the first, and end as it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from solkit.core import Bred, Checked, Variant, Verdict

__all__ = ["shared_fault"]

_ENOUGH = 3
"""Variants that are wrong alike."""
_FORM = "the form of all"
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def shared_fault(variant: Variant, archive: Iterable[Bred]) -> str:
    """Return why a variant is as wrong as others that were measured; empty if it may be right.

    A step is at fault if several wrong variants have it, and none that was right.
    """
    if variant.checked is Checked.RIGHT:
        return ""
    origin = variant.parent, variant.proposer
    kin = [b for b in archive if b.measured and (b.variant.parent, b.variant.proposer) == origin]
    right = {step for b in kin if b.verdict.is_right for step in _steps(b.variant)}
    wrong = [b for b in kin if b.verdict is Verdict.WRONG]
    for step in [step for step in _steps(variant) if step not in right]:
        reasons = [_NUMBER.sub("…", b.why) for b in wrong if step in _steps(b.variant)]
        alike = max(map(reasons.count, reasons), default=0)
        if alike >= _ENOUGH:
            return f"{alike} variants that share {step} with it are wrong alike"
    return ""


def _steps(variant: Variant) -> tuple[str, ...]:
    return _FORM, *variant.kind.split(" + ")
