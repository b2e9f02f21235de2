"""Entry points of other forms: what KernelBench's `ModelNew.forward` or a solution's ``run`` does.

Rewrites read launches in a function ``kernel``, and give it parameters to be tuned. So what the
entry point does becomes such a function, to which it hands the parameters on::

    def kernel(x, weight):
        ...

    class ModelNew(nn.Module):                      def run(x, weight, **params):
        def forward(self, x, **params):                 return kernel(x, weight, **params)
            return kernel(x, self.weight, **params)

Benchmarks that count the arguments of ``run`` do not count ``**params``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    assigned_names,
    assigned_targets,
    calls_within,
    compound_statement,
    functions_in,
    imported_name,
    names_within,
    nodes_within,
    numbered_name,
    parse_statements,
    reached_names,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)

_WHOLE, _NAME_OF_WHOLE = "", "model"
"""Replaces an attribute's name for the object itself, where ``forward`` passes it to functions."""
_MODEL, _FORWARD, _FUNCTION = "ModelNew", "forward", "kernel"
_RUN = "run"
_CONSTANTS = ("None", "True", "False")
_NATIVE = {"reference", "inputs"}
"""Names by which a file says that its ``kernel`` is what is measured, as `kernelfiles` reads it."""
_PROBLEM_OF_MODEL = "get_inputs"
_OTHER_FORMS = {*_NATIVE, "LAUNCH"}
"""Names by which a file says that ``run`` is a function of its own, and no entry point."""


def with_model_function(tree: cst.Module) -> cst.Module:
    """Return the module with a function ``kernel`` in place of what its entry point does.

    The same module if its entry point hands its work on already; or if `forward` needs its object
    for more than to read attributes: to set them, or to call other methods of the class.
    """
    statement = entry_statement(tree)
    if statement is None or _passes_parameters(statement, tree):
        return tree
    freed = _with_free_name(tree)
    statement = None if freed is None else entry_statement(freed)
    if freed is None or statement is None:
        return tree
    if isinstance(statement, cst.ClassDef):
        parts = _parts_of_model(statement, names_within(freed))
    else:
        parts = _parts_of_run(statement)
    if parts is None:
        return tree
    return freed.with_changes(
        body=[s for old in freed.body for s in (parts if old is statement else [old])]
    )


def with_defined_kernel(tree: cst.Module) -> cst.Module:
    """Return the module with a definition of ``kernel`` where it is a lambda, or another's name.

    That function has no decorator, and defaults that are the same wherever they are computed.
    """
    bindings = [(s, b) for s in tree.body if (b := single_assignment(s)) and b.target == _FUNCTION]
    bound = [name for statement in tree.body for name in _bound_by(statement)]
    if len(bindings) != 1 or bound.count(_FUNCTION) != 1:
        return tree
    statement, binding = bindings[0]
    value, function = binding.value, None
    if isinstance(value, cst.Lambda):
        params, body = render_code(value.params), render_code(value.body)
        body = f"({body})" if "\n" in body else body
        text = f"def {_FUNCTION}({params}):\n    return {body}\n"
        function = cst.ensure_type(parse_statements(text)[0], cst.FunctionDef)
    elif isinstance(value, cst.Name) and bound.count(value.value) == 1:
        function = next(
            (f for f in tree.body if _is_copied(f) and f.name.value == value.value), None
        )
    if function is None:
        return tree
    lines = [cst.EmptyLine(indent=False)] * 2
    defined = function.with_changes(name=cst.Name(_FUNCTION), leading_lines=lines)
    return tree.with_changes(body=[defined if s is statement else s for s in tree.body])


def _is_copied(statement: cst.CSTNode) -> TypeGuard[cst.FunctionDef]:
    """Tell whether a copy of a function does the same."""
    if not isinstance(statement, cst.FunctionDef) or statement.decorators:
        return False
    params = (n for n in nodes_within(statement.params) if isinstance(n, cst.Param))
    defaults = [p.default for p in params if p.default is not None]
    literals = (cst.Integer, cst.Float, cst.SimpleString)
    return all(isinstance(d, literals) or render_code(d) in _CONSTANTS for d in defaults)


def entry_statement(tree: cst.Module) -> cst.ClassDef | cst.FunctionDef | None:
    """Return the class `ModelNew` or the function ``run``, if it is what is measured.

    A ``kernel`` for a ``reference`` and ``inputs`` only uses a class of such a name. So does one
    that leads to the class, whose problem may be another file: no model runs inside itself.
    """
    kinds = (cst.ClassDef, cst.FunctionDef)
    bound = {s.name.value: s for s in tree.body if isinstance(s, kinds)}
    lines = _plain_lines(tree)
    model, run = bound.get(_MODEL), bound.get(_RUN)
    parts = {name: names_within(s) for s in (*lines, *bound.values()) for name in _bound_by(s)}
    if isinstance(model, cst.ClassDef):
        is_native = {_FUNCTION, *_NATIVE} <= parts.keys() and _PROBLEM_OF_MODEL not in parts
        return None if is_native or _MODEL in reached_names(parts, _FUNCTION) else model
    return run if isinstance(run, cst.FunctionDef) and not parts.keys() & _OTHER_FORMS else None


def _bound_by(statement: cst.CSTNode) -> list[str]:
    """Return the names that a statement of the top level binds."""
    if isinstance(statement, (cst.ClassDef, cst.FunctionDef)):
        return [statement.name.value]
    imports = (node for node in nodes_within(statement) if isinstance(node, cst.ImportAlias))
    return [*assigned_names(statement), *map(imported_name, imports)]


def _plain_lines(tree: cst.Module) -> list[cst.SimpleStatementLine]:
    return [s for s in tree.body if isinstance(s, cst.SimpleStatementLine)]


def _passes_parameters(entry: cst.CSTNode, tree: cst.Module) -> bool:
    """Tell whether an entry point gives ``kernel`` its parameters: all that come, or each by name.

    Only a ``kernel`` that has keyword-only parameters is given them by name.
    """
    kernel = functions_in(tree.body).get(_FUNCTION)
    own = {p.name.value for p in kernel.params.kwonly_params} if kernel is not None else set()
    passed = [arg for call in calls_within(entry, _FUNCTION) for arg in call.args]
    return any(arg.star == "**" or (arg.keyword and arg.keyword.value in own) for arg in passed)


def _with_free_name(tree: cst.Module) -> cst.Module | None:
    """Return the module in which nothing else is called ``kernel``; ``None`` if that cannot be.

    Many authors call their Triton function so.
    """
    kinds = (cst.ClassDef, cst.FunctionDef)
    defined = {s.name.value for s in tree.body if isinstance(s, kinds)}
    if _FUNCTION not in defined | set(assigned_names(*_plain_lines(tree))):
        imports = [n for n in nodes_within(tree) if isinstance(n, cst.ImportAlias)]
        return None if any(_FUNCTION in names_within(alias) for alias in imports) else tree
    keywords = (a.keyword for a in nodes_within(tree) if isinstance(a, cst.Arg))
    if any(keyword is not None and keyword.value == _FUNCTION for keyword in keywords):
        return None  # it may be a parameter's name, too
    name = numbered_name(_FUNCTION, names_within(tree))
    return substitute_names(tree, {_FUNCTION: cst.Name(name)})


def _parts_of_model(model: cst.ClassDef, taken: set[str]) -> list[cst.BaseStatement] | None:
    """Return the function, and the class whose `forward` calls it."""
    methods = functions_in(statements_of(model))
    forward = methods.get(_FORWARD)
    if forward is None or (arguments := _plain_arguments(forward)) is None:
        return None
    owner, *inputs = arguments
    attributes = _read_attributes(forward, owner, set(methods))
    if attributes is None:
        return None
    whole = _passed_whole(forward, owner)
    names = _free_names({**attributes, **({_WHOLE: whole} if whole else {})}, taken | {_FUNCTION})
    passed = [*inputs, *(f"{owner}.{name}" if name else owner for name in names)]
    in_class = replace_each(model, [(forward, _calling(forward, passed))])
    return [_function_of(forward, inputs, names), in_class]


def _parts_of_run(run: cst.FunctionDef) -> list[cst.BaseStatement] | None:
    """Return the function, and ``run``, which calls it under its own decorators."""
    inputs = _plain_arguments(run)
    return None if inputs is None else [_function_of(run, inputs, {}), _calling(run, inputs)]


def _calling(function: cst.FunctionDef, passed: Sequence[str]) -> cst.FunctionDef:
    """Return an entry point that does nothing but to call the function."""
    body = parse_statements(f"return {_FUNCTION}({', '.join([*passed, '**params'])})\n")
    return with_body(_with_params(function), body)


def _plain_arguments(function: cst.FunctionDef) -> list[str] | None:
    """Return the names of a method's arguments, its object's first; ``None`` if any are unnamed."""
    params = function.params
    starred = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None
    if starred or params.kwonly_params or function.asynchronous is not None:
        return None
    return [p.name.value for p in (*params.posonly_params, *params.params)] or None


def _read_attributes(
    forward: cst.FunctionDef, owner: str, methods: set[str]
) -> dict[str, list[cst.Attribute]] | None:
    """Return where a method reads attributes of its object; ``None`` if it does more with it."""
    nodes = list(nodes_within(forward.body))
    reads = [
        node
        for node in nodes
        if isinstance(node, cst.Attribute)
        and isinstance(node.value, cst.Name)
        and node.value.value == owner
    ]
    uses = sum(isinstance(node, cst.Name) and node.value == owner for node in nodes)
    uses -= len(_passed_whole(forward, owner))
    set_ = set(map(id, assigned_targets(forward.body)))
    if uses != len(reads) or any(id(node) in set_ or node.attr.value in methods for node in reads):
        return None
    places: dict[str, list[cst.Attribute]] = {}
    for node in reads:
        places.setdefault(node.attr.value, []).append(node)
    return places


def _passed_whole(forward: cst.FunctionDef, owner: str) -> list[cst.Name]:
    """Return where a method passes its object first to a function, as to one that was a method."""
    calls = (node for node in nodes_within(forward.body) if isinstance(node, cst.Call))
    firsts = [c.args[0].value for c in calls if isinstance(c.func, cst.Name) and c.args]
    return [node for node in firsts if isinstance(node, cst.Name) and node.value == owner]


def _free_names(
    attributes: Mapping[str, Sequence[cst.BaseExpression]], taken: set[str]
) -> dict[str, tuple[str, Sequence[cst.BaseExpression]]]:
    """Return a name of an argument for each attribute, with where it is read."""
    names: dict[str, tuple[str, Sequence[cst.BaseExpression]]] = {}
    used = set(taken)
    for attribute, places in attributes.items():
        name = attribute or _NAME_OF_WHOLE
        while name in used:
            name = f"{name}_of_model"
        used.add(name)
        names[attribute] = name, places
    return names


def _function_of(
    entry: cst.FunctionDef,
    inputs: Sequence[str],
    names: Mapping[str, tuple[str, Sequence[cst.BaseExpression]]],
) -> cst.FunctionDef:
    """Return the function: the entry point's arguments, then the attributes that it reads."""
    pairs = [(place, cst.Name(name)) for name, places in names.values() for place in places]
    listed = ", ".join([*inputs, *(name for name, _ in names.values())])
    body = statements_of(replace_each(entry, pairs) if pairs else entry)
    function = compound_statement(f"def {_FUNCTION}({listed})", body)
    return cst.ensure_type(function, cst.FunctionDef).with_changes(
        leading_lines=[cst.EmptyLine()] * 2
    )


def _with_params(forward: cst.FunctionDef) -> cst.FunctionDef:
    params = forward.params.with_changes(star_kwarg=cst.Param(cst.Name("params")))
    return forward.with_changes(params=params)
