"""Origin of a bound: the ops behind each resource, and each ceiling's source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from rich.table import Table
from rich.text import Text

from solkit.core import Bound, Contributor, Resource
from solkit.report import units
from solkit.report.tables import columns
from solkit.roofline.names import short_name

__all__ = ["ceilings", "contributors", "place"]

_MOST = 5  # ops shown per resource; the rest is summed


def contributors(bound: Bound, file: str) -> Table:
    """Return the ops behind every resource, largest first; lines of `file` do not name it."""
    table = columns(["resource"], ["time", "share", "amount"], ["op", "line"])
    for resource in bound.resources:
        _add(table, resource, bound.limiter, file)
    return table


def ceilings(bound: Bound) -> Iterator[tuple[str, Text]]:
    """Yield each resource with its rate and the rate's source."""
    for resource in bound.resources:
        rate = units.rate(resource.ceiling, resource.unit)
        yield resource.name, Text(f"{rate} = {resource.source}", style="dim")


def place(line: str, file: str) -> str:
    """``"L12"`` for a line of `file`, ``"other.py:12"`` for one of another file."""
    path, _, number = line.rpartition(":")
    return f"L{number}" if PurePath(path).name == PurePath(file).name else PurePath(line).name


def _add(table: Table, resource: Resource, limiter: str, file: str) -> None:
    style = "bold cyan" if resource.name == limiter else "cyan"
    head = (Text(resource.name, style), Text(units.duration(resource.time_ms)))
    for contributor in resource.contributors[:_MOST] or (_unknown(resource),):
        many = f" ({contributor.count} times)" if contributor.count > 1 else ""
        table.add_row(
            *head,
            _share(contributor.share),
            units.amount(contributor.amount, resource.unit),
            Text(short_name(contributor.name) + many),
            Text(place(contributor.line, file)),
        )
        head = (Text(), Text())
    rest = resource.contributors[_MOST:]
    if rest:
        amount, share = sum(c.amount for c in rest), sum(c.share for c in rest)
        named = Text(f"{len(rest)} more", style="dim")
        table.add_row(*head, _share(share), units.amount(amount, resource.unit), named)


def _unknown(resource: Resource) -> Contributor:
    return Contributor("not split by op", resource.amount, 1.0)


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"
