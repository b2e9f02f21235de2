"""The kernel file of recorded launches, as text that needs nothing but torch and triton.

The kernel and all that it calls stand in the file, whatever they were imported from, so that it can
be launched where the library is not installed. Names that two functions understand differently get
a number; whatever else a name stands for is defined above the functions.
"""

from __future__ import annotations

import io
import keyword
import math
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from solkit.core import Binding, KernelProgram, TensorLayout, Value
from solkit.core.recordings import RecordedLaunch, TensorRecipe
from solkit.errors import UnsupportedError

TORCH_DTYPES: Mapping[str, str] = {
    "i1": "bool",
    "u8": "uint8",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (16, 32, 64)},
}
_ALIGNED_BYTES = 256  # allocations are
_IMPORTABLE = ("triton", "torch", "math", "builtins")
_RESERVED = frozenset(
    "reference inputs kernel valid check SPACE SHAPES HELD_OUT_SHAPES OUTPUTS TOLERANCE LAUNCHES "
    "CONFIGS CHOICES LAUNCH deployed torch triton tl gluon base64 zlib ModuleType TensorDescriptor "
    "recorded_launch fill namespace array import_module".split()
)


# ---------------------------------------------------------------------------------------- program


class _ProgramText:
    """Puts the functions of a program into one namespace."""

    def __init__(self, record: RecordedLaunch, program: KernelProgram) -> None:
        self._record, self._program = record, program
        self._meanings: dict[str, str] = {}  # names of the file, and what they are
        self._lines: list[str] = []  # that define names
        self.needs_gluon = any("@gluon" in text for text in record.decorators.values())
        self.names = {key: self._own_name(key) for key in program.functions}
        self.entry = self.names[program.entry]

    def _own_name(self, key: str) -> str:
        stem = key.partition("#")[0].rpartition(".")[2]
        return self._free_name(stem, f"function {key}")

    def _free_name(self, stem: str, meaning: str) -> str:
        """Return a name that stands for `meaning` alone."""
        for number in range(1, 1000):
            name = stem if number == 1 else f"{stem}_{number}"
            is_taken = name in _RESERVED or keyword.iskeyword(name)
            if not is_taken and self._meanings.setdefault(name, meaning) == meaning:
                return name
        raise UnsupportedError(f"{stem} stands for too many things")

    def text(self) -> str:
        """Return the functions, those that others call first, each behind what its names mean."""
        parts: list[str] = []
        for key in self._called_first():
            before = len(self._lines)
            function = self._function_text(key)
            parts += ["\n".join(self._lines[before:])] if self._lines[before:] else []
            parts.append(function)
        return "\n\n\n".join(parts)

    def _called_first(self) -> list[str]:
        order: list[str] = []

        def visit(key: str, path: tuple[str, ...]) -> None:
            if key in order or key in path:
                return
            for binding in self._program.functions[key].names.values():
                if binding.kind == "function":
                    visit(binding.text, (*path, key))
            order.append(key)

        for key in self._program.functions:
            visit(key, ())
        return order

    def _function_text(self, key: str) -> str:
        function = self._program.functions[key]
        renamed = self._renamed(key)
        own = key.partition("#")[0].rpartition(".")[2]
        if self.names[key] != own:
            renamed[own] = self.names[key]
        source = _with_renamed(function.source, renamed) if renamed else function.source
        return f"{self._record.decorators.get(key, '@triton.jit')}\n{source.rstrip()}"

    def _renamed(self, key: str) -> dict[str, str]:
        """Return the names that a function has for things that are called otherwise here."""
        trees = _name_trees(self._program.functions[key].names)
        renamed = {}
        for root, tree in trees.items():
            module = self._record.imports.get(key, {}).get(root, "")
            name = self._define(root, tree, module)
            if name != root:
                renamed[root] = name
        return renamed

    def _define(self, root: str, tree: Any, module: str) -> str:
        """Define what a name stands for, once; return its name here."""
        if isinstance(tree, Binding):
            if tree.kind == "function":
                return self.names[tree.text]
            if tree.kind == "library" and tree.text == f"builtins.{root}":
                return root
            if tree.kind == "library" and tree.text in self._record.helpers:
                return self._helper(tree.text)
            if tree.kind == "library" and "." not in _split_library(tree.text)[1]:
                module, name = _split_library(tree.text)
                meaning = f"from {module} import {name}"
                return self._defined(root, meaning, f"{meaning} as {{}}")
            expression = self._expression(tree, root)
        elif _is_importable(module) and not _has_functions(tree):
            if (root, module) in (("tl", "triton.language"), ("triton", "triton")):
                return root
            return self._defined(root, f"import {module}", f"import {module} as {{}}")
        else:
            expression = self._namespace(tree, root)
        return self._defined(root, expression, f"{{}} = {expression}")

    def _helper(self, text: str) -> str:
        """Define a function that the compiler calls, under its own name."""
        module, name = _split_library(text)
        definition = self._record.helpers[text]
        if self._free_name(name, definition) != name:
            return self._defined(name, text, f"from {module} import {name} as {{}}")
        if definition not in self._lines:
            self._lines.append(definition)
        return name

    def _defined(self, root: str, meaning: str, line: str) -> str:
        name = self._free_name(root, meaning)
        text = line.replace("{}", name, 1)  # texts may have braces of their own
        if text not in self._lines:
            self._lines.append(text)
        return name

    def _namespace(self, tree: Mapping[str, Any], root: str) -> str:
        members = [f"{name}={self._member(item, f'{root}.{name}')}" for name, item in tree.items()]
        return f"namespace({', '.join(members)})"

    def _member(self, tree: Any, path: str) -> str:
        if isinstance(tree, Binding):
            return self._expression(tree, path)
        return self._namespace(tree, path)

    def _expression(self, binding: Binding, path: str) -> str:
        """Return what a name of a kernel's module stands for, as Python."""
        if binding.kind == "function":
            return self.names[binding.text]
        if binding.kind == "constant":
            return f"tl.constexpr({_literal(binding.value)})"
        if binding.kind == "items":
            return f"tl.constexpr({_items_text(binding)})"
        if binding.kind == "type":
            return _type_text(binding.text)
        if binding.kind == "library":
            is_helper = binding.text in self._record.helpers
            return self._helper(binding.text) if is_helper else _library_text(binding.text)
        raise UnsupportedError(
            f"{self._record.launch.name} reads {path}, which is no number, text, type or function"
        )


def _name_trees(names: Mapping[str, Binding]) -> dict[str, Any]:
    """Return ``{"tl": {"load": ...}}`` of ``"tl.load"``."""
    trees: dict[str, Any] = {}
    for dotted, binding in names.items():
        *path, last = dotted.split(".")
        inner = trees
        for part in path:
            inner = inner.setdefault(part, {})
            if isinstance(inner, Binding):  # an attribute of what is known itself
                break
        else:
            inner.setdefault(last, binding)
    return trees


def _has_functions(tree: Any) -> bool:
    if isinstance(tree, Binding):
        return tree.kind == "function"
    return any(map(_has_functions, tree.values()))


def _is_importable(module: str) -> bool:
    return module.partition(".")[0] in _IMPORTABLE


def _with_renamed(source: str, renamed: Mapping[str, str]) -> str:
    """Rename names, but neither attributes nor keywords of calls."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    places = []
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None]):
        is_name = token.type == tokenize.NAME and token.string in renamed
        is_attribute = before is not None and before.string == "."
        is_keyword = (
            before is not None
            and after is not None
            and before.string in ("(", ",")
            and after.string == "="
        )
        if is_name and not is_attribute and not is_keyword:
            places.append(token)
    for token in reversed(places):
        (row, start), (_, end) = token.start, token.end
        line = lines[row - 1]
        lines[row - 1] = line[:start] + renamed[token.string] + line[end:]
    return "".join(lines)


def _library_text(text: str) -> str:
    """Return an expression for a function, class or value by its qualified name."""
    module, name = _split_library(text)
    return f"import_module({module!r}).{name}"


def _split_library(text: str) -> tuple[str, str]:
    """Return module and name; classes, which contain others, are no modules."""
    parts = text.split(".")
    place = next((n for n, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    place = min(max(place, 1), len(parts) - 1)
    return ".".join(parts[:place]), ".".join(parts[place:])


def _type_text(text: str) -> str:
    names = {
        "fp16": "float16",
        "bf16": "bfloat16",
        "fp32": "float32",
        "fp64": "float64",
        "fp8e4nv": "float8e4nv",
        "fp8e5": "float8e5",
        "fp8e4b8": "float8e4b8",
        "fp8e5b16": "float8e5b16",
        "fp8e4b15": "float8e4b15",
        "i1": "int1",
        "void": "void",
        **{f"{s}{b}": f"{'u' * (s == 'u')}int{b}" for s in "iu" for b in (8, 16, 32, 64)},
    }
    if text.startswith("pointer<"):
        return f"tl.pointer_type({_type_text(text[8:-1])})"
    if text in names:
        return f"tl.{names[text]}"
    raise UnsupportedError(f"the type {text} cannot be written into a kernel file")


def _literal(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _items_text(binding: Binding) -> str:
    items = [_items_text(e) if e.kind == "items" else _literal(e.value) for e in binding.items]
    return "(" + "".join(f"{item}, " for item in items) + ")"


# ----------------------------------------------------------------------------------------- sizes


def launch_sizes(records: Sequence[RecordedLaunch]) -> list[dict[str, Value]]:
    """Return what tells launches of one kernel apart, as sizes: scalars, constants, extents.

    Args:
        records: of one file, all distinct.
    """
    rows = [dict(_all_sizes(record)) for record in records]
    varied = [name for name in rows[0] if len({repr(row.get(name)) for row in rows}) > 1]
    chosen: list[str] = []
    for name in varied:  # as few as tell them apart
        if _distinct(rows, chosen) < _distinct(rows, [*chosen, name]):
            chosen.append(name)
    if _distinct(rows, chosen) < len(rows):
        return [{"launch": place} for place in range(len(rows))]
    return [{_size_name(name): row.get(name) for name in chosen} for row in rows]


def _distinct(rows: Sequence[Mapping[str, Value]], names: Sequence[str]) -> int:
    return len({tuple(repr(row.get(name)) for name in names) for row in rows})


def _size_name(path: str) -> str:
    """Return a name that neither a module nor the keyword ``device`` has."""
    name = path.replace("[", "_").replace("]", "")
    return f"{name}_" if name in ("device", "dtype") or name in _RESERVED else name


def _all_sizes(record: RecordedLaunch) -> Iterator[tuple[str, Value]]:
    for path, binding in _flat_arguments(record):
        if binding.kind in ("scalar", "constant"):
            yield path, binding.value
    for path, binding in _flat_arguments(record):
        layout = binding.tensor
        if layout is not None:
            yield from ((f"{path}_{axis}", size) for axis, size in enumerate(layout.shape))
    for path, binding in _flat_arguments(record):
        layout = binding.tensor
        if layout is not None:
            yield f"{path}_type", layout.dtype
            yield from ((f"{path}_stride_{n}", size) for n, size in enumerate(layout.strides))
            yield f"{path}_alignment", layout.alignment_bytes
            yield f"{path}_storage", layout.storage
    yield "grid", "x".join(map(str, record.launch.grid))


def tensor_paths(record: RecordedLaunch) -> list[str]:
    """Return the tensors of a launch, in the order of its file's `inputs`: ``"x"``, ``"x[1]"``."""
    return [path for path, binding in _flat_arguments(record) if binding.tensor is not None]


def _flat_arguments(record: RecordedLaunch) -> Iterator[tuple[str, Binding]]:
    def flat(path: str, binding: Binding) -> Iterator[tuple[str, Binding]]:
        yield path, binding
        for place, item in enumerate(binding.items):
            yield from flat(f"{path}[{place}]", item)

    for name, binding in record.launch.arguments.items():
        yield from flat(name, binding)


# ------------------------------------------------------------------------------------------ file


def file_group(record: RecordedLaunch) -> tuple[object, ...]:
    """Return what launches of one file have in common: the program and the configuration in use."""
    program = record.launch.program
    forms = tuple(_form(binding) for binding in record.launch.arguments.values())
    return (
        record.launch.name,
        program.digest if program else "",
        record.launcher,
        tuple((name, repr(value)) for name, value in record.params.items()),
        tuple(sorted((n, repr(v)) for n, v in record.options.items() if n not in record.space)),
        record.choice_names,
        record.tiles,
        bool(record.configs),
        forms,
    )


def _form(binding: Binding) -> object:
    """Return whether it is a tensor or a value, and of which other function or type."""
    if binding.kind == "items":
        return _fixed_text(binding)
    if binding.tensor is not None:
        return "tensor", binding.tensor.block, binding.tensor.is_written
    return "value" if binding.kind in ("scalar", "constant") else binding.text


_HEAD = '''"""{name}: {origin}.

The reference is the kernel in the configuration in use: it shows whether configurations agree, not
whether the kernel is right. Put a PyTorch function `reference` in its place to check that. Contents
of tensors are drawn again, in the layouts of the program's own: floats as wide as those were,
integers by value up to a size. `deployed` says how the program launches it: SolKit times it alike.
"""

import array
import base64
import zlib
from importlib import import_module

import torch
import triton
import triton.language as tl
{imports}
{program}


SPACE = {space}
CONFIGS = {configs}  # points of SPACE; empty: all
OUTPUTS = {outputs}
SHAPES = {shapes}
LAUNCHES = {launches}


def recorded_launch(sizes):
    for place, listed in enumerate(SHAPES):
        if all(sizes.get(name) == value for name, value in listed.items()):
            return place
    raise ValueError(f"no launch with {{sizes}} was recorded; expected one of {{SHAPES}}")


def reference({parameters}):
    kernel({parameters})


def inputs({sizes}device="cuda"):
    place = recorded_launch({{{named_sizes}}})
    storages, views, tensors = {{}}, {{}}, []
    for storage, layout, recipe in LAUNCHES[place]["tensors"]:
        name, shape, strides, offset, size = layout
        dtype = getattr(torch, name)
        if storage not in storages:
            storages[storage] = torch.zeros(size, dtype=torch.uint8, device=device)
        flat = storages[storage][: size // dtype.itemsize * dtype.itemsize].view(dtype)
        if (storage, layout) not in views:  # what is one tensor stays one
            views[storage, layout] = flat.as_strided(shape, strides, offset)
            fill(views[storage, layout], recipe)
        tensors.append(views[storage, layout])
    return {returned}


def fill(tensor, recipe):
    kind, *numbers = recipe
    shape, device = tensor.shape, tensor.device
    if kind == "listed":
        values = array.array("q", zlib.decompress(base64.b64decode(numbers[0]))).tolist()
        tensor.copy_(torch.tensor(values, dtype=torch.int64, device=device).reshape(shape))
    elif kind == "integers":
        low, high = numbers
        tensor.copy_(torch.randint(low, high + 1, shape, device=device))
    elif kind == "normal":
        mean, std, low, high, infinite = numbers
        values = (torch.randn(shape, device=device) * std + mean).clamp_(low, high)
        if infinite:
            is_infinite = torch.rand(shape, device=device) < infinite
            values = values.masked_fill(is_infinite, float("-inf"))
        tensor.copy_(values)


def valid(params, shape):
    choices = LAUNCHES[recorded_launch(shape)]["choices"]
    if CONFIGS and tuple(params[name] for name in SPACE) not in CONFIGS:
        return False
    return {point} in choices


def deployed(shape):
    return LAUNCHES[recorded_launch(shape)]["deployed"]


def kernel({parameters}{defaults}):
    {launch}grid, derived = LAUNCHES[{place}]["choices"][{key}]
    {function}[grid](
        {passed},
    )
'''


_NAMESPACE = """
def namespace(**members):
    module = type(torch)("names")
    vars(module).update(members)
    return module


"""


def kernel_file_text(records: Sequence[RecordedLaunch], origin: str) -> str:
    """Return the kernel file of launches that `file_group` puts together.

    Args:
        records: the launches, all distinct.
        origin: where they are from, for the file's first line.

    Raises:
        UnsupportedError: they cannot be launched again, or write to no tensor.
    """
    first = records[0]
    _check_replayable(first)
    assert first.launch.program is not None
    program = _ProgramText(first, first.launch.program)
    text = program.text()
    sizes = launch_sizes(records)
    tensors = tensor_paths(first)
    arguments = _argument_names(tensors)
    is_one = len(records) == 1
    parameters = ", ".join([*([] if is_one else ["launch"]), *arguments.values()])
    derived = {name for record in records for e in record.answers for name in e.derived}
    values = {name: [r.launch.arguments[name] for r in records] for name in first.launch.arguments}
    common = {n: v for n, v in values.items() if len(set(map(_fixed_text, v))) == 1}
    varied = [n for n in values if n not in common and n not in derived]
    passed = [
        f"{name}={_passed_text(name, bindings[0], arguments, program)}"
        for name, bindings in common.items()
        if name not in first.space and name not in derived
    ]
    passed += [f"{name}={name}" for name in first.space]
    passed += [
        f"{name}={_literal(value)}"
        for name, value in first.options.items()
        if name not in {*first.space, *values, *derived} and value is not None
    ]
    passed += ['**LAUNCHES[place]["values"]'] if varied and not is_one else []
    passed += ["**derived"] if derived else []
    outputs = tuple(n for p, n in arguments.items() if _layout_at(first, p).is_written)
    return _HEAD.format(
        name=first.launch.name,
        origin=origin,
        imports=_imports_text(program, first),
        program=(_NAMESPACE if "namespace(" in text else "") + text,
        space={name: list(listed) for name, listed in _joined_space(records).items()},
        configs=_joined_configs(records),
        outputs=outputs,
        shapes=sizes,
        launches=_launches_text(records, arguments, varied),
        parameters=parameters,
        sizes="".join(f"{name}={value!r}, " for name, value in sizes[0].items()),
        named_sizes=", ".join(f"{name!r}: {name}" for name in sizes[0]),
        returned="(*tensors,)" if is_one else "(place, *tensors)",
        point=_tuple_text(f'params["{name}"]' for name in first.choice_names),
        key=_tuple_text(first.choice_names),
        defaults=", *" * bool(first.space)
        + "".join(f", {n}={_literal(v)}" for n, v in first.params.items()),
        launch="" if is_one else "place = launch\n    ",
        place="0" if is_one else "place",
        function=program.entry,
        passed=",\n        ".join(passed),
    )


def _check_replayable(record: RecordedLaunch) -> None:
    name = record.launch.name
    if record.obstacle or record.launch.program is None:
        raise UnsupportedError(f"{name}: {record.obstacle or 'its source is unknown'}")
    layouts = [e.tensor for _, e in _flat_arguments(record) if e.tensor is not None]
    if not layouts:
        raise UnsupportedError(f"{name} takes no tensor: nothing of it can be verified")
    if not any(layout.is_written for layout in layouts):
        raise UnsupportedError(f"{name} writes to no tensor that it is given")
    if not record.answers:
        raise UnsupportedError(f"{name}: its grid could not be called")


def _imports_text(program: _ProgramText, record: RecordedLaunch) -> str:
    lines = ["from triton.experimental import gluon"] if program.needs_gluon else []
    if any(e.tensor is not None and e.tensor.block for _, e in _flat_arguments(record)):
        lines.append("from triton.tools.tensor_descriptor import TensorDescriptor")
    assert record.launch.program is not None
    names = [n for part in record.launch.program.functions.values() for n in part.names]
    if any(name.endswith("make_tensor_descriptor") for name in names):
        lines.append(
            "\ntriton.set_allocator(\n"
            '    lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")\n)'
        )
    return "".join(f"{line}\n" for line in lines)


def _argument_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the parameter that a tensor of the launch has in the file's functions."""
    names: dict[str, str] = {}
    for path in paths:
        name = path.replace("[", "_").replace("]", "")
        while name in _RESERVED or name in names.values() or name in ("launch", "place", "grid"):
            name += "_"
        names[path] = name
    return names


def _layout_at(record: RecordedLaunch, path: str) -> TensorLayout:
    layout = dict(_flat_arguments(record))[path].tensor
    assert layout is not None
    return layout


def _fixed_text(binding: Binding) -> str:
    """Return a text that is the same where a binding is passed the same way."""
    if binding.tensor is not None:
        return f"tensor {binding.tensor.block}"
    if binding.items:
        return f"({', '.join(map(_fixed_text, binding.items))})"
    return f"{binding.kind} {binding.value!r} {binding.text}"


def _passed_text(
    path: str, binding: Binding, arguments: Mapping[str, str], program: _ProgramText
) -> str:
    """Return what is passed for an argument, as Python."""
    if binding.tensor is not None:
        return _tensor_text(arguments[path], binding.tensor)
    if binding.kind == "items":
        items = [
            _passed_text(f"{path}[{place}]", item, arguments, program)
            for place, item in enumerate(binding.items)
        ]
        return _tuple_text(items)
    if binding.kind == "function":
        return program.names[binding.text]
    if binding.kind == "type":
        return _type_text(binding.text)
    if binding.kind == "library":
        return binding.text if binding.text.startswith("torch.") else _library_text(binding.text)
    return _literal(binding.value)


def _tensor_text(name: str, layout: TensorLayout) -> str:
    if not layout.block:
        return name
    return f"TensorDescriptor({name}, {name}.shape, {name}.stride(), {list(layout.block)})"


def _tuple_text(parts: Iterable[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts) + ")"


def _joined_space(records: Sequence[RecordedLaunch]) -> dict[str, tuple[Value, ...]]:
    names = records[0].space
    return {n: tuple(dict.fromkeys(v for r in records for v in r.space[n])) for n in names}


def _joined_configs(records: Sequence[RecordedLaunch]) -> list[tuple[Value, ...]]:
    return list(dict.fromkeys(point for record in records for point in record.configs))


def _launches_text(
    records: Sequence[RecordedLaunch], names: Mapping[str, str], varied: Sequence[str]
) -> str:
    lines = []
    for record in records:
        arguments = dict(_flat_arguments(record))
        rows = "".join(f"            {row},\n" for row in _tensor_rows(record, list(names)))
        values = {name: arguments[name].value for name in varied}
        choices = {answer.choice: (answer.grid, dict(answer.derived)) for answer in record.answers}
        value_text = ", ".join(f"{name!r}: {_literal(value)}" for name, value in values.items())
        lines.append(
            f'    {{\n        "tensors": [\n{rows}        ],\n'
            f'        "values": {{{value_text}}},\n        "choices": {choices},\n'
            f'        "deployed": {_deployed(record, names)},\n    }},\n'
        )
    return f"[\n{''.join(lines)}]"


def _deployed(record: RecordedLaunch, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the launch's `Deployment`; distances have two digits, as runs differ by a little."""
    reuse = {name: record.reuse_bytes.get(path) for path, name in names.items()}
    rounded = {n: None if size is None else int(float(f"{size:.1e}")) for n, size in reuse.items()}
    return {"graph": record.graph_calls > 0, "reuse_bytes": rounded}


def _tensor_rows(record: RecordedLaunch, tensors: Sequence[str]) -> Iterator[str]:
    """Yield storage, layout and recipe of each tensor; storages begin at the first byte needed."""
    layouts = {path: _layout_at(record, path) for path in tensors}
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for layout in layouts.values():
        start, end = _extent_bytes(layout)
        starts[layout.storage] = min(start, starts.get(layout.storage, start))
        ends[layout.storage] = max(end, ends.get(layout.storage, end))
    for path, layout in layouts.items():
        base = starts[layout.storage] // _ALIGNED_BYTES * _ALIGNED_BYTES
        offset = layout.offset_elements - base // layout.element_bytes
        size = ends[layout.storage] - base
        dtype = TORCH_DTYPES[layout.dtype]
        form = (dtype, tuple(layout.shape), tuple(layout.strides), offset, size)
        recipe = _recipe(record.recipes.get(path, TensorRecipe()), layout)
        yield f"({layout.storage}, {form}, {recipe})"


def _extent_bytes(layout: TensorLayout) -> tuple[int, int]:
    """Return the first byte of a storage that a tensor uses, and the one behind its last."""
    spans = [(n - 1) * step for n, step in zip(layout.shape, layout.strides)]
    empty = any(size == 0 for size in layout.shape)
    low = layout.offset_elements + sum(span for span in spans if span < 0)
    high = layout.offset_elements + (0 if empty else 1 + sum(s for s in spans if s > 0))
    return low * layout.element_bytes, max(high, low) * layout.element_bytes


def _recipe(recipe: TensorRecipe, layout: TensorLayout) -> str:
    if recipe.values:
        return f'("listed", "{recipe.values}")'
    if layout.dtype.startswith(("fp", "bf")):
        low = "-float('inf')" if recipe.low is None else repr(recipe.low)
        high = "float('inf')" if recipe.high is None else repr(recipe.high)
        numbers = f"{recipe.mean!r}, {recipe.std!r}, {low}, {high}"
        return f'("normal", {numbers}, {recipe.minus_infinity_share!r})'
    low_int, high_int = int(recipe.low or 0), int(recipe.high or 0)
    return f'("integers", {low_int}, {high_int})'
