"""Loops begin and end where their masks leave something: other trips change nothing that is read.

A causal attention's loop may take all keys. Above the diagonal all scores are minus infinity, all
shares are 0, and a trip leaves maximum, sum and output as they were. A trip is followed on values
that are known to be 0, 1, minus infinity, true, false, or what they were before the trip.

Ahead of a window it is the same if trips may change places, as those of sums relative to a maximum:
trips that change nothing behind the others change nothing ahead of them.

Nor does a loop change anything in a program that stores nothing: all rows of its block lie behind a
length that it loads. Batches of unlike sequences start programs for the longest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    straight_values,
)
from solkit.tuner.proposers.rewriter._carried import (
    CarriedKind,
    OtherUpdateError,
    Trip,
    unpacked_statements,
)
from solkit.tuner.proposers.rewriter._columns import (
    Blocks,
    Columns,
    column_bound,
    expanded_row,
    is_index_sum,
    largest_row,
    over_range,
    smallest_row,
    without_axes,
)
from solkit.tuner.proposers.rewriter._memory import mask_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    Body,
    Loop,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    expression_statement,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    range_loop,
    render_code,
    single_assignment,
    statements_of,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    FLIPPED,
    call_args,
    compared_sides,
    comparison_parts,
    conjuncts,
    converted_value,
    is_minus_infinity,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText
from solkit.tuner.proposers.rewriter._values import all_names, as_blocked_loop
from solkit.tuner.proposers.rewriter._variants import function_variants

_FALSE, _TRUE, _ZERO, _ONE = "false", "true", "0", "1"
_LOWEST, _POSITIVE, _UNKNOWN = "minus infinity", "positive", ""
_SAME = "as before: "  # then the name
_OTHER_CALLS = ("min", "max", "range", "float")
_EFFECTS = ("tl.store", "tl.atomic", "tl.inline_asm", "tl.device_", "tl.debug_barrier")
_ELEMENTWISE = ("tl.broadcast_to", "tl.trans", "tl.expand_dims", "tl.ravel", "tl.view")


class LoopEnds:
    """Loops end where their masks leave nothing, and begin with the first window of their rows.

    Applies to loops over blocks with a mask that compares the column with a row that the loop does
    not change, if a trip in which the mask is false everywhere leaves all that is read after the
    loop as it was. Data are taken to be finite, as where scores are fused: 0 times infinity is no
    number. Loops of sums that are relative to a maximum begin later, too, where each row has its
    own column. Where every store is masked by rows within a length that is loaded, a loop ends at
    once in programs that have no such row.
    """

    kind = "loop ends"
    helps = ("extra work", "extra traffic", "wrong pipe", "latency", "instructions")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Trips of the loop in {} are masked as a whole: they change nothing"
        factors = ("extra work", "extra traffic")
        return function_variants(text, facts, _with_ends, intent, *factors)


def _with_ends(function: JitFunction) -> cst.FunctionDef | None:
    """Return a function whose loops begin later or end early; ``None`` if none can."""
    body, taken = list(function.body), set(function.names)
    for place, statement in reversed(list(enumerate(function.body))):
        if (loop := range_loop(statement)) is None:
            continue
        bounds = {"first": _later_start(loop, function, place)}
        bounds["last"] = _stop_of_idle(loop, function, place, _earlier_stop(loop, function, place))
        names = {word: free_name(word, taken) for word, code in bounds.items() if code is not None}
        taken |= set(names.values())
        start, stop, step = map(render_code, (loop.start, loop.stop, loop.step))
        changed = over_range(loop, names.get("first", start), names.get("last", stop), step)
        ahead = [parse_statement(f"{name} = {bounds[word]}") for word, name in names.items()]
        if ahead:
            body[place : place + 1] = [*ahead, changed]
    return with_body(function.node, body) if len(body) > len(function.body) else None


@dataclass(frozen=True)
class _Mask:
    """A comparison of a loop's column with a row.

    Attributes:
        node: as written.
        end: the first column from which on it is the same for every row, as code over what the
            function has before the loop.
        value: what it is then.
        has_first: whether it is true for every row in the first column of the loop.
    """

    node: cst.Comparison
    end: str
    value: str
    has_first: bool = False


def _earlier_stop(loop: Loop, function: JitFunction, place: int) -> str | None:
    """Return where a loop may end, as code for the statement before it; ``None`` if not earlier."""
    read_later = names_read_first(function.body[place + 1 :])
    blocked = as_blocked_loop(loop, function)
    values = straight_values(function.body[:place])
    bounds = {*_upper_bounds(loop.stop if blocked is None else blocked.bound, values)}
    ends = [
        end
        for end in neutral_ends(loop, function, place)
        if plain_code(parse_expression(end)) not in bounds
    ]
    if not ends or loop.name in read_later:
        return None
    stop = render_code(loop.stop)
    for end in dict.fromkeys(ends):
        counted = blocked is not None and blocked.counts
        end = f"tl.cdiv({end}, {blocked.block})" if counted and blocked is not None else end
        stop = f"tl.minimum({stop}, {end})"
    return stop


def _upper_bounds(node: cst.BaseExpression, values: Values) -> Iterator[str]:
    """Yield expressions, as plain code, that a number is at most: itself and parts of a minimum."""
    yield plain_code(node)
    whole = values.get(node.value) if isinstance(node, cst.Name) else node
    if whole is not None and called_name(whole) in ("tl.minimum", "min"):
        for part in call_args(whole):
            yield from _upper_bounds(part, values)


def _stop_of_idle(loop: Loop, function: JitFunction, place: int, earlier: str | None) -> str | None:
    """Return where a loop ends that does nothing in programs that store nothing, as code.

    Args:
        loop: over columns, a statement of the function itself.
        function: the loop is in it.
        place: of the loop among its statements.
        earlier: where it ends otherwise, if not at its own end.
    """
    has_rows = _tests_of_stores(loop, function, place)
    if not has_rows:
        return earlier
    stop = render_code(loop.stop) if earlier is None else earlier
    return f"tl.where({' & '.join(has_rows)}, {stop}, {render_code(loop.start)})"


def _tests_of_stores(loop: Loop, function: JitFunction, place: int) -> list[str]:
    """Return conditions without which nothing is stored from a loop on, as code ahead of it."""
    before, rest = function.body[:place], function.body[place:]
    calls = [call for statement in rest for call in calls_within(statement)]
    stores = [call for call in calls if called_name(call) == "tl.store"]
    others = [call for call in calls if call not in stores]
    is_plain = all(map(_only_computes, others)) and not _loads_at_results(loop, rest[1:])
    if not is_plain or not stores or loop.name in names_read_first(rest[1:]):
        return []
    tests = [list(_row_tests(store, before, rest, function)) for store in stores]
    return [test for test in dict.fromkeys(tests[0]) if all(test in some for some in tests)]


def _loads_at_results(loop: Loop, after: Body) -> bool:
    """Tell whether what a loop computes decides which elements are loaded behind it."""
    results = set(assigned_names(*loop.body))
    for statement in walk_statements(after):
        if any(names_within(call) & results for call in calls_within(statement, "tl.load")):
            return True
        if names_within(statement) & results:
            results |= set(assigned_names(statement))
    return False


def _row_tests(store: cst.Call, before: Body, rest: Body, function: JitFunction) -> Iterator[str]:
    """Yield which rows of a block a store needs to be within a loaded length, as ``row < length``.

    Lengths that come from the launcher cut the grid as well: few programs have no row below them.
    """
    own, moving = straight_values(before), set(assigned_names(*rest))
    named = straight_values([*before, *rest])
    mask = argument_of(store, 2, "mask")
    blocks = Blocks(own, function)
    if isinstance(mask, cst.Name):
        mask = named.get(mask.value)
    for test in [] if mask is None else conjuncts(mask):
        if (parts := comparison_parts(test)) is None:
            continue
        first, sign, second = parts
        if sign in (">", ">="):
            first, second, sign = second, first, FLIPPED[sign]
        row = expanded_row(first, straight_values(rest))
        least = smallest_row(row, blocks) if is_index_sum(row) and blocks.has(row) else ""
        used = [] if blocks.has(second) else [own[n] for n in all_names(second, own) & set(own)]
        is_loaded = any(calls_within(value, "tl.load") for value in used)
        is_fixed = not (names_within(row) | names_within(second)) & moving
        if least and is_loaded and is_fixed and sign in ("<", "<="):
            yield f"({least} {sign} {render_code(parenthesized(second))})"


def _later_start(loop: Loop, function: JitFunction, place: int) -> str | None:
    """Return where a loop may begin, as code for the statement before it; ``None`` if not later.

    Trips ahead of a window may only be left out if they may change places with all others.
    """
    body, after = unpacked_statements(loop.body), function.body[place + 1 :]
    blocked, read_later = as_blocked_loop(loop, function), names_read_first(after)
    references = _references(loop, read_later)
    causal = [mask for mask in _masks_of(loop, body, function, place) if mask.has_first]
    if blocked is None or not references or not causal or loop.name in read_later:
        return None
    own = straight_values(function.body[:place])
    columns = Columns(loop, straight_values(body), own, function)
    moving = {loop.name, *assigned_names(*body)}
    for node in (n for s in body for n in nodes_within(s) if isinstance(n, cst.Comparison)):
        begin = _begin_of(node, columns, straight_values(body), Blocks(own, function))
        if not begin or names_within(parse_expression(begin)) & moving:
            continue
        if _is_neutral(body, _Mask(node, "", _FALSE, has_first=True), read_later, references):
            if not any(_has_own_column(mask, blocked.bound, after, own) for mask in causal):
                begin = f"tl.where({causal[0].end} <= {render_code(blocked.bound)}, {begin}, 0)"
            count = f"({begin}) // {blocked.block}"
            return f"tl.maximum(0, {count if blocked.counts else f'{count} * {blocked.block}'})"
    return None


def _has_own_column(mask: _Mask, stop: cst.BaseExpression, after: Body, values: Values) -> bool:
    """Tell whether rows that are stored behind a loop are less than its end, as its columns are.

    Others may have no column within a window: then numbers far down are all that they have.
    """
    first, _, second = comparison_parts(mask.node) or (mask.node, "", mask.node)
    rows = {plain_code(without_axes(side)) for side in (first, second)}
    masks = (values.get(code, node) for node in _store_masks(after) for code in [plain_code(node)])
    return any(
        plain_code(without_axes(sides[0])) in rows and plain_code(sides[1]) == plain_code(stop)
        for node in nodes_within(*masks)
        if (sides := compared_sides(node, "<")) is not None
    )


def _store_masks(statements: Body) -> Iterator[cst.BaseExpression]:
    stores = (call for statement in statements for call in calls_within(statement, "tl.store"))
    yield from filter(None, map(mask_of, stores))


def _begin_of(node: cst.Comparison, columns: Columns, values: Values, blocks: Blocks) -> str:
    """Return the column ahead of which ``column > row - width`` is false; empty for others."""
    bound = column_bound(node, columns, values)
    if bound is None or bound.is_below:
        return ""
    row = bound.row
    if bound.width != "0":
        row = parse_expression(f"{render_code(row)} - {bound.width}")
    row = expanded_row(row, values)
    return smallest_row(row, blocks) if is_index_sum(row) else ""


def _references(loop: Loop, read_later: set[str]) -> dict[str, str]:
    """Return names that hold a maximum which sums are only relative to, each with the maximum's.

    None where a loop carries something else: its trips may not change places. Whatever such a
    maximum becomes in a trip, sums relative to it are the same numbers.
    """
    trip = Trip(unpacked_statements(loop.body), loop.name)
    try:
        updates = trip.carried()
    except OtherUpdateError:
        return {}
    leaders = {update.leader for update in updates.values() if update.leader}
    kinds = {update.kind for name, update in updates.items() if name not in leaders}
    if not leaders or kinds != {CarriedKind.RESCALED} or leaders & read_later:
        return {}
    written, names = assigned_names(*loop.body), dict[str, str]()
    for leader in leaders:
        root = render_code(trip.root(cst.Name(trip.current[leader])))
        names |= dict.fromkeys((leader, root.rsplit("__", 1)[0]), leader)
    return names if all(written.count(name) == 1 for name in names) else {}


def neutral_ends(loop: Loop, function: JitFunction, place: int) -> list[str]:
    """Return columns from which on a mask leaves nothing of a loop, as code ahead of the loop.

    Args:
        loop: over columns, a statement of the function itself.
        function: the loop is in it.
        place: of the loop among its statements.
    """
    body = unpacked_statements(loop.body)
    read_later = names_read_first(function.body[place + 1 :])
    masks = _masks_of(loop, body, function, place)
    references = _references(loop, read_later)
    return [mask.end for mask in masks if _is_neutral(body, mask, read_later, references)]


# ------------------------------------------------------------------------------- masks


def _masks_of(loop: Loop, body: Body, function: JitFunction, place: int) -> Iterator[_Mask]:
    """Yield the comparisons that are the same in all trips from some column on."""
    before = function.body[:place]
    values = straight_values(body)
    columns = Columns(loop, values, straight_values(before), function)
    if not columns.is_known:
        return
    moving = {loop.name, *assigned_names(*loop.body)}
    fixed = {*function.params, *assigned_names(*before)} - moving
    late = names_read_first(body)  # in a trip they are what the last one made
    for statement in body:
        for node in nodes_within(statement):
            if not isinstance(node, cst.Comparison):
                continue
            mask = _mask_in(node, columns, values, fixed, function, before)
            if mask is not None and mask.has_first:
                fills = _Fills(mask, columns, values, loop, function.body[place + 1 :])
                has_first = render_code(loop.start) == "0" and fills.leave_first(body)
                mask = replace(mask, has_first=has_first)
            if mask is not None and not all_names(node, values) & late & moving - {loop.name}:
                yield mask


@dataclass(frozen=True)
class _Fills:
    """Numbers that stand for minus infinity in a loop, and where they do.

    Attributes:
        mask: leaves the first column of each row.
        columns: of the loop.
        values: of the names in a trip.
        loop: over columns.
        after: statements behind the loop.
    """

    mask: _Mask
    columns: Columns
    values: Values
    loop: Loop
    after: Body

    def leave_first(self, body: Body) -> bool:
        """Tell whether nothing but the mask takes scores away, so that each row has its first."""
        covered = set[int]()
        moving = set(assigned_names(*body))
        for statement in body:
            for call in calls_within(statement, "tl.where"):
                if chooses_larger(call) or self._leaves_first(call.args[0].value):
                    covered |= {id(node) for node in nodes_within(call)}
                elif any(_is_fixed_name(arg.value, moving) for arg in call.args[1:]):
                    return False
            for node in nodes_within(statement):  # a number that is asked for is no fill
                if isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, cst.Equal):
                    covered |= {id(part) for part in nodes_within(node)}
        if any(self._adds_data(node) for node in nodes_within(*body)):
            return False  # a mask that is added may take a row's scores away
        return not any(_is_large(node) and id(node) not in covered for node in nodes_within(*body))

    def _adds_data(self, node: cst.CSTNode) -> bool:
        """Tell whether what was loaded is added to what may be a score."""
        kinds = (cst.Add, cst.AddAssign, cst.Subtract, cst.SubtractAssign)
        is_sum = isinstance(node, (cst.AugAssign, cst.BinaryOperation))
        if not is_sum or not isinstance(getattr(node, "operator", None), kinds):
            return False
        sides = child_nodes(node)
        loaded = any(self._has(side, ("tl.load",), _REDUCED) for side in sides)
        return loaded and any(self._has(side, _REDUCED, ()) for side in sides)

    def _has(self, node: cst.CSTNode, calls: Sequence[str], closed: Sequence[str]) -> bool:
        """Tell whether a value is made of such calls in a trip, but for those within others."""
        pending, seen = [node], set[str]()
        while pending:
            part = pending.pop()
            name = part.value if isinstance(part, cst.Name) else ""
            called = called_name(part) if isinstance(part, cst.Call) else ""
            if called in calls:
                return True
            if name in self.values and name not in seen:
                seen.add(name)
                pending.append(self.values[name])
            elif name in self._scores and calls is _REDUCED:
                return True
            pending += [] if called in closed else child_nodes(part)
        return False

    @cached_property
    def _scores(self) -> set[str]:
        """Names that are made of scores and get several values in a trip."""
        names = assigned_names(*self.loop.body)
        bindings = assignments_in(walk_statements(self.loop.body))
        reduced = [b for b in bindings if calls_within(b.value, *_REDUCED)]
        return {b.target for b in reduced if names.count(b.target) > 1}

    def _leaves_first(self, test: cst.BaseExpression) -> bool:
        """Tell whether a condition holds in each row's first column, if anything reads the row."""
        test = without_axes(test)
        if isinstance(test, cst.Name) and test.value in self.values:
            return self._leaves_first(self.values[test.value])
        if is_operation(test, cst.BitAnd):
            return self._leaves_first(test.left) and self._leaves_first(test.right)
        code = plain_code(test)
        if code == plain_code(self.mask.node):
            return True
        if self._keeps_diagonal(test):
            return True
        if (sides := compared_sides(test, "<")) is None:
            return False
        end = plain_code(sides[1])
        is_end = self.columns.has(sides[0]) and end == plain_code(self.loop.stop)
        return is_end or any(code in plain_code(mask) for mask in _store_masks(self.after))

    def _keeps_diagonal(self, test: cst.BaseExpression) -> bool:
        """Tell whether it is a window that ends at the row itself, as ``row - column < width``."""
        bound = column_bound(test, self.columns, self.values)
        if bound is None or bound.is_below:
            return False
        row = bound.row
        if bound.width == "0":  # as column > row - width
            if not is_operation(row, cst.Subtract):
                return False
            row = row.left
        first, _, second = comparison_parts(self.mask.node) or (row, "", row)
        return plain_code(row) in map(plain_code, (first, second)) and not self.columns.has(row)


def _is_fixed_name(node: cst.BaseExpression, moving: set[str]) -> bool:
    """Tell whether a value comes from ahead of the loop: it may be a number far down."""
    while isinstance(node, cst.UnaryOperation):
        node = node.expression
    return isinstance(node, cst.Name) and node.value not in moving


def _is_large(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.Integer, cst.Float)):
        return float(node.evaluated_value) >= _FAR
    return isinstance(node, cst.BaseExpression) and is_minus_infinity(node)


def _mask_in(
    node: cst.Comparison,
    columns: Columns,
    values: Values,
    fixed: set[str],
    function: JitFunction,
    before: Body,
) -> _Mask | None:
    """Return the column from which on a comparison is the same; ``None`` if there is none.

    ``row >= column`` is false beyond the largest row, and so is ``row - column >= 0``.
    """
    bound = column_bound(node, columns, values)
    if bound is None or bound.width != "0":
        return None
    row = expanded_row(bound.row, values)
    if not names_within(row) - {"tl"} <= fixed or not is_index_sum(row):
        return None
    own = straight_values(before)
    end = f"{largest_row(row, Blocks(own, function))}{bound.beyond}"
    has_first = bound.sign == "<=" and _is_natural(row, own, function)
    return _Mask(node, end, _FALSE if bound.is_below else _TRUE, has_first)


def _is_natural(node: cst.BaseExpression, values: Values, function: JitFunction) -> bool:
    """Tell whether an index is 0 or more: a sum of products of programs, ranges and sizes."""
    node = without_axes(node)
    if isinstance(node, cst.Name):
        value = values.get(node.value)
        is_size = node.value in function.constants
        return is_size or (value is not None and _is_natural(value, values, function))
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        kinds = (cst.Add, cst.Multiply)
        return isinstance(node.operator, kinds) and all(
            _is_natural(side, values, function) for side in sides
        )
    if called_name(node) == "tl.arange":
        return render_code(call_args(node)[0]) == "0"
    return isinstance(node, cst.Integer) or called_name(node) == "tl.program_id"


# ------------------------------------------------------------------------------- trips


def _is_neutral(
    body: Body, mask: _Mask, read_later: set[str], references: Mapping[str, str]
) -> bool:
    """Tell whether a trip in which a mask is the same changes nothing that is read later."""
    trip = _Trip(mask, references)
    if not trip.run(body):
        return False
    return all(
        trip.values[name] == _SAME + name for name in set(assigned_names(*body)) & read_later
    )


class _Trip:
    """Follows a trip in which all elements of a mask are the same.

    Args:
        mask: the comparison.
        references: names of maxima that may be as before, since sums are only relative to them.
    """

    def __init__(self, mask: _Mask, references: Mapping[str, str]) -> None:
        self._references = references
        self._mask, self._mask_value = plain_code(mask.node), mask.value
        self._has_first = mask.has_first
        self.values: dict[str, str] = {}

    def run(self, body: Body) -> bool:
        """Follow statements; false if one may do more than assign names."""
        leaves = (cst.Return, cst.Break, cst.Continue, cst.Raise, cst.Assert)
        for statement in body:
            if self._is_store_of_nothing(statement):
                continue
            if not all(map(_only_computes, calls_within(statement))):
                return False
            if any(isinstance(node, leaves) for node in nodes_within(statement)):
                return False
            binding = single_assignment(statement)
            if isinstance(statement, cst.If):
                if not self._run_branches(statement):
                    return False
            elif binding is not None:
                leader = self._references.get(binding.target)
                self.values[binding.target] = _SAME + leader if leader else self.of(binding.value)
            else:
                self.values |= dict.fromkeys(assigned_names(statement), _UNKNOWN)
        return True

    def _run_branches(self, statement: cst.If) -> bool:
        """Follow both ways; what they leave different is not known."""
        before, other = dict(self.values), statement.orelse
        runs = self.run(unpacked_statements(statements_of(statement)))
        taken, self.values = self.values, before
        if isinstance(other, cst.If):
            runs = runs and self._run_branches(other)
        elif other is not None:
            runs = runs and self.run(unpacked_statements(statements_of(other)))
        for name in taken.keys() | self.values.keys():
            values = [way.get(name, _SAME + name) for way in (taken, self.values)]
            self.values[name] = values[0] if values[0] == values[1] else _UNKNOWN
        return runs

    def _is_store_of_nothing(self, statement: cst.BaseStatement) -> bool:
        call = expression_statement(statement)
        if call is None or called_name(call) != "tl.store":
            return False
        mask = mask_of(call)
        return mask is not None and self.of(mask) == _FALSE

    def of(self, node: cst.BaseExpression) -> str:
        """Return what is known of a value."""
        if isinstance(node, cst.Name):
            return self.values.get(node.value, _SAME + node.value)
        if isinstance(node, (cst.Integer, cst.Float)):
            number = float(node.evaluated_value)
            return {0.0: _ZERO, 1.0: _ONE}.get(number, _POSITIVE)
        if is_minus_infinity(node) or (self._has_first and _is_far_down(node)):
            return _LOWEST
        if isinstance(node, cst.Comparison):
            return self._of_comparison(node)
        if isinstance(node, cst.UnaryOperation):
            return self._of_unary(node)
        if isinstance(node, cst.Subscript):
            value = self.of(node.value)
            return value if without_axes(node) is not node and _is_plain(value) else _UNKNOWN
        if isinstance(node, cst.BinaryOperation):
            return _combined(node, self.of(node.left), self.of(node.right))
        return self._of_call(node) if isinstance(node, cst.Call) else _UNKNOWN

    def _of_unary(self, node: cst.UnaryOperation) -> str:
        value = self.of(node.expression)
        if isinstance(node.operator, (cst.BitInvert, cst.Not)):
            return {_FALSE: _TRUE, _TRUE: _FALSE}.get(value, _UNKNOWN)
        is_zero = isinstance(node.operator, cst.Minus) and value == _ZERO
        return _ZERO if is_zero else _UNKNOWN

    def _of_comparison(self, node: cst.Comparison) -> str:
        if plain_code(node) == self._mask:
            return self._mask_value
        if (equal := compared_sides(node, "==")) is None:
            return _UNKNOWN
        sides = self.of(equal[0]), self.of(equal[1])
        if sides == (_LOWEST, _LOWEST):
            return _TRUE
        is_lowest = _LOWEST in sides and any(side.startswith(_SAME) for side in sides)
        return _FALSE if is_lowest else _UNKNOWN  # a row that has scores has a finite maximum

    def _of_call(self, node: cst.Call) -> str:
        name, args = called_name(node), [self.of(arg.value) for arg in node.args]
        if (inner := converted_value(node)) is not None:
            value = self.of(inner)
            is_number = "int1" not in render_code(node)
            number = {_FALSE: _ZERO, _TRUE: _ONE}.get(value, value) if is_number else value
            return number if _is_plain(value) else _UNKNOWN
        if name == "tl.load":
            mask, other = argument_of(node, 1, "mask"), argument_of(node, 2, "other")
            is_off = mask is not None and other is not None and self.of(mask) == _FALSE
            return self.of(other) if is_off and other is not None else _UNKNOWN
        if name == "tl.where" and len(args) == 3:
            if args[0] in (_FALSE, _TRUE):
                return args[1 if args[0] == _TRUE else 2]
            if chooses_larger(node):
                return _larger_of(args[1:])
            return args[1] if args[1] == args[2] else _UNKNOWN
        if name in ("tl.maximum", "max") and len(args) == 2:
            return _larger_of(args)
        return self._of_block(node, name, args)

    def _of_block(self, node: cst.Call, name: str, args: list[str]) -> str:
        if name == "tl.dot":
            sums = argument_of(node, 2, "acc")
            product = _ZERO if _ZERO in args[:2] else _UNKNOWN
            return product if sums is None else _sum_of(product, self.of(sums))
        if name in EXPONENTIALS and args:
            return {_ZERO: _ONE, _LOWEST: _ZERO}.get(args[0], _UNKNOWN)
        if name in ("tl.max", "tl.sum") and args and "return_indices" not in render_code(node):
            kept = _LOWEST if name == "tl.max" else _ZERO
            return kept if args[0] == kept else _UNKNOWN
        if name == "tl.zeros":
            return _ZERO
        if name in (*_ELEMENTWISE, "tl.reshape") and args:
            return args[0] if _is_plain(args[0]) else _UNKNOWN
        return _UNKNOWN


def chooses_larger(node: cst.Call) -> bool:
    """Tell whether a call is ``tl.where(x > y, x, y)``, or the same the other way round."""
    test, *chosen = call_args(node)
    if (parts := comparison_parts(test)) is None:
        return False
    first, sign, second = parts
    sides = [plain_code(first), plain_code(second)]
    order = {">": sides, ">=": sides, "<": sides[::-1], "<=": sides[::-1]}.get(sign)
    return order == [plain_code(part) for part in chosen]


def _larger_of(values: Sequence[str]) -> str:
    others = [value for value in values if value != _LOWEST]
    return others[0] if len(others) == 1 else values[0] if len(set(values)) == 1 else _UNKNOWN


def _is_far_down(node: cst.BaseExpression) -> bool:
    """Tell whether a number is written to stand for minus infinity.

    It does where each row has a score in the first trip, next to which its exponential is 0.
    """
    if not isinstance(node, cst.UnaryOperation) or not isinstance(node.operator, cst.Minus):
        return False
    value = node.expression
    return isinstance(value, (cst.Integer, cst.Float)) and float(value.evaluated_value) >= _FAR


_FAR = 1e6
_REDUCED = ("tl.dot", "tl.sum")
"""Calls that make scores of what was loaded."""


def _only_computes(call: cst.Call) -> bool:
    """Tell whether a call writes nothing."""
    name = called_name(call)
    if name.startswith("tl."):
        return not name.startswith(_EFFECTS)
    return name in _OTHER_CALLS or name.endswith(".to")


def _is_plain(value: str) -> bool:
    """Tell whether all elements are the same: no matter how a block is shaped."""
    return value in (_FALSE, _TRUE, _ZERO, _ONE, _LOWEST, _POSITIVE)


def _combined(node: cst.BinaryOperation, first: str, second: str) -> str:
    kind, values = type(node.operator), (first, second)
    if kind in (cst.BitAnd, cst.BitOr):
        ends, neutral = (_FALSE, _TRUE) if kind is cst.BitAnd else (_TRUE, _FALSE)
        if ends in values:
            return ends
        return neutral if first == second == neutral else _UNKNOWN
    first, second = ({_FALSE: _ZERO, _TRUE: _ONE}.get(value, value) for value in values)
    if kind is cst.Add:
        return _sum_of(first, second)
    if kind is cst.Subtract:
        if second == _ZERO:
            return first
        if first == _LOWEST:
            return _LOWEST if second != _LOWEST else _UNKNOWN
        return _ZERO if first == second and first.startswith(_SAME) else _UNKNOWN
    if kind is cst.Multiply:
        return _product_of(first, second)
    if kind is cst.Divide:
        is_same = first == second and first.startswith(_SAME)  # a row that has scores has a sum
        return _ONE if is_same else first if first == _ZERO or second == _ONE else _UNKNOWN
    return _UNKNOWN


def _sum_of(first: str, second: str) -> str:
    if _ZERO in (first, second):
        return second if first == _ZERO else first
    return _LOWEST if _LOWEST in (first, second) else _UNKNOWN


def _product_of(first: str, second: str) -> str:
    """Return a product: data are finite, and a softmax's scale is above 0."""
    if _ZERO in (first, second):
        return _ZERO if _LOWEST not in (first, second) else _UNKNOWN
    if _ONE in (first, second):
        return second if first == _ONE else first
    if _LOWEST in (first, second):
        other = second if first == _LOWEST else first
        return _LOWEST if other.startswith(_SAME) or other == _POSITIVE else _UNKNOWN
    return _UNKNOWN
