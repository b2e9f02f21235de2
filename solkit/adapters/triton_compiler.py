"""Cross-compile Triton kernels for any GPU; none is needed.

The only module that calls Triton's compiler. Compiling redirects this process's console: when ptxas
fails, Triton prints the whole PTX.

Registers, spills and shared memory equal those that a GPU reports after loading the kernel. The
cubin holds registers and stack bytes; spills are stack bytes / 4 (triton/backends/nvidia/driver.c:
``CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES / 4``). Shared memory is the compiler's figure, which a launch
requests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import triton
from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars, ir, passes
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia_driver
from triton.compiler import ASTSource, CompiledKernel
from triton.compiler import compile as triton_compile
from triton.compiler.compiler import make_backend
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.cache import get_cache_key, get_cache_manager
from triton.runtime.errors import OutOfResources, PTXASError

from solkit.adapters import cubin, versions
from solkit.adapters.cubin import CubinError
from solkit.adapters.foreign_kernels import ForeignKernel
from solkit.adapters.sass import Code, disassemble, machine_code, parse_listing
from solkit.adapters.triton_ptx import Widths, mended_lines
from solkit.adapters.triton_targets import Target, Usage, find_target, target_of
from solkit.core import Device, InstructionMix, Launch, Value
from solkit.errors import UnsupportedError

T = TypeVar("T")
_MAX_THREADS_PER_BLOCK = 1024  # CUDA C++ Programming Guide, technical specifications
_TENSOR_CORE_LAYOUTS = ("#ttg.nvidia_mma", "ttng.tc_gen5_mma", "ttng.tmem_alloc")


@dataclass(frozen=True, eq=False)
class Specialisation:
    """The compiler's input.

    Attributes:
        function: the `triton.runtime.jit.JITFunction`, or a `ForeignKernel`.
        signature: argument types by name, in Triton's notation.
        constexprs: compile-time constants by their path in the arguments.
        attrs: known properties of arguments (divisibility), by path.
        options: the backend's options: ``num_warps``, ``num_stages`` and so on.
    """

    function: Any
    signature: Mapping[str, Any]
    constexprs: Mapping[tuple[int, ...], Any]
    attrs: Mapping[tuple[int, ...], Any]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Compiled:
    """The result of compiling a kernel.

    Attributes:
        error: why the kernel cannot run on the device; ``None`` if it can. Without a binary the
            figures below are ``None``.
        is_skipped: whether `triton.autotune` passes over a configuration with this error.
        registers: per thread.
        spills: spilled 32-bit words per thread.
        shared_bytes: shared memory per block.
        num_warps: warps per block, including those of warp specialisation.
        num_stages: software-pipelining depth, where the compiler decides it.
        tensor_cores: whether it uses tensor-core instructions.
        seconds: compile time; 0 from Triton's cache.
        cubin: the binary, a cubin or a code object; `machine_codes` reads it.
        unread: why the machine code could not be read.
        instructions: counts of the machine code, which replace it.
        ttgir: the compiler's last IR before LLVM.
        ptx: the assembly; of AMD's GPUs, that of the machine code.
        entry: the kernel's name in the assembly; empty if that holds one kernel.
        usage: what the binary says that the kernel uses; ``None`` without one.
        widths: bytes that accesses of a thread move, by source line, where there is no assembly.
    """

    error: str | None = None
    is_skipped: bool = False
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    tensor_cores: bool | None = None
    seconds: float = 0.0
    cubin: bytes | None = field(default=None, repr=False)
    unread: str | None = None
    instructions: InstructionMix | None = None
    ttgir: str = ""
    ptx: str = ""
    entry: str = ""
    usage: Usage | None = None
    widths: Widths | None = None

    @property
    def is_unfinished(self) -> bool:
        """True if the compiler was given up: neither an error nor a kernel is known."""
        return bool(self.unread) and self.usage is None and not self.ttgir


@dataclass(frozen=True)
class _Metadata:
    """The results of lowering, under the names of `CompiledKernel.metadata`."""

    shared: int
    tmem_size: int
    num_warps: int


def warn_if_untested() -> None:
    """Warn if this Triton is outside `versions.SUPPORTED`."""
    versions.warn_if_untested("triton", triton.__version__)


def compiler_environment() -> dict[str, str]:
    """Return the variables of the environment that Triton's keys depend on, as they are set."""
    return dict(get_cache_invalidating_env_vars())


def compiler_name(target: GPUTarget) -> str:
    """Return the version of what makes the binary, which Triton's keys hold, and the target."""
    text = str(make_backend(target).hash())
    release = re.search(r"\bV(\d+\.\d+\.\d+)", text)  # of ptxas's four lines
    return f"ptxas {release[1]} for {target.arch}" if release else text


def gpu_target(device: Device) -> GPUTarget:
    """Triton's name for a device's architecture."""
    return target_of(device).gpu(device)


def compile_for(kernel: Specialisation, device: Device) -> Compiled:
    """Compile a kernel for a device, whose limits decide whether it loads; uses Triton's cache."""
    if isinstance(kernel.function, ForeignKernel):
        return kernel.function.compile(kernel, device)
    return _compile_kernel(kernel, device)[0]


def lower_for(kernel: Specialisation, device: Device) -> Compiled:
    """Lower one specialisation to TTGIR and place its shared memory, with neither LLVM nor ptxas.

    Where the target is always compiled (`Target.allocate`), or the kernel has a compiler of its
    own, as `compile_for`.

    `Compiled.ttgir`, `shared_bytes`, `num_warps` and `error` are those of `compile_for`, except for
    errors that only LLVM or ptxas find. Nothing is cached.

    Args:
        kernel: what to lower.
        device: the target; its limits decide what would fail to load.
    """
    if target_of(device).allocate is None or isinstance(kernel.function, ForeignKernel):
        return compile_for(kernel, device)
    start = time.perf_counter()
    with _console_to_file() as console, _own_temporary_files():
        try:
            ttgir, metadata = _lower_kernel(kernel, gpu_target(device))
        except Exception as error:  # any error of the compiler is the kernel's failure
            return _failed_result(error, kernel, console())
    why = _does_not_load(metadata, device)
    return Compiled(
        error=why,
        is_skipped=why is not None,
        shared_bytes=metadata.shared,
        num_warps=metadata.num_warps,
        tensor_cores=any(name in ttgir for name in _TENSOR_CORE_LAYOUTS),
        seconds=time.perf_counter() - start,
        ttgir=ttgir,
    )


def _lower_kernel(kernel: Specialisation, target: GPUTarget) -> tuple[str, _Metadata]:
    """TTGIR and the compiler's metadata; raises whatever Triton's compiler raises.

    Source: triton/compiler/compiler.py (compile), triton/backends/nvidia/compiler.py (make_llir,
    the passes up to the one that allocates tensor memory).
    """
    context = ir.context()
    module, options = _lower_to_ttgir(kernel, target, context)
    ttgir = str(module)
    manager = ir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    allocate = find_target(target.backend).allocate
    assert allocate is not None
    allocate(manager, options, target)
    manager.run(module, "allocate")
    warps = module.get_int_attr("ttg.total-num-warps") or options.num_warps
    shared = module.get_int_attr("ttg.shared") or 0
    return ttgir, _Metadata(shared, module.get_int_attr("ttg.tensor_memory_size") or 0, warps)


def _lower_to_ttgir(kernel: Specialisation, target: GPUTarget, context: Any) -> tuple[Any, Any]:
    source, backend = _make_source(kernel), make_backend(target)
    options = backend.parse_options({**kernel.options, **source.parse_options()})
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(target, options, codegen, modules, context)
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    backend.add_stages(stages, options, source.language)
    for stage in ("ttir", "ttgir"):
        if stage in stages:  # Gluon has no TTIR
            module = stages[stage](module, {})
    return module, options


def ttgir_text(kernel: Specialisation, target: GPUTarget) -> str:
    """Return TTGIR of a specialisation; raises whatever Triton's compiler raises."""
    return str(_lower_to_ttgir(kernel, target, ir.context())[0])


def machine_codes(compiled: Sequence[Compiled], device: Device) -> list[Code | str | None]:
    """Return the machine code of each kernel, or why it cannot be read; ``None`` without a binary.

    Reading several together is faster: starting the disassembler takes most of the time. LLVM
    writes AMD's machine code as text itself.
    """
    if read := target_of(device).read_code:
        return [None if kernel.cubin is None else read(kernel.ptx) for kernel in compiled]
    cubins = [kernel.cubin for kernel in compiled if kernel.cubin is not None]
    try:
        binaries = [kernel for kernel in compiled if kernel.cubin is not None]
        functions = [
            _function_of(cubin.parse_functions(binary), kernel.entry)
            for kernel, binary in zip(binaries, cubins)
        ]
        mends = [mended_lines(kernel.ptx) for kernel in compiled if kernel.cubin is not None]
        codes = iter(machine_code(functions, _architecture(device), mends) if functions else [])
        return [None if kernel.cubin is None else next(codes) for kernel in compiled]
    except (UnsupportedError, CubinError):
        return [
            None if kernel.cubin is None else _read_alone(kernel.cubin, kernel.entry)
            for kernel in compiled
        ]


def _architecture(device: Device) -> str:
    """Source: triton/backends/nvidia/compiler.py, sm_arch_from_capability."""
    major, minor = device.compute_capability
    return f"{major}{minor}{'a' if major >= 9 else ''}"


def _read_alone(cubin: bytes, name: str) -> Code | str:
    """Return the code of a cubin that cannot be read with others, or why it is unreadable."""
    try:
        return _function_of(parse_listing(disassemble(cubin)), name)
    except (UnsupportedError, CubinError) as error:
        return str(error)


def _function_of(functions: Mapping[str, T], name: str = "") -> T:
    """Return a function of a cubin by its name; without one its only function."""
    if name in functions:
        return functions[name]
    if len(functions) != 1:
        raise CubinError(f"expected one function, got {len(functions)}")
    return next(iter(functions.values()))


def fill_cache(kernel: Specialisation, device: Device) -> Compiled:
    """As `compile_for`; afterwards Triton's cache also holds the function that launches it."""
    if isinstance(kernel.function, ForeignKernel):
        return compile_for(kernel, device)
    compiled, binary = _compile_kernel(kernel, device)
    if binary is not None:
        with _console_to_file(), _own_temporary_files():
            _build_launcher(binary)
    return compiled


def is_in_cache(kernel: Specialisation, device: Device) -> bool:
    """Tell whether Triton would find a kernel compiled; ``False`` where that is unclear."""
    with contextlib.suppress(Exception):  # the answer only saves a process that would look there
        source, backend = _make_source(kernel), make_backend(gpu_target(device))
        options = backend.parse_options({**kernel.options, **source.parse_options()})
        key = get_cache_key(source, backend, options, env_vars=get_cache_invalidating_env_vars())
        cache = get_cache_manager(hashlib.sha256(key.encode()).hexdigest())
        return cache.get_file(f"{source.name[:150]}.json") is not None
    return False


def _compile_kernel(
    kernel: Specialisation, device: Device
) -> tuple[Compiled, CompiledKernel | None]:
    """Return the result, and Triton's own kernel if there is one."""
    with _console_to_file() as console, _own_temporary_files():
        try:
            binary, seconds = _time_compile(lambda: compile_kernel(kernel, gpu_target(device)))
        except Exception as error:  # any error of the compiler is the kernel's failure
            return _failed_result(error, kernel, console()), None
    target = target_of(device)
    usage, why = resource_usage(binary), _does_not_load(binary.metadata, device)
    compiled = Compiled(
        error=why,
        is_skipped=why is not None,
        registers=usage.registers,
        spills=usage.spills,
        shared_bytes=binary.metadata.shared,
        num_warps=binary.metadata.num_warps,
        tensor_cores=uses_tensor_cores(binary.asm[target.assembly], target),
        seconds=seconds,
        cubin=binary.asm[target.binary],
        ttgir=binary.asm["ttgir"],
        ptx=binary.asm[target.assembly],
        usage=usage,
    )
    return compiled, binary


def _build_launcher(binary: CompiledKernel) -> None:
    """Build the C function that launches a kernel, and cache it.

    Triton 3.6 builds one for each signature at the first launch, in 0.2 s; 3.7 needs none. It links
    to the driver, without which nothing is launched.
    """
    if hasattr(nvidia_driver, "make_launcher"):
        with contextlib.suppress(Exception):  # launching builds it, or reports the error
            nvidia_driver.CudaLauncher(binary.src, binary.metadata)


def compile_kernel(kernel: Specialisation, target: GPUTarget) -> CompiledKernel:
    """Triton's compiled kernel; raises whatever its compiler raises.

    Triton's cache does not tell copies of a file apart, so it may give one with another's name.
    """
    binary = triton_compile(_make_source(kernel), target=target, options=dict(kernel.options))
    if _names_its_file(binary.asm["ttgir"], kernel):
        return binary
    source = _make_source(kernel)
    source.hash = partial(_placed_hash, source.hash(), kernel)
    return triton_compile(source, target=target, options=dict(kernel.options))


def _placed_hash(key: str, kernel: Specialisation) -> str:
    """Return a key with the file's name, so a place of its own in Triton's cache."""
    text = f"{key}-{Path(kernel.function.fn.__code__.co_filename).name}"
    return hashlib.sha256(text.encode()).hexdigest()


def _names_its_file(ttgir: str, kernel: Specialisation) -> bool:
    """Tell whether locations are of the kernel's file, or of none; reports leave folders out."""
    named = {Path(path).name for path in re.findall(r'loc\("([^"]+)":\d+:\d+', ttgir)}
    return not named or Path(kernel.function.fn.__code__.co_filename).name in named


def _make_source(kernel: Specialisation) -> ASTSource:
    """Return the compiler's input, in the kernel's language: Triton or Gluon."""
    source = GluonASTSource if kernel.function.is_gluon() else ASTSource
    return source(
        kernel.function, dict(kernel.signature), dict(kernel.constexprs), dict(kernel.attrs)
    )


def uses_tensor_cores(assembly: str, target: Target | None = None) -> bool:
    """Tell whether assembly holds a matrix instruction of a target; by default PTX."""
    names = (target or find_target("cuda")).matrix_instructions
    return any(name in assembly for name in names)


def describe_launch(kernel: Specialisation, grid: tuple[int, int, int]) -> Launch:
    """Return a launch of a kernel."""
    names = list(kernel.signature)
    constants = {names[path[0]]: value for path, value in kernel.constexprs.items()}
    return Launch(
        name=kernel.function.__name__,
        grid=grid,
        num_warps=kernel.options["num_warps"],
        num_stages=kernel.options["num_stages"],
        num_ctas=kernel.options["num_ctas"],
        constants={name: _plain_constant(value) for name, value in constants.items()},
        signature={name: str(kind) for name, kind in kernel.signature.items()},
    )


def _plain_constant(value: Any) -> Value:
    value = getattr(value, "value", value)  # tl.constexpr
    if value is None or isinstance(value, int | float | bool | str):
        return value
    return str(getattr(value, "__name__", value))


def _time_compile(compile_it: Callable[[], CompiledKernel]) -> tuple[CompiledKernel, float]:
    """Return the kernel, and its compile time in seconds; 0 from Triton's cache."""
    hits: list[bool] = []
    knobs.compilation.listener = lambda **event: hits.append(event["cache_hit"])
    start = time.perf_counter()
    try:
        binary = compile_it()
    finally:
        knobs.compilation.listener = None
    return binary, 0.0 if all(hits) else time.perf_counter() - start


def resource_usage(binary: CompiledKernel) -> Usage:
    """Return the kernel's figures from its binary.

    Raises:
        CubinError, CodeObjectError: the binary's form is unknown.
    """
    target = find_target(binary.metadata.target.backend)
    return target.usage(binary.asm[target.binary], binary.metadata.name)


def load_error(shared_bytes: int, num_warps: int, device: Device) -> str | None:
    """Return the error on loading a kernel that uses so much; ``None`` if it loads."""
    return _does_not_load(_Metadata(shared_bytes, 0, num_warps), device)


def _does_not_load(metadata: Any, device: Device) -> str | None:
    """Return Triton's error on loading; checks as in `CompiledKernel._init_handles`."""
    limits = (
        (metadata.shared, device.limits.shared_per_block_bytes, "shared memory"),
        (
            getattr(metadata, "tmem_size", None) or 0,
            target_of(device).most_tensor_memory,
            "tensor memory",
        ),
        (metadata.num_warps * device.limits.warp_threads, _MAX_THREADS_PER_BLOCK, "threads"),
    )
    for required, limit, name in limits:
        if required > limit:
            return str(OutOfResources(required, limit, name))
    return None


# ---------------------------------------------------------------------------------- errors


_SKIPPED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
"""Errors that give a configuration an infinite time: `Autotuner._bench`."""


def _failed_result(error: Exception, kernel: Specialisation, console: str) -> Compiled:
    """Return the result of a compilation that failed."""
    return Compiled(_explain_failure(error, kernel, console), isinstance(error, _SKIPPED))


def _explain_failure(error: Exception, kernel: Specialisation, console: str) -> str:
    """Return the first lines that a user would see, with file and line if known."""
    if isinstance(error, PTXASError):
        lines = str(error).splitlines()
        errors = [line for line in lines if re.match(r"ptxas.*(error|fatal)", line)] or lines
        return " / ".join(re.sub(r"^ptxas \S+\.ptx, ", "ptxas: ", line) for line in errors[:2])
    if isinstance(error, CompilationError):
        return _explain_front_end(error, kernel)
    reported = re.findall(r"error: .*", console)
    message = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {message[0]}" + (f" ({reported[0]})" if reported else "")


def _explain_front_end(error: CompilationError, kernel: Specialisation) -> str:
    """``file:line: message``, where the message is of the innermost function."""
    path = Path(kernel.function.fn.__code__.co_filename).name
    first = kernel.function.starting_line_number
    decorators = next(
        number
        for number, line in enumerate(kernel.function.raw_src)
        if line.lstrip().startswith("def ")
    )
    place = f"{path}:{first + decorators + getattr(error.node, 'lineno', 1) - 1}"
    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    message = error.error_message or (str(error.__cause__) if error.__cause__ else "")
    lines = message.strip().splitlines() or [type(error).__name__]
    return f"{place}: {lines[0]}"


@contextlib.contextmanager
def _console_to_file() -> Iterator[Callable[[], str]]:
    """Redirect this process's output, including C++'s, to a file; yields a function to read it."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    # Python's own streams need not lead to descriptors 1 and 2 (notebooks, test runners)
    with tempfile.TemporaryFile("w+", errors="replace") as file:

        def read() -> str:
            file.flush()
            return os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace")

        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield read
        finally:
            for target, original in enumerate(saved, start=1):
                os.dup2(original, target)
                os.close(original)


@contextlib.contextmanager
def _own_temporary_files() -> Iterator[None]:
    """Leave no files: Triton keeps the PTX that ptxas refused."""
    before = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="solkit-compile-") as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before
