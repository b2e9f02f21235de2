"""Faults that variants share: what several that fail alike have in common is not tried again.

Variants of one parent by one proposer have the form that it brings a file into, and steps such as
``rows`` or ``retile``. Triton's interpreter does not find each fault. If it is in the form, or in a
step, each further variant would cost as much time of the GPU as the first, and end as it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from solkit.core import Bred, Checked, Variant
from solkit.tuner.common_failure import failure_reason

_ENOUGH = 3
"""Variants that are wrong, or fail, alike."""
_FORM = "the form of all"
_VARIES = re.compile(r"; at \S+:\d+ in |\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""A place in a variant's own file, and a number."""
_PLACE = re.compile(r"\S*\.py(?::\d+)?: ")
"""The file of a variant's own, which a reason names."""


def shared_fault(variant: Variant, archive: Iterable[Bred]) -> str:
    """Return why a variant fails as others do that were measured; empty if it may be right.

    A step is at fault if several variants that fail have it, and none that was right. What wants
    too much of the GPU is no fault: other parameters want less.
    """
    if variant.checked is Checked.RIGHT:
        return ""
    origin = variant.parent, variant.proposer
    kin = [b for b in archive if b.measured and (b.variant.parent, b.variant.proposer) == origin]
    right = {step for b in kin if b.verdict.is_right for step in _steps(b.variant)}
    failed = [(b, reason) for b in kin if (reason := failure_reason(b.verdict, b.why))]
    for step in [step for step in _steps(variant) if step not in right]:
        reasons = [_VARIES.sub("…", why) for b, why in failed if step in _steps(b.variant)]
        alike = max(map(reasons.count, reasons), default=0)
        if alike >= _ENOUGH:
            return f"{alike} variants that share {step} with it fail alike"
    return ""


def fault_of_all(archive: Iterable[Bred]) -> str:
    """Return why no variant was measured, as a sentence; empty if one was, or may still be."""
    variants = [bred for bred in archive if bred.variant.parent is not None]
    reasons = [_PLACE.sub("", bred.why) for bred in variants]
    if not variants or not all(reasons) or any(bred.measured for bred in variants):
        return ""
    alike = [_VARIES.sub("…", reason) for reason in reasons]
    most = max(map(alike.count, alike))
    reason = next(r for r, form in zip(reasons, alike, strict=True) if alike.count(form) == most)
    shared = "" if most == 1 else f", {most} of them for one reason"
    return f"None of {len(variants)} proposed variants was measured{shared}: {reason.rstrip('.')}."


def _steps(variant: Variant) -> tuple[str, ...]:
    return _FORM, *variant.kind.split(" + ")
