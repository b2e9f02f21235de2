"""Memory that a launcher's arguments share: the tensor that each of them is, or is a view of.

Two names with one root may be the same memory. A copy has the root of what it was made of, too,
since ``x.contiguous()`` is often no copy: that is safe, and costs a rewrite at most. So has what a
function of the file or of another module makes of its first argument that is no size. Of several
tensors that a name may be, the first counts.
"""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    MOST_STEPS,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    nodes_within,
    render_code,
)
from solkit.tuner.proposers.rewriter._parse import Launch, launcher_definition

ALLOCATORS = ("torch.empty", "torch.empty_like", "torch.zeros", "torch.zeros_like")
TENSOR_QUERIES = frozenset(
    (
        *("shape", "size", "numel", "dim", "ndim", "stride", "is_contiguous"),
        *("dtype", "element_size", "device", "is_cuda"),
    )
)
"""Attributes, and methods that only ask: what a tensor tells whatever its elements are."""
SIZE_CALLS = ("triton.cdiv", "triton.next_power_of_2", "int", "min", "max")
_SIZE_METHODS = ("numel", "size", "stride", "dim", "element_size")
_VIEWS = frozenset(
    f"torch.{name}"
    for name in (
        "as_strided atleast_2d broadcast_to chunk conj diagonal flatten movedim narrow permute "
        "ravel real reshape select split squeeze swapaxes t tensor_split transpose unbind "
        "unflatten unsqueeze view_as_real view_as_complex"
    ).split()
)


_LIKE = tuple(f"torch.{word}_like" for word in ("empty", "zeros", "ones", "full", "rand", "randn"))


def element_uses(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return where a tensor's name stands for more than its sizes, its type and the like."""
    owners = {
        id(part.value)
        for part in nodes_within(node)
        if isinstance(part, cst.Attribute) and part.attr.value in TENSOR_QUERIES
    }
    owners |= {id(call.args[0].value) for call in calls_within(node, *_LIKE) if call.args}
    return [
        part
        for part in nodes_within(node)
        if isinstance(part, cst.Name) and part.value == name and id(part) not in owners
    ]


def allocated_tensor(launch: Launch, param: str) -> tuple[str, list[cst.BaseExpression]] | None:
    """Return type and sizes of an argument that its launcher allocates, empty or as zeros."""
    argument = launch.arguments[param]
    name = argument.value if isinstance(argument, cst.Name) else ""
    value = launcher_definition(name, launch.launcher) if name else None
    if not isinstance(value, cst.Call) or called_name(value) not in ("torch.zeros", "torch.empty"):
        return None
    dtype = argument_of(value, 99, "dtype")
    sizes = [arg.value for arg in value.args if arg.keyword is None]
    if len(sizes) == 1 and isinstance(sizes[0], (cst.Tuple, cst.List)):
        sizes = [element.value for element in sizes[0].elements]
    return "torch.float32" if dtype is None else render_code(dtype), sizes


def root_name(value: cst.BaseExpression, launcher: cst.FunctionDef) -> str:
    """Return the launcher's name of the tensor that an expression is, or is a view of.

    An expression that makes a tensor of its own is its own root. Numbers have none: empty.
    """
    names, own = set[str](), ""
    while True:
        if isinstance(value, cst.Call):
            source = _made_of(value, launcher)
            if source is None:
                return render_code(value) if isinstance(value.func, cst.Attribute) else own
            value = source
        elif isinstance(value, cst.Attribute) and value.attr.value in TENSOR_QUERIES:
            return own
        elif isinstance(value, (cst.Subscript, cst.Attribute)):
            value = value.value
        elif parts := [part for part in _parts_of(value) if _is_view(part)]:
            value = parts[0]
        elif isinstance(value, cst.Name):
            definition = _definition(value.value, launcher)
            if value.value in names or definition is None or not _is_view(definition):
                return value.value
            names.add(value.value)
            if isinstance(definition, cst.Call) and _is_function(definition, launcher):
                own = value.value  # if it is made of numbers
            value = definition
        else:
            return own


def _made_of(call: cst.Call, launcher: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return what a call's result may be a view of; ``None`` if it is a new tensor or a number."""
    if called_name(call).startswith("torch."):
        return call.args[0].value if _is_view(call) and call.args else None
    if _is_function(call, launcher):
        return next((a.value for a in call.args if not is_size(a.value, launcher)), None)
    return call.func if isinstance(call.func, cst.Attribute) and not _is_new(call.func) else None


def is_size(value: cst.BaseExpression, launcher: cst.FunctionDef, steps: int = MOST_STEPS) -> bool:
    """Tell whether an expression is an integer or a shape, whose value no tensor's elements are."""
    if isinstance(value, cst.Name):
        if not steps or assigned_names(launcher).count(value.value) != 1:
            return False
        definition = _definition(value.value, launcher)
        return definition is not None and is_size(definition, launcher, steps - 1)
    if isinstance(value, cst.Subscript):
        return is_size(value.value, launcher, steps)
    if isinstance(value, cst.BinaryOperation):
        return all(is_size(side, launcher, steps) for side in (value.left, value.right))
    if isinstance(value, cst.Call) and called_name(value) in SIZE_CALLS:
        return all(is_size(arg.value, launcher, steps) for arg in value.args)
    if isinstance(value, cst.Call):
        return called_name(value).split(".")[-1] in _SIZE_METHODS
    is_shape = isinstance(value, cst.Attribute) and value.attr.value == "shape"
    return is_shape or isinstance(value, cst.Integer)


def _parts_of(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what an expression chooses from or holds; empty for other ones."""
    if isinstance(value, cst.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, cst.BooleanOperation):
        return [value.left, value.right]
    if isinstance(value, (cst.Tuple, cst.List, cst.Dict)):
        return [e.value for e in value.elements if isinstance(e, (cst.Element, cst.DictElement))]
    return [value.value] if isinstance(value, cst.NamedExpr) else []


def _is_view(definition: cst.BaseExpression) -> bool:
    if parts := _parts_of(definition):
        return any(map(_is_view, parts))
    if not isinstance(definition, cst.Call):
        is_part = isinstance(definition, (cst.Subscript, cst.Name, cst.Attribute))
        return is_part and render_code(definition) != "None"
    name = called_name(definition)
    if name.startswith("torch."):
        return name in _VIEWS or name.startswith("torch.Tensor.")
    is_function = isinstance(definition.func, cst.Name) and name not in SIZE_CALLS
    is_method = isinstance(definition.func, cst.Attribute) and not _is_new(definition.func)
    return is_method or is_function


def _is_function(call: cst.Call, launcher: cst.FunctionDef) -> bool:
    """Tell whether a call is of a function of the file or of a module, other than PyTorch's."""
    owner = called_name(call).split(".")[0]
    is_builtin = owner in ("torch", "triton", "tl", "") or called_name(call) in SIZE_CALLS
    params = launcher.params
    listed = (*params.posonly_params, *params.params, *params.kwonly_params)
    own = {*assigned_names(launcher), *(param.name.value for param in listed)}
    return not is_builtin and owner not in own


def _is_new(method: cst.Attribute) -> bool:
    """Tell whether a method allocates what it returns."""
    return method.attr.value == "clone" or method.attr.value.startswith("new_")


def _definition(name: str, launcher: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return what a name stands for; of a name among several, what all of them are parts of."""
    definition = launcher_definition(name, launcher)
    if definition is not None:
        return definition
    for node in nodes_within(launcher):
        if isinstance(node, cst.For) and render_code(node.target) == name:
            return node.iter
        if isinstance(node, cst.NamedExpr) and render_code(node.target) == name:
            return node.value
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0].target
        if render_code(target) == name and _is_view(node.value):
            return node.value  # one of several
        if not isinstance(target, (cst.Tuple, cst.List)):
            continue
        places = [render_code(element.value) for element in target.elements]
        if name not in places:
            continue
        values = node.value.elements if isinstance(node.value, cst.Tuple) else ()
        own = places.index(name)
        return values[own].value if len(values) == len(places) else node.value
    return None
