"""Losses: per element, and one more to sum where they are reduced."""

from __future__ import annotations

from solkit.roofline.work.costs._base import FREE, Cost, contraction, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

_NO_REDUCTION = 0


@rule("loss", "loss backward")
def _loss(op: TracedOp) -> Cost:
    """Count the operator's operations for each element of the input."""
    operations, sfu = op.operator.operations or (0, 0)
    x: TensorUse = op.arguments["self"]
    n = min(x.distinct, op.result.distinct) if op.result.shape == x.shape else x.distinct
    forwards = op.operator.cost == "loss"
    reduced = forwards and op.arguments.get("reduction", 1) != _NO_REDUCTION
    return scalar(x, operations * n + (max(n - 1, 0) if reduced else 0), sfu * n)


@rule("nll")
def _nll(op: TracedOp) -> Cost:
    """Pick one element per target and sum; a class's weight makes it a multiply-add."""
    if op.arguments.get("reduction", 1) == _NO_REDUCTION:
        return FREE
    weighted = 2 if op.arguments.get("weight") is not None else 1
    return scalar(op.inputs[0], weighted * max(op.arguments["target"].distinct - 1, 0))


@rule("ctc")
def _ctc(op: TracedOp) -> Cost:
    """Per label and time step at which it can be reached: two additions and a product.

    The recursion may run on probabilities, scaled: A. Graves and others, "Connectionist Temporal
    Classification" (2006), equations 6 to 8. A label can stand at T - S + 1 of T steps. Backwards
    the recursion takes as many operations.
    """
    steps, labels = (_lengths(op.arguments[name]) for name in ("input_lengths", "target_lengths"))
    cells = sum(s * max(t - s + 1, 0) for t, s in zip(steps, labels))
    return scalar(op.arguments["log_probs"], 3 * cells)


def _lengths(lengths: object) -> list[int]:
    """Return the lengths as numbers; none where they are not known."""
    if isinstance(lengths, TensorUse):
        return [] if lengths.value is None else [int(n) for n in lengths.value.ravel()]
    return [int(n) for n in lengths] if isinstance(lengths, (list, tuple)) else []


@rule("linear cross entropy")
def _linear_cross_entropy(op: TracedOp) -> Cost:
    """Logits [N, K] x [K, V] and the logarithm of the sum of their exponentials, 3 an element.

    The gradients that it makes along the way are left out: whether they are read is not known.
    """
    x, weight = op.arguments["input"], op.arguments["linear_weight"]
    rows = x.numel // max(x.shape[-1], 1)
    logits = rows * weight.shape[0]
    return contraction(x, logits * x.shape[-1]) + scalar(x, 3 * logits, sfu=logits + rows)
