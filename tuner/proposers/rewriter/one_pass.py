"""Statistics of a row in one pass over it, which are exact where the mean is large.

Notation
    m, s      maximum and sum of exp(x - m) of what was read so far
    n, u, q   count, mean, and sum of squared deviations from the mean

::

    m' = max(m, max x)      s' = s exp(m - m') + sum exp(x - m')
    d  = u_b - u            u' = u + d n_b / n'         q' = q + q_b + d^2 n n_b / n'

The first is the online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867), the second merges a
block b's moments (Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances", 1979): no large squares are subtracted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    values_of,
    without_assignments,
    written_out,
)
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._memory import (
    WRITES,
    may_meet,
    touches_memory,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    Body,
    Loop,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    expression_statement,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    converted_value,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._roots import allocated_tensor
from solkit.tuner.proposers.rewriter._values import (
    argument_aliases,
    argument_bases,
    as_blocked_loop,
    without_repeats,
)
from solkit.tuner.proposers.rewriter._variants import launch_variants
from solkit.tuner.proposers.rewriter._weighted_sums import is_over_all, weighted_sums

_FP32 = ("tl.float32", "torch.float32", "torch.float")


class OnePass:
    """Two loops over a row, of which the second needs the first's result, become one.

    Applies to a loop for the maximum followed by one for the sum of ``exp(x - maximum)``, and to a
    loop for the sum followed by one for the squared deviations from the mean, over the same bound
    in the same blocks. So does a loop for sums of a softmax's weights, as of an entropy. Loops that
    load the same and need nothing of each other are one, too. Between them may be only assignments,
    and neither writes.
    """

    kind = "one pass"
    helps = ("extra traffic", "latency", "instructions", "between launches", "repeated reads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "{} reads rows twice for their statistics; one pass is enough"
        factors = ("extra traffic", "latency", "instructions")
        return launch_variants(text, facts, _fused, intent, *factors)


def _fused(launch: Launch) -> cst.FunctionDef:
    """Return a launch's function with as few loops as possible."""
    fusions = _fuse_softmax, _fuse_moments, _fuse_apart, _fuse_rows, _fuse_weighted
    return _with_fused(launch, *fusions)


def with_shared_loads(launch: Launch) -> cst.FunctionDef:
    """Return a launch's function with one loop for those that load the same, and no more."""
    return _with_fused(launch, _fuse_apart)


_Fusion = Callable[[Launch], list[cst.BaseStatement] | None]


def _with_fused(launch: Launch, *fusions: _Fusion) -> cst.FunctionDef:
    function = launch.function
    while True:
        now = replace(launch, function=function)
        bodies = (fuse(now) for fuse in fusions)
        body = next((body for body in bodies if body is not None), None)
        if body is None:
            return function.node
        function = replace(function, node=with_body(function.node, body))


def _adjacent_loops(
    function: JitFunction, *, stores: bool = False
) -> Iterator[tuple[int, int, Loop, Loop]]:
    """Yield pairs of loops over one row with only assignments between, and stores if allowed."""
    places = [(i, loop) for i, s in enumerate(function.body) if (loop := range_loop(s)) is not None]
    for (i, first), (j, second) in itertools.pairwise(places):
        between = function.body[i + 1 : j]
        one, two = as_blocked_loop(first, function), as_blocked_loop(second, function)
        same = (
            one is not None
            and two is not None
            and (one.block, render_code(one.bound), one.counts)
            == (two.block, render_code(two.bound), two.counts)
            and not names_within(one.bound) & set(assigned_names(first.node, *between, second.node))
        )
        parts = [s for s in between if not stores or not _is_store(s)]
        writes = any(calls_within(node, *WRITES) for node in (first.node, *parts, second.node))
        if (
            same
            and not writes
            and all(single_assignment(statement) is not None for statement in parts)
        ):
            yield i, j, first, second


def _merged_loop(launch: Launch, first: Loop, second: Loop, update: Body) -> cst.BaseStatement:
    """Return the first loop with the second's statements, without what both compute."""
    same_name = {second.name: cst.Name(first.name)}
    both = [*first.body, *(substitute_names(statement, same_name) for statement in update)]
    return with_body(
        first.node, without_repeats(both, argument_aliases(launch), launch.function.params)
    )


# ------------------------------------------------------------------------------- softmax


def _fuse_softmax(launch: Launch) -> list[cst.BaseStatement] | None:
    function = launch.function
    for i, j, first, second in _adjacent_loops(function):
        peak = _kept_maximum(first)
        total = _sum_of_loop(second)
        if peak is None or total is None or not _is_scaled_by(peak, total, second):
            continue
        if any(peak in names_within(statement) for statement in function.body[i + 1 : j]):
            continue
        if not _starts_at_zero(total, function.body[:j]) or not _may_meet(function, i, j, {peak}):
            continue
        merged = _online_softmax(launch, first, second, peak, total)
        body = function.body
        return [*body[:i], *body[i + 1 : j], merged, *body[j + 1 :]]
    return None


# ------------------------------------------------------------------------------- weighted sums


def _fuse_weighted(launch: Launch) -> list[cst.BaseStatement] | None:
    """Return a function's statements with sums of weights in the loop that has their maximum."""
    body, function = launch.function.body, launch.function
    for i, j, first, second in _adjacent_loops(function):
        in_first, in_second = set(assigned_names(first.node)), set(assigned_names(second.node))
        ahead, behind = _around(body[i + 1 : j], in_first)
        sums = set(_carried_names(second))
        starts = [start_of_name(name, body[:j]) for name in sums]
        if not all(s is not None and s.is_zero and not s.is_integer for s in starts):
            continue
        ahead, later = without_assignments(ahead, sums), body[j + 1 :]
        if set(assigned_names(*ahead)) & names_within(first.node, *behind):
            continue
        if (in_second - sums - {first.name}) & names_read_first([*behind, *later]):
            continue
        local = in_first - set(_carried_names(first))
        if names_read_first([second.node, *behind]) & local or names_within(*behind) & sums:
            continue
        taken = {*function.names}
        row = as_blocked_loop(first, function)
        new = None if row is None else weighted_sums(row, second, behind, taken)
        if new is None or not all(_is_only_totalled(name, later) for name in new.blocks):
            continue
        if any(_axes_of_start(name, body[:i]) for name in new.scaled):
            continue
        if any(_axes_of_start(name, body[:j]) != (name in new.blocks) for name in sums):
            continue
        if _places_read(new.loop) >= sum(_places_read(loop.node) for loop in (first, second)):
            continue
        for name in new.blocks:
            later = [_scalar_statement(statement, name) for statement in later]
        return [*body[:i], *ahead, *new.starts, new.loop, *behind, *new.totals, *later]
    return None


def _fuse_rows(launch: Launch) -> list[cst.BaseStatement] | None:
    """Return a function's statements with loops over two rows, and one that sums up both, as one.

    The first two need nothing of each other, as the normalisers of two rows of logits.
    """
    body = launch.function.body
    pairs = list(_adjacent_loops(launch.function))
    for (i, j, first, second), (middle, *_) in itertools.pairwise(pairs):
        if middle != j:
            continue
        ahead, behind = _around(body[i + 1 : j], set(assigned_names(first.node)))
        renamed = _with_other_names(first, second, body[j + 1 :], {*launch.function.names})
        if renamed is None or not _are_apart(first, renamed, ahead, behind):
            continue
        merged = _merged_loop(launch, first, renamed, renamed.body)
        both = [*body[:i], *ahead, merged, *behind, *body[j + 1 :]]
        function = replace(launch.function, node=with_body(launch.function.node, both))
        whole = _fuse_weighted(replace(launch, function=function))
        if whole is not None:
            return without_repeats(whole, argument_aliases(launch), launch.function.params)
    return None


def _with_other_names(first: Loop, second: Loop, later: Body, taken: set[str]) -> Loop | None:
    """Return the second loop with names of its own; ``None`` if statements behind read its old."""
    clashing = {*assigned_names(*first.body)} & {*assigned_names(*second.body)}
    carried = {*_carried_names(first), *_carried_names(second)}
    if clashing & (carried | names_read_first(later)):
        return None
    names = {name: cst.Name(free_name(name, taken)) for name in sorted(clashing)}
    return range_loop(substitute_names(second.node, names))


def _places_read(loop: cst.CSTNode) -> int:
    """Return how many loads a loop has, without those that are written again."""
    return len({plain_code(call) for call in calls_within(loop, "tl.load")})


def _axes_of_start(name: str, before: Body) -> int:
    """Return how many axes a name's first value has; -1 if that is not known."""
    start = start_of_name(name, before)
    return -1 if start is None else len(start.shape)


def _is_only_totalled(name: str, statements: Body) -> bool:
    """Tell whether a block is only read to be added up."""
    calls = [call for s in statements for call in calls_within(s, "tl.sum")]
    totals = sum(_is_total_of(call, name) and render_code(call) != name for call in calls)
    return totals == sum(count_uses(statement, name) for statement in statements)


# ------------------------------------------------------------------------------- apart


def _fuse_apart(launch: Launch) -> list[cst.BaseStatement] | None:
    """Return a function's statements with two loops as one that load the same, and no more."""
    body = launch.function.body
    for i, j, first, second in _adjacent_loops(launch.function, stores=True):
        ahead, behind = _around(body[i + 1 : j], set(assigned_names(first.node)))
        if not _are_apart(first, second, ahead, behind):
            continue
        if not _stores_may_wait(launch, body[i + 1 : j], second):
            continue
        merged = _merged_loop(launch, first, second, second.body)
        loads = sum(len(calls_within(loop.node, "tl.load")) for loop in (first, second))
        if len(calls_within(merged, "tl.load")) < loads:
            return [*body[:i], *ahead, merged, *behind, *body[j + 1 :]]
    return None


def _is_store(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is a store alone."""
    call = expression_statement(statement)
    return call is not None and called_name(call) == "tl.store"


def _stores_may_wait(launch: Launch, between: Body, second: Loop) -> bool:
    """Tell whether stores between two loops may come behind the second."""
    stores = [call for s in between if _is_store(s) for call in calls_within(s, "tl.store")]
    loads = [c for s in (*between, second.node) for c in calls_within(s) if touches_memory(c)]
    loads = [call for call in loads if not any(call is store for store in stores)]
    bases = [argument_bases(launch, load) for load in loads]
    stored = [argument_bases(launch, store) for store in stores]
    return not any(may_meet(one, other) for one in stored for other in bases)


def _around(between: Body, results: set[str]) -> tuple[Body, Body]:
    """Return the statements between two loops that need none of the first's results, and others."""
    ahead: list[cst.BaseStatement] = []
    behind: list[cst.BaseStatement] = []
    for statement in between:
        needs = names_within(statement) & {*results, *assigned_names(*behind)}
        needs |= set(assigned_names(statement)) & names_within(*behind)
        (behind if needs else ahead).append(statement)
    return ahead, behind


def _are_apart(first: Loop, second: Loop, ahead: Body, behind: Body) -> bool:
    """Tell whether neither loop needs the other, nor a statement between that would be moved."""
    in_first, in_second, in_ahead, in_behind = (
        set(assigned_names(*part)) for part in ([first.node], [second.node], ahead, behind)
    )
    return not (
        in_ahead & names_within(first.node)
        or in_behind & names_within(second.node)
        or in_second & names_within(*behind)
        or names_read_first([second.node]) & in_first
        or names_read_first(first.body) & (in_second - {first.name})
    )


# ------------------------------------------------------------------------------- starts


def _starts_at_zero(name: str, before: Body) -> bool:
    start = start_of_name(name, before)
    return start is not None and start.is_zero


def _may_meet(function: JitFunction, i: int, j: int, results: set[str]) -> bool:
    """Tell whether neither loop, nor what is between, needs what another of them assigns.

    Args:
        function: whose body has the loops at `i` and `j`.
        i: place of the first loop.
        j: place of the second one.
        results: of the first loop, which the second may read.
    """
    first, between, second = function.body[i], function.body[i + 1 : j], function.body[j]
    in_first, in_between, in_second = (
        set(assigned_names(*part)) for part in ([first], between, [second])
    )
    read_first = names_within(first) - in_first
    return not (
        names_within(*between) & (in_first - results)
        or in_between & names_within(first)
        or read_first & in_second
        or names_read_first([second]) & (in_first - results)
    )


def _kept_maximum(loop: Loop) -> str | None:
    """Return the name of a scalar maximum that is the only thing that a loop keeps."""
    kept = _carried_names(loop)
    if len(kept) != 1:
        return None
    values = values_of(kept[0], loop.body)
    if len(values) != 1 or called_name(values[0]) not in ("tl.maximum", "max"):
        return None
    return kept[0] if calls_within(values[0], "tl.max") else None


def _sum_of_loop(loop: Loop) -> str | None:
    kept = _carried_names(loop)
    bindings = [a for a in assignments_in(loop.body) if a.target in kept]
    plain = len(kept) == 1 and len(bindings) == 1 and bindings[0].operator == "+="
    return kept[0] if plain else None


def _carried_names(loop: Loop) -> list[str]:
    """Return names whose values a trip takes from the one before."""
    carried, written = [], set()
    everything = set(assigned_names(*loop.body))
    for statement in loop.body:
        binding = single_assignment(statement)
        read = names_within(binding.value) if binding is not None else names_within(statement)
        carried += [n for n in sorted(read & everything) if n not in written and n not in carried]
        written |= set(assigned_names(statement))
    return carried


def _is_scaled_by(peak: str, total: str, loop: Loop) -> bool:
    """Tell whether what a loop adds is proportional to exp(-peak)."""
    added = next(a.operand for a in assignments_in(loop.body) if a.target == total)
    return _scale_by_peak(_flat_expression(loop, total, added), peak)


def _scale_by_peak(node: cst.BaseExpression, peak: str) -> bool:
    name = called_name(node)
    if name == "tl.sum":
        return _scale_by_peak(call_args(node)[0], peak)
    if name == "tl.where":
        condition, value, fill = call_args(node)[:3]
        return is_zero(fill) and peak not in names_within(condition) and _scale_by_peak(value, peak)
    if name in EXPONENTIALS:
        power = call_args(node)[0]
        minus = is_operation(power, cst.Subtract)
        if minus and isinstance(power, cst.BinaryOperation):
            return render_code(power.right) == peak and peak not in names_within(power.left)
        return False
    return any(
        _scale_by_peak(one, peak) and peak not in names_within(other)
        for one, other in both_orders(node, cst.Multiply)
    )


def _online_softmax(
    launch: Launch, first: Loop, second: Loop, peak: str, total: str
) -> cst.BaseStatement:
    taken = {*launch.function.names}
    new, shift = free_name(f"new_{peak}", taken), free_name(f"{peak}_shift", taken)
    exponential = next(c for c in calls_within(second.node) if called_name(c) in EXPONENTIALS)
    before = without_assignments(first.body, {peak})
    raised = next(a for a in assignments_in(first.body) if a.target == peak)
    update: list[cst.BaseStatement] = [
        parse_statement(f"{new} = {render_code(raised.value)}"),
        parse_statement(f'{shift} = tl.where({new} > float("-inf"), {new}, 0.0)'),
    ]
    for statement in second.body:
        binding = single_assignment(statement)
        if binding is not None and binding.target == total:
            scale = f"{called_name(exponential)}({peak} - {shift})"
            operand = render_code(substitute_names(binding.operand, {peak: cst.Name(shift)}))
            update.append(parse_statement(f"{total} = {total} * {scale} + {operand}"))
        else:
            update.append(substitute_names(statement, {peak: cst.Name(shift)}))
    update.append(parse_statement(f"{peak} = {new}"))
    plain = Loop(first.node, first.name, first.start, first.stop, first.step, tuple(before))
    return _merged_loop(launch, plain, second, update)


# ------------------------------------------------------------------------------- moments


def _fuse_moments(launch: Launch) -> list[cst.BaseStatement] | None:
    for i, j, first, second in _adjacent_loops(launch.function, stores=True):
        sums, squares = _sum_of_loop(first), _sum_of_loop(second)
        bound = as_blocked_loop(first, launch.function)
        if sums is None or squares is None or bound is None:
            continue
        if not _stores_may_wait(launch, launch.function.body[i + 1 : j], second):
            continue
        function = _with_one_mean(launch, i, j, sums, render_code(bound.bound))
        j += len(function.body) - len(launch.function.body)
        second = range_loop(function.body[j]) or second
        if not (
            _starts_at_zero(sums, function.body[:i])
            and _starts_at_zero(squares, function.body[:j])
            and _may_meet(function, i, j, {sums})
        ):
            continue
        between = function.body[i + 1 : j]
        if sum(sums in names_within(statement) for statement in between) > 1:
            continue  # the sum is read for more than the mean
        mean = _name_of_mean(between, sums, render_code(bound.bound))
        value = _added_elements(first, sums)
        if mean is None or value is None or not _is_deviation(second, squares, mean, value, first):
            continue
        masks = [argument_of(call, 1, "mask") for call in _loads(first)]
        if not all(
            mask is not None and bound.is_whole(_flat_expression(first, "", mask)) for mask in masks
        ):
            continue
        later = function.body[j + 1 :]
        if any(sums in names_within(statement) for statement in later):
            continue
        return _chan_update(
            function, i, j, first, (sums, squares, mean), value, render_code(bound.bound)
        )
    return None


def _with_one_mean(launch: Launch, i: int, j: int, sums: str, bound: str) -> JitFunction:
    """Return a function whose sum over a row is divided once between the loops at `i` and `j`.

    Launches that became one divide it for the mean that they store, and for the one that they keep.
    """
    function, body = launch.function, launch.function.body
    own, between, same = "", list[cst.BaseStatement](), dict[str, cst.BaseExpression]()
    assigned = assigned_names(*body)
    for statement in body[i + 1 : j]:
        statement = substitute_names(statement, same)
        binding = single_assignment(statement)
        quotients = [
            node
            for node in nodes_within(statement)
            if is_operation(node, cst.Divide)
            and _is_bound(node.right, bound)
            and _is_total_of(node.left, sums)
        ]
        is_own = binding is not None and any(node is binding.value for node in quotients)
        if is_own and binding is not None and not own and assigned.count(binding.target) == 1:
            own, quotients = binding.target, []
        elif quotients and not own:
            own = free_name("mean", set(function.names))
            between.append(parse_statement(f"{own} = {render_code(quotients[0])}"))
        statement = replace_each(statement, [(node, cst.Name(own)) for node in quotients])
        binding = single_assignment(statement)
        if binding is None or not _is_in_fp32(binding.value, own, launch):
            between.append(statement)
        elif assigned.count(binding.target) == 1:
            same[binding.target] = cst.Name(own)
        else:
            return function
    behind = [substitute_names(statement, same) for statement in body[j:]]
    return replace(function, node=with_body(function.node, [*body[: i + 1], *between, *behind]))


def _is_in_fp32(value: cst.BaseExpression, name: str, launch: Launch) -> bool:
    """Tell whether a value is a name's, which is an fp32 number, as it is or converted to fp32."""
    inner = converted_value(value)
    if inner is None:
        return bool(name) and plain_code(value) == name
    kind = plain_code(call_args(value)[-1])
    param = kind.removesuffix(".dtype.element_ty")
    if param != kind and param in launch.arguments:
        kind = (allocated_tensor(launch, param) or ("", []))[0]
    return bool(name) and plain_code(inner) == name and kind in _FP32


def _name_of_mean(between: Body, sums: str, bound: str) -> str | None:
    """Return the name that gets the sum divided by the number of elements."""
    for binding in assignments_in(between):
        if sums not in names_within(binding.value):
            continue
        value = binding.value
        divided = is_operation(value, cst.Divide)
        if divided and isinstance(value, cst.BinaryOperation) and _is_bound(value.right, bound):
            return binding.target if _is_total_of(value.left, sums) else None
        return None
    return None


def _is_bound(node: cst.BaseExpression, bound: str) -> bool:
    return render_code(node.with_changes(lpar=[], rpar=[])) == bound


def _is_total_of(node: cst.BaseExpression, name: str) -> bool:
    if render_code(node) == name:
        return True
    is_total = called_name(node) == "tl.sum" and is_over_all(node)
    return is_total and render_code(call_args(node)[0]) == name


def _added_elements(loop: Loop, sums: str) -> cst.BaseExpression | None:
    """Return what a loop sums, one element for each of its block."""
    binding = next(a for a in assignments_in(loop.body) if a.target == sums)
    operand = binding.operand
    if called_name(operand) == "tl.sum":
        return call_args(operand)[0] if is_over_all(operand) else None
    return operand


def _flat_expression(loop: Loop, target: str, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression of a loop's body without the body's own names."""
    bindings = map(single_assignment, loop.body)
    ahead = itertools.takewhile(lambda b: b is not None and b.target != target, bindings)
    return substitute_names(node, written_out(b for b in ahead if b is not None))


def _is_deviation(
    loop: Loop, squares: str, mean: str, value: cst.BaseExpression, first: Loop
) -> bool:
    """Tell whether a loop adds the squares of the deviations of the first loop's values."""
    added = _added_elements(loop, squares)
    if added is None:
        return False
    whole = _flat_expression(loop, squares, added)
    summed = next(a for a in assignments_in(first.body) if a.target in _carried_names(first))
    flat = _flat_expression(first, summed.target, value)
    element = plain_code(substitute_names(flat, {first.name: cst.Name(loop.name)}))
    if not is_operation(whole, cst.Multiply):
        return False
    if plain_code(whole.left) != plain_code(whole.right):
        return False
    deviation = whole.left
    masks = [render_code(c) for c in calls_within(first.node, "tl.load")]
    if called_name(deviation) == "tl.where":
        inside, deviation, fill = call_args(deviation)[:3]
        own = {_mask_text(call, first, first.name, loop.name) for call in _loads(first)}
        if not is_zero(fill) or own != {plain_code(inside)}:
            return False
    elif any("mask" in mask for mask in masks):
        return False  # what is beyond the row counts: left as it is
    return plain_code(deviation) == plain_code(parse_expression(f"({element}) - {mean}"))


def _loads(loop: Loop) -> list[cst.Call]:
    return calls_within(loop.node, "tl.load")


def _mask_text(call: cst.Call, loop: Loop, name: str, other: str) -> str:
    """Return a load's mask without the body's own names, with a loop's variable as another's."""
    mask = argument_of(call, 1, "mask")
    if mask is None:
        return ""
    return plain_code(substitute_names(_flat_expression(loop, "", mask), {name: cst.Name(other)}))


def _chan_update(
    function: JitFunction,
    i: int,
    j: int,
    first: Loop,
    kept: tuple[str, str, str],
    value: cst.BaseExpression,
    bound: str,
) -> list[cst.BaseStatement] | None:
    sums, squares, mean = kept
    body = function.body
    mask = next(
        (m for c in calls_within(first.node, "tl.load") if (m := argument_of(c, 1, "mask"))), None
    )
    if mask is None:
        return None
    taken = {*function.names}
    seen, here = free_name("seen", taken), free_name("here", taken)
    block_mean, apart, off = (free_name(n, taken) for n in ("block_mean", "apart", "off"))
    inside = free_name("inside", taken)
    statements = without_assignments(first.body, {sums})
    update = [
        f"{inside} = {render_code(mask)}",
        f"{here} = tl.sum({inside}.to(tl.float32), axis=0)",
        f"{block_mean} = tl.sum(tl.where({inside}, {render_code(value)}, 0.0), axis=0) / {here}",
        f"{off} = tl.where({inside}, {render_code(value)} - {block_mean}, 0.0)",
        f"{apart} = {block_mean} - {mean}",
        f"{squares} += tl.sum({off} * {off}, axis=0)",
        f"{squares} += {apart} * {apart} * {seen} * {here} / ({seen} + {here})",
        f"{mean} += {apart} * {here} / ({seen} + {here})",
        f"{seen} += {here}",
    ]
    loop = with_body(first.node, [*statements, *(parse_statement(text) for text in update)])
    starts = [parse_statement(f"{name} = 0.0") for name in (seen, mean, squares)]
    dropped = {sums, mean, squares}
    before = without_assignments(body[:i], {sums})
    between = without_assignments(body[i + 1 : j], dropped)
    after = [_scalar_statement(statement, squares) for statement in body[j + 1 :]]
    if not bound:
        return None
    return [*before, *starts, loop, *between, *after]


def _scalar_statement(statement: cst.BaseStatement, name: str) -> cst.BaseStatement:
    """Return a statement in which the sum over a block's elements is taken already."""
    pairs: list[Swap] = [
        (call, parse_expression(name))
        for call in calls_within(statement, "tl.sum")
        if render_code(call.args[0].value) == name
    ]
    return replace_each(statement, pairs)
