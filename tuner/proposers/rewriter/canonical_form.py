"""Canonical form: one way to write what kernel files write in several.

Rewrites read plain loops over ranges, pointers and masks, and launches in ``kernel``. This module
writes a file so that it does the same in that form. What it cannot read stays as it was.

* A body on the line of its ``def`` or ``if`` gets lines of its own; so do each import, and each of
  several statements on a line.
* What a model in KernelBench's form or a solution's ``run`` does is ``kernel`` (`model_forward`).
* So is a lambda or a function that gets this name (`model_forward`).
* Methods and layers that `ModelNew.forward` calls become functions (`model_methods`).
* Classes that only launch become functions (`host_classes`).
* Arguments that Python unpacks are written out (`star_arguments`).
* Branches for tensors that are not on a GPU are gone (`host_paths`), and ``nn.Linear`` is a product
  of its input (`plain_layers`).
* A launcher's own functions, and Triton functions that a kernel calls, are inlined.
* What ``triton.autotune`` and ``triton.heuristics`` give is an argument (`decorated_arguments`).
* ``while i < n: ...; i += step`` becomes a loop over a range.
* Loops begin at 0, and grow nothing that nobody reads (`loop_forms`).
* What other code of the file launches is a copy, and each launch has a function of its own
  (`launch_copies`).
* Block pointers become pointers and masks (`block_pointers`).
* Indices that have the axes of a tile become vectors (`index_axes`).
* ``k.trans(1, 0)``, ``k.T`` and such are ``tl.trans(k)`` (`method_calls`).
* Axes of reductions are counted from the first, and none is kept (`reduction_axes`).
* Loads leave out what no store writes (`store_masks`).
* What is like a tensor that the launcher allocates is allocated by sizes (`_equal_sizes`).
* Tuples and lists that a launcher unpacks are written out, and tensors that no kernel names are not
  made (`host_tuples`).
* Sizes are sums of lists, and not of tensors made of these (`list_sums`).
* ``a, b = x, y`` becomes two assignments, and a name that starts anew becomes another name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._equal_sizes import with_written_sizes
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    called_name,
    changed_within,
    compound_statement,
    names_within,
    nodes_within,
    numbered_name,
    parse_statement,
    reached_names,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import comparison_parts, is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, read_module
from solkit.tuner.proposers.rewriter._values import with_own_names
from solkit.tuner.proposers.rewriter.block_pointers import with_plain_pointers
from solkit.tuner.proposers.rewriter.decorated_arguments import with_decorated_arguments
from solkit.tuner.proposers.rewriter.host_classes import with_plain_functions
from solkit.tuner.proposers.rewriter.host_paths import with_direct_names, without_other_devices
from solkit.tuner.proposers.rewriter.host_tuples import (
    with_known_tuples,
    with_unrolled_lists,
    without_unread_tensors,
)
from solkit.tuner.proposers.rewriter.index_axes import with_axes_at_uses
from solkit.tuner.proposers.rewriter.inlining import with_inlined_helpers, with_inlined_launchers
from solkit.tuner.proposers.rewriter.late_quotients import with_late_quotients
from solkit.tuner.proposers.rewriter.launch_copies import (
    with_own_functions,
    without_decided_branches,
    without_decided_options,
    without_host_loops,
    without_shared_functions,
)
from solkit.tuner.proposers.rewriter.list_sums import with_sums_of_lists
from solkit.tuner.proposers.rewriter.loop_forms import (
    with_compared_indices,
    with_indices_of_trips,
    with_plain_loops,
)
from solkit.tuner.proposers.rewriter.method_calls import with_function_calls
from solkit.tuner.proposers.rewriter.model_forward import with_defined_kernel, with_model_function
from solkit.tuner.proposers.rewriter.model_methods import with_plain_methods
from solkit.tuner.proposers.rewriter.plain_layers import with_plain_layers
from solkit.tuner.proposers.rewriter.reduction_axes import with_plain_reductions
from solkit.tuner.proposers.rewriter.star_arguments import with_plain_arguments
from solkit.tuner.proposers.rewriter.store_masks import with_masks_of_stores

_Statement = cst.BaseStatement | cst.SimpleStatementLine


@functools.lru_cache(16)
def canonical_form(
    source: str,
    recorded: tuple[tuple[tuple[str, str], int], ...] = (),
    constants: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (),
) -> str:
    """Return a kernel file that does the same in the form that rewrites read best.

    Args:
        source: the file.
        recorded: numbers of axes of the tensors that launches got, as pairs of `Ranks`.
        constants: compile-time constants and options that a launch got, as pairs of `Constants`.
    """
    try:
        tree = cst.parse_module(source)
    except cst.ParserSyntaxError:
        return source
    plain_arguments = functools.partial(with_plain_arguments, recorded=dict(recorded))
    written_out = (plain_arguments, with_plain_functions, plain_arguments)
    laid_out = (_in_lines, with_defined_kernel, _in_one_line, without_decided_options)
    changes = (*laid_out, _with_model, *written_out, without_other_devices)
    split = (without_host_loops, with_own_functions, without_decided_branches)
    inlined = (with_inlined_launchers, with_inlined_helpers, without_shared_functions)
    recorded_constants = {name: dict(values) for name, values in constants}
    plain_marks = functools.partial(with_decorated_arguments, recorded=recorded_constants)
    for change in (*changes, *inlined, plain_marks, *split):
        tree = change(tree)
    text = read_module(tree)
    if text is None:
        return source
    launched = {launch.function.name for launch in text.live}
    pairs: list[Swap] = [
        (function.node, node)
        for function in _live_functions(text)
        if (node := _plain_function(function, launched)) is not function.node
    ]
    for launcher in {launch.launcher.name.value: launch.launcher for launch in text.live}.values():
        sized = with_written_sizes(launcher)
        body = with_sums_of_lists(statements_of(sized), tree)
        body = _unpacked_within(with_unrolled_lists(body))
        params = {p.name.value for p in launcher.params.params}
        body = _with_own_host_names(body, params)
        packed = _unpacked_within(with_known_tuples(body))
        same = len(packed) == len(body)
        plain = with_body(launcher, body if same else with_direct_names(packed))
        pairs += [(launcher, plain)] if render_code(plain) != render_code(launcher) else []
    return render_module(without_unread_tensors(replace_each(tree, pairs) if pairs else tree))


def _live_functions(text: KernelText) -> list[JitFunction]:
    """Return the functions that ``kernel`` launches, and those that these call."""
    called = {name: names_within(function.node.body) for name, function in text.functions.items()}
    names = {n for launch in text.live for n in reached_names(called, launch.function.name)}
    return [function for name, function in text.functions.items() if name in names]


def _with_model(tree: cst.Module) -> cst.Module:
    """Return the module whose model is ``kernel``; layers change only where that can be."""
    plain = with_plain_layers(tree)
    for form in (plain, tree) if plain is not tree else (tree,):
        methods = with_plain_methods(form)
        changed = with_model_function(methods)
        if changed is not methods:
            break
    return changed


class _Lines(cst.CSTTransformer):
    def leave_SimpleStatementSuite(  # noqa: N802 - the name and arguments of libcst
        self,
        original_node: cst.SimpleStatementSuite,  # noqa: ARG002
        updated_node: cst.SimpleStatementSuite,
    ) -> cst.BaseSuite:
        lines = [
            cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            for small in updated_node.body
        ]
        return cst.IndentedBlock(lines)

    def leave_SimpleStatementLine(  # noqa: N802
        self,
        original_node: cst.SimpleStatementLine,  # noqa: ARG002
        updated_node: cst.SimpleStatementLine,
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        if not _has_several(updated_node):
            return updated_node
        return cst.FlattenSentinel(
            [cst.ensure_type(line, cst.SimpleStatementLine) for line in _lines_of(updated_node)]
        )


def _in_lines(tree: cst.Module) -> cst.Module:
    nodes = nodes_within(tree)
    if not any(isinstance(node, cst.SimpleStatementSuite) or _has_several(node) for node in nodes):
        return tree  # most: to visit a module makes each of its nodes again
    return cst.ensure_type(tree.visit(_Lines()), cst.Module)


_OPEN = (
    *(cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation),
    *(cst.IfExp, cst.Attribute, cst.ConcatenatedString),
)
"""Expressions that break across lines only within the brackets of another."""
_BLANKS = (
    *("whitespace_before", "whitespace_after", "whitespace_between"),
    *("whitespace_before_if", "whitespace_after_if"),
    *("whitespace_before_else", "whitespace_after_else"),
)


def _broken_joints(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the parts where an expression without brackets of its own breaks across lines."""
    if not isinstance(node, _OPEN) or node.lpar:
        return []
    joints = [getattr(node, "operator", None), getattr(node, "dot", None)]
    joints += [target.operator for target in getattr(node, "comparisons", ())]
    return [part for part in (node, *joints) if part is not None and _breaks(part)]


def _breaks(part: cst.CSTNode) -> list[str]:
    """Return the fields of a part that hold a break of the line."""
    blanks = ((name, getattr(part, name, None)) for name in _BLANKS)
    return [name for name, blank in blanks if isinstance(blank, cst.ParenthesizedWhitespace)]


class _Joined(cst.CSTTransformer):
    """A visitor that puts one blank where the line breaks at joints; none next to a dot."""

    def __init__(self, joints: Sequence[cst.CSTNode]) -> None:
        super().__init__()
        self._joints = set(joints)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        if original_node not in self._joints:
            return updated_node
        blank = cst.SimpleWhitespace("" if isinstance(updated_node, cst.Dot) else " ")
        return updated_node.with_changes(**dict.fromkeys(_breaks(updated_node), blank))


def _in_one_line(tree: cst.Module) -> cst.Module:
    """Return the module with what breaks across lines within the brackets of another in one line.

    Rewrites move such an expression, or read its code, without those brackets.
    """
    joints = [joint for node in nodes_within(tree) for joint in _broken_joints(node)]
    return cst.ensure_type(tree.visit(_Joined(joints)), cst.Module) if joints else tree


def _has_several(statement: cst.CSTNode) -> bool:
    """Tell whether a line has several statements, or imports several modules."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    only = statement.body[0]
    return len(statement.body) > 1 or (isinstance(only, cst.Import) and len(only.names) > 1)


def _lines_of(statement: _Statement) -> Iterator[_Statement]:
    """Yield a line as one for each thing that it does."""
    if not isinstance(statement, cst.SimpleStatementLine) or not _has_several(statement):
        yield statement
        return
    smalls: list[cst.BaseSmallStatement] = []
    for small in statement.body:
        names = small.names if isinstance(small, cst.Import) else ()
        parts = [cst.Import([n.with_changes(comma=cst.MaybeSentinel.DEFAULT)]) for n in names]
        smalls += parts or [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
    first, *others = smalls
    yield statement.with_changes(body=[first], trailing_whitespace=cst.TrailingWhitespace())
    yield from (cst.SimpleStatementLine([small]) for small in others[:-1])
    if others:
        last = cst.SimpleStatementLine([others[-1]])
        yield last.with_changes(trailing_whitespace=statement.trailing_whitespace)


def _plain_function(function: JitFunction, launched: set[str]) -> cst.FunctionDef:
    own = replace(function, node=with_function_calls(function))
    body = _unpacked_within(own.body)
    names = set(function.params) | names_within(*body)
    body = _with_counted_loops(body, [], set(function.constants), names)
    body = with_compared_indices(body, set(function.constants))
    body = with_plain_loops(body, set(function.params), set(function.constants))
    body = with_own_names(body, set(function.params))
    node = with_body(own.node, body)
    node = with_plain_pointers(node)
    node = with_body(node, with_indices_of_trips(statements_of(node), set(function.params)))
    numbers = function.params if function.name in launched else function.constants
    node = with_body(node, with_axes_at_uses(statements_of(node), set(numbers)))
    node = with_masks_of_stores(with_plain_reductions(node, set(numbers)))
    node = with_late_quotients(replace(own, node=node))
    return function.node if render_code(node) == render_code(function.node) else node


def _unpacked_within(body: Body) -> list[cst.BaseStatement]:
    """Return statements with tuples assigned one by one, those within others too."""
    return changed_within(body, lambda statement: unpacked_statements([statement]))


_NUMBER = re.compile(r"_\d+$")


def _with_own_host_names(body: Body, params: set[str]) -> list[cst.BaseStatement]:
    """Return a launcher's statements in which a name that starts anew is another name.

    Names that change in place, are assigned within other statements, or are read by functions
    within, stay: these look names up when they run.
    """
    statements, seen = list(body), set(params)
    taken = params | names_within(*body)
    kept = _late_names(body)
    for place in range(len(statements)):
        binding = single_assignment(statements[place])
        if binding is None or binding.target not in seen - kept:
            seen |= set(assigned_names(statements[place]))
            continue
        name = cst.Name(numbered_name(_NUMBER.sub("", binding.target), taken))
        kind = cst.ensure_type(statements[place], cst.SimpleStatementLine)
        first = replace_each(kind, [(kind.body[0], _assigned(name, binding.value))])
        rest = [substitute_names(s, {binding.target: name}) for s in statements[place + 1 :]]
        statements[place:] = [first, *rest]
        seen.add(name.value)
    return statements


def _assigned(name: cst.Name, value: cst.BaseExpression) -> cst.Assign:
    return cst.Assign([cst.AssignTarget(name)], value)


def _late_names(body: Body) -> set[str]:
    """Return names that are more than one value after the other."""
    late = set[str]()
    for statement in body:
        binding = single_assignment(statement)
        if binding is None or binding.operator:
            late |= set(assigned_names(statement))
    kinds = (cst.Lambda, cst.FunctionDef, cst.CompFor, cst.Del, cst.NamedExpr, cst.Global)
    for node in nodes_within(*body):
        late |= names_within(node) if isinstance(node, kinds) else set()
    return late


# ------------------------------------------------------------------------------- loops


def _with_counted_loops(
    body: Body, after: Body, positive: set[str], taken: set[str]
) -> list[cst.BaseStatement]:
    """Return statements whose loops that count are loops over ranges.

    Args:
        body: statements of a block.
        after: statements that may follow it.
        positive: names of compile-time constants, which are positive where they are steps.
        taken: names that are no new ones.
    """
    statements = list(body)
    for place in range(len(statements)):
        statement, rest = statements[place], [*statements[place + 1 :], *after]
        inner = statements_of(statement)
        if inner:
            follows = [*_next_trip(statement), *rest]
            inner = _with_counted_loops(inner, follows, positive, taken)
            statement = statements[place] = with_body(statement, inner)
        if isinstance(statement, cst.While):
            _count_loop(statements, place, rest, positive, taken)
    return [statement for statement in statements if statement is not _GONE]


def _next_trip(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
    """Return what a loop does behind its last statement, if there is another trip."""
    if isinstance(statement, cst.While):
        return [parse_statement(render_code(statement.test)), *statements_of(statement)]
    return statements_of(statement) if isinstance(statement, cst.For) else []


_GONE = parse_statement("pass")
"""Stands for a statement that is dropped once no place of another is needed."""
_PROGRAM = "tl.program_id"


def _count_loop(
    statements: list[cst.BaseStatement],
    place: int,
    rest: Body,
    positive: set[str],
    taken: set[str],
) -> None:
    """Replace a loop that counts, and drop or rename the assignment of its first value."""
    loop = cst.ensure_type(statements[place], cst.While)
    counter = _counter(loop, positive)
    if counter is None or _may_read(rest, counter[0]):
        return
    name, stop, step, body = counter
    begin = _begin(statements[:place], name)
    if begin is None:
        return
    at, value = begin
    between = statements[at + 1 : place]
    if names_within(value) & set(assigned_names(*between)) or not _is_size(value):
        return
    start, statements[at] = render_code(value), _GONE
    if name in names_within(*between):
        first = numbered_name(name, taken)
        statements[at] = parse_statement(f"{first} = {start}\n")
        renamed = {name: cst.Name(first)}
        statements[at + 1 : place] = [substitute_names(other, renamed) for other in between]
        start = first
    bounds = f"{start}, {stop}" + ("" if step == "1" else f", {step}")
    node = compound_statement(f"for {name} in range({bounds})", body)
    statements[place] = node.with_changes(leading_lines=loop.leading_lines)


def _counter(
    loop: cst.While, positive: set[str]
) -> tuple[str, str, str, list[cst.BaseStatement]] | None:
    """Return the name that a loop counts with, its end, its step and what else the loop does."""
    parts = comparison_parts(loop.test)
    if loop.orelse is not None or parts is None or parts[1] not in ("<", ">"):
        return None
    name, stop = (parts[0], parts[2]) if parts[1] == "<" else (parts[2], parts[0])
    body = statements_of(loop)
    if not isinstance(name, cst.Name) or _leaves(body) or not _is_size(stop):
        return None
    steps = [
        (i, a) for i, s in enumerate(body) if (a := single_assignment(s)) and a.target == name.value
    ]
    written = assigned_names(*body)
    if len(steps) != 1 or written.count(name.value) != 1 or names_within(stop) & set(written):
        return None
    at, binding = steps[0]
    step = render_code(binding.operand)
    is_positive = step in positive or (step.isdigit() and int(step) > 0)
    rest = [*body[:at], *body[at + 1 :]]
    if binding.operator != "+=":
        step, is_positive = _plain_step(binding.value, name.value, positive)
    if not is_positive or name.value in names_within(*body[at + 1 :]) or not rest:
        return None
    return name.value, render_code(stop), step, rest


def _is_size(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is an integer that no memory decides, if its names are."""
    calls = {called_name(part) for part in nodes_within(node) if isinstance(part, cst.Call)}
    floats = any(isinstance(part, cst.Float) for part in nodes_within(node))
    return not floats and calls <= {"tl.cdiv", "min", "max", "tl.minimum", "tl.maximum", _PROGRAM}


def _plain_step(node: cst.BaseExpression, name: str, positive: set[str]) -> tuple[str, bool]:
    """Return the step of ``i = i + step``, and whether it is known to be positive."""
    if not is_operation(node, cst.Add):
        return "", False
    sides = [render_code(node.left), render_code(node.right)]
    step = sides[1] if sides[0] == name else sides[0]
    is_positive = step in positive or (step.isdigit() and int(step) > 0)
    return step, name in sides and is_positive


def _leaves(body: Body) -> bool:
    kinds = (cst.Break, cst.Continue, cst.Return)
    return any(isinstance(node, kinds) for node in nodes_within(*body))


def _begin(before: Body, name: str) -> tuple[int, cst.BaseExpression] | None:
    """Return the place and the value of the last assignment."""
    for at in reversed(range(len(before))):
        if name in assigned_names(before[at]):
            binding = single_assignment(before[at])
            plain = binding is not None and binding.target == name and not binding.operator
            if not plain or binding is None or name in names_within(binding.value):
                return None
            return at, binding.value
    return None


def _may_read(statements: Body, name: str) -> bool:
    """Tell whether statements may read a name before they assign it."""
    for statement in statements:
        binding = single_assignment(statement)
        if binding is not None and binding.target == name:
            return name in names_within(binding.value)
        first = statement.iter if isinstance(statement, cst.For) else None
        over = isinstance(statement, cst.For) and render_code(statement.target) == name
        if first is not None and over and name not in names_within(first):
            continue  # its trips assign it first
        if name in names_within(statement):
            return True
    return False
