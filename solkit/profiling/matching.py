"""Assignment of kernels to the ops that launched them.

A kernel has the id of the call that launched it (``correlation``). That call, or the kernel itself,
has the id of the innermost op that was open then (``External id``). In older traces ids are missing
or wrong, so an id counts only if its op was open when the call began; otherwise the op is the
innermost one that encloses the call on its thread. A kernel whose launch was not recorded, or that
a CUDA graph launched, belongs to no op.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solkit.profiling.trace_reader import Activity, HostCall, Op, Recording

NONE = -1
"""An index that stands for nothing."""


@dataclass(frozen=True)
class Matching:
    """Activities of one GPU, and their origin; indices into the recording."""

    recording: Recording  # the trace
    activities: tuple[Activity, ...]  # in order of their start
    calls: tuple[int, ...]  # the host call that launched each, or `NONE`
    ops: tuple[int, ...]  # the innermost op around that call, or `NONE`
    parents: tuple[int, ...]  # of every op of the recording: the op around it, or `NONE`

    def enclosing_ops(self, op: int) -> Iterator[int]:
        """Yield an op and those around it, innermost first."""
        while op != NONE:
            yield op
            op = self.parents[op]


def match_activities(recording: Recording, device: int) -> Matching:
    """Match what ran on a GPU; `device` is its `Activity.device`."""
    activities = sorted(
        (activity for activity in recording.activities if activity.device == device),
        key=lambda a: a.start_us,
    )
    threads = _ops_by_thread(recording.ops)
    parents = _find_parents(recording.ops, threads)
    by_id = _by_external_id(recording.ops)
    by_correlation = {call.correlation: i for i, call in enumerate(recording.calls)}
    calls = [by_correlation.get(a.correlation, NONE) if a.correlation else NONE for a in activities]
    ops = []
    for activity, index in zip(activities, calls):
        call = recording.calls[index] if index != NONE else None
        op = by_id.get(activity.external_id or (call.external_id if call else 0), NONE)
        if call and is_graph_launch(call):
            op = NONE
        elif call and not (op != NONE and _is_open_during(recording.ops[op], call)):
            op = _innermost_op(call, recording.ops, threads.get(call.thread, ()), parents)
        ops.append(op)
    return Matching(recording, tuple(activities), tuple(calls), tuple(ops), parents)


def is_graph_launch(call: HostCall) -> bool:
    """Tell whether a call launches a whole CUDA graph: its op is not that of its kernels."""
    return "GraphLaunch" in call.name


def _is_open_during(op: Op, call: HostCall) -> bool:
    return op.thread == call.thread and op.start_us <= call.start_us <= op.end_us


def _ops_by_thread(ops: Sequence[Op]) -> dict[tuple[str, str], list[int]]:
    """Return the ops of each thread by start; of several with one start, the longest is first."""
    threads: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index in sorted(range(len(ops)), key=lambda i: (ops[i].start_us, -ops[i].end_us)):
        threads[ops[index].thread].append(index)
    return threads


def _find_parents(ops: Sequence[Op], threads: dict[tuple[str, str], list[int]]) -> tuple[int, ...]:
    parents = [NONE] * len(ops)
    for indices in threads.values():
        open_ops: list[int] = []
        for index in indices:
            while open_ops and ops[open_ops[-1]].end_us < ops[index].end_us:
                open_ops.pop()
            if open_ops:
                parents[index] = open_ops[-1]
            open_ops.append(index)
    return tuple(parents)


def _by_external_id(ops: Sequence[Op]) -> dict[int, int]:
    """Return ops by their id, if it is unique."""
    counts = Counter(op.external_id for op in ops)
    return {op.external_id: i for i, op in enumerate(ops) if counts[op.external_id] == 1}


def _innermost_op(
    call: HostCall, ops: Sequence[Op], indices: Sequence[int], parents: Sequence[int]
) -> int:
    """Return the innermost op that is open on the call's thread when the call begins."""
    position = bisect_right(indices, call.start_us, key=lambda i: ops[i].start_us)
    op = indices[position - 1] if position else NONE
    while op != NONE and ops[op].end_us < call.start_us:
        op = parents[op]
    return op
