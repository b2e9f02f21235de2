"""Costs of each line of a kernel's source."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from solkit.core import Access, KernelModel
from solkit.core.values import finite_or_none
from solkit.report.launch_schema import LaunchJson
from solkit.report.overview import launches_seen
from solkit.report.schema import ReportJson, ResultJson
from solkit.report.sources import Source

_PRODUCT = re.compile(r"\bdot(_scaled)?\(|mma")
"""Calls of a line that computes on tensor cores: ``tl.dot``, or CUDA's instructions by name."""

_ACCESS_WEIGHTS: dict[str, Callable[[Access], int]] = {
    "dram": lambda access: access.unique_bytes,
    "l2": lambda access: access.block_sectors or access.sectors,
    "l1": lambda access: access.sectors,
    "latency": lambda access: access.requests if access.kind == "load" else 0,
    "atomics": lambda access: access.requests if access.kind == "atomic" else 0,
}
"""By term: an access's share of its time. A report of an older SolKit has no `block_sectors`."""


@dataclass(frozen=True)
class Moved:
    """A line's accesses of one kind to one argument, over all launches of a call.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"atomic"``, and how, e.g. ``"load (tma)"``.
        argument: the pointer's name.
        sectors: of 32 bytes.
        sector_bytes: bytes that move for them.
        requested_bytes: bytes that the code requests.
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
    """Share of a resource of the bound that the ops on a line of the reference use."""

    resource: str
    op: str
    share: float
    amount: int
    unit: str


@dataclass(frozen=True)
class Cost:
    """Cost of a line at one shape.

    Attributes:
        shape: the number of the result.
        moved: its accesses.
        taken: its part of the bound.
        share: of all bytes moved at this shape.
        instructions: machine instructions of the line, over all distinct launches.
        time_ms: its part of the modelled time; see `modelled_times`.
    """

    shape: int
    moved: tuple[Moved, ...]
    taken: tuple[Taken, ...]
    share: float
    instructions: int = 0
    time_ms: float = 0.0

    @property
    def is_told(self) -> bool:
        """True if it has more than instructions."""
        return bool(self.moved or self.taken)

    @property
    def sector_bytes(self) -> int:
        """Bytes that move for its accesses."""
        return sum(moved.sector_bytes for moved in self.moved)


@dataclass(frozen=True)
class Line:
    """A source line, with a cost for each shape that has one."""

    number: int
    text: str
    costs: tuple[Cost, ...]

    @property
    def is_told(self) -> bool:
        """True if one of its costs is more than instructions."""
        return any(cost.is_told for cost in self.costs)


def lines(source: Source, report: ReportJson) -> list[Line]:
    """Return the source line by line."""
    tables = [
        _costs(i, result, source.path, _times(result, report.sources, source.path))
        for i, result in enumerate(report.results)
    ]
    return [
        Line(number, text, tuple(table[number] for table in tables if number in table))
        for number, text in enumerate((source.text or "").splitlines(), 1)
    ]


def modelled_times(result: ResultJson, sources: Sequence[Source]) -> dict[str, float]:
    """Return the modelled time of a call, in ms, by place.

    In a launch's time the longest term and the launch itself count in full; the others share the
    rest in proportion (`solkit.roofline.kernel.model`). A term's part is divided among lines: DRAM
    by the distinct bytes that a line accesses, L2 and L1 by sectors, latency by load requests,
    shared memory by wavefronts, the rest by machine instructions, each counted once even in a loop.

    Returns: By ``file:line``, or by the name of a term that no line accounts for.
    """
    products = {
        f"{PurePath(source.path).name}:{number}"
        for source in sources
        for number, text in enumerate((source.text or "").splitlines(), 1)
        if _PRODUCT.search(text)
    }
    times: dict[str, float] = defaultdict(float)
    for launch in launches_seen(result):
        for term, time_ms in _parts(launch.model) if launch.model else ():
            weights = _weights(term, launch, products) or {term: 1}
            for place, weight in weights.items():
                times[place] += launch.count * time_ms * weight / sum(weights.values())
    return dict(times)


def _parts(model: KernelModel) -> Iterator[tuple[str, float]]:
    """Yield each term's part of a launch's time."""
    times = {term.name: finite_or_none(term.time_ms) or 0.0 for term in model.terms}
    whole = {"launch", max(times.keys() - {"launch"}, key=times.__getitem__, default="launch")}
    hidden = sum(time for name, time in times.items() if name not in whole)
    remaining_ms = (finite_or_none(model.time_ms) or 0.0) - sum(
        times.get(name, 0.0) for name in whole
    )
    for name, time in times.items():
        yield name, time if name in whole else time * max(remaining_ms, 0.0) / (hidden or 1.0)


def _weights(term: str, launch: LaunchJson, products: set[str]) -> Mapping[str, int]:
    """Return the divisors of a term's part, by place; nothing if no line accounts for it."""
    weights: Counter[str] = Counter()
    if term in ("launch", "dispatch"):
        return weights
    if launch.demand and term in _ACCESS_WEIGHTS:
        for access in launch.demand.accesses:
            weights[access.line] += _ACCESS_WEIGHTS[term](access)
    elif launch.demand and term == "shared":
        for shared in launch.demand.shared:
            weights[shared.line] += shared.wavefronts
    elif launch.instructions:
        weights += Counter(launch.instructions.lines)
        if term.startswith("tensor."):
            weights = Counter({k: n for k, n in weights.items() if PurePath(k).name in products})
    return +weights


def _times(result: ResultJson, sources: Sequence[Source], path: str) -> dict[int, float]:
    """Return the modelled times of a file's lines."""
    line_times: dict[int, float] = defaultdict(float)
    for place, time_ms in modelled_times(result, sources).items():
        number = line_number(place, path)
        if number is not None:
            line_times[number] += time_ms
    return line_times


def _costs(
    shape: int, result: ResultJson, path: str, times: Mapping[int, float]
) -> dict[int, Cost]:
    moved, taken = _moved(result, path), _taken(result, path)
    instructions = _instructions(result, path)
    whole = sum(movement.sector_bytes for group in moved.values() for movement in group)
    costs = {}
    for number in moved.keys() | taken.keys() | instructions.keys():
        here = moved.get(number, ())
        part = sum(movement.sector_bytes for movement in here)
        share = part / whole if whole else 0.0
        others = taken.get(number, ())
        costs[number] = Cost(
            shape, here, others, share, instructions[number], times.get(number, 0.0)
        )
    return costs


def _instructions(result: ResultJson, path: str) -> Counter[int]:
    counts: Counter[int] = Counter()
    for launch in launches_seen(result):
        for place, count in launch.instructions.lines.items() if launch.instructions else ():
            number = line_number(place, path)
            if number is not None:
                counts[number] += count
    return counts


def _moved(result: ResultJson, path: str) -> dict[int, tuple[Moved, ...]]:
    by_line: dict[int, dict[tuple[str, str], Moved]] = defaultdict(dict)
    for access, count in _accesses(result):
        number = line_number(access.line, path)
        if number is not None:
            movement = _as_moved(access, count)
            key = movement.kind, movement.argument
            before = by_line[number].get(key)
            by_line[number][key] = movement if before is None else _sum(before, movement)
    return {number: tuple(moved.values()) for number, moved in by_line.items()}


def _accesses(result: ResultJson) -> Iterator[tuple[Access, int]]:
    for launch in launches_seen(result):
        for access in launch.demand.accesses if launch.demand else ():
            yield access, launch.count


def _as_moved(access: Access, count: int) -> Moved:
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
    by_line: dict[int, list[Taken]] = defaultdict(list)
    for name, resource in result.bound.resources.items():
        for contributor in resource.contributors:
            number = line_number(contributor.line, path)
            if number is not None:
                share = finite_or_none(contributor.share) or 0.0
                by_line[number].append(
                    Taken(name, contributor.name, share, contributor.amount, resource.unit)
                )
    return {number: tuple(taken) for number, taken in by_line.items()}


def line_number(place: str, path: str) -> int | None:
    """Return the line's number if ``file:line`` lies in this file, by any part of its path."""
    file, _, number = place.rpartition(":")
    one, other = (PurePath(name).parts[::-1] for name in (file, path))
    same = bool(one) and all(
        part == other_part for part, other_part in zip(one, other) if other_part != ".."
    )
    return int(number) if same and number.isdigit() else None
