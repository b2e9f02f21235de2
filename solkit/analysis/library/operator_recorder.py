"""Records the PyTorch operators of a candidate that runs on fake tensors.

Views, ``empty`` and what only asks about a tensor launch nothing and are left out, like everything
that happens in the host's memory.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch's dispatch modes are untyped)

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import Any

import torch

from solkit.adapters import fake_cuda, fake_triton
from solkit.adapters.dispatch_modes import is_view
from solkit.adapters.recipes import Steps
from solkit.analysis.library.inductor import compiling
from solkit.analysis.library.operator_bytes import accesses
from solkit.analysis.library.sorting import Sorting, sorting_of
from solkit.core import Access
from solkit.ops import Family, operator
from solkit.roofline.work.costs import cost_of
from solkit.roofline.work.program import Recorder, TensorUse, TracedOp, uses_of


@dataclass(frozen=True)
class LibraryOp:
    """One operator of PyTorch, as a kernel of its own.

    Attributes:
        name: as in ATen, e.g. ``"aten.mm"``.
        line: ``file:line`` of the user's code, the file without its folder.
        operations: by kind, as in `solkit.core.OpWork`, but fp32 contractions under the pipe that
            PyTorch's settings choose.
        accesses: what it reads and writes.
        notes: what is not known about it, each a sentence.
        sorting: how it sorts; ``None`` if it is no sort.
    """

    name: str
    line: str
    operations: tuple[tuple[str, int], ...]
    accesses: tuple[Access, ...]
    notes: tuple[str, ...] = ()
    sorting: Sorting | None = None

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Kept: recorded runs look the same operators up thousands of times a second."""
        return hash((self.name, self.line, self.operations, self.accesses))


@dataclass(frozen=True)
class LibraryLaunch:
    """An operator among a candidate's launches.

    Attributes:
        op: the operator.
        after: how many distinct launches of the candidate's own kernels come before its first call.
        count: how often it is called.
    """

    op: LibraryOp
    after: int
    count: int = 1


@dataclass
class LibraryRecording:
    """Record of what was seen between entering and leaving `recording`.

    Attributes:
        launched: the number of distinct launches of other kernels so far.
        counts: how often each operator was called, and `LibraryLaunch.after`.
        written: the most bytes that operators wrote, by storage.
        read: the storages that operators read, and those that the host looked at.
    """

    launched: Callable[[], int]
    counts: dict[LibraryOp, list[int]] = field(default_factory=dict)
    written: Counter[int] = field(default_factory=Counter)
    read: set[int] = field(default_factory=set)

    @property
    def launches(self) -> tuple[LibraryLaunch, ...]:
        """Distinct operators, in the order of first appearance."""
        return tuple(LibraryLaunch(op, *numbers) for op, numbers in self.counts.items())

    def add(self, op: LibraryOp, count: int = 1) -> None:
        """Count calls."""
        self.counts.setdefault(op, [self.launched(), 0])[1] += count

    def touch(self, other: LibraryRecording) -> None:
        """Note what the operators of another recording read and wrote."""
        self.written.update(other.written)
        self.read.update(other.read)


_recordings: list[LibraryRecording] = []  # a stack; the innermost records


@contextlib.contextmanager
def recording(
    launched: Callable[[], int], steps: Steps | None = None
) -> Iterator[LibraryRecording]:
    """Record the operators that are called inside; needs `fake_cuda.fake_tensors`.

    Args:
        launched: the number of distinct launches of other kernels so far.
        steps: of a recorded run: each operator outside of its steps becomes one.
    """
    watch = _Watch(steps)
    with repeating(launched) as seen, watch, fake_triton.inside_custom_ops(watch), compiling():
        yield seen


@contextlib.contextmanager
def recording_operators(launched: Callable[[], int]) -> Iterator[LibraryRecording]:
    """Record the operators that are called inside, which the recording around this leaves out.

    Args:
        launched: as for `recording`.
    """
    with repeating(launched) if _recordings else recording(launched) as seen:
        yield seen


def innermost_recording() -> LibraryRecording | None:
    """Return the innermost recording."""
    return _recordings[-1] if _recordings else None


class repeating:  # noqa: N801 - a context manager; a generator's takes five times as long
    """Record only the operators that repeated steps add.

    Args:
        launched: the number of distinct launches of other kernels so far.
    """

    def __init__(self, launched: Callable[[], int]) -> None:
        self._seen = LibraryRecording(launched)

    def __enter__(self) -> LibraryRecording:
        _recordings.append(self._seen)
        return self._seen

    def __exit__(self, *_: object) -> None:
        _recordings.pop()


def _note_operator(op: LibraryOp) -> None:
    if _recordings:
        _recordings[-1].add(op)


class _Watch(Recorder):
    """Records each operator that launches a kernel."""

    def __init__(self, steps: Steps | None) -> None:
        super().__init__()
        self._steps = steps
        self._on_gpu: set[int] = set()
        self._handles: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (parts := fake_cuda.taken_apart(self, func, args, kwargs)) is not NotImplemented:
            return parts
        if _launches_nothing(func):
            if not _reads_nothing(func):
                self._count_reads(uses_of(self.frozen((args, kwargs))))
            return func(*args, **kwargs)
        before = self.frozen((args, kwargs))
        out = func(*args, **kwargs)
        op = self.traced(func, before, out)
        self._count_reads(op.inputs if op is not None else ())
        if op is not None and (noted := _library_op(op, frozenset(self._on_gpu))):
            self._count_writes(op)
            if self._steps is None or self._steps.is_busy:  # a step that is repeated adds it again
                _note_operator(noted)
            else:
                self._steps.call_bare(partial(_note_operator, noted), ())
        return out

    def _count_writes(self, op: TracedOp) -> None:
        for use in (*op.outputs, *op.written):
            _recordings[-1].written[self._handles[use.storage]] += use.bytes

    def _count_reads(self, uses: Iterable[TensorUse]) -> None:
        _recordings[-1].read.update(self._handles[use.storage] for use in uses)

    def use(self, tensor: torch.Tensor) -> TensorUse:
        """Return the region of its storage that a tensor covers; notes where the storage is."""
        tensor_use = super().use(tensor)
        self._handles[tensor_use.storage] = tensor.untyped_storage()._cdata
        if tensor.is_cuda:
            self._on_gpu.add(tensor_use.storage)
        return tensor_use


@functools.cache
def _launches_nothing(func: Any) -> bool:
    """Tell whether an op is none of ATen's, a view, or only allocates or asks."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace == "prim":
        return True
    name = str(func.overloadpacket).replace("::", ".")
    writes = any(a.alias_info and a.alias_info.is_write for a in func._schema.arguments)
    if is_view(func) and not writes:
        return True
    return not operator(name).launches or fake_triton.is_custom_op(func)


@functools.cache
def _reads_nothing(func: Any) -> bool:
    """Tell if an op that launches nothing does not look at what is in a tensor either."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    looks = operator(str(func.overloadpacket)).looks
    return (func.namespace == "aten" and not looks) or fake_triton.is_custom_op(
        func
    )  # whose own kernel is seen


# ------------------------------------------------------------------------------ one operator


_NAMES = {"solkit.attention": "aten.scaled_dot_product_attention"}
_FP32 = "contraction.fp32"


def _library_op(op: TracedOp, on_gpu: frozenset[int]) -> LibraryOp | None:
    """Return the launch that an op makes; ``None`` if it touches nothing on the GPU."""
    line = _short_user_line(op.line)
    touched = accesses(op, line, on_gpu)
    if not touched:
        return None
    name = _NAMES.get(op.name) or op.name.replace("solkit.", "aten.")
    cost = cost_of(_with_all_pairs(op))
    notes = []
    if cost is None:
        notes.append(f"{name}: its operations are not modelled; its bytes count.")
    uses = (*op.inputs, *op.outputs, *op.written)
    if op.operator.crosses and any(use.storage not in on_gpu for use in uses):
        notes.append(f"{name}: copied from or to the host; only the GPU's side counts.")
    operations = {} if cost is None else _on_pipes(op, cost.operations)
    sorting = sorting_of(op, line)
    return LibraryOp(name, line, tuple(operations.items()), touched, tuple(notes), sorting)


def _with_all_pairs(op: TracedOp) -> TracedOp:
    """Return attention without its mask: no kernel of PyTorch skips keys but for `is_causal`."""
    if op.operator.family is not Family.ATTENTION or "attn_mask" not in op.arguments:
        return op
    return replace(op, arguments={**op.arguments, "attn_mask": None})


def _short_user_line(line: str) -> str:
    """``file:line`` without the folder, which differs between machines."""
    return PurePath(line).name if ":" in line else ""


def _on_pipes(op: TracedOp, operations: Mapping[str, int]) -> dict[str, int]:
    """Count operations as PyTorch runs them: halves in fp32, fp32 products by its settings.

    Sources: aten/src/ATen/OpMathType.h; PyTorch documentation, "CUDA semantics", TensorFloat-32.
    """
    by_pipe: dict[str, int] = {}
    for kind, count in operations.items():
        pipe = "fp32" if kind in ("fp16", "bf16") else kind
        if kind == _FP32:
            pipe = "tensor.tf32" if _allows_tf32(op) else "fp32"
        by_pipe[pipe] = by_pipe.get(pipe, 0) + count
    return by_pipe


def _allows_tf32(op: TracedOp) -> bool:
    if op.operator.family in (Family.CONVOLUTION, Family.RECURRENT):
        return bool(torch.backends.cudnn.allow_tf32)
    return torch.get_float32_matmul_precision() != "highest"
