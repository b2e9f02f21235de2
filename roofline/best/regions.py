"""Multilinear regions of a program, as sums of terms.

A region ends at an operator that is not linear in its operands. What enters such an operator or is
a result is a root, and is made once; all other values are rewritten into the roots that use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from solkit.roofline.best.axes import Dim, Dims
from solkit.roofline.best.dimensions import Dimensions, per_axis, reduced_dims
from solkit.roofline.best.graph import Graph, Node, Ref, live_nodes
from solkit.roofline.best.terms import Equation, Labels, Leaf, Term, Triangle

MOST_TERMS = 8

Terms = tuple[Term, ...]


class CutError(Exception):
    """A linear operator does not fit into terms: its operands are made first."""


class Regions:
    """The regions of a program.

    Attributes:
        graph: the program.
        dimensions: of its values.
        labels: of all terms.
        roots: values that are made, in program order.
        terms: of each root that a linear operator makes.
    """

    def __init__(self, graph: Graph, dimensions: Dimensions) -> None:
        self.graph, self.dimensions, self.labels = graph, dimensions, Labels()
        self.nodes = live_nodes(graph)
        self._terms: dict[int, Terms] = {}
        self.terms: dict[int, Terms] = {}
        self.roots: list[int] = []
        for node in self.nodes:
            self._add(node)
        for value in graph.results:
            self._make(value)

    def _add(self, node: Node) -> None:
        rule = _RULES.get(node.op)
        value = node.outputs[0]
        if rule is not None and value is not None and self.graph.values[value].is_float:
            try:
                terms = rule(self, node)
                if len(terms) <= MOST_TERMS:
                    self._check(value, terms)
                    self._terms[value] = terms
                    return
            except CutError:
                pass  # no linear form at these dimensions: the value is a root, made once
        if value is not None and (constant := self._of_constants(node)) is not None:
            self._terms[value] = constant
            return
        for operand in dict.fromkeys(node.inputs):
            self._make(operand)

    def _check(self, value: int, terms: Terms) -> None:
        dims = self.dimensions.of(value)
        for term in terms:
            if tuple(tuple(self.labels.atoms[n] for n in dim) for dim in term.dims) != dims:
                raise CutError

    def _make(self, value: int) -> None:
        """Make a value a root."""
        if value in self.terms or value not in self._terms:
            return
        self.terms[value] = self._terms.pop(value)
        self.roots.append(value)

    def _of_constants(self, node: Node) -> Terms | None:
        """Return the terms of a pointwise function of a constant."""
        function = _OF_NUMBERS.get(node.op)
        if function is None or len(node.inputs) != 1:
            return None
        terms = self._terms.get(node.inputs[0])
        if terms is None or any(t.leaves or t.equations or t.triangles or t.powers for t in terms):
            return None
        if any(len(set(t.results)) < sum(map(len, t.dims)) for t in terms):
            return None
        number = function(sum(term.factor for term in terms))
        return None if number is None else (Term(number, dims=terms[0].dims),) if terms else None

    # ---------------------------------------------------------------------------- for rules

    def of(self, argument: Any) -> Terms:
        """Return the terms of a tensor argument, with labels of their own."""
        value = argument.value
        if value in self._terms:
            return tuple(term.fresh(self.labels) for term in self._terms[value])
        if not self.graph.values[value].is_float:
            raise CutError
        dims = tuple(map(self.labels.of_dim, self.dimensions.of(value)))
        return (Term(leaves=(Leaf(value, tuple(n for d in dims for n in d)),), dims=dims),)

    def dims(self, argument: Any) -> Dims:
        """Return the atoms of a tensor argument's dimensions."""
        return self.dimensions.of(argument.value)

    def result_dims(self, node: Node) -> Dims:
        """Return the atoms of the first result's dimensions."""
        value = node.outputs[0]
        assert value is not None
        return self.dimensions.of(value)

    def repeated(self, term: Term, dims: Dims) -> Term:
        """Return a term broadcast to dimensions."""
        own: list[Dim] = [()] * (len(dims) - len(term.dims)) + list(term.dims)
        return replace(
            term,
            dims=tuple(
                d if d or not want else self.labels.of_dim(want) for d, want in zip(own, dims)
            ),
        )

    def matched(self, dim: Dim, other: Term, place: int) -> Term:
        """Return `other` with the labels `dim` in its dimension `place`."""
        own = other.dims[place]
        if len(own) != len(dim):
            raise CutError
        for old, new in zip(own, dim):
            if self.labels.atoms[old] != self.labels.atoms[new]:
                raise CutError
            other = other.renamed({old: new})
        return other


def _same(regions: Regions, node: Node) -> Terms:
    source, result = (regions.graph.values[v] for v in (node.inputs[0], node.outputs[0] or 0))
    if not source.is_float or _is_coarse(result.dtype) > _is_coarse(source.dtype):
        raise CutError  # a quantisation is no copy
    return regions.of(node.args[0])


def _is_coarse(dtype: str) -> bool:
    return dtype.startswith(("float8", "float4"))


def _scaled(regions: Regions, node: Node) -> Terms:
    return tuple(term.scaled(-1.0) for term in regions.of(node.args[0]))


def _reordered(order: Callable[[Node, int], Sequence[int]]) -> Callable[[Regions, Node], Terms]:
    def rule(regions: Regions, node: Node) -> Terms:
        terms = regions.of(node.args[0])
        places = order(node, len(terms[0].dims)) if terms else ()
        return tuple(replace(t, dims=tuple(t.dims[p] for p in places)) for t in terms)

    return rule


def _transposed(node: Node, rank: int) -> Sequence[int]:
    places = list(range(rank))
    if node.op == "t":
        return places[::-1]
    one, other = node.arguments["dim0"], node.arguments["dim1"]
    places[one], places[other] = places[other], places[one]
    return places


def _permuted(node: Node, rank: int) -> Sequence[int]:
    return [d % rank for d in node.arguments["dims"]]


def _view(regions: Regions, node: Node) -> Terms:
    """Regroup labels; the result's dimensions have the same atoms in the same order."""
    dims = regions.result_dims(node)

    def regrouped(term: Term) -> Term:
        flat = iter([label for dim in term.dims for label in dim])
        return replace(term, dims=tuple(tuple(next(flat) for _ in dim) for dim in dims))

    terms = regions.of(node.args[0])
    atoms = [a for dim in regions.dims(node.args[0]) for a in dim]
    if atoms != [a for dim in dims for a in dim]:
        raise CutError
    return tuple(map(regrouped, terms))


def _expand(regions: Regions, node: Node) -> Terms:
    dims = regions.result_dims(node)
    return tuple(regions.repeated(term, dims) for term in regions.of(node.args[0]))


def _sum(regions: Regions, node: Node) -> Terms:
    own = regions.dims(node.args[0])
    gone, keeps = reduced_dims(node, len(own))
    divisors = [(a, -1) for d in gone for a in own[d]] if node.op == "mean" else []

    def summed(term: Term) -> Term:
        dims = tuple(
            () if d in gone else dim for d, dim in enumerate(term.dims) if keeps or d not in gone
        )
        labels = [label for d in gone for label in term.dims[d]]
        return term.summed(regions.labels, labels, dims).scaled(1.0, divisors)

    return tuple(map(summed, regions.of(node.args[0])))


def _of_single(regions: Regions, node: Node) -> Terms:
    """Return a reduction of single elements: the elements."""
    own = regions.dims(node.args[0])
    gone, _ = reduced_dims(node, len(own))
    if "dim" not in node.arguments and own:
        raise CutError
    if any(own[d] for d in gone):
        raise CutError
    return _sum(regions, replace(node, op="sum"))


def _products(regions: Regions, ones: Terms, others: Terms, batch: int, place: int) -> Terms:
    """Return the products of matrices: `batch` leading dimensions, `place` of the right one."""
    products = []
    for one in ones:
        for other in others:
            shared = one.dims[-1]
            rhs = regions.matched(shared, other.fresh(regions.labels), place)
            lhs = one
            for dim in range(batch):
                if lhs.dims[dim] and rhs.dims[dim]:
                    rhs = regions.matched(lhs.dims[dim], rhs, dim)
            heads = tuple(lhs.dims[d] or rhs.dims[d] for d in range(batch))
            tail = tuple(
                d for n, d in enumerate(rhs.dims) if n >= batch and n != place % len(rhs.dims)
            )
            whole = lhs.times(rhs, (*heads, *lhs.dims[batch:], *tail))
            dims = (*heads, *lhs.dims[batch:-1], *tail)
            products.append(whole.summed(regions.labels, whole.dims[len(lhs.dims) - 1], dims))
    return tuple(products)


def _mm(regions: Regions, node: Node) -> Terms:
    *bias, one, other = node.args[:3] if node.op.startswith(("add", "badd")) else node.args[:2]
    rank = len(regions.dims(other))
    batch = 1 if node.op in ("bmm", "baddbmm") else 0
    terms = _products(
        regions, regions.of(one), regions.of(other), batch, -1 if rank == 1 else rank - 2
    )
    if not bias:
        return terms
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    dims = regions.result_dims(node)
    added = tuple(regions.repeated(t, dims).scaled(beta) for t in regions.of(bias[0]))
    return (*(t.scaled(alpha) for t in terms), *(added if beta else ()))


def _add(regions: Regions, node: Node) -> Terms:
    dims = regions.result_dims(node)
    sign = -1.0 if node.op in ("sub", "rsub") else 1.0
    factors = [1.0, sign * float(node.arguments.get("alpha", 1))]
    if node.op == "rsub":
        factors.reverse()
        factors = [-float(node.arguments.get("alpha", 1)), 1.0]
    terms: list[Term] = []
    for factor, argument in zip(factors, node.args[:2]):
        if isinstance(argument, Ref):
            parts = regions.of(argument)
        elif isinstance(argument, (int, float)) and not isinstance(argument, bool):
            parts = (Term(float(argument)),) if argument else ()
        else:
            raise CutError
        terms += [regions.repeated(part.scaled(factor), dims) for part in parts]
    return tuple(terms)


def _mul(regions: Regions, node: Node) -> Terms:
    one, other = node.args[:2]
    if isinstance(other, Ref) and not isinstance(one, Ref):
        one, other = other, one
    if not isinstance(other, Ref):
        if isinstance(other, bool) or not isinstance(other, (int, float)):
            raise CutError
        return tuple(term.scaled(float(other)) for term in regions.of(one))
    return _elementwise(regions, node, regions.of(one), regions.of(other))


def _elementwise(regions: Regions, node: Node, ones: Terms, others: Terms) -> Terms:
    dims, products = regions.result_dims(node), []
    for one in ones:
        for other in others:
            lhs = regions.repeated(one, ((),) * len(dims))
            rhs = regions.repeated(other.fresh(regions.labels), ((),) * len(dims))
            for place, dim in enumerate(lhs.dims):
                if dim and rhs.dims[place]:
                    rhs = regions.matched(dim, rhs, place)
            joined = tuple(a or b for a, b in zip(lhs.dims, rhs.dims))
            products.append(regions.repeated(lhs.times(rhs, joined), dims))
    return tuple(products)


def _div(regions: Regions, node: Node) -> Terms:
    divisor = node.args[1]
    if isinstance(divisor, Ref) or node.arguments.get("rounding_mode") or not divisor:
        raise CutError
    return tuple(term.scaled(1.0 / divisor) for term in regions.of(node.args[0]))


def _pow(regions: Regions, node: Node) -> Terms:
    power = node.args[1]
    if isinstance(power, Ref) or power not in (1, 2, 3):
        raise CutError
    terms = regions.of(node.args[0])
    for _ in range(int(power) - 1):
        terms = _elementwise(regions, node, terms, regions.of(node.args[0]))
        if len(terms) > MOST_TERMS:
            raise CutError
    return terms


def _square(regions: Regions, node: Node) -> Terms:
    return _pow(regions, replace(node, args=(node.args[0], 2)))


def _diag_embed(regions: Regions, node: Node) -> Terms:
    return tuple(replace(t, dims=(*t.dims, t.dims[-1])) for t in regions.of(node.args[0]))


def _diagonal(regions: Regions, node: Node) -> Terms:
    terms = []
    rank = len(regions.dims(node.args[0]))
    one = node.arguments.get("dim1", 0) % rank
    other = node.arguments.get("dim2", 1) % rank
    for term in regions.of(node.args[0]):
        tied = regions.matched(term.dims[one], term, other)
        diagonal = tied.dims[one]
        rest = tuple(d for n, d in enumerate(tied.dims) if n not in (one, other))
        dims = (*rest, diagonal)
        if node.op == "trace":
            terms.append(tied.summed(regions.labels, diagonal, rest))
        else:
            terms.append(replace(tied, dims=dims))
    return tuple(terms)


def _triangle(regions: Regions, node: Node) -> Terms:
    diagonal = node.arguments.get("diagonal", 0)
    terms = []
    for term in regions.of(node.args[0]):
        rows, columns = term.dims[-2:]
        if len(rows) != 1 or len(columns) != 1 or rows == columns:
            raise CutError
        pair = (rows[0], columns[0], diagonal)
        if node.op == "triu":
            pair = (columns[0], rows[0], -diagonal)
        terms.append(replace(term, triangles=(*term.triangles, Triangle(*pair))))
    return tuple(terms)


def _filled(regions: Regions, node: Node) -> Terms:
    number = {"zeros": 0.0, "new_zeros": 0.0, "ones": 1.0, "new_ones": 1.0}.get(node.op)
    number = node.arguments.get("fill_value") if number is None else number
    if isinstance(number, (Ref, bool)) or number is None:
        raise CutError
    dims = tuple(map(regions.labels.of_dim, regions.result_dims(node)))
    return (Term(float(number), dims=dims),) if number else ()


def _eye(regions: Regions, node: Node) -> Terms:
    dim = regions.labels.of_dim(regions.result_dims(node)[0])
    return (Term(dims=(dim, dim)),)


# ------------------------------------------------------------------------------ with equations


def _affine(
    regions: Regions, source: Dim, terms: Sequence[tuple[Dim, int]], constant: int
) -> Equation:
    """Return the equation of an index of `source` with indices times factors; row by row."""
    parts: list[tuple[int, int]] = []
    for dim, factor in ((source, -1), *terms):
        for place, label in enumerate(dim):
            step = regions.dimensions.axes.size([regions.labels.atoms[n] for n in dim[place + 1 :]])
            parts.append((label, factor * step))
    return Equation(tuple(parts), constant)


def _slide(
    regions: Regions, term: Term, place: int, taps: Dim, steps: tuple[int, int, int], out: Dim
) -> tuple[Equation, Dim]:
    """Return the equation of a window, and the labels of the result: see `Equation`."""
    stride, pad, dilation = steps
    result = regions.labels.of_dim(out)
    windows = [(result, stride), (taps, dilation)]
    return _affine(regions, term.dims[place], windows, -pad), result


def _convolution(regions: Regions, node: Node) -> Terms:
    arguments, labels = node.arguments, regions.labels
    weight_dims, out = regions.dims(arguments["weight"]), regions.result_dims(node)
    count = len(weight_dims) - 2
    stride, pad, dilation = (
        per_axis(arguments[name], count) for name in ("stride", "padding", "dilation")
    )
    transposed, groups = arguments["transposed"], arguments["groups"]
    terms: list[Term] = []
    for x in regions.of(arguments["input"]):
        for w in regions.of(arguments["weight"]):
            weight = w.fresh(labels)
            weight, channels = _channels(regions, x, weight, transposed, groups)
            dims: list[Dim] = [x.dims[0], channels]
            equations = []
            for axis in range(count):
                place, taps = axis + 2, weight.dims[axis + 2]
                atoms = tuple(labels.atoms[n] for n in x.dims[place])
                if (taps, stride[axis], pad[axis]) == ((), 1, 0) and atoms == out[place]:
                    dims.append(x.dims[place])
                    continue
                if transposed:
                    result = labels.of_dim(out[place])
                    slid = [(x.dims[place], stride[axis]), (taps, dilation[axis])]
                    equations.append(_affine(regions, result, slid, -pad[axis]))
                else:
                    steps = stride[axis], pad[axis], dilation[axis]
                    equation, result = _slide(regions, x, place, taps, steps, out[place])
                    equations.append(equation)
                dims.append(result)
            term = x.times(weight, tuple(dims))
            terms.append(replace(term, equations=(*term.equations, *equations)))
    if isinstance(arguments.get("bias"), Ref):
        for bias in regions.of(arguments["bias"]):
            own = replace(bias, dims=((), bias.dims[0], *((),) * count))
            terms.append(regions.repeated(own, out))
    return tuple(terms)


def _channels(
    regions: Regions, x: Term, weight: Term, transposed: bool, groups: int
) -> tuple[Term, Dim]:
    """Match input channels; return the weight and the labels of the output channels."""
    if groups == 1:
        place = 0 if transposed else 1
        weight = regions.matched(x.dims[1], weight, place)
        return weight, weight.dims[1 - place]
    labels, axes = regions.labels, regions.dimensions.axes

    def cut(dim: Dim) -> int:
        """Return how many labels make up the groups."""
        for place in range(len(dim) + 1):
            if axes.size([labels.atoms[n] for n in dim[:place]]) == groups:
                return place
        raise CutError

    whole = weight.dims[0]
    at_x, at_w = cut(x.dims[1]), cut(whole)
    group, rest = x.dims[1][:at_x], x.dims[1][at_x:]
    shared = whole[at_w:] if transposed else weight.dims[1]
    pairs = [*zip(whole[:at_w], group, strict=True), *zip(shared, rest, strict=True)]
    if any(labels.atoms[a] != labels.atoms[b] for a, b in pairs):
        raise CutError
    weight = weight.renamed(dict(pairs))
    own = weight.dims[1] if transposed else weight.dims[0][at_w:]
    return weight, (*group, *own)


def _pool(regions: Regions, node: Node) -> Terms:
    arguments, labels, axes = node.arguments, regions.labels, regions.dimensions.axes
    count = int(node.op.removeprefix("avg_pool")[0])
    window = per_axis(arguments["kernel_size"], count)
    stride = per_axis(arguments.get("stride") or window, count)
    pad = per_axis(arguments.get("padding", 0), count)
    divisor = arguments.get("divisor_override")
    out, own = regions.result_dims(node), regions.dims(node.args[0])
    scale = 1.0
    for n in window:
        scale /= n
    terms = []
    for term in regions.of(node.args[0]):
        dims, equations = list(term.dims), []
        gone: list[int] = []
        for axis in range(count):
            place = len(dims) + axis - count
            if (window[axis], stride[axis], pad[axis]) == (1, 1, 0):
                continue
            head, tail = own[place][: len(out[place])], own[place][len(out[place]) :]
            tiles = window[axis] == stride[axis] == axes.size(tail) and not pad[axis]
            if tiles and head == out[place]:
                gone += dims[place][len(head) :]
                dims[place] = dims[place][: len(head)]
                continue
            atom = axes.atom(window[axis])
            axes.fix((atom,))
            tap = (labels.new(atom),)
            equation, dims[place] = _slide(
                regions, term, place, tap, (stride[axis], pad[axis], 1), out[place]
            )
            equations.append(equation)
        pooled = replace(term, equations=(*term.equations, *equations))
        pooled = pooled.summed(labels, gone, tuple(dims))
        terms.append(pooled.scaled(1.0 / divisor if divisor else scale))
    return tuple(terms)


def _adaptive(regions: Regions, node: Node) -> Terms:
    if regions.result_dims(node)[-1]:
        raise CutError
    count = int(node.op.rstrip("d")[-1])
    arguments = {"dim": tuple(range(-count, 0)), "keepdim": True}
    return _sum(regions, replace(node, op="mean", arguments=arguments))


def _upsample(regions: Regions, node: Node) -> Terms:
    out = regions.result_dims(node)
    terms = []
    for term in regions.of(node.args[0]):
        dims = list(term.dims)
        for place in range(2, len(dims)):
            extra = out[place][len(dims[place]) :]
            dims[place] = (*dims[place], *regions.labels.of_dim(extra))
        terms.append(replace(term, dims=tuple(dims)))
    return tuple(terms)


def _slice(regions: Regions, node: Node) -> Terms:
    out, own = regions.result_dims(node), regions.dims(node.args[0])
    if out == own:
        return regions.of(node.args[0])
    place = node.arguments.get("dim", 0) % len(own)
    size = regions.dimensions.axes.size(own[place])
    start = node.arguments.get("start") or 0
    start, step = max(0, start + size if start < 0 else start), node.arguments.get("step", 1)
    terms = []
    for term in regions.of(node.args[0]):
        result = regions.labels.of_dim(out[place])
        equation = _affine(regions, term.dims[place], [(result, step)], start)
        dims = (*term.dims[:place], result, *term.dims[place + 1 :])
        terms.append(replace(term, dims=dims, equations=(*term.equations, equation)))
    return tuple(terms)


def _pad(regions: Regions, node: Node) -> Terms:
    pads, out = node.arguments["pad"], regions.result_dims(node)
    if node.arguments.get("value", 0):
        raise CutError
    terms = []
    for term in regions.of(node.args[0]):
        dims, equations = list(term.dims), []
        for axis in range(len(pads) // 2):
            place = len(dims) - 1 - axis
            if pads[2 * axis] or pads[2 * axis + 1]:
                result = regions.labels.of_dim(out[place])
                equations.append(_affine(regions, result, [(dims[place], 1)], pads[2 * axis]))
                dims[place] = result
        terms.append(replace(term, dims=tuple(dims), equations=(*term.equations, *equations)))
    return tuple(terms)


def _cat(regions: Regions, node: Node) -> Terms:
    """Return the sum of the parts, each between zeros."""
    out, start = regions.result_dims(node), 0
    place = node.arguments.get("dim", 0) % len(out)
    if not all(regions.dimensions.axes.is_fixed(regions.dims(p)[place]) for p in node.args[0][:-1]):
        raise CutError  # at other sizes the parts begin elsewhere
    terms: list[Term] = []
    for part in node.args[0]:
        for term in regions.of(part):
            result = regions.labels.of_dim(out[place])
            equation = _affine(regions, result, [(term.dims[place], 1)], start)
            dims = (*term.dims[:place], result, *term.dims[place + 1 :])
            terms.append(replace(term, dims=dims, equations=(*term.equations, equation)))
        start += regions.dimensions.axes.size(regions.dims(part)[place])
    return tuple(terms)


_Rule = Callable[[Regions, Node], Terms]
_COPIES = "alias detach clone lift_fresh _to_copy contiguous"
_SINGLE = "amax amin max min logsumexp prod median cumsum cumprod"
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_COPIES.split(), _same),
    **dict.fromkeys(("t", "transpose"), _reordered(_transposed)),
    "permute": _reordered(_permuted),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze"), _view),
    "expand": _expand,
    **dict.fromkeys(("sum", "mean"), _sum),
    **dict.fromkeys(_SINGLE.split()[:6], _of_single),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"), _mm),
    **dict.fromkeys(("add", "sub", "rsub"), _add),
    "mul": _mul,
    "div": _div,
    "neg": _scaled,
    "pow": _pow,
    "square": _square,
    "diag_embed": _diag_embed,
    **dict.fromkeys(("diagonal", "trace"), _diagonal),
    **dict.fromkeys(("tril", "triu"), _triangle),
    **dict.fromkeys(("zeros", "ones", "full", "new_zeros", "new_ones", "new_full"), _filled),
    "eye": _eye,
    "convolution": _convolution,
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **{f"_adaptive_avg_pool{n}d": _adaptive for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    **{f"upsample_nearest{n}d": _upsample for n in (1, 2, 3)},
    "slice": _slice,
    "cat": _cat,
    "constant_pad_nd": _pad,
}


def _log(number: float) -> float | None:
    return math.log(number) if number > 0 else None


def _exp(number: float) -> float | None:
    return math.exp(number) if number < 700 else None


_OF_NUMBERS: dict[str, Callable[[float], float | None]] = {
    "log": _log,
    "exp": _exp,
    "relu": lambda x: max(x, 0.0),
    "sqrt": lambda x: x**0.5 if x >= 0 else None,
    "abs": abs,
}
