"""Guesses where unknown data decide: the work is assumed to be done.

Of two ways that an unknown branch may go, the one with more work is taken. A loop of unknown length
runs as often as the tensors that it walks along allow. Data are finite, so a branch for what is not
finite is not taken. Indices that are computed from unknown floats lie anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solkit.adapters.launch_recording import TensorArgument
from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.values import ODD
from solkit.analysis.triton.arithmetic import PASSED_ON, SHAPES
from solkit.analysis.triton.floats import float_constant
from solkit.analysis.triton.relevance import ACCESSES, TMA_LOADS, TMA_STORES
from solkit.analysis.triton.tensor_sink import Descriptor

Array = np.ndarray[Any, np.dtype[Any]]

_DOTS = ("tt.dot", "ttng.warp_group_dot", "ttng.tc_gen5_mma")
_IN_LOOP = 8

SCATTERED = "indices that follow from unknown floats are taken to be scattered"
_INDEX_BITS = 24

_SPARSEST = 16
"""Between the least and the most of a tensor's numbers, over their count, where these are counted.
"""


def busier_side(sides: Sequence[Sequence[Block]]) -> int:
    """Find the piece of code with the most accesses and products of tensors; loops count more.

    Of those with as many, scalars decide.
    """
    works = [(_estimated_work(side, _is_of_tensors), _estimated_work(side)) for side in sides]
    return works.index(max(works))


_KEEPING_ZERO = {*PASSED_ON, *SHAPES, "arith.extf", "arith.truncf", "arith.negf", "math.absf"}
_ADDING = {"arith.addf", "arith.subf", "arith.maximumf", "arith.maxnumf", "tt.reduce.return"}


def finite_answer(name: str, function: Function) -> bool | None:
    """Return how a test for data that are not finite ends where all are; ``None`` for other tests.

    Such are ``x == x`` and ``sum(x * 0.0) == 0.0``.
    """
    producers = {
        result: op for block in function.blocks for op in block.walk() for result in op.results
    }
    test = producers.get(name)
    predicate = "" if test is None else test.text.split(",")[0].strip()[-2:]
    if test is None or test.name != "arith.cmpf" or predicate not in ("eq", "ne"):
        return None
    one, other = test.operands[:2]
    if one != other and not all(_is_zero(side, producers) for side in (one, other)):
        return None
    return predicate == "eq"


def _is_zero(name: str, producers: Mapping[str, Operation]) -> bool:
    """Tell whether a value is 0 wherever what it is computed from is finite."""
    operation = producers.get(name)
    if operation is None:
        return False
    if operation.name == "arith.constant":
        value = float_constant(operation)
        return value is not None and not value.any()
    if operation.name == "arith.mulf":
        return any(_is_zero(operand, producers) for operand in operation.operands)
    if operation.name == "tt.reduce":
        steps = {inner.name for block in operation.blocks for inner in block.operations}
        return steps <= _ADDING and _is_zero(operation.operands[0], producers)
    keeps_zero = operation.name in _KEEPING_ZERO or operation.name in _ADDING
    return keeps_zero and all(_is_zero(operand, producers) for operand in operation.operands)


def _is_work(operation: Operation) -> bool:
    return operation.name in ACCESSES or operation.name.startswith(_DOTS)


def _is_of_tensors(operation: Operation) -> bool:
    """Tell whether an operation accesses or multiplies more than a number, such as a lock's."""
    scalar = (
        operation.name in ACCESSES - TMA_LOADS - TMA_STORES and not operation.all_types[0].shape
    )
    return _is_work(operation) and not scalar


def _estimated_work(blocks: Sequence[Block], counts: Callable[[Operation], bool] = _is_work) -> int:
    total = 0
    for operation in (operation for block in blocks for operation in block.operations):
        loops = operation.name in ("scf.for", "scf.while")
        total += counts(operation)
        total += _estimated_work(operation.blocks, counts) * (_IN_LOOP if loops else 1)
    return total


def reachable(function: Function, label: str) -> list[Block]:
    """Return the blocks that may run after a branch to a label."""
    by_label = {block.label: block for block in function.blocks}
    reached: dict[str, Block] = {}
    waiting = [label]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in by_label:
            continue
        block = reached[name] = by_label[name]
        last = block.operations[-1] if block.operations else None
        if last is not None and last.name.startswith("cf."):
            waiting += [label for label in by_label if label and label in last.text + last.types]
    return list(reached.values())


@dataclass
class AssumptionProbe:
    """A sink that notes where each access is made first; see `likely_trips`.

    Attributes:
        places: of each operation, the address of each program's first element, each time.
        boxes: the descriptors of those through TMA.
    """

    places: dict[Operation, list[Array]] = field(default_factory=dict)
    boxes: dict[Operation, Descriptor] = field(default_factory=dict)

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        del mask
        if addresses is not None:
            first = addresses.reshape(len(addresses), -1)[:, 0]
            self.places.setdefault(operation, []).append(np.broadcast_to(first, active.shape))

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""
        self.boxes[operation] = at
        place = sum((c * s for c, s in zip(corner, at.strides, strict=False)), at.base)
        self.places.setdefault(operation, []).append(np.broadcast_to(place, active.shape))

    def step_ends(self) -> None:
        """See `solkit.analysis.triton.tensor_sink.TensorSink`."""


def likely_trips(
    first: AssumptionProbe,
    second: AssumptionProbe,
    active: Array,
    storages: Sequence[TensorArgument],
    gathered: frozenset[str],
) -> int | None:
    """Count iterations until a loop leaves the tensors along its way; ``None`` without such.

    Args:
        first: an iteration.
        second: the next.
        active: which programs make them.
        storages: by number.
        gathered: values computed from what the loop loads, which do not show how it walks.
    """
    limits = [
        limit
        for operation, places in first.places.items()
        if operation in second.places and operation.operands[0] not in gathered
        for limit in _trip_limits(operation, places[0], second, active, storages, first.boxes)
    ]
    return max(min(limits), 1) if limits else None


def _trip_limits(
    operation: Operation,
    before: Array,
    second: AssumptionProbe,
    active: Array,
    storages: Sequence[TensorArgument],
    boxes: Mapping[Operation, Descriptor],
) -> Iterator[int]:
    steps = np.abs(second.places[operation][0] - before)[active]
    place = int(before[active][0] >> ADDRESS_BITS) - 1 if active.any() else -1
    if not steps.size or not 0 <= place < len(storages):
        return
    step = int(np.median(steps))
    if not 0 < step < storages[place].storage_bytes:
        return
    if operation in boxes:
        at = boxes[operation]
        extents = [int(n.flat[0]) for n in at.shape]
        strides = [int(n.flat[0]) for n in at.strides]
    else:
        tensor = storages[place]
        extents = list(tensor.shape)
        strides = [stride * tensor.element_bytes for stride in tensor.strides]
    along = [s * n for n, s in sorted(zip(extents, strides), key=lambda e: -e[1]) if 0 < s <= step]
    reach = along[0] if along else storages[place].storage_bytes
    yield math.ceil(reach / step)


def scattered_indices(
    numbers: Array, shape: Sequence[int], places: Sequence[Array]
) -> Callable[[int], Array]:
    """Return a function that draws indices by a seed: each element's lies elsewhere.

    Args:
        numbers: of the programs, [programs].
        shape: of a tensor of indices.
        places: indices of each axis that are kept.
    """
    within = np.ravel_multi_index(np.ix_(*places), tuple(shape)) if shape else np.zeros((), int)
    programs = numbers.reshape(-1, *(1,) * within.ndim) * math.prod(shape)
    elements = (programs + within).astype(np.int64)

    def draw(seed: int) -> Array:
        spread = (elements * ODD + seed) * ODD
        drawn: Array = (spread >> _INDEX_BITS) & ((1 << _INDEX_BITS) - 1)
        return drawn

    return draw


def are_distinct_numbers(contents: Array | None) -> bool:
    """Tell whether no number comes twice, but for one that may fill up the rest."""
    if contents is None or not contents.size or contents.dtype.kind not in "iu":
        return False
    low, high = int(contents.min()), int(contents.max())
    if high - low > _SPARSEST * contents.size:
        return False
    counts = np.bincount(contents.reshape(-1).astype(np.int64) - low)
    return int((counts > 1).sum()) <= 1


def decided_flag(operation: Operation, values: Sequence[Any]) -> Any:
    """Decide a flag or a choice that is partly unknown: an unknown flag is assumed to be set."""
    if operation.name == "arith.select" and len(values) == 3:
        return values[1] if values[0] is None else None
    flags = [value for value in values if value is not None] if joins_flags(operation) else []
    return flags[0] if flags else None


def joins_flags(operation: Operation) -> bool:
    """Tell whether an operation joins flags by ``and``."""
    return operation.name == "arith.andi" and operation.result_type.element == "i1"
