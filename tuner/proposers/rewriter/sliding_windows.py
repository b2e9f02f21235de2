"""Sums and extrema of sliding windows read each element twice, and not once for each tap.

::

    for k in range(W):                     →    two scans of blocks of W elements
        acc += tl.load(x + i + k, mask=i < n)

Cut the elements into blocks as long as the window. A window that begins at element `c` of a block
ends at element `c - 1` of the next one, so it is the suffix of the one and the prefix of the other
[1, 2]. The suffix is a scan of the window's first taps from the right, the prefix a scan of its
last taps, but for that of the block's first window. Nothing cancels: no sum is a difference.

A block takes a power of two of lanes; those behind the window's length are masked wherever an index
is compared with an upper bound.

[1] van Herk, A fast algorithm for local minimum and maximum filters on rectangular and octagonal
kernels (1992). [2] Gil and Werman, Computing 2-D min, median, and max filters (1993).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import last_values, values_of
from solkit.tuner.proposers.rewriter._carried import CarriedKind, carried_by
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    axis_name,
    changed_text,
    grid_axis,
    grid_constants,
    grid_with,
    guarded_launch,
    parameter,
    params_of_original,
    renamed_function,
    tile_constants,
    with_fixed_parameters,
    with_params,
)
from solkit.tuner.proposers.rewriter._first_values import Start, start_of_name
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._masks import lengths_of_names, lengths_within, with_load_mask
from solkit.tuner.proposers.rewriter._memory import is_write, mask_of, touches_memory
from solkit.tuner.proposers.rewriter._mutation import Facts, Step, Variant, changed_repeatedly
from solkit.tuner.proposers.rewriter._nodes import (
    Loop,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    count_uses,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statements,
    plain_code,
    range_loop,
    render_code,
    replace_each,
    statements_of,
    substitute_names,
    walk_statements,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import (
    FLIPPED,
    call_args,
    comparison_parts,
    conjuncts,
    converted_value,
    is_minus_infinity,
    is_operation,
    is_zero,
    rounded_up,
    without_conversions,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, Sum
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._running_values import RunningKind, combiner
from solkit.tuner.proposers.rewriter._values import whole_values
from solkit.tuner.proposers.rewriter.row_tiles import Rows

_SHORTEST, _LONGEST = 8, 4096
"""Taps of a window: fewer are cheaper as loads, and more lanes than these spill."""
_SPANS = (512, 1024, 2048, 4096, 8192)
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
_ATOMICS = {"tl.atomic_add": "tl.sum", "tl.atomic_max": "tl.max", "tl.atomic_min": "tl.min"}
"""Atomics that give the same of any parts, each with the reduction of a part."""
_SHAPED = ("tl.zeros", "tl.full")
_PLAIN = {*_SHAPED, *"tl.arange tl.program_id tl.num_programs tl.cdiv range tl.range float".split()}
"""Functions that neither touch memory nor join lanes."""
_SPREADS = {None: "", 0: "[:, None]", 1: "[None, :]"}

_Factors = Counter[tuple[str, ...]]


class SlidingWindows:
    """A loop over the taps of windows that overlap becomes two scans of their elements.

    Applies to sums, maxima and minima of elements that depend on the sum of a block's index and
    the loop's variable alone, where an upper bound masks all accesses along the block. Windows of
    under 8 or over 4096 taps keep the original launch.
    """

    kind = "sliding windows"
    helps = ("extra traffic", "extra work", "instructions", "latency", "one trip at a time")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        tiles = (parse_kernel(variant.source) for variant in Rows().variants(text, facts))
        seen = {frozenset[str]()}
        for start in (text, *filter(None, tiles)):
            source, names = changed_repeatedly(start, lambda form: _first_windows(form, facts))
            if frozenset(names) not in seen:
                seen.add(frozenset(names))
                yield Variant(
                    source,
                    f"{', '.join(names)} loads an element for each tap of a window; two scans of "
                    "blocks as long as the window read it twice"
                    f"{facts.explain_factors('extra traffic', 'extra work', 'instructions')}.",
                )


def _first_windows(text: KernelText, facts: Facts) -> Step | None:
    """Return the file with a launch's loop as scans, and its function's name."""
    for launch in text.single:
        for statement in walk_statements(launch.function.body):
            loop = range_loop(statement)
            window = None if loop is None else _window(launch, loop)
            if window is not None and (source := window.rewritten(text, facts)):
                return source, (launch.function.name,)
    return None


def _window(launch: Launch, loop: Loop) -> _Window | None:
    """Return a loop as one over the taps of windows; ``None`` if it is none."""
    carried = carried_by(loop.body, loop.name) or {}
    update = next(iter(carried.values()), None)
    function = launch.function
    if len(carried) != 1 or update is None or not update.kind.reduction or update.subtracts:
        return None
    if update.element is None:
        return None
    if update.kind is CarriedKind.SUM and not _is_added(update.name, loop):
        return None
    if integer_literal(loop.step) != 1 or any(map(is_write, calls_within(loop.node))):
        return None
    own = {loop.name, *assigned_names(*loop.body)} - {update.name}
    if any(count_uses(function.node, name) > count_uses(loop.node, name) for name in own):
        return None
    ends = [argument_of(call, 1, "end") for call in calls_within(function.node, "tl.arange")]
    blocks = {render_code(end) for end in ends if end is not None} & function.constants
    for block in sorted(blocks & set(launch.arguments)):
        window = _Window(launch, loop, update.name, update.kind, update.element, block)
        if window.is_sliding():
            return window
    return None


def _is_added(total: str, loop: Loop) -> bool:
    """Tell whether a loop's only update of a sum adds to it: a difference is one, too."""
    updates = values_of(total, walk_statements(loop.body))
    if len(updates) != 1 or assigned_names(*loop.body).count(total) != 1:
        return False
    value: cst.BaseExpression = updates[0]
    while is_operation(value, cst.Add):
        value = value.left if total in names_within(value.left) else value.right
    return isinstance(value, cst.Name) and value.value == total


@dataclass(frozen=True)
class _Window:
    """A loop over the taps of windows along a block.

    Attributes:
        launch: of its function.
        loop: over the taps.
        total: the name that it carries.
        kind: of the update.
        brought: what a tap brings.
        block: the constant that is the block's length.
    """

    launch: Launch
    loop: Loop
    total: str
    kind: CarriedKind
    brought: cst.BaseExpression
    block: str

    @property
    def function(self) -> JitFunction:
        """The launch's function."""
        return self.launch.function

    @cached_property
    def values(self) -> dict[str, cst.BaseExpression]:
        """Values of the function's names that are assigned once."""
        values = whole_values(self.function.body)
        return {name: value for name, value in values.items() if name != self.loop.name}

    @cached_property
    def element(self) -> cst.BaseExpression:
        """Value that a tap brings, without names that stand for others."""
        return substitute_names(self.brought, self.values)

    @cached_property
    def axes(self) -> set[int | None]:
        """Axes of the block in the places of a tap's loads, ``None`` for its only one; or empty.

        Empty where places are of another form, or of tiles in which the block's axis is not said.
        """
        axes: set[int | None] = set()
        for load in calls_within(self.element, "tl.load"):
            try:
                terms = self._sum(load.args[0].value).terms
            except OtherFormError:
                return set()
            along = {term.axis for term in terms if term.block == self.block}
            if None in along and any(term.block not in ("", self.block) for term in terms):
                return set()
            axes |= along
        return axes

    @property
    def axis(self) -> int | None:
        """Axis of the block in its tiles; ``None`` if that is their only one."""
        (axis,) = self.axes
        return axis

    @cached_property
    def start(self) -> Start | None:
        """Value that the loop begins with."""
        bodies = [self.function.body, *map(statements_of, walk_statements(self.function.body))]
        around = next(body for body in bodies if self.loop.node in body)
        return start_of_name(self.total, around[: around.index(self.loop.node)])

    @cached_property
    def bounds(self) -> list[cst.Comparison]:
        """Upper bounds of the index alone in what a tap brings."""
        nodes = nodes_within(self.element)
        comparisons = [node for node in nodes if isinstance(node, cst.Comparison)]
        return [node for node in comparisons if self.bound_axis(node, with_taps=False)]

    @cached_property
    def is_tiled(self) -> bool:
        """True if the grid follows the block's length."""
        return self.block in grid_constants(self.launch)

    def is_range(self, call: cst.Call) -> bool:
        """Tell whether a call is the block's range."""
        return plain_code(call) == f"tl.arange(0,{self.block})"

    # --------------------------------------------------------------------------- proving it

    def is_sliding(self) -> bool:
        """Tell whether a tap depends on the sum of its window's index and its own alone."""
        loads = calls_within(self.element, "tl.load")
        return (
            len(self.axes) == 1
            and self.axes <= {None, 0, 1}
            and all(map(self._is_bounded, loads))
            and self._is_of_sum(self.element)
            and self._has_neutral_fill()
            and self._has_fixed_names()
            and self._only_cuts()
            and self._leaves_lanes_alone()
        )

    def _has_fixed_names(self) -> bool:
        """Tell whether names of a tap have one value, and lengths of the block are known forms."""
        counts = Counter(assigned_names(*self.function.body))
        names = names_within(self.element, self.loop.start, self.loop.stop) - {self.loop.name}
        is_fixed = all(counts[n] <= (n not in self.function.params) for n in names)
        further = [c for c in calls_within(self.function.node, "tl.arange") if not self.is_range(c)]
        is_own = all(self.block not in names_within(call) for call in further)
        return is_fixed and is_own and not self.function.reassigned(self.block)

    def _only_cuts(self) -> bool:
        """Tell whether the block's length, and the program's index, only say where blocks begin."""
        function, along = self.function, tile_constants(self.function).get(self.block)
        if (along is not None) != self.is_tiled:
            return False
        name = "" if along is None else axis_name(function, along)
        own = {name, f"tl.program_id({along})"} - {""}
        nodes = list(nodes_within(function.node.body))
        products = [
            {plain_code(node.left), plain_code(node.right)} - {self.block}
            for node in nodes
            if is_operation(node, cst.Multiply)
            and self.block in (plain_code(node.left), plain_code(node.right))
        ]
        calls = [node for node in nodes if isinstance(node, cst.Call)]
        indices = [call for call in calls if along is not None and grid_axis(call) == along]
        uses = count_uses(function.node.body, name) - 2 if name else 0  # its own, and the call's
        shapes = [call.args[0].value for call in calls if called_name(call) in _SHAPED]
        lengths = sum(count_uses(shape, self.block) for shape in shapes)
        ranges = sum(map(self.is_range, calls))
        return (
            all(len(factors) == 1 and factors <= own for factors in products)
            and len(products) == uses + len(indices)
            and count_uses(function.node.body, self.block) == len(products) + lengths + ranges
        )

    def _sum(self, node: cst.BaseExpression) -> Sum:
        """Return an expression of whole numbers as a sum.

        Raises:
            OtherFormError: it is none, or varies along the block by names that are not known.
        """
        whole = substitute_names(node, self.values)
        ranges = [(call, cst.Integer("0")) for call in calls_within(whole, "tl.arange")]
        if self.varies(replace_each(whole, ranges)):
            raise OtherFormError
        scalars = frozenset({*names_within(whole), self.loop.name})
        return Scope(self.function, scalars).terms(whole)

    def _factors(self, total: Sum) -> tuple[_Factors, _Factors]:
        """Return what the block's index and the tap's are multiplied by in a sum.

        Raises:
            OtherFormError: a product has them in another form.
        """
        counts: tuple[_Factors, _Factors] = Counter(), Counter()
        for term in total.terms:
            factors, is_index = list(term.factors), term.block == self.block
            if is_tap := self.loop.name in factors:
                factors.remove(self.loop.name)
            if any(self.loop.name in names_within(parse_expression(f)) for f in factors):
                raise OtherFormError
            if is_tap and term.block:
                raise OtherFormError
            if is_tap or is_index:
                counts[is_tap][tuple(sorted(factors))] += term.sign
        index, tap = ({key: n for key, n in count.items() if n} for count in counts)
        return Counter(index), Counter(tap)

    def _is_shifted(self, total: Sum) -> bool:
        """Tell whether a sum stays where the index grows by one and the tap falls by one."""
        try:
            index, tap = self._factors(total)
        except OtherFormError:
            return False
        return index == tap

    def _difference(self, node: cst.CSTNode) -> tuple[Sum, str] | None:
        """Return a comparison as a sum that is compared with 0, and its sign."""
        parts = comparison_parts(node)
        try:
            return parts and (self._sum(parts[0]).combined_with(self._sum(parts[2]), -1), parts[1])
        except OtherFormError:
            return None

    def bound_axis(self, node: cst.CSTNode, with_taps: bool = True) -> tuple[int | None] | None:
        """Return the block's axis in an upper bound of its index; ``None`` if it is none."""
        difference = self._difference(node)
        if difference is None or difference[1] not in FLIPPED:
            return None
        total, sign = difference
        try:
            index, tap = self._factors(total)
        except OtherFormError:
            return None
        axes = {term.axis for term in total.terms if term.block == self.block}
        is_upper = index == Counter({(): 1 if sign in ("<", "<=") else -1})
        return (axes.pop(),) if is_upper and len(axes) == 1 and (with_taps or not tap) else None

    def _is_bounded(self, call: cst.Call) -> bool:
        """Tell whether an upper bound masks an access, or it is the same all along the block."""
        pointer = argument_of(call, 0, "pointer")
        if pointer is None or not self.varies(pointer):
            return pointer is not None
        mask = mask_of(call)
        return mask is not None and self._has_bound(mask)

    def _has_bound(self, mask: cst.BaseExpression) -> bool:
        whole = substitute_names(mask, self.values)
        return any(map(self.bound_axis, _spread_conjuncts(whole)))

    def varies(self, node: cst.BaseExpression) -> bool:
        """Tell whether a value may differ along the block."""
        return self.block in lengths_within(node, lengths_of_names(self.function), is_mask=True)

    def _is_of_sum(self, node: cst.BaseExpression) -> bool:
        """Tell whether a value depends on the sum of index and tap alone, but for upper bounds."""
        if self.loop.name not in names_within(node) and not self.varies(node):
            return True
        if isinstance(node, cst.Comparison):
            difference = self._difference(node)
            is_shifted = difference is not None and self._is_shifted(difference[0])
            return is_shifted or self.bound_axis(node, with_taps=False) is not None
        if isinstance(node, cst.Call):
            if (inner := converted_value(node)) is not None:
                return self._is_of_sum(inner)
            is_known = called_name(node) == "tl.load" or is_elementwise_call(called_name(node))
            return is_known and all(self._is_of_sum(value) for value in call_args(node))
        try:
            return self._is_shifted(self._sum(node))
        except OtherFormError:
            parts = [part for part in child_nodes(node) if isinstance(part, cst.BaseExpression)]
            if isinstance(node, cst.Subscript):
                return self._is_of_sum(node.value)
            is_plain = isinstance(node, (cst.BinaryOperation, cst.UnaryOperation))
            return is_plain and all(map(self._is_of_sum, parts))

    def _has_neutral_fill(self) -> bool:
        """Tell whether what bounds of the index mask changes nothing.

        Extrema are of fp32: integers have other least and largest numbers.
        """
        if self.start is None or (self.kind.is_extremum and self.start.is_integer):
            return False
        fills = [argument_of(load, 2, "other") for load in calls_within(self.element, "tl.load")]
        if not self.bounds or not any(fills):
            return True  # what is masked without a fill is anything
        fill = fills[0]
        if called_name(without_conversions(self.element)) != "tl.load" or fill is None:
            return False
        if self.kind is CarriedKind.SUM:
            return is_zero(fill)
        if self.kind is CarriedKind.MAXIMUM:
            return is_minus_infinity(fill)
        return is_minus_infinity(cst.UnaryOperation(cst.Minus(), fill))

    def _leaves_lanes_alone(self) -> bool:
        """Tell whether what upper bounds mask is neither stored nor reduced."""
        within = {id(node) for node in nodes_within(self.loop.node)}
        calls = [c for c in calls_within(self.function.node.body) if id(c) not in within]
        outside = [s for s in walk_statements(self.function.body) if id(s) not in within]
        values = last_values(outside)
        return all(self._leaves_alone(call, values) for call in calls)

    def _leaves_alone(self, call: cst.Call, values: Values) -> bool:
        name = called_name(call)
        if touches_memory(call):
            pointer = argument_of(call, 0, "pointer")
            if is_write(call) and self.is_tiled and pointer and not self.varies(pointer):
                value = argument_of(call, 1)
                value = values.get(value.value, value) if isinstance(value, cst.Name) else value
                return value is not None and _ATOMICS.get(name) == called_name(value)
            return self._is_bounded(call)
        if name in _REDUCTIONS:
            operand = call.args[0].value
            if not self.varies(operand):
                return True
            if isinstance(operand, cst.Name):
                operand = values.get(operand.value, operand)
            mask = argument_of(operand, 0) if called_name(operand) == "tl.where" else None
            is_bounded = mask is not None and self._has_bound(mask)
            return is_bounded and (not self.is_tiled or self._is_of_all_blocks(call, values))
        is_plain = name in _PLAIN or converted_value(call) is not None
        return is_plain or is_elementwise_call(name)

    def _is_of_all_blocks(self, reduction: cst.Call, values: Values) -> bool:
        """Tell whether atomics alone take a block's reduction: else it depends on the length."""
        atomics = calls_within(self.function.node, *_ATOMICS)
        taken = [argument_of(c, 1) for c in atomics if not self.varies(c.args[0].value)]
        names = [node.value for node in taken if isinstance(node, cst.Name)]
        return any(value is reduction for value in taken) or any(
            value is reduction
            and count_uses(self.function.node.body, name) == 1 + names.count(name) > 1
            for name, value in values.items()
        )

    # --------------------------------------------------------------------------- its launch

    def rewritten(self, text: KernelText, facts: Facts) -> str:
        """Return the file; empty if the launch cannot follow."""
        launch, function, block = self.launch, self.function, self.block
        count = in_launcher(parse_expression(self.taps), launch)
        size = None if count is None else facts.size(count, launch)
        if count is None or not (size is None or _SHORTEST <= size <= _LONGEST):
            return ""
        span = parameter(launch, text, Parameter("SPAN", 1024, _SPANS))
        constants = [text.fresh("LANES"), text.fresh("WINDOWS")]
        taps, lanes, windows = (text.fresh(word) for word in ("taps", "lanes", "windows"))
        blocks, grid = self._blocks(span.name, taps, lanes, windows)
        if not grid or launch.launcher is not text.launcher or "triton" not in text.names:
            return ""
        name, joined = text.fresh(f"{function.name}_windows"), text.fresh(self.kind.value)
        combined = combiner(RunningKind[self.kind.name], joined)
        writer = _Writer(self, (constants[0], constants[1]), joined)
        node = with_params(renamed_function(function, name, writer.body()), constants=constants)
        arguments = {block: f"{windows} * {taps}"}
        arguments |= dict(zip(constants, (lanes, windows), strict=True))
        line = NewLaunch(launch, node, grid=grid, arguments=arguments).statement
        ahead = f"{taps} = {render_code(count)}\n"
        before = f"{lanes} = triton.next_power_of_2({taps})\n{windows} = {blocks}\n"
        condition = f"{_SHORTEST} <= {taps} <= {_LONGEST}"
        guarded = guarded_launch(condition, line, launch.statement, parse_statements(before))
        source = changed_text(
            text,
            added={function.name: [node] if combined is None else [combined, node]},
            launches=[(launch.statement, [*parse_statements(ahead), *guarded])],
            parameters=[span] if span.name in blocks else [],
        )
        return with_fixed_parameters(
            parse_kernel(source) or text, params_of_original(launch, block, "grid")
        )

    @cached_property
    def taps(self) -> str:
        """Number of a window's taps, as code of the function."""
        first, stop = (substitute_names(n, self.values) for n in (self.loop.start, self.loop.stop))
        end = render_code(stop)
        return end if is_zero(first) else f"({end}) - ({render_code(first)})"

    def _blocks(self, span: str, taps: str, lanes: str, windows: str) -> tuple[str, str]:
        """Return the number of blocks of a program, and the grid, as code; empty if not clear.

        Args:
            span: name of a program's number of lanes.
            taps: name of a window's number of taps.
            lanes: name of a block's number of lanes.
            windows: name of a program's number of blocks.
        """
        if self.is_tiled:
            blocks = f"max({span} // {lanes}, 1)" if self.axis is None else "1"
            return blocks, self._grid(f"{windows} * {taps}")
        if self.axis is not None:
            return "", ""
        length = render_code(self.launch.arguments[self.block])
        blocks = f"triton.next_power_of_2(triton.cdiv({length}, {taps}))"
        return blocks, render_code(self.launch.grid)

    def _grid(self, block: str) -> str:
        """Return the grid with another length of the block; empty if that is not clear."""
        launch, along = self.launch, tile_constants(self.function).get(self.block)
        if launch.axes is None or along is None or along >= len(launch.axes):
            return ""
        code, size = plain_code(launch.arguments[self.block]), launch.axes[along]
        if isinstance(size, cst.Name):
            size = launcher_definition(size.value, launch.launcher) or size
        whole, by = rounded_up(size), getattr(size, "right", None)
        if whole is None and called_name(size) == "triton.cdiv":
            whole, by = argument_of(size, 0), argument_of(size, 1)
        if whole is None or by is None or plain_code(by) != code:
            return ""
        return grid_with(launch.axes, along, f"triton.cdiv({render_code(whole)}, {block})")


@dataclass(frozen=True)
class _Writer:
    """Writes a function with scans in place of a loop.

    Attributes:
        window: the loop.
        sizes: names of constants: lanes of a block, and blocks.
        joined: name of the function that joins two elements.
    """

    window: _Window
    sizes: tuple[str, str]
    joined: str

    def body(self) -> list[cst.BaseStatement]:
        """Return the function's statements."""
        window, function, taps = self.window, self.window.function, self.window.taps
        within = {id(node) for node in nodes_within(window.loop.node)}
        swaps: dict[int, list[cst.CSTNode]] = {id(window.loop.node): [*self._scans()]}
        span = parse_expression(f"({self._span})")
        for node in nodes_within(function.node.body):
            if id(node) in within:
                continue
            if isinstance(node, cst.Comparison) and (bound := window.bound_axis(node)):
                inside = f"({self._code(node)}) & {self._inside}{_SPREADS[bound[0]]}"
                swaps[id(node)] = [parse_expression(f"({inside})")]
            elif isinstance(node, cst.Call) and window.is_range(node):
                swaps[id(node)] = [cst.Name(self._place)]
            elif isinstance(node, cst.Call) and called_name(node) in _SHAPED:
                shape = node.args[0]
                swaps[id(shape)] = [substitute_names(shape, {window.block: span})]
        head = parse_statements(
            f"{self._lane} = tl.arange(0, {self._span})\n"
            if self.window.axis is not None
            else f"{self._place} = tl.arange(0, {self._span})\n"
            f"{self._lane} = {self._place} % {self.sizes[0]}\n"
            f"{self._place} = {self._place} // {self.sizes[0]} * ({taps}) + {self._lane}\n"
        )
        head += parse_statements(f"{self._inside} = {self._lane} < {taps}\n")
        return [*head, *statements_of(with_each(function.node, swaps))]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        taken = {*self.window.function.names, *self.sizes, self.joined}
        words = ("window_lane", "window_place", "window_inside", "suffix", "prefix", "window")
        return tuple(free_name(word, taken) for word in words)

    @property
    def _lane(self) -> str:
        return self._names[0]

    @property
    def _place(self) -> str:
        return self._names[1] if self.window.axis is None else self._lane

    @property
    def _inside(self) -> str:
        return self._names[2]

    @property
    def _span(self) -> str:
        return (
            self.sizes[0] if self.window.axis is not None else f"{self.sizes[0]} * {self.sizes[1]}"
        )

    def _spread(self, bound: cst.Comparison) -> str:
        """Return how a bound of the index is spread over the tile's axes."""
        axes = self.window.bound_axis(bound)
        return _SPREADS[self.window.axis] if axes == (None,) else ""

    def _code(self, node: cst.CSTNode) -> str:
        """Return code in which the block's index is that of its lanes."""
        ranges = [call for call in calls_within(node) if self.window.is_range(call)]
        return render_code(replace_each(node, [(call, cst.Name(self._place)) for call in ranges]))

    def _tap(self, tap: str, is_first: bool) -> str:
        """Return what a tap brings: of the first one, also to windows that begin behind a bound."""
        window, spread = self.window, _SPREADS[self.window.axis]
        element = window.element if is_first else window.brought
        pairs: list[Swap] = []
        for load in calls_within(element, "tl.load"):
            pointer, mask = argument_of(load, 0, "pointer"), argument_of(load, 1, "mask")
            if pointer is not None and mask is not None and window.varies(pointer):
                moved = [(node, self._moved(node)) for node in window.bounds] if is_first else []
                inside = f"({render_code(replace_each(mask, moved))}) & {self._inside}{spread}"
                pairs.append((load, with_load_mask(load, inside)))
        brought = replace_each(element, pairs)
        value = parse_expression(f"({tap})")
        return self._code(substitute_names(brought, {window.loop.name: value}))

    def _moved(self, node: cst.Comparison) -> cst.BaseExpression:
        """Return the bound of the first window of the block: all its elements are needed."""
        first, sign, second = comparison_parts(node) or (node, "", node)
        bound = self.window.bound_axis(node)
        lane = f"{self._lane}{_SPREADS[bound[0] if bound else None]}"
        codes = [render_code(parenthesized(side)) for side in (first, second)]
        codes[sign in (">", ">=")] += f" - {lane}"
        return parse_expression(f"({codes[0]} {sign} {codes[1]})")

    def _scans(self) -> list[cst.BaseStatement]:
        """Return the statements in place of the loop."""
        window, kind = self.window, RunningKind[self.window.kind.name]
        assert window.start is not None
        loop, spread, (*_, suffix, prefix, whole) = (
            window.loop,
            _SPREADS[self.window.axis],
            self._names,
        )
        dtype, axis = (
            f"tl.{window.start.dtype}",
            1 if self.window.axis is None else self.window.axis,
        )
        lane, inside = f"{self._lane}{spread}", f"{self._inside}{spread}"
        last = f"{render_code(parenthesized(loop.stop))} - 1"
        taps = [self._tap(render_code(loop.start), True), self._tap(last, False)]
        lines = [
            f"{suffix} = tl.where({inside}, tl.cast({taps[0]}, {dtype}), {kind.fill})",
            f"{prefix} = tl.cast({taps[1]}, {dtype})",
            f"{prefix} = tl.where({inside} & ({lane} > 0), {prefix}, {kind.fill})",
        ]
        if self.window.axis is None:
            shape = f"({self.sizes[1]}, {self.sizes[0]})"
            lines += [f"{name} = tl.reshape({name}, {shape})" for name in (suffix, prefix)]
        scan = "tl.cumsum({}, " if kind is RunningKind.SUM else "tl.associative_scan({}, "
        by = f"{axis}" if kind is RunningKind.SUM else f"{axis}, {self.joined}"
        joined = window.kind.joined
        parts = f"{scan.format(suffix)}{by}, reverse=True)", f"{scan.format(prefix)}{by})"
        lines.append(f"{whole} = {joined(*parts)}")
        if self.window.axis is None:
            lines.append(f"{whole} = tl.reshape({whole}, ({self._span},))")
        if window.bounds:
            bounds = " & ".join(
                dict.fromkeys(f"({self._code(b)}){self._spread(b)}" for b in window.bounds)
            )
            lines.append(f"{whole} = tl.where({bounds}, {whole}, {kind.fill})")
        lines.append(f"{window.total} = {joined(window.total, whole)}")
        return parse_statements("\n".join(lines) + "\n")


def _spread_conjuncts(mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a mask that all have to be true, without the axes they are spread over."""
    for part in conjuncts(mask):
        if isinstance(part, cst.Subscript):
            yield from _spread_conjuncts(part.value)
        else:
            yield part
