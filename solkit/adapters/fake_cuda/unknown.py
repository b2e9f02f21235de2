"""Ops whose result or shape depends on data: answered from known values, else by a guess."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from solkit.adapters.fake_cuda.composites import taken_apart
from solkit.adapters.fake_cuda.contents import (
    KnownContents,
    choices_of,
    evaluated,
    really,
    recall,
    remember,
    share_of,
)
from solkit.adapters.fake_cuda.guesses import guess, located, tell
from solkit.adapters.fake_cuda.shortcuts import at_once
from solkit.adapters.fake_cuda.values import compute_known, propagate
from solkit.errors import UnsupportedError

__all__ = ["KnownValues", "holding", "numpy_array"]

_aten = torch.ops.aten


class KnownValues(TorchDispatchMode):
    """Tracks the values of small tensors, and guesses unknown ones."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _MEETING_REAL and type(args[0]) in (torch.Tensor, torch.nn.Parameter):
            args = (_lifted(args[0]), *args[1:])
        answer = _ANSWERS.get(func)
        if answer is not None:
            return answer(*args, **kwargs)
        if (parts := taken_apart(self, func, args, kwargs)) is not NotImplemented:
            return parts
        if func is _aten.index.Tensor:
            out = func(args[0], _without_masks(args[1]))
        else:
            out = _call(func, args, kwargs)
        if isinstance(func, torch._ops.OpOverload):
            propagate(func, args, kwargs, out)
            _suppose(func, args, kwargs, out)
        return out


_MEETING_REAL = (_aten.lift_fresh.default, _aten._to_copy.default)
"""Ops that take real tensors: ``torch.tensor([...])``, ``torch.from_numpy(x).cuda()``."""


def _lifted(tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake of a real tensor; torch's own way imports its compiler, which takes 1 s."""
    lifted = torch.empty_strided(
        tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    fact = recall(tensor)
    if fact is not None:
        with really():
            value = fact.value.detach().clone()
        remember(cast(FakeTensor, lifted), KnownContents(value))
    return lifted


def _call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an op on fake tensors, or on known values if its shape depends on data."""
    out = at_once(func, args, kwargs)
    if out is not None:
        return out
    try:
        return func(*args, **kwargs)
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        values = compute_known(func, args, kwargs)
        if values is None and func in _SHAPE_GUESSES:
            return _SHAPE_GUESSES[func](*args, **kwargs)
        if values is None:
            raise UnsupportedError(f"the result of {func} depends on unknown data") from error
        like = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
        results = [holding(like, value) for value in values]
        return results[0] if len(func._schema.returns) == 1 else tuple(results)
    except NotImplementedError as error:  # torch looks for the real GPU's kernel
        if "Could not run" not in str(error):
            raise
        return _shaped_by_cpu(func, args, kwargs)
    except UnsupportedOperatorException as error:
        raise UnsupportedError(
            f"{func} has no kernel for fake tensors: register one with "
            f'torch.library.register_fake("{func._schema.name}")'
        ) from error


def _shaped_by_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an op without a kernel for fake tensors: the shapes that the CPU gives for zeros.

    `torch._subclasses.fake_tensor.run_fallback_kernel` does so on the GPU.
    """
    if func._schema.name.startswith("aten::_use_"):  # asks for a library, and there is none here
        return False
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if func._schema.is_mutable or not inputs or sum(t.numel() for t in inputs) > _SMALL:
        raise UnsupportedError(f"{func} has no kernel for fake tensors")

    def real(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
        fact = recall(leaf)
        zeros = torch.zeros(tuple(leaf.shape), dtype=leaf.dtype, device="cpu")
        return zeros if fact is None else fact.value

    with really():
        try:
            result = func(*tree_map(real, args), **tree_map(real, kwargs))
        except (NotImplementedError, RuntimeError) as error:
            raise UnsupportedError(f"{func} has no kernel for fake tensors") from error

    def fake(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.layout != torch.strided:
            raise UnsupportedError(f"{func} gives a tensor of layout {leaf.layout}")
        return inputs[0].new_empty_strided(tuple(leaf.shape), leaf.stride(), dtype=leaf.dtype)

    return tree_map(fake, result)


def holding(like: torch.Tensor, fact: KnownContents) -> torch.Tensor:
    """Return a fake tensor on the device of `like` with a known value."""
    tensor = like.new_empty(tuple(fact.value.shape), dtype=fact.value.dtype)
    remember(cast(FakeTensor, tensor), fact)
    return tensor


# ----------------------------------------------------------------------------------- values


def _item(tensor: torch.Tensor) -> Any:
    """``tensor.item()``: the known value, else True, 1 or 1.0."""
    whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    fact = evaluated(tensor) if whole else recall(tensor)
    if fact is None:
        # `torch.bool.is_floating_point` is False and bool(1) is True
        value = True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1
        guess(f"a {tensor.dtype} value read from a tensor was guessed to be {value}")
        return value
    with really():
        value = fact.value.item()
    if fact.drawn:
        guess(f"random integers were drawn on the CPU; a GPU draws others: {value} read")
    tell(*fact.guesses)
    return value


def numpy_array(tensor: torch.Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """``tensor.numpy()``: torch would read memory that a fake tensor lacks."""
    fact = recall(tensor) if tensor.is_floating_point() else evaluated(tensor)
    if fact is None:
        raise UnsupportedError("unknown contents of a tensor are read as an array")
    if fact.drawn:
        guess("a tensor read as an array holds random integers; a GPU draws others")
    tell(*fact.guesses)
    with really():
        return fact.value.clone().numpy(force=force)  # which the caller may write to


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    same = first.shape == second.shape
    if same:
        guess("two tensors were guessed to be equal")
    return same


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    fact = recall(tensor)
    if fact is not None:
        with really():
            value = fact.value.nonzero()
        tell(*fact.guesses)
        return holding(tensor, KnownContents(value, fact.guesses, fact.drawn)).to(torch.int64)
    share = share_of(tensor)
    sentence = _ALL_SET if share is None else f"one in {1 / share:g} elements {_GUESSED_SET}"
    guess(sentence)
    count = tensor.numel() if share is None else max(1, round(tensor.numel() * share))
    indices = tensor.new_empty((count, tensor.dim()), dtype=torch.int64)
    if indices.numel() <= _SMALL and tensor.numel():
        with really():
            places = torch.arange(count, device="cpu") * tensor.numel() // count
            value = torch.stack(torch.unravel_index(places, tuple(tensor.shape)), dim=-1)
        remember(cast(FakeTensor, indices), KnownContents(value, (located(sentence),)))
    return indices


def _without_masks(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Boolean indices (``x[mask]``) as equivalent integer ones."""
    integers: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            integers.append(index)
        else:
            integers.extend(_nonzero(index).unbind(1))
    return integers


def _masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    fact = recall(mask)
    if fact is None:
        guess(_ALL_SET)
        return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    with really():
        count = int(fact.value.expand(shape).sum())
    tell(*fact.guesses)
    return tensor.new_empty((count,))


def _device(tensor: torch.Tensor) -> torch.device:
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


_ANSWERS: dict[Any, Callable[..., Any]] = {
    torch.ops.prim.device.default: _device,
    _aten._local_scalar_dense.default: _item,
    _aten.lift_fresh.default: lambda tensor: tensor,
    _aten.equal.default: _equal,
    _aten.allclose.default: lambda first, second, *_, **__: _equal(first, second),
    _aten.nonzero.default: _nonzero,
    _aten.masked_select.default: _masked_select,
    _aten.quantize_per_tensor.default: _quantised,
    _aten.quantize_per_tensor.tensor_qparams: _quantised,
    _aten.quantize_per_channel.default: _quantised,
    _aten.quantize_per_tensor_dynamic.default: _quantised,
    _aten.int_repr.default: _int_repr,
    _aten.dequantize.self: _dequantised,
    _aten._nested_tensor_from_mask_left_aligned.default: lambda *_: False,  # a fast path
}


# ------------------------------------------------------------------------- suppositions

_GUESSED_SET = "of a mask were guessed to be set"
_ALL_SET = f"all elements {_GUESSED_SET}"
_SMALL = 1 << 20
"""No contents are guessed for tensors with more elements."""


def _suppose(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Guess contents that may decide what a program does; reported only if they do."""
    if func.overloadpacket is _aten.any:
        _suppose_none(out)
        return
    supposed = _SUPPOSED.get(func.overloadpacket)
    if supposed is None:
        return
    tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
    result = tensors[-1]  # values, indices
    if result.dtype != torch.int64 or result.numel() > _SMALL or recall(result) is not None:
        return
    names = [argument.name for argument in func._schema.arguments]
    fact = supposed(result, {**dict(zip(names, args)), **kwargs})
    if fact is not None:
        remember(result, fact)


def _suppose_none(result: Any) -> None:
    """Guess that a search finds nothing: mostly it looks for what must not be, as a NaN."""
    if isinstance(result, FakeTensor) and result.numel() == 1 and recall(result) is None:
        with really():
            value = torch.zeros(result.shape, dtype=result.dtype, device="cpu")
        remember(result, KnownContents(value, (located("any() was guessed to find nothing"),)))


def _balanced(indices: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Return indices that choose each element of a dimension equally often.

    Choice j of k in row t is (t * k + j) mod n, so no row chooses an element twice.
    """
    source: torch.Tensor = arguments["self"]
    if "dim" in arguments or "num_samples" not in arguments:
        dim = arguments.get("dim", None if "keepdim" in arguments else -1)
        choices = source.numel() if dim is None else source.shape[dim] if source.dim() else 1
    else:
        dim, choices = -1, source.shape[-1]
    shape = list(indices.shape)
    if not choices or not indices.numel():
        return None
    along = dim if dim is not None and len(shape) == source.dim() and shape else 0
    with really():
        size = shape.pop(along) if shape else 1
        value = torch.arange(indices.numel(), device="cpu") % choices
        value = value.view(*shape, size).movedim(-1, along) if indices.dim() else value.view(())
        value = value.contiguous()
    return KnownContents(value, (located(f"{_BALANCED} over {choices} choices"),))


_BALANCED = "routing was guessed balanced"


def _all_set(count: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Return a mask that selects everything: the usual case, and the largest count."""
    mask: torch.Tensor = arguments["self"]
    if mask.dtype != torch.bool or not count.numel():
        return None
    with really():
        value = torch.full((), mask.numel() // count.numel(), device="cpu").expand(count.shape)
    return KnownContents(value, (located(_ALL_SET),))


def _even_counts(counts: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Suppose that each value occurs equally often."""
    bins, number = counts.numel(), arguments["self"].numel()
    if not bins or arguments.get("weights") is not None:
        return None
    with really():
        value = number // bins + (torch.arange(bins, device="cpu") < number % bins).long()
    return KnownContents(
        value, (located(f"values were guessed to be spread evenly over {bins} bins"),)
    )


_SUPPOSED: dict[Any, Callable[[torch.Tensor, dict[str, Any]], KnownContents | None]] = {
    **dict.fromkeys(
        (_aten.topk, _aten.sort, _aten.argsort, _aten.argmax, _aten.argmin, _aten.max, _aten.min),
        _balanced,
    ),
    **dict.fromkeys((_aten.multinomial, _aten.kthvalue, _aten.median, _aten.mode), _balanced),
    **dict.fromkeys((_aten.sum, _aten.count_nonzero), _all_set),
    _aten.bincount: _even_counts,
}


# ---------------------------------------------------------------------------------- shapes


def _unique(tensor: torch.Tensor, *options: Any, **_: Any) -> tuple[torch.Tensor, ...]:
    """Return as few values as there may be: no kernel writes fewer."""
    del options
    count = min(choices_of(tensor) or 1, tensor.numel())
    guess(f"{_FEW_VALUES.format(count)} of {tensor.numel()} elements")
    places = tensor.new_empty(tensor.shape, dtype=torch.int64)
    return tensor.new_empty((count,)), places, places.new_empty((count,))


_FEW_VALUES = "a bound must guess few: {} different ones were guessed"


def _unique_rows(tensor: torch.Tensor, dim: int, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
    rows, count = tensor.shape[dim], min(tensor.shape[dim], 1)
    guess(f"{_FEW_VALUES.format(count)} of {rows} slices")
    places = tensor.new_empty((rows,), dtype=torch.int64)
    shape = [count if d == dim % tensor.dim() else n for d, n in enumerate(tensor.shape)]
    return tensor.new_empty(shape), places, places.new_empty((count,))


def _bincount(
    tensor: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    bins = minlength or tensor.numel()
    if not minlength:
        guess(f"the values that bincount meets were guessed to be below {bins}")
    dtype = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        dtype = torch.float32
    return tensor.new_empty((bins,), dtype=dtype)


def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    if output_size is None:
        guess("repeats were guessed to be 1")
    return repeats.new_empty((repeats.numel() if output_size is None else output_size,))


def _ctc_loss(
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


_SHAPE_GUESSES: dict[Any, Callable[..., Any]] = {
    _aten._unique2.default: _unique,
    _aten._unique.default: lambda *args, **kwargs: _unique(*args, **kwargs)[:2],
    _aten.unique_consecutive.default: _unique,
    _aten.unique_dim.default: _unique_rows,
    _aten.unique_dim_consecutive.default: _unique_rows,
    _aten.bincount.default: _bincount,
    **dict.fromkeys((_aten._ctc_loss.default, _aten._ctc_loss.Tensor), _ctc_loss),
    _aten.repeat_interleave.Tensor: _repeat_interleave,
    _aten.linalg_lstsq.default: _least_squares,
}
