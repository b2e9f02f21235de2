"""Origin of a bound: the ops behind each resource, and each ceiling's source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich.table import Table
from rich.text import Text

from solkit.core import Bound, Contributor, PricedRoute, Resource
from solkit.report import units
from solkit.report.tables import table_without_lines
from solkit.roofline.names import short_name

_MOST = 5  # ops shown per resource; the rest is summed


def contributors(bound: Bound, file: str) -> Table:
    """Return the ops behind every resource, largest first; lines of `file` do not name it."""
    table = table_without_lines(["resource"], ["time", "share", "amount"], ["op", "line"])
    for resource in bound.resources:
        _add_resource_row(table, resource, bound.limiter, file)
    return table


def ceilings_lines(bound: Bound) -> Iterator[tuple[str, Text]]:
    """Yield each resource with its rate and the rate's source."""
    for resource in bound.resources:
        rate = units.format_rate(resource.ceiling, resource.unit)
        yield resource.name, Text(f"{rate} = {resource.source}", style="dim")


def precision_routes(routes: Sequence[PricedRoute]) -> Table:
    """Return the ways to compute products, with the errors that decided between them."""
    heads = ["product", "computed in"], ["error", "allowed", "rate"], ["verdict"]
    table = table_without_lines(*heads)
    kind = ""
    for route in routes:
        table.add_row(
            Text("" if route.kind == kind else route.kind, "cyan"),
            Text(route.route, "bold" if route.is_taken else ""),
            "its own" if route.error is None else f"{route.error:.2g}",
            f"{route.allowed:.2g}",
            units.format_rate(route.rate, "FLOP") if route.rate else "",
            Text(", ".join(_route_verdicts(route))),
        )
        kind = route.kind
    return table


def _route_verdicts(route: PricedRoute) -> Iterator[str]:
    if route.is_taken:
        yield "taken"
    elif not route.rate:
        yield "no such pipe"
    else:
        yield "accepted, no faster" if route.is_accepted else "too inexact"
    if route.is_strict:
        yield "the strict price"


def format_place(line: str, file: str) -> str:
    """``"L12"`` for a line of `file`, ``"other.py:12"`` for one of another file."""
    path, _, number = line.rpartition(":")
    return f"L{number}" if PurePath(path).name == PurePath(file).name else PurePath(line).name


def _add_resource_row(table: Table, resource: Resource, limiter: str, file: str) -> None:
    style = "bold cyan" if resource.name == limiter else "cyan"
    head = (Text(resource.name, style), Text(units.duration(resource.time_ms)))
    for contributor in resource.contributors[:_MOST] or (_unknown_amounts(resource),):
        many = f" ({contributor.count} times)" if contributor.count > 1 else ""
        table.add_row(
            *head,
            _format_share(contributor.share),
            units.amount(contributor.amount, resource.unit),
            Text(short_name(contributor.name) + many),
            Text(format_place(contributor.line, file)),
        )
        head = (Text(), Text())
    rest = resource.contributors[_MOST:]
    if rest:
        amount, share = sum(c.amount for c in rest), sum(c.share for c in rest)
        named = Text(f"{len(rest)} more", style="dim")
        table.add_row(*head, _format_share(share), units.amount(amount, resource.unit), named)


def _unknown_amounts(resource: Resource) -> Contributor:
    return Contributor("not split by op", resource.amount, 1.0)


def _format_share(share: float) -> str:
    return f"{100 * share:.3g} %"
