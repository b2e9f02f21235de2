"""Elementwise functions, and what they compute at a tile of another function.

An elementwise function computes each element from those at its own index, through names that are
its *coordinates*: one index over all elements, or a row and a column. A product accesses the same
tensor at a *tile*: rows, columns and their strides. So the function is written once more with the
tile's indices as its coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import last_values
from solkit.tuner.proposers.rewriter._distinct_names import with_distinct_names
from solkit.tuner.proposers.rewriter._edit import arguments_of
from solkit.tuner.proposers.rewriter._lift_expressions import Lifting
from solkit.tuner.proposers.rewriter._masks import lengths_of_names, lengths_within, with_mask
from solkit.tuner.proposers.rewriter._memory import mask_of
from solkit.tuner.proposers.rewriter._nodes import (
    Node,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expand_names,
    free_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._operations import (
    compared_sides,
    conjuncts,
    converted_value,
    divisions_of,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
)
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS

_ACCESSES = ("tl.load", "tl.store")
_INDICES = ("tl.program_id", "tl.arange")
_ROWS, _COLUMNS = "[:, None]", "[None, :]"
_WIDER = ".to(tl.int64)"
_STRIDE = re.compile(r"(\w+)\.stride\((-?\d)\)")


@dataclass(frozen=True)
class Elementwise:
    """A function that computes each element from those at its index.

    Attributes:
        launch: of the function.
        coordinates: one index of all elements, or of a row and of a column.
        body: its statements but for those that give the coordinates.
        stride: of a row, as factors in the function; none for one index of all.
    """

    launch: Launch
    coordinates: tuple[str, ...]
    body: tuple[cst.BaseStatement, ...]
    stride: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, cst.BaseExpression]:
        """Values of its names."""
        return last_values(self.body)


def as_elementwise(launch: Launch, param: str, text: KernelText) -> Elementwise | None:
    """Return a function by its coordinates in a tensor; ``None`` if it is not elementwise."""
    function = launch.function
    body = with_distinct_names(function.body, set(function.params))
    written = assigned_names(*body)
    if not all(isinstance(s, cst.SimpleStatementLine) for s in body):
        return None
    if len(written) != len(set(written)) or set(written) & set(function.params):
        return None
    coordinates: set[str] = set()
    firsts: dict[str, str] = {}
    same: dict[str, cst.BaseExpression] = {}
    rest = []
    for statement in body:
        statement = substitute_names(statement, same)
        binding = single_assignment(statement)
        own = {*coordinates, *function.constants, "tl"}
        if (
            binding is not None
            and names_within(binding.value) <= own
            and (
                names_within(binding.value) & coordinates or calls_within(binding.value, *_INDICES)
            )
            and all(called_name(call) in _INDICES for call in calls_within(binding.value))
        ):
            first = firsts.setdefault(render_code(binding.value), binding.target)
            if first == binding.target:
                coordinates.add(first)
            else:  # an index that has another name already
                same[binding.target] = cst.Name(first)
        else:
            rest.append(statement)
    if not all(_is_elementwise(statement, text) for statement in rest):
        return None
    used = tuple(sorted(coordinates & names_within(*rest)))
    plain = Elementwise(launch, used, tuple(rest))
    accesses = [c for s in rest for c in calls_within(s, *_ACCESSES)]
    places = {coordinates_at(c.args[0].value, param, plain) for c in accesses}
    places.discard(None)
    if len(places) != 1:
        return None
    place = places.pop()
    return None if place is None else replace(plain, coordinates=place[0], stride=place[1])


def _is_elementwise(statement: cst.BaseStatement, text: KernelText) -> bool:
    lifting = Lifting(text.functions)
    for call in calls_within(statement):
        name, is_cast = called_name(call), converted_value(call) is not None
        if not (name in _ACCESSES or is_cast or lifting.is_elementwise(name)):
            return False
    spread = [render_code(e) for e in nodes_within(statement) if isinstance(e, cst.Subscript)]
    return all(code.endswith((_ROWS, _COLUMNS)) for code in spread)


def coordinates_at(
    pointer: cst.BaseExpression, param: str, of: Elementwise
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the coordinates by which a tensor is accessed, and the stride of the first.

    ``None`` if the pointer is of another tensor, or of another form.
    """
    terms = sum_terms(pointer, of.values)
    if [param] not in terms:
        return None
    terms.remove([param])
    factors = [[_without_spread(factor) for factor in term] for term in terms]
    if len(factors) == 1 and factors[0] == list(of.coordinates):
        return (factors[0][0],), ()
    if len(factors) != 2 or len(of.coordinates) != 2:
        return None
    rows, columns = sorted(factors, key=len, reverse=True)
    if len(columns) != 1 or columns[0] not in of.coordinates:
        return None
    row = [factor for factor in rows if factor in of.coordinates]
    if len(row) != 1 or row == columns:
        return None
    stride = tuple(factor for factor in rows if factor != row[0])
    return (row[0], columns[0]), stride


def _without_spread(code: str) -> str:
    return code.removesuffix(_WIDER).removesuffix(_ROWS).removesuffix(_COLUMNS)


def sum_terms(node: cst.BaseExpression, values: Values) -> list[list[str]]:
    """Return a sum of products as lists of factors, with names of sums replaced by these."""
    if isinstance(node, cst.Name) and node.value in values:
        inner = values[node.value]
        if not any(isinstance(e, cst.Call) for e in nodes_within(inner)):
            return sum_terms(inner, values)
    if is_operation(node, cst.Add):
        return [*sum_terms(node.left, values), *sum_terms(node.right, values)]
    if is_operation(node, cst.Multiply):
        firsts, seconds = sum_terms(node.left, values), sum_terms(node.right, values)
        return [[*one, *two] for one in firsts for two in seconds]
    if isinstance(node, cst.Integer) and node.value == "1":
        return [[]]
    return [[render_code(node)]]


@dataclass(frozen=True)
class _Tile:
    """Access of a product to a tile of a tensor.

    Attributes:
        call: the load or the store.
        rows, columns: their indices, spread over the tile, as code; the first of several; empty
            for a block along one axis.
        stride: of a row, as factors in the function.
        is_matrix: whether there is one index of rows, and one of columns.
        is_dense: whether columns are next to each other and nothing else is added.
        offset: of the elements in the tensor, as code.
        conjuncts: of the mask, as code.
    """

    call: cst.Call
    rows: str
    columns: str
    stride: tuple[str, ...]
    is_matrix: bool
    is_dense: bool
    offset: str
    conjuncts: tuple[str, ...]


def tile_of(call: cst.Call, param: str, values: Values) -> _Tile | None:
    """Return an access as one to a tile of a tensor; ``None`` if it is of another form."""
    spread = {
        name: value
        for name, value in values.items()
        if _is_sum_of_tile(value, param, values) and not calls_within(value, "tl.load")
    }
    terms = sum_terms(call.args[0].value, spread)
    if [param] not in terms:
        return None
    terms.remove([param])
    offset = " + ".join(" * ".join(term) or "1" for term in terms)
    terms = [[factor.removesuffix(_WIDER) for factor in term] for term in terms]
    rows = [term for term in terms if any(factor.endswith(_ROWS) for factor in term)]
    columns = [term for term in terms if any(factor.endswith(_COLUMNS) for factor in term)]
    mask = mask_of(call)
    conjuncts = () if mask is None else tuple(mask_parts(mask, values))
    if terms and not rows and not columns:
        return _Tile(call, "", "", (), False, False, offset, conjuncts)
    if not rows or not columns or any(term in columns for term in rows):
        return None
    is_matrix = len(rows) == len(columns) == 1
    row = next(factor for factor in rows[0] if factor.endswith(_ROWS))
    column = next(factor for factor in columns[0] if factor.endswith(_COLUMNS))
    stride = tuple(factor for factor in rows[0] if factor != row)
    is_dense = is_matrix and len(columns[0]) == 1 and len(terms) == 2
    return _Tile(call, row, column, stride, is_matrix, is_dense, offset, conjuncts)


def _is_sum_of_tile(value: cst.BaseExpression, param: str, values: Values) -> bool:
    """Tell whether a value is made of spread indices, or starts from the tensor."""
    if any(isinstance(node, cst.Subscript) for node in nodes_within(value)):
        return True
    return any(
        name == param or (name in values and _is_sum_of_tile(values[name], param, {}))
        for name in names_within(value)
    )


def mask_parts(mask: cst.BaseExpression, values: Values) -> Iterator[str]:
    """Yield the conditions that a mask joins, as code."""
    for part in conjuncts(mask):
        if isinstance(part, cst.Name) and part.value in values:
            yield from mask_parts(values[part.value], values)
        else:
            yield render_code(parenthesized(part))


def _launcher_stride(factors: Sequence[str], launch: Launch) -> str | None:
    """Return a stride as code of the launcher, by the shape of what it allocates."""
    code = in_launcher(parse_expression(" * ".join(factors) or "1"), launch)
    if code is None:
        return None
    text = render_code(code.with_changes(lpar=[], rpar=[]))
    match = _STRIDE.fullmatch(text)
    value = None if match is None else launcher_definition(match[1], launch.launcher)
    if match is None or not isinstance(value, cst.Call) or called_name(value) not in ALLOCATORS:
        return text
    shape = argument_of(value, 0, "size")
    plain = [arg.value for arg in value.args if arg.keyword is None]
    sizes = plain if len(plain) > 1 else []
    if isinstance(shape, (cst.Tuple, cst.List)):
        sizes = [element.value for element in shape.elements]
    if len(sizes) != 2 or called_name(value).endswith("_like"):
        return text
    return render_code(sizes[1]) if match[2] in ("0", "-2") else "1"


@dataclass(frozen=True)
class Inlined:
    """An elementwise function as part of another.

    Attributes:
        body: its statements.
        params: those that the other function gets, with what the launcher gives for them.
        constants: which of them are compile-time constants.
    """

    body: list[cst.BaseStatement]
    params: dict[str, str]
    constants: set[str]


def inlined_at_tile(
    elementwise: Elementwise, tile: _Tile, product: Launch, dropped: str
) -> tuple[dict[str, cst.BaseExpression], Inlined] | None:
    """Return new names in an elementwise function, and its statements at a product's tile.

    Args:
        elementwise: the function.
        tile: of the product.
        product: the other launch.
        dropped: the parameter that is not passed.
    """
    tile = _with_marks(tile)
    coordinates = _coordinate_values(elementwise, tile, product)
    if coordinates is None:
        return None
    launch = elementwise.launch
    taken = set(product.function.names)
    own = arguments_of(product)
    shared = {value: name for name, value in own.items()}
    mapping: dict[str, cst.BaseExpression] = {}
    params: dict[str, str] = {}
    constants: set[str] = set()
    used = names_within(*elementwise.body)
    for name, value in arguments_of(launch).items():
        is_constant = name in launch.function.constants
        twin = shared.get(value)
        if name == dropped or name not in used:
            continue
        if twin is not None and (twin in product.function.constants) == is_constant:
            mapping[name] = cst.Name(twin)
            continue
        free = free_name(name, taken)
        mapping[name] = cst.Name(free)
        params[free] = value
        constants |= {free} if is_constant else set()
    for name in (*assigned_names(*elementwise.body), *elementwise.coordinates):
        mapping[name] = cst.Name(free_name(name, taken))
    twins = {
        name: cst.Name(f"{_MARK}{twin.value}")
        for name, twin in mapping.items()
        if isinstance(twin, cst.Name) and twin.value in own and name in launch.arguments
    }
    alike = {**twins, **{name: parse_expression(code) for name, code in coordinates.items()}}
    body = [
        _without_marks(substitute_names(_at_tile(s, elementwise, tile, product, alike), mapping))
        for s in elementwise.body
    ]
    heads = [
        _without_marks(parse_statement(f"{render_code(mapping[name])} = {code}"))
        for name, code in coordinates.items()
        if render_code(mapping[name]) in names_within(*body)
    ]
    return mapping, Inlined([*heads, *body], params, constants)


_MARK = "product__"
"""Begins a product's names in a function that has others: an equal name may mean something else."""


def _with_marks(tile: _Tile) -> _Tile:
    rows, columns, offset = map(_marked, (tile.rows, tile.columns, tile.offset))
    conjuncts = tuple(map(_marked, tile.conjuncts))
    return replace(tile, rows=rows, columns=columns, offset=offset, conjuncts=conjuncts)


def _marked(code: str) -> str:
    if not code:
        return code
    node = parse_expression(code)
    names = names_within(node) - {"tl", "None", "True", "False"}
    return render_code(substitute_names(node, {n: cst.Name(f"{_MARK}{n}") for n in names}))


def _without_marks(node: Node) -> Node:
    names = (name for name in names_within(node) if name.startswith(_MARK))
    return substitute_names(node, {n: cst.Name(n.removeprefix(_MARK)) for n in names})


def _coordinate_values(
    elementwise: Elementwise, tile: _Tile, product: Launch
) -> dict[str, str] | None:
    """Return what the coordinates are at a tile; ``None`` if the rows are of another length."""
    if len(elementwise.coordinates) == 1:
        return {elementwise.coordinates[0]: tile.offset}
    own = _launcher_stride(elementwise.stride, elementwise.launch)
    if not tile.is_dense or own is None or own != _launcher_stride(tile.stride, product):
        return None
    rows, columns = elementwise.coordinates
    spread = any(
        isinstance(node, cst.Subscript) for s in elementwise.body for node in nodes_within(s)
    )
    if spread:  # it spreads its coordinates itself
        return {rows: tile.rows.removesuffix(_ROWS), columns: tile.columns.removesuffix(_COLUMNS)}
    return {rows: tile.rows, columns: tile.columns}


def _at_tile(
    statement: cst.BaseStatement,
    elementwise: Elementwise,
    tile: _Tile,
    product: Launch,
    alike: Values,
) -> cst.BaseStatement:
    """Return a statement with indices in rows simplified, and accesses as narrow as the tile's.

    Args:
        statement: of the elementwise function.
        elementwise: the function.
        tile: with marked names.
        product: the other launch.
        alike: code of the product for names of the elementwise function.
    """
    if len(elementwise.coordinates) == 1 and (tile.is_matrix or not tile.rows):
        statement = _with_row_and_column(statement, elementwise, tile, product)
    pairs = [
        (call, _masked_access(call, elementwise, tile, alike))
        for call in calls_within(statement, *_ACCESSES)
    ]
    return replace_each(statement, pairs)


def _with_row_and_column(
    statement: cst.BaseStatement, elementwise: Elementwise, tile: _Tile, product: Launch
) -> cst.BaseStatement:
    """Return a statement with the index's quotient and remainder by a row's length as indices."""
    pairs: list[Swap] = []
    for node in divisions_of(elementwise.coordinates[0], statement):
        length = _launcher_stride([render_code(node.right)], elementwise.launch)
        parts = None if length is None else _row_and_column(tile, length, product)
        if parts is not None:
            part = parts[0] if is_operation(node, cst.FloorDivide) else parts[1]
            pairs.append((node, parenthesized(parse_expression(part))))
    return replace_each(statement, pairs)


def _row_and_column(tile: _Tile, length: str, product: Launch) -> tuple[str, str] | None:
    """Return the row and the column, in rows of a length, of a tile's elements; or ``None``.

    Rows of the tensor may be columns of the tile, as those of a transposed operand are.
    """
    rows: list[str] = []
    columns: list[str] = []
    for term in sum_terms(parse_expression(tile.offset), {}):
        factors = [_stride_of(parse_expression(f), product) for f in term]
        if length in factors:
            at = factors.index(length)
            rows.append(" * ".join((*term[:at], *term[at + 1 :])) or "1")
        else:
            columns.append(" * ".join(term) or "1")
    parts = " + ".join(rows), " + ".join(columns)
    if not tile.rows:
        ends = (compared_sides(parse_expression(code), "<") for code in tile.conjuncts)
        bounds = {(render_code(e[0]), _stride_of(e[1], product)) for e in ends if e is not None}
        is_row = all(parts) and (parts[1], length) in bounds
        return (
            (_along_tile(*parts, product), _along_tile(*parts[::-1], product)) if is_row else None
        )
    spread = [any(code.endswith((_ROWS, _COLUMNS)) for code in part) for part in (rows, columns)]
    return parts if all(spread) else None


def _along_tile(code: str, other: str, product: Launch) -> str:
    """Return an index as a block: an access with a mask of the tile has no single pointer."""
    node = parse_expression(code.replace(_MARK, ""))
    is_block = lengths_within(node, lengths_of_names(product.function))
    return code if is_block else f"{code} + 0 * ({other})"


def _stride_of(node: cst.BaseExpression, product: Launch) -> str | None:
    return _launcher_stride([render_code(node).replace(_MARK, "")], product)


def _masked_access(
    call: cst.Call, elementwise: Elementwise, tile: _Tile, alike: Values
) -> cst.Call:
    """Return an access that leaves out what the tile leaves out.

    One that has only rows, or only columns, asks for no more than theirs: the elements of the
    first column, or row, read the same.
    """
    mask = mask_of(call)
    pointer = render_code(expand_names(call.args[0].value, elementwise.values.get))
    coordinates = [f for f in elementwise.coordinates if re.search(rf"\b{f}\b", pointer)]
    is_flat = len(elementwise.coordinates) == 1
    axes = {
        axis: (tile_index or _MARK) in pointer
        or bool(coordinates and (is_flat or place in coordinates))
        for axis, tile_index, place in (
            (_ROWS, tile.rows, elementwise.coordinates[0]),
            (_COLUMNS, tile.columns, elementwise.coordinates[-1]),
        )
    }
    if not any(axes.values()):
        return call
    whole = all(axes.values())
    conjuncts = [
        code for code in tile.conjuncts if whole or any(axes[a] and a in code for a in axes)
    ]
    if (
        not whole
        and not is_flat
        and not any(axis in pointer for axis in (_ROWS, _COLUMNS, tile.rows, tile.columns))
    ):
        conjuncts = [_without_axes(code) for code in conjuncts]
    own = []
    if mask is not None and (whole or not is_flat):
        present = set(map(_plain_code, conjuncts))
        own = [
            code
            for code in mask_parts(mask, {})
            if _plain_code(render_code(substitute_names(parse_expression(code), alike)))
            not in present
        ]
    return with_mask(call, " & ".join([*own, *conjuncts]))


def _without_axes(code: str) -> str:
    """Return a condition over indices of one axis of a tile, for a block of that axis alone."""
    return code.replace(_ROWS, "").replace(_COLUMNS, "")


def _plain_code(code: str) -> str:
    return "".join(code.split()).strip("()")
