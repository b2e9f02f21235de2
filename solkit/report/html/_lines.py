"""What each line of a kernel's source costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from solkit.report.schema import AccessJson, ReportJson, ResultJson, SourceJson
from solkit.report.standing import launches_seen

__all__ = ["Cost", "Line", "Moved", "Taken", "lines"]


@dataclass(frozen=True)
class Moved:
    """The accesses of one kind to one argument on a line, over all launches of a call.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"atomic"``, and how, e.g. ``"load (tma)"``.
        argument: the pointer's name.
        sectors: of 32 bytes.
        sector_bytes: bytes that move for them.
        requested_bytes: bytes that were asked for.
        vector_bytes: the width of one thread's instruction.
    """

    kind: str
    argument: str
    sectors: int
    sector_bytes: int
    requested_bytes: int
    vector_bytes: int

    @property
    def efficiency(self) -> float:
        """Requested bytes / bytes moved."""
        return self.requested_bytes / self.sector_bytes if self.sector_bytes else 1.0


@dataclass(frozen=True)
class Taken:
    """What the ops of a line of the reference take of a resource of the bound."""

    resource: str
    op: str
    share: float
    amount: int
    unit: str


@dataclass(frozen=True)
class Cost:
    """What a line costs at one shape.

    Attributes:
        shape: the number of the result.
        moved: its accesses.
        taken: its part of the bound.
        share: of all bytes that the accesses of this shape move.
        instructions: of machine code that it became, over all distinct launches.
    """

    shape: int
    moved: tuple[Moved, ...]
    taken: tuple[Taken, ...]
    share: float
    instructions: int = 0

    @property
    def is_told(self) -> bool:
        """Whether there is more to say than how many instructions it became."""
        return bool(self.moved or self.taken)

    @property
    def sector_bytes(self) -> int:
        """Bytes that move for its accesses."""
        return sum(moved.sector_bytes for moved in self.moved)


@dataclass(frozen=True)
class Line:
    """A line of source and its costs, one a shape that it costs anything at."""

    number: int
    text: str
    costs: tuple[Cost, ...]

    @property
    def is_told(self) -> bool:
        """Whether one of its costs is more than instructions."""
        return any(cost.is_told for cost in self.costs)


def lines(source: SourceJson, report: ReportJson) -> list[Line]:
    """The source line by line."""
    tables = [_costs(i, result, source.path) for i, result in enumerate(report.results)]
    return [
        Line(number, text, tuple(table[number] for table in tables if number in table))
        for number, text in enumerate((source.text or "").splitlines(), 1)
    ]


def _costs(shape: int, result: ResultJson, path: str) -> dict[int, Cost]:
    moved, taken = _moved(result, path), _taken(result, path)
    instructions = _instructions(result, path)
    whole = sum(each.sector_bytes for group in moved.values() for each in group)
    costs = {}
    for number in moved.keys() | taken.keys() | instructions.keys():
        here = moved.get(number, ())
        part = sum(each.sector_bytes for each in here)
        share = part / whole if whole else 0.0
        costs[number] = Cost(shape, here, taken.get(number, ()), share, instructions[number])
    return costs


def _instructions(result: ResultJson, path: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for launch in launches_seen(result):
        for place, count in launch.instructions.lines.items() if launch.instructions else ():
            number = _number(place, path)
            if number is not None:
                found[number] += count
    return found


def _moved(result: ResultJson, path: str) -> dict[int, tuple[Moved, ...]]:
    found: dict[int, dict[tuple[str, str], Moved]] = defaultdict(dict)
    for access, count in _accesses(result):
        number = _number(access.line, path)
        if number is not None:
            each = _as_moved(access, count)
            key = each.kind, each.argument
            before = found[number].get(key)
            found[number][key] = each if before is None else _sum(before, each)
    return {number: tuple(each.values()) for number, each in found.items()}


def _accesses(result: ResultJson) -> Iterator[tuple[AccessJson, int]]:
    for launch in launches_seen(result):
        for access in launch.demand.accesses if launch.demand else ():
            yield access, launch.count


def _as_moved(access: AccessJson, count: int) -> Moved:
    how = "" if access.path == "global" else f" ({access.path})"
    sectors = count * access.sectors
    return Moved(
        kind=access.kind + how,
        argument=access.argument,
        sectors=sectors,
        sector_bytes=32 * sectors,
        requested_bytes=count * access.requested_bytes,
        vector_bytes=access.vector_bytes,
    )


def _sum(one: Moved, other: Moved) -> Moved:
    return Moved(
        one.kind,
        one.argument,
        one.sectors + other.sectors,
        one.sector_bytes + other.sector_bytes,
        one.requested_bytes + other.requested_bytes,
        min(one.vector_bytes, other.vector_bytes),
    )


def _taken(result: ResultJson, path: str) -> dict[int, tuple[Taken, ...]]:
    found: dict[int, list[Taken]] = defaultdict(list)
    for name, resource in result.bound.resources.items():
        for each in resource.contributors:
            number = _number(each.line, path)
            if number is not None:
                share = each.share or 0.0
                found[number].append(Taken(name, each.name, share, each.amount, resource.unit))
    return {number: tuple(each) for number, each in found.items()}


def _number(place: str, path: str) -> int | None:
    """The line's number where ``file:line`` lies in this file, by any part of its path."""
    file, _, number = place.rpartition(":")
    one, other = (PurePath(name).parts[::-1] for name in (file, path))
    same = bool(one) and all(mine == its for mine, its in zip(one, other) if its != "..")
    return int(number) if same and number.isdigit() else None
