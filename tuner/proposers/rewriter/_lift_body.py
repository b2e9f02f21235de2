"""Lifting the statements of a Triton function: all of it, or the body of one loop.

A name that is a scalar before a loop and a vector after it must be a vector from the start: then
the whole is lifted again with that known. In a loop that becomes a loop over blocks, what is
carried from trip to trip stays as it is, and a block's part of it is reduced first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._file import JitFunction
from solkit.tuner.proposers.rewriter._lift import CannotLiftError, Kind, Lifted, Lifting, promoted
from solkit.tuner.proposers.rewriter._products import as_product
from solkit.tuner.proposers.rewriter._syntax import (
    EXPONENTIALS,
    Assignment,
    Loop,
    argument_of,
    assigned,
    assignment,
    body_of,
    called,
    code,
    expression,
    first,
    grouped,
    line,
    loop_of,
    names,
    running,
    substitute,
    with_body,
)

__all__ = ["lifted_body", "lifted_loop"]

_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
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
    """

    lifting: Lifting
    width: str
    forced: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    within: set[str] = field(default_factory=set)
    mask: str = ""
    values: dict[str, cst.BaseExpression] = field(default_factory=dict)

    def block(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        statements: list[cst.BaseStatement] = []
        for index, statement in enumerate(body):
            if isinstance(statement, cst.If):
                branch = self._branch(statement, body[index + 1 :])
                if branch is not None:
                    return [*statements, *branch]
            statements += self.statement(statement)
        return statements

    # ------------------------------------------------------------------------- statements

    def statement(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        binding = assignment(statement)
        if binding is not None:
            return [self._assigned(statement, binding)]
        if isinstance(statement, cst.For):
            return [self._loop(statement)]
        if isinstance(statement, cst.If):
            return [self._plain_branch(statement)]
        call = first(statement)
        if isinstance(call, cst.Call) and called(call) in _WRITES:
            return [line(code(self.lifting.store(call))).with_changes(**_leading(statement))]
        used = names(statement) | set(assigned(statement))
        if any(self._is_lifted(name) for name in used):
            if isinstance(call, cst.Call) and called(call) in _IGNORED:
                return []
            raise CannotLiftError(code(statement))
        for name in assigned(statement):
            self.lifting.kinds[name] = Kind(0, False)
        return [statement]

    def _is_lifted(self, name: str) -> bool:
        kind = self.lifting.kinds.get(name)
        return kind is not None and kind.lifted

    def _assigned(self, statement: cst.BaseStatement, binding: Assignment) -> cst.BaseStatement:
        self.values[binding.target] = binding.value
        if binding.target in self.carried:
            return self._carried(statement, binding)
        value = self.lifting.lift(binding.value)
        if binding.target in self.forced and not value.kind.lifted:
            value = self._broadcast(value)
        old = self.lifting.kinds.get(binding.target, Kind(0, False))
        self.lifting.kinds[binding.target] = value.kind
        if binding.operator and value.kind == old:
            operand = self.lifting.lift(binding.operand)
            text = code(promoted(operand, value.kind.rank) if value.kind.lifted else operand.node)
            return line(f"{binding.target} {binding.operator} {text}").with_changes(
                **_leading(statement)
            )
        return line(f"{binding.target} = {code(value.node)}").with_changes(**_leading(statement))

    def _broadcast(self, value: Lifted) -> Lifted:
        """Return a value without the axis, repeated along it."""
        node, rank = value.node, value.kind.rank
        kind = Kind(rank, True)
        if rank == 0:
            text = code(node)
            dtype = "tl.int32" if text.lstrip("-").isdigit() else "tl.float32"
            if _is_number(text):
                return Lifted(expression(f"tl.full(({self.width},), {text}, {dtype})"), kind)
            return Lifted(expression(f"{text} + tl.zeros(({self.width},), tl.float32)"), kind)
        if called(node) in ("tl.zeros", "tl.full"):
            call = cst.ensure_type(node, cst.Call)
            shape = call.args[0].value
            inner = code(shape)[1:-1].rstrip(", ")
            whole = expression(f"({self.width}, {inner})")
            args = [call.args[0].with_changes(value=whole), *call.args[1:]]
            return Lifted(call.with_changes(args=args), kind)
        raise CannotLiftError(code(node))

    def _loop(self, statement: cst.For) -> cst.BaseStatement:
        loop = loop_of(statement)
        bounds = () if loop is None else (loop.start, loop.stop, loop.step)
        if loop is None or any(self.lifting.lift(bound).kind.lifted for bound in bounds):
            raise CannotLiftError(code(statement.iter))
        before = dict(self.lifting.kinds)
        self.lifting.kinds[loop.name] = Kind(0, False)
        body = self.block(loop.body)
        self._agree(before, assigned(*loop.body))
        return with_body(statement, body)

    def _agree(self, before: Mapping[str, Kind], written: Sequence[str]) -> None:
        """Raise `_RestartError` if a name without the axis gains it in a block that assigns it."""
        for name in written:
            old = before.get(name)
            if old is not None and not old.lifted and self._is_lifted(name):
                raise _RestartError(name)

    # ------------------------------------------------------------------------- branches

    def _plain_branch(self, statement: cst.If) -> cst.BaseStatement:
        if self.lifting.lift(statement.test).kind.lifted or isinstance(statement.orelse, cst.If):
            raise CannotLiftError(f"if {code(statement.test)}")
        before = dict(self.lifting.kinds)
        branch = with_body(statement, self.block(body_of(statement)))
        self._agree(before, assigned(statement))
        if isinstance(statement.orelse, cst.Else):
            other = with_body(statement.orelse, self.block(body_of(statement.orelse)))
            self._agree(before, assigned(statement))
            branch = branch.with_changes(orelse=other)
        return branch

    def _branch(
        self, statement: cst.If, rest: Sequence[cst.BaseStatement]
    ) -> list[cst.BaseStatement] | None:
        """Narrow the mask by ``if outside: return``, or a last statement ``if inside:``."""
        test = self.lifting.lift(statement.test)
        if not test.kind.lifted:
            return None
        if statement.orelse is not None or test.kind.rank or not self.lifting.valid:
            raise CannotLiftError(f"if {code(statement.test)}")
        body, valid = body_of(statement), self.lifting.valid
        if [code(inner) for inner in body] == ["return"]:
            narrowed = line(f"{valid} = {valid} & ~{code(grouped(test.node))}")
            return [narrowed, *self.block(rest)]
        if rest:
            raise CannotLiftError(f"if {code(statement.test)}")
        return [line(f"{valid} = {valid} & {code(grouped(test.node))}"), *self.block(body)]

    # ------------------------------------------------------------------------- reductions

    def _carried(self, statement: cst.BaseStatement, binding: Assignment) -> cst.BaseStatement:
        value = self._reduced(binding.target, binding.value)
        before = self.lifting.kinds.get(binding.target)
        self.lifting.kinds[binding.target] = before if before is not None else Kind(0, False)
        prefix = f"{binding.target} + "
        if binding.operator == "+=" and value.startswith(prefix):
            text = f"{binding.target} += {value.removeprefix(prefix)}"
        else:
            text = f"{binding.target} = {value}"
        return line(text).with_changes(**_leading(statement))

    def _reduced(self, target: str, value: cst.BaseExpression) -> str:
        """Return a carried name's next value, a block's part of it reduced."""
        if not self.lifting.lift(value).kind.lifted:
            read = names(value) - {target, "tl"}
            if target in names(value) and not read & self.within:
                raise CannotLiftError(f"{target} = {code(value)}")  # it happens once an element
            return code(value)
        if isinstance(value, cst.BinaryOperation) and isinstance(
            value.operator, (cst.Add, cst.Subtract)
        ):
            left, right = self.lifting.lift(value.left), self.lifting.lift(value.right)
            sign = code(value.operator).strip()
            kept, added = (value.left, value.right)
            if left.kind.lifted:
                kept, added = added, kept
            if not self._is_carried_over(kept, target) or target in names(added):
                raise CannotLiftError(f"{target} = {code(value)}")
            if not left.kind.lifted:
                return f"{code(left.node)} {sign} {self._sum(right)}"
            if not right.kind.lifted and sign == "+":
                return f"{code(right.node)} + {self._sum(left)}"
        reduced = self._reduced_extreme(value)
        if reduced is None:
            raise CannotLiftError(f"{target} = {code(value)}")
        return reduced

    def _reduced_extreme(self, value: cst.BaseExpression) -> str | None:
        """Return the next value of a carried maximum or minimum; ``None`` for other values."""
        name = called(value)
        for word, fill in (("max", "-"), ("min", "")):
            if name in (word, f"tl.{word}imum"):
                call = cst.ensure_type(value, cst.Call)
                one, two = argument_of(call, 0), argument_of(call, 1)
                if one is None or two is None:
                    break
                parts = [self.lifting.lift(one), self.lifting.lift(two)]
                if parts[0].kind.lifted:
                    parts.reverse()
                if not parts[0].kind.lifted:
                    inner = self._masked(parts[1], f'float("{fill}inf")')
                    return f"tl.{word}imum({code(parts[0].node)}, tl.{word}({inner}, axis=0))"
        return None

    def _is_carried_over(self, node: cst.BaseExpression, target: str) -> bool:
        """Tell whether a trip takes a value as it is, or rescaled to another maximum."""
        if code(node) == target:
            return True
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return False
        scale = node.right if code(node.left) == target else node.left
        scale = self.values.get(code(scale), scale)
        rescales = called(scale) in EXPONENTIALS and names(scale) <= {*self.carried, "tl"}
        return target in (code(node.left), code(node.right)) and rescales

    def _sum(self, value: Lifted) -> str:
        product = as_product(value.node)
        if product:
            return product
        return f"tl.sum({self._masked(value, '0')}, axis=0)"

    def _masked(self, value: Lifted, fill: str) -> str:
        rank = value.kind.rank
        mask = self.mask + (f"[:{', None' * rank}]" if rank else "")
        return f"tl.where({mask}, {code(value.node)}, {fill})"


def _leading(statement: cst.BaseStatement) -> dict[str, object]:
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
    body: Sequence[cst.BaseStatement],
    seeds: Sequence[str],
    width: str,
    valid: str,
    functions: Mapping[str, JitFunction],
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
        worker = _Body(Lifting(functions, kinds, valid), width, forced)
        try:
            return worker.block(body)
        except _RestartError as restart:
            forced.add(restart.name)
    raise CannotLiftError("too many names that loops carry")


def lifted_loop(
    before: Sequence[cst.BaseStatement],
    statement: cst.For,
    width: str,
    fresh: str,
    functions: Mapping[str, JitFunction],
    after: Sequence[cst.BaseStatement] = (),
) -> cst.BaseStatement:
    """Return a loop over single elements as a loop over blocks of them.

    Args:
        before: the function's statements ahead of it.
        statement: the loop.
        width: the constant that is the length of a block.
        fresh: the name of the new loop's variable.
        functions: of the file.
        after: the function's statements behind it.

    Raises:
        CannotLiftError: the code has something that cannot be lifted.
    """
    loop = loop_of(statement)
    if loop is None:
        raise CannotLiftError("a loop that is over no range")
    trip = _without_running(loop, names(*after))
    ahead = _Body(Lifting(functions), width)
    ahead.block(before)
    kinds = {**ahead.lifting.kinds, loop.name: Kind(0, True)}
    worker = _Body(Lifting(functions, kinds, f"{loop.name}_mask", fills=True), width)
    worker.carried = _carried_names(trip, set(kinds) - {loop.name})
    worker.within, worker.mask = set(assigned(*trip)), f"{loop.name}_mask"
    step = "" if code(loop.step) == "1" else f"{code(grouped(loop.step))} * "
    body = [
        line(f"{loop.name} = {fresh} + {step}tl.arange(0, {width})"),
        line(f"{loop.name}_mask = {loop.name} < {code(grouped(loop.stop))}"),
        *worker.block(trip),
    ]
    bounds = f"range({code(loop.start)}, {code(loop.stop)}, {step}{width})"
    lifted = with_body(statement, body)
    return lifted.with_changes(target=cst.Name(fresh), iter=expression(bounds))


def _without_running(loop: Loop, read_after: set[str]) -> list[cst.BaseStatement]:
    """Return a loop's body in which names that grow by the same each trip follow from its variable.

    Pointers that move on are such names: ``p += stride``.

    Raises:
        CannotLiftError: such a name is read after the loop.
    """
    body, grown = list(loop.body), running(loop)
    for place, binding in grown.items():
        if binding.target in read_after:
            raise CannotLiftError(f"{binding.target} {binding.operator} {code(binding.operand)}")
        for at, statement in enumerate(body):
            trips = _trips(loop, 1 if at > place else 0)
            moved = (
                f"{binding.target} {binding.operator[0]} {trips} * {code(grouped(binding.operand))}"
            )
            body[at] = substitute(statement, {binding.target: expression(moved)})
    return [statement for at, statement in enumerate(body) if at not in grown]


def _trips(loop: Loop, more: int) -> str:
    """Return how many trips there were, as an expression."""
    start, step = code(loop.start), code(loop.step)
    passed = loop.name if start == "0" else f"({loop.name} - {code(grouped(loop.start))})"
    if step != "1":
        passed = f"({passed} // {code(grouped(loop.step))})"
    return f"({passed} + 1)" if more else passed


def _carried_names(body: Sequence[cst.BaseStatement], outer: set[str]) -> set[str]:
    """Return names that a trip hands to the next, and those that hold their next values."""
    carried, written = set(), set()
    for statement in body:
        binding = assignment(statement)
        read = names(binding.value) if binding is not None else names(statement)
        if binding is not None:
            carried |= {n for n in read & outer if n not in written and n in assigned(*body)}
            written.add(binding.target)
    for statement in reversed(body):
        binding = assignment(statement)
        if (
            binding is not None
            and binding.target in carried
            and isinstance(binding.value, cst.Name)
        ):
            carried.add(binding.value.value)
    return carried
