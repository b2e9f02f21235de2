"""Triton's interpreter: functions that it lacks, and runs that are watched and cut short.

`install` adds what Inductor's kernels call: libdevice, mostly. It lets autotuned functions run with
their first configuration, since nothing can be timed. `watch_launches` bounds the time of a
launch, notes what was written, and refuses accesses outside of the launch's tensors.

Patches are never undone: call it in a throw-away child process with ``TRITON_INTERPRET=1``. Tested
with Triton 3.6 and 3.7.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton import next_power_of_2
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import TensorHandle

_VALUES: Mapping[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in "rsqrt exp exp2 expm1 log1p log2 erf tanh".split()},
    **{name: getattr(torch, name) for name in "sin cos atan2 hypot pow trunc floor ceil".split()},
    **{name: getattr(torch, name) for name in "sqrt log acos asin atan lgamma fmod".split()},
    **{name: getattr(torch, name) for name in "erfc erfinv tan sinh cosh asinh acosh".split()},
    **{name: getattr(torch, name) for name in "atanh log10 fmax fmin copysign".split()},
    "fabs": torch.abs,
    "exp10": lambda x: torch.pow(10.0, x),
    "fast_expf": torch.exp,
    "fast_tanhf": torch.tanh,
    "nearbyint": torch.round,
    "rint": torch.round,
    "fdiv_rn": torch.div,
    "mul_rn": torch.mul,
}
_TESTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "signbit": torch.signbit,
}


def install() -> None:
    """Compute libdevice's floating-point functions with torch, and count with scalars."""
    libraries: tuple[Any, ...] = (libdevice, cuda_libdevice)
    for library in libraries:  # kernels name the common one, or CUDA's itself
        for name, function in _VALUES.items():
            setattr(library, name, _elementwise(function, None))
        for name, function in _TESTS.items():
            setattr(library, name, _elementwise(function, tl.int32))
    triton_helpers.constexpr_next_power_of_2 = next_power_of_2
    _count_with_scalars()
    _take_booleans()
    _patch_once_a_launch()
    _take_first_configs()
    _answer_warm_ups()
    _spare_overflow_checks()
    _remember_dtypes()
    _widen_bfloat16()
    _copy_spread_operands()


def _spare_overflow_checks() -> None:
    """Do not look for integers that overflow: without ``debug`` Triton drops what it found.

    Each sum and product of integers is computed in int64 and compared for that, which took 30 % of
    an interpreter's run.
    """
    builder: Any = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=builder.options.debug)


def _remember_dtypes() -> None:
    """Look up numpy's dtype once for each of Triton's: the interpreter builds a table each time."""
    original, by_name = interpreter._get_np_dtype, dict[str, Any]()
    if getattr(original, "remembers", False):
        return

    def remembered(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in by_name:
            by_name[name] = original(kind)
        return by_name[name]

    remembered.remembers = True  # type: ignore[attr-defined]
    interpreter._get_np_dtype = remembered


class _Compiled:
    """Replaces a compiled kernel: its launches are interpreted, its usage is a small kernel's."""

    n_regs, n_spills, n_max_threads = 32, 0, 1024
    metadata = SimpleNamespace(shared=1024, num_warps=4, num_stages=3, num_ctas=1)

    def __init__(self, function: Any) -> None:
        self._function = function

    def _init_handles(self) -> None: ...

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._function[grid](*args, **kwargs)


def _answer_warm_ups() -> None:
    """Give launchers a kernel from ``fn.warmup(...)``, which asks no interpreter to compile."""
    interpreted: Any = interpreter.InterpretedFunction
    original = interpreted.run
    if getattr(original, "answers", False):
        return

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return _Compiled(self)
        return original(self, *args, grid=grid, warmup=warmup, **kwargs)

    run.answers = True  # type: ignore[attr-defined]
    interpreted.run = run


def _take_first_configs() -> None:
    """Let `triton.autotune` take the first configuration that it would time, without timing any."""
    tuner: Any = Autotuner
    tuner._bench = lambda *_args, **_kwargs: [0.0]


def _count_with_scalars() -> None:
    """Let scalars bound loops with numpy 2.4 and later, as Triton 3.7 does itself.

    The interpreter's scalars are arrays of one element, which `int` refuses since then.
    """
    original = interpreter._patch_lang_tensor
    if getattr(original, "counts", False):
        return

    def patched(tensor: Any, *scope: Any) -> None:
        original(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    patched.counts = True  # type: ignore[attr-defined]
    interpreter._patch_lang_tensor = patched


def _take_booleans() -> None:
    """Take ``True`` and ``False`` as arguments: Triton makes integers of them that do not fit."""
    original = interpreter._implicit_cvt
    if getattr(original, "takes_booleans", False):
        return

    def converted(arg: Any) -> Any:
        if isinstance(arg, bool):
            return tl.tensor(TensorHandle(np.array([arg]), tl.int1), tl.int1)
        return original(arg)

    converted.takes_booleans = True  # type: ignore[attr-defined]
    interpreter._implicit_cvt = converted


def _widen_bfloat16() -> None:
    """Compute bf16 in fp32 and round it: Triton adds, compares and multiplies its bits as integers.

    Each operation rounds, as a GPU does that has none for bf16.
    """
    builder: Any = interpreter.InterpreterBuilder
    if getattr(builder, "widens_bfloat16", False):
        return
    for name in ("unary_op", "binary_op", "ternary_op", "create_fma", "create_dot"):
        setattr(builder, name, _in_fp32(getattr(builder, name)))
    for name in ("create_si_to_fp", "create_ui_to_fp"):
        setattr(builder, name, _through_fp32(getattr(builder, name)))
    reductions: Any = interpreter.ReduceOps
    reductions.sum = _summed_in_fp32(reductions.sum)
    builder.widens_bfloat16 = True


def _copy_spread_operands() -> None:
    """Give atomic operations operands of their own: a value that numpy spreads over a block is one.

    Triton's interpreter takes all elements from the address of the first, and read what lies behind
    it: ``mask[:, None]`` of one row masked any others.
    """
    builder: Any = interpreter.InterpreterBuilder
    if getattr(builder, "copies_spread_operands", False):
        return
    for name in ("create_atomic_rmw", "create_atomic_cas"):
        setattr(builder, name, _with_own_operands(getattr(builder, name)))
    builder.copies_spread_operands = True


def _with_own_operands(original: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    def call(self: Any, *args: Any) -> TensorHandle:
        own = [
            TensorHandle(np.ascontiguousarray(arg.data), arg.dtype)
            if isinstance(arg, TensorHandle)
            else arg
            for arg in args
        ]
        return original(self, *own)

    return call


def _through_fp32(original: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    def convert(self: Any, integers: TensorHandle, kind: Any) -> TensorHandle:
        if kind.scalar != tl.bfloat16:
            return original(self, integers, kind)
        return _rounded(TensorHandle(integers.data.astype(np.float32), tl.float32))

    return convert


def _summed_in_fp32(original: Callable[..., Any]) -> Callable[..., Any]:
    def total(self: Any, block: Any) -> Any:
        if block.dtype.scalar != tl.bfloat16:
            return original(self, block)
        kind = tl.block_type(tl.float32, block.shape)
        result = original(self, tl.core.tensor(_wide(block.handle), kind))
        shape = list(result.shape)
        narrow = tl.block_type(tl.bfloat16, shape) if shape else tl.bfloat16
        return tl.core.tensor(_rounded(result.handle), narrow)

    return total


def _in_fp32(original: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    def call(self: Any, *args: Any) -> TensorHandle:
        narrow = [isinstance(arg, TensorHandle) and arg.dtype.scalar == tl.bfloat16 for arg in args]
        if not any(narrow) or args[0].dtype.scalar == tl.int1:  # a choice moves the bits
            return original(self, *args)
        wide = [_wide(arg) if is_narrow else arg for arg, is_narrow in zip(args, narrow)]
        result = original(self, *wide)
        # a product's sums have their own type
        is_narrow = narrow[2] if len(narrow) > 2 and isinstance(args[2], TensorHandle) else True
        return _rounded(result) if is_narrow and result.data.dtype == np.float32 else result

    return call


def _wide(handle: TensorHandle) -> TensorHandle:
    bits = handle.data.astype(np.uint32) << 16
    return TensorHandle(bits.view(np.float32), tl.float32)


def _rounded(handle: TensorHandle) -> TensorHandle:
    """Return fp32 as bf16, to nearest and ties to even."""
    bits = np.ascontiguousarray(handle.data).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = np.where(np.isnan(handle.data), np.uint32(0x7FC0), rounded)
    return TensorHandle(quiet.astype(np.uint16), tl.bfloat16)


class _Patched:
    """A patched language: `restore` undoes all that a launch patched.

    Attributes:
        live: of the launch that runs, if one does.
        modules: which of the language's modules are patched.
    """

    live: _Patched | None = None

    def __init__(self, scope: Any, modules: frozenset[str]) -> None:
        self.modules, self._scope = {modules}, scope
        _Patched.live = self

    def restore(self) -> None:
        _Patched.live = None
        self._scope.restore()


def _patch_once_a_launch() -> None:
    """Patch the language once for a launch.

    Triton's interpreter patches it anew at each call of a function such as `tl.sum`, which takes
    longer than most of them compute: all members of three modules are looked at.
    """
    original = interpreter._patch_lang
    if getattr(original, "once", False):
        return

    def patched(function: Any) -> Any:
        values = function.__globals__.values()
        modules = frozenset(
            module.__name__ for module in (tl, tl.core) if any(v is module for v in values)
        )
        live = _Patched.live
        if live is None:
            return _Patched(original(function), modules)
        if modules not in live.modules:
            live.modules.add(modules)
            original(function)  # a call's patches are never undone: Triton drops them too
        return live

    patched.once = True  # type: ignore[attr-defined]
    interpreter._patch_lang = patched


def _elementwise(function: Callable[..., torch.Tensor], result: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        first = next(arg for arg in args if isinstance(arg, tl.tensor))
        kind = result or first.type.scalar
        values = [torch.from_numpy(np.asarray(_plain_data(arg))) for arg in args]
        dtype = np.int32 if result else first.handle.data.dtype
        data = np.asarray(function(*values).numpy(), dtype)
        whole = tl.block_type(kind, list(data.shape)) if first.type.is_block() else kind
        return tl.tensor(TensorHandle(data, kind), whole)

    return call


def _plain_data(arg: Any) -> Any:
    return arg.handle.data if isinstance(arg, tl.tensor) else getattr(arg, "value", arg)


# ------------------------------------------------------------------------------- watched launches


class OutsideError(Exception):
    """A program reads or writes outside of the tensors that its launch was given."""


@dataclass
class Watch:
    """Limits of the launches of this process, and a record of what they did.

    Attributes:
        limit_s: processor seconds for each launch; programs that are left then do not run.
        seed: draws the order of the programs, so that a launch cut short is a sample of its grid.
        backwards: whether the programs of a small grid run from the last to the first.
        launching: whether one runs, or its arguments are copied.
        launches: how many there were.
        skipped: programs that did not run.
        atomics: whether there were atomic operations.
        written: addresses of the elements that were stored, an array for each store.
    """

    limit_s: float
    seed: int = 0
    backwards: bool = False
    launching: bool = False
    launches: int = 0
    skipped: int = 0
    atomics: bool = False
    written: list[np.ndarray[Any, Any]] = field(default_factory=list)
    _starts: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0, np.uint64))
    _ends: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def sampled_order(self, grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        """Yield a grid's programs: the first and the last, then the others as they are drawn."""
        total = math.prod(grid)
        natural = range(total)[::-1] if self.backwards else range(total)
        drawn = natural if total <= _FEW else _draw_numbers(total, self.seed)
        for index in itertools.chain((0, total - 1) if total > _FEW else (), drawn):
            yield (index // (grid[1] * grid[2]), index // grid[2] % grid[1], index % grid[2])

    def allow_tensors(self, tensors: list[torch.Tensor]) -> None:
        """Allow accesses only within these tensors' storages from now on."""
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        starts = sorted(storages)
        self._starts = np.array(starts, np.uint64)
        self._ends = np.array([start + storages[start] for start in starts], np.uint64)

    def check(self, addresses: np.ndarray[Any, Any], what: str) -> None:
        """Refuse addresses outside.

        Raises:
            OutsideError: there is one.
        """
        if not addresses.size:
            return
        place = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        inside = place >= 0
        inside &= addresses < self._ends[np.maximum(place, 0)] if self._ends.size else False
        if not inside.all():
            raise OutsideError(f"it {what} outside of its tensors")


_FEW = 512
"""Programs that run in their natural order, or backwards, all of them if the time suffices."""


def _draw_numbers(total: int, seed: int) -> Iterator[int]:
    """Return all numbers below `total` but the first and the last, in a drawn order."""
    inner = total - 2
    step = random.Random(seed).randrange(1, max(inner, 2))
    while math.gcd(step, inner) != 1:
        step += 1
    return (1 + index * step % inner for index in range(inner))


_watch = Watch(math.inf)


def watch_launches(limit_s: float, seed: int = 0, backwards: bool = False) -> Watch:
    """Watch the launches of this process from now on; see `Watch`."""
    global _watch
    _watch = Watch(limit_s, seed, backwards)
    if interpreter.GridExecutor.__call__ is not _run_watched_grid:
        _install_watch()
    return _watch


def is_launching() -> bool:
    """Tell whether a launch runs, or its arguments are copied."""
    return _watch.launching


def _install_watch() -> None:
    builder: Any = interpreter.InterpreterBuilder
    executor: Any = interpreter.GridExecutor
    load, store = builder.create_masked_load, builder.create_masked_store
    atomic_rmw, atomic_cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        _watch.check(_touched_addresses(ptrs, mask), "reads")
        return load(self, ptrs, mask, *rest, **named)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        addresses = _touched_addresses(ptrs, mask)
        _watch.check(addresses, "writes")
        _watch.written.append(addresses)
        return store(self, ptrs, value, mask, *rest, **named)

    def rmw(self: Any, kind: Any, ptr: Any, value: Any, mask: Any, *rest: Any) -> Any:
        _watch.atomics = True
        _watch.check(_touched_addresses(ptr, mask), "writes")
        return atomic_rmw(self, kind, ptr, value, mask, *rest)

    def cas(self: Any, *args: Any) -> Any:
        _watch.atomics = True
        return atomic_cas(self, *args)

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store
    builder.create_atomic_rmw, builder.create_atomic_cas = rmw, cas
    executor.__call__ = _run_watched_grid


def _touched_addresses(ptrs: Any, mask: Any) -> np.ndarray[Any, Any]:
    addresses = np.asarray(ptrs.data)
    chosen = np.asarray(mask.data) != 0  # some of the interpreter's truths are numbers
    inside: np.ndarray[Any, Any] = addresses[np.broadcast_to(chosen, addresses.shape)]
    return inside


def _run_watched_grid(self: Any, *args_dev: Any, **kwargs: Any) -> None:
    """`GridExecutor.__call__`, watched.

    As in Triton 3.6 and 3.7: arguments to the host, the language patched, a call a program. A GPU
    says nothing of infinities and NaNs that it computes, so numpy does not either.
    """
    _watch.launching = True
    try:
        _launch_watched(self, args_dev, kwargs)
    finally:
        _watch.launching = False


def _launch_watched(self: Any, args_dev: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    accepted = inspect.getfullargspec(self.fn).args
    kwargs = {name: value for name, value in kwargs.items() if name in accepted}
    args_hst, kwargs_hst = self._init_args_hst(args_dev, kwargs)
    for hook in self.pre_run_hooks:
        hook(*args_hst, **kwargs_hst)
    _watch.launches += 1
    _watch.allow_tensors(list(_tensors_within([args_hst, kwargs_hst])))
    scope = interpreter._patch_lang(self.fn)
    try:
        arguments = inspect.getcallargs(self.fn, *args_hst, **kwargs_hst)
        args = {
            name: arg if name in self.constexprs else interpreter._implicit_cvt(arg)
            for name, arg in arguments.items()
        }
        with np.errstate(all="ignore"):
            _run_programs(self, args)
    finally:
        scope.restore()
    self._restore_args_dev(args_dev, args_hst, kwargs, kwargs_hst)


def _tensors_within(value: Any) -> Iterator[torch.Tensor]:
    value = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors_within(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors_within(element)


def _run_programs(executor: Any, args: Mapping[str, Any]) -> None:
    sizes = executor.grid(args) if callable(executor.grid) else executor.grid
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    grid = (x, y, z)
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*grid)
    end, done, total = time.process_time() + _watch.limit_s, 0, math.prod(grid)
    for place in _watch.sampled_order(grid):
        if done and time.process_time() > end:
            break
        builder.set_grid_idx(*place)
        executor.fn(**args)
        done += 1
    _watch.skipped += max(total - done, 0)
