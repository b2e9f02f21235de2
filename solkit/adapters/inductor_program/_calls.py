"""The body of a generated ``call``, rewritten into plain PyTorch and Triton launches.

What is not known is refused: a statement that was understood half would be wrong in silence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from solkit.adapters.inductor_program._attention_text import AttentionKernel, AttentionText
from solkit.adapters.inductor_program._graph import ATTENTION
from solkit.adapters.inductor_program._kernels import AnyKernel, ProgramKernel, named_apart
from solkit.adapters.inductor_program._module import Generated
from solkit.adapters.inductor_program._own_attention import OWN_OPERATOR
from solkit.core.parsing import syntax_tree
from solkit.errors import InputError

HELPERS: Mapping[str, str] = {
    "_laid_out": '''
def _laid_out(tensor, stride):
    """The tensor with the strides that the next kernel is written for."""
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), stride)):
        return tensor
    return torch.empty_strided(
        tensor.shape, stride, dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)
'''.strip(),
    "_viewed": '''
def _viewed(tensor, size, stride, offset=0):
    """Another view of the tensor's memory."""
    return tensor.as_strided(size, stride, tensor.storage_offset() + offset)
'''.strip(),
}
"""Functions that a launcher may call."""

_IGNORED_CALLS = {
    *("args.clear", "torch.cuda.set_device", "assert_alignment", "run_intermediate_hooks"),
    *("torch._C._dynamo.guards.assert_alignment", "start_graph", "end_graph"),
}
_KNOWN_NAMES = {"torch", "triton", "float", "None", "True", "False"}
_METHODS = {
    *("zero_", "fill_", "copy_", "view", "sum", "amax", "amin", "prod", "to", "reshape"),
    *("as_strided", "item"),
}


class Program:
    """A program in the making.

    Attributes:
        inputs: the launcher's names of the module's inputs that are used, in order.
        lines: the launcher's statements.
        results: what it returns, an expression each.
        kernels: its Triton functions, in the order of their first launch.
        helpers: the names in `HELPERS` that it calls.
        libraries: operators of PyTorch's that it calls.
    """

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.lines: list[str] = []
        self.results: list[str] = []
        self.kernels: tuple[AnyKernel, ...] = ()
        self.helpers: set[str] = set()
        self.libraries: set[str] = set()


def rewrite_module(
    module: Generated, names: Sequence[str], attention: Sequence[AttentionText] = ()
) -> Program:
    """Return the program of a generated module.

    Args:
        module: the module.
        names: what the launcher calls its inputs.
        attention: texts of kernels that it calls by their places.

    Raises:
        InputError: it does something that is not known; says what.
    """
    launches = dict(_last_launches(module))
    kernels = [
        ProgramKernel.read(n, module.kernels[n], a, module.templates.get(n))
        for n, a in launches.items()
    ]
    own = [AttentionKernel(f"attention_{place}", text) for place, text in enumerate(attention)]
    apart = named_apart([*kernels, *own])
    writer = _Writer(dict(zip(module.inputs, names, strict=True)), {k.name: k for k in apart})
    for statement in module.body:
        writer.write_statement(statement)
    writer.program.kernels = apart
    used = {name.id for line in writer.collect_text() for name in _loaded_names(line)}
    writer.program.inputs = [name for name in names if name in used]
    return writer.program


def _loaded_names(text: str) -> Iterator[ast.Name]:
    return (node for node in ast.walk(syntax_tree(text)) if isinstance(node, ast.Name))


def _last_launches(module: Generated) -> Iterator[tuple[str, list[object]]]:
    """Yield each kernel's name and the arguments of its last launch, numbers as such."""
    for statement in module.body:
        if (call := _find_launch(statement)) is not None:
            name = ast.unparse(call.func).removesuffix(".run")
            yield name, [getattr(arg, "value", None) for arg in call.args]


def _find_launch(statement: ast.stmt) -> ast.Call | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="run")) as call):
            return call
    return None


class _Writer(ast.NodeTransformer):
    """Rewrites statements, one by one."""

    def __init__(self, inputs: Mapping[str, str], kernels: Mapping[str, AnyKernel]) -> None:
        self.program = Program()
        self._inputs, self._kernels = inputs, kernels
        self._known = set(inputs.values())
        self._reused: dict[str, str] = {}  # a buffer whose memory goes by an earlier name
        self._moved: set[str] = set()  # names that go on as another

    def collect_text(self) -> list[str]:
        """Return every line and result."""
        return [*self.program.lines, *self.program.results]

    def write_statement(self, statement: ast.stmt) -> None:
        """Add a statement of the module."""
        if (call := _find_launch(statement)) is not None:
            self._add_line(self._write_launch(call))
        elif isinstance(statement, ast.Return):
            self.program.results = self._write_results(statement)
        elif isinstance(statement, ast.Delete):
            self._write_delete(statement)
        elif isinstance(statement, ast.Expr):
            self._write_call(statement)
        elif isinstance(statement, ast.Assign):
            self._write_assignment(statement)
        else:
            raise _unknown_statement(statement)

    def _add_line(self, line: str) -> None:
        self.program.lines.append(line)

    def _write_results(self, statement: ast.Return) -> list[str]:
        value = statement.value
        elements = value.elts if isinstance(value, ast.Tuple) else [value]
        return [ast.unparse(self.visit(element)) for element in elements if element is not None]

    def _write_delete(self, statement: ast.Delete) -> None:
        """Memory of buffers is freed as early as Inductor does."""
        named = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        own = [
            self._launcher_name(n) for n in named if n not in self._inputs and n not in self._moved
        ]
        if own and self.program.lines and self.program.lines[-1].startswith("del "):
            own = [self.program.lines.pop().removeprefix("del "), *own]
        if own:
            self._add_line(f"del {', '.join(own)}")

    def _launcher_name(self, name: str) -> str:
        """Return the launcher's name of an input or a buffer."""
        return self._inputs.get(name, self._reused.get(name, name))

    def _write_call(self, statement: ast.Expr) -> None:
        call = statement.value
        if isinstance(call, ast.Constant):
            return
        if not isinstance(call, ast.Call):
            raise _unknown_statement(statement)
        called = ast.unparse(call.func)
        if called in _IGNORED_CALLS:
            return
        if called == "assert_size_stride":
            self._write_layout(call)
        else:
            self._add_line(ast.unparse(self.visit(call)))

    def _write_layout(self, call: ast.Call) -> None:
        """Lay out the result of an operator of PyTorch: its strides may be others here."""
        tensor, stride = ast.unparse(call.args[0]), ast.unparse(call.args[2])
        name = self._launcher_name(tensor)
        if tensor not in self._inputs:
            self.program.helpers.add("_laid_out")
            self._add_line(f"{name} = _laid_out({name}, {stride})")

    def _write_assignment(self, statement: ast.Assign) -> None:
        (target,) = statement.targets
        if not isinstance(target, ast.Name):
            raise _unknown_statement(statement)
        called = getattr(statement.value, "func", None)
        if called is not None and ast.unparse(called) == "get_raw_stream":
            return
        if called is not None and ast.unparse(called).startswith(f"torch.ops.{OWN_OPERATOR}"):
            self._write_attention(target.id, statement.value)
            return
        value = ast.unparse(self.visit(statement.value))
        if isinstance(statement.value, ast.Name) and statement.value.id not in self._inputs:
            self._reused[target.id] = value
            self._moved.add(statement.value.id)
            return
        self._known.add(target.id)
        self._add_line(f"{target.id} = {value}")

    def _write_attention(self, name: str, call: Any) -> None:
        """Launch a kernel of attention."""
        tensors, place = call.args[0], ast.literal_eval(call.args[3])
        kernel = self._kernels[f"attention_{place}"]
        assert isinstance(kernel, AttentionKernel)
        arguments = [ast.unparse(self.visit(tensor)) for tensor in tensors.elts]
        for line in kernel.launch_lines(name, arguments, self._input_device()):
            self._add_line(line)
        self._known.add(name)

    def _write_launch(self, call: ast.Call) -> str:
        kernel = self._kernels[ast.unparse(call.func).removesuffix(".run")]
        assert isinstance(kernel, ProgramKernel)
        values = call.args[: len(kernel.arguments)]  # a template's grid follows
        arguments = ", ".join(ast.unparse(self.visit(arg)) for arg in values)
        tuned = [f"{name}={name}{kernel.suffix}" for name in kernel.tuned]
        tuned += ["launch_cooperative_grid=True"] if kernel.caught.cooperative else []
        grid = ", ".join(kernel.renamed(size) for size in kernel.caught.grid)
        comma = "," if len(kernel.caught.grid) == 1 else ""
        options = ", ".join(tuned)
        return f"{kernel.name}[({grid}{comma})](\n    {arguments},\n    {options},\n)"

    # -------------------------------------------------------------------------------- expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Name an input, or refuse an unknown name."""
        if node.id in ("inf", "nan"):
            return _expression(f'float("{node.id}")')
        if node.id == "aten":  # a name of Inductor's own module
            return _expression("torch.ops.aten")
        name = self._launcher_name(node.id)
        if name not in self._known and name not in _KNOWN_NAMES:
            raise InputError(f"Inductor's program uses {name}, which a kernel file cannot hold")
        return ast.Name(name, node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Allocations, views and operators of PyTorch."""
        called = ast.unparse(node.func)
        if called.startswith("empty_strided_"):
            return self._rewrite_empty(node, called)
        if called == "reinterpret_tensor":
            return self._rewrite_view(node)
        if called == "device":
            return self._rewrite_device(node)
        if called.startswith("extern_kernels."):
            return self._rewrite_extern(node, called.removeprefix("extern_kernels."))
        if called.startswith(f"torch.ops.{ATTENTION}"):
            return self._rewrite_attention(node)
        return self._rewrite_operator(node, called)

    def _split_arguments(self, node: ast.Call) -> tuple[list[str], list[str]]:
        args = [ast.unparse(self.visit(arg)) for arg in node.args]
        return args, [f"{k.arg}={ast.unparse(self.visit(k.value))}" for k in node.keywords]

    def _rewrite_empty(self, node: ast.Call, called: str) -> ast.expr:
        if called != "empty_strided_cuda":
            raise InputError("a part of it runs on the CPU, which a kernel file cannot hold")
        size, stride, dtype = (ast.unparse(arg) for arg in node.args)
        return _expression(
            f"torch.empty_strided({size}, {stride}, dtype={dtype}, device={self._input_device()})"
        )

    def _input_device(self) -> str:
        """Return the device of the first input."""
        if not self._inputs:
            return '"cuda"'  # nothing tells of another
        return f"{next(iter(self._inputs.values()))}.device"

    def _rewrite_view(self, node: ast.Call) -> ast.expr:
        args, _ = self._split_arguments(node)
        self.program.helpers.add("_viewed")
        operands = args[:3] if args[3:] == ["0"] else args
        return _expression(f"_viewed({', '.join(operands)})")

    def _rewrite_device(self, node: ast.Call) -> ast.expr:
        text = ast.unparse(node)
        return _expression(self._input_device() if "cuda" in text else f"torch.{text}")

    def _rewrite_extern(self, node: ast.Call, name: str) -> ast.expr:
        name = name.removesuffix("_dtype")  # with an argument more
        if not callable(getattr(torch, name, None)):
            raise InputError(f"Inductor calls a library of its own: {name}")
        self.program.libraries.add(name)
        args, named = self._split_arguments(node)
        return _expression(f"torch.{name}({', '.join([*args, *named])})")

    def _rewrite_attention(self, node: ast.Call) -> ast.expr:
        self.program.libraries.add("scaled_dot_product_attention")
        args, named = self._split_arguments(node)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
        arguments = dict(zip((*names, "enable_gqa"), args))
        arguments |= dict(keyword.split("=", 1) for keyword in named)
        usual = {"attn_mask": "None", "dropout_p": "0.0", "is_causal": "False", "scale": "None"}
        usual["enable_gqa"] = "False"
        tensors = [arguments[name] for name in names[:3]]
        named = [f"{n}={v}" for n, v in arguments.items() if n in usual and v != usual[n]]
        called = "torch.nn.functional.scaled_dot_product_attention"
        return _expression(f"{called}({', '.join([*tensors, *named])})")

    def _rewrite_operator(self, node: ast.Call, called: str) -> ast.expr:
        """Return an operator of PyTorch's, or a method of a tensor."""
        is_operator = called.startswith(("torch.ops.aten.", "aten.", "torch.ops.prims."))
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
        if not (is_operator or is_method or called == "float"):
            raise InputError(f"Inductor calls {called}, which a kernel file cannot hold")
        if is_operator:
            self.program.libraries.add(called.removeprefix("torch.ops.").split(".")[1])
        return self.generic_visit(node)  # type: ignore[return-value] # an expression stays one


def _expression(text: str) -> ast.expr:
    return syntax_tree(text, mode="eval").body


def _unknown_statement(statement: ast.stmt) -> InputError:
    text = ast.unparse(statement).splitlines()[0]
    return InputError(f"Inductor's program does what a kernel file cannot hold: {text}")
