"""Result of `solkit evolve` as one HTML file: the lineage, with what each variant changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from solkit.report.evolution import search_view
from solkit.report.html._page import fill_template

_CONTEXT = 2  # unchanged lines around a change
_KINDS: Mapping[str, str] = {"+": "added", "-": "removed", "@": "place"}

Variant = Mapping[str, Any]
"""A variant of ``solkit.evolve/1``."""


@dataclass(frozen=True)
class _Row:
    """A variant as the page shows it.

    Attributes:
        depth: generations from the original.
        length: of its bar, in per cent of the longest.
        gain: its parent's time over its own.
        lines: what it changed of its parent: a class of the style sheet and a line each.
    """

    variant: Variant
    depth: int
    length: float | None
    gain: float | None
    lines: Sequence[tuple[str, str]]
    is_best: bool


def lineage_page(document: Mapping[str, Any], *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        document: ``solkit.evolve/1``.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    return fill_template(
        "lineage",
        title=Path(document["kernel"]).name,
        written=written,
        view=search_view(document),
        rows=list(_lineage_rows(document)),
    )


def _lineage_rows(document: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the variants, each after its parent."""
    variants = document["variants"]
    by_id = {variant["id"]: variant for variant in variants}
    slowest = max((variant["time_ms"] or 0.0 for variant in variants), default=0.0)
    for variant, depth in _walk_depth_first(variants):
        parent, time_ms = by_id.get(variant["parent"] or ""), variant["time_ms"]
        yield _Row(
            variant,
            depth,
            length=None if time_ms is None or not slowest else 100 * time_ms / slowest,
            gain=parent["time_ms"] / time_ms if parent and parent["time_ms"] and time_ms else None,
            lines=list(_changed_lines(parent, variant)),
            is_best=variant["id"] == document["best"]["id"],
        )


def _walk_depth_first(variants: Sequence[Variant]) -> Iterator[tuple[Variant, int]]:
    """Depth first, children in the order proposed."""
    children: dict[str | None, list[Variant]] = {}
    for variant in variants:
        children.setdefault(variant["parent"], []).append(variant)

    def variants_below(name: str | None, depth: int) -> Iterator[tuple[Variant, int]]:
        for child in children.get(name, ()):
            yield child, depth
            yield from variants_below(child["id"], depth + 1)

    yield from variants_below(None, 0)


def _changed_lines(parent: Variant | None, child: Variant) -> Iterator[tuple[str, str]]:
    """Yield the lines that a variant changed."""
    if parent is None:
        return
    before, after = (variant["source"].splitlines() for variant in (parent, child))
    lines = difflib.unified_diff(before, after, lineterm="", n=_CONTEXT)
    for number, text in enumerate(lines):
        if number >= 2:  # the names of the files
            yield _KINDS.get(text[:1], "same"), text
