"""Inputs on which a variant must agree with the reference wherever its parent does.

A problem's own inputs hide errors: masks that are the same when transposed, weights of ones, biases
of zeros, lengths that are all the same, rows that lie without gaps. So some sizes are tried with
other values and layouts. What the parent does not take, since it needs what the problem's inputs
have, is not asked of a variant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from solkit.kernelfiles import Workload

_PADDING = 3
"""Elements between rows: with it, rows of even length begin at odd places."""
_STEP = 0.5  # largest change of a constant
_READS = ("stride", "is_contiguous", "contiguous")


@dataclass(frozen=True)
class Change:
    """Difference of inputs from the problem's own.

    Attributes:
        layout: ``"padded"`` for gaps behind rows, ``"transposed"`` for columns that lie together;
            empty for the problem's own.
        is_redrawn: whether values of few kinds are other ones.
        leaves: which inputs are laid out otherwise, by place.
    """

    layout: str = ""
    is_redrawn: bool = False
    leaves: tuple[int, ...] = ()

    def describe(self) -> str:
        """Return the change in words; nothing for the problem's own inputs."""
        values = ["other masks and constants"] if self.is_redrawn else []
        rows = [f"{self.layout} inputs"] if self.layout else []
        return " and ".join(values + rows)


OWN = Change()
"""The problem's own inputs."""


def changed_inputs(workload: Workload, change: Change) -> tuple[Any, Any]:
    """Return a workload's arguments, changed; values are drawn from torch's generator."""
    leaves, form = tree_flatten((workload.args, dict(workload.kwargs)))
    if change.is_redrawn:
        leaves = [_redrawn(leaf) for leaf in leaves]
    for place in change.leaves:
        leaves[place] = _laid_out(leaves[place], change.layout)
    args, kwargs = tree_unflatten(leaves, form)
    return args, kwargs


def has_plain_values(workload: Workload) -> bool:
    """Tell whether some input has values of few kinds, of which others can be drawn."""
    leaves, _ = tree_flatten((workload.args, dict(workload.kwargs)))
    return any(_redrawn(leaf) is not leaf for leaf in leaves)


@contextlib.contextmanager
def noted_strides(workload: Workload, is_launching: Callable[[], bool]) -> Iterator[set[int]]:
    """Yield the places of inputs whose strides are asked for meanwhile: more as they are asked.

    Args:
        workload: whose inputs are watched.
        is_launching: whether a launch asks, which copies all that it is given.
    """
    leaves, _ = tree_flatten((workload.args, dict(workload.kwargs)))
    starts = {
        leaf.untyped_storage().data_ptr(): place
        for place, leaf in enumerate(leaves)
        if _has_layout(leaf)
    }
    noted: set[int] = set()
    tensor: Any = torch.Tensor
    for name in _READS:
        setattr(tensor, name, _noting(getattr(tensor, name), starts, noted, is_launching))
    try:
        yield noted
    finally:
        for name in _READS:
            delattr(tensor, name)  # those of its base class are seen again


def _noting(
    original: Any, starts: dict[int, int], noted: set[int], is_launching: Callable[[], bool]
) -> Any:
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        place = None if is_launching() else starts.get(tensor.untyped_storage().data_ptr())
        if place is not None:
            noted.add(place)
        return original(tensor, *args, **kwargs)

    return method


def _has_layout(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() > 1 and leaf.layout is torch.strided


# ------------------------------------------------------------------------------------- layouts


def _laid_out(leaf: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "transposed":
        return leaf.transpose(-1, -2).contiguous().transpose(-1, -2)
    width = leaf.shape[-1]
    padded = leaf.new_zeros((*leaf.shape[:-1], width + _PADDING))
    if leaf.is_floating_point():
        padded = torch.full_like(padded, float("nan"))
    padded[..., :width] = leaf
    return padded[..., :width]


# ------------------------------------------------------------------------------------- values


def _redrawn(leaf: Any) -> Any:
    """Return other values of the same kind where there are few: what is drawn stays as it is."""
    if not isinstance(leaf, torch.Tensor) or leaf.numel() < 2 or leaf.element_size() < 1:
        return leaf
    if leaf.dtype is torch.bool:
        return torch.rand(leaf.shape) < 0.5
    if leaf.is_floating_point():
        return _redrawn_floats(leaf)
    return leaf if leaf.is_complex() else _redrawn_integers(leaf)


def _redrawn_floats(leaf: torch.Tensor) -> torch.Tensor:
    if leaf.element_size() == 1:
        return leaf
    if bool((leaf == leaf.flatten()[0]).all()):
        return leaf + torch.rand(leaf.shape).to(leaf.dtype) * _STEP
    is_square = leaf.dim() > 1 and leaf.shape[-1] == leaf.shape[-2]
    is_symmetric = is_square and torch.equal(leaf, leaf.transpose(-1, -2))
    return _shuffled(leaf) if is_symmetric or len(torch.unique(leaf)) == 2 else leaf


def _redrawn_integers(leaf: torch.Tensor) -> torch.Tensor:
    """Return shorter lengths for equal ones, and places in another order; offsets stay sorted."""
    first = int(leaf.flatten()[0])
    if bool((leaf == first).all()):
        if first < 2:
            return leaf
        return torch.randint((first + 1) // 2, first + 1, leaf.shape).to(leaf.dtype)
    ramp = torch.arange(leaf.shape[-1], dtype=leaf.dtype)
    return _shuffled(leaf) if bool((leaf == ramp).all()) else leaf


def _shuffled(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.flatten()[torch.randperm(leaf.numel())].view(leaf.shape)
