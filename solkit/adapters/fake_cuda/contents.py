"""The contents of fake tensors, if they are known.

Contents belong to a storage, so writes through one view are seen through all. Constants (``zeros``,
``full`` and results of these) are kept as one element.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters.fake_cuda.deferred_values import Later, compute_later
from solkit.adapters.fake_cuda.guesses import report_earlier_guesses

_KNOWN_TRUTHS, _KNOWN_INTEGERS, _KNOWN_FLOATS = 1 << 28, 1 << 26, 1 << 24
"""Larger results are not computed: 16 Mi elements take about 20 ms an op. A mask of 16,384 x 16,384
is 256 Mi truths."""

_KNOWN_BYTES = 1 << 30
"""The most bytes of contents held at a time; beyond, results are not computed. The distances of
8192 x 8192 places take 512 Mi, and two masks of 16,384 x 16,384 take 256 Mi each."""


@dataclass(frozen=True)
class KnownContents:
    """A tensor's contents.

    Attributes:
        value: the contents, on the CPU; read-only.
        guesses: the guesses that they rely on, each a sentence.
        drawn: whether they come from random integers.
    """

    value: torch.Tensor
    guesses: tuple[str, ...] = ()
    drawn: bool = False


@dataclass(frozen=True)
class Rows:
    """Elements of a tensor that covers its storage, computed by rows.

    Attributes:
        shape, dtype: of the tensor, which is contiguous.
        between: returns those from one row up to another one.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    between: Callable[[int, int], torch.Tensor]


class Contents:
    """A storage's contents; they live as long as a tensor of that storage.

    Attributes:
        storage: held, so that no other storage gets its address.
        flat: its elements in order; one element if all are equal; ``None`` if unknown.
        shared: whether a view of `flat` exists, which must not change.
        share: the share of nonzero elements, if only that is known.
        choices: the number of different values, at the most; ``None`` if unknown.
        later: how to compute the elements, if they were not.
        rows: how to compute elements that there is no room for, some rows at a time.
    """

    held_bytes = 0

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage
        self.guesses: tuple[str, ...] = ()
        self.drawn = False
        self.shared = False
        self.share: float | None = None
        self.choices: int | None = None
        self.later: Later | None = None
        self.rows: Rows | None = None
        self.flat: torch.Tensor | None = None

    def hold_elements(
        self, flat: torch.Tensor | None, guesses: tuple[str, ...], drawn: bool
    ) -> None:
        """Replace the elements."""
        Contents.held_bytes += _size_bytes(flat) - _size_bytes(self.flat)
        self.flat, self.guesses, self.drawn, self.shared = flat, guesses, drawn, False
        self.share = self.later = self.choices = self.rows = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Contents:
        return self  # a deep copy of a tensor copies its attributes, but has its own storage

    def __del__(self) -> None:
        Contents.held_bytes -= _size_bytes(self.flat)

    @property
    def elements(self) -> int:
        """The number of elements that fit."""
        assert self.flat is not None
        return self.storage.nbytes() // self.flat.element_size()

    @property
    def constant(self) -> bool:
        """True if one element represents several."""
        return self.flat is not None and self.flat.numel() == 1 < self.elements

    @property
    def whole(self) -> torch.Tensor:
        """Elements in order; one that stands for all is expanded."""
        assert self.flat is not None
        return self.flat.expand(self.elements) if self.constant else self.flat

    def elements_seen_by(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the elements of a tensor on this storage."""
        if self.flat is None or self.flat.dtype != tensor.dtype:
            return None
        if self.constant:
            return self.flat[0].expand(tensor.shape)
        return self.flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def make_writable(self) -> bool:
        """Give every element its own unshared place; whether there is room."""
        assert self.flat is not None
        if self.constant:
            if self.elements > most_elements(self.flat) or not has_room_for(
                self.elements, self.flat
            ):
                return False
            self.hold_elements(
                self.flat.expand(self.elements).contiguous(), self.guesses, self.drawn
            )
        elif self.shared:
            self.hold_elements(self.flat.clone(), self.guesses, self.drawn)
        return True


class InputContents:
    """The contents of tensors at one time, to which they can be reset after writes."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._kept: list[tuple[torch.Tensor, Contents | None, dict[str, Any]]] = []
        for handle, tensor in {t.untyped_storage()._cdata: t for t in tensors}.items():
            contents = contents_of_storage.get(handle)
            if contents is not None:
                contents.shared = True  # a write makes a copy
            self._kept.append((tensor, contents, {} if contents is None else {**vars(contents)}))

    def restore(self) -> None:
        """Give the tensors the contents that they had."""
        for tensor, contents, fields in self._kept:
            if contents is None:
                forget_contents(tensor)
                continue
            contents.hold_elements(fields["flat"], fields["guesses"], fields["drawn"])
            vars(contents).update(fields)
            attach_contents(tensor, contents)


contents_of_storage: WeakValueDictionary[int, Contents] = (
    WeakValueDictionary()
)  # by the storage's handle


def known_value(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """Return the contents of a tensor, if they follow from the program without guesses.

    Returns:
        A read-only array of the tensor's shape, float32 for dtypes that numpy lacks; ``None`` if
        the contents are unknown.
    """
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if isinstance(tensor, FakeTensor) and (contents is None or contents.flat is None):
        return None
    with computing_really():
        fact = recall_contents(tensor)
        if fact is None or fact.guesses:
            return None
        return _as_array(protect_from_writes(tensor, fact.value))


def presumed_value(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """As `known_value`; or the contents that random numbers or guesses give, which are told."""
    fact = recall_evaluated(tensor)
    if fact is None or not fact.guesses:
        return known_value(tensor)
    report_earlier_guesses(*fact.guesses)
    with computing_really():
        return _as_array(fact.value)


def presumed_elements(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """Return all elements of a tensor's storage in order, in its dtype; as `presumed_value`."""
    fact = recall_evaluated(tensor)
    if fact is None:
        return None
    report_earlier_guesses(*fact.guesses)
    return _elements_in_order(tensor)


def drawn_elements(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """Return all elements of a tensor's storage, as `presumed_elements`; ``None`` if guessed."""
    fact = recall_evaluated(tensor)
    return None if fact is None or fact.guesses else _elements_in_order(tensor)


def _elements_in_order(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    storage = tensor.untyped_storage()
    contents = contents_of_storage.get(storage._cdata)
    with computing_really():
        if isinstance(tensor, FakeTensor):
            assert contents is not None
            contents.shared = True  # a write makes a copy
            return _as_array(contents.whole)
        count = storage.nbytes() // tensor.element_size()
        fits = count <= most_elements(tensor)
        return _as_array(tensor.as_strided((count,), (1,), 0)) if fits else None


def _as_array(value: torch.Tensor) -> npt.NDArray[Any]:
    """Return values as an array that takes no more memory than they do."""
    try:
        return value.numpy(force=True)
    except TypeError:  # bfloat16, fp8
        once = value[tuple(slice(None if step else 1) for step in value.stride())]
        return once.float().expand(value.shape).numpy(force=True)


def recall_evaluated(tensor: torch.Tensor) -> KnownContents | None:
    """As `recall_contents`, but contents that follow from random floats are computed now."""
    fact = recall_contents(tensor)
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if fact is not None or contents is None or contents.later is None:
        return fact
    later = contents.later
    with computing_really():
        flat = compute_later(later)
    contents.later = None
    if flat is not None and has_room_for(flat.numel(), flat):
        contents.hold_elements(flat, (), drawn=not later.call.is_exact)
    return recall_contents(tensor)


def compute_indices(tensors: Iterable[torch.Tensor]) -> None:
    """Compute the integers among tensors that follow from random floats and may name places."""
    for tensor in tensors:
        if tensor.dtype in _PLACES:
            recall_evaluated(tensor)


_PLACES = (torch.int32, torch.int64, torch.uint32, torch.uint64)


def recall_exact(tensor: torch.Tensor) -> KnownContents | None:
    """As `recall_evaluated`, of what a real run draws on the CPU; not of what a GPU draws."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    later = None if contents is None else contents.later
    is_exact = later is not None and later.call.is_exact
    return recall_evaluated(tensor) if is_exact else recall_contents(tensor)


def protect_from_writes(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, protected from later writes to the storage."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if contents is None or contents.flat is None:
        return value
    if not contents.constant and 4 * value.numel() < contents.flat.numel():
        return value.clone()  # else the next write copies all
    contents.shared = True
    return value


def forget_contents(tensor: torch.Tensor) -> None:
    """Mark a tensor's contents as unknown, e.g. since a kernel may have written to it."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if contents is not None:
        contents.hold_elements(None, (), False)


_STARTS_AT_ZERO = "State that starts at zero was taken to be zero where it decides what runs."
_INDICES = (torch.bool, torch.int32, torch.int64)


def hold_as_state(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Let tensors that are zero all over stand for any state, such as a cache or a moment.

    Their contents still decide what runs, as a guess. Truths and integers that may name places are
    data.

    Returns:
        Those tensors.
    """
    states = []
    for tensor in tensors:
        contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
        if contents is None or contents.flat is None or contents.flat.dtype in _INDICES:
            continue
        with computing_really():
            if not contents.flat.any():
                contents.guesses = (*contents.guesses, _STARTS_AT_ZERO)
                states.append(tensor)
    return states


def remember_contents(tensor: FakeTensor, fact: KnownContents) -> None:
    """Keep a tensor's contents, if there is room; the value must be unshared."""
    value, storage = fact.value, tensor.untyped_storage()
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        return
    elements = storage.nbytes() // value.element_size()
    constant = value.numel() > 1 and is_constant(value)
    if not constant and not has_room_for(elements, value):
        return
    with computing_really():
        flat = value.as_strided((1,), (1,)) if constant else _storage_order(value, tensor, elements)
    contents = contents_of_storage.get(storage._cdata) or Contents(storage)
    contents.hold_elements(flat, fact.guesses, fact.drawn)
    attach_contents(tensor, contents)


def _storage_order(value: torch.Tensor, like: torch.Tensor, elements: int) -> torch.Tensor:
    """Return the elements of a storage in order, where `like` is the view with `value`."""
    if elements == value.numel() > 0 and value.stride() == like.stride():
        return value.as_strided((elements,), (1,))
    flat = value.new_zeros(elements)
    flat.as_strided(like.shape, like.stride(), like.storage_offset()).copy_(value)
    return flat


def attach_contents(tensor: torch.Tensor, contents: Contents) -> None:
    """Let a tensor keep the contents of its storage alive."""
    contents_of_storage[contents.storage._cdata] = contents
    tensor._solkit_contents = contents  # type: ignore[attr-defined]  # keeps it alive


def recall_contents(tensor: torch.Tensor) -> KnownContents | None:
    """Return the contents of a tensor, known or guessed; ``None`` if there are none."""
    if not isinstance(tensor, FakeTensor):
        return KnownContents(tensor) if tensor.numel() <= most_elements(tensor) else None
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if contents is None or contents.flat is None:
        return None
    with computing_really():
        value = contents.elements_seen_by(tensor)
    return None if value is None else KnownContents(value, contents.guesses, contents.drawn)


@contextlib.contextmanager
def computing_really() -> Iterator[None]:
    """Compute on real tensors, outside the program's modes and transforms (`torch.func`)."""
    global _is_computing
    if _is_computing:  # entering the modes takes longer than most of what is computed
        yield
        return
    outside = torch._C._DisableFuncTorch
    with _disable_current_modes(), outside(), torch.inference_mode(False), torch.no_grad():
        _is_computing = True
        try:
            yield
        finally:
            _is_computing = False


_is_computing = False


def is_constant(value: torch.Tensor) -> bool:
    """Tell whether all elements are the same one."""
    return not any(step for n, step in zip(value.shape, value.stride()) if n > 1)


def _size_bytes(flat: torch.Tensor | None) -> int:
    return 0 if flat is None else flat.numel() * flat.element_size()


def most_elements(like: torch.Tensor) -> int:
    """Return the most elements of a dtype that are computed."""
    if like.dtype is torch.bool:
        return _KNOWN_TRUTHS
    floating = like.dtype.is_floating_point or like.dtype.is_complex
    return _KNOWN_FLOATS if floating else _KNOWN_INTEGERS


def has_room_for(elements: int, like: torch.Tensor) -> bool:
    """Tell whether so many more elements of a dtype may be held."""
    return Contents.held_bytes + elements * like.element_size() <= _KNOWN_BYTES


def choices_of(tensor: torch.Tensor) -> int | None:
    """Return the number of different values of a tensor, at the most; ``None`` if unknown."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    if contents is not None and contents.choices is not None:
        return contents.choices
    return {torch.bool: 2, torch.int8: 256, torch.uint8: 256}.get(tensor.dtype)


def recall_share(tensor: torch.Tensor) -> float | None:
    """Return the share of a tensor's nonzero elements, if only that is known."""
    contents = contents_of_storage.get(tensor.untyped_storage()._cdata)
    return None if contents is None else contents.share
