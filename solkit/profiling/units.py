"""Which calls of ops are costed: the innermost that can be, with all the kernels beneath them.

An op's kernels are one unit, since what it must do is known only of the whole. Where the innermost
op cannot be replayed, the op around it is tried, and then takes all that ran beneath it.
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
from solkit.profiling.trace_reader import Recording, Signature

__all__ = ["Asked", "Costs", "Replayed", "costs"]

_LIMIT_S = 300.0
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH|HtoH|PtoP)")
_COLLECTIVE = re.compile(r"nccl|nvshmem|multimem_all|one_shot_all|two_shot_all", re.IGNORECASE)


Asked = tuple[Signature, tuple[str, ...]]
"""An op, and the names of its kernels, which tell the type of a list of tensors."""


@dataclass(frozen=True)
class Replayed:
    """The result for an op and those around it.

    Attributes:
        level: which of them was replayed: 0 is the innermost, the one that launched kernels.
        work: what one call of it costs; ``None`` where none of them can be replayed.
        tolerance: that of its outputs' dtype.
        reason: why not even the innermost can be replayed; empty where it can.
    """

    level: int = 0
    work: Work | None = None
    tolerance: Tolerance | None = None
    reason: str = ""


@dataclass(frozen=True)
class Costs:
    """What every activity of a window is part of.

    Attributes:
        units: of each activity, the op (an index) whose work it is part of, or `NONE`.
        reasons: of each activity without one, why.
        replayed: by the signature of a unit's op, what one call costs.
    """

    units: tuple[int, ...]
    reasons: tuple[str, ...]
    replayed: dict[Signature, Replayed]


def costs(recording: Recording, matching: Matching, within: Window, device: Device) -> Costs:
    """Cost the ops that launched something within a window.

    Args:
        recording: the trace.
        matching: what ran on the GPU in question.
        within: the window.
        device: the GPU.
    """
    reasons = [_reason(recording, matching, i) for i in within.activities]
    ops = [matching.ops[i] if not reason else NONE for i, reason in zip(within.activities, reasons)]
    around = {op: list(matching.enclosing(op)) for op in dict.fromkeys(ops) if op != NONE}
    answers = _answers(recording, matching, within, device, ops, around)
    units = {around[op][found.level] for op, found in answers.items() if found.work is not None}
    owners = {op: _outermost(enclosing, units) for op, enclosing in around.items()}
    return Costs(
        units=tuple(owners.get(op, NONE) for op in ops),
        reasons=tuple(
            answers[op].reason if op != NONE else reason for op, reason in zip(ops, reasons)
        ),
        replayed={
            recording.ops[around[op][found.level]].signature: found
            for op, found in answers.items()
            if found.work is not None
        },
    )


def _reason(recording: Recording, matching: Matching, index: int) -> str:
    """Why an activity belongs to no op on this GPU; empty where it may be."""
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
    if is_graph_launch(recording.calls[call]):
        return "launched by a CUDA graph, which keeps no ops"
    return "launched outside of any op"


def _answers(
    recording: Recording,
    matching: Matching,
    within: Window,
    device: Device,
    ops: Sequence[int],
    around: dict[int, list[int]],
) -> dict[int, Replayed]:
    """The result for each op that launched something; identical ops are replayed once."""
    kernels: dict[Signature, set[str]] = defaultdict(set)
    for i, op in zip(within.activities, ops):
        for enclosing in around.get(op, ()):
            kernels[recording.ops[enclosing].signature].add(matching.activities[i].name)
    chains = {op: tuple(recording.ops[i].signature for i in around[op]) for op in around}
    asked = [
        [(signature, tuple(sorted(kernels[signature]))) for signature in chain]
        for chain in dict.fromkeys(chains.values())
    ]
    answers = dict(zip(dict.fromkeys(chains.values()), _replay(device, asked)))
    return {op: answers[chain] for op, chain in chains.items()}


def _outermost(enclosing: Sequence[int], units: set[int]) -> int:
    """The outermost unit around an op, or `NONE`: what is beneath a unit is its work."""
    return next((i for i in reversed(enclosing) if i in units), NONE)


def _replay(device: Device, asked: Sequence[Sequence[Asked]]) -> list[Replayed]:
    """Replay in a child; where an op ends or hangs it, halves of them, until that op is alone."""
    if not asked:
        return []
    try:
        found: list[Replayed] = worker.call(
            "solkit.profiling.replay:replay", device, asked, timeout_s=_LIMIT_S
        )
    except JobDiedError as death:
        if len(asked) == 1:
            return [Replayed(reason=f"replaying it failed: {death}")]
        half = len(asked) // 2
        return [*_replay(device, asked[:half]), *_replay(device, asked[half:])]
    return found
