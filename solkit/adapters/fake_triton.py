"""Capture the Triton launches of unmodified code without a GPU.

The only module that touches Triton's runtime internals. Patches are never undone: call it, after
`fake_cuda.install`, in a throw-away child process, before importing the code to capture.

What is faked:

- the driver: target, device and properties come from the `Device`;
- `JITFunction._do_compile`: Triton's binder has already found signature, constants, attributes and
  options. It gets a `_Stub`, which records launches and compiles only if a compiled attribute
  (``kernel.n_regs``) is read;
- `JITFunction.run`: if a run is recorded (`solkit.adapters.recipes`), a launch becomes a step;
- autotuning (`fake_autotuner`): nothing is timed. The requested configuration runs, else the first
  after pruning; `Recording.spaces` keeps the list;
- custom ops: their own kernel runs on fake tensors, instead of their fake implementation;
- other tuners' caches of timings: they are in a private folder.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
import torch._library.custom_ops
import torch._library.triton
import triton.testing
from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as triton_driver
from triton.runtime.jit import JITFunction

from solkit.adapters import (
    fake_cuda,
    fake_cute,
    fake_cutile,
    fake_helion,
    fake_tilelang,
    launch_recording,
)
from solkit.adapters.fake_autotuner import do_bench, run_autotuned
from solkit.adapters.languages import launching_language
from solkit.adapters.launch_recording import (
    Argument,
    CapturedLaunch,
    Contents,
    TensorArgument,
    tensor_argument,
)
from solkit.adapters.launch_watchers import notify_watchers
from solkit.adapters.recipes import bare_values
from solkit.adapters.triton_compiler import (
    Specialisation,
    compile_kernel,
    describe_launch,
    gpu_target,
    resource_usage,
    warn_if_untested,
)
from solkit.adapters.triton_writes import loads_from, may_write
from solkit.core import Device
from solkit.core.stack import Stack
from solkit.errors import SolkitError

_MOST_BLOCKS = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, technical specifications


class LaunchError(SolkitError):
    """A launch that no GPU accepts."""


_launch_kernel = JITFunction.run
_NOTHING: Mapping[int, TensorArgument] = MappingProxyType({})


def install(device: Device) -> None:
    """Fake a Triton driver for `device` for the rest of this process."""
    warn_if_untested()
    # Triton 3.9 warns in each process that its default for fused multiply-adds will change
    warnings.filterwarnings("ignore", "TRITON_DEFAULT_FP_FUSION is unset")
    _private_caches()
    knobs.runtime.interpret = False  # interpreted kernels launch nothing
    fake_cuda.when_imported("helion.runtime.kernel", fake_helion.install)
    fake_cuda.when_imported("cuda.tile", partial(fake_cutile.install, record=record_launch))
    fake_cuda.when_imported("cutlass.cutlass_dsl.cuda_jit_executor", fake_cute.install)
    fake_cuda.when_imported("cutlass.cute.runtime", fake_cute.install_tensors)
    fake_cuda.when_imported("cutlass.utils.hardware_info", fake_cute.install_hardware)
    fake_cuda.when_imported("cutlass.cutlass_dsl.tvm_ffi_provider", fake_cute.install_tvm_ffi)
    fake_cuda.when_imported("torch._inductor.runtime.triton_helpers", _keep_driver)
    fake_cuda.when_imported("tilelang.jit", fake_tilelang.install)
    fake_cuda.when_imported("tilelang.autotuner.tuner", fake_tilelang.install_autotuner)
    driver = fake_driver(device)
    for owner, name, fake in (
        (triton_driver, "_default", driver),
        (triton_driver, "_active", driver),
        (JITFunction, "_do_compile", _do_compile),
        (JITFunction, "run", _run_kernel),
        (Autotuner, "run", run_autotuned),
        (triton.testing, "do_bench", do_bench),
        (triton.testing, "do_bench_cudagraph", do_bench),
        (torch._library.triton, "is_wrap_triton_enabled", lambda: False),
        # a data descriptor, so that assigning to `register_fake` has no effect
        (
            torch._library.custom_ops.CustomOpDef,
            "_abstract_fn",
            property(_own_kernel, _ignore_fake),
        ),
        (torch.library.Library, "impl", _register_kernel),
        (torch.library.Library, "_register_fake", _register_fake),
    ):
        setattr(owner, name, fake)


def _keep_driver(module: Any) -> None:
    """Let files that Inductor wrote keep the fake driver; they ask for the GPU's at the import."""
    module.set_driver_to_gpu = lambda: None


def _private_caches() -> None:
    """Keep fake timings out of FlagGems' ``~/.flaggems``; it creates the folder itself."""
    os.environ["FLAGGEMS_CACHE_DIR"] = str(Path(tempfile.gettempdir(), "solkit-fake-flaggems"))
    os.environ.pop("FLAGGEMS_DB_URL", None)


# -------------------------------------------------------------------------------- launches


class _Stub:
    """Replaces a compiled kernel."""

    function = 0
    packed_metadata = (1,) * 8

    def __init__(self, kernel: Specialisation) -> None:
        self.kernel = kernel
        self.name = kernel.function.__name__

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """There are no launch hooks."""

    def run(self, x: Any, y: Any, z: Any, *rest: Any) -> None:
        """Record a launch; `rest` is stream, function, two metadata, two hooks, arguments."""
        record_launch(self.kernel, (int(x), int(y), int(z)), rest[6:])

    def __getitem__(self, grid: Sequence[Any]) -> Any:
        _poison_inputs()
        x, y, z = (*grid, 1, 1)[:3]
        return lambda *args, **_: record_launch(self.kernel, (int(x), int(y), int(z)), args)

    def _init_handles(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name not in ("metadata", "asm", "src", "hash", "n_regs", "n_spills", "n_max_threads"):
            raise AttributeError(name)
        _poison_inputs()
        self.__dict__.update(_compiled_attributes(self.kernel))
        return self.__dict__[name]


def _poison_inputs() -> None:
    steps = launch_recording.current_steps()
    if steps is not None:
        steps.mark_unrepeatable("a kernel is compiled and inspected before its launch")


def _compiled_attributes(kernel: Specialisation) -> dict[str, Any]:
    """Return the attributes that launchers read after ``kernel.warmup(...)``."""
    device = triton_driver.active.device
    binary = compile_kernel(kernel, gpu_target(device))
    usage = resource_usage(binary)
    return {
        "metadata": binary.metadata,
        "asm": binary.asm,
        "src": binary.src,
        "hash": binary.hash,
        "n_regs": usage.registers,
        "n_spills": usage.stack_bytes // 4,
        "n_max_threads": 1024,
    }


def _do_compile(
    self: JITFunction,
    key: Any,
    signature: Any,
    device: Any,
    constexprs: Any,
    options: Any,
    attrs: Any,
    warmup: bool,  # noqa: ARG001 - Triton's signature
) -> _Stub:
    """`JITFunction._do_compile` without a compiler."""
    kernel = Specialisation(self, signature, constexprs, attrs, dict(options.__dict__))
    self.cache_key  # noqa: B018 - fills `used_global_vals`, which the compiler would have done
    stub = self.device_caches[device][0][key] = _Stub(kernel)
    return stub


def _run_kernel(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    """`JITFunction.run`, which takes stand-ins if a run is recorded."""
    steps = launch_recording.current_steps()
    if steps is None:
        args, kwargs, grid = bare_values(
            (args, kwargs, grid)
        )  # a recorded run may have left stand-ins
        return _launch_kernel(self, *args, grid=grid, warmup=warmup, **kwargs)
    if warmup:
        _poison_inputs()
        args, kwargs = steps.pin_values((args, kwargs))
        return _launch_kernel(self, *args, grid=grid, warmup=warmup, **kwargs)
    if callable(grid):
        own = {name: value for name, value in kwargs.items() if name in self.signature.parameters}
        bound = self.signature.bind(*args, **own)
        bound.apply_defaults()
        grid = grid(bound.arguments)
    tensors = [getattr(arg, "base", arg) for arg in (*args, *kwargs.values())]
    fixed = [t for t in tensors if isinstance(t, torch.Tensor) and not steps.holds_stand_ins(t)]
    arguments_by_id = {id(t): tensor_argument(t, t, _copy_contents(t)) for t in fixed}
    stub = steps.call_bare(partial(_launch_again, self, arguments_by_id), (args, kwargs, grid))
    arguments = {**dict(zip(self.arg_names, args)), **kwargs}
    for name, arg in arguments.items():
        tensor = getattr(arg, "base", arg)
        if any(tensor is fixed_tensor for fixed_tensor in fixed) and may_write(self, name):
            fake_cuda.forget_contents(tensor)
    return stub


def _launch_again(
    kernel: JITFunction, arguments: Mapping[int, TensorArgument], args: Any, kwargs: Any, grid: Any
) -> Any:
    """Repeat a recorded launch, with its tensors' contents at that time."""
    seen = launch_recording.current_recording()
    assert seen is not None
    seen.arguments, seen.is_repeating = arguments, seen.steps is None
    try:
        return _launch_kernel(kernel, *args, grid=grid, warmup=False, **kwargs)
    finally:
        seen.arguments, seen.is_repeating = {}, False


def record_launch(kernel: Specialisation, grid: tuple[int, int, int], args: Sequence[Any]) -> None:
    """Record a launch in the current recording, if there is one."""
    seen = launch_recording.current_recording()
    known_arguments = seen.arguments if seen else {}
    values = [known_arguments.get(id(arg)) or argument_of(arg, known_arguments) for arg in args]
    arguments = dict(zip(kernel.signature, values, strict=False))
    if math.prod(grid) > 0:  # else nothing is launched
        _notify(kernel, args)
        _forget_written(kernel, args, known_arguments)
    if seen is None:
        return
    if math.prod(grid) <= 0:  # Triton's `_launch` does nothing
        if min(grid) < 0:
            remark = f"{fake_cuda.user_line()}: a grid of {grid} launches nothing"
            seen.remarks.setdefault(remark)
        return
    if any(size > most for size, most in zip(grid, _MOST_BLOCKS)) or min(grid) < 0:
        raise LaunchError(f"CUDA refuses a grid of {grid}: it takes up to {_MOST_BLOCKS} blocks")
    # what launched a repeated one is not on the stack; it was looked at when it was recorded
    language = "" if seen.is_repeating else launching_language()
    if language:
        reason = f"not analysed: {kernel.function.__name__} is a kernel in {language}"
        seen.unanalysed.setdefault(f"{reason} ({fake_cuda.user_line()})")
        return
    storages = {
        name: frozenset(_argument_storages(arg)) for name, arg in zip(kernel.signature, args)
    }
    if not seen.counts_again(kernel, grid, storages):
        launch = describe_launch(kernel, grid)
        parts = {
            name: tuple(argument_of(part, known_arguments) for part in arg)
            for name, arg in zip(kernel.signature, args)
            if isinstance(arg, (tuple, list))
        }
        captured = CapturedLaunch(launch, kernel, arguments, storages, seen.choice, parts)
        seen.launches.append(captured)


def _forget_written(
    kernel: Specialisation, args: Sequence[Any], known_arguments: Mapping[int, TensorArgument]
) -> None:
    """Forget the contents of tensors that a launch may write to, but for a case's inputs."""
    for name, arg in zip([*kernel.signature, *[""] * len(args)], args):
        tensors = [] if id(arg) in known_arguments else _tensors_of(name, arg).values()
        unknown = [tensor for tensor in tensors if id(tensor) not in known_arguments]
        if unknown and may_write(kernel.function, name):
            for tensor in unknown:
                fake_cuda.forget_contents(tensor)


def _notify(kernel: Specialisation, args: Sequence[Any]) -> None:
    """Tell who watches of a launch."""
    tensors: dict[str, torch.Tensor] = {}
    written: set[str] = set()
    read_back: set[str] = set()
    for name, arg in zip(kernel.signature, args):
        own = _tensors_of(name, arg)
        tensors |= own
        if own and may_write(kernel.function, name):
            written |= own.keys()
            read_back |= own.keys() if loads_from(kernel.function, name) else set()
    notify_watchers(kernel.function.__name__, tensors, written, read_back)


def _tensors_of(name: str, arg: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of an argument by place: its own, a descriptor's, or a tuple's."""
    if isinstance(arg, (tuple, list)):
        parts = [_tensors_of(f"{name}.{place}", part) for place, part in enumerate(arg)]
        return {place: tensor for part in parts for place, tensor in part.items()}
    tensor = getattr(arg, "base", arg)
    return {name: tensor} if isinstance(tensor, torch.Tensor) else {}


def _argument_storages(arg: Any) -> Iterator[int]:
    """Yield the storages of an argument: of a pointer, a TMA descriptor, or a tuple of these."""
    if isinstance(arg, (tuple, list)):
        yield from (storage for part in arg for storage in _argument_storages(part))
    tensor = getattr(arg, "base", arg)
    if isinstance(tensor, torch.Tensor):
        yield tensor.untyped_storage()._cdata


def argument_of(arg: Any, arguments: Mapping[int, TensorArgument] = _NOTHING) -> Argument:
    """Return an argument of a launch; `arguments` has those of some tensors, by identity."""
    if isinstance(arg, bool | int | float):
        return arg
    tensor = getattr(arg, "base", arg)  # a TMA descriptor's tensor
    if not isinstance(tensor, torch.Tensor):
        return None
    argument = arguments.get(id(tensor))
    return tensor_argument(arg, tensor, argument.contents if argument else _copy_contents(tensor))


def _copy_contents(tensor: torch.Tensor) -> Contents:
    """Return the storage's contents, if known; only integers decide addresses."""
    inexact = tensor.is_floating_point() or tensor.is_complex()
    return None if inexact else fake_cuda.presumed_elements(tensor)


# ------------------------------------------------------------------------------ custom ops


_insides = Stack[contextlib.AbstractContextManager[Any]]()


_registered_kernels: dict[str, Any] = {}
_registered_fakes: dict[str, Any] = {}
_GPU_KEYS = ("CUDA", "CompositeExplicitAutograd")
_register_real_kernel: Any = torch.library.Library.impl
_register_real_fake: Any = torch.library.Library._register_fake


def is_custom_op(func: Any) -> bool:
    """Tell whether an op's kernel is Python's, which runs here: `torch.library`'s, not torch's."""
    name = func._schema.name
    if name in _registered_kernels:
        return True
    return name in torch._library.custom_ops.OPDEFS and not name.startswith("prims::")


def _register_kernel(
    library: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any
) -> None:
    """Register an op's kernel; that of a GPU also takes the place of its fake implementation."""
    key = dispatch_key or library.dispatch_key
    has_fake = isinstance(op_name, str) and _qualified(library, op_name) in _registered_fakes
    if key == "Meta" and has_fake:
        _register_fake(library, op_name, fn)  # the same by another name, and PyTorch takes one only
        return
    _register_real_kernel(library, op_name, fn, dispatch_key, **options)
    if key in _GPU_KEYS and not options.get("with_keyset") and isinstance(op_name, str):
        name = _qualified(library, op_name)
        if name.split("::")[0] not in ("aten", "prims"):
            _registered_kernels[name] = fn
            _register_fake(library, op_name, None)


def _register_fake(library: Any, op_name: str, fn: Any, *_: Any, **options: Any) -> None:
    """Register a fake implementation that runs the op's own kernel, if that is Python's."""
    name = _qualified(library, op_name)
    if name not in _registered_fakes:
        kernel = partial(_run_registered, name)
        try:
            _register_real_fake(library, op_name, kernel, **options)
        except (
            RuntimeError
        ):  # torch before 2.12: a Meta kernel stays, but fakes do not ask it first
            holder = torch._library.simple_registry.singleton.find(name).fake_impl
            holder.kernels.append(torch._library.utils.Kernel(kernel, __name__))
    _registered_fakes[name] = fn or _registered_fakes.get(name)


def _qualified(library: Any, op_name: str) -> str:
    return op_name if "::" in op_name else f"{library.ns}::{op_name}"


def _run_registered(name: str, /, *args: Any, **kwargs: Any) -> Any:
    kernel = _registered_kernels.get(name)
    if kernel is None:
        return _registered_fakes[name](*args, **kwargs)
    return _watch_kernel(kernel, *args, **kwargs) if _insides else kernel(*args, **kwargs)


def inside_custom_ops(
    mode: contextlib.AbstractContextManager[Any],
) -> contextlib.AbstractContextManager[object]:
    """Enter a dispatch mode in the kernels of custom ops too, which run without it."""
    return _insides.holding(mode)


def _own_kernel(op: Any) -> Any:
    """Return the kernel that a `torch.library.custom_op` runs on a GPU; torch's own ops stay."""
    if op._namespace == "prims":
        return op.__dict__["_abstract_fn"]
    kernels = op._backend_fns
    kernel = kernels.get("cuda") or kernels.get(None) or op._init_fn
    return partial(_watch_kernel, kernel) if _insides and kernel is not None else kernel


def _watch_kernel(kernel: Any, /, *args: Any, **kwargs: Any) -> Any:
    with _insides[-1]:
        return kernel(*args, **kwargs)


def _ignore_fake(op: Any, fake: Any) -> None:
    """Ignore the fake implementation: it launches nothing."""


# ---------------------------------------------------------------------------------- driver


def fake_driver(device: Device) -> SimpleNamespace:
    """Return a fake `triton.backends.driver.GPUDriver`."""
    constants = {
        "get_current_target": gpu_target(device),
        "get_current_device": 0,
        "set_current_device": None,
        "get_current_stream": 0,
        "get_device_capability": device.compute_capability,
        "get_active_torch_device": torch.device("cuda", 0),
        "get_device_interface": torch.cuda,
        "get_benchmarker": do_bench,
        "clear_cache": None,
    }
    return SimpleNamespace(
        device=device,
        target=gpu_target(device),
        utils=_Utils(device),
        launcher_cls=None,
        get_empty_cache_for_benchmark=lambda: torch.empty(1, device="cuda"),
        assemble_tensormap_to_arg=lambda _, args: args,
        **{name: partial(_plain_constant, value) for name, value in constants.items()},
    )


def _plain_constant(value: Any, *_: Any, **__: Any) -> Any:
    return value


class _Utils:
    """A fake `CudaUtils` with the `Device`'s properties; other methods do nothing."""

    def __init__(self, device: Device) -> None:
        dram = device.ceilings.get("dram")
        self._properties = {
            "max_shared_mem": device.limits.shared_per_block_bytes,
            "max_num_regs": device.limits.registers,
            "multiprocessor_count": device.sm_count,
            "warpSize": device.limits.warp_threads,
            "sm_clock_rate": int(device.clock_mhz * 1000),  # kHz
            "mem_clock_rate": int(dram.clock_mhz * 1000) if dram else 0,
            "mem_bus_width": fake_cuda.memory_bus_bits(device),
        }

    def get_device_properties(self, *_: Any) -> dict[str, int]:
        return dict(self._properties)

    def load_binary(self, *_: Any) -> tuple[None, int, int, int, int]:
        """Load nothing: module, function, registers, spills, threads that a block may have."""
        return None, 0, 0, 0, 1024

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: 0
