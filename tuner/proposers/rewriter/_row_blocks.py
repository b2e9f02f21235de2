"""Blocks that hold a row, or a part of one, as a head, whole vectors and a tail.

A program that takes a row in one block has no loop to be cut. Here each statement on the block's
elements is written for the three parts (see `aligned_rows`), head and tail in blocks of a vector::

    x = load(columns)          x_head = load(...)   x = load(...)   x_tail = load(...)
    peak = max(x)              peak = max(max(x_head), max(x), max(x_tail))
    store(columns, x - peak)   store(..., x_head - peak)   store(..., x - peak)   ...

The middle fits the block, since it is no longer than the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import without_unused
from solkit.tuner.proposers.rewriter._distinct_names import with_distinct_names
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compound_statement,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, Sum
from solkit.tuner.proposers.rewriter._row_elements import (
    JOINED,
    RowElements,
    code_of,
    number_names,
    with_block_size,
)
from solkit.tuner.proposers.rewriter._row_loops import RowLoop, RowReader, without_running
from solkit.tuner.proposers.rewriter._row_writer import (
    VECTOR,
    RowParts,
    RowWriter,
    compared,
    sum_code,
)

Pairs = list[Swap]
_RANGE = "tl.arange"


class BlockWriter(RowWriter):
    """Writes a function whose programs take a row, or a part of one, in one block."""

    def rewritten(self) -> list[cst.BaseStatement]:
        """Return the function's statements; none if no block gains."""
        function = self._launch.function
        scope = Scope(function, number_names(function))
        if body := self._level(function.body, scope, ()):
            return body
        result: list[cst.BaseStatement] = []
        for place, statement in enumerate(function.body):
            loop = range_loop(statement)
            plain = None if loop is None else without_running(loop, scope)
            inner: list[cst.BaseStatement] = []
            if loop is not None and plain is not None and len(plain.body) == len(loop.body):
                later = [statement, *function.body[place + 1 :]]
                inner = self._level(plain.body, scope.within(statement), later)
            result.append(with_body(statement, inner) if inner else statement)
            simple = isinstance(statement, cst.SimpleStatementLine)
            scope = scope.after(statement) if simple else scope.without(assigned_names(statement))
        is_same = all(new is old for new, old in zip(result, function.body, strict=True))
        return [] if is_same else result

    def _end(self, row: RowLoop) -> str:
        return self._named("row_end", f"tl.minimum({row.bound}, {sum_code(row.low, row.block)})")

    def _level(self, body: Body, scope: Scope, later: Body) -> list[cst.BaseStatement]:
        """Return the statements of a block with its row cut; none if it has no such row.

        Args:
            body: the statements.
            scope: what names mean ahead of them.
            later: what may run behind them: no block of theirs may be read there.
        """
        body = with_distinct_names(body, set())
        block = _block_of(body, scope)
        counts = Counter(assigned_names(*body)).values()
        if not block or max(counts, default=0) > 1:
            return []
        named, numbers = _with_named_reductions(body, self._taken)
        scope = replace(scope, scalars=scope.scalars | numbers)
        for statement in named:
            if isinstance(statement, cst.SimpleStatementLine):
                scope = scope.after(statement)
        low = _first_column(named, scope, block)
        if low is None:
            return []
        start = free_name("first_column", self._taken)
        moved = f"{start} + " if low == "0" else f"{start} - ({low}) + "
        level = [_with_ranges(statement, f"({moved}{_RANGE}(0, {block}))") for statement in named]
        reader = BlockReader(level, block, scope, (start, low), self._integers)
        row = reader.read()
        parts = None if row is None else self._parts(row)
        if row is None or parts is None or reader.lanes & names_read_first(later):
            return []
        pairs = self._in_vectors(row, parts)
        copies = _Copies(row, parts, reader.elements, pairs, self._taken)
        return self._joined(named, level, copies)

    def _joined(self, named: Body, level: Body, copies: _Copies) -> list[cst.BaseStatement]:
        """Return a level's statements: what all elements share, where it is cut, and the parts."""
        first = next(place for place, s in enumerate(level) if copies.needs_parts(s))
        ahead = {place for place in range(first) if copies.is_shared(level[place])}
        shared = [level[place] for place in sorted(ahead)]
        lines = [parse_statement(line) for line in self._lines]
        own = set(assigned_names(*level))
        if names_within(*lines) & own - set(assigned_names(*shared)):
            return []
        carried = names_read_first(named) & own
        vector = parse_statement(f"{self._place} = {_RANGE}(0, {copies.row.block})")
        rest = [place for place in range(len(level)) if place not in ahead]
        cut = [copy for place in rest for copy in copies.of(level[place])]
        return [*shared, *lines, *without_unused([vector, *cut], carried)]


class BlockReader(RowReader):
    """Reads the statements of a block.

    Args:
        level: the statements.
        block: its size, a constant.
        scope: what names mean behind them; those of blocks are left out.
        columns: a name for the first column of a block, and its code.
        integers: parameters that are known to be numbers.
    """

    def __init__(
        self,
        level: Body,
        block: str,
        scope: Scope,
        columns: tuple[str, str],
        integers: Container[str],
    ) -> None:
        start, low = columns
        over = f"range({low}, {sum_code(low, block)}, {block})"
        loop = range_loop(compound_statement(f"for {start} in {over}", level))
        assert loop is not None
        super().__init__(loop, block, scope, {}, (), integers)
        self._lanes = set(assigned_names(*level)) - scope.scalars
        kept = scope.without(self._lanes)
        self._scope = replace(kept, scalars=kept.scalars | {start})
        varying = frozenset({start, *self._lanes})
        self._elements = RowElements(self._scope, start, block, varying)

    @property
    def lanes(self) -> set[str]:
        """Names of blocks."""
        return self._lanes

    @property
    def elements(self) -> RowElements:
        """Expressions of the block."""
        return self._elements

    def read_statement(self, statement: cst.BaseStatement) -> bool:
        """Note what a statement compares and accesses; false if that depends on the blocks."""
        if self._elements.is_fixed(statement):
            return True
        binding = single_assignment(statement)
        if not super().read_statement(statement):
            return False
        if binding is None or binding.target in self._lanes:
            return True
        value = self._values.pop(binding.target)
        self._reductions.append(value)
        return self._elements.is_reduction(value)


class _Copies:
    """Writes a statement for the parts of a row.

    Args:
        row: the block.
        parts: where it is cut.
        elements: its expressions.
        pairs: masks and pointers of whole vectors, by the nodes that they replace.
        taken: names of the function.
    """

    def __init__(
        self, row: RowLoop, parts: RowParts, elements: RowElements, pairs: Pairs, taken: set[str]
    ) -> None:
        self.row, self.parts = row, parts
        self._elements, self._vectors = elements, pairs
        self._lanes = sorted(elements.varying - {elements.start})
        self._renamed = {
            word: {n: parse_expression(free_name(f"{n}_{word}", taken)) for n in self._lanes}
            for word in ("head", "tail")
        }

    def is_shared(self, statement: cst.BaseStatement) -> bool:
        """Tell whether a statement is the same for all elements."""
        return self._elements.is_fixed(statement)

    def needs_parts(self, statement: cst.BaseStatement) -> bool:
        """Tell whether a statement compares or accesses columns."""
        nodes = {id(node) for node in nodes_within(statement)}
        own = [*self.row.comparisons, *(access.call for access in self.row.accesses)]
        return any(id(node) in nodes for node in own)

    def of(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        """Return a statement of all elements, once for each part."""
        if self.is_shared(statement):
            return [statement]
        copies = [self._middle(statement), self._edge(statement, "tail")]
        if self.parts.has_head:
            copies.insert(0, self._edge(statement, "head"))
        binding = single_assignment(statement)
        if binding is None or binding.target in self._lanes:
            return copies
        values = [copy.value for s in copies if (copy := single_assignment(s)) is not None]
        joined, *others = map(render_code, values)
        for value in others:
            joined = JOINED[called_name(values[0])].format(joined, value)
        return [parse_statement(f"{binding.target} = {joined}")]

    def _middle(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        inside = {id(node) for node in nodes_within(statement)}
        pairs = [pair for pair in self._vectors if id(pair[0]) in inside]
        return self._moved(replace_each(statement, pairs), self.parts.low)

    def _edge(self, statement: cst.BaseStatement, word: str) -> cst.BaseStatement:
        low, end = self.row.low, self.parts.low
        if word != "head":
            low, end = self.parts.past, self.parts.end
        inside = {id(node) for node in nodes_within(statement)}
        pairs: list[Swap] = [
            (node, compared(node.left, end)) for node in self.row.comparisons if id(node) in inside
        ]
        renamed = substitute_names(replace_each(statement, pairs), self._renamed[word])
        return self._moved(with_block_size(renamed, self.row.block, str(VECTOR)), low)

    def _moved(self, statement: cst.BaseStatement, first: str) -> cst.BaseStatement:
        """Return a statement on the columns from another first one on."""
        start, low = self._elements.start, self.row.low
        apart = f"{start} - ({low})" if low != "0" else start
        offset = "0" if first == low else first.removeprefix(f"{low} + ")
        code = render_code(statement).replace(f"{apart} + {_RANGE}", f"{offset} + {_RANGE}")
        return parse_statement(code.replace(f"(0 + {_RANGE}(", f"({_RANGE}("))


def _block_of(body: Body, scope: Scope) -> str:
    """Return the only constant that is the length of blocks here; empty if there are others."""
    ranges = [call for statement in body for call in calls_within(statement, _RANGE)]
    simple = [s for s in body if isinstance(s, cst.SimpleStatementLine)]
    own = [call for statement in simple for call in calls_within(statement, _RANGE)]
    ends = {code_of(end) for call in own if (end := argument_of(call, 1, "end")) is not None}
    is_plain = len(ranges) == len(own) and len(ends) == 1
    return ends.pop() if is_plain and ends <= scope.function.constants else ""


def _with_named_reductions(
    body: Body, taken: set[str]
) -> tuple[list[cst.BaseStatement], frozenset[str]]:
    """Return statements in which each reduction is the whole value of a name, and the new names.

    So is what a store reads: all parts are read before one is written.
    """
    result: list[cst.BaseStatement] = []
    names: set[str] = set()
    for statement in body:
        while isinstance(statement, cst.SimpleStatementLine):
            binding = single_assignment(statement)
            whole = None if binding is None else binding.value
            hoisted = JOINED if whole is not None else (*JOINED, "tl.load")
            calls = [call for call in calls_within(statement, *hoisted) if call is not whole]
            if not calls:
                break
            is_reduction = called_name(calls[-1]) in JOINED
            name = free_name("reduced" if is_reduction else "read", taken)
            names |= {name} if is_reduction else set()
            result.append(parse_statement(f"{name} = {render_code(calls[-1])}"))
            statement = replace_each(statement, [(calls[-1], cst.Name(name))])
        result.append(statement)
    return result, frozenset(names)


def _first_column(level: Body, scope: Scope, block: str) -> str | None:
    """Return the code of a block's first column, as its masks have it; ``None`` if they differ."""
    lows: set[str] = set()
    for node in nodes_within(*level):
        if not isinstance(node, cst.Comparison):
            continue
        try:
            terms = scope.terms(node.left).terms
            rest = Sum(tuple(term for term in terms if not term.block))
            blocks = [term for term in terms if term.block]
            if len(blocks) == 1 and blocks[0].block == block and not blocks[0].factors:
                lows.add(rest.code)
        except OtherFormError:
            continue
    return lows.pop() if len(lows) == 1 else None


def _with_ranges(statement: cst.BaseStatement, code: str) -> cst.BaseStatement:
    """Return a statement with this code for each range of a block's lanes."""
    calls = calls_within(statement, _RANGE)
    return replace_each(statement, [(call, parse_expression(code)) for call in calls])
