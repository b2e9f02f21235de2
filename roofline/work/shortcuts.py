"""Which contractions no known algorithm avoids.

The roofline counts the contractions that were traced. The hard bound must hold for *any* correct
implementation, and algebra offers ways around a contraction: the sum of a GEMM's output needs only
a matrix-vector product, (A B) C may be A (B C), a masked or low-rank operand costs less, and
convolutions have Winograd and FFT forms. So a contraction counts only where

1. both operands are *unstructured*: inputs of the program, or full-size elementwise-nonlinear,
   softmax or normalisation results of such, through views and conversions alone; and
2. what becomes of its output keeps every element: it is a result of the program or enters a
   nonlinear op elementwise, again through views, conversions, additions and scalings alone.

A product of a matrix with its own transpose counts half (its result is symmetric). Fast matrix
multiplication (Strassen) is not considered: no GPU library gains from it at tensor-core rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from solkit.roofline.work.costs import attention_pairs, cost_of
from solkit.roofline.work.program import Program, TensorUse, TracedOp

__all__ = ["hard_flops"]

_CONTRACTIONS = {
    "aten.mm": ("self", "mat2"),
    "aten.bmm": ("self", "mat2"),
    "aten.addmm": ("mat1", "mat2"),
    "aten.baddbmm": ("batch1", "batch2"),
    "aten.linear": ("input", "weight"),
    "aten._scaled_mm": ("self", "mat2"),
    "aten._int_mm": ("self", "mat2"),
    "solkit.attention": ("query", "key", "value"),
}
_CONVERSIONS = {"aten._to_copy", "aten.clone", "aten.copy", "aten._unsafe_view", "aten.copy_"}
_LINEAR = {"aten.add", "aten.sub", "aten.neg", "aten.add_", "aten.sub_", "aten.mul", "aten.div"}
_NONLINEAR = {
    f"aten.{name}"
    for name in [
        "relu",
        "gelu",
        "silu",
        "sigmoid",
        "tanh",
        "exp",
        "elu",
        "leaky_relu",
        "hardswish",
        "hardsigmoid",
        "softplus",
        "mish",
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "_fused_rms_norm",
        "relu_",
        "silu_",
        "hardtanh",
        "clamp",
        "erf",
        "sin",
        "cos",
    ]
}


def hard_flops(program: Program, live: Sequence[TracedOp]) -> dict[int, int]:
    """Contraction operations that no known algorithm avoids, by position in `live`."""
    uses = _Uses(program, live)
    found: dict[int, int] = {}
    for position, op in enumerate(live):
        names = _CONTRACTIONS.get(op.name)
        if names is None:
            continue
        operands = [op.arguments[name] for name in names]
        if all(uses.unstructured(use) for use in operands) and uses.kept(op):
            found[position] = _flops(op, operands)
    return found


def _flops(op: TracedOp, operands: list[TensorUse]) -> int:
    if op.name == "solkit.attention":
        return 2 * attention_pairs(op) * (operands[0].shape[-1] + operands[2].shape[-1])
    cost = cost_of(op)
    assert cost is not None
    flops = sum(n for key, n in cost.operations.items() if key.startswith("contraction."))
    return flops // 2 if operands[0].storage == operands[1].storage else flops


class _Uses:
    """Who makes and who reads each storage."""

    def __init__(self, program: Program, live: Sequence[TracedOp]) -> None:
        self._results = {use.storage: use for use in program.results}
        self._maker: dict[int, list[TracedOp]] = defaultdict(list)
        self._readers: dict[int, list[tuple[TracedOp, TensorUse]]] = defaultdict(list)
        for op in live:
            for use in (*op.outputs, *op.written):
                self._maker[use.storage].append(op)
            for use in op.inputs:
                self._readers[use.storage].append((op, use))

    def unstructured(self, use: TensorUse) -> bool:
        """Whether the elements of an operand can take any values, each on its own."""
        makers = self._maker[use.storage]
        if use.distinct != use.numel:
            return False  # an expanded dimension repeats itself
        if not makers:
            return True
        if len(makers) > 1:
            return False
        op = makers[0]
        if op.name in _CONTRACTIONS or op.name in _LINEAR:
            return False
        if op.name in _CONVERSIONS:
            return self.unstructured(op.inputs[-1])
        return op.name in _NONLINEAR and self._full_rank(op.inputs[0])

    def _full_rank(self, use: TensorUse) -> bool:
        """Under a nonlinear op even a contraction's output is unstructured."""
        makers = self._maker[use.storage]
        if use.distinct != use.numel or len(makers) > 1:
            return False
        if not makers or makers[0].name in _CONTRACTIONS:
            return True
        op = makers[0]
        if op.name in _CONVERSIONS or op.name in _NONLINEAR:
            return self._full_rank(op.inputs[0] if op.name != "aten.copy_" else op.inputs[-1])
        if op.name in _LINEAR:
            same = [i for i in op.inputs if i.shape == op.result.shape]
            return bool(same) and all(self._full_rank(i) for i in same)
        return False

    def kept(self, op: TracedOp) -> bool:
        """Whether every element of an op's output matters to the results one by one."""
        use = op.result
        if len(op.outputs) != 1 or op.written:
            return False
        result = self._results.get(use.storage)
        if result is not None and result.distinct >= use.distinct:
            return True
        readers = self._readers[use.storage]
        return any(self._passes_on(reader, seen, use) for reader, seen in readers)

    def _passes_on(self, reader: TracedOp, seen: TensorUse, use: TensorUse) -> bool:
        if seen.distinct < use.distinct:
            return False
        if reader.name in _NONLINEAR:
            made = self._results.get(reader.result.storage)
            return made is not None or self._reaches_result(reader)
        linear = reader.name in _LINEAR or reader.name in _CONVERSIONS
        return linear and reader.result.numel == use.numel and self.kept(reader)

    def _reaches_result(self, op: TracedOp) -> bool:
        """Whether a nonlinear op's output is used in full by whatever comes next.

        Behind a nonlinearity no algebra moves a reduction or a product in front of it, so any
        reader that takes all of it will do.
        """
        readers = self._readers[op.result.storage]
        return any(seen.distinct >= op.result.distinct for _, seen in readers)
