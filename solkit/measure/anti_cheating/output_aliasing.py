"""Suspicious outputs of a call: not plain tensors, or memory that is not their own."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES, tree_leaves

from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.probes import defining_file, is_library

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_OVERLAPS = 1  # at::MemOverlap::Yes


class Outputs:
    """Inspects what calls return; remembers the last outputs."""

    def __init__(self) -> None:
        self._containers = set(SUPPORTED_NODES)
        self._last: list[weakref.ref[torch.Tensor]] = []

    def findings(self, returned: Any, inputs: Any, shares_memory: bool) -> Iterator[Finding]:
        """Yield what is suspicious about a call's outputs; see `CheatDetector.findings`."""
        yield from self._find_lazy_containers(returned)
        outputs = tensors_in(returned)
        yield from _find_subclasses(outputs)
        plain = [tensor for tensor in outputs if _has_memory(tensor)]
        if not shares_memory:
            yield from _find_aliases(plain, tensors_in(inputs))
            yield from _find_unmaterialised(plain)
        yield from self._find_reused_memory(plain)
        self._last = [weakref.ref(tensor) for tensor in plain]

    def _find_lazy_containers(self, returned: Any) -> Iterator[Finding]:
        for kind in {type(node) for node in _walk_containers(returned)}:
            file = defining_file(kind)
            own = file is not None and not is_library(file)
            if own and (
                kind in SUPPORTED_NODES.keys() - self._containers or _overrides_reading(kind)
            ):
                text = f"the outputs come in a {kind.__qualname__} that computes them when read"
                yield Finding("lazy container", text, True)

    def _find_reused_memory(self, outputs: Sequence[torch.Tensor]) -> Iterator[Finding]:
        earlier = [tensor for reference in self._last if (tensor := reference()) is not None]
        for index, output in enumerate(outputs):
            if any(_share_memory(output, before) for before in earlier):
                text = f"output {index} reuses the memory of an output of the previous call"
                yield Finding("reused output", text, False)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _walk_containers(value: Any) -> Iterator[Any]:
    """Nested containers, read in a way that no class can override."""
    if isinstance(value, (torch.Tensor, str, bytes)) or value is None:
        return
    yield value
    if isinstance(value, dict):
        children: list[Any] = list(dict.values(value))
    elif isinstance(value, tuple):
        children = list(tuple.__iter__(value))
    else:
        children = list(list.__iter__(value)) if isinstance(value, list) else []
    for child in children:
        yield from _walk_containers(child)


def _overrides_reading(kind: type) -> bool:
    """Tell whether a subclass of a container overrides how its items are read."""
    bases = [base for base in (tuple, list, dict) if issubclass(kind, base)]
    names = ("__iter__", "__getitem__", "values", "items")
    return any(getattr(kind, n, None) is not getattr(b, n, None) for b in bases for n in names)


def _find_subclasses(outputs: Sequence[torch.Tensor]) -> Iterator[Finding]:
    for index, output in enumerate(outputs):
        kind = type(output)
        if kind not in _PLAIN:
            file = defining_file(kind)
            text = f"output {index} is a {kind.__qualname__}, not a plain tensor: it may be lazy"
            yield Finding("lazy tensor", text, file is None or not is_library(file))


def _has_memory(tensor: torch.Tensor) -> bool:
    return type(tensor) in _PLAIN and tensor.layout is torch.strided and tensor.numel() > 0


def _find_aliases(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> Iterator[Finding]:
    for i, output in enumerate(outputs):
        for j, other in enumerate(inputs):
            if _has_memory(other) and _share_memory(output, other):
                text = f"output {i} shares memory with input {j}; the reference's output does not"
                yield Finding("aliased output", text, True)


def _share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    a, b = first.untyped_storage(), second.untyped_storage()
    return a.device == b.device and (
        a.data_ptr() < b.data_ptr() + b.nbytes() and b.data_ptr() < a.data_ptr() + a.nbytes()
    )


def _find_unmaterialised(outputs: Sequence[torch.Tensor]) -> Iterator[Finding]:
    for index, output in enumerate(outputs):
        if torch._debug_has_internal_overlap(output) == _OVERLAPS:
            text = (
                f"output {index} of shape {tuple(output.shape)} repeats elements with strides of "
                "0: it was never fully written"
            )
            yield Finding("unmaterialised output", text, True)
