"""Follow a kernel's programs (thread blocks) through its IR, for the addresses that they touch.

Integers, booleans and pointers are computed as on the GPU, for many programs at once. Floats are
not computed, since no address depends on them. Index tensors have their real contents if these are
known (`solkit.adapters.fake_cuda.known_value`). Unknown values are guessed, and a note says so.

Every value is an array whose first axis is the programs, of size 1 if they agree; the others are
the tensor's, of size 1 if it does not vary. There are two ways to follow: whole tensors, and
*corners*, which keep only the first, middle and last index of each range, so that thousands of
programs cost as much as a few whole ones.

A loop with equal iterations is not run to its end: after some iterations the rest is extrapolated,
except for the last few, where a software pipeline drains.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.adapters.launch_recording import Argument
from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.loop_extrapolation import (
    MOST_TRIPS,
    Comparisons,
    CountedLoopExtrapolator,
)
from solkit.analysis.interpreter.storages import IN_ORDER, Storages
from solkit.analysis.interpreter.values import ODD, Array
from solkit.analysis.triton.arguments import bind_arguments
from solkit.analysis.triton.arithmetic import (
    ARITHMETIC,
    PASSED_ON,
    SHAPES,
    aligned_ranks,
    choose_by_program,
    constant,
    corner_places,
    cornered,
    integer_comparison,
    integer_operation,
    make_range,
    scalar_value,
)
from solkit.analysis.triton.assumptions import (
    SCATTERED,
    AssumptionProbe,
    are_distinct_numbers,
    busier_side,
    decided_flag,
    finite_answer,
    joins_flags,
    likely_trips,
    reachable,
    scattered_indices,
)
from solkit.analysis.triton.counter_turns import CounterTurns
from solkit.analysis.triton.floats import FROM_FLOATS, float_constant, on_floats
from solkit.analysis.triton.loop_steps import (
    PICKS,
    alternatives_in_condition,
    carried_pairs,
    is_linear,
    is_linear_while,
    meetings_in_condition,
    predicate_of,
)
from solkit.analysis.triton.reductions import FOLDS, fold_region
from solkit.analysis.triton.relevance import (
    ACCESSES,
    ATOMICS,
    SHARED_VIEWS,
    TMA_LOADS,
    TMA_STORES,
    RelevantValues,
    from_memory,
    mask_operand,
    other_of,
    pointer_roots,
)
from solkit.analysis.triton.shared_values import SharedValues, SharedView, Stored
from solkit.analysis.triton.tensor_sink import Descriptor, IgnoringSink, TensorSink

Value = Any
"""An array, a `Descriptor`, or ``None`` if unknown."""

_MOST_ITERATIONS = 512
_MOST_OPERATIONS = 60_000  # some seconds' worth
_LAST_ROUNDS = 8  # that are followed at the end of a loop whose middle is skipped

_UNKNOWN_ADDRESS = "an address that is not known counts a sector for each element"
_OF_NO_TENSOR = 0
"""Elements that a scattered index stands for: it is in no order."""
_UNSEEN = {
    "tt.call": "what a function does that is not inlined is not seen",
    **dict.fromkeys(
        ("ttng.async_tma_gather", "ttng.async_tma_scatter"),
        "a TMA gather or scatter is not counted",
    ),
    **dict.fromkeys(
        ("tt.descriptor_gather", "tt.descriptor_scatter"), "a TMA gather or scatter is not counted"
    ),
}


class TTGIRInterpreter:
    """Some programs of a launch, followed together.

    Args:
        function: the kernel.
        arguments: by parameter.
        grid: programs in x, y and z.
        numbers: of the programs to follow, x fastest; shape [programs].
        sink: notified of each access.
        counters: counts executions of blocks.
        values: the values to compute, from `relevant_values`.
        corners: keep only the corners of tensors, except of those that are wanted whole.
    """

    def __init__(
        self,
        function: Function,
        arguments: Mapping[str, Argument],
        grid: tuple[int, int, int],
        numbers: npt.NDArray[np.int64],
        sink: TensorSink,
        counters: Counters,
        values: RelevantValues,
        corners: bool = False,
    ) -> None:
        self.function = function
        self.grid = grid
        x, y, _ = grid
        self.pids = (numbers % x, numbers // x % y, numbers // (x * y))
        self.numbers = numbers
        self.corners = corners
        self.whole = values.whole if corners else frozenset()
        self.sink = sink
        self.counters = counters
        self.active: Array = np.ones(len(numbers), bool)
        self.guesses: dict[str, None] = {}
        self.is_assuming = False  # of some flag that is not known
        self.finite_answers: dict[str, bool | None] = {}  # of flags that data decide
        self.operations = 0
        self.guessed: dict[str, int] = {}  # with the elements of the tensor that they stand for
        self.turns = CounterTurns(numbers, grid)
        self.storages = Storages()
        self.drawn: dict[str, set[int]] = {}  # loaded values, with the storages that they are from
        self.maps: dict[str, Descriptor] = {}
        self.relevant = values.relevant
        self.plans: dict[Block, list[Callable[[], None]]] = {}
        self.shared = SharedValues(choose_by_program)
        self.compared: Comparisons | None = None  # while a loop asks for it
        self.is_ahead = False  # of the iteration that runs
        self.last: dict[Operation, Array] = {}  # flags and signs in conditions of loops
        self.roots = pointer_roots(function)
        self.env, self.names = bind_arguments(function, arguments, self.storages)
        operations = [inner for block in function.blocks for inner in block.walk()]
        self.counters_at = {self.place_of(inner) for inner in operations if inner.name in ATOMICS}

    def run(self) -> None:
        """Follow them from entry to return."""
        waiting: dict[str, Array] = {self.function.blocks[0].label: self.active}
        with np.errstate(all="ignore"):
            for block in self.function.blocks:  # branches lead forward: Triton's loops are scf's
                self.active = waiting.pop(block.label, np.zeros_like(self.active))
                if self.active.any():
                    self._block(block)
                    for label, active in self._targets(block):
                        waiting[label] = waiting.get(label, False) | active

    def place_of(self, operation: Operation) -> int:
        """Return the number of the storage that an access is made in; 0 if several may be."""
        addresses = [self.env.get(name) for name in self.roots(operation.operands[0])]
        places = {
            int(address.flat[0]) >> ADDRESS_BITS
            for address in addresses
            if isinstance(address, np.ndarray)
        }
        return places.pop() if len(places) == len(addresses) == 1 else 0

    def _step(self, operation: Operation) -> Callable[[], None] | None:
        """Return a step that follows an operation; ``None`` if no address depends on it."""
        name = operation.name
        if name == "scf.for":
            return partial(self._for, operation, is_linear(operation, self.relevant))
        if name == "scf.while":
            return partial(self._while, operation, is_linear_while(operation, self.relevant))
        if name in ACCESSES:
            to_box = name in TMA_LOADS or name in TMA_STORES
            return partial(self._box, operation) if to_box else self._access(operation)
        if name in _UNSEEN:
            return partial(self._guess, _UNSEEN[name], operation)
        regions: Mapping[str, Callable[[Operation], None]] = {
            "scf.if": self._if,
            "ttg.warp_specialize": self._partitions,
            "ttng.tensormap_create": self._tensormap,
        }
        if name in regions:
            return partial(regions[name], operation)
        if name == "ttg.local_store":
            return self._local_store(operation)
        if self.relevant.isdisjoint(operation.results):
            return None
        shared: Mapping[str, Callable[[Operation], None]] = {
            "ttg.local_alloc": self._local_alloc,
            "ttg.local_load": self._local_load,
            **dict.fromkeys(SHARED_VIEWS, self._view),
        }
        return partial(shared[name], operation) if name in shared else self._assignment(operation)

    def distinct_values(self) -> frozenset[str]:
        """Return the loaded values of tensors whose contents are known, and differ."""
        drawn = set().union(*self.drawn.values())
        differ = {place: are_distinct_numbers(self.storages[place - 1].contents) for place in drawn}
        return frozenset(
            name
            for name, places in self.drawn.items()
            if name not in self.guessed and all(differ[place] for place in places)
        )

    # ---------------------------------------------------------------------------- control flow

    def _uncounted(self, run: Callable[[], object]) -> Comparisons:
        """Return the comparisons that are made while something runs; nothing is counted."""
        kept = self.counters, self.sink, self.compared, self.active
        shared = self.shared.copy()
        comparisons: Comparisons = {}
        self.counters, self.sink, self.compared = (
            Counters(self.counters.programs),
            IgnoringSink(),
            comparisons,
        )
        run()
        self.counters, self.sink, self.compared, self.active = kept
        self.shared.restore(shared)
        return comparisons

    def _probe(self, blocks: Sequence[Block], values: Mapping[str, Value]) -> AssumptionProbe:
        """Probe where code would make its accesses with some values; nothing is counted."""
        kept = self.counters, self.sink, self.compared, self.active, self.guesses
        served = self.turns.snapshot()
        shared = self.shared.copy()
        self.counters, self.compared, self.guesses = Counters(self.counters.programs), None, {}
        self.sink = probe = AssumptionProbe()
        self.env.update(values)
        for block in blocks:
            self._block(block)
        self.counters, self.sink, self.compared, self.active, self.guesses = kept
        self.turns.restore(served)
        self.shared.restore(shared)
        return probe

    def _block(self, block: Block) -> None:
        self.counters.add(block, self.active)
        plan = self.plans.get(block)
        if plan is None:
            steps = map(self._step, block.operations)
            plan = self.plans[block] = [step for step in steps if step is not None]
        for step in plan:
            step()
        self.sink.step_ends()

    def _targets(self, block: Block) -> Iterator[tuple[str, Array]]:
        if not block.operations or not block.operations[-1].name.startswith("cf."):
            return
        last = block.operations[-1]
        labels = re.findall(r"\^\w+", last.text + last.types)
        if last.name == "cf.br":
            yield labels[0], self.active
            return
        more = busier_side([reachable(self.function, label) for label in labels[:2]])
        taken = self._condition(last, more == 0)
        yield labels[0], self.active & taken
        yield labels[1], self.active & ~taken

    def _condition(self, operation: Operation, presumed: bool = True) -> Array:
        """Tell which programs take a branch; all of them do what is presumed if that is unknown."""
        flag = operation.operands[0]
        value = self.env.get(flag)
        if value is None or flag in self.guessed:
            if flag not in self.finite_answers:  # to find one reads the whole function
                self.finite_answers[flag] = finite_answer(flag, self.function)
            answer = self.finite_answers[flag]
            if answer is not None:
                self._guess("data are assumed to be finite", operation)
                return np.full_like(self.active, answer)
            self._guess("a branch that depends on data is assumed to do the work", operation)
            return np.full_like(self.active, presumed)
        return np.broadcast_to(value.reshape(-1).astype(bool), self.active.shape)

    def _if(self, operation: Operation) -> None:
        first = busier_side([[block] for block in operation.blocks]) == 0
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
            self.env[result] = choose_by_program(taken, new, old, both=all(map(bool, yielded)))

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
        body = operation.blocks[0]

        def next_comparisons(values: Sequence[Value], index: Array, active: Array) -> Comparisons:
            self.active = active
            self.env.update({**dict(zip(loop.names, values, strict=True)), loop.variable: index})
            return self._uncounted(lambda: self._block(body))

        skipping = CountedLoopExtrapolator(
            self.counters, trips, [name in self.relevant for name in loop.names], next_comparisons
        )
        skipping.is_possible &= linear
        outer, start = self.active, self.counters.snapshot()
        compared = self.compared  # of the outer loop, which needs those of all iterations
        rounds, tired = 0, False
        while (running := outer & (done < trips)).any():
            if not tired and (tired := self._tired(rounds, operation)):
                remaining = np.where(running, trips - done - 1, 0)
                done = done + self._count_on(start, remaining, done)
            self.active = running
            self.env[loop.variable] = low + done * step
            self.env.update(zip(loop.names, values, strict=True))
            before = self.counters.snapshot() if skipping.is_possible else {}
            self.compared = {} if skipping.is_possible or compared is not None else None
            self._block(body)
            self._hand_on(compared)
            new = self._yields(body, loop.names)
            new = [choose_by_program(running, n, v) for n, v in zip(new, values, strict=True)]
            done = done + running
            rounds += 1
            index = low + done * step
            remaining = skipping.skippable(
                before, running, done, values, new, self.compared or {}, index, step
            )
            done, values = done + remaining, skipping.moved(new, remaining)
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
        low = scalar_value(0) if low is None else low
        step = scalar_value(1) if step is None else step
        body, probes = operation.blocks[0], []
        for index in (low, low + step):
            carried = dict(zip(loop.names, values, strict=True))
            probes.append(self._probe([body], {**carried, loop.variable: index}))
            values = self._yields(body, loop.names)
        whole, parts = self._assumed_trips(operation, [body], probes, loop.bounds[:1])
        if parts > 1:  # they begin one after the other
            low = low * math.ceil(whole / parts) * step
        return low, step, scalar_value(math.ceil(whole / parts))

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
        parts = max([1, *(self.guessed.get(name, 2) - 1 for name in starts)])
        how = "once" if trips is None else "to the end of its tensors"
        sentence = f"a loop whose length depends on data is assumed to run {how}"
        if trips is not None and parts > 1:
            sentence = (
                f"{parts:,} loops whose lengths depend on data are assumed to share their tensors"
            )
        self._guess(sentence, operation)
        return (trips, parts) if trips is not None else (1, 1)

    def _count_on(self, start: Mapping[Any, Array], remaining: Array, done: Array) -> Array:
        """Count the rest of a loop like what it has done, but for the last, which shows its end."""
        for key, amount in self.counters.since(start).items():
            self.counters.add(key, amount * remaining / np.maximum(done, 1))
        return remaining

    def _hand_on(self, outer: Comparisons | None) -> None:
        """Add the comparisons of an iteration to those of the loop around."""
        if outer is not None and self.compared is not None:
            for comparison, results in self.compared.items():
                outer.setdefault(comparison, []).extend(results)

    def _while(self, operation: Operation, linear: bool) -> None:
        before, after = operation.blocks
        pairs = carried_pairs(operation)
        names = [name for name, _ in pairs]
        values = self._passed([start for _, start in pairs], names)
        skipping = self._while_extrapolator(operation, names)
        waits = (
            not pairs and len(after.operations) == 1
        )  # `while tl.atomic_add(flag, 0) != n: pass`
        skipping.is_possible &= linear and not waits
        outer = running = self.active
        compared = self.compared  # as in `_for`
        done: Array = np.zeros(len(self.active), np.int64)
        # the last round that is followed, once known; it waits for what another program does
        last, first = int(waits), self.counters.snapshot()
        for rounds in itertools.count():
            if not last and rounds and self._tired(rounds, operation):
                if not (linear and skipping.steps):
                    break
                ahead = skipping.iterations_left(values, np.where(running, MOST_TRIPS, 0))
                skipped = self._count_on(first, np.maximum(ahead - 1, 0), done)
                values, done = skipping.moved(values, skipped), done + skipped
                last = rounds + _LAST_ROUNDS
            if last and rounds > last:
                break
            self.active, start = running, self.counters.snapshot()
            self.compared = {} if skipping.is_possible or compared is not None else None
            goes_on, passed = self._while_goes_on(operation, names, values)
            running = running & goes_on
            if not running.any():
                self._hand_on(compared)
                break
            self.active = running
            flag = before.operations[-1].operands[0]
            unknown = self.env.get(flag) is None or flag in self.guessed  # it would never end
            remaining = self._more_rounds(operation, passed) if unknown else 0
            self.env.update(zip(after.arguments, passed, strict=False))
            self._block(after)
            self._hand_on(compared)
            new = self._yields(after, names)
            new = [choose_by_program(running, n, v) for n, v in zip(new, values, strict=True)]
            if unknown:
                self.counters.repeat(self.counters.since(start), remaining)
                break
            done = done + running
            skipped = skipping.skippable(
                start, running, done, values, new, self.compared or {}, done, scalar_value(1)
            )
            done, values = done + skipped, skipping.moved(new, skipped)
        self.active, self.compared = outer, compared
        self._passed(before.operations[-1].operands[1:], operation.results)

    def _while_goes_on(
        self, operation: Operation, names: Sequence[str], values: Sequence[Value]
    ) -> tuple[Array, list[Value]]:
        """Run what decides over an iteration; tell who makes it, and what it gets."""
        before, after = operation.blocks
        self.env.update(zip(names, values, strict=True))
        self._block(before)
        last = before.operations[-1]  # scf.condition(%c) %values
        passed = self._passed(last.operands[1:], after.arguments)
        goes_on = self._condition(last)
        self.env.update(zip(operation.results, passed, strict=False))
        return goes_on, passed

    def _while_extrapolator(
        self, operation: Operation, names: Sequence[str]
    ) -> CountedLoopExtrapolator:
        """Return what skips iterations of an ``scf.while``; its condition says how many."""
        after = operation.blocks[1]
        none: Array = np.zeros(0, np.int64)
        looked_at = meetings_in_condition(operation) + alternatives_in_condition(operation)
        self.last.update(dict.fromkeys(looked_at, none))

        def next_comparisons(values: Sequence[Value], _: Array, active: Array) -> Comparisons:
            def iterate() -> None:
                passed = self._while_goes_on(operation, names, values)[1]
                self.env.update(zip(after.arguments, passed, strict=False))
                self._block(after)

            self.active = active
            return self._uncounted(iterate)

        def goes_on(values: Sequence[Value]) -> Array:
            flags: list[Array] = []
            decide = lambda: flags.append(self._while_goes_on(operation, names, values)[0])  # noqa: E731
            self.is_ahead = True
            self._uncounted(decide)
            self.is_ahead = False
            return flags[0]

        return CountedLoopExtrapolator(
            self.counters,
            np.full(len(self.active), MOST_TRIPS),
            [name in self.relevant for name in names],
            next_comparisons,
            goes_on,
        )

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

    # -------------------------------------------------------------------------------- accesses

    def _access(self, operation: Operation) -> Callable[[], None]:
        """Return a step that follows an access through pointers."""
        pointer, mask_name = operation.operands[0], mask_operand(operation)
        is_relevant = not self.relevant.isdisjoint(operation.results)
        readable = operation.name not in ATOMICS  # others add as well
        wanted_whole = not self.whole.isdisjoint(operation.results)

        def access() -> None:
            address = self._value(pointer, wanted_whole)
            if address is not None and self.guessed.get(pointer) == _OF_NO_TENSOR:
                within = self.storages.wrapped(self.place_of(operation), address)
                address = within if readable else None  # how many atomics meet is not known
            unmasked = mask_name is None or mask_name in self.guessed
            mask = None if unmasked else self._value(mask_name or "", wanted_whole)
            if not self.corners:  # corners know less, which decides nothing
                if mask is None and mask_name is not None:
                    self._guess("a mask that depends on data lets everything through", operation)
                if address is None:
                    self._guess(_UNKNOWN_ADDRESS, operation)
            self.sink.pointers(operation, address, mask, self.active)
            if is_relevant:
                loaded = None
                if readable and address is not None:
                    loaded = self._loaded(operation, address, mask)
                elif address is not None:
                    loaded = self._in_turn(operation, address)
                self.env[operation.results[0]] = loaded
                if operation.name == "ttg.async_copy_global_to_local":
                    self._keep(operation.operands[1], operation.results[0])

        return access

    def _loaded(self, operation: Operation, address: Array, mask: Array | None) -> Value:
        """Return integers from memory if the contents are known, else guesses in order."""
        element = operation.all_types[0]
        if not re.match(r"!tt\.ptr<[ui]\d+", element.element):
            return None
        places = address >> ADDRESS_BITS
        contents: Value = None
        is_counter = element.shape == () and not self.counters_at.isdisjoint(places.flat)
        if is_counter:  # what was there at first decides nothing: other programs change it
            return None
        for place in np.unique(places).tolist():
            part = self._contents(operation, address, int(place))
            if part is None:  # a masked element may lie before the first byte
                continue
            contents = part if contents is None else np.where(places == place, part, contents)
        if mask is None or contents is None:
            return contents
        other = self._other(operation)
        if operation.results[0] not in self.whole:
            other = cornered(other) if self.corners else other
        return np.where(*aligned_ranks([mask, contents, other]))

    def _contents(self, operation: Operation, address: Array, place: int) -> Value:
        """Return what a storage holds at some addresses."""
        storage = self.storages.at_place(place)
        loaded = self.storages.integers_at(place, address, operation.all_types[0].pointee_bits)
        if storage is None or loaded is None:
            return None
        integers, is_known = loaded
        if is_known:
            self.drawn.setdefault(operation.results[0], set()).add(place)
        else:
            self._guess(IN_ORDER, operation)
            elements = storage.storage_bytes // storage.element_bytes
            self.guessed[operation.results[0]] = elements
        return integers

    def _in_turn(self, operation: Operation, address: Array) -> Value:
        """Return what an atomic gives that programs add to counters with: their turn at theirs."""
        kind, parts = operation.all_types[0], operation.text.partition(",")
        amount = self.env.get(operation.operands[1])
        places = address >> ADDRESS_BITS
        is_scalar = kind.shape == () and (places == places.flat[0]).all()
        if parts[0].strip() != "add" or not is_scalar or amount is None:
            return None
        start = self._contents(operation, address, int(address.flat[0] >> ADDRESS_BITS))
        if start is None or operation.results[0] in self.guessed:
            self.guessed.pop(operation.results[0], None)
            start = scalar_value(0)
        self._guess("programs are assumed to get a counter's numbers in turn", operation)
        return start + self.turns.take(address.reshape(-1), self.active) * amount

    def _other(self, operation: Operation) -> Array:
        """Return what a load gives where its mask is off; zero by default."""
        name = other_of(operation)
        value = self.env.get(name) if name else None
        return scalar_value(0) if value is None else value

    def _box(self, operation: Operation) -> None:
        target = self.env.get(operation.operands[0])
        coordinates = re.search(r"\[([^\]]*)\]", operation.text)
        names = re.findall(r"%[\w$.\-]+(?:#\d+)?", coordinates.group(1)) if coordinates else []
        corner: list[Value] = [self.env.get(name) for name in names]
        active = self.active
        if operation.name == "ttng.async_tma_copy_global_to_local":
            predicate = self.env.get(operation.operands[-1])
            if predicate is not None:
                active = active & predicate.astype(bool)
        if not isinstance(target, Descriptor) or any(c is None for c in corner):
            self._guess("a TMA access whose place is not known counts in full", operation)
            self.sink.pointers(operation, None, None, active)
        else:
            self.sink.box(operation, target, corner, active)

    def _tensormap(self, operation: Operation) -> None:
        """``%map, %base, [box], [sizes], [strides], [steps]``, innermost dimension first."""
        lists: list[list[Value]] = [
            [self.env.get(name) for name in re.findall(r"%[\w$.\-#]+", part)]
            for part in re.findall(r"\[([^\]]*)\]", operation.text)
        ]
        base = self.env.get(operation.operands[1])
        if base is None or len(lists) < 3 or any(v is None for v in (*lists[1], *lists[2])):
            return
        element = operation.all_types[1].pointee_bits // 8
        strides = (*lists[2][::-1], scalar_value(element))
        self.maps[operation.operands[0]] = Descriptor(base, tuple(lists[1][::-1]), strides, element)

    # ----------------------------------------------------------------------------- shared memory

    def _keep(self, target: str, name: str) -> None:
        """Keep a value in shared memory."""
        view = self.env.get(target)
        if isinstance(view, SharedView):
            value = self.env.get(name)
            value = value if isinstance(value, np.ndarray) else None
            stored = Stored(value, self.guessed.get(name), name in self.whole)
            self.shared.write(view, stored, self.active)

    def _local_store(self, operation: Operation) -> Callable[[], None] | None:
        value, target = operation.operands[:2]
        return partial(self._keep, target, value) if target in self.relevant else None

    def _local_alloc(self, operation: Operation) -> None:
        name = operation.results[0]
        self.env[name] = SharedView(name)
        for value in operation.operands[:1]:
            self._keep(name, value)

    def _local_load(self, operation: Operation) -> None:
        view, name = self.env.get(operation.operands[0]), operation.results[0]
        stored = Stored(None)
        if isinstance(view, SharedView):
            stored = self.shared.read(view, self.active)
        self.guessed.pop(name, None)
        if stored.guessed is not None:
            self.guessed[name] = stored.guessed
        value, is_cornered = stored.value, self.corners and name not in self.whole
        self.env[name] = cornered(value) if stored.is_whole and is_cornered else value

    def _view(self, operation: Operation) -> None:
        """Define a view of a slot of a buffer; other parts and forms are unknown."""
        view = self.env.get(operation.operands[0])
        if isinstance(view, SharedView):
            slots = [self.env.get(name) for name in operation.operands[1:2]]
            is_slot = operation.name == "ttg.memdesc_index" and view.slot is None
            is_slot = is_slot and bool(slots) and isinstance(slots[0], np.ndarray)
            view = SharedView(view.buffer, slots[0] if is_slot else None, is_slot)
        self.env[operation.results[0]] = view

    # -------------------------------------------------------------------------------- arithmetic

    def _assignment(self, operation: Operation) -> Callable[[], None]:
        """Return a step that computes results; only the first may be known, but for reductions."""
        if operation.name in FOLDS:
            return partial(self._fold, operation)
        if operation.name in FROM_FLOATS:
            return self._conversion(operation)
        if operation.name == "tt.split":
            return partial(self._split, operation)
        first, *rest = operation.results
        env, own_compute = self.env, self._given(operation)
        names, compute = (
            ((), own_compute) if own_compute else (operation.operands, self._computing(operation))
        )
        joins, picks = joins_flags(operation), operation.name in PICKS
        whole = first in self.whole
        mixed = not whole and not self.whole.isdisjoint(names)

        def assign() -> None:
            self.operations += 1
            values = (
                [self._value(n, whole) for n in names] if mixed else [env.get(n) for n in names]
            )
            result: Value = None
            for value in values:
                if value is None or isinstance(value, Descriptor | SharedView):
                    result = decided_flag(operation, values)
                    self.is_assuming |= result is not None
                    break
            else:
                result = compute(*values)
            if self.guessed and not self.guessed.keys().isdisjoint(names):
                sure = [v for n, v in zip(names, values, strict=True) if n not in self.guessed]
                if joins and sure:
                    result = sure[0]  # the other flag is assumed to be set
                else:
                    is_free = [self.guessed.get(name) == _OF_NO_TENSOR for name in names]
                    if picks and any(is_free):  # a scattered index is between its limits
                        result = values[is_free.index(True)]
                    self._inherit(operation)
            env[first] = result
            for name in rest:
                env[name] = None

        return assign

    def _conversion(self, operation: Operation) -> Callable[[], None]:
        """Return a step that makes integers of floats; of unknown ones, scattered indices."""
        (source,), (result,) = operation.operands, operation.results
        convert, shape = self._computing(operation), operation.result_type.shape
        corners = self.corners and result not in self.whole
        places = [corner_places(size) if corners else np.arange(size) for size in shape]
        scattered = scattered_indices(self.numbers, shape, places)

        def assign() -> None:
            self.operations += 1
            value = self._value(source, result in self.whole)
            self.guessed.pop(result, None)
            if value is None:
                self._guess(SCATTERED, operation)
                self.guessed[result] = _OF_NO_TENSOR
            self.env[result] = scattered(self.operations) if value is None else convert(value)

        return assign

    def _split(self, operation: Operation) -> None:
        """Take a tensor's last axis, of two, apart."""
        value = self._value(operation.operands[0], not self.whole.isdisjoint(operation.results))
        for name, at in zip(operation.results, (0, -1), strict=True):
            self.env[name] = None if value is None else value[..., at]
        if operation.operands[0] in self.guessed:
            self._inherit(operation)

    def _inherit(self, operation: Operation) -> None:
        """Mark results as guessed, as some operand is."""
        elements = max(self.guessed.get(name, 0) for name in operation.operands)
        for name in operation.results:
            self.guessed[name] = elements

    def _fold(self, operation: Operation) -> None:
        """Compute a reduction or a scan."""
        self.operations += 1
        values = [self.env.get(name) for name in operation.operands]
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        folded = fold_region(operation, arrays, self.env) if len(arrays) == len(values) else None
        for i, name in enumerate(operation.results):
            result = None if folded is None else folded[i]
            if result is not None and self.corners and name not in self.whole:
                result = cornered(result)
            self.env[name] = result
        if self.guessed and not self.guessed.keys().isdisjoint(operation.operands):
            self._inherit(operation)

    def _given(self, operation: Operation) -> Callable[[], Value] | None:
        """Return the first result of an operation without operands."""
        if operation.name == "ttng.reinterpret_tensor_descriptor":
            return lambda: self.maps.get(operation.operands[0])
        value: Value
        corners = self.corners and operation.results[0] not in self.whole
        if operation.name == "arith.constant":
            value = constant(operation)
            value = float_constant(operation) if value is None else value
        elif operation.name == "tt.get_program_id":
            value = self.pids["xyz".index(operation.text.strip()[0])]
        elif operation.name == "tt.get_num_programs":
            value = scalar_value(self.grid["xyz".index(operation.text.strip()[0])])
        elif operation.name == "tt.make_range":
            value = make_range(operation, corners)
        else:
            return None
        return lambda: value

    def _computing(self, operation: Operation) -> Callable[..., Value]:
        """Return a function that computes its first result from known operands."""
        name = operation.name
        if name in SHAPES:
            shaped = SHAPES[name]
            corners = self.corners and operation.results[0] not in self.whole
            return lambda value, *_: shaped(operation, value, corners)
        if name in PICKS:
            picked = integer_operation(operation)
            return lambda a, b: self._noted(
                operation, np.less(*aligned_ranks([a, b])), picked(a, b)
            )
        if name in ARITHMETIC:
            return integer_operation(operation)
        if name == "arith.cmpi":
            compared = integer_comparison(operation)
            if operation in self.last:
                return lambda a, b: self._noted(
                    operation, flags := self._flags(operation, compared(a, b), a, b), flags
                )
            return lambda a, b: self._noted(operation, flags := compared(a, b), flags)
        if name == "tt.addptr":
            size = operation.all_types[0].pointee_bits // 8
            return lambda pointer, offset: np.add(*aligned_ranks([pointer, offset * size]))
        if name == "arith.select":
            return lambda *values: np.where(*aligned_ranks(values))
        if name == "tt.join":
            return lambda *values: np.stack(np.broadcast_arrays(*aligned_ranks(values)), -1)
        if name in PASSED_ON:
            return lambda value, *_: value
        return on_floats(operation) or (lambda *_: None)

    def _flags(self, operation: Operation, flags: Array, a: Array, b: Array) -> Array:
        """Return flags in the condition of a loop, as they are or as they are foreseen.

        What moves by constant steps meets another value where their order changes, and a flag that
        is off is taken to stay so: the loop is asked again where another one goes off.
        """
        is_meeting = predicate_of(operation) in ("eq", "ne")
        state = np.sign(np.subtract(*aligned_ranks([a, b]))) if is_meeting else flags
        if not self.is_ahead:
            self.last[operation] = state
            return flags
        if not is_meeting:
            return flags & self.last[operation]
        is_same: Array = state == self.last[operation]
        return is_same if predicate_of(operation) == "ne" else ~is_same

    def _noted(self, operation: Operation, compared: Array, result: Array) -> Array:
        """Return the result; a loop that asks for comparisons gets this one."""
        if self.compared is not None:
            flat = compared.reshape(len(compared), -1)
            weights = np.arange(1, flat.shape[1] + 1) * ODD
            self.compared.setdefault(operation, []).append(flat @ weights)
        return result
