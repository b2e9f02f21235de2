"""Values computed twice are computed once: value numbering over straight code of a Triton function.

A name may hold several values one after another. Each value gets a number, which is made from the
expression and the numbers of the names in it. A load has the number of its pointer and mask: what
it reads elsewhere is fill. So a second load of the same elements becomes the first one's value,
with the fill it asks for, and no third name is needed unless the first was assigned meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._syntax import (
    argument_of,
    assigned,
    assignment,
    body_of,
    called,
    calls,
    code,
    expression,
    line,
    names,
    replace_each,
    substitute,
)

__all__ = ["base_of", "once", "without_zeros"]

_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min", "tl.atomic_cas")
_ORDERED = (*_WRITES, "tl.atomic_xchg", "tl.debug_barrier", "tl.rand", "tl.randn")


@dataclass
class _Load:
    """A load that was seen.

    Attributes:
        name: what holds its value.
        number: of that value.
        fill: the code of ``other``; empty if there is none.
        base: the pointer that it reads through.
    """

    name: str
    number: int
    fill: str
    base: str


@dataclass
class _State:
    aliases: Mapping[str, frozenset[str]]
    taken: set[str]
    mixed: set[str]
    numbers: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    loads: dict[str, _Load] = field(default_factory=dict)
    count: int = 0

    def number(self, key: str) -> int:
        if key not in self.values:
            self.count += 1
            self.values[key] = self.count
        return self.values[key]

    def key(self, node: cst.CSTNode) -> str:
        """Return the expression with each name's number."""
        marked = {n: cst.Name(f"{n}_v{self.numbers[n]}") for n in names(node) if n in self.numbers}
        text = code(substitute(node, marked))
        return "".join(text.split())

    def value(self, node: cst.BaseExpression | None) -> str:
        """Return the number of an expression's value; an unassigned name itself."""
        if node is None:
            return ""
        if isinstance(node, cst.Name):
            return str(self.numbers.get(node.value, node.value))
        return str(self.number(self.key(node)))

    def forget(self, base: str) -> None:
        """Forget loads through a pointer that has been written, or one that may be the same."""
        gone = {base, *self.aliases.get(base, ())}
        self.loads = {key: load for key, load in self.loads.items() if load.base not in gone}

    def fresh(self, name: str) -> str:
        free, count = name, 2
        while free in self.taken:
            free, count = f"{name}_{count}", count + 1
        self.taken.add(free)
        return free


def base_of(pointer: cst.BaseExpression, params: Sequence[str]) -> str:
    """Return the parameter that a pointer expression starts from; its code if that is not plain."""
    matches = [name for name in params if name in names(pointer)]
    pointers = [name for name in matches if "ptr" in name.lower()]
    if len(pointers) == 1:
        return pointers[0]
    node = pointer
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        node = node.left
    return code(node)


def once(
    body: Sequence[cst.BaseStatement],
    aliases: Mapping[str, frozenset[str]],
    params: Sequence[str],
) -> list[cst.BaseStatement]:
    """Return the statements without what they compute or load again.

    Args:
        body: statements of a function.
        aliases: of each pointer parameter, those that may point to the same tensor.
        params: of the function.
    """
    taken = set(assigned(*body)).union(*(names(s) for s in body), params)
    state = _State(aliases, taken, _mixed(body))
    return _block(body, state, params)


def _mixed(body: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that hold several different values."""
    written: dict[str, set[str]] = {}
    for statement in body:
        binding = assignment(statement)
        for name in assigned(statement):
            text = code(statement) if binding is None else "".join(code(binding.value).split())
            written.setdefault(name, set()).add(text)
    return {name for name, values in written.items() if len(values) > 1}


def _block(
    body: Sequence[cst.BaseStatement], state: _State, params: Sequence[str]
) -> list[cst.BaseStatement]:
    statements: list[cst.BaseStatement] = []
    for statement in body:
        if body_of(statement):
            statements.append(_opaque(statement, state))
            continue
        statements += _statement(statement, state, params)
    return statements


def _opaque(statement: cst.BaseStatement, state: _State) -> cst.BaseStatement:
    """Give names that a loop or a branch assigns new values; what it writes is unknown."""
    for name in assigned(statement):
        state.numbers[name] = state.number(f"{name} assigned in block {state.count}")
    if any(called(call) in _ORDERED for call in calls(statement)):
        state.loads.clear()
    return statement


def _statement(
    statement: cst.BaseStatement, state: _State, params: Sequence[str]
) -> list[cst.BaseStatement]:
    ahead, statement = _with_loads_once(statement, state, params)
    binding = assignment(statement)
    if binding is None:
        for name in assigned(statement):
            state.numbers[name] = state.number(f"{name} unpacked {state.count}")
        for call in calls(statement, *_ORDERED):
            pointer = argument_of(call, 0, "pointer")
            if pointer is not None:
                state.forget(base_of(pointer, params))
        return [*ahead, statement]
    key = state.key(binding.value)
    fixed = not calls(statement, *_ORDERED)
    number = state.number(key if fixed else f"{key} at {state.count}")
    if isinstance(binding.value, cst.Name):  # another name for a value
        number = state.numbers.get(binding.value.value, number)
    if state.numbers.get(binding.target) == number and fixed:
        return ahead
    state.numbers[binding.target] = number
    return [*ahead, statement]


def _with_loads_once(
    statement: cst.BaseStatement, state: _State, params: Sequence[str]
) -> tuple[list[cst.BaseStatement], cst.BaseStatement]:
    """Replace each load that was seen before in the statement; put loads ahead of it, if needed."""
    binding = assignment(statement)
    ahead: list[cst.BaseStatement] = []
    for call in calls(statement, "tl.load"):
        pointer, mask = argument_of(call, 0, "pointer"), argument_of(call, 1, "mask")
        if pointer is None or _is_volatile(call):
            continue
        key = f"{state.value(pointer)} where {state.value(mask)}"
        fill = argument_of(call, 2, "other")
        seen = state.loads.get(key)
        if seen is not None and state.numbers.get(seen.name) == seen.number:
            value = _filled(seen, mask, fill)
            statement = replace_each(statement, [(call, value)])
            continue
        whole = binding is not None and binding.value is call and binding.target not in state.mixed
        name = (
            binding.target if whole and binding is not None else state.fresh(_name(pointer, params))
        )
        number = state.number(f"load {key} {state.count}")
        seen_fill = "" if fill is None else code(fill)
        state.loads[key] = _Load(name, number, seen_fill, base_of(pointer, params))
        if whole:
            state.values[state.key(call)] = number
        else:
            state.numbers[name] = number
            ahead.append(line(f"{name} = {code(call)}"))
            statement = replace_each(statement, [(call, cst.Name(name))])
    return ahead, statement


def _is_volatile(call: cst.Call) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == "volatile" for arg in call.args)


def _name(pointer: cst.BaseExpression, params: Sequence[str]) -> str:
    base = base_of(pointer, params)
    plain = base if base.isidentifier() else "value"
    return f"{plain.removesuffix('_ptr').removesuffix('_ptrs')}_read"


def _filled(
    seen: _Load, mask: cst.BaseExpression | None, fill: cst.BaseExpression | None
) -> cst.BaseExpression:
    """Return the value that was loaded, with another fill where that differs."""
    if fill is None or mask is None or code(fill) == seen.fill:
        return cst.Name(seen.name)
    return expression(f"tl.where({code(mask)}, {seen.name}, {code(fill)})")


# ------------------------------------------------------------------------------- zeros


class _Zeros(cst.CSTTransformer):
    def leave_BinaryOperation(  # noqa: N802 - libcst's name
        self,
        original_node: cst.BinaryOperation,  # noqa: ARG002
        updated_node: cst.BinaryOperation,
    ) -> cst.BaseExpression:
        left, right = updated_node.left, updated_node.right
        if isinstance(updated_node.operator, cst.Add):
            if code(left) == "0":
                return _kept(right, updated_node)
            if code(right) == "0":
                return _kept(left, updated_node)
        if isinstance(updated_node.operator, cst.Multiply) and "0" in (code(left), code(right)):
            return cst.Integer("0")
        return updated_node


def _kept(node: cst.BaseExpression, of: cst.BinaryOperation) -> cst.BaseExpression:
    return node if node.lpar or not of.lpar else node.with_changes(lpar=of.lpar, rpar=of.rpar)


def without_zeros(body: Sequence[cst.BaseStatement], name: str) -> list[cst.BaseStatement]:
    """Return statements with a name taken as 0, and sums and products with it made short."""
    zero = {name: cst.Integer("0")}
    changed = [substitute(statement, zero).visit(_Zeros()) for statement in body]
    return [statement for statement in changed if isinstance(statement, cst.BaseStatement)]
