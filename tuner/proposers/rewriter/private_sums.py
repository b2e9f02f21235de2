"""Atomic additions become sums of each program's own, which it adds once at its end.

A few programs share the indices of a grid's axis, and keep what they add in registers: a block of
the same places in all trips, or the counts of a small table's bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    grid_with,
    program_axis,
    with_params,
)
from solkit.tuner.proposers.rewriter._lift import scalar_names
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compound_statement,
    expression_statement,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    parse_statements,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import nested_operands
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, launcher_definition
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._roots import allocated_tensor
from solkit.tuner.proposers.rewriter._values import argument_aliases
from solkit.tuner.proposers.rewriter.row_bins import with_row_bins

_ADD, _PROGRAM = "tl.atomic_add", "tl.program_id"
_TYPES = {"torch.float32": "tl.float32", "torch.int32": "tl.int32", "torch.float": "tl.float32"}
_MOST_BINS = 4096
_MOST_WEIGHTED_BINS = 256
_PER_SM = (1, 2, 4, 8, 16)
_FEW = 4


class PrivateSums:
    """Programs keep what they add with atomics in registers, over several indices of the grid.

    Applies to ``tl.atomic_add`` to a tensor that the launcher allocates in fp32 or int32, at places
    that do not depend on the index along one axis of the grid; or at bins that were loaded, if the
    tensor is small: then ``tl.histogram`` counts them, and weights are summed bin by bin. Rows that
    are added to rows of a small table are summed by a product. Sums in fp32 differ in their order,
    as atomics do anyway.
    """

    kind = "private sums"
    helps = ("atomics", "contended atomics", "extra traffic", "dispatch")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            for axis in range(len(launch.axes or ())):
                source = _with_private_sums(text, launch, axis, facts)
                if source:
                    why = facts.explain_factors("extra traffic", "atomics")
                    yield Variant(
                        source,
                        f"Each program of {launch.function.name} adds to memory what it could sum "
                        f"up first; fewer atomics meet{why}.",
                    )
            programs = Parameter(text.fresh("PROGRAMS"), *_programs(facts))
            if source := with_row_bins(text, launch, programs):
                why = facts.explain_factors("extra traffic", "atomics")
                yield Variant(
                    source,
                    f"Rows that {launch.function.name} adds to a small table's rows are a product "
                    f"with a matrix of ones; each program adds its sums to memory once{why}.",
                )


@dataclass(frozen=True)
class _Addition:
    """An atomic addition.

    Attributes:
        statement: that does it.
        base: the parameter that points to the tensor.
        offset: of the elements, as code; ``"0"`` for one.
        value, mask: as written; an empty mask for none.
        dtype: of Triton.
        bins: how many elements a row of the tensor has, if the offset is data; else empty.
        row: where the bins begin, as code, if the tensor has several rows; else empty.
        counted: how many bins there are, as code of the launcher, if only that knows it: `bins` is
            then a parameter.
    """

    statement: cst.BaseStatement
    base: str
    offset: str
    value: str
    mask: str
    dtype: str
    bins: str = ""
    row: str = ""
    counted: str = ""

    @property
    def most_bins(self) -> int:
        """The most bins whose sums a program holds."""
        is_weighted = isinstance(parse_expression(self.value), cst.Name)
        return _MOST_WEIGHTED_BINS if is_weighted else _MOST_BINS


def _with_private_sums(text: KernelText, launch: Launch, axis: int, facts: Facts) -> str:
    function = launch.function
    returns = any(isinstance(node, cst.Return) for node in nodes_within(function.node))
    reassigned = set(assigned_names(*function.body)) & set(function.params)
    indices = [c for c in calls_within(function.node, _PROGRAM) if program_axis(c) == axis]
    if returns or reassigned or not indices or calls_within(function.node, "tl.num_programs"):
        return ""
    index = "pid" if "pid" not in function.names else f"program_{axis}"
    pairs = [(call, cst.Name(index)) for call in indices]
    body = [replace_each(statement, pairs) for statement in function.body]
    ahead, rest = _parted(body, index)
    moving = {index, *assigned_names(*rest)}
    scalars = scalar_names(function, text.functions)
    additions = [
        addition
        for statement in _plain_statements(rest)
        if (addition := _addition_in(statement, launch, rest, moving, scalars)) is not None
    ]
    if not additions or len(additions) != len({addition.base for addition in additions}):
        return ""
    return _written(text, launch, axis, (index, ahead, rest), additions, facts)


def _parted(body: Body, index: str) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return statements that do not depend on a name, and the others."""
    ahead: list[cst.BaseStatement] = []
    rest: list[cst.BaseStatement] = []
    moving = {index}
    counts = assigned_names(*body)
    for statement in body:
        binding = single_assignment(statement)
        fixed = (
            binding is not None
            and counts.count(binding.target) == 1
            and not names_within(statement) & moving
            and not calls_within(statement, "tl.load", *WRITES)
        )
        if fixed:
            ahead.append(statement)
        else:
            rest.append(statement)
            moving |= set(assigned_names(statement))
    return ahead, rest


def _plain_statements(body: Body) -> Iterator[cst.BaseStatement]:
    """Yield statements, those in loops too, but none in branches."""
    for statement in body:
        if isinstance(statement, cst.For):
            yield from _plain_statements(statements_of(statement))
        elif isinstance(statement, cst.SimpleStatementLine):
            yield statement


def _addition_in(
    statement: cst.BaseStatement, launch: Launch, body: Body, moving: set[str], scalars: set[str]
) -> _Addition | None:
    """Return a statement as an addition that may wait; else ``None``."""
    call = expression_statement(statement)
    if not isinstance(call, cst.Call) or called_name(call) != _ADD:
        return None
    pointer, value = call.args[0].value, argument_of(call, 1, "val")
    mask = argument_of(call, 2, "mask")
    terms = [render_code(term) for term in nested_operands(pointer, cst.Add)]
    bases = [term for term in terms if term in launch.function.params]
    if value is None or len(bases) != 1 or not _is_used_only_here(launch, bases[0], body):
        return None
    table = _allocated_table(launch, bases[0])
    if table is None:
        return None
    dtype, size = table
    terms.remove(bases[0])
    offset = " + ".join(terms) or "0"
    codes = render_code(value), "" if mask is None else render_code(mask)
    plain = _Addition(statement, bases[0], offset, *codes, dtype)
    used = names_within(pointer) | (set() if mask is None else names_within(mask))
    if not used & moving:
        return plain
    fixed = [term for term in terms if not names_within(parse_expression(term)) & moving]
    places = [term for term in terms if term not in fixed]
    is_block = len(places) == 1 and places[0] not in scalars and places[0] in moving
    has_bins = bool(fixed) or len(size) == 1
    if not all(names_within(parse_expression(term)) <= {*scalars, "tl"} for term in fixed):
        return None  # a block of rows has as many tables
    weighted = not names_within(value) <= {*scalars, "tl"}
    if not is_block or not has_bins or (weighted and not isinstance(value, cst.Name)):
        return None
    row, bins = " + ".join(fixed), size[-1]
    parts = (statement, bases[0], places[0], *codes, dtype)
    if bins is None:
        name = free_name(f"n_{bases[0].removesuffix('_ptr')}_bins", set(launch.function.names))
        counted = f"{render_code(launch.arguments[bases[0]])}.shape[-1]"
        return _Addition(*parts, name, row, counted)
    small = _Addition(*parts, str(bins), row)
    return small if bins <= small.most_bins else None


def _is_used_only_here(launch: Launch, base: str, body: Body) -> bool:
    """Tell whether a function does nothing else with a tensor, under no other name either."""
    uses = [
        node
        for statement in body
        for node in nodes_within(statement)
        if isinstance(node, cst.Name) and node.value == base
    ]
    return len(uses) == 1 and base in launch.arguments and not argument_aliases(launch)[base]


def _allocated_table(launch: Launch, base: str) -> tuple[str, list[int | None]] | None:
    """Return the type of a tensor that the launcher fills with zeros, and its sizes."""
    dtype, sizes = allocated_tensor(launch, base) or ("", [])
    kind = _TYPES.get(dtype)
    if kind is None or not sizes:
        return None
    return kind, [_integer_of(size, launch.launcher) for size in sizes]


def _integer_of(node: cst.BaseExpression, launcher: cst.FunctionDef) -> int | None:
    """Return the integer that an expression of a launcher stands for, if the launcher says so."""
    value = launcher_definition(node.value, launcher) if isinstance(node, cst.Name) else node
    return integer_literal(value)


# ------------------------------------------------------------------------------- writing it


def _written(
    text: KernelText,
    launch: Launch,
    axis: int,
    parts: tuple[str, list[cst.BaseStatement], list[cst.BaseStatement]],
    additions: Sequence[_Addition],
    facts: Facts,
) -> str:
    function, (index, ahead, rest) = launch.function, parts
    count, programs = text.fresh(f"n_{index}"), text.fresh("PROGRAMS")
    taken = set(function.names)
    begin, finish = [], []
    swaps: dict[int, list[cst.BaseStatement]] = {}
    constants: dict[str, str] = {}
    for addition in additions:
        total = free_name(f"{addition.base.removesuffix('_ptr')}_sums", taken)
        if addition.bins:
            bins = free_name(f"{total.upper()}_BINS", taken)
            constants[bins] = f"triton.next_power_of_2({addition.counted or addition.bins})"
            begin += parse_statements(
                f"{total} = tl.zeros(({bins},), {addition.dtype})\n"
                f"{total}_bins = tl.arange(0, {bins})\n"
            )
            swaps[id(addition.statement)] = _counted(addition, total, bins)
            finish.append(_added_bins(addition, total))
        else:
            zero = f"({addition.offset}) * 0" if addition.offset != "0" else ""
            start = f"({zero}).to({addition.dtype})" if zero else "0.0"
            if not zero and addition.dtype != "tl.float32":
                start = "0"
            begin.append(parse_statement(f"{total} = {start}"))
            swaps[id(addition.statement)] = [parse_statement(f"{total} += {addition.value}")]
            mask = f", mask={addition.mask}" if addition.mask else ""
            pointer = addition.base + (f" + {addition.offset}" if zero else "")
            finish.append(f"tl.atomic_add({pointer}, {total}{mask})")
    over = f"range({_PROGRAM}({axis}), {count}, tl.num_programs({axis}))"
    trips = with_each(compound_statement(f"for {index} in {over}", rest), swaps)
    body = [*ahead, *begin, trips, *map(parse_statement, finish)]
    counted = {a.bins: a.counted for a in additions if a.counted}
    node = with_params(
        with_body(function.node, body), added=[count, *counted], constants=list(constants)
    )
    passed = {count: render_code((launch.axes or ())[axis]), **counted, **constants}
    limits = [f"{a.counted} <= {a.most_bins}" for a in additions if a.counted]
    few = Parameter(programs, *_programs(facts))
    return _with_few_programs(text, launch, axis, node, passed, limits, few)


def _programs(facts: Facts) -> tuple[int, tuple[int, ...]]:
    return _FEW * facts.sms, tuple(facts.sms * few for few in _PER_SM)


def _with_few_programs(
    text: KernelText,
    launch: Launch,
    axis: int,
    node: cst.FunctionDef,
    passed: Mapping[str, str],
    limits: Sequence[str],
    programs: Parameter,
) -> str:
    """Return the file whose launch has a parameter's number of programs along an axis.

    It passes further arguments. Where a limit does not hold, the original is launched.
    """
    axes = launch.axes or ()
    if limits:
        node = node.with_changes(name=cst.Name(text.fresh(f"{launch.function.name}_by_bins")))
    return relaunched(
        text,
        NewLaunch(
            launch,
            node,
            grid=grid_with(axes, axis, f"min({render_code(axes[axis])}, {programs.name})"),
            arguments=passed,
        ),
        condition=" and ".join(limits),
        parameters=[programs],
    )


def _added_bins(addition: _Addition, total: str) -> str:
    """Return the statement that adds a program's own sums of bins to memory."""
    inside = f"{total}_bins < {addition.bins}"
    if not addition.row:
        return f"tl.atomic_add({addition.base} + {total}_bins, {total}, mask={inside})"
    # A row may be shorter than it seems: nothing is written where nothing was added.
    mask = f"({inside}) & ({total} != 0)"
    return f"tl.atomic_add({addition.base} + {addition.row} + {total}_bins, {total}, mask={mask})"


def _counted(addition: _Addition, total: str, bins: str) -> list[cst.BaseStatement]:
    """Return statements that add a block's counts, or sums of weights, of each bin.

    In a tensor of several rows a place beyond one row is a place of another: these are added to
    memory as before.
    """
    value, at, mask = parse_expression(addition.value), addition.offset, addition.mask
    within, beyond = mask, ""
    if addition.row:
        own = f"(({at} >= 0) & ({at} < {addition.bins}))"
        within = f"({mask}) & {own}" if mask else own
        beyond = f"({mask}) & ~{own}" if mask else f"~{own}"
    if not isinstance(value, cst.Name):
        masked = f", mask={within}" if within else ""
        counts = f"tl.histogram(({at}).to(tl.int32), {bins}{masked})"
        factor = "" if addition.value in ("1", "1.0") else f" * ({addition.value})"
        added = f"{total} += {counts}{factor}"
    else:
        inside = f"(({at})[None, :] == {total}_bins[:, None])"
        inside += f" & ({within})[None, :]" if within else ""
        chosen = f"tl.where({inside}, {addition.value}[None, :], 0)"
        added = f"{total} += tl.sum({chosen}, axis=1)"
    if not beyond:
        return [parse_statement(added)]
    pointer = f"{addition.base} + {addition.row} + {at}"
    other = f"tl.atomic_add({pointer}, {addition.value}, mask={beyond})"
    return [parse_statement(added), parse_statement(other)]
