"""Operators between two products of attention, as Triton text for a tile of scores.

Each tensor beside the scores is loaded where it is, by the index that views give it. Numbers that
count along an axis are computed. So any chain of elementwise operators has a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from solkit.adapters.inductor_program._axes import Atom, Dims, follow_view, is_view, whole_axes
from solkit.adapters.inductor_program._narrow_products import CONVERSIONS, PRODUCTS
from solkit.adapters.inductor_program._written_attention import (
    MASKED,
    is_float_conversion,
    number_in,
    scaled_tensor,
)

aten = torch.ops.aten
Forward = Callable[[Dims], Dims | None]
"""Axes of a node as axes of scores: a batch, queries and keys."""

_BINARY = {
    **{aten.eq: "==", aten.ne: "!=", aten.lt: "<", aten.le: "<=", aten.gt: ">", aten.ge: ">="},
    **{aten.mul: "*", aten.add: "+", aten.sub: "-"},
}
_COMPARISONS = {aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge}
_LOGICAL = {
    **{aten.logical_and: "{} & {}", aten.logical_or: "{} | {}", aten.logical_xor: "{} ^ {}"},
    aten.logical_not: "{} == 0",
}
_BITWISE = {
    **{aten.bitwise_and: "{} & {}", aten.bitwise_or: "{} | {}", aten.bitwise_xor: "{} ^ {}"},
    aten.bitwise_not: "~{}",
}
_FLOAT = {
    **{aten.exp: "tl.exp({})", aten.exp2: "tl.exp2({})", aten.log: "tl.log({})"},
    **{aten.log2: "tl.log2({})", aten.sqrt: "tl.sqrt({})", aten.rsqrt: "tl.rsqrt({})"},
    **{aten.sin: "tl.sin({})", aten.cos: "tl.cos({})", aten.erf: "tl.erf({})"},
    **{aten.sigmoid: "tl.sigmoid({})", aten.reciprocal: "1.0 / {}"},
    **{aten.tanh: "2 * tl.sigmoid(2 * {}) - 1", aten.div: "{} / {}"},
}
_SAME = {
    **{aten.neg: "-{}", aten.abs: "tl.abs({})"},
    aten.relu: "tl.maximum({}, 0, propagate_nan=tl.PropagateNan.ALL)",
    aten.maximum: "tl.maximum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    aten.minimum: "tl.minimum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    aten.clamp_min: "tl.maximum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    aten.clamp_max: "tl.minimum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
}
_WHOLE = {
    aten.remainder: "({0} % {1} + {1}) % {1}",
    aten.floor_divide: "({0} - ({0} % {1} + {1}) % {1}) // {1}",
}
"""Operators of a count and a positive number."""
_TEXTS: Mapping[Any, str] = {
    **{packet: f"{{}} {sign} {{}}" for packet, sign in _BINARY.items()},
    **{**_LOGICAL, **_BITWISE, **_FLOAT, **_SAME},
}
_IOTA = torch.ops.prims.iota.default


class UnreadableError(Exception):
    """Scores that have no text."""


@dataclass(frozen=True)
class Value:
    """A value in a tile.

    Attributes:
        text: a name or a number.
        by_keys: whether it differs among keys.
        factor: number by which it is still to be multiplied.
    """

    text: str
    by_keys: bool = False
    factor: float = 1.0


@dataclass(frozen=True)
class Mask:
    """A condition that scores are kept on.

    Attributes:
        node: the condition; or a tensor that is added, 0 where scores are kept.
        keeps: whether a condition keeps where it is true; ``None`` for a tensor that is added.
        dims: its axes.
        is_finite: whether what is not kept may have a weight where nothing is.
        factor: by which a tensor that is added is multiplied.
    """

    node: Node
    keeps: bool | None
    dims: Dims
    is_finite: bool
    factor: float = 1.0


@dataclass(frozen=True)
class TensorText:
    """A tensor that the kernel takes.

    Attributes:
        name: of its pointer.
        node: its value in the graph.
    """

    name: str
    node: Node

    def stride(self, axis: int) -> str:
        """Return the name of a stride."""
        return f"{self.name}_{axis}"


def index_terms(dims: Dims, names: Sequence[str]) -> Iterator[tuple[str, int, int, int]]:
    """Yield the name, axis, and step of each part of an index, and the place of its name.

    The text of a part is a name that is divided by the sizes of the parts behind.
    """
    for place, (name, group) in enumerate(zip(names, dims, strict=True)):
        inner = 1
        for number, atom in enumerate(reversed(group)):
            text = name if inner == 1 else f"{name} // {inner}"
            if number + 1 < len(group):
                text = f"{text} % {atom.size}"
            inner *= atom.size
            if atom.axis is not None:
                yield text, atom.axis, atom.step, place


def scaled_term(text: str, factor: str) -> str:
    inner = text if re.fullmatch(r"\w+(\[.*\])?", text) else f"({text})"
    return inner if factor == "1" else f"{inner} * {factor}"


def offset_text(tensor: TensorText, dims: Dims, names: Sequence[str]) -> str:
    """Return the offset of an element as a text; empty if it is the first."""
    terms = []
    for text, axis, step, _ in index_terms(dims, names):
        stride = tensor.stride(axis)
        terms.append(scaled_term(text, stride if step == 1 else f"({step} * {stride})"))
    return " + ".join(terms)


@dataclass
class ScoreText:
    """Writes scores from a product on.

    Attributes:
        product: of queries and keys.
        dims: axes of the product that are the batch, queries and keys.
        factor: number by which the product is multiplied.
        drops: whether a mask need not be written; asked once for each.
        is_packed: whether rows of a block are of several sequences in the batch.
        names: of the indices.
        before: lines that no key changes.
        lines: lines for a tile.
        sides: tensors that are loaded.
        places: of the indices that each of these depends on.
        masks: those that are written out.
        own: nodes that depend on the product.
        largest: magnitude of a number, or of an element of a tensor, that scores may meet.
    """

    product: Node | None
    dims: Dims
    factor: float
    drops: Callable[[Mask], bool]
    is_packed: bool = False
    names: tuple[str, str, str] = ("batch", "m", "n")
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sides: list[TensorText] = field(default_factory=list)
    places: dict[TensorText, set[int]] = field(default_factory=dict)
    masks: list[Mask] = field(default_factory=list)
    own: set[Node] = field(default_factory=set)
    largest: float = 0.0
    _values: dict[Any, Value] = field(default_factory=dict)
    _depends: dict[Node, bool] = field(default_factory=dict)

    def write(self, node: Any, forward: Forward, outer: float | None = None) -> Value:
        """Return the value of a node.

        Args:
            node: in the graph; or a number.
            forward: gives its axes.
            outer: what it is multiplied by after that; ``None`` if more is done with it.

        Raises:
            UnreadableError: it depends on the product, and has no text.
        """
        if not isinstance(node, Node):
            return Value(self._number(node))
        dims = forward(whole_axes(node.meta["val"].shape))
        if dims is None:
            raise UnreadableError
        key = node, dims
        if key not in self._values:
            if self.depends(node):
                self.own.add(node)
            self._values[key] = self._written(node, forward, dims, outer)
        return self._values[key]

    def _written(self, node: Node, forward: Forward, dims: Dims, outer: float | None) -> Value:
        if node is self.product:
            return self._product(node, forward, dims)
        if (number := number_in(node)) is not None:
            return Value(self._number(_typed_number(node, number)))
        if is_view(node):
            source: Any = node.args[0]
            if follow_view(node, whole_axes(source.meta["val"].shape)) is not None:
                return self.write(source, lambda d: _then(forward, follow_view(node, d)), outer)
        elif node.target is _IOTA:
            return self._counted(node, dims)
        elif is_elementwise(node):
            return self._operator(node, forward, outer)
        if self.depends(node):
            raise UnreadableError
        return self.load(node, dims)

    def _product(self, node: Node, forward: Forward, dims: Dims) -> Value:
        if dims != self.dims:
            raise UnreadableError
        scores = Value("s", True, self.factor)
        if not PRODUCTS[node.target]:
            return scores
        alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
        addend = self.plain(self.write(node.args[0], broadcast(node, node.args[0], forward)))
        scaled = replace(scores, factor=scores.factor * float(alpha))  # type: ignore[arg-type]
        return self.added(scaled, replace(addend, factor=float(beta)))  # type: ignore[arg-type]

    def masked(self, value: Value, kept: Value) -> Value:
        """Return scores that are minus infinity where they are not kept."""
        text = f'tl.where({kept.text}, {value.text}, float("-inf"))'
        return self._line(text, True, value.factor)

    def added(self, value: Value, other: Value) -> Value:
        """Return a sum of scores and another value."""
        return self._line(f"{self.plain(value).text} + {self.plain(other).text}", True)

    def depends(self, node: Node) -> bool:
        """Tell whether a node has scores in it."""
        if node not in self._depends:
            follows = is_view(node) or is_elementwise(node)
            self._depends[node] = node is self.product or (
                follows and any(self.depends(source) for source in node.all_input_nodes)
            )
        return self._depends[node]

    def load(self, node: Node, dims: Dims) -> Value:
        """Return the value of a tensor that is loaded."""
        tensor = next((side for side in self.sides if side.node is node), None)
        if tensor is None:
            tensor = TensorText(f"side_{len(self.sides)}", node)
            self.sides.append(tensor)
        dtype = node.meta["val"].dtype
        if dtype.is_complex:
            raise UnreadableError
        if dtype.is_floating_point:
            self.largest = max(self.largest, torch.finfo(dtype).max)
        kind = "tl.float32" if dtype.is_floating_point else "tl.int1"
        kind = kind if dtype.is_floating_point or dtype is torch.bool else "tl.int64"
        places = {place for *_, place in index_terms(dims, self.names)}
        self.places[tensor] = self.places.get(tensor, set()) | places
        inside = {*places, 1} - {0} if self.is_packed and 0 in places else places - {0}
        mask = " & ".join(f"inside_{self.names[place]}" for place in sorted(inside))
        offset = offset_text(tensor, dims, self.names)
        text = f"{tensor.name} + {offset}" if offset else tensor.name
        masked = f", mask={mask}, other=0" if mask else ""
        return self._line(f"tl.load({text}{masked}).to({kind})", by_keys=2 in places)

    def _number(self, value: Any) -> str:
        """Return the text of a number, after a note of how large it is."""
        if math.isfinite(value):
            self.largest = max(self.largest, abs(value))
        return _number_text(value)

    def _counted(self, node: Node, dims: Dims) -> Value:
        start, step = (int(node.kwargs.get(name, usual)) for name, usual in _COUNTS)  # type: ignore[arg-type]
        terms = list(index_terms(dims, self.names))
        texts = [scaled_term(text, str(part * step)) for text, _, part, _ in terms]
        by_keys = any(place == 2 for *_, place in terms)
        return self._line(" + ".join([*texts, str(start)] if start else texts) or "0", by_keys)

    def _line(self, text: str, by_keys: bool, factor: float = 1.0) -> Value:
        name = f"t{len(self.before) + len(self.lines)}"
        (self.lines if by_keys else self.before).append(f"{name} = {text}")
        return Value(name, by_keys, factor)

    def plain(self, value: Value) -> Value:
        """Return a value with no factor left."""
        if value.factor == 1:
            return value
        return self._line(f"{value.text} * {value.factor!r}", value.by_keys)

    # ------------------------------------------------------------------------------ operators

    def _operator(self, node: Node, forward: Forward, outer: float | None) -> Value:
        scaled = scaled_tensor(node) if self.depends(node) else None
        if scaled is not None:
            inner = None if outer is None else outer * scaled[1]
            value = self.write(scaled[0], forward, inner)
            return replace(value, factor=value.factor * scaled[1])
        if node.target in CONVERSIONS:
            return self._conversion(node, forward, outer)
        if node.target is aten.where.self and (masked := self._mask(node, forward, outer)):
            return masked
        is_sum = node.target in (aten.add.Tensor, aten.sub.Tensor)
        own = [arg for arg in node.all_input_nodes if self.depends(arg)]
        inner = outer if is_sum and len(own) == 1 else None
        values = []
        for arg in node.args:
            if is_sum and len(own) == 1 and self._is_dropped_sum(node, arg, forward, outer):
                values.append(Value("0"))
            else:
                value = self.write(arg, broadcast(node, arg, forward), inner)
                values.append(self.plain(value))
        if is_sum and len(values) == 2 and values[1].text == "0":
            return values[0]
        text = self._text(node, [value.text for value in values])
        return self._line(text, any(value.by_keys for value in values))

    def _text(self, node: Node, texts: list[str]) -> str:
        packet = node.target.overloadpacket  # type: ignore[union-attr]
        packet = aten.floor_divide if node.kwargs.get("rounding_mode") == "floor" else packet
        if packet is aten.where:
            return f"tl.where({', '.join(texts)})"
        if packet in (aten.add, aten.sub) and (alpha := node.kwargs.get("alpha", 1)) != 1:
            texts[1] = f"{texts[1]} * {alpha!r}"
        if packet is aten.pow:
            return " * ".join([texts[0]] * int(node.args[1]))  # type: ignore[arg-type]
        if packet in _WHOLE:  # C's signs of quotients are others
            return _WHOLE[packet].format(*texts)
        if packet in _LOGICAL:
            pairs = zip(texts, node.args, strict=True)
            texts = [t if _is_bool(arg) else f"({t} != 0)" for t, arg in pairs]
        if packet is aten.mul and _is_whole(node):
            pairs = zip(texts, node.args, strict=True)  # products of counts grow large
            texts = [f"tl.cast({t}, tl.int64)" if isinstance(a, Node) else t for t, a in pairs]
        return _TEXTS[packet].format(*texts)

    def _conversion(self, node: Node, forward: Forward, outer: float | None) -> Value:
        source: Any = node.args[0]
        dtype = node.meta["val"].dtype
        value = self.write(source, forward, outer if is_float_conversion(node) else None)
        if dtype.is_floating_point and source.meta["val"].dtype.is_floating_point:
            return value
        value = self.plain(value)
        if dtype is torch.bool:
            return self._line(f"{value.text} != 0", value.by_keys)
        kind = "tl.float32" if dtype.is_floating_point else "tl.int64"
        return self._line(f"tl.cast({value.text}, {kind})", value.by_keys)

    def _mask(self, node: Node, forward: Forward, outer: float | None) -> Value | None:
        """Return scores of which some are minus infinity, without a mask that is dropped."""
        condition: Any = node.args[0]
        for place in (1, 2):
            scores, fill = node.args[place], number_in(node.args[3 - place])
            if fill is None or outer is None or not isinstance(scores, Node):
                continue
            if self.depends(condition) or not self.depends(scores) or not fill * outer <= MASKED:
                continue
            dims = broadcast(node, condition, forward)(whole_axes(condition.meta["val"].shape))
            if dims is None:
                return None
            mask = Mask(condition, place == 1, dims, not math.isinf(fill))
            is_dropped = self.drops(mask)
            # a finite number that is filled in takes the place of minus infinity, too
            inner = outer if is_dropped or not mask.is_finite else None
            value = self.write(scores, broadcast(node, scores, forward), inner)
            if is_dropped:
                return value
            self.masks.append(mask)
            kept = self.write(condition, broadcast(node, condition, forward))
            if not math.isinf(fill) or not value.factor > 0:
                value = self.plain(value)
            texts = [value.text, self._number(fill)]
            texts = texts if place == 1 else texts[::-1]
            return self._line(f"tl.where({kept.text}, {', '.join(texts)})", True, value.factor)
        return None

    def _is_dropped_sum(self, node: Node, arg: Any, forward: Forward, outer: float | None) -> bool:
        """Tell whether what is added is a mask that is dropped."""
        if not isinstance(arg, Node) or self.depends(arg) or outer is None or node.kwargs:
            return False
        if node.target is not aten.add.Tensor or not outer > 0:
            return False
        dims = broadcast(node, arg, forward)(whole_axes(arg.meta["val"].shape))
        return dims is not None and self.drops(Mask(arg, None, dims, True, outer))


_COUNTS = (("start", 0), ("step", 1))


def broadcast(node: Node, arg: Any, forward: Forward) -> Forward:
    """Return how the axes of an argument become those of scores, as those of its operator do."""
    shape = tuple(node.meta["val"].shape)
    if not isinstance(arg, Node) or tuple(arg.meta["val"].shape) == shape:
        return forward

    def broadcast_axes(dims: Dims) -> Dims | None:
        padded = ((),) * (len(shape) - len(dims)) + dims
        pairs = zip(padded, shape, strict=True)
        return forward(tuple(g if g or n == 1 else (Atom(None, n),) for g, n in pairs))

    return broadcast_axes


def _then(forward: Forward, dims: Dims | None) -> Dims | None:
    return None if dims is None else forward(dims)


def is_elementwise(node: Node) -> bool:
    """Tell whether a node has a text."""
    target: Any = node.target
    if target in CONVERSIONS:
        return True
    packet, value = getattr(target, "overloadpacket", None), node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.dtype.itemsize == 0:
        return False
    sources = [arg for arg in node.args if isinstance(arg, Node)]
    if packet is aten.where:
        return len(node.args) == 3
    if packet is aten.pow:
        return node.args[1] in (2, 3) and _is_floating(node)
    if packet in _WHOLE or node.kwargs.get("rounding_mode") == "floor":
        return _is_count_by_number(node)
    if packet not in _TEXTS or set(node.kwargs) - {"alpha"}:
        return False
    if packet in _BITWISE:
        return all(map(_is_bool, node.args))
    if packet in _FLOAT:
        return packet is aten.div or all(map(_is_floating, sources))
    if packet is aten.relu or packet in _LOGICAL or packet in _COMPARISONS:
        return True
    return not _is_bool(node) and not any(map(_is_bool, sources))


def _is_count_by_number(node: Node) -> bool:
    count, number = node.args
    is_count = isinstance(count, Node) and not _is_floating(count) and not _is_bool(count)
    return is_count and not _is_floating(node) and isinstance(number, int) and number > 0


def _is_bool(value: Any) -> bool:
    dtype = value.meta["val"].dtype if isinstance(value, Node) else None
    return dtype is torch.bool or isinstance(value, bool)


def _is_floating(node: Node) -> bool:
    return bool(node.meta["val"].dtype.is_floating_point)


def _is_whole(node: Node) -> bool:
    return not _is_floating(node)


def _typed_number(node: Node, number: float) -> float:
    dtype = node.meta["val"].dtype
    if dtype is torch.bool:
        return bool(number)
    return number if dtype.is_floating_point else int(number)


def _number_text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value!r}")'
    return repr(value)
