"""A winner that leaves small inputs to the original kernel.

Blocks that fill a GPU at one size start too few programs at a much smaller one. So below the
smallest size at which a variant was seen to hold, its file does what the original did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from solkit.core import Value
from solkit.tuner.proposers.rewriter._edit import with_defaults
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    assigned_names,
    free_name,
    names_within,
    nodes_within,
    parse_kernel,
    parse_statement,
    render_code,
    render_module,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

__all__ = ["with_original_below"]

_LAUNCHER = "kernel"


def with_original_below(source: str, original: str, params: Mapping[str, Value], least: int) -> str:
    """Return a file that does what another one did where its tensors have few bytes.

    Args:
        source: of the file.
        original: source of the other one.
        params: the other one's parameters in use.
        least: bytes of all tensors in a call from which on the file's own launches run.

    Returns:
        The text; empty if the launchers differ, or take arguments that cannot be passed on.
    """
    text = parse_kernel(source)
    other = parse_kernel(original) or parse_kernel(canonical_form(original))
    if text is None or other is None or not _imports_torch(text.tree):
        return ""
    other = parse_kernel(with_defaults(other, params)) or other
    if not (call := _call_of(text, other)):
        return ""
    copied = _copied_definitions(text, other)
    if not copied:
        return ""
    before = cst.ensure_type(dict(copied)[_LAUNCHER], cst.FunctionDef)
    total = f"sum(t.nbytes for t in ({call},) if isinstance(t, torch.Tensor))"
    guard = parse_statement(f"if {total} < {least}:\n    return {before.name.value}({call})\n")
    launcher = with_body(text.launcher, [*_with_guard(statements_of(text.launcher), guard)])
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for statement in text.tree.body:
        if statement is text.launcher:
            body += [copy for _, copy in copied]
        body.append(launcher if statement is text.launcher else statement)
    return render_module(text.tree.with_changes(body=body))


def _imports_torch(tree: cst.Module) -> bool:
    return any(render_code(statement).strip() == "import torch" for statement in tree.body)


def _with_guard(
    body: Sequence[cst.BaseStatement], guard: cst.BaseStatement
) -> Iterator[cst.BaseStatement]:
    """Yield a launcher's statements with the guard first, behind a docstring."""
    doc = body[:1] if body and _is_docstring(body[0]) else []
    yield from (*doc, guard, *body[len(doc) :])


def _is_docstring(statement: cst.BaseStatement) -> bool:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString)


def _call_of(text: KernelText, other: KernelText) -> str | None:
    """Return the arguments that pass a launcher's parameters on to the other one."""
    sides = []
    for launcher in (text.launcher, other.launcher):
        params = launcher.params
        if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
            return None
        sides.append([p.name.value for p in (*params.posonly_params, *params.params)])
    return ", ".join(sides[0]) if sides[0] == sides[1] else None


# ------------------------------------------------------------------------------- definitions


def _definitions(tree: cst.Module) -> Iterator[tuple[str, cst.BaseStatement]]:
    """Yield the names that a module's statements bind, with the statement; imports are none."""
    for statement in tree.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield statement.name.value, statement
        elif isinstance(statement, cst.SimpleStatementLine):
            for node in statement.body:
                targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
                targets += [node.target] if isinstance(node, cst.AnnAssign) else []
                yield from ((t.value, statement) for t in targets if isinstance(t, cst.Name))


def _copied_definitions(text: KernelText, other: KernelText) -> list[tuple[str, cst.BaseStatement]]:
    """Return what the other file's launcher needs and this one lacks, under names that are free.

    Nothing if a name stands for several things.
    """
    bound = [list(_definitions(side.tree)) for side in (text, other)]
    own, definitions = dict(bound[0]), dict(bound[1])
    needed = _needed_names(definitions)
    counts = [Counter(name for name, _ in side) for side in bound]
    if any(count[name] > 1 for count in counts for name in needed):
        return []  # a function, and what a later statement makes of it
    differing = {n for n in needed if _code_of(own.get(n)) != _code_of(definitions[n])}
    while True:  # what names something that differs differs itself
        more = {n for n in needed - differing if names_within(definitions[n]) & differing}
        if not more:
            break
        differing |= more
    differing.add(_LAUNCHER)
    inner = {n for name in differing for n in _inner_names(definitions[name])}
    if differing & inner:
        return []  # one name for two things
    taken = names_within(text.tree, other.tree)
    renamed = {name: cst.Name(free_name(f"{name}_before", taken)) for name in sorted(differing)}
    copies: list[tuple[str, cst.BaseStatement]] = []
    for name, statement in definitions.items():
        if name in differing:
            copies.append((name, _renamed(statement, renamed)))
    return copies


def _renamed(
    statement: cst.BaseStatement, names: Mapping[str, cst.BaseExpression]
) -> cst.BaseStatement:
    """Return a statement under other names: what it binds of its own keeps its name."""
    copy = substitute_names(statement.deep_clone(), names)
    if isinstance(copy, (cst.FunctionDef, cst.ClassDef)) and copy.name.value in names:
        copy = copy.with_changes(name=names[copy.name.value])
    return copy


def _needed_names(definitions: Mapping[str, cst.BaseStatement]) -> set[str]:
    """Return names of definitions that the launcher uses, itself and all that these use."""
    needed, pending = set[str](), [_LAUNCHER]
    while pending:
        name = pending.pop()
        if name in definitions and name not in needed:
            needed.add(name)
            pending += sorted(_free_names(definitions[name]))
    return needed


def _inner_names(statement: cst.BaseStatement) -> set[str]:
    """Return parameters and names that a definition binds within."""
    if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return set()
    params = {n.name.value for n in nodes_within(statement) if isinstance(n, cst.Param)}
    return params | set(assigned_names(*statements_of(statement)))


def _free_names(statement: cst.BaseStatement) -> set[str]:
    """Return names that a definition reads, its decorators and attributes' bases too."""
    return {node.value for node in nodes_within(statement) if isinstance(node, cst.Name)}


def _code_of(statement: cst.BaseStatement | None) -> str:
    return "" if statement is None else render_code(statement)
