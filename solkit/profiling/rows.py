"""The rows of a profile: ops with their bounds and savings, and what has no bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from solkit.core import Bound, Device, ProfiledKernel, ProfiledOp
from solkit.profiling.matching import NONE
from solkit.profiling.savings import Cuts, savings_us
from solkit.profiling.timeline import Window
from solkit.profiling.trace_reader import Activity, Signature
from solkit.profiling.units import Costs
from solkit.roofline.bound import bound as bound_of


@dataclass(frozen=True)
class Run:
    """A recorded run, matched and costed."""

    within: Window  # the window that counts
    costs: Costs  # of each activity in it

    def list_ops(self, device: Device, precision: str) -> tuple[dict[Signature, ProfiledOp], float]:
        """Return a row per op and kind of inputs, and what all targets together save, in us.

        The largest savings come first, then the largest distances from the target.

        Raises:
            InputError: an unknown precision.
        """
        groups = self._by_signature()
        rows = [
            self._make_row(signature, parts, self._unit_bound(signature, device, precision))
            for signature, parts in groups.items()
        ]
        order = {signature: i for i, signature in enumerate(groups)}
        saved_us, all_us = self._row_savings(order, [row.target_ms * 1e3 for row in rows])
        rows = [replace(row, saving_ms=us / 1e3) for row, us in zip(rows, saved_us)]
        pairs = sorted(zip(groups, rows, strict=True), key=lambda pair: _sort_key(pair[1]))
        return dict(pairs), all_us

    def unbounded_kernels(self) -> Iterator[ProfiledKernel]:
        """Return activities without a bound, by name, op and reason."""
        ops = (self.within.matching.ops[i] for i in self.within.indices)
        rows = zip(self.within.activities, ops, self.costs.units, self.costs.reasons)
        return _merge_by_name((a, self._name(op), why) for a, op, unit, why in rows if unit == NONE)

    def _by_signature(self) -> dict[Signature, list[tuple[Activity, int]]]:
        """Return the activities of all units of one kind, each with its unit."""
        groups: dict[Signature, list[tuple[Activity, int]]] = defaultdict(list)
        for activity, unit in zip(self.within.activities, self.costs.units):
            if unit != NONE:
                groups[self._unit_signature(unit)].append((activity, unit))
        return groups

    def _unit_signature(self, op: int) -> Signature:
        return self.within.matching.recording.ops[op].signature

    def _name(self, op: int) -> str:
        return self._unit_signature(op).name if op != NONE else ""

    def _unit_bound(self, signature: Signature, device: Device, precision: str) -> Bound:
        replayed = self.costs.replayed[signature]
        assert replayed.work is not None  # as in every unit
        return bound_of(replayed.work, device, precision=precision, tolerance=replayed.tolerance)

    def _make_row(
        self, signature: Signature, parts: Sequence[tuple[Activity, int]], bound: Bound
    ) -> ProfiledOp:
        kernels = _merge_by_name((activity, signature.name, "") for activity, _ in parts)
        return ProfiledOp(
            name=signature.name,
            inputs=signature.tensors,
            calls=len({unit for _, unit in parts}),
            time_ms=sum(activity.duration_us for activity, _ in parts) / 1e3,
            kernels=tuple(kernels),
            bound=bound,
            target_ms=max(bound.time_ms, bound.at.launch_floor_ms or 0.0),
            saving_ms=0.0,
        )

    def _row_savings(
        self, order: dict[Signature, int], targets_us: Sequence[float]
    ) -> tuple[Sequence[float], float]:
        """Return what each row saves, and all together, if each call shrinks to its target."""
        taken: dict[int, float] = defaultdict(float)
        durations = [activity.duration_us for activity in self.within.activities]
        for unit, duration in zip(self.costs.units, durations):
            taken[unit] += duration
        questions, cuts = [NONE] * len(durations), [0.0] * len(durations)
        for i, (unit, duration) in enumerate(zip(self.costs.units, durations)):
            if unit != NONE and duration > 0:
                questions[i] = order[self._unit_signature(unit)]
                cuts[i] = duration * max(0.0, 1.0 - targets_us[questions[i]] / taken[unit])
        saved, together = savings_us(self.within, Cuts(questions, cuts, len(order)))
        return saved.tolist(), together


def _merge_by_name(rows: Iterable[tuple[Activity, str, str]]) -> Iterator[ProfiledKernel]:
    """Yield activities of one name, op and reason together, the longest first."""
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for activity, op, reason in rows:
        times[activity.name, op, reason].append(activity.duration_us)
    for (name, op, reason), durations in sorted(times.items(), key=lambda item: -sum(item[1])):
        yield ProfiledKernel(name, len(durations), sum(durations) / 1e3, op, reason)


def _sort_key(row: ProfiledOp) -> tuple[float, float]:
    return -row.saving_ms, -row.excess_ms
