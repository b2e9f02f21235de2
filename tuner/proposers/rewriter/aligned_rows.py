"""Loops along rows of any length and place take whole vectors, and the odd ends apart.

A row whose length is no multiple of 16 begins at any address, and a mask that ends within a vector
has it taken apart: the compiler reads such rows element by element. With V elements a vector, and a
row that begins at the element `begin` of its tensor, the loop over ``[low, end)`` becomes three::

    first = ceil(begin / V) V       head = min(first - begin, end - low)
    whole = floor((end - low - head) / V) V

    head    low                   to low + head           at most V - 1 elements
    middle  low + head            to low + head + whole   blocks of whole vectors
    tail    low + head + whole    to end                  at most V - 1 elements

The middle's first element is `first`, which is a multiple of V by the way it is computed, and so is
the bound of its mask: the compiler knows that from the arithmetic, and no hint says it. Each of the
three runs the loop's own statements with masks of its own, so nothing outside the row is read or
written, whatever the row's length is and wherever it begins. Vectors have 16 bytes where the tensor
itself begins at a multiple of 16 bytes, for which Triton looks at each launch; elsewhere the
middle is read element by element, as before. CUDA's vectorised softmax in PyTorch takes rows apart
in the same way (aten/src/ATen/native/cuda/PersistentSoftmax.cuh and SoftMax.cu, `ilpReduce`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import Carried, CarriedKind, carried_by
from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    Body,
    KernelText,
    Launch,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    integer_literal,
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
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._row_elements import RowElements, code_of, number_names
from solkit.tuner.proposers.rewriter._values import (
    OtherFormError,
    Scope,
    Sum,
    Term,
    as_blocked_loop,
    reads_other_trips,
)

__all__ = ["AlignedRows"]

_VECTOR = 16
"""Elements at whose multiples vectors begin: 16 bytes of the narrowest type, and what Triton tells
from the arguments of a launch, multiples of 16."""
_MASK_PLACES = {"tl.load": 1, "tl.store": 2, "tl.atomic_add": 2, "tl.atomic_max": 2}
_MASK_PLACES |= {"tl.atomic_min": 2}
_PLAIN = (CarriedKind.SUM, CarriedKind.MAXIMUM, CarriedKind.MINIMUM)
_KINDS = (*_PLAIN, CarriedKind.FOLLOWER, CarriedKind.RESCALED)
_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")


class AlignedRows:
    """Rows that begin at odd places, or are of odd lengths, are read and written in whole vectors.

    Applies to loops over blocks of contiguous elements with a mask for the row's end, whose results
    do not depend on how the row is cut into blocks: sums, extremes and their places, sums relative
    to a running maximum, and what is computed elementwise. The tuned shape must have a stride or a
    length that is no multiple of 16.
    """

    kind = "aligned rows"
    helps = ("instructions", "arithmetic instructions", "narrow accesses", "latency", "issue")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            writer = _Writer(launch, facts)
            body = writer.rewritten()
            if not writer.done:
                continue
            node = with_body(launch.function.node, body)
            why = facts.explain_factors("instructions", "latency")
            yield Variant(
                changed_text(text, functions={launch.function.name: node}),
                f"Rows of {launch.function.name} begin at any element, so each is accessed alone; "
                f"the middle of a row is whole vectors of 16 bytes{why}.",
            )


# ------------------------------------------------------------------------------- reading it


@dataclass(frozen=True)
class _Access:
    """A load or a store along the row.

    Attributes:
        call: the node in the loop's body.
        base: the parameter that points to the tensor.
        row: where the row begins, in elements of the tensor.
    """

    call: cst.Call
    base: str
    row: Sum


@dataclass(frozen=True)
class _RowLoop:
    """A loop along a row that may be cut anywhere.

    Attributes:
        loop: the loop, whose variable is the first column of a trip.
        block: the compile-time constant that is its step.
        bound: the code that the columns are compared with.
        comparisons: of the columns with that, in the loop's body.
        accesses: those of contiguous elements.
        is_blocked: whether it carries blocks.
    """

    loop: Loop
    block: str
    bound: str
    comparisons: tuple[cst.Comparison, ...]
    accesses: tuple[_Access, ...]
    is_blocked: bool

    @property
    def low(self) -> str:
        """Code of the first column."""
        return render_code(self.loop.start)


def _counted_by_columns(loop: Loop, scope: Scope) -> tuple[Loop, str] | None:
    """Return the loop over first columns, and its block; ``None`` for other loops."""
    step = render_code(loop.step)
    if step in scope.function.constants:
        return loop, step
    blocked = as_blocked_loop(loop, scope.function)
    if blocked is None or not blocked.counts:
        return None
    products = {f"{loop.name} * {blocked.block}", f"{blocked.block} * {loop.name}"}
    pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = [
        (node, cst.Name(loop.name))
        for node in nodes_within(loop.node)
        if isinstance(node, cst.BinaryOperation) and code_of(node) in products
    ]
    others = sum(isinstance(n, cst.Name) and n.value == loop.name for n in nodes_within(*loop.body))
    if others != len(pairs):
        return None
    node = replace_each(loop.node, pairs)
    step_node = cst.Name(blocked.block)
    body = tuple(statements_of(node))
    return Loop(node, loop.name, loop.start, blocked.bound, step_node, body), blocked.block


def _without_running(loop: Loop, outside: Scope) -> Loop | None:
    """Return the loop whose pointers are sums with its variable; ``None`` if one is used later."""
    inside = outside.within(loop.node)
    moved = {n for n in assigned_names(*loop.body) if n in inside.values}
    body: list[cst.BaseStatement] = []
    gone: set[str] = set()
    for statement in loop.body:
        binding = single_assignment(statement)
        if binding is not None and binding.target in moved and binding.operator:
            gone.add(binding.target)
        elif names_within(statement) & gone:
            return None
        else:
            body.append(statement)
    if not moved <= gone:
        return None
    lanes = {n for n in names_within(*body) if n in inside.values and n not in inside.scalars}
    values = {name: inside.values[name] for name in {*lanes, *moved}}
    for _ in range(len(inside.values)):
        if not (names := {n for v in values.values() for n in names_within(v)} & _blocks(inside)):
            break
        swaps = {name: inside.values[name] for name in names}
        values = {name: substitute_names(value, swaps) for name, value in values.items()}
    body = [substitute_names(statement, values) for statement in body]
    return replace(loop, node=with_body(loop.node, body), body=tuple(body))


def _blocks(scope: Scope) -> set[str]:
    return {name for name in scope.values if name not in scope.scalars}


def _row_loop(
    launch: Launch, loop: Loop, scope: Scope, later: Body, integers: Container[str]
) -> _RowLoop | None:
    """Return a loop as one along a row; ``None`` if its results may depend on its blocks."""
    counted = _counted_by_columns(loop, scope)
    plain = None if counted is None else _without_running(counted[0], scope)
    if counted is None or plain is None or names_read_first(later) & {loop.name}:
        return None
    simple = all(isinstance(statement, cst.SimpleStatementLine) for statement in plain.body)
    gone = set(assigned_names(*loop.body)) - set(assigned_names(*plain.body))
    updates = carried_by(plain.body, loop.name) if simple else None
    if updates is None or gone & names_read_first(later) or reads_other_trips(launch, plain.node):
        return None
    own = {*assigned_names(*plain.body)} - set(updates)
    if own & names_read_first(later) or any(u.kind not in _KINDS for u in updates.values()):
        return None
    return _RowReader(plain, counted[1], scope, updates, later, integers).read()


class _RowReader:
    """Reads a loop's statements.

    Args:
        loop: over first columns.
        block: its step.
        scope: what names mean ahead of it.
        updates: what it carries.
        later: statements that may run after it.
        integers: parameters that are known to be numbers.
    """

    def __init__(
        self,
        loop: Loop,
        block: str,
        scope: Scope,
        updates: Mapping[str, Carried],
        later: Body,
        integers: Container[str],
    ) -> None:
        self._loop, self._block, self._later = loop, block, later
        self._integers = integers
        self._updates = updates
        self._scope = scope.within(loop.node)
        varying = {loop.name, *assigned_names(*loop.body)}
        self._elements = RowElements(self._scope, loop.name, block, frozenset(varying))
        self._values: dict[str, cst.BaseExpression] = {}
        self._bounds: set[str] = set()
        self._comparisons: list[tuple[cst.Comparison, str]] = []
        self._accesses: list[_Access] = []

    def read(self) -> _RowLoop | None:
        """Return the loop; ``None`` if its results may depend on its blocks."""
        blocked = {name for name in self._updates if self._is_block(name)}
        if not all(self._elements.is_free(self._updates, name) for name in self._updates):
            return None
        if not all(self._is_reduced(name, self._updates[name].kind) for name in blocked):
            return None
        if not all(map(self._read_statement, self._loop.body)) or len(self._bounds) != 1:
            return None
        bound = self._bounds.pop()
        comparisons = tuple(node for node, code in self._comparisons if code == bound)
        accesses = tuple(self._accesses)
        loop, block, is_blocked = self._loop, self._block, bool(blocked)
        return _RowLoop(loop, block, bound, comparisons, accesses, is_blocked)

    def _is_block(self, name: str) -> bool:
        """Tell whether a carried name is a block, with an element for each of a trip's."""
        element = self._updates[name].element
        return element is None or self._elements.is_element(element)

    def _is_reduced(self, name: str, kind: CarriedKind) -> bool:
        """Tell whether only the sum, or the extreme, of a block's elements is read later."""
        call = {CarriedKind.SUM: "tl.sum", CarriedKind.MAXIMUM: "tl.max"}.get(kind, "tl.min")
        uses = [
            node
            for node in nodes_within(*self._later)
            if isinstance(node, cst.Name) and node.value == name
        ]
        reduced = [
            inner.args[0].value
            for statement in self._later
            for inner in calls_within(statement, call)
            if inner.args
        ]
        return kind in _PLAIN and all(any(use is arg for arg in reduced) for use in uses)

    def _expanded(self, node: cst.BaseExpression) -> cst.BaseExpression:
        return substitute_names(node, self._values)

    def _read_statement(self, statement: cst.BaseStatement) -> bool:
        """Note what a statement compares and accesses; false if that depends on the blocks."""
        binding, effect = single_assignment(statement), expression_statement(statement)
        if binding is None and (effect is None or called_name(effect) not in _WRITES):
            return False
        for node in nodes_within(statement):
            if isinstance(node, cst.Comparison):
                self._note_comparison(node)
        if not all(map(self._note_access, calls_within(statement, *_MASK_PLACES))):
            return False
        if binding is not None:
            self._values[binding.target] = parenthesized(self._expanded(binding.value))
        return (binding is None) == bool(calls_within(statement, *_WRITES))

    def _note_comparison(self, node: cst.Comparison) -> None:
        """Note ``columns < size``."""
        target = node.comparisons[0]
        if len(node.comparisons) != 1 or not isinstance(target.operator, cst.LessThan):
            return
        size = self._expanded(target.comparator)
        place = self._elements.place(self._expanded(node.left))
        is_column = place is not None and not place.stride and not place.rest.key
        if is_column and self._elements.is_fixed(size):
            self._comparisons.append((node, code_of(size)))

    def _note_access(self, call: cst.Call) -> bool:
        pointer = self._expanded(call.args[0].value)
        values = [self._expanded(arg.value) for arg in call.args]
        name = called_name(call)
        if self._elements.is_fixed(pointer):
            return name == "tl.load" and all(map(self._elements.is_fixed, values))
        mask = argument_of(call, _MASK_PLACES[name], "mask")
        bounds = set() if mask is None else set(self._bounds_of(self._expanded(mask)))
        if not bounds or not all(map(self._elements.is_element, values)):
            return False
        place = self._elements.place(pointer)
        self._bounds |= bounds
        if place is None or place.stride:
            return name != "tl.store" or place is not None
        row = self._based(place.rest)
        if row is not None:
            self._accesses.append(_Access(call, *row))
        return True

    def _bounds_of(self, mask: cst.BaseExpression) -> Iterator[str]:
        """Yield what a mask says that columns are below."""
        if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
            yield from self._bounds_of(mask.left)
            yield from self._bounds_of(mask.right)
        if not isinstance(mask, cst.Comparison) or len(mask.comparisons) != 1:
            return
        target, place = mask.comparisons[0], self._elements.place(mask.left)
        if place is None or place.stride or place.rest.key:
            return
        if isinstance(target.operator, cst.LessThan) and self._elements.is_fixed(target.comparator):
            yield code_of(target.comparator)

    def _based(self, rest: Sum) -> tuple[str, Sum] | None:
        """Return the tensor and the row's first element of a pointer without its columns."""
        pending, terms = list(rest.terms), list[Term]()
        while pending:
            term = pending.pop()
            value = self._scope.values.get(term.factors[0]) if len(term.factors) == 1 else None
            try:
                inner = () if value is None else self._scope.terms(value).terms
            except OtherFormError:  # such as an index that is loaded
                inner = ()
            pending += [replace(t, sign=t.sign * term.sign) for t in inner]
            terms += [] if inner else [term]
        pointers = [term for term in terms if self._is_pointer(term)]
        if len(pointers) != 1 or any(term.block for term in terms):
            return None
        row = sorted((t for t in terms if t is not pointers[0]), key=lambda t: (-t.sign, t.factors))
        return pointers[0].factors[0], Sum(tuple(row))

    def _is_pointer(self, term: Term) -> bool:
        name = term.factors[0] if len(term.factors) == 1 else ""
        is_number = name in self._scope.function.constants or name in self._integers
        return name in self._scope.function.params and not is_number and term.sign > 0


# ------------------------------------------------------------------------------- writing it


class _Writer:
    """Writes a function whose loops along rows take whole vectors.

    Args:
        launch: of the function.
        facts: decide whether a row may begin at any element.
    """

    def __init__(self, launch: Launch, facts: Facts) -> None:
        self._launch, self._facts = launch, facts
        self._taken = set(launch.function.names)
        own = {word: free_name(word, self._taken) for word in ("at", "column", "place")}
        self._at, self._column, self._place = own.values()
        self._is_wide = "int64" in render_code(launch.function.node)
        self._integers = {n for n in launch.function.params if self._size(n) is not None}
        self._names: dict[str, str] = {}
        self._lines: list[str] = []
        self.done = 0

    def rewritten(self) -> list[cst.BaseStatement]:
        """Return the function's statements; `done` says how many loops are others."""
        function = self._launch.function
        return self._body(function.body, Scope(function, number_names(function)), [])

    def _body(self, body: Body, scope: Scope, later: Body) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        outside = self._names
        self._names = dict(outside)
        for place, statement in enumerate(body):
            result += self._statement(statement, scope, [*body[place + 1 :], *later])
            simple = isinstance(statement, cst.SimpleStatementLine)
            gone = set(assigned_names(statement))
            self._forget(gone)
            scope = scope.after(statement) if simple else scope.without(gone)
        self._names = outside
        return result

    def _forget(self, gone: set[str]) -> None:
        values = self._names.items()
        self._names = {v: n for v, n in values if not names_within(parse_expression(v)) & gone}

    def _statement(
        self, statement: cst.BaseStatement, scope: Scope, later: Body
    ) -> list[cst.BaseStatement]:
        loop = range_loop(statement)
        row = None
        if loop is not None:
            row = _row_loop(self._launch, loop, scope, later, self._integers)
        if row is not None and (written := self._cut(row)):
            self.done += 1
            leading = getattr(statement, "leading_lines", ())
            return [written[0].with_changes(leading_lines=leading), *written[1:]]
        if loop is None or not any(isinstance(s, cst.For) for s in loop.body):
            return [statement]
        self._forget(set(assigned_names(statement)))
        inner = self._body(loop.body, scope.within(statement), [*loop.body, *later])
        return [with_body(loop.node, inner)]

    # ------------------------------------------------------------------------- alignment

    def _size(self, factor: str) -> int | None:
        """Return the value of a factor at the tuned shape; ``None`` if it is not known."""
        argument = self._launch.arguments.get(factor)
        if argument is None:
            return integer_literal(parse_expression(factor))
        return self._facts.size(argument, self._launch)

    def _is_multiple(self, total: Sum) -> bool:
        sizes = [[self._size(factor) for factor in term.factors] for term in total.terms]
        return all(any(n is not None and n % _VECTOR == 0 for n in row) for row in sizes)

    def _at_tuned_shape(self, row: Sum) -> object:
        """Return the same for rows that begin at the same elements at the tuned shape."""
        terms = []
        for term in row.terms:
            sizes = [(factor, self._size(factor)) for factor in term.factors]
            factors = [factor if size is None else str(size) for factor, size in sizes]
            terms.append(replace(term, factors=tuple(factors)))
        return Sum(tuple(terms)).key

    def _rows(self, row: _RowLoop) -> list[Sum]:
        """Return where rows begin: the one of most accesses, then those that are like it."""
        starts = {access.row.key: access.row for access in row.accesses}
        counts = Counter(access.row.key for access in row.accesses)
        order = sorted(starts, key=lambda key: -counts[key] - bool(key) / 2)
        if not order:
            return []
        main, *others = (starts[key] for key in order)
        like = self._at_tuned_shape(main)
        return [main, *(other for other in others if self._at_tuned_shape(other) == like)]

    # ------------------------------------------------------------------------- three loops

    def _cut(self, row: _RowLoop) -> list[cst.BaseStatement]:
        """Return a loop as three, and what is computed ahead of them; none if that gains nothing.

        A row that begins with its tensor, for all programs, needs no head.
        """
        rows = self._rows(row)
        bound = Sum((Term((row.bound,)),))
        if not rows or (self._is_multiple(rows[0]) and self._is_multiple(bound)):
            return []
        self._lines = []
        end = self._end(row)
        length = end if row.low == "0" else f"({end} - ({row.low}))"
        first, head = self._head(row, rows, length)
        rest = f"({length} - {head})" if head else length
        whole = self._named("whole", f"{rest} // {_VECTOR} * {_VECTOR}")
        low = _sum_code(row.low, head)
        loops = [
            self._middle(row, self._bases(row, rows, first), low, whole),
            self._edge(row, _sum_code(low, whole), end, str(_VECTOR)),
        ]
        if head:
            # a row that others do not begin like is all head: in blocks, as it was
            step = row.block if len(rows) > 1 else str(_VECTOR)
            loops.insert(0, self._edge(row, row.low, low, step))
        return [*map(parse_statement, self._lines), *loops]

    def _named(self, word: str, value: str) -> str:
        """Return a name that holds a value from here on, the same for the same value."""
        if value not in self._names:
            self._names[value] = free_name(word, self._taken)
            self._lines.append(f"{self._names[value]} = {value}")
        return self._names[value]

    def _end(self, row: _RowLoop) -> str:
        """Return the end of the columns that the loop reaches."""
        if code_of(row.loop.stop) == row.bound:
            return render_code(parenthesized(parse_expression(row.bound)))
        trips = f"tl.cdiv({render_code(row.loop.stop)} - ({row.low}), {row.block})"
        reached = _sum_code(row.low, f"{trips} * {row.block}")
        return self._named("row_end", f"tl.minimum({row.bound}, {reached})")

    def _head(self, row: _RowLoop, rows: Sequence[Sum], length: str) -> tuple[str, str]:
        """Return the first whole vector's place in the tensor, and the elements ahead of it."""
        start = self._code(rows[0])
        begin = _sum_code(start, row.low)
        if begin == "0":
            return "", ""
        first = self._named("first", f"tl.cdiv({begin}, {_VECTOR}) * {_VECTOR}")
        ahead = f"tl.minimum({first} - ({begin}), {length})"
        for other in rows[1:]:
            apart = f"({self._code(other)} - ({start})) % {_VECTOR} == 0"
            ahead = f"tl.where({apart}, {ahead}, {length})"
        return first, self._named("head", f"tl.cast({ahead}, tl.int32)" if self._is_wide else ahead)

    def _code(self, row: Sum) -> str:
        """Return the first element of a row as code; in wide integers if the function has some."""
        parts = ""
        for term in row.terms:
            factors = list(term.factors) or ["1"]
            if self._is_wide:
                factors[0] = f"tl.cast({factors[0]}, tl.int64)"
            parts += f" {'-' if term.sign < 0 else '+'} {' * '.join(factors)}"
        return parts.removeprefix(" + ").strip() or "0"

    def _bases(self, row: _RowLoop, rows: Sequence[Sum], first: str) -> dict[int, str]:
        """Return pointers to the first whole vectors, by the calls that use them."""
        bases: dict[int, str] = {}
        start, keys = self._code(rows[0]), {other.key for other in rows}
        for access in row.accesses:
            own, place = self._code(access.row), first
            if access.row.key not in keys:
                continue
            if own != start:
                apart = f"({own} - ({start})) // {_VECTOR} * {_VECTOR}"
                place = self._named(f"{first}_of_{access.base}", f"{first} + {apart}")
            base = access.base
            bases[id(access.call)] = (
                self._named(f"{base}_first", f"{base} + {place}") if place else base
            )
        return bases

    def _edge(self, row: _RowLoop, low: str, end: str, step: str) -> cst.BaseStatement:
        """Return the loop over a part of less than a vector, of one trip or none."""
        step = row.block if row.is_blocked else step
        pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        if code_of(parse_expression(end)) != row.bound:
            pairs = [(node, _compared(node.left, end)) for node in row.comparisons]
        node = replace_each(row.loop.node, pairs)
        node = substitute_names(node, {row.block: parse_expression(step)})
        over = f"for {row.loop.name} in range({low}, {end}, {step}):\n    pass\n"
        return with_body(parse_statement(over), statements_of(node))

    def _middle(
        self, row: _RowLoop, bases: Mapping[int, str], low: str, whole: str
    ) -> cst.BaseStatement:
        """Return the loop over blocks of whole vectors."""
        pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = [
            (node, _compared(cst.Name(self._place), whole)) for node in row.comparisons
        ]
        for access in row.accesses:
            if base := bases.get(id(access.call)):
                pointer = parse_expression(f"{base} + {self._place}")
                pairs.append((access.call.args[0].value, pointer))
        node = replace_each(row.loop.node, pairs)
        moved = {row.loop.name: cst.Name(self._column)}
        body = [substitute_names(statement, moved) for statement in statements_of(node)]
        ahead = parse_statements(
            f"{self._column} = {_sum_code(low, self._at)}\n"
            f"{self._place} = {self._at} + tl.arange(0, {row.block})\n"
        )
        over = cst.ensure_type(row.loop.node.iter, cst.Call)
        options = "".join(f", {render_code(a)}" for a in over.args if a.keyword is not None)
        bounds = f"0, {whole}, {row.block}{options}"
        loop = f"for {self._at} in {render_code(over.func)}({bounds}):\n    pass\n"
        kept = _without_unused([*ahead, *body], set(_outside(row)))
        return with_body(parse_statement(loop), kept)


def _sum_code(*parts: str) -> str:
    """Return the code of a sum; an empty part counts as 0."""
    return " + ".join(part for part in parts if part not in ("", "0")) or "0"


def _outside(row: _RowLoop) -> set[str]:
    """Return the names that a loop carries: it may read them ahead of assigning them."""
    return names_read_first(row.loop.body) & set(assigned_names(*row.loop.body))


def _compared(columns: cst.BaseExpression, end: str) -> cst.BaseExpression:
    return parse_expression(f"({render_code(columns)} < {end})")


def _without_unused(body: Body, carried: set[str]) -> list[cst.BaseStatement]:
    """Return a loop's statements without names that nothing reads."""
    statements = list(body)
    while True:
        used = carried | names_within(*map(_read_part, statements))
        kept = [s for s in statements if (a := single_assignment(s)) is None or a.target in used]
        if len(kept) == len(statements):
            return statements
        statements = kept


def _read_part(statement: cst.BaseStatement) -> cst.CSTNode:
    binding = single_assignment(statement)
    return statement if binding is None else binding.value
