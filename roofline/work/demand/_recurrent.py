"""Recurrent layers: steps up to the last one that is wanted."""

from __future__ import annotations

from solkit.roofline.work.demand._base import Needs, Wanted, rule
from solkit.roofline.work.demand._geometry import nothing_of, sliced
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("lstm gru rnn_tanh rnn_relu", namespace="solkit")
def _recurrent(op: TracedOp, wanted: Wanted) -> Needs:
    """The wanted steps of the output; of the input, in one direction, none after the last of them.

    A layer that takes a single step from a state of zeros does not use its recurrent weights.
    """
    given, output = op.arguments, op.outputs[0]
    x, weights = given["input"], list(given["weights"])
    axis = (1 if given["batch_first"] else 0) if len(output.shape) == 3 else 0
    box: list[range | None] = [None] * len(output.shape)
    box[axis] = wanted.box[axis]
    needs: Needs = {id(output): sliced(output, box)}
    last = wanted.box[axis][-1] + 1
    if not given["bidirectional"] and last < x.shape[axis]:
        steps: list[range | None] = [None] * len(x.shape)
        steps[axis] = range(last)
        x = needs[id(given["input"])] = sliced(x, steps)
    zero = all(use.value is not None and not use.value.any() for use in given["state"])
    if zero and x.shape[axis] == 1:
        needs |= {id(use): nothing_of(use) for use in _recurrent_weights(weights, given["state"])}
    return needs


def _recurrent_weights(weights: list[TensorUse], state: list[TensorUse]) -> list[TensorUse]:
    """The matrices that meet the state: the second one of each layer and direction."""
    matrices = [use for use in weights if len(use.shape) == 2]
    each = len(matrices) // state[0].shape[0]
    return matrices[1::each]
