"""Launches of changed functions: in place of the original launch, or of it under a condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class NewLaunch:
    """A launch of a changed function, as a function's original launch or in place of it.

    Attributes:
        launch: the original.
        node: what is launched; of the launch's arguments it gets those that it has parameters for.
        grid: of programs, as code; the original's if it is empty.
        arguments: in place of the original's, or in addition to them, as code.
        options: of Triton, likewise.
    """

    launch: Launch
    node: cst.FunctionDef
    grid: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> cst.BaseStatement:
        """The statement that launches it."""
        function = JitFunction.of(self.node)
        values = {**arguments_of(self.launch), **self.arguments}
        return launch_line(
            function.name,
            self.grid or render_code(self.launch.grid),
            {param: values[param] for param in function.params if param in values},
            {**options_of(self.launch), **self.options},
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
    new: NewLaunch,
    *,
    condition: str = "",
    before: Body = (),
    parameters: Iterable[Parameter] = (),
    helpers: Iterable[cst.FunctionDef] = (),
) -> str:
    """Return the file in which a changed function is launched in place of a launch's own.

    Args:
        text: the file.
        new: the launch. A function under a name of its own is added to the file.
        condition: of the launcher, as code; where it does not hold, the original is launched.
        before: statements that the new launch needs.
        parameters: of the launcher, to be tuned.
        helpers: functions that the new one, or its launch, calls.
    """
    launch, node = new.launch, new.node
    name = launch.function.name
    if condition:
        statements = guarded_launch(condition, new.statement, launch.statement, before)
    else:
        first, *others = [*before, new.statement]
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
