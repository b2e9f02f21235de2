"""The reference, where a candidate's own choice among values equal within rounding is taken.

Notation
    s        scores that an operator of the reference selects from: those of a maximum or a sorting
    c        relative error allowed for computing (`solkit.core.rounding.computing_share`)

Places that a candidate gives are a right choice if none is named twice, and the score of each is
the one of that rank, within c of it. Scores that are an input as it was given have no error, so
theirs must be equal. What follows a right choice in the reference, such as counts or gathered
values, is then computed from it.
"""

from __future__ import annotations

from typing import Any

import torch

from solkit.adapters.dispatch_modes import DispatchMode
from solkit.core import Tolerance
from solkit.core.rounding import computing_share
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.inputs import copy_workload

_DESCENDING = {"argmax": True, "argmin": False, "max": True, "min": False}


def outputs_as_chosen(
    workload: Workload, seed: int, tolerance: Tolerance | None, places: torch.Tensor
) -> list[torch.Tensor]:
    """Return the reference's outputs, in its own precision, with right choices of a candidate.

    Args:
        workload: it stays unchanged.
        seed: set before the run.
        tolerance: the file's own.
        places: an output of the candidate, integers: the shape of an operator's places, or shorter
            along the dimension that is selected from.
    """
    own = copy_workload(workload)
    seed_everything(seed)
    with _Choosing(places, tolerance, own.tensors()):
        return own.run_reference()


class _Choosing(DispatchMode):
    """Makes operators that select take given places, where these are a right choice."""

    def __init__(
        self, places: torch.Tensor, tolerance: Tolerance | None, inputs: list[torch.Tensor]
    ) -> None:
        self._places, self._tolerance = places.detach().long(), tolerance
        strided = (leaf for leaf in inputs if leaf.layout is torch.strided)
        self._given = {leaf.untyped_storage().data_ptr() for leaf in strided}
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one op."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        indices = result[-1] if isinstance(result, tuple) else result
        if name not in (*_DESCENDING, "topk", "sort") or not isinstance(indices, torch.Tensor):
            return result
        declared = func._schema.arguments
        options = {a.name: a.default_value for a in declared if a.has_default_value()}
        options |= {a.name: value for a, value in zip(declared, args, strict=False)}
        options |= kwargs or {}
        scores = options["self"]
        if "dim" not in options or not scores.is_floating_point() or not scores.dim():
            return result
        descending = _DESCENDING.get(name, bool(options.get("largest", options.get("descending"))))
        flat = scores.reshape(-1) if options["dim"] is None else scores
        dim = (options["dim"] or 0) % flat.dim()
        order = self._order(flat, dim, descending, scores.untyped_storage().data_ptr())
        if order is None:
            return result
        count = options.get("k", flat.shape[dim] if name == "sort" else 1)
        chosen = order.narrow(dim, 0, count)
        values = flat.gather(dim, chosen)
        chosen, values = (part.reshape(indices.shape) for part in (chosen, values))
        return (values, chosen) if isinstance(result, tuple) else chosen

    def _order(
        self, scores: torch.Tensor, dim: int, descending: bool, storage: int
    ) -> torch.Tensor | None:
        """Return all places along a dimension, by their scores, the right choices first.

        ``None`` if the given places are of another shape.
        """
        places = self._places
        places = places.unsqueeze(dim) if places.dim() == scores.dim() - 1 else places
        rest, whole = list(places.shape), list(scores.shape)
        if len(rest) != len(whole) or not 0 < rest[dim] <= whole[dim]:
            return None
        count, size = rest.pop(dim), whole.pop(dim)
        if rest != whole or places.device != scores.device:
            return None
        order = scores.sort(dim, descending=descending).indices
        valid = (places >= 0) & (places < size)
        places = places.clamp(0, size - 1)
        mine, best = (scores.gather(dim, at) for at in (places, order.narrow(dim, 0, count)))
        roundoff = torch.finfo(scores.dtype).eps / 2
        share = 0.0 if storage in self._given else computing_share(roundoff, self._tolerance)
        near = (mine.double() - best.double()).abs() <= share * best.double().abs()
        valid &= (mine == best) | (near & best.isfinite())
        shape = [1] * order.dim()
        shape[dim] = -1
        ranks = torch.arange(size, device=order.device).view(shape)
        plain = torch.empty_like(order).scatter_(dim, order, ranks.expand_as(order))
        first = ranks.narrow(dim, 0, count).expand_as(places)
        promoted = (plain + size).scatter_(dim, places, first)
        right = valid.all(dim, keepdim=True)
        right &= (promoted < size).sum(dim, keepdim=True) == count  # none is named twice
        return torch.where(right, promoted, plain).argsort(dim)
