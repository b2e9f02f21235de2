"""Addresses of a launch as indices with strides, and launches that take the softmax of each row.

Notation
    index      a vector of rows or columns, or a program's index of a batch: an *atom* of an address
    address    a sum of products of atoms and of the launcher's sizes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._carried import carried_by
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    MOST_STEPS,
    Body,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    expression_statement,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._operations import (
    FLIPPED,
    call_args,
    compared_sides,
    comparison_parts,
    conjuncts,
    converted_value,
    is_minus_infinity,
    is_operation,
    is_zero,
    without_conversions,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, Launch, launcher_definition
from solkit.tuner.proposers.rewriter._values import (
    all_names,
    argument_aliases,
    as_blocked_loop,
    without_repeats,
    without_zeros,
)

EMPTY = ("torch.empty", "torch.empty_like")
"""Allocators of tensors without values."""
SCORE, ROW = "_score_", "_row_"
"""What stands for a score, and for its row in a matrix of scores, in what a softmax makes of it."""
_ALLOWED = (
    *("tl.where", "tl.minimum", "tl.maximum", "tl.abs", "tl.exp", "tl.exp2", "tl.log", "tl.sqrt"),
    *("tl.sigmoid", "tl.load", "tl.arange", "float"),
)
"""Functions that change scores one by one."""


class OtherLaunchError(Exception):
    """A launch is of another form."""


def require(condition: object) -> None:
    if not condition:
        raise OtherLaunchError


# ------------------------------------------------------------------------------- addresses


Product = tuple[str, ...]


@dataclass(frozen=True)
class Atom:
    """An index in an address.

    Attributes:
        code: of it in its function, without axes.
        axis: of a tile that it varies along; ``None`` for one number.
        block: how many elements it has, as code; empty for one number.
        is_spread: whether the code has both axes itself.
    """

    code: str
    axis: int | None = None
    block: str = ""
    is_spread: bool = False

    def along_tile(self) -> str:
        """Return it as code with both axes of a tile."""
        if self.axis is None or self.is_spread:
            return self.code
        return f"{self.code}{'[:, None]' if self.axis == 0 else '[None, :]'}"


@dataclass
class Addresses:
    """Reads addresses of one launch.

    Attributes:
        launch: the launch.
        values: of the function's names.
    """

    launch: Launch
    values: Values

    def read(self, pointer: cst.BaseExpression, base: str) -> dict[Atom, Product]:
        """Return each index of an address, with its stride over the launcher's sizes.

        Raises:
            OtherLaunchError: it is of another form.
        """
        strides: dict[Atom, Product] = {}
        terms = self._terms(pointer, None)
        require(terms.pop((None, (base,)), 0) == 1)
        for (atom, factors), times in terms.items():
            require(times == 1 and atom is not None and atom not in strides)
            assert atom is not None
            strides[atom] = self._stride(factors)
        return strides

    def _stride(self, factors: Product) -> Product:
        result: list[str] = []
        for factor in factors:
            node = parse_expression(factor)
            used = names_within(node)
            require(used <= {*self.launch.arguments, "tl"})
            products = sizes_as_products(substitute_names(node, self.launch.arguments), self.launch)
            require(len(products) == 1)
            result += products[0]
        return tuple(sorted(result))

    def _terms(
        self, node: cst.BaseExpression, axis: int | None
    ) -> Counter[tuple[Atom | None, Product]]:
        """Return a sum as products of at most one index and of other factors."""
        if is_operation(node, cst.Add):
            if (atom := self._index(node, axis)) is not None:
                return Counter({(atom, ()): 1})
            return self._terms(node.left, axis) + self._terms(node.right, axis)
        if is_operation(node, cst.Multiply):
            return self._product(node, axis)
        if isinstance(node, cst.Subscript):
            return self._terms(node.value, _axis_of(node))
        if (inner := _without_type(node)) is not node:
            return self._terms(inner, axis)
        if (atom := self._index(node, axis)) is not None:
            return Counter({(atom, ()): 1})
        if isinstance(node, cst.Name) and node.value in self.values:
            return self._terms(self.values[node.value], axis)
        code = compact_code(node)
        return Counter({(None, () if code == "1" else (code,)): 1}) if code != "0" else Counter()

    def _product(
        self, node: cst.BinaryOperation, axis: int | None
    ) -> Counter[tuple[Atom | None, Product]]:
        result: Counter[tuple[Atom | None, Product]] = Counter()
        for (one, first), times in self._terms(node.left, axis).items():
            for (two, second), count in self._terms(node.right, axis).items():
                require(one is None or two is None)
                result[one or two, tuple(sorted((*first, *second)))] += times * count
        return result

    def _index(self, node: cst.BaseExpression, axis: int | None) -> Atom | None:
        """Return an index of a tile, or one that follows from the program alone; else ``None``."""
        whole, own = node, axis
        for _ in range(MOST_STEPS):
            if not isinstance(whole, cst.Name) or whole.value not in self.values:
                break
            whole = self.values[whole.value]
        whole = _without_type(whole)
        ranges = calls_within(whole, "tl.arange")
        if len(ranges) == 1 and not self._moves_pointer(whole):
            spread = [n for n in nodes_within(whole) if isinstance(n, cst.Subscript)]
            own = _axis_of(spread[0]) if spread else axis
            start, end = (argument_of(ranges[0], at) for at in (0, 1))
            is_plain = len(spread) < 2 and start is not None and render_code(start) == "0"
            require(is_plain and end is not None and _is_shifted(whole, ranges[0]))
            assert end is not None
            return Atom(render_code(node), own, render_code(end), bool(spread))
        is_computed = isinstance(whole, cst.Call) and called_name(whole) == "tl.program_id"
        is_computed |= is_operation(whole, cst.FloorDivide, cst.Modulo)
        return Atom(render_code(node)) if is_computed and not ranges else None

    def _moves_pointer(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression with a range is more than an index."""
        names = names_within(node) - {"tl", "None"}
        pointers = {n for n in names if self._is_address(cst.Name(n))}
        return bool(pointers)

    def _is_address(self, node: cst.BaseExpression) -> bool:
        """Tell whether a name stands for a tensor's address."""
        return bool(all_names(node, self.values) & _pointers_of(self.launch.function))


def _pointers_of(function: JitFunction) -> set[str]:
    """Return parameters that the function reads from or writes to, roughly."""
    values = single_values(function.body)
    accesses = calls_within(function.node, "tl.load", "tl.store")
    names = {name for call in accesses for name in all_names(call.args[0].value, values)}
    plain = {n for n in names & set(function.params) if n not in function.constants}
    return {n for n in plain if not is_number(n, function)}


def is_number(name: str, function: JitFunction) -> bool:
    """Tell whether a parameter is multiplied, divided or compared: a tensor's address is not."""
    operations = (cst.Multiply, cst.FloorDivide, cst.Modulo)
    for node in nodes_within(function.node):
        if is_operation(node, *operations):
            sides = node.left, node.right
        elif isinstance(node, cst.Comparison):
            sides = node.left, node.comparisons[0].comparator
        else:
            continue
        if any(isinstance(side, cst.Name) and side.value == name for side in sides):
            return True
    return False


def _is_shifted(node: cst.BaseExpression, block: cst.Call) -> bool:
    """Tell whether an expression is a range plus numbers: its stride is 1."""
    if is_operation(node, cst.Add):
        sides = (node.left, node.right)
        inner = next((s for s in sides if any(c is block for c in calls_within(s))), None)
        return inner is not None and _is_shifted(inner, block)
    if isinstance(node, cst.Subscript):
        return _is_shifted(node.value, block)
    return node is block


def _axis_of(node: cst.Subscript) -> int:
    entries = tuple(render_code(element.slice) for element in node.slice)
    require(entries in ((":", "None"), ("None", ":")))
    return entries.index(":")


def _without_type(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an index for its conversion to an integer's type."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return node
    is_cast = node.func.attr.value == "to" and "int" in render_code(node.args[0])
    return node.func.value if is_cast else node


def sizes_as_products(node: cst.BaseExpression, launch: Launch) -> list[Product]:
    """Return an expression of a launcher as a sum of products, over sizes of what it allocates."""
    if is_operation(node, cst.Add):
        return [*sizes_as_products(node.left, launch), *sizes_as_products(node.right, launch)]
    if is_operation(node, cst.Multiply):
        seconds = sizes_as_products(node.right, launch)
        firsts = sizes_as_products(node.left, launch)
        return [tuple(sorted((*one, *two))) for one in firsts for two in seconds]
    if isinstance(node, cst.Call) and called_name(node).endswith((".stride", ".size")):
        return _sizes_of_tensor(node, launch)
    if isinstance(node, cst.Name):
        value = launcher_definition(node.value, launch.launcher)
        is_sum = isinstance(value, (cst.BinaryOperation, cst.Name, cst.Call))
        is_other = isinstance(value, cst.Call) and not called_name(value).endswith(".stride")
        if value is not None and is_sum and not (is_other or calls_within(value, "triton.cdiv")):
            return sizes_as_products(value, launch)
    code = compact_code(node)
    return [() if code == "1" else (code,)]


def _sizes_of_tensor(call: cst.Call, launch: Launch) -> list[Product]:
    """Return a stride, or a size, of a tensor that the launcher allocates."""
    function = cst.ensure_type(call.func, cst.Attribute)
    shape = shape_of_tensor(function.value, launch)
    place = argument_of(call, 0)
    if shape is None or place is None or not isinstance(place, (cst.Integer, cst.UnaryOperation)):
        return [(compact_code(call),)]
    at = int(compact_code(place)) % len(shape)
    if function.attr.value == "size":
        return [shape[at]]
    return [tuple(sorted(factor for size in shape[at + 1 :] for factor in size))]


def shape_of_tensor(tensor: cst.BaseExpression, launch: Launch) -> list[Product] | None:
    """Return the sizes of a tensor that the launcher allocates, each as a product."""
    value = (
        launcher_definition(tensor.value, launch.launcher) if isinstance(tensor, cst.Name) else None
    )
    if not isinstance(value, cst.Call) or called_name(value) not in EMPTY:
        return None
    if called_name(value) == "torch.empty_like":
        return shape_of_tensor(value.args[0].value, launch)
    plain = [arg.value for arg in value.args if arg.keyword is None]
    if len(plain) == 1 and isinstance(plain[0], (cst.Tuple, cst.List)):
        plain = [element.value for element in plain[0].elements]
    sizes = [sizes_as_products(size, launch) for size in plain]
    return [size[0] for size in sizes] if all(len(size) == 1 for size in sizes) else None


# ------------------------------------------------------------------------------- straight code


@dataclass
class _Straight:
    """Straight code, with each name's value in terms of parameters and loads.

    Attributes:
        values: of names.
        stores: pointers, values and masks of what is stored.
    """

    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    stores: list[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression | None]] = field(
        default_factory=list
    )

    @classmethod
    def of(cls, body: Body) -> _Straight:
        """Evaluate statements.

        Raises:
            OtherLaunchError: one does something else than assign or store.
        """
        code = cls()
        for statement in body:
            binding, call = single_assignment(statement), expression_statement(statement)
            if binding is not None:
                code.values[binding.target] = substitute_names(binding.value, code.values)
                continue
            if not isinstance(call, cst.Call) or called_name(call) != "tl.store":
                raise OtherLaunchError
            pointer, value = argument_of(call, 0, "pointer"), argument_of(call, 1, "value")
            mask = argument_of(call, 2, "mask")
            if pointer is None or value is None:
                raise OtherLaunchError
            own = mask if mask is None else substitute_names(mask, code.values)
            pointer, value = (substitute_names(part, code.values) for part in (pointer, value))
            code.stores.append((pointer, value, own))
        return code


def _flat_row(launch: Launch) -> list[cst.BaseStatement]:
    """Return a function's statements with each loop over blocks of a row as one block.

    Raises:
        OtherLaunchError: a loop does something else than sum a row, or take its maximum.
    """
    function = launch.function
    body: list[cst.BaseStatement] = []
    for place, statement in enumerate(function.body):
        loop = range_loop(statement)
        if loop is None:
            require(isinstance(statement, cst.SimpleStatementLine))
            body.append(statement)
            continue
        carried = carried_by(loop.body, loop.name)
        require(as_blocked_loop(loop, function) is not None and carried is not None)
        assert carried is not None
        later = names_read_first(function.body[place + 1 :])
        require(set(assigned_names(*loop.body)) & later <= set(carried))
        body += without_zeros(loop.body, loop.name)
    return without_repeats(body, argument_aliases(launch), function.params)


# ------------------------------------------------------------------------------- the softmax


@dataclass(frozen=True)
class Softmax:
    """The softmax of a row.

    Attributes:
        logits: what is exponentiated, over `SCORE`, and `ROW` if that depends on the row.
        column: the index within the row, as code.
        power: the exponential that is used.
    """

    logits: cst.BaseExpression
    column: str
    power: str


def softmax_of_rows(launch: Launch, scores: str, result: str) -> Softmax:
    """Return how a launch takes the softmax of each row of a tensor.

    Args:
        launch: of the softmax.
        scores: the launcher's name of the tensor that it reads.
        result: that of the tensor that it writes.

    Raises:
        OtherLaunchError: it does something else.
    """
    code = _Straight.of(_flat_row(launch))
    raw, weights = parameter_of(launch, scores), parameter_of(launch, result)
    own = [s for s in code.stores if weights in names_within(s[0])]
    require(own and all(names_within(s[0]) & {raw, weights} for s in code.stores))
    pointer, value, mask = own[-1]
    logits, power, kept = _normalised(value)
    loads = [c for c in calls_within(logits, "tl.load") if raw in names_within(c.args[0].value)]
    require(loads and len({plain_code(c) for c in loads}) == 1)
    column, size, rows = _whole_row(launch, loads[0].args[0].value, raw)
    require(_whole_row(launch, pointer, weights) == (column, size, rows))
    _require_fill(launch, logits, loads[0], column, size)
    masks = [*kept, *([] if mask is None else [mask])]
    require(all(_bounds_column(node, column, size, launch) for node in masks))
    plain = _over_score(logits, loads[0], _Bound(launch, column, size))
    plain = _with_row(plain, rows, launch, shape_of_tensor(launch.arguments[raw], launch))
    require(_changes_each(plain))
    for load in calls_within(plain, "tl.load"):
        require(ROW not in names_within(load) and _is_bound(load, column, size, launch))
    return Softmax(plain, column, power)


_SIDES = {"<": (True, ""), "<=": (True, " + 1"), ">": (False, " + 1"), ">=": (False, "")}


@dataclass(frozen=True)
class ColumnEnd:
    """A place where columns with weight begin or end.

    Attributes:
        is_upper: whether they end there.
        added: what must be added to `place`, as code.
        place: a sum of `ROW` and numbers.
    """

    is_upper: bool
    added: str
    place: cst.BaseExpression


def column_ends(node: cst.BaseExpression, column: str, numbers: set[str]) -> list[ColumnEnd]:
    """Return where columns with weight end, by masks that give all others minus infinity.

    Args:
        node: logits.
        column: the index within a row, as code.
        numbers: names of numbers.
    """
    ends: list[ColumnEnd] = []
    node = _without_scale(node)
    while called_name(node) == "tl.where":
        mask, node, other = call_args(node)[:3]
        if not is_minus_infinity(other):
            break
        for part in conjuncts(mask):
            ends += _ends_by_comparison(part, column, {ROW, *numbers})
        node = _without_scale(node)
    return ends


def _without_scale(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the scores of a product of scores and a number, in the type that they had.

    Minus infinity times a number that is not above 0 makes no softmax.
    """
    node = without_conversions(node)
    if not is_operation(node, cst.Multiply):
        return node
    first, second = without_conversions(node.left), without_conversions(node.right)
    return second if called_name(second) == "tl.where" else first


def keeps_lowest(logits: cst.BaseExpression) -> bool:
    """Tell whether a score that is minus infinity is so in what is exponentiated."""
    node = _without_scale(logits)
    while called_name(node) == "tl.where":
        _, node, other = call_args(node)[:3]
        if not is_minus_infinity(other):
            return False
        node = _without_scale(node)
    return render_code(node) == SCORE


def _ends_by_comparison(
    part: cst.BaseExpression, column: str, numbers: set[str]
) -> list[ColumnEnd]:
    """Return the end that a comparison of the column with a sum sets; none for another node."""
    if (parts := comparison_parts(part)) is None:
        return []
    first, sign, second = parts
    index = plain_code(parse_expression(column))
    if plain_code(second) == index:
        first, sign, second = second, FLIPPED.get(sign, ""), first
    if plain_code(first) != index or sign not in _SIDES or not _is_sum(second, numbers):
        return []
    return [ColumnEnd(*_SIDES[sign], parenthesized(second))]


def _is_sum(node: cst.BaseExpression, names: set[str]) -> bool:
    if is_operation(node, cst.Add, cst.Subtract):
        return _is_sum(node.left, names) and _is_sum(node.right, names)
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and node.value in names)


@dataclass(frozen=True)
class _Bound:
    """The length of a launch's rows, and the index that stays below it."""

    launch: Launch
    column: str
    size: str

    def is_in(self, mask: cst.BaseExpression) -> bool:
        """Tell whether a part of a mask leaves out what is beyond a row's end."""
        return len(self.others(mask)) < len(conjuncts(mask))

    def others(self, mask: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the other parts of a mask."""
        return [
            part
            for part in conjuncts(mask)
            if not _bounds_column(part, self.column, self.size, self.launch)
        ]


def _over_score(logits: cst.BaseExpression, load: cst.Call, bound: _Bound) -> cst.BaseExpression:
    """Return logits over `SCORE` for the load, with what its mask leaves out within a row."""
    mask, other = argument_of(load, 1, "mask"), argument_of(load, 2, "other")
    parts = [] if mask is None else bound.others(mask)
    score: cst.BaseExpression = cst.Name(SCORE)
    if parts:
        require(other is not None)
        assert other is not None
        test = " & ".join(f"({render_code(part)})" for part in parts)
        score = parse_expression(f"tl.where({test}, {SCORE}, {render_code(other)})")
    same = [call for call in calls_within(logits, "tl.load") if same_value(call, load)]
    return replace_each(logits, [(call, score) for call in same])


def _with_row(
    logits: cst.BaseExpression,
    rows: Mapping[Atom, Product],
    launch: Launch,
    shape: Sequence[Product] | None,
) -> cst.BaseExpression:
    """Return logits over `ROW` for a program's row in a matrix of scores.

    That is the index whose stride is a row's length, or what remains of it where one index counts
    the rows of all matrices.
    """
    require(shape is not None and len(shape) > 1)
    assert shape is not None
    atom = next(a for a, stride in rows.items() if stride == shape[-1])
    axis = _program_axis(atom.code)
    sizes = [] if axis is None else sizes_as_products((launch.axes or ())[axis], launch)
    is_row = sizes == [shape[-2]]
    pairs: list[Swap] = []
    for node in nodes_within(logits):
        index = node
        if is_operation(node, cst.Modulo):
            used = names_within(node.right)
            if is_row or not used <= set(launch.arguments):
                continue
            number = substitute_names(node.right, launch.arguments)
            index = node.left if sizes_as_products(number, launch) == [shape[-2]] else node
        elif not is_row:
            continue
        if isinstance(index, cst.BaseExpression) and _is_program(index, axis):
            pairs.append((node, cst.Name(ROW)))
    inner = {id(other) for node, _ in pairs for other in nodes_within(node) if other is not node}
    return replace_each(logits, [pair for pair in pairs if id(pair[0]) not in inner])


def _is_program(node: cst.BaseExpression, axis: int | None) -> bool:
    call = _without_type(node)
    return called_name(call) == "tl.program_id" and _program_axis(render_code(call)) == axis


def parameter_of(launch: Launch, tensor: str) -> str:
    names = [n for n, value in launch.arguments.items() if render_code(value) == tensor]
    require(len(names) == 1)
    return names[0]


def _normalised(
    value: cst.BaseExpression,
) -> tuple[cst.BaseExpression, str, list[cst.BaseExpression]]:
    """Return x, and the exponential, of ``exp(x - max(x)) / sum(exp(x - max(x)))``, and masks.

    Beyond the masks the powers are 0.
    """
    value = without_conversions(value)
    if not is_operation(value, cst.Divide):
        raise OtherLaunchError
    top, total = without_conversions(value.left), _without_start(value.right, is_zero)
    require(called_name(total) == "tl.sum")
    inner, *masks = _without_where(without_conversions(call_args(total)[0]))
    top, *others = _without_where(top)
    require(called_name(top) in EXPONENTIALS and same_value(top, inner))
    shifted = call_args(top)[0]
    if not is_operation(shifted, cst.Subtract):
        raise OtherLaunchError
    peak = _without_start(shifted.right, is_minus_infinity)
    require(called_name(peak) == "tl.max")
    require(same_value(call_args(peak)[0], shifted.left))
    return shifted.left, called_name(top), [*masks, *others]


def same_value(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    return _comparable(one) == _comparable(other)


def _comparable(node: cst.BaseExpression) -> str:
    """Return code in which a value as it was stored is that value."""
    while True:
        casts = [c for c in calls_within(node) if without_conversions(c) is not c]
        if not casts:
            return plain_code(node)
        node = replace_each(node, [(casts[0], without_conversions(casts[0]))])


def _without_where(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the value, and the mask if there is one, of ``tl.where(mask, value, 0.0)``."""
    if called_name(node) != "tl.where":
        return [node]
    mask, value, *other = call_args(node)
    is_mask = len(other) == 1 and is_zero(other[0])
    return [without_conversions(value), mask] if is_mask else [node]


def _without_start(
    node: cst.BaseExpression, is_start: Callable[[cst.BaseExpression], bool]
) -> cst.BaseExpression:
    """Return a reduction without the value that its loop began with."""
    node = without_conversions(node)
    sides: list[cst.BaseExpression] = []
    if is_operation(node, cst.Add):
        sides = [node.left, node.right]
    elif called_name(node) in ("tl.maximum", "max"):
        sides = call_args(node)
    for one, other in (sides, sides[::-1]) if len(sides) == 2 else ():
        if is_start(one):
            return without_conversions(other)
    return node


def _whole_row(
    launch: Launch, pointer: cst.BaseExpression, base: str
) -> tuple[str, str, dict[Atom, Product]]:
    """Return the index within a row, the row's length as the function has it, and the rows' digits.

    Raises:
        OtherLaunchError: the programs do not take each row of the tensor once.
    """
    indices = Addresses(launch, {}).read(pointer, base)
    columns = [atom for atom in indices if atom.block]
    shape = shape_of_tensor(launch.arguments[base], launch)
    require(len(columns) == 1 and indices[columns[0]] == () and shape is not None)
    require(plain_code(parse_expression(columns[0].code)) == f"tl.arange(0,{columns[0].block})")
    assert shape is not None
    length = shape[-1]
    require(_is_every_row(indices, launch, length, shape))
    size = [n for n, v in launch.arguments.items() if sizes_as_products(v, launch) == [length]]
    require(size)
    return columns[0].code, size[0], {a: stride for a, stride in indices.items() if not a.block}


def _is_every_row(
    indices: Mapping[Atom, Product], launch: Launch, length: Product, shape: Sequence[Product]
) -> bool:
    """Tell whether the programs' indices are the digits of all rows, each row once."""
    rows = {atom: stride for atom, stride in indices.items() if not atom.block}
    axes = launch.axes or ()
    reached, remaining = length, dict(rows)
    while remaining:
        atom = next((a for a, stride in remaining.items() if stride == reached), None)
        axis = _program_axis(atom.code) if atom is not None else None
        if atom is None or axis is None or axis >= len(axes):
            return False
        sizes = sizes_as_products(axes[axis], launch)
        if len(sizes) != 1:
            return False
        del remaining[atom]
        reached = tuple(sorted((*reached, *sizes[0])))
    is_all = reached == tuple(sorted(factor for size in shape for factor in size))
    return is_all and len(rows) == len(axes)


def _program_axis(code: str) -> int | None:
    text = plain_code(_without_type(parse_expression(code)))
    digit = text.removeprefix("tl.program_id(").removeprefix("axis=").removesuffix(")")
    return int(digit) if digit.isdigit() else None


def _require_fill(
    launch: Launch, logits: cst.BaseExpression, load: cst.Call, column: str, size: str
) -> None:
    """Refuse scores that do not vanish as powers beyond a row's end."""
    mask, other = argument_of(load, 1, "mask"), argument_of(load, 2, "other")
    if mask is not None and other is None:
        require(called_name(logits) == "tl.where")
        mask, _, other = call_args(logits)
    if mask is not None and other is not None:
        require(_Bound(launch, column, size).is_in(mask))
        require(is_minus_infinity(other))


def _is_bound(load: cst.Call, column: str, size: str, launch: Launch) -> bool:
    """Tell whether a load along a row stays in it for blocks of any size."""
    mask = argument_of(load, 1, "mask")
    if plain_code(parse_expression(column)) not in plain_code(load.args[0].value):
        return True
    return mask is not None and _bounds_column(mask, column, size, launch)


def _bounds_column(mask: cst.BaseExpression, column: str, size: str, launch: Launch) -> bool:
    """Tell whether a mask leaves out only what is beyond a row's end."""
    first, bound = compared_sides(mask, "<") or (mask, mask)
    if not isinstance(bound, cst.Name) or bound.value not in launch.arguments:
        return False
    sizes = [sizes_as_products(launch.arguments[name], launch) for name in (bound.value, size)]
    return plain_code(first) == plain_code(parse_expression(column)) and sizes[0] == sizes[1]


def _changes_each(logits: cst.BaseExpression) -> bool:
    """Tell whether scores are changed one by one, by what depends on no program but as `ROW`."""
    calls = [node for node in nodes_within(logits) if isinstance(node, cst.Call)]
    return all(called_name(c) in _ALLOWED or converted_value(c) is not None for c in calls)
