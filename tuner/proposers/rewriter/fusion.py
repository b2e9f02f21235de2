"""Two launches of one launcher become one: the value between them stays in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    has_assignment,
    launch_line,
    options_of,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._values import argument_aliases, without_repeats

__all__ = ["FuseLaunches"]

_ALLOCATORS = ("torch.empty", "torch.empty_like", "torch.zeros", "torch.zeros_like")
_USES = 3  # it is made, written by one launch, and read by another


@dataclass(frozen=True)
class _Pair:
    """Two launches, with a tensor that one writes and the other reads.

    Attributes:
        writer, reader: the launches.
        written, read: the parameters that get the tensor.
        store: the writer's statement.
        allocation: the launcher's statement that allocates it.
    """

    writer: Launch
    reader: Launch
    written: str
    read: str
    store: cst.BaseStatement
    allocation: cst.BaseStatement


class FuseLaunches:
    """An elementwise producer is computed within its consumer.

    Applies where both launches have the same grid and neither function has loops or branches, the
    tensor between them is local to the launcher and used by nothing else, and the consumer loads
    it only at the places where the producer's program with the same index stores it.
    """

    kind = "fuse launches"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for writer in text.single:
            for reader in text.single:
                pair = _fusable_pair(text, writer, reader)
                if pair is not None and (source := _fuse_pair(text, pair)):
                    why = facts.explain_factors("extra traffic", "launch")
                    yield Variant(
                        source,
                        f"{writer.function.name} writes what {reader.function.name} reads at the "
                        f"same places; together they need no memory between them{why}.",
                    )


def _fusable_pair(text: KernelText, writer: Launch, reader: Launch) -> _Pair | None:
    if writer is reader or writer.launcher is not reader.launcher or not _same_grid(writer, reader):
        return None
    if not all(_is_straight(launch.function) for launch in (writer, reader)):
        return None
    if text.launches.index(writer) > text.launches.index(reader):
        return None
    stores = [
        s for s in writer.function.body if called_name(expression_statement(s) or s) == "tl.store"
    ]
    if len(stores) != 1:
        return None
    for written, argument in writer.arguments.items():
        for read, other in reader.arguments.items():
            statement = has_assignment(writer.launcher, render_code(argument))
            if (
                statement is None
                or render_code(argument) != render_code(other)
                or not isinstance(argument, cst.Name)
            ):
                continue
            allocation = single_assignment(statement)
            local = allocation is not None and called_name(allocation.value) in _ALLOCATORS
            uses = _count_uses(writer.launcher, argument.value)
            if local and uses == _USES and written in _pointer_names(stores[0], writer.function):
                return _Pair(writer, reader, written, read, stores[0], statement)
    return None


def _same_grid(one: Launch, two: Launch) -> bool:
    if one.axes is None or two.axes is None:
        return False
    return [render_code(axis) for axis in one.axes] == [render_code(axis) for axis in two.axes]


def _is_straight(function: JitFunction) -> bool:
    plain = all(isinstance(statement, cst.SimpleStatementLine) for statement in function.body)
    written = assigned_names(*function.body)
    return plain and len(written) == len(set(written))


def _count_uses(node: cst.CSTNode, name: str) -> int:
    return sum(isinstance(other, cst.Name) and other.value == name for other in nodes_within(node))


def _pointer_names(store: cst.BaseStatement, function: JitFunction) -> set[str]:
    call = expression_statement(store)
    pointer = argument_of(call, 0, "pointer") if isinstance(call, cst.Call) else None
    return set() if pointer is None else set(_resolve_names(pointer, function, {}).split("\0"))


def _resolve_names(
    node: cst.BaseExpression, function: JitFunction, arguments: Mapping[str, cst.BaseExpression]
) -> str:
    """Return an expression without the function's own names; with no arguments, the names in it."""
    values: dict[str, cst.BaseExpression] = {}
    for statement in function.body:
        binding = single_assignment(statement)
        if binding is not None:
            values[binding.target] = substitute_names(binding.value, values)
    whole = substitute_names(node, values)
    if not arguments:
        return "\0".join(names_within(whole))
    text = render_code(substitute_names(whole, arguments))
    return "".join(text.split()).replace("(", "").replace(")", "")


def _fuse_pair(text: KernelText, pair: _Pair) -> str:
    writer, reader = pair.writer, pair.reader
    store = cst.ensure_type(expression_statement(pair.store), cst.Call)
    target, value = argument_of(store, 0, "pointer"), argument_of(store, 1, "value")
    if target is None or value is None:
        return ""
    mapping, arguments = _parameters(pair)
    loads = _loads_of_target(pair, target)
    if not loads:
        return ""
    between = "between"
    while between in writer.function.names | reader.function.names:
        between += "_"
    kept = [s for s in writer.function.body if s is not pair.store]
    body: list[cst.BaseStatement] = [*kept, parse_statement(f"{between} = {render_code(value)}")]
    for statement in reader.function.body:
        pairs = [
            (call, _fill_masked(call, between)) for call in loads if call in calls_within(statement)
        ]
        body.append(substitute_names(replace_each(statement, pairs), mapping))
    merged = JitFunctionOf(writer, list(arguments))
    params = list(arguments)
    body = _without_doubles(without_repeats(body, argument_aliases(reader), params))
    name = text.fresh(f"{writer.function.name}_{reader.function.name}")
    node = merged.node(name, body, reader)
    constants = _constants(pair, mapping)
    statement = launch_line(
        name, render_code(reader.grid), arguments, options_of(reader), constants
    ).with_changes(leading_lines=writer.statement.leading_lines)
    return changed_text(
        text,
        functions={writer.function.name: None, reader.function.name: node},
        launches=[(pair.allocation, []), (writer.statement, []), (reader.statement, [statement])],
    )


def _without_doubles(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return straight code, each name assigned once, without names for the same value."""
    names_of: dict[str, str] = {}
    same: dict[str, cst.BaseExpression] = {}
    statements: list[cst.BaseStatement] = []
    for statement in body:
        changed_to = substitute_names(statement, same)
        binding = single_assignment(changed_to)
        if binding is None or calls_within(changed_to, "tl.load"):
            statements.append(changed_to)
            continue
        text = "".join(render_code(binding.value).split())
        if text in names_of:
            same[binding.target] = cst.Name(names_of[text])
            continue
        names_of[text] = binding.target
        statements.append(changed_to)
    return statements


def _loads_of_target(pair: _Pair, target: cst.BaseExpression) -> list[cst.Call]:
    """Return the reader's loads of the tensor; none if one is elsewhere or it is used otherwise."""
    reader, writer = pair.reader, pair.writer
    address = _resolve_names(target, writer.function, writer.arguments)
    loads = []
    for call in calls_within(reader.function.node, "tl.load"):
        pointer = argument_of(call, 0, "pointer")
        if pointer is None:
            return []
        if pair.read not in _resolve_names(pointer, reader.function, {}).split("\0"):
            continue
        if _resolve_names(pointer, reader.function, reader.arguments) != address:
            return []
        loads.append(call)
    stores = calls_within(reader.function.node, "tl.store")
    written = {
        n for c in stores for n in _resolve_names(c.args[0].value, reader.function, {}).split("\0")
    }
    return [] if pair.read in written else loads


def _fill_masked(call: cst.Call, value: str) -> cst.BaseExpression:
    mask, fill = argument_of(call, 1, "mask"), argument_of(call, 2, "other")
    if mask is None or fill is None:
        return cst.Name(value)
    return parse_expression(f"tl.where({render_code(mask)}, {value}, {render_code(fill)})")


def _parameters(pair: _Pair) -> tuple[dict[str, cst.BaseExpression], dict[str, str]]:
    """Return new names in the reader's code, and the fused launch's arguments by parameter."""
    writer, reader = pair.writer, pair.reader
    mine = arguments_of(writer)
    mine.pop(pair.written)
    by_code = {value: name for name, value in mine.items()}
    mapping: dict[str, cst.BaseExpression] = {}
    arguments = {n: v for n, v in mine.items() if n not in writer.function.constants}
    constants = {n: v for n, v in mine.items() if n in writer.function.constants}
    taken = set(writer.function.names)
    for name, value in arguments_of(reader).items():
        if name == pair.read:
            continue
        constant = name in reader.function.constants
        shared = by_code.get(value)
        if shared is not None and (shared in writer.function.constants) == constant:
            mapping[name] = cst.Name(shared)
            continue
        new = _fresh_name(name, taken)
        taken.add(new)
        mapping[name] = cst.Name(new)
        (constants if constant else arguments)[new] = value
    for name in assigned_names(*reader.function.body):
        new = _fresh_name(name, taken)
        taken.add(new)
        mapping[name] = cst.Name(new)
    return mapping, {**arguments, **constants}


def _fresh_name(name: str, taken: set[str]) -> str:
    new, count = name, 2
    while new in taken:
        new, count = f"{name}_{count}", count + 1
    return new


def _constants(pair: _Pair, mapping: Mapping[str, cst.BaseExpression]) -> set[str]:
    theirs = {
        render_code(mapping[name]) for name in pair.reader.function.constants if name in mapping
    }
    return {*pair.writer.function.constants, *theirs}


class JitFunctionOf:
    """Makes the fused function's definition."""

    def __init__(self, writer: Launch, params: Sequence[str]) -> None:
        self._writer, self._params = writer, params

    def node(self, name: str, body: Sequence[cst.BaseStatement], reader: Launch) -> cst.FunctionDef:
        """Return the definition: plain parameters first, then constants."""
        definition = renamed_function(self._writer.function, name, body)
        constants = {*self._writer.function.constants, *reader.function.constants}
        listed = [
            f"{p}: tl.constexpr" if _is_constant_or_copy(p, constants) else p for p in self._params
        ]
        head = f"def f({', '.join(listed)}):"
        if len(head) > 90:
            head = "def f(\n" + "".join(f"    {p},\n" for p in listed) + "):"
        like = cst.ensure_type(parse_statement(f"{head}\n    pass\n"), cst.FunctionDef)
        return definition.with_changes(
            params=like.params, whitespace_before_params=like.whitespace_before_params
        )


def _is_constant_or_copy(name: str, constants: set[str]) -> bool:
    stem = name.rsplit("_", 1)[0] if name.rsplit("_", 1)[-1].isdigit() else name
    return name in constants or stem in constants
