"""The values of fake tensors, if they follow from the program.

Contents belong to a storage, so writes through one view are seen through all. Constants (``zeros``,
``full`` and results of these) are kept as one element.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

from solkit.adapters.dispatch_modes import is_view
from solkit.adapters.fake_cuda.contents import (
    Contents,
    KnownContents,
    Rows,
    attach_contents,
    choices_of,
    computing_really,
    contents_of_storage,
    forget_contents,
    has_room_for,
    is_constant,
    most_elements,
    protect_from_writes,
    recall_contents,
    recall_exact,
    recall_share,
    remember_contents,
)
from solkit.adapters.fake_cuda.cpu_draws import DrawsInStep, draws_few_on_cpu
from solkit.adapters.fake_cuda.deferred_values import Later, Seen, drawn_call, note_call
from solkit.adapters.fake_cuda.suppositions import named_arguments

_aten = torch.ops.aten

_SLOW = 1 << 20
"""The most elements that are sorted and so on: about 50 ms an op."""

_DRAWN = 1 << 22
"""The most integers that are drawn: indices of a table of embeddings."""

_PRODUCT = 1 << 24
"""The most multiply-adds of a matrix product: about 10 ms."""


# ------------------------------------------------------------------------------ propagation


@dataclass(frozen=True)
class _Call:
    """A call of an operator."""

    func: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @functools.cached_property
    def inputs(self) -> list[torch.Tensor]:
        """Tensors among the arguments."""
        return [
            leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)
        ]

    @property
    def packet(self) -> Any:
        """The operator, of all its overloads."""
        return self.func.overloadpacket

    @property
    def draws(self) -> bool:
        """True if results are random."""
        return torch.Tag.nondeterministic_seeded in self.func.tags


def propagate_values(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Compute `func` on real values if all inputs are known, and remember the results."""
    call = _Call(func, args, kwargs)
    if func._schema.is_mutable:
        written = _written_tensors(call)
        if not (draws_few_on_cpu(func, written) and _draw_at_once(call, written)):
            _update_written(call)
        return
    fakes = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
    if not fakes:
        return
    inputs = call.inputs
    if is_view(func) and inputs and isinstance(inputs[0], FakeTensor):
        _look_through(fakes)
    elif func.overloadpacket in _FILLS:
        _remember_constant(call, fakes[0])
    elif draws_few_on_cpu(func, fakes) and _draw_at_once(call, fakes):
        pass
    elif _is_pure_function(func):
        _compute_results(call, fakes)
    elif "empty" not in func._schema.name:
        _defer_results(call, fakes)
    choices = _choices(call)
    if choices is not None and not is_view(func):
        contents = _contents_of(fakes[0])
        contents.choices = choices
        attach_contents(fakes[0], contents)


_draws = DrawsInStep()


def _draw_at_once(call: _Call, results: Sequence[torch.Tensor]) -> bool:
    """Draw what a real run draws on the CPU; whether that is known.

    Floats count as known only where the host reads them, or a size depends on them.
    """
    with computing_really():
        if not _draws.is_in_step(call.kwargs):
            return False
    written = {id(tensor) for tensor in results}

    def real_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        fact = recall_exact(leaf)
        if fact is None and id(leaf) not in written:
            raise LookupError
        empty = torch.zeros(tuple(leaf.shape), dtype=leaf.dtype, device="cpu")
        return empty if fact is None else fact.value.clone()

    try:
        with computing_really():
            real_args, real_kwargs = tree_map(real_leaf, (call.args, call.kwargs))
            out = call.func(*real_args, **real_kwargs)
            _draws.note_draw(call.kwargs, was_in_step=True)
    except LookupError:
        return False
    values = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    for fake, value in zip(results, values):
        if not value.is_floating_point():
            remember_contents(cast(FakeTensor, fake), KnownContents(value))
            continue
        contents = _contents_of(cast(FakeTensor, fake))
        contents.hold_elements(None, (), drawn=False)
        whole = _view_of_input(fake, None)
        contents.later = Later(drawn_call(value), 0, whole)
        attach_contents(fake, contents)
    return True


def _contents_of(fake: FakeTensor) -> Contents:
    storage = fake.untyped_storage()
    return contents_of_storage.get(storage._cdata) or Contents(storage)


def _choices(call: _Call) -> int | None:
    """Return the number of different results, of drawn integers and what is made of one tensor."""
    named = named_arguments(call.func, call.args, call.kwargs)
    if call.packet in (_aten.randint, _aten.randint_like):
        return max(int(named["high"]) - int(named.get("low", 0)), 1)
    elementwise = torch.Tag.pointwise in call.func.tags or call.packet in _COPIES
    alone = elementwise and len(call.inputs) == 1 and not call.draws
    counts = [
        choices_of(call.inputs[0]) if alone else None,
        _limited_choices(call.func, named, call.inputs),
    ]
    return min((count for count in counts if count is not None), default=None)


def _limited_choices(
    func: torch._ops.OpOverload, named: dict[str, Any], inputs: Sequence[torch.Tensor]
) -> int | None:
    """Return the number of integers that an op may have as results, whatever it is given."""
    packet, other = func.overloadpacket, named.get("other")
    if packet in (_aten.argmax, _aten.argmin):
        dim, source = named.get("dim"), inputs[0]
        return max(source.numel() if dim is None else source.shape[dim] if source.dim() else 1, 1)
    if packet in (_aten.bucketize, _aten.searchsorted):
        edges = named.get("boundaries", named.get("sorted_sequence"))
        return edges.shape[-1] + 1 if isinstance(edges, torch.Tensor) else None
    if not inputs or inputs[0].is_floating_point() or named.get("self") is not inputs[0]:
        return None
    if packet is _aten.remainder and isinstance(other, int) and other > 0:
        return other
    if packet is _aten.bitwise_and and isinstance(other, int) and other >= 0:
        return other + 1
    least, most = named.get("min"), named.get("max")
    if packet is _aten.clamp and isinstance(least, int) and isinstance(most, int):
        return max(most - least + 1, 1)
    return None


def _look_through(views: Sequence[FakeTensor]) -> None:
    """Let views keep the contents of their storage alive."""
    for view in views:
        contents = contents_of_storage.get(view.untyped_storage()._cdata)
        if contents is not None:
            attach_contents(view, contents)


def _compute_results(call: _Call, fakes: Sequence[FakeTensor]) -> None:
    results = _results_of_op(call, fakes) or _results_by_rows(call, fakes)
    for fake, fact in zip(fakes, results or (), strict=False):
        remember_contents(fake, fact)
    if results is None:
        _defer_results(call, fakes)
    if results is None and (share := _share_of_mask(call.func, call.inputs)) is not None:
        contents = _contents_of(fakes[0])
        contents.share = share
        attach_contents(fakes[0], contents)


def _defer_results(call: _Call, fakes: Sequence[FakeTensor]) -> None:
    """Note how to compute results that follow from random floats, or that take long."""
    seen = _views_of_inputs(call.inputs)
    if seen is None or not _is_affordable(call.func, call.inputs, fakes, 16):
        return
    with computing_really():
        noted = note_call(
            call.func, call.args, call.kwargs, seen, None, sum(fake.numel() for fake in fakes)
        )
        if call.draws:
            _draws.note_delay(call.kwargs)
    for number, fake in enumerate(fakes if noted else ()):
        contents = _contents_of(fake)
        assert noted is not None
        contents.later = Later(noted, number, _view_of_input(fake, None))
        attach_contents(fake, contents)


def _later_write(call: _Call, written: Sequence[torch.Tensor]) -> Later | None:
    """Return the same for a tensor that an op writes to."""
    overwrites = call.draws or call.packet is _aten.copy_
    if len(written) != 1 or call.packet in _RELOCATING:
        return None
    (target,) = written
    if not call.draws and not any(map(_is_delayed, call.inputs)):
        return None  # looking at contents keeps them: the next write would copy them
    whole = target.untyped_storage().nbytes() == target.numel() * target.element_size()
    seen = _views_of_inputs(
        [tensor for tensor in call.inputs if tensor is not target or not (overwrites and whole)]
    )
    if seen is None or not (call.draws or any(view.later is not None for view in seen.values())):
        return None
    own = seen.setdefault(id(target), _view_of_input(target, None))
    with computing_really():
        noted = note_call(call.func, call.args, call.kwargs, seen, own, target.numel())
        if call.draws:
            _draws.note_delay(call.kwargs)
    if noted is None or not _is_affordable(call.func, call.inputs, ()):
        return None
    return Later(noted, 0, own)


def _is_delayed(tensor: torch.Tensor) -> bool:
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    return contents is not None and contents.later is not None


def _views_of_inputs(tensors: Sequence[torch.Tensor]) -> dict[int, Seen] | None:
    """View inputs as an op sees them; ``None`` if one's contents do not follow from the program."""
    views: dict[int, Seen] = {}
    for tensor in tensors:
        contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
        if not isinstance(tensor, FakeTensor):
            views[id(tensor)] = Seen(tensor.detach(), (), (), 0, tensor.dtype, 0)
        elif contents is not None and contents.later is not None:
            views[id(tensor)] = _view_of_input(tensor, contents.later)
        elif contents is None or contents.flat is None or contents.guesses:
            return None
        else:
            contents.shared = True
            with computing_really():
                views[id(tensor)] = _view_of_input(tensor, contents.whole)
    return views


def _view_of_input(tensor: torch.Tensor, source: torch.Tensor | Later | None) -> Seen:
    elements = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
    place = tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
    return Seen(source, *place, tensor.dtype, elements)


_KEEPING_ZEROS = (*(_aten.clone, _aten._to_copy), *(_aten.ne, _aten.gt, _aten.mul))


def _share_of_mask(func: torch._ops.OpOverload, inputs: Sequence[torch.Tensor]) -> float | None:
    """Return the share that is set of a mask, or of numbers made of one, too large to compute.

    A choice among n numbers sets one in n: `torch.nn.functional.one_hot` makes such a comparison on
    fake tensors.
    """
    if func.overloadpacket in _KEEPING_ZEROS and len(inputs) == 1:
        return recall_share(inputs[0]) or _share_of_truths(inputs[0])
    if func.overloadpacket is not _aten.eq or len(inputs) != 2 or inputs[1].dim() != 1:
        return None
    choices, numbers = inputs[0], recall_contents(inputs[1])
    if numbers is None or choices.shape[-1:] != (1,) or numbers.value.numel() > _SLOW:
        return None
    with computing_really():
        count = numbers.value.unique().numel()
    return 1 / count if count == numbers.value.numel() > 1 else None


def _share_of_truths(mask: torch.Tensor) -> float | None:
    """Return the share of a known mask that is set: as numbers it may be too large to compute."""
    contents = recall_contents(mask) if mask.dtype is torch.bool else None
    if contents is None:
        return None
    with computing_really():
        return int(contents.value.count_nonzero()) / max(contents.value.numel(), 1) or None


def compute_known(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[KnownContents] | None:
    """Compute an op on known values; return ``None`` if one is unknown or it is too costly."""
    return _results_of_op(_Call(func, args, kwargs), ())


def _results_of_op(call: _Call, fakes: Sequence[FakeTensor]) -> list[KnownContents] | None:
    facts = _recall_all(call.inputs)
    if facts is None:
        return None
    alike = _all_constant(call.func, facts)
    if not alike and not _is_affordable(call.func, call.inputs, fakes):
        return None
    own = {fact.value.untyped_storage()._cdata for fact in facts}
    draws = call.packet in _INTEGER_DRAWS
    guesses, drawn = _guesses_of(facts), draws or any(fact.drawn for fact in facts)
    with computing_really():
        values = _run_on_values(call, alike)
        if alike:
            values = [v[(0,) * v.dim()].expand(fake.shape) for v, fake in zip(values, fakes)]
        values = [v.clone() if v.untyped_storage()._cdata in own else v for v in values]
    return [KnownContents(value, guesses, drawn) for value in values]


_ROWS_AT_A_TIME = 1 << 22
"""Elements that are computed at a time, of a tensor that there is no room for."""


def _results_by_rows(call: _Call, fakes: Sequence[FakeTensor]) -> list[KnownContents] | None:
    """Return truths of numbers that there is no room for, as of the distances of 16,384 places.

    Such numbers are noted, and computed by rows where truths follow from them.
    """
    (fake, *others), tensors = fakes, call.inputs
    is_large = _ROWS_AT_A_TIME < fake.numel() <= most_elements(_A_TRUTH)
    pointwise = torch.Tag.pointwise in call.func.tags and not (others or call.draws)
    if not (is_large and pointwise and fake.is_contiguous()):
        return None
    step = _ROWS_AT_A_TIME * fake.shape[0] // fake.numel()
    sources = [_rows_of(tensor, fake) for tensor in tensors]
    if not all(sources) or not step:
        return None
    places = {id(tensor): source for tensor, source in zip(tensors, sources)}

    def between(first: int, last: int) -> torch.Tensor:
        def real_argument(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return cast(Rows, places[id(leaf)]).between(first, last)
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        args, kwargs = tree_map(real_argument, (call.args, call.kwargs))
        return cast(torch.Tensor, call.func(*args, **kwargs))

    if fake.dtype is not torch.bool:
        contents = _contents_of(fake)
        contents.rows = Rows(tuple(fake.shape), fake.dtype, between)
        attach_contents(fake, contents)
        return None
    if not has_room_for(fake.numel(), fake):
        return None
    with computing_really():
        value = torch.empty(fake.shape, dtype=torch.bool)
        for first in range(0, fake.shape[0], step):
            value[first : first + step] = between(first, first + step)
    return [KnownContents(value)]


_A_TRUTH = torch.empty(0, dtype=torch.bool)


def _rows_of(tensor: torch.Tensor, like: torch.Tensor) -> Rows | None:
    """Return rows of an operand, as the rows of a result need them; ``None`` if it is not known."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if contents is not None and contents.rows is not None:
        rows = contents.rows
        alike = rows.shape == tuple(tensor.shape) == tuple(like.shape)
        same = alike and rows.dtype == tensor.dtype  # a view as another dtype has other numbers
        return rows if same and tensor.is_contiguous() else None
    fact = recall_contents(tensor)
    if fact is None or fact.guesses or fact.drawn:
        return None
    with computing_really():
        value = protect_from_writes(tensor, fact.value)
    if value.dim() < like.dim() or value.shape[0] == 1:
        return Rows(tuple(value.shape), value.dtype, lambda *_: value)
    return Rows(tuple(value.shape), value.dtype, lambda first, last: value[first:last])


def _guesses_of(facts: Sequence[KnownContents]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence for fact in facts for sentence in fact.guesses))


def _recall_all(tensors: Sequence[torch.Tensor]) -> list[KnownContents] | None:
    facts = [fact for tensor in tensors if (fact := recall_contents(tensor)) is not None]
    return facts if len(facts) == len(tensors) else None


def _run_on_values(call: _Call, alike: bool = False) -> list[torch.Tensor]:
    """Return the results of an op on real values; none if the CPU has no such kernel."""

    def real_argument(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            fact = recall_contents(argument)
            assert fact is not None
            value = fact.value.detach()
            return value[(slice(0, 1),) * value.dim()] if alike else value
        return torch.device("cpu") if isinstance(argument, torch.device) else argument

    real_args, real_kwargs = tree_map(real_argument, (call.args, call.kwargs))
    try:
        out = call.func(*real_args, **real_kwargs)
    except NotImplementedError:  # such as half-precision kernels that only a GPU has
        return []
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        return []
    return [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]


def _all_constant(func: torch._ops.OpOverload, facts: Sequence[KnownContents]) -> bool:
    """Tell whether an elementwise op has only constants as inputs, at least one of them large."""
    elementwise = torch.Tag.pointwise in func.tags or func.overloadpacket in _COPIES
    large = any(fact.value.numel() > 1 for fact in facts)
    return elementwise and large and all(is_constant(fact.value) for fact in facts)


_COPIES = (_aten.clone, _aten._to_copy)
_SORTS = (
    *(_aten.sort, _aten.topk, _aten.argsort, _aten.kthvalue, _aten.median, _aten.mode),
    *(_aten._unique2, _aten.unique_dim, _aten.unique_consecutive, _aten.histc),
    *(_aten.randperm, _aten.scatter_add, _aten.index_add),
)
_PRODUCTS = (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm, _aten.mv, _aten.dot, _aten.addmv)
_HEAVY = ("linalg", "convolution", "fft", "attention", "batch_norm", "upsample", "cdist")


def _is_affordable(
    func: torch._ops.OpOverload,
    inputs: Sequence[torch.Tensor],
    fakes: Sequence[FakeTensor],
    patience: int = 1,
) -> bool:
    """Tell whether a result takes at most about 50 ms, times `patience`, to compute."""
    packet = func.overloadpacket
    tensors = (*inputs, *fakes)
    largest = max((tensor.numel() for tensor in tensors), default=0)
    if packet in _PRODUCTS:
        products = sum(t.numel() for t in fakes) * max(inputs[-1].shape, default=1)
        return products <= patience * _PRODUCT
    if packet in _SORTS:
        return largest <= patience * _SLOW
    if packet is _aten.randint:
        return largest <= patience * _DRAWN
    if any(name in str(packet) for name in _HEAVY) and packet is not _aten.linalg_vector_norm:
        return largest <= patience * _SLOW >> 4
    return all(tensor.numel() <= patience * most_elements(tensor) for tensor in tensors)


_INTEGER_DRAWS = (_aten.randint, _aten.randperm)
"""Random, yet computed: indices and page tables decide what a gather must read."""


@functools.cache
def _is_pure_function(func: torch._ops.OpOverload) -> bool:
    """Tell whether the result depends only on the arguments, or is drawn integers."""
    random = torch.Tag.nondeterministic_seeded in func.tags or "empty" in func._schema.name
    return func.overloadpacket in _INTEGER_DRAWS or not random


# -------------------------------------------------------------------------------- constants

_FILLS: dict[Any, float | str] = {
    **dict.fromkeys((_aten.zeros, _aten.zeros_like, _aten.new_zeros), 0),
    **dict.fromkeys((_aten.ones, _aten.ones_like, _aten.new_ones), 1),
    _aten.full: "fill_value",
    _aten.full_like: "fill_value",
    _aten.new_full: "fill_value",
    _aten.scalar_tensor: "s",
}
"""Ops that fill a new tensor: with a number, or with the argument of that name."""


def _remember_constant(call: _Call, fake: FakeTensor) -> None:
    fill: Any = _FILLS[call.packet]
    if isinstance(fill, str):
        fill = named_arguments(call.func, call.args, call.kwargs)[fill]
    with computing_really():
        one = torch.full((), fill, dtype=fake.dtype, device="cpu")
        remember_contents(fake, KnownContents(one.expand(fake.shape)))


# ----------------------------------------------------------------------------------- writes


def _update_written(call: _Call) -> None:
    """Update the contents of the tensors that an op writes to."""
    written = _written_tensors(call)
    later = _later_write(call, written)
    if call.packet in _OVERWRITES and len(written) == 1:
        _overwrite_contents(call, written[0])
    elif not _write_known(call, written):
        for tensor in written:
            forget_contents(tensor)
    for tensor in written:
        storage = tensor.untyped_storage()
        contents = contents_of_storage.get(storage._cdata) or (Contents(storage) if later else None)
        if contents is not None:
            contents.later = later
            attach_contents(tensor, contents)


def _written_tensors(call: _Call) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for position, argument in enumerate(call.func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            operand = (
                call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
            )
            tensors += [leaf for leaf in tree_leaves(operand) if isinstance(leaf, torch.Tensor)]
    return tensors


_RELOCATING = (_aten.resize_, _aten.resize_as_, _aten.set_)


def _write_known(call: _Call, written: Sequence[torch.Tensor]) -> bool:
    """Write to the known contents; whether that was possible."""
    fakes = [tensor for tensor in call.inputs if isinstance(tensor, FakeTensor)]
    facts = _recall_all(call.inputs)
    if facts is None or call.draws:
        return False
    if call.packet in _RELOCATING or not _is_affordable(call.func, call.inputs, fakes):
        return False
    contents = [contents_of_storage.get(tensor.untyped_storage()._cdata) for tensor in written]
    with computing_really():
        if not all(held is not None and held.make_writable() for held in contents):
            return False
        if not _run_on_values(call):
            return False
    for held in contents:
        assert held is not None
        held.guesses = _guesses_of(facts)
        held.drawn = any(fact.drawn for fact in facts)
    return True


_OVERWRITES = (_aten.fill_, _aten.zero_, _aten.copy_)


def _overwrite_contents(call: _Call, target: torch.Tensor) -> None:
    """``fill_``, ``zero_``, ``copy_``: old contents matter only if some of them stay."""
    if not isinstance(target, FakeTensor):
        return
    source = call.args[1] if len(call.args) > 1 else 0
    fact = recall_contents(source) if isinstance(source, torch.Tensor) else None
    if isinstance(source, torch.Tensor) and fact is None:
        forget_contents(target)
        return
    whole = target.untyped_storage().nbytes() == target.numel() * target.element_size()
    if not whole:
        if not _write_known(call, [target]):
            forget_contents(target)
        return
    with computing_really():
        value = fact.value if fact is not None else torch.tensor(source, device="cpu")
        if value.numel() and is_constant(value):
            value = value[(0,) * value.dim()]
        value = value.to(target.dtype, copy=True).expand(target.shape)
        forget_contents(target)
        remember_contents(target, replace(fact, value=value) if fact else KnownContents(value))
