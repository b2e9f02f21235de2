"""Launches on one grid become one where a program of the later needs only what its like wrote.

Statistics of a row in one launch and their use in the next, or a row that goes through memory from
launch to launch, then stay with one program: it does what both did, one after the other. A value
that the first stores once is kept in registers. Loops over the same row can then be joined.

Notation
    place    where an access is: a sum of products of parameters, indices of the grid, loops and
             ranges. Two accesses with equal places are to the same elements, in one program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    grid_constants,
    guarded_launch,
    has_assignment,
    in_place_of,
    options_of,
    own_grid,
)
from solkit.tuner.proposers.rewriter._equal_sizes import (
    is_assigned_once,
    is_variable_size,
    size_differences,
    spelled_size,
)
from solkit.tuner.proposers.rewriter._kept_types import UnknownTypeError, kept_type, memory_type
from solkit.tuner.proposers.rewriter._launch_order import (
    adjacent_launches,
    allocation_of,
    is_free_between,
    is_harmless,
    statements_between,
)
from solkit.tuner.proposers.rewriter._loop_values import (
    LoopValue,
    computed_again,
    loop_value,
    without_stores,
)
from solkit.tuner.proposers.rewriter._memory import hides_access, mask_of, touches_memory
from solkit.tuner.proposers.rewriter._mutation import Facts, Step, Variant, changed_repeatedly
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expand_names,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import conjuncts
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, tile_accesses
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, with_arguments
from solkit.tuner.proposers.rewriter._roots import (
    element_uses,
    is_size,
    roots_of,
    tensor_roots,
)
from solkit.tuner.proposers.rewriter._row_launches import launched_by_rows
from solkit.tuner.proposers.rewriter._values import with_own_names, without_repeats
from solkit.tuner.proposers.rewriter.launch_copies import size_names
from solkit.tuner.proposers.rewriter.one_pass import with_shared_loads

_SHAPES = ("shape", "dtype", "device", "ndim")
_LOADS_AND_STORES = ("tl.load", "tl.store")
_Place = frozenset[tuple[tuple[str, ...], int]]


class FusePrograms:
    """Two launches with the same grid become one, if each program needs only what it wrote itself.

    Applies where all that both touch and one of them writes is at the same place in both, as the
    statistics of a program's row. Values stored once are kept in registers, and loops that load
    the same become one. An elementwise launch behind one whose programs take a row each can take
    rows as well.
    """

    kind = "fuse programs"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors("extra traffic", "launch")
        source, names = changed_repeatedly(text, _merge_first_pair)
        merged = parse_kernel(source) if source else None
        if merged is not None:
            yield _merged_variant(merged, names, why)
        source, names = changed_repeatedly(merged or text, _merge_first_rows)
        rows = parse_kernel(source) if source else None
        if rows is not None:
            source, _ = changed_repeatedly(rows, _merge_first_pair)
            yield _merged_variant((parse_kernel(source) if source else None) or rows, names, why)


def _merged_variant(merged: KernelText, names: Sequence[str], why: str) -> Variant:
    """Return a file in which launches are one, with loops that load the same as one, too."""
    whole = [(e.function, with_shared_loads(e)) for e in merged.single]
    shared = {old.name: new for old, new in whole if new is not old.node}
    return Variant(
        changed_text(merged, functions=shared) if shared else render_module(merged.tree),
        f"A program of {names[1]} needs only what the same program of {names[0]} wrote: "
        f"together they need no memory between them{why}.",
    )


def merged_programs(source: str, last: str) -> str:
    """Return the file in which a function's launch and the one ahead are one; empty if not.

    Args:
        source: the file.
        last: name of the function that is launched last.
    """
    text = parse_kernel(source)
    if text is None:
        return ""
    for one, two in adjacent_launches(text):
        if two.function.name == last and _may_share_a_grid(one, two) == {}:
            return _Merge(text, one, two).source()
    return ""


def _merge_first_pair(text: KernelText) -> Step | None:
    for one, two in adjacent_launches(text):
        sizes = _may_share_a_grid(one, two)
        if sizes is not None and (source := _Merge(text, one, two, sizes).source()):
            return source, (one.function.name, two.function.name)
    return None


def _merge_first_rows(text: KernelText) -> Step | None:
    """Return the file with the first pair as one of which the second is to take rows for that."""
    for one, two in adjacent_launches(text):
        if len(one.axes or ()) != 1 or _may_share_a_grid(one, two) == {}:
            continue
        form = launched_by_rows(text, two, compact_code((one.axes or ())[0]), one)
        name = two.function.name
        if form is not None and (source := merged_programs(render_module(form.tree), name)):
            return source, (one.function.name, name)
    return None


def _may_share_a_grid(one: Launch, two: Launch) -> dict[str, str] | None:
    """Return sizes of the second grid, each with the first one's that it must be equal to.

    ``None`` if grids are of other forms, or a function returns early.
    """
    first, second = one.axes, two.axes
    returns = (
        isinstance(node, cst.Return)
        for launch in (one, two)
        for node in nodes_within(launch.function.node)
    )
    if first is None or second is None or len(first) != len(second) or any(returns):
        return None
    axes = zip(first, second, strict=True)
    pairs = [pair for a, b in axes for pair in size_differences(a, b, one.launcher)]
    if not all(is_variable_size(part) for pair in pairs for part in pair):
        return None
    return {render_code(b): render_code(a) for a, b in pairs}


@dataclass(frozen=True)
class _Access:
    """A load or a store of a merged function.

    Attributes:
        call: of Triton.
        is_second: whether the second launch did it.
        bases: parameters that it may start from.
        place: of the elements; ``None`` if that is not known.
        mask: which of them, in terms of parameters: empty for all, ``None`` if not known.
        loops: variables of the loops around it.
    """

    call: cst.Call
    is_second: bool
    bases: frozenset[str]
    place: _Place | None
    mask: str | None = None
    loops: tuple[str, ...] = ()

    @property
    def is_store(self) -> bool:
        """True if it writes."""
        return called_name(self.call) != "tl.load"


@dataclass(frozen=True)
class _Kept:
    """A store of the first launch, with a load of the second that gets its value."""

    store: _Access
    load: _Access


_NO_SIZES: Mapping[str, str] = MappingProxyType({})


class _Merge:
    """Writes two launches as one.

    Args:
        text: the file.
        one, two: launches of it, in their order.
        sizes: of the second's grid, each with the first one's that the launcher must compare.
    """

    def __init__(
        self, text: KernelText, one: Launch, two: Launch, sizes: Mapping[str, str] = _NO_SIZES
    ) -> None:
        self._text, self._one, self._two, self._sizes = text, one, two, sizes
        self._arguments = arguments_of(one)
        names = self._second_names()
        self._ahead = list(one.function.body)
        self._behind = [substitute_names(s, names) for s in two.function.body]
        self._constants = {
            *one.function.constants,
            *(render_code(names[n]) for n in two.function.constants if n in names),
        }

    def source(self) -> str:
        """Return the file with one launch for both; empty if programs need each other's values."""
        if not self._is_free_between() or not self._arguments_cover() or self._hides_accesses():
            return ""
        accesses = self._accesses()
        tensors = self._dependent_tensors(accesses)
        if tensors is None:
            return ""
        kept = self._kept_values(tensors)
        again = self._values_again(tensors, accesses)
        loads = {id(pair.load.call) for pair in kept} | again.keys()
        gone = [
            tensor
            for tensor, own in tensors.items()
            if self._is_only_between(tensor)
            and all((a.is_store and not a.is_second) or id(a.call) in loads for a in own)
        ]
        try:
            return self._written(self._merged_body(tensors, kept, again, gone), gone)
        except UnknownTypeError:
            return ""

    def _second_names(self) -> dict[str, cst.BaseExpression]:
        """Return the second function's names in the merged one; add its arguments to the others."""
        one, two = self._one.function, self._two.function
        taken = set(one.names) | set(self._arguments)
        names: dict[str, cst.BaseExpression] = {}
        for name, value in arguments_of(self._two).items():
            shared = self._shared_parameter(name, value)
            new = shared or free_name(name, taken)
            names[name] = cst.Name(new)
            self._arguments.setdefault(new, value)
        clashing = set(self._arguments) | {render_code(new) for new in names.values()}
        nested = [s for s in two.body if statements_of(s)]
        clashing |= set(assigned_names(*one.body)) & set(assigned_names(*nested))
        for name in sorted(set(assigned_names(*two.body)) - set(two.params)):
            if name in clashing:
                names[name] = cst.Name(free_name(name, taken))
        return names

    def _shared_parameter(self, name: str, value: str) -> str:
        """Return the first function's parameter that a parameter of the second is; or nothing."""
        one, two = self._one, self._two
        sides = grid_constants(one), grid_constants(two)
        spelled = self._spelled_argument(value)
        arguments = arguments_of(one)
        for other in sorted(arguments, key=lambda other: other != name):
            is_same = self._spelled_argument(arguments[other]) == spelled
            alike = (other in one.function.constants) == (name in two.function.constants)
            is_number = integer_literal(parse_expression(value)) is not None
            tiles = sides[0].get(other) is not None and sides[0].get(other) == sides[1].get(name)
            moved = one.function.reassigned(other) or two.function.reassigned(name)
            if is_same and alike and not moved and (not is_number or other == name or tiles):
                return other
        return ""

    def _spelled_argument(self, code: str) -> str:
        """Return an argument's code, in which equal sizes are spelled alike."""
        launcher = self._one.launcher
        node = parse_expression(code)
        if not is_size(node, launcher):
            return compact_code(node)
        spelled = parse_expression(spelled_size(node, launcher))
        swaps: list[Swap] = [
            (part, parse_expression(self._equal_sizes[code]))
            for part in nodes_within(spelled)
            if is_variable_size(part) and (code := plain_code(part)) in self._equal_sizes
        ]
        return plain_code(replace_each(spelled, swaps))

    @cached_property
    def _equal_sizes(self) -> dict[str, str]:
        """Sizes of the second grid, and what the first one's is, spelled alike."""
        launcher, sizes = self._one.launcher, self._sizes.items()
        return {
            spelled_size(parse_expression(own), launcher): spelled_size(
                parse_expression(s), launcher
            )
            for own, s in sizes
        }

    @cached_property
    def _spelled_arguments(self) -> dict[str, str]:
        return {name: self._spelled_argument(code) for name, code in self._arguments.items()}

    def _arguments_cover(self) -> bool:
        """Tell whether each launch passes all of its function's parameters."""
        both = self._one, self._two
        return all(set(launch.function.params) <= set(launch.arguments) for launch in both)

    def _hides_accesses(self) -> bool:
        """Tell whether a call may touch memory at a place that is not read here."""
        calls = [c for s in (*self._ahead, *self._behind) for c in calls_within(s)]
        return any(hides_access(c) or called_name(c) in self._text.functions for c in calls)

    def _is_free_between(self) -> bool:
        """Tell whether nothing between the launches reads what the first writes, or changes it."""
        if not is_free_between(self._one, self._two):
            return False
        launcher, between = self._one.launcher, statements_between(self._one, self._two) or ()
        read = map(cst.Name, values_read(*between))
        return not roots_of(read, launcher) & roots_of(self._one.arguments.values(), launcher)

    # ------------------------------------------------------------------------- what depends

    def _accesses(self) -> list[_Access]:
        """Return the accesses of both."""
        own = {id(node) for statement in self._ahead for node in nodes_within(statement)}
        merged = JitFunction(
            with_body(self._one.function.node, [*self._ahead, *self._behind]),
            tuple(self._arguments),
            frozenset(self._constants),
            False,
        )
        numbers = self._fixed_numbers()
        scopes = {id(call): scope for call, scope in tile_accesses(merged)}
        calls = [c for s in merged.body for c in calls_within(s) if c.args and touches_memory(c)]
        return [
            _access_of(
                call, scopes.get(id(call)), id(call) not in own, self._spelled_arguments, numbers
            )
            for call in calls
        ]

    def _fixed_numbers(self) -> dict[str, int]:
        """Return arguments that are numbers, and no sizes of blocks."""
        sizes = size_names([*self._ahead, *self._behind])
        spelled = self._spelled_arguments.items()
        numbers = {n: integer_literal(parse_expression(v)) for n, v in spelled if n not in sizes}
        return {name: value for name, value in numbers.items() if value is not None}

    def _dependent_tensors(self, accesses: Sequence[_Access]) -> dict[str, list[_Access]] | None:
        """Return tensors that both touch and one writes, with accesses.

        ``None`` if a program needs what another one wrote.
        """
        roots = {
            name: tensor_roots(parse_expression(value), self._one.launcher)
            for name, value in self._arguments.items()
        }
        dependent = {}
        touched = sorted({base for access in accesses for base in access.bases})
        for root in dict.fromkeys(root for base in touched for root in sorted(roots[base])):
            own = [a for a in accesses if any(root in roots[b] for b in a.bases)]
            is_shared = {a.is_second for a in own} == {True, False}
            if not is_shared or not any(a.is_store for a in own):
                continue
            codes = {self._arguments[b] for a in own for b in a.bases if root in roots[b]}
            atomic = any(called_name(a.call) not in _LOADS_AND_STORES for a in own)
            axes = len(self._one.axes or ())
            if atomic or len(codes) != 1 or not _is_program_local(own, axes, self._arguments):
                return None
            dependent[codes.pop()] = own
        return dependent

    # ------------------------------------------------------------------------- what is kept

    def _kept_values(self, tensors: Mapping[str, Sequence[_Access]]) -> list[_Kept]:
        """Return loads by the second of values that the first stores once, on every way."""
        top = {
            id(call)
            for statement in self._ahead
            if isinstance(statement, cst.SimpleStatementLine)
            for call in calls_within(statement)
        }
        kept = []
        for own in tensors.values():
            stores = [a for a in own if a.is_store and not a.is_second]
            rewritten = {a.place for a in own if a.is_store and a.is_second}
            for load in (a for a in own if not a.is_store and a.is_second):
                matches = [a for a in stores if a.place == load.place]
                is_plain = len(matches) == 1 and _is_plain_value(matches[0].call)
                is_plain = is_plain and _covers(matches[0].mask, load)
                if is_plain and id(matches[0].call) in top and load.place not in rewritten:
                    kept.append(_Kept(matches[0], load))
        return kept

    def _values_again(
        self, tensors: Mapping[str, Sequence[_Access]], accesses: Sequence[_Access]
    ) -> dict[int, LoopValue]:
        """Return values that replace loads of tensors which only pass a row on, by the load."""
        values: dict[int, LoopValue] = {}
        for tensor, own in tensors.items():
            stores = [access for access in own if access.is_store]
            if len(stores) != 1 or stores[0].is_second or not self._is_only_between(tensor):
                continue
            (store,) = stores
            value = loop_value(store.call, self._ahead, self._behind)
            loads = [access for access in own if access is not store]
            if value is None or not self._stays(value, store, accesses):
                continue
            if all(load.is_second and _is_same_trip(store, load) for load in loads):
                values |= {id(load.call): value for load in loads}
        return values

    def _stays(self, value: LoopValue, store: _Access, accesses: Sequence[_Access]) -> bool:
        """Tell whether what a value is made of is never written, and has the store's shape."""
        launcher, calls = self._one.launcher, {id(call) for call in value.loads}
        made_of = [access for access in accesses if id(access.call) in calls]
        read, written = (
            roots_of(
                [parse_expression(self._arguments[b]) for a in some for b in a.bases], launcher
            )
            for some in (made_of, [access for access in accesses if access.is_store])
        )
        is_shaped = any(_ranges(access) == _ranges(store) for access in made_of)
        return len(made_of) == len(calls) and is_shaped and not read & written

    def _is_only_between(self, tensor: str) -> bool:
        """Tell whether a tensor is allocated for these two launches alone."""
        if not tensor.isidentifier() or allocation_of(tensor, self._one.launcher) is None:
            return False
        own = (self._one.statement, self._two.statement)
        passed = [*self._one.arguments.values(), *self._two.arguments.values()]
        elements = sum(len(element_uses(statement, tensor)) for statement in own)
        inside = sum(count_uses(statement, tensor) for statement in own)
        is_passed = elements == list(map(render_code, passed)).count(tensor)
        nodes = map(parse_expression, self._spelled_arguments.values())
        parts = (node for node in nodes if not isinstance(node, cst.Name))
        is_known = not any(tensor in names_within(part) for part in parts)
        return is_passed and is_known and count_uses(self._one.launcher, tensor) == inside + 1

    def _merged_body(
        self,
        tensors: Mapping[str, Sequence[_Access]],
        kept: Sequence[_Kept],
        again: Mapping[int, LoopValue],
        gone: Sequence[str],
    ) -> list[cst.BaseStatement]:
        taken = names_within(*self._ahead, *self._behind) | set(self._arguments)
        swaps: dict[int, list[cst.CSTNode]] = {}
        ahead: list[cst.BaseStatement] = list(self._ahead)
        for store in {id(pair.store.call): pair.store for pair in kept}.values():
            name = free_name("kept", taken)
            kind = self._kept_type(store, gone)
            ahead = list(_with_kept_value(ahead, store.call, name, kind))
            for load in (pair.load for pair in kept if pair.store is store):
                swaps[id(load.call)] = [in_place_of(load.call, name)]
        unread = {id(a.call) for t in gone for a in tensors[t] if a.is_store}
        ahead = without_stores(ahead, self._behind, unread)
        loads = {id(pair.load.call) for pair in kept}
        waits = any(_must_wait(own, loads) for t, own in tensors.items() if t not in gone)
        values = {
            id(load.call): replace(again[id(load.call)], kind=self._kept_type(load, gone))
            for tensor in gone
            for load in tensors[tensor]
            if id(load.call) in again
        }
        behind = computed_again(self._behind, values, taken)
        behind = [with_each(statement, swaps) for statement in behind]
        body = [*ahead, *([parse_statement("tl.debug_barrier()")] if waits else []), *behind]
        return self._without_types_of(gone, body)

    def _without_types_of(self, gone: Sequence[str], body: Body) -> list[cst.BaseStatement]:
        """Return statements in which types of tensors that are no arguments have names.

        Raises:
            UnknownTypeError: no other argument has one of them.
        """
        kinds = {
            f"{name}.dtype.element_ty": value
            for name, value in self._arguments.items()
            if value in gone
        }
        types = [node for node in nodes_within(*body) if isinstance(node, cst.Attribute)]
        pairs: list[Swap] = [
            (node, parse_expression(self._memory_type(kinds[code], gone)))
            for node in types
            if (code := render_code(node)) in kinds
        ]
        return [replace_each(statement, pairs) for statement in body]

    def _memory_type(self, tensor: str, gone: Sequence[str]) -> str:
        """Return the type of a tensor that is no argument any more, as device code."""
        allocation = has_assignment(self._one.launcher, tensor)
        if allocation is None:
            raise UnknownTypeError(tensor)
        return memory_type(allocation, self._one.launcher, self._remaining(gone))

    def _remaining(self, gone: Sequence[str]) -> dict[str, str]:
        """Return the arguments but for tensors that are gone, and without queries of these."""
        return {
            name: self._spelled_arguments[name] if names_within(node) & set(gone) else value
            for name, value in self._arguments.items()
            if value not in gone and (node := parse_expression(value))
        }

    def _kept_type(self, store: _Access, gone: Sequence[str]) -> str:
        """Return the type that a value has in memory; empty where that only rounds it.

        Raises:
            UnknownTypeError: no other argument has it.
        """
        (base,) = store.bases
        tensor = self._arguments[base]
        allocation = has_assignment(self._one.launcher, tensor) if tensor in gone else None
        if allocation is None:
            return f"{base}.dtype.element_ty"
        return kept_type(allocation, self._one.launcher, self._remaining(gone))

    def _written(self, body: Body, gone: Sequence[str]) -> str:
        one, two = self._one, self._two
        arguments = self._remaining(gone)
        body = without_repeats(body, _aliases(arguments), list(arguments))
        body = with_own_names(body, set(arguments))
        name = self._text.fresh(f"{one.function.name}_{two.function.name}")
        node = with_arguments(two.function, name, body, arguments, self._constants)
        grid = own_grid(two) if self._sizes else render_code(two.grid)
        options = {**options_of(one), **options_of(two)}
        line = NewLaunch(two, node, grid=grid, arguments=arguments, options=options).statement
        assignments = [has_assignment(one.launcher, tensor) for tensor in gone]
        dropped = [statement for statement in assignments if statement is not None]
        statements = [line]
        if self._sizes:
            dropped = [s for s in dropped if self._may_wait(s)]
            test = " and ".join(f"{a} == {b}" for a, b in self._sizes.items())
            statements = guarded_launch(test, line, two.statement, ahead=[*dropped, one.statement])
        functions = {} if self._sizes else {one.function.name: None, two.function.name: node}
        return changed_text(
            self._text,
            functions=functions,
            added={two.function.name: [node]} if self._sizes else {},
            launches=[
                (one.statement, []),
                (two.statement, statements),
                *((statement, []) for statement in dropped),
            ],
        )

    def _may_wait(self, allocation: cst.BaseStatement) -> bool:
        """Tell whether a tensor would be the same, allocated later."""
        binding = single_assignment(allocation)
        names = set() if binding is None else names_within(binding.value)
        return all(is_assigned_once(name, self._one.launcher) for name in names)


def _aliases(arguments: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return, by parameter, the others with the same argument."""
    return {
        name: frozenset(n for n, v in arguments.items() if v == value and n != name)
        for name, value in arguments.items()
    }


def _covers(mask: str | None, load: _Access) -> bool:
    """Tell whether a store, by its mask, writes all that a load, by its own, reads."""
    if mask is None or (mask and not load.mask):
        return False
    written, read = (
        {plain_code(part) for part in conjuncts(parse_expression(code))} if code else set()
        for code in (mask, load.mask)
    )
    return written <= read


def values_read(*parts: cst.CSTNode) -> set[str]:
    """Return names whose values parts of a launcher read, not only their sizes or types."""
    names: set[str] = set()
    pending = list(parts)
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Attribute) and node.attr.value in _SHAPES:
            continue
        if isinstance(node, cst.Call) and is_harmless(node):
            continue
        if isinstance(node, cst.Name):
            names.add(node.value)
        pending += [node.value] if isinstance(node, cst.Arg) else list(node.children)
    return names


# ------------------------------------------------------------------------------- places


def _access_of(
    call: cst.Call,
    scope: Scope | None,
    is_second: bool,
    arguments: Mapping[str, str],
    numbers: Mapping[str, int],
) -> _Access:
    pointer = call.args[0].value
    try:
        if scope is None:
            raise OtherFormError
        place = _place_of(pointer, scope, arguments, numbers)
    except OtherFormError:
        named = _expanded_names(pointer, scope) & set(arguments)
        return _Access(call, is_second, frozenset(named or arguments), None)
    mask = _mask_code(call, scope, arguments)
    alone = {factors[0] for factors, times in place if len(factors) == 1 and times == 1}
    named = {
        name for name, value in arguments.items() if plain_code(parse_expression(value)) in alone
    }
    bases = named & (_expanded_names(pointer, scope) or named)
    return _Access(call, is_second, frozenset(bases), place, mask, tuple(scope.loops))


def _mask_code(call: cst.Call, scope: Scope, arguments: Mapping[str, str]) -> str | None:
    mask = mask_of(call)
    if mask is None:
        return ""
    mask = _expanded(mask, scope)
    loops = {n: _range_of(scope, n) for n in names_within(mask) & set(scope.loops)}
    mask = _expanded(substitute_names(mask, loops), scope)
    is_plain = names_within(mask) <= {*arguments, "tl", "trips", "None"}
    is_plain = is_plain and not calls_within(mask, "tl.load")
    return compact_code(mask.with_changes(lpar=(), rpar=())) if is_plain else None


def _expanded_names(node: cst.BaseExpression, scope: Scope | None) -> set[str]:
    return set() if scope is None else names_within(_expanded(node, scope))


def _expanded(node: cst.BaseExpression, scope: Scope) -> cst.BaseExpression:
    """Return an expression in terms of what no statement ahead of it assigns."""
    return expand_names(node, scope.values.get)


def _place_of(
    pointer: cst.BaseExpression,
    scope: Scope,
    arguments: Mapping[str, str],
    numbers: Mapping[str, int],
) -> _Place:
    """Return the elements that a pointer leads to.

    Raises:
        OtherFormError: that depends on memory, or is no sum.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for term in scope.expanded(scope.terms(pointer)).terms:
        times, factors = term.sign, [f"range({term.block})@{term.axis}"] if term.block else []
        for factor in term.factors:
            number = numbers.get(factor, integer_literal(parse_expression(factor)))
            if number is None:
                factors.append(_spelled(factor, scope, arguments))
            else:
                times *= number
        counts[tuple(sorted(factors))] += times
    return frozenset((factors, times) for factors, times in counts.items() if times)


def _spelled(factor: str, scope: Scope, arguments: Mapping[str, str]) -> str:
    """Return a factor in terms of parameters, of the grid's indices and of ranges of loops.

    Raises:
        OtherFormError: it depends on something else.
    """
    params = set(arguments)

    def value_of(name: str) -> cst.BaseExpression | None:
        if name in {*params, "tl"}:
            return None
        return _range_of(scope, name) if name in scope.loops else scope.values.get(name)

    node = expand_names(parse_expression(factor), value_of)
    calls = {called_name(call) for call in calls_within(node)}
    if not names_within(node) <= {*params, "tl", "trips"} or not calls <= _PLAIN_CALLS:
        raise OtherFormError
    values_of_arguments = {n: parse_expression(v) for n, v in arguments.items()}
    return plain_code(substitute_names(node, values_of_arguments))


_PLAIN_CALLS = {"tl.program_id", "tl.num_programs", "tl.cdiv", "trips", "tl.minimum", "tl.maximum"}


def _range_of(scope: Scope, name: str) -> cst.BaseExpression:
    loop = scope.loops[name]
    bounds = ", ".join(render_code(part) for part in (loop.start, loop.stop, loop.step))
    return parse_expression(f"trips({bounds})")


def _is_program_local(accesses: Sequence[_Access], axes: int, arguments: Mapping[str, str]) -> bool:
    """Tell whether what one launch writes no other program of the other launch touches."""
    if any(a.place is None or len(a.bases) != 1 for a in accesses):
        return False
    pairs = [
        (one, two)
        for one in accesses
        for two in accesses
        if not one.is_second and two.is_second and (one.is_store or two.is_store)
    ]
    return all(
        _never_meet(one, two, axes)
        and (one.is_store or one.place != two.place or _has_own_window(one, arguments))
        for one, two in pairs
    )


def _has_own_window(access: _Access, arguments: Mapping[str, str]) -> bool:
    """Tell whether programs are as far apart as their blocks, loops or masks are long.

    What overlaps may be stored as often as it is, but not before other programs have loaded it.
    """
    place, values = access.place or (), {n: parse_expression(v) for n, v in arguments.items()}
    if not any(map(_is_spread, place)):
        return True
    mask = parse_expression(access.mask or "True")
    compared = (node for node in nodes_within(mask) if isinstance(node, cst.Comparison))
    ends = [node.comparisons[0].comparator for node in compared]
    for factor in {factor for factors, _ in place for factor in factors if "(" in factor}:
        calls = calls_within(parse_expression(factor.partition("@")[0]), "range", "trips")
        ends += [call.args[len(call.args) // 2].value for call in calls]  # stop of the three
    lengths = {plain_code(substitute_names(end, values)) for end in ends}
    return all(
        lengths & set(factors)
        or any(length.isdigit() and int(length) <= abs(times) for length in lengths)
        or any(".stride(" in factor for factor in factors)
        for factors, times in place
        if any(factor.startswith("tl.program_id") for factor in factors)
    )


def _never_meet(one: _Access, two: _Access, axes: int) -> bool:
    """Tell whether two accesses of different programs are never to the same element."""
    if one.place is None or two.place is None:
        return False
    if one.place == two.place:
        spelled = {factor for factors, _ in one.place for factor in factors}
        own = all(_decides(f"tl.program_id({axis})", spelled) for axis in range(axes))
        alike = one.mask == two.mask is not None  # else windows may meet
        single = not any(map(_is_spread, one.place))
        return (own and (alike or single)) or (not two.is_store and _covers(one.mask, two))
    counts = Counter(dict(one.place))
    counts.subtract(dict(two.place))
    difference = {factors: times for factors, times in counts.items() if times}
    strides = [
        times
        for factors, times in one.place
        if len(factors) == 1 and factors[0].startswith("tl.program_id")
    ]
    single = not any(map(_is_spread, one.place))
    is_constant = set(difference) <= {()} and len(strides) == axes == 1 and single
    return is_constant and abs(difference.get((), 0)) < abs(strides[0])


def _is_spread(term: tuple[tuple[str, ...], int]) -> bool:
    """Tell whether a term of a place has several values in a program."""
    return any("range" in factor or "trips" in factor for factor in term[0])


def _decides(index: str, factors: set[str]) -> bool:
    """Tell whether factors tell all values of an index apart: it, or quotient and remainder."""
    divisors = {f.removeprefix(f"{index}%") for f in factors if f.startswith(f"{index}%")}
    return index in factors or any(_decides(f"{index}//{d}", factors) for d in divisors)


def _is_same_trip(store: _Access, load: _Access) -> bool:
    """Tell whether a load in a trip of one loop is of what a store wrote in the same trip."""
    trips = [f for factors, _ in store.place or () for f in factors if "trips(" in f]
    is_one = len(store.loops) == len(load.loops) == len(trips) == 1
    return is_one and store.place == load.place and _covers(store.mask, load)


def _ranges(access: _Access) -> set[tuple[tuple[str, ...], int]]:
    """Return the terms of a place in which a block's lanes differ."""
    return {term for term in access.place or () if any("range(" in factor for factor in term[0])}


def _must_wait(accesses: Sequence[_Access], kept: set[int]) -> bool:
    """Tell whether threads of a program touch what other threads of it wrote, or still read."""
    return any(
        one.place == two.place and (one.is_store or two.is_store) and id(two.call) not in kept
        for one in accesses
        for two in accesses
        if not one.is_second and two.is_second
    )


# ------------------------------------------------------------------------------- kept values


def _is_plain_value(store: cst.Call) -> bool:
    """Tell whether a store's value is computed, and not a number."""
    value = argument_of(store, 1, "value")
    return value is not None and not isinstance(value, (cst.Integer, cst.Float))


def _with_kept_value(
    body: Body, store: cst.Call, name: str, kind: str
) -> Iterator[cst.BaseStatement]:
    """Yield statements in which a name holds what a store writes, as a type if that is given."""
    for statement in body:
        if any(call is store for call in calls_within(statement)):
            value = argument_of(store, 1, "value")
            assert value is not None
            code = render_code(value)
            yield parse_statement(f"{name} = {f'({code}).to({kind})' if kind else code}")
        yield statement
