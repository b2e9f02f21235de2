"""Autograd in Python: the C++ engine needs an accelerator."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge
from torch.utils.hooks import RemovableHandle

from solkit.core.stack import Stack


def _run_backwards(
    roots: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None], create_graph: bool
) -> dict[Any, dict[int, torch.Tensor]]:
    """Run the autograd graph backwards; the gradients at each node, by input.

    A node runs after all nodes that feed it, as in torch/csrc/autograd/engine.cpp.
    """
    arrived: dict[Any, dict[int, torch.Tensor]] = {}
    for root, grad in zip(roots, grads, strict=True):
        edge = _gradient_edge(root)
        seed = torch.ones_like(root) if grad is None else grad
        _add_gradient(arrived.setdefault(edge.node, {}), edge.output_nr, seed)
    waiting = _dependencies(list(arrived))
    ready = [node for node in arrived if not waiting[node]]
    with torch.set_grad_enabled(create_graph), _one_task():
        while ready:
            node = ready.pop()
            outputs = _run_node(node, _apply_tensor_hooks(node, arrived.setdefault(node, {})))
            for (following, index), grad in zip(node.next_functions, outputs, strict=False):
                if following is None:
                    continue
                if grad is not None:
                    grad = _fit_gradient(grad, following._input_metadata[index])
                    _add_gradient(arrived.setdefault(following, {}), index, grad)
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
    return arrived


def _one_task() -> contextlib.AbstractContextManager[int]:
    """Let `torch.utils.checkpoint` compute again once a backward pass, not once a saved tensor."""
    return _tasks.holding(next(_task_numbers))


_tasks = Stack[int]()
"""Numbers of the backward passes that run, the innermost last."""
_task_numbers = itertools.count(1 << 32)  # apart from the C++ engine's
_engine_task = torch._C._current_graph_task_id


def _current_task() -> int:
    """`torch._C._current_graph_task_id`."""
    return _tasks[-1] if _tasks else _engine_task()


def _gradient_edge(tensor: torch.Tensor) -> Any:
    with torch.enable_grad():  # a leaf's edge is found through a view
        return get_gradient_edge(tensor)


def _dependencies(roots: list[Any]) -> Counter[Any]:
    """Return the number of edges into each node reachable from `roots`."""
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
    """Call one node, with zeros for missing gradients."""
    if not node.next_functions:  # AccumulateGrad: its gradient stays in `arrived`
        return ()
    inputs = tuple(
        arrived[index]
        if index in arrived
        else torch.zeros(tuple(meta.shape), dtype=meta.dtype, device=meta.device)
        for index, meta in enumerate(node._input_metadata)
    )
    for hook in _node_prehooks.get(node, {}).values():
        changed = hook(inputs)
        inputs = inputs if changed is None else _as_tuple(changed)
    custom = isinstance(node, BackwardCFunction)
    outputs = node.apply(*inputs) if custom else node(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if custom:
        outputs = _of_tensors(node, outputs)
    for hook in _node_hooks.get(node, {}).values():
        changed = hook(outputs, inputs)
        outputs = outputs if changed is None else _as_tuple(changed)
    return outputs


def _of_tensors(node: Any, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a custom function's results for each edge; only tensor arguments have edges."""
    needed_grads = iter([grad for grad, needed in zip(outputs, node.needs_input_grad) if needed])
    return tuple(None if edge is None else next(needed_grads) for edge, _ in node.next_functions)


def _fit_gradient(grad: torch.Tensor, meta: Any) -> torch.Tensor:
    """Return a gradient summed over broadcast dimensions: `validate_outputs` in the C++ engine."""
    if tuple(grad.shape) != tuple(meta.shape):
        grad = grad.sum_to_size(tuple(meta.shape))
    return grad if grad.dtype == meta.dtype else grad.to(meta.dtype)


def _add_gradient(sums: dict[int, torch.Tensor], index: int, grad: torch.Tensor) -> None:
    sums[index] = sums[index] + grad if index in sums else grad


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if tensors is None or isinstance(tensors, torch.Tensor) else list(tensors)


def _seed_gradients(outputs: list[Any], grads: Any) -> list[torch.Tensor | None]:
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
    arrived = _run_backwards(roots, _seed_gradients(roots, grad_tensors), create_graph)
    only = None if inputs is None else {id(tensor) for tensor in _as_list(inputs)}
    for node, grads in arrived.items():
        leaf = getattr(node, "variable", None)
        if leaf is None or 0 not in grads or (only is not None and id(leaf) not in only):
            continue
        leaf.grad = grads[0] if leaf.grad is None else leaf.grad + grads[0]
        for hook in _leaf_hooks.get(id(leaf), {}).values():
            hook(leaf)


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
        backward = functools.partial(
            grad_of,
            outputs,
            inputs,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
        return torch.vmap(backward)(grad_outputs)
    roots = _as_list(outputs)
    arrived = _run_backwards(roots, _seed_gradients(roots, grad_outputs), create_graph)
    leaves = {id(node.variable): node for node in arrived if hasattr(node, "variable")}
    gradients: list[torch.Tensor | None] = []
    for tensor in _as_list(inputs):
        grad = _arrived_at(tensor, arrived, leaves)
        if grad is None and materialize_grads:
            grad = torch.zeros_like(tensor)
        if grad is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        gradients.append(grad)
    return tuple(gradients)


def _arrived_at(
    tensor: torch.Tensor, arrived: dict[Any, dict[int, torch.Tensor]], leaves: dict[int, Any]
) -> torch.Tensor | None:
    """Return the gradient of a tensor; `leaves` are the graph's leaves by their tensors' `id`."""
    if tensor.grad_fn is None:
        return arrived.get(leaves.get(id(tensor)), {}).get(0)
    edge = _gradient_edge(tensor)
    return arrived.get(edge.node, {}).get(edge.output_nr)


# ------------------------------------------------------------------------------------ hooks

_Hooks = dict[int, Callable[..., Any]]  # in the order of their registration

_tensor_hooks: defaultdict[tuple[Any, int], _Hooks] = defaultdict(OrderedDict)  # by edge
_leaf_hooks: defaultdict[int, _Hooks] = defaultdict(OrderedDict)  # by the leaf's `id`
_node_hooks: defaultdict[Any, _Hooks] = defaultdict(OrderedDict)
_node_prehooks: defaultdict[Any, _Hooks] = defaultdict(OrderedDict)


def fake_hooks() -> None:
    """Keep hooks where this engine finds them; the C++ engine does not list its own.

    Node hooks work only for `torch.autograd.Function`, which modules' hooks use; the types of
    torch's own nodes cannot be changed.
    """
    torch._C._current_graph_task_id = _current_task
    torch.Tensor.register_hook = _register_hook  # type: ignore[method-assign]
    torch.Tensor.retain_grad = _retain_grad  # type: ignore[method-assign,assignment]
    torch.Tensor.register_post_accumulate_grad_hook = _register_leaf_hook  # type: ignore[method-assign]
    for name, hooks in (("register_hook", _node_hooks), ("register_prehook", _node_prehooks)):
        register = lambda node, hook, hooks=hooks: _register(hooks[node], hook)  # noqa: E731
        setattr(BackwardCFunction, name, register)


def _register(hooks: _Hooks, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _register_hook(self: torch.Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """`torch.Tensor.register_hook`."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    edge = _gradient_edge(self)
    return _register(_tensor_hooks[edge.node, edge.output_nr], hook)


def _register_leaf_hook(self: torch.Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """`torch.Tensor.register_post_accumulate_grad_hook`."""
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _register(_leaf_hooks[id(self)], hook)


def _retain_grad(self: torch.Tensor) -> None:
    """`torch.Tensor.retain_grad`."""

    def keep_gradient(grad: torch.Tensor) -> None:
        self.grad = grad

    if self.grad_fn is not None:
        _register_hook(self, keep_gradient)


def _apply_tensor_hooks(node: Any, arrived: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the gradients at a node after the hooks of its tensors."""
    for index in arrived:
        for hook in _tensor_hooks.get((node, index), {}).values():
            changed = hook(arrived[index])
            arrived[index] = arrived[index] if changed is None else changed
    return arrived


def _as_tuple(grads: Any) -> tuple[Any, ...]:
    return grads if isinstance(grads, tuple) else (grads,)
