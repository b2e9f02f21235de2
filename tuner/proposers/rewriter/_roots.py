"""Memory that a launcher's arguments share: the tensor that each of them is, or is a view of.

Two names that share a root may be the same memory. A copy has the roots of what it was made of,
too, since ``x.contiguous()`` is often no copy: that is safe, and costs a rewrite at most. So has
what a function of the file or of another module makes of its arguments. What may be one of several
tensors has the roots of all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    MOST_STEPS,
    all_params,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    names_within,
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
    (
        "adjoint as_strided as_tensor asarray atleast_1d atleast_2d atleast_3d "
        "broadcast_tensors broadcast_to chunk conj detach diagonal dropout dropout1d dropout2d "
        "dropout3d dsplit einsum flatten hsplit imag meshgrid moveaxis movedim narrow permute "
        "positive ravel real reshape resolve_conj resolve_neg select split split_with_sizes "
        "squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unsqueeze "
        "view_as_complex view_as_real vsplit"
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


@functools.lru_cache(1024)  # each access of a launch asks
def tensor_roots(value: cst.BaseExpression, launcher: cst.FunctionDef) -> frozenset[str]:
    """Return the launcher's names of the tensors that an expression may be, or be a view of.

    An expression that makes a tensor of its own is its own root. Numbers have none.
    """
    roots, seen = set[str](), {"None"}
    pending = [(value, "")]  # an expression, and the name for which it stands
    while pending:
        value, own = pending.pop()
        parts: Sequence[cst.BaseExpression] = ()
        if isinstance(value, cst.Name):
            own, values = value.value, _bindings(launcher).get(value.value, ())
            if own not in seen and (not values or own in launcher_params(launcher)):
                roots.add(own)
            parts = parts if own in seen else values
            seen.add(own)
        elif isinstance(value, (cst.Subscript, cst.Attribute)):
            is_query = isinstance(value, cst.Attribute) and value.attr.value in TENSOR_QUERIES
            parts = parts if is_query else (value.value,)
        elif isinstance(value, cst.Call):
            parts = _viewed_by(value, launcher)
            is_new = not parts and not is_size(value, launcher)
            if is_new and _is_function(value, launcher):
                own = called_name(value)  # it may return the same tensor each time
            elif is_new and not own and isinstance(value.func, cst.Attribute):
                own = render_code(value)
            roots |= {own} - {""} if is_new else set()
        else:
            parts = _parts_of(value, launcher)
            roots |= set() if parts else {own} - {""}
        pending += [(part, own) for part in parts]
    return frozenset(roots)


def roots_of(values: Iterable[cst.BaseExpression], launcher: cst.FunctionDef) -> frozenset[str]:
    """Return the tensors that any of several expressions may be, or be a view of."""
    return frozenset[str]().union(*(tensor_roots(value, launcher) for value in values))


def _viewed_by(call: cst.Call, launcher: cst.FunctionDef) -> Sequence[cst.BaseExpression]:
    """Return what a call's result may be a view of; empty if it is a new tensor or a number."""
    name, method = called_name(call), call.func
    if is_size(call, launcher):
        return ()
    passed = [arg.value for arg in call.args if _has_elements(arg.value, launcher)]
    is_torch = name.startswith("torch.")
    is_view = name.split(".")[-1] in _VIEWS or name.startswith("torch.Tensor.")
    if (is_torch and not is_view) or (isinstance(method, cst.Attribute) and _is_new(method)):
        return [arg.value for arg in call.args if arg.keyword and arg.keyword.value == "out"]
    if is_torch or _is_function(call, launcher):
        return passed
    return [method.value if isinstance(method, cst.Attribute) else method, *passed]


def _has_elements(value: cst.BaseExpression, launcher: cst.FunctionDef) -> bool:
    """Tell whether an expression may be a tensor, or hold one."""
    is_number = is_size(value, launcher)
    return not is_number and any(element_uses(value, name) for name in names_within(value))


@functools.lru_cache(64)
def _bindings(launcher: cst.FunctionDef) -> dict[str, list[cst.BaseExpression]]:
    """Return of a launcher's names the expressions whose values they may be, or hold."""
    bindings: dict[str, list[cst.BaseExpression]] = {}
    pending = [pair for node in nodes_within(launcher) for pair in _bound_by(node, launcher)]
    for target, value in pending:
        while isinstance(target, (cst.Subscript, cst.Attribute, cst.StarredElement)):
            target = target.value
        if isinstance(target, cst.Name):
            bindings.setdefault(target.value, []).append(value)
        if not isinstance(target, (cst.Tuple, cst.List)):
            continue
        values = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
        elements = [*target.elements, *values]
        in_pairs = len(elements) == 2 * len(values)
        in_pairs &= not any(isinstance(element, cst.StarredElement) for element in elements)
        parts = [element.value for element in values] if in_pairs else [value] * len(elements)
        targets = (element.value for element in target.elements)
        pending += zip(targets, parts, strict=False)
    return bindings


def _bound_by(
    node: cst.CSTNode, launcher: cst.FunctionDef
) -> list[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Return what a node assigns, with what is assigned or held."""
    if isinstance(node, cst.Assign):
        return [(target.target, node.value) for target in node.targets]
    if isinstance(node, (cst.AnnAssign, cst.NamedExpr, cst.AugAssign)):
        return [] if node.value is None else [(node.target, node.value)]
    if isinstance(node, (cst.For, cst.CompFor)):
        return [(node.target, node.iter)]
    if isinstance(node, cst.WithItem):
        return [] if node.asname is None else [(node.asname.name, node.item)]
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        method = node.value.func  # such as of a list that gets another element
        return [(method, a.value) for a in node.value.args if _may_keep(method, launcher)]
    return []


def gives_size(call: cst.Call) -> bool:
    """Tell whether a call computes a size, so that it gives the same whenever it is made."""
    function = called_name(call)
    return function in SIZE_CALLS or function.split(".")[-1] in _SIZE_METHODS


def is_size(value: cst.BaseExpression, launcher: cst.FunctionDef, steps: int = MOST_STEPS) -> bool:
    """Tell whether an expression is an integer or a shape, whose value no tensor's elements are."""
    if isinstance(value, cst.Name):
        if not steps or assigned_names(launcher).count(value.value) != 1:
            return False
        values = _bindings(launcher).get(value.value, ())
        return len(values) == 1 and is_size(values[0], launcher, steps - 1)
    if isinstance(value, cst.Subscript):
        return is_size(value.value, launcher, steps)
    if isinstance(value, cst.BinaryOperation):
        return all(is_size(side, launcher, steps) for side in (value.left, value.right))
    if isinstance(value, cst.Call) and called_name(value) in SIZE_CALLS:
        return all(is_size(arg.value, launcher, steps) for arg in value.args)
    if isinstance(value, cst.Call):
        return gives_size(value)
    is_shape = isinstance(value, cst.Attribute) and value.attr.value == "shape"
    return is_shape or isinstance(value, cst.Integer)


def _may_keep(method: cst.BaseExpression, launcher: cst.FunctionDef) -> bool:
    """Tell whether a method's object may hold what the method gets, as a list does."""
    if not isinstance(method, cst.Attribute):
        return False
    in_place = method.attr.value.endswith("_") and method.attr.value != "set_"
    return not in_place and bool(names_within(method.value) & _own_names(launcher))


def _parts_of(value: cst.BaseExpression, launcher: cst.FunctionDef) -> list[cst.BaseExpression]:
    """Return what an expression chooses from or holds; empty for other ones."""
    if isinstance(value, cst.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, cst.BooleanOperation):
        return [value.left, value.right]
    if isinstance(value, (cst.Tuple, cst.List, cst.Set)):
        return [element.value for element in value.elements]
    if isinstance(value, cst.Dict):
        return [element.value for element in value.elements]
    if isinstance(value, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        return [value.elt]
    if isinstance(value, cst.BinaryOperation):  # of lists, such as a sum
        sides = [value.left, value.right]
        return sides if any(_is_list(side, launcher) for side in sides) else []
    return [value.value] if isinstance(value, (cst.NamedExpr, cst.DictComp)) else []


def _is_list(value: cst.BaseExpression, launcher: cst.FunctionDef) -> bool:
    own = _bindings(launcher).get(value.value, ()) if isinstance(value, cst.Name) else [value]
    return any(isinstance(part, (cst.Tuple, cst.List, cst.ListComp)) for part in own)


def _is_function(call: cst.Call, launcher: cst.FunctionDef) -> bool:
    """Tell whether a call is of a function of the file or of a module, other than PyTorch's."""
    owner = called_name(call).split(".")[0]
    is_builtin = owner in ("torch", "triton", "tl", "") or called_name(call) in SIZE_CALLS
    return not is_builtin and owner not in _own_names(launcher)


def _own_names(launcher: cst.FunctionDef) -> set[str]:
    return {*assigned_names(launcher), *launcher_params(launcher)}


@functools.lru_cache(64)
def launcher_params(launcher: cst.FunctionDef) -> frozenset[str]:
    """Return the names of a launcher's parameters."""
    params = launcher.params
    stars = [p for p in (params.star_arg, params.star_kwarg) if isinstance(p, cst.Param)]
    return frozenset(param.name.value for param in (*all_params(launcher), *stars))


def _is_new(method: cst.Attribute) -> bool:
    """Tell whether a method allocates what it returns."""
    return method.attr.value == "clone" or method.attr.value.startswith("new_")
