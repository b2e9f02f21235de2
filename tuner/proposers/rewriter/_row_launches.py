"""Elementwise launches in which a program takes a whole row, in place of a block of it.

Programs of a launch have no order, so one may do in a loop what several did. Then launches for a
row's statistics and launches that apply these have one grid, and `program_fusion` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import straight_values, without_unused
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    program_axis,
)
from solkit.tuner.proposers.rewriter._memory import WRITES, mask_of, may_meet, touches_memory
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    compound_statement,
    expand_names,
    free_name,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    product_factors,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._operations import conjuncts, is_operation
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched, with_arguments
from solkit.tuner.proposers.rewriter._values import argument_bases, as_blocked_loop
from solkit.tuner.proposers.rewriter._weighted_sums import addends_of
from solkit.tuner.proposers.rewriter.flat_grids import size_without_names
from solkit.tuner.proposers.rewriter.flat_index import Flat, divisors_of, flat_index

_MASKED = ("mask", "other")


def launched_by_rows(
    text: KernelText, launch: Launch, rows: str, like: Launch
) -> KernelText | None:
    """Return the file in which each program of an elementwise launch takes a row.

    Applies to a grid of rows and blocks of columns, and to a flat index that is divided by the
    length of a row. All that is accessed along the row is masked by its length.

    Args:
        text: the file.
        launch: of it.
        rows: how many there are, as code of the launcher without spaces: the new grid.
        like: a launch on that grid. Blocks are as long as those that take its rows.
    """
    flat, axes = flat_index(launch), [compact_code(axis) for axis in launch.axes or ()]
    is_straight = all(isinstance(s, cst.SimpleStatementLine) for s in launch.function.body)
    if flat is None or not is_straight or not _has_its_blocks(launch, flat):
        return None
    if not _writes_what_it_read(launch):
        return None
    if len(axes) == 2 and axes[1 - flat.axis] == rows:
        lengths, write = list(_params_of(launch, flat.total)), _of_columns
    elif len(axes) == 1:
        lengths, write = (
            [
                name
                for name in divisors_of(launch, flat.name)
                if name in launch.arguments
                and not launch.function.reassigned(name)
                and _is_product(flat.total, rows, render_code(launch.arguments[name]), launch)
            ],
            _of_flat_index,
        )
    else:
        return None
    for length in lengths:
        row = _Row(launch, flat, length, _block_like(launch, flat, length, like))
        if (body := write(row)) is not None:
            return _written(text, row, body, rows)
    return None


@dataclass(frozen=True)
class _Row:
    """Row that a program takes.

    Attributes:
        launch: of the function.
        flat: its index.
        length: of a row, a parameter.
        block: name and value of the constant that is a block's length, and whether one block has
            the whole row.
    """

    launch: Launch
    flat: Flat
    length: str
    block: tuple[str, str, bool]


def _block_like(launch: Launch, flat: Flat, length: str, like: Launch) -> tuple[str, str, bool]:
    """Return the block of a launch that takes rows of the same length, or the own one."""
    own = flat.block, render_code(launch.arguments[flat.block]), False
    others = (set(launch.function.names) | set(arguments_of(launch))) - {flat.block}
    size = _bare_code(launch.arguments[length])
    loops = [loop for s in like.function.body if (loop := range_loop(s)) is not None]
    for blocked in (as_blocked_loop(loop, like.function) for loop in loops):
        bound = None if blocked is None else in_launcher(blocked.bound, like)
        if blocked is not None and bound is not None and _bare_code(bound) == size:
            argument = like.arguments.get(blocked.block)
            if argument is not None and blocked.block not in others:
                return blocked.block, render_code(argument), False
    for name in sorted(like.function.constants - others) if not loops else ():
        code = compact_code(like.arguments.get(name, cst.Name("None")))
        if code == f"triton.next_power_of_2({size})":
            return name, render_code(like.arguments[name]), True
    return own


def _bare_code(node: cst.BaseExpression) -> str:
    return compact_code(node.with_changes(lpar=[], rpar=[]))


def _written(text: KernelText, row: _Row, body: Body, rows: str) -> KernelText | None:
    """Return the file with a function's new body, and its launch on a grid of rows."""
    function, (name, value, _) = row.launch.function, row.block
    arguments = {n: v for n, v in arguments_of(row.launch).items() if n != row.flat.block}
    arguments[name] = value
    constants = {*function.constants - {row.flat.block}, name}
    node = with_arguments(function, function.name, body, arguments, constants)
    return parse_kernel(
        relaunched(text, NewLaunch(row.launch, node, grid=f"({rows},)", arguments={name: value}))
    )


def _has_its_blocks(launch: Launch, flat: Flat) -> bool:
    """Tell whether a grid has as many programs as the index has blocks."""
    own, block = (launch.axes or ())[flat.axis], launch.arguments.get(flat.block)
    by = argument_of(own, 1)
    return block is not None and by is not None and compact_code(by) == compact_code(block)


def _writes_what_it_read(launch: Launch) -> bool:
    """Tell whether what may be one tensor is at one place in a store and in other accesses.

    Blocks of another length would else read what a block ahead has written.
    """
    values, arguments = straight_values(launch.function.body), dict(launch.arguments)

    def place_of(call: cst.Call) -> str:
        return plain_code(substitute_names(expand_names(call.args[0].value, values.get), arguments))

    calls = [c for c in calls_within(launch.function.node) if touches_memory(c)]
    bases = [argument_bases(launch, call) for call in calls]
    return all(
        called_name(one) == "tl.load" or not may_meet(a, b) or place_of(one) == place_of(two)
        for one, a in zip(calls, bases, strict=True)
        for two, b in zip(calls, bases, strict=True)
    )


def _params_of(launch: Launch, code: str) -> Iterator[str]:
    """Yield the parameters that get a number of the launcher, and keep the number."""
    for name, argument in launch.arguments.items():
        if compact_code(argument) == code.replace(" ", "") and not launch.function.reassigned(name):
            yield name


def _of_columns(row: _Row) -> list[cst.BaseStatement] | None:
    """Return a function's body in which a program takes the columns of its row."""
    parts = _in_row(row, [f"{row.flat.name} = {{first}}tl.arange(0, {row.block[0]})"])
    if parts is None or not _are_within([*parts[0], *parts[1]], row.flat.name, row.length):
        return None
    place = free_name("row", {*row.launch.function.names, row.block[0]})
    ahead = parse_statement(f"{place} = tl.program_id(0)")
    return [ahead, *(_of_program(s, place) for s in _joined(row, *parts))]


def _of_flat_index(row: _Row) -> list[cst.BaseStatement] | None:
    """Return a function's body in which a program takes a row's elements for a flat index."""
    flat, length, taken = row.flat, row.length, {*row.launch.function.names, row.block[0]}
    place, column = free_name("row", taken), free_name("column", taken)
    lines = [
        f"{column} = {{first}}tl.arange(0, {row.block[0]})",
        f"{flat.name} = {place} * {length} + {column}",
    ]
    if (parts := _in_row(row, lines)) is None:
        return None
    new = {f"{flat.name}//{length}": place, f"{flat.name}%{length}": column}
    totals = _params_of(row.launch, flat.total)
    new |= {f"{flat.name}<{total}": f"{column} < {length}" for total in totals}

    def of_row(statement: cst.BaseStatement) -> cst.BaseStatement:
        pairs: list[Swap] = []
        for node in nodes_within(statement):
            if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
                code = new.get(plain_code(node.with_changes(lpar=[], rpar=[])))
                like = {"lpar": node.lpar, "rpar": node.rpar}
                pairs += [(node, parse_expression(code).with_changes(**like))] if code else []
        return replace_each(statement, pairs)

    ahead, behind = parts
    behind = _with_masks_along_row(map(of_row, behind), column)
    ahead = [*ahead, parse_statement(f"{place} = tl.program_id(0)")]
    return _joined(row, ahead, behind) if _are_within(behind, column, length) else None


def _in_row(row: _Row, lines: Sequence[str]) -> tuple[Body, Body] | None:
    """Return a function's statements ahead of its index, and those from the index on.

    ``None`` if anything else follows from the program's place along the axis, or from the length
    of a block.
    """
    body, flat = row.launch.function.body, row.flat
    at = next(
        i
        for i, statement in enumerate(body)
        if (a := single_assignment(statement)) is not None and a.target == flat.name
    )
    first = "" if row.block[2] else f"{_start_of(row)} + "
    head = [parse_statement(line.format(first=first)) for line in lines]
    whole = without_unused([*body[:at], *head, *body[at + 1 :]])
    indices = [c for s in whole for c in calls_within(s, "tl.program_id", "tl.num_programs")]
    if any(program_axis(call) in (flat.axis, None) for call in indices):
        return None
    if flat.block in names_within(*body[:at], *body[at + 1 :]):
        return None
    begin = next(i for i, statement in enumerate(whole) if statement is head[0])
    return whole[:begin], whole[begin:]


def _start_of(row: _Row) -> str:
    return free_name("start", {*row.launch.function.names, row.block[0]})


def _joined(row: _Row, ahead: Body, behind: Body) -> list[cst.BaseStatement]:
    """Return statements, those from the index on for each block of a row.

    Pointers are sums of what they are made of, as other loads of the row may have them.
    """
    behind = without_unused(_with_flat_pointers(behind))
    if row.block[2]:
        return [*ahead, *behind]
    head = f"for {_start_of(row)} in range(0, {row.length}, {row.block[0]})"
    return [*ahead, compound_statement(head, behind)]


def _with_flat_pointers(body: Body) -> list[cst.BaseStatement]:
    values = {
        name: value
        for name, value in straight_values(body).items()
        if is_operation(value, cst.Add) and not calls_within(value, "tl.arange", "tl.load")
    }
    result = []
    for statement in body:
        pairs: list[Swap] = []
        for call in calls_within(statement, "tl.load", "tl.store"):
            pointer = call.args[0].value
            parts = addends_of(expand_names(pointer, values.get))
            if all(sign > 0 for sign, _ in parts):
                flat = parse_expression(" + ".join(render_code(part) for _, part in parts))
                pairs.append((pointer, flat))
        result.append(replace_each(statement, pairs))
    return result


def _are_within(body: Body, column: str, length: str) -> bool:
    """Tell whether each access along the row is masked by its length, and all else only loaded."""
    values: dict[str, cst.BaseExpression] = {}
    for statement in body:
        for call in (c for c in calls_within(statement) if touches_memory(c)):
            if called_name(call) not in ("tl.load", "tl.store"):
                return False
            mask = mask_of(call)
            parts = [] if mask is None else conjuncts(expand_names(mask, values.get))
            is_masked = any(plain_code(part) == f"{column}<{length}" for part in parts)
            along = column in names_within(expand_names(call.args[0].value, values.get))
            if along != is_masked or (called_name(call) in WRITES and not along):
                return False
        binding = single_assignment(statement)
        if binding is not None and binding.target != column:
            values[binding.target] = binding.value
    return True


def _with_masks_along_row(
    body: Iterable[cst.BaseStatement], column: str
) -> list[cst.BaseStatement]:
    """Return statements in which loads at a place of the row alone have no mask."""
    values: dict[str, cst.BaseExpression] = {}
    result = []
    for statement in body:
        pairs: list[Swap] = []
        for call in calls_within(statement, "tl.load"):
            if column not in names_within(expand_names(call.args[0].value, values.get)):
                others = [a for a in call.args[1:] if a.keyword and a.keyword.value not in _MASKED]
                pairs.append((call, call.with_changes(args=_arguments([call.args[0], *others]))))
        result.append(replace_each(statement, pairs))
        binding = single_assignment(result[-1])
        if binding is not None and binding.target != column:
            values[binding.target] = binding.value
    return result


def _arguments(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    return [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]


def _of_program(statement: cst.BaseStatement, place: str) -> cst.BaseStatement:
    calls = calls_within(statement, "tl.program_id")
    return replace_each(statement, [(call, cst.Name(place)) for call in calls])


def _is_product(total: str, rows: str, length: str, launch: Launch) -> bool:
    """Tell whether a number of elements is the product of two sizes of the launcher.

    So it is of ``x.numel() // size`` and a size of ``x``.
    """
    whole, count, size = (size_without_names(c, launch) for c in (total, rows, length))
    tensor, _, method = whole.rpartition(".")
    if method == "numel()" and count == f"{whole}//{size}":
        return size.startswith((f"{tensor}.shape[", f"{tensor}.size("))
    own, both = _factors(total, launch), [*_factors(rows, launch), *_factors(length, launch)]
    return sorted(own) == sorted(both)


def _factors(code: str, launch: Launch) -> list[str]:
    """Return a launcher's size as a product of sizes; a tensor's elements of all that it has.

    These are known where it is taken apart, as by ``M, K = x.shape``.
    """
    result = []
    for factor in product_factors(parse_expression(code)):
        node = parse_expression(factor)
        value = launcher_definition(factor, launch.launcher) if isinstance(node, cst.Name) else node
        sizes = _unpacked_sizes(value, launch) if isinstance(value, cst.Call) else []
        if value is not None and is_operation(value, cst.Multiply):
            sizes = product_factors(value)
        result += sizes or [factor]
    return result


def _unpacked_sizes(call: cst.Call, launch: Launch) -> list[str]:
    """Return the names of a tensor's sizes, for ``x.numel()``; none if they are not known."""
    code, launcher = render_code(call), launch.launcher
    names = assigned_names(launcher)
    for statement in statements_of(launcher):
        for node in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if not isinstance(node, cst.Assign) or not isinstance(
                node.targets[0].target, cst.Tuple
            ):
                continue
            tensor = render_code(node.value).removesuffix(".shape")
            sizes = [render_code(e.value) for e in node.targets[0].target.elements]
            single = names.count(tensor) == 0 and all(names.count(size) == 1 for size in sizes)
            if code == f"{tensor}.numel()" and tensor != render_code(node.value) and single:
                return sizes
    return []
