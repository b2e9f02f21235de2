"""Kernels that are given as a binary or as PTX: what they use, and how the driver launches them.

A cubin says registers, shared memory, threads, parameters and instructions. PTX is assembled for
the device by the ptxas that Triton ships, and can be followed besides.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from triton import knobs
from triton.backends.nvidia.compiler import get_ptxas

from solkit.adapters import cubin, fake_cuda, fake_triton
from solkit.adapters.cubin import CubinError, Function
from solkit.adapters.foreign_kernels import ForeignKernel
from solkit.adapters.ptx_entries import Entry, entries_of
from solkit.adapters.triton_cache import cached_result
from solkit.adapters.triton_compiler import Compiled, Specialisation, load_error
from solkit.core import Device
from solkit.core.kernel_programs import KernelFunction, KernelProgram
from solkit.errors import KernelFileError, UnsupportedError

_LANES = 32
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_NEWER = re.compile(r"Unsupported \.version|is not (a )?(known|recognized)|unknown value for.*sm_")
_TYPES = {
    **{"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"},
    **{"float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "bool": "i1"},
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
    },
}


def read_binary(path: str, entry: str | None = None, any_entry: bool = False) -> BinaryKernel:
    """Read a kernel.

    Args:
        path: of a ``.cubin`` or a ``.ptx``.
        entry: its name there, if there are several.
        any_entry: whether the first of several will do.

    Raises:
        KernelFileError: the file is missing, unreadable, or has no such kernel; names what it has.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise KernelFileError(f"cannot be read: {error.strerror}", path) from error
    try:
        names = list(cubin.parse_functions(data) if path.endswith(".cubin") else _entries(data))
    except CubinError as error:
        raise KernelFileError(f"is no cubin that SolKit can read: {error}", path) from error
    takes_first = entry is None and names and (any_entry or len(names) == 1)
    name = names[0] if takes_first else entry
    if name is None or name not in names:
        which = f"no kernel {name!r}" if name else "several kernels"
        listed = f"{which}; its kernels are: {', '.join(names)}" if names else "no kernel"
        raise KernelFileError(f"the file has {listed}", path)
    return BinaryKernel(Path(path).name, data, name)


def _entries(data: bytes) -> Mapping[str, Entry]:
    return entries_of(data.decode(errors="replace"))


@dataclass(frozen=True)
class BinaryLaunch:
    """Launch of a binary.

    Attributes:
        grid: blocks in x, y and z.
        block: threads of one.
        cluster: blocks of a cluster in x, y and z.
        shared_bytes: of a block, besides what the kernel declares.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0


class BinaryKernel(ForeignKernel):
    """A kernel of a file.

    Args:
        file: its name, for a reader.
        data: its contents.
        entry: the kernel's name in it.
    """

    language = "machine code"

    def __init__(self, file: str, data: bytes, entry: str) -> None:
        self.file, self.data, self.entry = file, data, entry

    @property
    def __name__(self) -> str:
        """The kernel's name in the file."""
        return self.entry

    @property
    def is_ptx(self) -> bool:
        """True if it is PTX, which can be followed."""
        return self.file.endswith(".ptx")

    def parameter_sizes(self) -> tuple[int, ...]:
        """Return bytes of each parameter."""
        head = self._head
        if isinstance(head, Entry):
            return tuple(parameter.size_bytes for parameter in head.parameters)
        return tuple(size for _, size in head.parameters)

    def threads(self) -> tuple[int, int, int] | None:
        """Return the threads that a block must have; ``None`` if it may have others."""
        return self._head.threads

    def cluster(self) -> tuple[int, int, int] | None:
        """Return the blocks that a cluster must have; ``None`` if the launch decides."""
        return self._head.cluster

    @functools.cached_property
    def _head(self) -> Entry | Function:
        listed = _entries(self.data) if self.is_ptx else cubin.parse_functions(self.data)
        return listed[self.entry]

    def program(self) -> KernelProgram:
        """See `ForeignKernel`."""
        text = self.data.decode(errors="replace") if self.is_ptx else ""
        return KernelProgram(self.entry, {self.entry: KernelFunction(text)})

    def may_write(self, parameter: str) -> bool:
        """See `ForeignKernel`: it may write through any."""
        del parameter
        return True

    def compile(self, kernel: Specialisation, device: Device) -> Compiled:
        """See `ForeignKernel`."""
        if device.vendor != "NVIDIA":
            return Compiled(unread=f"{self.file} is code of NVIDIA's, {device.name} runs other")
        start = time.perf_counter()
        ptx = self.data.decode(errors="replace") if self.is_ptx else ""
        try:
            binary = _assembled(self.data, device) if self.is_ptx else self.data
            function = cubin.parse_functions(binary)[self.entry]
        except UnsupportedError as error:
            return Compiled(unread=str(error))
        except _RefusedError as error:
            return Compiled(error=f"ptxas: {error}")
        except (CubinError, KeyError) as error:
            return Compiled(unread=f"{self.file}: {error}")
        launched: BinaryLaunch = kernel.options["launch"]
        shared = function.static_shared_bytes(device) + launched.shared_bytes
        warps = -(-math.prod(launched.block) // _LANES)
        own = cubin.architecture(binary)
        if not _runs(own, device):
            major, minor = device.compute_capability
            what = f"{self.file} is for sm_{own}, {device.name} runs sm_{major}{minor}"
            return Compiled(unread=what)
        why = self._refusal(function, launched) or load_error(shared, warps, device)
        return Compiled(
            error=why,
            registers=function.registers,
            spills=function.stack_bytes // 4,
            shared_bytes=shared,
            num_warps=warps,
            seconds=time.perf_counter() - start,
            cubin=binary,
            ptx=ptx,
            entry=self.entry,
        )

    def _refusal(self, function: Function, launched: BinaryLaunch) -> str | None:
        """Return why the driver would refuse the launch; ``None`` if it would not."""
        needed, threads = function.threads, math.prod(launched.block)
        if needed and needed != launched.block:
            listed = " x ".join(map(str, needed))
            return f"{self.entry} must be launched with blocks of {listed} threads, got {threads}"
        if function.most_threads and threads > function.most_threads:
            most = f"up to {function.most_threads} threads a block"
            return f"{self.entry} takes {most}, got {threads}"
        if function.cluster and function.cluster != launched.cluster:
            listed = " x ".join(map(str, function.cluster))
            return f"{self.entry} must be launched with clusters of {listed} blocks"
        if any(blocks % size for blocks, size in zip(launched.grid, launched.cluster)):
            return f"a grid of {launched.grid} does not divide into clusters of {launched.cluster}"
        return None


class _RefusedError(Exception):
    """The assembler refuses the PTX."""


def _runs(architecture: int, device: Device) -> bool:
    """Tell whether a device runs machine code: that of its major version, up to its minor one."""
    major, minor = device.compute_capability
    return not architecture or (architecture // 10 == major and architecture % 10 <= minor)


def _assembled(ptx: bytes, device: Device) -> bytes:
    """Return PTX as machine code of a device.

    Raises:
        UnsupportedError: it is for other devices, or newer than each ptxas here.
        _RefusedError: ptxas refuses it.
    """
    major, minor = device.compute_capability
    target = _TARGET.search(ptx.decode(errors="replace"))
    number, suffix = (int(target[1]), target[2]) if target else (0, "")
    if number > 10 * major + minor or (suffix == "a" and number != 10 * major + minor):
        what = f"the PTX is for sm_{number}{suffix}"
        raise UnsupportedError(f"{what}, {device.name} runs sm_{major}{minor}")
    option, refusal = f"-arch=sm_{major}{minor}{suffix}", ""
    for tool in _assemblers(10 * major + minor):
        key = f"solkit ptx {tool} {option} ".encode() + ptx
        try:
            (binary,) = cached_result(
                key, ["code.cubin"], functools.partial(_run_ptxas, tool, option, ptx)
            )
        except UnsupportedError as error:
            refusal = str(error)
        else:
            return binary
    raise UnsupportedError(refusal)


def _assemblers(architecture: int) -> list[str]:
    """Return paths of the ptxas that may be here: Triton's two, and the user's."""
    own = (get_ptxas(architecture), knobs.nvidia.ptxas_blackwell)
    paths = [*(tool.path for tool in own), shutil.which("ptxas")]
    return list(dict.fromkeys(path for path in paths if path))


def _run_ptxas(tool: str, option: str, ptx: bytes) -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="solkit-ptx-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(ptx)
        command = [tool, option, "-lineinfo", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return [target.read_bytes()]
    lines = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
    message = re.sub(r"\S+\.ptx, ", "", (lines or [f"exit code {done.returncode}"])[0])
    if _NEWER.search(done.stderr):
        raise UnsupportedError(f"this ptxas does not assemble it: {message}")
    raise _RefusedError(message)


# --------------------------------------------------------------------------------- launching


_specialisations: dict[tuple[Any, ...], Specialisation] = {}
_functions: weakref.WeakKeyDictionary[BinaryKernel, dict[tuple[int, BinaryLaunch], Any]]
_functions = weakref.WeakKeyDictionary()
"""The driver's handles by device and launch. A kernel's `id` may be that of one that is gone."""


def launch(kernel: BinaryKernel, how: BinaryLaunch, arguments: Mapping[str, Any]) -> None:
    """Launch a kernel on the current stream; on a fake GPU the launch is recorded.

    Args:
        kernel: of a file.
        how: grid, block and shared memory.
        arguments: tensors and numbers by name, in order.

    Raises:
        UnsupportedError: the driver is missing, or refuses the launch.
    """
    if fake_cuda.is_installed():
        specialisation = _specialisation(kernel, how, arguments)
        fake_triton.record_launch(specialisation, how.grid, [*arguments.values()])
    else:
        _launch_by_driver(kernel, how, [*arguments.values()])


def _specialisation(
    kernel: BinaryKernel, how: BinaryLaunch, arguments: Mapping[str, Any]
) -> Specialisation:
    """Return the record of a launch; equal launches get the same object."""
    signature = {name: _kind(value) for name, value in arguments.items()}
    key = id(kernel), how, tuple(signature.items())
    if key not in _specialisations:
        options = {
            "num_warps": -(-math.prod(how.block) // _LANES),
            "num_stages": 1,
            "num_ctas": math.prod(how.cluster),
            "launch": how,
        }
        _specialisations[key] = Specialisation(kernel, signature, {}, {}, options)
    return _specialisations[key]


def _kind(value: Any) -> str:
    """Return the type of an argument in Triton's notation."""
    if isinstance(value, torch.Tensor):
        return f"*{_TYPES.get(str(value.dtype).removeprefix('torch.'), 'i8')}"
    return "fp32" if isinstance(value, float) else "i32"


_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_PORTABLE = 8  # blocks of a cluster: CUDA C++ Programming Guide, Thread Block Clusters


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h: an id, padded to 8 bytes, and a value of 64."""

    _fields_ = (("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig`` of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def _launch_config(kernel: BinaryKernel, how: BinaryLaunch, stream: int) -> _Config:
    """Return a launch as ``cuLaunchKernelEx`` takes it; a kernel's own cluster is not repeated."""
    attribute = _Attribute(_CLUSTER, 0, (ctypes.c_uint * 16)(*how.cluster))
    count = int(kernel.cluster() is None and how.cluster != (1, 1, 1))
    triples = ((ctypes.c_uint * 3)(*sizes) for sizes in (how.grid, how.block))
    return _Config(*triples, how.shared_bytes, stream, ctypes.pointer(attribute), count)


def _launch_by_driver(kernel: BinaryKernel, how: BinaryLaunch, values: Sequence[Any]) -> None:
    own = kernel.cluster()
    if own not in (None, how.cluster):
        listed = " x ".join(map(str, own or ()))
        raise UnsupportedError(f"{kernel.entry} must be launched with clusters of {listed} blocks")
    sizes = kernel.parameter_sizes()
    if len(sizes) != len(values):
        raise UnsupportedError(f"{kernel.entry} takes {len(sizes)} arguments, got {len(values)}")
    packed = [_packed(value, size) for value, size in zip(values, sizes)]
    launch_packed(kernel, how, [ctypes.addressof(value) for value in packed])


def launch_packed(kernel: BinaryKernel, how: BinaryLaunch, addresses: Sequence[int]) -> None:
    """Launch a kernel on the current stream of the current GPU, in its own clusters if it has any.

    Args:
        kernel: of a file; loaded at its first launch.
        how: grid, block and shared memory.
        addresses: where each argument's bytes lie, as C has them.

    Raises:
        UnsupportedError: the driver refuses it.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    stream = torch.cuda.current_stream()  # makes the context
    handles, key = _functions.setdefault(kernel, {}), (torch.cuda.current_device(), how)
    if key not in handles:
        handles[key] = _loaded(driver, kernel, how)
    pointers = (ctypes.c_void_p * len(addresses))(*addresses)
    config = _launch_config(kernel, how, stream.cuda_stream)
    code = driver.cuLaunchKernelEx(ctypes.byref(config), handles[key], pointers, None)
    _checked(code, kernel)


def _loaded(driver: Any, kernel: BinaryKernel, how: BinaryLaunch) -> Any:
    """Return the driver's handle of a function; its module stays loaded."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = ctypes.c_char_p(kernel.data + b"\0")
    _checked(driver.cuModuleLoadData(ctypes.byref(module), image), kernel)
    name = kernel.entry.encode()
    _checked(driver.cuModuleGetFunction(ctypes.byref(function), module, name), kernel)
    if how.shared_bytes:
        _checked(driver.cuFuncSetAttribute(function, _SHARED_LIMIT, how.shared_bytes), kernel)
    if math.prod(kernel.cluster() or how.cluster) > _PORTABLE:
        _checked(driver.cuFuncSetAttribute(function, _NON_PORTABLE, 1), kernel)
    return function


def _checked(code: int, kernel: BinaryKernel) -> None:
    if code:
        raise UnsupportedError(f"{kernel.file}: the driver reports error {code} for {kernel.entry}")


def _packed(value: Any, size: int) -> Any:
    """Return an argument as C has it; a parameter's size tells 32 from 64 bits."""
    if isinstance(value, torch.Tensor):
        return ctypes.c_uint64(value.data_ptr())
    if isinstance(value, float):
        return ctypes.c_double(value) if size == 8 else ctypes.c_float(value)
    return ctypes.c_int64(int(value)) if size == 8 else ctypes.c_int32(int(value))
