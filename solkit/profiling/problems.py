"""Problems of a profiled run: ops that one kernel could compute, elementwise neighbours together.

::

    units ─► runs of elementwise ones ─► what flows between them ─► chains ─► reference files
    allocations of the trace's tensors ────────┘

A Chrome trace has no identities of tensors; a script's profile has: each allocation has a number,
and each op those of its arguments (`solkit.adapters.torch_profiler.tensor_flow`). An op of a run
that nothing else interrupts is in a chain with another if it reads what that one wrote. A result is
needed if it is read outside of the chain, or lives on where a launch outside of any op could read
it. Without identities each op is a problem of its own.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solkit.core import ProfiledCase, ProfiledOp, ProfiledProblem
from solkit.errors import JobDiedError
from solkit.ops import Family, operator
from solkit.processes import jobs as worker
from solkit.profiling.matching import NONE
from solkit.profiling.rows import Run
from solkit.profiling.trace_reader import Signature

_LIMIT_S = 300.0
_COPIES = ("aten._to_copy", "aten.clone", "aten.copy_", "aten.where")
_MOST_MEMBERS = 40


@dataclass(frozen=True)
class TensorFlow:
    """Allocations that the ops of a trace read and make, by the ops' ids.

    Attributes:
        order: ids of the ops by their start.
        inputs: of each argument the allocation, or those of a list; ``None`` without one.
        results: allocations that the op made and left.
        freed: by allocation, the place in `order` of the next op.
        tensors: of each argument what identifies it; ``None`` if it is a part of an allocation.
    """

    order: tuple[int, ...] = ()
    inputs: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    results: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    freed: Mapping[int, int] = field(default_factory=dict)
    tensors: Mapping[int, tuple[int | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """An op of a problem: which earlier member made each argument; -1 for none.

    `shared` numbers the arguments that no member made, those that are one tensor alike; -1 if
    unknown.
    """

    signature: Signature
    kernels: tuple[str, ...]
    sources: tuple[int, ...]
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class Request:
    """Ops of a problem in their order, and those of them whose results are needed."""

    members: tuple[Member, ...]
    results: tuple[int, ...]


def read_flow(path: str) -> TensorFlow:
    """Read what the profiled script wrote of its tensors; nothing if it did not."""
    try:
        document = json.loads(Path(path or os.devnull).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return TensorFlow()
    ops = document["ops"]
    return TensorFlow(
        tuple(number for number, *_ in ops),
        {number: tuple(inputs) for number, inputs, *_ in ops},
        {number: tuple(results) for number, _, results, _ in ops},
        {int(allocation): place for allocation, place in document["freed"].items()},
        {number: tuple(tensors) for number, *_, tensors in ops},
    )


def list_problems(
    run: Run, rows: Mapping[Signature, ProfiledOp], flow: TensorFlow
) -> tuple[ProfiledProblem, ...]:
    """Return the problems of a run, with a reference file each, those that save most first.

    Args:
        run: the window, with what its ops cost.
        rows: the ops of the profile.
        flow: between ops; empty if it is not known.
    """
    saved_ms = {signature: row.saving_ms / row.calls for signature, row in rows.items()}
    chains = _Chains(run, flow)
    groups = chains.by_request(chains.chains())
    texts = dict(zip(groups, _reference_texts(list(groups)), strict=True))
    unwritten = [request for request, text in texts.items() if not any(text)]
    apart = [[unit] for request in unwritten for chain in groups.pop(request) for unit in chain]
    singles = chains.by_request(apart)
    texts |= dict(zip(singles, _reference_texts(list(singles)), strict=True))
    for request, occurrences in singles.items():
        groups.setdefault(request, []).extend(occurrences)
    return tuple(_problems(run, groups, [texts[request] for request in groups], saved_ms))


def _problems(
    run: Run,
    groups: Mapping[Request, Sequence[Sequence[int]]],
    texts: Sequence[tuple[str, str]],
    saved_ms: Mapping[Signature, float],
) -> Iterator[ProfiledProblem]:
    """Yield problems; those whose references differ in their inputs alone are cases of one."""
    taken_us: dict[int, float] = defaultdict(float)
    for activity, unit in zip(run.within.activities, run.costs.units):
        taken_us[unit] += activity.duration_us
    joined: dict[tuple[Any, ...], list[ProfiledCase]] = defaultdict(list)
    for (request, occurrences), (body, layout) in zip(groups.items(), texts, strict=True):
        names = tuple(member.signature.name for member in request.members)
        case = ProfiledCase(
            tuple(_outer_tensors(request.members)),
            len(occurrences),
            sum(taken_us[unit] for units in occurrences for unit in units) / 1e3,
            len(occurrences) * sum(saved_ms.get(m.signature, 0.0) for m in request.members),
            layout,
        )
        joined[names, body].append(case)
    problems = [ProfiledProblem(ops, tuple(cases), body) for (ops, body), cases in joined.items()]
    yield from sorted(problems, key=lambda problem: -problem.saving_ms)


def _outer_tensors(members: Sequence[Member]) -> Iterator[str]:
    """Yield the tensors that no member made, each once, for a reader."""
    seen = set[int]()
    for member in members:
        signature = member.signature
        shared = member.shared or (NONE,) * len(member.sources)
        for place, (source, number) in enumerate(zip(member.sources, shared, strict=True)):
            if source == NONE and (number == NONE or number not in seen):
                seen.add(number)
                at = slice(place, place + 1)
                shapes, types, strides = signature.shapes, signature.types, signature.strides
                yield from Signature(signature.name, shapes[at], types[at], strides[at]).tensors


def _reference_texts(requests: Sequence[Request]) -> list[tuple[str, str]]:
    """Return the body of each reference and its inputs' layouts; empty where there is none."""
    if not requests:
        return []
    try:
        texts: list[tuple[str, str]] = worker.call(
            "solkit.profiling.references:reference_texts", requests, timeout_s=_LIMIT_S
        )
    except JobDiedError:
        return [("", "")] * len(requests)
    return texts


# ----------------------------------------------------------------------------------------- chains


@dataclass
class _Chains:
    """Finds the chains of a run; units are indices of the recording's ops."""

    run: Run
    flow: TensorFlow

    def __post_init__(self) -> None:
        matching = self.run.within.matching
        self._ops, self._parents = matching.recording.ops, matching.parents
        self._place = {number: place for place, number in enumerate(self.flow.order)}
        self._launching = {op for op in matching.ops if op != NONE}
        self._has_unseen = any(op == NONE for op in self._ops_of_window())
        self._readers: dict[int, list[int]] = defaultdict(list)
        for op in self._launching | {unit for unit in self.run.costs.units if unit != NONE}:
            for allocation in _flat(self.flow.inputs.get(self._ops[op].external_id, ())):
                self._readers[allocation].append(op)

    def _ops_of_window(self) -> list[int]:
        return [self.run.within.matching.ops[i] for i in self.run.within.indices]

    def chains(self) -> Iterator[list[int]]:
        """Yield the units of each chain in their order; most chains have one."""
        for units in self._runs():
            yield from self._connected(units) if len(units) > 1 else [units]

    def _runs(self) -> Iterator[list[int]]:
        """Yield units that follow each other on a thread, as long as they are elementwise."""
        owners = zip(self._ops_of_window(), self.run.costs.units)
        launched = dict.fromkeys(unit if unit != NONE else op for op, unit in owners)
        units = {unit for unit in self.run.costs.units if unit != NONE}
        ordered = sorted(launched.keys() - {NONE}, key=lambda op: self._ops[op].start_us)
        run: list[int] = []
        for op in ordered:
            is_member = op in units and self._is_elementwise(op)
            if run and not (is_member and self._continues(run, op)):
                yield run
                run = []
            if is_member:
                run.append(op)
            elif op in units:
                yield [op]
        if run:
            yield run

    def _continues(self, run: Sequence[int], op: int) -> bool:
        return len(run) < _MOST_MEMBERS and self._ops[run[-1]].thread == self._ops[op].thread

    def _is_elementwise(self, op: int) -> bool:
        signature = self._ops[op].signature
        name = signature.name.replace("::", ".")
        is_known = operator(name).family is Family.POINTWISE or name in _COPIES
        return (
            is_known and not signature.is_triton and self._ops[op].external_id in self.flow.inputs
        )

    def _connected(self, units: Sequence[int]) -> Iterator[list[int]]:
        """Yield units between which something flows together."""
        group = {unit: [unit] for unit in units}
        for unit, sources in zip(units, self._sources(units), strict=True):
            for source in set(sources) - {NONE}:
                first, second = group[units[source]], group[unit]
                if first is not second:
                    first += second
                    group.update(dict.fromkeys(second, first))
        for members in {id(members): members for members in group.values()}.values():
            yield sorted(members, key=units.index)

    def _sources(self, units: Sequence[int]) -> list[tuple[int, ...]]:
        """Return, for each argument of each unit, the unit of these that wrote it last."""
        writers: dict[int, int] = {}
        sources = []
        for place, unit in enumerate(units):
            inputs = self.flow.inputs.get(self._ops[unit].external_id, ())
            count = len(self._ops[unit].signature.types)
            own = [writers.get(a, NONE) if isinstance(a, int) else NONE for a in inputs]
            sources.append(tuple([*own, *[NONE] * count][:count]))
            writers.update(dict.fromkeys(self._written(unit), place))
        return sources

    def _written(self, unit: int) -> tuple[int, ...]:
        """Return the allocations that an elementwise unit writes."""
        op = self._ops[unit]
        inputs = self.flow.inputs.get(op.external_id, ())
        if op.signature.name.endswith("_") and inputs and isinstance(inputs[0], int):
            return (inputs[0],)
        return self.flow.results.get(op.external_id, ())

    def by_request(self, chains: Iterable[Sequence[int]]) -> dict[Request, list[Sequence[int]]]:
        """Return chains by what they compute."""
        groups: dict[Request, list[Sequence[int]]] = defaultdict(list)
        for units in chains:
            groups[self.request(units)].append(units)
        return dict(groups)

    def request(self, units: Sequence[int]) -> Request:
        """Return what a chain computes."""
        kernels: dict[int, set[str]] = defaultdict(set)
        for activity, unit in zip(self.run.within.activities, self.run.costs.units):
            kernels[unit].add(activity.name)
        sources = self._sources(units)
        parts = zip(units, sources, self._shared(units, sources), strict=True)
        members = [
            Member(self._ops[unit].signature, tuple(sorted(kernels[unit])), made_by, shared)
            for unit, made_by, shared in parts
        ]
        results = [n for n, unit in enumerate(units) if self._is_needed(unit, units[n + 1 :])]
        return Request(tuple(members), tuple(results) or (len(units) - 1,))

    def _shared(
        self, units: Sequence[int], sources: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield, for each unit's arguments, numbers of tensors from outside that come twice."""
        rows = [self._outer_tensors(*pair) for pair in zip(units, sources, strict=True)]
        counts = Counter(key for row in rows for key in row)
        repeated = [key for key, count in counts.items() if key is not None and count > 1]
        numbers: dict[Any, int] = {key: number for number, key in enumerate(repeated)}
        yield from (tuple(numbers.get(key, NONE) for key in row) for row in rows)

    def _outer_tensors(self, unit: int, sources: Sequence[int]) -> list[tuple[Any, ...] | None]:
        """Return what identifies each argument from outside; ``None`` where that is unknown."""
        op = self._ops[unit]
        tensors = self.flow.tensors.get(op.external_id, ())
        allocations = self.flow.inputs.get(op.external_id, ())
        keys: list[tuple[Any, ...] | None] = [None] * len(sources)
        for place, source in enumerate(sources[: len(tensors)]):
            if source == NONE and tensors[place] is not None:
                keys[place] = tensors[place], allocations[place], *_layout(op.signature, place)
        return keys

    def _is_needed(self, unit: int, later: Sequence[int]) -> bool:
        """Tell whether a result is read by others than the later units of its chain."""
        if not later:
            return True
        written = set(self._written(unit))
        if any(written & set(self._written(other)) for other in later):
            return False  # overwritten in place
        end_us = self._ops[unit].end_us
        readers = [
            op for a in written for op in self._readers[a] if self._ops[op].start_us >= end_us
        ]
        if not written or any(not self._is_within(op, later) for op in readers):
            return True
        return any(self._outlives(allocation, later[-1]) for allocation in written)

    def _is_within(self, op: int, units: Sequence[int]) -> bool:
        enclosing = self.run.within.matching.enclosing_ops(op)
        return any(outer in units for outer in enclosing)

    def _outlives(self, allocation: int, last: int) -> bool:
        """Tell whether a launch outside of any op may read an allocation after a chain's end."""
        freed = self.flow.freed.get(allocation)
        if freed is None:
            return True
        if not self._has_unseen:
            return False
        after = self._place.get(self._ops[last].external_id, 0) + 1
        order = self.flow.order[after:freed]
        numbers = {self._ops[op].external_id for op in self._launching}
        nested = {
            self._ops[op].external_id for op in self._launching if self._is_within(op, [last])
        }
        return any(number in numbers - nested for number in order)


def _layout(signature: Signature, place: int) -> tuple[Any, ...]:
    columns = signature.types, signature.shapes, signature.strides
    return tuple(column[place] if place < len(column) else None for column in columns)


def _flat(inputs: Sequence[Any]) -> Iterator[int]:
    for item in inputs:
        if isinstance(item, int):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _flat(item)
