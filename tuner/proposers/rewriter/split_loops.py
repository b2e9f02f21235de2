"""Long loops by few programs become parts by several, whose results the next launch joins.

A function is cut at its loops. Each loop that carries something gets a kernel in which a program
takes some of the trips and writes what it carries into a buffer; later kernels begin with the
joined values. A loop that only writes is shared by programs and carries nothing.

A loop that writes what it carries, as running sums, is two: one that only carries, and the whole
loop, which begins with what the parts before it carried. Blocks that are only reduced behind their
loop are reduced before they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    following_names,
    last_values,
    without_unused,
)
from solkit.tuner.proposers.rewriter._carried import (
    NEGATIVE_INFINITY,
    Carried,
    CarriedKind,
    carried_by,
)
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    changed_text,
    device_tensor,
    grid_axis,
    grid_of,
    guarded_launch,
    renamed_function,
    with_params,
)
from solkit.tuner.proposers.rewriter._first_values import Start, start_of_name, with_finite_starts
from solkit.tuner.proposers.rewriter._memory import WRITES, is_write, may_meet, touches_memory
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Node,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    compound_statement,
    count_uses,
    expression_statement,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._offset_bounds import (
    OffsetError,
    conditions_of_trips_apart,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, in_launcher, parse_kernel
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._values import (
    argument_bases,
    reads_other_trips,
    writes_in_order,
)
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

_PARTS = (2, 4, 8, 16, 32, 64)
_SCALAR_PARTS = (*_PARTS, 128, 256, 512)
"""Parts whose results are joined as one vector; others are joined one by one."""
_MANY_TRIPS = 16
"""Trips of a loop over compile-time constants, such as a length that is one."""
_FAR_LONGER = 32
"""Times that a loop is as long as another whose parts are not worth a launch of their own."""
_BLOCKS_PER_SM = 4
"""Programs for each multiprocessor that hide each other's latency; more parts cost traffic."""
_MOST_AXES = 3
_MOST_ROLLED = 1  # axes of a result whose parts are joined in an unrolled loop
_FLOATS = (CarriedKind.RESCALED, CarriedKind.FOLD)
_PLAIN_AXES = ("0", "1")
_PROGRAM, _PROGRAMS = "tl.program_id", "tl.num_programs"


class Split:
    """Loops over a reduction are shared by several programs, whose parts a later kernel joins.

    Applies to functions whose long loops carry sums, extremes, what comes with an extreme, or sums
    relative to a running maximum, as in attention; loops may be in them, and some may write. Parts
    are in buffers of the launcher; no atomics, so results do not depend on the order.
    """

    kind = "split reduction"
    helps = ("few blocks", "tail", "part-filled wave", "one trip at a time", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            split = _split_launch(text, launch, facts, reduces=True)
            if split is not None:
                yield Variant(split[0], _intent(launch, "reduces along", split[1], facts))


class SharedLoops:
    """Loops that hand nothing on are shared by several programs, along a new axis of the grid.

    Applies to functions of which few programs run, and whose loops store in each trip at places of
    its own.
    """

    kind = "shared loops"
    helps = ("few blocks", "tail", "part-filled wave", "one trip at a time", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source, intents = "", list[str]()
        for name in [launch.function.name for launch in text.single]:
            for launch in text.launches_of(name):
                split = _split_launch(text, launch, facts, reduces=False)
                following = None if split is None else parse_kernel(split[0])
                if split is not None and following is not None:
                    intents.append(_intent(launch, "writes in", split[1], facts))
                    source, text = split[0], following
        if source:
            yield Variant(source, " ".join(intents))


def _intent(launch: Launch, does: str, parts: int, facts: Facts) -> str:
    programs = facts.programs(launch)
    few = "" if programs is None else f" by {programs} programs"
    why = facts.explain_factors("tail", "latency")
    return (
        f"{launch.function.name} {does} a loop{few} for {facts.sms} multiprocessors; {parts} parts "
        f"fill more of them{why}."
    )


def _split_launch(
    text: KernelText, launch: Launch, facts: Facts, *, reduces: bool
) -> tuple[str, int] | None:
    """Return the file with a launch split, and in how many parts; ``None`` if that cannot be.

    Blocks that are carried have one size in all of its launches: a parameter, if it may change.

    Args:
        text: the file.
        launch: to be split.
        facts: say how many programs it has.
        reduces: whether its loops leave something that a later launch joins.
    """
    programs, enough = facts.programs(launch), _BLOCKS_PER_SM * facts.sms
    if programs is not None and programs >= enough:
        return None
    parts = 16 if programs is None else max(2, _power_of_two_below(enough // programs))
    cut = _cut(launch, facts)
    if not cut.phases or any(phase.results for phase in cut.phases) is not reduces:
        return None
    if any(result.start.shape for phase in cut.phases for result in phase.results):
        text = parse_kernel(lifted_constants(text, sizes=facts)) or text
        launch = text.launches_of(launch.function.name)[0]
        cut = _cut(launch, facts)
    parts = min(parts, cut.possible_parts[-1])
    try:
        conditions = _conditions(launch, cut)
    except OffsetError:
        return None
    source = _SplitWriter(text, launch, cut, parts, conditions).source()
    return (source, parts) if source else None


def _conditions(launch: Launch, cut: _Cut) -> list[str]:
    """Return conditions of the launcher under which no two trips of a loop store to one place.

    Raises:
        OffsetError: stores of a loop are of another form.
    """
    conditions = list[str]()
    for phase in cut.phases:
        steps = {u.name: u.step for u in phase.running if u.step is not None}
        conditions += conditions_of_trips_apart(launch, phase.loop, steps)
    return list(dict.fromkeys(conditions))


def _power_of_two_below(size: int) -> int:
    return 1 << max(size, 1).bit_length() - 1


# ------------------------------------------------------------------------------- reading it


@dataclass(frozen=True)
class _Result:
    """Result of a loop.

    Attributes:
        update: of each trip.
        start: its first value.
    """

    update: Carried
    start: Start

    @property
    def name(self) -> str:
        """Name that holds it."""
        return self.update.name


@dataclass(frozen=True)
class _Phase:
    """A loop that programs share.

    Attributes:
        place: of the loop among the function's statements.
        loop: the loop.
        results: what it leaves; none if it only writes.
        running: names that grow by the same each trip.
        closing: statements behind the loop that reduce what it carries to its results.
        is_scan: whether it begins with what earlier parts of the phase before carried.
    """

    place: int
    loop: Loop
    results: tuple[_Result, ...]
    running: tuple[Carried, ...]
    closing: tuple[cst.BaseStatement, ...] = ()
    is_scan: bool = False


@dataclass(frozen=True)
class _Cut:
    """A function in the form in which it is cut.

    Attributes:
        body: its statements.
        phases: loops among them that programs may share; none if it is of another form.
    """

    body: tuple[cst.BaseStatement, ...] = ()
    phases: tuple[_Phase, ...] = ()

    @property
    def possible_parts(self) -> tuple[int, ...]:
        """Numbers of programs that may share a loop."""
        joined_as_vectors = all(
            not result.start.shape and result.update.kind is not CarriedKind.FOLD
            for phase in self.phases
            for result in phase.results
        )
        return _SCALAR_PARTS if joined_as_vectors else _PARTS


def _cut(launch: Launch, facts: Facts) -> _Cut:
    """Return a function with its scans as two loops, and its blocks reduced in their phases."""
    if launch.axes is None or len(launch.axes) > _MOST_AXES:
        return _Cut()
    body, result, phases = list(launch.function.body), list[cst.BaseStatement](), list[_Phase]()
    longest = max((_trips(launch, loop, facts) or 0 for loop in launch.function.loops), default=0)
    for place, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine):
            if _writes(statement) and expression_statement(statement) is None:
                return _Cut()
            result.append(body[place])
            continue
        loop, own = _long_loop(launch, statement, facts, longest), list[_Phase]()
        if loop is not None:
            own = _phases_of_loop(launch, loop, body[:place], body[place + 1 :])
        elif not _writes(statement) and "return" not in render_code(statement):
            result.append(statement)
            continue
        if not own:
            return _Cut()
        for phase in own:
            phase, body[place + 1 :] = _reduced(launch, phase, body[place + 1 :])
            phases.append(replace(phase, place=len(result)))
            result.append(phase.loop.node)
    if _loads_what_parts_write(launch, result, phases):
        return _Cut()
    return _Cut(tuple(result), tuple(phases))


def _loads_what_parts_write(launch: Launch, body: Body, phases: Sequence[_Phase]) -> bool:
    """Tell whether a load outside loops may meet a write that comes later, in a shared kernel.

    All parts and all later kernels load anew: some would load what another wrote.
    """
    loops, loaded = {phase.place for phase in phases}, set[str]()
    last = max(loops, default=-1)
    for place, statement in enumerate(body[: last + 1]):
        calls = list(filter(touches_memory, calls_within(statement)))
        for call in filter(is_write, calls):
            if loaded and may_meet(argument_bases(launch, call), loaded):
                return True
        if place not in loops:
            loaded |= set[str]().union(*(argument_bases(launch, call) for call in calls))
    return False


def _long_loop(
    launch: Launch, statement: cst.BaseStatement, facts: Facts, longest: int
) -> Loop | None:
    """Return a loop over a size; one over compile-time constants alone if it has many trips.

    A loop that writes nothing stays in the later kernel if another one is far longer.
    """
    loop = range_loop(statement)
    if loop is None:
        return None
    trips = _trips(launch, loop, facts)
    is_nest = any(isinstance(node, (cst.For, cst.While)) for node in nodes_within(*loop.body))
    is_short = trips is not None and trips * _FAR_LONGER <= longest
    if is_short and not is_nest and not _writes(statement):
        return None
    constants = {*launch.function.constants, "tl"}
    if not names_within(loop.start, loop.stop) <= constants:
        return loop
    step = in_launcher(loop.step, launch)
    size = None if step is None else facts.size(step, launch)
    if trips is None or size is None:
        return None
    return loop if trips >= _MANY_TRIPS * size else None


def _trips(launch: Launch, loop: Loop, facts: Facts) -> int | None:
    """Return how many elements a loop takes, whatever its step; ``None`` if that is not known."""
    bounds = [in_launcher(node, launch) for node in (loop.start, loop.stop, loop.step)]
    start, stop, step = (None if b is None else facts.size(b, launch) for b in bounds)
    if start is None or stop is None or step is None or step < 1:
        return None
    return stop - start


def _writes(statement: cst.BaseStatement) -> bool:
    return bool(calls_within(statement, *WRITES))


def _phases_of_loop(launch: Launch, loop: Loop, before: Body, after: Body) -> list[_Phase]:
    """Return a loop as phases: one, or two if it writes what it carries; none of other forms."""
    phase = _phase_of_loop(launch, loop, before, after)
    if phase is not None:
        return [phase]
    sums = _without_writes(loop)
    carrying = sums and _phase_of_loop(launch, sums, before, after)
    if not carrying or not carrying.results or not all(map(_is_scanned, carrying.results)):
        return []
    updates = {r.name: r.update for r in carrying.results}
    updates |= {update.name: update for update in carrying.running}
    if (set(assigned_names(*loop.body)) - updates.keys()) & names_read_first(after):
        return []  # what the last trip leaves
    is_apart = writes_apart(loop, updates) and writes_in_order(loop)
    is_apart &= not reads_other_trips(launch, loop.node) and not _reads_own_writes(launch, loop)
    scan = _Phase(0, loop, (), carrying.running, is_scan=True)
    return [carrying, scan] if is_apart else []


def _is_scanned(result: _Result) -> bool:
    kind = result.update.kind
    return kind is CarriedKind.SUM or kind.is_extremum


def _reads_own_writes(launch: Launch, loop: Loop) -> bool:
    """Tell whether a trip loads from a tensor that it stored to before: it may be what it wrote."""
    stored = set[str]()
    for call in filter(touches_memory, calls_within(loop.node)):
        tensors = argument_bases(launch, call)
        if is_write(call):
            stored |= tensors
        elif stored and may_meet(tensors, stored):
            return True
    return False


def _without_writes(loop: Loop) -> Loop | None:
    """Return a loop that only carries what it does, without what it computes to write."""
    if any(_writes(s) and expression_statement(s) is None for s in loop.body):
        return None
    body = [statement for statement in loop.body if not _writes(statement)]
    kept = without_unused(body, names_read_first(body))
    return range_loop(with_body(loop.node, kept)) if kept else None


def _phase_of_loop(launch: Launch, loop: Loop, before: Body, after: Body) -> _Phase | None:
    updates = carried_by(loop.body, loop.name)
    if updates is None or not writes_apart(loop, updates) or reads_other_trips(launch, loop.node):
        return None
    if _depends_on_program(loop.start, before):
        return None  # it may be a part of a range already
    running = tuple(u for u in updates.values() if u.kind is CarriedKind.RUNNING)
    carried = [u for u in updates.values() if u.kind is not CarriedKind.RUNNING]
    locals_ = {*assigned_names(*loop.body), loop.name} - {u.name for u in carried}
    if locals_ & names_read_first(after):
        return None
    results = []
    for update in carried:
        start = start_of_name(update.name, before)
        if start is None or (start.is_integer and update.kind in _FLOATS):
            return None
        if update.kind in (CarriedKind.SUM, *_FLOATS) and not start.is_zero:
            return None
        leader = start_of_name(update.leader, before) if update.leader else None
        is_last = update.kind is CarriedKind.FOLLOWER and not update.is_first
        if is_last and (leader is None or "inf" not in leader.value):
            return None  # a part that sees nothing may end with the same extremum
        results.append(_Result(update, start))
    names = [update.name for update in running]
    if _writes(loop.node) and (
        not writes_in_order(loop, names) or any(_is_read_around(loop, name) for name in names)
    ):
        return None
    if not results and not _writes(loop.node):
        return None
    results.sort(key=lambda result: bool(result.update.leader))
    return _Phase(0, loop, tuple(results), running)


def _reduced(launch: Launch, phase: _Phase, after: Body) -> tuple[_Phase, list[cst.BaseStatement]]:
    """Return a phase and what follows, with blocks that are reduced there reduced in the phase."""
    behind, names = list(after), launch.function.names
    results, closing = list(phase.results), list[cst.BaseStatement]()
    leaders = {result.update.leader for result in results}
    for at, result in enumerate(results):
        calls = [] if result.name in leaders else _reducing_calls(result, behind)
        if not calls:
            continue
        total = free_name(f"{result.name}_total", {*names})
        axis = int(render_code(argument_of(calls[0], 1, "axis") or cst.Integer("0")))
        shape = result.start.shape[:axis] + result.start.shape[axis + 1 :]
        closing.append(parse_statement(f"{total} = {render_code(calls[0])}"))
        results[at] = _Result(
            Carried(total, result.update.kind), replace(result.start, shape=shape)
        )
        pairs = [(call, cst.Name(total)) for call in calls]
        behind = [replace_each(statement, pairs) for statement in behind]
    return replace(phase, results=tuple(results), closing=tuple(closing)), behind


def _reducing_calls(result: _Result, after: Body) -> list[cst.Call]:
    """Return the equal calls that reduce a block, if nothing else is done with it."""
    reducing = result.update.kind.reduction
    if not result.start.shape or not reducing:
        return []
    calls = [
        call
        for statement in after
        for call in calls_within(statement, reducing)
        if compact_code(call.args[0].value) == result.name
    ]
    axes = [argument_of(call, 1, "axis") for call in calls]
    is_plain = all(
        len(call.args) == 1 + (axis is not None)
        and (len(result.start.shape) == 1 if axis is None else render_code(axis) in _PLAIN_AXES)
        for call, axis in zip(calls, axes, strict=True)
    )
    uses = sum(count_uses(statement, result.name) for statement in after)
    is_only = uses == len(calls) and len({compact_code(call) for call in calls}) == 1
    return calls if is_plain and is_only else []


def _depends_on_program(start: cst.BaseExpression, before: Body) -> bool:
    """Tell whether a loop starts at a place that is computed from the program's index.

    One that was loaded, as of a ragged row, is not meant.
    """
    values = last_values(before)
    pending, seen = [start], set()
    while pending:
        node = pending.pop()
        loads = {
            id(inner) for call in calls_within(node, "tl.load") for inner in nodes_within(call)
        }
        rest = [inner for inner in nodes_within(node) if id(inner) not in loads]
        if any(called_name(inner) == _PROGRAM for inner in rest):
            return True
        for inner in rest:
            name = inner.value if isinstance(inner, cst.Name) else ""
            if name in values and name not in seen:
                seen.add(name)
                pending.append(values[name])
    return False


def _is_read_around(loop: Loop, name: str) -> bool:
    """Tell whether a trip reads a running name both ahead of its update and behind."""
    places = [place for place, s in enumerate(loop.body) if name in assigned_names(s)]
    reads = [place for place, s in enumerate(loop.body) if name in names_within(s)]
    reads = [place for place in reads if place not in places]
    return any(min(reads, default=at) < at < max(reads, default=at) for at in places)


def writes_apart(loop: Loop, updates: dict[str, Carried]) -> bool:
    """Tell whether each trip writes at places of its own, as far as its variable decides."""
    moving = {loop.name, *(u.name for u in updates.values() if u.kind is CarriedKind.RUNNING)}
    for binding in assignments_in(walk_statements(loop.body)):  # in their order: none lags behind
        if names_within(binding.value) & moving:
            moving.add(binding.target)
    loaded = following_names(loop.body, calls=("tl.load",))
    return all(
        called_name(call) == "tl.store"
        and names_within(call.args[0].value) & moving
        and not names_within(call.args[0].value) & loaded  # two trips may write to one place
        and not calls_within(call.args[0].value, "tl.load")
        for call in calls_within(loop.node, *WRITES)
    )


# ------------------------------------------------------------------------------- writing it


class _SplitWriter:
    """Writes a launch as several.

    Args:
        text: the file.
        launch: to be split.
        cut: its loops.
        parts: programs that share a loop, to begin with.
        conditions: of the launcher; where one is false, the launch stays.
    """

    def __init__(
        self,
        text: KernelText,
        launch: Launch,
        cut: _Cut,
        parts: int,
        conditions: Sequence[str] = (),
    ) -> None:
        self._conditions = conditions
        self._text, self._launch, self._cut, self._parts = text, launch, cut, parts
        self._phases = phases = cut.phases
        self._axes = launch.axes or ()
        self._split = text.fresh("SPLIT")
        self._results = [result for phase in phases for result in phase.results]
        names = launch.function.names
        self._of, self._new = (self._free_suffix(word) for word in ("_of", "_new"))
        self._trip = free_name("part", {*names})
        taken = set[str]()
        self._buffers: list[dict[str, str]] = []
        for phase in phases:
            buffers = {}
            for result in phase.results:
                buffers[result.name] = free_name(text.fresh(f"{result.name}_parts"), taken)
            self._buffers.append(buffers)

    def _free_suffix(self, word: str) -> str:
        """Return a suffix that makes no name of the function's out of a result's."""
        while any(f"{r.name}{word}" in self._launch.function.names for r in self._results):
            word += "_"
        return word

    def source(self) -> str:
        """Return the text of the file; empty if a size is unknown to the launcher."""
        launch, text, function = self._launch, self._text, self._launch.function
        sizes = [self._size(result) for result in self._results]
        tensor = device_tensor(launch)
        if any(size is None for size in sizes) or not tensor:
            return ""
        bodies = self._bodies()
        names = self._names(len(bodies))
        extra = [f"{name}_ptr" for buffers in self._buffers for name in buffers.values()]
        nodes = [
            with_params(
                renamed_function(function, name, body), added=extra, constants=[self._split]
            )
            for name, (body, _) in zip(names, bodies, strict=True)
        ]
        allocated = self._allocations([size or "1" for size in sizes], tensor)
        buffers_of = {f"{name}_ptr": name for of in self._buffers for name in of.values()}
        arguments = {**buffers_of, self._split: self._split}
        lines = [
            NewLaunch(launch, node, grid=self._grid(is_shared), arguments=arguments).statement
            for node, (_, is_shared) in zip(nodes, bodies, strict=True)
        ]
        first, *others = [*allocated, *lines]
        first = first.with_changes(leading_lines=launch.statement.leading_lines)
        replaced: list[cst.BaseStatement] = [first, *others]
        if self._conditions:
            *before, last = [*allocated, *lines]
            condition = " and ".join(self._conditions)
            replaced = guarded_launch(condition, last, launch.statement, before)
        return changed_text(
            text,
            functions={} if self._conditions else {function.name: nodes[0]},
            added={function.name: nodes if self._conditions else nodes[1:]},
            launches=[(launch.statement, replaced)],
            parameters=[Parameter(self._split, self._parts, self._cut.possible_parts)],
        )

    def _names(self, count: int) -> list[str]:
        name = self._launch.function.name
        if count == 2:
            return [self._text.fresh(f"{name}_parts"), self._text.fresh(f"{name}_whole")]
        return [self._text.fresh(f"{name}_step{at + 1}") for at in range(count)]

    def _grid(self, is_shared: bool) -> str:
        """Return a launch's grid; with parts, these are an axis behind, or share the last of 3."""
        sizes = [render_code(axis) for axis in self._axes]
        if is_shared and self._is_folded:
            sizes[-1] = f"{render_code(parenthesized(self._axes[-1]))} * {self._split}"
        elif is_shared:
            sizes.append(self._split)
        return grid_of(sizes)

    def _allocations(self, sizes: Sequence[str], tensor: str) -> list[cst.BaseStatement]:
        programs = " * ".join(render_code(parenthesized(axis)) for axis in self._axes)
        names = [name for buffers in self._buffers for name in buffers.values()]
        return [
            parse_statement(
                f"{name} = torch.empty(({self._split}, {programs}, {size}), "
                f"dtype=torch.{'int64' if result.start.is_integer else 'float32'}, "
                f"device={tensor}.device)"
            )
            for name, size, result in zip(names, sizes, self._results, strict=True)
        ]

    def _size(self, result: _Result) -> str | None:
        """Return the number of a result's elements as code of the launcher."""
        sizes = [in_launcher(parse_expression(n), self._launch) for n in result.start.shape]
        if any(size is None for size in sizes):
            return None
        return " * ".join(render_code(parenthesized(size)) for size in sizes if size) or "1"

    # ------------------------------------------------------------------------- bodies

    def _bodies(self) -> list[tuple[list[cst.BaseStatement], bool]]:
        """Return the kernels' statements, and whether programs share each."""
        body, bodies = self._cut.body, []
        last = len(body) - 1
        for number, phase in enumerate(self._phases):
            rest = body[phase.place + 1 :]
            is_last = phase is self._phases[-1]
            ends = is_last and not phase.results and not any(map(_writes, rest))
            ahead = with_finite_starts(
                self._ahead(number), [result.update for result in phase.results]
            )
            shared = [*ahead, *self._shared_loop(phase), *phase.closing, *self._stores(number)]
            bodies.append((list(map(self._unfolded, shared)), True))
            if is_last and not ends:
                tail = self._ahead(len(self._phases), last + 1)
                bodies.append((tail, False))
        return bodies

    @property
    def _is_folded(self) -> bool:
        """Absence of a free axis for the parts."""
        return len(self._axes) == _MOST_AXES

    def _part(self) -> str:
        if self._is_folded:
            return f"({_PROGRAM}({_MOST_AXES - 1}) % {self._split})"
        return f"{_PROGRAM}({len(self._axes)})"

    def _unfolded(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        if not self._is_folded:
            return statement
        return _unfolded_axis(statement, _MOST_AXES - 1, self._split, kept=self._part())

    def _ahead(self, number: int, place: int | None = None) -> list[cst.BaseStatement]:
        """Return the statements ahead of a loop, with the joined results of earlier ones."""
        body = self._cut.body
        end = self._phases[number].place if place is None else place
        begin = self._phases[number - 1].place if number else 0
        at = {phase.place: index for index, phase in enumerate(self._phases)}
        statements: list[cst.BaseStatement] = []
        for index, statement in enumerate(body[:end]):
            if index in at:
                is_before = place is None and self._phases[number].is_scan
                joined = self._joined_before if is_before and at[index] == number - 1 else None
                statements += (joined or self._joined)(at[index])
            elif not _writes(statement):
                statements.append(statement)
            elif index >= begin:  # each write happens in one of the kernels
                statements.append(statement if place is not None else self._once(statement))
        return statements

    def _once(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        return compound_statement(f"if {self._part()} == 0", [statement])

    def _shared_loop(self, phase: _Phase) -> list[cst.BaseStatement]:
        """Return the loop over a part of its trips: contiguous ones, since followers ask which."""
        loop = phase.loop
        start, stop, step = (
            render_code(parenthesized(node)) for node in (loop.start, loop.stop, loop.step)
        )
        names = self._launch.function.names
        begin, end, trips = (
            free_name(n, {*names}) for n in ("part_begin", "part_end", "part_trips")
        )
        length = stop if start == "0" else f"({stop} - {start})"
        count = length if step == "1" else f"tl.cdiv({length}, {step})"
        by = "" if step == "1" else f" * {step}"
        ahead = [
            f"{trips} = tl.cdiv({count}, {self._split})",
            f"{begin} = {'' if start == '0' else f'{start} + '}{self._part()} * {trips}{by}",
            f"{end} = tl.minimum({begin} + {trips}{by}, {stop})",
        ]
        for update in phase.running:
            assert update.step is not None
            moved = render_code(parenthesized(update.step))
            ahead.append(f"{update.name} += {self._part()} * {trips} * {moved}")
        bounds = f"{begin}, {end}" if step == "1" else f"{begin}, {end}, {step}"
        words = [render_code(a) for a in _range_keywords(loop)]
        over = f"{called_name(loop.node.iter)}({', '.join([bounds, *words])})"
        shared = loop.node.with_changes(iter=parse_expression(over))
        return [*map(parse_statement, ahead), shared]

    def _stores(self, number: int) -> list[cst.BaseStatement]:
        return [
            parse_statement(
                f"tl.store({self._pointer(number, result, self._part())}, {result.name})"
            )
            for result in self._phases[number].results
        ]

    def _pointer(self, number: int, result: _Result, part: str) -> str:
        """Return the pointer to a result's part: (part, program, element)."""
        program, count = f"{_PROGRAM}(0)", f"{_PROGRAMS}(0)"
        for axis in range(1, len(self._axes)):
            program = f"({program} * {_PROGRAMS}({axis}) + {_PROGRAM}({axis}))"
            count = f"({count} * {_PROGRAMS}({axis}))"
        shape = result.start.shape
        size = "".join(f" * ({size})" for size in shape)
        pointer = f"{self._buffers[number][result.name]}_ptr"
        at = f"{part} * {count} + {program}"
        base = f"{pointer} + ({at}){size}" if shape else f"{pointer} + {at}"
        if len(shape) == 1:
            return f"{base} + tl.arange(0, {shape[0]})"
        if len(shape) == 2:
            rows, columns = shape
            row = f"tl.arange(0, {rows})[:, None] * {columns}"
            return f"{base} + {row} + tl.arange(0, {columns})[None, :]"
        return base

    # ------------------------------------------------------------------------- joins

    def _joined(self, number: int) -> list[cst.BaseStatement]:
        """Return statements that join the parts of a loop's results."""
        results = self._phases[number].results
        is_fold = any(result.update.kind is CarriedKind.FOLD for result in results)
        if not is_fold and all(not result.start.shape for result in results):
            return self._joined_scalars(number, results)
        return self._joined_blocks(number, results)

    def _joined_before(self, number: int) -> list[cst.BaseStatement]:
        """Return statements that join the results of the parts ahead of the program's own."""
        statements: list[cst.BaseStatement] = []
        for result in self._phases[number].results:
            if result.start.shape:
                statements += self._joined_blocks_before(number, result)
                continue
            parts = free_name("parts", {*self._launch.function.names})
            start = result.start.value if result.update.kind.is_extremum else "0"
            loaded = f"tl.load({self._pointer(number, result, parts)})"
            ahead = f"tl.where({parts} < {self._part()}, {loaded}, {start})"
            word = result.update.kind.reduction
            statements += parse_statements(
                f"{parts} = tl.arange(0, {self._split})\n{result.name} = {word}({ahead}, axis=0)\n"
            )
        return statements

    def _joined_blocks_before(self, number: int, result: _Result) -> list[cst.BaseStatement]:
        loaded = f"tl.load({self._pointer(number, result, self._trip)})"
        joined = result.update.kind.joined(result.name, loaded)
        return parse_statements(
            f"for {self._trip} in range(0, {self._part()}):\n    {result.name} = {joined}\n"
        )

    def _joined_scalars(self, number: int, results: Sequence[_Result]) -> list[cst.BaseStatement]:
        if not results:
            return []
        names = self._launch.function.names
        parts = free_name("parts", {*names})
        lines = [f"{parts} = tl.arange(0, {self._split})"]
        for result in results:
            update, name = result.update, result.name
            loaded = f"tl.load({self._pointer(number, result, parts)})"
            if update.kind.is_extremum:
                lines += [
                    f"{name}{self._of} = {loaded}",
                    f"{name} = {update.kind.reduction}({name}{self._of}, axis=0)",
                ]
            elif update.kind is CarriedKind.SUM:
                lines.append(f"{name} = tl.sum({loaded}, axis=0)")
            elif update.kind is CarriedKind.RESCALED:
                shift = _guarded(update.leader)
                scale = update.scaled(f"{update.leader}{self._of}", shift)
                lines.append(f"{name} = tl.sum({loaded} * {scale}, axis=0)")
            else:
                leads = f"{update.leader}{self._of} == {update.leader}"
                first = f"tl.min(tl.where({leads}, {parts}, {self._split}), axis=0)"
                last = f"tl.max(tl.where({leads}, {parts}, -1), axis=0)"
                taken = first if update.is_first else last
                lines.append(f"{name} = tl.sum(tl.where({parts} == {taken}, {loaded}, 0), axis=0)")
        return [parse_statement(line) for line in lines]

    def _joined_blocks(self, number: int, results: Sequence[_Result]) -> list[cst.BaseStatement]:
        firsts = [
            parse_statement(f"{r.name} = tl.load({self._pointer(number, r, '0')})") for r in results
        ]
        rolled = max(len(result.start.shape) for result in results) > _MOST_ROLLED
        over = "range" if rolled else "tl.static_range"
        lines = [
            f"{r.name}{self._of} = tl.load({self._pointer(number, r, self._trip)})" for r in results
        ]
        after: list[str] = []
        for result in results:
            update, name = result.update, result.name
            if update.kind.is_extremum:
                joined = update.kind.joined(name, f"{name}{self._of}")
                lines.append(f"{name}{self._new} = {joined}")
                after.append(f"{name} = {name}{self._new}")
            elif update.kind is CarriedKind.SUM:
                lines.append(f"{name} = {update.kind.joined(name, f'{name}{self._of}')}")
            elif update.kind is CarriedKind.FOLD:
                lines.append(f"{name}{self._new} = {update.folded(self._of)}")
                after.append(f"{name} = {name}{self._new}")
            elif update.kind is CarriedKind.RESCALED:
                leader = update.leader
                shift = _guarded(f"{leader}{self._new}")
                own, other = (
                    update.scaled(leader, shift),
                    update.scaled(f"{leader}{self._of}", shift),
                )
                lines.append(f"{name} = {name} * {own} + {name}{self._of} * {other}")
            else:
                leads = next(r.update for r in results if r.name == update.leader)
                sign = ">" if leads.kind is CarriedKind.MAXIMUM else "<"
                sign += "" if update.is_first else "="
                test = f"{leads.name}{self._of} {sign} {leads.name}"
                lines.append(f"{name} = tl.where({test}, {name}{self._of}, {name})")
        inner = "".join(f"    {line}\n" for line in [*lines, *after])
        return [
            *firsts,
            *parse_statements(f"for {self._trip} in {over}(1, {self._split}):\n{inner}"),
        ]


def _unfolded_axis(node: Node, axis: int, split: str, kept: str) -> Node:
    """Return code with the index and the size of an axis as they were without the parts."""
    pairs: list[Swap] = []
    parts = [
        inner.left
        for inner in nodes_within(node)
        if isinstance(inner, cst.BinaryOperation) and render_code(inner) == kept
    ]
    for call in calls_within(node, _PROGRAM, _PROGRAMS):
        if grid_axis(call) == axis and not any(call is part for part in parts):
            pairs.append((call, parse_expression(f"({render_code(call)} // {split})")))
    return replace_each(node, pairs)


def _guarded(name: str) -> str:
    """Return a maximum, as a shift: 0 where nothing was seen, since infinities give no number."""
    return f"tl.where({name} > {NEGATIVE_INFINITY}, {name}, 0.0)"


def _range_keywords(loop: Loop) -> list[cst.Arg]:
    return [arg for arg in loop.over.args if arg.keyword is not None]
