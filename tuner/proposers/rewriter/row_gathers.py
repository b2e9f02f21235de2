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
not read, whatever the index is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    device_tensor,
    launch_line,
    options_of,
    renamed_function,
    with_params,
    without_param,
)
from solkit.tuner.proposers.rewriter._memory import WRITES, may_meet
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expand_names,
    expression_statement,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    is_changed_between,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._values import argument_bases
from solkit.tuner.proposers.rewriter.fusion import is_harmless
from solkit.tuner.proposers.rewriter.program_fusion import merged_programs
from solkit.tuner.proposers.rewriter.single_trips import with_single_trips

_PROGRAM = "tl.program_id"
_BLOCK = 256
"""Rows that a program lists."""
_FLOATS = ("torch.float32", "torch.float16", "torch.bfloat16")
_NO_COMMA = cst.MaybeSentinel.DEFAULT
_POINTERS = ("counts_ptr", "places_ptr", "ends_ptr", "order_ptr", "programs", "elements")
_WORDS = ("found", "inside", "count", "place", "begin", "end", "at", "total")
"""New names, the second with that of the index ahead."""


class GatherRows:
    """A program sums up all rows of one index, which atomics would add one by one.

    Applies to functions whose only write adds a block to zeros of the launcher, at a row that is
    loaded for each program. Each row of the result must be as long as the block is.
    """

    kind = "gather rows"
    helps = ("extra traffic", "atomics", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for name in [launch.function.name for launch in text.single]:
            (launch,) = text.launches_of(name)
            form = parse_kernel(with_single_trips(text, launch) or render_module(text.tree))
            scatter = None if form is None else _scatter_of(form, form.launches_of(name)[0])
            if scatter is not None:
                why = facts.explain_factors("extra traffic", "atomics", "latency")
                yield Variant(
                    _with_reader(scatter) or _with_gathers(scatter),
                    f"{name} adds rows with atomics; a program sums up those of an index{why}.",
                )


@dataclass(frozen=True)
class _Scatter:
    """A launch that adds blocks by an index.

    Attributes:
        text: the file.
        launch: the launch.
        zeros: statement that allocates the result.
        result: the launcher's name of the result.
        index: name of the loaded row of the result.
        load: statement that loads it.
        program: name of the program's index that says which row it loads.
        add: statement that adds.
        value, pointer: of the addition.
        length: of the block, as code of the function.
        mask: of the load; ``None`` for none.
    """

    text: KernelText
    launch: Launch
    zeros: cst.BaseStatement
    result: str
    index: str
    load: cst.BaseStatement
    program: str
    add: cst.BaseStatement
    value: cst.BaseExpression
    pointer: cst.BaseExpression
    length: str
    mask: cst.BaseExpression | None


def _scatter_of(text: KernelText, launch: Launch) -> _Scatter | None:
    """Return a launch as a scatter; ``None`` for another one."""
    body, values = launch.function.body, single_values(launch.function.body)
    writes = [s for s in body if calls_within(s, *WRITES)]
    plain = all(isinstance(s, cst.SimpleStatementLine) for s in body)
    add = expression_statement(writes[0]) if len(writes) == 1 else None
    if not plain or not isinstance(add, cst.Call) or called_name(add) != "tl.atomic_add":
        return None
    pointer, value = argument_of(add, 0, "pointer"), argument_of(add, 1, "val")
    mask = argument_of(add, 2, "mask")
    parts = None if pointer is None else _row_place(pointer, values)
    if parts is None or value is None or pointer is None or mask is not None:
        return None  # an addition with a mask may leave elements of a row alone
    index_calls = calls_within(launch.function.node, _PROGRAM, "tl.num_programs")
    if launch.axes is None or len(launch.axes) > 1 or len(index_calls) != 1:
        return None  # programs along another axis would store to one row; a program will be one
    param, index, length = parts
    loads = [s for s in body if (b := single_assignment(s)) and b.target == index]
    load = single_assignment(loads[0]) if len(loads) == 1 else None
    if load is None or called_name(load.value) != "tl.load":
        return None
    loaded = cst.ensure_type(load.value, cst.Call)
    address, inside = argument_of(loaded, 0, "pointer"), argument_of(loaded, 1, "mask")
    if address is None or argument_of(loaded, 2, "other") is not None:
        return None
    programs = {n for n, v in values.items() if called_name(v) == _PROGRAM}
    needed = _needed((address, *([inside] if inside is not None else [])), values)
    own = sorted(needed & programs)
    uses = sum(count_uses(s, index) for s in body)
    zeros = _zeros(launch, param)
    calls = [c for n in needed if n in values for c in calls_within(values[n])]
    odd = any(called_name(c) != _PROGRAM for c in (*calls, *calls_within(address)))
    if len(own) != 1 or odd or uses != 1 + count_uses(writes[0], index) or zeros is None:
        return None
    if {own[0]} & _needed((pointer,), {n: v for n, v in values.items() if n != index}):
        return None
    if len(assigned_names(*body)) != len(set(assigned_names(*body))):
        return None
    result = render_code(launch.arguments[param])
    if any(
        binding is None for s in body if s is not writes[0] for binding in (single_assignment(s),)
    ):
        return None
    stored = argument_bases(launch, add)
    reads = calls_within(launch.function.node, "tl.load")
    if any(may_meet(stored, argument_bases(launch, read)) for read in reads):
        return None
    if set(launch.function.names) & {*_POINTERS, *(f"{index}_{word}" for word in _WORDS)}:
        return None
    scatter = _Scatter(
        text,
        launch,
        zeros,
        result,
        index,
        loads[0],
        own[0],
        writes[0],
        value,
        pointer,
        length,
        inside,
    )
    return scatter if called_name(values[own[0]]) == _PROGRAM else None


def _row_place(pointer: cst.BaseExpression, values: Values) -> tuple[str, str, str] | None:
    """Return the tensor, the row and the row's length of ``tensor + row * length + columns``.

    `columns` is a range of the row's length, so that each row is written as a whole.
    """
    terms = _terms(pointer)
    if len(terms) != 3:
        return None
    named, products, ranges = [], [], []
    for term in terms:
        whole = values.get(term.value, term) if isinstance(term, cst.Name) else term
        if called_name(whole) == "tl.arange":
            ranges.append(cst.ensure_type(whole, cst.Call))
        elif isinstance(term, cst.Name):
            named.append(term.value)
        elif isinstance(term, cst.BinaryOperation) and isinstance(term.operator, cst.Multiply):
            products.append(term)
    if not len(named) == len(products) == len(ranges) == 1:
        return None
    sides = products[0].left, products[0].right
    lengths = [compact_code(arg.value) for arg in ranges[0].args]
    for row, length in (sides, sides[::-1]):
        if isinstance(row, cst.Name) and lengths == ["0", compact_code(length)]:
            return named[0], row.value, compact_code(length)
    return None


def _terms(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _needed(nodes: Sequence[cst.BaseExpression], values: Values) -> set[str]:
    """Return all names that expressions are made of."""
    pending, seen = list(names_within(*nodes)), set[str]()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += names_within(values[name]) if name in values else ()
    return seen


def _zeros(launch: Launch, param: str) -> cst.BaseStatement | None:
    """Return the statement that allocates a launch's result, which nothing names in between."""
    argument = launch.arguments.get(param)
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
    if dtype is None or render_code(dtype) not in _FLOATS:
        return None
    begin, end = body.index(allocations[0]), body.index(launch.statement)
    others = [a for p, a in launch.arguments.items() if p != param]
    between = any(name in names_within(s) for s in body[begin + 1 : end])
    return None if between or name in names_within(*others) or begin > end else allocations[0]


# ------------------------------------------------------------------------------- the new file


def _with_reader(scatter: _Scatter) -> str:
    """Return the file in which a launch that reads the result by rows does what gathers them, too.

    Empty if no launch does, or if it needs the result in memory. Its programs may be more than
    there are rows: these sum up nothing, and its own masks are as they were.
    """
    text, name = scatter.text, scatter.launch.function.name
    for launch in text.launches[[e.function.name for e in text.launches].index(name) + 1 :][:1]:
        form = parse_kernel(with_single_trips(text, launch) or render_module(text.tree))
        again = None if form is None else _scatter_of(form, form.launches_of(name)[0])
        if form is None or again is None:
            continue
        reader = form.launches_of(launch.function.name)[0]
        gathering = _with_gathers(again, reader) if _is_free_between(again, reader) else ""
        merged = merged_programs(gathering, reader.function.name) if gathering else ""
        whole = parse_kernel(merged) if merged else None
        if whole is not None and scatter.result not in names_within(whole.launcher):
            return merged
    return ""


def _is_free_between(scatter: _Scatter, reader: Launch) -> bool:
    """Tell whether a scatter may come right ahead of a later launch."""
    body = statements_of(scatter.launch.launcher)
    places = {id(statement): place for place, statement in enumerate(body)}
    first, last = (places.get(id(launch.statement), -1) for launch in (scatter.launch, reader))
    if first < 0 or last < first:
        return False
    between = body[first + 1 : last]
    calls = [call for statement in between for call in calls_within(statement)]
    return not is_changed_between(between, scatter.launch) and all(map(is_harmless, calls))


def _with_gathers(scatter: _Scatter, reader: Launch | None = None) -> str:
    """Return the file whose launch gathers, with the launches that list its rows.

    Args:
        scatter: the launch.
        reader: a launch that is to become one with it: with its grid, and without a mask of its
            store, the file is no end in itself.
    """
    text, launch = scatter.text, scatter.launch
    function, name = launch.function, launch.function.name
    names = {key: text.fresh(f"{name}_{key}") for key in ("count", "list", "gather")}
    tables = {key: text.fresh(key) for key in ("counts", "places", "ends", "order")}
    axes = launch.axes or ()
    size = _size_of(scatter)
    rows = f"triton.cdiv({size}, {_launcher_code(scatter)})"
    programs = render_code(parenthesized(axes[0]))
    count, listing = _listing(scatter, names)
    gather = _gathering(scatter, names["gather"], is_whole=reader is None)
    device = f"device={device_tensor(launch)}.device"
    int_ = "dtype=torch.int32"
    zeros = single_assignment(scatter.zeros)
    assert zeros is not None
    listed = [
        f"{tables['counts']} = torch.zeros({rows}, {int_}, {device})",
        f"{tables['places']} = torch.empty({programs}, {int_}, {device})",
        f"{tables['order']} = torch.empty({programs}, {int_}, {device})",
    ]
    blocks = f"(triton.cdiv({programs}, {_BLOCK}),)"

    def launched(node: cst.FunctionDef, grid: str) -> cst.BaseStatement:
        order = [p.name.value for p in node.params.params]
        arguments = {p: passed[p] for p in order if p in passed}
        options = options_of(launch) if node is gather else {}
        return launch_line(node.name.value, grid, arguments, options, function.constants)

    own = (*tables.values(), programs, size if reader is None else rows)
    passed = {**arguments_of(launch), **dict(zip(_POINTERS, own, strict=True))}
    statements = [
        *map(parse_statement, listed),
        launched(count, blocks),
        parse_statement(f"{tables['ends']} = torch.cumsum({tables['counts']}, 0, {int_})"),
        launched(listing, blocks),
    ]
    gathered = launched(gather, f"({rows},)" if reader is None else render_code(reader.grid))
    swaps = [(launch.statement, [*statements, *([gathered] if reader is None else [])])]
    if reader is not None:
        swaps.append((reader.statement, [gathered, reader.statement]))
    # a row that nothing is added to is written, too: all of the result is
    empty = replace_each(
        scatter.zeros,
        [(cst.ensure_type(zeros.value, cst.Call).func, parse_expression("torch.empty"))],
    )
    return changed_text(
        text, {name: gather}, {name: [count, listing]}, [(scatter.zeros, [empty]), *swaps]
    )


def _size_of(scatter: _Scatter) -> str:
    """Return the number of a result's elements as code that does not name it."""
    zeros = single_assignment(scatter.zeros)
    call = cst.ensure_type(zeros.value, cst.Call) if zeros is not None else cst.Call(cst.Name(""))
    sizes = [a for a in call.args if a.keyword is None or a.keyword.value == "size"]
    listed = ", ".join(render_code(a.with_changes(comma=_NO_COMMA)) for a in sizes)
    return f'torch.empty({listed}, device="meta").numel()'


def _launcher_code(scatter: _Scatter) -> str:
    length = parse_expression(scatter.length)
    return render_code(parenthesized(substitute_names(length, dict(scatter.launch.arguments))))


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
    words = {
        "program": scatter.program,
        "mask": inside,
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
    outside = _needed((scatter.pointer,), {n: v for n, v in values.items() if n != scatter.index})
    ahead, within = list[cst.BaseStatement](), list[cst.BaseStatement]()
    for statement in function.body:
        binding = single_assignment(statement)
        target = "" if binding is None else binding.target
        if target == scatter.program or statement in (scatter.load, scatter.add):
            continue
        (ahead if target in outside else within).append(statement)
    begin, end, at, total = (f"{scatter.index}_{word}" for word in _WORDS[4:])
    row, length = scatter.index, scatter.length
    inside = "" if is_whole else f", mask={row} < elements, other=0"
    code = (
        f"{row} = {_PROGRAM}(0){'.to(tl.int64)' if is_whole else ''}\n"
        f"{end} = tl.load(ends_ptr + {row}{inside})\n"
        f"{begin} = {end} - tl.load(counts_ptr + {row}{inside})\n"
        f"{total} = tl.zeros([{length}], dtype=tl.float32)\n"
        f"for {at} in range({begin}, {end}):\n    pass\n"
    )
    *head, loop = parse_statements(code)
    first = parse_statement(f"{scatter.program} = tl.load(order_ptr + {at})")
    last = parse_statement(f"{total} += {render_code(scatter.value)}")
    body = cst.IndentedBlock([first, *within, last])
    place = " + ".join(
        render_code(term)
        for term in _terms(scatter.pointer)
        if render_code(term) not in scatter.launch.arguments
    )
    pointer = render_code(scatter.pointer)
    mask = f", mask={place} < elements" if is_whole else ""
    store = parse_statement(f"tl.store({pointer}, {total}{mask})")
    loop = cst.ensure_type(loop, cst.For).with_changes(body=body)
    node = renamed_function(function, name, [*head, *ahead, loop, store])
    return with_params(node, added=["counts_ptr", "ends_ptr", "order_ptr", "elements"])
