"""The order in which tiles are visited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import without_assignments
from solkit.tuner.proposers.rewriter._edit import (
    MOST_OF_AXIS,
    Parameter,
    axis_name,
    program_axis,
    renamed_function,
    with_named_programs,
    with_params,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    assigned_names,
    calls_within,
    count_uses,
    free_name,
    names_within,
    parenthesized,
    parse_statement,
    parse_statements,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import divisions_of
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched

_GROUPS = (1, 2, 4, 8, 16)
_GROUP = 8


class Grouped:
    """Programs that run together take a patch of tiles, whose operands stay in L2.

    Applies to matrix products (``tl.dot``) whose tile indices are ``tl.program_id(0)`` and ``(1)``,
    or quotient and remainder of ``tl.program_id(0)``. What a further axis tells apart stays so.
    """

    kind = "grouped order"
    helps = ("order of blocks", "products beside L2", "repeated reads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in map(with_named_programs, text.single):
            function = launch.function
            if not calls_within(function.node, "tl.dot") or calls_within(
                function.node, "tl.swizzle2d"
            ):
                continue
            group = text.fresh("GROUP_M")
            body = _of_two_axes(launch, group) or _of_one_axis(launch, group)
            if body is None:
                continue
            node = with_params(with_body(function.node, body), constants=[group])
            tuned = Parameter(group, _GROUP, _GROUPS)
            source = relaunched(
                text, NewLaunch(launch, node, arguments={group: group}), parameters=[tuned]
            )
            why = facts.explain_factors("extra traffic")
            yield Variant(
                source,
                f"Programs of {function.name} that run together can share operands in L2{why}.",
            )


def _of_two_axes(launch: Launch, group: str) -> list[cst.BaseStatement] | None:
    function = launch.function
    first, second = axis_name(function, 0), axis_name(function, 1)
    axes = _index_axes(function)
    if not first or not second or len(launch.axes or ()) < 2:
        return None
    if sorted(axes) not in (["0", "1"], ["0", "1", "2"]):
        return None
    head = parse_statements(
        f"""
        tiles_m = tl.num_programs(0)
        tiles_n = tl.num_programs(1)
        # Programs start in the order of this number.
        program = tl.program_id(1) * tiles_m + tl.program_id(0)
        {first}, {second} = tl.swizzle2d(
            program // tiles_n, program % tiles_n, tiles_m, tiles_n, {group}
        )
        """
    )
    names = ("tiles_m", "tiles_n", "program")
    if any(name in function.names for name in names):
        return None
    rest = without_assignments(function.body, (first, second))
    return [*head, *rest]


def _index_axes(function: JitFunction) -> list[str]:
    """Return the axes whose indices a function reads, once for each time."""
    calls = calls_within(function.node, "tl.program_id")
    return [str(program_axis(call)) for call in calls]


def _of_one_axis(launch: Launch, group: str) -> list[cst.BaseStatement] | None:
    """Swizzle ``pid_m = pid // tiles_n`` and ``pid_n = pid % tiles_n``."""
    function = launch.function
    program = axis_name(function, 0)
    if not program or _index_axes(function) not in (["0"], ["0", "1"], ["1", "0"]):
        return None
    parts: dict[str, tuple[str, str, int]] = {}
    body = _with_named_parts(function, program)
    for index, statement in enumerate(body):
        binding = single_assignment(statement)
        value = None if binding is None else binding.value
        if (
            binding is not None
            and isinstance(value, cst.BinaryOperation)
            and render_code(value.left) == program
        ):
            parts[render_code(value.operator).strip()] = (
                binding.target,
                render_code(value.right),
                index,
            )
    if set(parts) != {"//", "%"} or parts["//"][1] != parts["%"][1]:
        return None
    (first, tiles, one), (second, _, two) = parts["//"], parts["%"]
    swizzled = parse_statement(
        f"{first}, {second} = tl.swizzle2d("
        f"{first}, {second}, tl.num_programs(0) // ({tiles}), {tiles}, {group})"
    )
    place = max(one, two) + 1
    return [*body[:place], swizzled, *body[place:]]


def _with_named_parts(function: JitFunction, program: str) -> list[cst.BaseStatement]:
    """Return statements in which quotient and remainder of a program's index are names once."""
    body = function.body
    nodes = divisions_of(program, *body)
    divisors = {render_code(node.right) for node in nodes}
    needed = {program, *names_within(*(node.right for node in nodes))}
    place = 1 + max(i for i, s in enumerate(body) if set(assigned_names(s)) & needed)
    uses = [sum(count_uses(s, program) for s in part) for part in (body[:place], body[place:])]
    targets = Counter(assigned_names(*body))
    if len(divisors) != 1 or uses != [1, len(nodes)] or any(targets[n] > 1 for n in needed):
        return body
    taken = set(function.names)
    names = {"//": free_name("program_m", taken), "%": free_name("program_n", taken)}
    lines = [f"{name} = {program} {sign} {divisors.copy().pop()}" for sign, name in names.items()]
    swaps: list[Swap] = [
        (node, cst.Name(names[render_code(node.operator).strip()])) for node in nodes
    ]
    behind = [replace_each(statement, swaps) for statement in body[place:]]
    return [*body[:place], *map(parse_statement, lines), *behind]


class Swapped:
    """The grid's axes change places: programs that start together then differ along the other.

    Applies to two-dimensional grids of functions without ``tl.dot``. The original launch stays
    where axis 0 has more programs than a GPU takes along axis 1.
    """

    kind = "loop order"
    helps = ("uncoalesced", "order of blocks", "repeated reads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in map(with_named_programs, text.single):
            function, axes = launch.function, launch.axes
            if axes is None or len(axes) != 2 or calls_within(function.node, "tl.dot"):
                continue
            if not all(axis_name(function, axis) for axis in (0, 1)):
                continue
            body = [_swap_axes(statement) for statement in function.body]
            swapped = [one for one, two in zip(body, function.body, strict=True) if one is not two]
            program_ids = calls_within(function.node, "tl.program_id")
            if len(program_ids) != len(swapped) or calls_within(function.node, "tl.num_programs"):
                continue
            node = renamed_function(function, text.fresh(f"{function.name}_swapped"), body)
            grid = f"({render_code(axes[1])}, {render_code(axes[0])})"
            condition = f"{render_code(parenthesized(axes[0]))} <= {MOST_OF_AXIS}"
            source = relaunched(text, NewLaunch(launch, node, grid=grid), condition=condition)
            why = facts.explain_factors("extra traffic")
            yield Variant(
                source,
                f"Programs of {function.name} that start together are neighbours along axis 0; "
                f"along axis 1 they may share more{why}.",
            )


def _swap_axes(statement: cst.BaseStatement) -> cst.BaseStatement:
    binding = single_assignment(statement)
    if binding is None or render_code(binding.value) not in (
        "tl.program_id(0)",
        "tl.program_id(1)",
        "tl.program_id(axis=0)",
        "tl.program_id(axis=1)",
    ):
        return statement
    other = 1 if "0" in render_code(binding.value) else 0
    return substitute_names(parse_statement(f"{binding.target} = tl.program_id({other})"), {})
