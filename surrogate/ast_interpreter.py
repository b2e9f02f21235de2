"""Interpretation of a Triton kernel's program for one block: what it loads, stores, multiplies.

The functions' syntax trees are followed once for all candidates, without Triton, with the values
that the launches pass: names decide nothing. Programs of the grid and trips of loops are sampled,
so that masks, branches and the ends of loops count by how often they hold. What depends on data is
NaN, unless these data are known.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solkit.core import Binding, KernelFunction, KernelProgram
from solkit.core.parsing import syntax_tree
from solkit.surrogate.block_events import Block, EventRecorder
from solkit.surrogate.program_values import (
    UNKNOWN,
    WHOLE,
    Array,
    Number,
    Span,
    SplitError,
    Value,
    apply_comparison,
    apply_operator,
    binary_result,
    compare_values,
    constant_value,
    is_text,
    merge_values,
    negated_mask,
    single_integer,
    split_by,
    transpose_value,
    truth_of_number,
)
from solkit.surrogate.triton_functions import TritonFunctions, type_value

SAMPLES = 16
"""Programs of the grid, each in one trip of each loop, that stand for all."""

_DEEPEST = 12
_MOST_STEPS = 60_000
_SMALL = 1e-6
_LOOPS = frozenset(("range", "static_range"))
_TYPES = frozenset(("dtype", "type", "element_ty", "scalar"))
_LOOP_OPTIONS = ("warp_specialize", "flatten", "disallow_acc_multi_buffer", "loop_unroll_factor")


@dataclass(frozen=True)
class Call:
    """Launches of one program by all candidates.

    Attributes:
        program: the text of what they run.
        arguments: what each parameter of the launched function gets; numbers are (candidates, 1).
        grid: blocks in x, y and z, (candidates, 1) each.
    """

    program: KernelProgram
    arguments: Mapping[str, Value]
    grid: Sequence[Number]

    def __getitem__(self, rows: Array) -> Call:
        """Select the launches of some candidates."""
        arguments = {name: value[rows] for name, value in self.arguments.items()}
        grid = [Value(number)[rows].number for number in self.grid]
        return Call(self.program, arguments, grid)


def interpret_blocks(call: Call, number: int) -> Iterator[tuple[Array, Block]]:
    """Follow a program in groups of candidates that decide alike, so that each is as if alone.

    Args:
        call: of the program.
        number: of candidates.

    Yields:
        Candidates and their block; nothing if the launched function cannot be parsed.
    """
    waiting = [np.arange(number)]
    while waiting:
        rows = waiting.pop()
        part = call if len(rows) == number else call[rows]
        try:
            block = interpret_block(part)
        except SplitError as split:
            waiting += [rows[split.labels == label] for label in np.unique(split.labels)]
            continue
        if block is not None:
            yield rows, block


def interpret_block(call: Call) -> Block | None:
    """Follow a program; ``None`` if its launched function cannot be parsed.

    Raises:
        SplitError: candidates differ in a decision.
    """
    entry = call.program.functions.get(call.program.entry)
    node = _definition(entry.source) if entry is not None else None
    if node is None:
        return None
    follower = _Follower(call)
    with np.errstate(all="ignore"):
        follower.run_function(call.program.entry, [], call.arguments)
    return follower.recorder.block


def value_of_binding(binding: Binding) -> Value:
    """Return what is known of a constant, a function or a type."""
    if binding.kind in ("constant", "scalar"):
        return constant_value(binding.value)
    if binding.kind == "items":
        return Value(kind="items", items=tuple(map(value_of_binding, binding.items)))
    if binding.kind == "type":
        return type_value(binding.text)
    if binding.kind in ("function", "library"):
        return Value(kind=binding.kind, text=binding.text)
    return UNKNOWN


@functools.lru_cache(4096)
def _definition(source: str) -> ast.FunctionDef | None:
    try:
        body = syntax_tree(source).body
    except (SyntaxError, ValueError):
        return None
    return next((node for node in body if isinstance(node, ast.FunctionDef)), None)


@functools.cache
def _latin_samples(dimension: int) -> Array:
    """Return evenly spread numbers between 0 and 1, (1, samples), in an order of their own."""
    order = np.random.default_rng(dimension).permutation(SAMPLES)
    return np.asarray((order + 0.5) / SAMPLES).reshape(1, SAMPLES)


@dataclass
class _Frame:
    """A function that is being followed.

    Attributes:
        function: its text and names.
        variables: its values by name.
        condition: share in which the branches around this place are taken.
        alive: share that has not returned.
        unsure: branches around this place that are not known.
        returned: values with their shares.
    """

    function: KernelFunction
    variables: dict[str, Value]
    outer: Number
    condition: Number = 1.0
    alive: Number = 1.0
    unsure: Number = 0.0
    returned: list[tuple[Number, Value]] | None = None


class _Follower:
    def __init__(self, call: Call) -> None:
        self.recorder = EventRecorder()
        self._program = call.program
        programs = [
            np.floor(_latin_samples(axis) * np.asarray(blocks, float))
            for axis, blocks in enumerate(call.grid)
        ]
        self._builtins = TritonFunctions(self.recorder, call.grid, programs)
        self._depth = 0
        self._left = _MOST_STEPS
        self._loops = len(programs)

    def run_function(
        self, key: str, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        """Follow a function of the program and return what it returns."""
        function = self._program.functions[key]
        node = _definition(function.source)
        if node is None or self._depth >= _DEEPEST:
            return UNKNOWN
        frame = _Frame(function, {}, self.recorder.weight, returned=[])
        parameters = [*node.args.posonlyargs, *node.args.args]
        names = [parameter.arg for parameter in parameters]
        defaults = dict(zip(reversed(names), reversed(node.args.defaults)))
        for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            names.append(parameter.arg)
            if default is not None:
                defaults[parameter.arg] = default
        values = {name: self._value(default, frame) for name, default in defaults.items()}
        values = dict.fromkeys(names, UNKNOWN) | values | dict(zip(names, arguments)) | dict(named)
        frame.variables.update(values)
        self._depth += 1
        self._run(node.body, frame)
        self._depth -= 1
        self.recorder.weight = frame.outer
        return _merged_returns(frame.returned or [])

    # ------------------------------------------------------------------------------- statements

    def _run(self, body: Sequence[ast.stmt], frame: _Frame) -> None:
        for node in body:
            self._left -= 1
            self.recorder.weight = frame.outer * frame.condition * frame.alive
            if self._left < 0 or not np.any(self.recorder.weight):
                return
            self._run_statement(node, frame)

    def _run_statement(self, node: ast.stmt, frame: _Frame) -> None:
        if isinstance(node, ast.Assign):
            value = self._value(node.value, frame)
            for target in node.targets:
                self._assign(target, value, frame)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self._value(node.value, frame), frame)
        elif isinstance(node, ast.AugAssign):
            lhs, rhs = self._value(node.target, frame), self._value(node.value, frame)
            self._assign(node.target, self._binary(node.op, lhs, rhs), frame)
        elif isinstance(node, ast.Expr):
            self._value(node.value, frame)
        elif isinstance(node, ast.For):
            self._run_for(node, frame)
        elif isinstance(node, ast.While):
            self._run_while(node, frame)
        elif isinstance(node, ast.If):
            self._run_branches(node, frame)
        elif isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            self._leave(node, frame)

    def _leave(self, node: ast.stmt, frame: _Frame) -> None:
        if isinstance(node, ast.Return) and frame.returned is not None:
            value = UNKNOWN if node.value is None else self._value(node.value, frame)
            frame.returned.append((frame.condition * frame.alive, value))
        staying = frame.alive * (1 - frame.condition)
        frame.alive = np.where(np.asarray(frame.unsure) > 0, frame.alive, staying)

    def _assign(self, target: ast.expr, value: Value, frame: _Frame) -> None:
        if isinstance(target, ast.Name):
            frame.variables[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items or ()
            for place, element in enumerate(target.elts):
                self._assign(element, items[place] if place < len(items) else UNKNOWN, frame)

    def _run_branches(self, node: ast.If, frame: _Frame) -> None:
        share = self._truth(node.test, frame)
        split_by(share)
        is_known = ~np.isnan(share)
        before, condition = frame.variables, frame.condition
        self.recorder.note_branch(share)
        unsure = frame.unsure
        frame.unsure = unsure + ~is_known
        results = []
        for body, part in (
            (node.body, np.where(is_known, share, 1.0)),
            (node.orelse, np.where(is_known, 1 - share, 1.0)),
        ):
            frame.variables, frame.condition = dict(before), condition * part
            if np.any(part):
                self._run(body, frame)
            results.append(frame.variables)
        frame.unsure = unsure
        frame.condition = condition
        names = results[0].keys() | results[1].keys()
        if np.all(share == 1) or np.all(share == 0):
            frame.variables = results[0] if np.all(share == 1) else results[1]
            return
        frame.variables = {
            name: _either(share, results[0].get(name), results[1].get(name)) for name in names
        }

    # ------------------------------------------------------------------------------------ loops

    def _run_for(self, node: ast.For, frame: _Frame) -> None:
        start: Number = 0.0
        step: Number = 1.0
        trips: Number = np.nan
        if isinstance(node.iter, ast.Call):
            bounds = [self._value(argument, frame).number for argument in node.iter.args]
            named = {k.arg: self._value(k.value, frame) for k in node.iter.keywords if k.arg}
            self._note_loop_options(named)
            if bounds and not any(map(is_text, bounds)):
                start = bounds[0] if len(bounds) > 1 else 0.0
                stop = bounds[1] if len(bounds) > 1 else bounds[0]
                step = bounds[2] if len(bounds) > 2 else 1.0
                lengths = np.asarray(stop, float) - np.asarray(start, float)
                trips = np.maximum(np.ceil(lengths / np.asarray(step, float)), 0.0)
        target = node.target.id if isinstance(node.target, ast.Name) else ""
        counter = Value(start, is_integer=True)
        frame.variables[target] = counter
        self._repeat(node.body, frame, trips, (target, counter, step))

    def _note_loop_options(self, named: Mapping[str, Value]) -> None:
        stages = named.get("num_stages", UNKNOWN)
        is_number = stages.kind == "number" and not is_text(stages.number)
        options = {
            name: truth_of_number(named[name].number) for name in _LOOP_OPTIONS if name in named
        }
        self.recorder.note_loop(stages.number if is_number else 0.0, options)

    def _run_while(self, node: ast.While, frame: _Frame) -> None:
        sides = _compared_sides(node.test)
        trips: Number = np.nan
        for op, lhs, rhs in sides:
            before = [self._scalar(side, frame) for side in (lhs, rhs)]
            trial = replace(frame, variables=self._trial(node.body, frame))
            after = [self._scalar(side, trial) for side in (lhs, rhs)]
            trial = replace(frame, variables=self._trial(node.body, trial))
            later = [self._scalar(side, trial) for side in (lhs, rhs)]
            trips = np.fmin(trips, _trips_until(op, before, after, later))
        self._repeat(node.body, frame, trips, None)

    def _scalar(self, node: ast.expr, frame: _Frame) -> Array:
        with self.recorder.silence():
            number = self._value(node, frame).number
        return np.asarray(np.nan if is_text(number) else number, float)

    def _trial(self, body: Sequence[ast.stmt], frame: _Frame) -> dict[str, Value]:
        """Return the variables after a body, without any record of it."""
        trial = replace(frame, variables=dict(frame.variables), returned=None)
        weight = self.recorder.weight
        with self.recorder.silence():
            self._run(body, trial)
        self.recorder.weight = weight
        return trial.variables

    def _repeat(
        self,
        body: Sequence[ast.stmt],
        frame: _Frame,
        trips: Number,
        counter: tuple[str, Value, Number] | None,
    ) -> None:
        """Follow a body in one trip of each sample.

        Args:
            body: of the loop.
            frame: around it.
            trips: how often it runs; NaN if unknown.
            counter: name, first value and step of the loop's own variable.
        """
        before = dict(frame.variables)
        changed = {} if not np.any(trips != 0) else self._changes(body, frame)
        self._loops += 1
        trip = np.floor(_latin_samples(self._loops) * np.asarray(trips, float))
        trip = np.where(np.asarray(trips) == 0, 0.0, trip)
        for name, change in changed.items():
            frame.variables[name] = _moved(before[name], change, trip)
        if counter is not None:
            name, first, step = counter
            frame.variables[name] = replace(first, number=first.number + step * trip)
        entered, alive = dict(frame.variables), frame.alive
        with self.recorder.inside_loop(trips):
            if np.any(trips != 0):
                self._run(body, frame)
            self.recorder.weight = frame.outer * frame.condition * alive
            self._record_carried(body, before, frame)
        frame.alive = alive
        for name, change in changed.items():
            last = frame.variables[name]
            if last.sizes == () or last.points or last.is_integer:
                is_steady = _is_same(last.number, _moved(entered[name], change, 1.0).number)
                kept = _moved(before[name], change, trips)
                if not np.all(is_steady):
                    kept = replace(last, number=np.where(is_steady, kept.number, last.number))
                frame.variables[name] = kept

    def _changes(self, body: Sequence[ast.stmt], frame: _Frame) -> dict[str, Number]:
        """Return by how much a trip changes each number, index or pointer that it assigns to."""
        after = self._trial(body, frame)
        changes: dict[str, Number] = {}
        for name in sorted(_assigned_names(body)):
            first, last = frame.variables.get(name), after.get(name)
            if first is None or last is None or is_text(first.number) or is_text(last.number):
                continue
            if first.kind == last.kind and first.kind in ("number", "pointer"):
                changes[name] = np.asarray(last.number, float) - np.asarray(first.number, float)
        return changes

    def _record_carried(
        self, body: Sequence[ast.stmt], before: Mapping[str, Value], frame: _Frame
    ) -> None:
        for name in sorted(_assigned_names(body)):
            kept = frame.variables.get(name, UNKNOWN)
            if name in before and before[name].sizes and kept.sizes:
                width = 8.0 if kept.points else kept.width
                self.recorder.record("carried", kept.elements, width=width)

    # ------------------------------------------------------------------------------ expressions

    def _truth(self, node: ast.expr, frame: _Frame) -> Array:
        value = self._value(node, frame)
        if value.kind == "none":
            return np.asarray(0.0)
        if value.kind in ("pointer", "function", "library") or value.items:
            return np.asarray(1.0)
        return np.asarray(truth_of_number(value.number), float)

    def _value(self, node: ast.expr, frame: _Frame) -> Value:
        self._left -= 1
        if self._left < 0:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return constant_value(node.value)
        if isinstance(node, ast.Name):
            local = frame.variables.get(node.id)
            return self._global(node.id, frame) if local is None else local
        if isinstance(node, (ast.Tuple, ast.List)):
            items = tuple(self._value(element, frame) for element in node.elts)
            return Value(kind="items", items=items)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, frame)
        return self._operation(node, frame)

    def _operation(self, node: ast.expr, frame: _Frame) -> Value:
        """Return the value of a node with operands; unknown for other kinds of nodes."""
        if isinstance(node, ast.BinOp):
            lhs, rhs = self._value(node.left, frame), self._value(node.right, frame)
            return self._binary(node.op, lhs, rhs)
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        if isinstance(node, ast.Compare):
            return self._comparison(node, frame)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, frame)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, frame)
        if isinstance(node, ast.BoolOp):
            return self._bool_op(node, frame)
        if isinstance(node, ast.IfExp):
            return self._conditional(node, frame)
        return UNKNOWN

    def _global(self, name: str, frame: _Frame) -> Value:
        binding = frame.function.names.get(name)
        return UNKNOWN if binding is None else value_of_binding(binding)

    def _attribute(self, node: ast.Attribute, frame: _Frame) -> Value:
        dotted = _dotted_name(node)
        if dotted and dotted.partition(".")[0] not in frame.variables:
            binding = frame.function.names.get(dotted)
            if binding is not None:
                return value_of_binding(binding)
        operand = self._value(node.value, frame)
        if node.attr == "T" and operand.sizes:
            return transpose_value(operand)
        if node.attr in _TYPES:
            return Value(kind="type", width=operand.width, is_integer=operand.is_integer)
        if node.attr.startswith("primitive_bitwidth") or node.attr.startswith("itemsize"):
            bits = 8.0 if node.attr.startswith("primitive") else 1.0
            return Value(operand.width * bits, is_integer=True)
        if node.attr == "shape":
            sizes = tuple(Value(size, is_integer=True) for size in operand.sizes)
            return Value(kind="items", items=sizes)
        return operand if node.attr == "value" else UNKNOWN

    def _binary(self, op: ast.operator, lhs: Value, rhs: Value) -> Value:
        if lhs.items is not None and rhs.items is not None and isinstance(op, ast.Add):
            return Value(kind="items", items=(*lhs.items, *rhs.items))
        if not lhs.sizes and not rhs.sizes:
            number = apply_operator(op, lhs.number, rhs.number)
            if lhs.points or rhs.points:
                return replace(lhs if lhs.points else rhs, number=number)
            integer = lhs.is_integer and rhs.is_integer and not isinstance(op, ast.Div)
            return Value(number, is_integer=integer, width=np.maximum(lhs.width, rhs.width))
        result = binary_result(op, lhs, rhs)
        if not result.points:
            kind = "integer" if result.is_integer or result.spans else "fast"
            self.recorder.record(kind, result.elements, width=result.width)
        return self.recorder.note_size(result)

    def _unary(self, node: ast.UnaryOp, frame: _Frame) -> Value:
        operand = self._value(node.operand, frame)
        if operand.sizes:
            if operand.spans:
                return negated_mask(operand)
            steps = tuple(-np.asarray(step, float) for step in operand.steps)
            slopes = tuple(-np.asarray(slope, float) for slope in operand.trends)
            number = np.nan if is_text(operand.number) else -np.asarray(operand.number, float)
            return replace(operand, loaded=False, steps=steps, slopes=slopes, number=number)
        if isinstance(node.op, ast.Not):
            return Value(1 - self._truth(node.operand, frame), is_integer=True)
        if is_text(operand.number):
            return UNKNOWN
        number = np.asarray(operand.number, float)
        if isinstance(node.op, ast.USub):
            return replace(operand, number=-number)
        if isinstance(node.op, ast.Invert):
            return replace(operand, number=np.where(number == 0, 1.0, -number - 1))
        return operand

    def _comparison(self, node: ast.Compare, frame: _Frame) -> Value:
        values = [self._value(operand, frame) for operand in (node.left, *node.comparators)]
        results = [
            self._compared(op, lhs, rhs)
            for op, lhs, rhs in zip(node.ops, values, values[1:], strict=False)
        ]
        return functools.reduce(lambda one, other: self._binary(ast.BitAnd(), one, other), results)

    def _compared(self, op: ast.cmpop, lhs: Value, rhs: Value) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            kinds = lhs.kind, rhs.kind
            if "none" in kinds and "unknown" not in kinds:
                is_same = kinds[0] == kinds[1]
                return constant_value(is_same == isinstance(op, (ast.Is, ast.Eq)))
            if kinds == ("type", "type"):
                same = np.asarray(lhs.width == rhs.width) & (lhs.is_integer == rhs.is_integer)
                equal = isinstance(op, (ast.Is, ast.Eq))
                return Value(np.asarray(same == equal, float), is_integer=True)
            if kinds[0] == kinds[1] and kinds[0] in ("function", "library"):
                return constant_value((lhs.text == rhs.text) == isinstance(op, (ast.Is, ast.Eq)))
        if isinstance(op, (ast.In, ast.NotIn)) and rhs.items is not None:
            numbers = [self._compared(ast.Eq(), lhs, item).number for item in rhs.items]
            share: Number = 0.0
            for number in numbers:
                share = np.fmax(share, number)
            return Value(share if isinstance(op, ast.In) else 1 - share, is_integer=True)
        if lhs.sizes or rhs.sizes:
            result = compare_values(op, lhs, rhs)
            floats = not (lhs.is_integer and rhs.is_integer)
            kind = "fast" if floats and (lhs.sizes or rhs.sizes) else "integer"
            self.recorder.record(kind, result.elements)
            return result
        return Value(apply_comparison(op, lhs.number, rhs.number), is_integer=True)

    def _bool_op(self, node: ast.BoolOp, frame: _Frame) -> Value:
        is_and = isinstance(node.op, ast.And)
        result = self._value(node.values[0], frame)
        if result.sizes:
            op = ast.BitAnd() if is_and else ast.BitOr()
            others = [self._value(other, frame) for other in node.values[1:]]
            return functools.reduce(lambda a, b: self._binary(op, a, b), others, result)
        truth = self._truth(node.values[0], frame)
        for other in node.values[1:]:
            if np.all(truth == (0 if is_and else 1)):
                break
            right = self._truth(other, frame)
            fold = np.minimum if is_and else np.maximum
            decided = (truth == 0) | (right == 0) if is_and else (truth == 1) | (right == 1)
            truth = np.where(decided, 0.0 if is_and else 1.0, fold(truth, right))
        return Value(truth, is_integer=True)

    def _conditional(self, node: ast.IfExp, frame: _Frame) -> Value:
        share = self._truth(node.test, frame)
        split_by(share)
        if np.all(share == 1):
            return self._value(node.body, frame)
        if np.all(share == 0):
            return self._value(node.orelse, frame)
        return merge_values(share, self._value(node.body, frame), self._value(node.orelse, frame))

    def _subscript(self, node: ast.Subscript, frame: _Frame) -> Value:
        base = self._value(node.value, frame)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base.items is not None:
            return self._item(base.items, parts[0], frame)
        if not base.sizes and not any(map(_is_none, parts)):
            return UNKNOWN
        sizes, steps, slopes = list(base.sizes), list(base.steps), list(base.trends)
        spans = list(base.spans)
        new: list[tuple[Number, Number, Number, Span]] = []
        for part in parts:
            if _is_none(part):
                new.append((1.0, 0.0, 0.0, WHOLE))
            elif sizes:
                span = spans.pop(0) if spans else WHOLE
                new.append((sizes.pop(0), steps.pop(0), slopes.pop(0), span))
        return replace(
            base,
            sizes=(*(size for size, *_ in new), *sizes),
            steps=(*(step for _, step, *_ in new), *steps),
            slopes=(*(slope for _, _, slope, _ in new), *slopes),
            spans=(*(span for *_, span in new), *spans) if base.spans else (),
        )

    def _item(self, items: Sequence[Value], part: ast.expr, frame: _Frame) -> Value:
        if isinstance(part, ast.Slice):
            lower, upper = (
                None if bound is None else single_integer(self._value(bound, frame).number)
                for bound in (part.lower, part.upper)
            )
            return Value(kind="items", items=tuple(items[lower:upper]))
        number = self._value(part, frame).number
        places = np.asarray(np.nan if is_text(number) else number, float)
        split_by(places)
        distinct = np.unique(places)
        if np.isnan(distinct).any() or np.any(np.abs(distinct) > len(items) - (distinct >= 0)):
            return UNKNOWN
        chosen = items[int(distinct[0])]
        for place in distinct[1:]:
            chosen = merge_values(places == place, items[int(place)], chosen)
        return chosen

    # ------------------------------------------------------------------------------------ calls

    def _call(self, node: ast.Call, frame: _Frame) -> Value:
        callee = self._callee(node.func, frame)
        own: list[Value] = []
        if callee.kind not in ("function", "library") and isinstance(node.func, ast.Attribute):
            own = (
                [] if _is_module(node.func.value, frame) else [self._value(node.func.value, frame)]
            )
        arguments = own + [
            item
            for argument in node.args
            for item in (
                self._value(argument.value, frame).items or ()
                if isinstance(argument, ast.Starred)
                else (self._value(argument, frame),)
            )
        ]
        named = {k.arg: self._value(k.value, frame) for k in node.keywords if k.arg}
        if callee.kind == "function" and callee.text in self._program.functions:
            return self.run_function(callee.text, arguments, named)
        name = callee.text.rpartition(".")[2] if callee.kind == "library" else _last_name(node.func)
        return self._builtins.call(name, arguments, named)

    def _callee(self, node: ast.expr, frame: _Frame) -> Value:
        if isinstance(node, ast.Attribute) and not _dotted_name(node):
            return UNKNOWN
        dotted = _dotted_name(node)
        if isinstance(node, ast.Attribute):
            if dotted.partition(".")[0] in frame.variables:
                return UNKNOWN
            binding = frame.function.names.get(dotted)
            return UNKNOWN if binding is None else value_of_binding(binding)
        return self._value(node, frame)


# ---------------------------------------------------------------------------------------- helpers


def _dotted_name(node: ast.expr) -> str:
    """Return ``"tl.math.exp"``; empty for other nodes."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join((node.id, *parts)) if isinstance(node, ast.Name) else ""


def _is_module(node: ast.expr, frame: _Frame) -> bool:
    """Tell whether a node is a name that nothing here defines: of a module that is not known."""
    root = _dotted_name(node).partition(".")[0]
    names = frame.function.names
    return bool(root) and root not in frame.variables and root not in names


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _merged_returns(returned: Sequence[tuple[Number, Value]]) -> Value:
    if not returned:
        return UNKNOWN
    result = returned[-1][1]
    for share, value in reversed(returned[:-1]):
        result = merge_values(share, value, result)
    return result


def _either(share: Number, yes: Value | None, no: Value | None) -> Value:
    if yes is None or no is None:
        return yes or no or UNKNOWN
    return merge_values(share, yes, no)


def _moved(value: Value, change: Number, trips: Number) -> Value:
    return replace(value, number=np.asarray(value.number, float) + change * np.asarray(trips))


def _is_same(one: Number, other: Number) -> Array:
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def _compared_sides(test: ast.expr) -> list[tuple[ast.cmpop, ast.expr, ast.expr]]:
    """Return comparisons that must all hold for a loop to go on."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [side for value in test.values for side in _compared_sides(value)]
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return [(test.ops[0], test.left, test.comparators[0])]
    return []


def _trips_until(
    op: ast.cmpop, before: Sequence[Array], after: Sequence[Array], later: Sequence[Array]
) -> Number:
    """Return after how many trips a comparison fails, if trips change its sides evenly.

    Each trip may also change them by the same factor more or less than the one before it.

    Args:
        op: of the comparison.
        before: both sides before the first trip.
        after: both sides after the first trip.
        later: both sides after the second trip.
    """
    if not isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.NotEq)):
        return np.nan
    gap, first, second = before[1] - before[0], after[1] - after[0], later[1] - later[0]
    if isinstance(op, (ast.Gt, ast.GtE)):
        gap, first, second = -gap, -first, -second
    if isinstance(op, (ast.LtE, ast.GtE)):
        gap, first, second = gap + 1, first + 1, second + 1  # whole numbers
    if isinstance(op, ast.NotEq):
        gap, first, second = np.abs(gap), np.abs(first), np.abs(second)
    closing = np.where(gap - first > 0, gap - first, np.nan)
    factor = (first - second) / closing
    even = np.ceil(gap / closing)
    slowing = np.log(1 - (gap - 1 + _SMALL) * (1 - factor) / closing) / np.log(factor)
    growing = np.log(1 + gap * (factor - 1) / closing) / np.log(factor)
    trips = np.select([factor == 1, factor < 1], [even, np.ceil(slowing)], np.ceil(growing))
    trips = np.where(first <= 0, 1.0, trips)
    return np.where(gap <= 0, 0.0, trips)


def _assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
