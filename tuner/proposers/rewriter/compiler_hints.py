"""Hints: which cached data to give up first, and that offsets are contiguous."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    assigned_names,
    calls_within,
    names_within,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText
from solkit.tuner.proposers.rewriter._variants import joint_variant


class Eviction:
    """Data that one program reads once leaves the cache first; data that all read stays.

    Applies to loads without a policy, in functions without ``tl.dot``, whose operands others reuse:
    those through pointers that the program's index decides, and the others.
    """

    kind = "eviction"
    helps = ("extra traffic", "repeated reads", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = (
            "{} streams data that it reads once past data that all programs read; policies keep "
            "the latter in the caches"
        )
        return joint_variant(text, facts, _with_policies, intent, "extra traffic")


def _with_policies(function: JitFunction) -> cst.FunctionDef:
    own = _names_decided_by(function, "tl.program_id")
    if calls_within(function.node, "tl.dot") or not calls_within(function.node, "tl.program_id"):
        return function.node
    loads = [
        c for c in calls_within(function.node, "tl.load") if "eviction_policy" not in render_code(c)
    ]
    texts = [render_code(call) for call in loads]
    pairs: list[Swap] = []
    for call in loads:
        streamed = bool(names_within(call.args[0].value) & own) or bool(
            calls_within(call, "tl.program_id")
        )
        if streamed and texts.count(render_code(call)) > 1:
            continue  # it is read again
        policy = "evict_first" if streamed else "evict_last"
        opened = render_code(call)[:-1].rstrip(", \n\t")
        pairs.append((call, parse_expression(f'{opened}, eviction_policy="{policy}")')))
    return replace_each(function.node, pairs) if pairs else function.node


def _names_decided_by(function: JitFunction, call: str) -> set[str]:
    """Return names whose values depend on what a call gives."""
    decided: set[str] = set()
    for _ in range(2):  # loops carry names back
        for statement in walk_statements(function.body):
            binding = single_assignment(statement)
            value = statement if binding is None else binding.value
            if isinstance(statement, (cst.For, cst.If)):
                continue
            if calls_within(value, call) or names_within(value) & decided:
                decided |= set(assigned_names(statement))
    return decided


class Contiguous:
    """Tells the compiler that a block's offsets are contiguous and start at a multiple of its size.

    Applies to names assigned once as an index times a constant plus ``tl.arange(0, constant)``.
    """

    kind = "contiguous hints"
    helps = ("narrow accesses", "uncoalesced", "instructions")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Blocks of {} are contiguous; the compiler is told so"
        return joint_variant(text, facts, _with_hints, intent)


def _with_hints(function: JitFunction) -> cst.FunctionDef | None:
    body = [_hint_contiguous(statement) for statement in function.body]
    return with_body(function.node, body) if set(body) - set(function.body) else None


def _hint_contiguous(statement: cst.BaseStatement) -> cst.BaseStatement:
    binding = single_assignment(statement)
    value = None if binding is None else binding.value
    if binding is None or not isinstance(value, cst.BinaryOperation) or binding.operator:
        return statement
    block = (
        render_code(calls_within(value, "tl.arange")[0].args[-1].value)
        if calls_within(value, "tl.arange")
        else ""
    )
    start = value.left
    plain = (
        render_code(value.right) == f"tl.arange(0, {block})"
        and is_operation(start, cst.Multiply)
        and render_code(start.right) == block
    )
    if not plain or not isinstance(value.operator, cst.Add):
        return statement
    text = f"tl.max_contiguous(tl.multiple_of({render_code(value)}, {block}), {block})"
    return parse_statement(f"{binding.target} = {text}").with_changes(
        leading_lines=getattr(statement, "leading_lines", ())
    )
