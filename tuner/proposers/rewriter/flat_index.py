"""A block of a flat index that a program divides by a size becomes a tile of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    straight_values,
    without_unused,
)
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    grid_with,
    program_axis,
    with_params,
    without_param,
)
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._masks import with_mask
from solkit.tuner.proposers.rewriter._memory import WRITES, mask_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    RANGES,
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    free_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    product_factors,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    compared_sides,
    divisions_of,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, in_launcher
from solkit.tuner.proposers.rewriter._program_indices import tile_index
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._values import next_power_of_two

_ROWS, _COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128), (16, 32, 64, 128, 256, 512)
_FEW, _MANY = 32, 64
_IN_LOOPS, _MOST_COLUMNS = 1024, 256
"""Elements of a tile whose values loops load again and again, such as taps: long rows of it."""
_MOST_DIVISORS = 2
_ROUNDS = 2
_FILLS = ("tl.zeros", "tl.full")
_OF_ELEMENTS = frozenset(
    """tl.load tl.store tl.arange tl.program_id tl.num_programs tl.cdiv tl.zeros tl.full tl.fdiv
    tl.umulhi tl.rand tl.randn tl.randint tl.zeros_like tl.full_like tl.constexpr
    float int bool min max""".split()
)
"""Functions besides `is_elementwise_call` that give elements the same in blocks of any length."""


class Unflatten:
    """A flat index that is divided by a size becomes a tile of rows and columns of that size.

    Applies where a program's block is one range of an axis of the grid, all that follows from it is
    elementwise, in loops too, and somewhere it is divided by a size, or the rest is taken. What is
    read along another axis than what is written then goes through a tile, and neighbours share a
    program.
    """

    kind = "unflatten"
    helps = ("extra traffic", "uncoalesced", "instructions", "extra work", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            flat = flat_index(launch)
            for divisor in [] if flat is None else divisors_of(launch, flat.name)[:_MOST_DIVISORS]:
                if flat is None:
                    continue
                shape = _tile_shape(launch, divisor, facts)
                if source := _Tiling(text, launch, flat, divisor, shape).source():
                    why = facts.explain_factors("extra traffic", "instructions")
                    yield Variant(
                        source,
                        f"{launch.function.name} divides a flat index by {divisor}; a tile of rows "
                        f"and columns reads and writes along both{why}.",
                    )


def _tile_shape(launch: Launch, divisor: str, facts: Facts) -> tuple[int, int]:
    """Return the rows and columns of a tile to begin with."""
    if not any(isinstance(statement, cst.For) for statement in launch.function.body):
        return _FEW, _MANY
    size = in_launcher(parse_expression(divisor), launch)
    length = None if size is None else facts.size(size, launch)
    wide = next_power_of_two(length or _MOST_COLUMNS)
    wide = min(max(wide, _COLUMNS[0]), _MOST_COLUMNS)
    return _IN_LOOPS // wide, wide


@dataclass(frozen=True)
class Flat:
    """A program's flat index.

    Attributes:
        name: that holds it.
        axis: of the grid.
        block: the constant that is its length.
        total: how many there are, as code of the launcher.
    """

    name: str
    axis: int
    block: str
    total: str


def flat_index(launch: Launch) -> Flat | None:
    """Return the flat index of a function that is elementwise in it; ``None`` for other forms."""
    function = launch.function
    ranges = calls_within(function.node, "tl.arange")
    is_plain = all(map(_is_plain, function.body))
    subscripts = any(
        isinstance(node, cst.Subscript) for s in function.body for node in nodes_within(s)
    )
    names = assigned_names(*function.body)
    if not is_plain or subscripts or len(ranges) != 1:
        return None
    if not all(_is_of_elements(call) for s in function.body for call in calls_within(s)):
        return None
    values = _scalar_values(launch)
    for binding in assignments_in(function.body):
        if names.count(binding.target) != 1:
            continue
        tile = tile_index(substitute_names(binding.value, values))
        axes = launch.axes or ()
        if tile is None or tile[0] >= len(axes) or called_name(axes[tile[0]]) != "triton.cdiv":
            continue
        axis, block = tile
        own = [c for c in calls_within(function.node, "tl.program_id") if program_axis(c) == axis]
        total = argument_of(axes[axis], 0)
        if len(own) == 1 and total is not None and block in function.constants:
            return Flat(binding.target, axis, block, render_code(total))
    return None


def _is_of_elements(call: cst.Call) -> bool:
    """Tell whether a call does the same for elements in blocks of any length."""
    name = called_name(call)
    plain = name in (*_OF_ELEMENTS, *WRITES, *RANGES, *HINTS)
    return plain or is_elementwise_call(name) or name.endswith(".to") or "libdevice." in name


def _is_plain(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is simple, or a branch or a loop over a range of such ones."""
    if isinstance(statement, cst.For) and statement.orelse is None:
        is_range = called_name(statement.iter) in RANGES
        return is_range and all(map(_is_plain, statements_of(statement)))
    if isinstance(statement, cst.If):
        branches = [statement, *([] if statement.orelse is None else [statement.orelse])]
        return not isinstance(statement.orelse, cst.If) and all(
            _is_plain(inner) and not _leaves(inner)
            for branch in branches
            for inner in statements_of(branch)
        )
    return isinstance(statement, cst.SimpleStatementLine)


def _leaves(statement: cst.BaseStatement) -> bool:
    return any(isinstance(node, cst.Return) for node in nodes_within(statement))


def _scalar_values(launch: Launch) -> dict[str, cst.BaseExpression]:
    """Return the values of names that are assigned once, without loads and blocks."""
    names = assigned_names(*launch.function.body)
    values: dict[str, cst.BaseExpression] = {}
    for binding in assignments_in(launch.function.body):
        if names.count(binding.target) != 1:
            continue
        whole = substitute_names(binding.value, values)
        if not calls_within(whole, "tl.load", "tl.arange"):
            values[binding.target] = whole
    return values


def divisors_of(launch: Launch, name: str) -> list[str]:
    """Return the sizes that the flat index is divided by; those first whose rest is taken."""
    values = _scalar_values(launch)
    divisors: dict[str, bool] = {}
    for node in divisions_of(name, launch.function.node):
        size = substitute_names(node.right, values)
        if names_within(size) <= set(launch.function.params):
            text = render_code(size)
            divisors[text] = divisors.get(text, False) or is_operation(node, cst.Modulo)
    return sorted(divisors, key=lambda size: (not divisors[size], len(size)))


class _Tiling:
    """Writes a function with a tile in place of its flat index.

    Args:
        text: the file.
        launch: of the function.
        flat: its index.
        divisor: the size of a row, as code of the function.
        shape: of the tile to begin with.
    """

    def __init__(
        self,
        text: KernelText,
        launch: Launch,
        flat: Flat,
        divisor: str,
        shape: tuple[int, int] = (_FEW, _MANY),
    ) -> None:
        self._text, self._launch, self._flat, self._divisor = text, launch, flat, divisor
        self._shape = shape
        taken = {*text.names}
        self._row, self._column = (free_name(n, taken) for n in ("tile_row", "tile_column"))
        self._count = free_name("n_rows", taken)
        self._high, self._wide = text.fresh("BLOCK_R"), text.fresh("BLOCK_C")
        self._values = _scalar_values(launch)
        self._within: dict[str, set[str]] = {}

    def source(self) -> str:
        """Return the text of the file; empty if an access cannot be kept within the tile."""
        launch, flat = self._launch, self._flat
        size = in_launcher(parse_expression(self._divisor), launch)
        body = self._body()
        if size is None or body is None:
            return ""
        width = render_code(parenthesized(size))
        rows = f"triton.cdiv({flat.total}, {width})"
        node = with_body(launch.function.node, body)
        node = without_param(node, flat.block)
        constants = [self._high, self._wide]
        node = with_params(node, added=[self._count], constants=constants)
        tiles = f"triton.cdiv({rows}, {self._high}) * triton.cdiv({width}, {self._wide})"
        return relaunched(
            self._text,
            NewLaunch(
                launch,
                node,
                grid=grid_with(launch.axes or (), flat.axis, tiles),
                arguments={self._count: rows, self._high: self._high, self._wide: self._wide},
            ),
            parameters=[
                Parameter(self._high, self._shape[0], _ROWS),
                Parameter(self._wide, self._shape[1], _COLUMNS),
            ],
        )

    def _body(self) -> list[cst.BaseStatement] | None:
        flat, row, column = self._flat, self._row, self._column
        size = render_code(parenthesized(parse_expression(self._divisor)))
        across = f"tl.cdiv({size}, {self._wide})"
        tile = f"tl.program_id({flat.axis})"
        head = [
            f"{row} = ({tile} // {across}) * {self._high} + tl.arange(0, {self._high})[:, None]",
            f"{column} = ({tile} % {across}) * {self._wide} + tl.arange(0, {self._wide})[None, :]",
            f"{flat.name} = {row} * {size} + {column}",
        ]
        self._within = {row: {row}, column: {column}, flat.name: {row, column}}
        statements: list[cst.BaseStatement] | None = None
        for _ in range(_ROUNDS):  # a loop hands on what later statements assign
            statements = self._tiled(self._launch.function.body, head)
        if statements is None:
            return None
        kept = without_unused(statements)  # but for what only the flat index needed
        return None if flat.block in names_within(*kept) else kept

    def _tiled(self, body: Body, head: Sequence[str]) -> list[cst.BaseStatement] | None:
        """Return statements over the tile; ``None`` if an access cannot be kept within it."""
        statements: list[cst.BaseStatement] = []
        for statement in body:
            binding = single_assignment(statement)
            if binding is not None and binding.target == self._flat.name:
                statements += [parse_statement(line) for line in head]
                continue
            changed: cst.BaseStatement | None
            if isinstance(statement, cst.For):
                inner = self._tiled(statements_of(statement), head)
                changed = None if inner is None else with_body(statement, inner)
            elif isinstance(statement, cst.If):
                changed = self._branch(statement, head)
            else:
                changed = self._narrowed(self._divided(statement))
            if changed is None:
                return None
            statements.append(changed)
            binding = single_assignment(changed)
            if binding is not None:
                axes = self._axes_of(binding.value) | self._within.get(binding.target, set())
                self._within[binding.target] = axes
        return statements

    def _branch(self, statement: cst.If, head: Sequence[str]) -> cst.If | None:
        """Return a branch over the tile; ``None`` if its test is about more than the program."""
        inner = self._tiled(statements_of(statement), head)
        if inner is None or self._axes_of(statement.test) or calls_within(statement.test):
            return None
        other = statement.orelse
        if other is not None:
            behind = self._tiled(statements_of(other), head)
            other = None if behind is None else with_body(other, behind)
            if other is None:
                return None
        return with_body(statement.with_changes(orelse=other), inner)

    def _axes_of(self, node: cst.CSTNode) -> set[str]:
        """Return which of the tile's axes an expression varies along."""
        return {axis for name in names_within(node) for axis in self._within.get(name, ())}

    def _divided(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        """Return a statement with the row and the column in place of divisions."""
        pairs: list[Swap] = []
        pending: list[cst.CSTNode] = [statement]
        while pending:
            node = pending.pop()
            swapped = self._division(node) if isinstance(node, cst.BinaryOperation) else ""
            shape = self._filled_shape(node)
            if shape is not None:
                pairs.append((shape, parse_expression(f"({self._high}, {self._wide})")))
            elif swapped:
                pairs.append((node, parenthesized(parse_expression(swapped))))
            else:
                pending += child_nodes(node)
        return replace_each(statement, pairs)

    def _filled_shape(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the shape of a block that is filled and as long as the flat one; else ``None``."""
        if called_name(node) not in _FILLS:
            return None
        shape = argument_of(node, 0, "shape")
        is_flat = isinstance(shape, (cst.Tuple, cst.List)) and len(shape.elements) == 1
        if not is_flat or not isinstance(shape, (cst.Tuple, cst.List)):
            return None
        return shape if render_code(shape.elements[0].value) == self._flat.block else None

    def _division(self, node: cst.BinaryOperation) -> str:
        """Return what a division of the flat index is of the tile; empty for other operations."""
        name = self._flat.name
        if render_code(node.left).strip("()") != name:
            return ""
        right = substitute_names(node.right, self._values)
        if isinstance(node.operator, cst.Modulo) and plain_code(right) == plain_code(
            parse_expression(self._divisor)
        ):
            return self._column
        if isinstance(node.operator, cst.FloorDivide):
            if plain_code(right) == plain_code(parse_expression(self._divisor)):
                return self._row
            rest = _without_factor(right, self._divisor)
            return f"{self._row} // {rest}" if rest else ""
        if isinstance(node.operator, cst.Subtract) and isinstance(right, cst.BinaryOperation):
            return self._column if self._begins_row(right) else ""
        return ""

    def _begins_row(self, product: cst.BinaryOperation) -> bool:
        """Tell whether a product is the row times the length of a row."""
        divisor = parse_expression(self._divisor)
        row = parse_expression(f"{self._flat.name} // {render_code(parenthesized(divisor))}")
        rows = {plain_code(row), self._row}
        for binding in assignments_in(self._launch.function.body):
            if plain_code(binding.value) == plain_code(row):
                rows.add(binding.target)
        own, whole = _factor_codes(divisor), _factor_codes(product)
        return any(whole == sorted([*own, name]) for name in rows)

    def _narrowed(self, statement: cst.BaseStatement) -> cst.BaseStatement | None:
        """Return a statement whose accesses are within the tile; ``None`` if one cannot be."""
        for kinds in (("tl.load",), WRITES):  # what is stored may be loaded there
            pairs: list[Swap] = []
            for call in calls_within(statement, *kinds):
                mask = self._mask_within(call)
                if mask is None or any(calls_within(arg, *kinds) for arg in child_nodes(call)):
                    return None
                if mask:
                    pairs.append((call, with_mask(call, mask)))
            statement = replace_each(statement, pairs)
        return statement

    def _mask_within(self, call: cst.Call) -> str | None:
        """Return the mask of an access within the tile; empty if it needs none.

        ``None`` if it is about more than the place is.
        """
        axes = self._axes_of(call.args[0].value)
        mask = mask_of(call)
        limits = {self._row: f"{self._row} < {self._count}"}
        limits[self._column] = f"{self._column} < {self._divisor}"
        inside = " & ".join(f"({limits[axis]})" for axis in sorted(axes))
        if not axes:
            return ""
        if mask is not None and self._axes_of(mask) <= axes:
            return f"{inside} & {render_code(parenthesized(mask))}"
        return inside if mask is None or self._is_end(mask) else None

    def _is_end(self, mask: cst.BaseExpression) -> bool:
        """Tell whether a mask only says where the flat index ends."""
        values = straight_values(self._launch.function.body)
        while isinstance(mask, cst.Name) and mask.value in values:
            mask = values[mask.value]
        if (sides := compared_sides(mask, "<")) is None:
            return False
        limit = in_launcher(substitute_names(sides[1], self._values), self._launch)
        is_total = limit is not None and plain_code(limit) == plain_code(
            parse_expression(self._flat.total)
        )
        return is_total and render_code(sides[0]) == self._flat.name


def _factor_codes(product: cst.BaseExpression) -> list[str]:
    return sorted(plain_code(parse_expression(code)) for code in product_factors(product))


def _without_factor(product: cst.BaseExpression, factor: str) -> str:
    """Return a product without one of its factors, as code; empty if it has no such one."""
    for one, other in both_orders(product, cst.Multiply):
        if plain_code(one) == plain_code(parse_expression(factor)):
            return render_code(parenthesized(other))
        if inner := _without_factor(one, factor):
            return f"({inner} * {render_code(parenthesized(other))})"
    return ""
