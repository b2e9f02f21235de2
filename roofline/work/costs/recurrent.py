"""Recurrent layers, kept as one op."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("lstm gru rnn_tanh rnn_relu", namespace="solkit")
def _recurrent(op: TracedOp) -> Cost:
    """Every weight matrix once per time step and batch element, and the gates' pointwise math."""
    x, weights = op.arguments["input"], op.arguments["weights"]
    steps = x.numel // max(x.shape[-1], 1)
    multiply_adds = steps * sum(w.numel for w in weights if len(w.shape) == 2)
    gates = steps * sum(w.shape[0] for w in weights if len(w.shape) == 2) // 2
    found = contraction(x, multiply_adds)
    pointwise = scalar(x, 2 * gates, sfu=0 if op.name.endswith("relu") else gates)
    return found + pointwise
