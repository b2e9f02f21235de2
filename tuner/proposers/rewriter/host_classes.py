"""Classes that only launch become functions: autograd functions, and objects that are called.

``Norm.apply(x)`` becomes a call of what its ``forward`` does, without the context, if nothing in
the file asks for a gradient. ``Linear(32)(x)`` becomes a call of what ``__call__`` or ``forward``
does, with the attributes that ``__init__`` and the class set as names. So does ``layer(x)`` after
``layer = Linear(32)``, if the object is only called. `inlining` then sees plain functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    called_name,
    calls_within,
    compound_statement,
    functions_in,
    names_within,
    nodes_within,
    parse_statement,
    plain_assignment,
    render_code,
    replace_each,
    single_assignment,
    small_statement,
    statements_of,
    substitute_names,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import call_args

_STATEMENT = cst.BaseStatement
_GRADIENTS = {"backward", "grad", "requires_grad", "requires_grad_"}
_CALLED = ("__call__", "forward")
_CONTEXT_METHODS = ("save_for_backward", "mark_non_differentiable", "set_materialize_grads")


@dataclass(frozen=True)
class _Method:
    """A method as a function of the module.

    Attributes:
        node: the function.
        is_applied: whether it is called as ``Name.apply()``; else as ``Name()()``.
        of_object: the parameters of ``__init__``, in order.
    """

    node: cst.FunctionDef
    is_applied: bool
    of_object: tuple[str, ...] = ()


def with_plain_functions(tree: cst.Module) -> cst.Module:
    """Return the module in which calls of such classes are calls of functions."""
    taken = names_within(tree)
    methods = {
        node.name.value: method
        for node in tree.body
        if isinstance(node, cst.ClassDef)
        and f"{node.name.value}_call" not in taken
        and (method := _method_of(node, tree)) is not None
    }
    tree = _with_objects_in_place(tree, {n for n, m in methods.items() if not m.is_applied})
    pairs: list[Swap] = []
    used: list[cst.FunctionDef] = []
    for call in calls_within(tree):
        name, arguments = _call_of_class(call, methods)
        method = methods.get(name)
        if method is not None and method.is_applied == (called_name(call) == f"{name}.apply"):
            pairs.append((call, cst.Call(cst.Name(method.node.name.value), arguments)))
            used.append(method.node)
    if not pairs:
        return tree
    tree = replace_each(tree, pairs)
    rest = [s for s in tree.body if not _is_unused_class(s, tree, set(methods))]
    functions = {node.name.value: node for node in used}
    place = next((at for at, s in enumerate(rest) if _is_launcher(s)), len(rest))
    return tree.with_changes(body=[*rest[:place], *functions.values(), *rest[place:]])


def _is_launcher(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.FunctionDef) and statement.name.value == "kernel"


def _is_unused_class(statement: cst.CSTNode, tree: cst.Module, names: set[str]) -> bool:
    if not isinstance(statement, cst.ClassDef) or statement.name.value not in names:
        return False
    others = (node for node in tree.body if node is not statement)
    return statement.name.value not in names_within(*others)


def _with_objects_in_place(tree: cst.Module, classes: set[str]) -> cst.Module:
    """Return the module with ``Linear(32)(x)`` for ``layer(x)``, where nothing else is done."""
    swaps = {} if not classes else _objects_in_place(tree.body, tree, classes)
    for function in functions_in(tree.body).values() if classes else ():
        swaps |= _objects_in_place(statements_of(function), function, classes)
    return with_each(tree, swaps) if swaps else tree


def _objects_in_place(
    body: Sequence[cst.CSTNode], scope: cst.CSTNode, classes: set[str]
) -> dict[int, list[cst.CSTNode]]:
    """Return what replaces calls of objects that a scope makes, and their making, by `id`.

    The object is bound once and only called; what it is made of is not bound again after that. An
    object of the module is made of literals: a function may have names of its own.
    """
    swaps: dict[int, list[cst.CSTNode]] = {}
    bound, is_local = assigned_names(scope), isinstance(scope, cst.FunctionDef)
    for at, statement in enumerate(body):
        binding = single_assignment(statement) if isinstance(statement, _STATEMENT) else None
        constructor_call = None if binding is None else binding.value
        if (
            binding is None
            or not isinstance(constructor_call, cst.Call)
            or called_name(constructor_call) not in classes
        ):
            continue
        rest = [*nodes_within(*body[:at], *body[at + 1 :])]
        calls = [n for n in rest if isinstance(n, cst.Call) and called_name(n) == binding.target]
        uses = sum(isinstance(n, cst.Name) and n.value == binding.target for n in rest)
        parts = call_args(constructor_call)
        is_plain = not any(isinstance(n, (cst.Call, cst.Lambda)) for n in nodes_within(*parts))
        later = set(assigned_names(*body[at + 1 :])) if is_local else names_within(*parts)
        is_kept = not names_within(*parts) & later
        if is_plain and is_kept and bound.count(binding.target) == 1 and uses == len(calls) > 0:
            swaps[id(statement)] = []
            swaps |= {id(c): [c.with_changes(func=constructor_call.deep_clone())] for c in calls}
    return swaps


def _call_of_class(call: cst.Call, methods: Mapping[str, _Method]) -> tuple[str, Sequence[cst.Arg]]:
    """Return the class's name and the arguments: those of ``__init__`` last, by keyword."""
    if called_name(call).endswith(".apply"):
        return called_name(call).removesuffix(".apply"), call.args
    constructor_call = call.func
    if isinstance(constructor_call, cst.Attribute) and constructor_call.attr.value == "forward":
        constructor_call = constructor_call.value
    if not isinstance(constructor_call, cst.Call) or any(
        a.star for a in (*call.args, *constructor_call.args)
    ):
        return "", ()
    name = called_name(constructor_call)
    positional = [a for a in constructor_call.args if a.keyword is None]
    if name not in methods or len(positional) > len(methods[name].of_object):
        return "", ()
    names = iter(methods[name].of_object)
    of_object = [
        _by_keyword(a, a.keyword.value if a.keyword else next(names)) for a in constructor_call.args
    ]
    return name, (*call.args, *of_object)


def _by_keyword(argument: cst.Arg, name: str) -> cst.Arg:
    plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return argument.with_changes(keyword=cst.Name(f"own_{name}"), equal=plain)


def _method_of(node: cst.ClassDef, tree: cst.Module) -> _Method | None:
    """Return what a call of a class does; ``None`` if it is of another form."""
    functions = functions_in(statements_of(node))
    bases = [render_code(base.value) for base in node.bases]
    if any(base.endswith("Function") for base in bases):
        forward = functions.get("forward")
        return None if forward is None or _asks_gradients(tree, node) else _applied(node, forward)
    called = [functions[name] for name in _CALLED if name in functions]
    if len(called) != 1 or bases not in ([], ["torch.nn.Module"], ["nn.Module"], ["object"]):
        return None
    return _called(node, called[0], functions.get("__init__"))


def _asks_gradients(tree: cst.Module, node: cst.ClassDef) -> bool:
    """Tell whether the file outside a class names a gradient."""
    others = [statement for statement in tree.body if statement is not node]
    nodes = list(nodes_within(*others))
    attributes = {n.attr.value for n in nodes if isinstance(n, cst.Attribute)}
    keywords = {n.keyword.value for n in nodes if isinstance(n, cst.Arg) and n.keyword}
    return bool((attributes | keywords) & _GRADIENTS)


def _applied(node: cst.ClassDef, forward: cst.FunctionDef) -> _Method | None:
    params = forward.params.params
    if not params or forward.params.star_kwarg or isinstance(forward.params.star_arg, cst.Param):
        return None
    context = params[0].name.value
    body = [s for s in statements_of(forward) if not _only_keeps(s, context)]
    if context in names_within(*body):
        return None
    return _Method(_function(node, forward, params[1:], body), is_applied=True)


def _only_keeps(statement: cst.BaseStatement, context: str) -> bool:
    """Tell whether a statement only keeps values in the context."""
    small = small_statement(statement)
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        return called_name(small.value) in [f"{context}.{name}" for name in _CONTEXT_METHODS]
    if not isinstance(small, cst.Assign) or context in names_within(small.value):
        return False
    targets = [render_code(target.target) for target in small.targets]
    is_pure = not any(isinstance(n, cst.Call) for n in nodes_within(small.value))
    return is_pure and all(target.startswith(f"{context}.") for target in targets)


def _called(
    node: cst.ClassDef, method: cst.FunctionDef, init: cst.FunctionDef | None
) -> _Method | None:
    """Return a method with the attributes that ``__init__`` sets as names of its own."""
    own = method.params.params[0].name.value if method.params.params else ""
    begin: list[tuple[str, _STATEMENT] | None] = [*_constants_of(node)]
    begin += [] if init is None else _parts_of_init(init)
    if not own or None in begin:
        return None
    set_names = {name for part in begin if part is not None for name in part[:1]}
    ahead = [statement for part in begin if part is not None for statement in part[1:]]
    body = _with_own_names(statements_of(method), own, set_names)
    if body is None:
        return None
    others = [] if init is None else init.params.params[1:]
    renamed = [p.with_changes(name=cst.Name(f"own_{p.name.value}")) for p in others]
    if init and (init.params.kwonly_params or init.params.star_kwarg or _has_star(init)):
        return None
    function = _function(node, method, method.params.params[1:], [*ahead, *body])
    params = function.params.with_changes(kwonly_params=renamed)
    of_object = tuple(p.name.value for p in others)
    return _Method(function.with_changes(params=params), is_applied=False, of_object=of_object)


def _has_star(function: cst.FunctionDef) -> bool:
    return isinstance(function.params.star_arg, cst.Param)


def _constants_of(node: cst.ClassDef) -> Iterator[tuple[str, _STATEMENT]]:
    """Yield the names that a class's body binds to literals, each with its statement."""
    for binding in assignments_in(statements_of(node)):
        if any(
            isinstance(n, (cst.Name, cst.Call, cst.Lambda)) for n in nodes_within(binding.value)
        ):
            continue
        yield binding.target, _set(binding.target, binding.value)


def _set(name: str, value: cst.BaseExpression) -> _STATEMENT:
    return parse_statement(f"own_at_{name} = {render_code(value)}")


def _parts_of_init(init: cst.FunctionDef) -> Iterator[tuple[str, _STATEMENT] | None]:
    """Yield names of attributes with their statements; ``None`` for what is more.

    A check of the arguments has no name.
    """
    own = init.params.params[0].name.value
    params = {p.name.value: cst.Name(f"own_{p.name.value}") for p in init.params.params[1:]}
    for statement in unpacked_statements(statements_of(init)):
        text = render_code(statement).strip()
        if text == "super().__init__()" or text.startswith(('"""', "pass")):
            continue
        if (test := _test_of(statement)) is not None:
            is_pure = not any(isinstance(n, (cst.Call, cst.Lambda)) for n in nodes_within(test))
            if own in names_within(statement) or not is_pure:
                yield None
                return
            yield "", substitute_names(statement, params)
            continue
        if (sides := plain_assignment(statement)) is None:
            yield None
            return
        target, value = render_code(sides[0]), sides[1]
        name = target.removeprefix(f"{own}.")
        pure = not any(isinstance(n, (cst.Call, cst.Lambda)) for n in nodes_within(value))
        if not name.isidentifier() or name == target or own in names_within(value) or not pure:
            yield None
            return
        yield name, _set(name, substitute_names(value, params))


def _test_of(statement: _STATEMENT) -> cst.BaseExpression | None:
    """Return what a statement tests that does nothing but to raise an error."""
    if isinstance(statement, cst.If) and statement.orelse is None:
        body = statements_of(statement)
        raises = len(body) == 1 and render_code(body[0]).strip().startswith("raise ")
        return statement.test if raises else None
    small = small_statement(statement)
    return small.test if isinstance(small, cst.Assert) else None


def _with_own_names(body: Body, own: str, attributes: set[str]) -> list[cst.BaseStatement] | None:
    """Return statements in which attributes of the object are names; ``None`` if more is used."""
    result = []
    for statement in body:
        if (binding := single_assignment(statement)) is not None and binding.target == own:
            return None
        pairs: list[Swap] = [
            (n, cst.Name(f"own_at_{n.attr.value}"))
            for n in nodes_within(statement)
            if isinstance(n, cst.Attribute)
            and render_code(n.value) == own
            and n.attr.value in attributes
        ]
        if any(
            isinstance(n, cst.AssignTarget) and render_code(n.target).startswith(f"{own}.")
            for n in nodes_within(statement)
        ):
            return None
        result.append(replace_each(statement, pairs) if pairs else statement)
    return None if own in names_within(*result) else result


def _function(
    node: cst.ClassDef, method: cst.FunctionDef, params: Sequence[cst.Param], body: Body
) -> cst.FunctionDef:
    function = cst.ensure_type(compound_statement("def f()", body), cst.FunctionDef)
    return function.with_changes(
        name=cst.Name(f"{node.name.value}_call"),
        params=method.params.with_changes(params=list(params)),
        leading_lines=[cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)],
    )
