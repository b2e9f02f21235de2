"""Products of products, as of an attention without softmax, in the order that takes the least.

With (q kᵀ ∘ w) v, kᵀ v is a state that each row of q reads, if the weights are separable:
w[i, j] = f(i) g(j), as exp(a[i] - a[j]) and powers of a decay are. That holds next to a causal
mask as well, where the state grows from row to row (Katharopoulos et al., "Transformers are RNNs",
2020; by chunks: Yang et al., "Gated linear attention transformers", 2023). With r rows of q, c of k
and v, widths d and e::

    multiply-adds = r d e + c d e

which leaves out those within a chunk, as chunks may be short. All other weights, masks whose rows
are no prefixes, and scores that something else reads count as traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from solkit.ops import Reduction
from solkit.roofline.work.broadcast import dimensions_of
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.dtype_origin import product_factors
from solkit.roofline.work.masks import compact, lifted
from solkit.roofline.work.program import RESULT, Mask, TensorUse, TracedOp, makers_of, readers_of

_ROUNDINGS = 8
"""Roundings by which a table of weights may miss a product of two factors, and count as one."""
_TINY = 1e-30  # weights whose rounding is not relative


def with_linear_attention(
    ops: Sequence[TracedOp],
    costs: Sequence[Cost | None],
    results: Sequence[TensorUse],
    ahead: Sequence[TracedOp] = (),
) -> list[Cost | None]:
    """Return the costs of ops, those of products of products as of the cheaper order.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
        ahead: ops that follow from the program alone and cost nothing, as of a table of weights.
    """
    graph = _Graph([*ops, *ahead], results)
    reduced = [*costs, *[None] * len(ahead)]
    reordered: set[int] = set()
    for position, op in enumerate(ops):
        if op.operator.cost != "product" or not isinstance(op.result.numel, int):
            continue
        for factor, (summed,) in product_factors(op):
            scores = _scores_of(factor, summed, graph)
            pair = {position} if scores is None else {position, scores.product}
            if scores is not None and reordered.isdisjoint(pair):
                reordered |= pair if _reorder(position, scores, graph, reduced) else set()
    return reduced[: len(ops)]


class _Graph:
    """Makers and readers of each storage of a program."""

    def __init__(self, ops: Sequence[TracedOp], results: Sequence[TensorUse]) -> None:
        self.ops = ops
        self._makers = makers_of(ops)
        self.readers = {n: set(places) for n, places in readers_of(ops, results).items()}

    def maker(self, use: TensorUse) -> int | None:
        """Return the position of the only op that makes a tensor."""
        made_by = self._makers.get(use.storage, ())
        return made_by[0] if len(made_by) == 1 and not self.ops[made_by[0]].written else None

    def readers_of(self, position: int) -> set[int]:
        """Return the positions of the ops that read the result of an op."""
        return self.readers.get(self.ops[position].result.storage, set())


@dataclass
class _Scores:
    """A product behind whose separable weights another one follows.

    Attributes:
        product: position of the op.
        chain: ops from there to the other product.
        weights: ops that make the weights alone.
        width: of what the product sums.
        rows, columns: of the scores.
    """

    product: int
    chain: set[int]
    weights: set[int]
    width: int
    rows: int
    columns: int


def _scores_of(factor: TensorUse, summed: int, graph: _Graph) -> _Scores | None:
    """Return the scores that a factor of a product holds; ``None`` of other factors."""
    rank = len(factor.shape)
    if rank < 2:
        return None
    columns = summed % rank
    rows = 2 * rank - 3 - columns
    kept = _kept_pairs(factor, rows, columns)
    if kept is None:
        return None
    walk = _Walk(graph, kept)
    use, place = factor, (rows, columns)
    chain: set[int] = set()
    while (position := graph.maker(use)) is not None:
        maker = graph.ops[position]
        own_axes = _same_axes(use, place, maker.result)
        if own_axes is None:
            return None
        if maker.operator.cost == "product" and not maker.operator.adds_terms:
            (first, (width_axis,)), _ = product_factors(maker)
            last = len(maker.result.shape)
            if sorted(own_axes) != [last - 2, last - 1]:
                return None
            width, sizes = first.shape[width_axis], [factor.shape[d] for d in (rows, columns)]
            return _Scores(position, chain, walk.inside, width, *sizes)
        following = walk.next_of(maker, own_axes)
        if following is None:
            return None
        chain.add(position)
        use, place = following
    return None


def _kept_pairs(use: TensorUse, rows: int, columns: int) -> Mask | None:
    """Return the pairs that a factor has of any batch, (rows, columns) or (1, 1) for all.

    ``None`` if no state gives them: the columns of each row must be the first or the last ones,
    and their number must never fall, or never rise, from row to row.
    """
    shape = use.shape[rows], use.shape[columns]
    if use.mask is None:
        return np.ones((1, 1), dtype=bool)
    mask = np.moveaxis(lifted(use.mask, len(use.shape)), (rows, columns), (-2, -1))
    mask = np.broadcast_to(mask, (*mask.shape[:-2], *shape)).reshape(-1, *shape)
    if not use.sure:
        return None
    for pairs in mask:
        counts = np.count_nonzero(pairs, axis=-1)
        places = np.arange(shape[1])
        first = np.array_equal(pairs, places < counts[:, None])
        last = np.array_equal(pairs, places >= shape[1] - counts[:, None])
        steps = np.diff(counts)
        if not (first or last) or not ((steps >= 0).all() or (steps <= 0).all()):
            return None
    return np.asarray(mask.any(axis=0))


def _same_axes(use: TensorUse, axes: tuple[int, int], whole: TensorUse) -> tuple[int, int] | None:
    """Return the axes of a tensor that some axes of a view of it are."""
    sizes = list(zip(whole.shape, whole.stride))
    own_axes = [
        sizes.index((use.shape[d], use.stride[d]))
        for d in axes
        if (use.shape[d], use.stride[d]) in sizes
    ]
    return (own_axes[0], own_axes[1]) if len(set(own_axes)) == 2 else None


def _moves_along(use: TensorUse, axis: int) -> bool:
    return axis >= 0 and use.shape[axis] > 1 and use.stride[axis] != 0


class _Walk:
    """A walk from a factor to the product that makes it.

    Args:
        graph: of the program.
        kept: pairs of rows and columns that are not zero.

    Attributes:
        inside: ops that make weights.
    """

    def __init__(self, graph: _Graph, kept: Mask) -> None:
        self._graph, self._kept = graph, kept
        self.inside: set[int] = set()

    def next_of(
        self, op: TracedOp, axes: tuple[int, int]
    ) -> tuple[TensorUse, tuple[int, int]] | None:
        """Return the operand of an op that has the scores; ``None`` if it does more than weigh."""
        if not op.is_elementwise or len(op.outputs) != 1:
            return None
        passed = self._passed(op, axes)
        if passed is not None:
            return passed, self._own(op, passed, axes)
        scales = op.operator.linear and (op.operator.multiplies or op.operator.divides)
        if not scales or op.operator.sums:
            return None
        places = [(use, self._own(op, use, axes)) for use in op.inputs]
        of_scores = [n for n, (use, own) in enumerate(places) if self._is_product(use, own)]
        if len(of_scores) != 1:
            return None
        use, own = places.pop(of_scores[0])
        if op.operator.divides and use is not op.arguments.get("self"):
            return None
        return (use, own) if all(self.is_separable(*place) for place in places) else None

    def _is_product(self, use: TensorUse, axes: tuple[int, int]) -> bool:
        """Tell whether a product is on the way to a tensor that varies along both axes."""
        position = self._graph.maker(use)
        if position is None or not all(_moves_along(use, d) for d in axes):
            return False
        op = self._graph.ops[position]
        if op.operator.cost == "product":
            return True
        own_axes = _same_axes(use, axes, op.result)
        return (
            own_axes is not None
            and op.is_elementwise
            and any(self._is_product(part, self._own(op, part, own_axes)) for part in op.inputs)
        )

    @staticmethod
    def _own(op: TracedOp, use: TensorUse, axes: tuple[int, int]) -> tuple[int, int]:
        """Return axes of an op's result as those of an operand; negative where it has none."""
        shift = len(op.result.shape) - len(use.shape)
        return axes[0] - shift, axes[1] - shift

    def _passed(self, op: TracedOp, axes: tuple[int, int]) -> TensorUse | None:
        """Return the operand that an op copies, or keeps wherever pairs are kept."""
        record = op.operator
        if record.needs in ("where", "masked fill"):
            truths = op.arguments.get("condition", op.arguments.get("mask"))
            if not isinstance(truths, TensorUse) or truths.value is None:
                return None
            held = self._over_pairs(truths.value.astype(bool), self._own(op, truths, axes))
            is_fill = record.needs == "masked fill"
            names = ("self", "") if is_fill else ("other", "self")
            if not (held & self._kept).any():
                kept = op.arguments.get(names[0])
            elif (held | ~self._kept).all():
                kept = op.arguments.get(names[1])
            else:
                return None
            return kept if isinstance(kept, TensorUse) else None
        copies = (record.moves and record.aligned) or record.zeros.endswith("triangle")
        return op.inputs[0] if copies and len(op.inputs) == 1 else None

    @staticmethod
    def _over_pairs(values: npt.NDArray[np.generic], axes: tuple[int, int]) -> npt.NDArray[Any]:
        """Return known values as [*, rows, columns]."""
        values = compact(values)
        short = max(-min(axes), 0)
        values = values.reshape((1,) * short + values.shape)
        return np.moveaxis(values, (axes[0] + short, axes[1] + short), (-2, -1))

    def is_separable(self, use: TensorUse, axes: tuple[int, int], adds: bool = False) -> bool:
        """Tell whether a tensor is f(i) g(j) where pairs are kept; f(i) + g(j) if that `adds`."""
        if not all(_moves_along(use, d) for d in axes):
            return True
        if use.value is not None:
            self._note_makers(use)
            return self._are_separable(self._over_pairs(use.value, axes), use.dtype, adds)
        position = self._graph.maker(use)
        op = None if position is None else self._graph.ops[position]
        own_axes = None if op is None else _same_axes(use, axes, op.result)
        if op is None or position is None or own_axes is None or not op.is_elementwise:
            return False
        self.inside.add(position)
        passed = self._passed(op, own_axes)
        parts = [(part, self._own(op, part, own_axes)) for part in op.inputs]
        record, name = op.operator, op.name.removeprefix("aten.")
        if passed is not None:
            return self.is_separable(passed, self._own(op, passed, own_axes), adds)
        if name in ("exp", "exp2") and not adds:
            return self.is_separable(*parts[0], adds=True)
        if record.cost == "power" and not adds and len(parts) == 2:
            base, exponent = parts
            is_plain = not any(_moves_along(base[0], d) for d in base[1])
            return is_plain and self.is_separable(*exponent, adds=True)
        if adds and (record.negates or (record.sums and not record.multiplies)):
            return all(self.is_separable(*part, adds=True) for part in parts)
        if record.linear and not record.sums and (record.multiplies or record.divides):
            if not adds:
                return all(self.is_separable(*part) for part in parts)
            varying = [part for part in parts if any(_moves_along(part[0], d) for d in part[1])]
            is_scaled = len(varying) == 1 and not (
                record.divides and varying[0][0] is op.arguments.get("other")
            )
            return is_scaled and self.is_separable(*varying[0], adds=True)
        return False

    def _note_makers(self, use: TensorUse) -> None:
        """Note the elementwise ops that a table comes from."""
        position = self._graph.maker(use)
        if position is not None and self._graph.ops[position].is_elementwise:
            self.inside.add(position)
            for part in self._graph.ops[position].inputs:
                self._note_makers(part)

    def _are_separable(self, values: npt.NDArray[Any], dtype: torch.dtype, adds: bool) -> bool:
        """Tell whether all 2 x 2 minors of kept pairs are 0, of [*, rows, columns]; or sums."""
        if values.dtype.kind not in "biuf":
            return False
        shape = np.broadcast_shapes(values.shape, self._kept.shape)
        kept = np.broadcast_to(self._kept, shape[-2:])
        table = np.broadcast_to(values, shape).astype(np.float64)
        squares = kept[1:, 1:] & kept[1:, :-1] & kept[:-1, 1:] & kept[:-1, :-1]
        lower, right = table[..., 1:, :-1], table[..., :-1, 1:]
        both, none = table[..., 1:, 1:], table[..., :-1, :-1]
        rounding = torch.finfo(dtype).eps * _ROUNDINGS if dtype.is_floating_point else 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            if adds:
                size = np.abs(both) + np.abs(none) + np.abs(lower) + np.abs(right)
                wrong = np.abs(both + none - lower - right) > rounding * size
            else:
                wrong = np.abs(both * none - lower * right) > rounding * np.abs(both * none)
                wrong &= np.minimum(np.abs(both), np.abs(lower)) > _TINY
        return not bool((wrong & squares).any())


def _reorder(position: int, scores: _Scores, graph: _Graph, reduced: list[Cost | None]) -> bool:
    """Change the costs of two products and of what lies between them, if that is less.

    Args:
        position: of the product behind the weights.
        scores: that this product reads.
        graph: of the program.
        reduced: costs by position; changed in place.

    Returns:
        Whether costs were changed.
    """
    product, inner = graph.ops[position], graph.ops[scores.product]
    own, before = reduced[position], reduced[scores.product]
    inside = scores.chain | {position}
    sums = {
        reader for n in (*scores.chain, scores.product) for reader in graph.readers_of(n) - inside
    }
    if own is None or before is None or not all(_sums_scores(graph.ops, n, scores) for n in sums):
        return False
    result_elements = product.result.shape[-2] * product.result.shape[-1]  # of one batch
    batches, value_width = product.result.numel // result_elements, result_elements // scores.rows
    keys = min((use for use, _ in product_factors(inner)), key=lambda use: use.distinct)
    values = _values_of(product, graph, scores.chain | {scores.product})
    states = max(  # batches that share keys and values share a state
        keys.distinct // (scores.columns * scores.width),
        values.distinct // (scores.columns * value_width),
        1,
    )
    steps = batches * scores.rows + min(states, batches) * scores.columns
    least = 2 * scores.width * value_width * steps
    traced = sum(_contractions(cost) for cost in (own, before))
    if traced <= least:
        return False
    remaining = least
    for n, cost in ((scores.product, before), (position, own)):
        share = remaining if n == position else _contractions(cost) * least // traced
        remaining -= share
        kinds = {key for key in cost.operations if key.startswith("contraction.")}
        rest = {key: count for key, count in cost.operations.items() if key not in kinds}
        reduced[n] = Cost({**rest, min(kinds, default=""): share})
    lines_read = batches * (scores.rows + scores.columns)
    for n in scores.chain | sums:
        _limit(reduced, n, lines_read * scores.width)
    for n in scores.weights:
        if graph.readers_of(n) <= inside | scores.weights:
            _limit(reduced, n, lines_read)
    return True


def _values_of(product: TracedOp, graph: _Graph, inside: set[int]) -> TensorUse:
    """Return the factor of a product that no op of the scores makes."""
    uses = [use for use, _ in product_factors(product)]
    return next((use for use in uses if graph.maker(use) not in inside), uses[0])


def _sums_scores(ops: Sequence[TracedOp], position: int, scores: _Scores) -> bool:
    """Tell whether an op sums the columns of scores, as of a normaliser."""
    op = None if position == RESULT else ops[position]
    if op is None or op.operator.reduces not in (Reduction.SUM, Reduction.MEAN) or op.written:
        return False
    use = op.inputs[0]
    return [use.shape[d] for d in dimensions_of(op, use)] in ([scores.columns], [scores.rows])


def _contractions(cost: Cost) -> int:
    return sum(n for key, n in cost.operations.items() if key.startswith("contraction."))


def _limit(reduced: list[Cost | None], position: int, most: int) -> None:
    cost = reduced[position]
    if cost is not None:
        reduced[position] = Cost({key: min(n, most) for key, n in cost.operations.items()})
