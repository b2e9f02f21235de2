"""Models in KernelBench's form: what `ModelNew.forward` does becomes a function ``kernel``.

Rewrites read launches in ``kernel``, and give it parameters to be tuned. The model hands them on::

    class ModelNew(nn.Module):
        def forward(self, x, **params):
            return kernel(x, self.weight, **params)

    def kernel(x, weight):
        ...
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._parse import (
    names_within,
    nodes_within,
    parse_statements,
    replace_each,
    statements_of,
    with_body,
)

__all__ = ["with_model_function"]

_MODEL, _FORWARD, _FUNCTION = "ModelNew", "forward", "kernel"


def with_model_function(tree: cst.Module) -> cst.Module:
    """Return the module with a function ``kernel`` in place of what its model does.

    The same module if it has one already, or if `forward` needs its object for more than to read
    attributes: to set them, or to call other methods of the class.
    """
    model = next(
        (s for s in tree.body if isinstance(s, cst.ClassDef) and s.name.value == _MODEL), None
    )
    if model is None or _FUNCTION in names_within(tree):
        return tree
    forward = next((s for s in _methods_of(model) if s.name.value == _FORWARD), None)
    if forward is None or (arguments := _plain_arguments(forward)) is None:
        return tree
    owner, *inputs = arguments
    attributes = _read_attributes(forward, owner, _names_of_methods(model))
    if attributes is None:
        return tree
    names = _free_names(attributes, names_within(tree))
    function = _function_of(forward, names)
    passed = ", ".join([*inputs, *(f"{owner}.{name}" for name in names), "**params"])
    body = parse_statements(f"return {_FUNCTION}({passed})\n")
    changed = with_body(_with_params(forward), body)
    in_class = replace_each(model, [(forward, changed)])
    statements: list[cst.BaseStatement] = []
    for statement in tree.body:
        statements += [function, in_class] if statement is model else [statement]
    return tree.with_changes(body=statements)


def _methods_of(model: cst.ClassDef) -> list[cst.FunctionDef]:
    return [s for s in statements_of(model) if isinstance(s, cst.FunctionDef)]


def _names_of_methods(model: cst.ClassDef) -> set[str]:
    return {method.name.value for method in _methods_of(model)}


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
    set_ = {
        id(target)
        for node in nodes
        for target in (
            [part.target for part in node.targets]
            if isinstance(node, cst.Assign)
            else [node.target]
            if isinstance(node, (cst.AugAssign, cst.AnnAssign))
            else []
        )
    }
    if uses != len(reads) or any(id(node) in set_ or node.attr.value in methods for node in reads):
        return None
    places: dict[str, list[cst.Attribute]] = {}
    for node in reads:
        places.setdefault(node.attr.value, []).append(node)
    return places


def _free_names(
    attributes: dict[str, list[cst.Attribute]], taken: set[str]
) -> dict[str, tuple[str, list[cst.Attribute]]]:
    """Return a name of an argument for each attribute, with where it is read."""
    names: dict[str, tuple[str, list[cst.Attribute]]] = {}
    used = set(taken)
    for attribute, places in attributes.items():
        name = attribute
        while name in used:
            name = f"{name}_of_model"
        used.add(name)
        names[attribute] = name, places
    return names


def _function_of(
    forward: cst.FunctionDef, names: dict[str, tuple[str, list[cst.Attribute]]]
) -> cst.FunctionDef:
    """Return the function: the method's arguments without its object, then its attributes."""
    pairs = [(place, cst.Name(name)) for name, places in names.values() for place in places]
    own = [param.name.value for param in _params(forward)]
    listed = ", ".join([*own, *(name for name, _ in names.values())])
    head = cst.ensure_type(
        parse_statements(f"def {_FUNCTION}({listed}):\n    pass\n")[0], cst.FunctionDef
    )
    body = replace_each(forward, pairs) if pairs else forward
    return with_body(head, statements_of(body)).with_changes(leading_lines=[cst.EmptyLine()] * 2)


def _params(forward: cst.FunctionDef) -> Sequence[cst.Param]:
    """Return the method's parameters without its object."""
    return [*forward.params.posonly_params, *forward.params.params][1:]


def _with_params(forward: cst.FunctionDef) -> cst.FunctionDef:
    params = forward.params.with_changes(star_kwarg=cst.Param(cst.Name("params")))
    return forward.with_changes(params=params)
