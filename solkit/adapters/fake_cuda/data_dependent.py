"""Results and shapes that depend on data, from known values or by a guess."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import FakeTensor

from solkit.adapters.fake_cuda.contents import (
    KnownContents,
    choices_of,
    computing_really,
    recall_evaluated,
    recall_exact,
    recall_share,
    remember_contents,
)
from solkit.adapters.fake_cuda.guesses import locate_sentence, report_earlier_guesses, report_guess
from solkit.adapters.fake_cuda.suppositions import ALL_SET, GUESSED_SET, SMALL
from solkit.errors import UnsupportedError

_aten = torch.ops.aten


def make_holding(like: torch.Tensor, fact: KnownContents) -> torch.Tensor:
    """Return a fake tensor on the device of `like` with a known value."""
    tensor = like.new_empty(tuple(fact.value.shape), dtype=fact.value.dtype)
    remember_contents(cast(FakeTensor, tensor), fact)
    return tensor


def _answer_item(tensor: torch.Tensor) -> Any:
    """``tensor.item()``: the known value, else True, 1 or 1.0."""
    whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    fact = recall_evaluated(tensor) if whole else recall_exact(tensor)
    if fact is None:
        # `torch.bool.is_floating_point` is False and bool(1) is True
        value = True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1
        report_guess(f"a {tensor.dtype} value read from a tensor was guessed to be {value}")
        return value
    with computing_really():
        value = fact.value.item()
    if fact.drawn:
        report_guess("random integers that were drawn on the CPU are read; a GPU draws others")
    report_earlier_guesses(*fact.guesses)
    return value


def numpy_array(tensor: torch.Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """``tensor.numpy()``: torch would read memory that a fake tensor lacks."""
    fact = recall_exact(tensor) if tensor.is_floating_point() else recall_evaluated(tensor)
    if fact is None:
        return _guessed_array(tensor)
    if fact.drawn:
        report_guess("a tensor read as an array holds random integers; a GPU draws others")
    report_earlier_guesses(*fact.guesses)
    with computing_really():
        return fact.value.clone().numpy(force=force)  # which the caller may write to


def _guessed_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return an array of ones for unknown contents: `_answer_item` answers 1 as well."""
    if tensor.numel() > _MOST_GUESSED:
        raise UnsupportedError("unknown contents of a large tensor are read as an array")
    report_guess(f"unknown contents of a {tensor.dtype} tensor read as an array were guessed: 1")
    with computing_really():
        return torch.ones(tuple(tensor.shape), dtype=tensor.dtype, device="cpu").numpy()


_MOST_GUESSED = 1 << 26  # elements


def _answer_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    same = first.shape == second.shape
    if same:
        report_guess("two tensors were guessed to be equal")
    return same


def _answer_nonzero(tensor: torch.Tensor) -> torch.Tensor:
    fact = recall_exact(tensor)
    if fact is not None:
        with computing_really():
            value = fact.value.nonzero()
        report_earlier_guesses(*fact.guesses)
        return make_holding(tensor, KnownContents(value, fact.guesses, fact.drawn)).to(torch.int64)
    share = recall_share(tensor)
    sentence = ALL_SET if share is None else f"one in {1 / share:g} elements {GUESSED_SET}"
    report_guess(sentence)
    count = tensor.numel() if share is None else max(1, round(tensor.numel() * share))
    indices = tensor.new_empty((count, tensor.dim()), dtype=torch.int64)
    if indices.numel() <= SMALL and tensor.numel():
        with computing_really():
            places = torch.arange(count, device="cpu") * tensor.numel() // count
            value = torch.stack(torch.unravel_index(places, tuple(tensor.shape)), dim=-1)
        remember_contents(
            cast(FakeTensor, indices), KnownContents(value, (locate_sentence(sentence),))
        )
    return indices


def integer_indices(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Return boolean indices (``x[mask]``) as equivalent integer ones."""
    integers: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            integers.append(index)
        else:
            integers.extend(_answer_nonzero(index).unbind(1))
    return integers


def _masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    fact = recall_exact(mask)
    if fact is None:
        report_guess(ALL_SET)
        return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    with computing_really():
        count = int(fact.value.expand(shape).sum())
    report_earlier_guesses(*fact.guesses)
    return tensor.new_empty((count,))


def _answer_device(tensor: torch.Tensor) -> torch.device:
    """``tensor.device``, the most frequent op that torch dispatches."""
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


_WORDS = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
"""Integers that stand for quantised numbers: fake tensors lose a quantised dtype."""


def _quantised(tensor: torch.Tensor, *options: Any, dtype: Any = None) -> torch.Tensor:
    kind = next((o for o in (dtype, *options) if isinstance(o, torch.dtype)), torch.quint8)
    return tensor.new_empty(tensor.shape, dtype=_WORDS[kind])


def _int_repr(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_empty(tensor.shape)


def _dequantised(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_empty(tensor.shape, dtype=torch.float32)


ANSWERS: dict[Any, Callable[..., Any]] = {
    torch.ops.prim.device.default: _answer_device,
    _aten._local_scalar_dense.default: _answer_item,
    _aten.lift_fresh.default: lambda tensor: tensor,
    _aten.equal.default: _answer_equal,
    _aten.allclose.default: lambda first, second, *_, **__: _answer_equal(first, second),
    _aten.nonzero.default: _answer_nonzero,
    _aten.masked_select.default: _masked_select,
    _aten.quantize_per_tensor.default: _quantised,
    _aten.quantize_per_tensor.tensor_qparams: _quantised,
    _aten.quantize_per_channel.default: _quantised,
    _aten.quantize_per_tensor_dynamic.default: _quantised,
    _aten.int_repr.default: _int_repr,
    _aten.dequantize.self: _dequantised,
    _aten._nested_tensor_from_mask_left_aligned.default: lambda *_: False,  # a fast path
}
"""By operator: what its result is."""


def _guess_unique(tensor: torch.Tensor, *options: Any, **_: Any) -> tuple[torch.Tensor, ...]:
    """Return as few values as there may be: no kernel writes fewer."""
    del options
    count = min(choices_of(tensor) or 1, tensor.numel())
    report_guess(f"{_FEW_VALUES.format(count)} of {tensor.numel()} elements")
    places = tensor.new_empty(tensor.shape, dtype=torch.int64)
    return tensor.new_empty((count,)), places, places.new_empty((count,))


_FEW_VALUES = "a bound must guess few: {} different ones were guessed"


def _unique_rows(tensor: torch.Tensor, dim: int, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
    rows, count = tensor.shape[dim], min(tensor.shape[dim], 1)
    report_guess(f"{_FEW_VALUES.format(count)} of {rows} slices")
    places = tensor.new_empty((rows,), dtype=torch.int64)
    shape = [count if d == dim % tensor.dim() else n for d, n in enumerate(tensor.shape)]
    return tensor.new_empty(shape), places, places.new_empty((count,))


def _guess_bincount(
    tensor: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    bins = minlength or tensor.numel()
    if not minlength:
        report_guess(f"the values that bincount meets were guessed to be below {bins}")
    dtype = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        dtype = torch.float32
    return tensor.new_empty((bins,), dtype=dtype)


def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    if output_size is None:
        report_guess("repeats were guessed to be 1")
    return repeats.new_empty((repeats.numel() if output_size is None else output_size,))


def _guess_ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, *_: Any, **__: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a loss per sequence, and a workspace: aten/src/ATen/native/cuda/LossCTC.cu."""
    steps, count, _classes = log_probs.shape
    states = 2 * targets.shape[-1] + 1
    return log_probs.new_empty((count,)), log_probs.new_empty((count, steps, states))


def _least_squares(
    matrix: torch.Tensor, sides: torch.Tensor, *_: Any, **__: Any
) -> tuple[torch.Tensor, ...]:
    """Return a solution, residuals of tall matrices, and no rank, as a GPU's driver has it."""
    rows, columns = matrix.shape[-2:]
    is_vector = sides.dim() == matrix.dim() - 1
    batch, count = matrix.shape[:-2], 1 if is_vector else sides.shape[-1]
    solution = matrix.new_empty((*batch, columns) if is_vector else (*batch, columns, count))
    residuals = matrix.new_empty((*batch, count) if rows > columns else (0,))
    return solution, residuals, matrix.new_empty((0,), dtype=torch.int64), matrix.new_empty((0,))


SHAPE_GUESSES: dict[Any, Callable[..., Any]] = {
    _aten._unique2.default: _guess_unique,
    _aten._unique.default: lambda *args, **kwargs: _guess_unique(*args, **kwargs)[:2],
    _aten.unique_consecutive.default: _guess_unique,
    _aten.unique_dim.default: _unique_rows,
    _aten.unique_dim_consecutive.default: _unique_rows,
    _aten.bincount.default: _guess_bincount,
    **dict.fromkeys((_aten._ctc_loss.default, _aten._ctc_loss.Tensor), _guess_ctc_loss),
    _aten.repeat_interleave.Tensor: _repeat_interleave,
    _aten.linalg_lstsq.default: _least_squares,
}
"""By operator: a result of a guessed shape, where unknown data decide the shape."""
