"""Autograd in Python: the C++ engine wants a real accelerator."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from solkit.errors import UnsupportedError

__all__ = ["backward", "grad_of", "tensor_backward"]

_Edge = tuple[Any, int]  # a node of the graph and the number of one of its inputs


def _gradients(
    roots: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None], create_graph: bool
) -> dict[Any, dict[int, torch.Tensor]]:
    """Run the autograd graph backwards; the gradient that reached each input of each node.

    Nodes run in topological order, each when all nodes that feed it have run, as in
    torch/csrc/autograd/engine.cpp.
    """
    arrived: dict[Any, dict[int, torch.Tensor]] = {}
    for root, grad in zip(roots, grads, strict=True):
        edge = get_gradient_edge(root)
        seed = torch.ones_like(root) if grad is None else grad
        _add(arrived.setdefault(edge.node, {}), edge.output_nr, seed)
    waiting = _dependencies(list(arrived))
    ready = [node for node in arrived if not waiting[node]]
    with torch.set_grad_enabled(create_graph):
        while ready:
            node = ready.pop()
            outputs = _run_node(node, arrived.setdefault(node, {}))
            for (following, index), grad in zip(node.next_functions, outputs, strict=False):
                if following is None:
                    continue
                if grad is not None:
                    _add(arrived.setdefault(following, {}), index, grad)
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
    return arrived


def _dependencies(roots: list[Any]) -> Counter[Any]:
    """How many edges lead into each node that can be reached from `roots`."""
    counts: Counter[Any] = Counter()
    seen, stack = set(roots), list(roots)
    while stack:
        for following, _ in stack.pop().next_functions:
            if following is None:
                continue
            counts[following] += 1
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return counts


def _run_node(node: Any, arrived: dict[int, torch.Tensor]) -> tuple[Any, ...]:
    """Call one node, with zeros for gradients that never arrived."""
    if not node.next_functions:  # AccumulateGrad: its gradient stays in `arrived`
        return ()
    inputs = [
        arrived[index]
        if index in arrived
        else torch.zeros(tuple(meta.shape), dtype=meta.dtype, device=meta.device)
        for index, meta in enumerate(node._input_metadata)
    ]
    custom = isinstance(node, torch.autograd.function.BackwardCFunction)
    outputs = node.apply(*inputs) if custom else node(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _add(sums: dict[int, torch.Tensor], index: int, grad: torch.Tensor) -> None:
    sums[index] = sums[index] + grad if index in sums else grad


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if tensors is None or isinstance(tensors, torch.Tensor) else list(tensors)


def _seeds(outputs: list[Any], grads: Any) -> list[torch.Tensor | None]:
    return [None] * len(outputs) if grads is None else _as_list(grads)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,  # noqa: ARG001 - torch's signature
    create_graph: bool = False,
    grad_variables: Any = None,  # noqa: ARG001
    inputs: Any = None,
) -> None:
    """`torch.autograd.backward`."""
    roots = _as_list(tensors)
    arrived = _gradients(roots, _seeds(roots, grad_tensors), create_graph)
    only = None if inputs is None else {id(tensor) for tensor in _as_list(inputs)}
    for node, grads in arrived.items():
        leaf = getattr(node, "variable", None)
        if leaf is None or 0 not in grads or (only is not None and id(leaf) not in only):
            continue
        grad = grads[0].reshape(leaf.shape)
        leaf.grad = grad if leaf.grad is None else leaf.grad + grad


def tensor_backward(
    self: torch.Tensor,
    gradient: torch.Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`torch.Tensor.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def grad_of(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,  # noqa: ARG001 - torch's signature
    create_graph: bool = False,
    only_inputs: bool = True,  # noqa: ARG001
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`."""
    if is_grads_batched:
        raise UnsupportedError("torch.autograd.grad(is_grads_batched=True) on a fake GPU")
    roots = _as_list(outputs)
    arrived = _gradients(roots, _seeds(roots, grad_outputs), create_graph)
    found: list[torch.Tensor | None] = []
    for tensor in _as_list(inputs):
        edge = get_gradient_edge(tensor)
        grad = arrived.get(edge.node, {}).get(edge.output_nr)
        if grad is None and materialize_grads:
            grad = torch.zeros_like(tensor)
        if grad is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        found.append(grad)
    return tuple(found)
