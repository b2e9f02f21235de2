"""PyTorch's profiler: sessions that begin without its warning, or without its compiler."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from functools import partial
from typing import Any
from unittest import mock

from torch._C._profiler import RecordScope, _EventType
from torch.autograd import profiler

_ONE_CYCLE = ".*Profiler clears events at the end of each cycle"


def cuda_session() -> Any:
    """Return a session that records what runs on the GPU, launches and ranges, to be entered.

    Ranges are those of `torch.profiler.record_function`; torch's operators are left out: a
    reference of many ones takes longer to be read than to run. `torch.profiler.profile` makes a
    similar one, but imports Inductor before, which takes 3 to 5 s in a new process
    (``prepare_trace`` of torch/profiler/profiler.py). The events are those of its
    ``kineto_results``.
    """
    return _RangeSession(use_cpu=True, use_device="cuda", use_kineto=True)


class _RangeSession(profiler.profile):
    """A session without torch's operators."""

    def _start_trace(self) -> None:
        module: Any = profiler  # its annotations lack `scopes`
        enable = partial(module._enable_profiler, scopes={RecordScope.USER_SCOPE})
        with mock.patch.object(module, "_enable_profiler", enable):
            super()._start_trace()  # type: ignore[no-untyped-call]


def enter_session(session: Any) -> None:
    """Enter a session of `torch.profiler.profile`.

    torch 2.11 and 2.12 warn that a further cycle would drop events, though there is none. What they
    propose, ``acc_events=True``, parses all events where the session ends.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _ONE_CYCLE, UserWarning)
        session.__enter__()


def tensor_flow(session: Any) -> dict[str, Any]:
    """Return what ops read and made, by number of the allocation, as plain lists.

    Args:
        session: of `torch.profiler.profile` with ``record_shapes`` and ``profile_memory``, ended.

    Returns:
        ``ops``: by start, each op's id (a Chrome trace's ``External id``), the allocation of each
        argument, those that it made and left, and the identity of each argument that is the whole
        of its allocation; ``freed``: the place of the next op, by
        allocation.
    """
    ops: list[tuple[Any, ...]] = []
    sizes: dict[int, int] = {}
    frees: list[tuple[int, int]] = []

    def visit(event: Any) -> tuple[set[int], set[int]]:
        """Note an event; return the allocations that it made and freed."""
        fields = event.extra_fields
        if event.tag == _EventType.Allocation:
            own = {fields.allocation_id} - {None}
            if fields.alloc_size < 0:
                frees.extend((event.start_time_ns, number) for number in own)
                return set(), own
            sizes.update(dict.fromkeys(own, fields.alloc_size))
            return own, set()
        below = [visit(child) for child in event.children]
        allocated = set[int]().union(*(below_allocated for below_allocated, _ in below))
        freed = set[int]().union(*(below_freed for _, below_freed in below))
        if event.tag == _EventType.TorchOp:
            inputs, results = list(map(_allocation_of, fields.inputs)), sorted(allocated - freed)
            same = [_whole_tensor(value, sizes) for value in fields.inputs]
            ops.append((event.start_time_ns, event.correlation_id, inputs, results, same))
        return allocated, freed

    for event in session.profiler.kineto_results.experimental_event_tree():
        visit(event)
    ops.sort(key=lambda op: op[0])
    starts = [op[0] for op in ops]
    places = {number: bisect_left(starts, at) for at, number in frees}
    return {"ops": [op[1:] for op in ops], "freed": places}


_ROUNDED_BYTES = 512
"""Allocations on a GPU are multiples of it (c10/cuda/CUDACachingAllocator.cpp)."""


def _whole_tensor(value: Any, sizes: dict[int, int]) -> int | None:
    """Return what identifies a tensor that is the whole of its allocation; ``None`` of others.

    Views may be of different parts, which the profiler does not tell.
    """
    size = sizes.get(getattr(value, "allocation_id", None) or -1)
    if size is None or value.dtype is None:
        return None
    own = math.prod(value.sizes) * value.dtype.itemsize
    return int(value.impl_ptr) if 0 <= size - own < _ROUNDED_BYTES else None


def _allocation_of(value: Any) -> Any:
    """Return the number of a tensor's allocation, a list of them, or ``None``."""
    if isinstance(value, (list, tuple)):
        return [_allocation_of(item) for item in value]
    return getattr(value, "allocation_id", None)
