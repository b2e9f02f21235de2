"""Choice of the followed programs of a large launch, by what they do.

Grids of ragged problems are as large as the worst case: most programs leave at once, others work
for longer than their neighbours. The way of all programs through the code is found first, from the
few values that decide it. Programs that write nothing are left out of where the launch goes, and
of the rest each way through the code is followed as often as it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.adapters.launch_recording import Argument
from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.sampling import spread_out
from solkit.analysis.triton.relevance import (
    ACCESSES,
    ATOMICS,
    STORES,
    TMA_STORES,
    RelevantValues,
    from_memory,
    mask_operand,
    values_behind,
)
from solkit.analysis.triton.tensor_sink import IgnoringSink
from solkit.analysis.triton.ttgir_interpreter import TTGIRInterpreter

Array = np.ndarray[Any, np.dtype[Any]]
Numbers = npt.NDArray[np.int64]

_MOST = 1 << 18
"""Programs whose way through the code is found; of more, so many that are spread over them."""
_KEPT = 1 << 20
"""Elements of a tensor over all of those, where it is kept whole."""
_CLASSES = 64
"""Ways through the code that are told apart."""
_FEWEST = 16
"""Programs followed of each."""
_WRITES = STORES | ATOMICS | TMA_STORES


@dataclass(frozen=True, eq=False)
class Sample:
    """Programs to follow.

    Attributes:
        first: the first of those that write anything, in order.
        wide: some of each way through the code, in order; the same if all that write are followed.
        weights: of each of the wide, the programs of the launch that it stands for.
        scale: work of the launch over that of the first.
        is_whole: whether all programs that write are among the first.
    """

    first: Numbers
    wide: Numbers
    weights: float | Array
    scale: float
    is_whole: bool


def ragged_sample(
    function: Function,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    most_first: int,
    most_wide: int,
    whole: frozenset[str],
) -> Sample | None:
    """Return programs that represent a launch whose programs differ by what they do.

    Args:
        function: the kernel.
        arguments: by parameter.
        grid: programs in x, y and z.
        most_first: how many that do anything may be followed in order.
        most_wide: how many may be followed of all.
        whole: values that reductions derive from, which corners do not suffice for.

    Returns:
        ``None`` if all programs go one way, as far as is known.
    """
    deciding = _deciding(function)
    if not deciding.all:
        return None
    programs = math.prod(grid)
    behind = values_behind(function.blocks, deciding.all)
    values = RelevantValues(behind, behind & whole)
    counted = spread_out(min(_MOST, _affordable(function, values.whole)), programs)
    paths = _Paths(function, arguments, grid, counted, values, deciding.masks)
    paths.run()
    writing, work = paths.writing(), paths.work()
    if paths.guesses or not writing.any():
        return None
    keys = _execution_paths(paths.counters, work)
    if writing.all() and (not deciding.by_memory or not keys.any()):
        return None
    return _chosen_sample(
        _Classified(counted, writing, work, keys, programs), most_first, most_wide
    )


def _affordable(function: Function, whole: frozenset[str]) -> int:
    """Return programs for which tensors can be kept whole."""
    sizes = [
        math.prod(operation.result_type.shape)
        for _, operation, _ in function.walk()
        if len(operation.results) == 1 and operation.results[0] in whole
    ]
    return max(_KEPT // max(sizes, default=1), _FEWEST)


@dataclass(frozen=True)
class _Deciding:
    """The values that decide which way a program goes.

    Attributes:
        all: these, if they can tell programs apart.
        masks: with which memory may switch stores off.
        by_memory: whether memory decides any of them.
    """

    all: frozenset[str]
    masks: frozenset[str]
    by_memory: bool


def _deciding(function: Function) -> _Deciding:
    """Return a kernel's deciding values: conditions, loop bounds, and masks outside of loops.

    Bounds that follow from a program's number alone vary smoothly, and tell nothing apart.
    """
    loaded = from_memory(function.blocks)
    branches: set[str] = set()
    bounds: set[str] = set()
    masks: set[str] = set()
    for _, operation, depth in function.walk():
        if operation.name in ("scf.if", "cf.cond_br"):
            branches.add(operation.operands[0])
        elif operation.name == "scf.for":
            bounds.update(operation.loop.bounds)
        elif operation.name == "scf.condition":
            bounds.add(operation.operands[0])
        elif operation.name in _WRITES and not depth:
            masks.update([mask] if (mask := mask_operand(operation)) else [])
    masks &= loaded
    by_memory = bool(masks or (branches | bounds) & loaded)
    tells_apart = by_memory or branches
    return _Deciding(
        frozenset(branches | bounds | masks if tells_apart else ()), frozenset(masks), by_memory
    )


class _Paths(TTGIRInterpreter):
    """The way of many programs through a kernel; accesses count only where they decide it.

    Args:
        function, arguments, grid, numbers: as for `TTGIRInterpreter`.
        wanted: the values that decide.
        masks: as in `_Deciding`.
    """

    def __init__(
        self,
        function: Function,
        arguments: Mapping[str, Argument],
        grid: tuple[int, int, int],
        numbers: Numbers,
        values: RelevantValues,
        masks: frozenset[str],
    ) -> None:
        counters = Counters(len(numbers))
        super().__init__(function, arguments, grid, numbers, IgnoringSink(), counters, values, True)
        self.masks = masks

    def _step(self, operation: Operation) -> Callable[[], None] | None:
        if operation.name in ACCESSES and self.relevant.isdisjoint(operation.results):
            is_masked = operation.name in _WRITES and mask_operand(operation) in self.masks
            return partial(self._note, operation) if is_masked else None
        if operation.name == "scf.for" and self._is_plain(operation):
            return partial(self._count, operation)
        return super()._step(operation)

    def _note(self, operation: Operation) -> None:
        """Count a store where its mask lets anything through."""
        mask = self.env.get(mask_operand(operation) or "")
        through = True if mask is None else mask.reshape(len(mask), -1).any(1)
        self.counters.add(operation, self.active & through)

    def _is_plain(self, loop: Operation) -> bool:
        """Tell whether nothing inside of a loop decides anything."""
        inner = [operation for block in loop.blocks for operation in block.walk()]
        if any(operation.name in ("scf.for", "scf.if", "scf.while") for operation in inner):
            return False
        names = {name for operation in inner for name in operation.results}
        return self.relevant.isdisjoint(names.union(loop.results))

    def _count(self, loop: Operation) -> None:
        """Count the iterations of a loop in which nothing is decided."""
        low, high, step = (self.env.get(name) for name in loop.loop.bounds)
        if low is None or high is None or step is None or not self._is_sure(loop):
            self._guess("the length of a loop is not known", loop)
            return
        trips = np.maximum(-((low - high) // np.maximum(step, 1)), 0)
        self.counters.add(loop.blocks[0], self.active * trips)

    def _is_sure(self, loop: Operation) -> bool:
        return self.guessed.keys().isdisjoint(loop.loop.bounds)

    def work(self) -> Array:
        """Return elements that each program accesses."""
        total = np.zeros(self.counters.programs)
        for block, elements in _elements(self.function).items():
            executions = self.counters.by_key.get(block)
            total = total if executions is None else total + executions * elements
        return total

    def writing(self) -> npt.NDArray[np.bool_]:
        """Tell which programs write anything."""
        writing = np.zeros(self.counters.programs, bool)
        for block, operation, _ in self.function.walk():
            if operation.name in _WRITES and block in self.counters.by_key:
                executions = self.counters.by_key.get(operation, self.counters.by_key[block])
                writing |= executions > 0
        return writing


def _elements(function: Function) -> Mapping[Block, int]:
    """Return elements that one execution of each block of the code accesses."""
    elements_of: dict[Block, int] = {}
    for block, operation, _ in function.walk():
        if operation.name in ACCESSES:
            shapes = [kind.shape for kind in operation.all_types]
            elements_of[block] = elements_of.get(block, 0) + max(map(math.prod, shapes), default=1)
    return elements_of


def _execution_paths(counters: Counters, work: Array) -> Numbers:
    """Return a number for each program, from 0 on, equal for those that do about the same."""
    size = np.floor(2 * np.log2(np.maximum(work, 1.0))).astype(np.int64)
    _, keys = np.unique(size, return_inverse=True)
    for executions in counters.by_key.values():
        _, keys = np.unique(2 * keys.reshape(-1) + (executions > 0), return_inverse=True)
    ways: Numbers = keys.reshape(-1)
    return ways


# ------------------------------------------------------------------------------------- choosing


@dataclass(frozen=True, eq=False)
class _Classified:
    """Programs whose way is known: their numbers, and what they do.

    Attributes:
        numbers: of the programs, in order.
        writing: which of them write anything.
        work: of each.
        keys: as `_execution_paths` gives them.
        programs: of the launch.
    """

    numbers: Numbers
    writing: npt.NDArray[np.bool_]
    work: Array
    keys: Numbers
    programs: int

    @property
    def stands_for(self) -> float:
        """Programs of the launch that one stands for."""
        return self.programs / len(self.numbers)


def _chosen_sample(classified: _Classified, most_first: int, most_wide: int) -> Sample:
    places = np.flatnonzero(classified.writing)
    if classified.stands_for == 1.0 and len(places) <= most_first:
        idle, of_idle = _some_of_each(classified, np.flatnonzero(~classified.writing), _FEWEST)
        together = np.concatenate([places, idle])
        weights = np.concatenate([np.ones(len(places)), of_idle])
        order = np.argsort(together)
        both = classified.numbers[together[order]]
        return Sample(both, both, weights[order], 1.0, True)
    some = places[: max(int(most_first / classified.stands_for), 1)]
    near = classified.numbers[some][:, None] + np.arange(math.ceil(classified.stands_for))
    first = np.unique(near[near < classified.programs])[:most_first]
    wide, weights = _some_of_each(classified, np.arange(len(classified.numbers)), most_wide)
    scale = float(classified.work[places].sum() / max(classified.work[some].sum(), 1.0))
    return Sample(first, classified.numbers[wide], weights, max(scale, 1.0), False)


def _some_of_each(classified: _Classified, places: Numbers, most: int) -> tuple[Numbers, Array]:
    """Choose programs of each way, more of those with more work; return their weights too."""
    if not len(places):
        return places, np.zeros(0)
    keys = _joined_small_paths(
        classified.keys[places], classified.work[places], min(_CLASSES, max(most // 4, 1))
    )
    of_all = max(float(classified.work[places].sum()), 1.0)
    picked, weights = [], []
    ways = np.unique(keys).tolist()
    fewest = max(min(_FEWEST, most // len(ways)), 1)
    for way in ways:
        members = places[keys == way]
        count = max(int(most * classified.work[members].sum() / of_all), fewest)
        some = members[spread_out(min(count, len(members)), len(members))]
        picked.append(some)
        weights.append(np.full(len(some), classified.stands_for * len(members) / len(some)))
    chosen = np.concatenate(picked)
    order = np.argsort(chosen)
    return chosen[order], np.concatenate(weights)[order]


def _joined_small_paths(keys: Numbers, work: Array, most: int) -> Numbers:
    """Keep the ways with the most work apart, and join the rest as -1."""
    ways, places = np.unique(keys, return_inverse=True)
    if len(ways) <= most:
        return keys
    worth = np.bincount(places.reshape(-1), work + 1.0)
    kept = ways[np.argsort(-worth)[: most - 1]]
    return np.where(np.isin(keys, kept), keys, -1)
