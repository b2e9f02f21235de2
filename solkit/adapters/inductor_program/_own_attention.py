"""Attention in a graph, written out or one call, as a kernel whose text is made for it.

`_score_text` writes what is done with scores, `_attention_text` the kernel. A constant mask is
evaluated: if it keeps a band of keys, blocks of queries go over those alone.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters.inductor_program._attention_text import (
    LOW,
    AttentionText,
    Band,
    Reach,
    Split,
    Taken,
    Written,
    rows_packed,
)
from solkit.adapters.inductor_program._attention_weights import read_weights
from solkit.adapters.inductor_program._axes import (
    Atom,
    Dims,
    arrange_axes,
    follow_view,
    is_view,
    last_repeats,
    whole_axes,
)
from solkit.adapters.inductor_program._fused_attention import CONVERT, constant_value
from solkit.adapters.inductor_program._narrow_products import (
    CONVERSIONS,
    NARROW,
    emitter,
)
from solkit.adapters.inductor_program._score_text import (
    Mask,
    ScoreText,
    TensorText,
    UnreadableError,
    Value,
    is_elementwise,
)
from solkit.adapters.inductor_program._written_attention import (
    FLOATS,
    MASKED,
    Operand,
    is_float_conversion,
    read_operand,
)

OWN_ATTENTION = "solkit.own_attention"
"""Setting of a program, next to those of Inductor."""
NARROW_ATTENTION = "solkit.narrow_attention"
"""Setting of a program whose attention in fp32 multiplies numbers that are split in fp16."""
OWN_OPERATOR = "solkit_inductor.own_attention"
"""Operator that marks the place of a kernel in a graph; the module's ``meta`` has its texts."""

aten = torch.ops.aten
_MOST_OFFSET = 2**31
_LEAST_UNIT = 1e-30
_KEPT_BITS = -(1 << 13)
"""Mask of an fp32 number's bits that fp16 has as well."""
_SMALL = 1 << 18
"""Elements of a tensor that costs next to nothing to read."""
Emit = Callable[..., Node]


def narrow_attention(module: GraphModule) -> bool:
    """Replace attention by kernels that multiply in 16 bits; tell whether there is any of fp32."""
    return own_attention(module, is_narrow=True)


def own_attention(module: GraphModule, is_narrow: bool = False) -> bool:
    """Replace attention by kernels of their own; tell whether there is any.

    Args:
        module: the graph.
        is_narrow: whether operands of fp32 are rounded to fp16; and whether others do not count.
    """
    _define_operator()
    texts: list[AttentionText] = module.meta.setdefault(OWN_ATTENTION, [])
    is_narrowed = False
    targets = aten.mm.default, aten.bmm.default, torch.ops.solkit_inductor.attention.default
    for node in [node for node in module.graph.nodes if node.target in targets]:
        for read in _readings(node):
            try:
                text = read.text()
            except UnreadableError:
                continue
            with module.graph.inserting_before(read.result.node):
                emit = emitter(module.graph)
                if is_narrow and text.dtype is torch.float32:
                    text, is_narrowed = _narrowed(emit, text), True
                text = replace(text, reaches=tuple(_reaches(emit, text)))
            _replace(module.graph, read.result.node, text, len(texts))
            texts.append(text)
            break
    module.graph.eliminate_dead_code()
    module.recompile()
    return is_narrowed if is_narrow else bool(texts)


def _narrowed(emit: Emit, text: AttentionText) -> AttentionText:
    """Return attention of operands that are rounded to fp16, queries and keys in two parts.

    Errors of scores grow in exponentials, so their rows are divided by their largest number, and
    the rest of what is rounded is multiplied as well. Three of the four products are enough.
    """
    splits, operands = [], []
    for taken in (text.query, text.key):
        source, name = taken.tensor.node, taken.tensor.name
        axes = sorted({atom.axis for atom in taken.dims[2] if atom.axis is not None})
        largest = emit(aten.amax.default, emit(aten.abs.default, source), axes, True)
        unit = emit(aten.clamp_min.default, largest, _LEAST_UNIT)
        scaled = emit(aten.div.Tensor, source, unit)
        bits = emit(aten.view.dtype, scaled, torch.int32)
        kept = emit(aten.bitwise_and.Scalar, bits, _KEPT_BITS)
        high = emit(aten.view.dtype, kept, torch.float32)
        low = emit(aten.mul.Tensor, emit(aten.sub.Tensor, scaled, high), LOW)
        high, low = (emit(CONVERT, part, torch.float16) for part in (high, low))
        dims = tuple(
            tuple(Atom(None, a.size) if a.axis in axes else a for a in group)
            for group in taken.dims[:2]
        )
        operands.append(Taken(TensorText(name, high), taken.dims))
        splits.append(
            Split(
                Taken(TensorText(f"{name}_low", low), taken.dims),
                Taken(TensorText(f"{name}_unit", unit), dims),
            )
        )
    value = emit(CONVERT, text.value.tensor.node, torch.float16)
    return replace(
        text,
        query=operands[0],
        key=operands[1],
        value=replace(text.value, tensor=TensorText("value", value)),
        dtype=torch.float16,
        splits=tuple(splits),
    )


def _reaches(emit: Emit, text: AttentionText) -> Iterator[Reach]:
    """Yield the first and the last key that masks keep, where that costs no pass over scores.

    What is not kept has no weight, so it may be left out; but for a number that is finite, where
    another mask may leave no more.
    """
    is_only = len(text.scores.masks) == 1 and text.band == Band()
    is_only &= not any(s.node.meta["val"].is_floating_point() for s in text.scores.sides)
    for mask in text.scores.masks:
        if (mask.is_finite and not is_only) or not _is_computed(mask.node):
            continue
        batch, queries, keys = mask.dims
        atoms = [atom for atom in (*batch, *queries) if atom.axis is not None]
        kept = arrange_axes(emit, mask.node, [*((atom,) for atom in atoms), keys])
        kept = kept if mask.keeps else emit(aten.logical_not.default, kept)
        size = text.sizes[2]
        at = _counted(emit, size, kept.meta["val"].device)
        first = emit(aten.amin.default, emit(aten.where.ScalarOther, kept, at, size), [-1])
        last = emit(aten.amax.default, emit(aten.where.ScalarOther, kept, at, -1), [-1])
        if mask.is_finite:  # a query without keys has the mean of all
            is_empty = emit(aten.lt.Scalar, last, 0)
            first = emit(aten.where.ScalarSelf, is_empty, 0, first)
            last = emit(aten.where.ScalarSelf, is_empty, size - 1, last)
        axes = iter(range(len(atoms)))
        dims = tuple(
            tuple(a if a.axis is None else Atom(next(axes), a.size) for a in group)
            for group in (batch, queries)
        )
        place = text.scores.masks.index(mask)
        names = f"first_{place}", f"last_{place}"
        yield Reach(TensorText(names[0], first), TensorText(names[1], last), dims)


def _counted(emit: Emit, size: int, device: torch.device) -> Node:
    options = {"dtype": torch.int32, "device": device, "requires_grad": False}
    return emit(torch.ops.prims.iota.default, size, start=0, step=1, **options)


def _is_computed(mask: Node) -> bool:
    """Tell whether a mask is made of much smaller tensors."""
    if is_view(mask) or is_elementwise(mask):
        return all(map(_is_computed, mask.all_input_nodes))
    return mask.target is torch.ops.prims.iota.default or mask.meta["val"].numel() < _SMALL


def _readings(node: Node) -> Iterator[_Reading]:
    """Yield ways to read a node as attention."""
    if node.target is torch.ops.solkit_inductor.attention.default:
        if (reading := _read_call(node)) is not None:
            yield reading
        return
    for place in range(2):
        if (reading := _read_product(node, place)) is not None:
            yield reading


def _replace(graph: Graph, node: Node, text: AttentionText, place: int) -> None:
    """Put a kernel's result in the place of a node."""
    with graph.inserting_before(node):
        target = torch.ops.solkit_inductor.own_attention.default
        tensors = [tensor.node for tensor in text.tensors]
        arguments = tensors, list(text.result.shape), text.result.dtype, place
        result = graph.call_function(target, arguments)
        result.meta["val"] = torch.empty(
            text.result.shape, dtype=text.result.dtype, device=node.meta["val"].device
        )
        node.replace_all_uses_with(result)
    graph.erase_node(node)


_libraries: list[torch.library.Library] = []  # an operator lives as long as its library


def _define_operator() -> None:
    if _libraries:
        return
    namespace, name = OWN_OPERATOR.split(".")
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(f"{name}(Tensor[] tensors, int[] size, ScalarType dtype, int place) -> Tensor")
    torch.library.register_fake(OWN_OPERATOR.replace(".", "::"), _result_shape, lib=library)
    _libraries.append(library)


def _result_shape(
    tensors: Sequence[torch.Tensor], size: Sequence[int], dtype: torch.dtype, _: int
) -> torch.Tensor:
    return tensors[0].new_empty(size, dtype=dtype)


# --------------------------------------------------------------------------------- readings


@dataclass(frozen=True)
class _Result:
    """The last node that only lays a result out otherwise, or narrows it.

    Attributes:
        node: itself, contiguous.
        dims: its axes, as parts of a batch, queries and columns.
    """

    node: Node
    dims: Dims

    @staticmethod
    def of(node: Node, places: Sequence[tuple[int, int]]) -> _Result:
        """Follow the uses of a tensor whose axes are parts of these, with these steps."""
        dims: Dims | None = whole_axes(node.meta["val"].shape)
        best, current = _Result(node, _placed(dims or (), places)), node
        while len(current.users) == 1 and dims is not None:
            (current,) = current.users
            if is_view(current):
                dims = follow_view(current, dims)
            elif not (current.target in CONVERSIONS and is_float_conversion(current)):
                break
            atoms = [atom for group in dims or () for atom in group]
            if dims is None or any(atom.axis is None for atom in atoms):
                break
            if current.meta["val"].is_contiguous():
                best = _Result(current, _placed(dims, places))
        return best


def _placed(dims: Dims, places: Sequence[tuple[int, int]]) -> Dims:
    return tuple(
        tuple(
            Atom(places[atom.axis][0], atom.size, atom.step * places[atom.axis][1])
            for atom in group
            if atom.axis is not None
        )
        for group in dims
    )


@dataclass
class _Reading:
    """Attention as it was read.

    Attributes:
        query, key, value: with a batch, rows and columns.
        result: where it goes.
        write: writes scores, from the product on.
        product: of queries and keys, and which of its axes are the batch, queries and keys.
        empty: the result of a query without keys.
        allowed: nodes that may use scores and weights.
        band: keys that a query takes besides its masks.
    """

    query: Operand
    key: Operand
    value: Operand
    result: _Result
    write: Callable[[ScoreText], Value]
    product: Node | None = None
    dims: Dims = ()
    empty: float = math.nan
    allowed: frozenset[Node] = frozenset()
    band: Band = field(default_factory=Band)

    def text(self) -> AttentionText:
        """Return what its kernel is written of.

        Raises:
            UnreadableError: it is not proven to be attention, or no kernel can do it.
        """
        operands = self.query, self.key, self.value
        batch, queries = (math.prod(a.size for a in group) for group in self.query.dims[:2])
        sizes = batch, queries, math.prod(a.size for a in self.key.dims[1])
        shared = math.gcd(*(last_repeats(o.dims[0]) for o in operands[1:]))
        dtypes = {operand.source.meta["val"].dtype for operand in operands}
        if not dtypes <= {*FLOATS} or len(dtypes & {*NARROW}) > 1 or 0 in sizes:
            raise UnreadableError
        masks = _Masks(sizes[1:])
        scores, end = self._scores(masks, rows_packed(queries, shared) > 1)
        scale = end.factor
        if not 0 < scale < math.inf:
            raise UnreadableError
        query, key, value = (
            Taken(TensorText(name, operand.source), operand.dims)
            for name, operand in zip(("query", "key", "value"), operands, strict=True)
        )
        _check_offsets((query, key, value), scores.sides)
        written = self.result.node.meta["val"]
        return AttentionText(
            query,
            key,
            value,
            result=Written(self.result.dims, tuple(written.shape), written.dtype),
            sizes=sizes,
            shared=shared,
            scores=scores,
            end=end,
            scale=(scale, self.value.factor),
            band=self.band.both(masks.band()),
            dtype=next(iter(dtypes & {*NARROW}), torch.float32),
            precisions=("tf32x3", "tf32x3"),
            empty=self.empty,
        )

    def _scores(self, masks: _Masks, is_packed: bool) -> tuple[ScoreText, Value]:
        """Write scores: with the masks that are bands dropped, if that changes nothing."""
        for drops in (masks.drop, masks.drop_infinite):
            masks.clear()
            factor = self.query.factor * self.key.factor
            scores = ScoreText(self.product, self.dims, factor, drops, is_packed)
            end = self.write(scores)
            end = end if end.factor > 0 else replace(scores.plain(end), factor=1.0)
            if self._is_used_elsewhere(scores):
                raise UnreadableError
            is_constant = not scores.sides and not scores.masks
            if drops == masks.drop and masks.is_finite and not (is_constant and masks.has_keys()):
                continue
            return scores, end
        raise UnreadableError

    def _is_used_elsewhere(self, scores: ScoreText) -> bool:
        allowed = self.allowed | scores.own
        return any(user not in allowed for node in scores.own for user in node.users)


def _check_offsets(taken: Sequence[Taken], sides: Sequence[TensorText]) -> None:
    """Refuse what 32 bits do not count: within a batch's rows, and in a tensor beside scores."""
    tensors = [t.tensor.node.meta["val"] for t in taken]
    tensors += [side.node.meta["val"] for side in sides]
    for tensor in tensors:
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        if sum((size - 1) * stride for size, stride in pairs) >= _MOST_OFFSET:
            raise UnreadableError


@dataclass
class _Masks:
    """Masks that are constant.

    Attributes:
        sizes: of queries and keys.
        bands: those that keep one, with what they keep.
        is_finite: whether one of them fills in a finite number.
    """

    sizes: tuple[int, ...]
    bands: list[tuple[Band, torch.Tensor]] = field(default_factory=list)
    is_finite: bool = False

    def clear(self) -> None:
        """Forget them."""
        self.bands.clear()
        self.is_finite = False

    def drop(self, mask: Mask) -> bool:
        """Tell whether a mask keeps a band."""
        with _disable_current_modes():
            kept = self._kept(mask)
            band = None if kept is None else _band_of(kept)
            if kept is None or band is None:
                return False
        self.bands.append((band, kept))
        self.is_finite |= mask.is_finite
        return True

    def drop_infinite(self, mask: Mask) -> bool:
        """Tell whether a mask keeps a band, and fills in minus infinity."""
        return not mask.is_finite and self.drop(mask)

    def band(self) -> Band:
        """Return what all keep."""
        band = Band()
        for other, _ in self.bands:
            band = band.both(other)
        return band

    def has_keys(self) -> bool:
        """Tell whether all keep a key of each query."""
        with _disable_current_modes():
            kept = torch.ones(self.sizes, dtype=torch.bool)
            for _, other in self.bands:
                kept &= other
            return bool(kept.any(-1).all())

    def _kept(self, mask: Mask) -> torch.Tensor | None:
        """Return the scores that a constant mask keeps; ``None`` if that is not all it does."""
        value = constant_value(mask.node)
        value = constant_value(mask.node, shrinks=True) if value is None else value
        if value is None:
            return None
        value = value.reshape([1] * (mask.node.meta["val"].dim() - value.dim()) + list(value.shape))
        for atom in mask.dims[0]:
            if atom.axis is not None:
                first = value.narrow(atom.axis, 0, 1)
                if not bool((value == first).all()):
                    return None
                value = first
        if mask.keeps is not None:
            kept = value.bool() == mask.keeps
        else:
            scaled = value.double() * mask.factor
            kept = value == 0
            if not bool((kept | (scaled <= MASKED)).all()):
                return None
        axes = {atom.axis for group in mask.dims[1:] for atom in group}
        pairs = enumerate(mask.node.meta["val"].shape)
        kept = kept.expand([size if axis in axes else -1 for axis, size in pairs])
        whole: Any = arrange_axes(_call, kept, ((), *mask.dims[1:]))  # type: ignore[arg-type]
        result: torch.Tensor = whole[0].expand(self.sizes)
        return result


def _call(target: Any, *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


def _band_of(kept: torch.Tensor) -> Band | None:
    """Return the band of keys that a mask keeps; ``None`` if it keeps others."""
    queries, keys = kept.shape
    behind = torch.arange(keys) - torch.arange(queries)[:, None]
    if not bool(kept.any()):
        return None
    low, high = int(behind[kept].min()), int(behind[kept].max())
    if not bool((kept == ((behind >= low) & (behind <= high))).all()):
        return None
    return Band(low if low > 1 - queries else None, high if high < keys - 1 else None)


def _read_product(node: Node, place: int) -> _Reading | None:
    """Return attention of which a node is the product of weights and values."""
    weights = read_weights(node, place)
    if weights is None:
        return None
    places = [(axis, 1) for axis in weights.order[3 - node.meta["val"].dim() :]]
    return _Reading(
        *(weights.query, weights.key, weights.value),
        _Result.of(node, places),
        lambda text: text.write(weights.scores, weights.forward, 1.0),
        *(weights.product, weights.dims),
        allowed=weights.used,
    )


# ----------------------------------------------------------------------------------- one call


def _read_call(node: Node) -> _Reading | None:
    """Return a call of `scaled_dot_product_attention` as it was read."""
    query, key, value, mask, _, is_causal, factor, is_grouped = node.args
    shape = tuple(query.meta["val"].shape)  # type: ignore[union-attr]
    keys = key.meta["val"].shape[-2]  # type: ignore[union-attr]
    batch = shape[:-2]
    queries, *others = (
        _join_batch(read_operand(operand), batch, bool(is_grouped))  # type: ignore[arg-type]
        for operand in (query, key, value)
    )
    if queries is None or others[0] is None or others[1] is None:
        return None
    scale = shape[-1] ** -0.5 if factor is None else float(factor)  # type: ignore[arg-type]

    def forward(dims: Dims) -> Dims | None:
        sizes = *shape[:-1], keys
        padded = ((),) * (len(sizes) - len(dims)) + dims
        pairs = zip(padded, sizes, strict=True)
        whole = tuple(g if g or n == 1 else (Atom(None, n),) for g, n in pairs)
        return sum(whole[:-2], ()), *whole[-2:]

    def write(text: ScoreText) -> Value:
        scores = Value("s", True, scale * text.factor)
        if not isinstance(mask, Node):
            return scores
        is_bool = mask.meta["val"].dtype is torch.bool
        dims = forward(whole_axes(mask.meta["val"].shape))
        assert dims is not None
        read = Mask(mask, True if is_bool else None, dims, not is_bool)
        if text.drops(read):
            return scores
        text.masks += [read] if is_bool else []
        other = text.write(mask, forward)
        return text.masked(scores, other) if is_bool else text.added(scores, other)

    inner = [math.prod(batch[axis + 1 :]) for axis in range(len(batch))]
    places = [*((0, step) for step in inner), (1, 1), (2, 1)]
    band = Band(None, 0) if is_causal else Band()
    result = _Result.of(node, places)
    return _Reading(queries, others[0], others[1], result, write, empty=0.0, band=band)


def _join_batch(operand: Operand, batch: tuple[int, ...], is_grouped: bool) -> Operand | None:
    """Return an operand whose first axes are one, repeated as those of queries ask for."""
    dims = operand.dims
    if len(dims) != len(batch) + 2:
        return None
    joined: list[Atom] = []
    for place, (group, size) in enumerate(zip(dims[:-2], batch, strict=True)):
        own = math.prod(atom.size for atom in group)
        is_heads = is_grouped and place == len(batch) - 1
        if size % own or not (own in (1, size) or is_heads):
            return None
        joined += [*group, *([Atom(None, size // own)] if own < size else [])]
    return replace(operand, dims=(tuple(joined), *dims[-2:]))
