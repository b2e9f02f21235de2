"""The backends of Triton's compiler: what differs from one vendor's GPUs to another's.

A `Target` is all that `solkit.adapters.triton_compiler` asks of a backend. Support for one more
vendor is a target here, a reader of its binary and of its assembly, and its architectures in the
catalogue (docs/decisions/0066-gpus-of-other-vendors.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import nvidia
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptx_version_from_options

from solkit.adapters import amdgcn, code_object, cubin, triton_ptx
from solkit.adapters.sass import Code
from solkit.adapters.triton_ptx import Widths
from solkit.core import Device

_OLDEST = (8, 0)
"""Below, Triton's code is not what a user would run there (it dropped older GPUs in 3.x)."""
_MAX_TMEM_COLUMNS = 512  # PTX ISA, tcgen05.alloc; the limit triton/compiler/compiler.py checks


@dataclass(frozen=True)
class Usage:
    """Resources of a kernel, as its binary says; fields as in `solkit.core.Facts`."""

    registers: int
    spills: int
    stack_bytes: int
    scalar_registers: int | None = None
    accumulation_registers: int | None = None
    scratch_bytes: int | None = None


@dataclass(frozen=True)
class Target:
    """One backend.

    Attributes:
        name: Triton's.
        binary: key of the binary in `CompiledKernel.asm`.
        assembly: key of the text that is closest to it.
        gpu: Triton's name for a device.
        usage: reads a binary; takes it and the kernel's name.
        matrix_instructions: substrings, one of which is in the assembly of each kernel that
            multiplies matrices.
        widths: bytes that a thread's instruction moves, from the assembly.
        read_code: reads machine code from the assembly, where that is one; ``None`` where it takes
            a disassembler.
        allocate: adds the passes that place shared memory, for a kernel that is only lowered;
            ``None`` where estimates of what the rest of the compiler decides do not hold, so that
            kernels are always compiled.
        most_tensor_memory: columns; 0 without such memory.
    """

    name: str
    binary: str
    assembly: str
    gpu: Callable[[Device], GPUTarget]
    usage: Callable[[bytes, str], Usage]
    matrix_instructions: tuple[str, ...]
    widths: Callable[[str], Widths]
    read_code: Callable[[str], Code] | None = None
    allocate: Callable[[Any, Any, GPUTarget], None] | None = None
    most_tensor_memory: int = 0


def _cuda_gpu(device: Device) -> GPUTarget:
    major, minor = device.compute_capability
    return GPUTarget("cuda", major * 10 + minor, device.limits.warp_threads)


def _cubin_usage(binary: bytes, name: str) -> Usage:
    """Stack bytes / 4 are what triton/backends/nvidia/driver.c reports as spills."""
    function = cubin.parse_functions(binary)[name]
    return Usage(function.registers, function.stack_bytes // 4, function.stack_bytes)


def _allocate_cuda(manager: Any, options: Any, target: GPUTarget) -> None:
    """Source: triton/backends/nvidia/compiler.py, make_llir."""
    ptx_version = get_ptx_version_from_options(options, target.arch)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, target.arch, ptx_version)
    nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)


def _hip_gpu(device: Device) -> GPUTarget:
    return GPUTarget("hip", device.architecture, device.limits.warp_threads)


def _code_object_usage(binary: bytes, name: str) -> Usage:
    usage = code_object.kernel_usages(binary)[name]
    return Usage(
        registers=usage.vector_registers,
        spills=usage.vector_spills,
        stack_bytes=usage.scratch_bytes,
        scalar_registers=usage.scalar_registers,
        accumulation_registers=usage.accumulation_registers,
        scratch_bytes=usage.scratch_bytes,
    )


_TARGETS: Mapping[str, Target] = {
    "NVIDIA": Target(
        name="cuda",
        binary="cubin",
        assembly="ptx",
        gpu=_cuda_gpu,
        usage=_cubin_usage,
        # PTX ISA: mma.sync, wgmma, tcgen05.mma
        matrix_instructions=("wgmma.mma_async.", "mma.sync.", "tcgen05.mma."),
        widths=triton_ptx.vector_widths,
        allocate=_allocate_cuda,
        most_tensor_memory=_MAX_TMEM_COLUMNS,
    ),
    "AMD": Target(
        name="hip",
        binary="hsaco",
        assembly="amdgcn",
        gpu=_hip_gpu,
        usage=_code_object_usage,
        matrix_instructions=("v_mfma_", "v_smfmac_"),  # CDNA 3 ISA guide, "Matrix Arithmetic"
        widths=amdgcn.vector_widths,
        read_code=amdgcn.read_code,
    ),
}
"""By the vendor of the device."""


def find_target(name: str) -> Target:
    """Return the target of Triton's name; raises KeyError, which has it."""
    return {target.name: target for target in _TARGETS.values()}[name]


def target_of(device: Device) -> Target:
    """Return the target that compiles for a device."""
    return _TARGETS[device.vendor]


def is_analysed(device: Device) -> bool:
    """Tell whether kernels are compiled for a device as a user would run them there."""
    if device.vendor == "NVIDIA":
        return device.compute_capability >= _OLDEST
    return device.vendor in _TARGETS
