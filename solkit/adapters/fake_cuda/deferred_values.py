"""Contents that follow from random floats, computed only if an index or a size depends on them.

Drawing and computing every float of a program would take seconds. So an operation on such tensors
is noted with its inputs as they are, and runs once its result is asked for: as an index tensor that
a kernel reads, or as a number that the host reads. A GPU draws other numbers of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

_MOST_WORK = 1 << 28
"""Elements that are computed for one result at the most: a few seconds."""
_DEEPEST = 48
_MOST_KEPT_BYTES = 1 << 26
"""Size of all results that are kept, since the next run of a launcher needs the same."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A tensor as an operation saw it: a view of a storage's elements at that time.

    Attributes:
        source: the elements, known or to be computed; ``None`` if the old ones do not matter.
        shape, stride, offset, dtype: of the view.
        elements: of the storage; 0 if the source is the tensor itself.
    """

    source: torch.Tensor | Later | None
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    elements: int

    @property
    def later(self) -> Later | None:
        """The source, if it is to be computed."""
        return self.source if isinstance(self.source, Later) else None


@dataclass(frozen=True, eq=False)
class Call:
    """An operation that was not run.

    Attributes:
        function: the operation.
        args, kwargs: its arguments, with `Seen` for tensors.
        written: the argument that it writes to; ``None`` if it makes new tensors.
        seed: of what it draws.
        elements: of its results.
        work: the same, those of all calls that it rests on included, at the most.
        depth: operations in sequence.
        is_exact: whether a real run gives the same: whatever is drawn was drawn on the CPU.
    """

    function: Any
    args: Any
    kwargs: Any
    written: Seen | None
    seed: int
    elements: int
    work: int
    depth: int
    is_exact: bool = False


@dataclass(frozen=True, eq=False)
class Later:
    """The elements of a storage that a call makes.

    Attributes:
        call: makes them.
        number: which of its results, in order.
        seen: how the result lies in its storage.
    """

    call: Call
    number: int
    seen: Seen


def note_call(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seen: Mapping[int, Seen],
    written: Seen | None,
    elements: int,
) -> Call | None:
    """Note an operation; ``None`` if it would take long.

    Args:
        function: the operation.
        args: with tensors.
        kwargs: likewise.
        seen: of each tensor among them, by its id.
        written: of these, the one that it writes to.
        elements: elements of its results.
    """
    before = {id(s.later.call): s.later.call for s in seen.values() if s.later is not None}
    work = elements + sum(call.work for call in before.values())
    depth = 1 + max((call.depth for call in before.values()), default=0)
    if depth > _DEEPEST:
        return None
    if work > _MOST_WORK:  # what several of them rest on was counted several times
        work = elements + sum(call.elements for call in _calls_behind(before.values()))
    if work > _MOST_WORK:
        return None

    def note_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return seen[id(leaf)]
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    own_args, own_kwargs = tree_map(note_leaf, (args, dict(kwargs)))
    draws = torch.Tag.nondeterministic_seeded in function.tags
    seed = int(torch.randint(1 << 31, (), device="cpu")) if draws else 0
    is_exact = bool(before) and not draws and all(call.is_exact for call in before.values())
    return Call(function, own_args, own_kwargs, written, seed, elements, work, depth, is_exact)


def _calls_behind(calls: Iterable[Call]) -> Iterable[Call]:
    """Return calls, and those that they rest on, each once."""
    behind = {id(call): call for call in calls}
    waiting = list(behind.values())
    while waiting:
        call = waiting.pop()
        for leaf in tree_leaves((call.args, call.kwargs)):
            earlier = leaf.later if isinstance(leaf, Seen) else None
            if earlier is not None and id(earlier.call) not in behind:
                behind[id(earlier.call)] = earlier.call
                waiting.append(earlier.call)
    return behind.values()


def drawn_call(value: torch.Tensor) -> Call:
    """Return a call that gives what was drawn on the CPU already."""
    count = value.numel()
    return Call(lambda: value.clone(), (), {}, None, 0, count, count, 1, is_exact=True)


def compute_later(later: Later) -> torch.Tensor | None:
    """Return the elements of its storage; ``None`` if the CPU cannot compute them.

    A launcher that runs for each choice of its parameters gets the same inputs each time: what such
    runs have in common is computed once.
    """
    key = _key_of_later(later)
    if key is not None and (elements := _computed.get(key)) is not None:
        return elements.clone()
    state = torch.default_generator.get_state()
    try:
        elements = _compute_elements(later, {})
    except (NotImplementedError, RuntimeError):  # such as operations that only a GPU has
        return None
    finally:
        torch.default_generator.set_state(state)
    if key is not None and elements.nbytes <= _MOST_KEPT_BYTES:
        while sum(kept.nbytes for kept in _computed.values()) + elements.nbytes > _MOST_KEPT_BYTES:
            del _computed[next(iter(_computed))]
        _computed[key] = elements.clone()
    return elements


_computed: dict[Any, torch.Tensor] = {}
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _key_of_later(later: Later) -> Any:
    """Return what decides the elements of a storage; ``None`` if that is not all known."""
    names: dict[int, int] = {}  # of calls, in the order in which they are met
    parts: list[Any] = []

    def name_call(call: Call) -> int:
        if id(call) not in names:
            if not isinstance(call.function, torch._ops.OpOverload):
                raise _UnknownError
            leaves, form = tree_flatten((call.args, call.kwargs))
            own = [name_leaf(leaf, call) for leaf in leaves]
            names[id(call)] = len(names)
            parts.append((str(call.function), call.seed, repr(form), own))
        return names[id(call)]

    def name_leaf(leaf: Any, call: Call) -> Any:
        if leaf is None or type(leaf) in _PLAIN:
            return type(leaf), repr(leaf)
        if not isinstance(leaf, Seen) or isinstance(leaf.source, torch.Tensor):
            raise _UnknownError
        view = leaf.shape, leaf.stride, leaf.offset, leaf.dtype, leaf.elements
        return leaf is call.written, view, None if leaf.later is None else name_source(leaf.later)

    def name_source(source: Later) -> Any:
        seen = source.seen
        view = seen.shape, seen.stride, seen.offset, seen.dtype, seen.elements
        return name_call(source.call), source.number, view

    try:
        result = name_source(later)
    except _UnknownError:
        return None
    return repr((parts, result))


class _UnknownError(Exception):
    """A call rests on more than numbers."""


def _compute_elements(later: Later, values: dict[int, list[torch.Tensor]]) -> torch.Tensor:
    call = later.call
    if id(call) not in values:
        values[id(call)] = _run_call(call, values)
    value, seen = values[id(call)][later.number], later.seen
    if call.written is not None:
        return value
    if seen.elements == value.numel() > 0 and value.stride() == seen.stride:
        return value.as_strided((seen.elements,), (1,))
    flat = value.new_zeros(seen.elements)
    flat.as_strided(seen.shape, seen.stride, seen.offset).copy_(value)
    return flat


def _run_call(call: Call, values: dict[int, list[torch.Tensor]]) -> list[torch.Tensor]:
    target: list[torch.Tensor] = []

    def real_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, Seen):
            return leaf
        if leaf is call.written:
            target.append(_storage_of(leaf, values).clone(memory_format=torch.contiguous_format))
            return target[0].as_strided(leaf.shape, leaf.stride, leaf.offset)
        return _view_storage(_storage_of(leaf, values), leaf)

    args, kwargs = tree_map(real_leaf, (call.args, call.kwargs))
    torch.default_generator.manual_seed(call.seed)
    out = call.function(*args, **kwargs)
    return target or [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]


def _view_storage(storage: torch.Tensor, seen: Seen) -> torch.Tensor:
    if not seen.elements:
        return storage
    if storage.stride() == (0,):  # all elements are equal
        return storage[0].expand(seen.shape)
    return storage.as_strided(seen.shape, seen.stride, seen.offset)


def _storage_of(seen: Seen, values: dict[int, list[torch.Tensor]]) -> torch.Tensor:
    if seen.later is not None:
        return _compute_elements(seen.later, values)
    if seen.source is None:
        return torch.zeros(seen.elements, dtype=seen.dtype, device="cpu")
    assert isinstance(seen.source, torch.Tensor)
    return seen.source
