"""Recurrent layers, kept as one op, and fused cells.

Notation: T time steps of B sequences; a cell has H hidden units and G gates (LSTM 4, GRU 3, plain
1). The two biases of a gate start an accumulator, so they cost nothing. From a state of zeros the
first step has no recurrent product, and an LSTM's first step no forget gate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from solkit.roofline.work.costs._base import FREE, Cost, contraction, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


@dataclass(frozen=True)
class _Cell:
    """Pointwise work per hidden unit and step.

    Attributes:
        gates: rows of weights per hidden unit.
        operations, sfu: scalar operations and special functions.
        first_operations, first_sfu: of a first step from a state of zeros.
        first_gates: gates that such a step needs.
    """

    gates: int
    operations: int
    sfu: int
    first_operations: int
    first_sfu: int
    first_gates: int


_CELLS = {
    # c = f c + i g: a product and a multiply-add; h = o tanh c. A step from zeros: i g, o tanh c.
    "lstm": _Cell(4, 4, 5, 2, 4, 3),
    # n = tanh(x + r h'): a multiply-add; h = n + z (h - n): 3. A step from zeros: n - z n.
    "gru": _Cell(3, 5, 3, 2, 2, 2),
    "rnn_tanh": _Cell(1, 0, 1, 0, 1, 1),
    "rnn_relu": _Cell(1, 1, 0, 1, 0, 1),
}


@rule("recurrent")
def _recurrent(op: TracedOp) -> Cost:
    """Count each layer and direction for as many steps as the live outputs need."""
    total = FREE
    for run, matrices in enumerate(_runs(op)):
        total += _run(op, matrices, _steps(op, run))
    return total


@rule("recurrent backward")
def _recurrent_backward(op: TracedOp) -> Cost:
    """Count each product of the forward pass twice, for the gradients of both its factors.

    But the first layer's input counts as having no gradient, and a nonlinearity's derivative takes
    a multiply-add and a product for each of the gates.
    """
    x, cell = op.arguments["input"], _cell_of(op)
    steps = x.shape[1 if op.arguments["batch_first"] else 0]
    products = rows = 0
    for run, matrices in enumerate(_runs(op)):
        from_input, others = _multiply_adds(op, matrices, steps)
        first_layer = run < (2 if op.arguments["bidirectional"] else 1)
        products += 2 * others + (1 if first_layer else 2) * from_input
        rows += steps * _batch(op) * matrices[0].shape[0]
    return contraction(x, products) + scalar(x, 3 * rows if cell.sfu else rows)


def _cell_of(op: TracedOp) -> _Cell:
    return _CELLS[op.name.removeprefix("solkit.").removesuffix("_backward")]


def _batch(op: TracedOp) -> int:
    batch: int = op.arguments["state"][0].shape[-2]
    return batch


def _runs(op: TracedOp) -> list[list[TensorUse]]:
    """Return each layer and direction's weights: of input, state and, in an LSTM, output."""
    matrices = [use for use in op.arguments["weights"] if len(use.shape) == 2]
    runs = op.arguments["state"][0].shape[0]
    per_run = len(matrices) // runs
    return [matrices[per_run * run : per_run * (run + 1)] for run in range(runs)]


def _multiply_adds(op: TracedOp, matrices: list[TensorUse], steps: int) -> tuple[int, int]:
    """Multiply-adds of one layer in one direction: of the input's product, and of the others."""
    cell = _cell_of(op)
    from_input, from_state, *projection = matrices
    first = _first_steps(op, steps)
    gates = steps * cell.gates - first * (cell.gates - _first_gates(op, cell))
    others = (steps - first) * from_state.numel + steps * sum(use.numel for use in projection)
    return _batch(op) * gates * (from_input.numel // cell.gates), _batch(op) * others


def _run(op: TracedOp, matrices: list[TensorUse], steps: int) -> Cost:
    """Count one layer in one direction."""
    x, cell = op.arguments["input"], _cell_of(op)
    first = _first_steps(op, steps)
    later = steps - first
    units = _batch(op) * matrices[0].shape[0] // cell.gates
    return contraction(x, sum(_multiply_adds(op, matrices, steps))) + scalar(
        x,
        units * (later * cell.operations + first * cell.first_operations),
        units * (later * cell.sfu + first * cell.first_sfu),
    )


def _first_gates(op: TracedOp, cell: _Cell) -> int:
    """Count the gates at a state of zeros: with a bias a GRU's reset gate matters even there."""
    biased = any(len(use.shape) == 1 for use in op.arguments["weights"])
    return cell.gates if biased and cell is _CELLS["gru"] else cell.first_gates


def _first_steps(op: TracedOp, steps: int) -> int:
    """Count the steps from a state of zeros; packed sequences stand one behind the other."""
    per_sequence: int = op.arguments["sequences"] // _batch(op)
    return min(steps, per_sequence) if _starts_at_zero(op) else 0


def _starts_at_zero(op: TracedOp) -> bool:
    """Tell whether the program itself makes the initial state of zeros."""
    return all(
        use.distinct == 0 or (use.value is not None and not use.value.any())
        for use in op.arguments["state"]
    )


def _steps(op: TracedOp, run: int) -> int:
    """Count one layer and direction's steps: the last layer stops at the last live step."""
    arguments, runs = op.arguments, op.arguments["state"][0].shape[0]
    directions = 2 if arguments["bidirectional"] else 1
    steps = arguments["input"].shape[1 if arguments["batch_first"] else 0]
    if run < runs - directions:  # what reads it reads all of it
        return int(steps)
    first, last = _live_steps(op, directions, steps)
    backwards = directions == 2 and run == runs - 1
    return steps - first if backwards else last + 1


def _live_steps(op: TracedOp, directions: int, steps: int) -> tuple[int, int]:
    """Return the first and the last wanted step of the output."""
    out, arguments = op.result, op.arguments
    axis = 1 if arguments["batch_first"] else 0
    width = arguments["state"][0].shape[-1] * directions
    stride = width if arguments["batch_first"] else width * arguments["input"].shape[1]
    if out.shape[axis] == steps:
        return 0, steps - 1
    first = out.offset // stride % steps
    return first, first + (out.shape[axis] - 1) * (out.stride[axis] // stride)


@rule("lstm cell")
def _lstm_cell(op: TracedOp) -> Cost:
    """Return the pointwise part of one step; adding the two products starts an accumulator."""
    units = op.result.distinct
    return scalar(op.result, _CELLS["lstm"].operations * units, _CELLS["lstm"].sfu * units)


@rule("gru cell")
def _gru_cell(op: TracedOp) -> Cost:
    """Return the pointwise part of one step."""
    units = op.result.distinct
    return scalar(op.result, _CELLS["gru"].operations * units, _CELLS["gru"].sfu * units)


@rule("cell backward")
def _cell_backward(op: TracedOp) -> Cost:
    """Return a product per gate's gradient and one for its nonlinearity."""
    return scalar(op.result, 2 * op.result.distinct)


@rule("library layer")
def _library_layer(op: TracedOp) -> Cost:
    """Count weights once per step and sequence; the gates are left out."""
    x: TensorUse = op.arguments["input"]
    steps = x.numel // max(x.shape[-1], 1)
    weights = [use for use in op.arguments["weight"] if len(use.shape) == 2]
    return contraction(x, steps * sum(math.prod(use.shape) for use in weights))
