"""Contents that a program most likely has where it looks: guesses, reported only if they decide.

A mask selects everything, a search finds nothing, routing is balanced, bins are filled evenly.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from solkit.adapters.fake_cuda.contents import (
    KnownContents,
    computing_really,
    recall_exact,
    remember_contents,
)
from solkit.adapters.fake_cuda.guesses import locate_sentence

_aten = torch.ops.aten

GUESSED_SET = "of a mask were guessed to be set"
"""End of a sentence about a mask whose share of set elements was guessed."""
ALL_SET = f"all elements {GUESSED_SET}"
"""The usual guess of a mask."""
SMALL = 1 << 20
"""No contents are guessed for tensors with more elements."""


def named_arguments(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by their names in the schema."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}


def suppose_contents(
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
    if result.dtype != torch.int64 or result.numel() > SMALL or recall_exact(result) is not None:
        return
    fact = supposed(result, named_arguments(func, args, kwargs))
    if fact is not None:
        remember_contents(result, fact)


def _suppose_none(result: Any) -> None:
    """Guess that a search finds nothing: mostly it looks for what must not be, as a NaN."""
    if isinstance(result, FakeTensor) and result.numel() == 1 and recall_exact(result) is None:
        with computing_really():
            value = torch.zeros(result.shape, dtype=result.dtype, device="cpu")
        remember_contents(
            result, KnownContents(value, (locate_sentence("any() was guessed to find nothing"),))
        )


def _balanced_indices(indices: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Return indices that choose each element of a dimension equally often.

    Choice j of k in row t is (t * k + j) mod n, so no row chooses an element twice. Where all are
    chosen, as by a sort, rows are shifted against each other: a program may take the first few.
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
    with computing_really():
        size = shape.pop(along) if shape else 1
        shift = size if size < choices else max(1, round(0.618 * choices))
        rows = torch.arange(indices.numel() // size, device="cpu")
        value = (rows[:, None] * shift + torch.arange(size, device="cpu")) % choices
        value = value.view(*shape, size).movedim(-1, along) if indices.dim() else value.view(())
        value = value.contiguous()
    return KnownContents(value, (locate_sentence(f"{_BALANCED} over {choices} choices"),))


_BALANCED = "routing was guessed balanced"


def _all_set_mask(count: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Return a mask that selects everything: the usual case, and the largest count."""
    mask: torch.Tensor = arguments["self"]
    if mask.dtype != torch.bool or not count.numel():
        return None
    with computing_really():
        value = torch.full((), mask.numel() // count.numel(), device="cpu").expand(count.shape)
    return KnownContents(value, (locate_sentence(ALL_SET),))


def _even_counts(counts: torch.Tensor, arguments: dict[str, Any]) -> KnownContents | None:
    """Suppose that each value occurs equally often."""
    bins, number = counts.numel(), arguments["self"].numel()
    if not bins or arguments.get("weights") is not None:
        return None
    with computing_really():
        value = number // bins + (torch.arange(bins, device="cpu") < number % bins).long()
    return KnownContents(
        value, (locate_sentence(f"values were guessed to be spread evenly over {bins} bins"),)
    )


_SUPPOSED: dict[Any, Callable[[torch.Tensor, dict[str, Any]], KnownContents | None]] = {
    **dict.fromkeys(
        (_aten.topk, _aten.sort, _aten.argsort, _aten.argmax, _aten.argmin, _aten.max, _aten.min),
        _balanced_indices,
    ),
    **dict.fromkeys(
        (_aten.multinomial, _aten.kthvalue, _aten.median, _aten.mode), _balanced_indices
    ),
    **dict.fromkeys((_aten.sum, _aten.count_nonzero), _all_set_mask),
    _aten.bincount: _even_counts,
}
