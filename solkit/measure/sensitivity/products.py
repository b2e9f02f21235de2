"""Contractions of one run: operations, and products of two nonzeros among them."""

# mypy: disable-error-code="no-untyped-call"
# (the dispatch modes are untyped)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from solkit.adapters.dispatch_modes import DispatchMode
from solkit.ops import Family, operator

_ATTENTIONS = "scaled_dot_product"
_MOST_PAIRS = 1 << 32
"""Limit of a query and a key: beyond it the products with values are not counted."""


@dataclass(frozen=True)
class Contraction:
    """One contraction.

    Attributes:
        flops: its operations; a multiply-add is two.
        nonzero: those of them whose two factors are not zero.
        feeding: for each factor, the numbers of the inputs that it depends on.
    """

    flops: int
    nonzero: int
    feeding: tuple[frozenset[int], ...]


def contractions_of(
    run: Callable[[], Any], inputs: Sequence[torch.Tensor]
) -> tuple[Contraction, ...]:
    """Return the contractions that a function computes, in order.

    Args:
        run: computes on `inputs`.
        inputs: their numbers are their positions.
    """
    counter = _Counter(inputs)
    with counter:
        run()
    return tuple(counter.found)


class _Counter(DispatchMode):
    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.found: list[Contraction] = []
        self._feeding: dict[int, frozenset[int]] = {}
        for number, tensor in enumerate(inputs):
            place = storage_address(tensor)
            self._feeding[place] = self._feeding.get(place, frozenset()) | {number}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func.overloadpacket).replace("::", ".")
        output = func(*args, **kwargs)
        record = operator(name)
        if record.family is Family.PRODUCT and record.factors:
            names = (argument.name for argument in func._schema.arguments)
            named = {**dict(zip(names, args)), **kwargs}
            lhs, rhs = (named[factor] for factor in record.factors)
            self._add_contraction(*_count_product(lhs, rhs), (lhs, rhs))
        elif _ATTENTIONS in name and "backward" not in name:
            self._add_contraction(*_count_attention(func, args, kwargs), args[:3])
        before = frozenset[int]().union(*map(self._feeding_inputs, tree_leaves((args, kwargs))))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
                self._feeding[storage_address(leaf)] = before
        return output

    def _feeding_inputs(self, leaf: Any) -> frozenset[int]:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
            return frozenset()
        return self._feeding.get(storage_address(leaf), frozenset())

    def _add_contraction(self, flops: int, nonzero: int, factors: Sequence[torch.Tensor]) -> None:
        feeding = tuple(map(self._feeding_inputs, factors))
        self.found.append(Contraction(flops, min(flops, nonzero), feeding))


def storage_address(tensor: torch.Tensor) -> int:
    """Return where a tensor's memory begins: tensors of one are views of each other."""
    return tensor.untyped_storage().data_ptr()


def _nonzero_mask(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()
    return tensor != 0


def _count_product(lhs: torch.Tensor, rhs: torch.Tensor) -> tuple[int, int]:
    """Return all operations, and those on two nonzeros: for each k, of column k and of row k."""
    lhs = lhs.unsqueeze(0) if lhs.dim() == 1 else lhs
    rhs = rhs.unsqueeze(-1) if rhs.dim() == 1 else rhs
    columns = _nonzero_mask(lhs).sum(-2).double()
    rows = _nonzero_mask(rhs).sum(-1).double()
    return 2 * lhs.numel() * rhs.shape[-1], 2 * int((columns * rows).sum())


def _count_attention(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """Return the scores and the weighted values of attention, with the pairs that a mask leaves."""
    names = [argument.name for argument in func._schema.arguments]
    arguments = {**dict(zip(names, args)), **kwargs}
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    mask = next(
        (arguments[n] for n in ("attn_mask", "attn_bias") if arguments.get(n) is not None), None
    )
    causal, scale = (
        bool(arguments.get("is_causal")),
        arguments.get("scale") or query.shape[-1] ** -0.5,
    )
    groups = query.shape[-3] // key.shape[-3]
    rows, columns = query.shape[-2], key.shape[-2]
    heads = query.numel() // (rows * query.shape[-1])
    allowed = torch.ones(rows, columns, dtype=torch.bool, device=query.device)
    allowed = allowed.tril() if causal else allowed
    pairs = heads * int(allowed.sum())
    flops = 2 * pairs * (query.shape[-1] + value.shape[-1])
    if heads * rows * columns > _MOST_PAIRS or query.dim() != 4:
        return flops, 0
    nonzero = 0
    for batch in range(query.shape[0]):
        for head in range(query.shape[1]):
            q, k = query[batch, head].float(), key[batch, head // groups].float()
            scores = (q @ k.mT) * scale
            if mask is not None:
                own = mask.expand(*query.shape[:2], rows, columns)[batch, head]
                hide = own.dtype is torch.bool
                scores = scores.masked_fill(~own, -torch.inf) if hide else scores + own
            weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
            met = (q != 0).float() @ (k != 0).float().mT  # counts below 2^24 are exact
            nonzero += 2 * int((met * allowed).double().sum())
            v = (value[batch, head // groups] != 0).sum(-1).double()
            nonzero += 2 * int(((weights > 0).sum(0).double() * v).sum())
    return flops, nonzero
