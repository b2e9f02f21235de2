"""Optimizer steps, and the ops over lists of tensors that they are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from solkit.roofline.work.costs._base import FREE, Cost, cost_of, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("foreach")
def _foreach(op: TracedOp) -> Cost:
    """Return the sum over the list of what the op of the same name costs on one tensor."""
    total = FREE
    for index, output in enumerate(op.outputs or op.written):
        total += cost_of(_one_of(op, index, output)) or FREE
    return total


def _one_of(op: TracedOp, index: int, output: TensorUse) -> TracedOp:
    """Return the op on the tensors at one position of its lists."""
    names = {"tensor1": "tensor1", "tensors1": "end", "scalar": "value", "scalars": "value"}
    lists = op.name.removeprefix("aten._foreach_").startswith(("addc", "lerp"))
    arguments = {
        (names.get(name, name) if lists else _OPERAND.get(name, name)): _element(value, index)
        for name, value in op.arguments.items()
    }
    inputs = tuple(use for use in arguments.values() if isinstance(use, TensorUse))
    name = op.name.replace("._foreach_", ".").removesuffix("_")
    return replace(op, name=name, inputs=inputs, outputs=(output,), written=(), arguments=arguments)


_OPERAND = {"scalar": "other", "scalars": "other", "tensor": "other"}


def _element(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, (list, tuple)) else value


# Per parameter: (scalar operations, special-function results, operations of a weight decay).
_STEPS = {
    # m += c1 (g - m): 3; v += c2 (g g - v): 4; s √v + eps: 2; p -= m / that: 2
    "adam": (11, 2, 2),
    "adamw": (11, 2, 1),
    "adagrad": (6, 2, 2),  # s += g g: 2; √s + eps: 1; p -= lr g / that: 3
    "sgd": (2, 0, 2),  # p -= lr g
}


@rule(*_STEPS)
def _step(op: TracedOp) -> Cost:
    """Count one step of every parameter."""
    operations, sfu, decay = _STEPS[op.operator.cost]
    arguments = op.arguments
    operations += decay if arguments.get("weight_decay") else 0
    operations += 2 if arguments.get("momentum") else 0  # a buffer: mu b + g
    operations += 1 if arguments.get("amsgrad") else 0
    count = sum(use.distinct for use in arguments["self"])
    return scalar(arguments["self"][0], operations * count, sfu * count)


@rule("unscale")
def _unscale(op: TracedOp) -> Cost:
    """Return a test and a product per gradient."""
    grads = op.arguments["self"]
    return scalar(grads[0], 2 * sum(use.distinct for use in grads))


@rule("update scale")
def _update_scale(op: TracedOp) -> Cost:
    """Count one product."""
    return scalar(op.result, 1)
