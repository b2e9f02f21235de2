"""Source of a program: a function or a model, and how its text names its tensors."""

# mypy: disable-error-code="no-untyped-call"
# (torch's pytree is untyped)

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from solkit.adapters.inductor_program._entry import Caller
from solkit.adapters.inductor_program._graph import Held, Tensors
from solkit.core.parsing import syntax_tree
from solkit.errors import InputError


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference with its arguments, on fake tensors.

    Attributes:
        name: of the problem, for the first line of the file.
        about: the shape and the device, in words.
        function: the reference; a model's ``forward``.
        args, kwargs: what it is called with.
        model: the module, if it is one.
        source: the text of the file that defines the model.
        sizes: names at that file's top level which have other values here.
        caller: the entry point that hands its arguments to the program; else it is a file's own.
    """

    name: str
    about: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    model: torch.nn.Module | None = None
    source: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    caller: Caller | None = None

    @cached_property
    def state(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers of the model."""
        if self.model is None:
            return {}
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    @property
    def tensors(self) -> Tensors:
        """Tensors that it is traced with."""
        return Tensors(self.args, self.kwargs, self.state)

    def call(self, state: Mapping[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        """Return the reference with other parameters and buffers."""
        if self.model is None:
            return self.function(*args, **kwargs)
        return torch.func.functional_call(self.model, dict(state), args, kwargs)

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Parameters that it takes, or its caller does, without ``self``."""
        own = self.caller.signature if self.caller else inspect.signature(self.function)
        return list(own.parameters.values())

    # ------------------------------------------------------------------------------- expressions

    def argument_texts(self) -> list[str]:
        """Write an expression for each tensor among the arguments, of the parameters' names."""
        leaves, _ = tree_flatten_with_path((self.args, dict(self.kwargs)))
        return [self._source_text(path) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _source_text(self, path: Any) -> str:
        named = [p.name for p in self.parameters if p.kind in _POSITIONAL]
        rest = {p.kind: p.name for p in self.parameters}
        inside = "".join(f"[{_entry_key(key)!r}]" for key in path[2:])
        first: Any = _entry_key(path[1])
        if _entry_key(path[0]) == 0 and first < len(named):
            return f"{named[first]}{inside}"
        if _entry_key(path[0]) == 0:
            return f"{rest[inspect.Parameter.VAR_POSITIONAL]}[{first - len(named)}]{inside}"
        is_parameter = first in {p.name for p in self.parameters}
        return (
            f"{first}{inside}"
            if is_parameter
            else f"{rest[inspect.Parameter.VAR_KEYWORD]}[{first!r}]"
        )

    def state_texts(self) -> list[str]:
        """Return an expression of ``self`` for each parameter and buffer."""
        texts = [module_text(name) for name in self.state]
        places = self.caller.places if self.caller else {}
        return [places.get(text, text) for text in texts]

    def held_tensor_text(self, held: Held) -> str:
        """Return an expression for a tensor that it holds: of ``self``, or with its value.

        Raises:
            InputError: it is a global, say.
        """
        for name, module in () if self.model is None else self.model.named_modules():
            for attribute, value in vars(module).items():
                if value is held.tensor:
                    return f"self{_attributes(f'{name}.{attribute}' if name else attribute)}"
        if held.value is not None and held.value.numel() <= _MOST_LISTED:
            return f"torch.tensor({held.value.tolist()}, dtype={held.value.dtype})"
        shape = tuple(held.tensor.shape)
        raise InputError(
            f"it uses a tensor of shape {shape} that is no argument; make it one, or a buffer"
        )


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MOST_LISTED = 64


def _entry_key(entry: Any) -> Any:
    return entry.idx if hasattr(entry, "idx") else entry.key


def module_text(name: str) -> str:
    """Return an expression of ``self`` for a parameter or buffer of that name."""
    return f"self{_attributes(name)}"


def _attributes(name: str) -> str:
    """``".layers[0].weight"`` of ``"layers.0.weight"``."""
    parts = name.split(".")
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


# ---------------------------------------------------------------------------------- the model


def model_text(source: str, forward: str, sizes: Mapping[str, Any]) -> tuple[str, str]:
    """``ModelNew`` and what its ``__init__`` needs: the reference's text but for ``forward``.

    The same seed gives it the same weights. Its imports come apart.

    Args:
        source: the reference's file.
        forward: the method in place of ``Model.forward``.
        sizes: values in place of those that the file gives to names.

    Raises:
        InputError: ``Model`` is no class of that file.
    """
    tree = syntax_tree(source)
    models = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
    if not models:
        raise InputError("its Model is not defined in the file itself")
    model = models[-1]
    own = [n for n in model.body if not (isinstance(n, ast.FunctionDef) and n.name == "forward")]
    reached = _reached_statements(tree, own, model)
    kept = [n for n in tree.body if n in reached and n is not model]
    imports = [ast.unparse(n) for n in kept if isinstance(n, ast.Import | ast.ImportFrom)]
    parts = [_with_sizes(n, source, sizes) for n in kept if not _is_import(n)]
    text = "\n".join([*parts, "", "", _class_text(source, model, forward)])
    return "\n".join(line for line in imports if line != "import torch"), text.strip()


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _class_text(source: str, model: ast.ClassDef, forward: str) -> str:
    """Return the class's lines without ``forward``, named ``ModelNew``."""
    lines = source.splitlines()
    start = min([model.lineno, *(decorator.lineno for decorator in model.decorator_list)])
    kept: list[str] = []
    for number in range(start, (model.end_lineno or start) + 1):
        if not any(_lies_within(number, method) for method in model.body if _is_forward(method)):
            kept.append(lines[number - 1])
    text = "\n".join(kept).rstrip()
    code = re.sub(r"^class Model\b", "class ModelNew", text, flags=re.MULTILINE)
    code = re.sub(r"super\(Model,", "super(ModelNew,", code)
    code = re.sub(r"\bModel\.(?=\w+\()", "ModelNew.", code)
    indented = "\n".join(f"    {line}" if line else "" for line in forward.splitlines())
    return f"{code}\n\n{indented}"


def _is_forward(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "forward"


def _lies_within(number: int, node: ast.stmt) -> bool:
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def _reached_statements(
    tree: ast.Module, own: Iterable[ast.stmt], model: ast.ClassDef
) -> set[ast.stmt]:
    """Return the top-level statements whose names the model needs, one through another."""
    by_name: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _defined_names(node):
            by_name.setdefault(name, []).append(node)
    reached: set[ast.stmt] = {n for n in tree.body if _is_future_import(n)}
    waiting: list[ast.AST] = [*own, *model.bases, *model.decorator_list]
    while waiting:
        for name in _used_names(waiting.pop()):
            new = [node for node in by_name.get(name, ()) if node not in reached]
            reached.update(new)
            waiting.extend(node for node in new if node is not model)
    return reached


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _defined_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in node.names:
            yield (name.asname or name.name).split(".")[0]
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        stored = (child for child in ast.walk(node) if isinstance(child, ast.Name))
        yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))


def _used_names(node: ast.AST) -> set[str]:
    """Return the names in a node but for parameters of functions."""
    if isinstance(node, ast.Name):
        return {node.id}
    inside = set[str]().union(*map(_used_names, ast.iter_child_nodes(node)))
    return inside - _own_names(node) if isinstance(node, ast.FunctionDef | ast.Lambda) else inside


def _own_names(node: ast.FunctionDef | ast.Lambda) -> set[str]:
    return {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}


def _with_sizes(node: ast.stmt, source: str, sizes: Mapping[str, Any]) -> str:
    text = ast.get_source_segment(source, node) or ast.unparse(node)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return f"\n\n{text}\n"
    changed = [name for name in _defined_names(node) if name in sizes]
    new = [f"{name} = {sizes[name]!r}" for name in changed]
    return "\n".join([text, *new])
