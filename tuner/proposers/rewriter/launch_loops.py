"""A launcher's loop whose trips launch the same for parts of tensors becomes one launch.

A launch a matrix of a batch costs the host as much time as a large one, and fills a small part of a
GPU. Along a new axis of the grid, each program moves its pointers by what a trip moves them.

::

    for b in range(B):               if C * T <= y.stride(0) and B <= 65535:
        f[(C,)](x[b], y[b], T)   →       f_joined[(C, B)](x[0], x.stride(0), y[0], y.stride(0), T)
                                     else: ...

Requirements
    A trip only launches, and arguments are parts of tensors by the loop's variable, or numbers that
    grow by the same. What is written was allocated by the launcher, and nothing else of a launch is
    a part of that tensor. No program writes beyond its trip's part: the largest offset of each
    store, by its mask and by the sizes of the grid, is less than the distance of parts. The
    launcher compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    MOST_OF_AXIS,
    changed_text,
    grid_axis,
    grid_of,
    guarded_launch,
)
from solkit.tuner.proposers.rewriter._launch_order import allocation_of
from solkit.tuner.proposers.rewriter._memory import hides_access, is_write, pointers_of
from solkit.tuner.proposers.rewriter._nodes import (
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    expression_statement,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    single_assignment,
    statements_of,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._offset_bounds import OffsetBound, OffsetError
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, with_arguments
from solkit.tuner.proposers.rewriter._roots import (
    TENSOR_QUERIES,
    element_uses,
    tensor_roots,
)

_MOST_AXES = 3  # of a grid
_LINEAR = (cst.Name, cst.Integer, cst.BinaryOperation, cst.Add, cst.Subtract, cst.Multiply)


def joined_loop(text: KernelText) -> tuple[str, str] | None:
    """Return the file with one launch for the first loop that can be, and the function's name."""
    for statement in statements_of(text.launcher):
        loop = range_loop(statement)
        inner = [e for e in text.single if loop is not None and e.statement in loop.body]
        if loop is None or len(inner) != 1:
            continue
        try:
            return _JoinedLoop(text, loop, inner[0]).source(), inner[0].function.name
        except OffsetError:
            continue
    return None


@dataclass(frozen=True)
class _Moved:
    """An argument that each trip moves.

    Attributes:
        first: of the first trip, as code.
        step: from trip to trip, as code.
        tensor: of which it is a part; ``None`` for a number.
    """

    first: str
    step: str
    tensor: cst.BaseExpression | None


@dataclass(frozen=True)
class _JoinedLoop:
    """Writes a loop as one launch.

    Attributes:
        text: the file.
        loop: of the launcher.
        launch: the only one in it.
    """

    text: KernelText
    loop: Loop
    launch: Launch

    def source(self) -> str:
        """Return the file with one launch, where that is the same.

        Raises:
            OffsetError: it may not be.
        """
        launch, function = self.launch, self.launch.function
        calls = calls_within(function.node)
        plain = set(launch.arguments) == set(function.params) and not any(map(hides_access, calls))
        indices = [c for c in calls if called_name(c) in ("tl.program_id", "tl.num_programs")]
        axes = launch.axes or ()
        places = [grid_axis(call) for call in indices]
        plain &= all(place is not None and place < len(axes) for place in places)
        plain &= not any(called_name(call) in self.text.functions for call in calls)
        options = [*launch.options.values(), *axes, self.loop.start, self.loop.stop, self.loop.step]
        varying = {self.loop.name, *assigned_names(*self.loop.body)}
        is_fixed = not names_within(*options) & varying and launch.axes is not None
        behind = statements_of(self.text.launcher)
        behind = behind[behind.index(self.loop.node) + 1 :]
        if not plain or not is_fixed or len(axes) >= _MOST_AXES or varying & names_within(*behind):
            raise OffsetError
        if (integer_literal(self.loop.step) or 0) < 1:
            raise OffsetError
        return self._written(self._conditions())

    @cached_property
    def _arguments(self) -> dict[str, cst.BaseExpression]:
        """Arguments over names from outside the loop and its variable."""
        values: dict[str, cst.BaseExpression] = {}
        for statement in self.loop.body:
            if statement is self.launch.statement:
                continue
            binding = single_assignment(statement)
            if binding is None or binding.operator or calls_within(binding.value):
                raise OffsetError
            values[binding.target] = substitute_names(binding.value, values)
        if len(values) != len(self.loop.body) - 1:
            raise OffsetError
        own = self.launch.arguments.items()
        arguments = {name: substitute_names(value, values) for name, value in own}
        calls = [call for value in arguments.values() for call in calls_within(value)]
        if any(called_name(call).split(".")[-1] not in _QUERIES for call in calls):
            raise OffsetError  # a call a trip may be another each time
        return arguments

    @cached_property
    def _moved(self) -> dict[str, _Moved]:
        """Arguments that differ from trip to trip, by parameter."""
        name, constants = self.loop.name, self.launch.function.constants
        moved = {n: v for n, v in self._arguments.items() if name in names_within(v)}
        if set(moved) & constants:
            raise OffsetError
        return {n: self._part(v) or self._number(v) for n, v in moved.items()}

    def _part(self, value: cst.BaseExpression) -> _Moved | None:
        """Return a part of a tensor by the loop's variable; ``None`` for a number."""
        if not isinstance(value, cst.Subscript):
            return None
        entries = [element.slice for element in value.slice]
        indices = [e.value if isinstance(e, cst.Index) else None for e in entries]
        own = [i for i, e in enumerate(entries) if self.loop.name in names_within(e)]
        single = [isinstance(i, (cst.Name, cst.Integer)) for i in indices]
        if not isinstance(value.value, cst.Name) or len(own) != 1 or not all(single):
            raise OffsetError
        if render_code(entries[own[0]]) != self.loop.name:
            raise OffsetError
        first = substitute_names(value, {self.loop.name: self.loop.start})
        step = f"{value.value.value}.stride({own[0]})"
        factor = render_code(self.loop.step)
        step = step if factor == "1" else f"{factor} * {step}"
        return _Moved(render_code(first), step, value.value)

    def _number(self, value: cst.BaseExpression) -> _Moved:
        """Return a number that grows by the same each trip."""
        name, nodes = self.loop.name, list(nodes_within(value))
        if not all(isinstance(node, _LINEAR) for node in nodes) or count_uses(value, name) != 1:
            raise OffsetError
        first, second = (
            render_code(substitute_names(value, {name: parse_expression(code)}))
            for code in (
                render_code(parenthesized(self.loop.start)),
                f"({render_code(self.loop.start)} + {render_code(self.loop.step)})",
            )
        )
        return _Moved(first, f"{second} - ({first})", None)

    # ------------------------------------------------------------------------- what is written to

    def _conditions(self) -> list[str]:
        """Return the conditions under which trips write apart from each other."""
        launch = self.launch
        pointers, launcher = pointers_of(launch.function), launch.launcher
        stores = list(filter(is_write, calls_within(launch.function.node)))
        written: dict[str, str] = {}
        conditions: list[str] = []
        for call in stores:
            bases = pointers.bases(argument_of(call, 0, "pointer"))
            param = next(iter(bases), "")
            moved = self._moved.get(param)
            if called_name(call) != "tl.store" or len(bases) != 1 or moved is None:
                raise OffsetError
            if moved.tensor is None or not self._is_allocated(moved.tensor):
                raise OffsetError
            root = render_code(moved.tensor)
            if self._has_hidden_names(root):
                raise OffsetError
            written[root] = moved.first
            bound = OffsetBound(launch, self._arguments, self.loop.name)
            end = bound.of_store(call, param)
            stride = moved.step.rsplit(" * ", maxsplit=1)[-1]
            conditions += [f"{end} < {stride}", *(f"{code} >= 0" for code in bound.sizes)]
        for name, value in self._arguments.items():
            roots = tensor_roots(value, launcher)
            first = self._moved.get(name, _NONE).first
            if any(first != written[root] for root in roots & written.keys()):
                raise OffsetError
            if any(element_uses(value, other) for other in written.keys() - roots):
                raise OffsetError
        if not written:
            raise OffsetError
        tensors = [moved.tensor for moved in self._moved.values() if moved.tensor is not None]
        type_tests = [
            f"isinstance({render_code(tensor)}, torch.Tensor)"
            for tensor in tensors
            if render_code(tensor) not in written
        ]
        return list(dict.fromkeys([*type_tests, *conditions]))

    def _has_hidden_names(self, root: str) -> bool:
        """Tell whether the launcher may have put a tensor where its text does not follow it.

        So does a list, or a function that returns what it gets. A name for a view is followed, and
        a launch, or a method that works in place, keeps no tensor.
        """
        launcher = self.launch.launcher
        body = statements_of(launcher)
        own = {n for n in assigned_names(launcher) if root in tensor_roots(cst.Name(n), launcher)}
        launching = [launch.statement for launch in self.text.launches]
        for statement in body[: body.index(self.loop.node)]:
            uses = [use for name in own for use in element_uses(statement, name)]
            binding, call = single_assignment(statement), expression_statement(statement)
            is_name = binding is not None and binding.target in own
            func = call.func if isinstance(call, cst.Call) else None
            in_place = isinstance(func, cst.Attribute) and func.attr.value.endswith("_")
            is_own = isinstance(func, cst.Attribute) and uses == [func.value]
            if uses and not (is_name or statement in launching or (in_place and is_own)):
                return True
        return False

    def _is_allocated(self, tensor: cst.BaseExpression) -> bool:
        """Tell whether a tensor is the launcher's own: PyTorch allocates no elements that meet."""
        launcher, name = self.launch.launcher, render_code(tensor)
        body, allocation = statements_of(launcher), allocation_of(name, launcher)
        is_ahead = allocation in body[: body.index(self.loop.node)]
        return is_ahead and assigned_names(launcher).count(name) == 1

    # ------------------------------------------------------------------------- what is written

    def _written(self, conditions: Sequence[str]) -> str:
        launch, function = self.launch, self.launch.function
        taken = self.text.names | function.names
        axes = [render_code(axis) for axis in launch.axes or ()]
        which, head, arguments = free_name("trip", taken), list[str](), dict[str, str]()
        for param in function.params:
            if param not in self._moved:
                arguments[param] = render_code(self._arguments[param])
                continue
            moved = self._moved[param]
            first, step = (free_name(f"{param}_{word}", taken) for word in ("first", "step"))
            arguments |= {first: moved.first, step: moved.step}
            head.append(f"{param} = {first} + {which} * {step}")
        head.insert(0, f"{which} = tl.program_id({len(axes)}).to(tl.int64)")
        name = free_name(f"{function.name}_joined", taken)
        body = [*map(parse_statement, head), *function.body]
        node = with_arguments(function, name, body, arguments, set(function.constants))
        start, stop, step = (
            render_code(parenthesized(n)) for n in (self.loop.start, self.loop.stop, self.loop.step)
        )
        length = stop if start == "0" else f"{stop} - {start}"
        count = length if step == "1" else f"triton.cdiv({length}, {step})"
        line = NewLaunch(launch, node, grid=grid_of([*axes, count]), arguments=arguments).statement
        guard = " and ".join([f"0 < {count} <= {MOST_OF_AXIS}", *conditions])
        return changed_text(
            self.text,
            added={function.name: [node]},
            launches=[(self.loop.node, guarded_launch(guard, line, self.loop.node))],
        )


_NONE = _Moved("", "", None)
_QUERIES = {*TENSOR_QUERIES, "cdiv", "next_power_of_2", "min", "max", "int"}
