"""Each launch gets a function of its own: rewrites then suit it to what the launch is for.

* A launcher's loop of few trips is written out, since each trip launches for itself.
* Of a function that is launched several times, each launch gets a copy.
* A branch that a launch's constants decide, such as ``if HAS_BIAS``, is gone. So is one that its
  grid decides: no program of a grid of ``(rows,)`` returns because of ``program_id(0) >= rows``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import values_of
from solkit.tuner.proposers.rewriter._edit import program_axis
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    bound_names,
    called_name,
    calls_within,
    compact_code,
    integer_literal,
    names_within,
    nodes_within,
    numbered_name,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import comparison_parts
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    read_module,
)

_MOST_TRIPS = 8
_MOST_COPIES = 8
"""Launches of one function that get copies; beyond, all share it."""
_COMPARISONS: dict[str, Callable[[Any, Any], object]] = {
    **{"==": operator.eq, "!=": operator.ne, "is": operator.is_, "is not": operator.is_not},
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
}
_NAMED = {"True": True, "False": False, "None": None}
_UNKNOWN = object()


def without_host_loops(tree: cst.Module) -> cst.Module:
    """Return the module whose ``kernel`` has no loop of few trips around a launch."""
    text = read_module(tree)
    if text is None:
        return tree
    launches = {id(launch.statement) for launch in text.launches}
    body = list(_written_out(statements_of(text.launcher), launches))
    return replace_each(tree, [(text.launcher, with_body(text.launcher, body))])


def _written_out(body: Body, launches: set[int]) -> Iterator[cst.BaseStatement]:
    for place, statement in enumerate(body):
        launching = any(id(node) in launches for node in nodes_within(statement))
        trips = _trips(statement) if launching else None
        name = render_code(statement.target) if isinstance(statement, cst.For) else ""
        if trips is None or name in names_within(*body[place + 1 :]):
            yield statement
            continue
        for trip in trips:
            value = {name: cst.Integer(str(trip))}
            yield from (substitute_names(s, value) for s in statements_of(statement))


def _trips(statement: cst.BaseStatement) -> range | None:
    """Return a loop's values if it can be written out: few, and nothing leaves or names more."""
    loop = range_loop(statement)
    if loop is None:
        return None
    bounds = [integer_literal(bound) for bound in (loop.start, loop.stop, loop.step)]
    numbers = [bound for bound in bounds if bound is not None]
    kinds = (cst.Break, cst.Continue, cst.Return, cst.Lambda, cst.FunctionDef, cst.CompFor)
    is_plain = not any(isinstance(node, kinds) for node in nodes_within(*loop.body))
    is_plain = is_plain and loop.name not in assigned_names(*loop.body)
    if len(numbers) < 3 or not numbers[2] or not is_plain:
        return None
    trips = range(*numbers)
    return trips if len(trips) <= _MOST_TRIPS else None


def without_shared_functions(tree: cst.Module) -> cst.Module:
    """Return the module whose ``kernel`` launches functions that no code beside it names.

    A test, or a layer's method that is also part of ``kernel``, gets a copy of the function as it
    was, with its decorators. ``kernel`` keeps the name, by which launches were recorded.
    """
    text = read_module(tree)
    if text is None:
        return tree
    launched = {e.function.name for e in text.launches if e.launcher.name.value in text.reached}
    functions = {id(f.node) for f in text.functions.values()}
    apart = {
        id(s): s
        for s in tree.body
        if id(s) not in functions
        and not (isinstance(s, cst.FunctionDef) and s.name.value in text.reached)
    }
    taken, copies = set(text.names), dict[str, cst.FunctionDef]()
    for name in sorted(launched):
        others = [f.node for f in text.functions.values() if f.name != name]
        if name in names_within(*apart.values()) and name not in names_within(*others):
            copy = cst.Name(numbered_name(name, taken))
            taken.add(copy.value)
            copies[name] = text.functions[name].node.deep_clone().with_changes(name=copy)
    if not copies:
        return tree
    names = {name: copy.name for name, copy in copies.items()}
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for statement in tree.body:
        is_apart = id(statement) in apart and names_within(statement) & names.keys()
        body.append(substitute_names(statement, names) if is_apart else statement)
        own = statement.name.value if isinstance(statement, cst.FunctionDef) else ""
        body += [copies[own]] if own in copies else []
    return tree.with_changes(body=body)


def with_own_functions(tree: cst.Module) -> cst.Module:
    """Return the module in which no two launches of ``kernel`` share a function."""
    text = read_module(tree)
    if text is None:
        return tree
    inner = {called_name(c) for f in text.functions.values() for c in calls_within(f.node)}
    body = list(tree.body)
    pairs: list[Swap] = []
    taken = set(text.names)
    for name, function in text.functions.items():
        launches = text.launches_of(name)
        is_own = not function.tuned and name not in inner
        if not is_own or not _are_plain(launches, text):
            continue
        for launch in launches[1:]:
            copy = numbered_name(name, taken)
            place = body.index(function.node) + 1
            body.insert(place, function.node.deep_clone().with_changes(name=cst.Name(copy)))
            subscript = cst.ensure_type(launch.call.func, cst.Subscript)
            pairs.append((subscript.value, cst.Name(copy)))
    launcher = replace_each(text.launcher, pairs)
    return tree.with_changes(body=[launcher if s is text.launcher else s for s in body])


def alike_functions(text: KernelText) -> list[tuple[str, ...]]:
    """Return the names of functions that are slow for the same reasons, each group once.

    They differ in nothing but their names, or are launched one after the other with the same
    arguments, constants aside: the parts of a function whose loops are shared are such.
    """
    copies = _alike_functions(tuple(launch.function for launch in text.single))
    copied = {name for group in copies for name in group}
    parts: dict[tuple[str, ...], list[str]] = {}
    for launch in text.single:
        if all(statement is not launch.statement for statement in statements_of(launch.launcher)):
            continue  # in a branch, as next to the launch of other sizes
        constants = launch.function.constants
        passed = [(n, v) for n, v in launch.arguments.items() if n not in constants]
        key = (launch.launcher.name.value, *(f"{n}={compact_code(v)}" for n, v in passed))
        parts.setdefault(key, []).append(launch.function.name)
    groups = [tuple(name for name in names if name not in copied) for names in parts.values()]
    return [*copies, *(group for group in groups if len(group) > 1)]


@functools.lru_cache(64)  # each rewrite of a file asks
def _alike_functions(functions: tuple[JitFunction, ...]) -> list[tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for function in functions:
        node = function.node.with_changes(name=cst.Name("f"), leading_lines=[])
        groups.setdefault(render_code(node), []).append(function.name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def _are_plain(launches: Sequence[Launch], text: KernelText) -> bool:
    """Tell whether launches are several, in ``kernel``, and one after the other."""
    top = {id(statement) for statement in statements_of(text.launcher)}
    return 1 < len(launches) <= _MOST_COPIES and all(id(e.statement) in top for e in launches)


# ------------------------------------------------------------------------------- branches


def without_decided_branches(tree: cst.Module) -> cst.Module:
    """Return the module whose functions have no branch that their only launch decides.

    Its constants decide some, and its grid others.
    """
    text = read_module(tree)
    if text is None:
        return tree
    swaps: dict[int, list[cst.CSTNode]] = {}
    for launch in text.single:
        constants = _decided_constants(launch)
        branches = [node for node in nodes_within(launch.function.node) if isinstance(node, cst.If)]
        others = {id(branch.orelse) for branch in branches}  # each an ``elif``: no statement
        for branch in branches:
            holds = _value(branch.test, constants)
            holds = _grid_decision(branch.test, launch) if holds is _UNKNOWN else holds
            kept = None if id(branch) in others else _kept_if(branch, holds)
            if kept is not None:
                swaps[id(branch)] = kept
    return without_decided_branches(with_each(tree, swaps)) if swaps else tree


def without_decided_options(tree: cst.Module) -> cst.Module:
    """Return the module without branches outside of functions that its own options decide.

    An option is a name that the module binds once, to a literal, such as a switch of autotuning.
    """
    branches = [statement for statement in tree.body if isinstance(statement, cst.If)]
    if not branches:
        return tree
    functions = [s for s in tree.body if isinstance(s, (cst.FunctionDef, cst.ClassDef))]
    assigned = [function.name.value for function in functions]
    assigned += bound_names(*(s for s in tree.body if s not in functions))
    if "*" in assigned:
        return tree
    writable = [node.names for node in nodes_within(tree) if isinstance(node, cst.Global)]
    assigned += [item.name.value for names in writable for item in names]
    options = {
        binding.target: value
        for statement in tree.body
        if (binding := single_assignment(statement)) and assigned.count(binding.target) == 1
        if (value := _literal(binding.value)) is not _UNKNOWN
    }
    kept = {id(branch): kept_statements(branch, options) for branch in branches}
    swaps = {place: statements for place, statements in kept.items() if statements is not None}
    return with_each(tree, swaps) if swaps else tree


def _decided_constants(launch: Launch) -> dict[str, object]:
    """Return constants of a launch that are literals, and no sizes of blocks.

    A word that the launcher names once is a literal, too.
    """
    sizes, launcher = size_names(launch.function.body), launch.launcher
    params = {param.name.value for param in launcher.params.params}
    values = {}
    for name in launch.function.constants - sizes:
        argument = launch.arguments.get(name)
        if argument is None or launch.function.reassigned(name):
            continue
        if isinstance(argument, cst.Name) and argument.value not in {*_NAMED, *params}:
            word = launcher_definition(argument.value, launcher)
            argument = word if isinstance(word, cst.SimpleString) else argument
        values[name] = _literal(argument)
    return {name: value for name, value in values.items() if value is not _UNKNOWN}


def size_names(body: Body) -> set[str]:
    """Return names in the lengths of ranges, of blocks and of loops: they may be tuned."""
    kinds = ("tl.arange", "range", "tl.range", "tl.cdiv", "tl.zeros")
    calls = [call for statement in body for call in calls_within(statement, *kinds)]
    return names_within(*(arg.value for call in calls for arg in call.args))


def _literal(node: cst.BaseExpression) -> object:
    if isinstance(node, cst.Name):
        return _NAMED.get(node.value, _UNKNOWN)
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    number = integer_literal(node)
    return _UNKNOWN if number is None else number


def kept_statements(branch: cst.If, constants: Mapping[str, object]) -> list[cst.CSTNode] | None:
    """Return what remains of a branch; ``None`` if its test is not decided."""
    return _kept_if(branch, _value(branch.test, constants))


def _kept_if(branch: cst.If, holds: object) -> list[cst.CSTNode] | None:
    if holds is _UNKNOWN:
        return None
    if holds or branch.orelse is None:
        return list(statements_of(branch)) if holds else []
    is_elif = isinstance(branch.orelse, cst.If)
    return [branch.orelse] if is_elif else list(statements_of(branch.orelse))


def _grid_decision(test: cst.BaseExpression, launch: Launch) -> object:
    """Return whether a comparison of a program's index with its grid's size holds, if it is one."""
    parts = comparison_parts(test)
    if parts is None:
        return _UNKNOWN
    index, sign, compared = parts
    if isinstance(index, cst.Name):
        values = values_of(index.value, launch.function.body)
        is_only = assigned_names(launch.function.node).count(index.value) == 1
        index = values[0] if values and is_only else index
    axis, compare = program_axis(index), _COMPARISONS.get(sign)
    if axis is None or compare is None or axis >= len(launch.axes or ()):
        return _UNKNOWN
    size, bound = (launch.axes or ())[axis], in_launcher(compared, launch)
    number = None if bound is None else integer_literal(bound)
    if integer_literal(size) == 1 and number is not None:
        return compare(0, number)
    read = names_within(compared) & set(assigned_names(launch.function.node))
    if bound is None or read or not _is_fixed(size, launch):
        return _UNKNOWN
    return compare(0, 1) if compact_code(bound) == compact_code(size) else _UNKNOWN


def _is_fixed(size: cst.BaseExpression, launch: Launch) -> bool:
    """Tell whether an expression has one value wherever a launcher computes it."""
    assigned = [*assigned_names(launch.launcher)]
    params = {param.name.value for param in launch.launcher.params.params}
    names = names_within(size)
    return all(assigned.count(name) <= (0 if name in params else 1) for name in names)


def _value(node: cst.BaseExpression, constants: Mapping[str, object]) -> object:
    """Return what an expression of constants is; of ``and`` and ``or`` only whether it is true."""
    if isinstance(node, cst.Name) and node.value in constants:
        return constants[node.value]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        inner = _value(node.expression, constants)
        return _UNKNOWN if inner is _UNKNOWN else not inner
    if isinstance(node, cst.BooleanOperation):
        return _joined(node, constants)
    if (parts := comparison_parts(node)) is None:
        return _literal(node)
    first, sign, second = parts
    if isinstance(first, cst.BooleanOperation) or isinstance(second, cst.BooleanOperation):
        return _UNKNOWN
    sides = [_value(part, constants) for part in (first, second)]
    compare = _COMPARISONS.get(sign)
    if compare is None or _UNKNOWN in sides:
        return _UNKNOWN
    try:
        return compare(*sides)
    except TypeError:
        return _UNKNOWN


def _joined(node: cst.BooleanOperation, constants: Mapping[str, object]) -> object:
    sides = [_value(side, constants) for side in (node.left, node.right)]
    decides = isinstance(node.operator, cst.Or)
    if any(side is not _UNKNOWN and bool(side) == decides for side in sides):
        return decides
    return _UNKNOWN if _UNKNOWN in sides else not decides
