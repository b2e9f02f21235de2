"""Traces of references as graphs: on fake tensors, in a child process."""

# mypy: disable-error-code="no-untyped-call"
# (the dispatch modes are untyped)

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from solkit.adapters.fake_cuda import known_value, taken_apart
from solkit.ops import operator
from solkit.roofline.best.graph import Graph, Node, NoPlanError, Ref, Value, mapped

_MOST_LITERALS = 64
_IGNORED = ("_linalg_check_errors", "_assert_async", "_assert_tensor_metadata")


def trace_graph(
    run: Callable[[], Sequence[torch.Tensor]], inputs: Mapping[str, torch.Tensor]
) -> Graph:
    """Run a reference on fake tensors and record each operator, views too.

    Args:
        run: calls the reference, returns its output tensors.
        inputs: tensors that exist before, by the place where a call finds them.

    Raises:
        NoPlanError: a plan cannot follow the program: it writes in place, draws random numbers.
    """
    recorder = _Recorder(inputs)
    with recorder:
        results = run()
    return recorder.graph(results)


class _Recorder(TorchDispatchMode):
    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._values: list[Value] = []
        self._nodes: list[Node] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no address is used twice
        self._written: dict[int, str] = {}
        self._versions: dict[int, int] = {}
        self._created: dict[int, tuple[int, int]] = {}
        self._places: dict[int, str] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._inputs: list[int] = []
        for place, tensor in inputs.items():
            if id(tensor) not in self._numbers:
                number = self._new(tensor)
                self._inputs.append(number)
                self._places[number] = place

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if (parts := taken_apart(self, func, args, kwargs)) is not NotImplemented:
            return parts
        packet = str(getattr(func, "overloadpacket", "")).rpartition(".")[2]
        if func.namespace == "prim" or packet in _IGNORED:
            return func(*args, **kwargs)
        if packet in ("split", "split_with_sizes") and args[1]:
            with self:
                return _slices(*args, **kwargs)
        frozen = mapped(self._frozen, (args, dict(kwargs)))
        out = func(*args, **kwargs)
        self._record(func, packet, frozen, args, out)
        return out

    def _record(self, func: Any, packet: str, frozen: Any, args: Any, out: Any) -> None:
        schema = func._schema
        names = [argument.name for argument in schema.arguments]
        arguments = {**dict(zip(names, frozen[0])), **frozen[1]}
        outputs = [t if isinstance(t, torch.Tensor) else None for t in tree_flatten(out)[0]]
        if func.namespace != "aten":
            packet = f"{func.namespace}.{packet}"
        if operator(f"aten.{packet}").random or torch.Tag.nondeterministic_seeded in func.tags:
            packet = f"random {packet}"
        is_view = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        if schema.is_mutable:
            packet = self._without_write(func, packet, args, outputs)
        numbers = tuple(None if t is None else self._new(t) for t in outputs)
        for t, number in zip(outputs, numbers):
            if is_view and t is not None and number is not None:
                storage = t.untyped_storage()._cdata
                self._created[number] = storage, self._versions.get(storage, 0)
        node = Node(packet, func._overloadname, frozen[0], frozen[1], numbers, arguments)
        self._nodes.append(node)

    def _without_write(self, func: Any, packet: str, args: Any, outputs: list[Any]) -> str:
        """Return the functional form of an operator in place, whose old results become stale."""
        target = args[0] if args else None
        plain = packet.removesuffix("_")
        own = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info and argument.alias_info.is_write:
                for tensor in tree_flatten(value)[0]:
                    if isinstance(tensor, torch.Tensor):
                        storage = tensor.untyped_storage()._cdata
                        self._versions[storage] = self._versions.get(storage, 0) + 1
        if not isinstance(target, torch.Tensor) or own != ["self"] or packet == plain:
            return f"written {packet}"
        if (
            not hasattr(torch.ops.aten, plain)
            or target._base is not None
            or self._numbers.get(id(target)) in self._places
        ):
            return f"written {packet}"
        outputs[:] = [target]
        return plain

    def _new(self, tensor: torch.Tensor) -> int:
        number = len(self._values)
        self._values.append(
            Value(tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."))
        )
        self._numbers[id(tensor)] = number
        self._tensors[number] = tensor
        self._kept.append((tensor, tensor.untyped_storage()))
        storage = tensor.untyped_storage()._cdata
        self._created[number] = storage, self._versions.get(storage, 0)
        return number

    def _frozen(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        number = self._numbers.get(id(leaf))
        if number is None:
            number = self._literal(leaf)
        storage, version = self._created[number]
        if self._versions.get(storage, 0) != version:
            raise NoPlanError("it writes in place to what it also reads through a view")
        return Ref(number)

    def _literal(self, tensor: torch.Tensor) -> int:
        """Record a small tensor of known values as a constant."""
        value = known_value(tensor) if isinstance(tensor, FakeTensor) else tensor.detach().numpy()
        if value is None or value.size > _MOST_LITERALS:
            raise NoPlanError("it reads a tensor that is neither an argument nor a parameter")
        number = self._new(tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._nodes.append(Node("literal", dtype, (value.tolist(),), {}, (number,)))
        return number

    def graph(self, results: Sequence[torch.Tensor]) -> Graph:
        """Return what was recorded."""
        numbers = tuple(self._frozen(tensor).value for tensor in results)
        places = tuple(self._places[n] for n in self._inputs)
        return Graph(
            tuple(self._values),
            tuple(self._nodes),
            tuple(self._inputs),
            _named(places),
            places,
            numbers,
        )


def _slices(tensor: torch.Tensor, sizes: int | Sequence[int], dim: int = 0) -> list[torch.Tensor]:
    """Return the parts of ``split`` and ``split_with_sizes`` as slices, which are linear."""
    size = tensor.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, size - start) for start in range(0, size, sizes)]
    ends = accumulate(sizes)
    return [torch.ops.aten.slice(tensor, dim, end - part, end) for part, end in zip(sizes, ends)]


def _named(places: Sequence[str]) -> tuple[str, ...]:
    """Return a distinct Python name for each place."""
    names: list[str] = []
    for place in places:
        name = re.sub(r"\W+", "_", place.removeprefix("self.")).strip("_") or "x"
        name = f"x{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        while name in names or name in ("torch", "F", "aten"):
            name += "_"
        names.append(name)
    return tuple(names)
