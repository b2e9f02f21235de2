"""Launches of candidates as calls of programs, those that can be followed together in one.

What a launch records says it all (`solkit.core.Launch`). Of rows that were stored before launches
recorded their arguments, the kernel's file, constants and types say some of it: sizes are unknown.
"""

from __future__ import annotations

import ast
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from solkit.core import Binding, KernelFunction, KernelProgram, Launch, TensorLayout
from solkit.core.parsing import syntax_tree
from solkit.surrogate.ast_interpreter import Call, value_of_binding
from solkit.surrogate.program_values import FAR, Array, Number, Value
from solkit.surrogate.triton_functions import type_value

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_POINTERS = ("*", "tensordesc<")


def calls_of_launches(
    launches: Sequence[Launch | None], sources: Sequence[str]
) -> Iterator[tuple[Array, Call]]:
    """Yield rows that run one program on arguments of the same kinds, and their call.

    Args:
        launches: one of each row; rows without a launch, or whose program is unknown, are left out.
        sources: text of each row's kernel file, for launches that do not record their program.
    """
    groups: defaultdict[Hashable, list[tuple[int, Launch, KernelProgram]]] = defaultdict(list)
    shared, kind = by_identity(DistinctPrograms().shared), by_identity(_kind)
    for row, launch in enumerate(launches):
        if launch is None:
            continue
        program = launch.program or program_of_text(sources[row], launch.name)
        if program is None:
            continue
        kinds = tuple((name, kind(binding)) for name, binding in bindings_of_launch(launch).items())
        distinct = shared(program)
        groups[id(distinct), kinds].append((row, launch, distinct))
    for members in groups.values():
        rows, chosen, (program, *_) = zip(*members, strict=True)
        yield np.array(rows), _call(program, chosen)


def by_identity(function: Callable[[_Item], _Result]) -> Callable[[_Item], _Result]:
    """Return a function that computes each object's result once, and keeps the object alive.

    Thousands of launches share their programs and most of their arguments.
    """
    results: dict[int, tuple[_Item, _Result]] = {}

    def result_of(item: _Item) -> _Result:
        entry = results.get(id(item))
        if entry is None:
            entry = results[id(item)] = item, function(item)
        return entry[1]

    return result_of


class DistinctPrograms:
    """Programs, one object for all that are equal: thousands of launches run the same."""

    def __init__(self) -> None:
        self._by_identity: dict[int, KernelProgram] = {}
        self._by_content: dict[Hashable, KernelProgram] = {}

    def shared(self, program: KernelProgram) -> KernelProgram:
        """Return the first program that was equal to one."""
        same = self._by_identity.get(id(program))
        if same is not None:
            return same
        functions = program.functions.items()
        content = tuple((key, f.source, tuple(f.names.items())) for key, f in functions)
        first = self._by_content.setdefault((program.entry, content), program)
        if first is program:  # others may be freed, and their identity serve again
            self._by_identity[id(program)] = program
        return first


def bindings_of_launch(launch: Launch) -> Mapping[str, Binding]:
    """Return what each parameter gets, as far as it is recorded."""
    if launch.arguments:
        return launch.arguments
    bindings: dict[str, Binding] = {}
    for name, kind in launch.signature.items():
        if kind.startswith(_POINTERS):
            block = _descriptor_block(kind)
            dtype = kind.removeprefix("tensordesc<").partition("[")[0].lstrip("*")
            element_bytes = int(type_value(dtype).width)
            bindings[name] = Binding(
                "tensor", tensor=TensorLayout(dtype, element_bytes, (), (), block=block)
            )
    constants = {name: Binding("constant", value) for name, value in launch.constants.items()}
    return bindings | constants


def tensors_of_launch(launch: Launch) -> list[TensorLayout]:
    """Return the tensors that a launch gets, of which more than the type is known."""
    bindings = launch.arguments.values()
    return [binding.tensor for binding in bindings if binding.tensor is not None]


def _descriptor_block(kind: str) -> tuple[int, ...]:
    """Parse ``"tensordesc<bf16[64, 32]>"`` to (64, 32)."""
    numbers = kind.partition("[")[2].partition("]")[0].split(",") if "[" in kind else []
    return tuple(int(number) for number in numbers if number.strip().isdigit())


def _kind(binding: Binding) -> Hashable:
    """Return what must be the same of arguments that are followed together."""
    if binding.kind in ("constant", "scalar"):
        value = binding.value
        if value is None or isinstance(value, str):
            return "word", value
        return "number", isinstance(value, float)
    if binding.tensor is not None:
        tensor = binding.tensor
        contents = (tensor.contents, tensor.contents_step, tensor.offset_elements)
        return "tensor", tensor.dtype, len(tensor.block), contents if tensor.contents else None
    return binding.kind, binding.text, tuple(map(_kind, binding.items))


def _call(program: KernelProgram, launches: Sequence[Launch]) -> Call:
    columns: defaultdict[str, list[Binding]] = defaultdict(list)
    for launch in launches:
        for name, binding in bindings_of_launch(launch).items():
            columns[name].append(binding)
    arguments = {name: _joined_value(bindings) for name, bindings in columns.items()}
    grid = [_column([launch.grid[axis] for launch in launches]) for axis in range(3)]
    return Call(program, arguments, grid)


def _joined_value(bindings: Sequence[Binding]) -> Value:
    """Return one parameter's value of all candidates."""
    first = bindings[0]
    tensors = [binding.tensor for binding in bindings if binding.tensor is not None]
    if len(tensors) == len(bindings):
        return _pointer(tensors)
    if first.kind == "items":
        parts = zip(*(binding.items for binding in bindings), strict=True)
        return Value(kind="items", items=tuple(map(_joined_value, parts)))
    value = value_of_binding(first)
    if isinstance(first.value, (bool, int, float)):
        numbers = [binding.value for binding in bindings]
        return Value(_column(numbers), is_integer=value.is_integer)
    return value


def _pointer(tensors: Sequence[TensorLayout]) -> Value:
    first = tensors[0]
    is_integer = type_value(first.dtype).is_integer
    same = first if first.contents else None  # only equal contents are followed together
    pointer = Value(
        0.0, width=float(first.element_bytes), kind="pointer", is_integer=is_integer, tensor=same
    )
    if not first.block:
        return pointer
    rank = len(first.block)
    sizes, strides, bounds = (
        tuple(_column([_at(getattr(t, name), rank, axis) for t in tensors]) for axis in range(rank))
        for name in ("block", "strides", "shape")
    )
    unknown = (*(FAR for _ in sizes[1:]), 1.0)  # the last dimension has no gaps
    steps = (np.where(np.isnan(s), u, s) for s, u in zip(strides, unknown, strict=True))
    return Value(
        sizes=sizes,
        steps=tuple(steps),
        bounds=bounds,
        width=pointer.width,
        kind="pointer",
        is_integer=is_integer,
    )


def _at(numbers: Sequence[int], rank: int, axis: int) -> float:
    """Return one of a descriptor's numbers; NaN if it is unknown."""
    return float(numbers[axis]) if len(numbers) == rank else math.nan


def _column(numbers: Sequence[object]) -> Number:
    """Return (candidates, 1), or one number if all are the same."""
    values = np.array([float(number) for number in numbers])  # type: ignore[arg-type]
    return float(values[0]) if np.all(values == values[0]) else values[:, None]


# --------------------------------------------------------------------------- programs of one file


@functools.lru_cache(4096)
def program_of_text(source: str, name: str) -> KernelProgram | None:
    """Return the program of a function of a file, as far as the file tells; ``None`` without it.

    What is imported from elsewhere has no text.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return None
    nodes = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    if name not in nodes:
        return None
    names = _names_of_file(tree) | {key: Binding("function", text=key) for key in nodes}
    functions = {}
    for key, node in nodes.items():
        undecorated = ast.FunctionDef(**{f: getattr(node, f) for f in node._fields})
        undecorated.decorator_list = []
        text = ast.unparse(ast.fix_missing_locations(undecorated))
        functions[key] = KernelFunction(text, _used_names(node, names))
    return KernelProgram(name, functions)


def _names_of_file(tree: ast.Module) -> dict[str, Binding]:
    """Return constants and imported libraries by their names in a file."""
    names: dict[str, Binding] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = Binding("library", text=alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                text = f"{node.module}.{alias.name}"
                names[alias.asname or alias.name] = Binding("library", text=text)
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            binding = _constant_binding(node.value)
            if isinstance(target, ast.Name) and binding is not None:
                names[target.id] = binding
    return names


def _constant_binding(node: ast.expr | None) -> Binding | None:
    if isinstance(node, ast.Call) and node.args:  # tl.constexpr(1.44)
        node = node.args[0]
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_constant_binding(element) for element in node.elts]
        constants = tuple(item for item in items if item is not None)
        return Binding("items", items=constants) if len(constants) == len(items) else None
    if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, complex)):
        return None if node.value is ... else Binding("constant", node.value)
    return None


def _used_names(node: ast.FunctionDef, names: Mapping[str, Binding]) -> dict[str, Binding]:
    used: dict[str, Binding] = {}
    for part in ast.walk(node):
        dotted = ast.unparse(part) if isinstance(part, (ast.Attribute, ast.Name)) else ""
        root, _, rest = dotted.partition(".")
        binding = names.get(root)
        if binding is None or "(" in dotted or "[" in dotted:
            continue
        if binding.kind == "library" and rest:
            used[dotted] = _library_binding(f"{binding.text}.{rest}")
        elif not rest:
            used[dotted] = binding
    return used


def _library_binding(text: str) -> Binding:
    """Return a type of Triton's by its name there, or a function."""
    last = text.rpartition(".")[2]
    is_type = last.rstrip("0123456789").startswith(("float", "bfloat", "int", "uint"))
    if is_type and last[-1:].isdigit():
        return Binding("type", text=last)
    return Binding("library", text=text)
