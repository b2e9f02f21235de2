"""Tensors among a function's parameters, and what its text says about their sizes."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from solkit.core.syntax import names_bound_by
from solkit.pipeline.starting._factories import annotated_dtype
from solkit.pipeline.starting._functions import Definition, parameters
from solkit.pipeline.starting._pointers import Pointers
from solkit.pipeline.starting._source import Source, tile_annotations

_OF_TENSORS = frozenset(
    """
    shape size dtype device stride numel ndim dim contiguous is_contiguous is_cuda data_ptr view
    reshape element_size requires_grad is_floating_point new_empty new_zeros unsqueeze squeeze
    transpose permute T mT flatten data
    """.split()
)
_NAMES = "MNKLPQRSTUVWXYZ"
_RESERVED = {"dtype", "device"}
_SHAPE_COMMENT = re.compile(r"[^#]*#.*?(?:\[([\w ,]+)\]|\((\w+ *,[\w ,]+)\))")
_SHAPE_SENTENCE = r"^\W*{name}\b.*\bshapes?\W*?(?:\[([\w ,]+)\]|\(([\w ,]+)\))"
_VECTOR = 16_777_216  # elements of a vector: its traffic outlasts a launch
_BY_PLACE = (64, 1024, 16, 4)  # from the last dimension on, of three and more

_Dim = tuple[str, int]


@dataclass(frozen=True)
class _LaunchAxis:
    """An axis of a kernel's pointer at a launch: equal keys are the same indices.

    Attributes:
        key: the kernel, and the texts of the indices.
        size: what the launch gives for the size that a mask compares these with.
    """

    key: tuple[str, frozenset[str]]
    size: ast.expr | None


@dataclass
class Tensor:
    """A tensor parameter.

    Attributes:
        name: of the parameter.
        rank: dimensions it has at the least, as far as the text says; 0 if it says nothing.
        is_exact: there are no more.
        is_index: its values are part of an address.
        is_written: a kernel stores to it.
        is_read: a kernel loads from it.
        like: the tensor whose sizes it gets, as the text says nothing of its own; empty if none.
        axes: the dimensions that a kernel goes along, each with the size that the launch gives it.
        dtype: what the function compares its dtype with; empty if nothing.
        dims: names or numbers of its dimensions, if a comment beside it lists them.
    """

    name: str
    rank: int = 0
    is_exact: bool = False
    is_index: bool = False
    is_written: bool = False
    is_read: bool = False
    like: str = ""
    axes: tuple[_LaunchAxis, ...] = ()
    dtype: str = ""
    dims: tuple[str, ...] = ()

    @property
    def holds_integers(self) -> bool:
        """True if its values are part of an address, or its type is one of integers."""
        return self.is_index or "int" in self.dtype

    def admits(self, rank: int) -> bool:
        """Tell if it may have a rank, as far as the text says."""
        return rank == self.rank or (rank > self.rank and not self.is_exact)

    def at_least(self, rank: int, exact: bool = False) -> None:
        """Note a rank."""
        self.rank = max(self.rank, rank)
        self.is_exact |= exact


@dataclass
class _Groups:
    """Dimensions that are equal: a union of sets of dimensions and of local names."""

    parent: dict[object, object] = field(default_factory=dict)

    def root(self, item: object) -> object:
        while (above := self.parent.get(item, item)) != item:
            item = above
        return item

    def join(self, one: object, other: object) -> None:
        self.parent[self.root(one)] = self.root(other)


@dataclass(frozen=True)
class Sizes:
    """Sizes for the tensors of a function.

    Attributes:
        dims: for each tensor the names of its dimensions.
        defaults: a value for each name.
    """

    dims: Mapping[str, tuple[str, ...]]
    defaults: Mapping[str, int]


def tensors_of(
    source: Source, node: Definition, skip: int = 0, within: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """Return a function's tensor parameters, in order: those that it uses as tensors.

    Args:
        source: the file.
        node: the function.
        skip: leading parameters that are none, as ``self``.
        within: functions that are being looked at, which a recursion meets again.
    """
    names = [parameter.arg for parameter in parameters(node)[skip:]]
    tensors = {name: Tensor(name) for name in names}
    used = {
        name
        for parameter in parameters(node)
        if _says_tensor(parameter)
        for name in (parameter.arg,)
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            used |= {part.value.id} if part.attr in _OF_TENSORS else set()
        _note_rank(part, tensors)
    for part in ast.walk(node):
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Eq, ast.NotEq)):
            _note_equal_shapes(part, tensors)
    used |= _note_launches(source, node, tensors)
    used |= _note_made_kernels(source, node, tensors)
    for name, parameter in source.bound_arguments(node):
        if name in tensors and parameter.kind == "Tensor":
            used.add(name)
            tensors[name].at_least(parameter.rank)
            tensors[name].dtype = tensors[name].dtype or parameter.dtype
    for name, theirs in _tensors_handed_on(source, node, (*within, node.name)):
        if name in tensors:
            used.add(name)
            tensors[name].at_least(theirs.rank, theirs.is_exact)
            tensors[name].is_index |= theirs.is_index
            tensors[name].is_written |= theirs.is_written
            tensors[name].is_read |= theirs.is_read
            tensors[name].axes = tensors[name].axes or tuple(
                _LaunchAxis(axis.key, None) for axis in theirs.axes
            )
    annotated = tile_annotations(node)
    used |= annotated.keys()
    for argument in parameters(node):
        said = annotated.get(argument.arg)
        dims = (
            _commented_dims(source, node, argument)
            if said is None
            else _annotated_dims(source, node, said)
        )
        own = tensors.get(argument.arg) if argument.arg in used else None
        if own is not None and said is not None:
            own.dtype = annotated_dtype(node, said)
        if own is not None and dims and own.admits(len(dims)):
            own.dims = dims
            own.at_least(len(dims), exact=True)
    return {name: tensor for name, tensor in tensors.items() if name in used}


def _note_made_kernels(source: Source, node: Definition, tensors: Mapping[str, Tensor]) -> set[str]:
    """Note what calls of kernels, which TileLang's factories make, say of tensors.

    Returns:
        The names of these.
    """
    values = {
        part.targets[0].id: part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
    }
    passed: set[str] = set()
    for call in ast.walk(node):
        kernel = call.func if isinstance(call, ast.Call) else None
        kernel = values.get(kernel.id) if isinstance(kernel, ast.Name) else kernel
        if not isinstance(call, ast.Call) or not isinstance(kernel, ast.Call):
            continue
        factory = source.factories.get(ast.unparse(kernel.func))
        if factory is None:
            continue
        words = dict(zip(factory.defaults, map(ast.unparse, kernel.args)))
        words |= {
            keyword.arg: ast.unparse(keyword.value) for keyword in kernel.keywords if keyword.arg
        }
        taken = [
            a for i, a in enumerate(factory.annotations().values()) if i not in factory.returned
        ]
        for annotation, value in zip(taken, call.args):
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                value = value.func.value  # x.contiguous()
            if isinstance(value, ast.Name) and value.id in tensors:
                tensor = tensors[value.id]
                passed.add(value.id)
                dims = tuple(words.get(dim, dim) for dim in factory.shape(annotation, {}))
                tensor.at_least(len(dims), exact=True)
                if "int" in factory.dtype(annotation):
                    tensor.dtype = factory.dtype(annotation)
                if all(dim.isidentifier() or dim.isdecimal() for dim in dims):
                    tensor.dims = tensor.dims or dims
    return passed


def _note_launches(source: Source, node: Definition, tensors: Mapping[str, Tensor]) -> set[str]:
    """Note what launches in a function do with tensors, and return the names of these."""
    passed: set[str] = set()
    for launch in (*source.launches(node), *source.tile_launches(node)):
        pointers = launch.jit.pointers if launch.jit else Pointers()
        arguments = launch.arguments
        for parameter, value in arguments.items():
            if isinstance(value, ast.Name) and value.id in tensors and parameter in pointers.every:
                passed.add(value.id)
                tensor = tensors[value.id]
                tensor.is_index |= parameter in pointers.indices
                tensor.is_written |= parameter in pointers.written
                tensor.is_read |= parameter in pointers.read
                tensor.axes = tensor.axes or tuple(
                    _LaunchAxis((launch.name, axis.indices), arguments.get(axis.size))
                    for axis in pointers.axes.get(parameter, ())
                )
    return passed


def _annotated_dims(source: Source, node: Definition, annotation: ast.Call) -> tuple[str, ...]:
    """Return the dimensions in ``T.Tensor((M, 64), dtype)``; none if one is computed.

    A number of the module's is what its name stands for, unless the function binds the name.
    """
    shape = annotation.args[0] if annotation.args else None
    dims = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
    own = {name for statement in node.body for name in names_bound_by(statement)}
    own |= {parameter.arg for parameter in parameters(node)}
    words = []
    for dim in dims:
        value = source.aliases.get(dim.id) if isinstance(dim, ast.Name) else None
        is_fixed = isinstance(value, ast.Constant) and ast.unparse(dim) not in own
        words.append(ast.unparse(value if value is not None and is_fixed else dim))
    return tuple(words) if all(w.isidentifier() or w.isdecimal() for w in words) else ()


def _commented_dims(source: Source, node: Definition, parameter: ast.arg) -> tuple[str, ...]:
    """Return the dimensions that the text lists for a parameter.

    A comment beside it may (``x,  # [B, N, 64]``), or the docstring (``x: of shape (B, N, 64)``).
    """
    pattern = _SHAPE_SENTENCE.format(name=re.escape(parameter.arg))
    shown = re.search(pattern, ast.get_docstring(node) or "", re.MULTILINE)
    if sum(other.lineno == parameter.end_lineno for other in parameters(node)) == 1:
        line = source.text.splitlines()[(parameter.end_lineno or 1) - 1]
        shown = _SHAPE_COMMENT.match(line, parameter.end_col_offset or 0) or shown
    words = (shown[1] or shown[2]).replace(",", " ").split() if shown else []
    are_dims = all(word.isidentifier() or word.isdecimal() for word in words)
    return tuple(words) if are_dims else ()


def named_sizes(node: Definition, tensors: Mapping[str, Tensor]) -> Sizes:
    """Return names and values for the dimensions of tensors: equal ones share a name.

    A tensor of which the host's text says no rank has the axes that kernels go along, if these are
    those of another one or a mask says their sizes; else the shape of the first.
    """
    groups, names = _Groups(), dict[object, str]()
    own = {argument.arg for argument in parameters(node)}
    for tensor in tensors.values():
        if tensor.rank and not tensor.is_exact:  # x.shape[-1] alone: a matrix has one
            tensor.rank = max(tensor.rank, 2)
        for i, word in enumerate(tensor.dims):
            if word.isidentifier():
                groups.join((tensor.name, i), word)
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and len(part.targets) == 1:
            for local, dim in _assigned_dimensions(part.targets[0], part.value, tensors):
                groups.join(dim, local)
        elif isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Eq, ast.NotEq)):
            _join_compared(groups, part.left, part.comparators[0], tensors)
    _join_axes(groups, tensors, own)
    _join_alike(groups, tensors)
    taken = {*tensors, *_RESERVED}
    for item in itertools.chain(*groups.parent.items()):
        if isinstance(item, str) and item not in taken:
            root = groups.root(item)
            names.setdefault(root, root if isinstance(root, str) and root not in taken else item)
    return _number_dimensions(groups, names, tensors, own)


def _join_alike(groups: _Groups, tensors: Mapping[str, Tensor]) -> None:
    for tensor in tensors.values():
        for i in range(tensor.rank if tensor.like else 0):
            groups.join((tensor.name, i), (tensor.like, i))


def _number_dimensions(
    groups: _Groups,
    names: dict[object, str],
    tensors: Mapping[str, Tensor],
    reserved: Collection[str],
) -> Sizes:
    taken = {*names.values(), *tensors, *reserved}
    fresh = itertools.chain(
        (name for name in _NAMES if name not in taken), (f"D{i}" for i in itertools.count())
    )
    most = max((tensor.rank for tensor in tensors.values()), default=1)
    dims: dict[str, tuple[str, ...]] = {}
    defaults: dict[str, int] = {}
    for tensor in tensors.values():
        called = []
        for i in range(tensor.rank):
            if tensor.dims and tensor.dims[i].isdecimal():
                called.append(tensor.dims[i])
                continue
            group = groups.root((tensor.name, i))
            name = names[group] if group in names else names.setdefault(group, next(fresh))
            called.append(name)
            value = typical_dimension(tensor.rank, i, most)
            defaults[name] = min(defaults.get(name, value), value)
        dims[tensor.name] = tuple(called)
    return Sizes(dims, defaults)


def typical_dimension(rank: int, place: int, most: int) -> int:
    """Return a dimension of a tensor, where `most` is the rank of the largest."""
    if most == 1:
        return _VECTOR
    if rank <= 2:
        return 4096
    return _BY_PLACE[min(rank - 1 - place, len(_BY_PLACE) - 1)]


def _join_axes(groups: _Groups, tensors: Mapping[str, Tensor], own: Collection[str]) -> None:
    """Join dimensions that kernels index alike, and give ranks where the host's text says none.

    Args:
        groups: equal dimensions, which it extends.
        tensors: the tensors.
        own: the function's parameters, which may be sizes.
    """
    listed = list(tensors.values())
    ranked = [tensor for tensor in listed if tensor.rank]
    same: dict[tuple[str, frozenset[str]], object] = {}
    for tensor in ranked:
        for i, axis in enumerate(tensor.axes if len(tensor.axes) == tensor.rank else ()):
            groups.join((tensor.name, i), same.setdefault(axis.key, (tensor.name, i)))
        if 1 < len(tensor.axes) < tensor.rank:  # leading dimensions are one axis of the kernel
            same.setdefault(tensor.axes[-1].key, (tensor.name, tensor.rank - 1))
    for tensor in listed:
        if tensor.rank:
            continue
        alike = [t for t in ranked if t.axes and _keys(t) == _keys(tensor)]
        sizes = [
            same.get(axis.key, _size_at_launch(axis.size, groups, tensors, own))
            for axis in tensor.axes
        ]
        if not alike and sizes and None not in sizes:
            tensor.at_least(len(sizes), exact=True)
            for i, size in enumerate(sizes):
                groups.join((tensor.name, i), size)
            continue
        if not alike and ranked and 0 < len(sizes) < min(ranked[0].rank, len(ranked[0].axes)):
            tensor.rank = len(sizes)  # fewer axes than the first has: not its shape
            continue
        model = next(iter([*alike, *ranked]), None)
        tensor.rank = model.rank if model is not None else 1
        is_like = model is None or model is listed[0] or bool(alike)
        tensor.like = (model or listed[0]).name if is_like and tensor is not listed[0] else ""


def _size_at_launch(
    value: ast.expr | None, groups: _Groups, tensors: Mapping[str, Tensor], own: Collection[str]
) -> object:
    """Return the dimension, or the name of a size, that a launch gives; ``None`` if neither."""
    if isinstance(value, ast.Name):
        return value.id if value.id in groups.parent or value.id in own else None
    return _dimension_of(value, tensors) if value is not None else None


def _keys(tensor: Tensor) -> list[tuple[str, frozenset[str]]]:
    return [axis.key for axis in tensor.axes]


def _says_tensor(argument: ast.arg) -> bool:
    if argument.annotation is None:
        return False
    text = ast.unparse(argument.annotation).strip("'\"")
    return text.split(".")[-1].split(" ")[0] == "Tensor"


def _note_rank(node: ast.AST, tensors: Mapping[str, Tensor]) -> None:
    """Note what an unpacking, an index, a comparison or ``numel()`` says about a rank."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        tensor, dims = _shaped_tensor(node.value, tensors), node.targets[0].elts
        if tensor is not None and not any(isinstance(dim, ast.Starred) for dim in dims):
            tensor.at_least(len(dims), exact=True)
    elif isinstance(node, (ast.Subscript, ast.Call)):
        if (dim := _dimension_of(node, tensors, ranks_known=False)) is not None:
            tensors[dim[0]].at_least(dim[1] + 1 if dim[1] >= 0 else -dim[1])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            tensor = _named_tensor(node.func.value, tensors)
            if tensor is not None and node.func.attr == "numel" and not tensor.rank:
                tensor.at_least(1, exact=True)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        _note_compared(node.left, node.comparators[0], tensors)
        tensor, listed = _shaped_tensor(node.left, tensors), node.comparators[0]
        if tensor is not None and isinstance(listed, (ast.Tuple, ast.List)):
            tensor.at_least(len(listed.elts), exact=True)


def _note_compared(lhs: ast.expr, rhs: ast.expr, tensors: Mapping[str, Tensor]) -> None:
    is_number = isinstance(rhs, ast.Constant) and isinstance(rhs.value, int)
    if isinstance(lhs, ast.Call) and lhs.args and ast.unparse(lhs.func) == "len":
        shaped = _shaped_tensor(lhs.args[0], tensors)  # len(x.shape) == 2
        if shaped is not None and is_number:
            shaped.at_least(int(ast.unparse(rhs)), exact=True)
    if isinstance(lhs, ast.Call):  # x.dim() == 2
        lhs = lhs.func
    tensor = _named_tensor(lhs.value, tensors) if isinstance(lhs, ast.Attribute) else None
    if tensor is None or not isinstance(lhs, ast.Attribute):
        return
    if lhs.attr in ("ndim", "dim") and is_number:
        tensor.at_least(int(ast.unparse(rhs)), exact=True)
    elif lhs.attr == "dtype" and isinstance(rhs, ast.Attribute) and rhs.attr != "dtype":
        tensor.dtype = rhs.attr  # x.dtype == torch.float16, and not == y.dtype


def _named_tensor(node: ast.expr, tensors: Mapping[str, Tensor]) -> Tensor | None:
    return tensors.get(node.id) if isinstance(node, ast.Name) else None


def _shaped_tensor(node: ast.expr, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the tensor in ``x.shape`` or ``x.size()``."""
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        node = node.func
        attributes = ("size", "stride")
    else:
        attributes = ("shape", "")
    if isinstance(node, ast.Attribute) and node.attr in attributes:
        return _named_tensor(node.value, tensors)
    return None


def _sliced_shape(node: ast.expr, tensors: Mapping[str, Tensor]) -> tuple[Tensor | None, int]:
    """Return the tensor in ``tuple(x.shape)`` or ``x.shape[1:]``, and the first dimension there."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func) == "tuple":
        node = node.args[0]
    start = 0
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        lower, is_open = node.slice.lower, node.slice.upper is None and node.slice.step is None
        if not is_open or not isinstance(lower, ast.Constant) or not isinstance(lower.value, int):
            return None, 0
        node, start = node.value, lower.value
    return _shaped_tensor(node, tensors), start


def _note_equal_shapes(node: ast.Compare, tensors: Mapping[str, Tensor]) -> None:
    """Give a tensor of unknown rank that of the tensor with whose shape its own is compared."""
    sides = [_sliced_shape(side, tensors) for side in (node.left, node.comparators[0])]
    for (tensor, first), (other, start) in (sides, sides[::-1]):
        if tensor is not None and other is not None and other.rank and not tensor.rank:
            tensor.at_least(other.rank - start + first, exact=other.is_exact)


def _dimension_of(
    node: ast.expr, tensors: Mapping[str, Tensor], ranks_known: bool = True
) -> _Dim | None:
    """Return the dimension in ``x.shape[1]``, ``x.size(1)`` or ``x.stride(1)``.

    Args:
        node: the expression.
        tensors: the tensors.
        ranks_known: their ranks are: one counted from the end is counted from the start.
    """
    tensor, index, is_size = None, None, True
    if isinstance(node, ast.Subscript):
        tensor, index = _shaped_tensor(node.value, tensors), node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        is_known = node.func.attr in ("size", "stride")
        tensor, index = _named_tensor(node.func.value, tensors) if is_known else None, node.args[0]
        is_size = node.func.attr == "size"
    if tensor is None or index is None or (ranks_known and not is_size):
        return None
    try:
        place = ast.literal_eval(index)
    except ValueError:
        return None
    if not isinstance(place, int):
        return None
    if ranks_known and place < 0:
        place += tensor.rank
    return (tensor.name, place) if not ranks_known or 0 <= place < tensor.rank else None


def _assigned_dimensions(
    target: ast.expr, value: ast.expr, tensors: Mapping[str, Tensor]
) -> Iterator[tuple[str, _Dim]]:
    """Local names that an assignment gives to dimensions."""
    if isinstance(target, ast.Name) and (dim := _dimension_of(value, tensors)) is not None:
        yield target.id, dim
    elif isinstance(target, ast.Name) and isinstance(value, ast.Call):
        tensor = (
            _named_tensor(value.func.value, tensors)
            if isinstance(value.func, ast.Attribute)
            else None
        )
        if tensor is not None and tensor.rank == 1 and ast.unparse(value.func).endswith(".numel"):
            yield target.id, (tensor.name, 0)
    elif isinstance(target, ast.Tuple):
        tensor = _shaped_tensor(value, tensors)
        if tensor is not None and len(target.elts) == tensor.rank:
            for i, element in enumerate(target.elts):
                if isinstance(element, ast.Name) and element.id.strip("_"):
                    yield element.id, (tensor.name, i)
        elif isinstance(value, ast.Tuple):
            for target_part, value_part in zip(target.elts, value.elts):
                yield from _assigned_dimensions(target_part, value_part, tensors)


def _join_compared(
    groups: _Groups, lhs: ast.expr, rhs: ast.expr, tensors: Mapping[str, Tensor]
) -> None:
    (one, first), (other, start) = _sliced_shape(lhs, tensors), _sliced_shape(rhs, tensors)
    if one is not None and other is not None:
        for i in range(min(one.rank - first, other.rank - start)):
            groups.join((one.name, first + i), (other.name, start + i))
        return
    if one is not None and isinstance(rhs, (ast.Tuple, ast.List)):  # x.shape == (M, N)
        for i, dim in enumerate(rhs.elts[: one.rank]):
            if isinstance(dim, ast.Name):
                groups.join((one.name, i), dim.id)
        return
    sides: list[object] = []
    for side in (lhs, rhs):
        name = side.id if isinstance(side, ast.Name) else None
        sides.append(
            _dimension_of(side, tensors) or (name if name in groups.parent.values() else None)
        )
    if None not in sides:
        groups.join(sides[0], sides[1])


def _tensors_handed_on(
    source: Source, node: Definition, within: tuple[str, ...]
) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters that a function hands on as tensors, with the callee's facts on them."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        target, skip = _called_function(source, call)
        if target is None or target.name in within:
            continue
        theirs = tensors_of(source, target, skip, within)
        names = [parameter.arg for parameter in parameters(target)[skip:]]
        handed = [
            *zip(names, call.args),
            *((keyword.arg, keyword.value) for keyword in call.keywords),
        ]
        for name, value in handed:
            if isinstance(value, ast.Name) and name in theirs:
                yield value.id, theirs[name]


def _called_function(source: Source, call: ast.Call) -> tuple[Definition | None, int]:
    """Return the file's function that a call runs, and how many leading parameters it fills."""
    function = call.func
    if isinstance(function, ast.Name):
        if function.id in source.functions:
            return source.functions[function.id], 0
        function = source.aliases.get(function.id, function)
    if isinstance(function, ast.Attribute) and function.attr == "apply":
        name = function.value.id if isinstance(function.value, ast.Name) else ""
        return source.forward(source.classes[name]) if name in source.classes else (None, 0)
    return None, 0
