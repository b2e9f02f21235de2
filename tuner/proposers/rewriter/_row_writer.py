"""Writes loops along rows as a head, whole vectors and a tail: see `aligned_rows`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import without_unused
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    compound_statement,
    free_name,
    integer_literal,
    names_read_first,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import Launch
from solkit.tuner.proposers.rewriter._places import Scope, Sum, Term
from solkit.tuner.proposers.rewriter._row_elements import code_of, number_names, with_block_size
from solkit.tuner.proposers.rewriter._row_loops import RowLoop, row_loop

VECTOR = 16
"""Elements at whose multiples vectors begin: 16 bytes of the narrowest type, and what Triton tells
from the arguments of a launch, multiples of 16."""


@dataclass(frozen=True)
class RowParts:
    """Where a row is cut, as code.

    Attributes:
        low: the first column of whole vectors.
        whole: how many columns these have.
        past: the first column behind them.
        end: of the row.
        bases: pointers to the first whole vectors, by the calls that use them.
        has_head: whether columns may be ahead of the vectors.
    """

    low: str
    whole: str
    past: str
    end: str
    bases: Mapping[int, str]
    has_head: bool


class RowWriter:
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
        self.tests: dict[str, None] = {}
        self._done = 0

    def rewritten(self) -> list[cst.BaseStatement]:
        """Return the function's statements; none if it has no loop that gains."""
        function = self._launch.function
        body = self._body(function.body, Scope(function, number_names(function)), [])
        return body if self._done else []

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
            row = row_loop(self._launch, loop, scope, later, self._integers)
        if row is not None and (written := self._cut(row)):
            self._done += 1
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
        return all(any(n is not None and n % VECTOR == 0 for n in row) for row in sizes)

    def _at_tuned_shape(self, row: Sum) -> object:
        """Return the same for rows that begin at the same elements at the tuned shape."""
        terms = []
        for term in row.terms:
            sizes = [(factor, self._size(factor)) for factor in term.factors]
            factors = [factor if size is None else str(size) for factor, size in sizes]
            terms.append(replace(term, factors=tuple(factors)))
        return Sum(tuple(terms)).key

    def _rows(self, row: RowLoop) -> list[Sum]:
        """Return where rows begin: the one of most accesses, then those that are like it.

        A tensor that itself begins elsewhere at the tuned shape would gain nothing.
        """
        accesses = [access for access in row.accesses if not self._begins_elsewhere(access.base)]
        starts = {access.row.key: access.row for access in accesses}
        counts = Counter(access.row.key for access in accesses)
        order = sorted(starts, key=lambda key: -counts[key] - bool(key) / 2)
        if not order:
            return []
        main, *others = (starts[key] for key in order)
        like = self._at_tuned_shape(main)
        alike = [other for other in others if self._at_tuned_shape(other) == like]
        return [main, *(other for other in alike if self._strides_apart(main, other) is not None)]

    def _begins_elsewhere(self, base: str) -> bool:
        tensor = self._facts.tensor(base, self._launch)
        return tensor is not None and tensor.alignment_bytes < VECTOR

    def _gains(self, row: RowLoop, rows: Sequence[Sum]) -> bool:
        """Tell whether more accesses get vectors than lose those that they have."""
        keys = {other.key for other in rows}
        is_whole = self._is_multiple(Sum((Term((row.bound,)),)))
        if not rows or (is_whole and self._is_multiple(rows[0])):
            return False
        others = [access for access in row.accesses if access.row.key not in keys]
        lost = sum(is_whole and self._is_multiple(access.row) for access in others)
        return len(row.accesses) - len(others) > lost

    def _strides_apart(self, main: Sum, other: Sum) -> list[str] | None:
        """Return tests of parameters that have two rows begin alike; ``None`` if none is known."""
        tests: list[str] = []
        unmatched = list(main.terms)
        for term in other.terms:
            pairs = [(_only_factors(mine, term), mine) for mine in unmatched]
            best = next(((pair, mine) for pair, mine in pairs if pair is not None), None)
            if best is None or not {*best[0]} <= {"", *self._launch.arguments}:
                return None
            unmatched.remove(best[1])
            if "" not in best[0]:
                tests.append(f"({best[0][1]} - {best[0][0]}) % {VECTOR} == 0")
        return None if unmatched else tests

    # ------------------------------------------------------------------------- three loops

    def _cut(self, row: RowLoop) -> list[cst.BaseStatement]:
        """Return a loop as three, and what is computed ahead of them; none if that gains nothing.

        A row that begins with its tensor, for all programs, needs no head.
        """
        parts = self._parts(row)
        if parts is None:
            return []
        loops = [self._middle(row, parts), self._edge(row, parts.past, parts.end)]
        if parts.has_head:
            loops.insert(0, self._edge(row, row.low, parts.low))
        return [*map(parse_statement, self._lines), *loops]

    def _parts(self, row: RowLoop) -> RowParts | None:
        """Return where a row is cut, by names that `_lines` compute; ``None`` if all is aligned."""
        rows = self._rows(row)
        if not self._gains(row, rows):
            return None
        self._lines = []
        end = self._end(row)
        length = end if row.low == "0" else f"({end} - ({row.low}))"
        start = self._code(rows[0])
        for other in rows[1:]:
            self.tests |= dict.fromkeys(self._strides_apart(rows[0], other) or ())
        first, head = self._head(sum_code(start, row.low), length)
        rest = f"({length} - {head})" if head else length
        whole = self._named("whole", f"{rest} // {VECTOR} * {VECTOR}")
        low = sum_code(row.low, head)
        bases = self._bases(row, rows, first)
        return RowParts(low, whole, sum_code(low, whole), end, bases, bool(head))

    def _named(self, word: str, value: str) -> str:
        """Return a name that holds a value from here on, the same for the same value."""
        if value not in self._names:
            self._names[value] = free_name(word, self._taken)
            self._lines.append(f"{self._names[value]} = {value}")
        return self._names[value]

    def _end(self, row: RowLoop) -> str:
        """Return the end of the columns that the loop reaches."""
        if code_of(row.loop.stop) == row.bound:
            return render_code(parenthesized(parse_expression(row.bound)))
        trips = f"tl.cdiv({render_code(row.loop.stop)} - ({row.low}), {row.block})"
        reached = sum_code(row.low, f"{trips} * {row.block}")
        return self._named("row_end", f"tl.minimum({row.bound}, {reached})")

    def _head(self, begin: str, length: str) -> tuple[str, str]:
        """Return the first whole vector's place in the tensor, and the elements ahead of it.

        Args:
            begin: where the row begins in its tensor.
            length: of the row.
        """
        if begin == "0":
            return "", ""
        first = self._named("first", f"tl.cdiv({begin}, {VECTOR}) * {VECTOR}")
        ahead = f"tl.minimum({first} - ({begin}), {length})"
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

    def _bases(self, row: RowLoop, rows: Sequence[Sum], first: str) -> dict[int, str]:
        """Return pointers to the first whole vectors, by the calls that use them."""
        bases: dict[int, str] = {}
        start, keys = self._code(rows[0]), {other.key for other in rows}
        for access in row.accesses:
            own, place = self._code(access.row), first
            if access.row.key not in keys:
                continue
            if own != start:
                apart = f"({own} - ({start})) // {VECTOR} * {VECTOR}"
                place = self._named(f"{first}_of_{access.base}", f"{first} + {apart}")
            base = access.base
            bases[id(access.call)] = (
                self._named(f"{base}_first", f"{base} + {place}") if place else base
            )
        return bases

    def _edge(self, row: RowLoop, low: str, end: str) -> cst.BaseStatement:
        """Return the loop over a part of less than a vector, of one trip or none."""
        step = row.block if row.is_blocked else str(VECTOR)
        pairs: list[Swap] = []
        if code_of(parse_expression(end)) != row.bound:
            pairs = [(node, compared(node.left, end)) for node in row.comparisons]
        node = with_block_size(replace_each(row.loop.node, pairs), row.block, step)
        head = f"for {row.loop.name} in range({low}, {end}, {step})"
        return compound_statement(head, statements_of(node))

    def _middle(self, row: RowLoop, parts: RowParts) -> cst.BaseStatement:
        """Return the loop over blocks of whole vectors."""
        pairs = self._in_vectors(row, parts)
        node = replace_each(row.loop.node, pairs)
        moved = {row.loop.name: cst.Name(self._column)}
        body = [substitute_names(statement, moved) for statement in statements_of(node)]
        ahead = parse_statements(
            f"{self._column} = {sum_code(parts.low, self._at)}\n"
            f"{self._place} = {self._at} + tl.arange(0, {row.block})\n"
        )
        over = row.loop.over
        options = "".join(f", {render_code(a)}" for a in over.args if a.keyword is not None)
        bounds = f"0, {parts.whole}, {row.block}{options}"
        kept = without_unused([*ahead, *body], set(_outside(row)))
        return compound_statement(f"for {self._at} in {render_code(over.func)}({bounds})", kept)

    def _in_vectors(self, row: RowLoop, parts: RowParts) -> list[Swap]:
        """Return the masks and pointers of whole vectors, by the nodes that they replace."""
        pairs: list[Swap] = [
            (node, compared(cst.Name(self._place), parts.whole)) for node in row.comparisons
        ]
        for access in row.accesses:
            if base := parts.bases.get(id(access.call)):
                pointer = parse_expression(f"{base} + {self._place}")
                pairs.append((access.call.args[0].value, pointer))
        return pairs


def _only_factors(one: Term, other: Term) -> tuple[str, str] | None:
    """Return the factor that each of two products lacks, if it is one; empty for equal ones."""
    mine = list((Counter(one.factors) - Counter(other.factors)).elements())
    theirs = list((Counter(other.factors) - Counter(one.factors)).elements())
    if one.sign != other.sign or len(mine) != len(theirs) or len(mine) > 1:
        return None
    return (mine[0], theirs[0]) if mine else ("", "")


def sum_code(*parts: str) -> str:
    """Return the code of a sum; an empty part counts as 0."""
    return " + ".join(part for part in parts if part not in ("", "0")) or "0"


def _outside(row: RowLoop) -> set[str]:
    """Return the names that a loop carries: it may read them ahead of assigning them."""
    return names_read_first(row.loop.body) & set(assigned_names(*row.loop.body))


def compared(columns: cst.BaseExpression, end: str) -> cst.BaseExpression:
    return parse_expression(f"({render_code(columns)} < {end})")
