"""Launches of changed functions: in place of the original launch, or of it under a condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed_text,
    guarded_launch,
    launch_line,
    options_of,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._nodes import Body, compound_statement, render_code
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch


def launched(
    launch: Launch,
    node: cst.FunctionDef,
    *,
    grid: str = "",
    arguments: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> cst.BaseStatement:
    """Return the statement that launches a function as a launch does its own.

    Args:
        launch: the original.
        node: what is launched; of the launch's arguments it gets those that it has parameters for.
        grid: of programs, as code; the original's if it is empty.
        arguments: in place of the original's, or in addition to them, as code.
        options: of Triton, likewise.
    """
    function = JitFunction.of(node)
    values = {**arguments_of(launch), **(arguments or {})}
    return launch_line(
        function.name,
        grid or render_code(launch.grid),
        {param: values[param] for param in function.params if param in values},
        {**options_of(launch), **(options or {})},
        function.constants,
    )


def with_arguments(
    function: JitFunction, name: str, body: Body, arguments: Iterable[str], constants: set[str]
) -> cst.FunctionDef:
    """Return a function under another name, with another body and parameters for some arguments.

    Compile-time constants come last.
    """
    params = sorted(arguments, key=lambda param: param in constants)
    definition = renamed_function(function, name, body)
    listed = [f"{p}: tl.constexpr" if p in constants else p for p in params]
    head = f"def f({', '.join(listed)})"
    if len(head) > 89:
        head = "def f(\n" + "".join(f"    {p},\n" for p in listed) + ")"
    like = cst.ensure_type(compound_statement(head, body), cst.FunctionDef)
    return definition.with_changes(
        params=like.params, whitespace_before_params=like.whitespace_before_params
    )


def relaunched(
    text: KernelText,
    launch: Launch,
    node: cst.FunctionDef,
    *,
    grid: str = "",
    arguments: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    condition: str = "",
    before: Body = (),
    parameters: Iterable[Parameter] = (),
    helpers: Iterable[cst.FunctionDef] = (),
) -> str:
    """Return the file in which a changed function is launched in place of a launch's own.

    Args:
        text: the file.
        launch: the original.
        node: the changed function. Under a name of its own it is added to the file.
        grid: see `launched`.
        arguments: see `launched`.
        options: see `launched`.
        condition: of the launcher, as code; where it does not hold, the original is launched.
        before: statements that the new launch needs.
        parameters: of the launcher, to be tuned.
        helpers: functions that the new one, or its launch, calls.
    """
    name = launch.function.name
    line = launched(launch, node, grid=grid, arguments=arguments, options=options)
    if condition:
        statements = guarded_launch(condition, line, launch.statement, before)
    else:
        first, *others = [*before, line]
        leading = launch.statement.leading_lines
        statements = [first.with_changes(leading_lines=leading), *others]
    is_own = node.name.value == name
    return changed_text(
        text,
        functions={name: node} if is_own else None,
        added={name: [*helpers] if is_own else [node, *helpers]},
        launches=[(launch.statement, statements)],
        parameters=parameters,
    )
