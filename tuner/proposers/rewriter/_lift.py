"""Lifting: scalars of a Triton function become vectors along one new axis, which leads.

What depends on a name that gets the axis gets it too. The axis comes first, so the axes of blocks
and of reductions move up by one, and operands are aligned with explicit ``[:, None]``. A name that
is a scalar before a loop and a vector after it must be a vector from the start.
Sums of products of two blocks become ``tl.dot``. What a trip makes of all trips up to itself
becomes a scan (`_running_values`), and extrema keep what came with them (`_places_of_extrema`).

Notation
    rank      the number of axes before lifting
    lifted    whether the new axis has been put in front of them
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import carried_by, carried_names, with_single_updates
from solkit.tuner.proposers.rewriter._chunks import Chunk, with_chunk
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._lift_expressions import (
    CannotLiftError,
    Kind,
    Lifted,
    Lifting,
    promote_operand,
)
from solkit.tuner.proposers.rewriter._memory import PLAIN_WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    RANGES,
    Assignment,
    Body,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    names_read_first,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    running_updates,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_fp32, is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction
from solkit.tuner.proposers.rewriter._places_of_extrema import Extremum, with_extrema
from solkit.tuner.proposers.rewriter._products import as_product
from solkit.tuner.proposers.rewriter._running_values import (
    Running,
    RunningKind,
    with_running_values,
    writes_by,
)
from solkit.tuner.proposers.rewriter._values import writes_in_order

# ------------------------------------------------------------------------------- statements


_IGNORED = ("tl.static_assert", "tl.assume", "tl.debug_barrier", "tl.device_assert")


class _RestartError(Exception):
    """A name must have the new axis from its first assignment on."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass
class _Body:
    """Lifts statements.

    Attributes:
        lifting: of expressions, with the kinds so far.
        width: the constant that is the new axis's length.
        forced: names that have the axis from their first assignment on.
        carried: names that a loop carries and that stay without the axis.
        within: names that this loop assigns.
        mask: the name of the mask over the new axis in that loop.
        values: what names were last assigned.
        types: of names that a loop carries, as far as these are known.
        depth: of the loops and branches around what is being lifted.
        running: running values of the loop, by name.
        combiners: names of the functions that join elements of scans, by kind.
        is_reverse: whether a block's last element comes first.
        extrema: that the loop carries, by the name of their end.
        index: the name of a trip's index.
        first: of a block's indices, and what the next ones are multiplied by, as code.
        chunk: a running state of the loop that no trip has of its own.
        is_final: whether the loop's totals are read behind it.
    """

    lifting: Lifting
    width: str
    forced: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    within: set[str] = field(default_factory=set)
    mask: str = ""
    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    depth: int = 0
    running: Mapping[str, Running] = field(default_factory=dict)
    combiners: Mapping[RunningKind, str] = field(default_factory=dict)
    is_reverse: bool = False
    extrema: Mapping[str, Extremum] = field(default_factory=dict)
    index: str = ""
    first: str = ""
    chunk: Chunk | None = None
    is_final: bool = True

    def inner_block(self, body: Body) -> list[cst.BaseStatement]:
        """Lift the statements of a loop or of a branch."""
        self.depth += 1
        try:
            return self.block(body)
        finally:
            self.depth -= 1

    def block(self, body: Body) -> list[cst.BaseStatement]:
        statements: list[cst.BaseStatement] = []
        for index, statement in enumerate(body):
            if isinstance(statement, cst.If):
                branch = self._lift_branch(statement, body[index + 1 :])
                if branch is None:
                    branch = self._own_ends(statement, body[index + 1 :])
                if branch is not None:
                    return [*statements, *branch]
            statements += self.statement(statement)
        return statements

    # ------------------------------------------------------------------------- statements

    def statement(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        binding = single_assignment(statement)
        if binding is not None and self.chunk is not None and binding.target in self.chunk.reads:
            self._require_vectors(self.chunk.reads[binding.target][0].name)
            self.lifting.kinds[binding.target] = Kind(1, True)
            return list(map(parse_statement, self.chunk.read(binding.target)))
        if binding is not None and binding.target in self.running:
            return self._scan(self.running[binding.target])
        if binding is not None and binding.target in self.extrema:
            return self._extremum(self.extrema[binding.target])
        if binding is not None:
            return [self._lift_assignment(statement, binding)]
        if isinstance(statement, cst.For):
            return [self._lift_loop(statement)]
        if isinstance(statement, cst.If):
            return [self._plain_branch(statement)]
        call = expression_statement(statement)
        if isinstance(call, cst.Call) and called_name(call) in PLAIN_WRITES:
            return [
                parse_statement(render_code(self.lifting.store(call, self.values))).with_changes(
                    **_leading_comments(statement)
                )
            ]
        used = names_within(statement) | set(assigned_names(statement))
        if any(self._is_lifted(name) for name in used):
            if isinstance(call, cst.Call) and called_name(call) in _IGNORED:
                return []
            if used & {*self.carried, *self.forced}:
                raise CannotLiftError(render_code(statement))
            return [self.lifting.lift_unpacking(statement)]
        for name in assigned_names(statement):
            self.lifting.kinds[name] = Kind(0, False)
        return [statement]

    def _is_lifted(self, name: str) -> bool:
        kind = self.lifting.kinds.get(name)
        return kind is not None and kind.lifted

    def _lift_assignment(
        self, statement: cst.BaseStatement, binding: Assignment
    ) -> cst.BaseStatement:
        self.values[binding.target] = binding.value
        if binding.target in self.carried:
            return self._lift_carried(statement, binding)
        value = self.lifting.lift_expression(binding.value)
        if binding.target in self.forced and not value.kind.lifted:
            value = self._broadcast(value)
        old = self.lifting.kinds.get(binding.target, Kind(0, False))
        self.lifting.kinds[binding.target] = value.kind
        code = f"{binding.target} = {render_code(value.node)}"
        if binding.operator and value.kind == old:
            operand = self.lifting.lift_expression(binding.operand)
            is_lifted, rank = value.kind.lifted, value.kind.rank
            node = promote_operand(operand, rank) if is_lifted else operand.node
            code = f"{binding.target} {binding.operator} {render_code(node)}"
        return parse_statement(code).with_changes(**_leading_comments(statement))

    def _broadcast(self, value: Lifted) -> Lifted:
        """Return a value without the axis, repeated along it."""
        node, rank = value.node, value.kind.rank
        kind = Kind(rank, True)
        if rank == 0:
            text = render_code(node)
            dtype = "tl.int32" if text.lstrip("-").isdigit() else "tl.float32"
            if _is_number(text):
                return Lifted(parse_expression(f"tl.full(({self.width},), {text}, {dtype})"), kind)
            if called_name(node) == "tl.full" and isinstance(node, cst.Call):
                args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in node.args[1:]]
                rest = ", ".join(map(render_code, args))
                return Lifted(parse_expression(f"tl.full(({self.width},), {rest})"), kind)
            repeated = f"{render_code(parenthesized(node))} + tl.zeros(({self.width},), tl.int1)"
            return Lifted(parse_expression(repeated), kind)  # no sum with a bit changes its type
        if called_name(node) in ("tl.zeros", "tl.full"):
            call = cst.ensure_type(node, cst.Call)
            shape = call.args[0].value
            inner = render_code(shape)[1:-1].rstrip(", ")
            whole = parse_expression(f"({self.width}, {inner})")
            args = [call.args[0].with_changes(value=whole), *call.args[1:]]
            return Lifted(call.with_changes(args=args), kind)
        if not self.lifting.valid:
            raise CannotLiftError(render_code(node))
        axes = ", ".join([":", *["None"] * rank])
        repeated = f"{render_code(parenthesized(node))}[{', '.join(['None', *[':'] * rank])}]"
        text = f"tl.where({self.lifting.valid}[{axes}], {repeated}, {repeated})"
        return Lifted(parse_expression(text), kind)

    def _lift_loop(self, statement: cst.For) -> cst.BaseStatement:
        over, variable = statement.iter, statement.target
        if called_name(over) not in RANGES or not isinstance(variable, cst.Name):
            raise CannotLiftError(render_code(over))
        bounds = call_args(over)
        if statement.orelse or any(self.lifting.lift_expression(b).kind.lifted for b in bounds):
            raise CannotLiftError(render_code(over))
        before, trip = dict(self.lifting.kinds), statements_of(statement)
        self.lifting.kinds[variable.value] = Kind(0, False)
        body = self.inner_block(trip)
        self._require_same_axes(before, assigned_names(*trip))
        return with_body(statement, body)

    def _require_same_axes(self, before: Mapping[str, Kind], written: Sequence[str]) -> None:
        """Raise `_RestartError` if a name gains or loses the axis in a block that assigns it."""
        for name in written:
            old = before.get(name)
            if old is not None and old.lifted != self._is_lifted(name):
                raise _RestartError(name)

    # ------------------------------------------------------------------------- branches

    def _plain_branch(self, statement: cst.If) -> cst.BaseStatement:
        if self.lifting.lift_expression(statement.test).kind.lifted or isinstance(
            statement.orelse, cst.If
        ):
            raise CannotLiftError(f"if {render_code(statement.test)}")
        before = dict(self.lifting.kinds)
        branch = with_body(statement, self.inner_block(statements_of(statement)))
        self._require_same_axes(before, assigned_names(statement))
        if isinstance(statement.orelse, cst.Else):
            first, self.lifting.kinds = self.lifting.kinds, dict(before)
            side = statements_of(statement.orelse)
            branch = branch.with_changes(orelse=with_body(statement.orelse, self.inner_block(side)))
            self._require_same_axes(before, assigned_names(*side))
            self._require_same_axes(first, assigned_names(*side))
            if any(
                first[name].rank != k.rank
                for name, k in self.lifting.kinds.items()
                if name in first
            ):
                raise CannotLiftError(f"axes behind if {render_code(statement.test)}")
            self.lifting.kinds = {**first, **self.lifting.kinds}
        return branch

    def _own_ends(self, statement: cst.If, rest: Body) -> list[cst.BaseStatement] | None:
        """Lift a branch whose sides leave blocks of other axes, with all that follows on each side.

        A constant decides it: Triton compiles one of the sides. ``None`` if the axes are the same.
        """
        if not isinstance(statement.orelse, cst.Else) or self.depth:
            return None
        sides = (statements_of(statement), statements_of(statement.orelse))
        ranks = [self._ranks_behind(side) for side in sides]
        if all(ranks[0][name] == ranks[1][name] for name in set(ranks[0]) & set(ranks[1])):
            return None
        kinds, values = dict(self.lifting.kinds), dict(self.values)
        lifted = []
        for side, is_true in zip(sides, (True, False), strict=True):
            self.lifting.kinds, self.values = dict(kinds), dict(values)
            certain = [] if names_within(statement.test) & set(assigned_names(*side)) else [is_true]
            lifted.append(self.inner_block([*side, *_decided(rest, statement.test, certain)]))
        other = with_body(statement.orelse, lifted[1])
        return [with_body(statement, lifted[0]).with_changes(orelse=other)]

    def _ranks_behind(self, body: Body) -> dict[str, int]:
        """Return the axes of what statements assign, as they leave it."""
        kinds, values = self.lifting.kinds, self.values
        self.lifting.kinds, self.values = dict(kinds), dict(values)
        try:
            self.inner_block(body)
            ends = self.lifting.kinds
        finally:
            self.lifting.kinds, self.values = kinds, values
        return {name: ends[name].rank for name in assigned_names(*body) if name in ends}

    def _lift_branch(self, statement: cst.If, rest: Body) -> list[cst.BaseStatement] | None:
        """Narrow the mask by ``if outside: return``, or a last statement ``if inside:``.

        Any other branch becomes masks of its own.
        """
        test = self.lifting.lift_expression(statement.test)
        if not test.kind.lifted:
            return None
        if test.kind.rank or not self.lifting.valid or isinstance(statement.orelse, cst.If):
            raise CannotLiftError(f"if {render_code(statement.test)}")
        body, valid = statements_of(statement), self.lifting.valid
        if statement.orelse is not None:
            return [*self._masked_branch(statement), *self.block(rest)]
        if [render_code(inner) for inner in body] == ["return"]:
            narrowed = parse_statement(
                f"{valid} = {valid} & ~{render_code(parenthesized(test.node))}"
            )
            return [narrowed, *self.block(rest)]
        if rest or self.depth:  # the mask would stay narrow for what comes after
            return [*self._masked_branch(statement), *self.block(rest)]
        return [
            parse_statement(f"{valid} = {valid} & {render_code(parenthesized(test.node))}"),
            *self.block(body),
        ]

    def _masked_branch(self, statement: cst.If) -> list[cst.BaseStatement]:
        """Lift a branch as statements that happen where its test holds, and its ``else``."""
        taken = "taken"
        while taken in self.lifting.kinds or taken in names_within(statement):
            taken += "_"
        test = render_code(parenthesized(statement.test))
        result = self.statement(parse_statement(f"{taken} = {test}"))
        result += self._under(statements_of(statement), taken)
        if isinstance(statement.orelse, cst.Else):
            result += self.statement(parse_statement(f"{taken}_not = ~{taken}"))
            result += self._under(statements_of(statement.orelse), f"{taken}_not")
        return result

    def _under(self, body: Body, taken: str) -> list[cst.BaseStatement]:
        """Lift statements that happen where a name holds."""
        result: list[cst.BaseStatement] = []
        before = set(self.lifting.kinds)
        for statement in body:
            if not isinstance(statement, cst.SimpleStatementLine):
                raise CannotLiftError(render_code(statement))
            for call in calls_within(statement, "tl.load"):
                where = taken
                if not self.lifting.lift_expression(call.args[0].value).kind.lifted:
                    where = f"{taken}_any"  # one place, read if any of the new axis reads it
                    if where not in self.lifting.kinds:
                        self.lifting.kinds[where] = Kind(0, False)
                        reduced = (
                            f"tl.max(({self.lifting.valid} & {taken}).to(tl.int32), axis=0) > 0"
                        )
                        result.append(parse_statement(f"{where} = {reduced}"))
                statement = replace_each(statement, [(call, narrowed_access(call, where, 1))])
            result += self.statement(self._where_taken(statement, taken, before))
        return result

    def _where_taken(
        self, statement: cst.SimpleStatementLine, taken: str, before: Collection[str]
    ) -> cst.BaseStatement:
        """Return a statement that changes what was there before only where a name holds."""
        binding, call = single_assignment(statement), expression_statement(statement)
        if isinstance(call, cst.Call) and called_name(call) in PLAIN_WRITES:
            return replace_each(statement, [(call, narrowed_access(call, taken, 2))])
        if binding is None:
            raise CannotLiftError(render_code(statement))
        if binding.target not in before and not binding.operator:
            return statement
        if binding.operator in ("+=", "-="):
            added = f"tl.where({taken}, {render_code(binding.operand)}, 0)"
            return parse_statement(f"{binding.target} {binding.operator} {added}")
        value = f"tl.where({taken}, {render_code(binding.value)}, {binding.target})"
        return parse_statement(f"{binding.target} = {value}")

    # ------------------------------------------------------------------------- scans

    def _scan(self, running: Running) -> list[cst.BaseStatement]:
        """Return statements that make a block of running values, and the total behind them.

        Raises:
            CannotLiftError: the total has fewer axes than what trips bring.
        """
        if self.chunk is not None and self.chunk.running is running:
            return self._chunk_update(self.chunk)
        name, total, element, kind = running.name, running.total, running.element, running.kind
        factor = running.factor
        rank = self.lifting.kinds.get(total, Kind(0, False)).rank
        fills = {element: kind.fill}
        if kind is RunningKind.RECURRENCE:
            fills[factor] = RunningKind.PRODUCT.fill
        lines = [self._masked_element(part, fill, rank) for part, fill in fills.items()]
        self.lifting.kinds |= dict.fromkeys((name, *fills), Kind(rank, True))
        last = "0" if self.is_reverse else f"{self.width} - 1"
        is_last = f"tl.arange(0, {self.width}){self._axes_behind(rank)} == {last}"
        order = ", reverse=True" if self.is_reverse else ""
        combine, word = f"{self.combiners.get(kind)}{order}", kind.value[:3]
        at_end = f"tl.sum(tl.where({is_last}, {name}, 0), axis=0)"
        if kind is RunningKind.RECURRENCE:
            lines.append(f"{factor}, {element} = tl.broadcast({factor}, {element})")
            lines.append(
                f"{factor}, {name} = tl.associative_scan(({factor}, {element}), 0, {combine})"
            )
            operation, reduced = f"{total} * {factor} + {name}", at_end
        elif kind is RunningKind.SUM:
            lines.append(f"{name} = tl.cumsum({element}, axis=0{order})")
            operation, reduced = f"{total} + {name}", f"{total} + tl.sum({element}, axis=0)"
        elif kind is RunningKind.PRODUCT:
            lines.append(f"{name} = tl.cumprod({element}, axis=0{order})")
            operation, reduced = f"{total} * {name}", at_end
        else:
            lines.append(f"{name} = tl.associative_scan({element}, 0, {combine})")
            operation = f"tl.{word}imum({total}, {name})"
            reduced = f"tl.{word}imum({total}, tl.{word}({element}, axis=0))"
        whole = self.lifting.lift_expression(parse_expression(operation))
        lines += [f"{name} = {render_code(whole.node)}", f"{total} = {reduced}"]
        return [parse_statement(line) for line in lines]

    def _chunk_update(self, chunk: Chunk) -> list[cst.BaseStatement]:
        """Return statements that make the state behind a block of trips.

        Raises:
            CannotLiftError: a factor has axes, or an operand is no vector of each trip.
        """
        self._require_vectors(chunk.first.name, chunk.second.name)
        factors = ""
        if chunk.has_factors:
            value = self.lifting.lift_expression(cst.Name(chunk.running.factor))
            if value.kind.rank:
                raise CannotLiftError(f"the axes of {chunk.running.factor}")
            factors = render_code((value if value.kind.lifted else self._broadcast(value)).node)
            if self.is_final or value.kind.lifted:
                factors = f"tl.where({self.mask}, {factors}, 1.0)"
        return list(map(parse_statement, chunk.update(factors, self.width, self.mask)))

    def _require_vectors(self, *names: str) -> None:
        for name in names:
            if self.lifting.kinds.get(name) != Kind(1, True):
                raise CannotLiftError(f"the axes of {name}")

    @staticmethod
    def _axes_behind(rank: int) -> str:
        """Return what gives a vector along the new axis more axes."""
        return f"[:{', None' * rank}]" if rank else ""

    def _masked_element(self, name: str, fill: str, rank: int) -> str:
        """Return the line that gives an element its axes, and a fill where no trip is."""
        value = self.lifting.lift_expression(cst.Name(name))
        if value.kind.rank > rank:
            raise CannotLiftError(f"the axes of {name}")
        if not value.kind.lifted:
            value = self._broadcast(value)
        mask = self.mask + self._axes_behind(rank)
        return f"{name} = tl.where({mask}, {render_code(promote_operand(value, rank))}, {fill})"

    def _extremum(self, extremum: Extremum) -> list[cst.BaseStatement]:
        """Return statements that take a block's extremum, and what came with it, if it is beyond.

        Raises:
            CannotLiftError: trips bring the same.
        """
        name, element, top, at = extremum.name, extremum.element, extremum.top, extremum.at
        kind = self.lifting.lift_expression(cst.Name(element)).kind
        rank = self.lifting.kinds.get(name, Kind(0, False)).rank
        if not kind.lifted or kind.rank != rank:
            raise CannotLiftError(f"an extremum of {element}")
        axes = self._axes_behind(rank)
        best = render_code(promote_operand(Lifted(cst.Name(name), Kind(rank, False)), rank))
        word, sign = ("max", ">") if extremum.is_maximum else ("min", "<")
        inside = f"{self.mask}{axes} & ({element} == {element})"
        taken = extremum.taken
        lines = [
            f"{element} = tl.where({inside}, {element}, {best})",
            f"{top}, {at} = tl.{word}({element}, axis=0, return_indices=True)",
            f"{taken} = {top} {sign} {name}",
        ]
        for follower, brought in extremum.followers.items():
            own = self.lifting.lift_expression(cst.Name(brought)).kind
            chosen = brought
            if follower in extremum.places:
                index = parse_expression(f"{self.first}{at}")
                place = substitute_names(extremum.places[follower], {self.index: index})
                chosen = render_code(place)
            elif own.lifted:
                lane = render_code(promote_operand(Lifted(cst.Name(at), Kind(rank, False)), rank))
                is_own = f"tl.arange(0, {self.width}){axes} == {lane}"
                value = render_code(promote_operand(Lifted(cst.Name(brought), own), rank))
                chosen = f"tl.sum(tl.where({is_own}, {value}, 0), axis=0).to({brought}.dtype)"
            lines.append(f"{follower} = tl.where({taken}, {chosen}, {follower})")
        lines.append(f"{name} = tl.where({taken}, {top}, {name})")
        return [parse_statement(line) for line in lines]

    # ------------------------------------------------------------------------- reductions

    def _lift_carried(self, statement: cst.BaseStatement, binding: Assignment) -> cst.BaseStatement:
        value = self._reduce_carried(binding.target, binding.value)
        before = self.lifting.kinds.get(binding.target)
        self.lifting.kinds[binding.target] = before if before is not None else Kind(0, False)
        prefix = f"{binding.target} + "
        if binding.operator == "+=" and value.startswith(prefix):
            text = f"{binding.target} += {value.removeprefix(prefix)}"
        else:
            text = f"{binding.target} = {value}"
        return parse_statement(text).with_changes(**_leading_comments(statement))

    def _reduce_carried(self, target: str, value: cst.BaseExpression) -> str:
        """Return a carried name's next value, a block's part of it reduced."""
        if not self.lifting.lift_expression(value).kind.lifted:
            read = names_within(value) - {target, "tl"}
            if target in names_within(value) and not read & self.within:
                # it happens once an element
                raise CannotLiftError(f"{target} = {render_code(value)}")
            return render_code(value)
        if is_operation(value, cst.Add, cst.Subtract):
            first, second = map(self.lifting.lift_expression, (value.left, value.right))
            sign = render_code(value.operator).strip()
            kept, added = (value.left, value.right)
            if first.kind.lifted:
                kept, added = added, kept
            if not self._is_carried_over(kept, target) or target in names_within(added):
                raise CannotLiftError(f"{target} = {render_code(value)}")
            if not first.kind.lifted:
                return f"{render_code(first.node)} {sign} {self._sum(second, target)}"
            if not second.kind.lifted and sign == "+":
                return f"{render_code(second.node)} + {self._sum(first, target)}"
        reduced = self._reduced_extreme(value)
        if reduced is None:
            raise CannotLiftError(f"{target} = {render_code(value)}")
        return reduced

    def _reduced_extreme(self, value: cst.BaseExpression) -> str | None:
        """Return the next value of a carried maximum or minimum; ``None`` for other values."""
        name = called_name(value)
        for word, fill in (("max", "-"), ("min", "")):
            if name in (word, f"tl.{word}imum"):
                one, two = argument_of(value, 0), argument_of(value, 1)
                if one is None or two is None:
                    break
                parts = [self.lifting.lift_expression(one), self.lifting.lift_expression(two)]
                if parts[0].kind.lifted:
                    parts.reverse()
                if not parts[0].kind.lifted:
                    inner = self._mask_value(parts[1], f'float("{fill}inf")')
                    return (
                        f"tl.{word}imum({render_code(parts[0].node)}, tl.{word}({inner}, axis=0))"
                    )
        return None

    def _is_carried_over(self, node: cst.BaseExpression, target: str) -> bool:
        """Tell whether a trip takes a value as it is, or rescaled to another maximum."""
        if render_code(node) == target:
            return True
        if not is_operation(node, cst.Multiply):
            return False
        scale = node.right if render_code(node.left) == target else node.left
        scale = self.values.get(render_code(scale), scale)
        rescales = called_name(scale) in EXPONENTIALS and names_within(scale) <= {
            *self.carried,
            "tl",
        }
        return target in (render_code(node.left), render_code(node.right)) and rescales

    def _sum(self, value: Lifted, target: str) -> str:
        """Return the sum of a block that a trip adds, in the type of what it is added to."""
        product = as_product(value.node)
        if product:
            return product
        dtype = self.types.get(target)
        if dtype is not None and not (dtype == "float32" and is_fp32(value.node, self.values)):
            converted = f"{render_code(parenthesized(value.node))}.to(tl.{dtype})"
            value = replace(value, node=parse_expression(converted))
        return f"tl.sum({self._mask_value(value, '0')}, axis=0)"

    def _mask_value(self, value: Lifted, fill: str) -> str:
        mask = self.mask + self._axes_behind(value.kind.rank)
        return f"tl.where({mask}, {render_code(value.node)}, {fill})"


def _decided(
    body: Body, test: cst.BaseExpression, sides: Sequence[bool]
) -> list[cst.BaseStatement]:
    """Return statements without branches on a test of which only some sides are left."""
    changes = names_within(test) & set(assigned_names(*body)) or calls_within(test)
    if len(sides) != 1 or changes:
        return list(body)
    (is_true,) = sides
    result: list[cst.BaseStatement] = []
    for statement in body:
        if not isinstance(statement, cst.If) or render_code(statement.test) != render_code(test):
            result.append(statement)
        elif is_true:
            result += statements_of(statement)
        elif isinstance(statement.orelse, cst.If):
            result.append(statement.orelse)
        elif statement.orelse is not None:
            result += statements_of(statement.orelse)
    return result


def narrowed_access(call: cst.Call, taken: str, mask_at: int) -> cst.Call:
    """Return an access that happens where a name holds, too; a load gives 0 elsewhere."""
    mask = argument_of(call, mask_at, "mask")
    whole = taken if mask is None else f"{taken} & {render_code(parenthesized(mask))}"
    parts = []
    for index, arg in enumerate(call.args):
        word = arg.keyword.value if arg.keyword is not None else ""
        if arg.value is mask:
            continue
        word = word or ("other" if mask_at == 1 and index == mask_at + 1 else "")
        value = render_code(arg.value)
        parts.append(f"{word}={value}" if word else value)
    parts.append(f"mask={whole}")
    if mask_at == 1 and argument_of(call, mask_at + 1, "other") is None:
        parts.append("other=0")
    return cst.ensure_type(parse_expression(f"{called_name(call)}({', '.join(parts)})"), cst.Call)


def _leading_comments(statement: cst.BaseStatement) -> dict[str, object]:
    """Return the comments above a statement."""
    return {"leading_lines": getattr(statement, "leading_lines", ())}


def _is_number(text: str) -> bool:
    plain = text.lstrip("-").strip("()")
    if plain.startswith("float("):
        return True
    try:
        float(plain)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------- whole functions

_MOST_RESTARTS = 20


def lifted_body(
    body: Body, seeds: Sequence[str], width: str, valid: str, functions: Mapping[str, JitFunction]
) -> list[cst.BaseStatement]:
    """Return the statements of a function whose names `seeds` have become vectors.

    Args:
        body: the statements after those that assign the seeds.
        seeds: names.
        width: the constant that is their length.
        valid: the name of the mask over them.
        functions: of the file.

    Raises:
        CannotLiftError: the code has something that cannot be lifted.
    """
    forced: set[str] = set()
    for _ in range(_MOST_RESTARTS):
        kinds = {name: Kind(0, True) for name in seeds}
        worker = _Body(Lifting(functions, width, kinds, valid), width, forced)
        try:
            return worker.block(body)
        except _RestartError as restart:
            forced.add(restart.name)
    raise CannotLiftError("too many names that loops carry")


def scalar_names(function: JitFunction, functions: Mapping[str, JitFunction]) -> set[str]:
    """Return names of a function that hold scalars wherever they are assigned; all its parameters.

    What cannot be read counts as a block.
    """
    blocks: set[str] = set()
    worker = _Body(Lifting(functions), "")
    for statement in walk_statements(function.body):
        if isinstance(statement, (cst.For, cst.If, cst.While)):
            continue
        targets = assigned_names(statement)
        try:
            worker.statement(statement)
        except (CannotLiftError, _RestartError):
            blocks |= set(targets)
            worker.lifting.kinds |= {name: Kind(1, False) for name in targets}
            continue
        kinds = worker.lifting.kinds
        blocks |= {name for name in targets if name in kinds and kinds[name].rank}
    return {*function.params, *assigned_names(*function.body)} - blocks


def lifted_loop(
    before: Body,
    statement: cst.For,
    width: str,
    fresh: str,
    functions: Mapping[str, JitFunction],
    after: Body = (),
    combiners: Mapping[RunningKind, str] | None = None,
    chunks: bool = False,
) -> cst.BaseStatement:
    """Return a loop over single elements as a loop over blocks of them.

    Args:
        before: the function's statements ahead of it.
        statement: the loop.
        width: the constant that is the length of a block.
        fresh: the name of the new loop's variable.
        functions: of the file.
        after: the function's statements behind it.
        combiners: names of functions that join elements of scans, by kind; none if the loop may
            make no running values.
        chunks: whether a running state that trips add outer products to is made for whole blocks
            alone.

    Raises:
        CannotLiftError: the code has something that cannot be lifted, or has no such state.
    """
    loop = range_loop(statement)
    if loop is None:
        raise CannotLiftError("a loop that is over no range")
    trip = without_running(loop, names_within(*after))
    running: dict[str, Running] = {}
    taken = names_within(statement, *before, *after)
    if combiners is not None and carried_by(with_single_updates(trip), loop.name) is None:
        trip, running = with_running_values(trip, before, taken)
        if running and not (writes_in_order(loop) and not writes_by(trip, running)):
            raise CannotLiftError("trips may write to one place")
    chunk = None
    if chunks:
        blocks = {name for name, kind in _kinds_of(before, functions).items() if kind.rank}
        states = (with_chunk(trip, r, taken, blocks) for r in running.values())
        trip, chunk = next(filter(None, states), (trip, None))
        if chunk is None:
            raise CannotLiftError("no state that gets outer products")
    updates = carried_by(with_single_updates(trip), loop.name)
    if updates is None:
        raise CannotLiftError("what a trip does with what others carry")
    trip, extrema = with_extrema(trip, updates, loop.name, taken)
    kinds = {r.kind for r in running.values()}
    is_ordered = RunningKind.RECURRENCE in kinds or bool(extrema) or chunk is not None
    indices = _Indices(loop, loop.name) if is_ordered else _Indices.of(loop, trip)
    trip = [s for s in trip if s is not indices.statement]
    forced: set[str] = set()
    for _ in range(_MOST_RESTARTS):
        worker = _loop_body(before, indices.name, trip, after, width, functions)
        worker.forced, worker.running, worker.combiners = forced, running, combiners or {}
        worker.is_reverse, worker.extrema = indices.statement is not None, extrema
        worker.index, worker.first = loop.name, f"{fresh} + {_factor(loop)}"
        worker.chunk = chunk
        worker.is_final = chunk is None or chunk.running.total in names_within(*after)
        own = set(assigned_names(*trip)) - worker.carried
        if last := own & names_read_first(after):
            raise CannotLiftError(f"{', '.join(sorted(last))} of the last trip")
        try:
            head = indices.block(fresh, width, worker.mask)
            return _blocked(loop, fresh, width, [*head, *worker.block(trip)])
        except _RestartError as restart:
            forced.add(restart.name)
    raise CannotLiftError("too many names that loops carry")


def _kinds_of(body: Body, functions: Mapping[str, JitFunction]) -> dict[str, Kind]:
    """Return the kinds of the names that statements assign."""
    worker = _Body(Lifting(functions), "")
    worker.block(body)
    return worker.lifting.kinds


def _loop_body(
    before: Body,
    index: str,
    trip: Body,
    after: Body,
    width: str,
    functions: Mapping[str, JitFunction],
) -> _Body:
    """Return what lifts a loop's trip, with a name for its mask that none around it has."""
    kinds = {**_kinds_of(before, functions), index: Kind(0, True)}
    mask = free_name(f"{index}_mask", names_within(*before, *trip, *after))
    worker = _Body(Lifting(functions, width, kinds, mask, fills=True), width)
    worker.carried = carried_names(trip, set(kinds) - {index})
    worker.within, worker.mask = set(assigned_names(*trip)), mask
    starts = {name: start_of_name(name, before) for name in worker.carried}
    worker.types = {name: start.dtype for name, start in starts.items() if start is not None}
    return worker


@dataclass(frozen=True)
class _Indices:
    """The index of a trip, as a block of trips has it: a range that grows, which loads need.

    Attributes:
        loop: the loop.
        name: of the index.
        statement: what counts down with the loop's variable, if it does nothing else.
        first: what the index counts down from.
    """

    loop: Loop
    name: str
    statement: cst.BaseStatement | None = None
    first: cst.BaseExpression | None = None

    @staticmethod
    def of(loop: Loop, trip: Sequence[cst.BaseStatement]) -> _Indices:
        """Return a loop's index: its variable, or ``first - variable``."""
        reading = [s for s in trip if loop.name in names_within(s)]
        binding = single_assignment(reading[0]) if len(reading) == 1 else None
        value = None if binding is None else binding.value
        if (
            binding is None
            or not isinstance(value, cst.BinaryOperation)
            or not isinstance(value.operator, cst.Subtract)
            or render_code(value.right) != loop.name
            or names_within(value.left) & {loop.name, *assigned_names(*trip)}
            or assigned_names(*trip).count(binding.target) != 1
            or render_code(loop.step) != "1"
        ):
            return _Indices(loop, loop.name)
        return _Indices(loop, binding.target, reading[0], value.left)

    def block(self, fresh: str, width: str, mask: str) -> list[cst.BaseStatement]:
        """Return the statements that make a block's indices, and the mask of those in the loop."""
        stop = render_code(parenthesized(self.loop.stop))
        if self.first is None:
            step = _factor(self.loop)
            indices = f"{fresh} + {step}tl.arange(0, {width})"
            inside = f"{self.name} < {stop}"
        else:
            code, above = render_code(self.first), _above(self.first)
            down = f"{above} - {fresh} - {width}" if above else f"{code} - {fresh} - ({width} - 1)"
            indices = f"{down} + tl.arange(0, {width})"
            inside = f"{self.name} >= 0" if above == stop else f"{self.name} > {code} - {stop}"
        lines = f"{self.name} = {indices}\n{mask} = {inside}\n"
        return parse_statements(lines)


def _above(node: cst.BaseExpression) -> str:
    """Return the size that an expression is 1 less than: it may divide what the size divides."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        return render_code(parenthesized(node.left)) if render_code(node.right) == "1" else ""
    return ""


def _factor(loop: Loop) -> str:
    step = render_code(parenthesized(loop.step))
    return "" if step == "1" else f"{step} * "


def _blocked(loop: Loop, fresh: str, width: str, trip: Body) -> cst.BaseStatement:
    """Return a loop over blocks, of which each does a lifted trip."""
    step = _factor(loop)
    bounds = f"range({render_code(loop.start)}, {render_code(loop.stop)}, {step}{width})"
    lifted = with_body(loop.node, trip)
    return lifted.with_changes(target=cst.Name(fresh), iter=parse_expression(bounds))


def without_running(loop: Loop, read_after: set[str]) -> list[cst.BaseStatement]:
    """Return a loop's body in which names that grow by the same each trip follow from its variable.

    Pointers that move on are such names: ``p += stride``.

    Raises:
        CannotLiftError: such a name is read after the loop.
    """
    body, grown = list(loop.body), running_updates(loop)
    for place, binding in grown.items():
        if binding.target in read_after:
            raise CannotLiftError(
                f"{binding.target} {binding.operator} {render_code(binding.operand)}"
            )
        for at, statement in enumerate(body):
            trips = _trip_count(loop, 1 if at > place else 0)
            step = render_code(parenthesized(binding.operand))
            moved = f"{binding.target} {binding.operator[0]} {trips} * {step}"
            body[at] = substitute_names(statement, {binding.target: parse_expression(moved)})
    return [statement for at, statement in enumerate(body) if at not in grown]


def _trip_count(loop: Loop, more: int) -> str:
    """Return how many trips there were, as an expression."""
    start, step = render_code(loop.start), render_code(loop.step)
    passed = (
        loop.name if start == "0" else f"({loop.name} - {render_code(parenthesized(loop.start))})"
    )
    if step != "1":
        passed = f"({passed} // {render_code(parenthesized(loop.step))})"
    return f"({passed} + 1)" if more else passed
