"""The contents of fake tensors, if they follow from the program.

Contents belong to a storage, so writes through one view are seen through all. Constants (``zeros``,
``full`` and results of these) are kept as one element.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    "Known",
    "compute_known",
    "forget",
    "known_value",
    "propagate",
    "really",
    "recall",
    "remember",
    "share_of",
]

_aten = torch.ops.aten

_KNOWN_INTEGERS, _KNOWN_FLOATS = 1 << 24, 1 << 24
"""Larger results are not computed: 16 Mi elements take about 20 ms an op."""

_KNOWN_BYTES = 256 << 20
"""The most bytes of contents held at a time; beyond, results are not computed."""

_SLOW = 1 << 20
"""The most elements that are sorted, drawn and so on: about 50 ms an op."""

_PRODUCT = 1 << 24
"""The most multiply-adds of a matrix product: about 10 ms."""


@dataclass(frozen=True)
class Known:
    """A tensor's contents.

    Attributes:
        value: the contents, on the CPU; read-only.
        guesses: the guesses that they rely on, each a sentence.
        drawn: whether they come from random integers.
    """

    value: torch.Tensor
    guesses: tuple[str, ...] = ()
    drawn: bool = False


class _Contents:
    """A storage's contents; they live as long as a tensor of that storage.

    Attributes:
        storage: held, so that no other storage gets its address.
        flat: its elements in order; one element if all are equal; ``None`` if unknown.
        shared: whether a view of `flat` exists, which must not change.
        share: the share of nonzero elements, if only that is known.
    """

    held_bytes = 0

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage
        self.guesses: tuple[str, ...] = ()
        self.drawn = False
        self.shared = False
        self.share: float | None = None
        self.flat: torch.Tensor | None = None

    def hold(self, flat: torch.Tensor | None, guesses: tuple[str, ...], drawn: bool) -> None:
        """Replace the elements."""
        _Contents.held_bytes += _bytes(flat) - _bytes(self.flat)
        self.flat, self.guesses, self.drawn, self.shared = flat, guesses, drawn, False
        self.share = None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Contents:
        return self  # a deep copy of a tensor copies its attributes, but has its own storage

    def __del__(self) -> None:
        _Contents.held_bytes -= _bytes(self.flat)

    @property
    def elements(self) -> int:
        """The number of elements that fit."""
        assert self.flat is not None
        return self.storage.nbytes() // self.flat.element_size()

    @property
    def constant(self) -> bool:
        """Whether one element represents several."""
        return self.flat is not None and self.flat.numel() == 1 < self.elements

    def seen_by(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The elements of a tensor on this storage."""
        if self.flat is None or self.flat.dtype != tensor.dtype:
            return None
        if self.constant:
            return self.flat[0].expand(tensor.shape)
        return self.flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def make_writable(self) -> bool:
        """Give every element its own unshared place; whether there is room."""
        assert self.flat is not None
        if self.constant:
            if self.elements > _limit(self.flat) or not _room_for(self.elements, self.flat):
                return False
            self.hold(self.flat.expand(self.elements).contiguous(), self.guesses, self.drawn)
        elif self.shared:
            self.hold(self.flat.clone(), self.guesses, self.drawn)
        return True


_contents: WeakValueDictionary[int, _Contents] = WeakValueDictionary()  # by the storage's handle


def known_value(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """The contents of a tensor, if they follow from the program without guesses.

    Returns:
        A read-only array of the tensor's shape, float32 for dtypes that numpy lacks; ``None`` if
        the contents are unknown.
    """
    known = recall(tensor)
    if known is None or known.guesses:
        return None
    with really():
        value = _lasting(tensor, known.value)
        try:
            return value.numpy(force=True)
        except TypeError:  # bfloat16, fp8
            return value.float().numpy(force=True)


def _lasting(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, protected from later writes to the storage."""
    contents = _contents.get(tensor.untyped_storage()._cdata)
    if contents is None or contents.flat is None:
        return value
    if not contents.constant and 4 * value.numel() < contents.flat.numel():
        return value.clone()  # else the next write copies all
    contents.shared = True
    return value


def forget(tensor: torch.Tensor) -> None:
    """Mark a tensor's contents as unknown, e.g. since a kernel may have written to it."""
    contents = _contents.get(tensor.untyped_storage()._cdata)
    if contents is not None:
        contents.hold(None, (), False)


def remember(tensor: FakeTensor, known: Known) -> None:
    """Keep a tensor's contents, if there is room; the value must be unshared."""
    value, storage = known.value, tensor.untyped_storage()
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        return
    elements = storage.nbytes() // value.element_size()
    constant = value.numel() > 1 and _is_constant(value)
    if not constant and not _room_for(elements, value):
        return
    with really():
        flat = value.as_strided((1,), (1,)) if constant else _laid_out(value, tensor, elements)
    contents = _contents.get(storage._cdata) or _Contents(storage)
    contents.hold(flat, known.guesses, known.drawn)
    _attach(tensor, contents)


def _laid_out(value: torch.Tensor, like: torch.Tensor, elements: int) -> torch.Tensor:
    """The elements of a storage in order, where `like` is the view with `value`."""
    if elements == value.numel() > 0 and value.stride() == like.stride():
        return value.as_strided((elements,), (1,))
    flat = value.new_zeros(elements)
    flat.as_strided(like.shape, like.stride(), like.storage_offset()).copy_(value)
    return flat


def _attach(tensor: torch.Tensor, contents: _Contents) -> None:
    _contents[contents.storage._cdata] = contents
    tensor._solkit_contents = contents  # type: ignore[attr-defined]  # keeps it alive


def recall(tensor: torch.Tensor) -> Known | None:
    """The contents of a tensor, known or guessed; ``None`` if there are none."""
    if not isinstance(tensor, FakeTensor):
        return Known(tensor) if tensor.numel() <= _limit(tensor) else None
    contents = _contents.get(tensor.untyped_storage()._cdata)
    if contents is None or contents.flat is None:
        return None
    with really():
        value = contents.seen_by(tensor)
    return None if value is None else Known(value, contents.guesses, contents.drawn)


@contextlib.contextmanager
def really() -> Iterator[None]:
    """Compute on real tensors."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def _is_constant(value: torch.Tensor) -> bool:
    """Whether all elements are the same one."""
    return not any(step for n, step in zip(value.shape, value.stride()) if n > 1)


def _bytes(flat: torch.Tensor | None) -> int:
    return 0 if flat is None else flat.numel() * flat.element_size()


def _limit(like: torch.Tensor) -> int:
    floating = like.dtype.is_floating_point or like.dtype.is_complex
    return _KNOWN_FLOATS if floating else _KNOWN_INTEGERS


def _room_for(elements: int, like: torch.Tensor) -> bool:
    return _Contents.held_bytes + elements * like.element_size() <= _KNOWN_BYTES


# ------------------------------------------------------------------------------ propagation


def propagate(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Compute `func` on real values if all inputs are known, and remember the results."""
    if func._schema.is_mutable:
        _write(func, args, kwargs)
        return
    fakes = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
    if not fakes:
        return
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if _is_view(func) and inputs and isinstance(inputs[0], FakeTensor):
        _look_through(fakes)
    elif func.overloadpacket in _FILLS:
        _remember_constant(func, args, kwargs, fakes[0])
    elif _is_pure(func):
        _compute(func, args, kwargs, inputs, fakes)


@functools.cache
def _is_view(func: torch._ops.OpOverload) -> bool:
    infos = [returned.alias_info for returned in func._schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def _look_through(views: Sequence[FakeTensor]) -> None:
    """Let views keep the contents of their storage alive."""
    for view in views:
        contents = _contents.get(view.untyped_storage()._cdata)
        if contents is not None:
            _attach(view, contents)


def _compute(
    func: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Sequence[torch.Tensor],
    fakes: Sequence[FakeTensor],
) -> None:
    results = _results(func, args, kwargs, inputs, fakes)
    for fake, known in zip(fakes, results or (), strict=False):
        remember(fake, known)
    if results is None and (share := _share(func, inputs)) is not None:
        contents = _Contents(fakes[0].untyped_storage())
        contents.share = share
        _attach(fakes[0], contents)


def share_of(tensor: torch.Tensor) -> float | None:
    """The share of a tensor's nonzero elements, if only that is known."""
    contents = _contents.get(tensor.untyped_storage()._cdata)
    return None if contents is None else contents.share


_KEEPING_ZEROS = (*(_aten.clone, _aten._to_copy), *(_aten.ne, _aten.gt, _aten.mul))


def _share(func: torch._ops.OpOverload, inputs: Sequence[torch.Tensor]) -> float | None:
    """The share of a mask that is too large to compute: a choice among n numbers sets one in n.

    `torch.nn.functional.one_hot` makes such a comparison on fake tensors.
    """
    if func.overloadpacket in _KEEPING_ZEROS and len(inputs) == 1:
        return share_of(inputs[0])
    if func.overloadpacket is not _aten.eq or len(inputs) != 2 or inputs[1].dim() != 1:
        return None
    choices, numbers = inputs[0], recall(inputs[1])
    if numbers is None or choices.shape[-1:] != (1,) or numbers.value.numel() > _SLOW:
        return None
    with really():
        count = numbers.value.unique().numel()
    return 1 / count if count == numbers.value.numel() > 1 else None


def compute_known(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Known] | None:
    """The result of an op on known values; ``None`` if one is unknown, or it is too costly."""
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    return _results(func, args, kwargs, inputs, ())


def _results(
    func: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Sequence[torch.Tensor],
    fakes: Sequence[FakeTensor],
) -> list[Known] | None:
    facts = _recall_all(inputs)
    if facts is None:
        return None
    alike = _all_constant(func, facts)
    if not alike and not _is_affordable(func, inputs, fakes):
        return None
    own = {fact.value.untyped_storage()._cdata for fact in facts}
    draws = func.overloadpacket in _INTEGER_DRAWS
    guesses, drawn = _guesses_of(facts), draws or any(fact.drawn for fact in facts)
    with really():
        values = _run(func, args, kwargs, alike)
        if alike:
            values = [v[(0,) * v.dim()].expand(fake.shape) for v, fake in zip(values, fakes)]
        values = [v.clone() if v.untyped_storage()._cdata in own else v for v in values]
    return [Known(value, guesses, drawn) for value in values]


def _guesses_of(facts: Sequence[Known]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence for fact in facts for sentence in fact.guesses))


def _recall_all(tensors: Sequence[torch.Tensor]) -> list[Known] | None:
    facts = [fact for tensor in tensors if (fact := recall(tensor)) is not None]
    return facts if len(facts) == len(tensors) else None


def _run(
    func: torch._ops.OpOverload, args: Any, kwargs: Any, alike: bool = False
) -> list[torch.Tensor]:
    """The results of an op on real values; none if the CPU has no such kernel."""

    def real(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            known = recall(argument)
            assert known is not None
            value = known.value.detach()
            return value[(slice(0, 1),) * value.dim()] if alike else value
        return torch.device("cpu") if isinstance(argument, torch.device) else argument

    real_args, real_kwargs = tree_map(real, (args, kwargs))
    try:
        out = func(*real_args, **real_kwargs)
    except NotImplementedError:  # such as half-precision kernels that only a GPU has
        return []
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        return []
    return [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]


def _all_constant(func: torch._ops.OpOverload, facts: Sequence[Known]) -> bool:
    """Whether an elementwise op has only constants as inputs, at least one of them large."""
    elementwise = torch.Tag.pointwise in func.tags or func.overloadpacket in _COPIES
    large = any(fact.value.numel() > 1 for fact in facts)
    return elementwise and large and all(_is_constant(fact.value) for fact in facts)


_COPIES = (_aten.clone, _aten._to_copy)
_SORTS = (
    *(_aten.sort, _aten.topk, _aten.argsort, _aten.kthvalue, _aten.median, _aten.mode),
    *(_aten._unique2, _aten.unique_dim, _aten.unique_consecutive, _aten.histc),
    *(_aten.randint, _aten.randperm, _aten.scatter_add, _aten.index_add),
)
_PRODUCTS = (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm, _aten.mv, _aten.dot, _aten.addmv)
_HEAVY = ("linalg", "convolution", "fft", "attention", "batch_norm", "upsample", "cdist")


def _is_affordable(
    func: torch._ops.OpOverload, inputs: Sequence[torch.Tensor], fakes: Sequence[FakeTensor]
) -> bool:
    """Whether computing a result takes at most about 50 ms."""
    packet = func.overloadpacket
    tensors = (*inputs, *fakes)
    largest = max((tensor.numel() for tensor in tensors), default=0)
    if packet in _PRODUCTS:
        return sum(t.numel() for t in fakes) * max(inputs[-1].shape, default=1) <= _PRODUCT
    if packet in _SORTS:
        return largest <= _SLOW
    if any(name in str(packet) for name in _HEAVY):
        return largest <= _SLOW >> 4
    return all(tensor.numel() <= _limit(tensor) for tensor in tensors)


_INTEGER_DRAWS = (_aten.randint, _aten.randperm)
"""Random, yet computed: indices and page tables decide what a gather must read."""


@functools.cache
def _is_pure(func: torch._ops.OpOverload) -> bool:
    """Whether the result depends only on the arguments, or is drawn integers."""
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


def _remember_constant(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], fake: FakeTensor
) -> None:
    fill: Any = _FILLS[func.overloadpacket]
    if isinstance(fill, str):
        names = [argument.name for argument in func._schema.arguments]
        fill = {**dict(zip(names, args)), **kwargs}[fill]
    with really():
        one = torch.full((), fill, dtype=fake.dtype, device="cpu")
        remember(fake, Known(one.expand(fake.shape)))


# ----------------------------------------------------------------------------------- writes


def _write(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Update the contents of the tensors that an op writes to."""
    written = _written(func, args, kwargs)
    if func.overloadpacket in _OVERWRITES and len(written) == 1:
        _overwrite(func, args, written[0])
    elif not _write_known(func, args, kwargs, written):
        for tensor in written:
            forget(tensor)


def _written(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found += [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    return found


_RELOCATING = (_aten.resize_, _aten.resize_as_, _aten.set_)


def _write_known(
    func: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    written: Sequence[torch.Tensor],
) -> bool:
    """Write to the known contents; whether that was possible."""
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    fakes = [tensor for tensor in inputs if isinstance(tensor, FakeTensor)]
    facts = _recall_all(inputs)
    if facts is None or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if func.overloadpacket in _RELOCATING or not _is_affordable(func, inputs, fakes):
        return False
    contents = [_contents.get(tensor.untyped_storage()._cdata) for tensor in written]
    with really():
        if not all(held is not None and held.make_writable() for held in contents):
            return False
        if not _run(func, args, kwargs):
            return False
    for held in contents:
        assert held is not None
        held.guesses = _guesses_of(facts)
        held.drawn = any(fact.drawn for fact in facts)
    return True


_OVERWRITES = (_aten.fill_, _aten.zero_, _aten.copy_)


def _overwrite(func: torch._ops.OpOverload, args: tuple[Any, ...], target: torch.Tensor) -> None:
    """``fill_``, ``zero_``, ``copy_``: old contents matter only if some of them stay."""
    if not isinstance(target, FakeTensor):
        return
    source = args[1] if len(args) > 1 else 0
    known = recall(source) if isinstance(source, torch.Tensor) else None
    if isinstance(source, torch.Tensor) and known is None:
        forget(target)
        return
    whole = target.untyped_storage().nbytes() == target.numel() * target.element_size()
    if not whole:
        if not _write_known(func, args, {}, [target]):
            forget(target)
        return
    with really():
        value = known.value if known is not None else torch.tensor(source, device="cpu")
        if value.numel() and _is_constant(value):
            value = value[(0,) * value.dim()]
        value = value.to(target.dtype, copy=True).expand(target.shape)
        forget(target)
        remember(target, replace(known, value=value) if known else Known(value))
