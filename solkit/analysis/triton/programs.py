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
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from solkit.adapters.fake_triton import Argument, TensorArgument
from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.triton.arithmetic import (
    ARITHMETIC,
    PASSED_ON,
    SHAPES,
    aligned,
    compare,
    constant,
    cornered,
    integer,
    lead,
    make_range,
    scalar,
)
from solkit.analysis.triton.floats import float_constant, on_floats
from solkit.analysis.triton.guessing import Probe, busier, likely_trips, reachable
from solkit.analysis.triton.loops import PICKS, Compared, Counts, Skipping, is_linear
from solkit.analysis.triton.reductions import FOLDS, fold
from solkit.analysis.triton.relevance import ACCESSES, ATOMICS, TMA_LOADS, TMA_STORES, mask_of

__all__ = [
    "Descriptor",
    "Programs",
    "Watcher",
]

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any
"""An array, a `Descriptor`, or ``None`` if unknown."""

_MOST_ITERATIONS = 512
_ODD = np.int64(-7046029254386353131)  # 2**64 over the golden ratio: sums of it seldom agree
_MOST_OPERATIONS = 60_000  # some seconds' worth

_UNKNOWN_ADDRESS = "an address that is not known counts a sector for each element"
_UNSEEN = {
    "tt.call": "what a function does that is not inlined is not seen",
    **dict.fromkeys(
        ("ttng.async_tma_gather", "ttng.async_tma_scatter"),
        "a TMA gather or scatter is not counted",
    ),
    **dict.fromkeys(
        ("tt.descriptor_gather", "tt.descriptor_scatter"),
        "a TMA gather or scatter is not counted",
    ),
}


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
        """An access through pointers.

        Args:
            operation: makes it.
            addresses: broadcast to [programs, *shape]; ``None`` if unknown.
            mask: likewise; ``None`` if all elements are accessed.
            active: which programs make it.
        """

    def box(
        self, operation: Operation, at: Descriptor, corner: Sequence[Array], active: Array
    ) -> None:
        """A TMA access of the box that starts at `corner`."""

    def step_ends(self) -> None:
        """The end of a block of the code, such as an iteration of a loop."""


class Programs:
    """Some programs of a launch, followed together.

    Args:
        function: the kernel.
        arguments: by parameter.
        grid: programs in x, y and z.
        numbers: of the programs to follow, x fastest; shape [programs].
        watcher: told of each access.
        counts: counts executions of blocks.
        relevant: the values to compute, from `relevant_values`.
        corners: keep only the corners of tensors.
        whole: values that are kept whole even so, from `whole_values`.
    """

    def __init__(
        self,
        function: Function,
        arguments: Mapping[str, Argument],
        grid: tuple[int, int, int],
        numbers: npt.NDArray[np.int64],
        watcher: Watcher,
        counts: Counts,
        relevant: frozenset[str],
        corners: bool = False,
        whole: frozenset[str] = frozenset(),
    ) -> None:
        self.function = function
        self.grid = grid
        x, y, _ = grid
        self.pids = (numbers % x, numbers // x % y, numbers // (x * y))
        self.numbers = numbers
        self.corners = corners
        self.whole = whole if corners else frozenset[str]()
        self.watcher = watcher
        self.counts = counts
        self.active: Array = np.ones(len(numbers), bool)
        self.guesses: dict[str, None] = {}
        self.operations = 0
        self.guessed: dict[str, int] = {}  # with the elements of the tensor that they stand for
        self.served: dict[int, Array] = {}  # by a counter's address
        self.storages: list[TensorArgument] = []
        self.names: dict[int, str] = {}  # of the first parameter in each storage
        self.env: dict[str, Value] = {}
        self.maps: dict[str, Descriptor] = {}
        self.relevant = relevant
        self.plans: dict[Block, list[Callable[[], None]]] = {}
        self.compared: Compared | None = None  # while a loop asks for it
        self._bind(arguments)

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

    # ------------------------------------------------------------------------------ arguments

    def _bind(self, arguments: Mapping[str, Argument]) -> None:
        known: dict[int, int] = {}
        rest: list[Array] = []
        given = _in_order(self.function, arguments)
        for position, (name, _) in enumerate(self.function.arguments):
            parameter = name[1:] if given is None else given[position]
            argument = arguments.get(parameter)
            if isinstance(argument, TensorArgument):
                place = known.setdefault(argument.storage, len(known))
                if place == len(self.storages):
                    self.storages.append(argument)
                    self.names[place + 1] = parameter
                base = scalar(((place + 1) << ADDRESS_BITS) + argument.offset_bytes)
                rest = []
                self.env[name] = base
                if argument.block:
                    self.env[name] = _descriptor(base, argument)
                    rest = [scalar(n) for n in (*argument.shape, *argument.strides)]
            elif isinstance(argument, bool | int):
                self.env[name] = scalar(int(argument))
            elif isinstance(argument, float):
                self.env[name] = np.array([argument], np.float32)
            elif rest:  # a descriptor is followed by its shape and strides
                self.env[name] = rest.pop(0)

    # ----------------------------------------------------------------------------- control flow

    def would_compare(self, block: Block, values: Mapping[str, Value]) -> Compared:
        """The comparisons that a block would make with some values; nothing is counted."""
        kept = self.counts, self.watcher, self.compared, self.active
        found: Compared = {}
        self.counts, self.watcher, self.compared = Counts(self.counts.programs), _Blind(), found
        self.env.update(values)
        self._block(block)
        self.counts, self.watcher, self.compared, self.active = kept
        return found

    def _probe(self, blocks: Sequence[Block], values: Mapping[str, Value]) -> Probe:
        """Where code would make its accesses with some values; nothing is counted."""
        kept = self.counts, self.watcher, self.compared, self.active, self.guesses
        served = {each: times.copy() for each, times in self.served.items()}
        self.counts, self.compared, self.guesses = Counts(self.counts.programs), None, {}
        self.watcher = probe = Probe()
        self.env.update(values)
        for block in blocks:
            self._block(block)
        self.counts, self.watcher, self.compared, self.active, self.guesses = kept
        self.served = served
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
        """Which programs take a branch; all of them do what is presumed if that is unknown."""
        value = self.env.get(operation.operands[0])
        if value is None:
            self._guess("a branch that depends on data is assumed to do the work", operation)
            return np.full_like(self.active, presumed)
        return np.broadcast_to(value.reshape(-1).astype(bool), self.active.shape)

    def _step(self, operation: Operation) -> Callable[[], None] | None:
        """How to follow an operation; ``None`` if no address depends on it."""
        name = operation.name
        if name == "scf.for":
            return partial(self._for, operation, is_linear(operation, self.relevant))
        if name in ACCESSES:
            to_box = name in TMA_LOADS or name in TMA_STORES
            return partial(self._box, operation) if to_box else self._access(operation)
        if name in _UNSEEN:
            return partial(self._guess, _UNSEEN[name], operation)
        regions: Mapping[str, Callable[[Operation], None]] = {
            "scf.if": self._if,
            "scf.while": self._while,
            "ttg.warp_specialize": self._partitions,
            "ttng.tensormap_create": self._tensormap,
        }
        if name in regions:
            return partial(regions[name], operation)
        if self.relevant.isdisjoint(operation.results):
            return None
        return self._assignment(operation)

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
            self.env[result] = _choose(taken, new, old, both=all(map(bool, yielded)))

    def _yields(self, block: Block, targets: Sequence[str]) -> list[Value]:
        """The values that a block yields to others of these names."""
        last = block.operations[-1] if block.operations else None
        if last is None or last.name != "scf.yield":  # none is printed where nothing is yielded
            return []
        return self._passed(last.operands, targets)

    def _passed(self, names: Sequence[str], targets: Sequence[str]) -> list[Value]:
        """Values that get other names; what is guessed stays so."""
        if self.guessed:
            for name, target in zip(names, targets, strict=False):
                if name in self.guessed:
                    self.guessed[target] = self.guessed[name]
        pairs = itertools.zip_longest(names, targets, fillvalue="")
        return [self._value(name, target in self.whole) for name, target in pairs if name]

    def _value(self, name: str, whole: bool) -> Value:
        """A value, whole or for a use that keeps corners."""
        value = self.env.get(name)
        if whole or name not in self.whole or not isinstance(value, np.ndarray):
            return value
        return cornered(value)

    def _partitions(self, operation: Operation) -> None:
        """Warps that do different things; each partition gets the captured values."""
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
        skipping = Skipping(self, operation, linear, trips)
        outer, start = self.active, self.counts.copy()
        compared = self.compared  # of the outer loop, which needs those of all iterations
        rounds, tired = 0, False
        while (running := outer & (done < trips)).any():
            if not tired and (tired := self._tired(rounds, operation)):
                left = np.where(running, trips - done - 1, 0)  # the rest is like this, and the last
                for key, amount in self.counts.since(start).items():  # shows where it ends
                    self.counts.add(key, amount * left / np.maximum(done, 1))
                done = done + left
            self.active = running
            self.env[loop.variable] = low + done * step
            self.env.update(zip(loop.names, values, strict=True))
            before = self.counts.copy() if skipping.possible else {}
            self.compared = {} if skipping.possible or compared is not None else None
            self._block(operation.blocks[0])
            if compared is not None and self.compared is not None:
                for each, results in self.compared.items():
                    compared.setdefault(each, []).extend(results)
            new = self._yields(operation.blocks[0], loop.names)
            new = [_choose(running, n, v) for n, v in zip(new, values, strict=True)]
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
        unknown = low is None or high is None or step is None
        if not unknown and self.guessed.keys().isdisjoint(loop.bounds):
            return low, step, np.maximum(-((low - high) // np.maximum(step, 1)), 0)
        low, step = (scalar(n) if v is None else v for n, v in zip((0, 1), (low, step)))
        body, probes = operation.blocks[0], []
        for index in (low, low + step):
            carried = dict(zip(loop.names, values, strict=True))
            probes.append(self._probe([body], {**carried, loop.variable: index}))
            values = self._yields(body, loop.names)
        trips = likely_trips(probes[0], probes[1], self.active, self.storages)
        parts = max(self.guessed.get(loop.bounds[0], 2) - 1, 1)
        if trips is None:
            self._guess("a loop whose length depends on data is run once", operation)
        elif parts > 1:
            told = f"{parts:,} loops whose lengths depend on data are assumed to share their tensors"
            self._guess(told, operation)
        else:
            told = "a loop whose length depends on data is assumed to run to the end of its tensors"
            self._guess(told, operation)
        return low, step, scalar(math.ceil((trips or 1) / parts))

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
            unknown = self.env.get(last.operands[0]) is None  # it would never end
            left = self._more_rounds(operation, passed) if unknown else 0
            self.env.update(zip(after.arguments, passed, strict=False))
            self._block(after)
            new = self._yields(after, names)
            values = [_choose(running, n, v) for n, v in zip(new, values, strict=True)]
            if unknown:
                for key, amount in self.counts.since(start).items():
                    self.counts.add(key, amount * left)
                break
        self.active = outer
        self._passed(last.operands[1:], operation.results)

    def _more_rounds(self, operation: Operation, passed: list[Value]) -> int:
        """Rounds after the next of a loop that unknown data end."""
        before, after = operation.blocks
        probes = []
        for _ in range(2):
            probes.append(self._probe([after], dict(zip(after.arguments, passed, strict=False))))
            names = re.findall(r"(%[\w$.\-]+) = ", operation.text)
            self._probe([before], dict(zip(names, self._yields(after, names), strict=False)))
            passed = self._passed(before.operations[-1].operands[1:], after.arguments)
        trips = likely_trips(probes[0], probes[1], self.active, self.storages)
        how = "once" if trips is None else "to the end of its tensors"
        self._guess(f"a loop whose length depends on data is assumed to run {how}", operation)
        return (trips or 1) - 1

    def _tired(self, rounds: int, operation: Operation) -> bool:
        """Whether a loop has been followed for long enough; if so, a note says it."""
        if rounds < _MOST_ITERATIONS and self.operations < _MOST_OPERATIONS:
            return False
        self._guess(f"a loop is followed for {rounds} iterations only", operation)
        return True

    # -------------------------------------------------------------------------------- accesses

    def _access(self, operation: Operation) -> Callable[[], None]:
        """How to follow an access through pointers."""
        pointer, mask_name = operation.operands[0], mask_of(operation)
        wanted = not self.relevant.isdisjoint(operation.results)
        readable = operation.name not in ATOMICS  # others add as well
        wanted_whole = not self.whole.isdisjoint(operation.results)

        def access() -> None:
            address = self._value(pointer, wanted_whole)
            mask = None if mask_name is None else self._value(mask_name, wanted_whole)
            if not self.corners:  # corners know less, which decides nothing
                if mask is None and mask_name is not None:
                    self._guess("a mask that depends on data lets everything through", operation)
                if address is None:
                    self._guess(_UNKNOWN_ADDRESS, operation)
            self.watcher.pointers(operation, address, mask, self.active)
            if wanted:
                loaded = None
                if readable and address is not None:
                    loaded = self._loaded(operation, address, mask)
                elif address is not None:
                    loaded = self._in_turn(operation, address)
                self.env[operation.results[0]] = loaded

        return access

    def _loaded(self, operation: Operation, address: Array, mask: Array | None) -> Value:
        """Integers from memory if the contents are known, else guesses in order."""
        element = operation.all_types[0]
        if not re.match(r"!tt\.ptr<[ui]\d+", element.element):
            return None
        places = address >> ADDRESS_BITS
        found: Value = None
        for place in np.unique(places).tolist():
            part = self._contents(operation, address, int(place) - 1)
            if part is None:  # a masked element may lie before the first byte
                continue
            found = part if found is None else np.where(places == place, part, found)
        if mask is None or found is None:
            return found
        other = self._other(operation)
        if operation.results[0] not in self.whole:
            other = cornered(other) if self.corners else other
        return np.where(*aligned([mask, found, other]))

    def _contents(self, operation: Operation, address: Array, place: int) -> Value:
        """What a storage holds at some addresses."""
        if not 0 <= place < len(self.storages):
            return None
        storage = self.storages[place]
        at = (address & ((1 << ADDRESS_BITS) - 1)) - storage.offset_bytes
        at = at // storage.element_bytes
        contents, bits = storage.contents, 8 * storage.element_bytes
        if contents is None or contents.size == 0 or operation.all_types[0].pointee_bits != bits:
            self._guess("indices whose values are not known are taken to be in order", operation)
            elements = storage.storage_bytes // storage.element_bytes
            self.guessed[operation.results[0]] = elements
            return at
        return contents[np.clip(at, 0, contents.size - 1)].astype(np.int64)

    def _in_turn(self, operation: Operation, address: Array) -> Value:
        """What an atomic gives that all programs add to one counter with: their turn."""
        kind, parts = operation.all_types[0], operation.text.partition(",")
        amount = self.env.get(operation.operands[1])
        one = kind.shape == () and (address == address.flat[0]).all()
        if parts[0].strip() != "add" or not one or amount is None:
            return None
        start = self._contents(operation, address, int(address.flat[0] >> ADDRESS_BITS) - 1)
        if start is None or operation.results[0] in self.guessed:
            self.guessed.pop(operation.results[0], None)
            start = scalar(0)
        self._guess("programs are assumed to get a counter's numbers in turn", operation)
        counter = int(address.flat[0])
        times = self.served.get(counter, np.zeros(len(self.active), np.int64))
        self.served[counter] = times + self.active
        return start + (times * math.prod(self.grid) + self.numbers) * amount

    def _other(self, operation: Operation) -> Array:
        """What a load gives where its mask is off; zero by default."""
        names = operation.operands[2:3] if operation.name == "tt.load" else ()
        values = [self.env.get(name) for name in names]
        return values[0] if values and values[0] is not None else scalar(0)

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
            self.watcher.pointers(operation, None, None, active)
        else:
            self.watcher.box(operation, target, corner, active)

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
        strides = (*lists[2][::-1], scalar(element))
        self.maps[operation.operands[0]] = Descriptor(base, tuple(lists[1][::-1]), strides, element)

    # -------------------------------------------------------------------------------- arithmetic

    def _assignment(self, operation: Operation) -> Callable[[], None]:
        """How to compute its results; only the first may be known, except of reductions."""
        if operation.name in FOLDS:
            return partial(self._fold, operation)
        first, *rest = operation.results
        env, given = self.env, self._given(operation)
        names, compute = ((), given) if given else (operation.operands, self._computing(operation))
        compares = operation.name == "arith.cmpi"
        whole = first in self.whole
        mixed = not whole and not self.whole.isdisjoint(names)

        def assign() -> None:
            self.operations += 1
            values = [self._value(n, whole) for n in names] if mixed else [env.get(n) for n in names]
            result: Value = None
            for value in values:
                if value is None or isinstance(value, Descriptor):
                    result = _decided(operation, values)
                    break
            else:
                result = compute(*values)
            if self.guessed and not self.guessed.keys().isdisjoint(names):
                self._inherit(operation)
                result = None if compares else result
            env[first] = result
            for name in rest:
                env[name] = None

        return assign

    def _inherit(self, operation: Operation) -> None:
        """Mark results as guessed, as some operand is."""
        elements = max(self.guessed.get(name, 0) for name in operation.operands)
        for name in operation.results:
            self.guessed[name] = elements

    def _fold(self, operation: Operation) -> None:
        """A reduction or a scan."""
        self.operations += 1
        values = [self.env.get(name) for name in operation.operands]
        known = not any(value is None or isinstance(value, Descriptor) for value in values)
        found = fold(operation, values) if known else None
        for i, name in enumerate(operation.results):
            self.env[name] = None if found is None else found[i]
        if self.guessed and not self.guessed.keys().isdisjoint(operation.operands):
            self._inherit(operation)

    def _given(self, operation: Operation) -> Callable[[], Value] | None:
        """The first result of an operation without operands."""
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
            value = scalar(self.grid["xyz".index(operation.text.strip()[0])])
        elif operation.name == "tt.make_range":
            value = make_range(operation, corners)
        else:
            return None
        return lambda: value

    def _computing(self, operation: Operation) -> Callable[..., Value]:
        """How to compute its first result from known operands."""
        name = operation.name
        if name in SHAPES:
            shaped = SHAPES[name]
            corners = self.corners and operation.results[0] not in self.whole
            return lambda value, *_: shaped(operation, value, corners)
        if name in PICKS:
            picked = integer(operation)
            return lambda a, b: self._noted(operation, np.less(*aligned([a, b])), picked(a, b))
        if name in ARITHMETIC:
            return integer(operation)
        if name == "arith.cmpi":
            compared = compare(operation)
            return lambda a, b: self._noted(operation, found := compared(a, b), found)
        if name == "tt.addptr":
            size = operation.all_types[0].pointee_bits // 8
            return lambda pointer, offset: np.add(*aligned([pointer, offset * size]))
        if name == "arith.select":
            return lambda *values: np.where(*aligned(values))
        if name in PASSED_ON:
            return lambda value, *_: value
        return on_floats(operation) or (lambda *_: None)

    def _noted(self, operation: Operation, compared: Array, result: Array) -> Array:
        """The result; a loop that asks for comparisons gets this one."""
        if self.compared is not None:
            flat = compared.reshape(len(compared), -1)
            weights = np.arange(1, flat.shape[1] + 1) * _ODD
            self.compared.setdefault(operation, []).append(flat @ weights)
        return result

    def _guess(self, what: str, operation: Operation) -> None:
        place = f"{operation.places[0]}: " if operation.places else ""
        self.guesses.setdefault(f"{place}{what}.")


class _Blind:
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


def _in_order(function: Function, arguments: Mapping[str, Argument]) -> list[str] | None:
    """The parameter of each of a function's arguments; ``None`` if their numbers differ.

    The IR may name an argument after a variable that it is assigned to.
    """
    found: list[str] = []
    for name, argument in arguments.items():
        extra = 2 * len(argument.shape) if getattr(argument, "block", ()) else 0
        found += [name, *[""] * (extra if isinstance(argument, TensorArgument) else 0)]
    return found if len(found) == len(function.arguments) else None


def _decided(operation: Operation, values: Sequence[Value]) -> Value:
    """A flag or a choice of which a part is unknown: an unknown flag is assumed to be set."""
    if operation.name == "arith.select" and len(values) == 3:
        return values[1] if values[0] is None else None
    flags = operation.name == "arith.andi" and operation.result_type.element == "i1"
    return next((value for value in values if value is not None), None) if flags else None


def _descriptor(base: Array, argument: TensorArgument) -> Descriptor:
    size = argument.element_bytes
    return Descriptor(
        base,
        tuple(map(scalar, argument.shape)),
        tuple(scalar(stride * size) for stride in argument.strides),
        size,
    )


def _choose(where: Array, new: Value, old: Value, both: bool = True) -> Value:
    """Per program: `new` where chosen. A missing side was not run."""
    if not both:
        return old if new is None else new
    if new is None or old is None or isinstance(new, Descriptor) or new is old or where.all():
        return new
    new, old = aligned([new, old])
    return np.where(lead(where, new), new, old)
