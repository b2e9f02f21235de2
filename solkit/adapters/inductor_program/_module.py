"""The module that Inductor generates, taken apart: its kernels, and the body of ``call``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit.adapters.inductor import TemplateLaunch
from solkit.core.parsing import syntax_tree
from solkit.errors import InputError


@dataclass(frozen=True)
class Generated:
    """A generated module.

    Attributes:
        inputs: the names that ``call`` gives its arguments.
        body: its statements after that, those of ``with`` blocks among them.
        kernels: the source of each Triton kernel, by name.
        templates: how those are launched that a template made.
    """

    inputs: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    kernels: Mapping[str, str]
    templates: Mapping[str, TemplateLaunch]


def generated_module(text: str, templates: Mapping[str, TemplateLaunch]) -> Generated:
    """Take a generated module apart; see `Generated` for its templates.

    Raises:
        InputError: it holds code of another kind.
    """
    tree = syntax_tree(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    call = next(function for function in functions if function.name == "call")
    body = list(_flat_statements(call.body))
    kernels = {name: source for node in tree.body for name, source in _kernel_definition(node)}
    if body and (names := _input_names(body[0])) is not None:
        return Generated(names, tuple(body[1:]), kernels, templates)
    return Generated((), tuple(body), kernels, templates)


def _flat_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _flat_statements(statement.body)
        else:
            yield statement


def _input_names(first: ast.stmt) -> tuple[str, ...] | None:
    """Return the names in ``a, b = args``."""
    match first:
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Name(id="args")):
            return tuple(ast.unparse(element) for element in elements)
    return None


def _kernel_definition(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the name and source in ``name = async_compile.triton("name", source)``."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind), args=args
            ),
        ):
            source = next((a for a in args[1:] if isinstance(a, ast.Constant)), None)
            if kind != "triton" or source is None or not isinstance(source.value, str):
                raise InputError(f"Inductor makes a kernel of another kind of it: {kind} ({name})")
            yield name, source.value
