"""Chunks of trips: a state that outer products are added to, as products of matrices.

A trip of linear attention, or of a state space model, adds an outer product to a matrix that it has
multiplied by a number, and reads the matrix by a product with a vector::

    S_t = f_t S_{t-1} + k_t v_t^T
    o_t = q_t S_t

So a block of trips needs no state of its own for each [1, 2]: with ``D_ts = f_{s+1} ... f_t`` for
``s <= t``, 0 above the diagonal, and ``c_t`` the product of all factors of the block up to `t`,
``O = c Q S + (D * (Q K^T)) V``, and the next state is ``c_R S + (D_R * K)^T V``. Factors are
multiplied, never divided: they may be 0.

[1] Sun et al., Retentive Network (2023), section 2.3; [2] Dao and Gu, Transformers are SSMs (2024),
section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    converted_value,
    is_operation,
)
from solkit.tuner.proposers.rewriter._running_values import Running, RunningKind

_WIDE = "tl.float32"
_FIRST, _SECOND = "[:, None]", "[None, :]"


@dataclass(frozen=True)
class Operand:
    """A vector of each trip.

    Attributes:
        name: of the vector, as it was loaded if only the product needs a wider one.
        scale: number by which all trips multiply the vector, as code; empty for 1.
    """

    name: str
    scale: str

    def scaled(self, code: str) -> str:
        """Return a product with the operand, and with its scale."""
        return f"{code} * {self.scale}" if self.scale else code


@dataclass(frozen=True)
class Chunk:
    """A running state, and how trips read it.

    Attributes:
        running: the state.
        first, second: vectors whose outer product trips add.
        reads: vectors that the state is multiplied by, by the name of the result, and the axis of
            the state that is summed.
        dtype: of the state, as code.
        names: of what all trips of a block share.
    """

    running: Running
    first: Operand
    second: Operand
    dtype: str
    reads: dict[str, tuple[Operand, int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def has_factors(self) -> bool:
        """Tell whether trips multiply the state."""
        return self.running.kind is RunningKind.RECURRENCE

    def update(self, factors: str, width: str, mask: str) -> list[str]:
        """Return the lines that make the state behind a block, and what its reads need.

        Args:
            factors: of the trips, as code; empty if each is 1.
            width: the block's length.
            mask: the name of the mask of its trips.
        """
        n, total = self.names, self.running.total
        order, first, second = n["order"], self.first, self.second
        below = f"{order}[:, None] >= {order}[None, :]"
        lines = [f"{order} = tl.arange(0, {width})"]
        if self.dtype != _WIDE:  # of a block that is loaded: fp32 holds no integers, nor doubles
            is_float, bits = f"{self.dtype}.is_floating()", f"{self.dtype}.primitive_bitwidth"
            lines.append(f"tl.static_assert({is_float} and {bits} <= 32)")
        if factors:
            apart = f"tl.where({order}[:, None] > {order}[None, :], {n['steps']}[:, None], 1.0)"
            lines += [
                f"{n['steps']} = {factors}",
                f"{n['decays']} = tl.where({below}, tl.cumprod({apart}, axis=0), 0.0)",
                f"{n['through']} = tl.cumprod({n['steps']}, axis=0)",
                f"{n['whole']} = tl.sum(tl.where({order} == {width} - 1, {n['through']}, 0.0))",
            ]
        else:
            lines.append(f"{n['decays']} = tl.where({below}, 1.0, 0.0)")
        last = f"tl.where({order}[:, None] == {width} - 1, {n['decays']}, 0.0)"
        lines.append(f"{n['last']} = tl.sum({last}, axis=0)")
        lines += [
            f"{n[side]} = tl.where({mask}[:, None], {operand.name}, 0.0)"
            for side, operand in (("first", first), ("second", second))
        ]
        lines.append(_narrow(n["narrow"], n["first"], n["second"]))
        weighted = first.scaled(second.scaled(f"{n['first']} * {n['last']}[:, None]"))
        narrow = n["narrow"]
        added = _dot(f"tl.trans(({weighted}).to({narrow}))", f"{n['second']}.to({narrow})")
        kept = _scaled(total, n["whole"]) if factors else total
        state = f"{kept} + {added}"
        cast = state if self.dtype == _WIDE else f"tl.cast({state}, {self.dtype})"
        return [*lines, f"{n['before']} = {total}", f"{total} = {cast}"]

    def read(self, target: str) -> list[str]:
        """Return the lines that multiply the states of a block by a vector of each trip."""
        n, (vector, axis) = self.names, self.reads[target]
        sides = [(n["first"], self.first), (n["second"], self.second)]
        (inner, along), (outer, across) = sides if axis == 0 else sides[::-1]
        before = n["before"] if axis == 0 else f"tl.trans({n['before']})"
        name, same, narrow = vector.name, f"{target}_same", f"{target}_narrow"
        scores = _dot(f"{name}.to({same})", f"tl.trans({inner}.to({same}))")
        weights = across.scaled(along.scaled(f"{n['decays']} * {scores}"))
        old = _dot(f"{name}.to({narrow})", f"{before}.to({narrow})")
        old_name = f"{target}_old"
        kept = _scaled(old_name, f"{n['through']}[:, None]") if self.has_factors else old_name
        new = _dot(f"({weights}).to({narrow})", f"{outer}.to({narrow})")
        return [
            f"{same} = {name}.dtype if {name}.dtype == {inner}.dtype else {_WIDE}",
            _narrow(narrow, name, n["first"], n["second"]),
            f"{old_name} = {old}",
            f"{target} = {vector.scaled(f'({kept} + {new})')}",
        ]


def _scaled(state: str, factor: str) -> str:
    """Return a state times a product of factors, which may overflow before a state is there."""
    return f"tl.where({state} == 0, 0.0, {state} * {factor})"


def _dot(one: str, other: str) -> str:
    """Return a product that is as exact as sums are, as `_products.as_product` does."""
    return f'tl.dot({one}, {other}, input_precision="ieee")'


def _narrow(name: str, *blocks: str) -> str:
    """Return the line with the type of computed operands: bf16 holds what fp32 does, fp16 not."""
    test = " and ".join(f"{block}.dtype == tl.bfloat16" for block in blocks)
    return f"{name} = tl.bfloat16 if {test} else {_WIDE}"


def with_chunk(
    trip: Sequence[cst.BaseStatement], running: Running, taken: set[str], blocks: set[str]
) -> tuple[list[cst.BaseStatement], Chunk] | None:
    """Return a trip whose reads of a running state are statements of their own; and the chunk.

    ``None`` if the state gets no outer products, or is read in another way.

    Args:
        trip: the loop's statements, with the running value.
        running: the state.
        taken: names that are no new ones.
        blocks: names from ahead of the loop that are no scalars.
    """
    if running.kind not in (RunningKind.RECURRENCE, RunningKind.SUM):
        return None
    body = list(trip)
    at = next((p for p, s in enumerate(body) if running.element in assigned_names(s)), None)
    added = None if at is None else single_assignment(body.pop(at))
    if at is None or added is None or called_name(added.value) != "tl.cast":
        return None
    value, dtype = call_args(added.value)
    if plain_code(dtype) in ("tl.int32", "tl.int64"):
        return None
    value, at = _named_product(value, body, at)
    sides = _vectors(value)
    if sides is None or {axes for _, axes in sides} != {_FIRST, _SECOND}:
        return None
    pairs: list[Swap] = [  # in which they are multiplied, whatever the type of the state
        (node, parse_expression(_WIDE))
        for statement in body
        if running.factor in assigned_names(statement)
        for node in nodes_within(statement)
        if isinstance(node, cst.Attribute) and render_code(node) == render_code(dtype)
    ]
    body = [replace_each(statement, pairs) for statement in body]
    vectors = {axes: vector for vector, axes in sides}
    words = "order steps decays through whole last first second narrow before".split()
    ahead = body[:at]
    first, second = (
        _operand(vectors[axes], ahead, body, blocks, taken) for axes in (_FIRST, _SECOND)
    )
    names = {word: free_name(f"{running.total}_{word}", taken) for word in words}
    chunk = Chunk(running, first, second, render_code(dtype), {}, names)
    result = _with_named_reads(chunk, ahead, body, at, blocks, taken)
    own = [s for s in result if (b := single_assignment(s)) and b.target in chunk.reads]
    uses = sum(count_uses(s, running.name) for s in result) - len(own)
    return (result, chunk) if chunk.reads and uses == 1 else None  # its own assignment


def _with_named_reads(
    chunk: Chunk,
    ahead: Sequence[cst.BaseStatement],
    trip: Sequence[cst.BaseStatement],
    at: int,
    blocks: set[str],
    taken: set[str],
) -> list[cst.BaseStatement]:
    """Return a trip in which reads of the state are statements, and note them in its chunk.

    Args:
        chunk: of the state.
        ahead: the trip's statements up to the state's update, with those of its operands.
        trip: the statements before any was added.
        at: the place of the update among these.
        blocks: names from ahead of the loop that are no scalars.
        taken: names that are no new ones.
    """
    result, state = list(ahead), chunk.running.name
    for statement in trip[at:]:
        pairs: list[Swap] = []
        for call in calls_within(statement, "tl.sum"):
            read = _read_of(call, state)
            if read is None or statements_of(statement):
                continue
            target = free_name(f"{state}_read", taken)
            taken |= {f"{target}_{word}" for word in ("same", "narrow", "old")}
            chunk.reads[target] = _operand(read[0], result, trip, blocks, taken), read[1]
            result.append(parse_statement(f"{target} = {render_code(call)}"))
            pairs.append((call, cst.Name(target)))
        result.append(replace_each(statement, pairs) if pairs else statement)
    return result


def _named_product(
    value: cst.BaseExpression, body: list[cst.BaseStatement], at: int
) -> tuple[cst.BaseExpression, int]:
    """Return what a name stands for that is assigned for one use, and where that use is then.

    The name's statement is taken away, unless something that its value needs changes behind it.
    """
    if not isinstance(value, cst.Name) or sum(count_uses(s, value.value) for s in body) != 1:
        return value, at
    for place, statement in enumerate(body[:at]):
        binding = single_assignment(statement)
        if binding is None or binding.operator or binding.target != value.value:
            continue
        if not names_within(binding.value) & set(assigned_names(*body[place:at])):
            del body[place]
            return binding.value, at - 1
    return value, at


def _read_of(call: cst.Call, state: str) -> tuple[cst.BaseExpression, int] | None:
    """Return the vector that a state is multiplied by before it is summed, and the axis."""
    axis, value = argument_of(call, 1, "axis"), argument_of(call, 0)
    if value is None or axis is None or plain_code(axis) not in ("0", "1") or len(call.args) != 2:
        return None
    for one, other in both_orders(value, cst.Multiply):
        if render_code(one) == state and (vector := _vector(other)) is not None:
            place = int(plain_code(axis))
            return (vector[0], place) if vector[1] == (_FIRST, _SECOND)[place] else None
    return None


def _vectors(
    node: cst.BaseExpression,
) -> list[tuple[cst.BaseExpression, str]] | None:
    """Return both sides of an outer product with their axes; ``None`` if it is none."""
    if not is_operation(node, cst.Multiply):
        return None
    sides = [_vector(side) for side in (node.left, node.right)]
    return [side for side in sides if side is not None] if None not in sides else None


def _vector(node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """Return a vector that is a row or a column, and its axes."""
    if not isinstance(node, cst.Subscript):
        return None
    axes = f"[{', '.join(render_code(element.slice) for element in node.slice)}]"
    return (node.value, axes) if axes in (_FIRST, _SECOND) else None


def _operand(
    vector: cst.BaseExpression,
    ahead: list[cst.BaseStatement],
    trip: Sequence[cst.BaseStatement],
    blocks: set[str],
    taken: set[str],
) -> Operand:
    """Return a vector as an operand; what it needs is added to the statements ahead of its use.

    Args:
        vector: of a trip.
        ahead: the trip's statements up to the use.
        trip: all of them.
        blocks: names from ahead of the loop that are no scalars.
        taken: names that are no new ones.
    """
    others = blocks.union(assigned_names(*trip))
    for place, statement in enumerate(ahead):
        binding = single_assignment(statement)
        if binding is None or binding.operator or binding.target != render_code(vector):
            continue
        loaded, scale = _widened(binding.value, others)
        if assigned_names(*trip).count(binding.target) == 1 and loaded is not None:
            own = free_name(f"{binding.target}_loaded", taken)
            whole = replace_each(statement, [(loaded, cst.Name(own))])
            ahead[place : place + 1] = [parse_statement(f"{own} = {render_code(loaded)}"), whole]
            return Operand(own, scale)
    own = free_name("vector", taken)
    ahead.append(parse_statement(f"{own} = tl.cast({render_code(vector)}, {_WIDE})"))
    return Operand(own, "")


def _widened(value: cst.BaseExpression, others: set[str]) -> tuple[cst.BaseExpression | None, str]:
    """Return what a value converts to fp32, and the scalar that it multiplies that by.

    ``None`` if it does anything else, or if the scalar is among others: these change, or have axes.
    """
    if is_operation(value, cst.Multiply):
        for one, other in both_orders(value, cst.Multiply):
            is_number = isinstance(other, (cst.Name, cst.Integer, cst.Float))
            if is_number and not names_within(other) & others:
                loaded, scale = _widened(one, others)
                if loaded is not None and not scale:
                    return loaded, render_code(other)
        return None, ""
    loaded = converted_value(value)
    is_wide = loaded is not None and plain_code(call_args(value)[0]) == _WIDE
    is_load = loaded is not None and called_name(loaded) == "tl.load"
    return (loaded, "") if is_wide and is_load else (None, "")
