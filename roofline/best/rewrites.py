"""Rewrites of single operators that hold for all values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from solkit.roofline.best.graph import Graph, Node, Ref, Value, mapped


def rewritten(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """Return a graph with equal operators merged and identities applied, and their names."""
    rewriter = _Rewriter(graph)
    for node in graph.nodes:
        rewriter.add(node)
    results = tuple(rewriter.names.get(v, v) for v in graph.results)
    whole = replace(
        graph, values=tuple(rewriter.values), nodes=tuple(rewriter.nodes), results=results
    )
    return whole, tuple(dict.fromkeys(rewriter.steps))


@dataclass
class _Rewriter:
    graph: Graph
    values: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    names: dict[int, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    _seen: dict[Any, Node] = field(default_factory=dict)
    _made: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = list(self.graph.values)

    def add(self, node: Node) -> None:
        node = self._renamed(node)
        rule = _RULES.get(node.op)
        if rule is not None and (new := rule(self, node)) is not None:
            self.names[_first(node)] = new
            return
        self._append(node)

    def _renamed(self, node: Node) -> Node:
        def rename(leaf: Any) -> Any:
            return Ref(self.names.get(leaf.value, leaf.value)) if isinstance(leaf, Ref) else leaf

        args, kwargs, arguments = mapped(
            rename, (node.args, dict(node.kwargs), dict(node.arguments))
        )
        return replace(node, args=args, kwargs=kwargs, arguments=arguments)

    def _append(self, node: Node) -> Node:
        """Add a node, or use an equal one that stands there."""
        repeatable = not node.op.startswith(("written", "random", "empty", "new_empty"))
        key = (node.op, node.overload, repr(node.args), repr(sorted(node.kwargs.items(), key=str)))
        earlier = self._seen.get(key) if repeatable else None
        if earlier is not None:
            for old, new in zip(node.outputs, earlier.outputs):
                if old is not None and new is not None:
                    self.names[old] = new
            return earlier
        self._seen[key] = node
        self.nodes.append(node)
        for value in node.outputs:
            if value is not None:
                self._made[value] = node
        return node

    # ---------------------------------------------------------------------------- for rules

    def maker(self, argument: Any) -> Node | None:
        """Return the node that makes a tensor argument."""
        return self._made.get(argument.value) if isinstance(argument, Ref) else None

    def value(self, like: int) -> int:
        """Return a new value like another one."""
        self.values.append(self.values[like])
        return len(self.values) - 1

    def call(self, op: str, overload: str, args: tuple[Any, ...], like: Node, **named: Any) -> int:
        """Add an operator with results like those of another one; return its first value."""
        outputs = tuple(None if v is None else self.value(v) for v in like.outputs)
        node = self._append(Node(op, overload, args, {}, outputs, named))
        return _first(node)


def _first(node: Node) -> int:
    return next(v for v in node.outputs if v is not None)


_Rule = Callable[[_Rewriter, Node], "int | None"]


def _log(rewriter: _Rewriter, node: Node) -> int | None:
    inner = rewriter.maker(node.args[0])
    if inner is None:
        return None
    if inner.op == "_softmax" and not inner.args[2]:
        rewriter.steps.append("write log of softmax as log-softmax")
        return rewriter.call("_log_softmax", "default", inner.args, node, dim=inner.args[1])
    if inner.op == "sum" and "dim" in inner.arguments:
        exponential = rewriter.maker(inner.args[0])
        if exponential is None or exponential.op != "exp" or inner.kwargs:
            return None
        dims = inner.arguments["dim"]
        keeps = bool(inner.arguments.get("keepdim", False))
        if not dims:
            return None
        dims = [d % len(rewriter.values[_first(exponential)].shape) for d in dims]
        rewriter.steps.append("write log of a sum of exponentials as logsumexp")
        args = (exponential.args[0], dims, keeps)
        return rewriter.call("logsumexp", "default", args, node, dim=dims, keepdim=keeps)
    return None


def _logsumexp(rewriter: _Rewriter, node: Node) -> int | None:
    """Write dimensions from the front, so that equal ones are seen."""
    source = rewriter.values[node.args[0].value]
    dims, keeps = node.arguments["dim"], bool(node.arguments.get("keepdim", False))
    dims = [d % len(source.shape) for d in dims] if source.shape else []
    args = (node.args[0], dims, keeps)
    return (
        None
        if node.args == args
        else rewriter.call("logsumexp", "default", args, node, dim=dims, keepdim=keeps)
    )


def _exp(rewriter: _Rewriter, node: Node) -> int | None:
    inner = rewriter.maker(node.args[0])
    if inner is not None and inner.op == "_log_softmax" and not inner.args[2]:
        rewriter.steps.append("write exp of log-softmax as softmax")
        return rewriter.call("_softmax", "default", inner.args, node, dim=inner.args[1])
    return None


def _sub(rewriter: _Rewriter, node: Node) -> int | None:
    """``x - logsumexp(x)`` is a log-softmax."""
    if len(node.args) < 2 or node.kwargs or not isinstance(node.args[1], Ref):
        return None
    other = rewriter.maker(node.args[1])
    if other is None or other.op != "logsumexp" or other.args[0] != node.args[0]:
        return None
    dims, keeps = other.arguments["dim"], other.arguments.get("keepdim", False)
    if len(dims) != 1 or not keeps:
        return None
    rewriter.steps.append("write x - logsumexp(x) as log-softmax")
    args = (node.args[0], dims[0], False)
    return rewriter.call("_log_softmax", "default", args, node, dim=dims[0])


def _determinant(rewriter: _Rewriter, node: Node) -> int | None:
    """Split the determinant of a product of square matrices."""
    factors = _square_factors(rewriter, node.args[0])
    if len(factors) < 2:
        return None
    rewriter.steps.append("split the determinant of a product")
    parts: list[Node] = []
    for factor in factors:
        first = rewriter.call(node.op, node.overload, (factor, *node.args[1:]), node)
        parts.append(rewriter._made[first])
    sums = ("mul", "add") if "slogdet" in node.op else ("mul",)
    for place, op in enumerate(sums):
        own = node.outputs[place]
        if own is None:
            continue
        total = Ref(_output(parts[0], place))
        for part in parts[1:]:
            out = rewriter.value(own)
            args = (total, Ref(_output(part, place)))
            named = {"self": args[0], "other": args[1]}
            rewriter._append(Node(op, "Tensor", args, {}, (out,), named))
            total = Ref(out)
        rewriter.names[own] = total.value
    return rewriter.names[_first(node)]


def _output(node: Node, place: int) -> int:
    value = node.outputs[place]
    assert value is not None
    return value


def _square_factors(rewriter: _Rewriter, argument: Any) -> list[Ref]:
    maker = rewriter.maker(argument)
    if maker is None or rewriter.values[argument.value].dtype not in ("float32", "float64"):
        return [argument]
    if maker.op in ("t", "transpose", "view", "_unsafe_view", "expand", "clone"):
        shape = rewriter.values[argument.value].shape
        source = maker.args[0]
        own = rewriter.values[source.value].shape
        turned = maker.op == "t" or (
            maker.op == "transpose"
            and {d % len(own) for d in maker.args[1:3]} == {len(own) - 1, len(own) - 2}
        )
        if own == shape and (turned or maker.op not in ("t", "transpose")):
            factors = _square_factors(rewriter, source)
            return factors if len(factors) > 1 else [argument]
        return [argument]
    if maker.op not in ("mm", "bmm"):
        return [argument]
    shapes = [rewriter.values[ref.value].shape for ref in maker.args[:2]]
    if any(shape[-1] != shape[-2] for shape in shapes):
        return [argument]
    return list(itertools.chain(*(_square_factors(rewriter, factor) for factor in maker.args[:2])))


_RULES: dict[str, _Rule] = {
    "log": _log,
    "exp": _exp,
    "sub": _sub,
    "logsumexp": _logsumexp,
    **dict.fromkeys(("_linalg_slogdet", "_linalg_det"), _determinant),
}
