"""Values that a loop carries from trip to trip, by the algebra of its updates.

A trip's statements are numbered so that each name has one value. An update then is one of these:

    sum         a' = a + e
    extremum    a' = max(a, e), or min; also as ``where(e > a, e, a)``
    follower    a' = where(e > m, f, a): what came with the extremum `m`, such as its index
    rescaled    a' = a exp(m - m') + e, where e is proportional to exp(-m'), of a maximum `m`
    running     a' = a + c, where c never changes: a pointer, or a count
    fold        several names at once, by an operation that is associative, as Welford's moments

All but the last are joined with the same from other trips, so trips may be taken apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._folds import as_fold
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    RANGES,
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expression_statement,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_assignment,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    converted_value,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._values import all_names

NEGATIVE_INFINITY = 'float("-inf")'
LOWEST = "-3.4028234663852886e38"
"""The least finite fp32: the start of a maximum of nothing, as ``-inf - -inf`` is no number."""
_MOST_EXPANSIONS = 12  # of names that stand for expressions with names


class CarriedKind(enum.Enum):
    """Kind of an update; see the module."""

    SUM = "sum"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    FOLLOWER = "follower"
    RESCALED = "rescaled"
    RUNNING = "running"
    FOLD = "fold"

    @property
    def is_extremum(self) -> bool:
        """True for a maximum or a minimum."""
        return self in (CarriedKind.MAXIMUM, CarriedKind.MINIMUM)

    @property
    def reduction(self) -> str:
        """Function that makes one value of a block: of sums and extrema; empty for others."""
        return _REDUCTIONS_OF_KINDS.get(self.value, "")

    def joined(self, one: str, two: str) -> str:
        """Return the code that joins two values: of sums and extrema."""
        return f"{one} + {two}" if self is CarriedKind.SUM else f"tl.{self.value}({one}, {two})"


_REDUCTIONS_OF_KINDS = {"sum": "tl.sum", "maximum": "tl.max", "minimum": "tl.min"}


@dataclass(frozen=True)
class Carried:
    """A name that a loop carries.

    Attributes:
        name: of it.
        kind: of its update.
        leader: the extremum that a follower, or a rescaled sum, goes with.
        is_first: whether a follower keeps the first of equal extrema; else the last.
        scale: of a rescaled sum, an expression over `old` and `new`, the leader's values.
        step: of a running name, what each trip adds.
        element: what a trip brings, over names from outside the loop and its variable.
        operation: of a fold, its next value over `own_x` and `new_x`, for each `x` folded.
        subtracts: whether a sum goes down by its elements.
    """

    name: str
    kind: CarriedKind
    leader: str = ""
    is_first: bool = True
    scale: cst.BaseExpression | None = None
    step: cst.BaseExpression | None = None
    element: cst.BaseExpression | None = None
    operation: cst.BaseExpression | None = None
    subtracts: bool = False

    def folded(self, part: str) -> str:
        """Return the code that joins it with parts, whose names end with `part`."""
        assert self.operation is not None
        names = names_within(self.operation)
        values = {f"own_{n}": cst.Name(n) for n in _folded_names(names, "own_")}
        values |= {f"new_{n}": cst.Name(f"{n}{part}") for n in _folded_names(names, "new_")}
        return render_code(substitute_names(self.operation, values))

    def scaled(self, old: str, new: str) -> str:
        """Return the factor from one value of the leader to another, as code."""
        assert self.scale is not None
        values = {"old": parse_expression(old), "new": parse_expression(new)}
        return render_code(parenthesized(substitute_names(self.scale, values)))


Node = TypeVar("Node", bound=cst.CSTNode)
_Classify = Callable[[str, Mapping[str, Carried]], Carried | None]


class OtherUpdateError(Exception):
    """A trip does something that is none of the kinds."""


def carried_by(body: Body, index: str = "") -> dict[str, Carried] | None:
    """Return what a loop with this body carries, by name; ``None`` if an update is of no kind.

    Args:
        body: the loop's statements.
        index: the name that the loop counts with.
    """
    try:
        return Trip(unpacked_statements(body), index).carried()
    except OtherUpdateError:
        return None


def unpacked_statements(body: Body) -> list[cst.BaseStatement]:
    """Return statements with ``a, b = ...`` as two, where that is known to be the same."""
    return [part for statement in body for part in _unpacked(statement)]


def _unpacked(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
    sides = plain_assignment(statement)
    if sides is None or not isinstance(sides[0], cst.Tuple):
        return [statement]
    names = [render_code(element.value) for element in sides[0].elements]
    values = _parts_of(sides[1])
    is_plain = len(values) == len(names) and all(map(_is_place, names))
    read = [names_within(parse_expression(value)) for value in values]
    bound = [name.split(".")[0] for name in names]
    is_late = any(used & set(bound[:place]) for place, used in enumerate(read))
    if not is_plain or (len(set(names)) < len(names)) or is_late:
        return [statement]
    parts = [parse_statement(f"{n} = {v}") for n, v in zip(names, values, strict=True)]
    leading = getattr(statement, "leading_lines", ())
    return [parts[0].with_changes(leading_lines=leading), *parts[1:]]


def _is_place(target: str) -> bool:
    """Tell whether a target is a name, or an attribute of one."""
    return all(part.isidentifier() for part in target.split(".")) and target.count(".") < 2


def _parts_of(value: cst.BaseExpression) -> list[str]:
    if isinstance(value, cst.Tuple):
        return [render_code(element.value) for element in value.elements]
    name = called_name(value)
    if name in ("tl.max", "tl.min"):
        indices, axis = argument_of(value, 2, "return_indices"), argument_of(value, 1, "axis")
        if indices is not None and render_code(indices) == "True" and axis is not None:
            args = f"({render_code(call_args(value)[0])}, axis={render_code(axis)})"
            return [f"{name}{args}", f"tl.arg{name.removeprefix('tl.')}{args}"]
    return []


def with_single_updates(body: Body) -> list[cst.BaseStatement]:
    """Return a trip in which a name that is only added to, several times, is as many sums.

    What a branch adds is added as 0 where the branch is not taken.
    """
    body = _without_adding_branches(body)
    sums: dict[str, list[cst.BaseStatement]] = {}
    for statement in walk_statements(body):
        if name := _added_to(statement):
            sums.setdefault(name, []).append(statement)
    several = {
        name: own
        for name, own in sums.items()
        if len(own) > 1
        and sum(count_uses(s, name) for s in own) == sum(count_uses(s, name) for s in body)
    }
    pairs: list[Swap] = [
        (statement, substitute_names(statement, {name: cst.Name(f"{name}_sum_{place}")}))
        for name, own in several.items()
        for place, statement in enumerate(own)
    ]
    return [replace_each(statement, pairs) for statement in body]


def _without_adding_branches(body: Body) -> list[cst.BaseStatement]:
    result: list[cst.BaseStatement] = []
    for statement in body:
        inner = statements_of(statement)
        if isinstance(statement, cst.For):
            result.append(with_body(statement, _without_adding_branches(inner)))
        elif (
            isinstance(statement, cst.If)
            and statement.orelse is None
            and all(map(_added_to, inner))
        ):
            test = render_code(statement.test)
            bindings = assignments_in(inner)
            values = [cst.ensure_type(b.value, cst.BinaryOperation) for b in bindings]
            result += [
                parse_statement(f"{b.target} += tl.where({test}, {render_code(v.right)}, 0)")
                for b, v in zip(bindings, values, strict=True)
            ]
        else:
            result.append(statement)
    return result


def _added_to(statement: cst.BaseStatement) -> str:
    """Return the name that a statement adds something else to; empty if it does another thing."""
    binding = single_assignment(statement)
    if binding is None:
        return ""
    name, value, is_sum = binding.target, binding.value, binding.operator in ("+=", "-=")
    if not isinstance(value, cst.BinaryOperation):
        return ""
    is_sum |= isinstance(value.operator, cst.Add) and render_code(value.left) == name
    return name if is_sum and name not in names_within(value.right) else ""


def carried_names(body: Body, outer: set[str]) -> set[str]:
    """Return names that a trip hands to the next, and those that hold their next values."""
    carried, written = set(), set()
    for statement in walk_statements(body):
        binding = single_assignment(statement)
        read = names_within(statement if binding is None else binding.value)
        if isinstance(statement, (cst.If, cst.For)):
            read = names_within(statement.test if isinstance(statement, cst.If) else statement.iter)
            written |= names_within(statement.target) if isinstance(statement, cst.For) else set()
        if binding is not None or isinstance(statement, (cst.If, cst.For)):
            carried |= {n for n in read & outer if n not in written and n in assigned_names(*body)}
            written |= {binding.target} if binding is not None else set()
    for statement in reversed(body):
        binding = single_assignment(statement)
        if (
            binding is not None
            and binding.target in carried
            and isinstance(binding.value, cst.Name)
        ):
            carried.add(binding.value.value)
    return carried


_TAKES = {"GreaterThan": (1, True), "GreaterThanEqual": (1, False)}
_TAKES |= {"LessThan": (-1, True), "LessThanEqual": (-1, False)}
"""Of ``element > carried``: 1 for a maximum, and whether it is strict."""


@dataclass(frozen=True)
class _Choice:
    """A condition that takes a new element instead of an extremum.

    Attributes:
        name: the extremum.
        element: what is compared with it, as text.
        kind: of the extremum.
        is_strict: whether the element must be beyond it.
        others: what else must hold, as texts.
    """

    name: str
    element: str
    kind: CarriedKind
    is_strict: bool
    others: frozenset[str] = frozenset()


@dataclass
class Trip:
    """The values of names in one trip.

    Attributes:
        body: its statements.
        index: the name that the loop counts with.
        values: of numbered names.
        current: the numbered name that holds a name's value.
        nested: what loops within carry.
        running: names that grow by the same each trip.
        effects: what is done beside assignments, such as stores.
        kept: names that have what they had before the loop where no branch assigns them, and the
            names in that branch's test.
    """

    body: Body
    index: str = ""
    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    nested: dict[str, Carried] = field(default_factory=dict)
    running: dict[str, Carried] = field(default_factory=dict)
    effects: list[cst.CSTNode] = field(default_factory=list)
    kept: dict[str, set[str]] = field(default_factory=dict)
    _from_before: set[str] = field(default_factory=set)
    _assigned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Collect what it assigns."""
        self._assigned = set(assigned_names(*self.body))

    def carried(self) -> dict[str, Carried]:
        """Return what the trip hands to the next.

        Raises:
            OtherUpdateError: an update is of no kind.
        """
        for statement in self.body:
            self.number(statement)
        names = sorted(self._from_before & self._assigned)
        self.running = {name: update for name in names if (update := self._running(name))}
        kept = [name for name in names if name not in self.running]
        result = dict(self.running)
        order = (self._extremum, self._sum, self._follower, self._rescaled)
        for classify in order:
            for name in kept:
                if name not in result and (update := self._nested_or(name, classify, result)):
                    result[name] = update
        if any(self._depends(effect) for effect in self.effects):
            raise OtherUpdateError("what is carried is written in each trip")
        if missing := set(names) - set(result):
            needed = (self._depends(cst.Name(self.current[name])) for name in missing)
            result |= self._fold(sorted(missing.union(*needed)))
        if missing := set(names) - set(result):
            raise OtherUpdateError(", ".join(sorted(missing)))
        return result

    # ---------------------------------------------------------------------------- numbering

    def number(self, statement: cst.BaseStatement) -> None:
        """Give what a statement assigns names of its own."""
        if (binding := single_assignment(statement)) is not None:
            self._assign(binding.target, self._numbered(binding.value))
        elif isinstance(statement, cst.If):
            self._number_branch(statement)
        elif isinstance(statement, cst.For):
            self._number_loop(statement)
        elif expression_statement(statement) is not None or not statements_of(statement):
            self.effects.append(self._numbered(statement))
            for name in assigned_names(statement):
                self._assign(name, cst.Name(f"{name}_of_{len(self.values)}"))
        else:
            raise OtherUpdateError(render_code(statement))

    def _assign(self, name: str, value: cst.BaseExpression) -> None:
        numbered = f"{name}__{len(self.values)}"
        self.values[numbered] = value
        self.current[name] = numbered

    def _numbered(self, node: Node) -> Node:
        names = names_within(node)
        self._from_before |= {n for n in names & self._assigned if n not in self.current}
        swaps = {n: cst.Name(self.current[n]) for n in names if n in self.current}
        return substitute_names(node, swaps)

    def _value_now(self, name: str) -> str:
        if name not in self.current:
            self._from_before.add(name)
        return self.current.get(name, name)

    def _number_branch(self, statement: cst.If) -> None:
        """Take ``if test: a = b`` as ``a = where(test, b, a)``.

        Where the test is the same in all trips, what it leaves alone is what was there before the
        loop: no trip hands it to the next.
        """
        numbered = self._numbered(statement.test)
        test = render_code(parenthesized(numbered))
        is_fixed = self._are_fixed(names_within(numbered)) and not calls_within(numbered)
        other = statement.orelse
        if isinstance(other, cst.If):
            raise OtherUpdateError(f"if {test}")
        before = dict(self.current)
        ends: list[dict[str, str]] = []
        for branch in (statement, other):
            self.current = dict(before)
            for inner in statements_of(branch) if branch is not None else []:
                if single_assignment(inner) is None:
                    raise OtherUpdateError(f"if {test}")
                self.number(inner)
            ends.append(self.current)
        self.current = dict(before)
        for name in dict.fromkeys(assigned_names(statement)):
            count = assigned_names(*self.body).count(name)
            is_only = count == assigned_names(statement).count(name)
            is_kept = is_fixed and is_only and not all(end.get(name) for end in ends)
            if is_kept:
                self.kept[name] = names_within(numbered)
            values = [end.get(name) or (name if is_kept else self._value_now(name)) for end in ends]
            self._assign(name, parse_expression(f"tl.where({test}, {values[0]}, {values[1]})"))

    def _number_loop(self, statement: cst.For) -> None:
        self._numbered(statement.iter)
        if not isinstance(statement.iter, cst.Call) or called_name(statement.iter) not in RANGES:
            raise OtherUpdateError(render_code(statement.iter))
        trip = Trip(unpacked_statements(statements_of(statement)), render_code(statement.target))
        inner = trip.carried()
        for name, tested in trip.kept.items():
            count = assigned_names(*self.body).count(name)
            is_own = count == assigned_names(statement).count(name) or name in self.current
            if not self._are_fixed(tested) or not is_own:
                raise OtherUpdateError(name)  # of another trip of this loop
            self.kept[name] = tested
        written = set(assigned_names(statement))
        read = names_within(*statements_of(statement)) & self._assigned - written
        self._from_before |= {name for name in read if name not in self.current}
        for name, update in inner.items():
            if name in self.current:  # it starts anew in each trip: an element like others
                continue
            if name in self.nested or update.kind is CarriedKind.RUNNING:
                raise OtherUpdateError(name)
            self.nested[name] = update
            self._from_before.add(name)
        for name in written:
            self._assign(name, cst.Name(f"{name}_of_{len(self.values)}"))
        after = set(inner) & set(self.nested)
        if calls_within(statement, *WRITES):
            self.effects += [cst.Name(self.current.get(name, name)) for name in sorted(read)]
        if any(self._depends_on_carried(inner_name, after) for inner_name in read):
            raise OtherUpdateError(", ".join(sorted(after)))

    def _depends_on_carried(self, name: str, others: set[str]) -> bool:
        return name in others or bool(self._depends(cst.Name(self.current.get(name, name))))

    # ---------------------------------------------------------------------------- values

    def root(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Follow names that are only other names; subscripts that add axes stay."""
        while isinstance(node, cst.Name) and isinstance(
            value := self.values.get(node.value), cst.Name
        ):
            node = value
        return node

    def peeled(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression that a name stands for."""
        node = self.root(node)
        return self.values.get(node.value, node) if isinstance(node, cst.Name) else node

    def _is_name(self, node: cst.BaseExpression, name: str) -> bool:
        root = self.root(node)
        return isinstance(root, cst.Name) and root.value == name

    def _key(self, node: cst.BaseExpression) -> str:
        """Return an expression's text, the same for equal ones."""
        node = self.peeled(node)
        names = {n: self.root(cst.Name(n)) for n in names_within(node) if n in self.values}
        return compact_code(substitute_names(node, names))

    def _expanded(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return an expression without names of the trip; ``None`` if it grows too long."""
        for _ in range(_MOST_EXPANSIONS):
            names = [n for n in names_within(node) if n in self.values]
            if not names:
                return node
            node = substitute_names(node, {n: self.values[n] for n in names})
        return None

    def _depends(self, node: cst.CSTNode, stop: str = "") -> set[str]:
        """Return the carried names that an expression depends on; `stop` is not looked into."""
        pending, seen, carried = [*names_within(node)], set[str](), set[str]()
        while pending:
            name = pending.pop()
            if name in seen or (stop and self._is_name(cst.Name(name), stop)):
                continue
            seen.add(name)
            if name in self.values:
                pending += names_within(self.values[name])
            elif name in self._from_before and name not in self.running:
                carried.add(name)
        return carried

    # ---------------------------------------------------------------------------- kinds

    def _nested_or(
        self, name: str, classify: _Classify, updates: Mapping[str, Carried]
    ) -> Carried | None:
        if name in self.nested:
            update = self.nested[name]
            own = sum(n.startswith(f"{name}__") for n in self.values)
            return (
                update if own == 1 and (not update.leader or update.leader in self.nested) else None
            )
        return classify(name, updates)

    def _final(self, name: str) -> cst.BaseExpression:
        return self.peeled(cst.Name(self.current[name]))

    def _running(self, name: str) -> Carried | None:
        value = self._final(name)
        if name in self.nested or not isinstance(value, cst.BinaryOperation):
            return None
        if not isinstance(value.operator, cst.Add) or not self._is_name(value.left, name):
            return None
        step = value.right
        varying = {self.index, *self.values, *self._assigned}
        is_fixed = names_within(step).isdisjoint(varying)
        is_fixed &= not calls_within(step, "tl.load", "tl.dot")
        return Carried(name, CarriedKind.RUNNING, step=step) if is_fixed else None

    def _sum(self, name: str, _known: Mapping[str, Carried]) -> Carried | None:
        value, elements = self._final(name), list[cst.BaseExpression | None]()
        while (parts := self._addition(value, name)) is not None:
            rest, added = parts
            if any(self._depends(part) for part in added):
                return None
            is_product = called_name(value) == "tl.dot"
            elements.append(None if is_product else self._expanded(added[0]))
            if self._is_name(rest, name):
                break
            if is_operation(value, cst.Subtract):
                return None  # of several elements all are added
            value = self.peeled(rest)
        if parts is None or (len(elements) > 1 and is_operation(value, cst.Subtract)):
            return None
        element = elements[0] if len(elements) == 1 else None
        subtracts = is_operation(value, cst.Subtract)
        return Carried(name, CarriedKind.SUM, element=element, subtracts=subtracts)

    def _addition(
        self, value: cst.BaseExpression, name: str
    ) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
        """Return what a value adds to, which depends on a carried name, and what is added."""
        if called_name(value) == "tl.dot":
            onto = argument_of(value, 2, "acc")
            return None if onto is None else (onto, [a for a in call_args(value) if a is not onto])
        if not is_operation(value, cst.Add, cst.Subtract):
            return None
        if is_operation(value, cst.Add) and not self._is_sum_of(value.left, name):
            return value.right, [value.left]
        return value.left, [value.right]

    def _is_sum_of(self, node: cst.BaseExpression, name: str) -> bool:
        """Tell whether a value is a carried name, or follows from the name."""
        return self._is_name(node, name) or name in self._depends(node)

    def _extremum(self, name: str, _known: Mapping[str, Carried]) -> Carried | None:
        value = self._final(name)
        for kind, calls in _EXTREMA.items():
            if called_name(value) in calls:
                args = call_args(value)[:2]
                rest = [arg for arg in args if not self._is_name(arg, name)]
                if len(rest) == 1 and not self._depends(rest[0]):
                    return Carried(name, kind, element=self._expanded(rest[0]))
        choice = self._choice_of(value, name)
        if choice is None or choice[0].name != name or choice[0].element != self._key(choice[1]):
            return None
        return Carried(name, choice[0].kind, element=self._expanded(choice[1]))

    def _choice_of(
        self, value: cst.BaseExpression, name: str
    ) -> tuple[_Choice, cst.BaseExpression] | None:
        """Return the condition under which a name gets a new value, and that value.

        A name that is kept under a condition is another thing: it becomes an element that is no
        number, and then the next element whatever that is.
        """
        if called_name(value) != "tl.where":
            return None
        test, new, kept = call_args(value)[:3]
        if not self._is_name(kept, name) or self._is_name(new, name) or self._depends(new):
            return None
        choices = [c for part in self._conjuncts(test) if (c := self._comparison(part))]
        rest = [part for part in self._conjuncts(test) if self._comparison(part) is None]
        if len(choices) != 1 or any(self._depends(part) for part in rest):
            return None
        return replace(choices[0], others=frozenset(map(self._key, rest))), new

    def _conjuncts(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        node = self.peeled(node)
        is_both = is_operation(node, cst.BitAnd)
        is_both |= isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And)
        if is_both and isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            yield from self._conjuncts(node.left)
            yield from self._conjuncts(node.right)
        else:
            yield node

    def _comparison(self, node: cst.BaseExpression) -> _Choice | None:
        """Return a comparison of an element with a carried name."""
        if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
            return None
        sides = [self.root(node.left), self.root(node.comparisons[0].comparator)]
        takes = _TAKES.get(type(node.comparisons[0].operator).__name__)
        names = [
            s.value if isinstance(s, cst.Name) and s.value in self._from_before else ""
            for s in sides
        ]
        if takes is None or bool(names[0]) == bool(names[1]):
            return None
        element = sides[0] if names[1] else sides[1]
        sign, is_strict = takes
        if names[0]:
            sign = -sign
        if self._depends(element):
            return None
        kind = CarriedKind.MAXIMUM if sign > 0 else CarriedKind.MINIMUM
        return _Choice(names[0] or names[1], self._key(element), kind, is_strict)

    def _follower(self, name: str, updates: Mapping[str, Carried]) -> Carried | None:
        choice = self._choice_of(self._final(name), name)
        if choice is None or choice[0].name == name:
            return None
        leader = updates.get(choice[0].name)
        if leader is None or leader.kind is not choice[0].kind or leader.name in self.nested:
            return None
        own = self._choice_of(self._final(leader.name), leader.name)
        others = frozenset[str]() if own is None else own[0].others
        if choice[0].element != self._element_of(leader) or choice[0].others != others:
            return None  # an extremum may be taken without what came with it
        element = self._expanded(choice[1])
        is_first = choice[0].is_strict
        return Carried(name, CarriedKind.FOLLOWER, leader.name, is_first, element=element)

    def _element_of(self, leader: Carried) -> str:
        """Return the text of what an extremum is compared with."""
        value = self._final(leader.name)
        args = call_args(value)
        if called_name(value) == "tl.where":
            args = args[1:3]
        return next(self._key(arg) for arg in args if not self._is_name(arg, leader.name))

    # ---------------------------------------------------------------------------- folds

    def _fold(self, names: Sequence[str]) -> dict[str, Carried]:
        """Return names that are folded together; none if that depends on the order of trips."""
        if set(names) & set(self.nested):
            return {}
        leaves: dict[str, str] = {}
        values = {
            name: self._of_fold(cst.Name(self.current[name]), names, leaves) for name in names
        }
        operations = as_fold(values, list(leaves.values()))
        return {n: Carried(n, CarriedKind.FOLD, operation=v) for n, v in operations.items()}

    def _of_fold(
        self, node: cst.BaseExpression, names: Sequence[str], leaves: dict[str, str]
    ) -> cst.BaseExpression:
        """Return a value over `own_x` for what is carried, and names for what a trip brings."""
        node = self.peeled(node)
        if isinstance(node, cst.Name) and node.value in names:
            return cst.Name(f"own_{node.value}")
        if not self._depends(node):
            if isinstance(node, (cst.Integer, cst.Float)):
                return node
            return cst.Name(leaves.setdefault(self._key(node), f"brought_{len(leaves)}"))
        if isinstance(node, cst.BinaryOperation):
            first, second = (self._of_fold(side, names, leaves) for side in (node.left, node.right))
            return node.with_changes(left=parenthesized(first), right=parenthesized(second))
        raise OtherUpdateError(render_code(node))

    # ---------------------------------------------------------------------------- rescaled sums

    def _rescaled(self, name: str, updates: Mapping[str, Carried]) -> Carried | None:
        for leader in updates.values():
            if leader.kind is CarriedKind.MAXIMUM and leader.name not in self.nested:
                new = self.root(cst.Name(self.current[leader.name]))
                rescaling = self._rescaling(name, leader.name, render_code(new))
                if rescaling is not None:
                    scale, added = rescaling
                    element = self._expanded(added)
                    kind = CarriedKind.RESCALED
                    return Carried(name, kind, leader.name, scale=scale, element=element)
        return None

    def _rescaling(
        self, name: str, leader: str, new: str
    ) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        """Return the scale of a sum and what a trip adds to it; ``None`` if it is not rescaled."""
        value = self._final(name)
        if called_name(value) == "tl.dot":
            call = cst.ensure_type(value, cst.Call)
            if (onto := argument_of(call, 2, "acc")) is None:
                return None
            kept: cst.BaseExpression = onto
            rest = [arg for arg in call.args if arg.value is not onto]
            added: cst.BaseExpression = call.with_changes(args=rest)
        elif is_operation(value, cst.Add):
            sides = [value.left, value.right]
            sides.sort(key=lambda side: name not in self._depends(side, new))
            kept, added = sides
        else:
            return None
        factor = self._factor_of(kept, name)
        scale = None if factor is None else self._whole(factor, leader, new)
        form = None if scale is None else _form_of_scale(scale)
        if scale is None or form is None or not self._is_scaled(added, new, form):
            return None
        return scale, added

    def _factor_of(self, kept: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
        kept = self.peeled(kept)
        if not is_operation(kept, cst.Multiply):
            return None
        if self._is_name(kept.left, name):
            return kept.right
        return kept.left if self._is_name(kept.right, name) else None

    def _whole(self, node: cst.BaseExpression, leader: str, new: str) -> cst.BaseExpression | None:
        """Return an expression over `old` and `new`, the leader's values; ``None`` for others."""
        while names := [n for n in names_within(node) if n in self.values and n != new]:
            node = substitute_names(node, {n: self.values[n] for n in names})
        others = names_within(node) - {leader, new, "float", *_module_names(node)}
        if not {leader, new} <= names_within(node) or not self._are_fixed(others):
            return None
        return substitute_names(node, {leader: cst.Name("old"), new: cst.Name("new")})

    def _are_fixed(self, names: set[str]) -> bool:
        """Tell whether names have the same value in all trips."""
        return not names & {self.index, *self.values, *self._assigned}

    def _is_scaled(self, node: cst.BaseExpression, new: str, form: tuple[str, str]) -> bool:
        """Tell whether an expression is proportional to exp(-new)."""
        node = self.peeled(node)
        if isinstance(node, cst.Subscript):
            return self._is_scaled(node.value, new, form)
        if isinstance(node, cst.BinaryOperation):
            return self._is_scaled_operation(node, new, form)
        name = called_name(node)
        if not isinstance(node, cst.Call):
            return False
        args = call_args(node)
        if name == "tl.sum":
            return self._is_scaled(args[0], new, form)
        if name == "tl.dot":
            return self._one_is_scaled(args[0], args[1], new, form)
        if name == "tl.where":
            return (
                is_zero(args[2])
                and not self._is_touched(args[0], new)
                and self._is_scaled(args[1], new, form)
            )
        if (inner := converted_value(node)) is not None:
            return self._is_scaled(inner, new, form)
        return name in EXPONENTIALS and self._is_shifted_power(name, args[0], new, form)

    def _is_scaled_operation(
        self, node: cst.BinaryOperation, new: str, form: tuple[str, str]
    ) -> bool:
        first, second = node.left, node.right
        if isinstance(node.operator, cst.Multiply):
            return self._one_is_scaled(first, second, new, form)
        if isinstance(node.operator, cst.Divide):
            return self._is_scaled(first, new, form) and not self._is_touched(second, new)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            return self._is_scaled(first, new, form) and self._is_scaled(second, new, form)
        return False

    def _one_is_scaled(
        self, first: cst.BaseExpression, second: cst.BaseExpression, new: str, form: tuple[str, str]
    ) -> bool:
        pairs = ((first, second), (second, first))
        return any(self._is_scaled(a, new, form) and not self._is_touched(b, new) for a, b in pairs)

    def _is_touched(self, node: cst.BaseExpression, new: str) -> bool:
        """Tell whether an expression depends on the leader, or on another carried name."""
        return new in all_names(node, self.values) or bool(self._depends(node))

    def _is_shifted_power(
        self, name: str, power: cst.BaseExpression, new: str, form: tuple[str, str]
    ) -> bool:
        """Tell whether a power is ``x - new``, times the same factor as in the scale."""
        if name.rsplit(".", 1)[-1] != form[0]:
            return False
        power, factor = self._without_factor(self.peeled(power))
        power = self.peeled(power)
        if not is_operation(power, cst.Subtract):
            return False
        shift, own = self._without_factor(self._peeled_shift(power.right))
        if "".join(sorted((factor, own))) != form[1]:
            return False
        shift = self._peeled_shift(shift)
        is_new = self._is_name(shift, new)
        if not is_new:
            guard = self.peeled(shift)
            is_new = called_name(guard) == "tl.where" and self._depends(guard, new) == set()
            is_new = is_new and self._is_touched(guard, new)
        return is_new and not self._is_touched(power.left, new)

    def _peeled_shift(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return what an expression with axes added stands for."""
        node = self.root(node)
        while isinstance(node, cst.Subscript):
            node = self.root(node.value)
        value = self.peeled(node)
        return value if isinstance(value, cst.BinaryOperation) else node

    def _without_factor(self, power: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
        """Return a power without a factor that is the same in all trips, and the factor's text."""
        for inner, factor in both_orders(power, cst.Multiply):
            whole = self._expanded(factor)
            if whole is None or calls_within(whole) or not self._are_fixed(names_within(whole)):
                continue
            return inner, _factor_text(whole)
        return power, ""


def _folded_names(names: Iterable[str], word: str) -> list[str]:
    return sorted(name.removeprefix(word) for name in names if name.startswith(word))


_EXTREMA = {CarriedKind.MAXIMUM: ("tl.maximum", "max"), CarriedKind.MINIMUM: ("tl.minimum", "min")}


def _module_names(node: cst.CSTNode) -> set[str]:
    return {n for n in names_within(node) if n in ("tl", "libdevice", "triton")}


def _factor_text(factor: cst.BaseExpression) -> str:
    return compact_code(factor).strip("()")


def _form_of_scale(scale: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the exponential and the factor of ``exp((old - new) * factor)``.

    The factor may also be of both, as in ``exp(old * factor - new * factor)``.
    """
    while isinstance(scale, cst.Subscript):
        scale = scale.value
    if called_name(scale) not in EXPONENTIALS:
        return None
    power, factor = _of_names(call_args(scale)[0])
    if not is_operation(power, cst.Subtract):
        return None
    old, first = _of_names(power.left)
    new, second = _of_names(power.right)
    is_plain = render_code(old) == "old" and "old" not in names_within(power.right)
    is_new = render_code(new) == "new" or called_name(new) == "tl.where"
    exponential = called_name(scale).rsplit(".", 1)[-1]
    if not is_plain or not is_new or first != second:
        return None
    return exponential, "".join(sorted((factor, second)))


def _of_names(node: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """Return an expression over `old` and `new` without a factor that has none of them."""
    for inner, factor in both_orders(node, cst.Multiply):
        if not names_within(factor) & {"old", "new"}:
            return inner, _factor_text(factor)
    return node, ""
