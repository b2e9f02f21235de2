"""Calls of ops that are costed: the innermost possible ones, with all the kernels beneath them.

An op's kernels are one unit, since only the work of the whole op is known. If the innermost op
cannot be replayed, the op around it is tried, and then includes all that ran beneath it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from solkit.core import Device, Tolerance, Work
from solkit.errors import JobDiedError
from solkit.processes import jobs as worker
from solkit.profiling.matching import NONE, Matching, is_graph_launch
from solkit.profiling.timeline import Window
from solkit.profiling.trace_reader import Signature

_LIMIT_S = 300.0
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH|HtoH|PtoP)")
_COLLECTIVE = re.compile(r"nccl|nvshmem|multimem_all|one_shot_all|two_shot_all", re.IGNORECASE)


Asked = tuple[Signature, tuple[str, ...]]
"""An op, and the names of its kernels, which show the type of a list of tensors."""


@dataclass(frozen=True)
class Replayed:
    """The result for an op and those around it."""

    level: int = 0  # which of them was replayed: 0 is the innermost, which launched kernels
    work: Work | None = None  # the cost of one call; ``None`` if none of them can be replayed
    tolerance: Tolerance | None = None  # of its outputs' dtype
    reason: str = ""  # why the innermost cannot be replayed; empty if it can


@dataclass(frozen=True)
class Costs:
    """The unit of every activity of a window."""

    # for each activity, the op (an index) whose work it is part of, or `NONE`
    units: tuple[int, ...]
    reasons: tuple[str, ...]  # for each activity, why it has no unit
    replayed: dict[Signature, Replayed]  # the cost of one call, by the signature of a unit's op


def cost_units(within: Window, device: Device) -> Costs:
    """Cost the ops that launched something within a window, for a GPU."""
    matching = within.matching
    reasons = [_unfit_reason(matching, i) for i in within.indices]
    ops = [matching.ops[i] if not reason else NONE for i, reason in zip(within.indices, reasons)]
    around = {op: list(matching.enclosing_ops(op)) for op in dict.fromkeys(ops) if op != NONE}
    answers = _replay_all(within, device, ops, around)
    units = {
        around[op][replayed.level] for op, replayed in answers.items() if replayed.work is not None
    }
    owners = {op: _outermost_unit(enclosing, units) for op, enclosing in around.items()}
    return Costs(
        units=tuple(owners.get(op, NONE) for op in ops),
        reasons=tuple(
            answers[op].reason if op != NONE else reason for op, reason in zip(ops, reasons)
        ),
        replayed={
            matching.recording.ops[around[op][replayed.level]].signature: replayed
            for op, replayed in answers.items()
            if replayed.work is not None
        },
    )


def _unfit_reason(matching: Matching, index: int) -> str:
    """Return the reason why an activity belongs to no op on this GPU; empty if it may."""
    activity = matching.activities[index]
    if _HOST_COPY.match(activity.name):
        return "a copy that leaves the GPU"
    if _COLLECTIVE.search(activity.name):
        return "communication between GPUs"
    if matching.ops[index] != NONE:
        return ""
    call = matching.calls[index]
    if call == NONE:
        return "its launch was not recorded"
    if is_graph_launch(matching.recording.calls[call]):
        return "launched by a CUDA graph, which keeps no ops"
    return "launched outside of any op"


def _replay_all(
    within: Window, device: Device, ops: Sequence[int], around: dict[int, list[int]]
) -> dict[int, Replayed]:
    """Return the result for each op that launched something; identical ops are replayed once."""
    signatures = [op.signature for op in within.matching.recording.ops]
    kernels: dict[Signature, set[str]] = defaultdict(set)
    for activity, op in zip(within.activities, ops):
        for enclosing in around.get(op, ()):
            kernels[signatures[enclosing]].add(activity.name)
    chains = {op: tuple(signatures[i] for i in around[op]) for op in around}
    requests = [
        [(signature, tuple(sorted(kernels[signature]))) for signature in chain]
        for chain in dict.fromkeys(chains.values())
    ]
    answers = dict(zip(dict.fromkeys(chains.values()), _replay_in_child(device, requests)))
    return {op: answers[chain] for op, chain in chains.items()}


def _outermost_unit(enclosing: Sequence[int], units: set[int]) -> int:
    """Return the outermost unit around an op, or `NONE`: all beneath a unit is its work."""
    return next((i for i in reversed(enclosing) if i in units), NONE)


def _replay_in_child(device: Device, requests: Sequence[Sequence[Asked]]) -> list[Replayed]:
    """Replay in a child; if an op ends or hangs it, halve the list until that op is alone."""
    if not requests:
        return []
    try:
        replayed: list[Replayed] = worker.call(
            "solkit.profiling.replay:replay_ops", device, requests, timeout_s=_LIMIT_S
        )
    except JobDiedError as death:
        if len(requests) == 1:
            return [Replayed(reason=f"replaying it failed: {death}")]
        half = len(requests) // 2
        return [
            *_replay_in_child(device, requests[:half]),
            *_replay_in_child(device, requests[half:]),
        ]
    return replayed
