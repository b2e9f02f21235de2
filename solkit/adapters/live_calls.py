"""Triton launches of unmodified code as they are asked for: kernel, grid, arguments.

The only module that touches the launching functions where kernels may really run. There are three:
`JITFunction.run`, behind every decorator; a compiled kernel that is indexed with its grid; and
`CachingAutotuner.run` of Inductor. The decorators around a kernel are watched to learn its space.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from solkit.adapters.launch_records import program_digest
from solkit.adapters.live_autotuner import config_params
from solkit.adapters.live_inductor import inductor_configs, least_blocks
from solkit.adapters.live_tuned import INDUCTOR
from solkit.adapters.triton_compiler import warn_if_untested
from solkit.adapters.triton_writes import may_write
from solkit.core import Value
from solkit.core.tuned import Launcher
from solkit.errors import UnsupportedError

_NUM_WARPS, _NUM_STAGES = 4, 3
"""Triton's defaults on NVIDIA GPUs."""
_INDUCTOR_OPTIONS = ("enable_fp_fusion", "launch_pdl")
_INTERNAL = ("debug", "instrumentation_mode")
"""Keywords that `JITFunction.run` adds itself."""


@dataclass(frozen=True)
class RequestedLaunch:
    """One call of a ``@triton.jit`` kernel.

    Attributes:
        kernel: the `JITFunction`.
        grid: as given: a tuple, or a function of the parameters.
        values: every parameter of the kernel with its value, in the order declared.
        constants: names of those that are ``tl.constexpr``.
        options: ``num_warps``, ``num_stages`` and other options of the compiler.
        launcher: what chose the configuration.
        configs: the configurations that it may choose from; empty without an autotuner.
        heuristics: functions of the arguments that give constants, by name.
        file_text: of the file that Inductor wrote for its kernel; empty for others' kernels.
        least: the smallest values of constants that its text is right for, by name.
    """

    kernel: Any
    grid: Any
    values: Mapping[str, Any]
    constants: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    launcher: Launcher = "jit"
    configs: tuple[Mapping[str, Value], ...] = ()
    heuristics: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    file_text: str = ""
    least: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.fn.__name__)

    def may_write(self, parameter: str) -> bool:
        """Tell whether the kernel may write to what a parameter points to."""
        return may_write(self.kernel, parameter)


# ---------------------------------------------------------------------------------------- pending


@dataclass
class PendingLaunch:
    """A launch that is about to happen.

    Attributes:
        kernel: the `JITFunction`.
        args, kwargs: as passed, options among the keywords.
        grid: as passed; the answer of a function once it was called.
        tuner: the autotuner around it, Triton's or Inductor's.
        heuristics: around it.
    """

    kernel: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    grid: Any
    tuner: Any = None
    heuristics: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None

    def key(self, mark: Callable[[Any, dict[int, Any]], Hashable]) -> Hashable:
        """Return what tells it from other launches; `mark` gets a value and the storages so far."""
        storages: dict[int, Any] = {}
        marks = tuple([mark(value, storages) for value in self.args])
        named = tuple([(name, mark(value, storages)) for name, value in self.kwargs.items()])
        return id(self.kernel), marks, named, None if callable(self.grid) else tuple(self.grid)

    def note_answer(self, meta: Mapping[str, Any]) -> Any:
        """Call the grid, which is a function, and note what it answers."""
        self.answer = self.grid(meta)
        return self.answer

    def program(self) -> str:
        """Return the digest of the program that it launches."""
        if not isinstance(self.tuner, Autotuner | None):
            return program_digest(_inductor_function(self.tuner))
        named = {**dict(zip(self.kernel.arg_names, self.args)), **self.kwargs}
        passed = (named.get(name) for name in self.kernel.arg_names)
        return program_digest(self.kernel, tuple(v for v in passed if isinstance(v, JITFunction)))

    def requested(self) -> RequestedLaunch:
        """Return the launch; Inductor's only after it happened, since it may still be tuned."""
        if not isinstance(self.tuner, Autotuner | None):
            return _inductor_launch(self.tuner, self.args)
        return _requested_launch(self)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every tensor with its parameter, e.g. ``"x"`` or ``"pair[1]"``."""
        named = {**dict(zip(self.kernel.arg_names, self.args)), **self.kwargs}
        if not isinstance(self.tuner, Autotuner | None):
            named = _inductor_arguments(self.tuner, self.args)
        for name, value in named.items():
            yield from _tensors_of(name, value)


def tensors_of_launch(launch: RequestedLaunch) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor of a launch with its parameter."""
    for name, value in launch.values.items():
        yield from _tensors_of(name, value)


def _tensors_of(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, (tuple, list)):
        for place, item in enumerate(value):
            yield from _tensors_of(f"{path}[{place}]", item)
    tensor = tensor_behind(value)
    if tensor is not None:
        yield path, tensor


def tensor_behind(value: Any) -> torch.Tensor | None:
    """Return the tensor that an argument points to; ``None`` if it is no pointer.

    It is the argument itself, the base of a TMA descriptor, or a view by an object that Triton
    takes for a tensor because it has ``data_ptr`` and ``dtype``.
    """
    if isinstance(value, torch.Tensor):
        return value
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor) and hasattr(value, "block_shape"):
        return base
    if not (hasattr(value, "data_ptr") and isinstance(getattr(value, "dtype", None), torch.dtype)):
        return None
    held = [item for item in vars(value).values() if isinstance(item, torch.Tensor)]
    return next((view for item in held if (view := _view_by(value, item)) is not None), None)


def _view_by(value: Any, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the part of a tensor's storage that an object describes; ``None`` if it is outside."""
    storage = tensor.untyped_storage()
    offset, rest = divmod(value.data_ptr() - storage.data_ptr(), tensor.element_size())
    shape, strides = getattr(value, "shape", None), getattr(value, "stride", None)
    if rest or not 0 <= offset < storage.nbytes() or value.dtype != tensor.dtype:
        return None
    if shape is None or not callable(strides):
        shape, strides = tensor.shape, tensor.stride
    try:
        return tensor.detach().as_strided(tuple(shape), tuple(strides()), int(offset))
    except RuntimeError:
        return None


def _requested_launch(pending: PendingLaunch) -> RequestedLaunch:
    kernel, kwargs = pending.kernel, pending.kwargs
    names = {param.name for param in kernel.params}
    bound = kernel.signature.bind(*pending.args, **{k: v for k, v in kwargs.items() if k in names})
    bound.apply_defaults()
    options = {k: v for k, v in kwargs.items() if k not in names and k not in _INTERNAL}
    options = {"num_warps": _NUM_WARPS, "num_stages": _NUM_STAGES, **options}
    constants = tuple(param.name for param in kernel.params if param.is_constexpr)
    tuner = pending.tuner
    return RequestedLaunch(
        kernel,
        pending.grid,
        dict(bound.arguments),
        constants,
        options,
        "jit" if tuner is None else "autotuner",
        () if tuner is None else tuple(map(config_params, tuner.configs)),
        pending.heuristics,
    )


# --------------------------------------------------------------------------------------- Inductor


def _inductor_arguments(tuner: Any, args: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a call of Inductor's autotuner, by parameter."""
    blocks = inductor_configs(tuner)[0].kwargs
    names = getattr(tuner.launchers[0], "def_args", None) if tuner.launchers else None
    names = names or [name for name in tuner.fn.arg_names if name not in blocks]
    return dict(zip(names, args))


def _inductor_function(tuner: Any) -> JITFunction[Any]:
    """Return the kernel: of one that a worker process compiled, the tuner has the shell alone."""
    if tuner.fn.fn is not None:
        return tuner.fn
    return tuner._reload_kernel().fn


def _inductor_launch(tuner: Any, args: Sequence[Any]) -> RequestedLaunch:
    config = tuner.launchers[0].config
    arguments = _inductor_arguments(tuner, args)
    constants = {**tuner.triton_meta.get("constants", {}), **config.kwargs}
    values = {name: constants.get(name, arguments.get(name)) for name in tuner.fn.arg_names}
    signature = tuner.triton_meta["signature"]
    listed = [tuner.fn.arg_names[n] if isinstance(n, int) else n for n in signature]
    constexprs = {name for name in listed if signature[name] == "constexpr"} | set(constants)

    def grid(meta: Mapping[str, Any]) -> Any:
        module: Any = sys.modules[INDUCTOR]
        blocks = {name: meta[name] for name in config.kwargs}
        expressions = module.GridExpr.from_meta(tuner.inductor_meta, blocks)
        return expressions.eval_slow({**arguments, **meta})

    return RequestedLaunch(
        _inductor_function(tuner),
        grid,
        values,
        tuple(name for name in tuner.fn.arg_names if name in constexprs),
        _inductor_options(tuner.triton_meta, config),
        "inductor",
        tuple(config_params(candidate) for candidate in inductor_configs(tuner)),
        file_text=_file_text(tuner),
        least=least_blocks(tuner),
    )


def _file_text(tuner: Any) -> str:
    """Return the file that Inductor wrote for a kernel; empty if it cannot be read."""
    try:
        return Path(tuner.filename).read_text(encoding="utf-8")
    except (AttributeError, OSError, TypeError, UnicodeDecodeError):
        return ""


def _inductor_options(meta: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """Return the compiler's options as `_precompile_config` of Inductor passes them."""
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    options |= {name: meta[name] for name in _INDUCTOR_OPTIONS if meta.get(name) is not None}
    return options | ({"enable_reflect_ftz": False} if meta.get("disable_ftz") else {})


# ------------------------------------------------------------------------------------------ hooks

Watch = Callable[[PendingLaunch, Callable[[], Any]], Any]
"""Gets a launch, and a function that makes it and must be called once; returns its result."""


class _Around(threading.local):
    """Calls that a thread's launch is inside of.

    Attributes:
        tuner: the autotuner.
        heuristics: that computed constants.
        is_hidden: whether launches are only timed.
    """

    tuner: Any = None
    heuristics: Mapping[str, Any] = {}
    is_hidden: bool = False


_WRAPPED = "solkit_watched"


class LaunchHooks:
    """Wraps every function that launches, until `remove`.

    Wrappers take what they wrap by position: a kernel's parameter may be called ``kernel``.

    Args:
        watch: called for each launch but those that autotuners time.
        times: what an autotuner's timing returns without timing; ``None`` lets it time.
    """

    def __init__(self, watch: Watch, times: Sequence[float] | None = None) -> None:
        self._watch, self._times = watch, times
        self._around = _Around()
        self._is_active = False
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def install(self) -> None:
        """Wrap; functions of Inductor only if it is loaded already."""
        warn_if_untested()
        self._is_active = True
        self._wrap(JITFunction, "run", self._jit_run)
        self._wrap(CompiledKernel, "__getitem__", self._compiled_getitem)
        self._wrap(Autotuner, "run", self._autotuner_run)
        self._wrap(Autotuner, "_bench", self._autotuner_bench)
        self._wrap(Heuristics, "run", self._heuristics_run)
        if INDUCTOR in sys.modules:
            with contextlib.suppress(UnsupportedError):  # its kernels are left out
                self.wrap_inductor()

    def wrap_inductor(self) -> None:
        """Wrap Inductor's autotuner, whose module is loaded, once.

        Raises:
            UnsupportedError: this torch has none.
        """
        form = getattr(sys.modules[INDUCTOR], "CachingAutotuner", None)
        if "run" not in vars(form or object):
            raise UnsupportedError(
                f"torch {torch.__version__} has no CachingAutotuner.run; its kernels are left out"
            )
        if self._is_active and all(owner is not form for owner, *_ in self._originals):
            self._wrap(form, "run", self._inductor_run)

    def remove(self) -> None:
        """Put back what was wrapped; what others wrapped since only passes calls on."""
        self._is_active = False
        for owner, name, original, wrapper in reversed(self._originals):
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        self._originals.clear()

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """Pass on what this thread launches in the ``with`` block.

        A library may launch its own kernels for PyTorch's operators, those of the watcher too.
        """
        return self._inside(is_hidden=True)

    def _wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        wrapper = make(original)
        setattr(wrapper, _WRAPPED, original)
        setattr(owner, name, wrapper)
        self._originals.append((owner, name, original, wrapper))

    def _jit_run(self, original: Any) -> Any:
        def run(kernel: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            around = self._around
            if warmup or around.is_hidden or not self._is_active:
                return original(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            tuner = around.tuner if getattr(around.tuner, "base_fn", None) is kernel.fn else None
            pending = PendingLaunch(kernel, args, kwargs, grid, tuner, around.heuristics)
            passed = pending.note_answer if callable(grid) else grid

            def proceed() -> Any:
                return original(kernel, *args, grid=passed, warmup=warmup, **kwargs)

            return self._watch(pending, proceed)

        return run

    def _compiled_getitem(self, original: Any) -> Any:
        def getitem(compiled: Any, grid: Any) -> Any:
            runner = original(compiled, grid)
            kernel = getattr(compiled.src, "fn", None)
            if not self._is_active or not isinstance(kernel, JITFunction):
                return runner

            def run(*args: Any, **kwargs: Any) -> Any:
                if self._around.is_hidden or not self._is_active:
                    return runner(*args, **kwargs)
                metadata = compiled.metadata
                chosen = {"num_warps": metadata.num_warps, "num_stages": metadata.num_stages}
                pending = PendingLaunch(kernel, args, chosen, grid, None, {})
                return self._watch(pending, lambda: runner(*args, **kwargs))

            return run

        return getitem

    def _autotuner_run(self, original: Any) -> Any:
        def run(tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
            with self._inside(tuner=tuner):
                return original(tuner, *args, **kwargs)

        return run

    def _autotuner_bench(self, original: Any) -> Any:
        def bench(tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self._times is not None:
                return list(self._times)
            with self._inside(is_hidden=True):
                return original(tuner, *args, **kwargs)

        return bench

    def _heuristics_run(self, original: Any) -> Any:
        def run(heuristics: Any, /, *args: Any, **kwargs: Any) -> Any:
            with self._inside(heuristics={**self._around.heuristics, **heuristics.values}):
                return original(heuristics, *args, **kwargs)

        return run

    def _inductor_run(self, original: Any) -> Any:
        def run(tuner: Any, /, *args: Any, benchmark_run: bool = False, **kwargs: Any) -> Any:
            def proceed() -> Any:
                return original(tuner, *args, benchmark_run=benchmark_run, **kwargs)

            if benchmark_run or self._around.is_hidden or not self._is_active:
                return proceed()
            pending = PendingLaunch(tuner.fn, args, {}, (), tuner)
            with self._inside(is_hidden=True):  # what Inductor launches itself to tune
                return self._watch(pending, proceed)

        return run

    @contextlib.contextmanager
    def _inside(self, **changed: Any) -> Iterator[None]:
        around = self._around
        before = {name: getattr(around, name) for name in changed}
        vars(around).update(changed)
        try:
            yield
        finally:
            vars(around).update(before)


@contextlib.contextmanager
def asked_launches(runs: bool) -> Iterator[list[RequestedLaunch]]:
    """Note every launch within the ``with`` block, except timing ones of Triton's autotuner.

    Args:
        runs: whether they are launched as well. Without a GPU they cannot be.

    Yields:
        The launches so far.
    """
    launches: list[RequestedLaunch] = []

    def note(pending: PendingLaunch, proceed: Callable[[], Any]) -> Any:
        launches.append(pending.requested())
        return proceed() if runs else None

    # the first configuration is as good as any where none can be timed
    hooks = LaunchHooks(note, None if runs else (1.0, 1.0, 1.0))
    hooks.install()
    try:
        yield launches
    finally:
        hooks.remove()
