"""Blocks whose accesses no mask bounds: their sizes must divide what they walk over."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._memory import MASK_PLACES, mask_of, pointers_of
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    Values,
    argument_of,
    called_name,
    calls_within,
    child_nodes,
    compact_code,
    names_within,
    parenthesized,
    parse_expression,
    render_code,
    replace_each,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import conjuncts, is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, Launch, launcher_definition

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
    for call in calls_within(function.node, *MASK_PLACES):
        mask = mask_of(call)
        if argument_of(call, 99, "boundary_check") is not None or not call.args:
            continue
        bounded = set() if mask is None else lengths_within(mask, lengths, is_mask=True)
        bounded |= _lengths_of_buffer(launch, call.args[0].value)
        unmasked |= lengths_within(call.args[0].value, lengths) - bounded
    # a range may be as long as a part of a block, such as ``BLOCK // 8`` words
    return frozenset(names_within(*map(parse_expression, unmasked)) & function.constants)


def _lengths_of_buffer(launch: Launch, pointer: cst.BaseExpression) -> set[str]:
    """Return the constants that decide how long a tensor of the launcher's is."""
    bases = pointers_of(launch.function).bases(pointer)
    argument = launch.arguments.get(next(iter(bases))) if len(bases) == 1 else None
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
    bindings = assignments_in(walk_statements(function.body))
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
    return is_operation(node, cst.Modulo)


# ------------------------------------------------------------------------------- further conditions


def masked_loads(
    node: cst.BaseExpression, further: Sequence[cst.BaseExpression], values: Values
) -> cst.BaseExpression:
    """Return an expression whose loads have further conditions, where their pointers vary as these.

    Args:
        node: the expression.
        further: conditions, as their function may write them.
        values: what the function's names stand for.
    """
    pairs: list[Swap] = []
    for call in calls_within(node, "tl.load"):
        pointer, mask = argument_of(call, 0, "pointer"), argument_of(call, 1, "mask")
        if pointer is None:
            continue
        varies = _ranges_within(substitute_names(pointer, values))
        own = (
            {}
            if mask is None
            else dict.fromkeys(map(compact_code, conjuncts(_whole(mask, values))))
        )
        added = [
            part
            for part in further
            if _ranges_within(whole := _whole(part, values)) <= varies
            and compact_code(whole) not in own
        ]
        if added:
            parts = [*([] if mask is None else [mask]), *added]
            pairs.append((call, with_load_mask(call, " & ".join(map(_in_parentheses, parts)))))
    return replace_each(node, pairs) if pairs else node


def _whole(node: cst.BaseExpression, values: Values) -> cst.BaseExpression:
    return substitute_names(node, values).with_changes(lpar=[], rpar=[])


def _in_parentheses(node: cst.BaseExpression) -> str:
    return render_code(parenthesized(node))


def without_mask(call: cst.Call) -> cst.Call:
    """Return a load or a store without its mask, and without what a load gives elsewhere."""
    gone = [mask_of(call)]
    gone += [argument_of(call, 2, "other")] if called_name(call) == "tl.load" else []
    args = [arg for arg in call.args if not any(arg.value is value for value in gone)]
    args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=args)


def with_mask(call: cst.Call, code: str) -> cst.Call:
    """Return a load or a store with another mask, or with none; what follows is by keyword."""
    place, mask = MASK_PLACES[called_name(call)], mask_of(call)
    args = [arg for arg in call.args if arg.value is not mask]
    if not code:
        return call.with_changes(args=args)
    words = [
        render_code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        if arg.keyword or index < place
        else f"other={render_code(arg.value)}"
        for index, arg in enumerate(args)
    ]
    words.insert(place, f"mask={code}")
    return cst.ensure_type(parse_expression(f"{called_name(call)}({', '.join(words)})"), cst.Call)


def with_load_mask(call: cst.Call, code: str) -> cst.Call:
    """Return a load with another mask in place of its own, or with one behind its pointer."""
    mask = argument_of(call, 1, "mask")
    if mask is not None:
        return replace_each(call, [(mask, parse_expression(code))])
    head, *others = call.args
    added = cst.ensure_type(parse_expression(f"f(mask={code})"), cst.Call).args[0]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    added = added.with_changes(comma=comma if others else cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[head.with_changes(comma=comma), added, *others])


def _ranges_within(node: cst.CSTNode, spread: str = "") -> set[tuple[str, str]]:
    """Return the ranges that an expression varies along, and how they are spread over axes."""
    if isinstance(node, cst.Call) and called_name(node) == "tl.arange":
        return {(compact_code(node), spread)}
    if isinstance(node, cst.Subscript):
        return _ranges_within(node.value, compact_code(node).rpartition("[")[2])
    return {part for child in child_nodes(node) for part in _ranges_within(child, spread)}
