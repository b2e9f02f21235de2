"""A loop's step gets a constant of its own where the same one also tiles the grid.

Attention is often written with one size for a block of queries and for the keys that a trip takes.
Either of the two may then be larger, and what is reduced along one is not stored along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import (
    changed_tree,
    grid_constants,
    with_params,
)
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Swap,
    assigned_names,
    calls_within,
    free_name,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch, read_module
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._shapes import mixes_lengths
from solkit.tuner.proposers.rewriter._values import BlockedLoop, as_blocked_loop
from solkit.tuner.proposers.rewriter.loop_ends import neutral_ends

_OF_LENGTH = ("tl.arange", "tl.zeros", "tl.full")


def with_own_steps(text: KernelText, launch: Launch) -> KernelText:
    """Return the file in which a launch's loops have steps of their own, where that can be."""
    function, taken = launch.function, set(text.names)
    for block in sorted(grid_constants(launch)):
        step = free_name(f"{block}_STEP", taken)
        body = _with_step(function, block, step)
        if body is None or block not in launch.arguments:
            continue
        node = with_params(with_body(function.node, body), constants=[step])
        if mixes_lengths(replace(function, node=node), block, step):
            continue
        line = NewLaunch(
            launch, node, arguments={step: render_code(launch.arguments[block])}
        ).statement
        changed = changed_tree(
            text, functions={function.name: node}, launches=[(launch.statement, [line])]
        )
        return read_module(changed) or text
    return text


def _with_step(function: JitFunction, block: str, step: str) -> list[cst.BaseStatement] | None:
    """Return statements whose loops over a block take another constant; ``None`` if none can."""
    body, swaps = function.body, dict[int, list[cst.BaseStatement]]()
    taken = set(function.names)
    for place, statement in enumerate(body):
        loop = range_loop(statement)
        blocked = None if loop is None else as_blocked_loop(loop, function)
        if loop is None or blocked is None or blocked.block != block:
            continue
        outside = [*body[:place], *body[place + 1 :]]
        columns = _Columns(loop, body[:place], outside, block, step)
        ends = neutral_ends(loop, function, place)
        if not columns.keep_meaning(blocked, ends) or not columns.rewrite(blocked, taken):
            return None
        swaps |= columns.swaps
    return [new for old in body for new in swaps.get(id(old), [old])] if swaps else None


class _Columns:
    """Uses of its size in a loop over a block's columns.

    Args:
        loop: the loop.
        before: statements ahead of it.
        outside: these, and those after it.
        block, step: the old constant and the new one.

    Attributes:
        swaps: new statements by the identities of old ones.
    """

    def __init__(self, loop: Loop, before: Body, outside: Body, block: str, step: str) -> None:
        self._loop, self._before, self._outside = loop, before, outside
        self._block, self._step = block, {block: cst.Name(step)}
        self._range = f"tl.arange(0, {block})"
        self.swaps: dict[int, list[cst.BaseStatement]] = {}

    def keep_meaning(self, blocked: BlockedLoop, ends: Sequence[str]) -> bool:
        """Tell whether the loop follows from the block's size by its step and its ranges alone.

        Its bound may follow from where a program's block ends, if masks end the columns there, too.
        """
        fixed, of_program, numbers = self._numbers_of_block()
        bound, read = names_within(blocked.bound), names_within(*self._loop.body)
        if (read | bound) & fixed:
            return False
        parts = [blocked.bound, *map(parse_expression, ends)]
        of_rows = [_follows_program(part, numbers) for part in parts]
        is_of_block = self._block in bound or bool(bound & of_program)
        if is_of_block and not (of_rows[0] and any(of_rows[1:])):
            return False
        moved = {
            binding.target
            for binding in assignments_in(self._loop.body)
            if binding.operator == "+="
            if self._block in names_within(binding.operand)
        }
        return not moved & names_within(*self._outside[len(self._before) :])

    def _numbers_of_block(self) -> tuple[set[str], set[str], set[str]]:
        """Return names by what they follow from: a block's size, that and a program, a program.

        A range, and a block of zeros, only has the size as its length.
        """
        fixed, of_program, numbers = set[str](), set[str](), set[str]()
        for statement in self._before:
            sized = calls_within(statement, *_OF_LENGTH)
            plain = replace_each(statement, [(call, cst.Integer("0")) for call in sized])
            used, targets = names_within(plain), set(assigned_names(statement))
            if calls_within(statement, "tl.program_id") or used & numbers:
                numbers |= targets
            if self._block in used or used & (fixed | of_program):
                (of_program if targets & numbers else fixed).update(targets)
        return fixed, of_program, numbers

    def rewrite(self, blocked: BlockedLoop, taken: set[str]) -> bool:
        """Find new statements; false if a name of the columns' length cannot get another."""
        values = self._of_ranges()
        columns = self._only_in_loop(values)
        ahead, names = list[cst.BaseStatement](), dict[str, cst.BaseExpression]()
        for name in sorted(values.keys() - columns):
            if name not in names_within(*self._loop.body):
                continue
            value = single_assignment(values[name])
            if value is None or render_code(value.value) != self._range:
                return False
            own = free_name(name, taken)
            names[name] = cst.Name(own)
            ahead.append(parse_statement(f"{own} = {render_code(value.value)}"))
        if any(self._block in names_within(self._without_ranges(values[n])) for n in columns):
            return False
        for name in columns:
            self.swaps[id(values[name])] = [substitute_names(values[name], self._step)]
        inner = [self._in_loop(substitute_names(s, names)) for s in self._loop.body]
        over = self._with_bound(substitute_names(self._loop.node.iter, self._step), blocked)
        loop = with_body(self._loop.node, inner).with_changes(iter=over)
        ahead = [substitute_names(statement, self._step) for statement in ahead]
        self.swaps[id(self._loop.node)] = [*ahead, loop]
        return not any(self._block in names_within(statement) for statement in inner)

    def _with_bound(self, over: cst.BaseExpression, blocked: BlockedLoop) -> cst.BaseExpression:
        """Return a range of the new step that ends where it did."""
        if self._block not in names_within(blocked.bound):
            return over
        bound = render_code(blocked.bound)
        step = render_code(self._step[self._block])
        ends = f"tl.cdiv({bound}, {step})" if blocked.counts else f"0, {bound}, {step}"
        call = cst.ensure_type(over, cst.Call)
        kept = [arg for arg in call.args if arg.keyword is not None]
        args = cst.ensure_type(parse_expression(f"f({ends})"), cst.Call).args
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        args = [*args[:-1], args[-1].with_changes(comma=comma)] if kept else args
        return call.with_changes(args=[*args, *kept])

    def _without_ranges(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        ranges = [
            (node, cst.Integer("0"))
            for node in nodes_within(statement)
            if isinstance(node, cst.Call) and render_code(node) == self._range
        ]
        return replace_each(statement, ranges)

    def _of_ranges(self) -> dict[str, cst.BaseStatement]:
        """Return names ahead of the loop that are a range of the block, with no program's index."""
        values, numbers = dict[str, cst.BaseStatement](), set[str]()
        of_program = set[str]()  # where its block begins, and what follows from that
        assigned = assigned_names(*self._before)
        for statement in self._before:
            binding = single_assignment(statement)
            if binding is None:
                continue
            used = names_within(binding.value)
            if calls_within(binding.value, "tl.program_id") or used & numbers:
                numbers.add(binding.target)
            is_range = any(
                isinstance(node, cst.Call) and render_code(node) == self._range
                for node in nodes_within(binding.value)
            )
            is_own = assigned.count(binding.target) == 1 and (is_range or used & values.keys())
            if used & of_program or self._block_of_program(binding.value, numbers):
                of_program.add(binding.target)
            elif is_own:
                values[binding.target] = statement
        return values

    def _block_of_program(self, value: cst.BaseExpression, numbers: set[str]) -> bool:
        """Tell whether a value is of the program's own block, as ``pid * BLOCK + range``."""
        return any(
            is_operation(node, cst.Multiply)
            and self._block in names_within(node)
            and (names_within(node) & numbers or calls_within(node, "tl.program_id"))
            for node in nodes_within(value)
        )

    def _only_in_loop(self, values: Mapping[str, cst.BaseStatement]) -> set[str]:
        """Return the names that only the loop reads, and those that such names are made of."""
        columns = set(values)
        while True:
            own = {id(values[name]) for name in columns}
            others = [statement for statement in self._outside if id(statement) not in own]
            kept = {name for name in columns if name not in names_within(*others)}
            if kept == columns:
                return columns
            columns = kept

    def _in_loop(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        """Return a statement with the new constant in ranges, and where pointers move on."""
        binding = single_assignment(statement)
        if binding is not None and binding.operator == "+=" and _is_product(binding.operand):
            return substitute_names(statement, self._step)
        firsts = (f"{self._loop.name}*{self._block}", f"{self._block}*{self._loop.name}")
        pairs: list[Swap] = [
            (node, substitute_names(node, self._step))
            for node in nodes_within(statement)
            if (isinstance(node, cst.Call) and render_code(node) == self._range)
            or (isinstance(node, cst.BinaryOperation) and plain_code(node) in firsts)
        ]
        return replace_each(statement, pairs) if pairs else statement


def _follows_program(node: cst.BaseExpression, numbers: set[str]) -> bool:
    return bool(calls_within(node, "tl.program_id") or names_within(node) & numbers)


def _is_product(node: cst.BaseExpression) -> bool:
    """Tell whether a value is a product of names and numbers."""
    if is_operation(node, cst.Multiply):
        return _is_product(node.left) and _is_product(node.right)
    return isinstance(node, (cst.Name, cst.Integer))
