"""Capture what CuTe DSL compiles and launches, without a GPU.

The only module that touches CuTe DSL's insides. CuTe DSL compiles a host function and its kernels
for the architecture that `CUTE_DSL_ARCH` names. The host function is machine code of this machine:
it packs parameters, TMA descriptors among them, and calls CUDA's runtime. So it runs here, too:
calls of the runtime become calls of this module, which records launches and reads the packed
parameters. Tensors are fakes with addresses of their own, by which pointers among the parameters
are told.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from solkit.adapters import launch_recording, versions
from solkit.adapters.fake_cuda.contents import forget_contents
from solkit.adapters.fake_cuda.guesses import user_line
from solkit.adapters.fake_cuda.storage import data_ptr, storage_at
from solkit.adapters.generated_code import GeneratedCode, GeneratedLaunch, launch_generated
from solkit.adapters.launch_recording import Argument, PackedArgument, TensorArgument, tensors_of
from solkit.adapters.ptx_entries import entries_of
from solkit.adapters.tensor_maps import DESCRIPTOR_BYTES, described_tensor

_NAME = "CuTe DSL"
_PATCHED = ("cutlass.base_dsl.compiler", "cutlass.base_dsl.jit_executor")
_POINTER_BYTES = 8
_DESCRIPTOR_ALIGNMENT = 64
_CLUSTER = 4
"""``cudaLaunchAttributeClusterDimension``."""
_KERNEL = re.compile(
    r"kernel_cutlass_(\w+?)(?:_(?:object_at|tensor|Tensor|__main__|ptr|0x|TiledMMA|Copy|\d)\w*)?$"
)


def install(module: Any) -> None:
    """Fake CuTe DSL; `module` is ``cutlass.cutlass_dsl.cuda_jit_executor``."""
    compiler, jit_executor = map(import_module, _PATCHED)

    versions.warn_if_untested("cutlass", importlib.metadata.version("nvidia-cutlass-dsl"))
    _set_environment()
    compiled = module.CudaDialectJitCompiledFunction
    compiler.Compiler.jit = _jit_of(compiler.Compiler.jit)
    compiled.num_devices = 1
    compiled._load_cuda_library = _loading_of(compiled._load_cuda_library)
    jit_executor.JitCompiledFunction.__init__ = _registering(
        jit_executor.JitCompiledFunction.__init__
    )
    for owner in (jit_executor.JitCompiledFunction, jit_executor.JitExecutor):
        owner.__call__ = _pinned(owner.__call__)


def install_tensors(module: Any) -> None:
    """Let fake tensors be taken; `module` is ``cutlass.cute.runtime``."""
    original = module._Tensor.__init__

    def make(self: Any, tensor: Any, *args: Any, **named: Any) -> None:
        original(
            self, _Exported(tensor) if isinstance(tensor, FakeTensor) else tensor, *args, **named
        )

    module._Tensor.__init__ = make


def install_tvm_ffi(module: Any) -> None:
    """Let functions of TVM-FFI take fakes; `module` is ``cutlass.cutlass_dsl.tvm_ffi_provider``."""
    for owner in (module.TVMFFIJitCompiledFunction, module.TVMFFIJitCompiledFunctionWithKwargs):
        owner.__call__ = _pinned(_exporting(owner.__call__))


def _exporting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that hands fake tensors over as DLPack has them."""

    def call(self: Any, /, *args: Any, **named: Any) -> Any:
        args, named = tree_map_only(FakeTensor, _Exported, (args, named))
        return original(self, *args, **named)

    return call


def install_hardware(module: Any) -> None:
    """Answer questions about the GPU; `module` is ``cutlass.utils.hardware_info``."""
    info = module.HardwareInfo
    info.__init__ = lambda self, device_id=0: setattr(self, "device_id", device_id)
    info.get_max_active_clusters = lambda _, size, *__, **___: _sm_count() // max(int(size), 1)
    info.get_device_multiprocessor_count = lambda *_: _sm_count()


def _sm_count() -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def _set_environment() -> None:
    major, minor = torch.cuda.get_device_capability()
    architecture = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    os.environ |= {
        "CUTE_DSL_ARCH": architecture,
        "CUTE_DSL_KEEP": "ptx,cubin",
        "CUTE_DSL_DUMP_DIR": tempfile.mkdtemp(prefix="solkit-cute-"),
        "CUTE_DSL_LINEINFO": "1",
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }


def _pinned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call with plain values: what it launches depends on them."""

    def call(self: Any, /, *args: Any, **named: Any) -> Any:
        steps = launch_recording.current_steps()
        if steps is not None:
            steps.mark_unrepeatable("CuTe DSL's host code is not followed")
            args, named = steps.pin_values((args, named))
        with _disable_current_modes():
            result = original(self, *args, **named)
        if _faults:
            raise _faults.pop()
        return result

    return call


# --------------------------------------------------------------------------------------- tensors


class _Exported:
    """A fake tensor as DLPack has it, at its fake address.

    Source: dlpack.h of DLPack 1.0, ``DLManagedTensor``.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return _capsule_of(self.tensor)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_CPU, _CUDA = 1, 2
_CODES: Mapping[torch.dtype, int] = {
    torch.float8_e4m3fn: 10, torch.float8_e5m2: 12, torch.float8_e8m0fnu: 14,
    torch.bfloat16: 4, torch.bool: 6,
}  # fmt: skip
_kept: list[Any] = []
"""What capsules point to; a throw-away process keeps it."""
_tensors: dict[int, TensorArgument] = {}
"""The tensors that were exported, by their address."""
_exported: dict[int, torch.Tensor] = {}
"""The latest of each storage."""


def _capsule_of(tensor: torch.Tensor) -> Any:
    address, dims = data_ptr(tensor), tensor.dim()
    argument = _argument_of(tensor)
    if isinstance(argument, TensorArgument):
        _tensors[address] = argument
        _exported[argument.storage] = tensor
    integers = ctypes.c_int64 * max(dims, 1)
    shape, strides = integers(*tensor.shape), integers(*tensor.stride())
    default = 2 if tensor.is_floating_point() else 0 if tensor.dtype.is_signed else 1
    managed = _DLManagedTensor(
        address, _CUDA if tensor.is_cuda else _CPU, 0, dims,
        _CODES.get(tensor.dtype, default), 8 * tensor.element_size(), 1,
        shape, strides, 0, None, ctypes.cast(_DELETER, ctypes.c_void_p),
    )  # fmt: skip
    _kept.append((tensor, shape, strides, managed))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    return new(ctypes.addressof(managed), b"dltensor", None)


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
"""Nothing of a fake tensor is freed."""


def _argument_of(tensor: torch.Tensor) -> Argument:
    from solkit.adapters.fake_triton import argument_of

    return argument_of(tensor)


def _tensor_at(address: int) -> TensorArgument | None:
    """Return the tensor behind a pointer; ``None`` if it points to none."""
    if address in _tensors:
        return _tensors[address]
    place = storage_at(address)
    if place is None:
        return None
    storage, offset = place
    size = int(storage.nbytes())
    return TensorArgument(storage._cdata, size, offset, (size - offset,), (1,), 1)


# --------------------------------------------------------------------------------- CUDA's runtime


def _jit_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Compiler.jit`` for modules that call this module instead of CUDA."""

    def jit(self: Any, module: Any, *args: Any, **named: Any) -> Any:
        _replace_runtime(module)
        return original(self, module, *args, **named)

    return jit


def _replace_runtime(module: Any) -> None:
    """Define CUDA's functions in a module of LLVM's dialect, which declares them.

    Those without a replacement succeed and do nothing.
    """
    ir = import_module("cutlass._mlir.ir")

    for function in list(module.body.operations):
        if function.operation.name != "llvm.func" or len(function.regions[0].blocks):
            continue
        name = ir.StringAttr(function.attributes["sym_name"]).value
        kind = re.match(
            r"!llvm\.func<(\w+) \(([^.]*)\)>", str(function.attributes["function_type"])
        )
        is_of_cuda = name.startswith("_cu") or name in _RUNTIME
        if not is_of_cuda or kind is None:
            continue
        with module.context, ir.Location.unknown(module.context):
            module.body.append(ir.Operation.parse(_definition(name, kind[1], kind[2])))
        function.operation.erase()


def _definition(name: str, result: str, parameters: str) -> str:
    """Return a function in LLVM's dialect that calls its replacement, or returns 0."""
    kinds = [_spelled(kind.strip()) for kind in parameters.split(",") if kind.strip()]
    returned = _spelled(result)
    head = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(kinds))
    passed = ", ".join(f"%a{n}" for n in range(len(kinds)))
    replacement = _RUNTIME.get(name.lstrip("_"))
    if replacement is None:
        body = f"%r = llvm.mlir.zero : {returned}"
    else:
        at = ctypes.cast(replacement, ctypes.c_void_p).value
        body = (
            f"%n = llvm.mlir.constant({at} : i64) : i64\n"
            "%p = llvm.inttoptr %n : i64 to !llvm.ptr\n"
            f"%r = llvm.call %p({passed}) : !llvm.ptr, ({', '.join(kinds)}) -> {returned}"
        )
    if result == "void":
        return f"llvm.func @{name}({head}) {{\nllvm.return\n}}"
    return f"llvm.func @{name}({head}) -> {returned} {{\n{body}\nllvm.return %r : {returned}\n}}"


def _spelled(kind: str) -> str:
    return kind if kind[0] in "if" else f"!llvm.{kind}"


_loading: list[GeneratedCode] = []  # a stack
_codes: dict[str, GeneratedCode] = {}
"""The latest code of each kernel's name: TVM-FFI loads kernels by itself."""
_kernels: dict[int, tuple[str, GeneratedCode]] = {}
"""Kernels by the handle that host code gets."""
_faults: list[BaseException] = []
"""What went wrong in a call from machine code, which no exception leaves."""


def _code_of(compiled: Any) -> GeneratedCode:
    artifacts = compiled.artifacts
    ptx, cubin = (getattr(artifacts, name, None) for name in ("PTX", "CUBIN"))
    return GeneratedCode(_NAME, ptx=ptx or "", cubin=cubin or b"")


def _registering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor that notes the code of a compiled function."""

    def make(self: Any, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        code = _code_of(self)
        _codes.update(dict.fromkeys(entries_of(code.ptx), code))

    return make


def _loading_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that loads a module's kernels, which get handles."""

    def load(self: Any) -> Any:
        _loading.append(_code_of(self))
        try:
            original(self)
        finally:
            _loading.pop()
        return []

    return load


_Pointers = ctypes.POINTER(ctypes.c_void_p)


def _load_library(library: Any, *_: Any) -> int:
    """``cudaLibraryLoadData``."""
    library[0] = 1
    return 0


def _get_kernel(handle: Any, _: Any, name: bytes) -> int:
    """``cudaLibraryGetKernel``."""
    code = _loading[-1] if _loading else _codes.get(name.decode())
    if code is not None:
        number = len(_kernels) + 1
        _kernels[number] = (name.decode(), code)
        handle[0] = number
    return 0


def _load_once(library: Any, load: Any, load_to_device: Any, _: Any) -> int:
    """``cuda_dialect_init_library_once`` of TVM-FFI's host code, for the one GPU."""
    return int(load(library) or load_to_device(library, 0))


class _LaunchConfig(ctypes.Structure):
    """``cudaLaunchConfig_t`` of CUDA 12 and 13."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    )


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("value", ctypes.c_uint32 * 16),
    )


def _launch_extended(config: Any, kernel: Any, parameters: Any) -> int:
    """``cudaLaunchKernelExC``."""
    with _noting_faults():
        settings = config[0]
        listed = ctypes.cast(settings.attributes, ctypes.POINTER(_LaunchAttribute))
        attributes = {listed[n].kind: listed[n].value for n in range(settings.count)}
        cluster = tuple(attributes[_CLUSTER][:3]) if _CLUSTER in attributes else (1, 1, 1)
        sizes = tuple(settings.grid), tuple(settings.block), cluster
        _record(kernel, sizes, settings.shared_bytes, parameters)
    return 0


def _launch(kernel: Any, *rest: Any) -> int:
    """``cudaLaunchKernel``."""
    with _noting_faults():
        _record(kernel, (rest[:3], rest[3:6], (1, 1, 1)), rest[7], rest[6])
    return 0


def _get_attribute(value: Any, *_: Any) -> int:
    """``cudaDeviceGetAttribute``; what is asked for is the number of SMs, or a capability."""
    value[0] = _sm_count()
    return 0


@contextlib.contextmanager
def _noting_faults() -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # machine code is between it and the caller
        _faults.append(error)
        seen = launch_recording.current_recording()
        if seen is not None:  # whoever called may not look for it
            reason = f"not analysed: a launch by {_NAME} ({user_line()}): {error!r}"
            seen.unanalysed.setdefault(reason)


_INT, _POINTER = ctypes.c_int32, ctypes.c_void_p
_TYPES: Sequence[tuple[str, Callable[..., int], tuple[Any, ...]]] = (
    (
        "cudaLibraryLoadData",
        _load_library,
        (_Pointers, *[_POINTER] * 3, _INT, *[_POINTER] * 2, _INT),
    ),
    ("cudaLibraryGetKernel", _get_kernel, (_Pointers, _POINTER, ctypes.c_char_p)),
    ("cudaLaunchKernelEx", _launch_extended, (ctypes.POINTER(_LaunchConfig), _POINTER, _Pointers)),
    (
        "cudaLaunchKernel",
        _launch,
        (_POINTER, *[ctypes.c_uint32] * 6, _Pointers, ctypes.c_size_t, _POINTER),
    ),
    ("cudaDeviceGetAttribute", _get_attribute, (ctypes.POINTER(_INT), _INT, _INT)),
    (
        "cuda_dialect_init_library_once",
        _load_once,
        (
            _POINTER,
            ctypes.CFUNCTYPE(_INT, _POINTER),
            ctypes.CFUNCTYPE(_INT, _POINTER, _INT),
            _POINTER,
        ),
    ),
)
_RUNTIME: Mapping[str, Any] = {
    name: ctypes.CFUNCTYPE(_INT, *kinds)(function) for name, function, kinds in _TYPES
}
"""CUDA's functions by name, as machine code calls them."""


# -------------------------------------------------------------------------------------- launches


def _record(
    handle: int, sizes: tuple[Sequence[int], ...], shared_bytes: int, parameters: Any
) -> None:
    """Tell of a launch with its packed parameters."""
    kernel, code = _kernels[handle]
    arguments = tuple(
        _unpacked(ctypes.string_at(parameters[n], p.size_bytes), p.alignment_bytes)
        for n, p in enumerate(entries_of(code.ptx)[kernel].parameters)
    )
    for argument in arguments:
        for tensor in tensors_of(argument):
            if tensor.storage in _exported:
                forget_contents(_exported[tensor.storage])  # a kernel may have written to it
    launch_generated(
        GeneratedLaunch(
            kernel=kernel,
            name=_shown_name(kernel),
            code=code,
            grid=_axes(sizes[0]),
            block=_axes(sizes[1]),
            cluster=_axes(sizes[2]),
            shared_bytes=int(shared_bytes),
            line=user_line(),
            parameters=tuple(f"argument {n}" for n in range(len(arguments))),
            arguments=arguments,
        )
    )


def _axes(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = map(int, sizes)
    return x, y, z


def _unpacked(data: bytes, alignment: int) -> Argument:
    """Return a parameter: a pointer's tensor, a number, or bytes with the pointers among them."""
    tensors: dict[int, TensorArgument] = {}
    for offset in range(0, len(data) - _POINTER_BYTES + 1, _POINTER_BYTES):
        tensor = _tensor_at(int.from_bytes(data[offset : offset + _POINTER_BYTES], "little"))
        part = data[offset : offset + DESCRIPTOR_BYTES]
        if tensor is not None and alignment >= _DESCRIPTOR_ALIGNMENT:
            tensor = described_tensor(part, tensor) or tensor
        if tensor is not None:
            tensors[offset] = tensor
    if len(data) == _POINTER_BYTES and 0 in tensors:
        return tensors[0]
    return PackedArgument(data, tensors)


def _shown_name(kernel: str) -> str:
    """Return the name of the Python function, as far as CuTe DSL's name of the kernel tells it.

    A method's is followed by its class's module, without dots, and the class.
    """
    match = _KERNEL.match(kernel)
    name = match[1] if match else kernel
    if "_object_at" in kernel:
        for module in sys.modules:
            function, _, owner = name.partition(f"_{module.replace('.', '')}_")
            if owner[:1].isupper():
                return function
    return name
