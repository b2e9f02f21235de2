"""Lifting: scalars of a Triton function become vectors along one new axis, which leads.

What depends on a name that gets the axis gets it too. The axis comes first, so the axes of blocks
and of reductions move up by one, and operands are aligned with explicit ``[:, None]``. A name that
is a scalar before a loop and a vector after it must be a vector from the start.
Sums of products of two blocks become ``tl.dot``.

Notation
    rank      the number of axes before lifting
    lifted    whether the new axis has been put in front of them
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import (
    carried_by,
    carried_names,
    with_single_updates,
)
from solkit.tuner.proposers.rewriter._parse import (
    EXPONENTIALS,
    Assignment,
    JitFunction,
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
    parenthesized,
    parse_expression,
    parse_statement,
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
from solkit.tuner.proposers.rewriter._products import as_product

__all__ = [
    "CannotLiftError",
    "Kind",
    "Lifted",
    "Lifting",
    "is_elementwise_call",
    "lifted_body",
    "lifted_loop",
    "scalar_names",
    "without_running",
]

# ------------------------------------------------------------------------------- expressions


_ELEMENTWISE = frozenset(
    """abs exp exp2 log log2 sqrt rsqrt sin cos sigmoid erf floor ceil maximum minimum where fma
    div_rn sqrt_rn cast tanh clamp pow expm1 log1p""".split()
)
_MODULES = ("tl.", "tl.math.", "libdevice.", "tl.extra.cuda.libdevice.", "triton.language.")
_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "xor_sum")
_HINTS = ("tl.multiple_of", "tl.max_contiguous", "tl.max_constancy")
_SCALARS = frozenset(
    "tl.program_id tl.num_programs tl.cdiv float int tl.constexpr tl.static_assert len".split()
)
_RANGES = ("range", "tl.range", "tl.static_range")
_FILLS = {
    **dict.fromkeys(("0", "0.0"), "0"),
    **{f"{sign}float({q}inf{q})": f'{sign}float("inf")' for sign in ("", "-") for q in "\"'"},
    **{f"float({q}-inf{q})": 'float("-inf")' for q in "\"'"},
}
"""Fills of a load that `tl.where` gives in the type of what is loaded."""
_LOAD_WORDS = {"mask", "other", "eviction_policy", "cache_modifier"}
_FRESH = ("tl.zeros", "tl.full", "tl.zeros_like", "tl.arange")


class CannotLiftError(Exception):
    """The code has something that cannot get another axis, which the message names."""


@dataclass(frozen=True)
class Kind:
    """The axes of a value; see the module."""

    rank: int
    lifted: bool


@dataclass(frozen=True)
class Lifted:
    """An expression after lifting, and its kind."""

    node: cst.BaseExpression
    kind: Kind


_SCALAR = Kind(0, False)


@dataclass
class Lifting:
    """Lifts expressions.

    Attributes:
        functions: of the file: those that only compute elementwise may be called on vectors.
        kinds: of names; others are scalars.
        valid: the name of the mask over the new axis; empty if all of it is valid.
        fills: whether loads give 0 where nothing is valid, for sums of products.
    """

    functions: Mapping[str, JitFunction]
    kinds: dict[str, Kind] = field(default_factory=dict)
    valid: str = ""
    fills: bool = False

    def lift_expression(self, node: cst.BaseExpression) -> Lifted:
        """Return an expression with the new axis where it has to be.

        Raises:
            CannotLiftError: it has something that this module does not know.
        """
        if isinstance(node, cst.Name):
            return Lifted(node, self.kinds.get(node.value, _SCALAR))
        if isinstance(node, cst.BinaryOperation):
            (left, right), kind = self._align_operands([node.left, node.right])
            return Lifted(node.with_changes(left=grouped_as(left, node.left), right=right), kind)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            (left, right), kind = self._align_operands([node.left, target.comparator])
            changed = target.with_changes(comparator=right)
            return Lifted(node.with_changes(left=left, comparisons=[changed]), kind)
        if isinstance(node, cst.Comparison):
            return self._of_truths(node, _chained_comparisons(node), "&")
        if isinstance(node, cst.BooleanOperation):
            sign = "&" if isinstance(node.operator, cst.And) else "|"
            return self._of_truths(node, [node.left, node.right], sign)
        if isinstance(node, cst.UnaryOperation):
            return self._lift_unary(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Call):
            return self._lift_call(node)
        if any(self.kinds.get(name, _SCALAR).lifted for name in names_within(node)):
            raise CannotLiftError(render_code(node))
        return Lifted(node, _SCALAR)

    def _lift_unary(self, node: cst.UnaryOperation) -> Lifted:
        inner = self.lift_expression(node.expression)
        if inner.kind.lifted and isinstance(node.operator, cst.Not):
            if not _is_truth_value(node.expression):
                raise CannotLiftError(render_code(node))
            return Lifted(
                parse_expression(f"~{render_code(parenthesized(inner.node))}"), inner.kind
            )
        return Lifted(node.with_changes(expression=inner.node), inner.kind)

    def _of_truths(
        self, node: cst.BaseExpression, parts: Sequence[cst.BaseExpression], sign: str
    ) -> Lifted:
        """Lift ``and``, ``or`` and chains of comparisons: vectors have only ``&`` and ``|``."""
        values, kind = self._align_operands(parts)
        if not kind.lifted:
            return Lifted(node, kind)
        if not all(map(_is_truth_value, parts)):  # `n and m` of numbers is not `n & m`
            raise CannotLiftError(render_code(node))
        text = f" {sign} ".join(f"({render_code(value)})" for value in values)
        return Lifted(parenthesized(parse_expression(text)), kind)

    def _align_operands(
        self, nodes: Sequence[cst.BaseExpression]
    ) -> tuple[list[cst.BaseExpression], Kind]:
        """Return operands of one elementwise operation, with their axes aligned."""
        lifted = [self.lift_expression(node) for node in nodes]
        kind = Kind(max(e.kind.rank for e in lifted), any(e.kind.lifted for e in lifted))
        if not kind.lifted:
            return [part.node for part in lifted], kind
        return [promote_operand(part, kind.rank) for part in lifted], kind

    def _subscript(self, node: cst.Subscript) -> Lifted:
        base = self.lift_expression(node.value)
        entries = [render_code(element.slice) for element in node.slice]
        if not set(entries) <= {":", "None"}:
            if base.kind.lifted:
                raise CannotLiftError(render_code(node))
            return Lifted(node, _SCALAR)
        kind = Kind(len(entries), base.kind.lifted)
        if not kind.lifted:
            return Lifted(node, kind)
        return Lifted(
            parse_expression(f"{render_code(parenthesized(base.node))}[:, {', '.join(entries)}]"),
            kind,
        )

    def _lift_call(self, node: cst.Call) -> Lifted:
        name = called_name(node)
        if name in _HINTS:
            inner = self.lift_expression(node.args[0].value)
            return inner if inner.kind.lifted else Lifted(node, inner.kind)
        if name == "tl.load":
            return self.load(node)
        if name in _FRESH:
            return Lifted(node, self._kind_of_new_block(node))
        if name in _SCALARS:
            return self._require_unlifted(node)
        if self.is_elementwise(name):
            return self._elementwise(node)
        if _unqualified_name(name) in _REDUCTIONS and name.startswith("tl."):
            return self._reduction(node)
        if isinstance(node.func, cst.Attribute):
            return self._lift_method(node)
        raise CannotLiftError(f"{name}()")

    def _require_unlifted(self, node: cst.Call) -> Lifted:
        if any(self.lift_expression(arg.value).kind.lifted for arg in node.args):
            raise CannotLiftError(render_code(node))
        return Lifted(node, _SCALAR)

    def _kind_of_new_block(self, node: cst.Call) -> Kind:
        if called_name(node) == "tl.arange":
            return Kind(1, False)
        if called_name(node) == "tl.zeros_like":
            kind = self.lift_expression(node.args[0].value).kind
            if kind.lifted:
                raise CannotLiftError(render_code(node))
            return kind
        shape = argument_of(node, 0, "shape")
        if not isinstance(shape, (cst.Tuple, cst.List)):
            raise CannotLiftError(render_code(node))
        return Kind(len(shape.elements), False)

    def is_elementwise(self, name: str) -> bool:
        """Tell whether a function computes each element of its operands alone."""
        if any(name == prefix + _unqualified_name(name) for prefix in _MODULES):
            return is_elementwise_call(name)
        if name in ("min", "max"):
            return True
        function = self.functions.get(name)
        return function is not None and all(
            self.is_elementwise(called_name(call)) or called_name(call).endswith(".to")
            for call in calls_within(function.node)
            if "jit" not in called_name(call)
        )

    def _elementwise(self, node: cst.Call) -> Lifted:
        values, kind = self._align_operands([arg.value for arg in node.args])
        if called_name(node) in ("min", "max") and kind.lifted:  # Python's take one axis no better
            node = node.with_changes(func=parse_expression(f"tl.{called_name(node)}imum"))
        args = [a.with_changes(value=v) for a, v in zip(node.args, values, strict=True)]
        return Lifted(node.with_changes(args=args), kind)

    def _lift_method(self, node: cst.Call) -> Lifted:
        function = cst.ensure_type(node.func, cst.Attribute)
        inner = self.lift_expression(function.value)
        method = function.attr.value
        if method == "to":
            changed = function.with_changes(value=parenthesized(inner.node))
            return Lifted(node.with_changes(func=changed), inner.kind)
        if method in _REDUCTIONS:
            args = "".join(f", {render_code(arg)}" for arg in node.args)
            plain = parse_expression(f"tl.{method}({render_code(function.value)}{args})")
            return self._reduction(cst.ensure_type(plain, cst.Call))
        raise CannotLiftError(f".{method}()")

    def _reduction(self, node: cst.Call) -> Lifted:
        value = self.lift_expression(node.args[0].value)
        axis = argument_of(node, 1, "axis")
        rank = value.kind.rank
        if axis is None or render_code(axis) == "None":
            if rank > 1 and value.kind.lifted:
                raise CannotLiftError(render_code(node))
            place, remaining = 0, 0
        else:
            index = integer_literal(axis)
            if index is None:
                raise CannotLiftError(render_code(node))
            place, remaining = index, rank - 1
        if not value.kind.lifted:
            return Lifted(node, Kind(remaining, False))
        if rank == 0:
            raise CannotLiftError(render_code(node))
        text = f"{called_name(node)}({render_code(value.node)}, axis={place + 1})"
        return Lifted(parse_expression(text), Kind(remaining, True))

    # --------------------------------------------------------------------- memory

    def load(self, node: cst.Call) -> Lifted:
        """Return a load through pointers that may have become vectors."""
        pointer = self.lift_expression(node.args[0].value)
        if not pointer.kind.lifted:
            if any(self.lift_expression(arg.value).kind.lifted for arg in node.args[1:]):
                return self._load_shared_places(node, pointer.kind.rank)
            return Lifted(node, pointer.kind)
        access = self._align_access(node, pointer, skipped=1, mask_at=1)
        return Lifted(access, pointer.kind)

    def _load_shared_places(self, node: cst.Call, rank: int) -> Lifted:
        """Return a load at places that are the same along the new axis, though its mask is not.

        What any of the new axis reads is read once, and chosen where its own mask holds.

        Raises:
            CannotLiftError: it has other arguments, or gives another fill than a common number.
        """
        mask, fill = argument_of(node, 1, "mask"), argument_of(node, 2, "other")
        words = [arg.keyword.value for arg in node.args[1:] if arg.keyword is not None]
        code = "0" if fill is None else render_code(fill)
        if mask is None or code not in _FILLS or not {*words} <= _LOAD_WORDS:
            raise CannotLiftError(render_code(node))
        truth = self.lift_expression(mask)
        whole, valid = parenthesized(truth.node), self._valid_mask(truth.kind.rank)
        if valid:
            whole = parenthesized(parse_expression(f"{valid} & {render_code(whole)}"))
        any_row = f"tl.max({render_code(whole)}.to(tl.int32), axis=0) > 0"
        read = replace_each(node, [(mask, parse_expression(any_row))])
        value = promote_operand(Lifted(read, Kind(rank, False)), rank)
        chosen = promote_operand(Lifted(whole, truth.kind), rank)
        text = f"tl.where({render_code(chosen)}, {render_code(value)}, {_FILLS[code]})"
        return Lifted(parse_expression(text), Kind(rank, True))

    def store(self, node: cst.Call) -> cst.Call:
        """Return a store or an atomic operation.

        An atomic operation at one place for all of the new axis gets what they add up to.

        Raises:
            CannotLiftError: it writes the same element for several of the new axis.
        """
        pointer = self.lift_expression(node.args[0].value)
        if pointer.kind.lifted:
            return self._align_access(node, pointer, skipped=1, mask_at=2)
        reduction = _ATOMIC_REDUCTIONS.get(called_name(node))
        value, mask = argument_of(node, 1, "val"), argument_of(node, 2, "mask")
        narrowed = mask is not None and self.lift_expression(mask).kind.lifted
        if reduction is None or value is None or narrowed:
            raise CannotLiftError(f"{called_name(node)} at one place")
        lifted, (name, fill) = self.lift_expression(value), reduction
        valid = self._valid_mask(lifted.kind.rank)
        if not lifted.kind.lifted and not (name == "tl.sum" and valid):  # added once a row
            raise CannotLiftError(f"{called_name(node)} of one value")
        code = render_code(promote_operand(lifted, lifted.kind.rank))
        masked = f"tl.where({valid}, {code}, {fill})" if valid else code
        reduced = parse_expression(f"{name}({masked}, axis=0)")
        return replace_each(node, [(value, reduced)])

    def _align_access(
        self, node: cst.Call, pointer: Lifted, skipped: int, mask_at: int
    ) -> cst.Call:
        """Return the call with its operands aligned to the pointer, and the mask narrowed."""
        parts, rank, mask, fill = [render_code(pointer.node)], pointer.kind.rank, "", ""
        for index, arg in enumerate(node.args[skipped:], start=skipped):
            word = arg.keyword.value if arg.keyword is not None else ""
            if word in ("eviction_policy", "cache_modifier", "volatile", "sem", "scope"):
                parts.append(f"{word}={render_code(arg.value)}")
                continue
            value = render_code(promote_operand(self.lift_expression(arg.value), rank))
            if word == "mask" or (not word and index == mask_at):
                mask = value
            elif word == "other" or (not word and index == mask_at + 1):
                fill = value
            else:
                parts.append(value)
        valid, loads = self._valid_mask(rank), mask_at == 1
        grouped_mask = render_code(parenthesized(parse_expression(mask))) if mask else ""
        both = f"{valid} & {grouped_mask}" if valid and mask else valid or mask
        if both:
            parts.insert(mask_at, f"mask={both}")
        if loads and (fill or (self.fills and both)):
            parts.insert(mask_at + 1, f"other={fill or '0.0'}")
        return cst.ensure_type(
            parse_expression(f"{called_name(node)}({', '.join(parts)})"), cst.Call
        )

    def _valid_mask(self, rank: int) -> str:
        if not self.valid:
            return ""
        return self.valid + (f"[:{', None' * rank}]" if rank else "")


def promote_operand(value: Lifted, rank: int) -> cst.BaseExpression:
    """Return a lifted value, or one beside lifted ones, as an operand of that rank."""
    own, text = value.kind.rank, render_code(parenthesized(value.node))
    missing = rank - own
    if value.kind.lifted:
        if not missing:
            return value.node
        return parse_expression(f"{text}[:{', None' * missing}{', :' * own}]")
    if not own:
        return value.node
    return parse_expression(f"{text}[{', '.join(['None'] * (1 + missing) + [':'] * own)}]")


def grouped_as(node: cst.BaseExpression, like: cst.BaseExpression) -> cst.BaseExpression:
    """Return the operand, in parentheses if the one that it replaces needed none and it does."""
    return node if node.lpar or type(node) is type(like) else parenthesized(node)


def _is_truth_value(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is true or false, and no number."""
    if isinstance(node, cst.BooleanOperation):
        return _is_truth_value(node.left) and _is_truth_value(node.right)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _is_truth_value(node.expression)
    return isinstance(node, cst.Comparison)


def _chained_comparisons(node: cst.Comparison) -> list[cst.BaseExpression]:
    """Return the comparisons of a chain: of ``a <= b < c``, ``a <= b`` and ``b < c``."""
    ends = [node.left, *(comparison.comparator for comparison in node.comparisons)]
    return [
        cst.Comparison(
            parenthesized(first),
            [comparison.with_changes(comparator=parenthesized(comparison.comparator))],
        )
        for first, comparison in zip(ends, node.comparisons, strict=False)
    ]


def is_elementwise_call(name: str) -> bool:
    """Tell whether a function of Triton's computes each element of its operands alone."""
    plain = _unqualified_name(name)
    return plain in _ELEMENTWISE and any(name == prefix + plain for prefix in _MODULES)


def _unqualified_name(name: str) -> str:
    return name.rsplit(".", 1)[-1]


# ------------------------------------------------------------------------------- statements


_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
_ATOMIC_REDUCTIONS = {
    "tl.atomic_add": ("tl.sum", "0"),
    "tl.atomic_max": ("tl.max", 'float("-inf")'),
    "tl.atomic_min": ("tl.min", 'float("inf")'),
}
"""How what several atomic operations bring to one place is one, and what leaves it as it is."""
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
        depth: of the loops and branches around what is being lifted.
    """

    lifting: Lifting
    width: str
    forced: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    within: set[str] = field(default_factory=set)
    mask: str = ""
    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    depth: int = 0

    def inner_block(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Lift the statements of a loop or of a branch."""
        self.depth += 1
        try:
            return self.block(body)
        finally:
            self.depth -= 1

    def block(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        statements: list[cst.BaseStatement] = []
        for index, statement in enumerate(body):
            if isinstance(statement, cst.If):
                branch = self._lift_branch(statement, body[index + 1 :])
                if branch is not None:
                    return [*statements, *branch]
            statements += self.statement(statement)
        return statements

    # ------------------------------------------------------------------------- statements

    def statement(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        binding = single_assignment(statement)
        if binding is not None:
            return [self._lift_assignment(statement, binding)]
        if isinstance(statement, cst.For):
            return [self._lift_loop(statement)]
        if isinstance(statement, cst.If):
            return [self._plain_branch(statement)]
        call = expression_statement(statement)
        if isinstance(call, cst.Call) and called_name(call) in _WRITES:
            return [
                parse_statement(render_code(self.lifting.store(call))).with_changes(
                    **_leading_comments(statement)
                )
            ]
        used = names_within(statement) | set(assigned_names(statement))
        if any(self._is_lifted(name) for name in used):
            if isinstance(call, cst.Call) and called_name(call) in _IGNORED:
                return []
            raise CannotLiftError(render_code(statement))
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
        if binding.operator and value.kind == old:
            operand = self.lifting.lift_expression(binding.operand)
            text = render_code(
                promote_operand(operand, value.kind.rank) if value.kind.lifted else operand.node
            )
            return parse_statement(f"{binding.target} {binding.operator} {text}").with_changes(
                **_leading_comments(statement)
            )
        return parse_statement(f"{binding.target} = {render_code(value.node)}").with_changes(
            **_leading_comments(statement)
        )

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
        if called_name(over) not in _RANGES or not isinstance(variable, cst.Name):
            raise CannotLiftError(render_code(over))
        bounds = [arg.value for arg in cst.ensure_type(over, cst.Call).args]
        if statement.orelse or any(self.lifting.lift_expression(b).kind.lifted for b in bounds):
            raise CannotLiftError(render_code(over))
        before, trip = dict(self.lifting.kinds), statements_of(statement)
        self.lifting.kinds[variable.value] = Kind(0, False)
        body = self.inner_block(trip)
        self._require_same_axes(before, assigned_names(*trip))
        return with_body(statement, body)

    def _require_same_axes(self, before: Mapping[str, Kind], written: Sequence[str]) -> None:
        """Raise `_RestartError` if a name without the axis gains it in a block that assigns it."""
        for name in written:
            old = before.get(name)
            if old is not None and not old.lifted and self._is_lifted(name):
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
            other = with_body(statement.orelse, self.inner_block(statements_of(statement.orelse)))
            self._require_same_axes(before, assigned_names(statement))
            branch = branch.with_changes(orelse=other)
        return branch

    def _lift_branch(
        self, statement: cst.If, rest: Sequence[cst.BaseStatement]
    ) -> list[cst.BaseStatement] | None:
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

    def _under(self, body: Sequence[cst.BaseStatement], taken: str) -> list[cst.BaseStatement]:
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
                statement = replace_each(statement, [(call, _narrowed(call, where, 1))])
            result += self.statement(self._where_taken(statement, taken, before))
        return result

    def _where_taken(
        self, statement: cst.SimpleStatementLine, taken: str, before: Collection[str]
    ) -> cst.BaseStatement:
        """Return a statement that changes what was there before only where a name holds."""
        binding, call = single_assignment(statement), expression_statement(statement)
        if isinstance(call, cst.Call) and called_name(call) in _WRITES:
            return replace_each(statement, [(call, _narrowed(call, taken, 2))])
        if binding is None:
            raise CannotLiftError(render_code(statement))
        if binding.target not in before and not binding.operator:
            return statement
        if binding.operator in ("+=", "-="):
            added = f"tl.where({taken}, {render_code(binding.operand)}, 0)"
            return parse_statement(f"{binding.target} {binding.operator} {added}")
        value = f"tl.where({taken}, {render_code(binding.value)}, {binding.target})"
        return parse_statement(f"{binding.target} = {value}")

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
                raise CannotLiftError(
                    f"{target} = {render_code(value)}"
                )  # it happens once an element
            return render_code(value)
        if isinstance(value, cst.BinaryOperation) and isinstance(
            value.operator, (cst.Add, cst.Subtract)
        ):
            left, right = (
                self.lifting.lift_expression(value.left),
                self.lifting.lift_expression(value.right),
            )
            sign = render_code(value.operator).strip()
            kept, added = (value.left, value.right)
            if left.kind.lifted:
                kept, added = added, kept
            if not self._is_carried_over(kept, target) or target in names_within(added):
                raise CannotLiftError(f"{target} = {render_code(value)}")
            if not left.kind.lifted:
                return f"{render_code(left.node)} {sign} {self._sum(right)}"
            if not right.kind.lifted and sign == "+":
                return f"{render_code(right.node)} + {self._sum(left)}"
        reduced = self._reduced_extreme(value)
        if reduced is None:
            raise CannotLiftError(f"{target} = {render_code(value)}")
        return reduced

    def _reduced_extreme(self, value: cst.BaseExpression) -> str | None:
        """Return the next value of a carried maximum or minimum; ``None`` for other values."""
        name = called_name(value)
        for word, fill in (("max", "-"), ("min", "")):
            if name in (word, f"tl.{word}imum"):
                call = cst.ensure_type(value, cst.Call)
                one, two = argument_of(call, 0), argument_of(call, 1)
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
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return False
        scale = node.right if render_code(node.left) == target else node.left
        scale = self.values.get(render_code(scale), scale)
        rescales = called_name(scale) in EXPONENTIALS and names_within(scale) <= {
            *self.carried,
            "tl",
        }
        return target in (render_code(node.left), render_code(node.right)) and rescales

    def _sum(self, value: Lifted) -> str:
        product = as_product(value.node)
        if product:
            return product
        return f"tl.sum({self._mask_value(value, '0')}, axis=0)"

    def _mask_value(self, value: Lifted, fill: str) -> str:
        rank = value.kind.rank
        mask = self.mask + (f"[:{', None' * rank}]" if rank else "")
        return f"tl.where({mask}, {render_code(value.node)}, {fill})"


def _narrowed(call: cst.Call, taken: str, mask_at: int) -> cst.Call:
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
    loop = range_loop(statement)
    if loop is None:
        raise CannotLiftError("a loop that is over no range")
    trip = without_running(loop, names_within(*after))
    if carried_by(with_single_updates(trip), loop.name) is None:
        raise CannotLiftError("what a trip does with what others carry")
    forced: set[str] = set()
    for _ in range(_MOST_RESTARTS):
        worker = _loop_body(before, loop, trip, after, width, functions)
        worker.forced = forced
        own = set(assigned_names(*trip)) - worker.carried
        if last := own & names_read_first(after):
            raise CannotLiftError(f"{', '.join(sorted(last))} of the last trip")
        try:
            return _blocked(statement, loop, fresh, width, worker.mask, worker.block(trip))
        except _RestartError as restart:
            forced.add(restart.name)
    raise CannotLiftError("too many names that loops carry")


def _loop_body(
    before: Sequence[cst.BaseStatement],
    loop: Loop,
    trip: Sequence[cst.BaseStatement],
    after: Sequence[cst.BaseStatement],
    width: str,
    functions: Mapping[str, JitFunction],
) -> _Body:
    """Return what lifts a loop's trip, with a name for its mask that none around it has."""
    ahead = _Body(Lifting(functions), width)
    ahead.block(before)
    kinds = {**ahead.lifting.kinds, loop.name: Kind(0, True)}
    mask = free_name(f"{loop.name}_mask", names_within(*before, *trip, *after))
    worker = _Body(Lifting(functions, kinds, mask, fills=True), width)
    worker.carried = carried_names(trip, set(kinds) - {loop.name})
    worker.within, worker.mask = set(assigned_names(*trip)), mask
    return worker


def _blocked(
    statement: cst.For,
    loop: Loop,
    fresh: str,
    width: str,
    mask: str,
    trip: Sequence[cst.BaseStatement],
) -> cst.BaseStatement:
    """Return a loop over blocks, of which each does a lifted trip."""
    step = "" if render_code(loop.step) == "1" else f"{render_code(parenthesized(loop.step))} * "
    body = [
        parse_statement(f"{loop.name} = {fresh} + {step}tl.arange(0, {width})"),
        parse_statement(f"{mask} = {loop.name} < {render_code(parenthesized(loop.stop))}"),
        *trip,
    ]
    bounds = f"range({render_code(loop.start)}, {render_code(loop.stop)}, {step}{width})"
    lifted = with_body(statement, body)
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
