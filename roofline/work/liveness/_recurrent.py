"""Recurrent layers: steps up to the last one that is wanted."""

from __future__ import annotations

import numpy as np

from solkit.roofline.work.liveness._base import Needs, Region, rule
from solkit.roofline.work.liveness._geometry import nothing_of, sliced, whole
from solkit.roofline.work.program import TracedOp

_GRU = 3  # gates


@rule("recurrent")
def _recurrent(op: TracedOp, region: Region) -> Needs:
    """Return the wanted steps of the output. In one direction, the input after them is not needed.

    A layer that takes its only step from a state of zeros does not use its recurrent weights, nor
    the gate that looks at the state alone.
    """
    arguments, output = op.arguments, op.outputs[0]
    x = arguments["input"]
    axis = (1 if arguments["batch_first"] else 0) if len(output.shape) == 3 else 0
    box: list[range | None] = [None] * len(output.shape)
    box[axis] = region.box[axis]
    needs: Needs = {id(output): sliced(output, box)}
    first, last = (region.box[axis] or [0])[0], (region.box[axis] or [-1])[-1]
    steps = x.shape[axis]
    if not arguments["bidirectional"]:
        taken: list[range | None] = [None] * len(x.shape)
        taken[axis] = range(last + 1)
        needs[id(x)] = sliced(x, taken)
        lengths = [last + 1] * _runs(op)
    else:
        lengths = [steps] * (_runs(op) - 2) + [last + 1, steps - first]
    for run, length in enumerate(lengths):
        if _is_first(op, length):
            needs |= _first_step(op, run)
    return needs


def _runs(op: TracedOp) -> int:
    """Layers times directions."""
    runs: int = op.arguments["state"][0].shape[0]
    return runs


def _is_first(op: TracedOp, steps: int) -> bool:
    """Tell whether no step comes after one from a state of zeros (packed ones stand in a row)."""
    state = op.arguments["state"]
    zero = all(use.value is not None and not use.value.any() for use in state)
    return zero and steps * state[0].shape[-2] <= op.arguments["sequences"]


def _first_step(op: TracedOp, run: int) -> Needs:
    """Drop weights that the first step of one layer and direction does not need.

    An LSTM's second gate forgets a state; a GRU's first one resets it, biases included.
    """
    weights = list(op.arguments["weights"])
    per_run = len(weights) // _runs(op)
    from_input, from_state, *others = weights[per_run * run : per_run * (run + 1)]
    biases = [use for use in others if len(use.shape) == 1]
    needs = {id(from_state): nothing_of(from_state)}
    gates = op.operator.gates
    if gates == 1 or (biases and gates == _GRU):
        return needs
    gate = 0 if gates == _GRU else 1
    units = from_input.shape[0] // gates
    line = np.arange(from_input.shape[0]) // units != gate
    for use in (from_input, *biases):
        mask = line.reshape([-1] + [1] * (len(use.shape) - 1))
        needs[id(use)] = sliced(use, whole(use), mask)
    return needs
