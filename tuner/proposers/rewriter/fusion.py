"""Launches of one launcher become one: the value between them stays in registers.

The writer stores an element at an offset that follows from its indices; the reader loads at an
offset of its own. `_program_indices` solves one for the other; the writer's statements are repeated
within the reader for the indices that this gives, whatever the grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in, needed_for
from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    in_place_of,
)
from solkit.tuner.proposers.rewriter._kept_types import UnknownTypeError, kept_type, memory_type
from solkit.tuner.proposers.rewriter._launch_order import (
    allocation_of,
    is_harmless,
    statements_between,
)
from solkit.tuner.proposers.rewriter._masks import masked_loads
from solkit.tuner.proposers.rewriter._memory import WRITES, may_write, pointers_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Step, Variant, changed_repeatedly
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Node,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    free_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._offset_products import OtherOffsetError
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    conjuncts,
    converted_value,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    is_changed_between,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._program_indices import (
    WRITERS,
    ProgramIndices,
    bounded_indices,
    is_bound,
    solved_indices,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, with_arguments
from solkit.tuner.proposers.rewriter._roots import element_uses, roots_of
from solkit.tuner.proposers.rewriter._values import argument_aliases, whole_values, without_repeats

_MOST_COPIES = 3  # of the writer's statements in one reader
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin", "tl.dot", "tl.cumsum")


class FuseLaunches:
    """An elementwise producer is computed within its consumer, and chains of them in one launch.

    Applies where the producer has no loops or branches and stores once, the tensor between them is
    local to the launcher, and where the consumer loads decides which index the producer had:
    both walk over the same sizes, or the tensor is contiguous. The consumer may write in place. A
    tensor that had values before must be written as a whole.
    """

    kind = "fuse launches"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source, names = changed_repeatedly(text, _fuse_first_pair)
        plain = parse_kernel(source) or text
        apart = _with_single_stores(plain)
        further, more = ("", []) if apart is None else changed_repeatedly(apart, _fuse_first_pair)
        fused = parse_kernel(further) if further else None
        if fused is not None and len(fused.launches) < len(plain.launches):
            source, names = further, names + more
        if source:
            why = facts.explain_factors("extra traffic", "launch")
            yield Variant(
                source,
                f"{names[0]} writes what {names[1]} reads; together they need no memory between "
                f"them{why}.",
            )


def _with_single_stores(text: KernelText) -> KernelText | None:
    """Return the file with a launch for each store of those with several, if they can be apart.

    A reader that takes all of them may then compute each where it loads it; see `_fuse_pair`. The
    stores are to tensors of their own that the launch does not load.
    """
    for launch in text.single:
        function = launch.function
        stores = [s for s in function.body if calls_within(s, *WRITES)]
        tensors = [_roots_of(launch, calls_within(s, *WRITES)) for s in stores]
        loaded = _roots(launch, "tl.load")
        if len(stores) < 2 or not all(
            isinstance(s, cst.SimpleStatementLine) for s in function.body
        ):
            continue
        if any(len(own) != 1 or own & {"", *loaded} for own in tensors):
            continue
        if len(set[str]().union(*tensors)) < len(stores) or not _moves_nothing(launch):
            continue
        parts = [_with_one_store(text, launch, function.body.index(s)) for s in stores]
        return parse_kernel(
            changed_text(
                text,
                functions={function.name: parts[0][0]},
                added={function.name: [node for node, _ in parts[1:]]},
                launches=[(launch.statement, [line for _, line in parts])],
            )
        )
    return None


def _moves_nothing(launch: Launch) -> bool:
    """Tell whether all calls of a function but its stores only compute and load."""
    calls = calls_within(launch.function.node)
    return all(called_name(c) == "tl.store" for c in calls if may_write(c))


def _with_one_store(
    text: KernelText, launch: Launch, place: int
) -> tuple[cst.FunctionDef, cst.BaseStatement]:
    """Return a function with the store at a place of a launch's, what it needs, and its launch."""
    function = launch.function
    store = function.body[place]
    body = [*needed_for(names_within(store), function.body[:place]), store]
    used, name = names_within(*body), text.fresh(f"{function.name}_{place}")
    arguments = {n: v for n, v in arguments_of(launch).items() if n in used}
    node = with_arguments(function, name, body, arguments, set(function.constants))
    return node, NewLaunch(launch, node).statement


def _fuse_first_pair(text: KernelText) -> Step | None:
    """Return the file with the first two launches fused that can be, and their names."""
    for writer in text.single:
        for reader in text.single:
            pair = _fusable_pair(text, writer, reader)
            if pair is not None and (source := _fuse_pair(text, pair)):
                return source, (writer.function.name, reader.function.name)
    return None


# ------------------------------------------------------------------------------- pairs


@dataclass(frozen=True)
class _Pair:
    """Two launches, with a tensor that one writes and the next that has it reads.

    Attributes:
        writer, reader: the launches.
        written, read: the parameters that get the tensor.
        allocation: the launcher's statement that allocates it.
        is_last: whether nothing later has the tensor.
        is_returned: whether something else than a launch has it later, such as the ``return``.
        had_values: whether the tensor has values, such as zeros, before the writer's.
    """

    writer: Launch
    reader: Launch
    written: str
    read: str
    allocation: cst.BaseStatement
    is_last: bool
    is_returned: bool
    had_values: bool


def _fusable_pair(text: KernelText, writer: Launch, reader: Launch) -> _Pair | None:
    if writer is reader or writer.launcher is not reader.launcher:
        return None
    if text.launches.index(writer) > text.launches.index(reader):
        return None
    if writer.axes is None or reader.axes is None or not _is_straight(writer.function):
        return None
    for written, argument in writer.arguments.items():
        reads = [n for n, o in reader.arguments.items() if render_code(o) == render_code(argument)]
        if len(reads) != 1 or not isinstance(argument, cst.Name):
            continue
        pair = _pair_of_tensor(text, (writer, reader), (written, reads[0]), argument.value)
        if pair is not None and _is_free_between(text, pair):
            return pair
    return None


def _pair_of_tensor(
    text: KernelText, launches: tuple[Launch, Launch], params: tuple[str, str], name: str
) -> _Pair | None:
    """Return two launches as a pair if a local tensor goes from one right to the other."""
    writer, reader = launches
    statement = allocation_of(name, writer.launcher)
    if statement is None:
        return None
    users = [
        launch
        for launch in text.launches
        for value in launch.arguments.values()
        if launch.launcher is writer.launcher and render_code(value) == name
    ]
    others = len(element_uses(writer.launcher, name)) - len(users) - 1
    if others != _count_uses_behind(reader, name) or users.count(writer) > 1:
        return None
    at = users.index(writer)
    if users[at + 1 : at + 2] != [reader]:
        return None
    is_zeros = any("zeros" in called_name(call) for call in calls_within(statement))
    had_values = at > 0 or is_zeros
    is_last = users[-1] is reader and not others
    return _Pair(writer, reader, *params, statement, is_last, others > 0, had_values)


def _count_uses_behind(launch: Launch, name: str) -> int:
    """Count the uses of a launcher's name behind a launch, in statements that launch nothing."""
    body = statements_of(launch.launcher)
    behind = body[body.index(launch.statement) + 1 :] if launch.statement in body else []
    return sum(
        len(element_uses(statement, name))
        for statement in behind
        if not any(isinstance(call.func, cst.Subscript) for call in calls_within(statement))
    )


def _is_free_between(text: KernelText, pair: _Pair) -> bool:
    """Tell whether nothing between the launches changes what the writer reads."""
    between = statements_between(pair.writer, pair.reader)
    if between is None or is_changed_between(between, pair.writer):
        return False
    own = _roots(pair.writer, "tl.load")
    launches = {id(launch.statement): launch for launch in text.launches}
    for statement in between:
        launch = launches.get(id(statement))
        if launch is not None and own & _roots(launch, *WRITES):
            return False
        if launch is None and not all(map(is_harmless, calls_within(statement))):
            return False
    return not own & _roots(pair.reader, *WRITES)


def _roots(launch: Launch, *calls: str) -> frozenset[str]:
    """Return the tensors of a launcher that a launch reads from, or writes to."""
    return _roots_of(launch, calls_within(launch.function.node, *calls))


def _roots_of(launch: Launch, calls: Sequence[cst.Call]) -> frozenset[str]:
    """Return the tensors of a launcher that calls of a launch touch."""
    touched = pointers_of(launch.function).touched(calls)
    tensors = (v for name, v in launch.arguments.items() if touched & {name, ""})
    return roots_of(tensors, launch.launcher)


def _is_straight(function: JitFunction) -> bool:
    stores = calls_within(function.node, *WRITES)
    plain = all(isinstance(statement, cst.SimpleStatementLine) for statement in function.body)
    return plain and len(stores) == 1 and called_name(stores[0]) == "tl.store"


# ------------------------------------------------------------------------------- writing it


def _numbered(function: JitFunction, taken: set[str]) -> list[cst.BaseStatement]:
    """Return straight statements in which each name has one value, under names that are free."""
    current: dict[str, cst.BaseExpression] = {}
    statements: list[cst.BaseStatement] = []
    for statement in unpacked_statements(function.body):
        binding = single_assignment(statement)
        if binding is None:
            statements.append(substitute_names(statement, current))
            continue
        value = render_code(substitute_names(binding.value, current))
        name = free_name(binding.target, taken)
        current[binding.target] = cst.Name(name)
        statements.append(parse_statement(f"{name} = {value}"))
    return statements


def _program_values(statements: Body) -> dict[str, cst.BaseExpression]:
    """Return what straight names stand for if they follow from the program's index alone."""
    values: dict[str, cst.BaseExpression] = {}
    assigned = set(assigned_names(*statements))
    for binding in assignments_in(statements):
        if calls_within(binding.value, "tl.load"):
            continue
        whole = substitute_names(binding.value, values)
        is_index = calls_within(whole, "tl.program_id", "tl.arange")
        if is_index and not names_within(whole) & assigned:
            values[binding.target] = whole
    return values


@dataclass(frozen=True)
class _Producer:
    """The writer's statements, over its indices.

    Attributes:
        indices: of it.
        statements: without those that compute the indices, and without the store.
        offset, value: where it stores, and what.
        is_typed: whether the value gets the tensor's type, by name, as it is stored.
        is_whole: whether it stores for all of its indices.
    """

    indices: ProgramIndices
    statements: tuple[cst.BaseStatement, ...]
    offset: cst.BaseExpression
    value: cst.BaseExpression
    is_typed: bool
    is_whole: bool

    def keeps_within(self, value: cst.BaseExpression) -> bool:
        """Tell whether a value's loads are masked by all of the indices that they vary with."""
        values = whole_values(self.statements)
        for call in calls_within(value, "tl.load"):
            places = names_within(substitute_names(call.args[0].value, values))
            mask = substitute_names(argument_of(call, 1, "mask") or cst.Name("None"), values)
            if places & set(self.indices.places) - bounded_indices(mask, self.indices):
                return False
        return True


def _producer(pair: _Pair) -> _Producer | None:
    writer = pair.writer
    taken = set(writer.function.params)
    body = _numbered(writer.function, taken)
    values = _program_values(body)
    scalars = {n: v for n, v in values.items() if not calls_within(v, "tl.arange")}
    indices = ProgramIndices(writer, {}, {})
    store = next(c for s in body for c in calls_within(s, "tl.store"))
    target, value = argument_of(store, 0, "pointer"), argument_of(store, 1, "value")
    if target is None or value is None:
        return None
    plain = [_without_own_type(statement, pair.written) for statement in body]
    try:
        offset = _without_base(indices.marked(substitute_names(target, values)), pair.written)
        statements = []
        for binding in assignments_in(plain):
            if binding.target in scalars:
                continue
            whole = values.get(binding.target, substitute_names(binding.value, scalars))
            marked = render_code(indices.marked(whole))
            statements.append(parse_statement(f"{binding.target} = {marked}"))
        plain_value = _without_own_type(value, pair.written)
        marked_value = indices.marked(substitute_names(plain_value, scalars))
        mask = argument_of(store, 2, "mask")
        mask = None if mask is None else indices.marked(substitute_names(mask, values))
    except OtherOffsetError:
        return None
    statements = needed_for(names_within(marked_value), statements)
    if pair.written in names_within(*statements, marked_value):
        return None
    is_typed = pair.written in names_within(value)
    is_whole = mask is None or is_bound(mask, indices)
    return _Producer(indices, tuple(statements), offset, marked_value, is_typed, is_whole)


def _without_own_type(node: Node, pointer: str) -> Node:
    """Return a node with ``x`` for ``x.to(pointer.dtype.element_ty)``."""
    kind = f"{pointer}.dtype.element_ty"
    pairs = [
        (call, _without_own_type(inner, pointer))
        for call in calls_within(node)
        if (inner := converted_value(call)) is not None
        and list(map(render_code, call_args(call))) == [kind]
    ]
    return replace_each(node, pairs) if pairs else node


def _without_base(pointer: cst.BaseExpression, base: str) -> cst.BaseExpression:
    """Return a pointer's offset from the parameter that it starts from.

    Raises:
        OtherOffsetError: the pointer is not a sum with it.
    """
    if isinstance(pointer, cst.Name) and pointer.value == base:
        return cst.Integer("0")
    for one, other in both_orders(pointer, cst.Add):
        if base in names_within(one) and base not in names_within(other):
            inner = _without_base(one, base)
            if isinstance(inner, cst.Integer):
                return other
            text = f"{render_code(parenthesized(inner))} + {render_code(parenthesized(other))}"
            return parse_expression(text)
    raise OtherOffsetError(render_code(pointer))


class _Fusion:
    """Writes a reader in which the writer's statements are repeated.

    Args:
        pair: the launches.
        producer: the writer's statements.
    """

    def __init__(self, pair: _Pair, producer: _Producer) -> None:
        self._pair, self._producer = pair, producer
        reader = pair.reader
        self.is_straight = all(
            isinstance(statement, cst.SimpleStatementLine) for statement in reader.function.body
        )
        self._taken = set(reader.function.params)
        self.body = (
            _numbered(reader.function, self._taken)
            if self.is_straight
            else list(reader.function.body)
        )
        self._taken |= reader.function.names
        self._assigned = assigned_names(*self.body)
        self._values = whole_values(self.body)
        self._indices = ProgramIndices(reader, {}, {})
        self.arguments, self._params = self._shared_parameters()
        self._copies: dict[str, str] = {}
        self._count = 0
        self._made: list[cst.BaseStatement] = []

    def _shared_parameters(self) -> tuple[dict[str, str], dict[str, cst.BaseExpression]]:
        """Return the fused launch's arguments, and the new names of the writer's parameters."""
        reader, writer = self._pair.reader, self._pair.writer
        arguments = arguments_of(reader)
        by_code = {value: name for name, value in arguments.items() if name != self._pair.read}
        renamed: dict[str, cst.BaseExpression] = {}
        for name, value in arguments_of(writer).items():
            if name == self._pair.written:
                continue
            is_constant = name in writer.function.constants
            shared = by_code.get(value)
            if (
                shared is not None
                and (shared in reader.function.constants) == is_constant
                and not reader.function.reassigned(shared)
            ):
                renamed[name] = cst.Name(shared)
                continue
            new = free_name(name, self._taken)
            renamed[name] = cst.Name(new)
            arguments[new] = value
        return arguments, renamed

    def constants_of_writer(self) -> set[str]:
        """Return the new names of the writer's compile-time constants."""
        constants = self._pair.writer.function.constants
        return {render_code(new) for name, new in self._params.items() if name in constants}

    def fused_body(self) -> list[cst.BaseStatement] | None:
        """Return the reader's statements; ``None`` if a load is at a place that is not known."""
        loads = [
            call
            for statement in self.body
            for call in calls_within(statement, "tl.load")
            if self._pair.read in names_within(self._whole(call.args[0].value))
        ]
        if not loads or not self._stores_where_it_loads(loads):
            return None
        try:
            body = self._block(self.body, {id(call) for call in loads})
        except (OtherOffsetError, UnknownTypeError):
            return None
        return body if self._count <= _MOST_COPIES else None

    def _whole(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a pointer, or an offset, without the names that hold parts of it."""
        return substitute_names(node, self._values)

    def _stores_where_it_loads(self, loads: Sequence[cst.Call]) -> bool:
        """Tell whether a reader that writes the tensor does so only at the places it reads."""
        places = {plain_code(self._whole(call.args[0].value)) for call in loads}
        for statement in self.body:
            for call in calls_within(statement, *WRITES):
                whole = self._whole(call.args[0].value)
                if self._pair.read in names_within(whole) and (
                    plain_code(whole) not in places or len(places) > 1
                ):
                    return False
        return True

    def writes_tensor(self) -> bool:
        """Tell whether the reader writes the tensor."""
        return any(
            self._pair.read in names_within(self._whole(call.args[0].value))
            for statement in self.body
            for call in calls_within(statement, *WRITES)
        )

    def covers_tensor(self) -> bool:
        """Tell whether the reader's programs have as many places as the writer's."""
        one, two = self._producer.indices.sizes, self._indices.sizes
        return sorted(one.values()) == sorted(two.values())

    def _block(self, body: Body, loads: set[int]) -> list[cst.BaseStatement]:
        statements: list[cst.BaseStatement] = []
        for statement in body:
            if statements_of(statement):
                if any(id(c) in loads for c in calls_within(_head(statement), "tl.load")):
                    raise OtherOffsetError(render_code(statement))
                has_else = isinstance(statement, cst.If) and statement.orelse is not None
                if has_else and any(id(c) in loads for c in calls_within(statement)):
                    raise OtherOffsetError(render_code(statement))
                inner = self._block(statements_of(statement), loads)
                statements.append(with_body(statement, inner))
                continue
            pairs: list[Swap] = []
            for call in calls_within(statement, "tl.load"):
                if id(call) in loads:
                    self._made = []
                    value = self._value_at(call)
                    statements += self._made
                    pairs.append((call, in_place_of(call, value)))
            statements.append(replace_each(statement, pairs) if pairs else statement)
        return statements

    def _value_at(self, call: cst.Call) -> str:
        """Return the name of the writer's value at the place of a load."""
        pointer = self._whole(call.args[0].value)
        offset = _without_base(pointer, self._pair.read)
        marked = self._indices.marked(offset)
        code = render_code(_plain_offset(call.args[0].value, self._pair.read, self._values))
        producer = self._producer
        solved = solved_indices(producer.indices, producer.offset, marked, code, self._indices)
        fits = solved is not None and self._covers(solved) and self._reads_within(call)
        if solved is None or not fits or not self._may_differ_in_grid(solved):
            raise OtherOffsetError(render_code(pointer))
        key = repr(sorted(solved.items()))
        if key not in self._copies or not self.is_straight:
            mask = argument_of(call, 1, "mask")
            self._copies[key] = self._repeat(solved, [] if mask is None else conjuncts(mask))
            self._count += 1
        return self._copies[key]

    def _covers(self, solved: Mapping[str, str]) -> bool:
        """Tell whether the writer writes all that is read, if something was there before."""
        is_matched = set(solved.values()) <= set(self._indices.places.values())
        return not self._pair.had_values or (is_matched and self._producer.is_whole)

    def _reads_within(self, call: cst.Call) -> bool:
        """Tell whether a load keeps to the indices that there are, if others have values, too."""
        blocks = {name for name, code in self._indices.places.items() if "tl.arange" in code}
        mask = self._whole(argument_of(call, 1, "mask") or cst.Name("None"))
        within = bounded_indices(self._indices.marked(mask), self._indices)
        return not self._pair.had_values or blocks <= within

    def _may_differ_in_grid(self, solved: Mapping[str, str]) -> bool:
        """Tell whether the writer may be computed at other indices than its programs have.

        A reduction over a block needs the same blocks.
        """
        statements = self._producer.statements
        reduces = any(calls_within(s, *_REDUCTIONS) for s in statements)
        blocks = any(calls_within(s, "tl.arange") for s in statements)
        if not reduces and not blocks:
            return True
        one, two = self._pair.writer, self._pair.reader
        grids = [[plain_code(axis) for axis in launch.axes or ()] for launch in (one, two)]
        return grids[0] == grids[1] and set(solved.values()) <= set(self._indices.places.values())

    def _repeat(self, solved: Mapping[str, str], within: Sequence[cst.BaseExpression]) -> str:
        """Add the writer's statements for these indices; return the name of the value.

        The writer's programs end with its grid, and its masks need not say so. Its loads are
        repeated where the reader loads, so they keep to ``within``, the reader's conditions.
        """
        names = dict(self._params)
        own = {plain_code(value): name for name, value in self._values.items()}
        marks = {f"{WRITERS}{name}": value for name, value in self._params.items()}
        for index, code in solved.items():
            place = parse_expression(code)
            held = own.get(plain_code(place), "") if self.is_straight else ""
            names[index] = cst.Name(held) if held else substitute_names(place, marks)
        known_values = dict(self._values)
        for statement in self._producer.statements:
            binding = single_assignment(statement)
            assert binding is not None
            new, own_value = (
                free_name(binding.target, self._taken),
                substitute_names(binding.value, names),
            )
            names[binding.target] = cst.Name(new)
            if not self._producer.keeps_within(binding.value):
                self._require_known(within)
                own_value = masked_loads(own_value, within, known_values)
            if not calls_within(own_value, "tl.load"):
                known_values[new] = substitute_names(own_value, known_values)
            self._made.append(parse_statement(f"{new} = {render_code(own_value)}"))
        between = free_name("between", self._taken)
        value = render_code(substitute_names(self._producer.value, names))
        others = {n: v for n, v in self.arguments.items() if n != self._pair.read}
        kept = kept_type(self._pair.allocation, self._pair.writer.launcher, others)
        if not kept and self._producer.is_typed and self.writes_tensor():
            kept = f"{self._pair.read}.dtype.element_ty"
        value = f"({value}).to({kept})" if kept else value
        self._made.append(parse_statement(f"{between} = {value}"))
        return between

    def _require_known(self, conditions: Sequence[cst.BaseExpression]) -> None:
        """Raise `OtherOffsetError` if it is not known along which ranges a condition varies."""
        loops = [node for node in nodes_within(*self.body) if isinstance(node, cst.For)]
        counts = {loop.target.value for loop in loops if isinstance(loop.target, cst.Name)}
        for condition in conditions:
            if names_within(self._whole(condition)) & set(self._assigned) - counts:
                raise OtherOffsetError(render_code(condition))


def _head(statement: cst.BaseStatement) -> cst.CSTNode:
    """Return what a loop or a branch computes before its body."""
    if isinstance(statement, cst.For):
        return statement.iter
    return statement.test if isinstance(statement, (cst.If, cst.While)) else statement


def _plain_offset(pointer: cst.BaseExpression, base: str, values: Values) -> cst.BaseExpression:
    """Return a pointer's offset with as many of the function's names as can stay."""
    try:
        return _without_base(pointer, base)
    except OtherOffsetError:
        return _without_base(substitute_names(pointer, values), base)


def _fuse_pair(text: KernelText, pair: _Pair) -> str:
    producer = _producer(pair)
    if producer is None:
        return ""
    fusion = _Fusion(pair, producer)
    body = fusion.fused_body()
    is_written = fusion.writes_tensor()
    if body is None or not (is_written or pair.is_last):
        return ""
    if pair.is_returned and not fusion.covers_tensor():
        return ""
    arguments = dict(fusion.arguments)
    reader, writer = pair.reader, pair.writer
    if not is_written:
        arguments.pop(pair.read)
        body = _without_type_of(body, pair, arguments)
        if pair.read in names_within(*body):
            return ""
    body = without_repeats(body, argument_aliases(reader), list(arguments))
    if fusion.is_straight:
        body = _without_doubles(body)
    used = names_within(*body)
    kept = {n: v for n, v in arguments.items() if n in used or n in reader.arguments}
    constants = {*reader.function.constants, *fusion.constants_of_writer()}
    name = text.fresh(f"{writer.function.name}_{reader.function.name}")
    node = with_arguments(reader.function, name, body, kept, constants)
    statement = NewLaunch(reader, node, arguments=kept).statement.with_changes(
        leading_lines=writer.statement.leading_lines
    )
    launches: list[tuple[cst.CSTNode, Body]] = [
        (writer.statement, []),
        (reader.statement, [statement]),
    ]
    is_asked = count_uses(reader.launcher, render_code(writer.arguments[pair.written])) > 3
    if not is_written and not is_asked:  # for sizes
        launches.append((pair.allocation, []))
    functions = {writer.function.name: None, reader.function.name: node}
    return changed_text(text, functions=functions, launches=launches)


def _without_type_of(body: Body, pair: _Pair, others: Mapping[str, str]) -> list[cst.BaseStatement]:
    """Return statements that name the type of what is between in another way, where one is known.

    What an earlier fusion left between may have its type.
    """
    own = f"{pair.read}.dtype.element_ty"
    parts = nodes_within(*body)
    uses = [n for n in parts if isinstance(n, cst.Attribute) and render_code(n) == own]
    if not uses:
        return list(body)
    try:
        kind = parse_expression(memory_type(pair.allocation, pair.writer.launcher, others) or own)
    except UnknownTypeError:
        return list(body)
    return [replace_each(s, [(use, kind) for use in uses]) for s in body]


def _without_doubles(body: Body) -> list[cst.BaseStatement]:
    """Return straight code, each name assigned once, without names for the same value."""
    names_of: dict[str, str] = {}
    same: dict[str, cst.BaseExpression] = {}
    statements: list[cst.BaseStatement] = []
    for statement in body:
        changed_to = substitute_names(statement, same)
        binding = single_assignment(changed_to)
        if binding is None or calls_within(changed_to, "tl.load"):
            statements.append(changed_to)
            continue
        text = compact_code(binding.value)
        if text in names_of or text in names_of.values():
            same[binding.target] = cst.Name(names_of.get(text, text))
            continue
        names_of[text] = binding.target
        statements.append(changed_to)
    return statements
