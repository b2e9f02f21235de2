"""The rows of a profile: ops with their bounds and savings, and what has no bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solkit.core import Bound, Device, ProfiledKernel, ProfiledOp
from solkit.profiling.matching import NONE, Matching
from solkit.profiling.savings import Cuts, savings_us
from solkit.profiling.timeline import Window
from solkit.profiling.trace_reader import Recording, Signature
from solkit.profiling.units import Costs
from solkit.roofline.bound import bound as bound_of

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """A recorded run, matched and costed.

    Attributes:
        recording: the trace.
        matching: what ran on the GPU.
        within: the window that counts.
        costs: what everything in it is part of.
    """

    recording: Recording
    matching: Matching
    within: Window
    costs: Costs

    def ops(self, device: Device, precision: str) -> tuple[tuple[ProfiledOp, ...], float]:
        """A row per op and kind of inputs, and what all their targets together save, in us.

        What saves most comes first, then what is furthest from its target.

        Raises:
            InputError: an unknown precision.
        """
        found = self._by_signature()
        rows = [
            self._row(signature, parts, self._bound(signature, device, precision))
            for signature, parts in found.items()
        ]
        order = {signature: i for i, signature in enumerate(found)}
        saved_us, all_us = self._savings(order, [row.target_ms * 1e3 for row in rows])
        rows = [replace(row, saving_ms=us / 1e3) for row, us in zip(rows, saved_us)]
        return tuple(sorted(rows, key=_standing)), all_us

    def unbounded(self) -> Iterator[ProfiledKernel]:
        """What has no bound, by name, op and reason."""
        return self._by_name(
            (i, self._op_name(i), reason)
            for i, unit, reason in zip(self.within.activities, self.costs.units, self.costs.reasons)
            if unit == NONE
        )

    def _by_signature(self) -> dict[Signature, list[tuple[int, int]]]:
        """The activities of all units of one kind, each with its unit."""
        found: dict[Signature, list[tuple[int, int]]] = defaultdict(list)
        for i, unit in zip(self.within.activities, self.costs.units):
            if unit != NONE:
                found[self.recording.ops[unit].signature].append((i, unit))
        return found

    def _bound(self, signature: Signature, device: Device, precision: str) -> Bound:
        found = self.costs.replayed[signature]
        assert found.work is not None  # or it would be no unit
        return bound_of(found.work, device, precision=precision, tolerance=found.tolerance)

    def _row(
        self, signature: Signature, parts: Sequence[tuple[int, int]], bound: Bound
    ) -> ProfiledOp:
        kernels = self._by_name((i, signature.name, "") for i, _ in parts)
        return ProfiledOp(
            name=signature.name,
            inputs=signature.tensors,
            calls=len({unit for _, unit in parts}),
            time_ms=sum(self.matching.activities[i].duration_us for i, _ in parts) / 1e3,
            kernels=tuple(kernels),
            bound=bound,
            target_ms=max(bound.time_ms, bound.at.launch_floor_ms or 0.0),
            saving_ms=0.0,
        )

    def _by_name(self, found: Iterator[tuple[int, str, str]]) -> Iterator[ProfiledKernel]:
        """Activities of one name, op and reason together, in falling order of time."""
        times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for i, op, reason in found:
            activity = self.matching.activities[i]
            times[activity.name, op, reason].append(activity.duration_us)
        for (name, op, reason), each in sorted(times.items(), key=lambda item: -sum(item[1])):
            yield ProfiledKernel(name, len(each), sum(each) / 1e3, op, reason)

    def _op_name(self, index: int) -> str:
        op = self.matching.ops[index]
        return self.recording.ops[op].signature.name if op != NONE else ""

    def _savings(
        self, order: dict[Signature, int], targets_us: Sequence[float]
    ) -> tuple[Sequence[float], float]:
        """What each row saves, and all together: each call's activities shrink to its target."""
        taken: dict[int, float] = defaultdict(float)
        durations = [self.matching.activities[i].duration_us for i in self.within.activities]
        for unit, duration in zip(self.costs.units, durations):
            taken[unit] += duration
        questions, cuts = [NONE] * len(durations), [0.0] * len(durations)
        for i, (unit, duration) in enumerate(zip(self.costs.units, durations)):
            if unit != NONE and duration > 0:
                questions[i] = order[self.recording.ops[unit].signature]
                cuts[i] = duration * max(0.0, 1.0 - targets_us[questions[i]] / taken[unit])
        what_ifs = Cuts(questions, cuts, len(order))
        saved, together = savings_us(self.recording, self.matching, self.within, what_ifs)
        return saved.tolist(), together


def _standing(row: ProfiledOp) -> tuple[float, float]:
    return -row.saving_ms, -row.excess_ms
