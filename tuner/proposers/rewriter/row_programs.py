"""Programs that add blocks of rows become programs of a row each, or of some of its columns.

::

    for at in range(0, n, BLOCK):                  →   at = tl.program_id(1) * BLOCK
        cols = at + tl.arange(0, BLOCK)                cols = at + tl.arange(0, BLOCK)

    row = tl.program_id(0) * B + tl.arange(0, B)   →   row = tl.program_id(0)
    tl.load(x + row[:, None] * n + cols[None, :])      tl.load(x + row * n + cols)

    if to == padding:                              →   tl.atomic_add(out + to * n + cols, x,
        return                                                       mask=(to == padding) == 0)
    tl.atomic_add(out + to * n + cols, x)

These forms are a step of other rewrites: more programs that add with atomics are no faster.
"""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._edit import (
    MOST_OF_AXIS,
    changed_text,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._lift import narrowed_access
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    names_read_first,
    nodes_within,
    parenthesized,
    parse_statement,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, in_launcher, parse_kernel
from solkit.tuner.proposers.rewriter._program_indices import tile_index
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._values import all_names

Form = tuple[KernelText, Launch, str, cst.SimpleStatementLine]
"""A file, the launch in it, where that is right as code of the launcher, and the launch before."""


def with_masked_additions(text: KernelText, launch: Launch) -> KernelText | None:
    """Return the file in which all programs of a launch go on, and add under a mask.

    ``None`` if there is no branch on a loaded number around additions. Loads in it lose its guard:
    in this step's result, only programs whose masks hold may load.
    """
    function, body, tests = launch.function, list[cst.BaseStatement](), list[str]()
    pending, loaded = list(function.body), set[str]()
    while pending:
        statement, *pending = pending
        binding, within = single_assignment(statement), statements_of(statement)
        if binding is not None and called_name(binding.value) == "tl.load":
            loaded.add(binding.target)
        if not isinstance(statement, cst.If):
            pairs: list[Swap] = [
                (call, narrowed_access(call, " & ".join(tests), 2))
                for call in calls_within(statement, "tl.atomic_add")
                if tests
            ]
            body.append(replace_each(statement, pairs))
            continue
        leaves = [render_code(inner).strip() for inner in within] == ["return"]
        named = all_names(statement.test, single_values(body))
        is_last = not (pending or leaves)
        if statement.orelse is not None or not (leaves or is_last) or not named & loaded:
            return None
        tests.append(f"(({_with_bits(statement.test)}) {'==' if leaves else '!='} 0)")
        pending += () if leaves else within
    if not tests:
        return None
    node = with_body(function.node, body)
    return parse_kernel(changed_text(text, functions={function.name: node}))


def _with_bits(test: cst.BaseExpression) -> str:
    """Return a test as code that blocks may have, too."""
    if not isinstance(test, cst.BooleanOperation):
        return render_code(test)
    sign = "&" if isinstance(test.operator, cst.And) else "|"
    return f"({_with_bits(test.left)}) {sign} ({_with_bits(test.right)})"


def with_column_programs(text: KernelText, launch: Launch) -> Form | None:
    """Return a launch with a program for each trip of its last loop, along axis 1."""
    function, axes = launch.function, launch.axes
    loop = range_loop(function.body[-1])
    if loop is None or axes is None or len(axes) != 1 or plain_code(loop.start) != "0":
        return None
    kept = names_read_first(loop.body) & set(assigned_names(*loop.body))
    step, stop = render_code(loop.step), in_launcher(loop.stop, launch)
    if kept - {loop.name} or step not in function.constants or stop is None:
        return None
    if any(called_name(call) != "tl.atomic_add" for call in calls_within(loop.node, *WRITES)):
        return None
    first = parse_statement(f"{loop.name} = tl.program_id(1) * {step}")
    block = render_code(parenthesized(launch.arguments[step]))
    count = f"triton.cdiv({render_code(stop)}, {block})"
    grid = f"({render_code(axes[0])}, {count})"
    body = [*function.body[:-1], first, *loop.body]
    return _form(text, launch, body, grid, f"{count} <= {MOST_OF_AXIS}")


def with_row_programs(text: KernelText, launch: Launch) -> Form | None:
    """Return a launch with a program for each row of a tile, of which nothing is reduced."""
    function, axes = launch.function, launch.axes
    whole = _with_single_indices(function.body)
    places = [
        (i, binding.target, tile[1])
        for i, statement in enumerate(whole)
        if (binding := single_assignment(statement)) is not None
        and (tile := tile_index(binding.value)) is not None
        and tile[0] == 0
    ]
    if axes is None or len(places) != 1 or places[0][2] not in function.constants:
        return None
    place, row, block = places[0]
    columns = _SingleRows(row)
    body = [columns.statement(s) for i, s in enumerate(whole) if i != place]
    if None in body or assigned_names(*function.body).count(row) != 1:
        return None
    index = parse_statement(f"{row} = tl.program_id(0)")
    statements = [s for s in body if s is not None]
    count = f"{render_code(parenthesized(axes[0]))} * {render_code(launch.arguments[block])}"
    rest = "".join(f", {render_code(axis)}" for axis in axes[1:])
    body_of_rows = [*statements[:place], index, *statements[place:]]
    return _form(text, launch, body_of_rows, f"({count}{rest},)", "")


def _form(text: KernelText, launch: Launch, body: Body, grid: str, guard: str) -> Form | None:
    function = launch.function
    name = text.fresh(f"{function.name}_rows") if guard else function.name
    changed = parse_kernel(
        relaunched(text, NewLaunch(launch, renamed_function(function, name, body), grid=grid))
    )
    if changed is None:
        return None
    return changed, changed.launches_of(name)[0], guard, launch.statement


def _with_single_indices(body: Body) -> list[cst.BaseStatement]:
    """Return statements without names of program's indices that are read once."""
    for statement in body:
        binding = single_assignment(statement)
        is_index = binding is not None and called_name(binding.value) == "tl.program_id"
        if binding is None or not is_index:
            continue
        if sum(count_uses(s, binding.target) for s in body) == 2:
            values = {binding.target: binding.value}
            rest = [substitute_names(s, values) for s in body if s is not statement]
            return _with_single_indices(rest)
    return list(body)


class _SingleRows:
    """Writes statements over a tile for one of its rows.

    Args:
        row: name of the rows.

    Notation
        kind    axes of a value: "" for a number, "r" and "c" for rows and columns, "R" and "C" for
                those spread over a tile, "RC" for a tile
    """

    def __init__(self, row: str) -> None:
        self._kinds = {row: "r"}

    def statement(self, statement: cst.BaseStatement) -> cst.BaseStatement | None:
        """Return the statement for a row; ``None`` if rows need each other, or may."""
        binding = single_assignment(statement)
        nodes = list(nodes_within(statement))
        value = next((n for n in nodes if isinstance(n, (cst.Assign, cst.Expr))), None)
        if value is None or (binding is not None and binding.operator):
            return None
        kind = self._kind(value.value)
        if kind is None:
            return None
        if binding is not None:
            if binding.target in self._kinds:
                return None
            self._kinds[binding.target] = kind
        swaps: list[Swap] = [
            (node, parenthesized(node.value)) for node in nodes if isinstance(node, cst.Subscript)
        ]
        return replace_each(statement, swaps)

    def _kind(self, node: cst.BaseExpression) -> str | None:
        """Return a value's kind; ``None`` if it is not known."""
        if isinstance(node, cst.Name):
            return self._kinds.get(node.value, "")
        if isinstance(node, cst.Subscript):
            kind = self._kind(node.value)
            axes = "".join(render_code(element.slice) for element in node.slice)
            spread = {("r", ":None"): "R", ("c", "None:"): "C"}
            return None if kind is None else spread.get((kind, axes))
        if isinstance(node, (cst.Integer, cst.Float)) or plain_code(node).startswith("tl.float"):
            return ""
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._joined([node.left, node.comparisons[0].comparator])
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return self._joined([node.left, node.right])
        if isinstance(node, cst.UnaryOperation):
            return self._kind(node.expression)
        if not isinstance(node, cst.Call):
            return None
        return self._kind_of_call(node)

    def _kind_of_call(self, call: cst.Call) -> str | None:
        name, args = called_name(call), [arg.value for arg in call.args]
        if name == "tl.arange":
            return "c"
        if name in ("tl.program_id", "tl.num_programs"):
            return ""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
            return self._kind(call.func.value)
        is_plain = name in ("tl.load", "tl.atomic_add") or is_elementwise_call(name)
        return self._joined(args) if is_plain else None

    def _joined(self, parts: list[cst.BaseExpression]) -> str | None:
        kinds = [self._kind(part) for part in parts]
        axes = {kind for kind in kinds if kind}
        if None in kinds or (axes & {"r", "c"} and len(axes) > 1):
            return None
        return "RC" if len(axes) > 1 else next(iter(axes), "")
