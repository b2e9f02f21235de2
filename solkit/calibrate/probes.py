"""The launches that measure each ceiling: memory, scalar pipes, tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import triton.language as tl

from solkit.calibrate.kernels import (
    alu_kernel,
    copy_kernel,
    empty_kernel,
    read_kernel,
    spin_kernel,
    write_kernel,
)
from solkit.calibrate.pipes import CHAINS, PIPES, THREADS, UNROLL, Pipe
from solkit.calibrate.stopwatch import Probe

CHUNK_BYTES = 16384
"""Bytes that a program moves at a time: four 16-byte accesses per thread."""

_WARPS = THREADS // 32
_CHUNK = CHUNK_BYTES // 4  # in fp32 elements
_BLOCKS = 4  # per SM, of a grid that strides: 32 warps
_L2_BYTES_PER_LAUNCH = 4 << 30  # about 1 ms
_LOOPS = {"fp32": 512, "int32": 256, "issue": 512, "fp64": 256, "sfu": 64}  # about 1 ms

KINDS = {"read": 1, "write": 1, "copy": 2}
"""Ways of moving memory, and how often each crosses the bus per byte of a buffer."""


class MemoryProbe:
    """Two buffers, and probes that read, write and copy their first bytes.

    The size of each buffer is a multiple of `CHUNK_BYTES`.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self._sms = torch.cuda.get_device_properties().multi_processor_count
        self._source = torch.randn(buffer_bytes // 4, device="cuda")
        self._target = torch.zeros(buffer_bytes // 4, device="cuda")
        self._sink = torch.zeros(buffer_bytes // CHUNK_BYTES, device="cuda")

    def probe(self, kind: str, size_bytes: int, strided: bool) -> Probe:
        """Probe a memory, each byte once.

        Args:
            kind: one of `KINDS`.
            size_bytes: read and written, together; each buffer of a copy has half of them.
            strided: whether the resident programs stride through the buffer; otherwise each program
                takes one chunk.
        """
        chunks = size_bytes // KINDS[kind] // CHUNK_BYTES
        programs = min(chunks, _BLOCKS * self._sms) if strided else chunks
        passes = chunks // programs  # a remainder is neither touched nor counted
        moved = KINDS[kind] * programs * passes * CHUNK_BYTES
        detail = "striding grid" if strided else "a program per 16 KiB"
        launch = self._make_launcher(kind, programs, chunks, passes)
        return Probe(kind, "dram", "B/s", moved, launch, detail, moved)

    def probe_l2(self, kind: str, size_bytes: int) -> Probe:
        """Return the same bytes repeatedly, bypassing L1, within one launch.

        It tests the ceiling if no two programs access the same bytes at once: such requests are
        merged.
        """
        chunks = size_bytes // CHUNK_BYTES
        programs = _BLOCKS * self._sms
        passes = max(1, _L2_BYTES_PER_LAUNCH // (programs * CHUNK_BYTES))
        launch = self._make_launcher(kind, programs, chunks, passes)
        moved = programs * passes * CHUNK_BYTES
        detail = f"{passes * programs // chunks} times over"
        ceiling = "l2" if chunks >= programs else None
        return Probe(f"l2.{kind}", ceiling, "B/s", moved, launch, detail, size_bytes)

    def _make_launcher(
        self, kind: str, programs: int, chunks: int, passes: int
    ) -> Callable[[], object]:
        options = {"CHUNK": _CHUNK, "num_warps": _WARPS}
        grid = (programs,)
        if kind == "read":
            return lambda: read_kernel[grid](self._source, self._sink, chunks, passes, **options)
        if kind == "write":
            return lambda: write_kernel[grid](self._target, 1.0, chunks, passes, **options)
        return lambda: copy_kernel[grid](self._source, self._target, chunks, passes, **options)


def alu_probe(name: str) -> Probe:
    """Return a probe of one of `PIPES`, about 1 ms a launch on an H100."""
    pipe = PIPES[name]
    programs = _BLOCKS * torch.cuda.get_device_properties().multi_processor_count
    loops = _LOOPS[pipe.ceiling]
    sink = torch.zeros(programs, device="cuda")

    def launch() -> object:
        return alu_kernel[(programs,)](sink, loops, *_alu_arguments(pipe), num_warps=_WARPS)

    amount = pipe.operations * programs * loops
    return Probe(name, pipe.ceiling, pipe.unit, amount, launch)


def _alu_arguments(pipe: Pipe) -> Sequence[object]:
    """Return the arguments of `alu_kernel` from `constant` on."""
    return (
        pipe.constant,
        pipe.first.ptx,
        pipe.second.ptx,
        *pipe.constraints,
        _DTYPES[pipe.first.dtype],
        _DTYPES[pipe.second.dtype],
        UNROLL,
        CHAINS * THREADS,
    )


_DTYPES = {"fp32": tl.float32, "fp64": tl.float64, "int32": tl.int32}


def compile_kernels() -> None:
    """Compile all kernels in parallel: the compiler releases Python's lock."""
    buffer = torch.zeros(_CHUNK, device="cuda")
    clock = torch.zeros(2, dtype=torch.int64, device="cuda")
    memory = {"CHUNK": _CHUNK, "num_warps": _WARPS, "grid": (1,)}

    def alu_kernels() -> None:  # in sequence: they share a cache
        for pipe in PIPES.values():
            alu_kernel.warmup(buffer, 1, *_alu_arguments(pipe), num_warps=_WARPS, grid=(1,))

    jobs: tuple[Callable[[], object], ...] = (
        alu_kernels,
        lambda: read_kernel.warmup(buffer, buffer, 1, 1, **memory),
        lambda: write_kernel.warmup(buffer, 1.0, 1, 1, **memory),
        lambda: copy_kernel.warmup(buffer, buffer, 1, 1, **memory),
        lambda: empty_kernel.warmup(grid=(1,)),
        lambda: spin_kernel.warmup(clock, 1, 1, num_warps=1, grid=(1,)),
    )
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


@dataclass(frozen=True)
class _Product:
    """Product of matrices of one type, (m, n) by (n, n), as torch computes it through cuBLAS."""

    unit: str  # of its rate
    edges: tuple[int, ...]  # n to try; m is near it
    # makes the operands of (m, n), and gives what multiplies them
    multiply: Callable[[int, int], Callable[[], object]]


def tensor_names() -> tuple[str, ...]:
    """Return the tensor pipes that torch can use: keys of `solkit.core.Device.ceilings`."""
    return tuple(_PRODUCTS)


def tensor_probes(name: str) -> Iterator[Probe]:
    """Probes of a tensor pipe, one per size.

    Raises:
        RuntimeError: from torch, if the GPU or this torch has no such product.
    """
    product = _PRODUCTS[name]
    sms = torch.cuda.get_device_properties().multi_processor_count
    for n in product.edges:
        m = sms * n // 128  # tiles of 128 by 256 fill all SMs to the last wave
        detail = f"{m}x{n}x{n}, torch on random numbers"
        yield Probe(name, name, product.unit, 2.0 * m * n * n, product.multiply(m, n), detail)


def _matmul_launcher(dtype: torch.dtype) -> Callable[[int, int], Callable[[], object]]:
    def multiply(m: int, n: int) -> Callable[[], object]:
        a, b = torch.randn(m, n, device="cuda"), torch.randn(n, n, device="cuda")
        a, b = a.to(dtype), b.to(dtype)
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)

    return multiply


def _multiply_tf32(m: int, n: int) -> Callable[[], object]:
    torch.set_float32_matmul_precision("high")  # nothing else here multiplies fp32 matrices
    return _matmul_launcher(torch.float32)(m, n)


def _multiply_acc16(m: int, n: int) -> Callable[[], object]:
    multiply = _matmul_launcher(torch.float16)(m, n)

    def launch() -> object:
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        try:
            return multiply()
        finally:
            torch.backends.cuda.matmul.allow_fp16_accumulation = False

    return launch


def _multiply_fp8(m: int, n: int) -> Callable[[], object]:
    a, b = torch.randn(m, n, device="cuda"), torch.randn(n, n, device="cuda")
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()  # must be column-major
    one = torch.ones((), device="cuda")

    def launch() -> object:
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return launch


def _multiply_int8(m: int, n: int) -> Callable[[], object]:
    a, b = (torch.randint(-128, 128, (rows, n), device="cuda", dtype=torch.int8) for rows in (m, n))
    return lambda: torch._int_mm(a, b.t())


_LARGE = (4096, 8192)

_PRODUCTS = {
    "tensor.fp16": _Product("FLOP/s", _LARGE, _matmul_launcher(torch.float16)),
    "tensor.bf16": _Product("FLOP/s", _LARGE, _matmul_launcher(torch.bfloat16)),
    "tensor.tf32": _Product("FLOP/s", _LARGE, _multiply_tf32),
    "tensor.fp8": _Product("FLOP/s", _LARGE, _multiply_fp8),
    "tensor.int8": _Product("op/s", _LARGE, _multiply_int8),
    "tensor.fp64": _Product("FLOP/s", (2048, 4096), _matmul_launcher(torch.float64)),
    "tensor.fp16_acc16": _Product("FLOP/s", _LARGE, _multiply_acc16),
}
