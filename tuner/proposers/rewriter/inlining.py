"""Inlining: a launcher's own functions and a kernel's helpers become statements of their caller.

Rewrites see one function of the host, ``kernel``, and Triton functions that call no other of the
file. A function is inlined if it ends with its only ``return`` and names nothing that would mean
something else where it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst

from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Values,
    all_params,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    free_name,
    functions_in,
    is_docstring,
    is_return,
    names_within,
    nodes_within,
    parenthesized,
    parse_statement,
    reached_names,
    render_code,
    replace_each,
    small_statement,
    statements_of,
    substitute_names,
    walk_statements,
    with_each,
)
from solkit.tuner.proposers.rewriter._parse import read_module

_MOST = 40
"""Calls that are inlined in a file; beyond, it stays as it is."""
_UNORDERED = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.CompFor, cst.FunctionDef)
"""Nodes of which a part may not run at all, or later: no call within is moved ahead of them."""
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Global, cst.Nonlocal, cst.CompFor)
_LAUNCHER = "kernel"
_OF_THE_PROBLEM = ("reference", "inputs", "check", "valid", _LAUNCHER)

_TURN_OFF = (
    *("torch.no_grad", "torch.inference_mode"),
    *("torch.compiler.disable", "torch._dynamo.disable", "torch.jit.ignore"),
)


@dataclass(frozen=True)
class _Inlined:
    """A call's statements, and the value that takes its place; ``None`` if it returns nothing."""

    statements: Body
    value: cst.BaseExpression | None


def with_inlined_launchers(tree: cst.Module) -> cst.Module:
    """Return the module whose ``kernel`` has the launches of plain functions that it calls."""
    for _ in range(_MOST):
        text = read_module(tree)
        if text is None:
            return tree
        launching = {launch.launcher.name.value for launch in text.launches}
        launching |= {f.name.value for f in tree.body if _launches_argument(f)}
        plain = {
            name: node
            for name, node in functions_in(tree.body).items()
            if all(map(_only_turns_off, node.decorators))
            and name not in _OF_THE_PROBLEM
            and not calls_within(node, _LAUNCHER)  # an entry point of another form
            and name in launching | _callers(tree, launching)
        }
        node = _with_one_inlined(text.launcher, plain, set())
        if node is None:
            return _without_unused(tree, plain)
        tree = replace_each(tree, [(text.launcher, node)])
    return tree


def _only_turns_off(decorator: cst.Decorator) -> bool:
    """Tell whether a decorator only turns gradients or tracing off: launches have neither."""
    node = decorator.decorator
    if isinstance(node, cst.Call):
        node = node.func if not node.args else node
    return render_code(node) in _TURN_OFF


def _launches_argument(node: cst.CSTNode) -> TypeGuard[cst.FunctionDef]:
    """Tell whether a function launches what it is given, as in ``fn[grid](x)``."""
    if not isinstance(node, cst.FunctionDef):
        return False
    launched = (c.func.value for c in calls_within(node.body) if isinstance(c.func, cst.Subscript))
    return any(isinstance(fn, cst.Name) and fn.value in _params_of(node) for fn in launched)


def _callers(tree: cst.Module, names: set[str]) -> set[str]:
    """Return functions of the module that call one of these, or call such a function."""
    functions = functions_in(tree.body)
    called = {name: set(map(called_name, calls_within(f))) for name, f in functions.items()}
    return {name for name in called if reached_names(called, name) & names} - names


def with_inlined_helpers(tree: cst.Module) -> cst.Module:
    """Return the module whose launched Triton functions call no other of the file, if possible."""
    for _ in range(_MOST):
        text = read_module(tree)
        if text is None:
            return tree
        helpers = {name: f.node for name, f in text.functions.items() if not f.tuned}
        constants = {name: set(f.constants) for name, f in text.functions.items()}
        changed = None
        for name in dict.fromkeys(launch.function.name for launch in text.live):
            node = text.functions[name].node
            inner = {other: helper for other, helper in helpers.items() if other != name}
            new = _with_one_inlined(node, inner, constants)
            if new is not None:
                changed = replace_each(tree, [(node, new)])
                break
        if changed is None:
            return _without_unused(tree, helpers)
        tree = changed
    return tree


def _without_unused(tree: cst.Module, helpers: Mapping[str, cst.FunctionDef]) -> cst.Module:
    """Return the module without functions that nothing else names any more."""
    body, before = list(tree.body), 0
    while len(body) != before:  # one may be named by another that nothing names
        before = len(body)
        for node in helpers.values():
            rest = [statement for statement in body if statement is not node]
            if node.name.value not in names_within(*rest):
                body = rest
    return tree.with_changes(body=body)


# ------------------------------------------------------------------------------- one call


_Constants = Mapping[str, set[str]] | set[str]


def _with_one_inlined(
    caller: cst.FunctionDef, functions: Mapping[str, cst.FunctionDef], constants: _Constants
) -> cst.FunctionDef | None:
    """Return the caller with its first call that can be inlined; ``None`` if there is none."""
    for statement in walk_statements(statements_of(caller)):
        for call in _calls_ahead(statement):
            function = functions.get(called_name(call))
            if function is None:
                continue
            fixed = (
                constants.get(called_name(call), set()) if isinstance(constants, Mapping) else set()
            )
            if _free_names(function) & _bound_names(caller):
                continue
            is_tail = isinstance(constants, set) and _is_returned(statement, call)
            inlined = _inlined(call, function, names_within(caller), fixed, is_tail)
            swapped = None if inlined is None else _swapped(statement, call, inlined)
            if swapped is not None:
                return with_each(caller, {id(statement): swapped})
    return None


def _is_returned(statement: cst.BaseStatement, call: cst.Call) -> bool:
    """Tell whether a statement only returns a call's value."""
    small = small_statement(statement)
    return isinstance(small, cst.Return) and small.value is call


def _bound_names(function: cst.FunctionDef) -> set[str]:
    """Return names that a function gives a meaning of its own: they hide the module's."""
    nested = _nested_names(statements_of(function))
    return nested | _params_of(function) | set(assigned_names(*statements_of(function)))


def _free_names(function: cst.FunctionDef) -> set[str]:
    """Return names of the module, or of Python, that a function reads."""
    return names_within(*statements_of(function)) - _bound_names(function)


def _params_of(function: cst.FunctionDef) -> set[str]:
    return {param.name.value for param in all_params(function)}


def _calls_ahead(statement: cst.BaseStatement) -> list[cst.Call]:
    """Return the calls of a statement that run before anything else of it, innermost first."""
    if isinstance(statement, cst.SimpleStatementLine):
        parts: list[cst.CSTNode] = [statement]
    elif isinstance(statement, cst.If):
        parts = [statement.test]
    elif isinstance(statement, cst.For):
        parts = [statement.iter]
    else:
        return []
    calls = [node for part in parts for node in _ordered(part) if isinstance(node, cst.Call)]
    return calls[::-1]


def _ordered(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and what is within it, but for parts that may not run."""
    yield node
    if not isinstance(node, _UNORDERED):
        for child in child_nodes(node):
            yield from _ordered(child)


def _swapped(
    statement: cst.BaseStatement, call: cst.Call, inlined: _Inlined
) -> list[cst.BaseStatement] | None:
    """Return what replaces a statement; ``None`` if other effects would change their order."""
    small = small_statement(statement)
    is_all = small is not None and getattr(small, "value", None) is call
    writes = any(calls_within(inner, *WRITES) for inner in inlined.statements)
    if writes and not is_all:
        return None
    if inlined.value is None:
        if is_all and isinstance(small, cst.Return):
            ends = [*inlined.statements[-1:], parse_statement("return None")]
            return [*inlined.statements[:-1], *(ends[:1] if is_return(ends[0]) else ends)]
        alone = is_all and isinstance(small, cst.Expr)
        return list(inlined.statements) if alone else None
    if is_all and isinstance(small, cst.Expr):
        return list(inlined.statements)
    value = inlined.value if is_all else parenthesized(inlined.value)
    return [*inlined.statements, replace_each(statement, [(call, value)])]


def _inlined(
    call: cst.Call,
    function: cst.FunctionDef,
    taken: set[str],
    constants: set[str],
    is_tail: bool = False,
) -> _Inlined | None:
    """Return a call as statements; ``None`` if the function is of another form.

    Of a call whose value its caller returns, ``return`` may be anywhere.
    """
    body, value = _parts(function)
    if body is None and is_tail:
        body = _whole_body(function)
    arguments = _bound(call, function)
    if body is None or arguments is None:
        return None
    params = set(arguments)
    assigned = set(assigned_names(*body)) | _nested_names(body)
    ahead: list[cst.BaseStatement] = []
    names: dict[str, cst.BaseExpression] = {}
    free = set(taken)
    for name in sorted(assigned - params):
        names[name] = cst.Name(free_name(name, free))
    for name, argument in arguments.items():
        direct = name not in assigned and (_is_atom(argument) or name in constants)
        if direct:
            names[name] = argument
        elif name in constants:
            return None
        else:
            names[name] = cst.Name(free_name(name, free))
            ahead.append(parse_statement(f"{render_code(names[name])} = {render_code(argument)}"))
    has_scopes = any(isinstance(node, _SCOPES) for node in nodes_within(*body))
    if has_scopes and not all(isinstance(other, cst.Name) for other in names.values()):
        names, ahead = _all_named(names, free, ahead, assigned)
    statements = [*ahead, *(substitute_names(statement, names) for statement in body)]
    return _Inlined(statements, None if value is None else substitute_names(value, names))


def _all_named(
    names: Values, free: set[str], ahead: Body, assigned: set[str]
) -> tuple[dict[str, cst.BaseExpression], list[cst.BaseStatement]]:
    """Return names instead of expressions: a name can be replaced where it is bound, too."""
    result, statements = dict(names), list(ahead)
    for name, argument in names.items():
        if not isinstance(argument, cst.Name):
            assert name not in assigned
            result[name] = cst.Name(free_name(name, free))
            statements.append(
                parse_statement(f"{render_code(result[name])} = {render_code(argument)}")
            )
    return result, statements


def _parts(
    function: cst.FunctionDef,
) -> tuple[list[cst.BaseStatement] | None, cst.BaseExpression | None]:
    """Return a function's statements, and what it returns at its end; ``None`` for other forms."""
    body = [statement for statement in statements_of(function) if not is_docstring(statement)]
    returns = [
        node
        for statement in body
        for node in _without_functions(statement)
        if isinstance(node, (cst.Return, cst.Yield, cst.Global, cst.Nonlocal))
    ]
    if not returns:
        return body, None
    last = body[-1]
    only = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
    if len(returns) > 1 or only is not returns[0] or not isinstance(only, cst.Return):
        return None, None
    if len(cst.ensure_type(last, cst.SimpleStatementLine).body) > 1:
        return None, None
    return body[:-1], only.value


def _whole_body(function: cst.FunctionDef) -> list[cst.BaseStatement] | None:
    """Return statements that return for their caller; ``None`` for a generator and the like."""
    body = [statement for statement in statements_of(function) if not is_docstring(statement)]
    kinds = (cst.Yield, cst.Global, cst.Nonlocal)
    others = any(isinstance(node, kinds) for s in body for node in _without_functions(s))
    return None if others else body


def _without_functions(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    if not isinstance(node, cst.FunctionDef):
        for child in child_nodes(node):
            yield from _without_functions(child)


def _nested_names(body: Body) -> set[str]:
    """Return names of functions within, and of their parameters."""
    nodes = list(nodes_within(*body))
    return {n.name.value for n in nodes if isinstance(n, (cst.FunctionDef, cst.Param))}


def _bound(call: cst.Call, function: cst.FunctionDef) -> dict[str, cst.BaseExpression] | None:
    """Return the arguments by parameter, with defaults; ``None`` if they cannot be matched."""
    params = function.params
    if (
        params.star_kwarg
        or isinstance(params.star_arg, cst.Param)
        or any(a.star for a in call.args)
    ):
        return None
    plain = [*params.posonly_params, *params.params]
    values = {p.name.value: p.default for p in (*plain, *params.kwonly_params)}
    passed = {}
    for place, arg in enumerate(call.args):
        if arg.keyword is None and place >= len(plain):
            return None
        passed[plain[place].name.value if arg.keyword is None else arg.keyword.value] = arg.value
    if not set(passed) <= set(values):
        return None
    bound = {name: passed.get(name, default) for name, default in values.items()}
    arguments = {name: value for name, value in bound.items() if value is not None}
    return arguments if len(arguments) == len(bound) else None


def _is_atom(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Integer, cst.Float))
