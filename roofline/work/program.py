"""Program of a reference, as a list of ATen ops over storages.

A dispatch mode sees every op of a reference that runs on fake tensors: no data, no GPU, and a
10 GB problem costs nothing. Attention (`fake_cuda` makes it one op) and recurrent layers (a
function mode takes them) are kept whole, since what they cost follows from their arguments.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch.library and the dispatch modes are untyped)

from __future__ import annotations

import contextlib
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch._library.custom_ops import OPDEFS
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from solkit.adapters.dispatch_modes import is_view
from solkit.adapters.fake_cuda import (
    choosing_branches,
    drawn_elements,
    has_tensors,
    known_value,
    report_guess,
    taken_apart,
    user_line,
)
from solkit.adapters.launch_watchers import watching_launches
from solkit.ops import Family, Operator, operator

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Elements of a tensor that matter: as many dimensions, each of full size or of size 1."""


@dataclass(frozen=True)
class Zeros:
    """Elements of a storage that are zero.

    Attributes:
        bits: element ``e`` is zero where ``bits[e // block % len(bits)]``.
        block: so many elements lie together of which all are zero or none.
        extent: elements of the storage.
    """

    bits: Mask
    block: int
    extent: int


@dataclass(frozen=True)
class Sample:
    """Elements of a storage, as if drawn from it.

    Attributes:
        values: in fp64, int64 or bool.
        errors: of each, for an error of products that is one part of what they sum.
    """

    values: torch.Tensor
    errors: torch.Tensor

    @property
    def mean_square(self) -> float:
        """Mean square of the values."""
        return float(self.values.double().square().mean())

    @property
    def error_square(self) -> float:
        """Mean square of the errors."""
        return float(self.errors.square().mean())

    def of_region(self, use: TensorUse) -> Sample:
        """Return the sample of a view of the storage, independent of that of other views."""
        places = hash((use.offset, use.stride)) % self.values.numel()
        return Sample(self.values.roll(places), self.errors.roll(places))


@dataclass(frozen=True)
class TensorUse:
    """A tensor as one op sees it: a strided region of a storage.

    Attributes:
        storage: which storage; numbered in the order of first sight.
        shape, stride: in elements.
        offset: of the first element, in elements.
        dtype: of the elements.
        value: the data, if known.
        mask: which elements matter: broadcasts to `shape`; ``None`` if all do.
        sure: whether it is known which elements matter; if not, `shape` only says how many.
        origin: the narrower dtype that held the values before they were converted and scaled.
        values: the number of different elements, at the most; ``None`` if no copies are known.
        groups: neighbours along each dimension that are the same; ``None`` if no copies are known.
        periods: elements along each dimension after which they begin again; infinite if they do
            not, ``None`` if no copies are known.
        choices: of integers, the number of different values, at the most; ``None`` if unknown.
    """

    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    value: npt.NDArray[Any] | None = field(default=None, compare=False, repr=False)
    mask: Mask | None = field(default=None, compare=False, repr=False)
    sure: bool = True
    values: int | None = field(default=None, compare=False)
    groups: tuple[float, ...] | None = field(default=None, compare=False)
    periods: tuple[float, ...] | None = field(default=None, compare=False)
    choices: int | None = field(default=None, compare=False)
    origin: torch.dtype | None = field(default=None, compare=False)

    @property
    def numel(self) -> int:
        """Elements as the op sees them, repeats included."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the distinct elements that matter."""
        return self.distinct * self.dtype.itemsize

    @property
    def distinct(self) -> int:
        """Elements that matter, without copies of others and repeats of expanded dimensions."""
        distinct = self._distinct
        return distinct if self.values is None else min(distinct, self.values)

    @functools.cached_property  # thousands of ops may ask of the same thousands of uses
    def _distinct(self) -> int:
        dims = [(n, step != 0) for n, step in zip(self.shape, self.stride)]
        if self.mask is None:
            return math.prod(n for n, moves in dims if moves)
        mask = self.mask.any(axis=tuple(d for d, (_, moves) in enumerate(dims) if not moves))
        repeats = (n for (n, moves), size in zip(dims, self.mask.shape) if moves and size == 1)
        return int(np.count_nonzero(mask)) * math.prod(repeats)


@dataclass(frozen=True)
class TracedOp:
    """One op of a program.

    Attributes:
        name: namespace and packet, e.g. ``"aten.mm"``.
        args, kwargs: as called, tensors replaced by `TensorUse`.
        inputs: tensors whose contents it reads.
        outputs: tensors that it makes.
        written: tensors that it writes in place.
        tags: torch's tags of the op.
        arguments: its arguments by schema name.
        line: ``file:line`` of the user's code that called it.
        is_symmetric: whether its result is known to equal its own transpose.
        admitted: the largest error of its products, relative to what they sum, that the file's
            tolerance admits by what is known of the results; 0 if that is nothing.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[TensorUse, ...]
    outputs: tuple[TensorUse, ...]
    written: tuple[TensorUse, ...] = ()
    tags: tuple[torch.Tag, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""
    is_symmetric: bool = False
    admitted: float = 0.0

    @property
    def operator(self) -> Operator:
        """Record of its operator; nothing is known of one without."""
        return operator(self.name)

    @property
    def is_elementwise(self) -> bool:
        """Tell if each element of its result depends on the operands' elements in its place."""
        return torch.Tag.pointwise in self.tags or self.operator.aligned

    @property
    def stored(self) -> tuple[TensorUse, ...]:
        """Tensors that it makes, then those that it writes."""
        return self.outputs + self.written

    @property
    def result(self) -> TensorUse:
        """The first tensor that it makes or writes."""
        return self.stored[0]

    def mapped(self, function: Callable[[Any], Any]) -> TracedOp:
        """Apply `function` to each use of the op once: rules compare uses by identity."""
        done: dict[int, Any] = {}

        def once(leaf: Any) -> Any:
            if id(leaf) not in done:
                done[id(leaf)] = function(leaf)
            return done[id(leaf)]

        return replace(
            self,
            args=map_leaves(once, self.args),
            kwargs=map_leaves(once, self.kwargs),
            arguments=map_leaves(once, self.arguments),
            inputs=tuple(map(once, self.inputs)),
            outputs=tuple(map(once, self.outputs)),
            written=tuple(map(once, self.written)),
        )


@dataclass(frozen=True)
class Program:
    """A traced reference.

    Attributes:
        ops: in program order; views are folded into the uses.
        results: the output tensors.
        constants: storages that the program holds itself, such as of ``torch.tensor([1, 2])``, or
            of which nothing that was computed is needed.
        arguments: storages of the arguments that vary from call to call; ``None`` if unknown. All
            others that the program reads and does not make, such as a module's weights, are known
            before it is called.
        sparse: storages of arguments that may hold zeros by the way they are made.
        apart: storages of arguments that no other argument tells anything about.
        one_sign: storages of arguments whose values are not known to have both signs.
        ordered: storages of arguments that a sort or a running sum made.
        ranges: the least and the largest value of arguments, by the way they are drawn.
        zeros: zeros of arguments by the way they are made, and of constants.
        symmetric: storages of arguments that are symmetric by the way they are made.
        repeated: storages of arguments of which elements are copies of others.
        samples: of arguments, by the way they are drawn.
        ahead: ops that follow from the program alone, where their results are too large to compute.
        truths: by storage, tensors of truths whose contents were not known when an op met them.
    """

    ops: tuple[TracedOp, ...]
    results: tuple[TensorUse, ...]
    constants: frozenset[int] = frozenset()
    arguments: frozenset[int] | None = None
    sparse: frozenset[int] = frozenset()
    apart: tuple[int, ...] = ()
    one_sign: frozenset[int] = frozenset()
    ordered: frozenset[int] = frozenset()
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    zeros: Mapping[int, Zeros] = field(default_factory=dict)
    symmetric: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    samples: Mapping[int, Sample] = field(default_factory=dict)
    ahead: tuple[TracedOp, ...] = ()
    truths: Mapping[int, torch.Tensor] = field(default_factory=dict)


RESULT = -1
"""Position, among those of ops, of the results of a program."""


def makers_of(ops: Sequence[TracedOp]) -> dict[int, list[int]]:
    """Return the positions of the ops that make or write each storage, in order."""
    makers: dict[int, list[int]] = defaultdict(list)
    for position, op in enumerate(ops):
        for use in op.stored:
            makers[use.storage].append(position)
    return makers


def readers_of(
    ops: Sequence[TracedOp], results: Sequence[TensorUse], *, or_writers: bool = False
) -> dict[int, list[int]]:
    """Return the positions of the ops that read each storage, in order, behind `RESULT`.

    Args:
        ops: of a program.
        results: of the program.
        or_writers: whether ops that only write a storage in place count as well.
    """
    readers: dict[int, list[int]] = defaultdict(list)
    for storage in {use.storage for use in results}:
        readers[storage].append(RESULT)
    for position, op in enumerate(ops):
        for storage in {use.storage for use in (*op.inputs, *(op.written if or_writers else ()))}:
            readers[storage].append(position)
    return readers


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `function` to each argument; torch's `tree_map` takes three times as long."""
    if isinstance(tree, (list, tuple)):
        mapped = [map_leaves(function, item) for item in tree]
        return mapped if isinstance(tree, list) else tuple(mapped)
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, item) for key, item in tree.items()}
    return function(tree)


def _leaves(tree: Any) -> Iterator[Any]:
    """Yield all leaves of nested lists, tuples and mappings."""
    if isinstance(tree, (list, tuple, Mapping)):
        for item in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _leaves(item)
    else:
        yield tree


@dataclass(frozen=True)
class Drawn:
    """Arguments of a reference, as they are made.

    Attributes:
        unknown: those of which a kernel knows no part before the call.
        sparse: those that may hold zeros by the way they are made.
        apart: those that vary from call to call, and of which no other argument tells anything.
        mixed: those that hold values of both signs; ``None`` if all do.
        ordered: those that a sort or a running sum made.
        ranges: arguments with their least and largest value, by the way they are drawn.
        zeros: arguments with the zeros that they have by the way they are made.
        symmetric: those that are symmetric by the way they are made.
        repeated: those of which elements are copies of others by the way they are made.
        samples: arguments with samples of their elements, by the way they are drawn.
    """

    unknown: Sequence[torch.Tensor] = ()
    sparse: Sequence[torch.Tensor] = ()
    apart: Sequence[torch.Tensor] = ()
    mixed: Sequence[torch.Tensor] | None = None
    ordered: Sequence[torch.Tensor] = ()
    ranges: Sequence[tuple[torch.Tensor, tuple[float, float]]] = ()
    zeros: Sequence[tuple[torch.Tensor, Zeros]] = ()
    symmetric: Sequence[torch.Tensor] = ()
    repeated: Sequence[torch.Tensor] = ()
    samples: Sequence[tuple[torch.Tensor, Sample]] = ()


class State(Protocol):
    """State of a reference before a call: see `solkit.analysis.call_state`."""

    def has_changed(self) -> bool:
        """Tell whether the reference holds something else now."""

    def restore_inputs(self) -> None:
        """Give its inputs the contents that they had."""


def trace(
    run: Callable[[], list[torch.Tensor]],
    size: Callable[[Any], int] = int,
    arguments: Drawn | None = None,
    state: State | None = None,
) -> Program:
    """Run a reference on fake tensors and record what it does.

    Args:
        run: calls the reference, returns its output tensors.
        size: makes an integer of a size, which may be symbolic.
        arguments: how they are made (`solkit.roofline.work.inputs`); ``None`` if unknown.
        state: of the reference before the call. If a call leaves any, a later one is the program,
            and what the first one makes of nothing is the program's own. ``None`` traces the first.
    """
    recorder = Recorder(size)
    with _recording(recorder):
        results = run()
    if state is not None and (recorder.leaves_state(results) or state.has_changed()):
        del results
        recorder.starts_here()
        state.restore_inputs()
        with _recording(recorder):
            results = run()
    outputs = tuple(recorder.use(t) for t in results)
    drawn = arguments or Drawn()
    varying = None if arguments is None else recorder.storages_of(drawn.unknown)
    one_sign: frozenset[int] = frozenset()
    if drawn.mixed is not None:
        one_sign = (varying or frozenset()) - recorder.storages_of(drawn.mixed)
    return Program(
        tuple(recorder.ops),
        outputs,
        frozenset(recorder.constants),
        varying,
        recorder.storages_of(drawn.sparse),
        tuple(recorder.use(tensor).storage for tensor in drawn.apart),
        one_sign,
        recorder.storages_of(drawn.ordered),
        {recorder.use(t).storage: limits for t, limits in drawn.ranges},
        {recorder.use(t).storage: zeros for t, zeros in drawn.zeros},
        recorder.storages_of(drawn.symmetric),
        recorder.storages_of(drawn.repeated),
        {recorder.use(t).storage: sample for t, sample in drawn.samples},
        truths=recorder.truths,
    )


@contextlib.contextmanager
def _recording(recorder: Recorder) -> Iterator[None]:
    """Record ops, layers taken whole, and kernels that the reference launches itself."""
    with (
        choosing_branches(recorder.cheapest_of),
        watching_launches(recorder.add_launch),
        _WholeLayers(recorder),
        recorder,
    ):
        yield


class Recorder(TorchDispatchMode):
    """Records each op with the storages it reads and writes."""

    supports_higher_order_operators = True

    def __init__(self, size: Callable[[Any], int] = int) -> None:
        super().__init__()
        self.size = size
        self.ops: list[TracedOp] = []
        self.constants: set[int] = set()
        self.truths: dict[int, torch.Tensor] = {}
        self._storages: dict[int, tuple[int, torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._whole(func, args, kwargs)
        if (parts := taken_apart(self, func, args, kwargs)) is not NotImplemented:
            return parts
        if func.namespace == "prim":  # asks for a device or a layout
            return func(*args, **kwargs)
        if is_view(func):  # its region is in the uses of what reads it
            return self._view(func, args, kwargs)
        if func in _SIZED:
            for mask in filter(_is_unknown_mask, _leaves((args, kwargs))):
                if drawn_elements(mask) is not None:  # known from here on
                    report_guess(_DRAWN_SIZE)
        before = self.frozen((args, kwargs))
        if (out := self._inside(func, args, kwargs)) is not None:
            return out
        out = func(*args, **kwargs)
        op = self.traced(func, before, out)
        if op is not None:
            self.ops += _averages_apart(op) if op.operator.averages else [op]
        return out

    def _whole(self, func: HigherOrderOperator, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Record an operator that calls functions or has code in another language, as one op."""
        before = self.frozen((args, kwargs))
        out = func(*args, **kwargs)
        inputs = tuple(uses_of(before))
        read = {use.storage for use in inputs}
        results = [self.use(t) for t in _leaves(out) if isinstance(t, torch.Tensor)]
        op = TracedOp(
            name=func.name(),
            args=before[0],
            kwargs=before[1],
            inputs=inputs,
            outputs=tuple(use for use in results if use.storage not in read),
            written=(),
            tags=(),
            arguments=before[1],
            line=user_line(),
        )
        self.ops.append(op)
        return out

    def _inside(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Record the inside of a `torch.library.custom_op` that is written in torch.

        Returns:
            Its result; ``None`` of other ops, and if something else makes its results.
        """
        kernel = _kernel_of(func)
        if kernel is None:
            return None
        start = len(self.ops)
        with self:
            out = kernel(*args, **kwargs)
        inside = [op for op in self.ops[start:] if op.operator.launches]
        makes = {use.storage for op in inside for use in op.stored}
        results = [self.use(t) for t in _leaves(out) if isinstance(t, torch.Tensor)]
        written, _ = _written(func, *self.frozen((args, kwargs)))
        if {use.storage for use in (*results, *written)} <= makes:
            return out
        del self.ops[start:]
        return None

    def cheapest_of(self, branches: Sequence[Callable[[], Any]]) -> tuple[Any, str]:
        """Run branches and keep the ops of the cheapest one alone.

        Returns:
            Its result, and what the branches cost, in words.
        """
        start = len(self.ops)
        runs = []
        for branch in branches:
            result = branch()
            runs.append((result, self.ops[start:]))
            del self.ops[start:]
        costs = [_rough_cost(ops) for _, ops in runs]
        result, ops = runs[costs.index(min(costs))]
        self.ops += ops
        words = [
            f"{work / 1e9:.3g} G operations and {size / 1e6:.3g} MB" for _, work, size in costs
        ]
        return result, " or ".join(words)

    def leaves_state(self, results: Sequence[torch.Tensor]) -> bool:
        """Tell whether tensors outlive the ops, other than results, or older ones were written."""
        returned = {self._number(tensor) for tensor in results}
        created = {use.storage for op in self.ops for use in op.outputs}
        if any(use.storage not in created for op in self.ops for use in op.written):
            return True
        return any(
            number in created - returned and has_tensors(storage)
            for number, storage in self._storages.values()
        )

    def starts_here(self) -> None:
        """Leave out what was recorded so far; what it made of constants alone is one."""
        for op in self.ops:
            if all(use.storage in self.constants for use in op.inputs):
                self.constants |= {use.storage for use in op.outputs}
            elif op.written:
                self.constants -= {use.storage for use in op.written}
        self.ops.clear()

    def use(self, tensor: torch.Tensor) -> TensorUse:
        """Return the region of its storage that a tensor covers."""
        value, storage = known_value(tensor), self._number(tensor)
        if value is None and tensor.dtype is torch.bool:
            self.truths.setdefault(storage, tensor)
        return TensorUse(
            storage=storage,
            shape=tuple(map(self.size, tensor.shape)),
            stride=tuple(map(self.size, tensor.stride())),
            offset=self.size(tensor.storage_offset()),
            dtype=tensor.dtype,
            value=value,
        )

    def _number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's storage."""
        storage = tensor.untyped_storage()
        # Holding on to the storage keeps its address from being used for another one.
        number, _ = self._storages.setdefault(storage._cdata, (len(self._storages), storage))
        if not isinstance(tensor, FakeTensor):  # every input is fake
            self.constants.add(number)
        return number

    def storages_of(self, tensors: Sequence[torch.Tensor]) -> frozenset[int]:
        """Return the storages of fake tensors."""
        return frozenset(self.use(t).storage for t in tensors if isinstance(t, FakeTensor))

    def add(self, name: str, arguments: Mapping[str, Any], outputs: list[torch.Tensor]) -> None:
        """Record an op that was taken whole."""
        frozen = self.frozen(dict(arguments))
        self.ops.append(
            TracedOp(
                name=name,
                args=(),
                kwargs=frozen,
                inputs=tuple(uses_of(frozen)),
                outputs=tuple(self.use(t) for t in outputs),
                arguments=frozen,
                line=user_line(),
            )
        )

    def add_launch(
        self,
        kernel: str,
        tensors: Mapping[str, torch.Tensor],
        written: Set[str],
        read_back: Set[str],
    ) -> None:
        """Record a launch of a kernel, whose operations are not known."""
        uses = {name: self.use(tensor) for name, tensor in tensors.items()}
        self.ops.append(
            TracedOp(
                name=f"launch.{kernel}",
                args=(),
                kwargs=uses,
                inputs=tuple(
                    use for name, use in uses.items() if name not in written or name in read_back
                ),
                outputs=(),
                written=tuple(use for name, use in uses.items() if name in written),
                arguments=uses,
                line=user_line(),
            )
        )

    def frozen(self, tree: Any) -> Any:
        """Replace tensors among the arguments by their uses."""
        return map_leaves(self._frozen, tree)

    def _frozen(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.use(leaf)
        return self.size(leaf) if isinstance(leaf, torch.SymInt) else leaf

    def traced(self, func: Any, before: Any, out: Any) -> TracedOp | None:
        """Return a call as an op; ``None`` if it makes and writes nothing.

        Args:
            func: the ATen op.
            before: its positional and keyword arguments, `frozen` before the call.
            out: what it returned.
        """
        written, unread = _written(func, *before)
        results = [self.use(t) for t in _leaves(out) if isinstance(t, torch.Tensor)]
        fresh = {u.storage for u in results} - {u.storage for u in uses_of(before)}
        if not written and not fresh:
            return None  # it handed an argument back
        if func is _COPY and before[0][0] == before[0][1]:
            return None  # Python ends ``x[i] += y`` by copying x[i] to where it is
        names = [argument.name for argument in func._schema.arguments]
        return TracedOp(
            name=_name(func),
            args=before[0],
            kwargs=before[1],
            inputs=() if operator(_name(func)).reads_shape else _read(before, unread),
            outputs=tuple(u for u in results if u.storage in fresh),
            written=tuple(written),
            tags=tuple(func.tags),
            arguments={**dict(zip(names, before[0])), **before[1]},
            line=user_line(),
        )

    def _view(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Return a view; that of a tensor that is not fake gets the storage of its base."""
        base, *_ = [self._number(t) for t in _leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        out = func(*args, **kwargs)
        for tensor in _leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self._storages.setdefault(storage._cdata, (base, storage))
        return out


_COPY = torch.ops.aten.copy_.default
_SIZED = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.nonzero.default,
)
"""Ops whose results have as many elements as a mask says."""
_DRAWN_SIZE = "a size follows from random numbers drawn on the CPU; a GPU draws others"


def _is_unknown_mask(leaf: Any) -> bool:
    is_mask = isinstance(leaf, torch.Tensor) and leaf.dtype is torch.bool
    return is_mask and known_value(leaf) is None


def _kernel_of(func: Any) -> Callable[..., Any] | None:
    """Return the function that a custom op of the user's runs on a GPU."""
    if not isinstance(func, torch._ops.OpOverload) or operator(_name(func)).cost:
        return None
    definition = OPDEFS.get(func._schema.name)
    if definition is None or func.namespace in ("prims", "torch_attn"):
        return None
    kernels: Mapping[str | None, Any] = definition._backend_fns
    kernel: Callable[..., Any] | None = kernels.get("cuda") or kernels.get(None)
    return kernel or definition._init_fn


def _rough_cost(ops: Sequence[TracedOp]) -> tuple[float, int, int]:
    """Return a weight of ops to compare branches by, and its parts: operations, and bytes.

    Weights are those of today's GPUs: an operation of a product, one of another kind and a byte
    take times of 1 : 16 : 300, more or less.
    """
    from solkit.roofline.work.costs import cost_of  # it is built on this module

    weight, operations, size = 0.0, 0, 0
    for op in ops:
        cost = cost_of(op)
        for key, count in (cost.operations if cost is not None else {}).items():
            weight += count * (1 if key.startswith("contraction.") else 16)
            operations += count
        size += sum(use.bytes for use in (*op.inputs, *op.outputs, *op.written))
    return weight + 300 * size, operations, size


def _name(func: Any) -> str:
    """Namespace and packet of an op."""
    return str(func.overloadpacket).replace("::", ".")


def _read(tree: Any, unread: list[TensorUse]) -> tuple[TensorUse, ...]:
    """Return what is read; a tensor given as ``out=`` too is read where it is an input."""
    return tuple(use for use in uses_of(tree) if not any(use is other for other in unread))


def uses_of(tree: Any) -> list[TensorUse]:
    """Return the tensors among arguments."""
    return [leaf for leaf in _leaves(tree) if isinstance(leaf, TensorUse)]


def _averages_apart(op: TracedOp) -> list[TracedOp]:
    """Split a batch norm in training from the running averages that it moves: no inputs of it.

    Not all schemas say that the averages are written.
    """
    averages = [op.arguments.get(name) for name in ("running_mean", "running_var")]
    moved = [use for use in averages if isinstance(use, TensorUse)]
    if not moved or not op.arguments.get("training", True):
        return [op]
    norm = replace(op, inputs=tuple(u for u in op.inputs if u not in moved), written=())
    tags = (torch.Tag.pointwise,)
    return [norm] + [
        replace(
            op,
            name="aten.lerp_",
            args=(average, batch, op.arguments.get("momentum")),
            kwargs={},
            inputs=(average, batch),
            outputs=(),
            written=(average,),
            tags=tags,
            arguments={"self": average, "end": batch},
        )
        for average, batch in zip(averages, op.outputs[1:])
        if isinstance(average, TensorUse)
    ]


def _written(func: Any, args: Any, kwargs: Any) -> tuple[list[TensorUse], list[TensorUse]]:
    """Return the arguments that an op writes, and those that it only writes."""
    written: list[TensorUse] = []
    unread: list[TensorUse] = []
    overwrites = operator(_name(func)).overwrites
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        uses = uses_of(value)
        written += uses
        if overwrites or argument.kwarg_only:  # `out=` arguments are keyword-only
            unread += uses
    return written, unread


class _WholeLayers(TorchFunctionMode):
    """Takes recurrent layers before they are unrolled: a GRU of 512 steps is 10,000 ops."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        name = getattr(func, "__name__", "")
        is_layer = operator(f"solkit.{name}").family is Family.RECURRENT
        if is_layer and len(args) == 9 and not args[0].is_cuda:
            return self._recurrent(name, *args)
        return func(*args, **(kwargs or {}))

    def _recurrent(self, kind: str, x: Any, hx: Any, weights: Any, *rest: Any) -> Any:
        """``torch.lstm(x, hx, weights, biased, layers, dropout, train, bidirectional, first)``."""
        bidirectional = bool(rest[4])
        state = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        width = state[0].shape[-1] * (2 if bidirectional else 1)
        out = x.new_empty(*x.shape[:-1], width)
        last = [torch.empty_like(h) for h in state]
        arguments = {"input": x, "state": state, "weights": list(weights)}
        arguments |= {"bidirectional": bidirectional, "batch_first": bool(rest[5])}
        arguments |= {"sequences": self._recorder.size(state[0].shape[-2])}
        self._recorder.add(f"solkit.{kind}", arguments, [out, *last])
        return (out, *last)
