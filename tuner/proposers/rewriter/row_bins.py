"""Rows that atomics add to rows of a small table are summed by a product with a matrix of ones.

``table[slot[r]] += value[r]`` is a product: of a matrix that has 1 where a row belongs to a slot,
and of the rows. Tensor cores sum a block of rows for all slots at once, each program adds its sums
to memory once. Where these are not finite, rows go to memory one by one as before, since 0 times
infinity is no number.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in, last_values
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    grid_with,
    program_axis,
    renamed_function,
    with_params,
)
from solkit.tuner.proposers.rewriter._memory import is_write, mask_of
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    compound_statement,
    count_uses,
    expand_names,
    expression_statement,
    free_name,
    nodes_within,
    parse_expression,
    parse_statement,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import compared_sides, is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._roots import allocated_tensor
from solkit.tuner.proposers.rewriter._values import all_names, argument_aliases
from solkit.tuner.proposers.rewriter.operands import without_widening

_ADD, _PROGRAM = "tl.atomic_add", "tl.program_id"
_ROWS, _COLUMNS = "[:,None]", "[None,:]"
_FLOATS = ("torch.float32", "torch.float")
_LEAST_SIDE, _ROWS_A_TRIP = 16, 64
_MOST_SUMS = 16 * 1024
"""Sums of a program: 64 to 128 a thread."""


@dataclass(frozen=True)
class _Scatter:
    """An atomic addition of rows to rows of a table.

    Attributes:
        statement, call: that do it.
        base: the table's parameter.
        slot: the name of the rows' places, which were loaded.
        rows, columns: sizes of the block, parameters of the function.
        column: the columns' offset, as code.
        stride: of a row of the table, as code.
        slots: how many rows the table has, as code of the launcher.
        dtype: code of the type that the rows were loaded in; empty if they are not as loaded.
    """

    statement: cst.BaseStatement
    call: cst.Call
    base: str
    slot: str
    rows: str
    columns: str
    column: str
    stride: str
    slots: str
    dtype: str


def with_row_bins(text: KernelText, launch: Launch, programs: Parameter) -> str:
    """Return the file whose programs sum rows by slots; empty where that is not possible."""
    function = launch.function
    returns = any(isinstance(node, cst.Return) for node in nodes_within(function.node))
    axes = launch.axes or ()
    indices = calls_within(function.node, _PROGRAM)
    writes = [c for c in calls_within(function.node) if is_write(c)]
    if returns or len(axes) != 1 or not indices or any(program_axis(c) != 0 for c in indices):
        return ""
    scatter = _scatter_in(launch, writes[0]) if len(writes) == 1 else None
    if scatter is None or set(assigned_names(*function.body)) & set(function.params):
        return ""
    return _written(text, launch, scatter, programs)


def _spread_terms(node: cst.BaseExpression, axes: str = "") -> list[tuple[tuple[str, ...], str]]:
    """Return a pointer's terms, each with its factors and the axes that it is spread along."""
    if is_operation(node, cst.Add):
        return [*_spread_terms(node.left, axes), *_spread_terms(node.right, axes)]
    if isinstance(node, cst.Subscript):
        return _spread_terms(node.value, f"[{','.join(compact_code(e.slice) for e in node.slice)}]")
    if is_operation(node, cst.Multiply):
        sides = [_spread_terms(side, axes) for side in (node.left, node.right)]
        if all(len(side) == 1 for side in sides):
            return [((*sides[0][0][0], *sides[1][0][0]), axes)]
    return [((compact_code(node),), axes)]


def _scatter_in(launch: Launch, call: cst.Call) -> _Scatter | None:
    """Return an atomic operation as one that adds rows to rows of a small table."""
    function = launch.function
    statement = next(
        (s for s in _statements(function.body) if expression_statement(s) is call), None
    )
    values = _values(function.body)
    terms = _spread_terms(call.args[0].value)
    bases = [t for t in terms if len(t[0]) == 1 and t[0][0] in launch.arguments]
    rows = [t for t in terms if t[1] == _ROWS and t not in bases]
    columns = [t for t in terms if t[1] == _COLUMNS]
    is_whole = len(bases) == len(rows) == len(columns) == 1 and len(terms) == 3
    if called_name(call) != _ADD or statement is None or not is_whole or len(columns[0][0]) != 1:
        return None
    base, column = bases[0][0][0], columns[0][0][0]
    slots = [f for f in rows[0][0] if called_name(values.get(f, cst.Name("x"))) == "tl.load"]
    strides = [f for f in rows[0][0] if f not in slots]
    sizes = _table_sizes(launch, base)
    if (
        len(slots) != 1
        or len(strides) != 1
        or sizes is None
        or count_uses(function.node, base) != 2
    ):
        return None
    stride = launch.arguments.get(strides[0])
    if stride is None or compact_code(stride) != sizes[1] or argument_aliases(launch)[base]:
        return None
    blocks = _block_of(slots[0], values), _block_of(column, values)
    if calls_within(expand_names(cst.Name(column), values.get), _PROGRAM):
        return None  # programs sum the same columns in all their trips
    if not set(blocks) <= function.constants or blocks[0] == blocks[1]:
        return None
    parts = (base, slots[0], *blocks, column, strides[0], sizes[0])
    return _Scatter(statement, call, *parts, dtype=_loaded_type(call, values, launch))


def _loaded_type(call: cst.Call, values: Values, launch: Launch) -> str:
    """Return the type, as code, in which what is added was loaded, if it is as it was loaded."""
    value = argument_of(call, 1, "val")
    while isinstance(value, cst.Name) and value.value in values:
        value = without_widening(values[value.value])
    value = value if value is None else without_widening(value)
    if not isinstance(value, cst.Call) or called_name(value) != "tl.load":
        return ""
    terms = _spread_terms(value.args[0].value)
    bases = [t[0][0] for t in terms if len(t[0]) == 1 and t[0][0] in launch.arguments]
    return f"{bases[0]}.dtype.element_ty" if len(bases) == 1 else ""


def _statements(body: Body) -> list[cst.BaseStatement]:
    """Return statements, and those of loops among them."""
    return [s for one in body for s in (statements_of(one) if range_loop(one) else [one])]


def _values(body: Body) -> dict[str, cst.BaseExpression]:
    bindings = assignments_in(_statements(body))
    names = [b.target for b in bindings]
    return {b.target: b.value for b in bindings if names.count(b.target) == 1}


def _block_of(name: str, values: Values) -> str:
    """Return the size of the only range that a name follows from; empty if there is another."""
    parts = [values[other] for other in all_names(cst.Name(name), values) & values.keys()]
    ranges = [call for part in parts for call in calls_within(part, "tl.arange")]
    sizes = {compact_code(call.args[-1].value) for call in ranges}
    return sizes.pop() if len(sizes) == 1 else ""


def _is_masked(function: JitFunction, block: str) -> bool:
    """Tell whether every access along a block has a mask for its end: a longer block is right."""
    values = _values(function.body)
    for call in calls_within(function.node, "tl.load", _ADD):
        pointer = expand_names(call.args[0].value, values.get)
        mask = mask_of(call)
        if not _has_range(pointer, block):
            continue
        if mask is None or not _bounds(expand_names(mask, values.get), block):
            return False
    return True


def _has_range(node: cst.CSTNode, block: str) -> bool:
    return any(
        compact_code(call.args[-1].value) == block for call in calls_within(node, "tl.arange")
    )


def _bounds(mask: cst.BaseExpression, block: str) -> bool:
    """Tell whether a mask, or that of a load in it, compares the indices of a block with an end."""
    nodes = list(nodes_within(mask))
    if any(isinstance(node, (cst.BitOr, cst.BitInvert, cst.Or, cst.Not)) for node in nodes):
        return False
    return any(
        sides is not None and _has_range(sides[0], block)
        for node in nodes
        for sides in [compared_sides(node, "<")]
    )


def _table_sizes(launch: Launch, base: str) -> tuple[str, str] | None:
    """Return how many rows, of what length, an fp32 table has that the launcher allocates."""
    dtype, sizes = allocated_tensor(launch, base) or ("", [])
    is_table = dtype in _FLOATS and len(sizes) == 2
    return (compact_code(sizes[0]), compact_code(sizes[1])) if is_table else None


# ------------------------------------------------------------------------------- writing it


def _written(text: KernelText, launch: Launch, scatter: _Scatter, programs: Parameter) -> str:
    function, taken = launch.function, set(launch.function.names)
    index, count = free_name("block", taken), free_name("n_blocks", taken)
    bins, limit = free_name("SLOTS", taken), free_name("n_slots", taken)
    body = _body(function.body, scatter, (index, count, bins, limit), taken)
    if body is None:
        return ""
    name = text.fresh(f"{function.name}_by_slots")
    node = with_params(renamed_function(function, name, body), [count, limit], [bins])
    return _with_launch(text, launch, scatter, node, (count, bins, limit), programs)


def _body(
    body: Body, scatter: _Scatter, names: tuple[str, str, str, str], taken: set[str]
) -> list[cst.BaseStatement] | None:
    """Return statements in which a program walks over blocks of rows, within its loop if any."""
    index, count, bins, limit = names
    pairs = [(c, cst.Name(index)) for s in body for c in calls_within(s, _PROGRAM)]
    sums, at = free_name("sums", taken), free_name("slot_at", taken)
    loops = [s for s in body if range_loop(s) is not None]
    if len(loops) > 1 or any(statements_of(s) and s not in loops for s in body):
        return None
    inner = statements_of(loops[0]) if loops else []
    trip = [s for s in body if s not in loops] + inner
    added = _added(scatter, (sums, at), taken)
    swaps = {id(scatter.statement): added}
    head = f"for {index} in range({_PROGRAM}(0), {count}, tl.num_programs(0))"
    trips = [replace_each(s, pairs) for s in trip]
    statements = [t if o is not scatter.statement else o for t, o in zip(trips, trip, strict=True)]
    single = compound_statement(head, trips)
    walk = with_each(compound_statement(head, statements), swaps)
    begin = parse_statements(
        f"{at} = tl.arange(0, {bins})\n{sums} = tl.zeros(({bins}, {scatter.columns}), tl.float32)\n"
    )
    end = _stored(scatter, (sums, at, limit), trip, single)
    whole = [*begin, walk, *end]
    return [with_body(loops[0], whole)] if loops else whole


def _added(scatter: _Scatter, names: tuple[str, str], taken: set[str]) -> list[cst.BaseStatement]:
    """Return statements that add a block of rows to a program's sums."""
    sums, at = names
    rows, ones = free_name("rows_added", taken), free_name("ones", taken)
    value, mask = argument_of(scatter.call, 1, "val"), argument_of(scatter.call, 2, "mask")
    code = "0.0" if value is None else render_code(value)
    masked = code if mask is None else f"tl.where({render_code(mask)}, {code}, 0.0)"
    dtype = f".to({scatter.dtype})" if scatter.dtype else ""
    return parse_statements(
        f"{rows} = ({masked}){dtype}\n"
        f"{ones} = ({scatter.slot}[None, :] == {at}[:, None]).to({rows}.dtype)\n"
        f'{sums} += tl.dot({ones}, {rows}, input_precision="ieee")\n'
    )


def _stored(
    scatter: _Scatter, names: tuple[str, str, str], trip: Body, single: cst.BaseStatement
) -> list[cst.BaseStatement]:
    """Return statements that add a program's sums to memory, or its rows if sums are not finite."""
    sums, at, limit = names
    needed = all_names(cst.Name(scatter.column), last_values(trip))
    inside = f"({at} < {limit})[:, None] & ({scatter.column} < {scatter.stride})[None, :]"
    place = f"({scatter.base} + {at} * {scatter.stride})[:, None] + {scatter.column}[None, :]"
    branch = parse_statement(
        f"if tl.sum(tl.sum({sums} * 0.0, axis=1), axis=0) == 0.0:\n"
        f"    {_ADD}({place}, {sums}, mask={inside})\n"
        f"else:\n"
        f"    pass\n"
    )
    node = cst.ensure_type(branch, cst.If)
    other = with_body(cst.ensure_type(node.orelse, cst.Else), [single])
    own = [s for s in trip if (b := single_assignment(s)) is not None and b.target in needed]
    return [*own, node.with_changes(orelse=other)]


def _with_launch(
    text: KernelText,
    launch: Launch,
    scatter: _Scatter,
    node: cst.FunctionDef,
    names: tuple[str, str, str],
    programs: Parameter,
) -> str:
    """Return the file that launches a function for small tables, and else the original."""
    (count, bins, limit), arguments = names, arguments_of(launch)
    sizes = _sizes(launch, scatter)
    if sizes is None:
        return ""
    blocks = _with_size((launch.axes or ())[0], arguments[scatter.rows], sizes[scatter.rows])
    slots = f"max(triton.next_power_of_2({scatter.slots}), {_LEAST_SIDE})"
    return relaunched(
        text,
        NewLaunch(
            launch,
            node,
            grid=grid_with(launch.axes or (), 0, f"min({blocks}, {programs.name})"),
            arguments={**sizes, count: blocks, bins: slots, limit: scatter.slots},
        ),
        condition=f"{slots} * {sizes[scatter.columns]} <= {_MOST_SUMS}",
        parameters=[programs],
    )


def _sizes(launch: Launch, scatter: _Scatter) -> dict[str, str] | None:
    """Return sizes of blocks that products take; ``None`` if the function needs its own."""
    function, arguments = launch.function, arguments_of(launch)
    sides, sizes = {scatter.rows: _ROWS_A_TRIP, scatter.columns: _LEAST_SIDE}, dict[str, str]()
    for name, least in sides.items():
        is_free = _is_masked(function, name)
        if name == scatter.rows:
            is_free &= _is_rounded_up((launch.axes or ())[0], arguments[name])
        sizes[name] = _at_least(arguments[name], least) if is_free else arguments[name]
        if not is_free and not (sizes[name].isdigit() and int(sizes[name]) >= _LEAST_SIDE):
            return None
    return sizes


def _is_rounded_up(grid: cst.BaseExpression, size: str) -> bool:
    """Tell whether a grid has a block's size only as what ``cdiv`` divides by."""
    divisors = [c.args[1].value for c in calls_within(grid, "triton.cdiv") if len(c.args) == 2]
    places = [
        node
        for node in nodes_within(grid)
        if isinstance(node, cst.BaseExpression) and compact_code(node) == size
    ]
    return all(any(place is node for node in divisors) for place in places)


def _at_least(code: str, least: int) -> str:
    return str(max(int(code), least)) if code.isdigit() else f"max({code}, {least})"


def _with_size(node: cst.BaseExpression, old: str, new: str) -> str:
    pairs: list[Swap] = [
        (part, parse_expression(new))
        for part in nodes_within(node)
        if isinstance(part, cst.BaseExpression) and compact_code(part) == old
    ]
    return render_code(replace_each(node, pairs))
