"""The ``reference`` of a kernel that Inductor made: what it computes, in aten calls.

Inductor loads bfloat16 and float16 as float32 and rounds what it stores, nothing between
(``emulate_precision_casts`` is off, as by default), while aten rounds at each call. Where that
makes a difference the reference is written to compute in float32 too. Matrix products and
convolutions keep the dtype of their operands, as tensor cores do.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tools.inductor.lowering import Lowered

__all__ = ["CONTRACTIONS", "LeftOut", "Reference"]

CONTRACTIONS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "convolution", "_int_mm", "_scaled_mm", "_grouped_mm"}
)
"""Calls that multiply matrices, by their names in aten."""

_NARROW = (torch.bfloat16, torch.float16)
_CODES = (torch.int8, torch.uint8, torch.int16, torch.int32)
_MOVES = frozenset(
    {"alias", "as_strided", "cat", "clone", "constant_pad_nd", "diagonal", "embedding", "expand"}
    | {"flip", "gather", "index", "_unsafe_index", "index_select", "permute", "repeat", "reshape"}
    | {"rev", "roll", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "t"}
    | {"transpose", "unbind", "unsqueeze", "view"}
)
"""Calls that bring values elsewhere as they are."""
_MONOTONE = frozenset(
    {"abs", "amax", "amin", "clamp", "clamp_max", "clamp_min", "maximum", "minimum", "neg"}
    | {"full", "relu", "scalar_tensor", "where"}
)
"""Calls that come to the same whether values are rounded before or after."""
_SCANS = frozenset({"cumprod", "cumsum", "logcumsumexp"})
"""Calls that in a narrow dtype round each of their steps."""
_COMPARISONS = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})
_PRIMS = ("prims.iota.default", "prims.rev.default")


class LeftOut(Exception):  # noqa: N818 - not an error: a kernel that gets no file, and why
    """A kernel has no file."""


class Reference:
    """The part of a graph that lies between what a kernel reads and what it writes.

    Args:
        lowered: the graph.
        given: values that the kernel reads.
        wanted: values that it writes.

    Raises:
        LeftOut: something is needed that is not given, or is no aten call.
    """

    def __init__(
        self, lowered: Lowered, inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]
    ) -> None:
        self._given, self._wanted = inputs, outputs
        needed = _needed(outputs, frozenset(inputs))
        self.calls = tuple(node for node in lowered.graph.graph.nodes if node in needed)

    @property
    def longest_product(self) -> int:
        """The number of factors of its longest running product."""
        products = [call for call in self.calls if _name(call) == "cumprod"]
        return max((_value(call).shape[call.args[1]] for call in products), default=1)

    @property
    def contracts_float32(self) -> bool:
        """True if it multiplies matrices of float32."""
        products = [_value(call) for call in self.calls if _name(call) in CONTRACTIONS]
        return any(product.dtype is torch.float32 for product in products)

    def text(self) -> str:
        """The source of ``reference``."""
        lines = _Wide(self._given[0]) if self._rounds_between() else _Lines(self._given[0])
        for call in self.calls:
            lines.add(call)
        returned = ", ".join(map(lines.result, self._wanted))
        head = f"def reference({', '.join(node.name for node in self._given)}):"
        return "\n".join([head, *(f"    {line}" for line in lines), f"    return {returned}"])

    def _rounds_between(self) -> bool:
        """True if aten rounds what the kernel does not."""
        return any(
            _is_narrow(call)
            and (_name(call) in _SCANS or (_rounds(call) and self._is_computed_with(call)))
            for call in self.calls
        )

    def _is_computed_with(self, node: torch.fx.Node) -> bool:
        passing = _MOVES | _MONOTONE | {"getitem"}
        return any(
            _name(user) not in passing or self._is_computed_with(user)
            for user in node.users
            if user in self.calls and _name(user) not in CONTRACTIONS  # which round it anyway
        )

    def codes(self) -> list[int]:
        """Places of those outputs that are integers made of what was computed in floats."""
        return [place for place, node in enumerate(self._wanted) if self._is_code(node)]

    def _is_code(self, node: torch.fx.Node) -> bool:
        if node not in self.calls or _value(node).dtype not in _CODES:
            return False
        if _name(node) != "convert_element_type":
            return _name(node) in _MOVES | _MONOTONE and any(
                map(self._is_code, node.all_input_nodes)
            )
        (source,) = node.all_input_nodes
        return _value(source).is_floating_point() and source in self.calls


def _needed(
    outputs: Sequence[torch.fx.Node], inputs: frozenset[torch.fx.Node]
) -> set[torch.fx.Node]:
    needed: set[torch.fx.Node] = set()
    open_nodes = [node for node in outputs if node not in inputs]
    while open_nodes:
        node = open_nodes.pop()
        if node in needed:
            continue
        if node.op != "call_function":
            raise LeftOut("needs what it does not read")
        needed.add(node)
        open_nodes += [n for n in node.all_input_nodes if n not in inputs]
    return needed


def _name(node: torch.fx.Node) -> str:
    """``"add"`` of ``aten.add.Tensor``, ``"getitem"`` of Python's."""
    if node.target is operator.getitem or node.op != "call_function":
        return "getitem" if node.op == "call_function" else node.op
    return str(node.target).split(".")[1]


def _value(node: torch.fx.Node) -> Any:
    """A fake tensor, or several."""
    return node.meta["val"]


def _is_narrow(node: torch.fx.Node) -> bool:
    return any(
        isinstance(value, torch.Tensor) and value.dtype in _NARROW
        for value in tree_leaves(_value(node))
    )


def _rounds(call: torch.fx.Node) -> bool:
    """Tell whether its result, in a narrow dtype, differs from that in float32."""
    if call.target is operator.getitem:
        return _rounds(call.all_input_nodes[0])
    return _name(call) not in _MOVES | _MONOTONE | CONTRACTIONS


class _Lines:
    """A reference's lines, one a call.

    Args:
        first: what is made anew stands where this argument does.
    """

    def __init__(self, first: torch.fx.Node) -> None:
        self._first = first
        self._lines: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def add(self, call: torch.fx.Node) -> None:
        """Append a call."""
        self._lines.append(f"{call.name} = {self._call(call, call.args, call.kwargs)}")

    def result(self, node: torch.fx.Node) -> str:
        """Return a value's text."""
        return self._text(node)

    def _call(self, node: torch.fx.Node, args: Any, kwargs: Mapping[str, Any]) -> str:
        target, texts = str(node.target), [self._text(arg) for arg in args]
        if node.target is operator.getitem:
            return f"{texts[0]}[{texts[1]}]"
        if target == "prims.convert_element_type.default":
            return f"{texts[0]}.to({texts[1]})"
        if target == "prims.prepare_softmax_online.default":  # an op that only Inductor has
            peak = f"{texts[0]}.amax({texts[1]}, keepdim=True)"
            return f"{peak}, ({texts[0]} - {peak}).exp().sum({texts[1]}, keepdim=True)"
        if not target.startswith("aten.") and target not in _PRIMS:
            raise LeftOut(f"its reference has {target}")
        texts += [
            f"{name}={self._text(value)}"
            for name, value in kwargs.items()
            if name not in ("pin_memory", "layout")
        ]
        module = "" if target.startswith("aten.") else "torch.ops."
        return f"{module}{target}({', '.join(texts)})"

    def _text(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, torch.fx.Node):
            return value.name
        if isinstance(value, torch.device):
            return f"{self._text(self._first)}.device"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value)


class _Wide(_Lines):
    """Lines that compute in float32, as the kernel does: what is narrow is widened when it is used.

    A widened argument keeps its name. A cast that would round, or that has nothing left to do, is
    not written.
    """

    def __init__(self, first: torch.fx.Node) -> None:
        super().__init__(first)
        self._names: dict[torch.fx.Node, str] = {}
        self._wide: set[torch.fx.Node] = set()

    def add(self, call: torch.fx.Node) -> None:
        """Append a call, and the casts that it needs."""
        args, kwargs = call.args, dict(call.kwargs)
        if _name(call) == "convert_element_type":
            self._convert(call)
            return
        if call.target is torch.ops.aten.view.dtype or _name(call) in CONTRACTIONS:
            names = dict(self._names)
            self._names.update({node: self._narrowed(node) for node in call.all_input_nodes})
            self._append(call, args, kwargs)
            self._names = names
            return
        moves = _name(call) in _MOVES | {"getitem"}
        if not moves or self._wide.intersection(call.all_input_nodes):
            self._widen_operands(call)
            args, kwargs = _in_float32(args), _in_float32(kwargs)
            self._wide.update([call] if _is_narrow(call) else [])
        if _name(call) in _COMPARISONS:
            args = tuple(_as_compared(arg, call.all_input_nodes[0]) for arg in args)
        self._append(call, args, kwargs)

    def result(self, node: torch.fx.Node) -> str:
        """Return a value's text, rounded this once."""
        return self._narrowed(node)

    def _append(self, call: torch.fx.Node, args: Any, kwargs: Mapping[str, Any]) -> None:
        self._lines.append(f"{call.name} = {self._call(call, args, kwargs)}")

    def _convert(self, call: torch.fx.Node) -> None:
        source, dtype = call.all_input_nodes[0], _value(call).dtype
        if dtype in _NARROW:
            self._wide.add(call)
        dtype = torch.float32 if dtype in _NARROW else dtype
        has = torch.float32 if source in self._wide else _value(source).dtype
        written = any(_name(user) == "copy_" and user.args[0] is call for user in call.users)
        if dtype == has and not written:
            self._names[call] = self._text(source)
        else:
            cast = ".clone()" if dtype == has else f".to({dtype})"
            self._lines.append(f"{call.name} = {self._text(source)}{cast}")

    def _widen_operands(self, call: torch.fx.Node) -> None:
        for node in call.all_input_nodes:
            if _is_narrow(node) and node not in self._wide:
                self._lines.append(f"{node.name} = {node.name}.float()")
                self._wide.add(node)

    def _narrowed(self, node: torch.fx.Node) -> str:
        cast = f".to({_value(node).dtype})" if node in self._wide else ""
        return f"{self._text(node)}{cast}"

    def _text(self, value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return self._names.get(value, value.name)
        return super()._text(value)


def _in_float32(value: Any) -> Any:
    """Arguments that name no narrow dtype."""
    if isinstance(value, dict):
        return {name: _in_float32(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_in_float32, value))
    return torch.float32 if value in _NARROW else value


def _as_compared(value: Any, with_what: torch.fx.Node) -> Any:
    """A number as Inductor compares with it, and aten: in the dtype of what it stands against."""
    narrow = isinstance(value, float) and _is_narrow(with_what)
    return torch.tensor(value, dtype=_value(with_what).dtype).item() if narrow else value
