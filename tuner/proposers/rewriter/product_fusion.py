"""Elementwise launches become part of a product's: behind its sums, or within its loads.

An elementwise function computes each element from those at its own index, through names that are
its *coordinates*: one index over all elements, or a row and a column. A product accesses the same
tensor at a *tile*: rows, columns and their strides. So the function is written once more with the
tile's indices as its coordinates, and the tensor between the two launches is needed no more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._distinct_names import with_distinct_names
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    has_assignment,
    launch_line,
    options_of,
    with_params,
    without_param,
)
from solkit.tuner.proposers.rewriter._kept_types import ALLOCATORS
from solkit.tuner.proposers.rewriter._lift import CannotLiftError, Lifting, without_running
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    Node,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    in_launcher,
    launcher_definition,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_kernel,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
    with_each,
)

__all__ = ["FuseProducts"]

_LIKE = tuple(f"torch.{word}_like" for word in ("empty", "zeros", "ones", "full", "rand", "randn"))
_ACCESSES = ("tl.load", "tl.store")
_INDICES = ("tl.program_id", "tl.arange")
_METADATA = ("shape", "stride", "numel", "dtype", "device", "size", "element_size", "ndim")
_ROWS, _COLUMNS = "[:, None]", "[None, :]"
_WIDER = ".to(tl.int64)"
_STRIDE = re.compile(r"(\w+)\.stride\((-?\d)\)")
_DTYPE = re.compile(r"torch\.(float16|bfloat16|float32|float8_e4m3fn|float8_e5m2|int8|int32)")
_LONGEST_CHAIN = 6


class FuseProducts:
    """An elementwise launch ahead of a product, or behind it, becomes part of its launch.

    Applies where a function with ``tl.dot`` stores a tensor once that an elementwise one reads at
    the same places, or loads what such a function stored. The grids may differ. The tensor between
    them is local to the launcher, or the elementwise function changes it in place.
    """

    kind = "fuse with product"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors("extra traffic", "launch")
        chain: list[str] = []
        current: KernelText | None = text
        while current is not None and len(chain) < _LONGEST_CHAIN:
            source = next(_fused_sources(current), "")
            if not source:
                break
            chain.append(source)
            current = parse_kernel(source)
        for source in dict.fromkeys((*chain[-1:], *chain[:1])):  # as much as possible first
            yield Variant(
                source,
                "What is done element by element to a product's operands or results needs no "
                f"launch and no memory of its own{why}.",
            )


def _fused_sources(text: KernelText) -> Iterator[str]:
    for first, second in itertools.combinations(text.single, 2):
        if first.launcher is not second.launcher or not _nothing_between(first, second):
            continue
        products = [bool(calls_within(e.function.node, "tl.dot")) for e in (first, second)]
        for name in _shared_tensors(first, second):
            between = _Between(text, first, second, name)
            if products == [True, False]:
                source = _with_epilogue(between)
            elif products == [False, True]:
                source = _with_prologue(between)
            else:
                source = ""
            if source:
                yield source


# ------------------------------------------------------------------------------- launchers


@dataclass(frozen=True)
class _Between:
    """A tensor between two launches.

    Attributes:
        text: the file.
        first, second: the launches.
        name: of the tensor in the launcher.
    """

    text: KernelText
    first: Launch
    second: Launch
    name: str

    @property
    def parameters(self) -> tuple[str, str]:
        """Names of the tensor in both functions."""
        one, two = (_parameters_of(launch, self.name) for launch in (self.first, self.second))
        return one[0], two[0]

    @property
    def allocation(self) -> cst.BaseStatement | None:
        """Statement that allocates it, if the launcher does."""
        statement = has_assignment(self.first.launcher, self.name)
        binding = None if statement is None else single_assignment(statement)
        is_own = binding is not None and called_name(binding.value) in ALLOCATORS
        return statement if is_own else None

    def other_uses(self) -> list[cst.CSTNode]:
        """Return the launcher's uses of the tensor beside the two launches and its metadata."""
        skipped = {id(self.first.statement), id(self.second.statement), id(self.allocation)}
        uses: list[cst.CSTNode] = []
        for statement in walk_statements(statements_of(self.first.launcher)):
            if id(statement) in skipped or statements_of(statement):
                continue
            metadata = {
                id(node.value)
                for node in nodes_within(statement)
                if isinstance(node, cst.Attribute) and node.attr.value in _METADATA
            }
            metadata |= {id(call.args[0].value) for call in calls_within(statement, *_LIKE)}
            uses += [
                node
                for node in nodes_within(statement)
                if isinstance(node, cst.Name)
                and node.value == self.name
                and id(node) not in metadata
            ]
        return uses

    def needs_tensor(self) -> bool:
        """Tell whether the launcher still asks for the tensor's sizes."""
        launches = (self.first.statement, self.second.statement, self.allocation)
        skipped = {id(statement) for statement in launches}
        rest = [s for s in statements_of(self.first.launcher) if id(s) not in skipped]
        arguments = [
            render_code(value)
            for launch in (self.first, self.second)
            for value in (*launch.arguments.values(), *launch.options.values(), launch.grid)
        ]
        mentions = any(re.search(rf"\b{self.name}\.", code) for code in arguments)
        return mentions or self.name in names_within(*rest)


def _parameters_of(launch: Launch, tensor: str) -> list[str]:
    return [name for name, value in launch.arguments.items() if render_code(value) == tensor]


def _shared_tensors(first: Launch, second: Launch) -> list[str]:
    """Return tensors that both launches get once."""
    names = {n.value for n in first.arguments.values() if isinstance(n, cst.Name)}
    return sorted(
        name
        for name in names
        if len(_parameters_of(first, name)) == 1 == len(_parameters_of(second, name))
    )


def _nothing_between(first: Launch, second: Launch) -> bool:
    """Tell whether the launcher only allocates, and reads sizes, between two launches."""
    body = statements_of(first.launcher)
    places = [
        next((i for i, s in enumerate(body) if s is e.statement), -1) for e in (first, second)
    ]
    if min(places) < 0 or places[0] > places[1]:
        return False
    for statement in body[places[0] + 1 : places[1]]:
        if not isinstance(statement, (cst.SimpleStatementLine, cst.FunctionDef)):
            return False
        for call in calls_within(statement):
            plain = called_name(call) in (*ALLOCATORS, "triton.cdiv", "triton.next_power_of_2")
            method = isinstance(call.func, cst.Attribute) and call.func.attr.value in _METADATA
            if not plain and not method:
                return False
    return True


# ------------------------------------------------------------------------------- elementwise ones


@dataclass(frozen=True)
class _Elementwise:
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
        return {a.target: a.value for s in self.body if (a := single_assignment(s)) is not None}


def _as_elementwise(launch: Launch, param: str, text: KernelText) -> _Elementwise | None:
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
    plain = _Elementwise(launch, used, tuple(rest))
    accesses = [c for s in rest for c in calls_within(s, *_ACCESSES)]
    places = {_coordinates_at(c.args[0].value, param, plain) for c in accesses}
    places.discard(None)
    if len(places) != 1:
        return None
    place = places.pop()
    return None if place is None else replace(plain, coordinates=place[0], stride=place[1])


def _is_elementwise(statement: cst.BaseStatement, text: KernelText) -> bool:
    lifting = Lifting(text.functions)
    for call in calls_within(statement):
        name = called_name(call)
        cast = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
        if not (name in _ACCESSES or cast or lifting.is_elementwise(name)):
            return False
    spread = [render_code(e) for e in nodes_within(statement) if isinstance(e, cst.Subscript)]
    return all(code.endswith((_ROWS, _COLUMNS)) for code in spread)


def _coordinates_at(
    pointer: cst.BaseExpression, param: str, of: _Elementwise
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the coordinates by which a tensor is accessed, and the stride of the first.

    ``None`` if the pointer is of another tensor, or of another form.
    """
    terms = _sum_terms(pointer, of.values)
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


def _sum_terms(
    node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]
) -> list[list[str]]:
    """Return a sum of products as lists of factors, with names of sums replaced by these."""
    if isinstance(node, cst.Name) and node.value in values:
        inner = values[node.value]
        if not any(isinstance(e, cst.Call) for e in nodes_within(inner)):
            return _sum_terms(inner, values)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_sum_terms(node.left, values), *_sum_terms(node.right, values)]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        firsts, seconds = _sum_terms(node.left, values), _sum_terms(node.right, values)
        return [[*one, *two] for one in firsts for two in seconds]
    if isinstance(node, cst.Integer) and node.value == "1":
        return [[]]
    return [[render_code(node)]]


# ------------------------------------------------------------------------------- tiles


@dataclass(frozen=True)
class _Tile:
    """Access of a product to a tile of a tensor.

    Attributes:
        call: the load or the store.
        rows, columns: their indices, spread over the tile, as code.
        stride: of a row, as factors in the function.
        is_dense: whether columns are next to each other and nothing else is added.
        offset: of the elements in the tensor, as code.
        conjuncts: of the mask, as code.
    """

    call: cst.Call
    rows: str
    columns: str
    stride: tuple[str, ...]
    is_dense: bool
    offset: str
    conjuncts: tuple[str, ...]


def _tile_of(call: cst.Call, param: str, values: Mapping[str, cst.BaseExpression]) -> _Tile | None:
    """Return an access as one to a tile of a tensor; ``None`` if it is of another form."""
    spread = {
        name: value
        for name, value in values.items()
        if _is_sum_of_tile(value, param, values) and not calls_within(value, "tl.load")
    }
    terms = _sum_terms(call.args[0].value, spread)
    if [param] not in terms:
        return None
    terms.remove([param])
    offset = " + ".join(" * ".join(term) or "1" for term in terms)
    terms = [[factor.removesuffix(_WIDER) for factor in term] for term in terms]
    rows = [term for term in terms if any(factor.endswith(_ROWS) for factor in term)]
    columns = [term for term in terms if any(factor.endswith(_COLUMNS) for factor in term)]
    if len(rows) != 1 or len(columns) != 1 or rows == columns:
        return None
    row = next(factor for factor in rows[0] if factor.endswith(_ROWS))
    column = next(factor for factor in columns[0] if factor.endswith(_COLUMNS))
    mask = argument_of(call, 2 if called_name(call) == "tl.store" else 1, "mask")
    conjuncts = () if mask is None else tuple(_conjuncts(mask, values))
    stride = tuple(factor for factor in rows[0] if factor != row)
    is_dense = len(columns[0]) == 1 and len(terms) == 2
    return _Tile(call, row, column, stride, is_dense, offset, conjuncts)


def _is_sum_of_tile(
    value: cst.BaseExpression, param: str, values: Mapping[str, cst.BaseExpression]
) -> bool:
    """Tell whether a value is made of spread indices, or starts from the tensor."""
    if any(isinstance(node, cst.Subscript) for node in nodes_within(value)):
        return True
    return any(
        name == param or (name in values and _is_sum_of_tile(values[name], param, {}))
        for name in names_within(value)
    )


def _conjuncts(mask: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]) -> Iterator[str]:
    if isinstance(mask, cst.Name) and mask.value in values:
        yield from _conjuncts(values[mask.value], values)
    elif isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
        yield from _conjuncts(mask.left, values)
        yield from _conjuncts(mask.right, values)
    else:
        yield render_code(parenthesized(mask))


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


# ------------------------------------------------------------------------------- writing it


@dataclass(frozen=True)
class _Inlined:
    """An elementwise function as part of another.

    Attributes:
        body: its statements.
        params: those that the other function gets, with what the launcher gives for them.
        constants: which of them are compile-time constants.
    """

    body: list[cst.BaseStatement]
    params: dict[str, str]
    constants: set[str]


def _inlined(
    elementwise: _Elementwise, tile: _Tile, product: Launch, dropped: str
) -> tuple[dict[str, cst.BaseExpression], _Inlined] | None:
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
    return mapping, _Inlined([*heads, *body], params, constants)


_MARK = "product__"
"""Begins a product's names in a function that has others: an equal name may mean something else."""


def _with_marks(tile: _Tile) -> _Tile:
    rows, columns, offset = map(_marked, (tile.rows, tile.columns, tile.offset))
    conjuncts = tuple(map(_marked, tile.conjuncts))
    return replace(tile, rows=rows, columns=columns, offset=offset, conjuncts=conjuncts)


def _marked(code: str) -> str:
    node = parse_expression(code)
    names = names_within(node) - {"tl", "None", "True", "False"}
    return render_code(substitute_names(node, {n: cst.Name(f"{_MARK}{n}") for n in names}))


def _without_marks(node: Node) -> Node:
    names = (name for name in names_within(node) if name.startswith(_MARK))
    return substitute_names(node, {n: cst.Name(n.removeprefix(_MARK)) for n in names})


def _coordinate_values(
    elementwise: _Elementwise, tile: _Tile, product: Launch
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
        return {
            rows: tile.rows.removesuffix(_ROWS),
            columns: tile.columns.removesuffix(_COLUMNS),
        }
    return {rows: tile.rows, columns: tile.columns}


def _at_tile(
    statement: cst.BaseStatement,
    elementwise: _Elementwise,
    tile: _Tile,
    product: Launch,
    alike: Mapping[str, cst.BaseExpression],
) -> cst.BaseStatement:
    """Return a statement with indices in rows simplified, and accesses as narrow as the tile's.

    Args:
        statement: of the elementwise function.
        elementwise: the function.
        tile: with marked names.
        product: the other launch.
        alike: code of the product for names of the elementwise function.
    """
    if len(elementwise.coordinates) == 1:
        statement = _with_row_and_column(statement, elementwise, tile, product)
    pairs = [
        (call, _masked_access(call, elementwise, tile, alike))
        for call in calls_within(statement, *_ACCESSES)
    ]
    return replace_each(statement, pairs)


def _with_row_and_column(
    statement: cst.BaseStatement, elementwise: _Elementwise, tile: _Tile, product: Launch
) -> cst.BaseStatement:
    """Return a statement with the index's quotient and remainder by a row's length as indices."""
    index = elementwise.coordinates[0]
    pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    for node in nodes_within(statement):
        if not isinstance(node, cst.BinaryOperation) or render_code(node.left) != index:
            continue
        is_quotient = isinstance(node.operator, cst.FloorDivide)
        if not is_quotient and not isinstance(node.operator, cst.Modulo):
            continue
        length = _launcher_stride([render_code(node.right)], elementwise.launch)
        parts = None if length is None else _row_and_column(tile, length, product)
        if parts is not None:
            pairs.append((node, parenthesized(parse_expression(parts[0 if is_quotient else 1]))))
    return replace_each(statement, pairs)


def _row_and_column(tile: _Tile, length: str, product: Launch) -> tuple[str, str] | None:
    """Return the row and the column, in rows of a length, of a tile's elements; or ``None``.

    Rows of the tensor may be columns of the tile, as those of a transposed operand are.
    """
    rows: list[str] = []
    columns: list[str] = []
    for term in _sum_terms(parse_expression(tile.offset), {}):
        factors = [_launcher_stride([f.replace(_MARK, "")], product) for f in term]
        if length in factors:
            at = factors.index(length)
            rows.append(" * ".join((*term[:at], *term[at + 1 :])) or "1")
        else:
            columns.append(" * ".join(term) or "1")
    spread = [any(code.endswith((_ROWS, _COLUMNS)) for code in part) for part in (rows, columns)]
    return (" + ".join(rows), " + ".join(columns)) if all(spread) else None


def _masked_access(
    call: cst.Call,
    elementwise: _Elementwise,
    tile: _Tile,
    alike: Mapping[str, cst.BaseExpression],
) -> cst.Call:
    """Return an access that leaves out what the tile leaves out.

    One that has only rows, or only columns, asks for no more than theirs: the elements of the
    first column, or row, read the same.
    """
    at = 2 if called_name(call) == "tl.store" else 1
    mask = argument_of(call, at, "mask")
    pointer = render_code(substitute_names(call.args[0].value, elementwise.values))
    coordinates = [f for f in elementwise.coordinates if re.search(rf"\b{f}\b", pointer)]
    is_flat = len(elementwise.coordinates) == 1
    axes = {
        axis: tile_index in pointer or bool(coordinates and (is_flat or place in coordinates))
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
            for code in _conjuncts(mask, {})
            if _plain_code(render_code(substitute_names(parse_expression(code), alike)))
            not in present
        ]
    joined = " & ".join([*own, *conjuncts])
    args = [arg for arg in call.args if arg.value is not mask]
    if not joined:
        return call.with_changes(args=args)
    texts = [render_code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in args]
    words = [
        text if arg.keyword or i < at else f"other={text}"
        for i, (text, arg) in enumerate(zip(texts, args, strict=True))
    ]
    code = f"{called_name(call)}({', '.join([*words[:at], f'mask={joined}', *words[at:]])})"
    return cst.ensure_type(parse_expression(code), cst.Call)


def _without_axes(code: str) -> str:
    """Return a condition over indices of one axis of a tile, for a block of that axis alone."""
    return code.replace(_ROWS, "").replace(_COLUMNS, "")


def _plain_code(code: str) -> str:
    return "".join(code.split()).strip("()")


# ------------------------------------------------------------------------------- epilogues


def _with_epilogue(between: _Between) -> str:
    """Return the file with what follows a product as part of it; empty if that cannot be."""
    product, launch = between.first, between.second
    written, read = between.parameters
    elementwise = _as_elementwise(launch, read, between.text)
    stores = calls_within(product.function.node, "tl.store")
    if elementwise is None or len(stores) != 1:
        return ""
    statement = next(
        (s for s in product.function.body if expression_statement(s) is stores[0]), None
    )
    value = argument_of(stores[0], 1, "value")
    tile = _tile_of(stores[0], written, _single_values(product.function))
    if statement is None or value is None or tile is None:
        return ""
    targets = {
        n for c in calls_within(launch.function.node, "tl.store") for n in _bases(c, elementwise)
    }
    in_place = read in targets
    inputs = {render_code(v) for n, v in product.arguments.items() if n != written}
    outputs = {render_code(launch.arguments[n]) for n in targets if n in launch.arguments}
    others = between.other_uses()
    if between.allocation is None or outputs & inputs or (others and not in_place):
        return ""
    if others and not _all_behind(others, launch):
        return ""
    name = free_name("product", {*product.function.names, *launch.function.names})
    elementwise = _with_loaded(elementwise, read, name)
    result = _inlined(elementwise, tile, product, "" if in_place else read)
    if result is None:
        return ""
    inlined = result[1]
    if read in names_within(*elementwise.body) and not in_place:
        return ""
    summed = parse_statement(f"{name} = {render_code(_without_type_of(value, written))}")
    whole = with_each(
        product.function.node,
        {id(statement): [summed, *inlined.body]},
    )
    return _rewritten_file(between, product, whole, inlined, None if in_place else written)


def _all_behind(uses: Sequence[cst.CSTNode], launch: Launch) -> bool:
    """Tell whether uses in a launcher come after a launch."""
    body = statements_of(launch.launcher)
    place = next(i for i, s in enumerate(body) if s is launch.statement)
    behind = {id(node) for s in body[place + 1 :] for node in nodes_within(s)}
    return all(id(use) in behind for use in uses)


def _bases(call: cst.Call, of: _Elementwise) -> set[str]:
    terms = _sum_terms(call.args[0].value, of.values)
    return {term[0] for term in terms if len(term) == 1 and term[0] in of.launch.function.params}


def _with_loaded(elementwise: _Elementwise, read: str, name: str) -> _Elementwise:
    """Return a function with the product's sums, a name, where it loads them."""
    body: list[cst.BaseStatement] = []
    for statement in elementwise.body:
        pairs = [
            (call, cst.Name(name))
            for call in calls_within(statement, "tl.load")
            if _coordinates_at(call.args[0].value, read, elementwise) is not None
        ]
        body.append(replace_each(statement, pairs))
    used = names_within(*(s for s in body if single_assignment(s) is None)) | {
        n for s in body if (a := single_assignment(s)) is not None for n in names_within(a.value)
    }
    kept = [s for s in body if (a := single_assignment(s)) is None or a.target in used]
    return replace(elementwise, body=tuple(kept))


def _without_type_of(value: cst.BaseExpression, param: str) -> cst.BaseExpression:
    """Return a value without the conversion to what a parameter points to."""
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return value
    converts = value.func.attr.value == "to"
    return value.func.value if converts and param in names_within(*value.args) else value


def _single_values(function: JitFunction) -> dict[str, cst.BaseExpression]:
    """Return values of the names that a function assigns once, in loops too.

    A parameter that moves on has two values.
    """
    counts = [*assigned_names(*function.body), *function.params]
    statements = walk_statements(function.body)
    return {
        a.target: a.value
        for s in statements
        if (a := single_assignment(s)) is not None and counts.count(a.target) == 1
    }


# ------------------------------------------------------------------------------- prologues


def _with_prologue(between: _Between) -> str:
    """Return the file with what precedes a product computed as it loads; else empty."""
    launch, product = between.first, between.second
    written, read = between.parameters
    elementwise = _as_elementwise(launch, written, between.text)
    if elementwise is None or between.allocation is None or between.other_uses():
        return ""
    stores = [s for s in elementwise.body if calls_within(s, "tl.store")]
    store = expression_statement(stores[0]) if len(stores) == 1 else None
    value = argument_of(store, 1, "value") if isinstance(store, cst.Call) else None
    dtype = _element_type(between, elementwise)
    if value is None or not dtype or read in _written_params(product.function):
        return ""
    outputs = {render_code(product.arguments[n]) for n in _written_params(product.function)}
    if outputs & {render_code(v) for v in launch.arguments.values()}:
        return ""
    function = _without_moving_pointers(product.function)
    value = _without_type_of(value, written)
    rest = replace(elementwise, body=tuple(s for s in elementwise.body if s is not stores[0]))
    return _with_computed_loads(between, function, rest, (value, dtype))


def _with_computed_loads(
    between: _Between,
    function: JitFunction,
    elementwise: _Elementwise,
    stored: tuple[cst.BaseExpression, str],
) -> str:
    """Return the file with each load of the tensor as the computation of what it reads."""
    read, (value, dtype) = between.parameters[1], stored
    product = replace(between.second, function=function)
    swaps: dict[int, Sequence[cst.CSTNode]] = {}
    inlined = None
    for statement in walk_statements(function.body):
        loads = [
            call
            for call in calls_within(statement, "tl.load")
            if not statements_of(statement) and _starts_from(call, read, function)
        ]
        if not loads:
            continue
        tile = _tile_of(loads[0], read, _single_values(function))
        if len(loads) != 1 or tile is None or inlined is not None:
            return ""  # once: of a second load it would be computed again
        result = _inlined(elementwise, tile, product, "")
        if result is None:
            return ""
        mapping, inlined = result
        names = {name: render_code(new) for name, new in mapping.items()}
        element = _renamed_type(dtype, names)
        code = f"{render_code(parenthesized(substitute_names(value, mapping)))}.to({element})"
        if tile.conjuncts:
            other = argument_of(loads[0], 2, "other")
            fill = "0.0" if other is None else render_code(other)
            code = f"tl.where({' & '.join(tile.conjuncts)}, {code}, {fill}).to({element})"
        changed = replace_each(statement, [(loads[0], parse_expression(code))])
        swaps[id(statement)] = [*inlined.body, changed]
    if inlined is None:
        return ""
    node = with_each(function.node, swaps)
    if read in names_within(*statements_of(node)):
        node = _without_unused_pointers(node, read)
    if read in names_within(*statements_of(node)):
        return ""
    return _rewritten_file(between, product, node, inlined, read)


def _starts_from(call: cst.Call, param: str, function: JitFunction) -> bool:
    return param in _all_names(call.args[0].value, _single_values(function))


def _all_names(node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]) -> set[str]:
    pending, seen = set(names_within(node)), set()
    while pending:
        name = pending.pop()
        seen.add(name)
        if name in values:
            pending |= names_within(values[name]) - seen
    return seen


def _without_unused_pointers(node: cst.FunctionDef, param: str) -> cst.FunctionDef:
    """Return a function without assignments from a parameter to names that nothing reads."""
    while True:
        swaps: dict[int, Sequence[cst.CSTNode]] = {}
        for statement in walk_statements(statements_of(node)):
            binding = single_assignment(statement)
            if binding is None or param not in names_within(binding.value):
                continue
            uses = [
                e
                for e in nodes_within(node)
                if isinstance(e, cst.Name) and e.value == binding.target
            ]
            if len(uses) == 1:
                swaps[id(statement)] = []
        if not swaps:
            return node
        node = with_each(node, swaps)


def _written_params(function: JitFunction) -> set[str]:
    values = _single_values(function)
    writes = calls_within(function.node, "tl.store", "tl.atomic_add")
    return {
        name
        for call in writes
        for name in _all_names(call.args[0].value, values) & set(function.params)
        if [name] in _sum_terms(call.args[0].value, values)
    }


def _without_moving_pointers(function: JitFunction) -> JitFunction:
    """Return a function whose loops compute each trip's pointers from the loop's variable."""
    swaps: dict[int, Sequence[cst.CSTNode]] = {}
    for place, statement in enumerate(function.body):
        loop = next((loop for loop in function.loops if loop.node is statement), None)
        if loop is None:
            continue
        try:
            body = without_running(loop, names_within(*function.body[place + 1 :]))
        except CannotLiftError:
            continue
        swaps[id(statement)] = [with_body(loop.node, body)]
    return replace(function, node=with_each(function.node, swaps))


def _element_type(between: _Between, elementwise: _Elementwise) -> str:
    """Return the type of the tensor's elements as code of the elementwise function; else empty.

    That is what the launcher says where it allocates it: a type, or that of another tensor.
    """
    allocation = between.allocation
    binding = None if allocation is None else single_assignment(allocation)
    if binding is None:
        return ""
    call = cst.ensure_type(binding.value, cst.Call)
    dtype = argument_of(call, 99, "dtype")
    if dtype is not None and (match := _DTYPE.fullmatch(render_code(dtype))):
        return f"tl.{match[1]}"
    like = render_code(dtype).removesuffix(".dtype") if dtype is not None else ""
    if dtype is None and called_name(call).endswith("_like"):
        like = render_code(call.args[0].value)
    for launch in (elementwise.launch, between.second):
        for name, value in launch.arguments.items():
            if like and render_code(value) == like:
                return f"{name}.dtype.element_ty"
    return ""


def _renamed_type(dtype: str, names: Mapping[str, str]) -> str:
    name = dtype.split(".", 1)[0]
    return dtype.replace(name, names[name], 1) if name in names else dtype


# ------------------------------------------------------------------------------- files


def _rewritten_file(
    between: _Between,
    product: Launch,
    node: cst.FunctionDef,
    inlined: _Inlined,
    dropped: str | None,
) -> str:
    """Return the file with one launch of a function in place of two."""
    plain = [name for name in inlined.params if name not in inlined.constants]
    constants = [name for name in inlined.params if name in inlined.constants]
    node = with_params(without_param(node, dropped), added=plain, constants=constants)
    arguments = {**arguments_of(product), **inlined.params}
    order = [param.name.value for param in node.params.params]
    statement = launch_line(
        product.function.name,
        render_code(product.grid),
        {name: arguments[name] for name in order if name in arguments},
        options_of(product),
        {*product.function.constants, *constants},
    ).with_changes(leading_lines=product.statement.leading_lines)
    other = between.second if product.statement is between.first.statement else between.first
    launches: list[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]] = [
        (between.first.statement, []),
        (between.second.statement, [statement]),
    ]
    allocation = between.allocation
    passed = {name: code for name, code in arguments.items() if name in order}
    is_passed = any(between.name in names_within(parse_expression(c)) for c in passed.values())
    if dropped is not None and allocation and not is_passed and not between.needs_tensor():
        launches.append((allocation, []))
    return changed_text(
        between.text,
        functions={product.function.name: node, other.function.name: None},
        launches=launches,
    )
