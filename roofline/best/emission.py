"""Plans as PyTorch code.

The same steps are written for the traced sizes and, to run them for real, for smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from solkit.roofline.best.axes import Dims, Sizes, size_of
from solkit.roofline.best.dimensions import Dimensions
from solkit.roofline.best.graph import Graph, Node, NoPlanError, Ref
from solkit.roofline.best.ordering import (
    Applied,
    Counted,
    Joined,
    Plan,
    Slide,
    Source,
    phases,
    slide_roles,
)
from solkit.roofline.best.simplify import canonical
from solkit.roofline.best.terms import Equation, Labels, Term, Triangle

_SHAPES = {
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "expand"), 1),
    **dict.fromkeys(("zeros", "ones", "full", "empty"), 0),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "new_empty"), 1),
}
"""Places of arguments that are the result's shape."""
_CREATED = ("zeros", "ones", "full", "empty", "eye", "scalar_tensor", "arange", "linspace")
_DOUBLE = "torch.float64"
_DROPPED = ("pin_memory", "layout", "non_blocking")


@dataclass(frozen=True)
class PlannedTerm:
    """A term with its order; ``None`` for a constant."""

    term: Term
    plan: Plan | None


@dataclass(frozen=True)
class Tensor:
    """A variable of the code, with the label of each dimension."""

    name: str
    labels: tuple[int, ...]


@dataclass
class Writer:
    """Writes a plan.

    Attributes:
        graph, dimensions, labels: of the program.
        sizes: of its atoms.
        exact: whether every float is a double, to run the code for real.
    """

    graph: Graph
    dimensions: Dimensions
    labels: Labels
    sizes: Sizes
    exact: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _count: int = 0
    _made: dict[object, Tensor] = field(default_factory=dict)
    _terms: dict[object, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names.update(zip(self.graph.inputs, self.graph.names))

    # ------------------------------------------------------------------------------ sources

    def source(self, function: str = "plan") -> str:
        """Return the code: a function of the program's inputs."""
        results = ", ".join(self.names[value] for value in self.graph.results)
        if len(self.graph.results) != 1:
            results = f"({results})" if results else "()"
        head = f"def {function}({', '.join(self.graph.names)}):"
        return "\n".join([head, *(f"    {line}" for line in self.lines), f"    return {results}"])

    def size(self, label: int) -> int:
        """Return the size of a label."""
        return self.sizes[self.labels.atoms[label]]

    def shape(self, dims: Dims) -> tuple[int, ...]:
        """Return the shape of dimensions."""
        return tuple(size_of(dim, self.sizes) for dim in dims)

    def dtype(self, value: int) -> str:
        """Return the dtype of a value in this code."""
        own: str = self.graph.values[value].dtype
        return "float64" if self.exact and "float" in own else own

    def line(self, code: str, hint: str = "t") -> str:
        """Add an assignment; return its new variable."""
        self._count += 1
        name = f"{hint}{self._count}"
        self.lines.append(f"{name} = {code}")
        return name

    @property
    def device(self) -> str:
        """The device of constants."""
        return f"{self.graph.names[0]}.device" if self.graph.names else "None"

    # ----------------------------------------------------------------------- traced operators

    def traced(self, node: Node) -> None:
        """Add an operator as it was traced."""
        _check_plain(node)
        value = self._value(node)
        if node.op == "literal":
            dtype = self.dtype(value)
            code = f"torch.tensor({node.args[0]!r}, dtype=torch.{dtype}, device={self.device})"
            self.names[value] = self.line(code)
            return
        args, kwargs = self._resized(node, value)
        words = [*map(self._word, args)]
        words += [f"{k}={self._word(v)}" for k, v in kwargs.items() if k not in _DROPPED]
        overload = "default" if node.op.startswith("upsample_nearest") else node.overload
        code = f"aten.{node.op}.{overload}({', '.join(words)})"
        name = self.line(code, "v")
        if len(node.outputs) == 1:
            self.names[value] = name
            return
        for place, output in enumerate(node.outputs):
            if output is not None:
                self.names[output] = f"{name}[{place}]"

    def _resized(self, node: Node, value: int) -> tuple[list[Any], dict[str, Any]]:
        """Return an operator's arguments at these sizes and in these dtypes."""
        args, kwargs = list(node.args), dict(node.kwargs)
        shape = list(self.shape(self.dimensions.of(value)))
        if (place := _SHAPES.get(node.op)) is not None:
            args[place] = shape
        elif node.op == "eye":
            args = shape[:1]
        elif node.op.startswith("upsample_nearest"):
            args, kwargs = [args[0], shape[2:]], {}
        elif node.op == "convolution" and args[8] > 1:
            channels = self.dimensions.of(args[0].value)[1]
            if self.graph.values[args[0].value].shape[1] == args[8]:  # one channel a group
                args[8] = size_of(channels, self.sizes)
        elif node.op == "native_group_norm":
            args[3:6] = [shape[0], shape[1], math.prod(shape[2:])]
        elif node.op == "native_layer_norm":
            args[1] = shape[len(shape) - len(args[1]) :]
        is_float = self.graph.values[value].is_float
        if self.exact and is_float and node.op in _CREATED and not kwargs.get("dtype"):
            kwargs["dtype"] = _DOUBLE
        return args, kwargs

    def _value(self, node: Node) -> int:
        return next(v for v in node.outputs if v is not None)

    def _word(self, argument: Any) -> str:
        if isinstance(argument, Ref):
            return self.names[argument.value]
        if isinstance(argument, (list, tuple)):
            items = ", ".join(map(self._word, argument))
            return f"[{items}]"
        if argument == _DOUBLE:
            return str(argument)
        kind = type(argument).__module__
        if kind == "torch":
            word = str(argument)
            if word.startswith("torch."):
                is_float = self.exact and "float" in word
                return "torch.float64" if is_float else word
            return self.device if type(argument).__name__ == "device" else repr(word)
        if argument == math.inf or argument == -math.inf or argument != argument:
            return f"float('{argument}')"
        return repr(argument)

    # ----------------------------------------------------------------------------- root values

    def planned(self, value: int, parts: Sequence[Sequence[PlannedTerm]]) -> None:
        """Add a root: the sum of its terms. `parts` are groups of one term each."""
        dims = self.dimensions.of(value)
        shape, dtype = self.shape(dims), self.dtype(value)
        names = []
        for (part,) in parts:
            names.append(self._term(part, dtype))
        if not names:
            code = f"torch.zeros({list(shape)}, dtype=torch.{dtype}, device={self.device})"
            self.names[value] = self.line(code)
            return
        total = " + ".join(names) if len(names) > 1 else names[0]
        repeats = all(self._repeats(part.term) for (part,) in parts)
        if repeats:
            total = f"({total}).expand({', '.join(map(str, shape))})"
        if dtype != self._compute_dtype(parts, dtype):
            total = f"({total}).to(torch.{dtype})"
        moved = len(parts) == 1 and _is_moved(parts[0][0])
        if (repeats or moved) and value in self.graph.results:
            total = f"{total}.clone()"  # the reference returns a tensor of its own
        self.names[value] = total if total in names else self.line(total)

    def _repeats(self, term: Term) -> list[int]:
        bound = term.bound_labels
        return [n for n in term.results if n not in bound]

    def _compute_dtype(self, parts: Sequence[Sequence[PlannedTerm]], dtype: str) -> str:
        order = ("bfloat16", "float16", "float32", "float64")
        used = [dtype] + [
            self.dtype(leaf.value)
            for (part,) in parts
            for leaf in part.term.leaves
            if isinstance(leaf.value, int)
        ]
        dtypes = [d for d in used if d in order]
        if {"bfloat16", "float16"} <= set(dtypes):
            return "float32"
        return max(dtypes, key=order.index) if dtypes else dtype

    def _term(self, part: PlannedTerm, dtype: str) -> str:
        """Add a term; return its variable, with size 1 where it repeats."""
        term = part.term
        dtype = self._compute_dtype([[part]], dtype)
        scale = term.factor
        for atom, power in term.powers:
            scale *= float(self.sizes[atom]) ** power
        if part.plan is None:
            ones = ", ".join("1" for _ in term.dims)
            return self.line(
                f"torch.full(({ones}{',' if term.dims else ''}), {scale!r}, "
                f"dtype=torch.{dtype}, device={self.device})"
            )
        key = (canonical(term), dtype)
        if key not in self._terms:
            self._terms[key] = self._with_dims(self._step(part.plan, dtype), term)
        name = self._terms[key]
        return name if scale == 1.0 else self.line(f"{name} * {scale!r}")

    def _with_dims(self, tensor: Tensor, term: Term) -> str:
        """Return a tensor in the result's dimensions; 1 where a label only repeats it."""
        flat = [label for dim in term.dims for label in dim]
        name, labels = tensor.name, list(tensor.labels)
        for label in dict.fromkeys(n for n in flat if flat.count(n) > 1 and n in labels):
            if flat.count(label) > 2:
                raise NoPlanError("a result repeats an index three times")
            place = labels.index(label)
            name = self.line(f"torch.diag_embed({name}.movedim({place}, -1))")
            labels.pop(place)
            labels += [label, -1 - label]
        names = list(flat)
        for place, label in enumerate(flat):
            if label in flat[:place] and -1 - label in labels:
                names[place] = -1 - label
        present = [n for n in names if n in labels]
        order = [labels.index(n) for n in present]
        if order != sorted(order):
            name = self.line(f"{name}.permute({', '.join(map(str, order))})")
        iterator = iter(names)
        shape = []
        for dim in term.dims:
            own = [next(iterator) for _ in dim]
            inside = [n for n in own if n in labels]
            if inside and len(inside) < len(own):
                return self._partly_repeated(name, term, names, labels)
            shape.append(math.prod(self._size_of(n) for n in inside))
        if shape != [self._size_of(n) for n in present]:
            name = self.line(f"{name}.reshape({self._tuple(shape)})")
        return name

    def _size_of(self, label: int) -> int:
        return self.size(label if label >= 0 else -1 - label)

    def _tuple(self, numbers: Iterable[int]) -> str:
        return ", ".join(map(str, numbers)) or "()"

    def _partly_repeated(
        self, name: str, term: Term, names: Sequence[int], labels: Sequence[int]
    ) -> str:
        """Return a tensor of which some factor of a dimension only repeats it."""
        full = [self._size_of(n) for n in names]
        ones = [size if n in labels else 1 for n, size in zip(names, full)]
        shape = [math.prod(map(self.size, dim)) for dim in term.dims]
        return self.line(
            f"{name}.reshape({self._tuple(ones)}).expand({self._tuple(full)})"
            f".reshape({self._tuple(shape)})"
        )

    # ----------------------------------------------------------------------------------- steps

    def _step(self, plan: Plan, dtype: str) -> Tensor:
        key = (plan, dtype)
        if key in self._made and isinstance(plan, Source | Counted):
            return self._made[key]
        if isinstance(plan, Source):
            tensor = self._leaf(plan, dtype)
        elif isinstance(plan, Counted):
            tensor = self._counts(plan, dtype)
        elif isinstance(plan, Applied):
            tensor = self._applied(plan, dtype)
        else:
            tensor = self._joined(plan, dtype)
        self._made[key] = tensor
        return tensor

    def _leaf(self, plan: Source, dtype: str) -> Tensor:
        value, labels = plan.leaf.value, plan.leaf.labels
        assert isinstance(value, int)
        name = self.names[value]
        if self.dtype(value) != dtype:
            name = f"{name}.to(torch.{dtype})"
        dims = self.dimensions.of(value)
        if any(len(dim) != 1 for dim in dims):
            name = f"{name}.reshape({self._tuple(map(self.size, labels))})"
        kept = tuple(dict.fromkeys(n for n in labels if n in plan.labels))
        if len(set(labels)) < len(labels):
            equation = self._letters([labels], kept)
            return Tensor(self.line(f'torch.einsum("{equation}", {name})'), kept)
        gone = [place for place, n in enumerate(labels) if n not in plan.labels]
        if gone:
            name = self.line(f"{name}.sum({self._list(gone)})")
        return Tensor(name, kept)

    def _list(self, numbers: Sequence[int]) -> str:
        return str(numbers[0]) if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"

    def _letters(self, operands: Sequence[Sequence[int]], result: Sequence[int]) -> str:
        alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        names: dict[int, str] = {}
        words = []
        for labels in (*operands, result):
            words.append("".join(names.setdefault(n, alphabet[len(names)]) for n in labels))
        return f"{','.join(words[:-1])}->{words[-1]}"

    def _counts(self, plan: Counted, dtype: str) -> Tensor:
        """Write how many solutions an equation has for each value of the kept labels."""
        equation = plan.equation
        labels = tuple(sorted(plan.labels))
        free = sorted(plan.free, key=lambda n: (abs(equation.factor(n)), -self.size(n)))
        grid = [*labels, *free[1:]]

        def index(place: int, label: int) -> str:
            dims = "".join(", 1" for _ in range(len(grid) - place - 1))
            view = f".view(-1{dims})" if dims else ""
            return f"torch.arange({self.size(label)}, device={self.device}){view}"

        unit = equation.factor(free[0]) if free else 1
        sign = -1 if unit > 0 else 1
        parts = [f"{sign * equation.factor(n)} * {index(place, n)}" for place, n in enumerate(grid)]
        if sign * equation.constant or not parts:
            parts.append(str(sign * equation.constant))
        at = self.line(" + ".join(parts), "at")
        if free:
            step, last = abs(unit), abs(unit) * self.size(free[0])
            test = f"({at} >= 0) & ({at} < {last})"
            test += f" & ({at} % {step} == 0)" if step > 1 else ""
        else:
            test = f"{at} == 0"
        code = f"({test}).to(torch.{dtype})"
        if len(grid) > len(labels):
            code += f".sum({self._list(list(range(len(labels), len(grid))))})"
        return Tensor(self.line(code, "count"), labels)

    def _applied(self, plan: Applied, dtype: str) -> Tensor:
        tensor = self._step(plan.child, dtype)
        condition = plan.condition
        if isinstance(condition, Triangle):
            return self._triangle(tensor, condition, plan)
        (source,) = (condition.labels - plan.free) & set(tensor.labels)
        (result,) = condition.labels - plan.free - {source}
        place = tensor.labels.index(source)
        labels = tuple(result if n == source else n for n in tensor.labels)
        tap = next(iter(plan.free), None)
        if abs(condition.factor(source)) == 1:
            sign = -condition.factor(source)
            stride = sign * condition.factor(result)
            step = 1 if tap is None else sign * condition.factor(tap)
            taps = 1 if tap is None else self.size(tap)
            start = sign * condition.constant
            name = self._windows(
                tensor.name,
                (place, len(labels)),
                self.size(source),
                (start, stride, self.size(result)),
                (taps, step),
            )
        else:
            start = condition.factor(result) * condition.constant
            name = self.line(f"{tensor.name}.repeat_interleave({self.size(tap or 0)}, {place})")
            name = self.line(f"{name}.narrow({place}, {start}, {self.size(result)})")
        return self._without(name, labels, plan.labels)

    def _windows(
        self,
        name: str,
        at: tuple[int, int],
        size: int,
        steps: tuple[int, int, int],
        window: tuple[int, int],
    ) -> str:
        """Write sums of windows along a dimension, from ``start`` on every ``stride``."""
        (place, rank), (start, stride, count), (taps, dilation) = at, steps, window
        reach = dilation * (taps - 1) + 1
        end = start + stride * (count - 1) + reach
        before, after = max(-start, 0), max(end - size, 0)
        inside = 0 if dilation > 1 or after > before or 2 * before > taps or start > 0 else before
        if (before or after) and not inside:
            pads = [0, 0] * (rank - 1 - place) + [before, after]
            name = self.line(f"F.pad({name}, {pads})")
            start, end, size = start + before, end + before, size + before + after
        if taps == 1:
            cut = ", ".join([":"] * place + [f"{start}:{end}:{stride}"])
            return self.line(f"{name}[{cut}]")
        if not inside and (start, end) != (0, size):
            name = self.line(f"{name}.narrow({place}, {start}, {end - start})")
        if dilation > 1:
            picked = f"[..., ::{dilation}]"
            return self.line(f"{name}.unfold({place}, {reach}, {stride}){picked}.sum(-1)")
        padding = f", padding=({inside}, 0)" if inside else ""
        name = self.line(self._pooled(name, (place, rank), (taps, stride), padding))
        have = (size + 2 * inside - taps) // stride + 1 if inside else count
        return name if have == count else self.line(f"{name}.narrow({place}, 0, {count})")

    def _pooled(self, name: str, at: tuple[int, int], window: tuple[int, int], padding: str) -> str:
        """Return the sums of windows along one dimension; the others keep their places."""
        (place, rank), (taps, stride) = at, window
        before = f"{name}.unsqueeze(0)" if place == 0 else name
        place = max(place, 1)
        rank = rank + 1 if before != name else rank
        whole = f"{before}.flatten(0, {place - 1})" if place > 1 else before
        tail = rank - 1 - place
        whole += f".flatten({2})" if tail > 1 else ".unsqueeze(-1)" if tail == 0 else ""
        pooled = (
            f"F.avg_pool2d({whole}, ({taps}, 1), stride=({stride}, 1){padding}, divisor_override=1)"
        )
        pooled += f".unflatten(-1, {before}.shape[{place + 1}:])" if tail > 1 else ""
        pooled += ".squeeze(-1)" if tail == 0 else ""
        pooled += f".unflatten(0, {before}.shape[:{place}])" if place > 1 else ""
        return f"{pooled}.squeeze(0)" if before != name else pooled

    def _without(self, name: str, labels: tuple[int, ...], kept: frozenset[int]) -> Tensor:
        gone = [place for place, n in enumerate(labels) if n not in kept]
        if gone:
            name = self.line(f"{name}.sum({self._list(gone)})")
        return Tensor(name, tuple(n for n in labels if n in kept))

    def _triangle(self, tensor: Tensor, triangle: Triangle, plan: Applied) -> Tensor:
        row, column, labels = triangle.row, triangle.column, tensor.labels
        if row in labels and column in labels:
            rows, columns = (
                f"torch.arange({self.size(n)}, device={self.device})"
                f".view({self._tuple(-1 if m == n else 1 for m in labels)})"
                for n in (row, column)
            )
            name = self.line(f"{tensor.name} * ({columns} <= {rows} + {triangle.diagonal})")
            return self._without(name, labels, plan.labels)
        own, new = (column, row) if column in labels else (row, column)
        place = labels.index(own)
        name, from_end = tensor.name, own == row
        size, other = self.size(own), self.size(new)
        if from_end:
            name = self.line(f"{name}.flip({place})")
        if triangle.diagonal == 0 and size == other:
            total = self.line(f"torch.cumsum({name}, {place})")
            total = self.line(f"{total}.flip({place})") if from_end else total
        else:  # of the first so many elements, none too
            pads = [0, 0] * (len(labels) - 1 - place) + [1, 0]
            total = self.line(f"torch.cumsum(F.pad({name}, {pads}), {place})")
            count = f"torch.arange({other}, device={self.device})"
            first = size + triangle.diagonal if from_end else triangle.diagonal + 1
            count = f"({first} - {count})" if from_end else f"({first} + {count})"
            total = self.line(f"{total}.index_select({place}, {count}.clamp(0, {size}))")
        renamed = tuple(new if n == own else n for n in labels)
        return self._without(total, renamed, plan.labels)

    def _joined(self, plan: Joined, dtype: str) -> Tensor:
        lhs, rhs = self._step(plan.lhs, dtype), self._step(plan.rhs, dtype)
        if plan.equations:
            return self._convolved(plan, lhs, rhs)
        result = tuple(dict.fromkeys(n for n in (*lhs.labels, *rhs.labels) if n in plan.labels))
        equation = self._letters([lhs.labels, rhs.labels], result)
        return Tensor(self.line(f'torch.einsum("{equation}", {lhs.name}, {rhs.name})'), result)

    # ----------------------------------------------------------------------------- convolutions

    def _convolved(self, plan: Joined, lhs: Tensor, rhs: Tensor) -> Tensor:
        a, b = frozenset(lhs.labels), frozenset(rhs.labels)
        slides: list[tuple[Equation, Slide]] = []
        for equation in plan.equations:
            roles = slide_roles(equation, plan.free & equation.labels, a, b, self.size)
            if roles is None:
                raise NoPlanError("a convolution of another form at these sizes")
            slides.append((equation, roles))
        data, weight = (lhs, rhs) if slides[0][1].data in a else (rhs, lhs)
        layout = _Layout.of(data, weight, [roles for _, roles in slides], plan.labels)
        x = self._arranged(data, layout.data, [roles.data for _, roles in slides])
        w = self._arranged(weight, layout.weight, [roles.tap for _, roles in slides])
        groups = math.prod(map(self.size, layout.shared))
        if plan.free:
            name = self._phases(x, w, slides, plan.free, groups)
        else:
            name = self._plain(x, w, [roles for _, roles in slides], groups, layout)
        labels = (*layout.batch, *layout.shared, *layout.out, *(s.result for _, s in slides))
        name = self.line(f"{name}.reshape({self._tuple(map(self.size, labels))})")
        return Tensor(name, labels)

    def _arranged(
        self, tensor: Tensor, groups: tuple[Sequence[int], Sequence[int]], tail: Sequence[int]
    ) -> str:
        """Return a tensor with two leading dimensions, then the sliding ones."""
        labels = [*groups[0], *groups[1], *tail]
        order = [tensor.labels.index(n) for n in labels]
        name = tensor.name
        if order != sorted(order):
            name = self.line(f"{name}.permute({', '.join(map(str, order))})")
        shape = [math.prod(map(self.size, group)) for group in groups]
        return self.line(f"{name}.reshape({self._tuple([*shape, *map(self.size, tail)])})")

    def _plain(self, x: str, w: str, slides: Sequence[Slide], groups: int, layout: _Layout) -> str:
        count = len(slides)
        backwards = [place + 2 for place, s in enumerate(slides) if s.dilation < 0]
        if backwards:
            w = self.line(f"{w}.flip({self._list(backwards)})")
        taps = [self.size(s.tap) for s in slides]
        dilation = [abs(s.dilation) for s in slides]
        pads = [
            s.pad - (min(s.dilation, 0) * (t - 1)) if not s.transposed else s.pad
            for s, t in zip(slides, taps)
        ]
        if any(s.transposed for s in slides):
            if backwards:
                raise NoPlanError("a transposed convolution that reads its weight backwards")
            return self._transposed(x, w, slides, groups, layout, taps)
        frame: list[int] = []
        for s, t, pad, d in zip(slides, taps, pads, dilation):
            size = self.size(s.data)
            after = s.stride * (self.size(s.result) - 1) + d * (t - 1) + 1 - pad - size
            frame = [pad, after, *frame]
        inner = max(0, min(frame))
        even = len(set(frame)) == 1 and inner == frame[0]
        if not even and any(frame):
            pairs = list(zip(frame[::2], frame[1::2]))
            same = all(n >= 0 and 0 <= n - m < s.stride for (n, m), s in zip(pairs, slides[::-1]))
            if same:
                return self._conv(x, w, slides, [n for n, _ in pairs][::-1], dilation, groups)
            x = self.line(f"F.pad({x}, {frame})")
            return self._conv(x, w, slides, [0] * count, dilation, groups)
        return self._conv(x, w, slides, [inner] * count, dilation, groups)

    def _conv(
        self,
        x: str,
        w: str,
        slides: Sequence[Slide],
        pads: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> str:
        words = (
            [f"stride={tuple(s.stride for s in slides)}"]
            if any(s.stride > 1 for s in slides)
            else []
        )
        words += [f"padding={tuple(pads)}"] if any(pads) else []
        words += [f"dilation={tuple(dilation)}"] if any(d > 1 for d in dilation) else []
        words += [f"groups={groups}"] if groups > 1 else []
        return self.line(f"F.conv{len(slides)}d({', '.join([x, w, *words])})")

    def _transposed(
        self,
        x: str,
        w: str,
        slides: Sequence[Slide],
        groups: int,
        layout: _Layout,
        taps: Sequence[int],
    ) -> str:
        extra, crops, pads = [], [], []
        for place, (s, t) in enumerate(zip(slides, taps)):
            pad = max(s.pad, 0)
            plain = (self.size(s.data) - 1) * s.stride - 2 * pad + s.dilation * (t - 1) + 1
            more = self.size(s.result) - plain
            if s.pad < 0 or not 0 <= more < max(s.stride, s.dilation):
                raise NoPlanError("a transposed convolution of another size")
            extra.append(more)
            pads.append(pad)
            crops.append(place)
        words = [f"stride={tuple(s.stride for s in slides)}", f"padding={tuple(pads)}"]
        words += [f"output_padding={tuple(extra)}"] if any(extra) else []
        words += [f"groups={groups}"] if groups > 1 else []
        dilation = tuple(s.dilation for s in slides)
        words += [f"dilation={dilation}"] if any(d > 1 for d in dilation) else []
        # its weight is (in channels, out channels): each group's block is turned
        parts = [*layout.shared, *layout.out, *layout.summed, *(s.tap for s in slides)]
        order = [*layout.shared, *layout.summed, *layout.out, *(s.tap for s in slides)]
        if order != parts:
            w = self.line(f"{w}.reshape({self._tuple(map(self.size, parts))})")
            places = [parts.index(n) for n in order]
            w = self.line(f"{w}.permute({', '.join(map(str, places))})")
        first = math.prod(map(self.size, (*layout.shared, *layout.summed)))
        shape = [first, math.prod(map(self.size, layout.out)), *taps]
        w = self.line(f"{w}.reshape({self._tuple(shape)})")
        return self.line(f"F.conv_transpose{len(slides)}d({', '.join([x, w, *words])})")

    def _phases(
        self,
        x: str,
        w: str,
        slides: Sequence[tuple[Equation, Slide]],
        free: frozenset[int],
        groups: int,
    ) -> str:
        """Write a convolution in phases, each with its own sums of the weight's taps."""
        cuts = []
        for equation, s in slides:
            size = {n: self.size(n) for n in equation.labels}
            own = next(iter(free & equation.labels), None)
            cut = phases(equation, s.data, s.tap, s.result, own, size)
            if cut is None:
                raise NoPlanError("a convolution in phases of another form")
            cuts.append(cut)
        names = {}
        for combination in _combinations([len(parts) for _, _, parts in cuts]):
            weight, strides = w, []
            frame: list[int] = []
            for axis, number in enumerate(combination):
                count, stride, parts = cuts[axis]
                phase, s = parts[number], slides[axis][1]
                weight, low, taps = self._folded(weight, axis + 2, phase.taps)
                many = len(range(phase.offset, self.size(s.result), count))
                after = low + stride * (many - 1) + taps - self.size(s.data)
                frame = [-low, after, *frame]
                strides.append(stride)
            padded = self.line(f"F.pad({x}, {frame})") if any(frame) else x
            words = [f"stride={tuple(strides)}"] if any(n > 1 for n in strides) else []
            words += [f"groups={groups}"] if groups > 1 else []
            code = f"F.conv{len(slides)}d({', '.join([padded, weight, *words])})"
            names[combination] = self.line(code)
        if len(names) == 1:
            return next(iter(names.values()))
        shape = [self.size(s.result) for _, s in slides]
        first = next(iter(names.values()))
        out = self.line(f"{first}.new_empty(*{first}.shape[:2], {self._tuple(shape)})", "out")
        for combination, name in names.items():
            places = ", ".join(
                f"{cuts[axis][2][number].offset}::{cuts[axis][0]}"
                for axis, number in enumerate(combination)
            )
            self.lines.append(f"{out}[:, :, {places}] = {name}")
        return out

    def _folded(
        self, weight: str, place: int, taps: Sequence[tuple[int, Sequence[int]]]
    ) -> tuple[str, int, int]:
        """Sum taps of a weight; return it, its first shift, and how many it has."""
        if not taps:
            return self.line(f"{weight}.narrow({place}, 0, 1) * 0.0"), 0, 1
        low, high = taps[0][0], taps[-1][0]
        places_of_tap = dict(taps)
        parts = []
        for u in range(low, high + 1):
            places = places_of_tap.get(u, ())
            if not places:
                parts.append(f"torch.zeros_like({weight}.narrow({place}, 0, 1))")
            elif list(places) == list(range(places[0], places[-1] + 1)):
                own = f"{weight}.narrow({place}, {places[0]}, {len(places)})"
                parts.append(own + (f".sum({place}, keepdim=True)" if len(places) > 1 else ""))
            else:
                parts.append(" + ".join(f"{weight}.narrow({place}, {k}, 1)" for k in places))
        if len(parts) == 1:
            return self.line(parts[0], "w"), low, 1
        return self.line(f"torch.cat([{', '.join(parts)}], {place})", "w"), low, len(parts)


@dataclass(frozen=True)
class _Layout:
    """Groups of labels of a convolution's operands: see `torch.nn.functional.conv2d`."""

    batch: tuple[int, ...]
    shared: tuple[int, ...]
    summed: tuple[int, ...]
    out: tuple[int, ...]

    @classmethod
    def of(
        cls, data: Tensor, weight: Tensor, slides: Sequence[Slide], kept: frozenset[int]
    ) -> _Layout:
        """Return the layout of two operands."""
        sliding = {s.data for s in slides} | {s.tap for s in slides}
        both = [n for n in data.labels if n in weight.labels]
        return cls(
            batch=tuple(n for n in data.labels if n not in both and n not in sliding),
            shared=tuple(n for n in both if n in kept),
            summed=tuple(n for n in both if n not in kept),
            out=tuple(n for n in weight.labels if n not in both and n not in sliding),
        )

    @property
    def data(self) -> tuple[Sequence[int], Sequence[int]]:
        """Labels of the first two dimensions of the data."""
        return self.batch, (*self.shared, *self.summed)

    @property
    def weight(self) -> tuple[Sequence[int], Sequence[int]]:
        """Labels of the first two dimensions of the weight."""
        return (*self.shared, *self.out), self.summed


def _is_moved(part: PlannedTerm) -> bool:
    """Tell whether a term is a leaf in another order of dimensions."""
    plan = part.plan
    return isinstance(plan, Source) and plan.labels == frozenset(plan.leaf.labels)


def _check_plain(node: Node) -> None:
    """Raise for an operator of which running it twice may not give the same."""
    if node.op.startswith(("written", "random")):
        what = "writes in place" if node.op.startswith("written") else "draws random numbers"
        raise NoPlanError(f"it {what} ({node.op.split()[-1]})")
    if node.op.startswith("solkit."):
        raise NoPlanError(f"{node.op.removeprefix('solkit.')} is one operator here")


def _combinations(counts: Sequence[int]) -> list[tuple[int, ...]]:
    whole: list[tuple[int, ...]] = [()]
    for count in counts:
        whole = [(*head, n) for head in whole for n in range(count)]
    return whole
