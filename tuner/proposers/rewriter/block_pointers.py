"""Block pointers as plain pointers and masks.

::

    p = tl.make_block_ptr(x, (M, N), (s, 1), (i, j), (A, B), (1, 0))
    p = tl.advance(p, (0, B))
    tl.load(p, boundary_check=(0, 1))

becomes ::

    p_0, p_1 = i + tl.arange(0, A), j + tl.arange(0, B)
    p_1 += B
    tl.load(x + p_0[:, None].to(tl.int64) * s + p_1[None, :], mask=..., other=0)

Offsets are in 64 bits, as those of block pointers are. Triton compiles block pointers to the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in, values_of
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    all_params,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import is_operation

_MAKE, _ADVANCE = "tl.make_block_ptr", "tl.advance"
_MOST = 40
_FIELDS = ("base", "shape", "strides", "offsets", "block_shape")


@dataclass(frozen=True)
class _BlockPointer:
    """A name that holds a block pointer.

    Attributes:
        name: of it.
        base: where the tensor begins, as code.
        shape, strides, offsets, blocks: as code, one for each axis.
        indices: names of the indices along each axis.
        signed: axes along which an index may be below zero.
    """

    name: str
    base: str
    shape: Sequence[str]
    strides: Sequence[str]
    offsets: Sequence[str]
    blocks: Sequence[str]
    indices: Sequence[str]
    signed: frozenset[int]

    def spread(self, axis: int) -> str:
        """Return the indices along an axis as a block of all axes."""
        rank = len(self.indices)
        if rank == 1:
            return self.indices[0]
        axes = ", ".join(":" if other == axis else "None" for other in range(rank))
        return f"{self.indices[axis]}[{axes}]"

    @property
    def pointer(self) -> str:
        """The pointers, as code."""
        parts = [self.base]
        for axis, stride in enumerate(self.strides):
            spread = self.spread(axis)
            parts.append(spread if stride == "1" else f"{spread}.to(tl.int64) * {_operand(stride)}")
        return " + ".join(parts)

    def mask(self, axes: Sequence[int]) -> str:
        """Return the mask of what is within the tensor along these axes, as code."""
        terms = []
        for axis in axes:
            spread = self.spread(axis)
            terms += [f"({spread} >= 0)"] if axis in self.signed else []
            terms.append(f"({spread} < {_operand(self.shape[axis])})")
        return " & ".join(terms) if len(terms) > 1 else "".join(terms)[1:-1]


def _operand(code: str) -> str:
    return render_code(parenthesized(parse_expression(code)))


def _term(code: str) -> str:
    """Return code as the first term of a sum."""
    node = parse_expression(code)
    sums = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
    is_sum = is_operation(node, *sums)
    return code if is_sum else _operand(code)


def with_plain_pointers(node: cst.FunctionDef) -> cst.FunctionDef:
    """Return a Triton function with those block pointers that can be read as plain pointers."""
    node = _named(node)
    for name in dict.fromkeys(_made_names(node)):
        pointer = _read(node, name)
        if pointer is not None:
            node = _replaced(node, pointer)
    return node


def _named(node: cst.FunctionDef) -> cst.FunctionDef:
    """Return the function with a name for each block pointer that is used where it is made."""
    swaps: dict[int, list[cst.CSTNode]] = {}
    taken = names_within(node)
    for statement in walk_statements(statements_of(node)):
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        binding = single_assignment(statement)
        calls = [
            c for c in calls_within(statement, _MAKE) if binding is None or c is not binding.value
        ]
        if not calls:
            continue
        names = [free_name("block", taken) for _ in calls]
        ahead = [
            parse_statement(f"{n} = {render_code(c)}") for n, c in zip(names, calls, strict=True)
        ]
        pairs: list[Swap] = [(c, cst.Name(n)) for n, c in zip(names, calls, strict=True)]
        swaps[id(statement)] = [*ahead, replace_each(statement, pairs)]
    return with_each(node, swaps) if swaps else node


def _made_names(node: cst.FunctionDef) -> list[str]:
    bindings = assignments_in(walk_statements(statements_of(node)))
    return [a.target for a in bindings if called_name(a.value) == _MAKE]


# ------------------------------------------------------------------------------- reading


def _read(node: cst.FunctionDef, name: str) -> _BlockPointer | None:
    """Return a name's block pointer; ``None`` if it is made twice, or used in another way."""
    bindings = [a for a in assignments_in(walk_statements(statements_of(node))) if a.target == name]
    creations = [a.value for a in bindings if called_name(a.value) == _MAKE]
    if len(creations) != 1 or assigned_names(*statements_of(node)).count(name) != len(bindings):
        return None
    moved = [a.value for a in bindings if called_name(a.value) == _ADVANCE]
    if len(moved) + 1 != len(bindings) or not _is_used_plainly(
        node, name, len(bindings), len(moved)
    ):
        return None
    call = cst.ensure_type(creations[0], cst.Call)
    parts = [argument_of(call, place, word) for place, word in enumerate(_FIELDS)]
    lists = [_items(part) for part in parts[1:]]
    if parts[0] is None or any(
        items is None or len(items) != len(lists[0] or ()) for items in lists
    ):
        return None
    shape, strides, offsets, blocks = (items or [] for items in lists)
    fixed = names_within(call) - names_within(*map(parse_expression, offsets))
    fixed |= names_within(parts[0], *map(parse_expression, (*shape, *strides, *blocks)))
    if not _are_fixed(node, fixed, call):
        return None
    steps = [_items(argument_of(c, 1, "offsets")) for c in moved]
    if any(items is None or len(items) != len(shape) for items in steps):
        return None
    signed = {
        axis
        for axis in range(len(shape))
        for code in (offsets[axis], *(items[axis] for items in steps if items))
        if not _is_natural(parse_expression(code), node, 0)
    }
    taken = names_within(node)
    indices = [free_name(f"{name}_{axis}", taken) for axis in range(len(shape))]
    base = _term(render_code(parts[0]))
    return _BlockPointer(name, base, shape, strides, offsets, blocks, indices, frozenset(signed))


def _items(node: cst.BaseExpression | None) -> list[str] | None:
    if not isinstance(node, (cst.Tuple, cst.List)):
        return None
    return [render_code(element.value) for element in node.elements]


def _is_used_plainly(node: cst.FunctionDef, name: str, bindings: int, moved: int) -> bool:
    """Tell whether a pointer is only loaded from, stored to and moved by itself."""
    accesses = [
        call
        for call in calls_within(node, "tl.load", "tl.store")
        if call.args and render_code(call.args[0].value) == name
    ]
    own = sum(
        render_code(call.args[0].value) == name
        for call in calls_within(node, _ADVANCE)
        if call.args
    )
    words = {a.keyword.value for c in accesses for a in c.args if a.keyword is not None}
    plain = not words & {"mask", "other"} and all(_checked(c) is not None for c in accesses)
    return plain and own == moved and count_uses(node, name) == len(accesses) + bindings + moved


def _checked(call: cst.Call) -> list[int] | None:
    """Return the axes along which an access is checked; ``None`` if they cannot be read."""
    node = argument_of(call, 3, "boundary_check")
    if node is None:
        return []
    elements = (
        [e.value for e in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]
    )
    axes = [integer_literal(element) for element in elements]
    plain = [axis for axis in axes if axis is not None]
    return plain if len(plain) == len(axes) else None


def _are_fixed(node: cst.FunctionDef, names: set[str], call: cst.Call) -> bool:
    """Tell whether names mean the same wherever the pointer is used: assigned once, ahead of it."""
    body = statements_of(node)
    ahead = list(itertools.takewhile(lambda s: not any(n is call for n in nodes_within(s)), body))
    counts = assigned_names(*body)
    params = {param.name.value for param in all_params(node)}
    for name in names & set(counts):
        straight = values_of(name, ahead)
        if len(straight) == counts.count(name):
            continue
        if counts.count(name) > 1 or name in params:
            return False
    return True


def _is_natural(node: cst.BaseExpression, function: cst.FunctionDef, depth: int) -> bool:
    """Tell whether an integer is known not to be below zero."""
    if isinstance(node, cst.Integer):
        return True
    if called_name(node) in ("tl.program_id", "tl.num_programs"):
        return True
    if isinstance(node, cst.BinaryOperation):
        kinds = (cst.Add, cst.Multiply, cst.FloorDivide, cst.Modulo)
        sides = (node.left, node.right)
        return isinstance(node.operator, kinds) and all(
            _is_natural(side, function, depth) for side in sides
        )
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "to" and _is_natural(node.func.value, function, depth)
    if not isinstance(node, cst.Name) or depth > 8:
        return False
    return _is_natural_name(node.value, function, depth)


def _is_natural_name(name: str, function: cst.FunctionDef, depth: int) -> bool:
    for param in all_params(function):
        if param.name.value == name:
            note = param.annotation
            return note is not None and "constexpr" in render_code(note.annotation)
    values: list[cst.BaseExpression] = []
    for statement in walk_statements(statements_of(function)):
        binding, loop = single_assignment(statement), range_loop(statement)
        if binding is not None and binding.target == name:
            values.append(binding.value)
        if loop is not None and loop.name == name:
            values += [loop.start, loop.step]
    written = assigned_names(*statements_of(function)).count(name)
    if written != 1 or not values:
        return False
    return all(_is_natural(value, function, depth + 1) for value in values)


# ------------------------------------------------------------------------------- writing


def _replaced(node: cst.FunctionDef, pointer: _BlockPointer) -> cst.FunctionDef:
    return with_body(node, _plain_statements(statements_of(node), pointer))


def _plain_statements(body: Body, pointer: _BlockPointer) -> list[cst.BaseStatement]:
    result: list[cst.BaseStatement] = []
    for statement in body:
        binding = single_assignment(statement)
        if statements_of(statement):
            result.append(_plain_compound(statement, pointer))
        elif binding is not None and binding.target == pointer.name:
            lines = _moved(binding.value, pointer)
            result += map(parse_statement, lines)
        else:
            result.append(replace_each(statement, _plain_accesses(statement, pointer)))
    return result


def _plain_compound(statement: cst.BaseStatement, pointer: _BlockPointer) -> cst.BaseStatement:
    changed = with_body(statement, _plain_statements(statements_of(statement), pointer))
    other = getattr(statement, "orelse", None)
    if isinstance(other, cst.CSTNode):
        swapped = (
            _plain_compound(other, pointer)  # type: ignore[arg-type]
            if statements_of(other)
            else other
        )
        changed = changed.with_changes(orelse=swapped)
    return changed


def _moved(value: cst.BaseExpression, pointer: _BlockPointer) -> list[str]:
    """Return the statements that make a pointer's indices, or move them."""
    if called_name(value) == _MAKE:
        spans = [f"tl.arange(0, {block})" for block in pointer.blocks]
        parts = zip(pointer.indices, pointer.offsets, spans, strict=True)
        return [
            f"{index} = {span}" if offset == "0" else f"{index} = {_term(offset)} + {span}"
            for index, offset, span in parts
        ]
    steps = _items(argument_of(value, 1, "offsets")) or []
    pairs = zip(pointer.indices, steps, strict=True)
    return [f"{index} += {step}" for index, step in pairs if step != "0"] or ["pass"]


def _plain_accesses(statement: cst.BaseStatement, pointer: _BlockPointer) -> list[Swap]:
    pairs: list[Swap] = []
    for call in calls_within(statement, "tl.load", "tl.store"):
        if render_code(call.args[0].value) == pointer.name:
            pairs.append((call, parse_expression(_plain_access(call, pointer))))
    return pairs


def _plain_access(call: cst.Call, pointer: _BlockPointer) -> str:
    name, parts = called_name(call), [pointer.pointer]
    axes = _checked(call) or []
    words: Mapping[str, str] = {
        a.keyword.value: render_code(a.value) for a in call.args if a.keyword is not None
    }
    if name == "tl.store":
        value = argument_of(call, 1, "value")
        parts.append(render_code(value) if value is not None else "0")
    if axes:
        parts.append(f"mask={pointer.mask(axes)}")
        fill = 'float("nan")' if "nan" in words.get("padding_option", "") else "0"
        parts += [f"other={fill}"] if name == "tl.load" else []
    kept = ("cache_modifier", "eviction_policy", "volatile")
    parts += [f"{word}={words[word]}" for word in kept if word in words]
    return f"{name}({', '.join(parts)})"
