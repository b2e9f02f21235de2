"""Passes over a short row, such as those of a top-k, keep the row and their results in registers.

A pass takes an extremum, the index where it is, and leaves that element out of the next pass:

    for k in range(K):            best = tl.max(x, axis=0)
        best = tl.max(x, axis=0)  at = tl.min(tl.where(x == best, i, N - 1), axis=0)
        at = tl.argmax(x, axis=0) x = tl.where(i == at, -inf, x)
        ...                       ... and so on, K times

``tl.argmax`` moves two operands in each step of its reduction, with a comparison of both. Straight
passes neither load the row again nor what a pass before them stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    program_axis,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._memory import may_meet, may_write
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    RANGES,
    Body,
    Swap,
    all_params,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    expression_statement,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    launcher_definition,
    launcher_integer,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, tile_accesses
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._shapes import Shape, operand_shapes
from solkit.tuner.proposers.rewriter._values import (
    argument_aliases,
    argument_bases,
    without_repeats,
    without_zeros,
)
from solkit.tuner.proposers.rewriter.launch_copies import kept_statements
from solkit.tuner.proposers.rewriter.program_fusion import FusePrograms

_MOST_TRIPS = 8
_MOST_STATEMENTS = 160
_EXTREMA = ("tl.max", "tl.min", "tl.argmax", "tl.argmin")
_PLACES = {"tl.argmax": "tl.max", "tl.argmin": "tl.min"}


class RowPasses:
    """A few passes over a row become straight code; places of extrema are minima of indices.

    Applies to loops of at most eight trips, if a trip takes an extremum and does not move along the
    row; and to ``tl.argmax`` and ``tl.argmin`` of blocks of known shape. The launcher's text says
    how many trips there are; a number that callers choose gets a guard, others keep the loop. Of
    equal extrema the first is taken, as before. A row with NaN gets a place within the row, but not
    always the same: the comparisons of ``tl.argmax`` depend on their order, too.
    """

    kind = "row passes"
    helps = ("instructions", "latency", "extra work", "barriers")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors(*self.helps)
        for launch in text.single:
            source = _rewritten(text, launch, facts)
            if not source:
                continue
            intent = (
                f"{launch.function.name} takes extrema with their places; passes without a loop "
                f"keep the row and their results in registers, and a place is a minimum of indices"
            )
            fused = list(_fused_programs(source, facts))
            for joined, more in fused:
                yield Variant(joined, f"{intent}{why}. {more}")
            if not fused:
                yield Variant(source, f"{intent}{why}.")


def _fused_programs(source: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the file with launches that read the results of passes as one, and what that gains."""
    text = parse_kernel(source)
    if text is None or len(text.launches) < 2:
        return
    for variant in FusePrograms().variants(text, facts):
        fused = parse_kernel(variant.source)
        yield (variant.source if fused is None else _with_joined_programs(fused)), variant.intent


def _rewritten(text: KernelText, launch: Launch, facts: Facts) -> str:
    """Return the file with a function's passes straight and its places plain; empty for none."""
    name, sizes = launch.function.name, _fixed_sizes(text, launch)
    straight = _with_straight_passes(launch, sizes)
    body = _with_plain_places(straight or launch)
    if straight is None:
        guarded = _guarded(text, launch, sizes, facts.constants(launch))
        if guarded:
            return guarded
    if body is None and straight is not None:
        body = straight.function.body
    node = None if body is None else with_body(launch.function.node, body)
    return "" if node is None else changed_text(text, functions={name: node})


def _guarded(
    text: KernelText, launch: Launch, sizes: Mapping[str, int], measured: Mapping[str, int]
) -> str:
    """Return the file with straight passes for the measured number of trips; others loop."""
    function = launch.function
    loops = [s for s in function.body if isinstance(s, cst.For) and calls_within(s, *_EXTREMA)]
    names = names_within(*(loop.iter for loop in loops)) & set(measured) if loops else set[str]()
    assumed = {name: measured[name] for name in sorted(names - set(sizes))}
    straight = _with_straight_passes(launch, {**sizes, **assumed}) if assumed else None
    if straight is None:
        return ""
    body = _with_plain_places(straight) or straight.function.body
    tests = [f"{render_code(launch.arguments[n])} == {size}" for n, size in assumed.items()]
    node = renamed_function(function, text.fresh(f"{function.name}_straight"), body)
    return relaunched(text, NewLaunch(launch, node), condition=" and ".join(tests))


def _fixed_sizes(text: KernelText, launch: Launch) -> dict[str, int]:
    """Return the integers that the file's text gives a launch's parameters."""
    launcher = launch.launcher
    varied = {param.name.value for param in all_params(launcher)}
    assigned = assigned_names(*statements_of(launcher))
    varied |= {name for name in assigned if launcher_definition(name, launcher) is None}
    sizes = {
        name: launcher_integer(argument, launcher, text)
        for name, argument in launch.arguments.items()
        if not launch.function.reassigned(name) and not names_within(argument) & varied
    }
    return {name: size for name, size in sizes.items() if size is not None}


# ------------------------------------------------------------------------------- straight passes


def _with_straight_passes(launch: Launch, sizes: Mapping[str, int]) -> Launch | None:
    """Return the launch with short loops of passes as straight code; ``None`` if it has none."""
    body = launch.function.body
    ranges = calls_within(launch.function.node, "tl.arange")
    blocks = names_within(*ranges) - {"tl"} if ranges else set[str]()
    passes = [s for s in body if calls_within(s, *_EXTREMA) and _trips(s, sizes, blocks)]
    if not passes:
        return None
    unrolled = _unrolled(body, sizes, blocks)
    if unrolled is None or len(unrolled) > _MOST_STATEMENTS:
        return None
    aliases, params = argument_aliases(launch), launch.function.params
    once = _with_body(launch, without_repeats(_as_decided(unrolled), aliases, params))
    kept = _with_body(once, _with_kept_results(once))
    return _with_body(kept, _without_lost_stores(kept))


def _as_decided(body: Body) -> list[cst.BaseStatement]:
    """Return statements without branches that numbers decide, as of a trip's index."""
    result: list[cst.BaseStatement] = []
    for statement in body:
        kept = kept_statements(statement, {}) if isinstance(statement, cst.If) else None
        whole = [s for s in kept or () if isinstance(s, cst.BaseStatement)]
        result += [statement] if kept is None else _as_decided(whole)
    return result


def _unrolled(
    body: Body, sizes: Mapping[str, int], blocks: set[str]
) -> list[cst.BaseStatement] | None:
    """Return statements with short loops as their trips; ``None`` if a name stays in use."""
    result: list[cst.BaseStatement] = []
    for at, statement in enumerate(body):
        trips = _trips(statement, sizes, blocks)
        if trips is None:
            result.append(statement)
            continue
        loop = cst.ensure_type(statement, cst.For)
        name = render_code(loop.target)
        if _is_read(body[at + 1 :], name):
            return None
        for trip in trips:
            inner = _unrolled(_trip(statements_of(loop), name, trip), sizes, blocks)
            if inner is None:
                return None
            result += inner
    return result


def _is_read(behind: Body, name: str) -> bool:
    """Tell whether statements may read a loop's name before another loop assigns it."""
    for statement in behind:
        if isinstance(statement, cst.For) and render_code(statement.target) == name:
            return False
        if name in names_within(statement):
            return True
    return False


def _trips(statement: cst.CSTNode, sizes: Mapping[str, int], blocks: set[str]) -> range | None:
    """Return the indices of a loop that has few trips, as far as the file says so."""
    if not isinstance(statement, cst.For) or statement.orelse is not None:
        return None
    over, body = statement.iter, statements_of(statement)
    if called_name(over) not in RANGES or not isinstance(statement.target, cst.Name):
        return None
    name = statement.target.value
    leaves = (cst.Break, cst.Continue, cst.Return, cst.While)
    is_odd = any(isinstance(node, leaves) or _is_field(node, name) for node in nodes_within(*body))
    if is_odd or name in assigned_names(*body) or _moves_along_row(body, name, blocks):
        return None
    args = [arg.value for arg in cst.ensure_type(over, cst.Call).args if arg.keyword is None]
    bounds = [_integer(arg, sizes) for arg in args]
    numbers = [bound for bound in bounds if bound is not None]
    if not numbers or len(numbers) < len(bounds) or numbers[2:] == [0]:
        return None
    trips = range(*numbers)
    return trips if len(trips) <= _MOST_TRIPS else None


def _moves_along_row(body: Body, name: str, blocks: set[str]) -> bool:
    """Tell whether a trip takes another block: its index is counted in blocks."""
    lines = [s for s in walk_statements(body) if not statements_of(s) and name in names_within(s)]
    return any(blocks & names_within(s) or calls_within(s, "tl.arange") for s in lines)


def _is_field(node: cst.CSTNode, name: str) -> bool:
    """Tell whether a node is a method of a name: a number has none."""
    return isinstance(node, cst.Attribute) and render_code(node.value) == name


def _integer(node: cst.BaseExpression, sizes: Mapping[str, int]) -> int | None:
    return sizes.get(node.value) if isinstance(node, cst.Name) else integer_literal(node)


def _trip(body: Body, name: str, index: int) -> list[cst.BaseStatement]:
    """Return the statements of one trip."""
    if index == 0:  # results of trips lie behind each other, the first at no offset
        body = [_with_short_pointers(statement, name) for statement in body]
    return [substitute_names(s, {name: parse_expression(str(index))}) for s in body]


def _with_body(launch: Launch, body: Body) -> Launch:
    node = with_body(launch.function.node, body)
    return replace(launch, function=replace(launch.function, node=node))


def _with_kept_results(launch: Launch) -> list[cst.BaseStatement]:
    """Return statements whose loads of single elements that were stored take the stored name."""
    body = launch.function.body
    scope = next((scope for _, scope in tile_accesses(launch.function)), None)
    result: list[cst.BaseStatement] = []
    for statement in body:
        binding = single_assignment(statement)
        value = None if binding is None or binding.operator else binding.value
        name = ""
        if scope is not None and isinstance(value, cst.Call) and called_name(value) == "tl.load":
            name = _kept_name(value, result, launch, scope)
        kept = [(value, cst.Name(name))] if name and value is not None else []
        result.append(replace_each(statement, kept) if kept else statement)
    return result


def _kept_name(load: cst.Call, before: Body, launch: Launch, scope: Scope) -> str:
    """Return the name whose value was stored where a scalar load reads; empty if unknown."""
    pointer, mask = load.args[0].value, argument_of(load, 1, "mask")
    tensors = argument_bases(launch, load)
    needed = names_within(pointer) | (set() if mask is None else names_within(mask))
    place = compact_code(pointer), "" if mask is None else compact_code(mask)
    words = {arg.keyword.value for arg in load.args if arg.keyword is not None}
    if argument_of(load, 2, "other") is not None or "volatile" in words:
        return ""
    changed: set[str] = set()
    for statement in reversed(before):
        store = _store(statement)
        value = None if store is None else argument_of(store, 1, "value")
        if store is not None and _place(store) == place:
            is_kept = isinstance(value, cst.Name) and value.value not in changed
            return value.value if is_kept and isinstance(value, cst.Name) else ""
        if store is not None:
            is_same = may_meet(tensors, argument_bases(launch, store))
            if is_same and not _is_apart(pointer, store.args[0].value, scope):
                return ""
        elif statements_of(statement) or any(map(may_write, calls_within(statement))):
            return ""
        changed |= set(assigned_names(statement))
        if needed & changed or "" in tensors:
            return ""
    return ""


def _is_read_or_atomic(call: cst.Call) -> bool:
    return called_name(call) == "tl.load" or _is_ordered(call)


def _is_ordered(call: cst.Call) -> bool:
    return called_name(call).startswith("tl.atomic")


def _is_apart(one: cst.BaseExpression, two: cst.BaseExpression, scope: Scope) -> bool:
    """Tell whether scalar pointers differ by a number that is not 0."""
    if not names_within(one, two) <= scope.scalars:
        return False  # elements of blocks may overlap
    try:
        gap = scope.terms(one).combined_with(scope.terms(two), -1).key
    except OtherFormError:
        return False
    factors = [factor for (_, term), _ in gap for factor in term]
    if any(block for (block, _), _ in gap) or not all(f.isdigit() for f in factors):
        return False
    return sum(times * math.prod(map(int, term)) for (_, term), times in gap) != 0


def _with_joined_programs(text: KernelText) -> str:
    """Return the file whose functions keep what was one launch's result and another's input."""
    nodes: dict[str, cst.FunctionDef | None] = {}
    for launch in text.single:
        body = _without_idle_branches(launch, _with_one_index(launch.function))
        once = _with_body(launch, body)
        kept = _with_body(once, _with_kept_results(once))
        rest = _without_idle_barriers(_without_lost_stores(kept))
        nodes[launch.function.name] = with_body(launch.function.node, rest)
    return changed_text(text, functions=nodes)


def _with_one_index(function: JitFunction) -> list[cst.BaseStatement]:
    """Return statements in which a program's index has one name."""
    body, names = list(function.body), dict[str, str]()
    for at, statement in enumerate(body):
        binding = single_assignment(statement)
        if binding is None or called_name(binding.value) != "tl.program_id":
            continue
        name, code = binding.target, compact_code(binding.value)
        if assigned_names(*body).count(name) > 1:
            continue
        first = names.setdefault(code, name)
        if first != name:
            own = {name: cst.Name(first)}
            body[at + 1 :] = [substitute_names(s, own) for s in body[at + 1 :]]
    return [s for s in body if not _is_other_name(s, names)]


def _is_other_name(statement: cst.BaseStatement, names: Mapping[str, str]) -> bool:
    binding = single_assignment(statement)
    first = "" if binding is None else names.get(compact_code(binding.value), "")
    return bool(first) and binding is not None and binding.target != first


def _without_idle_branches(launch: Launch, body: Body) -> list[cst.BaseStatement]:
    """Return statements without branches that all programs take: the index is below the grid."""
    tests, assigned = set[str](), assigned_names(*statements_of(launch.launcher))
    moved = {name for name in assigned if assigned.count(name) > 1}
    for binding in assignments_in(body):
        if called_name(binding.value) != "tl.program_id":
            continue
        axis = program_axis(binding.value)
        axes = launch.axes or ()
        if axis is None or axis >= len(axes) or assigned_names(*body).count(binding.target) > 1:
            continue
        tests |= {
            f"{binding.target}<{param}"
            for param, argument in launch.arguments.items()
            if compact_code(argument) == compact_code(axes[axis])
            and not launch.function.reassigned(param)
            if not names_within(argument) & moved
        }
    result: list[cst.BaseStatement] = []
    for statement in body:
        is_idle = isinstance(statement, cst.If) and compact_code(statement.test) in tests
        result += statements_of(statement) if is_idle else [statement]
    return result


def _without_idle_barriers(body: Body) -> list[cst.BaseStatement]:
    """Return statements without barriers that no load and no atomic operation follows."""
    return [
        statement
        for at, statement in enumerate(body)
        if called_name(expression_statement(statement) or statement) != "tl.debug_barrier"
        or any(map(_is_read_or_atomic, calls_within(cst.IndentedBlock(body[at + 1 :]))))
    ]


def _with_short_pointers(statement: cst.BaseStatement, name: str) -> cst.BaseStatement:
    """Return a statement whose pointers have no terms of a name that is 0."""
    pairs: list[Swap] = []
    for call in calls_within(statement, "tl.load", "tl.store"):
        line = cst.SimpleStatementLine([cst.Expr(call.args[0].value)])
        short = expression_statement(without_zeros([line], name)[0])
        if short is not None and not calls_within(line, "tl.load"):
            pairs.append((call.args[0].value, short))
    return replace_each(statement, pairs) if pairs else statement


def _without_lost_stores(launch: Launch) -> list[cst.BaseStatement]:
    """Return statements without stores that a later one overwrites before anything reads them."""
    body = launch.function.body
    return [s for at, s in enumerate(body) if not _is_lost(s, body[at + 1 :], launch)]


def _is_lost(statement: cst.BaseStatement, behind: Body, launch: Launch) -> bool:
    store = _store(statement)
    tensors = frozenset({""}) if store is None else argument_bases(launch, store)
    if store is None or "" in tensors:
        return False
    place, needed = _place(store), names_within(store.args[0].value)
    mask = argument_of(store, 2, "mask")
    needed |= set() if mask is None else names_within(mask)
    for other in behind:
        later = _store(other)
        if later is not None and _place(later) == place and not calls_within(other, "tl.load"):
            return True
        if statements_of(other) or needed & set(assigned_names(other)):
            return False
        if _may_read(other, tensors, launch):
            return False
    return False


def _store(statement: cst.CSTNode) -> cst.Call | None:
    call = expression_statement(statement)
    is_store = isinstance(call, cst.Call) and called_name(call) == "tl.store" and call.args
    return call if is_store and isinstance(call, cst.Call) else None


def _place(store: cst.Call) -> tuple[str, str]:
    mask = argument_of(store, 2, "mask")
    return compact_code(store.args[0].value), "" if mask is None else compact_code(mask)


def _may_read(statement: cst.BaseStatement, tensors: frozenset[str], launch: Launch) -> bool:
    """Tell whether a statement may read what was stored, or lets other programs do so."""
    for call in calls_within(statement):
        if called_name(call) == "tl.load" and may_meet(tensors, argument_bases(launch, call)):
            return True
        if called_name(call) != "tl.store" and may_write(call):
            return True
    return False


# ------------------------------------------------------------------------------- places


def _with_plain_places(launch: Launch) -> list[cst.BaseStatement] | None:
    """Return statements whose places of extrema are minima of indices; ``None`` for none."""
    shapes = operand_shapes(launch.function, *_PLACES)
    if not shapes:
        return None
    taken = set(launch.function.names)
    body = _placed(launch.function.body, shapes, taken)
    node = with_body(launch.function.node, body)
    is_changed = render_code(node) != render_code(launch.function.node)
    return body if is_changed else None


def _placed(body: Body, shapes: Mapping[int, Shape], taken: set[str]) -> list[cst.BaseStatement]:
    result: list[cst.BaseStatement] = []
    rest = list(body)
    while rest:
        statement = rest.pop(0)
        if inner := statements_of(statement):
            result.append(with_body(statement, _placed(inner, shapes, taken)))
            continue
        binding = single_assignment(statement)
        call = None if binding is None or binding.operator else binding.value
        axis = _axis(call, shapes)
        if axis is None or not isinstance(call, cst.Call):
            result.append(statement)
            continue
        extremum = f"{_PLACES[called_name(call)]}({render_code(call.args[0].value)}, axis={axis})"
        name = _known_extremum(result, extremum)
        if not name and binding is not None and binding.target not in names_within(call):
            name = _moved_extremum(rest, extremum, result)
        if not name:
            name = free_name("extremum", taken)
            result.append(parse_statement(f"{name} = {extremum}"))
        place = parse_expression(_index_of(call, name, axis, shapes[id(call)]))
        result.append(replace_each(statement, [(call, place)]))
    return result


def _axis(call: cst.CSTNode | None, shapes: Mapping[int, Shape]) -> int | None:
    """Return the axis of a place whose block has a known size along it; else ``None``."""
    if not isinstance(call, cst.Call) or called_name(call) not in _PLACES:
        return None
    words = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    node = argument_of(call, 1, "axis")
    axis, shape = integer_literal(node), shapes.get(id(call), ())
    if axis is None or len(call.args) > 3 or not words <= {"axis", "tie_break_left"}:
        return None
    if axis < 0:
        axis += len(shape)
    is_plain = 0 <= axis < len(shape) and all(size and size != "1" for size in shape)
    is_plain = is_plain and isinstance(call.args[0].value, cst.Name)  # it is written twice
    return axis if is_plain and call.args[0].keyword is None else None


def _index_of(call: cst.Call, extremum: str, axis: int, shape: Shape) -> str:
    """Return the least index whose element is an extremum; the last one's, where none is."""
    value, size = render_code(call.args[0].value), shape[axis]
    spread = ", ".join(":" if at == axis else "None" for at in range(len(shape)))
    beside = ", ".join("None" if at == axis else ":" for at in range(len(shape)))
    index = f"tl.arange(0, {size})"
    if len(shape) > 1:
        index, extremum = f"{index}[{spread}]", f"{extremum}[{beside}]"
    return f"tl.min(tl.where({value} == {extremum}, {index}, {size} - 1), axis={axis})"


def _known_extremum(before: Body, extremum: str) -> str:
    """Return the name that holds an extremum already; empty if none does."""
    changed: set[str] = set()
    for statement in reversed(before):
        binding = single_assignment(statement)
        if binding is not None and _is_extremum(binding.value, extremum) and not binding.operator:
            needed = {binding.target} | names_within(binding.value)
            if not needed & (changed | {binding.target} & names_within(binding.value)):
                return binding.target
        changed |= set(assigned_names(statement))
    return ""


def _moved_extremum(
    rest: list[cst.BaseStatement], extremum: str, result: list[cst.BaseStatement]
) -> str:
    """Move the statement right behind, if it takes the extremum, ahead; return its name."""
    binding = single_assignment(rest[0]) if rest else None
    if binding is None or binding.operator or not _is_extremum(binding.value, extremum):
        return ""
    if binding.target in names_within(binding.value):
        return ""
    result.append(rest.pop(0))
    return binding.target


def _is_extremum(node: cst.BaseExpression, extremum: str) -> bool:
    if not isinstance(node, cst.Call) or called_name(node) not in _PLACES.values():
        return False
    axis, last = argument_of(node, 1, "axis"), "" if len(node.args) <= 2 else "more"
    code = f"{called_name(node)}({render_code(node.args[0].value)}, axis="
    return not last and axis is not None and _same(f"{code}{render_code(axis)})", extremum)


def _same(one: str, two: str) -> bool:
    return "".join(one.split()) == "".join(two.split())
