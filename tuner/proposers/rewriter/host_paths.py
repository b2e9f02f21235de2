"""Branches of a launcher that are not taken: paths for other devices, and for other modes.

Wrappers fall back to PyTorch where a tensor is not on a GPU, and launch other functions in training
than in evaluation. Rewrites read launches that follow one another. So

* of ``if not x.is_cuda: return F.relu(x)`` in a function that launches nothing remains: where it is
  taken, no kernel could be launched;
* of ``if training: ... else: ...`` the branch remains whose launches were recorded. Where the test
  has another result, `kernel` calls a copy of what it did before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    assigned_names,
    called_name,
    calls_within,
    free_name,
    functions_in,
    names_within,
    nodes_within,
    parenthesized,
    parse_statement,
    render_code,
    render_module,
    single_assignment,
    small_statement,
    statements_of,
    substitute_names,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import call_args
from solkit.tuner.proposers.rewriter._parse import KernelText, parse_kernel
from solkit.tuner.proposers.rewriter._roots import TENSOR_QUERIES
from solkit.tuner.proposers.rewriter.launch_copies import without_shared_functions

_OTHERWISE = "kernel_otherwise"
_PURE = TENSOR_QUERIES | {"len", "min", "max", "isinstance"}
"""Functions and methods that a test may call: they ask, and change nothing."""


def without_other_devices(tree: cst.Module) -> cst.Module:
    """Return the module whose launching functions have no branch for tensors of the CPU."""
    functions = functions_in(tree.body)
    launching = _launching(functions)
    swaps: dict[int, Sequence[cst.CSTNode]] = {}
    for name in sorted(launching):
        branches = (n for n in nodes_within(functions[name]) if isinstance(n, cst.If))
        for branch in branches:
            kept = _on_gpu(branch)
            if kept is not None and not _moves_tensors(branch, kept):
                swaps[id(branch)] = kept or [parse_statement("pass")]
    return with_each(tree, swaps) if swaps else tree


def _launching(functions: dict[str, cst.FunctionDef]) -> set[str]:
    """Return functions that launch, or call such a function."""
    launching = {
        name
        for name, node in functions.items()
        if any(isinstance(call.func, cst.Subscript) for call in calls_within(node.body))
    }
    for _ in functions:
        launching |= {n for n, f in functions.items() if names_within(f.body) & launching}
    return launching


def _on_gpu(branch: cst.If) -> list[cst.BaseStatement] | None:
    """Return what a branch does on a GPU; ``None`` if its test asks for more than the device."""
    test, positive = branch.test, True
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, positive = test.expression, not positive
    if not isinstance(test, cst.Attribute) or test.attr.value != "is_cuda":
        return None
    if isinstance(branch.orelse, cst.If):
        return None if not positive else statements_of(branch)
    if positive:
        return statements_of(branch)
    return [] if branch.orelse is None else statements_of(branch.orelse)


def _moves_tensors(branch: cst.If, kept: Body) -> bool:
    """Tell whether what is left out moves tensors to a GPU: then the rest would launch."""
    inner = {id(node) for node in nodes_within(*kept)}
    calls = [call for call in calls_within(branch) if id(call) not in inner]
    return any(called_name(call).split(".")[-1] in ("cuda", "to") for call in calls)


# ------------------------------------------------------------------------------- measured paths


@dataclass(frozen=True)
class _Path:
    """A branch of `kernel` that the measured call took.

    Attributes:
        branch: the statement.
        kept: what the call did of it.
        holds: condition under which a call does it.
    """

    branch: cst.If
    kept: Body
    holds: str


def with_measured_path(source: str, recorded: set[str]) -> str:
    """Return the file whose ``kernel`` launches what was recorded, one after the other.

    Args:
        source: in canonical form.
        recorded: names of the launched functions.
    """
    text = parse_kernel(source)
    path = None if text is None else next(_paths(text, recorded), None)
    if text is None or path is None:
        return source
    swaps = {id(path.branch): list(path.kept) or [parse_statement("pass")]}
    launcher = with_each(text.launcher, swaps)
    tree = with_otherwise(text, launcher, path.holds)
    return source if tree is None else with_measured_path(render_module(tree), recorded)


def _paths(text: KernelText, recorded: set[str]) -> Iterator[_Path]:
    """Yield branches that only one of their launches' names were recorded of."""
    body = statements_of(text.launcher)
    params = {p.name.value for p in text.launcher.params.params}
    for place, branch in enumerate(body):
        if not isinstance(branch, cst.If) or isinstance(branch.orelse, cst.If):
            continue
        other = [] if branch.orelse is None else statements_of(branch.orelse)
        sides = [_launched(part, text) for part in (statements_of(branch), other)]
        names = names_within(branch.test)
        is_known = names <= params - set(assigned_names(*body[:place])) and _is_pure(branch.test)
        is_known = is_known and not _passes_on(body[:place], branch.test)
        is_taken = [bool(side & recorded) for side in sides]
        if is_known and any(sides) and not all(is_taken) and not sides[0] & sides[1]:
            test = render_code(parenthesized(branch.test))
            if is_taken[0] or (sides[0] and not is_taken[0] and (is_taken[1] or not sides[1])):
                kept = statements_of(branch) if is_taken[0] else other
                yield _Path(branch, kept, test if is_taken[0] else f"not {test}")
            elif is_taken[1]:
                yield _Path(branch, other, f"not {test}")


def _passes_on(before: Body, test: cst.BaseExpression) -> bool:
    """Tell whether what a test asks for more than its sizes may be changed ahead of the test."""
    tested = _names_of_contents(test)
    for call in (call for statement in before for call in calls_within(statement)):
        func = call.func
        is_method = (
            isinstance(func, cst.Attribute) and called_name(call).split(".")[-1] not in _PURE
        )
        owner = func.value if is_method and isinstance(func, cst.Attribute) else cst.Name("_")
        passed = [] if called_name(call).split(".")[-1] in _PURE else call_args(call)
        if tested & _names_of_contents(owner, *passed):
            return True
    changed = [node.target for node in nodes_within(*before) if isinstance(node, cst.AssignTarget)]
    return bool(tested & names_within(*changed))


def _names_of_contents(*nodes: cst.CSTNode) -> set[str]:
    """Return names that are used for more than the sizes of what they stand for."""
    sized = {
        id(node.value)
        for node in nodes_within(*nodes)
        if isinstance(node, cst.Attribute) and node.attr.value in TENSOR_QUERIES
    }
    return {
        node.value
        for node in nodes_within(*nodes)
        if isinstance(node, cst.Name) and id(node) not in sized
    }


def _launched(body: Body, text: KernelText) -> set[str]:
    inner = {id(node) for node in nodes_within(*body)}
    return {launch.function.name for launch in text.launches if id(launch.statement) in inner}


def _is_pure(test: cst.BaseExpression) -> bool:
    return all(called_name(call).split(".")[-1] in _PURE for call in calls_within(test))


def passed_on(launcher: cst.FunctionDef) -> str | None:
    """Return arguments that pass a launcher's parameters on; ``None`` if it has starred ones."""
    params = launcher.params
    if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
        return None
    plain = [p.name.value for p in (*params.posonly_params, *params.params)]
    return ", ".join([*plain, *(f"{p.name.value}={p.name.value}" for p in params.kwonly_params)])


def unread_name(function: str, taken: set[str]) -> tuple[str, cst.BaseStatement]:
    """Return another name of a function, and the statement that binds it.

    No rewrite reads, or changes, the launches of a function that is called by such a name alone.
    """
    name = free_name(f"call_{function}", taken)
    return name, parse_statement(f"{name} = {function}\n")


def with_otherwise(
    text: KernelText, launcher: cst.FunctionDef, holds: str, added: Body = ()
) -> cst.Module | None:
    """Return the module with another ``kernel``, which does what it did unless a condition holds.

    The former one is called by another name of the module, so that no rewrite reads its launches.

    Args:
        text: the file.
        launcher: the other function.
        holds: the condition, of its parameters.
        added: definitions that it needs.

    Returns:
        The module; ``None`` if the parameters cannot be passed on.
    """
    passed = passed_on(text.launcher)
    if passed is None:
        return None
    taken = set(text.names)
    name = free_name(_OTHERWISE, taken)
    alias, binding = unread_name(name, taken)
    before = text.launcher.with_changes(name=cst.Name(name))
    guard = parse_statement(f"if not ({holds}):\n    return {alias}({passed})\n")
    body = statements_of(launcher)
    changed = with_body(launcher, [guard, *body])
    tree = text.tree.with_changes(
        body=[
            s
            for old in text.tree.body
            for s in ([before, binding, *added, changed] if old is text.launcher else [old])
        ]
    )
    return without_shared_functions(tree)


def with_direct_names(body: Body) -> list[cst.BaseStatement]:
    """Return a launcher's statements without names that only stand for another name.

    What was just allocated is contiguous: ``y.contiguous()`` is `y`.
    """
    statements = [s for s in body if not _is_pass(s)]
    names = assigned_names(*statements)
    new = {
        b.target
        for b in assignments_in(statements)
        if called_name(b.value) in ("torch.empty", "torch.zeros")
    }
    for place, statement in enumerate(statements):
        binding = single_assignment(statement)
        if binding is None or names.count(binding.target) != 1 or binding.operator:
            continue
        value = binding.value
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and not value.args:
            inner = value.func.value
            is_new = isinstance(inner, cst.Name) and inner.value in new
            value = inner if is_new and value.func.attr.value == "contiguous" else value
        if isinstance(value, cst.Name) and names.count(value.value) == 1:
            rest = [substitute_names(s, {binding.target: value}) for s in statements[place + 1 :]]
            return with_direct_names([*statements[:place], *rest])
    return statements


def _is_pass(statement: cst.BaseStatement) -> bool:
    return isinstance(small_statement(statement), cst.Pass)
