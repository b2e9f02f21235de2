"""Blocks whose accesses no mask bounds: their sizes must divide what they walk over."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    Launch,
    argument_of,
    called_name,
    calls_within,
    child_nodes,
    launcher_definition,
    names_within,
    render_code,
    single_assignment,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._values import base_pointer

__all__ = ["lengths_of_names", "lengths_within", "unmasked_blocks"]

_MASK_PLACES = {"tl.load": 1, "tl.store": 2, "tl.atomic_add": 2, "tl.atomic_max": 2}
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin", "tl.reduce")
_LIMITS = ("tl.where", "tl.minimum", "min", "tl.clamp")
_ROUNDS = 4  # of names that loops hand on


def unmasked_blocks(launch: Launch) -> frozenset[str]:
    """Return the constants of a launch's function of which some access takes whole blocks.

    An index that ``%``, a minimum or a choice limits counts as bounded, and so does an access with
    ``boundary_check``, or to a buffer that the launcher makes as long as blocks are.
    """
    function = launch.function
    lengths = lengths_of_names(function)
    unmasked: set[str] = set()
    for call in calls_within(function.node, *_MASK_PLACES):
        mask = argument_of(call, _MASK_PLACES[called_name(call)], "mask")
        if argument_of(call, 99, "boundary_check") is not None or not call.args:
            continue
        bounded = set() if mask is None else lengths_within(mask, lengths, is_mask=True)
        bounded |= _lengths_of_buffer(launch, call.args[0].value)
        unmasked |= lengths_within(call.args[0].value, lengths) - bounded
    return frozenset(unmasked & function.constants)


def _lengths_of_buffer(launch: Launch, pointer: cst.BaseExpression) -> set[str]:
    """Return the constants that decide how long a tensor of the launcher's is."""
    argument = launch.arguments.get(base_pointer(pointer, launch.function.params))
    if not isinstance(argument, cst.Name):
        return set()
    allocation = launcher_definition(argument.value, launch.launcher)
    if allocation is None or not called_name(allocation).startswith("torch."):
        return set()
    names = names_within(allocation)
    return {
        constant
        for constant in launch.function.constants & set(launch.arguments)
        if render_code(launch.arguments[constant]) in names
    }


@functools.lru_cache(64)  # each tile of a function asks
def lengths_of_names(function: JitFunction) -> Mapping[str, set[str]]:
    """Return for each name the lengths of the ranges that its value varies along."""
    lengths: dict[str, set[str]] = defaultdict(set)
    bindings = [a for s in walk_statements(function.body) if (a := single_assignment(s))]
    for _ in range(_ROUNDS):
        for binding in bindings:
            lengths[binding.target] |= lengths_within(binding.value, lengths)
    return lengths


def lengths_within(
    node: cst.BaseExpression, lengths: Mapping[str, set[str]], is_mask: bool = False
) -> set[str]:
    """Return the lengths of the ranges that an expression varies along; a mask may limit them."""
    result: set[str] = set()
    pending: list[cst.CSTNode] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, cst.Name):
            result |= lengths.get(part.value, set())
        elif isinstance(part, cst.Call):
            result |= _lengths_of_call(part)
            if _varies_with_operands(called_name(part), is_mask):
                pending += child_nodes(part)
        elif is_mask or not _is_remainder(part):
            pending += child_nodes(part)
    return result


def _lengths_of_call(call: cst.Call) -> set[str]:
    name = called_name(call)
    if name == "tl.arange":
        return {render_code(call.args[-1].value)}
    shape = argument_of(call, 4, "block_shape") if name == "tl.make_block_ptr" else None
    return set() if shape is None else names_within(shape)


def _varies_with_operands(name: str, is_mask: bool) -> bool:
    """Tell whether what a function gives varies along the ranges of what it gets."""
    return name not in (*_REDUCTIONS, "tl.arange") and (name not in _LIMITS or is_mask)


def _is_remainder(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
