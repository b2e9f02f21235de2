"""Attention that is written out, as one call of `scaled_dot_product_attention`.

::

    q @ k.T ─ scaled, biased, masked ─ softmax over the keys ─ @ v

`_attention_weights` proves what is a product and what a softmax. Sums and exponentials are rounded
in other places, and operands that were widened from 16 bits are taken as they were: whoever
measures such a program has to check it, as for `_narrow_products`.

Softmax of a row of minus infinity is NaN, and attention without any key is 0. So rows of a mask
that depends on data are checked in the program, and those of a constant one here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters.inductor_program._attention_weights import (
    Weights,
    read_weights,
    through_view,
)
from solkit.adapters.inductor_program._axes import (
    Dims,
    arrange_axes,
    is_repeated,
    is_view,
    last_repeats,
    regroup,
    whole_axes,
)
from solkit.adapters.inductor_program._narrow_products import (
    CONVERSIONS,
    NARROW,
    PRODUCTS,
    emitter,
)
from solkit.adapters.inductor_program._score_text import (
    Forward,
    UnreadableError,
    broadcast,
    is_elementwise,
)
from solkit.adapters.inductor_program._written_attention import (
    FLOATS,
    MASKED,
    Operand,
    first_operand,
    is_float_conversion,
    number_in,
    read_operand,
    scaled_tensor,
)

FUSED_ATTENTION = "solkit.fused_attention"
"""Setting of a program, next to those of Inductor."""

aten = torch.ops.aten
Emit = Callable[..., Node]
_MOST_CONSTANT = 1 << 26
"""Elements of a constant mask that is evaluated."""


def fuse_attention(module: GraphModule) -> bool:
    """Replace attention that is written out; tell whether there is any."""
    products = (aten.mm.default, aten.bmm.default)
    nodes = [node for node in module.graph.nodes if node.target in products]
    changed = [_fuse_product(module.graph, node) for node in nodes]
    module.graph.eliminate_dead_code()
    module.recompile()
    return any(changed)


def _fuse_product(graph: Graph, node: Node) -> bool:
    """Replace the product of weights and values, if it is one."""
    for place in range(2):
        weights = read_weights(node, place)
        written = None if weights is None else _written(weights)
        if written is None:
            continue
        with graph.inserting_before(node):
            result = _Call(written).emit(emitter(graph))
            if result is not None:
                if place:  # the weights are the second factor
                    result = emitter(graph)(aten.permute.default, result, [0, 2, 1])
                _replace(emitter(graph), node, result)
                return True
    return False


def _replace(emit: Emit, node: Node, result: Node) -> None:
    """Put a result in the place of a product, without widening what is narrowed after it."""
    sizes = list(node.meta["val"].shape)
    if not result.meta["val"].is_contiguous():
        result = emit(aten.clone.default, result, memory_format=torch.contiguous_format)
    narrow = emit(aten.view.default, result, sizes)
    dtype = node.meta["val"].dtype
    same = narrow.meta["val"].dtype is dtype
    wide = narrow if same else emit(CONVERT, narrow, dtype)
    node.replace_all_uses_with(wide)
    if not same:
        _skip_widening(node.graph, wide, narrow)
    node.graph.erase_node(node)


CONVERT = torch.ops.prims.convert_element_type.default


def _skip_widening(graph: Graph, wide: Node, narrow: Node) -> None:
    """Let conversions back to the narrow dtype take the narrow tensor, also behind views."""
    for user in list(wide.users):
        if user.target is CONVERT and user.meta["val"].dtype is narrow.meta["val"].dtype:
            user.replace_all_uses_with(narrow)
        elif is_view(user):
            with graph.inserting_before(user):
                view = emitter(graph)(user.target, narrow, *user.args[1:], **user.kwargs)
            _skip_widening(graph, user, view)


# -------------------------------------------------------------------------------- the scores


@dataclass(frozen=True)
class _Written:
    """Attention over one axis of a batch.

    Attributes:
        query, key, value: with a batch, rows and columns.
        scale: number by which scores are multiplied.
        biases: added to scores, each times its factor.
        masks: keep scores where they are true, or false where the factor is 0.
        is_finite: whether a row without keys has weights all the same.
    """

    query: Operand
    key: Operand
    value: Operand
    scale: float
    biases: tuple[Operand, ...]
    masks: tuple[Operand, ...]
    is_finite: bool

    def operands(self) -> tuple[Operand, Operand, Operand]:
        """Return queries, keys and values."""
        return self.query, self.key, self.value


def _written(weights: Weights) -> _Written | None:
    """Return attention that kernels of PyTorch's may do; ``None`` if they may not."""
    scores = _Scores(weights.product, weights.dims)
    try:
        scores.read(weights.scores, weights.forward, 1.0)
    except UnreadableError:
        return None
    operands = weights.query, weights.key, weights.value
    dtypes = {operand.source.meta["val"].dtype for operand in operands}
    fits = dtypes <= {*FLOATS} and len(dtypes & {*NARROW}) <= 1
    fits &= all(operand.source.meta["val"].numel() for operand in operands)
    fits &= all(mask.source.meta["val"].dtype is torch.bool for mask in scores.masks)
    allowed = weights.used | scores.own
    fits &= all(user in allowed for node in scores.own for user in node.users)
    scale = scores.scale * weights.query.factor * weights.key.factor
    if not fits or not 0 < scale < math.inf:
        return None
    return _Written(*operands, scale, (*scores.biases,), (*scores.masks,), scores.is_finite)


@dataclass
class _Scores:
    """Operators between a product and the softmax of scores, read backwards.

    Attributes:
        product: of queries and keys.
        dims: axes of the product that are the batch, queries and keys.
        scale: number by which the product is multiplied.
        biases, masks, is_finite: as of `_Written`.
        own: nodes that scores go through.
    """

    product: Node
    dims: Dims
    scale: float = 1.0
    biases: list[Operand] = field(default_factory=list)
    masks: list[Operand] = field(default_factory=list)
    is_finite: bool = False
    own: set[Node] = field(default_factory=set)

    def read(self, node: Node, forward: Forward, outer: float) -> None:
        """Read scores that are multiplied by a number after that.

        Raises:
            UnreadableError: an operator does more than to scale, add to or mask them.
        """
        self.own.add(node)
        if node is self.product:
            self._read_product(node, forward, outer)
        elif is_view(node):
            self.read(first_operand(node), through_view(node, forward), outer)
        elif node.target in CONVERSIONS and is_float_conversion(node):
            self.read(first_operand(node), forward, outer)
        elif (scaled := scaled_tensor(node)) is not None:
            self.read(scaled[0], forward, outer * scaled[1])
        elif node.target in (aten.add.Tensor, aten.sub.Tensor):
            self._read_sum(node, forward, outer)
        elif node.target is aten.where.self:
            self._read_mask(node, forward, outer)
        else:
            raise UnreadableError

    def _read_product(self, node: Node, forward: Forward, outer: float) -> None:
        if forward(whole_axes(node.meta["val"].shape)) != self.dims:
            raise UnreadableError
        alpha, beta = (float(node.kwargs.get(name, 1)) for name in ("alpha", "beta"))  # type: ignore[arg-type]
        if PRODUCTS[node.target]:
            self.biases.append(self._beside(node, first_operand(node), forward, outer * beta))
        self.scale = outer * alpha

    def _read_sum(self, node: Node, forward: Forward, outer: float) -> None:
        sign = -1.0 if node.target is aten.sub.Tensor else 1.0
        alpha: Any = node.kwargs.get("alpha", 1)
        place = 1 if self._has_scores(node.args[1]) else 0
        scores, added = node.args[place], node.args[1 - place]
        if self._has_scores(added) or (place and (sign < 0 or alpha != 1)):
            raise UnreadableError
        if isinstance(added, Node):
            self.biases.append(self._beside(node, added, forward, sign * alpha * outer))
        elif not math.isfinite(added):  # type: ignore[arg-type]
            raise UnreadableError  # any other number changes no softmax
        self.read(scores, broadcast(node, scores, forward), outer)  # type: ignore[arg-type]

    def _read_mask(self, node: Node, forward: Forward, outer: float) -> None:
        condition: Any = node.args[0]
        place = 1 if self._has_scores(node.args[1]) else 2
        scores, fill = node.args[place], number_in(node.args[3 - place])
        if fill is None or not fill * outer <= MASKED or self._has_scores(condition):
            raise UnreadableError
        self.masks.append(self._beside(node, condition, forward, 1.0 if place == 1 else 0.0))
        self.is_finite |= not math.isinf(fill)
        self.read(scores, broadcast(node, scores, forward), outer)  # type: ignore[arg-type]

    def _has_scores(self, node: Any) -> bool:
        if not isinstance(node, Node) or node is self.product:
            return node is self.product
        follows = is_view(node) or is_elementwise(node)
        return follows and any(map(self._has_scores, node.all_input_nodes))

    def _beside(self, node: Node, side: Node, forward: Forward, factor: float) -> Operand:
        """Return a bias or a mask of an operator with the axes of the scores."""
        operand = read_operand(side)
        dims = broadcast(node, side, forward)(operand.dims)
        if dims is None:
            raise UnreadableError
        return replace(operand, dims=dims, factor=operand.factor * factor)


# ---------------------------------------------------------------------------------- the call


@dataclass(frozen=True)
class _Call:
    """A call in the place of attention that is written out.

    Attributes:
        written: what it replaces.
    """

    written: _Written

    def emit(self, emit: Emit) -> Node | None:
        """Add it to a graph, with a batch, rows and columns; ``None`` where it is not proven."""
        whole = _Form(1, self._sizes()[0], 1)
        mask = self._mask(emit, whole)
        kept = _Kept.of(mask, self._sizes()[1:])
        if self.written.is_finite and not kept.has_keys:
            return None
        calls = [self._call(emit, form, kept) for form in self._forms(kept)]
        if not any(calls):
            return None
        result = min((call for call in calls if call), key=lambda call: call[0])[1]
        rows, columns = self._sizes()[1], result.meta["val"].shape[-1]
        if self.written.value.factor != 1:
            result = emit(aten.mul.Tensor, result, self.written.value.factor)
        return emit(aten.view.default, result, [self._sizes()[0], rows, columns])

    def _sizes(self) -> tuple[int, int, int]:
        """Return the size of the batch, queries and keys."""
        batch, rows = (math.prod(a.size for a in group) for group in self.written.query.dims[:2])
        return batch, rows, math.prod(a.size for a in self.written.key.dims[1])

    def _forms(self, kept: _Kept) -> Iterator[_Form]:
        """Yield ways to split the batch in sequences and heads, those of most sequences first.

        Queries of several heads that share their keys are rows of one, unless the mask is causal.
        """
        batch = self._sizes()[0]
        shared = math.gcd(
            *(last_repeats(o.dims[0]) for o in (self.written.key, self.written.value))
        )
        cuts = {1, batch // shared}
        for operand in (*self.written.operands(), *self.written.biases, *self.written.masks):
            cuts |= {*accumulate((a.size for a in operand.dims[0]), operator.mul)}
        for cut in sorted(cuts, reverse=True):
            if (batch // shared) % cut == 0:
                yield _Form(cut, batch // shared // cut, shared, not kept.is_causal)

    def _call(self, emit: Emit, form: _Form, kept: _Kept) -> tuple[int, Node] | None:
        """Return how many elements are copied for a call, and its result."""
        groups = [
            form.of_queries(self.written.query),
            *map(form.of_keys, (self.written.key, self.written.value)),
        ]
        sides = map(form.of_queries, (*self.written.biases, *self.written.masks))
        if None in (*groups, *sides):
            return None
        dtype = self._dtype()
        operands = [
            arrange_axes(emit, _converted(emit, operand.source, dtype), dims)
            for operand, dims in zip(self.written.operands(), groups, strict=True)
            if dims is not None
        ]
        mask = None if kept.is_plain else self._mask(emit, form)
        heads = form.heads if form.is_packed else form.heads * form.shared
        shares = heads != form.heads
        result = emit(
            torch.ops.solkit_inductor.attention.default,
            *operands,
            mask if mask is None or _is_bool(mask) else _bias(emit, mask, dtype),
            *(0.0, kept.is_causal, self.written.scale, shares),
        )
        copied = sum(map(_copied_elements, operands))
        copied += 0 if mask is None else mask.meta["val"].numel()
        if heads > 1 and result.meta["val"].shape[2] > 1:  # PyTorch lays heads out innermost
            copied += result.meta["val"].numel()
        if mask is not None and not kept.has_keys:
            result = _without_keys_nan(emit, result, mask)
        return copied, result

    def _dtype(self) -> torch.dtype:
        dtypes = {operand.source.meta["val"].dtype for operand in self.written.operands()}
        return next(iter(dtypes & {*NARROW}), torch.float32)

    def _mask(self, emit: Emit, form: _Form) -> Node | None:
        """Return biases and masks as one tensor, of size 1 where they repeat."""
        total: Node | None = None
        for bias in self.written.biases:
            part = _converted(emit, form.broadcast(emit, bias), torch.float32)
            part = part if bias.factor == 1 else emit(aten.mul.Tensor, part, bias.factor)
            total = part if total is None else emit(aten.add.Tensor, total, part)
        keeps: Node | None = None
        for mask in self.written.masks:
            part = form.broadcast(emit, mask)
            part = part if mask.factor else emit(aten.logical_not.default, part)
            keeps = part if keeps is None else emit(aten.logical_and.default, keeps, part)
        if total is None or keeps is None:
            return keeps if total is None else total
        return emit(aten.where.ScalarOther, keeps, total, -math.inf)


def _converted(emit: Emit, node: Node, dtype: torch.dtype) -> Node:
    return node if node.meta["val"].dtype is dtype else emit(CONVERT, node, dtype)


def _bias(emit: Emit, mask: Node, dtype: torch.dtype) -> Node:
    """Return a mask in another dtype, where what was finite stays finite."""
    least = torch.finfo(dtype).min
    return _converted(emit, emit(aten.clamp_min.default, mask, least), dtype)


def _copied_elements(node: Node) -> int:
    """Return how many elements are copied to arrange a tensor."""
    source: Any = node.args[0]
    return source.meta["val"].numel() if source.target is aten.clone.default else 0


def _is_bool(node: Node) -> bool:
    return node.meta["val"].dtype is torch.bool


def _without_keys_nan(emit: Emit, result: Node, mask: Node) -> Node:
    """Return attention with NaN where no key is left, as softmax has it."""
    kept = mask if _is_bool(mask) else emit(aten.gt.Scalar, mask, -math.inf)
    has_keys = emit(aten.any.dim, kept, -1, True)
    return emit(aten.where.ScalarOther, has_keys, result, math.nan)


@dataclass(frozen=True)
class _Form:
    """A batch as sequences, heads of keys, and queries' heads that share one.

    Attributes:
        sequences, heads, shared: their numbers.
        is_packed: whether queries that share keys are rows, not heads.
    """

    sequences: int
    heads: int
    shared: int
    is_packed: bool = False

    def of_queries(self, operand: Operand) -> Dims | None:
        """Return the four axes of queries or of scores; ``None`` if they cannot be split so."""
        batch = regroup(operand.dims[0], (self.sequences, self.heads, self.shared))
        if batch is None:
            return None
        (sequences, heads, shared), (rows, columns) = batch, operand.dims[1:]
        if self.is_packed:
            return sequences, heads, (*shared, *rows), columns
        return sequences, (*heads, *shared), rows, columns

    def of_keys(self, operand: Operand) -> Dims | None:
        """Return the four axes of keys or values; ``None`` if they cannot be split so."""
        batch = regroup(operand.dims[0], (self.sequences, self.heads, self.shared))
        return None if batch is None else (*batch[:2], *operand.dims[1:])

    def broadcast(self, emit: Emit, operand: Operand) -> Node:
        """Return a bias or a mask, with axes of size 1 where it repeats."""
        dims = self.of_queries(operand)
        assert dims is not None
        groups = [() if is_repeated(group) else group for group in dims]
        return arrange_axes(emit, operand.source, groups)


@dataclass(frozen=True)
class _Kept:
    """Proven properties of a mask.

    Attributes:
        is_causal: the lower triangle, of as many queries as keys.
        is_whole: everything.
        has_keys: some key for each query.
    """

    is_causal: bool
    is_whole: bool
    has_keys: bool

    @property
    def is_plain(self) -> bool:
        """Tell whether no tensor has to say it."""
        return self.is_causal or self.is_whole

    @staticmethod
    def of(mask: Node | None, sizes: tuple[int, int]) -> _Kept:
        """Evaluate a mask, if it is constant."""
        if mask is None:
            return _Kept(False, True, True)
        with _disable_current_modes():
            value = constant_value(mask)
            return _Kept(False, False, False) if value is None else _Kept._of_value(value, sizes)

    @staticmethod
    def _of_value(value: torch.Tensor, sizes: tuple[int, int]) -> _Kept:
        is_bool = value.dtype is torch.bool
        has_keys = bool((value if is_bool else value > -math.inf).any(-1).all())
        if not is_bool and not bool(((value == 0) | (value <= MASKED)).all()):
            return _Kept(False, False, has_keys)
        kept = value if is_bool else value == 0
        triangle = torch.ones(sizes, dtype=torch.bool).tril()
        is_causal = sizes[0] == sizes[1] and bool((kept == triangle).all())
        return _Kept(is_causal, bool(kept.all()), has_keys)


def constant_value(node: Node, shrinks: bool = False) -> torch.Tensor | None:
    """Return what a tensor holds on the CPU; ``None`` if it depends on an input, or is large.

    Args:
        node: the tensor.
        shrinks: whether axes along which it repeats may have a size of 1.
    """
    values: dict[Node, Any] = {}

    def value(argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return type(argument)(map(value, argument))
        if isinstance(argument, torch.device):
            return torch.device("cpu")
        if not isinstance(argument, Node):
            return argument
        if argument not in values:
            values[argument] = computed(argument)
        return values[argument]

    def computed(argument: Node) -> Any:
        target: Any = argument.target
        args, kwargs = argument.args, argument.kwargs
        sizes = argument.meta["val"].shape if argument.op == "call_function" else None
        if shrinks and target is aten.full.default:
            sizes = torch.Size([1] * len(args[0]))  # type: ignore[arg-type]
            args = (list(sizes), *args[1:])
        args, named = tuple(map(value, args)), {name: value(item) for name, item in kwargs.items()}
        if shrinks and target not in _CREATIONS:
            shapes = [arg.shape for arg in args if isinstance(arg, torch.Tensor)]
            keeps = target in _BROADCASTS or torch.Tag.pointwise in getattr(target, "tags", ())
            sizes = torch.broadcast_shapes(*shapes) if keeps else None  # type: ignore[no-untyped-call]
        if sizes is None or math.prod(sizes) > _MOST_CONSTANT:
            raise _NotConstantError
        return target(*args, **named)

    try:
        result: torch.Tensor = value(node)
        return result
    except _NotConstantError:
        return None


_CREATIONS = (aten.full.default, aten.scalar_tensor.default, torch.ops.prims.iota.default)
_BROADCASTS = (
    *(aten.expand.default, aten.permute.default, aten.transpose.int, aten.unsqueeze.default),
    torch.ops.prims.convert_element_type.default,
)
"""Operators that leave sizes of 1 as they are, besides elementwise ones."""


class _NotConstantError(Exception):
    """A tensor that depends on an input."""
