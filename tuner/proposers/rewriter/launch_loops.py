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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._edit import (
    changed_text,
    grid_axis,
    guarded_launch,
    launch_line,
    options_of,
    program_axis,
)
from solkit.tuner.proposers.rewriter._memory import hides_access, is_write, pointers_of
from solkit.tuner.proposers.rewriter._parse import (
    HINTS,
    KernelText,
    Launch,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    in_launcher,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    range_loop,
    render_code,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS, TENSOR_QUERIES, root_name
from solkit.tuner.proposers.rewriter.fusion import with_signature

__all__ = ["joined_loop"]

_MOST_AXES = 3  # of a grid
_MOST_PROGRAMS = 65535
"""Programs along the second and the third axis of a grid."""
_LINEAR = (cst.Name, cst.Integer, cst.BinaryOperation, cst.Add, cst.Subtract, cst.Multiply)


class _OtherFormError(Exception):
    """A loop, an argument or an offset is of another form."""


def joined_loop(text: KernelText) -> tuple[str, str] | None:
    """Return the file with one launch for the first loop that can be, and the function's name."""
    for statement in statements_of(text.launcher):
        loop = range_loop(statement)
        inner = [e for e in text.single if loop is not None and e.statement in loop.body]
        if loop is None or len(inner) != 1:
            continue
        try:
            return _JoinedLoop(text, loop, inner[0]).source(), inner[0].function.name
        except _OtherFormError:
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
            _OtherFormError: it may not be.
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
            raise _OtherFormError
        if (integer_literal(self.loop.step) or 0) < 1:
            raise _OtherFormError
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
                raise _OtherFormError
            values[binding.target] = substitute_names(binding.value, values)
        if len(values) != len(self.loop.body) - 1:
            raise _OtherFormError
        own = self.launch.arguments.items()
        arguments = {name: substitute_names(value, values) for name, value in own}
        calls = [call for value in arguments.values() for call in calls_within(value)]
        if any(called_name(call).split(".")[-1] not in _QUERIES for call in calls):
            raise _OtherFormError  # a call a trip may be another each time
        return arguments

    @cached_property
    def _moved(self) -> dict[str, _Moved]:
        """Arguments that differ from trip to trip, by parameter."""
        name, constants = self.loop.name, self.launch.function.constants
        moved = {n: v for n, v in self._arguments.items() if name in names_within(v)}
        if set(moved) & constants:
            raise _OtherFormError
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
            raise _OtherFormError
        if render_code(entries[own[0]]) != self.loop.name:
            raise _OtherFormError
        first = substitute_names(value, {self.loop.name: self.loop.start})
        step = f"{value.value.value}.stride({own[0]})"
        factor = render_code(self.loop.step)
        step = step if factor == "1" else f"{factor} * {step}"
        return _Moved(render_code(first), step, value.value)

    def _number(self, value: cst.BaseExpression) -> _Moved:
        """Return a number that grows by the same each trip."""
        name, nodes = self.loop.name, list(nodes_within(value))
        if not all(isinstance(node, _LINEAR) for node in nodes) or count_uses(value, name) != 1:
            raise _OtherFormError
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
                raise _OtherFormError
            if moved.tensor is None or not self._is_allocated(moved.tensor):
                raise _OtherFormError
            written[root_name(moved.tensor, launcher)] = moved.first
            bound = _Bound(launch, self._arguments, self.loop.name)
            end = bound.of_store(call, param)
            stride = moved.step.rsplit(" * ", maxsplit=1)[-1]
            conditions += [f"{end} < {stride}", *(f"{code} >= 0" for code in bound.sizes)]
        for name, value in self._arguments.items():
            root = root_name(value, launcher)
            if root in written and self._moved.get(name, _NONE).first != written[root]:
                raise _OtherFormError
        if not written:
            raise _OtherFormError
        return list(dict.fromkeys(conditions))

    def _is_allocated(self, tensor: cst.BaseExpression) -> bool:
        """Tell whether a tensor is the launcher's own: PyTorch allocates no elements that meet."""
        body = statements_of(self.launch.launcher)
        name = render_code(tensor)
        allocations = [
            binding.value
            for statement in body[: body.index(self.loop.node)]
            if (binding := single_assignment(statement)) and binding.target == name
        ]
        is_only = assigned_names(self.launch.launcher).count(name) == 1
        return is_only and bool(allocations) and called_name(allocations[0]) in ALLOCATORS

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
        if any(moved.tensor is not None for moved in self._moved.values()):
            head.insert(0, f"{which} = tl.program_id({len(axes)}).to(tl.int64)")
        else:
            head.insert(0, f"{which} = tl.program_id({len(axes)})")
        name, constants = free_name(f"{function.name}_joined", taken), set(function.constants)
        body = [*map(parse_statement, head), *function.body]
        node = with_signature(function, name, body, arguments, constants)
        start, stop, step = (
            render_code(parenthesized(n)) for n in (self.loop.start, self.loop.stop, self.loop.step)
        )
        length = stop if start == "0" else f"{stop} - {start}"
        count = length if step == "1" else f"triton.cdiv({length}, {step})"
        grid = f"({', '.join([*axes, count])})"
        line = launch_line(name, grid, arguments, options_of(launch), constants)
        guard = " and ".join([f"0 < {count} <= {_MOST_PROGRAMS}", *conditions])
        return changed_text(
            self.text,
            added={function.name: [node]},
            launches=[(self.loop.node, guarded_launch(guard, line, self.loop.node))],
        )


_NONE = _Moved("", "", None)
_QUERIES = {*TENSOR_QUERIES, "cdiv", "next_power_of_2", "min", "max", "int"}


# ------------------------------------------------------------------------------- bounds


class _Bound:
    """Largest offsets of a launch's stores, as code of its launcher.

    Args:
        launch: in whose function the stores are.
        arguments: of the launch, without names of its loop.
        varying: the loop's variable.

    Attributes:
        sizes: numbers of which the bound holds only if they are not negative.
    """

    def __init__(
        self, launch: Launch, arguments: Mapping[str, cst.BaseExpression], varying: str
    ) -> None:
        self._launch, self._arguments, self._varying = launch, arguments, varying
        self._values = single_values(launch.function.body, launch.function.params)
        self._loops = {
            loop.name: loop
            for statement in walk_statements(launch.function.body)
            if (loop := range_loop(statement)) is not None
        }
        self._limits: dict[str, cst.BaseExpression] = {}
        self.sizes: list[str] = []

    def of_store(self, call: cst.Call, param: str) -> str:
        """Return the largest offset of a store from a pointer.

        Raises:
            _OtherFormError: it is of another form.
        """
        mask = argument_of(call, 2, "mask")
        self._limits = {} if mask is None else dict(self._limits_of(mask))
        terms = self._terms(call.args[0].value)
        offsets = [term for term in terms if render_code(term) != param]
        if len(offsets) != len(terms) - 1:
            raise _OtherFormError
        return " + ".join(map(self._largest, offsets)) or "0"

    def _terms(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the terms of a sum, and of names of sums."""
        if plain_code(node) in self._limits:
            return [node]
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return [*self._terms(node.left), *self._terms(node.right)]
        if isinstance(node, cst.Subscript):
            return self._terms(node.value)
        value = self._values.get(node.value) if isinstance(node, cst.Name) else None
        return [node] if value is None else self._terms(value)

    def _limits_of(self, mask: cst.BaseExpression) -> Sequence[tuple[str, cst.BaseExpression]]:
        """Return what a mask says to be less than something else."""
        if isinstance(mask, cst.Name) and mask.value in self._values:
            return self._limits_of(self._values[mask.value])
        if isinstance(mask, cst.Subscript):
            return self._limits_of(mask.value)
        if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
            return [*self._limits_of(mask.left), *self._limits_of(mask.right)]
        if isinstance(mask, cst.Comparison) and len(mask.comparisons) == 1:
            target = mask.comparisons[0]
            if isinstance(target.operator, cst.LessThan):
                node = mask.left.value if isinstance(mask.left, cst.Subscript) else mask.left
                return [(plain_code(node), target.comparator)]
        return []

    def _largest(self, node: cst.BaseExpression) -> str:
        """Return the largest value of an expression of numbers that are not negative."""
        limit = self._limits.get(plain_code(node))
        if limit is not None:
            return f"({self._size(limit)} - 1)"
        if isinstance(node, cst.Integer):
            return render_code(node)
        if isinstance(node, cst.Subscript):
            return self._largest(node.value)
        if isinstance(node, cst.BinaryOperation):
            return self._largest_of_operation(node)
        if isinstance(node, cst.Name):
            return self._largest_of_name(node.value)
        name = called_name(node)
        call = cst.ensure_type(node, cst.Call) if isinstance(node, cst.Call) else None
        if call is None:
            raise _OtherFormError
        if name == "tl.program_id" and (axis := program_axis(call)) is not None:
            return f"({render_code(parenthesized((self._launch.axes or ())[axis]))} - 1)"
        if name == "tl.arange" and (end := argument_of(call, 1, "end")) is not None:
            return f"({self._size(end)} - 1)"
        if name in HINTS:
            return self._largest(call.args[0].value)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
            return self._largest(call.func.value)
        raise _OtherFormError

    def _largest_of_name(self, name: str) -> str:
        if name in self._loops:
            return f"({self._size(self._loops[name].stop)} - 1)"
        if name in self._values:
            return self._largest(self._values[name])
        return self._size(cst.Name(name))

    def _largest_of_operation(self, node: cst.BinaryOperation) -> str:
        if isinstance(node.operator, (cst.Add, cst.Multiply)):
            sign = "+" if isinstance(node.operator, cst.Add) else "*"
            return f"({self._largest(node.left)} {sign} {self._largest(node.right)})"
        if isinstance(node.operator, cst.FloorDivide):
            return f"({self._largest(node.left)} // {self._size(node.right)})"
        if isinstance(node.operator, cst.Modulo):
            return f"({self._size(node.right)} - 1)"
        raise _OtherFormError

    def _size(self, node: cst.BaseExpression) -> str:
        """Return a number of parameters and constants, as the launcher has it."""
        if isinstance(node, cst.Name) and node.value in self._values:
            return self._size(self._values[node.value])
        if names_within(node) & set(assigned_names(self._launch.function.node)):
            raise _OtherFormError
        whole = in_launcher(node, self._launch)
        own = {n: v for n, v in self._arguments.items() if n in names_within(node)}
        if whole is None or self._varying in names_within(*own.values()):
            raise _OtherFormError
        code = render_code(parenthesized(substitute_names(node, own)))
        if integer_literal(node) is None and code not in self.sizes:
            self.sizes.append(code)
        return code
