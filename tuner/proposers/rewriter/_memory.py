"""Memory that calls of a Triton function touch: which of them do, and through which parameters."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    Body,
    argument_of,
    assigned_names,
    called_name,
    nodes_within,
    render_code,
    single_assignment,
)
from solkit.tuner.proposers.rewriter._operations import is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction

_ATOMICS = tuple(f"tl.atomic_{word}" for word in "add max min and or xor cas xchg".split())
WRITES = ("tl.store", *_ATOMICS)
PLAIN_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
"""Stores, and atomics that leave the same in any order."""
MASK_PLACES = {"tl.load": 1, **dict.fromkeys(WRITES, 2), "tl.atomic_cas": 99}
"""Positions of masks among the arguments of accesses; ``tl.atomic_cas`` has none."""
_EFFECTS = (*WRITES, "tl.inline_asm")
_PYTHON = frozenset("abs float int len max min range".split())
"""Functions of Python that device code calls."""
_NUMBERS = frozenset(
    f"tl.{name}"
    for name in (
        "arange program_id num_programs cdiv load zeros full minimum maximum sum max min"
    ).split()
)
"""Functions that give numbers, and no pointers, if they get none."""
_OF_OPERANDS = ("tl.where", "tl.broadcast_to")
_OF_NUMBERS = (cst.Multiply, cst.FloorDivide, cst.Divide, cst.Modulo)
_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


def is_write(call: cst.Call) -> bool:
    """Tell whether a call stores or is atomic."""
    return called_name(call) in WRITES


def touches_memory(call: cst.Call) -> bool:
    """Tell whether a call loads, stores or is atomic."""
    return called_name(call) == "tl.load" or is_write(call)


def hides_access(call: cst.Call) -> bool:
    """Tell whether a call is one of a tensor descriptor, or makes one."""
    name = called_name(call)
    is_method = name.endswith((".load", ".store", ".gather", ".scatter")) or ".atomic_" in name
    return "descriptor" in name or (is_method and not touches_memory(call))


def may_write(call: cst.Call) -> bool:
    """Tell whether a call may change memory: a function of the file may do anything."""
    if isinstance(call.func, cst.Name):
        return call.func.value not in _PYTHON
    return called_name(call).startswith(_EFFECTS) or hides_access(call)


def mask_of(call: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the mask of a load, a store or an atomic operation; ``None`` if there is none."""
    place = MASK_PLACES.get(called_name(call))
    return None if place is None else argument_of(call, place, "mask")


def may_meet(one: Collection[str], two: Collection[str]) -> bool:
    """Tell whether pointers with these bases may be to one tensor; ``""`` is not clear."""
    return not set(one).isdisjoint(two) or "" in one or "" in two


class Pointers:
    """Finds the parameters that pointers of a function start from.

    Attributes:
        body: the function's statements, or all of them that assign names.
        params: those of its parameters that may be pointers.
    """

    def __init__(self, body: Body, params: Collection[str]) -> None:
        self._params = frozenset(params) - _numbers_within(body)
        self._values: dict[str, list[cst.BaseExpression]] = {}
        unclear = Counter(assigned_names(*body))
        for node in nodes_within(*body):
            binding = single_assignment(node)
            if binding is not None:
                self._values.setdefault(binding.target, []).append(binding.value)
                unclear[binding.target] -= 1
            elif isinstance(node, cst.For):
                unclear[render_code(node.target)] -= 1  # an index
        self._unclear = {name for name, count in unclear.items() if count > 0}

    def bases(self, node: cst.BaseExpression | None) -> frozenset[str]:
        """Return the parameters that may be the pointer in a sum; ``""`` for what is not clear."""
        bases = frozenset({""}) if node is None else self._of(node, ())
        return bases or frozenset({""})

    def touched(self, calls: Iterable[cst.Call]) -> frozenset[str]:
        """Return the parameters through which calls access; ``""`` for what is not clear."""
        return frozenset[str]().union(*(self.bases(argument_of(c, 0, "pointer")) for c in calls))

    def _of(self, node: cst.BaseExpression, seen: tuple[str, ...]) -> frozenset[str]:
        if isinstance(node, cst.Name):
            return self._of_name(node.value, seen)
        if isinstance(node, cst.BinaryOperation):
            is_sum = isinstance(node.operator, (cst.Add, cst.Subtract))
            return self._of(node.left, seen) | self._of(node.right, seen) if is_sum else frozenset()
        if isinstance(node, cst.IfExp):
            return self._of(node.body, seen) | self._of(node.orelse, seen)
        if isinstance(node, cst.Subscript):
            return self._of(node.value, seen)
        if isinstance(node, (cst.Integer, cst.UnaryOperation, cst.Comparison)):
            return frozenset()
        return self._of_call(node, seen) if isinstance(node, cst.Call) else frozenset({""})

    def _of_name(self, name: str, seen: tuple[str, ...]) -> frozenset[str]:
        if name in seen:
            return frozenset()
        values = self._values.get(name, ())
        bases = frozenset({name} & self._params) | ({""} if name in self._unclear else frozenset())
        return bases.union(*(self._of(value, (*seen, name)) for value in values))

    def _of_call(self, call: cst.Call, seen: tuple[str, ...]) -> frozenset[str]:
        name = called_name(call)
        if name in _NUMBERS:
            return frozenset()
        if name in (*HINTS, *_OF_OPERANDS):
            return frozenset[str]().union(*(self._of(arg.value, seen) for arg in call.args))
        kinds = [render_code(arg.value) for arg in call.args]
        if name.endswith(".to") and kinds in (["tl.int32"], ["tl.int64"]):
            return frozenset()  # a pointer would be none any more
        return frozenset({""})


@functools.lru_cache(64)  # each access of a function asks
def pointers_of(function: JitFunction) -> Pointers:
    """Return the pointers of a whole function."""
    return Pointers(function.body, set(function.params) - set(function.constants))


def _numbers_within(body: Body) -> set[str]:
    """Return names that are multiplied, divided or put in order: no address is."""
    sides: list[cst.BaseExpression] = []
    for node in nodes_within(*body):
        if is_operation(node, *_OF_NUMBERS):
            sides += (node.left, node.right)
        elif isinstance(node, cst.Comparison):
            targets = [t for t in node.comparisons if isinstance(t.operator, _ORDERS)]
            sides += [node.left, *(t.comparator for t in targets)] if targets else []
    return {side.value for side in sides if isinstance(side, cst.Name)}
