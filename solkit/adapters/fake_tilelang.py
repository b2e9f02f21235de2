"""Capture the kernels that TileLang generates, without a GPU and without its autotuner.

The only module that touches TileLang's insides. TileLang lowers a function to host code, which TVM
would run, and to CUDA C++, which nvcc would compile. Both come from the fake device's architecture.
The host code is not run: its calls say what it launches, with which grid and arguments.

A configuration of `tilelang.autotune` is chosen, never timed: the first one that has the requested
values.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters import launch_recording, versions
from solkit.adapters.fake_cuda.contents import forget_contents
from solkit.adapters.fake_cuda.guesses import user_line
from solkit.adapters.generated_code import GeneratedCode, GeneratedLaunch, launch_generated
from solkit.adapters.launch_recording import Argument, TensorArgument
from solkit.adapters.tilelang_configs import choose_config, tilelang_tuner
from solkit.core.quantities import settings_text
from solkit.errors import UnsupportedError

_NAME = "TileLang"
_ASKING = ("tilelang.utils.device", "tilelang.carver.arch.driver.cuda_driver")
"""Modules that ask for the device."""
_NVRTC_HEADER = "#include <tl_templates/cuda/nvrtc_std.h>\n"
_LIMITS = "#include <cuda/std/limits>\nnamespace std { using ::cuda::std::numeric_limits; }\n"
"""What host code's headers give nvcc, and NVRTC lacks."""
_OPTIONS = ("-std=c++20", "-default-device")
_DEPENDENT_LAUNCH = ("cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion")
_TILED, _MAPPED = "__tvm_tensormap_create_tiled", "__tvm_tensormap"
_AXES = 3
_LEVEL = 3
"""Of optimisation, as ``JITKernel`` lowers."""


def install(module: Any) -> None:
    """Fake the kernels of TileLang; `module` is ``tilelang.jit``."""
    import tilelang.backend.target

    versions.warn_if_untested("tilelang", importlib.metadata.version("tilelang"))
    register = tilelang.backend.target.register_target_detector
    register("cuda", _fake_target, override=True)
    device, driver = map(import_module, _ASKING)
    for owner, name, fake in (
        (device, "get_current_device", _current_device),
        (driver, "get_cuda_device_properties", torch.cuda.get_device_properties),
    ):
        setattr(owner, name, fake)
    os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"
    module.cached = _compile_uncached
    kernel, implementation = module.JITKernel, module.JITImpl
    kernel._compile_and_create_adapter = _lowered_adapter
    implementation.__call__ = partial_method(_call_pinned, implementation.__call__)
    kernel.__call__ = partial_method(_call_pinned, kernel.__call__)


def install_autotuner(module: Any) -> None:
    """Fake ``tilelang.autotuner.tuner``: it chooses and times nothing."""
    module.AutoTuneImpl.__call__ = _call_autotuned


def partial_method(function: Callable[..., Any], original: Callable[..., Any]) -> Any:
    """Return a method that passes the original to a function."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(original, self, *args, **kwargs)

    return method


def _call_pinned(original: Callable[..., Any], called: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call with plain values: what TileLang generates depends on them."""
    steps = launch_recording.current_steps()
    if steps is not None:
        steps.mark_unrepeatable("TileLang generates the kernel for the values that it gets")
        args, kwargs = steps.pin_values((args, kwargs))
    return original(called, *args, **kwargs)


def _current_device() -> torch.device:
    """Return the device itself: torch takes no number where there is no accelerator."""
    return torch.device("cuda", torch.cuda.current_device())


def _fake_target() -> Any:
    from tvm.target import Target

    major, minor = torch.cuda.get_device_capability()
    return Target({"kind": "cuda", "arch": f"sm_{major}{minor}{'a' if major >= 9 else ''}"})


# -------------------------------------------------------------------------------------- lowering


def _compile_uncached(func: Any, out_idx: Any = None, *_: Any, **options: Any) -> Any:
    """``tilelang.cache.cached`` without TileLang's caches, which hold compiled libraries."""
    from tilelang.jit.kernel import JITKernel

    target = options.get("target")
    return JITKernel(
        func=func,
        out_idx=out_idx,
        execution_backend="tvm_ffi",
        target=_fake_target() if target in (None, "auto", "cuda") else target,
        target_host=options.get("target_host"),
        pass_configs=options.get("pass_configs"),
        compile_flags=options.get("compile_flags"),
    )


def _lowered_adapter(kernel: Any, func: Any, out_idx: Any) -> Any:
    """``JITKernel._compile_and_create_adapter``: its executable records launches."""
    from tilelang.engine.lower import lower_with_context
    from tilelang.jit.abi import prepare_tvm_ffi_callee_allocated_outputs
    from tilelang.jit.adapter.tvm_ffi import TVMFFIKernelAdapter
    from tvm import transform

    if kernel.target.kind.name != "cuda":
        raise UnsupportedError(f"{_NAME} for the target {kernel.target.kind.name}: not analysed")
    func, out_idx = prepare_tvm_ffi_callee_allocated_outputs(func, out_idx)
    settings = dict(kernel.pass_configs or {})
    with (
        _disable_current_modes(),
        transform.PassContext(opt_level=_LEVEL, config=settings),
        kernel.target,
    ):
        kernel.artifact = lower_with_context(func, kernel.backend_context)
    adapter = TVMFFIKernelAdapter(
        params=kernel.artifact.params,
        result_idx=out_idx,
        target=kernel.target,
        func_or_mod=func,
        host_mod=kernel.artifact.host_mod,
        device_mod=kernel.artifact.device_mod,
        device_kernel_source=kernel.artifact.kernel_source,
        pass_configs=settings,
        compile_flags=kernel.compile_flags,
    )
    adapter.executable = _Host(func, kernel.artifact, _code_of(kernel, settings))
    return adapter


def _code_of(kernel: Any, settings: Mapping[Any, Any]) -> GeneratedCode:
    """Return the CUDA C++ with the options that TileLang would give nvcc.

    Source: tilelang/cuda/backend.py, tilelang_callback_cuda_compile; tilelang/contrib/nvrtc.py.
    """
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH
    from tilelang.transform import PassConfigKey

    text = kernel.artifact.kernel_source
    heads = [_NVRTC_HEADER]
    if any(name in text for name in _DEPENDENT_LAUNCH):
        heads.insert(0, '#include "cuda_device_runtime_api.h"\n')
    if "std::numeric_limits" in text:
        heads.append(_LIMITS)
    named = {str(getattr(key, "value", key)): value for key, value in settings.items()}
    flags = _words(named.get(PassConfigKey.TL_DEVICE_COMPILE_FLAGS.value))
    flags += _words(kernel.compile_flags)
    if named.get(PassConfigKey.TL_ENABLE_FAST_MATH.value):
        flags.append("--use_fast_math")
    level = named.get(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL.value)
    if level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={int(level)}")
    includes = [f"-I{folder}" for folder in (TILELANG_TEMPLATE_PATH, CUTLASS_INCLUDE_DIR)]
    options = (*_OPTIONS, *includes, *filter(_is_nvrtcs, flags))
    return GeneratedCode(_NAME, "".join(heads) + text, options)


def _words(flags: Any) -> list[str]:
    listed = [flags] if isinstance(flags, str) else list(flags or ())
    return [word for flag in listed for word in shlex.split(str(flag))]


def _is_nvrtcs(flag: str) -> bool:
    """Tell whether an option of nvcc that changes its output is one of NVRTC's, too."""
    taken = ("use_fast_math", "D", "U", "I", "maxrregcount", "fmad", "ftz", "ptxas-options")
    return flag.lstrip("-").startswith(taken)


# -------------------------------------------------------------------------------------- launches


@dataclass(frozen=True, eq=False)
class _Host:
    """A lowered function, whose call records what its host code launches.

    Attributes:
        function: the user's ``PrimFunc``, whose buffers name the arguments.
        artifact: TileLang's ``CompiledArtifact``.
        code: the device code.
    """

    function: Any
    artifact: Any
    code: GeneratedCode

    def __call__(self, *args: Any) -> None:
        tensors, sizes = _bound(self.function, args)
        for tensor in args:
            if isinstance(tensor, torch.Tensor):
                forget_contents(tensor)  # a kernel may have written to it
        values = _Values(tensors, sizes)
        kernels = {
            name.name_hint: func for name, func in self.artifact.device_mod.functions.items()
        }
        (host,) = self.artifact.host_mod.functions.values()
        for name, operands in _packed_calls(host.body):
            if name.startswith(_MAPPED):
                values.describe(name, operands)
            elif name in kernels:
                launch_generated(self._launch(name, kernels[name], operands, values))

    def _launch(
        self, name: str, kernel: Any, operands: Sequence[Any], values: _Values
    ) -> GeneratedLaunch:
        tags = [str(tag) for tag in kernel.attrs["tirx.kernel_launch_params"]]
        places = len(operands) - len(tags)
        extents = dict(zip(tags, map(values.integer, operands[places:])))
        shared = [extents[tag] for tag in tags if "shared" in tag]
        cluster = [int(size) for size in kernel.attrs.get("cluster_dims", None) or ()]
        return GeneratedLaunch(
            kernel=name,
            name=name,
            code=self.code,
            grid=_sizes(extents, "blockIdx"),
            block=_sizes(extents, "threadIdx"),
            cluster=(*cluster, 1, 1, 1)[:_AXES],  # type: ignore[arg-type]
            shared_bytes=shared[0] if shared else 0,
            line=user_line(),
            parameters=tuple(values.name(operand) for operand in operands[:places]),
            arguments=tuple(values.argument(operand) for operand in operands[:places]),
            encodings=values.encodings(operands[:places]),
        )


def _sizes(extents: Mapping[str, int], axis: str) -> tuple[int, int, int]:
    x, y, z = (extents.get(f"{axis}.{letter}", 1) for letter in "xyz")
    return x, y, z


def _packed_calls(body: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the packed functions that host code calls, in order, with their arguments."""
    from tvm.tirx import Call, StringImm
    from tvm.tirx.stmt_functor import post_order_visit

    calls: list[tuple[str, list[Any]]] = []

    def visit(node: Any) -> None:
        if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm):
            calls.append((str(node.args[0].value), list(node.args[1:])))

    post_order_visit(body, visit)
    yield from calls


def _bound(
    function: Any, args: Sequence[Any]
) -> tuple[dict[str, torch.Tensor], dict[str, int | float]]:
    """Return the tensors of a call by their buffer's name, and numbers by their variable's.

    TileLang's own adapters find them by name, too: lowering makes new variables.
    """
    from tvm.tirx import Var

    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, int | float] = {}
    for parameter, arg in zip(function.params, args):
        if parameter not in function.buffer_map:
            numbers[parameter.name] = arg
            continue
        buffer = function.buffer_map[parameter]
        tensors[buffer.data.name] = arg
        pairs = [*zip(buffer.shape, arg.shape), *zip(buffer.strides, arg.stride())]
        for size, number in pairs:
            if isinstance(size, Var):
                numbers.setdefault(size.name, int(number))
    return tensors, numbers


class _Values:
    """Values of expressions of host code, by the names of their variables."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], numbers: Mapping[str, int | float]
    ) -> None:
        self.arguments: dict[str, Argument] = dict(numbers)
        self.numbers = numbers
        self.described: dict[str, str] = {}  # tensors, by the name of their descriptor
        self.encoded: dict[str, tuple[int, ...]] = {}
        for name, tensor in tensors.items():
            self.arguments[name] = _tensor_argument(tensor)

    def describe(self, function: str, operands: Sequence[Any]) -> None:
        """Note a TMA descriptor that host code makes.

        Source: tilelang/jit/adapter/utils.py, parse_tma_descriptor_args: descriptor, type, rank,
        address; then sizes, strides in bytes, box and steps, each innermost first.
        """
        name, rank = next(_variables(operands[0])).name, self.integer(operands[2])
        tensor = self.argument(operands[3])
        self.arguments[name] = None
        self.described[name] = self.name(operands[3])
        if function != _TILED or not isinstance(tensor, TensorArgument):
            return
        numbers = [self.integer(operand) for operand in operands[4:]]
        self.encoded[name] = (self.integer(operands[1]), rank, *numbers)
        sizes, strides, box = (numbers[n * rank : (n + 1) * rank] for n in range(3))
        element = max(strides[0], 1)
        self.arguments[name] = TensorArgument(
            storage=tensor.storage,
            storage_bytes=tensor.storage_bytes,
            offset_bytes=tensor.offset_bytes,
            shape=tuple(sizes[::-1]),
            strides=tuple(stride // element for stride in strides[::-1]),
            element_bytes=element,
            block=tuple(box[::-1]),
        )

    def encodings(self, operands: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        """Return the numbers of descriptors among parameters, by their place."""
        names = [next((v.name for v in _variables(operand)), "") for operand in operands]
        return {n: self.encoded[name] for n, name in enumerate(names) if name in self.encoded}

    def name(self, operand: Any) -> str:
        """Return the name of the variable in an operand, or of the tensor that it describes."""
        names = [variable.name for variable in _variables(operand)]
        return self.described.get(names[0], names[0]) if names else ""

    def integer(self, operand: Any) -> int:
        """Return the value of an integer expression.

        Raises:
            UnsupportedError: it has a variable that no argument gives.
        """
        from tvm.arith import Analyzer
        from tvm.tirx import IntImm
        from tvm.tirx.stmt_functor import substitute

        values = {
            variable: IntImm(variable.dtype, int(self.numbers[variable.name]))
            for variable in _variables(operand)
            if variable.name in self.numbers
        }
        value = Analyzer().simplify(substitute(operand, values)) if values else operand
        if not isinstance(value, IntImm):
            raise UnsupportedError(
                f"{_NAME} launches with {operand}, which is not known: not analysed"
            )
        return int(value.value)

    def argument(self, operand: Any) -> Argument:
        """Return what an operand passes to a kernel; ``None`` if that is not known."""
        from tvm.tirx import Var

        if isinstance(operand, Var):
            return self.arguments.get(operand.name)
        try:
            return self.integer(operand) if "int" in str(operand.dtype) else None
        except UnsupportedError:
            return None


def _variables(operand: Any) -> Iterator[Any]:
    from tvm.tirx import Var
    from tvm.tirx.stmt_functor import post_order_visit

    variables: list[Any] = []
    post_order_visit(
        operand, lambda node: variables.append(node) if isinstance(node, Var) else None
    )
    yield from variables


def _tensor_argument(tensor: torch.Tensor) -> Argument:
    from solkit.adapters.fake_triton import argument_of

    return argument_of(tensor)


# ------------------------------------------------------------------------------------ autotuning


def _call_autotuned(tuned: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``AutoTuneImpl.__call__`` that chooses a configuration and times none."""
    returns_kernel = kwargs.pop("__return_kernel", False)
    configs = tuned.configs(*args, **kwargs) if callable(tuned.configs) else tuned.configs
    listed = [dict(config) for config in configs]
    name = str(getattr(tuned.jit_impl.func, "__name__", "kernel"))
    seen = launch_recording.current_recording()
    bound = {*kwargs, *list(tuned.jit_impl.signature.parameters)[: len(args)]}
    if listed and not bound >= listed[0].keys():
        config = choose_config(listed, seen.params if seen else {}, name)
        if seen is not None:
            seen.tuners.setdefault(name, tilelang_tuner(listed))
            if len(listed) > 1:
                values = settings_text(config)
                which = f"{len(listed)} configurations, showing {values}"
                launch_recording.add_remark(f"{user_line()}: tilelang.autotune on {name}: {which}")
        kwargs = {**kwargs, **config}
    if returns_kernel:
        return tuned.jit_impl.compile(*args, **kwargs)
    return tuned.jit_impl(*args, **kwargs)
