"""Changes to a kernel file that several rewrites make: functions, launches, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import libcst as cst

from solkit.core import Value
from solkit.tuner.proposers.rewriter._file import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._syntax import (
    assignment,
    body_of,
    code,
    expression,
    line,
    names,
    replace_each,
    statements,
    substitute,
    text_of,
    with_body,
    with_each,
)

__all__ = [
    "Parameter",
    "arguments_of",
    "changed",
    "changed_tree",
    "fixed",
    "guarded",
    "has_assignment",
    "in_statement",
    "launch_line",
    "options_of",
    "parameter",
    "renamed",
    "with_defaults",
    "with_params",
]

_WIDTH = 96  # of a line of code in a launcher


@dataclass(frozen=True)
class Parameter:
    """A keyword-only parameter of the launcher, to be tuned.

    Attributes:
        name: of the parameter.
        default: what it is unless tuned.
        values: what may be tried; if the file's SPACE lists some already, both count.
    """

    name: str
    default: int
    values: tuple[int, ...]


def changed(
    text: KernelText,
    functions: Mapping[str, cst.FunctionDef | None] | None = None,
    added: Mapping[str, Sequence[cst.FunctionDef]] | None = None,
    launches: Sequence[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]] = (),
    parameters: Iterable[Parameter] = (),
) -> str:
    """Return the file's text with changes: see `changed_tree`."""
    return text_of(changed_tree(text, functions, added, launches, parameters))


def changed_tree(
    text: KernelText,
    functions: Mapping[str, cst.FunctionDef | None] | None = None,
    added: Mapping[str, Sequence[cst.FunctionDef]] | None = None,
    launches: Sequence[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]] = (),
    parameters: Iterable[Parameter] = (),
) -> cst.Module:
    """Return the file with changes.

    Args:
        text: the file.
        functions: new definitions of functions by name; ``None`` removes one.
        added: functions to be added after others, by the others' names.
        launches: statements of launchers, each with what replaces it.
        parameters: of the launcher `kernel`.
    """
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    swaps = {id(old): list(new) for old, new in launches}
    for statement in text.tree.body:
        rewritten: cst.CSTNode = statement
        if isinstance(statement, cst.FunctionDef):
            new = (functions or {}).get(statement.name.value, statement)
            if new is None:
                continue
            rewritten = with_each(new, swaps) if swaps else new
        body.append(cast(cst.BaseStatement, rewritten))
        if isinstance(statement, cst.FunctionDef):
            body += (added or {}).get(statement.name.value, [])
    tree = text.tree.with_changes(body=body)
    for parameter in parameters:
        tree = _with_parameter(tree, parameter)
    return tree


def in_statement(
    tree: cst.Module,
    statement: cst.CSTNode,
    pairs: Sequence[tuple[cst.CSTNode, cst.CSTNode]],
) -> cst.Module:
    """Return the module with parts of one of its statements, each found by identity, replaced."""
    body = [replace_each(other, pairs) if other is statement else other for other in tree.body]
    return tree.with_changes(body=body)


# ------------------------------------------------------------------------------- functions


def renamed(function: JitFunction, name: str, body: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    """Return a function under another name with another body."""
    node = with_body(function.node, body)
    leading = [cst.EmptyLine(), cst.EmptyLine()]
    return node.with_changes(name=cst.Name(name), leading_lines=leading)


def with_params(
    node: cst.FunctionDef, added: Sequence[str] = (), constants: Sequence[str] = ()
) -> cst.FunctionDef:
    """Add parameters to a Triton function: plain ones ahead of the compile-time constants."""
    params = [
        code(param.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for param in node.params.params
    ]
    plain = next((i for i, p in enumerate(params) if ":" in p or "=" in p), len(params))
    params[plain:plain] = added
    end = next((i for i, p in enumerate(params) if "=" in p), len(params))
    params[end:end] = [f"{name}: tl.constexpr" for name in constants]
    head = f"def {node.name.value}({', '.join(params)}):"
    if len(head) > _WIDTH:
        head = f"def {node.name.value}(\n" + "".join(f"    {p},\n" for p in params) + "):"
    header = cst.ensure_type(line(f"{head}\n    pass\n"), cst.FunctionDef)
    return node.with_changes(
        params=header.params, whitespace_before_params=header.whitespace_before_params
    )


# ------------------------------------------------------------------------------- launches


def launch_line(
    name: str,
    grid: str,
    arguments: Mapping[str, str],
    options: Mapping[str, str],
    constants: Iterable[str] = (),
) -> cst.BaseStatement:
    """Return the statement that launches a function: constants by keyword, others by position.

    What follows an argument by keyword is by keyword, too, as Python wants it.
    """
    keyword, by_keyword, parts = set(constants), False, []
    for param, value in arguments.items():
        by_keyword |= param in keyword
        parts.append(f"{param}={value}" if by_keyword else value)
    parts += [f"{k}={v}" for k, v in options.items()]
    short = f"{name}[{grid}]({', '.join(parts)})"
    if len(short) <= _WIDTH - 8:
        return line(short)
    listed = "".join(f"    {part},\n" for part in parts)
    return line(f"{name}[{grid}](\n{listed})")


def arguments_of(launch: Launch) -> dict[str, str]:
    """Return a launch's arguments as code, in the order of the function's parameters."""
    arguments = launch.arguments
    return {p: code(arguments[p]) for p in launch.function.params if p in arguments}


def options_of(launch: Launch) -> dict[str, str]:
    """Return a launch's options as code."""
    return {name: code(value) for name, value in launch.options.items()}


def guarded(
    condition: str,
    launch: cst.BaseStatement,
    original: cst.BaseStatement,
    before: Sequence[cst.BaseStatement] = (),
) -> list[cst.BaseStatement]:
    """Return ``if condition: before, launch else: original``."""
    node = cst.ensure_type(statements(f"if {condition}:\n    pass\nelse:\n    pass\n")[0], cst.If)
    other = cst.ensure_type(node.orelse, cst.Else)
    plain = original.with_changes(leading_lines=[])
    kept = getattr(original, "leading_lines", ())
    return [
        with_body(node, [*before, launch]).with_changes(
            orelse=with_body(other, [plain]), leading_lines=kept
        )
    ]


# ------------------------------------------------------------------------------- parameters


def parameter(launch: Launch, text: KernelText, requested: Parameter) -> Parameter:
    """Return the parameter under a name that is free in the launcher."""
    taken = {p.name.value for p in launch.launcher.params.kwonly_params}
    free = requested.name if requested.name not in taken else text.fresh(requested.name)
    return Parameter(free, requested.default, requested.values)


def _with_parameter(tree: cst.Module, parameter: Parameter) -> cst.Module:
    launcher = next(
        statement
        for statement in tree.body
        if isinstance(statement, cst.FunctionDef) and statement.name.value == "kernel"
    )
    extended = launcher.with_changes(params=_with_keyword(launcher.params, parameter))
    tree = in_statement(tree, launcher, [(launcher, extended)])
    return _with_values(tree, parameter)


def _with_keyword(params: cst.Parameters, parameter: Parameter) -> cst.Parameters:
    """Return parameters with a keyword-only one, or with its new default."""
    keyword = list(params.kwonly_params)
    default = expression(str(parameter.default))
    for index, param in enumerate(keyword):
        if param.name.value == parameter.name:
            keyword[index] = param.with_changes(default=default)
            return params.with_changes(kwonly_params=keyword)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    if keyword and not isinstance(keyword[-1].comma, cst.Comma):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        keyword[-1] = keyword[-1].with_changes(comma=comma)
    keyword.append(cst.Param(cst.Name(parameter.name), default=default, equal=equal))
    star = params.star_arg
    if not isinstance(star, (cst.Param, cst.ParamStar)):
        star = cst.ParamStar()
    return params.with_changes(kwonly_params=keyword, star_arg=star)


def with_defaults(text: KernelText, values: Mapping[str, Value]) -> str:
    """Return the file whose launcher's keyword parameters have these defaults."""
    params = text.launcher.params
    keyword = [
        param.with_changes(default=expression(repr(values[param.name.value])))
        if values.get(param.name.value) is not None
        else param
        for param in params.kwonly_params
    ]
    changed = text.launcher.with_changes(params=params.with_changes(kwonly_params=keyword))
    return text_of(in_statement(text.tree, text.launcher, [(text.launcher, changed)]))


def _with_values(tree: cst.Module, parameter: Parameter) -> cst.Module:
    for statement in tree.body:
        binding = assignment(statement)
        if binding is not None and binding.target == "SPACE":
            if not isinstance(binding.value, cst.Dict):
                return tree
            extended = _extended(statement, binding.value, parameter)
            return in_statement(tree, statement, [(statement, extended)])
    space = line(f'SPACE = {{"{parameter.name}": {_listed(parameter.values, parameter.default)}}}')
    body = list(tree.body)
    place = next(
        i
        for i, statement in enumerate(body)
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef))
    )
    return tree.with_changes(body=[*body[:place], space, *body[place:]])


def _listed(values: Iterable[int], default: int) -> str:
    return repr(sorted({*values, default}))


def _extended(
    statement: cst.BaseStatement, space: cst.Dict, parameter: Parameter
) -> cst.BaseStatement:
    """Return the assignment of SPACE with one parameter more, or more values of it."""
    entries: dict[str, str] = {}
    for element in space.elements:
        if not isinstance(element, cst.DictElement):
            return statement
        entries[code(element.key)] = code(element.value)
    key = f'"{parameter.name}"'
    present = _integers(expression(entries[key])) if key in entries else set()
    if present is not None:
        entries[key] = _listed({*parameter.values, *present}, parameter.default)
    text = ", ".join(f"{name}: {values}" for name, values in entries.items())
    if len(text) > _WIDTH - len("SPACE = {}"):
        text = "".join(f"\n    {name}: {values}," for name, values in entries.items()) + "\n"
    leading = getattr(statement, "leading_lines", ())
    return line(f"SPACE = {{{text}}}").with_changes(leading_lines=leading)


def fixed(text: KernelText, names: Iterable[str]) -> str:
    """Return the text with these keyword parameters of the launcher fixed at their defaults.

    They are tuned no more. A file that rules some choices out, or whose SPACE is more than a plain
    dictionary, stays as it is.
    """
    of = {p.name.value: p.default for p in text.launcher.params.kwonly_params}
    values = {name: value for name in names if isinstance(value := of.get(name), cst.Integer)}
    space = _plain_space(text.tree)
    if not values or space is None:
        return text_of(text.tree)
    launcher = text.launcher
    remaining = [p for p in launcher.params.kwonly_params if p.name.value not in values]
    star = launcher.params.star_arg if remaining else cst.MaybeSentinel.DEFAULT
    if remaining:
        remaining[-1] = remaining[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    params = launcher.params.with_changes(kwonly_params=remaining, star_arg=star)
    changed = launcher.with_changes(params=params, body=substitute(launcher.body, values))
    pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = [(launcher, changed)]
    pairs += [
        (literal, literal.with_changes(elements=_entries(literal, values))) for literal in space
    ]
    return text_of(replace_each(text.tree, pairs))


def _plain_space(tree: cst.Module) -> list[cst.Dict] | None:
    """Return the dictionary that is SPACE; ``None`` for none, or if it or ``valid`` says more."""
    functions = (cst.FunctionDef, cst.ClassDef)
    rest = [statement for statement in tree.body if not isinstance(statement, functions)]
    defined = {statement.name.value for statement in tree.body if isinstance(statement, functions)}
    if "valid" in defined | names(*rest):
        return None
    assigned_to = [statement for statement in rest if "SPACE" in names(statement)]
    values = [
        binding.value for statement in assigned_to if (binding := assignment(statement)) is not None
    ]
    plain = [
        value
        for value in values
        if isinstance(value, cst.Dict)
        and all(isinstance(e, cst.DictElement) for e in value.elements)
    ]
    return plain if len(plain) == len(assigned_to) <= 1 else None


def _entries(space: cst.Dict, without: Iterable[str]) -> list[cst.BaseDictElement]:
    gone = {repr(name) for name in without} | {f'"{name}"' for name in without}
    every = space.elements
    kept = [e for e in every if not (isinstance(e, cst.DictElement) and code(e.key) in gone)]
    if kept and not isinstance(space.lbrace.whitespace_after, cst.ParenthesizedWhitespace):
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return kept


def _integers(node: cst.BaseExpression) -> set[int] | None:
    if not isinstance(node, cst.List):
        return None
    values = [element.value for element in node.elements]
    if not all(isinstance(value, cst.Integer) for value in values):
        return None
    return {int(cst.ensure_type(value, cst.Integer).value, 0) for value in values}


def has_assignment(launcher: cst.FunctionDef, name: str) -> cst.BaseStatement | None:
    """Return the statement of a launcher's body that assigns a name."""
    for statement in body_of(launcher):
        binding = assignment(statement)
        if binding is not None and binding.target == name:
            return statement
    return None
