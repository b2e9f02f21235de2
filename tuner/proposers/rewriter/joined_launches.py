"""Independent launches of one function become one launch along a new axis of the grid.

Projections of one input, or the same step for several tensors, start one after the other, and each
fills only part of a GPU. Joined, they run together, and what they share stays in L2. The index
along the new axis selects the arguments that differ.

Requirements
    Launches follow one another. They agree in constants, options and in the expressions of their
    grids. Sizes that may differ are compared by the launcher, which then launches one by one.
    What a launch writes is allocated by the launcher, and nothing else reads or views it until the
    last launch. So no launch touches what another one writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    grid_axis,
    grid_of,
    guarded_launch,
    options_of,
)
from solkit.tuner.proposers.rewriter._equal_sizes import (
    is_assigned_once,
    is_variable_size,
    size_differences,
    spelled_size,
)
from solkit.tuner.proposers.rewriter._launch_order import allocation_of, is_harmless
from solkit.tuner.proposers.rewriter._memory import hides_access, is_write, pointers_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Step, Variant, changed_repeatedly
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    called_name,
    calls_within,
    free_name,
    nodes_within,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    is_changed_between,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, with_arguments
from solkit.tuner.proposers.rewriter._roots import launcher_params
from solkit.tuner.proposers.rewriter.launch_loops import joined_loop
from solkit.tuner.proposers.rewriter.program_fusion import values_read

_MOST_LAUNCHES = 8
_MOST_JOINS = 4
_MOST_AXES = 3  # of a grid
_VIEWS = ("view", "transpose", "permute", "unsqueeze", "squeeze", "t")
"""Methods of tensors that never read or write an element."""
"""Calls whose values are numbers; ``tl.where`` of pointers has another base by its operands."""


class JoinLaunches:
    """Launches of one function that are independent become one, along a new axis of the grid.

    Applies where they differ in tensors and numbers only. Grids whose sizes may differ are
    compared when the launcher runs. So do the launches of a launcher's loop (`launch_loops`).
    """

    kind = "join launches"
    helps = ("extra traffic", "launches", "launch", "between launches", "tail", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source, names = changed_repeatedly(text, _join_first, _MOST_JOINS)
        text = (parse_kernel(source) if source else None) or text
        if source:
            why = facts.explain_factors("extra traffic", "launch", "tail")
            yield Variant(
                source,
                f"Launches of {' and of '.join(names)} are independent: one launch fills the GPU "
                f"better, and what they share stays in L2{why}.",
            )
        if joined := joined_loop(text):
            source, name = joined
            why = facts.explain_factors("launch", "tail")
            yield Variant(
                source,
                f"A loop of the launcher launches {name} for one part of its tensors after the "
                f"other: one launch fills the GPU better, and costs the host as much as one of "
                f"them{why}.",
            )


def _join_first(text: KernelText) -> Step | None:
    """Return the file with the first launches that can be joined as one, and their function."""
    for group in _groups(text):
        for size in range(len(group), 1, -1):
            if source := _Join(text, group[:size]).source():
                return source, (group[0].function.name,)
    return None


def _groups(text: KernelText) -> Iterator[list[Launch]]:
    """Yield launches that follow one another in ``kernel`` and whose functions do the same."""
    top = {id(statement) for statement in statements_of(text.launcher)}
    group: list[Launch] = []
    for launch in text.launches:
        is_plain = id(launch.statement) in top and launch in text.single
        if group and (not is_plain or not _is_alike(group[0], launch)):
            yield group
            group = []
        if is_plain and len(group) < _MOST_LAUNCHES:
            group.append(launch)
    yield group


def _is_alike(one: Launch, two: Launch) -> bool:
    bodies = [
        render_code(launch.function.node.with_changes(name=cst.Name("f"), leading_lines=[]))
        for launch in (one, two)
    ]
    return bodies[0] == bodies[1]


@dataclass(frozen=True)
class _Join:
    """Writes launches as one.

    Attributes:
        text: the file.
        launches: of it, of functions that do the same, in their order.
    """

    text: KernelText
    launches: Sequence[Launch]

    def source(self) -> str:
        """Return the file with one launch; empty if they may differ or depend on each other."""
        is_plain = self._has_plain_function() and self._agree()
        sizes = self._differing_sizes() if is_plain else None
        if sizes is None or not self._are_independent():
            return ""
        return self._written(sizes)

    # ------------------------------------------------------------------------- what agrees

    @cached_property
    def _body(self) -> list[cst.BaseStatement]:
        return statements_of(self.launches[0].launcher)

    def _has_plain_function(self) -> bool:
        """Tell whether a function takes all of its parameters, and reads no index of a new axis."""
        function, axes = self.launches[0].function, self.launches[0].axes
        calls = calls_within(function.node)
        indices = [c for c in calls if called_name(c) in ("tl.program_id", "tl.num_programs")]
        marks = [decorator.decorator for decorator in function.node.decorators]
        return (
            axes is not None
            and len(axes) < _MOST_AXES
            and all((axis := grid_axis(c)) is not None and axis < len(axes) for c in indices)
            and all(set(launch.arguments) == set(function.params) for launch in self.launches)
            and not any(isinstance(mark, cst.Call) for mark in marks)
            and not any("None" in map(render_code, e.arguments.values()) for e in self.launches)
            and not any(hides_access(c) or called_name(c) in self.text.functions for c in calls)
        )

    def _agree(self) -> bool:
        """Tell whether launches have the same constants and options, and numbers of one kind."""
        first, *others = self.launches
        constants = first.function.constants
        values = [[e.arguments[p] for e in self.launches] for p in first.function.params]
        if any({cst.Integer, cst.Float} <= set(map(type, own)) for own in values):
            return False  # chosen at run time, both would be floats
        return all(
            options_of(other) == options_of(first)
            and all(self._is_same(c, first, other) for c in constants)
            for other in others
        )

    def _is_same(self, param: str, one: Launch, two: Launch) -> bool:
        spelled = [spelled_size(e.arguments[param], e.launcher) for e in (one, two)]
        return spelled[0] == spelled[1]

    def _differing_sizes(self) -> dict[str, list[str]] | None:
        """Return sizes in the first grid, each with those of other grids that may differ from it.

        ``None`` if grids are other expressions.
        """
        first, *others = self.launches
        differing: dict[str, list[str]] = {}
        for other in others:
            if len(other.axes or ()) != len(first.axes or ()):
                return None
            for one, two in zip(first.axes or (), other.axes or (), strict=True):
                pairs = size_differences(one, two, first.launcher)
                if not all(is_variable_size(part) for pair in pairs for part in pair):
                    return None
                for a, b in pairs:
                    alike = differing.setdefault(render_code(a), [])
                    alike += [render_code(b)] if render_code(b) not in alike else []
        return differing

    # ------------------------------------------------------------------------- what depends

    def _are_independent(self) -> bool:
        """Tell whether nothing up to the last launch touches what one of them writes."""
        body, last = self._body, self.launches[-1].statement
        own, end = {id(launch.statement) for launch in self.launches}, body.index(last)
        for launch in self.launches:
            begin = body.index(launch.statement)
            between = [statement for statement in body[begin:end] if id(statement) not in own]
            moves = not is_changed_between(between, launch)
            if not moves or not all(_only_assigns(statement) for statement in between):
                return False
        return all(self._is_private(launch, body[: end + 1]) for launch in self.launches)

    def _is_private(self, launch: Launch, body: Body) -> bool:
        """Tell whether what a launch writes is the launcher's, and only this launch's so far."""
        written = _writtenlauncher_params(launch)
        if written is None:
            return False
        for value in (launch.arguments[param] for param in written):
            allocation = _allocation(value, launch)
            rest = [s for s in body if s is not allocation and s is not launch.statement]
            if allocation is None or _is_read(render_code(value), rest):
                return False
        return True

    # ------------------------------------------------------------------------- what is written

    def _written(self, sizes: Mapping[str, Sequence[str]]) -> str:
        first, last = self.launches[0], self.launches[-1]
        function, axes = first.function, [render_code(axis) for axis in first.axes or ()]
        taken = self.text.names | function.names
        arguments, selected = self._joined_arguments(sizes, taken)
        which = free_name("which", taken)
        head = [parse_statement(f"{which} = tl.program_id({len(axes)})")]
        head += [
            parse_statement(f"{param} = {_selection(names, which)}")
            for param, names in selected.items()
        ]
        name, body = free_name(f"{function.name}_joined", taken), [*head, *function.body]
        node = with_arguments(function, name, body, arguments, set(function.constants))
        grid = grid_of([*axes, str(len(self.launches))])
        line = NewLaunch(first, node, grid=grid, arguments=arguments).statement
        gone = {launch.function.name: None for launch in self.launches}
        if sizes:
            gone.pop(function.name)
        return changed_text(
            self.text,
            functions=gone if sizes else {**gone, last.function.name: node},
            added={function.name: [node]} if sizes else {},
            launches=[
                *((launch.statement, []) for launch in self.launches[:-1]),
                (last.statement, self._guarded(line, sizes) if sizes else [line]),
            ],
        )

    def _joined_arguments(
        self, sizes: Mapping[str, Sequence[str]], taken: set[str]
    ) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return the one launch's arguments, and parameters that are one of several of these."""
        first, *others = self.launches
        constants = first.function.constants
        arguments: dict[str, str] = {}
        selected: dict[str, list[str]] = {}
        for param in (p for p in first.function.params if p not in constants):
            value = first.arguments[param]
            pairs = [
                p
                for e in others
                for p in size_differences(value, e.arguments[param], first.launcher)
            ]
            if all(render_code(b) in sizes.get(render_code(a), ()) for a, b in pairs):
                arguments[param] = render_code(value)
                continue
            numbers = range(1, len(self.launches) + 1)
            selected[param] = [free_name(f"{param}_{number}", taken) for number in numbers]
            values = (render_code(launch.arguments[param]) for launch in self.launches)
            arguments |= dict(zip(selected[param], values, strict=True))
        arguments |= {
            c: render_code(first.arguments[c]) for c in first.function.params if c in constants
        }
        return arguments, selected

    def _guarded(
        self, line: cst.BaseStatement, sizes: Mapping[str, Sequence[str]]
    ) -> list[cst.BaseStatement]:
        """Return the one launch for equal sizes, and otherwise all, which share a function."""
        condition = " and ".join(" == ".join([name, *same]) for name, same in sizes.items())
        single = [_launch_of(launch, self.launches[0].function.name) for launch in self.launches]
        return guarded_launch(condition, line, single[-1], ahead=single[:-1])


def _selection(names: Sequence[str], which: str) -> str:
    code = names[-1]
    for index in reversed(range(len(names) - 1)):
        code = f"tl.where({which} == {index}, {names[index]}, {code})"
    return code


def _launch_of(launch: Launch, name: str) -> cst.BaseStatement:
    subscript = cst.ensure_type(launch.call.func, cst.Subscript)
    plain = launch.statement.with_changes(leading_lines=[])
    return replace_each(plain, [(subscript.value, cst.Name(name))])


# ------------------------------------------------------------------------------- what is written


def _only_assigns(statement: cst.BaseStatement) -> bool:
    """Tell whether a launcher's statement only gives values to names, and changes no tensor."""
    calls = [call for call in calls_within(statement) if not is_harmless(call)]
    plain = all(isinstance(c.func, cst.Attribute) and c.func.attr.value in _VIEWS for c in calls)
    if not isinstance(statement, cst.SimpleStatementLine) or not plain:
        return False
    targets: list[cst.CSTNode] = []
    for small in statement.body:
        if not isinstance(small, cst.Assign):
            return False
        targets += [target.target for target in small.targets]
    parts = [node for target in targets for node in nodes_within(target)]
    named = any(isinstance(node, cst.NamedExpr) for node in nodes_within(statement))
    return not named and all(isinstance(p, (cst.Name, cst.Tuple, cst.Element)) for p in parts)


def _is_read(name: str, body: Body) -> bool:
    """Tell whether statements use a tensor, under its name or that of a view of it."""
    names = {name}
    for statement in body:
        binding = single_assignment(statement)
        if binding is not None and _viewed(binding.value, names) in names:
            names.add(binding.target)
        elif values_read(statement) & names:
            return True
    return False


def _viewed(value: cst.BaseExpression, names: set[str]) -> str:
    """Return the name of which an expression is only a view; empty if it is or reads more."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if value.func.attr.value not in _VIEWS or values_read(*value.args) & names:
            return ""
        value = value.func.value
    return value.value if isinstance(value, cst.Name) else ""


def _allocation(value: cst.BaseExpression, launch: Launch) -> cst.BaseStatement | None:
    """Return the statement that allocates an argument under its only name."""
    if not isinstance(value, cst.Name) or value.value in launcher_params(launch.launcher):
        return None
    statement = allocation_of(value.value, launch.launcher)
    if statement is None or not is_assigned_once(value.value, launch.launcher):
        return None
    words = [arg.keyword for call in calls_within(statement) for arg in call.args]
    return None if any(word is not None and word.value == "out" for word in words) else statement


def _writtenlauncher_params(launch: Launch) -> set[str] | None:
    """Return the parameters through which a function writes; ``None`` if that is not clear."""
    pointers = pointers_of(launch.function)
    written = set[str]()
    for call in filter(is_write, calls_within(launch.function.node)):
        bases = pointers.bases(argument_of(call, 0, "pointer"))
        if len(bases) != 1 or not bases <= set(launch.arguments):
            return None
        written |= bases
    return written
