"""Methods that a model's ``forward`` calls become functions, its submodules' ``forward`` too.

Models launch from methods of their own, and from layers that their file defines::

    class ModelNew(nn.Module):                       def Norm_forward(self, x):
        def __init__(self):                              ...
            self.norm = Norm(64)
                                                     class ModelNew(nn.Module):
        def forward(self, x):                            def forward(self, x):
            return self.norm(x)                              return Norm_forward(self.norm, x)

`model_forward` and `inlining` then see plain functions. What a method sets on its object, asks of
its base class or gets from a decorator stays a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    assigned_targets,
    first_param,
    functions_in,
    names_within,
    nodes_within,
    parse_expression,
    plain_assignment,
    render_code,
    replace_each,
    statements_of,
    with_body,
)

_MODEL, _FORWARD = "ModelNew", "forward"
_MODULES = ("nn.Module", "torch.nn.Module", "Module")
_STATIC = "staticmethod"
_MOST = 40
"""Methods that become functions; beyond, the file stays as it is."""


@dataclass(frozen=True)
class _Class:
    """A class of the file.

    Attributes:
        node: the class.
        methods: its plain methods by name, static ones too.
        parts: the classes of the objects that ``__init__`` binds to attributes, by attribute.
    """

    node: cst.ClassDef
    methods: Mapping[str, cst.FunctionDef]
    parts: Mapping[str, str] = field(default_factory=dict)


def with_plain_methods(tree: cst.Module) -> cst.Module:
    """Return the module whose `ModelNew.forward` calls functions instead of such methods."""
    nodes = {s.name.value: s for s in tree.body if isinstance(s, cst.ClassDef)}
    classes = {name: _read_class(node, set(nodes)) for name, node in nodes.items()}
    model = classes.get(_MODEL)
    forward = None if model is None else model.methods.get(_FORWARD)
    if model is None or forward is None or forward.decorators or not _is_plain(forward):
        return tree
    functions: dict[str, cst.FunctionDef] = {}
    taken = names_within(tree)
    changed = _with_functions(forward, model, classes, functions, taken)
    if changed is forward or len(functions) > _MOST:
        return tree
    own = replace_each(model.node, [(forward, changed)])
    return tree.with_changes(
        body=[
            s
            for old in tree.body
            for s in ([*functions.values(), own] if old is model.node else [old])
        ]
    )


def _read_class(node: cst.ClassDef, names: set[str]) -> _Class:
    methods = {
        name: method
        for name, method in functions_in(statements_of(node)).items()
        if method.asynchronous is None and (not method.decorators or _is_static(method))
    }
    is_module = [render_code(base.value) for base in node.bases][:1] in [[m] for m in _MODULES]
    init = methods.get("__init__")
    parts = {} if init is None or not is_module else dict(_parts_made(node, init, names))
    return _Class(node, methods if is_module and "__call__" not in methods else {}, parts)


def _is_static(method: cst.FunctionDef) -> bool:
    return [render_code(mark.decorator) for mark in method.decorators] == [_STATIC]


def _parts_made(
    node: cst.ClassDef, init: cst.FunctionDef, names: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield attributes that ``__init__`` binds to an object of the file's, with its class."""
    for attribute, value in attributes_made(node, init):
        if render_code(value.func) in names:
            yield attribute, render_code(value.func)


def attributes_made(node: cst.ClassDef, init: cst.FunctionDef) -> Iterator[tuple[str, cst.Call]]:
    """Yield attributes that ``__init__`` alone binds in a class, to what a call gives."""
    bound = [
        render_code(part.target)
        for part in nodes_within(node)
        if isinstance(part, cst.AssignTarget)
    ]
    own = first_param(init)
    for statement in statements_of(init):
        if (sides := plain_assignment(statement)) is None:
            continue
        target, value = render_code(sides[0]), sides[1]
        is_own = target.startswith(f"{own}.") and bound.count(target) == 1
        if is_own and isinstance(value, cst.Call):
            yield target.removeprefix(f"{own}."), value


def _is_plain(method: cst.FunctionDef) -> bool:
    """Tell whether a method does the same as a function of the module, its object passed."""
    owner, names = first_param(method), names_within(method)
    if names & {"super", "__class__"} or any(_is_private(name) for name in names):
        return False
    targets = map(render_code, assigned_targets(method))
    return not any(target.split(".")[0] == owner for target in targets)


def _is_private(name: str) -> bool:
    """Tell whether Python gives a name another form within a class."""
    return name.startswith("__") and not name.endswith("__")


def _with_functions(
    method: cst.FunctionDef,
    owner: _Class,
    classes: Mapping[str, _Class],
    functions: dict[str, cst.FunctionDef],
    taken: set[str],
) -> cst.FunctionDef:
    """Return a method that calls functions, which are added to `functions`."""
    pairs: list[Swap] = []
    for call in nodes_within(method.body):
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        method_called = _method_called(call.func, first_param(method), owner, classes)
        if method_called is None or len(functions) > _MOST:
            continue
        of, target, object_code = method_called
        name = f"{of.node.name.value}_{target.name.value}".replace("__", "_")
        if name not in functions:
            if name in taken:
                continue
            functions[name] = target  # a method that calls itself finds its own name
            functions[name] = _as_function(target, name, of, classes, functions, taken)
        first = [] if _is_static(target) else [cst.Arg(parse_expression(object_code))]
        pairs.append((call, call.with_changes(func=cst.Name(name), args=[*first, *call.args])))
    return replace_each(method, pairs) if pairs else method


def _method_called(
    func: cst.Attribute, owner: str, of: _Class, classes: Mapping[str, _Class]
) -> tuple[_Class, cst.FunctionDef, str] | None:
    """Return the class and the method that ``self.name(...)`` calls, with its object's code."""
    if not isinstance(func.value, cst.Name) or func.value.value != owner or not owner:
        return None
    attribute = func.attr.value
    if attribute in of.methods:
        method, called_class, code = of.methods[attribute], of, owner
    elif attribute in of.parts and of.parts[attribute] in classes:
        called_class, code = classes[of.parts[attribute]], f"{owner}.{attribute}"
        if _FORWARD not in called_class.methods:
            return None
        method = called_class.methods[_FORWARD]
    else:
        return None
    return (called_class, method, code) if _is_static(method) or _is_plain(method) else None


def _as_function(
    method: cst.FunctionDef,
    name: str,
    owner: _Class,
    classes: Mapping[str, _Class],
    functions: dict[str, cst.FunctionDef],
    taken: set[str],
) -> cst.FunctionDef:
    changed = (
        method if _is_static(method) else _with_functions(method, owner, classes, functions, taken)
    )
    lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    function = changed.with_changes(name=cst.Name(name), decorators=[], leading_lines=lines)
    return with_body(function, statements_of(function))
