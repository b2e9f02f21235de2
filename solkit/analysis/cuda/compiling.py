"""Device code of CUDA extensions, compiled for a target."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Union

from solkit.adapters.cubin import parse_functions as functions_of
from solkit.adapters.generated_code import GeneratedCode
from solkit.adapters.nvrtc import Cubin, CudaCompileError, compile_cuda
from solkit.adapters.sass import disassemble, parse_listing
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.common.instructions import instruction_mix
from solkit.analysis.cuda.launches import CudaLaunch
from solkit.analysis.cuda.source import Source
from solkit.core import Device
from solkit.errors import UnsupportedError

_MAX_THREADS = 1024  # CUDA C++ Programming Guide, technical specifications
_OPTIONS = (
    *("-std=c++20", "-lineinfo", "-default-device"),
    # as torch.utils.cpp_extension asks nvcc for (COMMON_NVCC_FLAGS)
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"),
    *("-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"),
)
_Code = Union[Source, GeneratedCode]
_FEW, _WHOLE = "", "#define SOLKIT_WHOLE_STD\n"
"""Parts of std, in front of prelude.cuh: what kernels use most, or what CUDA's headers have."""
_OF_STD = re.compile(r'error: .*"std\b')


def compile_launches(launches: Sequence[CudaLaunch], device: Device) -> tuple[Compiled, ...]:
    """Compile each source once for a device.

    Returns:
        One result per launch, in their order.

    Raises:
        UnsupportedError: there is no NVRTC here, or it makes no code for the device.
    """
    if launches and device.vendor != "NVIDIA":
        raise UnsupportedError(f"NVRTC makes no code for {device.name}")
    by_source: dict[tuple[_Code, tuple[str, ...]], dict[str, None]] = {}
    for launch in launches:
        names = by_source.setdefault((launch.source, launch.flags), {})
        names.setdefault(launch.host.kernel)
    by_kernel: dict[tuple[_Code, tuple[str, ...], str], Compiled] = {}
    for (source, flags), kernels in by_source.items():
        if isinstance(source, GeneratedCode):
            results = _compile_generated(source, list(kernels), device)
        else:
            results = _compile_one_source(source, flags, list(kernels), device)
        for kernel, compiled in results.items():
            by_kernel[source, flags, kernel] = compiled
    return tuple(_with_shared_memory(launch, by_kernel, device) for launch in launches)


def _with_shared_memory(
    launch: CudaLaunch,
    by_kernel: dict[tuple[_Code, tuple[str, ...], str], Compiled],
    device: Device,
) -> Compiled:
    """Add this launch's shared memory, or the reason why it cannot launch."""
    compiled = by_kernel[launch.source, launch.flags, launch.host.kernel]
    dynamic = launch.host.shared_bytes
    if compiled.shared_bytes is None or dynamic is None:
        return replace(compiled, shared_bytes=None)
    shared = compiled.shared_bytes + dynamic
    limit, threads = device.limits.shared_per_block_bytes, math.prod(launch.host.block or (1,))
    error = compiled.error
    if shared > limit:
        major, minor = device.compute_capability
        error = (
            f"{shared} bytes of shared memory a block; compute capability {major}.{minor} allows "
            f"{limit}"
        )
    if not 0 < threads <= _MAX_THREADS:
        error = f"{threads} threads a block; a GPU takes 1 to {_MAX_THREADS}"
    if 0 in (launch.host.grid or ()):
        error = f"a grid of {launch.host.grid} has no block"
    return replace(compiled, shared_bytes=shared, error=error)


def _compile_generated(
    code: GeneratedCode, kernels: Sequence[str], device: Device
) -> dict[str, Compiled]:
    """Compile the CUDA C++ that a language wrote, or read what it compiled itself."""
    start = time.perf_counter()
    if not code.text:
        names = {kernel: kernel for kernel in kernels}
        return _compiled_by_kernel(Cubin(code.cubin, names, code.ptx), device, 0.0)
    major, minor = device.compute_capability
    options = [f"-arch=sm_{major}{minor}{'a' if major >= 9 else ''}", "-lineinfo", *code.options]
    try:
        cubin = compile_cuda(code.text, f"{kernels[0]}.cu", kernels, options)
    except CudaCompileError as error:  # the language's own compiler may take it
        why = f"NVRTC refuses the code of {code.language}: {_first_errors(str(error), kernels[0])}"
        return dict.fromkeys(kernels, Compiled(unread=why))
    return _compiled_by_kernel(cubin, device, time.perf_counter() - start)


def _compile_one_source(
    source: Source,
    flags: Sequence[str],
    kernels: Sequence[str],
    device: Device,
    std: str = _FEW,
    without: frozenset[str] = frozenset(),
) -> dict[str, Compiled]:
    """Compile kernels of one source; all of `std` only where they need it, as it takes seconds.

    Declarations that need what is not here are left out, at the places `without`: often only host
    code uses these.
    """
    start = time.perf_counter()
    major, minor = device.compute_capability
    text = (
        std + _header_replacements(source) + source.device_text(100 * major + 10 * minor, without)
    )
    options = [f"-arch={_architecture(source, flags, device)}", *_OPTIONS, *_options_of(flags)]
    try:
        cubin = compile_cuda(text, "cuda", kernels, options)
    except CudaCompileError as error:
        if std == _FEW and _OF_STD.search(str(error)):
            return _compile_one_source(source, flags, kernels, device, _WHOLE, without)
        if more := _places_of_missing_names(str(error)) - without:
            remaining = source.device_text(100 * major + 10 * minor, without | more)
            if not text.endswith(remaining):
                return _compile_one_source(source, flags, kernels, device, std, without | more)
        missing = re.search(r'cannot open source file "(.*)"', str(error))
        if missing:  # not the kernel's fault
            why = f"{missing[1]} is not here; pip install 'solkit[cuda]' brings CUDA's own headers"
            return dict.fromkeys(kernels, Compiled(unread=why))
        if len(kernels) > 1:  # one that cannot be instantiated must not affect the others
            alone = (
                _compile_one_source(source, flags, [kernel], device, std, without)
                for kernel in kernels
            )
            return {name: compiled for results in alone for name, compiled in results.items()}
        errors = _first_errors(str(error), kernels[0])
        lacking = _missing_dependency(source, str(error)) or (
            f"{', '.join(sorted(without)[:3])} needs what is not here" if without else ""
        )
        return {
            kernels[0]: Compiled(unread=f"{errors}: {lacking}")
            if lacking
            else Compiled(error=errors)
        }
    return _compiled_by_kernel(cubin, device, time.perf_counter() - start)


_UNDEFINED = re.compile(
    r"error: .*(is undefined|has no member|is not a template|must be a (class or )?namespace name"
    r"|incomplete type|unrecognized token|could not resolve|is ambiguous)"
)
_REPLACED = re.compile(
    r"error: .*(namespace \"(std|at|c10|torch|thrust|cub|cuda|cute|cutlass)\b|__builtin_"
    r"|class \"(std|at|c10|torch)::|name followed by \"::\" must be)"
)


def _places_of_missing_names(log: str) -> frozenset[str]:
    """Return the places of errors about names that are declared nowhere."""
    errors = re.findall(r"^(.*)\((\d+)\): (error: .*)$", log, re.MULTILINE)
    return frozenset(
        f"{file}:{line}"
        for file, line, message in errors
        if _UNDEFINED.search(message) or _REPLACED.search(message)
    )


def _missing_dependency(source: Source, log: str) -> str:
    """Return the reason why an error is none of the kernel's, such as unread headers."""
    first = next((line for line in log.splitlines() if "error: " in line), "")
    if _REPLACED.search(first):
        return "SolKit has a part of the headers of C++ and PyTorch alone"
    if _UNDEFINED.search(first) and source.unread_headers:
        return f"{', '.join(source.unread_headers[:3])} is not read here"
    return ""


def _compiled_by_kernel(cubin: Cubin, device: Device, seconds: float) -> dict[str, Compiled]:
    functions = functions_of(cubin.binary)
    try:
        codes, unread = parse_listing(disassemble(cubin.binary)), None
    except UnsupportedError as error:
        codes, unread = {}, str(error)
    by_kernel: dict[str, Compiled] = {}
    for kernel, name in cubin.names.items():
        mix = instruction_mix(codes[name]) if name in codes else None
        by_kernel[kernel] = Compiled(
            registers=functions[name].registers,
            spills=functions[name].stack_bytes // 4,
            shared_bytes=functions[name].static_shared_bytes(device),
            tensor_cores=mix.of("tensor") > 0 if mix else None,
            seconds=seconds / len(cubin.names),
            unread=unread,
            instructions=mix,
            ptx=cubin.ptx,
            entry=name,
        )
    return by_kernel


def _header_replacements(source: Source) -> str:
    """Return replacements for headers that NVRTC lacks."""
    names = ["prelude.cuh", *(["cub.cuh"] if "cub/cub.cuh" in source.text else [])]
    return "".join(Path(__file__).with_name(name).read_text() for name in names)


def _architecture(source: Source, flags: Sequence[str], device: Device) -> str:
    """Return the architecture as torch asks nvcc for it.

    The architecture-specific one, or the one of a family, if the options name it
    (``-gencode=arch=compute_100a,code=sm_100a``) or its instructions are used.
    """
    major, minor = device.compute_capability
    named = re.search(rf"(?:sm|compute)_{major}{minor}([af])\b", " ".join(flags))
    if named:
        return f"sm_{major}{minor}{named[1]}"
    special = major >= 9 and re.search(r"\b(wgmma|setmaxnreg|tcgen05)\b", source.text)
    return f"sm_{major}{minor}{'a' if special else ''}"


_CHANGING = (
    *("use_fast_math", "D", "U", "define-macro", "undefine-macro", "maxrregcount"),
    *("fmad", "ftz", "prec-div", "prec-sqrt"),
)
"""Options of nvcc that change NVRTC's output: speed, definitions, registers."""


def _options_of(flags: Sequence[str]) -> list[str]:
    """Return nvcc's options that change NVRTC's output, as NVRTC takes them.

    A value may be the next word (``--fmad false``, ``-D NAME``), which NVRTC does not take.
    """
    options: list[str] = []
    for flag, following in zip(flags, [*flags[1:], "-"], strict=False):
        name = flag.lstrip("-")
        if not flag.startswith("-") or not name.startswith(_CHANGING):
            continue
        has_value = "=" in flag or (len(name) > 1 and name[0] in "DU") or name == "use_fast_math"
        if not has_value and not following.startswith("-"):
            flag += following if name in ("D", "U") else f"={following}"
        options.append(flag)
    return options


def _first_errors(log: str, kernel: str) -> str:
    """Return two errors as ``file:line: message``, or with the kernel's name if at fault."""
    errors = re.findall(r"^(.*)\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.MULTILINE)
    messages = [
        f"{kernel if file == '__nv_name_map' else f'{file}:{line}'}: {message}"
        for file, line, message in errors[:2]
    ]
    return " / ".join(messages) or (log.strip().splitlines() or ["NVRTC gave no reason"])[0]
