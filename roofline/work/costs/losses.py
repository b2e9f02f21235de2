"""Losses: per element, and one more to sum where they are reduced."""

from __future__ import annotations

from solkit.roofline.work.costs._base import FREE, Cost, contraction, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

# Per element: (scalar operations, special-function results).
_LOSSES: dict[str, tuple[int, int]] = {
    "mse_loss": (2, 0),
    "smooth_l1_loss": (3, 0),  # difference, comparison and on either side at least one more
    "huber_loss": (3, 0),
    "binary_cross_entropy": (4, 2),  # t (log x - log(1 - x)) + log(1 - x)
    "binary_cross_entropy_with_logits": (5, 2),  # max(x, 0) - x t + log(1 + exp -|x|)
    "soft_margin_loss": (2, 2),  # log(1 + exp(-x t))
    "multi_margin_loss": (2, 0),  # max(0, margin - x[t] + x)
    "multilabel_margin_loss_forward": (0, 0),  # how many labels there are is data
    "mse_loss_backward": (2, 0),
    "smooth_l1_loss_backward": (3, 0),  # difference, clamp, product
    "huber_loss_backward": (3, 0),
    "binary_cross_entropy_backward": (4, 1),  # g (x - t) / (x - x x)
    "soft_margin_loss_backward": (3, 2),
    "multi_margin_loss_backward": (2, 0),
    "multilabel_margin_loss_backward": (0, 0),
}
_NO_REDUCTION = 0


@rule(" ".join(_LOSSES))
def _loss(op: TracedOp) -> Cost:
    """So many operations for each element of the input."""
    operations, sfu = _LOSSES[op.name.removeprefix("aten.")]
    x: TensorUse = op.arguments["self"]
    n = min(x.distinct, op.result.distinct) if op.result.shape == x.shape else x.distinct
    reduced = "backward" not in op.name and op.arguments.get("reduction", 1) != _NO_REDUCTION
    return scalar(x, operations * n + (max(n - 1, 0) if reduced else 0), sfu * n)


@rule("nll_loss_forward nll_loss2d_forward nll_loss_nd")
def _nll(op: TracedOp) -> Cost:
    """Picks one element per target and sums; a class's weight makes it a multiply-add."""
    if op.arguments.get("reduction", 1) == _NO_REDUCTION:
        return FREE
    weighted = 2 if op.arguments.get("weight") is not None else 1
    return scalar(op.inputs[0], weighted * max(op.arguments["target"].distinct - 1, 0))


@rule("nll_loss_backward nll_loss2d_backward")
def _nll_backward(op: TracedOp) -> Cost:
    """Puts one number per target into zeros."""
    del op
    return FREE


@rule("_ctc_loss _cudnn_ctc_loss")
def _ctc(op: TracedOp) -> Cost:
    """Per label and time step at which it can be reached: two additions and a product.

    The recursion may run on probabilities, scaled: A. Graves and others, "Connectionist Temporal
    Classification" (2006), equations 6 to 8. A label can stand at T - S + 1 of T steps.
    """
    steps, labels = (_lengths(op.arguments[name]) for name in ("input_lengths", "target_lengths"))
    cells = sum(s * max(t - s + 1, 0) for t, s in zip(steps, labels))
    return scalar(op.arguments["log_probs"], 3 * cells)


@rule("_ctc_loss_backward")
def _ctc_backward(op: TracedOp) -> Cost:
    """The recursion backwards: as many operations."""
    return _ctc(op)


def _lengths(given: object) -> list[int]:
    """The lengths as numbers; none where they are not known."""
    if isinstance(given, TensorUse):
        return [] if given.value is None else [int(n) for n in given.value.ravel()]
    return [int(n) for n in given] if isinstance(given, (list, tuple)) else []


@rule(
    "_linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction",
    namespace="torch_nn",
)
def _linear_cross_entropy(op: TracedOp) -> Cost:
    """Logits [N, K] x [K, V] and the logarithm of the sum of their exponentials, 3 an element.

    The gradients that it makes along the way are left out: whether they are read is not known.
    """
    x, weight = op.arguments["input"], op.arguments["linear_weight"]
    rows = x.numel // max(x.shape[-1], 1)
    logits = rows * weight.shape[0]
    return contraction(x, logits * x.shape[-1]) + scalar(x, 3 * logits, sfu=logits + rows)
