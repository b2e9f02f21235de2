"""Scores between two products never reach memory: their softmax is taken as they are made.

Attention is often written as three launches: a product writes scores, a softmax normalises each
row of them, and a product of these weights with values reads them again. Here the last one's loop
computes each tile of scores itself. It keeps a running maximum and a running sum of each row,
scales its sums whenever the maximum grows (Milakov and Gimelshein, 2018; Dao et al., 2022), and
divides once at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    needed_for,
    single_values,
    without_unread_parts,
)
from solkit.tuner.proposers.rewriter._carried import LOWEST, NEGATIVE_INFINITY
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    has_assignment,
)
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._launch_order import allocation_of, is_free_between
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    MOST_STEPS,
    Body,
    Loop,
    Node,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expression_statement,
    free_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    compared_sides,
    is_operation,
    without_conversions,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, with_arguments
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS
from solkit.tuner.proposers.rewriter._row_softmax import (
    EMPTY,
    ROW,
    SCORE,
    Addresses,
    Atom,
    OtherLaunchError,
    Product,
    column_ends,
    is_number,
    keeps_lowest,
    parameter_of,
    require,
    same_value,
    shape_of_tensor,
    sizes_as_products,
    softmax_of_rows,
)
from solkit.tuner.proposers.rewriter._values import all_names, as_blocked_loop

_WORDS = ("tl", "None", "float", "range")
_COLUMN = "_column_"  # stands for the index within a row


class FuseScores:
    """A product, the softmax of its rows and a product with the weights become one launch.

    Applies where the scores are in tensors that the launcher allocates for these launches alone,
    the softmax takes each of their rows as a whole, in one block or in loops, and the last product
    walks over all of a row's columns. What is done to the scores element by element stays.
    """

    kind = "fuse scores"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for chain in _chains(text):
            why = facts.explain_factors("extra traffic", "launch")
            for ends in (True, False):
                try:
                    source = _Fusion(text, chain).source(ends)
                except OtherLaunchError:
                    continue
                short = ", but for blocks that no row takes" if ends else ""
                yield Variant(
                    source,
                    f"The scores that {chain.scores.function.name} writes need no memory: "
                    f"{chain.values.function.name} can compute them and their softmax{short}{why}.",
                )


# ------------------------------------------------------------------------------- launches


@dataclass(frozen=True)
class _Chain:
    """Three launches, and the tensors between them.

    Attributes:
        scores, softmax, values: the launches.
        raw, weights: the launcher's names of the scores' tensor and of that of their softmax.
    """

    scores: Launch
    softmax: Launch
    values: Launch
    raw: str
    weights: str

    @property
    def launches(self) -> tuple[Launch, Launch, Launch]:
        """The launches in their order."""
        return self.scores, self.softmax, self.values


def _chains(text: KernelText) -> Iterator[_Chain]:
    top = {id(statement) for statement in statements_of(text.launcher)}
    launches = [e for e in text.single if id(e.statement) in top]
    products = [bool(calls_within(e.function.node, "tl.dot")) for e in launches]
    for at in range(1, len(launches) - 1):
        if products[at - 1 : at + 2] == [True, False, True]:
            yield from _chains_of(text, *launches[at - 1 : at + 2])


def _chains_of(text: KernelText, scores: Launch, softmax: Launch, last: Launch) -> Iterator[_Chain]:
    if not is_free_between(scores, softmax) or not is_free_between(softmax, last):
        return
    for raw in _names_in_both(scores, softmax):
        for weights in _names_in_both(softmax, last):
            chain = _Chain(scores, softmax, last, raw, weights)
            if all(_is_only_between(text, chain, name) for name in {raw, weights}):
                yield chain


def _names_in_both(one: Launch, two: Launch) -> list[str]:
    codes = [render_code(value) for value in one.arguments.values()]
    others = [render_code(value) for value in two.arguments.values()]
    return [
        code
        for code in dict.fromkeys(codes)
        if code.isidentifier() and codes.count(code) == 1 and code in others
    ]


def _is_only_between(text: KernelText, chain: _Chain, name: str) -> bool:
    """Tell whether a tensor is allocated, without values, for these launches alone."""
    statement = allocation_of(name, text.launcher, EMPTY)
    users = {id(launch.statement) for launch in chain.launches} | {id(statement)}
    others = [other for other in statements_of(text.launcher) if id(other) not in users]
    return statement is not None and name not in names_within(*map(_without_sizes, others))


def _without_sizes(statement: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement without what it asks of tensors beside their elements."""
    metadata = [
        (node, cst.Integer("0"))
        for node in nodes_within(statement)
        if isinstance(node, cst.Call) and called_name(node).endswith(("_like", ".stride"))
    ]
    return replace_each(statement, metadata)


# ------------------------------------------------------------------------------- products


def _loop_with(function: JitFunction, param: str) -> tuple[int, Loop, cst.Call]:
    """Return the loop, and its place, with the only load from a tensor.

    Raises:
        OtherLaunchError: there is none, or another.
    """
    values = single_values(function.body)
    loads = [
        (place, inner, call)
        for place, statement in enumerate(function.body)
        for inner in (statements_of(statement) or [statement])
        for call in calls_within(inner, "tl.load")
        if param in all_names(call.args[0].value, values)
    ]
    require(len(loads) == 1 and isinstance(loads[0][1], cst.SimpleStatementLine))
    loop = range_loop(function.body[loads[0][0]])
    require(loop is not None)
    assert loop is not None
    return loads[0][0], loop, loads[0][2]


@dataclass(frozen=True)
class _Sums:
    """The sums of a loop's products.

    Attributes:
        name: of them.
        operand: the first operand of the product.
        dtype: code of the type that it must get; empty if it has it.
    """

    name: str
    operand: cst.BaseExpression
    dtype: str

    @classmethod
    def of(cls, loop: Loop, before: Body, load: cst.Call) -> _Sums:
        """Return the sums that a loop makes of a tile that it loads, and of nothing else.

        Raises:
            OtherLaunchError: the tile, or the sums, are used otherwise.
        """
        bindings = assignments_in(loop.body)
        for binding in bindings:
            for call in calls_within(binding.value, "tl.dot"):
                product = cls._of_product(loop, call, load, binding.target)
                if product is None:
                    continue
                start = start_of_name(product.name, before)
                others = [
                    s
                    for s in loop.body
                    if not any(c is call or same_value(c, call) for c in calls_within(s))
                ]
                require(_is_added(binding.value, call, product.name))
                require(start is not None and start.is_zero)
                require(product.name not in names_within(*others))
                return product
        raise OtherLaunchError

    @classmethod
    def _of_product(cls, loop: Loop, call: cst.Call, load: cst.Call, name: str) -> _Sums | None:
        values, node, is_typed = single_values(loop.body), call.args[0].value, False
        for _ in range(MOST_STEPS):
            is_typed |= without_conversions(node) is not node
            node = without_conversions(node)
            if not isinstance(node, cst.Name) or node.value not in values:
                break
            if sum(count_uses(s, node.value) for s in loop.body) != 2:
                return None
            node = values[node.value]
        if node is not load:
            return None
        other = call.args[1].value
        require(is_typed or isinstance(other, cst.Name))
        return cls(name, call.args[0].value, "" if is_typed else f"{render_code(other)}.dtype")


def _is_added(value: cst.BaseExpression, call: cst.Call, name: str) -> bool:
    """Tell whether a value is a name plus a product."""
    third = argument_of(call, 2, "acc")
    if third is not None:
        return compact_code(third) == name and same_value(value, call)
    if not is_operation(value, cst.Add):
        return False
    return sorted(map(plain_code, (value.left, value.right))) == sorted((name, plain_code(call)))


def _is_walked(loop: Loop, column: Atom, last: Launch, length: Product) -> bool:
    """Tell whether a loop takes all columns of a row, one block after another."""
    blocked = as_blocked_loop(loop, last.function)
    if blocked is None or blocked.block != column.block:
        return False
    bound = in_launcher(blocked.bound, last)
    value = single_values(last.function.body).get(column.code)
    if bound is None or value is None or sizes_as_products(bound, last) != [length]:
        return False
    block, name = blocked.block, loop.name
    steps = (f"{name}*{block}", f"{block}*{name}") if blocked.counts else (name,)
    ranges = f"tl.arange(0,{block})"
    codes = {code for step in steps for code in (f"{step}+{ranges}", f"{ranges}+{step}")}
    return plain_code(value) in codes


def _matching(atom: Atom, stride: Product, others: Mapping[Atom, Product]) -> Atom:
    """Return the index of another launch with the same stride, along the same axis.

    Raises:
        OtherLaunchError: there is none.
    """
    matches = [other for other, own in others.items() if own == stride and other.axis == atom.axis]
    require(len(matches) == 1 and not matches[0].is_spread)
    return matches[0]


def _parted(body: Body, index: str) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return statements that are the same in all trips, and those that an index changes."""
    moving, count = {index}, 0
    while count != len(moving):
        count = len(moving)
        for statement in body:
            if (names_within(statement) | set(assigned_names(statement))) & moving:
                moving |= set(assigned_names(statement))
    fixed = [s for s in body if not set(assigned_names(s)) & moving]
    return fixed, [s for s in body if set(assigned_names(s)) & moving]


_MARK = "last__"
"""Begins the last product's names in statements of the first: equal names may differ."""


def _at_indices(
    body: Body, indices: Mapping[Atom, Atom], values: Values
) -> list[cst.BaseStatement]:
    """Return statements whose indices are those of another launch, with marks."""
    codes = {
        plain_code(parse_expression(one.code)): _marked(one, other)
        for one, other in indices.items()
    }
    names = {n: parse_expression(code) for n, code in codes.items() if n in values}
    statements = []
    for statement in body:
        binding = single_assignment(statement)
        if binding is not None and binding.target in names:
            continue
        pairs: list[Swap] = [
            (node, parse_expression(codes[plain_code(node)]))
            for node in nodes_within(statement)
            if isinstance(node, (cst.Call, cst.BinaryOperation)) and plain_code(node) in codes
        ]
        statements.append(substitute_names(replace_each(statement, pairs), names))
    return statements


def _marked(one: Atom, other: Atom) -> str:
    require(other.code.isidentifier())
    code = _MARK + other.code
    return Atom(code, other.axis).along_tile() if one.is_spread else code


# ------------------------------------------------------------------------------- writing it


class _Fusion:
    """Writes three launches as one.

    Args:
        text: the file.
        chain: the launches.
    """

    def __init__(self, text: KernelText, chain: _Chain) -> None:
        self.text_of, self._chain = text, chain
        self._softmax = softmax_of_rows(chain.softmax, chain.raw, chain.weights)
        self._weights = parameter_of(chain.values, chain.weights)
        self._taken = set(chain.values.function.names)
        self._arguments = arguments_of(chain.values)
        self._constants = set(chain.values.function.constants)
        self._strides: Mapping[Atom, Product] = {}

    def source(self, ends: bool) -> str:
        """Return the file.

        Args:
            ends: whether blocks of columns that masks leave out are not walked over.

        Raises:
            OtherLaunchError: the products are of another form, or no mask ends the walk.
        """
        last, function = self._chain.values, self._chain.values.function
        place, loop, load = _loop_with(function, self._weights)
        addresses = Addresses(last, single_values(function.body))
        indices = addresses.read(load.args[0].value, self._weights)
        require({atom.axis for atom in indices if atom.block} == {0, 1})
        self._strides = indices
        rows, columns = (next(a for a in indices if a.axis == axis) for axis in (0, 1))
        require(_is_walked(loop, columns, last, self._shape()[-1]))
        mask = argument_of(load, 1, "mask")
        require(mask is None or self._is_bound(mask, {rows: -2, columns: -1}))
        ahead, tile, score = self._tile_of_scores(indices)
        sums = _Sums.of(loop, function.body[:place], load)
        head, update, shares, divided = self._online(score, rows, columns, sums)
        trip: list[cst.BaseStatement] = []
        for statement in loop.body:
            is_load = bool(_replaced(statement, load, shares))
            trip += [*tile, *update] if is_load else []
            trip.append(_with_weights(statement, load, shares, sums))
        walk = with_body(loop.node, trip)
        if ends:
            value = self._marked(score, [*ahead, *tile], rows, columns)
            bounds, walk = self._with_ends(walk, loop, columns, self._ends(rows, value))
            head = [*head, *bounds]
        before, behind = function.body[:place], function.body[place + 1 :]
        return self._file([*before, *ahead, *head, walk, divided, *behind])

    def _is_bound(self, mask: cst.BaseExpression, places: Mapping[Atom, int]) -> bool:
        """Tell whether a mask leaves out only what is beyond the tensor of weights.

        Args:
            mask: of a load in the last product.
            places: of the indices' sizes in the tensor's shape.
        """
        launch, values = self._chain.values, single_values(self._chain.values.function.body)
        if isinstance(mask, cst.Name) and mask.value in values:
            return self._is_bound(values[mask.value], places)
        if isinstance(mask, cst.Subscript):
            return self._is_bound(mask.value, places)
        if is_operation(mask, cst.BitAnd):
            return all(self._is_bound(side, places) for side in (mask.left, mask.right))
        index, end = compared_sides(mask, "<") or (mask, mask)
        index = index.value if isinstance(index, cst.Subscript) else index
        bound = in_launcher(end, launch)
        sizes = [
            self._shape()[at] for atom, at in places.items() if atom.code == compact_code(index)
        ]
        return bound is not None and bool(sizes) and sizes_as_products(bound, launch) == sizes

    def _online(
        self, score: str, rows: Atom, columns: Atom, sums: _Sums
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement], str, cst.BaseStatement]:
        """Return what begins a softmax, what a trip adds, the weights' name, and the division."""
        words = ("logits", "peak", "top", "shrink", "shares", "total")
        logits, peak, top, shrink, shares, total = (free_name(w, self._taken) for w in words)
        power, code = self._softmax.power, self._logits_of(score, rows, columns)
        head = parse_statements(
            f"{peak} = tl.full(({rows.block},), {LOWEST}, tl.float32)\n"
            f"{total} = tl.zeros(({rows.block},), tl.float32)\n"
        )
        update = parse_statements(
            f"{logits} = {code}\n"
            f"{top} = tl.maximum({peak}, tl.max({logits}, axis=1))\n"
            f"{shrink} = {power}({peak} - {top})\n"
            f"{shares} = {power}({logits} - {top}[:, None])\n"
            f"{total} = {total} * {shrink} + tl.sum({shares}, axis=1)\n"
            f"{sums.name} = {sums.name} * {shrink}[:, None]\n"
            f"{peak} = {top}\n"
        )
        return (
            head,
            update,
            shares,
            parse_statement(f"{sums.name} = {sums.name} / {total}[:, None]"),
        )

    def _shape(self) -> list[Product]:
        shape = shape_of_tensor(cst.Name(self._chain.weights), self._chain.values)
        require(shape is not None)
        assert shape is not None
        return shape

    def _row_length(self) -> str:
        """Return the row's length as the merged function has it."""
        length, launch = self._shape()[-1], self._chain.values
        names = [
            name
            for name, code in self._arguments.items()
            if sizes_as_products(parse_expression(code), launch) == [length]
        ]
        require(names)
        return min(names, key=lambda name: "." in self._arguments[name])  # no stride, if it can be

    def _logits_of(self, score: str, rows: Atom, columns: Atom) -> str:
        """Return what the softmax exponentiates, over a tile of scores, as code."""
        softmax, launch = self._softmax, self._chain.softmax
        bound = f"{columns.along_tile()} < {self._row_length()}"
        node = _with_code(softmax.logits, softmax.column, _COLUMN)
        require(ROW not in names_within(node) or self._is_row(rows))
        names = self._passed(launch, names_within(node) - {*_WORDS, SCORE, ROW, _COLUMN})
        names[SCORE] = cst.Name(score)
        names[ROW], names[_COLUMN] = (parse_expression(a.along_tile()) for a in (rows, columns))
        logits = render_code(substitute_names(node, names))
        return f"tl.where({bound}, {logits}, {NEGATIVE_INFINITY})"

    def _with_ends(
        self, walk: cst.For, loop: Loop, columns: Atom, ends: tuple[list[str], list[str]]
    ) -> tuple[list[cst.BaseStatement], cst.For]:
        """Return a loop that leaves out blocks in which no score of the tile counts, and its ends.

        As blocks above the diagonal of a causal attention: there all shares are 0.

        Raises:
            OtherLaunchError: there are none.
        """
        blocked = as_blocked_loop(loop, self._chain.values.function)
        least, most = ends
        most = [code for code in most if code.strip("()") != render_code(loop.stop)]
        require((least or most) and blocked is not None and not blocked.counts)
        first, last = free_name("first", self._taken), free_name("last", self._taken)
        stop = render_code(loop.stop)
        for code in most:
            stop = f"tl.minimum({stop}, {code})"
        start = "0" if least else ""
        for code in least:
            start = f"tl.maximum({start}, {code})"
        code = f"{last} = {stop}\n"
        if start:
            code = f"{first} = {start} // {columns.block} * {columns.block}\n{code}"
        over = parse_expression(f"range({first if start else 0}, {last}, {columns.block})")
        return parse_statements(code), walk.with_changes(iter=over)

    def _ends(self, rows: Atom, score: cst.BaseExpression) -> tuple[list[str], list[str]]:
        """Return from which columns on scores of a tile of rows count, and up to which, as code.

        Args:
            rows: the tile's.
            score: what is stored as a score, over `ROW` and `_COLUMN`.
        """
        launch, logits = self._chain.softmax, self._softmax.logits
        least, most = list[str](), list[str]()
        masks = column_ends(logits, self._softmax.column, set(launch.arguments))
        ends = []
        for mask in masks:
            passed = self._passed(launch, names_within(mask.place) - {*_WORDS, ROW})
            ends.append(replace(mask, place=substitute_names(mask.place, passed)))
        if keeps_lowest(logits):
            ends += column_ends(score, _COLUMN, set(self._arguments))
        for end in ends:
            is_row = ROW in names_within(end.place)
            require(not is_row or self._is_row(rows))
            code = render_code(substitute_names(end.place, {ROW: cst.Name(rows.code)}))
            if is_row:
                code = f"tl.{'max' if end.is_upper else 'min'}({code}, axis=0)"
            (most if end.is_upper else least).append(f"{code}{end.added}")
        return least, most

    def _marked(self, score: str, body: Body, rows: Atom, columns: Atom) -> cst.BaseExpression:
        """Return a score's value over `ROW` and `_COLUMN`."""
        values: dict[str, cst.BaseExpression] = {}
        for statement in body:
            binding = single_assignment(statement)
            value = None if binding is None else substitute_names(binding.value, values)
            values = {n: v for n, v in values.items() if n not in assigned_names(statement)}
            values |= {} if binding is None or value is None else {binding.target: value}
        node = substitute_names(parse_expression(score), values)
        node = _with_code(node, rows.along_tile(), ROW)
        return _with_code(node, columns.along_tile(), _COLUMN)

    def _is_row(self, rows: Atom) -> bool:
        """Tell whether an index of the last product is a row's place in its matrix of scores."""
        shape = self._shape()
        matrix = tuple(sorted((*shape[-1], *shape[-2])))
        is_only = len(self._strides) == len(shape) == 2
        return self._strides[rows] == shape[-1] and (is_only or matrix in self._strides.values())

    def _passed(self, launch: Launch, used: set[str]) -> dict[str, cst.BaseExpression]:
        """Return the names of another launch's parameters in the merged function; add new ones."""
        names: dict[str, cst.BaseExpression] = {}
        for name, code in arguments_of(launch).items():
            if name not in used:
                continue
            is_constant = name in launch.function.constants
            twin = next(
                (
                    n
                    for n, c in self._arguments.items()
                    if c == code and (n in self._constants) == is_constant
                ),
                None,
            )
            if twin is None:
                twin = free_name(name, self._taken)
                self._arguments[twin] = code
                self._constants |= {twin} if is_constant else set()
            names[name] = cst.Name(twin)
        require(used <= set(names))
        return names

    def _tile_of_scores(
        self, indices: Mapping[Atom, Product]
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement], str]:
        """Return statements of the first product at a tile of the last one's, and the score's name.

        What does not depend on the columns comes first, and is needed once.
        """
        first = self._chain.scores
        function, raw = first.function, parameter_of(first, self._chain.raw)
        body = [s for s in function.body if calls_within(s, "tl.store")]
        call = expression_statement(body[0]) if len(body) == 1 else None
        require(isinstance(call, cst.Call) and called_name(call) == "tl.store")
        assert isinstance(call, cst.Call)
        values, value = single_values(function.body), argument_of(call, 1, "value")
        own = Addresses(first, values).read(call.args[0].value, raw)
        matches = {atom: _matching(atom, stride, indices) for atom, stride in own.items()}
        require(value is not None and len(set(matches.values())) == len(indices) == len(own))
        assert value is not None
        score = free_name("score", {*self._taken, *function.names})
        kept = [s for s in function.body if s is not body[0]]
        kept.append(parse_statement(f"{score} = {render_code(without_conversions(value))}"))
        return self._renamed(
            needed_for({score}, _at_indices(kept, matches, values)), score, matches
        )

    def _renamed(
        self, kept: Body, score: str, matches: Mapping[Atom, Atom]
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement], str]:
        first, last = self._chain.scores, self._chain.values
        require(not any(calls_within(s, "tl.program_id", "tl.num_programs") for s in kept))
        require(_writes_own_tensors(last, first))
        own = set(assigned_names(*kept))
        marks = {_MARK + other.code for other in matches.values()}
        used = names_within(*kept) - own - marks
        names = self._blocks(used, matches)
        names |= self._passed(first, (used & set(first.function.params)) - set(names))
        require(used <= {*names, *_WORDS})
        names |= {name: cst.Name(free_name(name, self._taken)) for name in sorted(own)}
        names |= {mark: cst.Name(mark.removeprefix(_MARK)) for mark in marks}
        columns = next(other.code for other in matches.values() if other.axis == 1)
        parts = _parted(kept, _MARK + columns)
        ahead, tile = ([substitute_names(s, names) for s in part] for part in parts)
        return ahead, tile, render_code(names[score])

    def _blocks(
        self, used: set[str], matches: Mapping[Atom, Atom]
    ) -> dict[str, cst.BaseExpression]:
        """Return the last product's sizes of blocks for those of the first."""
        sizes: dict[str, cst.BaseExpression] = {}
        for one, other in matches.items():
            if one.block in used:
                size = sizes.setdefault(one.block, cst.Name(other.block))
                require(render_code(size) == other.block)
        return sizes

    def _file(self, body: Body) -> str:
        last, chain = self._chain.values, self._chain
        body = without_unread_parts(body, self._weights)
        used = names_within(*body)
        require(self._weights not in used)
        arguments = {n: v for n, v in self._arguments.items() if n in used}
        name = self.text_of.fresh(f"{chain.scores.function.name}_{last.function.name}")
        node = with_arguments(last.function, name, body, arguments, self._constants)
        line = NewLaunch(last, node, arguments=arguments).statement
        gone = self._unused_allocations([parse_expression(code) for code in arguments.values()])
        functions = dict.fromkeys(launch.function.name for launch in chain.launches)
        return changed_text(
            self.text_of,
            functions={**functions, last.function.name: node},
            launches=[
                (chain.scores.statement, []),
                (chain.softmax.statement, []),
                (last.statement, [line]),
                *((statement, []) for statement in gone),
            ],
        )

    def _unused_allocations(self, passed: Sequence[cst.BaseExpression]) -> list[cst.BaseStatement]:
        """Return the statements that allocate what nothing asks for any more."""
        chain = self._chain
        own = {id(launch.statement) for launch in chain.launches}
        result = []
        for tensor in sorted({chain.raw, chain.weights}):
            allocation = has_assignment(chain.values.launcher, tensor)
            rest = [
                s
                for s in statements_of(chain.values.launcher)
                if id(s) not in own and s is not allocation
            ]
            if allocation is not None and tensor not in names_within(*rest, *passed):
                result.append(allocation)
        return result


def _writes_own_tensors(launch: Launch, first: Launch) -> bool:
    """Tell whether a launch writes only what the launcher allocates and another launch has not."""
    function, values = launch.function, single_values(launch.function.body)
    written = {
        launch.arguments[name]
        for call in calls_within(function.node, *WRITES)
        for name in all_names(call.args[0].value, values) & set(launch.arguments)
        if not is_number(name, function) and name not in function.constants
    }
    read = {compact_code(value) for value in first.arguments.values()}
    for tensor in written:
        code = compact_code(tensor)
        value = launcher_definition(code, launch.launcher) if code.isidentifier() else None
        if value is None or called_name(value) not in ALLOCATORS or code in read:
            return False
    return bool(written)


def _with_weights(
    statement: cst.BaseStatement, load: cst.Call, shares: str, sums: _Sums
) -> cst.BaseStatement:
    """Return a statement with the weights' name in place of their load, in the product's type."""
    calls = calls_within(statement, "tl.dot") if sums.dtype else []
    operands = [c.args[0].value for c in calls if same_value(c.args[0].value, sums.operand)]
    if operands and sums.name in assigned_names(statement):
        inner = replace_each(operands[0], _replaced(operands[0], load, shares))
        code = f"{render_code(parenthesized(inner))}.to({sums.dtype})"
        return replace_each(statement, [(operands[0], parse_expression(code))])
    return replace_each(statement, _replaced(statement, load, shares))


def _replaced(node: cst.CSTNode, load: cst.Call, shares: str) -> list[Swap]:
    """Return the load, where it stands, with the weights' name."""
    return [(c, cst.Name(shares)) for c in calls_within(node, "tl.load") if same_value(c, load)]


def _with_code(node: Node, code: str, new: str) -> Node:
    """Return a node with another code in place of one that stands in it."""
    old = plain_code(parse_expression(code))
    pairs = [
        (other, parse_expression(new))
        for other in nodes_within(node)
        if isinstance(other, cst.BaseExpression) and plain_code(other) == old
    ]
    return replace_each(node, pairs)
