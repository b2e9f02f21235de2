"""The way of programs through a kernel: branches, loops, and what is assumed of unknown ones."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from solkit.adapters.fake_triton import TensorArgument
from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.triton.arithmetic import aligned, cornered, lead, scalar
from solkit.analysis.triton.assumptions import AssumptionProbe, busier, likely_trips, reachable
from solkit.analysis.triton.loop_extrapolation import Compared, Counts, LoopExtrapolator
from solkit.analysis.triton.relevance import from_memory
from solkit.analysis.triton.shared_values import SharedValues, SharedView

__all__ = ["Blind", "Control", "Descriptor", "Watcher", "choose"]

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any
"""An array, a `Descriptor`, or ``None`` if unknown."""

_MOST_ITERATIONS = 512
_MOST_OPERATIONS = 60_000  # some seconds' worth


@dataclass(frozen=True)
class Descriptor:
    """A TMA descriptor: where a tensor is, outermost dimension first.

    Attributes:
        base: address of the first element.
        shape: in elements.
        strides: in bytes.
        element_bytes: of one.
    """

    base: Array
    shape: tuple[Array, ...]
    strides: tuple[Array, ...]
    element_bytes: int


class Watcher(Protocol):
    """Told of each access that the programs make."""

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """Observe an access through pointers.

        Args:
            operation: makes it.
            addresses: broadcast to [programs, *shape]; ``None`` if unknown.
            mask: likewise; ``None`` if all elements are accessed.
            active: which programs make it.
        """

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """Observe a TMA access of the box that starts at `corner`."""

    def step_ends(self) -> None:
        """Observe the end of a block of the code, such as an iteration of a loop."""


class Control:
    """Control flow of `solkit.analysis.triton.ttgir_interpreter.TTGIRInterpreter`.

    Attributes:
        function: the kernel.
        active: which programs take part.
        counts, watcher: as for `Programs`.
        env: values by name.
        whole: names of tensors that are kept whole although others are kept by their corners.
        guessed: names of values that stand for unknown ones, with the elements of the tensor that
            they were loaded from. Conditions on them are unknown.
        served: how often each program asked a counter, by the counter's address.
        guesses: assumptions.
        operations: followed so far.
        storages: of the tensors, by number.
        compared: the comparisons made, while a loop asks for them.
        plans: how to follow each block.
        shared: values in shared memory.
    """

    function: Function
    active: Array
    counts: Counts
    watcher: Watcher
    env: dict[str, Value]
    whole: frozenset[str]
    guessed: dict[str, int]
    served: dict[int, Array]
    guesses: dict[str, None]
    operations: int
    storages: list[TensorArgument]
    compared: Compared | None
    plans: dict[Block, list[Callable[[], None]]]
    relevant: frozenset[str]
    shared: SharedValues

    def _step(self, operation: Operation) -> Callable[[], None] | None:
        """Return a step that follows an operation; ``None`` if no address depends on it."""
        raise NotImplementedError

    def would_compare(self, block: Block, values: Mapping[str, Value]) -> Compared:
        """Return the comparisons that a block would make with some values; nothing is counted."""
        kept = self.counts, self.watcher, self.compared, self.active
        shared = self.shared.copy()
        comparisons: Compared = {}
        self.counts, self.watcher, self.compared = (
            Counts(self.counts.programs),
            Blind(),
            comparisons,
        )
        self.env.update(values)
        self._block(block)
        self.counts, self.watcher, self.compared, self.active = kept
        self.shared.restore(shared)
        return comparisons

    def _probe(self, blocks: Sequence[Block], values: Mapping[str, Value]) -> AssumptionProbe:
        """Probe where code would make its accesses with some values; nothing is counted."""
        kept = self.counts, self.watcher, self.compared, self.active, self.guesses
        served = {address: times.copy() for address, times in self.served.items()}
        shared = self.shared.copy()
        self.counts, self.compared, self.guesses = Counts(self.counts.programs), None, {}
        self.watcher = probe = AssumptionProbe()
        self.env.update(values)
        for block in blocks:
            self._block(block)
        self.counts, self.watcher, self.compared, self.active, self.guesses = kept
        self.served = served
        self.shared.restore(shared)
        return probe

    def _block(self, block: Block) -> None:
        self.counts.add(block, self.active)
        plan = self.plans.get(block)
        if plan is None:
            steps = map(self._step, block.operations)
            plan = self.plans[block] = [step for step in steps if step is not None]
        for step in plan:
            step()
        self.watcher.step_ends()

    def _targets(self, block: Block) -> Iterator[tuple[str, Array]]:
        if not block.operations or not block.operations[-1].name.startswith("cf."):
            return
        last = block.operations[-1]
        labels = re.findall(r"\^\w+", last.text + last.types)
        if last.name == "cf.br":
            yield labels[0], self.active
            return
        more = busier([reachable(self.function, label) for label in labels[:2]])
        taken = self._condition(last, more == 0)
        yield labels[0], self.active & taken
        yield labels[1], self.active & ~taken

    def _condition(self, operation: Operation, presumed: bool = True) -> Array:
        """Tell which programs take a branch; all of them do what is presumed if that is unknown."""
        value = self.env.get(operation.operands[0])
        if value is None or operation.operands[0] in self.guessed:
            self._guess("a branch that depends on data is assumed to do the work", operation)
            return np.full_like(self.active, presumed)
        return np.broadcast_to(value.reshape(-1).astype(bool), self.active.shape)

    def _if(self, operation: Operation) -> None:
        first = busier([[block] for block in operation.blocks]) == 0
        taken, outer = self._condition(operation, first), self.active
        yielded: list[list[Value]] = []
        for block, active in zip(operation.blocks, (outer & taken, outer & ~taken), strict=False):
            self.active = active
            if active.any():
                self._block(block)
            yielded.append(self._yields(block, operation.results) if active.any() else [])
        self.active = outer
        for i, result in enumerate(operation.results):
            new, old = (side[i] if side else None for side in yielded)
            self.env[result] = choose(taken, new, old, both=all(map(bool, yielded)))

    def _yields(self, block: Block, targets: Sequence[str]) -> list[Value]:
        """Return the values that a block yields to others of these names."""
        last = block.operations[-1] if block.operations else None
        if last is None or last.name != "scf.yield":  # none is printed where nothing is yielded
            return []
        return self._passed(last.operands, targets)

    def _passed(self, names: Sequence[str], targets: Sequence[str]) -> list[Value]:
        """Return values that get other names; what is guessed stays so."""
        if self.guessed:
            for name, target in zip(names, targets, strict=False):
                if name in self.guessed:
                    self.guessed[target] = self.guessed[name]
        pairs = itertools.zip_longest(names, targets, fillvalue="")
        return [self._value(name, target in self.whole) for name, target in pairs if name]

    def _value(self, name: str, whole: bool) -> Value:
        """Return a value, whole or for a use that keeps corners."""
        value = self.env.get(name)
        if whole or name not in self.whole or not isinstance(value, np.ndarray):
            return value
        return cornered(value)

    def _partitions(self, operation: Operation) -> None:
        """Run warps that do different things; each partition gets the captured values."""
        self.shared.forget()
        captured = [self.env.get(name) for name in operation.operands]
        for block in operation.blocks:
            self.env.update(zip(block.arguments, captured, strict=False))
            self._block(block)

    def _for(self, operation: Operation, linear: bool) -> None:
        loop = operation.loop
        values = self._passed(loop.starts, loop.names)
        low, step, trips = self._bounds(operation, values)
        trips = np.broadcast_to(trips, self.active.shape)
        done: Array = np.zeros(len(self.active), np.int64)
        skipping = LoopExtrapolator(self, operation, linear, trips)
        outer, start = self.active, self.counts.copy()
        compared = self.compared  # of the outer loop, which needs those of all iterations
        rounds, tired = 0, False
        while (running := outer & (done < trips)).any():
            if not tired and (tired := self._tired(rounds, operation)):
                # the rest is like this, and the last
                remaining = np.where(running, trips - done - 1, 0)
                for key, amount in self.counts.since(start).items():  # shows where it ends
                    self.counts.add(key, amount * remaining / np.maximum(done, 1))
                done = done + remaining
            self.active = running
            self.env[loop.variable] = low + done * step
            self.env.update(zip(loop.names, values, strict=True))
            before = self.counts.copy() if skipping.possible else {}
            self.compared = {} if skipping.possible or compared is not None else None
            self._block(operation.blocks[0])
            if compared is not None and self.compared is not None:
                for comparison, results in self.compared.items():
                    compared.setdefault(comparison, []).extend(results)
            new = self._yields(operation.blocks[0], loop.names)
            new = [choose(running, n, v) for n, v in zip(new, values, strict=True)]
            done = done + running
            rounds += 1
            index = low + done * step
            done, values = skipping.skip(before, running, trips, done, values, new, index, step)
        self.active, self.compared = outer, compared
        self.env.update(zip(operation.results, values, strict=False))
        self._passed(loop.names, operation.results)

    def _bounds(self, operation: Operation, values: list[Value]) -> tuple[Array, Array, Array]:
        """First index, step and iterations of each program, as known or assumed."""
        loop = operation.loop
        low, high, step = (self.env.get(name) for name in loop.bounds)
        if (
            low is not None
            and high is not None
            and step is not None
            and self.guessed.keys().isdisjoint(loop.bounds)
        ):
            trips: Array = np.maximum(-((low - high) // np.maximum(step, 1)), 0)
            return low, step, trips
        low = scalar(0) if low is None else low
        step = scalar(1) if step is None else step
        body, probes = operation.blocks[0], []
        for index in (low, low + step):
            carried = dict(zip(loop.names, values, strict=True))
            probes.append(self._probe([body], {**carried, loop.variable: index}))
            values = self._yields(body, loop.names)
        whole, parts = self._assumed_trips(operation, [body], probes, loop.bounds[:1])
        if parts > 1:  # they begin one after the other
            low = low * math.ceil(whole / parts) * step
        return low, step, scalar(math.ceil(whole / parts))

    def _assumed_trips(
        self,
        operation: Operation,
        blocks: Sequence[Block],
        probes: Sequence[AssumptionProbe],
        starts: Sequence[str],
    ) -> tuple[int, int]:
        """Return iterations of a loop of unknown length, and how many such loops share its tensors.

        Loops that begin at loaded places do, such as those over the rows of a sparse matrix.
        """
        within = from_memory(blocks)
        trips = likely_trips(probes[0], probes[1], self.active, self.storages, within)
        parts = max(*(self.guessed.get(name, 2) - 1 for name in starts), 1)
        how = "once" if trips is None else "to the end of its tensors"
        sentence = f"a loop whose length depends on data is assumed to run {how}"
        if trips is not None and parts > 1:
            sentence = (
                f"{parts:,} loops whose lengths depend on data are assumed to share their tensors"
            )
        self._guess(sentence, operation)
        return (trips, parts) if trips is not None else (1, 1)

    def _while(self, operation: Operation) -> None:
        before, after = operation.blocks
        pairs = re.findall(r"(%[\w$.\-]+) = (%[\w$.\-#]+)", operation.text)
        names = [name for name, _ in pairs]
        values = self._passed([start for _, start in pairs], names)
        outer = running = self.active
        for rounds in itertools.count():
            self.active, start = running, self.counts.copy()
            self.env.update(zip(names, values, strict=True))
            self._block(before)
            last = before.operations[-1]  # scf.condition(%c) %values
            passed = self._passed(last.operands[1:], after.arguments)
            running = running & self._condition(last)
            self.env.update(zip(operation.results, passed, strict=False))
            if not running.any() or self._tired(rounds, operation):
                break
            self.active = running
            flag = last.operands[0]
            unknown = self.env.get(flag) is None or flag in self.guessed  # it would never end
            remaining = self._more_rounds(operation, passed) if unknown else 0
            self.env.update(zip(after.arguments, passed, strict=False))
            self._block(after)
            new = self._yields(after, names)
            values = [choose(running, n, v) for n, v in zip(new, values, strict=True)]
            if unknown:
                for key, amount in self.counts.since(start).items():
                    self.counts.add(key, amount * remaining)
                break
        self.active = outer
        self._passed(last.operands[1:], operation.results)

    def _more_rounds(self, operation: Operation, passed: list[Value]) -> int:
        """Count the rounds after the next of a loop that unknown data end."""
        before, after = operation.blocks
        names = re.findall(r"(%[\w$.\-]+) = ", operation.text)
        probes = []
        for _ in range(2):
            probes.append(self._probe([after], dict(zip(after.arguments, passed, strict=False))))
            self._probe([before], dict(zip(names, self._yields(after, names), strict=False)))
            passed = self._passed(before.operations[-1].operands[1:], after.arguments)
        trips, parts = self._assumed_trips(operation, operation.blocks, probes, names)
        return math.ceil(trips / parts) - 1

    def _tired(self, rounds: int, operation: Operation) -> bool:
        """Tell whether a loop has been followed for long enough; if so, a note says it."""
        if rounds < _MOST_ITERATIONS and self.operations < _MOST_OPERATIONS:
            return False
        self._guess(f"a loop is followed for {rounds} iterations only", operation)
        return True

    def _guess(self, what: str, operation: Operation) -> None:
        place = f"{operation.places[0]}: " if operation.places else ""
        self.guesses.setdefault(f"{place}{what}.")


class Blind:
    """A watcher that looks away."""

    def pointers(
        self, operation: Operation, addresses: Array | None, mask: Array | None, active: Array
    ) -> None:
        """See `Watcher`."""

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """See `Watcher`."""

    def step_ends(self) -> None:
        """See `Watcher`."""


def choose(where: Array, new: Value, old: Value, both: bool = True) -> Value:
    """Per program: `new` where chosen. A missing side was not run."""
    if not both:
        return old if new is None else new
    if (
        new is None
        or old is None
        or isinstance(new, Descriptor | SharedView)
        or new is old
        or where.all()
    ):
        return new
    new, old = aligned([new, old])
    return np.where(lead(where, new), new, old)
