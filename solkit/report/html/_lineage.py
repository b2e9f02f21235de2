"""Result of `solkit evolve` as one HTML file: the lineage, with what each variant changed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import solkit
from solkit.core import Bred, Evolved
from solkit.report.html._page import TEMPLATES, environment
from solkit.report.palette import DARK, LIGHT
from solkit.report.tuning import speedup_json, stopped_words
from solkit.report.units import format_settings, shape_words

__all__ = ["lineage_page"]

_CONTEXT = 2  # unchanged lines around a change


@dataclass(frozen=True)
class _Row:
    """A variant as the page shows it.

    Attributes:
        depth: generations from the original.
        length: of its bar, in per cent of the longest.
        gain: its parent's time over its own.
        lines: what it changed of its parent: a class of the style sheet and a line each.
    """

    bred: Bred
    depth: int
    params: str
    length: float | None
    gain: float | None
    lines: Sequence[tuple[str, str]]
    is_best: bool

    @property
    def name(self) -> str:
        return self.bred.variant.kind


def lineage_page(evolved: Evolved, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        evolved: the result.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    final = None if evolved.gate is None else evolved.gate.final
    return (
        environment()
        .get_template("lineage.html.jinja")
        .render(
            evolved=evolved,
            speedup=speedup_json(final),
            why=stopped_words(evolved.stopped),
            rows=list(_lineage_rows(evolved)),
            shape=shape_words(evolved.shape),
            title=Path(evolved.kernel).name,
            written=written.strftime("%Y-%m-%d %H:%M %Z"),
            version=solkit.__version__,
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            light=LIGHT,
            dark=DARK,
        )
    )


def _lineage_rows(evolved: Evolved) -> Iterator[_Row]:
    """Yield the variants, each after its parent."""
    by_id = {bred.variant.id: bred for bred in evolved.variants}
    slowest = max((bred.time_ms or 0.0 for bred in evolved.variants), default=0.0)
    for bred, depth in _walk_depth_first(evolved.variants):
        parent = by_id.get(bred.variant.parent or "")
        yield _Row(
            bred,
            depth,
            format_settings(bred.params).replace(",", " "),
            None if bred.time_ms is None or not slowest else 100 * bred.time_ms / slowest,
            _gain_over_parent(parent, bred),
            list(_changed_lines(parent, bred)),
            bred.variant.id == evolved.best,
        )


def _walk_depth_first(variants: Sequence[Bred]) -> Iterator[tuple[Bred, int]]:
    """Depth first, children in the order proposed."""
    children: dict[str | None, list[Bred]] = {}
    for bred in variants:
        children.setdefault(bred.variant.parent, []).append(bred)

    def variants_below(name: str | None, depth: int) -> Iterator[tuple[Bred, int]]:
        for child in children.get(name, ()):
            yield child, depth
            yield from variants_below(child.variant.id, depth + 1)

    yield from variants_below(None, 0)


def _gain_over_parent(parent: Bred | None, child: Bred) -> float | None:
    if parent is None or parent.time_ms is None or child.time_ms is None:
        return None
    gain = parent.time_ms / child.time_ms
    return gain if math.isfinite(gain) else None


_KINDS: Mapping[str, str] = {"+": "added", "-": "removed", "@": "place"}


def _changed_lines(parent: Bred | None, child: Bred) -> Iterator[tuple[str, str]]:
    """Yield the lines that a variant changed."""
    if parent is None:
        return
    before, after = (bred.variant.source.splitlines() for bred in (parent, child))
    lines = difflib.unified_diff(before, after, lineterm="", n=_CONTEXT)
    for number, text in enumerate(lines):
        if number >= 2:  # the names of the files
            yield _KINDS.get(text[:1], "same"), text
