"""A traced program with its views, as operations on numbered values; without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class NoPlanError(Exception):
    """The search cannot follow a program; the message says why."""


@dataclass(frozen=True)
class Ref:
    """A tensor among the arguments of a node: the number of its value."""

    value: int


@dataclass(frozen=True)
class Value:
    """A tensor of the program.

    Attributes:
        shape: in elements.
        dtype: its name, e.g. ``"float32"``.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_float(self) -> bool:
        """True if it is of a real floating dtype."""
        return "float" in self.dtype


@dataclass(frozen=True)
class Node:
    """One call of an ATen operator.

    Attributes:
        op: its packet, e.g. ``"mm"``; ``"literal"`` for a small constant.
        overload: e.g. ``"default"``.
        args, kwargs: as called, tensors replaced by `Ref`.
        outputs: numbers of the values that it returns; ``None`` for what is no tensor.
        arguments: all arguments by the names of the schema.
    """

    op: str
    overload: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[int | None, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Values that it reads."""
        return tuple(refs_of((self.args, self.kwargs)))


@dataclass(frozen=True)
class Graph:
    """A program.

    Attributes:
        values: by number.
        nodes: in program order.
        inputs: values that exist before.
        names: of `inputs`, as the plan calls them.
        places: of `inputs`, as a call of the reference finds them, e.g. ``"x"`` or
            ``"self.fc.weight"``.
        results: values that it returns.
    """

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    names: tuple[str, ...]
    places: tuple[str, ...]
    results: tuple[int, ...]

    def producers(self) -> dict[int, Node]:
        """Return the node of each value that one makes."""
        return {v: node for node in self.nodes for v in node.outputs if v is not None}


def refs_of(tree: Any) -> Iterator[int]:
    """Yield the values in nested arguments."""
    if isinstance(tree, Ref):
        yield tree.value
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from refs_of(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from refs_of(item)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to each leaf of nested arguments."""
    if isinstance(tree, Mapping):
        return {key: mapped(function, item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(function, item) for item in tree)
    return function(tree)


def live_nodes(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes that the results depend on."""
    needed, kept = set(graph.results), []
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs if v is not None):
            kept.append(node)
            needed |= set(node.inputs)
    return tuple(reversed(kept))
