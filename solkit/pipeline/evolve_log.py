"""Log of a search over variants: its rows say where each variant came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from solkit.core import Checked, Outcome, Variant
from solkit.datasets.outcomelog import OutcomeLog

LINEAGE = "evolve"
"""In `Outcome.extra` of a log: where a variant came from."""


class EvolveLog(OutcomeLog):
    """A log whose rows say where a variant came from, and what the run had spent by then."""

    variants: dict[str, Variant]
    spent: Callable[[], float]

    def extra_of(self, row: Outcome) -> Mapping[str, Any]:
        """Return where the row's variant came from."""
        lineage: dict[str, Any] = {"spent_s": round(self.spent(), 3)}
        if (variant := self.variants.get((row.source_sha256 or "")[:12])) is not None:
            names = ("parent", "kind", "intent", "proposer", "why")
            lineage |= {name: getattr(variant, name) for name in names}
            lineage["checked"] = variant.checked.value
        return {LINEAGE: lineage}


def variant_of(name: str, text: str, lineage: Mapping[str, Any]) -> Variant:
    """Return the variant that a row of a log tells of."""
    return Variant(
        name,
        text,
        lineage.get("parent"),
        lineage.get("kind", "original"),
        lineage.get("intent", ""),
        lineage.get("proposer", ""),
        Checked(lineage.get("checked", Checked.UNCHECKED)),
        lineage.get("why", ""),
    )
