"""The longest chain of dependent steps of a program.

A step is a product that needs a whole result of the step before, one time step of a recurrent
layer, or one column of a factorisation or a triangular solve. What is uncertain makes the chain
shorter: uses whose regions may or may not overlap count as independent.

``alone`` is the work of the smallest part that needs nothing of the others during the whole chain:
one row of a product, one sequence, one matrix of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from solkit.core import Chain
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.regions import covers

_FEWEST = 8  # steps of a chain worth a word
_A_COLUMN = 1 / 64  # of a product's step: columns need no exchange each


@dataclass(frozen=True)
class _Path:
    """A chain up to some tensor."""

    steps: int = 0
    columns: int = 0
    alone: Mapping[str, float] = field(default_factory=dict)
    op: str = ""
    line: str = ""

    @property
    def length(self) -> float:
        return self.steps + _A_COLUMN * self.columns

    def then(self, op: TracedOp, steps: int, columns: int, alone: Mapping[str, float]) -> _Path:
        """Return the path with one more op."""
        total = {key: self.alone.get(key, 0.0) + alone.get(key, 0.0) for key in alone}
        return _Path(
            self.steps + steps, self.columns + columns, {**self.alone, **total}, op.name, op.line
        )


def chain_of(ops: Sequence[TracedOp], costs: Sequence[Cost | None]) -> Chain | None:
    """Return the longest chain of a program's live ops; ``None`` if it has few steps.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    operations_by_op = [cost.operations if cost is not None else {} for cost in costs]
    products = [
        any(key.startswith("contraction.") for key in operations) for operations in operations_by_op
    ]
    if sum(products) < _FEWEST and not any(_is_many(op) for op in ops):
        return None
    written: dict[int, list[tuple[TensorUse, _Path]]] = {}
    longest = _Path()
    for op, operations in zip(ops, operations_by_op, strict=True):
        before = [(use, _path_to(use, written)) for use in op.inputs]
        deepest, path = max(before, key=lambda entry: entry[1].length, default=(None, _Path()))
        path = _after(op, operations, deepest, path)
        for use in op.stored:
            written.setdefault(use.storage, []).append((use, path))
        longest = max(longest, path, key=lambda path: path.length)
    if longest.steps + longest.columns < _FEWEST:
        return None
    alone = {key: math.floor(amount) for key, amount in longest.alone.items()}
    return Chain(longest.steps, longest.columns, alone, longest.op, longest.line)


def _is_many(op: TracedOp) -> bool:
    """Tell whether an op is a chain by itself."""
    return bool(op.operator.sweeps or op.operator.gates)


def _path_to(use: TensorUse, written: Mapping[int, list[tuple[TensorUse, _Path]]]) -> _Path:
    """Return the longest path to what a use surely reads."""
    return max(
        (path for output, path in written.get(use.storage, ()) if _meet(output, use)),
        key=lambda path: path.length,
        default=_Path(),
    )


def _meet(output: TensorUse, use: TensorUse) -> bool:
    return output.numel > 0 < use.numel and (covers(output, use) or covers(use, output))


def _after(
    op: TracedOp, operations: Mapping[str, int], deepest: TensorUse | None, path: _Path
) -> _Path:
    own = {key: n for key, n in operations.items() if key.startswith("contraction.")}
    gates, sweeps = op.operator.gates, op.operator.sweeps
    if gates:
        steps, alone = _recurrent(op, gates)
        return path.then(op, steps, 0, dict.fromkeys(own, alone))
    if sweeps:
        matrix = op.inputs[0].shape
        matrices = max(math.prod(matrix[:-2]), 1)
        alone_of = {key: n / matrices for key, n in own.items()}
        return path.then(op, 0, sweeps * min(matrix[-2:]), alone_of)
    if own:
        parts = _parts(op, deepest)
        return path.then(op, 1, 0, {key: n / parts for key, n in own.items()})
    return path


def _recurrent(op: TracedOp, gates: int) -> tuple[int, float]:
    """Time steps, and operations of one sequence in one layer and direction, all steps."""
    arguments = op.arguments
    steps = int(arguments["input"].shape[1 if arguments["batch_first"] else 0])
    units = int(arguments["state"][0].shape[-1])
    if arguments["sequences"] > arguments["state"][0].shape[-2]:  # packed: one behind the other
        steps //= int(arguments["sequences"])
    return steps, 2.0 * gates * units * units * steps


def _parts(op: TracedOp, deepest: TensorUse | None) -> int:
    """Parts of a product that need nothing of each other: rows of the operand that is awaited."""
    out = op.result
    along: Callable[[tuple[int, ...]], int] = math.prod
    right = len(op.inputs) > 1 and deepest is op.inputs[-1] and deepest is not op.inputs[0]
    kept = out.shape[-2:-1] if right else out.shape[-1:]
    return max(out.numel // max(along(kept), 1), 1)
