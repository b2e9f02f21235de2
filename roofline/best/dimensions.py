"""Dimensions of each value of a program, as atoms of `solkit.roofline.best.axes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from solkit.ops import Family, operator
from solkit.roofline.best.axes import Axes, Dim, Dims, MismatchError
from solkit.roofline.best.graph import Graph, Node, Ref

SAME = frozenset(
    "_softmax _safe_softmax _log_softmax softmax log_softmax cumsum cumprod logcumsumexp flip tril "
    "triu clone detach alias lift_fresh _to_copy contiguous roll".split()
)
REDUCTIONS = frozenset(
    "sum mean amax amin logsumexp prod var std norm linalg_vector_norm any all argmax argmin max "
    "min var_mean std_mean median".split()
)
POINTWISE = frozenset("where lerp addcmul addcdiv masked_fill clamp pow threshold gelu".split())


def per_axis(values: Any, axes: int) -> tuple[int, ...]:
    """Return one number per axis of what may be one number for all."""
    numbers: tuple[int, ...] = (values,) if isinstance(values, int) else tuple(values)
    return numbers * axes if len(numbers) == 1 else numbers


def reduced_dims(node: Node, rank: int) -> tuple[tuple[int, ...], bool]:
    """Return the dimensions that a reduction runs over, and whether they are kept."""
    dim = node.arguments.get("dim")
    keeps = bool(node.arguments.get("keepdim", False))
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank)), keeps
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted(d % rank for d in dims)) if rank else (), keeps


class Dimensions:
    """Dimensions of a graph's values.

    Attributes:
        axes: the atoms.
        opaque: numbers of nodes whose sizes stay as traced.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.axes = graph, Axes()
        self._dims: dict[int, Dims] = {}
        self.opaque: set[int] = set()
        for value in graph.inputs:
            self._dims[value] = tuple(map(self.axes.dim, graph.values[value].shape))
        for number, node in enumerate(graph.nodes):
            self._add(number, node)

    def of(self, value: int) -> Dims:
        """Return the dimensions of a value in today's finest atoms."""
        return tuple(map(self.axes.resolved, self._dims[value]))

    def _add(self, number: int, node: Node) -> None:
        dims: Dims | None = None
        rule = _RULES.get(node.op) or _rule_of(node)
        if rule is not None:
            try:
                dims = rule(self, node)
            except (MismatchError, KeyError, IndexError, TypeError):
                dims = None
        outputs = [v for v in node.outputs if v is not None]
        for place, value in enumerate(outputs):
            shape = self.graph.values[value].shape
            if dims is not None and tuple(map(self.axes.size, dims)) == shape:
                self._dims[value] = dims
                continue
            if place and rule is _batch_norm:
                channels: Dims = (self.of(node.inputs[0])[1],)
                if tuple(map(self.axes.size, channels)) == shape:
                    self._dims[value] = channels
                    continue
            if place and dims is not None:  # a second result, which few read
                self._dims[value] = tuple(map(self.axes.dim, shape))
                self.axes.fix(*self._dims[value])
                continue
            self._keep_as_traced(number, node, value)

    def _keep_as_traced(self, number: int, node: Node, value: int) -> None:
        self.opaque.add(number)
        for operand in node.inputs:
            self.axes.fix(*self._dims[operand])
        self._dims[value] = tuple(map(self.axes.dim, self.graph.values[value].shape))
        self.axes.fix(*self._dims[value])

    # ---------------------------------------------------------------------------- for rules

    def dims(self, argument: Any) -> Dims:
        """Return the dimensions of a tensor argument."""
        return self.of(argument.value)

    def shape(self, node: Node) -> tuple[int, ...]:
        """Return the shape of a node's first result."""
        value = next(v for v in node.outputs if v is not None)
        return self.graph.values[value].shape

    def broadcast(self, operands: Sequence[Dims], shape: Sequence[int]) -> Dims:
        """Tie operands as broadcasting does; return the dimensions of the result."""
        result: list[Dim] = []
        for place in range(-len(shape), 0):
            dim: Dim = ()
            for dims in operands:
                if len(dims) < -place or not dims[place]:
                    continue
                if dim:
                    self.axes.tie(dim, dims[place])
                dim = dim or dims[place]
            result.append(dim if dim or shape[place] == 1 else self.axes.dim(shape[place]))
        return tuple(result)


_Rule = Callable[[Dimensions, Node], "Dims | None"]


def _rule_of(node: Node) -> _Rule | None:
    if node.op in SAME:
        return _same
    if node.op in REDUCTIONS and ("dim" in node.arguments or len(node.inputs) == 1):
        return _reduce
    family = operator(f"aten.{node.op}").family
    if family is Family.POINTWISE or node.op in POINTWISE:
        return _pointwise
    return None


def _same(dims: Dimensions, node: Node) -> Dims:
    return dims.of(node.inputs[0])


def _reduce(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    gone, keeps = reduced_dims(node, len(own))
    return tuple(() if d in gone else dim for d, dim in enumerate(own) if keeps or d not in gone)


def _pointwise(dims: Dimensions, node: Node) -> Dims:
    return dims.broadcast([dims.of(v) for v in node.inputs], dims.shape(node))


def _view(dims: Dimensions, node: Node) -> Dims | None:
    return dims.axes.regrouped(dims.of(node.inputs[0]), dims.shape(node))


def _transpose(dims: Dimensions, node: Node) -> Dims:
    own = list(dims.of(node.inputs[0]))
    if node.op == "t":
        return tuple(own[::-1])
    one, other = node.arguments["dim0"], node.arguments["dim1"]
    own[one], own[other] = own[other], own[one]
    return tuple(own)


def _permute(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    return tuple(own[d] for d in node.arguments["dims"])


def _unsqueeze(dims: Dimensions, node: Node) -> Dims:
    own = list(dims.of(node.inputs[0]))
    own.insert(node.arguments["dim"] % (len(own) + 1), ())
    return tuple(own)


def _squeeze(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    dim = node.arguments.get("dim", tuple(range(len(own))))
    chosen = {d % len(own) for d in ((dim,) if isinstance(dim, int) else dim)} if own else set()
    return tuple(d for place, d in enumerate(own) if d or place not in chosen)


def _expand(dims: Dimensions, node: Node) -> Dims:
    return dims.broadcast([dims.of(node.inputs[0])], dims.shape(node))


def _mm(dims: Dimensions, node: Node) -> Dims:
    one, other = (dims.of(v) for v in node.inputs[-2:])
    place = -1 if len(other) == 1 else -2
    dims.axes.tie(one[-1], other[place])
    batch: Dims = ()
    if node.op in ("bmm", "baddbmm"):
        dims.axes.tie(one[0], other[0])
        batch = (one[0] or other[0],)
    own = (*batch, *one[len(batch) : -1], *(() if len(other) == 1 else (other[-1],)))
    if len(node.inputs) == 3:
        return dims.broadcast([own, dims.of(node.inputs[0])], dims.shape(node))
    return own


def _convolution(dims: Dimensions, node: Node) -> Dims:
    arguments, axes = node.arguments, dims.axes
    x, weight = dims.dims(arguments["input"]), dims.dims(arguments["weight"])
    count = len(weight) - 2
    stride, pad, dilation, extra = (
        per_axis(arguments[name], count)
        for name in ("stride", "padding", "dilation", "output_padding")
    )
    groups, transposed = arguments["groups"], arguments["transposed"]
    if len(x) != len(weight):
        return _missing()
    channels_in, channels_out = (weight[0], weight[1]) if transposed else (weight[1], weight[0])
    if groups == 1:
        axes.tie(x[1], channels_in)
        out_channels = channels_out
    else:
        grouped = axes.regrouped([x[1]], (groups, axes.size(x[1]) // groups))
        whole = channels_in if transposed else channels_out
        parts = axes.regrouped([whole], (groups, axes.size(whole) // groups))
        if grouped is None or parts is None:
            return _missing()
        axes.tie(grouped[0], parts[0])
        if axes.size(axes.resolved(x[1])) != groups:
            axes.fix(grouped[0])
        if transposed:
            axes.tie(grouped[1], parts[1])
            out_channels = (*grouped[0], *channels_out)
        else:
            axes.tie(grouped[1], channels_in)
            out_channels = (*grouped[0], *parts[1])
    if isinstance(bias := arguments.get("bias"), Ref):
        axes.tie(dims.dims(bias)[0], out_channels)
    out = [x[0], axes.resolved(out_channels)]
    for axis in range(count):
        place, size = axis + 2, dims.shape(node)[axis + 2]
        steps = stride[axis], pad[axis], dilation[axis], extra[axis]
        axes.fix(weight[place])
        if not weight[place] and steps == (1, 0, steps[2], 0):
            out.append(x[place])
            continue
        out.append(_slid(axes, x[place], axes.size(weight[place]), steps, size, transposed))
    return tuple(out)


def _slid(
    axes: Axes, x: Dim, taps: int, steps: tuple[int, int, int, int], size: int, transposed: bool
) -> Dim:
    """Return the dimension over which a window of `taps` slides."""
    stride, pad, dilation, extra = steps
    result = axes.dim(size)
    axes.fix(x[1:])

    def windows(n: int) -> int:
        return (n + 2 * pad - dilation * (taps - 1) - 1) // stride + 1

    def spread(n: int) -> int:
        return (n - 1) * stride - 2 * pad + dilation * (taps - 1) + 1 + extra

    axes.derive(result, spread if transposed else windows, x)
    return result


def _missing() -> Dims:
    raise MismatchError


def _pool(dims: Dimensions, node: Node) -> Dims:
    axes, arguments = dims.axes, node.arguments
    count = int(node.op.removeprefix("avg_pool")[0])
    own, shape = list(dims.of(node.inputs[0])), dims.shape(node)
    window = per_axis(arguments["kernel_size"], count)
    stride = per_axis(arguments.get("stride") or window, count)
    pad = per_axis(arguments.get("padding", 0), count)
    if arguments.get("ceil_mode") or (any(pad) and not arguments.get("count_include_pad", True)):
        return _missing()
    for axis in range(count):
        place = axis - count
        if (window[axis], stride[axis], pad[axis]) == (1, 1, 0):
            continue
        if window[axis] == stride[axis] and not pad[axis]:
            parts = axes.regrouped([own[place]], (shape[place], window[axis]))
            if parts is not None and axes.size(own[place]) == shape[place] * window[axis]:
                axes.fix(parts[1])
                own[place] = parts[0]
                continue
        steps = stride[axis], pad[axis], 1, 0
        own[place] = _slid(axes, own[place], window[axis], steps, shape[place], False)
    return tuple(own)


def _adaptive(dims: Dimensions, node: Node) -> Dims:
    count = int(node.op.rstrip("d")[-1])
    if any(n != 1 for n in per_axis(node.arguments["output_size"], count)):
        return _missing()
    own = dims.of(node.inputs[0])
    return (*own[:-count], *((),) * count)


def _upsample(dims: Dimensions, node: Node) -> Dims:
    own, shape = dims.of(node.inputs[0]), dims.shape(node)
    out = list(own[:2])
    for dim, size in zip(own[2:], shape[2:]):
        have = dims.axes.size(dim)
        if size % have:
            return _missing()
        factor = dims.axes.dim(size // have)
        dims.axes.fix(factor)
        out.append((*dim, *factor))
    return tuple(out)


def _slice(dims: Dimensions, node: Node) -> Dims:
    own, shape = list(dims.of(node.inputs[0])), dims.shape(node)
    place = node.arguments.get("dim", 0) % len(own)
    if dims.axes.size(own[place]) == shape[place]:
        return tuple(own)
    dims.axes.fix(own[place])
    own[place] = dims.axes.dim(shape[place])
    dims.axes.fix(own[place])
    return tuple(own)


def _pad(dims: Dimensions, node: Node) -> Dims:
    own, shape = list(dims.of(node.inputs[0])), dims.shape(node)
    pads = node.arguments["pad"]
    for axis in range(len(pads) // 2):
        before, after = pads[2 * axis], pads[2 * axis + 1]
        if not (before or after):
            continue
        place = len(own) - 1 - axis
        dim = own[place]
        dims.axes.fix(dim[1:])
        own[place] = dims.axes.dim(shape[place])
        total = before + after
        dims.axes.derive(own[place], lambda n, total=total: n + total, dim)
    return tuple(own)


def _diag_embed(dims: Dimensions, node: Node) -> Dims:
    arguments = node.arguments
    if (arguments.get("offset", 0), arguments.get("dim1", -2), arguments.get("dim2", -1)) != (
        *(0, -2, -1),
    ):
        return _missing()
    own = dims.of(node.inputs[0])
    return (*own, own[-1])


def _diagonal(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    arguments = node.arguments
    one, other = arguments.get("dim1", 0) % len(own), arguments.get("dim2", 1) % len(own)
    if arguments.get("offset", 0) or dims.axes.size(own[one]) != dims.axes.size(own[other]):
        return _missing()
    dims.axes.tie(own[one], own[other])
    rest = (d for place, d in enumerate(own) if place not in (one, other))
    return (*rest, dims.axes.resolved(own[one]))


def _square(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    dims.axes.tie(own[-1], own[-2])
    return dims.of(node.inputs[0])


def _trace(dims: Dimensions, node: Node) -> Dims:
    _square(dims, node)
    return ()


def _determinant(dims: Dimensions, node: Node) -> Dims:
    _square(dims, node)
    return dims.of(node.inputs[0])[:-2]


def _solve(dims: Dimensions, node: Node) -> Dims:
    matrix, other = (dims.of(v) for v in node.inputs[:2])
    dims.axes.tie(matrix[-1], matrix[-2])
    if len(other) != len(matrix) or not node.arguments.get("left", True):
        return _missing()
    for one, two in zip(matrix[:-1], other[:-1]):
        dims.axes.tie(one, two)
    return dims.of(node.inputs[1])


def _filled(dims: Dimensions, node: Node) -> Dims:
    return tuple(map(dims.axes.dim, dims.shape(node)))


def _eye(dims: Dimensions, node: Node) -> Dims:
    rows, columns = dims.shape(node)
    if rows != columns:
        return _missing()
    dim = dims.axes.dim(rows)
    return (dim, dim)


def _cat(dims: Dimensions, node: Node) -> Dims:
    parts = [dims.of(v) for v in node.inputs]
    result = list(parts[0])
    place = node.arguments.get("dim", 0) % len(result)
    for part in parts[1:]:
        for axis, dim in enumerate(part):
            if axis != place:
                dims.axes.tie(dim, result[axis])
    joined = dims.axes.dim(dims.shape(node)[place])
    dims.axes.derive(joined, _total, *(part[place] for part in parts))
    result[place] = joined
    return tuple(result)


def _total(*sizes: int) -> int:
    return sum(sizes)


def _select(dims: Dimensions, node: Node) -> Dims:
    own = list(dims.of(node.inputs[0]))
    place = node.arguments.get("dim", 0) % len(own)
    dims.axes.fix(own.pop(place))
    return tuple(own)


def _max_pool(dims: Dimensions, node: Node) -> Dims:
    arguments, own = node.arguments, list(dims.of(node.inputs[0]))
    count = int(node.op.removeprefix("max_pool")[0])
    window = per_axis(arguments["kernel_size"], count)
    stride = per_axis(arguments.get("stride") or window, count)
    pad, dilation = (
        per_axis(arguments.get(name, default), count)
        for name, default in (("padding", 0), ("dilation", 1))
    )
    if arguments.get("ceil_mode"):
        return _missing()
    for axis in range(count):
        place = axis - count
        steps = stride[axis], pad[axis], dilation[axis], 0
        size = dims.shape(node)[place]
        own[place] = _slid(dims.axes, own[place], window[axis], steps, size, False)
    return tuple(own)


def _group_norm(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    for value in node.inputs[1:]:
        dims.axes.tie(own[1], dims.of(value)[0])
    dims.axes.fix(own[1])
    return dims.of(node.inputs[0])


def _batch_norm(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    for value in node.inputs[1:]:
        dims.axes.tie(own[1], dims.of(value)[0])
    return dims.of(node.inputs[0])


def _layer_norm(dims: Dimensions, node: Node) -> Dims:
    own = dims.of(node.inputs[0])
    for value in node.inputs[1:]:
        for one, other in zip(reversed(own), reversed(dims.of(value))):
            dims.axes.tie(one, other)
    return dims.of(node.inputs[0])


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("view", "_unsafe_view", "reshape"), _view),
    **dict.fromkeys(("t", "transpose"), _transpose),
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"), _mm),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **{f"_adaptive_avg_pool{n}d": _adaptive for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    **{f"upsample_nearest{n}d": _upsample for n in (1, 2, 3)},
    **dict.fromkeys(("zeros", "ones", "full", "new_zeros", "new_ones", "new_full"), _filled),
    **dict.fromkeys(("linalg_inv_ex", "linalg_inv", "inverse"), _square),
    **dict.fromkeys(("_linalg_slogdet", "_linalg_det", "linalg_slogdet"), _determinant),
    "permute": _permute,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "convolution": _convolution,
    "slice": _slice,
    "constant_pad_nd": _pad,
    "diag_embed": _diag_embed,
    "diagonal": _diagonal,
    "trace": _trace,
    "linalg_solve": _solve,
    "eye": _eye,
    "cat": _cat,
    "select": _select,
    **{f"max_pool{n}d_with_indices": _max_pool for n in (2, 3)},
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "native_layer_norm": _layer_norm,
}
