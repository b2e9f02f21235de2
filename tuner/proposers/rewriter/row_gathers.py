"""Rows that are added by an index with atomics become sums of the rows of each index.

::

    row = tl.program_id(0)                           to = tl.program_id(0)
    to = tl.load(index + row)                  →     total = tl.zeros([N], dtype=tl.float32)
    x = tl.load(x_ptr + row * N + cols)              for at in range(begin, end):
    tl.atomic_add(out + to * N + cols, x)                row = tl.load(order + at)
                                                         total += tl.load(x_ptr + row * N + cols)
                                                     tl.store(out + to * N + cols, total)

Two small launches and a running sum list the rows of each index ahead: the first counts them, and
the count that a row finds is its place among them. So each row of the result is written once, and
not read, whatever the index is. What else is added by the same index, such as 1 to the count of a
mean, is summed up by the same loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    device_tensor,
    grid_axis,
    guarded_launch,
    renamed_function,
    with_params,
    without_param,
)
from solkit.tuner.proposers.rewriter._equal_sizes import allocated_sizes, spelled_size
from solkit.tuner.proposers.rewriter._launch_order import is_free_between
from solkit.tuner.proposers.rewriter._memory import WRITES, may_meet
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    compound_statement,
    expand_names,
    expression_statement,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    plain_code,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    compared_sides,
    conjuncts,
    is_operation,
    is_zero,
    nested_operands,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._roots import element_uses
from solkit.tuner.proposers.rewriter._values import all_names, argument_bases
from solkit.tuner.proposers.rewriter.product_fusion import fused_source
from solkit.tuner.proposers.rewriter.program_fusion import merged_programs
from solkit.tuner.proposers.rewriter.row_programs import (
    with_column_programs,
    with_masked_additions,
    with_row_programs,
)
from solkit.tuner.proposers.rewriter.single_trips import with_single_trips

_PROGRAM = "tl.program_id"
_BLOCK = 256
"""Rows that a program lists."""
_IN_FLIGHT = 4
"""Rows of an index that a program waits for at a time."""
_FLOATS = ("torch.float32", "torch.float16", "torch.bfloat16")
_INTEGERS = ("torch.int32", "torch.int64")
_MOST = 3
"""Results of a launch."""
_NO_COMMA = cst.MaybeSentinel.DEFAULT
_POINTERS = ("counts_ptr", "places_ptr", "ends_ptr", "order_ptr", "programs", "elements")
_WORDS = ("found", "inside", "count", "place", "begin", "end", "at", "total")
"""New names, the second with that of the index ahead."""


class GatherRows:
    """A program sums up all rows of one index, which atomics would add one by one.

    Applies to functions whose only writes add blocks, or numbers, to zeros of the launcher, at a
    row that is loaded for each program. A block must be as long as the row, or masked by its
    length. Along a second axis of the grid, programs may have columns of the row.
    """

    kind = "gather rows"
    helps = ("extra traffic", "atomics", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            name, scatter = launch.function.name, _scatter_in(text, launch)
            if scatter is not None:
                why = facts.explain_factors("extra traffic", "atomics", "latency")
                intent = f"{name} adds rows with atomics; a program sums up those of an index"
                source = _with_reader(scatter) or _with_gathers(scatter)
                whole = parse_kernel(source)
                source = (whole and fused_source(whole)) or source
                yield Variant(source, f"{intent}{why}.")
                yield Variant(
                    _with_rows_in_flight(source, scatter), f"{intent}, several at a time."
                )


def _scatter_in(text: KernelText, launch: Launch) -> _Scatter | None:
    """Return a launch as a scatter, in a form that has a program for each row, and for columns."""
    name = launch.function.name
    if not calls_within(launch.function.node, "tl.atomic_add"):
        return None
    plain = parse_kernel(with_single_trips(text, launch) or render_module(text.tree))
    plain = plain and (with_masked_additions(plain, plain.launches_of(name)[0]) or plain)
    scatter = None if plain is None else _scatter_of(plain, plain.launches_of(name)[0])
    if scatter is not None:
        return scatter
    columns = with_column_programs(text, launch) or with_row_programs(text, launch)
    return None if columns is None else _scatter_of(*columns)


@dataclass(frozen=True)
class _Place:
    """Elements of a row: ``tensor + row * length + columns``.

    Attributes:
        param: the tensor's parameter.
        row: name of the row.
        length: of a row, as code of the function.
        columns: those of a program, with all names written out; ``None`` for rows of one element.
        block: how many columns there are.
        axis: of the grid, which the columns depend on; ``None`` for columns from the first on.
    """

    param: str
    row: str
    length: str = "1"
    columns: cst.BaseExpression | None = None
    block: cst.BaseExpression | None = None
    axis: int | None = None


@dataclass(frozen=True)
class _Addition:
    """An addition to rows of a result.

    Attributes:
        statement: of the function.
        place: of the elements.
        value, pointer, mask: of the addition.
        zeros: statement that allocates the result.
        result: the launcher's name of the result.
    """

    statement: cst.BaseStatement
    place: _Place
    value: cst.BaseExpression
    pointer: cst.BaseExpression
    mask: cst.BaseExpression | None
    zeros: cst.BaseStatement
    result: str


@dataclass(frozen=True)
class _Scatter:
    """A launch that adds blocks by an index.

    Attributes:
        text: the file.
        launch: the launch.
        index: name of the loaded row of the results.
        load: statement that loads it.
        program: name of the program's index that says which row it loads.
        axis: of the grid, along which that index goes.
        additions: to results, of which the first is to whole rows.
        mask: of the load; ``None`` for none.
        chosen: conditions on the loaded row and the program, as code: other rows add nothing.
        guard, original: as in `_scatter_of`.
    """

    text: KernelText
    launch: Launch
    index: str
    load: cst.BaseStatement
    program: str
    axis: int
    additions: tuple[_Addition, ...]
    mask: cst.BaseExpression | None
    chosen: tuple[str, ...] = ()
    guard: str = ""
    original: cst.SimpleStatementLine | None = None


def _scatter_of(
    text: KernelText,
    launch: Launch,
    guard: str = "",
    original: cst.SimpleStatementLine | None = None,
) -> _Scatter | None:
    """Return a launch as a scatter; ``None`` for another one.

    Args:
        text: the file.
        launch: of it.
        guard: of the launcher, where the launch is right; empty for everywhere.
        original: the launch for elsewhere.
    """
    body, values = launch.function.body, single_values(launch.function.body)
    additions = _additions(launch, values)
    if not additions or not all(isinstance(s, cst.SimpleStatementLine) for s in body):
        return None
    index = additions[0].place.row
    loads = [s for s in body if (b := single_assignment(s)) and b.target == index]
    load = single_assignment(loads[0]) if len(loads) == 1 else None
    if load is None or called_name(load.value) != "tl.load":
        return None
    loaded = cst.ensure_type(load.value, cst.Call)
    address, inside = argument_of(loaded, 0, "pointer"), argument_of(loaded, 1, "mask")
    is_filled = argument_of(loaded, 2, "other") is not None
    if address is None:
        return None
    programs = {n: a for n, v in values.items() if (a := grid_axis(v)) is not None}
    needed = all_names(address, values) | (all_names(inside, values) if inside else set())
    own = sorted(needed & programs.keys())
    calls = [c for n in needed if n in values for c in calls_within(values[n])]
    odd = any(called_name(c) != _PROGRAM for c in (*calls, *calls_within(address)))
    if len(own) != 1 or odd or not _fits_grid(launch, additions, programs[own[0]]):
        return None
    adding = [addition.statement for addition in additions]
    masks = _Masks(launch, values, inside, index, own[0])
    chosen = masks.chosen(additions, is_filled=is_filled)
    if chosen is None:
        return None  # an addition with another mask may leave elements of a row alone
    of_rows = {n: v for n, v in values.items() if n != index}
    if any(own[0] in all_names(addition.pointer, of_rows) for addition in additions):
        return None
    names = assigned_names(*body)
    if len(names) != len(set(names)) or set(launch.function.names) & {
        *_POINTERS,
        *(f"{index}_{word}" for word in (*_WORDS, "total_1", "total_2")),
    }:
        return None
    if any(single_assignment(s) is None for s in body if s not in adding):
        return None
    reads = calls_within(launch.function.node, "tl.load")
    for call in map(expression_statement, adding):
        stored = argument_bases(launch, cst.ensure_type(call, cst.Call))
        if any(may_meet(stored, argument_bases(launch, read)) for read in reads):
            return None
    parts = index, loads[0], own[0], programs[own[0]], tuple(additions), inside, chosen
    return _Scatter(text, launch, *parts, guard, original)


def _additions(launch: Launch, values: Values) -> list[_Addition]:
    """Return a function's writes, if all add to rows of one index; those to whole rows first."""
    additions = list[_Addition]()
    for statement in launch.function.body:
        if not calls_within(statement, *WRITES):
            continue
        add = expression_statement(statement)
        if not isinstance(add, cst.Call) or called_name(add) != "tl.atomic_add":
            return []
        pointer, value = argument_of(add, 0, "pointer"), argument_of(add, 1, "val")
        place = None if pointer is None else _row_place(pointer, values)
        mask = argument_of(add, 2, "mask")
        zeros = None if place is None else _zeros(launch, place)
        if pointer is None or value is None or place is None or zeros is None:
            return []
        if _is_integer(zeros) and integer_literal(value) is None:
            return []  # the sum's type would be another one
        result = render_code(launch.arguments[place.param])
        additions.append(_Addition(statement, place, value, pointer, mask, zeros, result))
    additions.sort(key=lambda addition: addition.place.columns is None)
    results = {addition.result for addition in additions}
    is_apart = len(results) == len(additions) == len({a.zeros for a in additions})
    alike = len({addition.place.row for addition in additions}) == 1
    has_rows = bool(additions) and additions[0].place.columns is not None
    return additions if is_apart and alike and has_rows and len(additions) <= _MOST else []


@dataclass(frozen=True)
class _Masks:
    """Masks of additions, against that of the load of the row.

    Attributes:
        launch: of the function.
        values: of names.
        inside: mask of the load; ``None`` for none.
        index: name of the loaded row.
        program: name of the program's index that says which row it loads.
    """

    launch: Launch
    values: Values
    inside: cst.BaseExpression | None
    index: str
    program: str

    def chosen(self, additions: Sequence[_Addition], *, is_filled: bool) -> tuple[str, ...] | None:
        """Return conditions under which a program's row is added, to all of its columns.

        ``None`` if additions are to parts of rows, or have other conditions than each other.

        Args:
            additions: of the function.
            is_filled: whether a masked load gives a row that must not be added to.
        """
        of_load = {plain_code(part) for part in self._parts(self.inside)}
        chosen = list[tuple[str, ...]]()
        for addition in additions:
            place, parts = addition.place, self._parts(addition.mask)
            others = [part for part in parts if plain_code(part) not in of_load]
            if is_filled and len(parts) - len(others) < len(of_load):
                return None
            conditions = [part for part in others if self._is_condition(part)]
            needs_mask = place.block is not None and (
                place.axis is not None or compact_code(place.block) != place.length
            )
            ends = [part for part in others if part not in conditions]
            if len(ends) > 1 or (needs_mask and not ends):
                return None
            if ends and not self._ends_row(ends[0], place):
                return None
            chosen.append(tuple(sorted({render_code(parenthesized(c)) for c in conditions})))
        return chosen[0] if len(set(chosen)) == 1 else None

    def _parts(self, mask: cst.BaseExpression | None) -> list[cst.BaseExpression]:
        """Return conditions that are joined, with all names written out but the row's own."""
        kept = {self.index, self.program}
        values = {n: parenthesized(v) for n, v in self.values.items() if n not in kept}
        return [] if mask is None else conjuncts(expand_names(mask, values.get))

    def _is_condition(self, node: cst.BaseExpression) -> bool:
        """Tell whether a condition is one of the row that is loaded, and of arguments alone."""
        fixed = {self.index, self.program, *self.launch.function.params}
        odd = (cst.Call, cst.BooleanOperation, cst.Not)
        is_plain = isinstance(node, cst.Comparison) and not any(
            isinstance(part, odd) for part in nodes_within(node)
        )
        return is_plain and names_within(node) <= fixed

    def _ends_row(self, mask: cst.BaseExpression, place: _Place) -> bool:
        """Tell whether a mask with all names written out is that of a row's columns."""
        sides = compared_sides(mask, "<")
        if sides is None or place.columns is None:
            return False
        ends = {_spelled(node, self.launch) for node in (sides[1], parse_expression(place.length))}
        return plain_code(sides[0]) == plain_code(place.columns) and len(ends) == 1


def _spelled(node: cst.BaseExpression, launch: Launch) -> str:
    """Return a size of a function as that of the launcher, in the one way to spell it."""
    return spelled_size(substitute_names(node, dict(launch.arguments)), launch.launcher)


def _whole(node: cst.BaseExpression, values: Values) -> cst.BaseExpression:
    """Return an expression with all names written out."""
    return expand_names(node, lambda name: _grouped(values.get(name)))


def _fits_grid(launch: Launch, additions: Sequence[_Addition], axis: int) -> bool:
    """Tell whether programs differ in the row that they load, and in columns of all results."""
    calls = calls_within(launch.function.node, _PROGRAM, "tl.num_programs")
    axes = len(launch.axes or ())
    read = [grid_axis(call) if called_name(call) == _PROGRAM else None for call in calls]
    others = {a for a in range(axes) if a != axis}
    of_columns = {addition.place.axis for addition in additions}
    is_one = not others and of_columns == {None}
    is_pair = others == {1} == of_columns  # axis 0 alone may have more than 65,535 programs
    return (is_one or is_pair) and len(read) == axes and set(read) == set(range(axes))


def _row_place(pointer: cst.BaseExpression, values: Values) -> _Place | None:
    """Return a pointer as a place in a row; ``None`` for another one."""
    named, products, columns = list[str](), list[cst.BinaryOperation](), list[cst.BaseExpression]()
    for term in nested_operands(pointer, cst.Add):
        whole = _whole(term, values)
        if calls_within(whole, "tl.arange"):
            columns.append(whole)
        elif isinstance(term, cst.Name):
            named.append(term.value)
        elif is_operation(term, cst.Multiply):
            products.append(cst.ensure_type(term, cst.BinaryOperation))
    count = len(nested_operands(pointer, cst.Add))
    rows = [name for name in named if _is_loaded(name, values)]
    tensors = [name for name in named if name not in rows]
    if len(tensors) != 1 or len(named) + len(products) + len(columns) != count:
        return None
    if count == 2 and len(rows) == 1:
        return _Place(tensors[0], rows[0])
    if len(products) != 1 or len(columns) != 1 or rows:
        return None
    for row, length in both_orders(products[0], cst.Multiply):
        if isinstance(row, cst.Name) and _is_loaded(row.value, values):
            parts = _columns(columns[0])
            code = compact_code(length)
            return None if parts is None else _Place(tensors[0], row.value, code, *parts)
    return None


def _is_loaded(name: str, values: Values) -> bool:
    return name in values and called_name(values[name]) == "tl.load"


def _columns(
    node: cst.BaseExpression,
) -> tuple[cst.BaseExpression, cst.BaseExpression, int | None] | None:
    """Return columns, how many there are, and along which axis programs have others."""
    ranges = [term for term in nested_operands(node, cst.Add) if called_name(term) == "tl.arange"]
    firsts = [term for term in nested_operands(node, cst.Add) if term not in ranges]
    begin, end = (argument_of(ranges[0], i) if len(ranges) == 1 else None for i in range(2))
    if begin is None or end is None or not is_zero(begin) or len(firsts) > 1:
        return None
    if not firsts:
        return node, end, None
    for program, block in both_orders(firsts[0], cst.Multiply):
        if (axis := grid_axis(program)) is not None and plain_code(block) == plain_code(end):
            return node, end, axis
    return None


def _zeros(launch: Launch, place: _Place) -> cst.BaseStatement | None:
    """Return the statement that allocates a launch's result, which nothing reads in between."""
    argument = launch.arguments.get(place.param)
    name = argument.value if isinstance(argument, cst.Name) else ""
    body = statements_of(launch.launcher)
    allocations = [
        s for s in body if (b := single_assignment(s)) and b.target == name and not b.operator
    ]
    if (
        len(allocations) != 1
        or launch.statement not in body
        or assigned_names(*body).count(name) != 1
    ):
        return None
    binding = single_assignment(allocations[0])
    value = None if binding is None else binding.value
    if not isinstance(value, cst.Call) or called_name(value) != "torch.zeros":
        return None
    dtype = next((a.value for a in value.args if a.keyword and a.keyword.value == "dtype"), None)
    types = _FLOATS if place.columns is not None else _FLOATS + _INTEGERS
    if dtype is None or render_code(dtype) not in types:
        return None
    begin, end = body.index(allocations[0]), body.index(launch.statement)
    others = [a for p, a in launch.arguments.items() if p != place.param]
    between = any(element_uses(s, name) for s in body[begin + 1 : end])
    between |= bool(names_within(allocations[0]) & set(assigned_names(*body[begin + 1 : end])))
    is_read = any(element_uses(argument, name) for argument in others)
    return None if between or is_read or begin > end else allocations[0]


# ------------------------------------------------------------------------------- the new file


def _with_reader(scatter: _Scatter) -> str:
    """Return the file in which a launch that reads the result by rows does what gathers them, too.

    Empty if no launch does, or if it needs the result in memory. Its programs may be more than
    there are rows: these sum up nothing, and its own masks are as they were.
    """
    text, name = scatter.text, scatter.launch.function.name
    if scatter.guard:
        return ""
    for launch in text.launches[[e.function.name for e in text.launches].index(name) + 1 :][:1]:
        form = parse_kernel(with_single_trips(text, launch) or render_module(text.tree))
        again = None if form is None else _scatter_of(form, form.launches_of(name)[0])
        if form is None or again is None:
            continue
        reader = form.launches_of(launch.function.name)[0]
        is_free = is_free_between(again.launch, reader)
        gathering = _with_gathers(again, reader) if is_free else ""
        merged = merged_programs(gathering, reader.function.name) if gathering else ""
        whole = parse_kernel(merged) if merged else None
        results = {addition.result for addition in scatter.additions}
        if whole is not None and not results & names_within(whole.launcher):
            return merged
    return ""


def _with_rows_in_flight(source: str, scatter: _Scatter) -> str:
    """Return a file whose loop over the rows of an index waits for several rows at a time.

    An index that is more frequent than others has a long loop: its program is the last to end.
    """
    bounds = ", ".join(f"{scatter.index}_{word}" for word in _WORDS[4:6])
    unrolled = f"in tl.range({bounds}, loop_unroll_factor={_IN_FLIGHT}):"
    return source.replace(f"in range({bounds}):", unrolled)


def _with_gathers(scatter: _Scatter, reader: Launch | None = None) -> str:
    """Return the file whose launch gathers, with the launches that list its rows.

    Args:
        scatter: the launch.
        reader: a launch that is to become one with it: with its grid, and without a mask of its
            store, the file is no end in itself.
    """
    text, launch = scatter.text, scatter.launch
    name = launch.function.name
    names = {key: text.fresh(f"{name}_{key}") for key in ("count", "list", "gather")}
    tables = {key: text.fresh(key) for key in ("counts", "places", "ends", "order")}
    axes = [render_code(axis) for axis in launch.axes or ()]
    counts = dict.fromkeys(_rows_of(scatter, addition) for addition in scatter.additions)
    rows = f"max({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
    programs = render_code(parenthesized(parse_expression(axes[scatter.axis])))
    count, listing = _listing(scatter, names)
    gather = _gathering(scatter, names["gather"], is_whole=reader is None)
    device = f"device={device_tensor(launch)}.device"
    int_ = "dtype=torch.int32"
    listed = [
        f"{tables['counts']} = torch.zeros({rows}, {int_}, {device})",
        f"{tables['places']} = torch.empty({programs}, {int_}, {device})",
        f"{tables['order']} = torch.empty({programs}, {int_}, {device})",
    ]
    blocks = f"(triton.cdiv({programs}, {_BLOCK}),)"
    plain = replace(launch, options={})
    passed = dict(zip(_POINTERS, tables.values(), strict=False))
    passed["programs"] = programs
    for place, addition in enumerate(scatter.additions):
        size = _size_of(scatter, addition)
        passed[_elements(place)] = size if reader is None else rows
    statements = [
        *map(parse_statement, listed),
        NewLaunch(plain, count, grid=blocks, arguments=passed).statement,
        parse_statement(f"{tables['ends']} = torch.cumsum({tables['counts']}, 0, {int_})"),
        NewLaunch(plain, listing, grid=blocks, arguments=passed).statement,
    ]
    axes[scatter.axis] = rows
    grid = f"({', '.join(axes)},)" if reader is None else render_code(reader.grid)
    gathered = NewLaunch(launch, gather, grid=grid, arguments=passed).statement
    placed = [*statements, *([gathered] if reader is None else [])]
    if scatter.guard and scatter.original is not None:
        placed = guarded_launch(scatter.guard, gathered, scatter.original, statements)
    swaps: list[tuple[cst.BaseStatement, list[cst.BaseStatement]]] = [(launch.statement, placed)]
    if reader is not None:
        swaps.append((reader.statement, [gathered, reader.statement]))
    for addition in scatter.additions:
        zeros = single_assignment(addition.zeros)
        assert zeros is not None
        # a row that nothing is added to is written, too: all of the result is
        is_written = _covers_result(scatter, addition) and len(counts) == 1 and not scatter.guard
        allocator = parse_expression("torch.empty" if is_written else "torch.zeros")
        call = cst.ensure_type(zeros.value, cst.Call)
        swaps.append((addition.zeros, [replace_each(addition.zeros, [(call.func, allocator)])]))
    return changed_text(text, {name: gather}, {name: [count, listing]}, swaps)


def _elements(place: int) -> str:
    """Return the name of the parameter with the number of a result's elements."""
    return f"elements_{place}" if place else "elements"


def _covers_result(scatter: _Scatter, addition: _Addition) -> bool:
    """Tell whether programs have all columns of a row, by what the launcher's text says."""
    place, launch = addition.place, scatter.launch
    if addition.mask is None or place.block is None:
        return True
    sizes = [
        render_code(substitute_names(node, dict(launch.arguments)))
        for node in (parse_expression(place.length), place.block)
    ]
    own, whole = place.block, f"triton.next_power_of_2({sizes[0]})"
    if place.axis is not None:
        own, whole = (launch.axes or ())[place.axis], f"triton.cdiv({', '.join(sizes)})"
    return _spelled(own, launch) == spelled_size(parse_expression(whole), launch.launcher)


def _rows_of(scatter: _Scatter, addition: _Addition) -> str:
    """Return the number of a result's rows as code that does not name it."""
    length = parse_expression(addition.place.length)
    size = substitute_names(length, dict(scatter.launch.arguments))
    sizes = allocated_sizes(addition.result, scatter.launch.launcher)
    launcher = scatter.launch.launcher
    if sizes is not None and len(sizes) < 3:
        row = spelled_size(sizes[1], launcher) if len(sizes) == 2 else "1"
        if row == spelled_size(size, launcher):
            return render_code(sizes[0])
    return f"triton.cdiv({_size_of(scatter, addition)}, {render_code(parenthesized(size))})"


def _size_of(scatter: _Scatter, addition: _Addition) -> str:
    """Return the number of a result's elements as code that does not name it."""
    sizes = allocated_sizes(addition.result, scatter.launch.launcher)
    if sizes is not None:
        return " * ".join(render_code(parenthesized(size)) for size in sizes)
    zeros = single_assignment(addition.zeros)
    call = cst.ensure_type(zeros.value, cst.Call) if zeros is not None else cst.Call(cst.Name(""))
    positional = [a for a in call.args if a.keyword is None or a.keyword.value == "size"]
    listed = ", ".join(render_code(a.with_changes(comma=_NO_COMMA)) for a in positional)
    return f'torch.empty({listed}, device="meta").numel()'


_COUNT = """
{found} = {address}
{inside} = {mask}
{place} = tl.atomic_add(counts_ptr + {found}, 1, mask={inside})
tl.store(places_ptr + {program}, {place}, mask={inside})
"""
_LIST = """
{found} = {address}
{inside} = {mask}
{count} = tl.load(counts_ptr + {found}, mask={inside})
{place} = tl.load(ends_ptr + {found}, mask={inside}) - {count}
{place} += tl.load(places_ptr + {program}, mask={inside})
tl.store(order_ptr + {place}, {program}, mask={inside})
"""


def _listing(scatter: _Scatter, names: Mapping[str, str]) -> list[cst.FunctionDef]:
    """Return the functions that count the rows of each index, and that list them."""
    function = scatter.launch.function
    values = single_values(function.body)
    load = single_assignment(scatter.load)
    assert load is not None
    call = cst.ensure_type(load.value, cst.Call)
    address = argument_of(call, 0, "pointer")
    assert address is not None

    def whole(node: cst.BaseExpression) -> str:
        return render_code(
            expand_names(node, lambda n: None if n == scatter.program else _grouped(values.get(n)))
        )

    inside = f"{scatter.program} < programs"
    if scatter.mask is not None:
        inside = f"({inside}) & ({whole(scatter.mask)})"
    row = {scatter.index: cst.Name(f"{scatter.index}_{_WORDS[0]}")}
    chosen = [render_code(substitute_names(parse_expression(c), row)) for c in scatter.chosen]
    words = {
        "program": scatter.program,
        "mask": " & ".join((f"({inside})", *chosen)),
        "address": f"tl.load({whole(address)}, mask={inside}, other=0)",
        **{key: f"{scatter.index}_{key}" for key in _WORDS[:4]},
    }
    head = f"{scatter.program} = {_PROGRAM}(0) * {_BLOCK} + tl.arange(0, {_BLOCK})\n"
    nodes = []
    for key, code, pointers in (("count", _COUNT, 2), ("list", _LIST, 4)):
        body = parse_statements(head + code.format(**words))
        node = renamed_function(function, names[key], body)
        read = names_within(*body)
        for param in function.params:
            node = node if param in read else without_param(node, param)
        nodes.append(with_params(node, added=[*_POINTERS[:pointers], "programs"]))
    return nodes


def _grouped(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    return None if node is None else parenthesized(node)


def _gathering(scatter: _Scatter, name: str, *, is_whole: bool) -> cst.FunctionDef:
    """Return the function that sums up the rows of one index, which is a program's.

    Args:
        scatter: the launch.
        name: of the function.
        is_whole: whether each program has a row, and stores what there is of it.
    """
    function = scatter.launch.function
    values = single_values(function.body)
    stored = [addition.pointer for addition in scatter.additions]
    of_rows = {n: v for n, v in values.items() if n != scatter.index}
    outside = set[str]().union(*(all_names(pointer, of_rows) for pointer in stored))
    adding = [addition.statement for addition in scatter.additions]
    ahead, within = list[cst.BaseStatement](), list[cst.BaseStatement]()
    for statement in function.body:
        binding = single_assignment(statement)
        target = "" if binding is None else binding.target
        if target == scatter.program or statement in (scatter.load, *adding):
            continue
        (ahead if target in outside else within).append(statement)
    begin, end, at, total = (f"{scatter.index}_{word}" for word in _WORDS[4:])
    row = scatter.index
    inside = "" if is_whole else f", mask={row} < elements, other=0"
    totals = [total, *(f"{total}_{place}" for place in range(1, len(adding)))]
    head = [
        f"{row} = {_PROGRAM}({scatter.axis}){'.to(tl.int64)' if is_whole else ''}",
        f"{end} = tl.load(ends_ptr + {row}{inside})",
        f"{begin} = {end} - tl.load(counts_ptr + {row}{inside})",
    ]
    first = f"{scatter.program} = tl.load(order_ptr + {at})"
    sums, stores = list[str](), list[str]()
    for place, (name_, addition) in enumerate(zip(totals, scatter.additions, strict=True)):
        own, pointer = addition.place, render_code(addition.pointer)
        value = render_code(parenthesized(addition.value))
        # a number of the text times no rows is 0; an argument may be infinite
        if names_within(addition.value) or own.block is not None:
            head.append(f"{name_} = {_first_sum(addition)}")
            sums.append(f"{name_} += {value}")
        else:
            times = "" if _is_integer(addition.zeros) else ".to(tl.float32)"
            stores.append(f"{name_} = ({end} - {begin}){times} * {value}")
        masks = []
        if addition.mask is not None and own.columns is not None:
            parts = nested_operands(addition.pointer, cst.Add)
            ranges = (t for t in parts if calls_within(_whole(t, values), "tl.arange"))
            masks.append(f"({render_code(next(ranges))} < {own.length})")
        if is_whole:
            terms = [render_code(term) for term in nested_operands(addition.pointer, cst.Add)]
            element = " + ".join(term for term in terms if term != own.param)
            masks.append(f"({element} < {_elements(place)})")
        mask = f", mask={' & '.join(masks)}" if masks else ""
        stores.append(f"tl.store({pointer}, {name_}{mask})")
    inner = [parse_statement(first), *within, *map(parse_statement, sums)]
    loop = compound_statement(f"for {at} in range({begin}, {end})", inner)
    body = [*map(parse_statement, head), *ahead, loop, *map(parse_statement, stores)]
    node = renamed_function(function, name, body)
    elements = map(_elements, range(len(adding) if is_whole else 1))
    return with_params(node, added=["counts_ptr", "ends_ptr", "order_ptr", *elements])


def _first_sum(addition: _Addition) -> str:
    if addition.place.block is not None:
        return f"tl.zeros([{render_code(addition.place.block)}], dtype=tl.float32)"
    return "0" if _is_integer(addition.zeros) else "0.0"


def _is_integer(zeros: cst.BaseStatement) -> bool:
    binding = single_assignment(zeros)
    dtype = None if binding is None else argument_of(binding.value, 99, "dtype")
    return dtype is not None and render_code(dtype) in _INTEGERS
