"""Integers that a word holds, and what is computed of one word alone.

Weights of 1, 2 or 4 bits lie several to a word. A reference takes them apart by shifts and masks,
an operation or two for each code. A kernel need not: one instruction treats all codes of a word
(bytes of a register, two halves that a mask makes of it), a table holds what a byte stands for, and
tensor cores take integers of 4 and 8 bits. So integers of at most 8 bits that follow from one
element of integer data alone, however many follow, cost one operation for each 32-bit word of the
data, and so do floats that follow from such an integer. That takes a fiftieth of the time of
reading the word on any GPU, and decides no bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import torch

from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp, readers_of

_WORD = 4
_LEAST, _MOST = -128.0, 255.0


def with_words_of_codes(
    ops: Sequence[TracedOp],
    costs: Sequence[Cost | None],
    constants: Collection[int],
    results: Sequence[TensorUse],
) -> list[Cost | None]:
    """Return the costs of ops; what makes codes of words counts once a word.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        constants: storages that follow from the program alone.
        results: of the program.
    """
    codes = _Codes(ops, constants)
    inner = codes.inner(ops, results)
    reduced = list(costs)
    charged: set[int] = set()
    for position, op in enumerate(ops):
        cost = costs[position]
        if position not in inner or cost is None or not cost.operations:
            continue
        words = codes.words[op.result.storage]
        count = sum(n for storage, n in words.items() if storage not in charged)
        charged |= words.keys()
        least = min(count, sum(cost.operations.values()))
        reduced[position] = Cost({"int32": least} if least else {})
    return reduced


class _Codes:
    """Tensors of which each element is a function of one element of integer data.

    Attributes:
        words: of such a tensor's storage, the 32-bit words of each storage that it follows from.
    """

    def __init__(self, ops: Sequence[TracedOp], constants: Collection[int]) -> None:
        self.words: dict[int, Counter[int]] = {}
        self._narrow: set[int] = set()
        self._constants = constants
        rewritten = {use.storage for op in ops for use in op.written}
        ranges = Fixed(rewritten)
        for op in ops:
            words = self._followed(op)
            ranges.learn(op)
            if words is None or op.result.storage in rewritten:
                continue
            self.words[op.result.storage] = words
            low, high = ranges.range_of(op.result)
            if not _is_integer(op.result) or (low >= _LEAST and high <= _MOST):
                self._narrow.add(op.result.storage)

    def _followed(self, op: TracedOp) -> Counter[int] | None:
        """Return the words that each element follows from one of; ``None`` if it does not."""
        record = op.operator
        if len(op.outputs) != 1 or op.written or record.random:
            return None
        data = [use for use in op.inputs if use.storage not in self._constants]
        kind = _is_integer if _is_integer(op.result) else self._is_code
        if not data or not all(map(kind, data)):
            return None
        if not record.moves and (not op.is_elementwise or len(set(data)) > 1):
            return None
        words: Counter[int] = Counter()
        for use in data:
            own = {use.storage: -(-use.distinct * min(use.dtype.itemsize, _WORD) // _WORD)}
            words |= Counter(self.words.get(use.storage, own))
        return words

    def _is_code(self, use: TensorUse) -> bool:
        """Tell whether there are few values for each element of a tensor."""
        return use.storage in self._narrow or use.dtype in (torch.uint8, torch.int8)

    def inner(self, ops: Sequence[TracedOp], results: Sequence[TensorUse]) -> set[int]:
        """Return positions of ops whose results are codes, or of which codes alone are made."""
        readers = readers_of(ops, results)
        inner: set[int] = set()
        for position in range(len(ops) - 1, -1, -1):
            storage = ops[position].result.storage
            if storage not in self.words:
                continue
            if storage in self._narrow or (readers[storage] and inner.issuperset(readers[storage])):
                inner.add(position)
        return inner


def _is_integer(use: TensorUse) -> bool:
    return not (use.dtype.is_floating_point or use.dtype.is_complex)
