"""Named changes of a candidate between two analyses: what got worse, where, and by how much.

Both analyses are of the same candidate under two compilers, on two devices, of two revisions or
with two sets of parameters. A change rests on facts and on the modelled time alone, so Triton and
CUDA C++ are compared alike. Launches are paired by name and order, accesses by argument and kind:
lines move between revisions, and one access of the source may become several.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from solkit.core import (
    Access,
    Analysis,
    AnalysisStatus,
    Change,
    Demand,
    Facts,
    InstructionMix,
    KernelAnalysis,
)
from solkit.core.quantities import binary_bytes, duration

CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "does_not_run": "it no longer compiles, or does not fit the GPU",
        "launches": "other launches are made",
        "spills": "registers are spilled to local memory, 32-bit words per thread",
        "pipeline": "the loads of a loop are no longer under way before their trip",
        "warp_specialisation": "warps no longer have roles (loading, computing)",
        "tensor_cores": "products use no tensor cores, or an older instruction of theirs",
        "vector_width": "a thread's memory instruction moves fewer bytes",
        "sectors": "warps touch more 32-byte sectors of global memory",
        "traffic": "more bytes cross DRAM",
        "bank_conflicts": "shared memory takes more passes for the same accesses",
        "waits": "a warp waits for memory more often in each trip of its loops",
        "registers": "registers per thread",
        "shared_memory": "shared memory per block, bytes",
        "occupancy": "resident warps over the SM's maximum",
        "barriers": "barriers of a block",
        "instructions": "machine instructions inside loops, or of code without loops",
        "time": "modelled time, ms",
        "forecast": "the surrogate's forecast, ms",
    }
)
"""Names of changes with their meaning, the gravest first."""

_SAME = 0.005
"""Share by which a computed figure must differ to count as changed."""
_HALF = 0.5
_UNSEEN = (
    *(AnalysisStatus.NOT_CAPTURED, AnalysisStatus.NOT_ANALYSED),
    *(AnalysisStatus.OUT_OF_TIME, AnalysisStatus.UNSUPPORTED_DEVICE),
)
_TRIPS = 0.3
"""Least change of waits per trip that counts: the paces are means over a loop's code."""
_UNKNOWN_ARGUMENT = "unknown argument"
_TENSOR_AGES = (("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA"), ("GMMA",), ("UTC",))
"""Generations of tensor instructions, by the end or the start of their names: of a warp, of a warp
group (Hopper), and of a block with tensor memory (Blackwell)."""


def changes_between(before: Analysis, after: Analysis) -> tuple[Change, ...]:
    """Return what differs between two analyses of a candidate, the gravest kind first.

    Args:
        before: on the first side.
        after: on the second.
    """
    if before.failure or after.failure:
        return tuple(_failure_change(before, after))
    changes: list[Change] = []
    if _is_unseen(before) == _is_unseen(after):
        changes += _launch_changes(before.own, after.own)
    if not guessed_alone(before, after):
        changes += _time_change(before, after)
    order = list(CHANGES)
    return tuple(
        sorted(changes, key=lambda change: (not change.is_worse, order.index(change.name)))
    )


def _is_unseen(analysis: Analysis) -> bool:
    """Tell whether launches that are missing say nothing about the candidate."""
    return analysis.status in _UNSEEN and not analysis.failure


def _failure_change(before: Analysis, after: Analysis) -> Iterator[Change]:
    """Yield that a candidate fails on one side alone, if it was seen to run on the other."""
    if bool(before.failure) == bool(after.failure) or _is_unseen(before) or _is_unseen(after):
        return
    why = after.notes[0] if after.notes else after.failure
    words = f"it no longer runs: {why}" if after.failure else "it runs now"
    yield Change("does_not_run", "", "", None, None, bool(after.failure), None, words)


def guessed_alone(before: Analysis, after: Analysis) -> tuple[str, ...]:
    """Return assumptions that only one of two analyses makes.

    Sectors, traffic and time that rest on them have no partner, so they are no changes.
    """
    sides = [
        {guess for kernel in analysis.own if kernel.demand for guess in kernel.demand.guesses}
        for analysis in (before, after)
    ]
    return tuple(sorted(sides[0] ^ sides[1]))


def modelled_time_ms(analysis: Analysis) -> float | None:
    """Return the modelled time of all launches; ``None`` if one of them has none."""
    if not analysis.kernels or any(kernel.model is None for kernel in analysis.kernels):
        return None
    return sum(k.model.time_ms * k.launch.count for k in analysis.kernels if k.model is not None)


def _time_change(before: Analysis, after: Analysis) -> Iterator[Change]:
    one, other = modelled_time_ms(before), modelled_time_ms(after)
    if one and other:
        yield from _figure_change(_Place("", ""), "time", (one, other), duration, "modelled time")


def _launch_changes(
    before: Sequence[KernelAnalysis], after: Sequence[KernelAnalysis]
) -> Iterator[Change]:
    pairs, lost, added = _paired(before, after)
    for one, other in pairs:
        yield from _changes_of_launch(one, other)
    if lost or added:
        counts = sum(k.launch.count for k in before), sum(k.launch.count for k in after)
        words = ", ".join(
            [*(f"without {name}" for name in lost), *(f"with {name}" for name in added)]
        )
        is_worse = counts[1] > counts[0]
        factor = counts[1] / counts[0] if counts[0] else None
        yield Change("launches", "", "", *counts, is_worse, factor, f"launches: {words}")


def _paired(
    before: Sequence[KernelAnalysis], after: Sequence[KernelAnalysis]
) -> tuple[list[tuple[KernelAnalysis, KernelAnalysis]], list[str], list[str]]:
    """Return the launches that belong together, and the names of those without a partner."""
    waiting: defaultdict[str, list[KernelAnalysis]] = defaultdict(list)
    for kernel in before:
        waiting[kernel.launch.name].append(kernel)
    pairs, added = [], []
    for kernel in after:
        if partners := waiting[kernel.launch.name]:
            pairs.append((partners.pop(0), kernel))
        else:
            added.append(kernel)
    lost = [kernel for kernels in waiting.values() for kernel in kernels]
    if len(lost) == len(added):  # renamed, as in another file: by their order
        return [*pairs, *zip(lost, added, strict=True)], [], []
    return pairs, [k.launch.name for k in lost], [k.launch.name for k in added]


# ------------------------------------------------------------------------------------ one launch


@dataclass(frozen=True)
class _Place:
    """A launch, and what of it a change is about."""

    launch: str
    place: str


def _changes_of_launch(before: KernelAnalysis, after: KernelAnalysis) -> Iterator[Change]:
    name = after.launch.name
    if before.error or after.error:
        if bool(before.error) != bool(after.error):
            words = f"it no longer runs: {after.error}" if after.error else "it runs now"
            yield Change("does_not_run", name, "", None, None, bool(after.error), None, words)
        return
    yield from _resource_changes(_Place(name, ""), before, after)
    yield from _code_changes(_Place(name, ""), before, after)
    yield from _access_changes(name, before, after)


def _resource_changes(
    place: _Place, before: KernelAnalysis, after: KernelAnalysis
) -> Iterator[Change]:
    one, other = before.facts, after.facts
    counts = (
        ("spills", one.spills, other.spills, "spilled words per thread"),
        ("registers", one.registers, other.registers, "registers per thread"),
    )
    for name, was, now, words in counts:
        if was is not None and now is not None:
            yield from _figure_change(place, name, (was, now), _plain, words)
    if one.shared_bytes is not None and other.shared_bytes is not None:
        sizes = one.shared_bytes, other.shared_bytes
        yield from _figure_change(place, "shared_memory", sizes, _bytes, "shared memory per block")
    if before.occupancy and after.occupancy:
        shares = before.occupancy.fraction, after.occupancy.fraction
        yield from _figure_change(
            place, "occupancy", shares, _per_cent, "occupancy", is_worse_if_larger=False
        )
    if one.requests and other.requests and _as_well_known(one, other, "barriers"):
        barriers = one.requests.barriers, other.requests.barriers
        yield from _figure_change(place, "barriers", barriers, _plain, "barriers of a block")
    if before.demand and after.demand and not _guesses_of_one(before.demand, after.demand):
        moved = _dram_bytes(before.demand), _dram_bytes(after.demand)
        yield from _figure_change(place, "traffic", moved, _bytes, "bytes from and to DRAM")


def _as_well_known(one: Facts, other: Facts, figure: str) -> bool:
    """Tell whether a figure is estimated on both sides, or on none."""
    return (figure in one.estimated) == (figure in other.estimated)


def _guesses_of_one(before: Demand, after: Demand) -> set[str]:
    """Return assumptions that only one of two launches needs."""
    return set(before.guesses) ^ set(after.guesses)


def _dram_bytes(demand: Demand) -> int:
    return demand.dram_read_bytes + demand.dram_write_bytes


def _code_changes(place: _Place, before: KernelAnalysis, after: KernelAnalysis) -> Iterator[Change]:
    one, other = before.facts.instructions, after.facts.instructions
    if one is None or other is None:
        return
    if _is_of_amd(one) != _is_of_amd(other):
        yield from _tensor_loss(place, one, other)  # other instructions: their counts say nothing
        return
    yield from _tensor_change(place, one, other)
    was, now = len(one.roles), len(other.roles)
    if (was > 1) != (now > 1):
        worse = now <= 1
        words = "warps have " + ("no roles any more" if worse else f"{now} roles now")
        yield Change("warp_specialisation", place.launch, "", was, now, worse, None, words)
    yield from _wait_changes(place, one, other)
    sizes = _hot_instructions(one), _hot_instructions(other)
    yield from _figure_change(place, "instructions", sizes, _plain, "machine instructions in loops")


def _is_of_amd(mix: InstructionMix) -> bool:
    """Tell whose instructions these are: AMD writes its opcodes small, ``v_mfma``."""
    return any(count.opcode.startswith(("v_", "s_")) for count in mix.counts)


def _wait_changes(place: _Place, one: InstructionMix, other: InstructionMix) -> Iterator[Change]:
    """Yield changes of how often a warp waits, if the code of both sides says it."""
    if not one.paces or not other.paces:
        return
    trips = _trips(one), _trips(other)
    if (trips[0] < _HALF and trips[1] >= 1) or (trips[1] < _HALF and trips[0] >= 1):
        worse = trips[1] > trips[0]
        words = "a trip of the loop " + ("waits for its own loads" if worse else "waits no more")
        yield Change("pipeline", place.launch, "", *trips, worse, None, words)
    if abs(trips[1] - trips[0]) >= _TRIPS:
        yield from _figure_change(
            place, "waits", trips, _plain, "waits for memory per trip of the loops"
        )


def _tensor_loss(place: _Place, before: InstructionMix, after: InstructionMix) -> Iterator[Change]:
    """Yield that products of one vendor use tensor cores, and those of the other none."""
    ages = _tensor_age(before), _tensor_age(after)
    if bool(ages[0]) != bool(ages[1]):
        yield from _tensor_change(place, before, after)


def _tensor_change(
    place: _Place, before: InstructionMix, after: InstructionMix
) -> Iterator[Change]:
    ages = _tensor_age(before), _tensor_age(after)
    if ages[0] == ages[1]:
        return
    names = [_tensor_names(mix) or "no tensor cores" for mix in (before, after)]
    words = f"products: {names[0]} → {names[1]}"
    yield Change("tensor_cores", place.launch, "", *ages, ages[1] < ages[0], None, words)


def _tensor_age(mix: InstructionMix) -> int:
    """Return the latest generation of tensor instructions, from 1; 0 without any."""
    names = {count.opcode.partition(".")[0] for count in mix.counts if count.kind == "tensor"}
    ages = [
        age
        for age, marks in enumerate(_TENSOR_AGES, 1)
        if any(name.endswith(marks) or name.startswith(marks) for name in names)
    ]
    return max(ages, default=int(bool(names)))


def _tensor_names(mix: InstructionMix) -> str:
    return ", ".join(sorted({count.opcode for count in mix.counts if count.kind == "tensor"}))


def _trips(mix: InstructionMix) -> float:
    return sum(pace.trips for pace in mix.paces if pace.depth)


def _hot_instructions(mix: InstructionMix) -> int:
    """Count the instructions inside loops, or all of a kernel that has none."""
    return sum(count.count for count in mix.counts if count.depth) or mix.total


# -------------------------------------------------------------------------------------- accesses


@dataclass(frozen=True)
class _Traffic:
    """All accesses of one kind to one argument.

    Attributes:
        requests: per warp; bulk copies count apart.
        sectors: of 32 bytes.
        ahead: share of the requested bytes that go straight to shared memory.
        vector_bytes: of a thread's instruction, mean over the requests; 0 if all are bulk copies.
        lines: of the source.
    """

    requests: int
    sectors: int
    ahead: float
    vector_bytes: float
    lines: tuple[str, ...]


def _access_changes(name: str, before: KernelAnalysis, after: KernelAnalysis) -> Iterator[Change]:
    if before.demand is None or after.demand is None:
        return
    one, other = (
        _traffic_by_argument(before.demand.accesses),
        _traffic_by_argument(after.demand.accesses),
    )
    guesses = _guesses_of_one(before.demand, after.demand)
    guessed = {guess.partition(": ")[0] for guess in guesses}
    for key in sorted(one.keys() & other.keys()):
        kind, argument = key
        lines = ", ".join(other[key].lines)
        place = _Place(name, f"{kind} of {argument}" + (f" ({lines})" if lines else ""))
        is_known = guessed.isdisjoint((*one[key].lines, *other[key].lines))
        yield from _changes_of_traffic(place, kind, one[key], other[key], is_known)
    if _as_well_known(before.facts, after.facts, "shared"):
        passes = _extra_passes(before.demand), _extra_passes(after.demand)
        yield from _figure_change(
            _Place(name, ""), "bank_conflicts", passes, _plain, "extra passes of banks"
        )


def _extra_passes(demand: Demand) -> int:
    return sum(access.wavefronts - access.least_wavefronts for access in demand.shared)


def _traffic_by_argument(accesses: Sequence[Access]) -> dict[tuple[str, str], _Traffic]:
    groups: defaultdict[tuple[str, str], list[Access]] = defaultdict(list)
    for access in accesses:
        groups[access.kind, access.argument or _UNKNOWN_ARGUMENT].append(access)
    return {key: _traffic_of(group) for key, group in groups.items()}


def _traffic_of(accesses: Sequence[Access]) -> _Traffic:
    own = [access for access in accesses if access.path != "tma" and access.vector_bytes]
    requests = sum(access.requests for access in own)
    moved = sum(access.requested_bytes for access in accesses)
    ahead = sum(access.requested_bytes for access in accesses if access.path != "global")
    return _Traffic(
        requests,
        sum(access.sectors for access in accesses),
        ahead / moved if moved else 0.0,
        sum(a.vector_bytes * a.requests for a in own) / requests if requests else 0.0,
        tuple(sorted({access.line for access in accesses if access.line})),
    )


def _changes_of_traffic(
    place: _Place, kind: str, before: _Traffic, after: _Traffic, is_known: bool
) -> Iterator[Change]:
    """Yield changes of one argument's accesses; sectors only where addresses are known."""
    if kind == "load" and (before.ahead > _HALF) != (after.ahead > _HALF):
        worse = after.ahead <= _HALF
        words = "loads are " + ("not copied ahead any more" if worse else "copied ahead now")
        shares = before.ahead, after.ahead
        yield Change("pipeline", place.launch, place.place, *shares, worse, None, words)
    if before.vector_bytes and after.vector_bytes:
        widths = before.vector_bytes, after.vector_bytes
        yield from _figure_change(
            place,
            "vector_width",
            widths,
            _bytes,
            "bytes of a thread's instruction",
            is_worse_if_larger=False,
        )
    sectors = before.sectors, after.sectors
    if is_known:
        yield from _figure_change(place, "sectors", sectors, _plain, "sectors of 32 bytes")


# --------------------------------------------------------------------------------------- figures


def _figure_change(
    place: _Place,
    name: str,
    values: tuple[float, float],
    write: Callable[[float], str],
    words: str,
    *,
    is_worse_if_larger: bool = True,
) -> Iterator[Change]:
    """Yield the change of a figure, before and after, if it is one."""
    before, after = values
    factor = _ratio(after, before) if is_worse_if_larger else _ratio(before, after)
    sentence = f"{words} {write(before)} → {write(after)}"
    yield from _varied(place, name, values, factor, sentence)


def _varied(
    place: _Place, name: str, values: tuple[float, float], factor: float, words: str
) -> Iterator[Change]:
    if abs(factor - 1) > _SAME:
        yield _change(place, name, values, factor, words)


def _change(
    place: _Place, name: str, values: tuple[float, float], factor: float, words: str
) -> Change:
    return Change(name, place.launch, place.place, *values, factor > 1, factor, words)


def _ratio(over: float, under: float) -> float:
    """Return a quotient; 1 for nothing over nothing, infinite for something over nothing."""
    if over == under:
        return 1.0
    return over / under if under else math.inf


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"


def _bytes(value: float) -> str:
    return binary_bytes(round(value)) if value == int(value) else f"{value:.3g} B"


def _per_cent(value: float) -> str:
    return f"{100 * value:.0f} %"
