"""Interpretation of a Triton kernel's text for one block: what it loads, stores, multiplies.

The function's syntax tree is followed once for all candidates, without Triton: numbers are arrays
of (candidates,), tensors are known by their sizes and by how far apart their elements' indices lie.
A block stands for all: its place in the grid is the middle one, and so is a loop's counter. What
depends on data is NaN.

Arguments that are sizes are known by their names: ``K`` is the problem's size ``K``.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solkit.core.parsing import syntax_tree

__all__ = [
    "COMPARED",
    "FAR",
    "UNKNOWN",
    "Array",
    "Block",
    "Call",
    "Code",
    "Event",
    "Number",
    "Value",
    "all_are_scalars",
    "any_is_text",
    "apply_comparison",
    "apply_operator",
    "broadcast_sizes",
    "constant_value",
    "contiguous_elements",
    "interpret_block",
    "is_text",
    "neighbour_steps",
    "transpose_value",
    "truth_of_condition",
    "width_after_cast",
]

Array = NDArray[Any]
Number = Any
"""A float, or an array of (candidates,)."""
FAR = 1024.0
"""Stands for a distance between elements that is not known: far."""
_RARE = 8.0
_NUMERIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_BITS: dict[type, Callable[[Any, Any], Any]] = {
    ast.LShift: lambda a, b: a * np.power(2.0, b),
    ast.RShift: lambda a, b: np.floor(a / np.power(2.0, b)),
    ast.BitAnd: lambda a, b: np.where((a != 0) & (b != 0), 1.0, 0.0),
    ast.BitOr: lambda a, b: np.where((a != 0) | (b != 0), 1.0, 0.0),
    ast.BitXor: lambda a, b: np.full(np.broadcast(a, b).shape, np.nan),
}
COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Value:
    """Knowledge of a value.

    Attributes:
        number: of a scalar; NaN if unknown.
        sizes: of a tensor by dimension; empty for a scalar.
        steps: how far apart neighbours in a dimension are, as indices; NaN if data decide.
        width: bytes of an element, or of what a pointer points to.
        points: whether it holds pointers.
        loaded: whether it is from memory, unchanged but for its type.
        items: of a tuple.
    """

    number: Number = np.nan
    sizes: tuple[Number, ...] = ()
    steps: tuple[Number, ...] = ()
    width: Number = 4.0
    points: bool = False
    loaded: bool = False
    items: tuple[Value, ...] | None = None

    @property
    def elements(self) -> Number:
        """Number of elements that a block holds."""
        return functools.reduce(operator.mul, self.sizes, 1.0)


UNKNOWN = Value()
"""Nothing is known."""


def constant_value(value: object) -> Value:
    """Return what is known of a constant."""
    if isinstance(value, (bool, int, float)):
        return Value(float(value))
    return Value(value if isinstance(value, str) else np.nan)


def is_text(number: Number) -> bool:
    """Tell whether a number is a word, of any candidate."""
    return isinstance(number, str) or (
        isinstance(number, np.ndarray) and number.dtype.kind in "OUS"
    )


def any_is_text(values: Sequence[Value]) -> bool:
    """Tell whether any is a word."""
    return any(is_text(value.number) for value in values)


def all_are_scalars(values: Sequence[Value]) -> bool:
    """Tell whether none is a tensor."""
    return all(not value.sizes for value in values)


def apply_operator(op: ast.operator, lhs: Number, rhs: Number) -> Number:
    """Apply an arithmetic operator to two numbers; NaN if nobody knows."""
    if is_text(lhs) or is_text(rhs):
        return np.nan
    compute = _NUMERIC.get(type(op)) or _BITS.get(type(op))
    if compute is None:
        return np.nan
    result = compute(np.asarray(lhs, float), np.asarray(rhs, float))
    return float(result) if np.ndim(result) == 0 else result


def apply_comparison(compare: Callable[[Any, Any], Any], lhs: Number, rhs: Number) -> Number:
    """Return 1 where a comparison holds, 0 where it does not; NaN if nobody knows."""
    if is_text(lhs) != is_text(rhs):
        return np.nan
    if is_text(lhs):
        return compare(np.asarray(lhs, object), np.asarray(rhs, object)).astype(float)
    lhs, rhs = np.asarray(lhs, float), np.asarray(rhs, float)
    result = np.where(np.isnan(lhs) | np.isnan(rhs), np.nan, compare(lhs, rhs))
    return float(result) if np.ndim(result) == 0 else result


def truth_of_condition(number: Number) -> Any:
    """Return 1 where a condition holds, 0 where it does not; ``None`` if it is not known."""
    if is_text(number):
        return np.asarray(np.asarray(number, object) != "", float)
    flags = np.asarray(number, float)
    return None if np.any(np.isnan(flags)) else (flags != 0).astype(float)


def broadcast_sizes(lhs: Value, rhs: Value) -> Value:
    """Return a tensor of the sizes that two have together; nothing is known of its elements."""
    rank = max(len(lhs.sizes), len(rhs.sizes))
    one, other = ((1.0,) * (rank - len(value.sizes)) + value.sizes for value in (lhs, rhs))
    sizes = tuple(np.fmax(a, b) for a, b in zip(one, other, strict=True))
    width = np.maximum(lhs.width if lhs.sizes else 0.0, rhs.width if rhs.sizes else 0.0)
    return Value(sizes=sizes, steps=(np.nan,) * rank, width=width)


def neighbour_steps(op: ast.operator, lhs: Value, rhs: Value, rank: int) -> tuple[Number, ...]:
    """Return how far apart neighbours of a result are in each of `rank` dimensions."""
    one, other = ((0.0,) * (rank - len(v.steps)) + v.steps for v in (lhs, rhs))
    if isinstance(op, (ast.Add, ast.Sub, ast.BitOr)):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(op, ast.Mult) and not (lhs.sizes and rhs.sizes):
        tensor, scalar = (one, rhs) if lhs.sizes else (other, lhs)
        factor = np.nan if is_text(scalar.number) else scalar.number
        far = np.where(np.isnan(factor), FAR, factor)
        return tuple(step * far for step in tensor)
    if isinstance(op, ast.FloorDiv) and lhs.sizes and not rhs.sizes:
        parts = FAR if is_text(rhs.number) else np.asarray(rhs.number, float)
        rare = ~(parts < _RARE)  # neighbours mostly have the same quotient
        return tuple(np.where(rare, 0.0, step / np.where(rare, 1.0, parts)) for step in one)
    if isinstance(op, ast.Mod) and lhs.sizes:
        return one
    return (np.nan,) * rank


def contiguous_elements(pointer: Value) -> Number:
    """Return elements that lie next to each other; NaN if data decide where."""
    run: Number = 1.0
    lost: Number = False
    for size, step in zip(pointer.sizes, pointer.steps, strict=True):
        run = np.where(np.abs(step) == 1, run * size, run)
        lost = lost | np.isnan(step)
    return np.where(lost & (run == 1), np.nan, run)


def transpose_value(value: Value) -> Value:
    """Transpose a value: its dimensions in the other order."""
    return replace(value, sizes=value.sizes[::-1], steps=value.steps[::-1])


def width_after_cast(first: Value) -> Number:
    """Return float32's width, unless memory says otherwise: types have no values here."""
    return first.width if first.loaded else 4.0


_DEEPEST = 8
_MOST_STEPS = 20_000

_SLOW = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "sigmoid", "erf"),
        *("rsqrt", "sqrt", "sqrt_rn", "div_rn", "fdiv", "pow", "softmax"),
    )
)
_REDUCING = frozenset(("sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or"))
_LANES = 4.0
"""Instructions of a round of a scan or of a bitonic sort, about: a shuffle, a choice."""
_SCANNING = frozenset(("cumsum", "cumprod", "associative_scan", "sort", "histogram", "gather"))
_SHAPED = frozenset(("zeros", "full", "broadcast_to", "reshape", "view"))
_EXTREMES: dict[str, Callable[[Any, Any], Any]] = {
    "min": np.minimum,
    "minimum": np.minimum,
    "max": np.maximum,
    "maximum": np.maximum,
}


@dataclass(frozen=True)
class Event:
    """Something that a block does.

    Attributes:
        kind: ``"load"``, ``"store"``, ``"atomic"``, ``"dot"``, ``"reduce"``, ``"scan"``,
            ``"slow"`` (special functions), ``"fast"`` (other arithmetic), ``"carried"`` (tensors
            that a loop keeps from one trip to the next).
        elements: that a block handles each time; of a product its multiply-adds.
        times: how often a block does it.
        unknown: loops around it whose number of trips is unknown.
        loops: loops around it.
        width: bytes of an element.
        run: elements that lie next to each other in memory; NaN if data decide.
        staged: bytes of operands that come from memory; of products.
        sizes: of a product: rows, columns and depth.
    """

    kind: str
    elements: Number
    times: Number
    unknown: int
    loops: int
    width: Number = 4.0
    run: Number = 1.0
    staged: Number = 0.0
    sizes: tuple[Number, ...] = ()


@dataclass
class Block:
    """Work of one block.

    Attributes:
        events: in the order of the text.
        largest: elements of its largest tensor.
        trips: of its longest nest of loops, of those that are known.
        branches: conditions that are not known before it runs.
    """

    events: list[Event] = field(default_factory=list)
    largest: Number = 1.0
    trips: Number = 1.0
    branches: int = 0


@dataclass(frozen=True)
class Code:
    """Place of the code of a launch.

    Attributes:
        source: the text of the file.
        name: the function's.
    """

    source: str
    name: str


@dataclass(frozen=True)
class Call:
    """Launches of one function by all candidates.

    Attributes:
        code: the function.
        arguments: numbers and texts by name, as far as they are known.
        widths: bytes of what pointers and descriptors point to, by name.
        tiles: of descriptors, by name.
        grid: blocks in x, y and z.
    """

    code: Code
    arguments: Mapping[str, Number]
    widths: Mapping[str, Number]
    tiles: Mapping[str, tuple[Number, ...]]
    grid: Sequence[Number]

    def argument(self, name: str) -> Value:
        """Return what is known of an argument."""
        if name in self.tiles:
            steps = (*(FAR for _ in self.tiles[name][1:]), 1.0)
            return Value(sizes=self.tiles[name], steps=steps, width=self.widths[name], points=True)
        if name in self.widths:
            return Value(width=self.widths[name], points=True)
        return Value(self.arguments.get(name, np.nan))


def interpret_block(call: Call) -> Block | None:
    """Follow a function; ``None`` if its file has no such function of Triton's."""
    functions, constants = _parse_kernel_file(call.code.source)
    node = functions.get(call.code.name)
    if node is None:
        return None
    follower = _Follower(functions, constants, call.grid)
    names = [parameter.arg for parameter in (*node.args.args, *node.args.kwonlyargs)]
    with np.errstate(all="ignore"):
        follower.run(node.body, {name: call.argument(name) for name in names})
    return follower.block


@functools.lru_cache(4096)
def _parse_kernel_file(source: str) -> tuple[dict[str, ast.FunctionDef], dict[str, Value]]:
    """Return a file's functions for the GPU, and its constants."""
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return {}, {}
    functions, constants = {}, {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
                functions[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = node.value
            if isinstance(value, ast.Call) and value.args:  # tl.constexpr(1.44)
                value = value.args[0]
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                constants[target.id] = constant_value(value.value)
    return functions, constants


class _Follower:
    def __init__(
        self,
        functions: Mapping[str, ast.FunctionDef],
        constants: Mapping[str, Value],
        grid: Sequence[Number],
    ) -> None:
        self.block = Block()
        self._functions = functions
        self._constants = constants
        self._grid = grid
        self._times: Number = 1.0
        self._unknown = 0
        self._loops = 0
        self._depth = 0
        self._left = _MOST_STEPS

    # ------------------------------------------------------------------------------- statements

    def run(self, body: Sequence[ast.stmt], variables: dict[str, Value]) -> Value | None:
        """Return the returned value, if it returns in any case."""
        for node in body:
            self._left -= 1
            if self._left < 0:
                return UNKNOWN
            returned = self._run_statement(node, variables)
            if returned is not None:
                return returned
        return None

    def _run_statement(self, node: ast.stmt, variables: dict[str, Value]) -> Value | None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value, variables)
            for target in node.targets:
                self._assign_target(target, value, variables)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign_target(node.target, self.value(node.value, variables), variables)
        elif isinstance(node, ast.AugAssign):
            lhs, rhs = self.value(node.target, variables), self.value(node.value, variables)
            self._assign_target(node.target, self._apply_binary(node.op, lhs, rhs), variables)
        elif isinstance(node, ast.Expr):
            self.value(node.value, variables)
        elif isinstance(node, ast.For):
            self._run_for_loop(node, variables)
        elif isinstance(node, ast.While):
            self._repeat_body(node.body, variables, np.nan)
        elif isinstance(node, ast.If):
            return self._run_branches(node, variables)
        elif isinstance(node, ast.Return):
            return UNKNOWN if node.value is None else self.value(node.value, variables)
        return None

    def _assign_target(self, target: ast.expr, value: Value, variables: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            variables[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.items
            for place, element in enumerate(target.elts):
                has_part = parts is not None and place < len(parts)
                self._assign_target(
                    element, parts[place] if parts and has_part else value, variables
                )

    def _run_branches(self, node: ast.If, variables: dict[str, Value]) -> Value | None:
        number = self.value(node.test, variables).number
        share = truth_of_condition(number)
        if share is None:
            self.block.branches += 1
            self.run(node.body, variables)
            self.run(node.orelse, variables)
            return None
        times, returned = self._times, None
        if np.any(share > 0):
            self._times = times * share
            returned = self.run(node.body, variables)
        if np.any(share < 1):
            self._times = times * (1 - share)
            other = self.run(node.orelse, variables)
            returned = (returned if np.any(share > 0) else other) if other is not None else None
        self._times = times
        return returned

    def _run_for_loop(self, node: ast.For, variables: dict[str, Value]) -> None:
        trips: Number = np.nan
        middle: Number = np.nan
        if isinstance(node.iter, ast.Call):
            bounds = [self.value(argument, variables).number for argument in node.iter.args]
            if bounds and not any(isinstance(bound, str) for bound in bounds):
                start = bounds[0] if len(bounds) > 1 else 0.0
                stop = bounds[1] if len(bounds) > 1 else bounds[0]
                step = bounds[2] if len(bounds) > 2 else 1.0
                trips = np.maximum(np.ceil((stop - start) / step), 0.0)
                middle = start + np.floor(trips / 2) * step
        if isinstance(node.target, ast.Name):
            variables[node.target.id] = Value(middle)
        self._repeat_body(node.body, variables, trips)

    def _repeat_body(
        self, body: Sequence[ast.stmt], variables: dict[str, Value], trips: Number
    ) -> None:
        before = dict(variables)
        times, unknown = self._times, self._unknown
        guessed = bool(np.any(np.isnan(trips)))
        self._times = times * np.where(np.isnan(trips), 1.0, trips)
        self._unknown += guessed
        self._loops += 1
        self.block.trips = np.maximum(self.block.trips, self._times)
        for name in _assigned_names(body):  # a number that a loop changes is not known in it
            if name in variables and not variables[name].sizes and not variables[name].points:
                variables[name] = replace(variables[name], number=np.nan)
        self.run(body, variables)
        for name in sorted(_assigned_names(body)):
            kept = variables.get(name, UNKNOWN)
            if name in before and before[name].sizes and kept.sizes:
                self._record_event(
                    "carried", kept.elements, width=8.0 if kept.points else kept.width
                )
        self._times, self._unknown = times, unknown
        self._loops -= 1

    # ------------------------------------------------------------------------------ expressions

    def value(self, node: ast.expr, variables: dict[str, Value]) -> Value:
        self._left -= 1
        if self._left < 0:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return constant_value(node.value)
        if isinstance(node, ast.Name):
            return variables.get(node.id, self._constants.get(node.id, UNKNOWN))
        if isinstance(node, (ast.Tuple, ast.List)):
            return Value(items=tuple(self.value(element, variables) for element in node.elts))
        if isinstance(node, ast.Attribute):
            operand = self.value(node.value, variables)
            return transpose_value(operand) if node.attr == "T" and operand.sizes else UNKNOWN
        return self._evaluate_operation(node, variables)

    def _evaluate_operation(self, node: ast.expr, variables: dict[str, Value]) -> Value:
        """Return the value of a node with operands; unknown for other kinds of nodes."""
        if isinstance(node, ast.BinOp):
            lhs, rhs = self.value(node.left, variables), self.value(node.right, variables)
            return self._apply_binary(node.op, lhs, rhs)
        if isinstance(node, ast.Call):
            return self._evaluate_call(node, variables)
        if isinstance(node, ast.Compare):
            return self._evaluate_comparison(node, variables)
        if isinstance(node, ast.Subscript):
            return self._evaluate_subscript(node, variables)
        if isinstance(node, ast.UnaryOp):
            return self._evaluate_unary(node, variables)
        if isinstance(node, ast.BoolOp):
            return self._evaluate_bool_op(node, variables)
        if isinstance(node, ast.IfExp):
            return self._evaluate_conditional(node, variables)
        return UNKNOWN

    def _apply_binary(self, op: ast.operator, lhs: Value, rhs: Value) -> Value:
        if not lhs.sizes and not rhs.sizes:
            if lhs.points or rhs.points:
                return lhs if lhs.points else rhs
            return Value(apply_operator(op, lhs.number, rhs.number))
        result = broadcast_sizes(lhs, rhs)
        steps = neighbour_steps(op, lhs, rhs, len(result.sizes))
        points = lhs.points or rhs.points
        if points:
            width = lhs.width if lhs.points else rhs.width
        else:
            width = result.width
            self._record_event("fast", result.elements, width=width)
        return self._note_tensor_size(replace(result, steps=steps, width=width, points=points))

    def _evaluate_unary(self, node: ast.UnaryOp, variables: dict[str, Value]) -> Value:
        operand = self.value(node.operand, variables)
        if operand.sizes:
            return replace(operand, loaded=False)
        number = operand.number
        if isinstance(number, str) or (isinstance(number, np.ndarray) and number.dtype == object):
            return UNKNOWN
        if isinstance(node.op, ast.USub):
            return Value(-number)
        if isinstance(node.op, ast.Not):
            return Value(np.where(np.isnan(number), np.nan, number == 0))
        return UNKNOWN

    def _evaluate_comparison(self, node: ast.Compare, variables: dict[str, Value]) -> Value:
        lhs = self.value(node.left, variables)
        rights = [self.value(comparator, variables) for comparator in node.comparators]
        for rhs in rights:
            if lhs.sizes or rhs.sizes:
                return replace(broadcast_sizes(lhs, rhs), width=1.0)
        compare = COMPARED.get(type(node.ops[0]))
        if compare is None or len(rights) > 1:
            return UNKNOWN
        return Value(apply_comparison(compare, lhs.number, rights[0].number))

    def _evaluate_bool_op(self, node: ast.BoolOp, variables: dict[str, Value]) -> Value:
        shares = [truth_of_condition(self.value(value, variables).number) for value in node.values]
        if any(share is None for share in shares):
            return UNKNOWN
        fold = np.minimum if isinstance(node.op, ast.And) else np.maximum
        return Value(functools.reduce(fold, shares))

    def _evaluate_conditional(self, node: ast.IfExp, variables: dict[str, Value]) -> Value:
        share = truth_of_condition(self.value(node.test, variables).number)
        yes, no = self.value(node.body, variables), self.value(node.orelse, variables)
        if yes.sizes or no.sizes or share is None:
            return yes if yes.sizes or share is None or np.all(share > 0) else no
        if isinstance(yes.number, str) or isinstance(no.number, str):
            return yes if np.all(share > 0) else no
        return Value(np.where(share > 0, yes.number, no.number))

    def _evaluate_subscript(self, node: ast.Subscript, variables: dict[str, Value]) -> Value:
        base = self.value(node.value, variables)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base.items is not None:
            place = self.value(parts[0], variables).number
            scalar = isinstance(place, float) and place == place
            return base.items[int(place)] if scalar and abs(place) < len(base.items) else UNKNOWN
        sizes, steps = list(base.sizes), list(base.steps)
        new_sizes: list[Number] = []
        new_steps: list[Number] = []
        for part in parts:
            if isinstance(part, ast.Constant) and part.value is None:
                new_sizes.append(1.0)
                new_steps.append(0.0)
            elif sizes:
                new_sizes.append(sizes.pop(0))
                new_steps.append(steps.pop(0))
        return replace(base, sizes=(*new_sizes, *sizes), steps=(*new_steps, *steps), number=np.nan)

    # ------------------------------------------------------------------------------------ calls

    def _evaluate_call(self, node: ast.Call, variables: dict[str, Value]) -> Value:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(
            node.func, "id", ""
        )  # fmt: skip
        own: list[Value] = []
        if isinstance(node.func, ast.Attribute) and not _is_function_module(node.func.value):
            own = [self.value(node.func.value, variables)]
        arguments = own + [self.value(argument, variables) for argument in node.args]
        named = {
            keyword.arg: self.value(keyword.value, variables)
            for keyword in node.keywords
            if keyword.arg
        }
        if name in self._functions and not own and self._depth < _DEEPEST:
            return self._call_own_function(self._functions[name], arguments, named)
        return self._call_builtin(name, arguments, named)

    def _call_own_function(
        self, node: ast.FunctionDef, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        names = [parameter.arg for parameter in node.args.args]
        variables = dict.fromkeys(names, UNKNOWN)
        for name, default in zip(reversed(names), reversed(node.args.defaults)):
            variables[name] = self.value(default, {})
        variables.update(zip(names, arguments))
        variables.update(named)
        self._depth += 1
        returned = self.run(node.body, variables)
        self._depth -= 1
        return UNKNOWN if returned is None else returned

    def _call_builtin(self, name: str, arguments: list[Value], named: Mapping[str, Value]) -> Value:
        first = arguments[0] if arguments else next(iter(named.values()), UNKNOWN)
        if name == "program_id":
            axis = first.number
            return Value((self._grid[int(axis)] - 1) / 2 if isinstance(axis, float) else np.nan)
        if name == "num_programs":
            axis = first.number
            return Value(self._grid[int(axis)] if isinstance(axis, float) else np.nan)
        if name == "arange":
            size = arguments[-1].number - arguments[0].number if len(arguments) > 1 else np.nan
            return self._note_tensor_size(Value(sizes=(size,), steps=(1.0,)))
        if name in ("load", "store") or name.startswith("atomic"):
            return self._access_memory(name, arguments, named)
        if name == "dot" or name == "dot_scaled":
            return self._multiply_matrices(name, arguments, named)
        if name in ("make_block_ptr", "make_tensor_descriptor"):
            return self._describe_tile(name, arguments, named)
        if name == "cdiv" and len(arguments) > 1:
            return Value(
                np.ceil(apply_operator(ast.Div(), arguments[0].number, arguments[1].number))
            )
        if (
            name in _EXTREMES
            and len(arguments) > 1
            and all_are_scalars(arguments[:2])
            and not any_is_text(arguments)
        ):
            return Value(_EXTREMES[name](arguments[0].number, arguments[1].number))
        if name == "next_power_of_2" and not any_is_text(arguments):
            return Value(2.0 ** np.ceil(np.log2(first.number)))
        return self._call_elementwise(name, arguments, named)

    def _call_elementwise(
        self, name: str, arguments: list[Value], named: Mapping[str, Value]
    ) -> Value:
        first = arguments[0] if arguments else next(iter(named.values()), UNKNOWN)
        if name in _SHAPED:
            shape = named.get("shape", arguments[-1] if name not in ("zeros", "full") else first)
            items = arguments[1:] if shape.items is None else shape.items
            sizes = tuple(item.number for item in items)
            return self._note_tensor_size(
                replace(first, items=None, sizes=sizes, steps=(0.0,) * len(sizes))
            )
        if name in ("trans", "permute"):
            return transpose_value(first)
        if name == "expand_dims":
            return replace(first, sizes=(*first.sizes, 1.0), steps=(*first.steps, 0.0))
        if name in _REDUCING and first.sizes and (len(arguments) < 2 or not arguments[1].sizes):
            return self._reduce_tensor(first, arguments, named)
        if name in _SCANNING and first.sizes:
            self._record_event("scan", first.elements, width=first.width)
            steps = np.log2(np.maximum(first.sizes[-1], 2))
            rounds = steps * (steps + 1) / 2 if name == "sort" else steps
            self._record_event("fast", _LANES * rounds * first.elements, width=first.width)
            return replace(first, loaded=False)
        if name in ("to", "cast"):
            return replace(first, width=width_after_cast(first))
        if name in ("advance", "multiple_of", "max_contiguous", "max_constancy", "static_assert"):
            return first
        tensors = [value for value in (*arguments, *named.values()) if value.sizes]
        if not tensors:
            return UNKNOWN
        result = functools.reduce(broadcast_sizes, tensors)
        self._record_event("slow" if name in _SLOW else "fast", result.elements, width=result.width)
        gone = (np.nan,) * len(result.sizes)
        return self._note_tensor_size(replace(result, steps=gone, points=False, loaded=False))

    def _reduce_tensor(
        self, first: Value, arguments: list[Value], named: Mapping[str, Value]
    ) -> Value:
        self._record_event("reduce", first.elements, width=first.width)
        axis = named.get("axis", arguments[1] if len(arguments) > 1 else None)
        if axis is None or not isinstance(axis.number, float) or np.isnan(axis.number):
            return Value()
        place = int(axis.number) % len(first.sizes)
        kept = [at for at in range(len(first.sizes)) if at != place]
        return Value(
            sizes=tuple(first.sizes[at] for at in kept),
            steps=tuple(np.nan for _ in kept),
            width=first.width,
        )

    def _access_memory(
        self, name: str, arguments: list[Value], named: Mapping[str, Value]
    ) -> Value:
        pointer = arguments[0] if arguments else named.get("pointer", UNKNOWN)
        values = [named["value"]] if "value" in named else arguments[1:]
        if name != "load" and not pointer.sizes:
            shaped = [value for value in values if value.sizes]
            if shaped and pointer.points:
                pointer = replace(pointer, sizes=shaped[0].sizes, steps=shaped[0].steps)
        kind = "atomic" if name.startswith("atomic") else name
        self._record_event(
            kind, pointer.elements, width=pointer.width, run=contiguous_elements(pointer)
        )
        if kind == "store":
            return UNKNOWN
        gone = (np.nan,) * len(pointer.sizes)
        return self._note_tensor_size(
            Value(sizes=pointer.sizes, steps=gone, width=pointer.width, loaded=True)
        )

    def _multiply_matrices(
        self, name: str, arguments: list[Value], named: Mapping[str, Value]
    ) -> Value:
        lhs = arguments[0] if arguments else named.get("input", UNKNOWN)
        place = 3 if name == "dot_scaled" else 1
        rhs = arguments[place] if len(arguments) > place else named.get("other", UNKNOWN)
        if len(lhs.sizes) < 2 or len(rhs.sizes) < 2:
            return UNKNOWN
        rows, depth, columns = lhs.sizes[-2], lhs.sizes[-1], rhs.sizes[-1]
        batch = functools.reduce(operator.mul, lhs.sizes[:-2], 1.0)
        staged = sum(operand.elements * operand.width for operand in (lhs, rhs) if operand.loaded)
        self._record_event(
            "dot",
            batch * rows * columns * depth,
            width=np.maximum(lhs.width, rhs.width),
            staged=staged,
            sizes=(rows, columns, depth),
        )
        sizes = (*lhs.sizes[:-1], columns)
        return self._note_tensor_size(Value(sizes=sizes, steps=(np.nan,) * len(sizes)))

    def _describe_tile(
        self, name: str, arguments: list[Value], named: Mapping[str, Value]
    ) -> Value:
        """Return a block pointer or a descriptor that is made in the kernel."""
        base = arguments[0] if arguments else named.get("base", UNKNOWN)
        place = 4 if name == "make_block_ptr" else 3
        shape = named.get("block_shape", arguments[place] if len(arguments) > place else UNKNOWN)
        strides = named.get("strides", arguments[2] if len(arguments) > 2 else UNKNOWN)
        sizes = tuple(size.number for size in shape.items or ())
        steps = tuple(stride.number for stride in (strides.items or ())[: len(sizes)])
        if len(steps) < len(sizes):
            steps = (FAR,) * len(sizes)
        distances = tuple(np.where(np.isnan(step), FAR, step) for step in steps)
        return Value(sizes=sizes, steps=distances, width=base.width, points=True)

    # ------------------------------------------------------------------------------------ notes

    def _note_tensor_size(self, value: Value) -> Value:
        if not value.points:
            self.block.largest = np.fmax(self.block.largest, value.elements)
        return value

    def _record_event(
        self,
        kind: str,
        elements: Number,
        width: Number = 4.0,
        run: Number = 1.0,
        staged: Number = 0.0,
        sizes: tuple[Number, ...] = (),
    ) -> None:
        self.block.events.append(
            Event(
                kind,
                elements,
                self._times,
                self._unknown,
                self._loops,
                width,
                run,
                staged,
                sizes,
            )
        )


def _assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _is_function_module(node: ast.expr) -> bool:
    """Tell whether a node is in a module of functions: ``tl``, ``tl.extra.libdevice``, ..."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES


_MODULES = frozenset(("tl", "triton", "libdevice", "triton_helpers", "math", "gl", "tldevice"))
