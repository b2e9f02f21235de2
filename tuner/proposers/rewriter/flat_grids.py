"""Grids that a launcher flattens: quotients and remainders of an index become axes of their own.

``pid // H`` and ``pid % H`` on a grid of ``B * H`` programs are the indices of a grid of H by B.
"""

from __future__ import annotations

from collections import Counter

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import straight_values, without_assignments
from solkit.tuner.proposers.rewriter._edit import (
    MOST_OF_AXIS,
    axis_name,
    changed_text,
    guarded_launch,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    all_params,
    assigned_names,
    calls_within,
    compact_code,
    expand_names,
    free_name,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    product_factors,
    render_code,
    replace_each,
    single_assignment,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import divisions_of, is_operation, rounded_up
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._roots import gives_size

_MOST_AXES = 3
_MOST_CUTS = 4


def separated_axes(text: KernelText, launch: Launch) -> tuple[KernelText, str] | None:
    """Return the file with a launch's flat grid taken apart, and the name of its function then.

    Applies where a divisor of the index is one of the factors of the axis's size. ``None`` if none
    is. The original launch stays for more quotients than an axis behind the first may have.
    """
    function, name = launch.function, text.fresh(f"{launch.function.name}_axes")
    copy = relaunched(text, NewLaunch(launch, renamed_function(function, name, function.body)))
    form, is_apart = parse_kernel(copy), False
    for _ in range(_MOST_CUTS):
        step = None if form is None else _separated_once(form, form.launches_of(name)[0])
        if step is None:
            break
        form, is_apart = step, True
    if form is None or not is_apart:
        return None
    own = form.launches_of(name)[0]
    sizes = [render_code(parenthesized(axis)) for axis in (own.axes or ())[1:]]
    fits = " and ".join(f"{size} <= {MOST_OF_AXIS}" for size in sizes)
    guarded = guarded_launch(fits, own.statement, launch.statement)
    whole = parse_kernel(changed_text(form, launches=[(own.statement, guarded)]))
    return None if whole is None else (whole, name)


def _separated_once(text: KernelText, launch: Launch) -> KernelText | None:
    function, axes = launch.function, launch.axes
    if axes is None or len(axes) >= _MOST_AXES or calls_within(function.node, "tl.num_programs"):
        return None
    for axis, size in enumerate(axes):
        name = axis_name(function, axis)
        if not name or len(_indices_along(function, axis)) != 1:
            continue
        for divisor in _divisors(function, name):
            whole = expand_names(parse_expression(divisor), straight_values(function.body).get)
            own = in_launcher(whole, launch)
            rest = None if own is None else _without_factors(size, own, launch)
            if own is not None and rest is not None:
                return _with_two_axes(text, launch, axis, (divisor, render_code(own), rest))
    return None


def _indices_along(function: JitFunction, axis: int) -> list[cst.Call]:
    calls = calls_within(function.node, "tl.program_id")
    return [call for call in calls if render_code(call.args[0].value) == str(axis)]


def _divisors(function: JitFunction, name: str) -> list[str]:
    """Return what an index is divided by, the smallest number of factors first."""
    divisors, values = dict[str, None](), straight_values(function.body)
    for node in divisions_of(name, function.node):
        whole = expand_names(node.right, values.get)
        used = names_within(whole) - {"tl", "triton"}
        if used <= set(function.params) and not any(map(function.reassigned, used)):
            divisors.setdefault(render_code(node.right))
    return sorted(divisors, key=lambda divisor: len(product_factors(parse_expression(divisor))))


def _without_factors(
    size: cst.BaseExpression, divisor: cst.BaseExpression, launch: Launch
) -> str | None:
    """Return a size over one that it is a product of; ``None`` if it is no such product."""
    if isinstance(size, cst.Name):
        size = launcher_definition(size.value, launch.launcher) or size
    remaining = product_factors(size)
    for factor in product_factors(divisor):
        same = [
            part
            for part in remaining
            if size_without_names(part, launch) == size_without_names(factor, launch)
        ]
        if not same:
            return None
        remaining.remove(same[0])
    return " * ".join(remaining) or None


def size_without_names(code: str, launch: Launch) -> str:
    """Return a launcher's size as it is without names for others, in one form of rounding up.

    What the module defines may be in it. Calls that may give another number each time stay names.
    """
    launcher = launch.launcher
    counts = Counter(assigned_names(launcher))
    params = {param.name.value for param in all_params(launcher)}

    def value_of(name: str) -> cst.BaseExpression | None:
        value = launcher_definition(name, launcher)
        if value is None or any(counts[n] > (n not in params) for n in names_within(value)):
            return None
        return value if all(map(gives_size, calls_within(value))) else None

    node = expand_names(parse_expression(code), value_of)
    if is_operation(node, cst.FloorDivide) and (dividend := rounded_up(node)) is not None:
        node = parse_expression(f"triton.cdiv({render_code(dividend)}, {render_code(node.right)})")
    return compact_code(node.with_changes(lpar=[], rpar=[]))


def _with_two_axes(
    text: KernelText, launch: Launch, axis: int, parts: tuple[str, str, str]
) -> KernelText | None:
    """Return the file with an axis in two: the remainders, and the quotients behind all axes.

    Args:
        text: the file.
        launch: of the function.
        axis: to be taken apart.
        parts: the divisor in the function and in the launcher, and the number of quotients.
    """
    divisor, own, rest = parts
    function, axes = launch.function, launch.axes or ()
    name = axis_name(function, axis)
    taken = function.names
    low, high = (
        _name_of_digit(function, f"{name} {sign} {divisor}")
        or free_name(f"{name}_{word}", set(taken))
        for sign, word in (("%", "inner"), ("//", "outer"))
    )
    body: list[cst.BaseStatement] = []
    by = render_code(parenthesized(parse_expression(divisor)))
    for statement in function.body:
        binding = single_assignment(statement)
        if binding is not None and binding.target == name:
            body += parse_statements(
                f"{low} = tl.program_id({axis})\n{high} = tl.program_id({len(axes)})\n"
            )
            body.append(parse_statement(f"{name} = {high} * {by} + {low}"))
            continue
        body.append(_with_digits(statement, name, divisor, (low, high)))
    used = names_within(
        *(s for s in body if (a := single_assignment(s)) is None or a.target != name)
    )
    if name not in used:
        body = without_assignments(body, {name})
    body = [statement for statement in body if not _is_same_name(statement)]
    sizes = [own if i == axis else render_code(size) for i, size in enumerate(axes)]
    node, grid = with_body(function.node, body), f"({', '.join([*sizes, rest])})"
    return parse_kernel(relaunched(text, NewLaunch(launch, node, grid=grid)))


def _name_of_digit(function: JitFunction, code: str) -> str:
    """Return the name that is assigned a quotient or a remainder, once; empty for none."""
    for statement in function.body:
        binding = single_assignment(statement)
        value = None if binding is None else binding.value.with_changes(lpar=[], rpar=[])
        if binding is not None and value is not None and render_code(value) == code:
            names = assigned_names(*function.body)
            return binding.target if names.count(binding.target) == 1 else ""
    return ""


def _is_same_name(statement: cst.BaseStatement) -> bool:
    binding = single_assignment(statement)
    return binding is not None and render_code(binding.value) == binding.target


def _with_digits(
    statement: cst.BaseStatement, name: str, divisor: str, digits: tuple[str, str]
) -> cst.BaseStatement:
    """Return a statement with quotient and remainder of an index replaced by their names.

    Of a quotient by a multiple of the divisor, a quotient of the quotient remains.
    """
    low, high = digits
    own = product_factors(parse_expression(divisor))
    pairs: list[Swap] = []
    for node in divisions_of(name, statement):
        more = product_factors(node.right)
        is_multiple = all(more.count(factor) >= own.count(factor) for factor in own)
        if render_code(node.right) == divisor and isinstance(node.operator, cst.Modulo):
            pairs.append((node, cst.Name(low)))
        elif is_multiple and isinstance(node.operator, cst.FloorDivide):
            for factor in own:
                more.remove(factor)
            rest = more[0] if len(more) == 1 else f"({' * '.join(more)})"
            code = f"({high} // {rest})" if more else high
            pairs.append((node, parse_expression(code)))
    return replace_each(statement, pairs)
