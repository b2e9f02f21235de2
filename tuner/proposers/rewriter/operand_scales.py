"""Scales of rows or columns are applied to sums of products, not to each operand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    last_values,
    single_values,
    values_of,
)
from solkit.tuner.proposers.rewriter._distinct_names import with_distinct_names
from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    guarded_launch,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._lift import scalar_names
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._memory import pointers_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Loop,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    expand_names,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import (
    HALVES,
    call_args,
    converted_value,
    is_operation,
    without_conversions,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    launcher_integer,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._values import BlockedLoop, as_blocked_loop
from solkit.tuner.proposers.rewriter._variants import joint_variant
from solkit.tuner.proposers.rewriter.loop_hoisting import hoist_invariants
from solkit.tuner.proposers.rewriter.operands import without_widening

_LARGEST_HALF = 65504  # of fp16; bf16 has larger ones
_LARGEST_BYTE = 255  # whole numbers; floats of one byte do not overflow in 16 bits, either
_OF_BLOCKS = ("tl.arange", "tl.program_id", "tl.cdiv", "tl.load", "tl.minimum", "min", "float")
"""Functions that give no axis another place."""
_SPREAD = {0: "[:, None]", 1: "[None, :]"}
"""Subscripts that spread a scale of rows or columns over the first or the second operand."""

Pairs = list[Swap]


class Scales:
    """``sum(x * (w * s))`` becomes ``sum(x * w) * s``, where the scale ``s`` is not summed over.

    Applies to the one product of a loop, whose sums begin at zero and are used after the loop. A
    scale that changes from trip to trip, as of a group of rows, is applied to each trip's product;
    one that is the same in all trips to the sums; it may be a scalar. The operand that had the
    scale then gets the type of the other one. Quantised weights are exact there; others are
    rounded to it, which the tolerance has to allow. Scaled weights that are rounded to 16 bits may
    be unscaled ones that do not overflow there: those that the text bounds, or of one byte, which
    the launcher asks.
    """

    kind = "scale last"
    helps = ("wrong pipe", "conversions", "instructions", "extra work")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        conditions: dict[str, tuple[str, ...]] = {}

        def change(function: JitFunction) -> cst.FunctionDef | None:
            own = [launch for launch in text.single if launch.function is function]
            plain = _with_plain_trips(text, function, own[0] if own else None)
            scaled, needed = _scaled_last(plain, text, own[0] if own else None)
            conditions[function.name] = needed
            return scaled

        intent = "In {} scales are applied to sums, and operands stay as narrow as they were loaded"
        for variant in joint_variant(text, facts, change, intent, "wrong pipe"):
            yield replace(variant, source=_with_guards(text, variant.source, conditions))


def _with_guards(text: KernelText, source: str, conditions: Mapping[str, tuple[str, ...]]) -> str:
    """Return a file in which launches of changed functions are the old ones of other types."""
    for name in (name for name, needed in conditions.items() if needed):
        changed = parse_kernel(source)
        assert changed is not None
        (launch,) = changed.launches_of(name)
        old = text.functions[name]
        old_node = renamed_function(old, changed.fresh(f"{name}_scaled"), old.body)
        kept = NewLaunch(launch, old_node).statement
        guarded = guarded_launch(" and ".join(conditions[name]), launch.statement, kept)
        source = changed_text(
            changed, added={name: [old_node]}, launches=[(launch.statement, guarded)]
        )
    return source


def _with_plain_trips(
    text: KernelText, function: JitFunction, launch: Launch | None
) -> JitFunction:
    """Return a function whose loops assign each name once, and nothing that is always the same."""
    swaps: dict[int, list[cst.CSTNode]] = {
        id(loop.node): [with_body(loop.node, with_distinct_names(loop.body, outside))]
        for loop in function.loops
        for outside in [names_within(*(s for s in function.body if s is not loop.node))]
    }
    function = replace(function, node=with_each(function.node, swaps))
    if launch is not None:
        swaps = {
            id(loop.node): [_with_one_group(loop, function, launch, text)]
            for loop in function.loops
        }
        function = replace(function, node=with_each(function.node, swaps))
    return replace(function, node=hoist_invariants(function))


def _with_one_group(
    loop: Loop, function: JitFunction, launch: Launch, text: KernelText
) -> cst.BaseStatement:
    """Return a loop in which the quotient of a trip's block is one number.

    ``(k + tl.arange(0, BLOCK)) // G`` is ``k // G`` where BLOCK divides G, and k.
    """
    blocked = as_blocked_loop(loop, function)
    argument = None if blocked is None else launch.arguments.get(blocked.block)
    width = None if argument is None else launcher_integer(argument, launch.launcher, text)
    if blocked is None or not width:
        return loop.node
    values = last_values(function.body)
    values |= last_values(loop.body)
    pairs: list[Swap] = []
    for node in nodes_within(loop.node):
        inner = _spread_quotient(node, values)
        if inner is None:
            continue
        argument = launch.arguments.get(render_code(inner.right), inner.right)
        group = launcher_integer(argument, launch.launcher, text)
        if group and not group % width and _is_block_at(inner.left, blocked, values):
            whole = f"({_start_of(blocked)} // {render_code(parenthesized(inner.right))})"
            pairs.append((node, parse_expression(whole)))
    return loop.node if _need_rows(function, loop, pairs) else replace_each(loop.node, pairs)


def _need_rows(function: JitFunction, loop: Loop, pairs: Pairs) -> bool:
    """Tell whether one number in the place of a block's quotients may change more than axes.

    A sum over rows would be of one row, for example. Products with such numbers have all axes.
    """
    fewer, count = set[str](), -1  # names that have one row then

    def has_fewer(node: cst.CSTNode) -> bool:
        inner = nodes_within(node)
        return bool(names_within(node) & fewer) or any(n is old for n in inner for old, _ in pairs)

    while count != len(fewer):
        count = len(fewer)
        fewer |= {
            binding.target
            for binding in assignments_in(walk_statements(loop.body))
            if not calls_within(binding.value, "tl.dot") and has_fewer(binding.value)
        }
    outside = any(count_uses(function.node, n) > count_uses(loop.node, n) for n in fewer)
    return outside or any(
        has_fewer(call)
        for call in calls_within(loop.node)
        if not (called_name(call) in ("tl.load", "tl.dot") or converted_value(call) is not None)
        and not is_elementwise_call(called_name(call))
    )


def _spread_quotient(node: cst.CSTNode, values: Values) -> cst.BinaryOperation | None:
    """Return ``k // G`` of ``(k // G)[:, None]`` or ``k[:, None] // G``; ``None`` for others."""
    if is_operation(node, cst.FloorDivide) and isinstance(node.left, cst.Subscript):
        return node.with_changes(left=node.left.value)
    inner = node.value if isinstance(node, cst.Subscript) else None
    inner = values.get(inner.value, inner) if isinstance(inner, cst.Name) else inner
    return inner if is_operation(inner, cst.FloorDivide) else None


def _start_of(blocked: BlockedLoop) -> str:
    """Return the first index of a trip's block, as code."""
    name = blocked.loop.name
    return f"{name} * {blocked.block}" if blocked.counts else name


def _is_block_at(node: cst.BaseExpression, blocked: BlockedLoop, values: Values) -> bool:
    """Tell whether a value is a trip's first index plus the range of its block."""
    name = blocked.loop.name
    whole = expand_names(node, {n: v for n, v in values.items() if n != name}.get)
    start, span = _start_of(blocked).replace(" ", ""), f"tl.arange(0,{blocked.block})"
    return plain_code(whole) in (f"{start}+{span}", f"{span}+{start}")


@dataclass(frozen=True)
class _Sum:
    """The one sum of products of a loop.

    Attributes:
        name: of the sums.
        dot: the product.
        statement: that adds it.
        loop: that the statement is in.
        function: that the loop is in.
    """

    name: str
    dot: cst.Call
    statement: cst.BaseStatement
    loop: Loop
    function: JitFunction

    @property
    def accumulates(self) -> bool:
        """Addition within the product itself, by its third operand."""
        return any(render_code(arg.value) == self.name for arg in self.dot.args)

    def value(self, side: int) -> cst.BaseExpression:
        """Return an operand, or what its name is assigned for this product alone."""
        return self.own_value(self.dot.args[side].value)

    def own_value(self, operand: cst.BaseExpression) -> cst.BaseExpression:
        """Return a value, or what its name is assigned for this use alone."""
        if not isinstance(operand, cst.Name):
            return operand
        bindings = [m for m in assignments_in(self.loop.body) if m.target == operand.value]
        is_own = len(bindings) == 1 and count_uses(self.function.node, operand.value) == 2
        return bindings[0].value if is_own and not bindings[0].operator else operand

    def is_kept(self, scale: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Tell whether a scale is still the same at the product as where the operand gets it."""
        body = self.loop.body
        begin = next(i for i, s in enumerate(body) if any(n is value for n in nodes_within(s)))
        between = body[begin + 1 : body.index(self.statement)]
        return not names_within(scale) & set(assigned_names(*between))

    def is_fixed(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression is the same in all trips."""
        return not names_within(node) & {self.loop.name, *assigned_names(*self.loop.body)}


def _scaled_last(
    function: JitFunction, text: KernelText, launch: Launch | None
) -> tuple[cst.FunctionDef | None, tuple[str, ...]]:
    """Return a function without scales of operands, and what the launcher has to ask for that.

    Returns:
        The function, ``None`` if it has no scales that can leave; and conditions.
    """
    result, conditions = None, list[str]()
    while (changed := _without_first_scale(function, text, launch)) is not None:
        result, function = changed[0], replace(function, node=changed[0])
        conditions += changed[1]
    return result, tuple(dict.fromkeys(conditions))


def _without_first_scale(
    function: JitFunction, text: KernelText, launch: Launch | None
) -> tuple[cst.FunctionDef, tuple[str, ...]] | None:
    scalars = scalar_names(function, text.functions)
    for loop in function.loops:
        total = _scaled_sum(function, loop)
        for side in (1, 0) if total is not None else ():
            assert total is not None
            value, conditions = total.value(side), tuple[str, ...]()
            scaled = _before_rounding(total, value)
            rest, scales = _value_and_scales(total, scaled, side, scalars)
            if not scales or not all(total.is_kept(scale, scaled) for scale in scales):
                continue
            if scaled is value:
                pairs = _without_scale(total, side, value, rest, launch)
            elif (
                launch is None or (needed := _conditions_of(rest, value, function, launch)) is None
            ):
                continue
            else:
                pairs, conditions = [(scaled, parenthesized(without_widening(rest)))], needed
            fixed = [scale for scale in scales if total.is_fixed(scale)]
            changing = [scale for scale in scales if not total.is_fixed(scale)]
            if changing or total.accumulates:  # integers are not added to fp32 within a product
                pairs = _with_scaled_product(total, changing, pairs)
            after = [
                parse_statement(f"{total.name} = {total.name} * {render_code(scale)}")
                for scale in fixed
            ]
            changed = [replace_each(loop.node, pairs), *after]
            return with_each(function.node, {id(loop.node): changed}), conditions
    return None


# ------------------------------------------------------------------------------- scales that round


def _before_rounding(total: _Sum, value: cst.BaseExpression) -> cst.BaseExpression:
    """Return what is rounded for a product alone; other values as they are."""
    inner = converted_value(value)
    if inner is None or without_widening(value) is not value:
        return value
    return total.own_value(inner)


def _conditions_of(
    rest: cst.BaseExpression, value: cst.BaseExpression, function: JitFunction, launch: Launch
) -> tuple[str, ...] | None:
    """Return conditions under which unscaled weights do not overflow where scaled ones are rounded.

    Whole numbers and floats of one byte are rounded by no more than scaled ones are.

    Args:
        rest: the weights.
        value: scaled and rounded.
        function: where.
        launch: of it.

    Returns:
        Conditions of the launcher; ``None`` if they may overflow.
    """
    values = single_values(function.body, function.params)
    kind, rest = plain_code(call_args(value)[0]), without_conversions(rest)
    conditions = list[str]()
    if kind not in HALVES:
        owner = parse_expression(kind.removesuffix(".element_ty").removesuffix(".dtype"))
        loaded = values.get(owner.value, owner) if isinstance(owner, cst.Name) else owner
        tensor = _tensor_behind(loaded, launch)
        if not tensor:
            return None
        conditions += [f"{tensor}.element_size() == 2", f"{tensor}.is_floating_point()"]
    loads = _LargestNumber(values, launch)
    is_small = loads.of(rest) <= _LARGEST_HALF
    is_loaded = called_name(_last_value(rest, values)) == "tl.load"
    for tensor in loads.tensors:
        conditions.append(f"{tensor}.element_size() == 1")
        if not is_loaded:
            conditions.append(f"not {tensor}.is_floating_point()")
    return tuple(conditions) if is_small else None


def _last_value(node: cst.BaseExpression, values: Values) -> cst.BaseExpression:
    """Return what a name, spread and converted or not, stands for."""
    while True:
        plain = without_conversions(node)
        plain = plain.value if isinstance(plain, cst.Subscript) else plain
        if isinstance(plain, cst.Name):
            plain = values.get(plain.value, plain)
        if plain is node:
            return node
        node = plain


def _tensor_behind(load: cst.BaseExpression, launch: Launch) -> str:
    """Return the launcher's name of a tensor that is loaded from; empty if it is not clear."""
    base = load.value if isinstance(load, cst.Name) else _base_of(load, launch)
    tensor = launch.arguments.get(base)
    return tensor.value if isinstance(tensor, cst.Name) else ""


def _base_of(load: cst.BaseExpression, launch: Launch) -> str:
    """Return the pointer among a function's parameters of a load; empty if it is not clear."""
    if called_name(load) != "tl.load" or not isinstance(load, cst.Call):
        return ""
    bases = pointers_of(launch.function).bases(argument_of(load, 0, "pointer"))
    return next(iter(bases)) if len(bases) == 1 else ""


class _LargestNumber:
    """Bounds whole numbers by what computes them, and values of one byte.

    Args:
        values: of names.
        launch: of the function that they are in.
    """

    def __init__(self, values: Values, launch: Launch) -> None:
        self._values = values
        self._launch = launch
        self.tensors: list[str] = []
        """The launcher's tensors whose elements have to have one byte."""
        self.pointers: list[str] = []
        """The function's pointers to these tensors."""

    def of(self, node: cst.BaseExpression) -> float:
        """Return how large a value may be; infinite if nothing bounds it."""
        node = _last_value(node, self._values)
        if isinstance(node, (cst.Integer, cst.Float)):
            return abs(node.evaluated_value)
        if isinstance(node, cst.BinaryOperation):
            return self._of_operation(node)
        if called_name(node) == "tl.where":
            return max(map(self.of, call_args(node)[1:]))
        tensor = _tensor_behind(node, self._launch)
        if called_name(node) != "tl.load" or not tensor:
            return math.inf
        self.tensors.append(tensor)
        self.pointers.append(_base_of(node, self._launch))
        return _LARGEST_BYTE

    def _of_operation(self, node: cst.BinaryOperation) -> float:
        if is_operation(node, cst.BitAnd):
            numbers = map(integer_literal, (node.left, node.right))
            return min((n for n in numbers if n is not None and n >= 0), default=math.inf)
        if is_operation(node, cst.RightShift):
            return self.of(node.left)
        sides = self.of(node.left), self.of(node.right)
        if is_operation(node, cst.Add, cst.Subtract):
            return sum(sides)
        return sides[0] * sides[1] if is_operation(node, cst.Multiply) else math.inf


def _with_scaled_product(total: _Sum, scales: list[cst.BaseExpression], pairs: Pairs) -> Pairs:
    """Return changes that also apply scales to the product of a trip."""
    inside = [pair for pair in pairs if any(e is pair[0] for e in nodes_within(total.dot))]
    dot = replace_each(total.dot, inside)
    args = [arg for arg in dot.args if render_code(arg.value) != total.name]
    args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    code = " * ".join(map(render_code, (dot.with_changes(args=args), *scales)))
    outside = [pair for pair in pairs if not any(pair[0] is inner for inner, _ in inside)]
    if total.accumulates:
        return [*outside, (total.statement, parse_statement(f"{total.name} += {code}"))]
    return [*outside, (total.dot, parse_expression(code))]


def _scaled_sum(function: JitFunction, loop: Loop) -> _Sum | None:
    """Return the sum that a loop's only product goes to, if nothing else in the loop uses it."""
    dots = calls_within(loop.node, "tl.dot")
    for statement in loop.body:
        binding = single_assignment(statement)
        if (
            len(dots) != 1
            or binding is None
            or not any(e is dots[0] for e in nodes_within(binding.operand))
        ):
            continue
        name, dot = binding.target, dots[0]
        adds = binding.operand is dot and (
            binding.operator == "+="
            or render_code(argument_of(dot, 2, "acc") or cst.Name("_")) == name
        )
        before = list(
            itertools.takewhile(lambda statement: statement is not loop.node, function.body)
        )
        starts, start = values_of(name, before), start_of_name(name, before)
        begins = [called_name(value) for value in starts] == ["tl.zeros"]
        begins |= start is not None and start.is_zero
        begins &= assigned_names(*before).count(name) == 1  # nothing was added since
        if adds and begins and count_uses(loop.node, name) == (1 if binding.operator else 2):
            return _Sum(name, dot, statement, loop, function)
    return None


def _value_and_scales(
    total: _Sum, value: cst.BaseExpression, side: int, scalars: Collection[str]
) -> tuple[cst.BaseExpression, list[cst.BaseExpression]]:
    """Return an operand without its scales, and these, the last one applied first."""
    scales = []
    while (parts := _value_and_scale(total, value, side, scalars)) is not None:
        value, scale = parts
        scales.append(scale)
    return value, scales


def _value_and_scale(
    total: _Sum, value: cst.BaseExpression, side: int, scalars: Collection[str]
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return an operand without its scale, and the scale."""
    if not isinstance(value, cst.BinaryOperation):
        return None
    if not isinstance(value.operator, cst.Multiply):
        return None
    for rest, scale in ((value.left, value.right), (value.right, value.left)):
        is_scalar = names_within(scale) <= {"tl", *scalars} and not calls_within(scale)
        if (is_scalar and total.is_fixed(scale)) or _is_spread(total, scale, side, scalars):
            return rest, scale
    return None


def _is_spread(total: _Sum, scale: cst.BaseExpression, side: int, scalars: Collection[str]) -> bool:
    """Tell whether a scale is the same along the axis that is summed over."""
    scale = without_widening(scale)
    if isinstance(scale, cst.Subscript) and render_code(scale).endswith(_SPREAD[side]):
        return True
    if not isinstance(scale, cst.Name):
        return False
    values = values_of(scale.value, (*total.function.body, *total.loop.body))
    if len(values) != 1:
        return False
    load = without_widening(values[0])
    if isinstance(load, (cst.Name, cst.Subscript)):  # of a helper's parameter
        return _is_spread(total, load, side, scalars)
    if called_name(load) != "tl.load":
        return False
    # a block of one row, or of one column, whatever names its parts have
    meanings = single_values(total.function.body, total.function.params)
    parts = [expand_names(arg, meanings.get) for arg in call_args(load)]
    is_known = names_within(*parts) <= {"tl", "float", "None", *scalars} and all(
        called_name(call) in _OF_BLOCKS or converted_value(call) is not None
        for part in parts
        for call in calls_within(part)
    )
    blocks = [text for text in map(render_code, parts) if "[" in text]
    return (
        is_known
        and bool(blocks)
        and all(_SPREAD[side] in text and _SPREAD[1 - side] not in text for text in blocks)
    )


def _without_scale(
    total: _Sum,
    side: int,
    value: cst.BaseExpression,
    rest: cst.BaseExpression,
    launch: Launch | None,
) -> Pairs:
    """Return changes that leave the scale out and give the operand the other one's type.

    What may overflow in the type that the other one had before it was widened stays wide.
    """
    operand, like = (total.dot.args[place].value for place in (side, 1 - side))
    like = call_args(like)[0] if called_name(like) == "tl.trans" else like
    other = total.own_value(like)
    plain, own = without_widening(other), without_widening(rest)
    loaded = plain if plain is other or isinstance(plain, cst.Name) else like
    if not isinstance(loaded, cst.Name):
        return [(value, rest)]
    kind, pairs = f"{loaded.value}.dtype", Pairs()
    if plain is not other:
        narrow = _narrow_type(rest, kind, total.function, launch)
        if not narrow:
            return [(value, rest)]
        pairs, is_sure, kind = [(other, plain)], narrow == kind, narrow
        if not is_sure and loaded is plain:
            pairs = [(other, parse_expression(f"{render_code(plain)}.to({kind})"))]
        elif not is_sure:
            pairs.append((like, parse_expression(f"{loaded.value}.to({kind})")))
    if value is operand:  # written in place
        code = f"{render_code(parenthesized(own))}.to({kind})"
        return [*pairs, (operand, parse_expression(code))]
    cast = parse_expression(f"{render_code(operand)}.to({kind})")  # the other one is loaded there
    return [*pairs, (value, own), (operand, cast)]


def _narrow_type(
    rest: cst.BaseExpression, kind: str, function: JitFunction, launch: Launch | None
) -> str:
    """Return the type of a product without scales, as code; empty if the text shows none narrower.

    It is fp32 where weights that are loaded turn out to have more than one byte: these may overflow
    in 16 bits.
    """
    if launch is None:
        return ""
    values = single_values(function.body, function.params)
    largest = _LargestNumber(values, launch)
    if largest.of(rest) > _LARGEST_HALF:
        return ""
    is_loaded = called_name(_last_value(rest, values)) == "tl.load"
    conditions = list[str]()
    for element in (f"{pointer}.dtype.element_ty" for pointer in dict.fromkeys(largest.pointers)):
        conditions.append(f"{element}.primitive_bitwidth == 8")
        if not is_loaded:  # floats of one byte may be large
            conditions.append(f"{element}.is_int()")
    return f"({kind} if {' and '.join(conditions)} else tl.float32)" if conditions else kind
