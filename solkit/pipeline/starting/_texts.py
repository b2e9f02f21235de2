"""The texts of kernel files, with a TODO where only their author knows what is right."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from solkit.core.syntax import names_used_by, returned_values
from solkit.pipeline.starting._factories import Factory
from solkit.pipeline.starting._functions import Definition
from solkit.pipeline.starting._launcher import (
    Tunable,
    copy_launcher,
    tunable_constants,
    values_to_try,
)
from solkit.pipeline.starting._source import Jit, Source
from solkit.pipeline.starting._tensors import (
    Sizes,
    Tensor,
    named_sizes,
    tensors_of,
    typical_dimension,
)

_OWN_NAMES = {"kernel", "reference", "inputs", "valid", "check", "SPACE", "SHAPES", "TOLERANCE"}
_WORDS = {"int": "1", "float": "1.0", "bool": "False"}


@dataclass(frozen=True)
class Parts:
    """A kernel file to write.

    Attributes:
        body: its text below the imports.
        names: what it takes from the user's file; a pair is imported under the second name.
    """

    body: str
    names: Sequence[str | tuple[str, str]]


@dataclass(frozen=True)
class _Call:
    """A function that is called as the candidate.

    Attributes:
        name: what is imported.
        node: whose parameters are given.
        skip: its leading parameters that are not.
        called: how it is called.
    """

    name: str
    node: Definition
    skip: int
    called: str


def launched_text(source: Source, name: str) -> Parts:
    """Return a file for a function, or an ``autograd.Function``, that launches kernels."""
    call = _call_of_name(source, name)
    tensors = tensors_of(source, call.node, call.skip)
    sizes = named_sizes(call.node, tensors)
    required = _required_parameters(call.node, call.skip)
    knobs = (
        tunable_constants(source, call.node)
        if call.node is source.functions.get(name)
        else Tunable()
    )
    if name == "kernel":  # the file's own candidate stays as it is
        knobs = Tunable({n: v for n, v in knobs.defaults.items() if n in knobs.own}, knobs.own)
    present = _OWN_NAMES & source.bound.keys() - source.kernels.keys()
    names: list[str | tuple[str, str]] = sorted(present & {"SHAPES", "TOLERANCE"})
    names += [  # check(got, want) and valid(params, shape), not others of that name
        name
        for name in ("check", "valid")
        if name in source.functions and len(_required_parameters(source.functions[name], 0)) == 2
    ]
    parts = []
    if outputs := _written_arguments(call.node, tensors):
        parts.append(f"OUTPUTS = ({_quote_words(outputs)},)  # the kernel writes them\n")
    if "SPACE" in present:
        names.append("SPACE")
    else:
        parts.append(_space_text(source, call, knobs))
    written = {
        "reference": _reference_text(source, call, required, tensors),
        "inputs": _inputs_text(source, call, required, tensors, sizes),
    }
    names += sorted(present & written.keys())
    parts += [text for own, text in written.items() if own not in present]
    text, more = _kernel_text(source, call, knobs)
    return Parts("\n\n".join([*parts, *([text] if text else [])]), [*names, *more])


def _call_of_name(source: Source, name: str) -> _Call:
    if name in source.functions:
        return _Call(name, source.functions[name], 0, name)
    node, skip = source.forward(source.classes[name])
    assert node is not None, name  # the chooser asks for classes that have one
    return _Call(name, node, skip, f"{name}.apply")


def _required_parameters(node: Definition, skip: int) -> list[ast.arg]:
    """Return parameters without a default, in order."""
    positional = [*node.args.posonlyargs, *node.args.args]
    first = len(positional) - len(node.args.defaults)
    needed = positional[skip : max(first, skip)]
    by_name = zip(node.args.kwonlyargs, node.args.kw_defaults)
    return needed + [parameter for parameter, default in by_name if default is None]


def _written_arguments(node: Definition, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the arguments that a function must get and writes, if it returns nothing."""
    if any(True for _ in returned_values(node)):
        return ()
    required = {parameter.arg for parameter in _required_parameters(node, 0)}
    return tuple(t.name for t in tensors.values() if t.is_written and t.name in required)


def _space_text(source: Source, call: _Call, knobs: Tunable) -> str:
    launches = [launch for launch in source.launches(call.node) if launch.jit is not None]
    tuned = [launch.name for launch in launches if launch.jit and launch.jit.is_autotuned]
    if tuned:
        return f"# No SPACE: the configurations of triton.autotune on {tuned[0]} are searched.\n"
    return _space_lines(knobs.defaults)


def _space_lines(defaults: Mapping[str, int]) -> str:
    if not defaults:
        return (
            "# No SPACE: no constant of a launch is in reach. To tune one, make it a keyword-only\n"
            '# parameter of kernel() and list its values: SPACE = {"BLOCK": [512, 1024]}\n'
        )
    space = {name: values_to_try(name, value) for name, value in defaults.items()}
    lines = [f"    {name!r}: {values},".replace("'", '"') for name, values in space.items()]
    return "\n".join(
        ["# TODO: leave out values for which the kernel is wrong.", "SPACE = {", *lines, "}", ""]
    )


def _reference_text(
    source: Source, call: _Call, required: Sequence[ast.arg], tensors: Mapping[str, Tensor]
) -> str:
    names = ", ".join(parameter.arg for parameter in required)
    lines = [f"def reference({names}):"]
    others = _likely_references(source, len(required))
    if others:
        lines.append(f"    # Launching nothing, with as many arguments: {', '.join(others)}")
    if written := _written_arguments(call.node, tensors):
        lines.append(f"    # It writes {', '.join(written)} in place, as the kernel does.")
    todo = f"TODO: reference(): compute in PyTorch what {call.name}() computes"
    return "\n".join([*lines, f'    raise NotImplementedError("{todo}")', ""])


def _likely_references(source: Source, count: int) -> list[str]:
    """Return functions of the file that might be the reference."""
    alike = []
    for name, node in source.functions.items():
        is_alike = name not in source.launching and len(_required_parameters(node, 0)) == count
        if is_alike and tensors_of(source, node):
            alike.append(name)
    return alike[:3]


def _requested_dtype(source: Source, tensors: Mapping[str, Tensor]) -> str:
    """Return the dtype that the function asks for; else one that every kernel compiles with."""
    floating = (tensor for tensor in tensors.values() if not tensor.holds_integers)
    dtypes = {tensor.dtype for tensor in floating if tensor.dtype}
    if len(dtypes) == 1:
        return f"torch.{dtypes.pop()}"
    nodes = [jit.node for jit in source.kernels.values()]
    has_dot = any(
        isinstance(part, ast.Attribute) and part.attr.startswith("dot")
        for node in nodes
        for part in ast.walk(node)
    )
    return "torch.float16" if has_dot else "torch.float32"


def _random_tensor_text(tensor: Tensor, sizes: Sizes) -> str:
    dims = ", ".join(sizes.dims[tensor.name])
    if tensor.holds_integers:
        dtype = f"dtype=torch.{tensor.dtype}, " if tensor.dtype else ""
        return f"torch.randint(0, 1, ({dims},), {dtype}device=device)  # TODO: values below 1"
    if tensor.is_written and not tensor.is_read:
        return f"torch.empty({dims}, dtype=dtype, device=device)"
    return f"torch.randn({dims}, dtype=dtype, device=device)"


def _inputs_text(
    source: Source,
    call: _Call,
    required: Sequence[ast.arg],
    tensors: Mapping[str, Tensor],
    sizes: Sizes,
) -> str:
    used = {name for parameter in required for name in sizes.dims.get(parameter.arg, ())}
    taken = [f"{name}={value}" for name, value in sizes.defaults.items() if name in used]
    dtype = f"dtype={_requested_dtype(source, tensors)}"
    header = ", ".join([*taken, dtype, 'device="cuda"'])
    lines = [f"def inputs({header}):"]
    if used:
        lines.append("    # TODO: check the shapes; the text of the file says no more")
    kinds = {name: bound.kind for name, bound in source.bound_arguments(call.node)}
    for parameter in required:
        if parameter.arg in tensors:
            lines.append(
                f"    {parameter.arg} = {_random_tensor_text(tensors[parameter.arg], sizes)}"
            )
        elif parameter.arg not in used:  # else it is a size
            lines += _scalar_text(parameter, kinds.get(parameter.arg, ""))
    names = ", ".join(parameter.arg for parameter in required) + ("," if len(required) == 1 else "")
    by_name = {parameter.arg for parameter in call.node.args.kwonlyargs}
    if any(parameter.arg in by_name for parameter in required):
        pairs = ", ".join(f'"{parameter.arg}": {parameter.arg}' for parameter in required)
        return "\n".join([*lines, f"    return (), {{{pairs}}}", ""])
    return "\n".join([*lines, f"    return ({names})", ""])


def _scalar_text(argument: ast.arg, kind: str = "") -> list[str]:
    kind = ast.unparse(argument.annotation) if argument.annotation is not None else kind
    if kind in _WORDS:
        return [f"    {argument.arg} = {_WORDS[kind]}  # TODO: choose a value"]
    todo = f"TODO: inputs(): choose a value for {argument.arg}"
    return [f"    {argument.arg} = None", f'    raise NotImplementedError("{todo}")']


def _kernel_text(
    source: Source, call: _Call, knobs: Tunable
) -> tuple[str, list[str | tuple[str, str]]]:
    """Write the candidate: a copy of a launcher with constants to vary, else a call of it."""
    if call.called == "kernel":
        return "", ["kernel"]
    is_inside = knobs.locals or knobs.literals or knobs.added or knobs.defaults.keys() - knobs.own
    if is_inside:
        text, needed = copy_launcher(source, call.node, knobs, "kernel")
        if text and not needed & _OWN_NAMES:
            return text, sorted(needed)
    own = {name: value for name, value in knobs.defaults.items() if name in knobs.own}
    by_name = {parameter.arg for parameter in call.node.args.kwonlyargs} | own.keys()
    names = [parameter.arg for parameter in _required_parameters(call.node, call.skip)]
    arguments = [f"{name}={name}" if name in by_name else name for name in [*names, *own]]
    keywords = "".join(f", {name}={value}" for name, value in own.items())
    head = f"def kernel({', '.join(names)}{', *' if own else ''}{keywords}):"
    return f"{head}\n    return {call.called}({', '.join(arguments)})\n", [call.name]


def factory_text(source: Source, name: str) -> Parts:
    """Return a file for a function of TileLang's that makes a kernel for given sizes."""
    factory = source.factories[name]
    numbers = {n: v for n, v in source.aliases.items() if isinstance(v, ast.Constant)}
    shapes = {own: factory.shape(said, numbers) for own, said in factory.annotations().items()}
    written = factory.written()
    tensors = {
        own: Tensor(own, len(shapes[own]), is_written=own in written, dtype=factory.dtype(said))
        for own, said in factory.annotations().items()
    }
    tensor_names = [own for i, own in enumerate(shapes) if i not in factory.returned]
    used = {part for dims in shapes.values() for dim in dims for part in names_used_by(_code(dim))}
    sizes = [parameter for parameter in factory.defaults if parameter in used]
    places = {
        size: f"{own}.shape[{i}]"
        for own in reversed(tensor_names)
        for i, size in enumerate(shapes[own])
        if size in sizes
    }
    names = [*tensor_names, *(size for size in sizes if size not in places)]
    outputs = [own for own in tensor_names if own in written]
    reference = [f"def reference({', '.join(names)}):"]
    if outputs:
        reference.append(f"    # It writes {', '.join(outputs)} in place, as the kernel does.")
    todo = f"TODO: reference(): compute in PyTorch what {name}() computes"
    reference.append(f'    raise NotImplementedError("{todo}")\n')
    knobs, passed = factory.constants(sizes)
    recovered = {size: places.get(size, "") for size in sizes}
    parts = [
        *([f"OUTPUTS = ({_quote_words(outputs)},)  # the kernel writes them\n"] if outputs else []),
        _space_lines(knobs),
        "\n".join(reference),
        _factory_inputs(source, factory, tensors, Sizes(shapes, {}), names),
        _factory_kernel(factory, names, tensor_names, recovered, knobs, passed),
    ]
    return Parts("\n\n".join(parts), [name])


def _code(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _factory_inputs(
    source: Source,
    factory: Factory,
    tensors: Mapping[str, Tensor],
    sizes: Sizes,
    names: Sequence[str],
) -> str:
    most = max((tensor.rank for tensor in tensors.values()), default=1)
    values: dict[str, str] = {}
    for own, dims in sizes.dims.items():
        for i, dim in enumerate(dims):
            for size in names_used_by(_code(dim)) & factory.defaults.keys():
                usual = str(typical_dimension(tensors[own].rank, i, most))
                values.setdefault(size, factory.defaults[size] or usual)
    taken = [f"{size}={value}" for size, value in values.items()]
    own_types = {t.dtype for t in tensors.values() if t.dtype and not t.holds_integers}
    header = [*taken, f"dtype={_requested_dtype(source, tensors)}", 'device="cuda"']
    lines = [f"def inputs({', '.join(header)}):"]
    for own in names:
        if own in tensors:
            text = _random_tensor_text(tensors[own], sizes)
            if len(own_types) > 1 and tensors[own].dtype:
                text = text.replace("dtype=dtype", f"dtype=torch.{tensors[own].dtype}")
            lines.append(f"    {own} = {text}")
    return "\n".join([*lines, f"    return ({', '.join(names)}{',' * (len(names) == 1)})", ""])


def _factory_kernel(
    factory: Factory,
    names: Sequence[str],
    tensor_names: Sequence[str],
    sizes: Mapping[str, str],
    knobs: Mapping[str, int],
    passed: Mapping[str, str],
) -> str:
    keywords = "".join(f", {own}={value}" for own, value in knobs.items())
    lines = [f"def kernel({', '.join(names)}{', *' if knobs else ''}{keywords}):"]
    lines += [
        f'    raise NotImplementedError("TODO: kernel(): choose a value for {own}")'
        for own, value in passed.items()
        if not value
    ]
    lines += [] if factory.is_compiled else ["    import tilelang", ""]
    lines += [f"    {size} = {place}" for size, place in sizes.items() if place]
    arguments = {**{size: size for size in sizes}, **passed}
    call = ", ".join(f"{own}={value or None}" for own, value in arguments.items())
    call = f"{factory.name}({call})" if factory.has_sizes else factory.name
    call = call if factory.is_compiled else f"tilelang.compile({call})"
    return "\n".join([*lines, f"    return {call}({', '.join(tensor_names)})", ""])


def module_text(source: Source, name: str) -> Parts:
    """Return a file in KernelBench's form for a class that is a module."""
    owner = source.classes[name]
    node, skip = source.forward(owner)
    assert node is not None, name  # the chooser asks for classes that have one
    tensors = tensors_of(source, node, skip)
    required = _required_parameters(node, skip)
    for parameter in required:  # a module's inputs are tensors unless it says otherwise
        if parameter.arg not in tensors and parameter.annotation is None:
            tensors[parameter.arg] = Tensor(parameter.arg)
    sizes = named_sizes(node, tensors)
    init = next((statement for statement in owner.body if _is_init_method(statement)), None)
    init_parameters = _required_parameters(init, 1) if isinstance(init, Definition) else []
    constants = [f"{constant} = {value}" for constant, value in sizes.defaults.items()]
    dtype = f"dtype = {_requested_dtype(source, tensors)}"
    parts = ["\n".join(["# TODO: check the sizes.", *constants, dtype, ""])]
    names: list[str | tuple[str, str]] = []
    if "Model" in source.classes:
        names.append("Model")
    else:
        parts.append(_model_text(name, init_parameters, required))
    if name not in ("Model", "ModelNew"):
        names.append((name, "ModelNew"))
    elif name == "ModelNew":
        names.append(name)
    parts.append(_listed_inputs("get_inputs", required, tensors, sizes))
    if "get_init_inputs" in source.bound:
        names.append("get_init_inputs")
    else:
        parts.append(_listed_inputs("get_init_inputs", init_parameters, {}, sizes))
    return Parts("\n\n".join(parts), names)


def _is_init_method(node: ast.stmt) -> bool:
    return isinstance(node, Definition) and node.name == "__init__"


def _model_text(name: str, init_parameters: Sequence[ast.arg], required: Sequence[ast.arg]) -> str:
    init = ", ".join(["self", *(parameter.arg for parameter in init_parameters)])
    forward = ", ".join(["self", *(parameter.arg for parameter in required)])
    todo = f"TODO: Model: compute in PyTorch what {name} computes, with equal weights"
    return "\n".join(
        [
            "class Model(torch.nn.Module):",
            f"    def __init__({init}):",
            "        super().__init__()",
            "",
            f"    def forward({forward}):",
            f'        raise NotImplementedError("{todo}")',
            "",
        ]
    )


def _listed_inputs(
    function: str, arguments: Sequence[ast.arg], tensors: Mapping[str, Tensor], sizes: Sizes
) -> str:
    lines = [f"def {function}():"]
    for argument in arguments:
        if argument.arg in tensors:
            text = _random_tensor_text(tensors[argument.arg], sizes).replace(", device=device", "")
            lines.append(f"    {argument.arg} = {text}")
        else:
            lines += [line.replace("inputs()", f"{function}()") for line in _scalar_text(argument)]
    names = ", ".join(argument.arg for argument in arguments)
    return "\n".join([*lines, f"    return [{names}]", ""])


def description_text(source: Source, name: str) -> Parts:
    """Return a file with a launch description for a kernel without a launcher."""
    jit = source.kernels[name]
    launch = _Description(jit)
    lines = ["LAUNCH = {", f'    "kernel": "{name}",']
    for key, values in (("sizes", launch.sizes()), ("args", launch.args())):
        lines += [f'    "{key}": {{', *(f"        {line}," for line in values), "    },"]
    outputs = [parameter for parameter in jit.parameters if parameter in launch.outputs]
    lines.append(f'    "outputs": [{_quote_words(outputs)}],')
    constants = launch.constants()
    lines += ['    "constants": {', *(f"        {line}," for line in constants), "    },"]
    lines += [f'    "grid": [{_quote_words(launch.grid())}],', "}", ""]
    inner = ", ".join(parameter for parameter in jit.parameters if launch.is_input(parameter))
    outs = ", ".join(outputs) or "..."
    note = [
        "# TODO, if operations shall count as well as bytes: what is computed, in PyTorch.",
        f"# def reference({inner}):",
        f"#     return {outs}",
        "",
    ]
    return Parts("\n".join([*lines, "", *note]), [name])


def _quote_words(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


class _Description:
    """Launch of a kernel, as far as its text says.

    A kernel with one axis of programs, one tile and one size that masks compare with is fully
    described; of others the places stay open.
    """

    def __init__(self, jit: Jit) -> None:
        self._jit = jit
        supplied = jit.tuned | jit.computed
        self._constants = [constant for constant in jit.constants if constant not in supplied]
        pointers = jit.pointers
        self.outputs = pointers.written - pointers.read
        self._scalars = [
            parameter
            for parameter in jit.parameters
            if parameter not in pointers.every
            and parameter not in jit.constants
            and parameter not in supplied
        ]
        self._tiles = [constant for constant in jit.constants if _is_tile_size(jit.node, constant)]
        self._compared = [scalar for scalar in self._scalars if _is_compared(jit.node, scalar)]
        self._axes = _grid_axes(jit.node)
        one = len(self._compared) == len(self._tiles) == 1 and self._axes == 1
        self._is_plain = one and len(self._scalars) == 1

    def is_input(self, name: str) -> bool:
        """Return an argument that a reference takes."""
        return name in self._jit.pointers.every - self.outputs or name in self._scalars

    def sizes(self) -> list[str]:
        """Return the sizes that the arguments are made of."""
        return ['"N": 1048576'] if self._is_plain else ['"M": 4096', '"N": 4096']

    def args(self) -> list[str]:
        """Return a text for each argument."""
        entries = []
        for name in self._jit.parameters:
            if name in self._jit.pointers.every:
                dtype = "int64" if name in self._jit.pointers.indices else "fp32"
                below = " < N" if dtype == "int64" else ""
                text = (
                    f"{dtype}[N]{below}" if self._is_plain else f"TODO: e.g. {dtype}[M, N]{below}"
                )
            elif name in self._scalars:
                text = "N" if self._is_plain else "TODO: a number or a size, e.g. N"
            else:
                continue
            entries.append(f'"{name}": "{text}"')
        return entries

    def constants(self) -> list[str]:
        """Return the constants that nothing else sets, and the options."""
        entries = []
        for name in self._constants:
            size = 1024 if self._is_plain else 64
            value = str(size) if name in self._tiles else '"TODO: a value"'
            entries.append(f'"{name}": {value}')
        return entries if self._jit.is_autotuned else [*entries, '"num_warps": 4']

    def grid(self) -> list[str]:
        """Return the number of programs along each axis."""
        if self._is_plain:
            return [f"cdiv(N, {self._tiles[0]})"]
        tile = self._tiles[0] if self._tiles else "64"
        return [f"TODO: e.g. cdiv(M, {tile})"] * self._axes


def _is_tile_size(node: ast.AST, name: str) -> bool:
    """Return a constant that a range of indices or the shape of a block is made of."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    makers = ("arange", "zeros", "full", "make_block_ptr", "make_tensor_descriptor")
    for call in calls:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        used = {part.id for part in ast.walk(call) if isinstance(part, ast.Name)}
        if called in makers and name in used:
            return True
    return False


def _is_compared(node: ast.AST, name: str) -> bool:
    compares = (part for part in ast.walk(node) if isinstance(part, ast.Compare))
    return any(
        isinstance(part, ast.Name) and part.id == name
        for compare in compares
        for part in ast.walk(compare)
    )


def _grid_axes(node: ast.AST) -> int:
    """Return the axes of the grid that a kernel asks for."""
    axes = 1
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            named = [k.value for k in call.keywords if k.arg == "axis"]
            for value in (call.args or named)[:1] if call.func.attr == "program_id" else ():
                if isinstance(value, ast.Constant) and isinstance(value.value, int):
                    axes = max(axes, value.value + 1)
    return axes
