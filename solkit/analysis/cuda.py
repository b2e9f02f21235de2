"""What the CUDA C++ of a candidate launches, and what that compiles to, with no GPU.

`torch.utils.cpp_extension.load_inline` and `load` hand over their sources. A call of one of their
functions is followed by `solkit.analysis.cuda_host`, which tells the launches; the device code goes
to NVRTC for the target.
"""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from solkit.adapters import fake_cuda
from solkit.adapters.nvrtc import Cubin, CudaCompileError, compile_cuda
from solkit.adapters.sass import disassemble, parse
from solkit.adapters.triton_compiler import Compiled, resource_usages
from solkit.analysis.cuda_host import HostCall, HostError, HostLaunch, call_host, is_unknown
from solkit.analysis.cuda_source import Source
from solkit.analysis.instructions import mix_of
from solkit.core import Device, Launch
from solkit.errors import UnsupportedError

__all__ = ["CudaLaunch", "CudaRecording", "compile_launches", "recording"]


@dataclass(frozen=True)
class CudaLaunch:
    """A launch of a CUDA C++ kernel.

    Attributes:
        host: as the host code makes it.
        source: where the kernel is.
        flags: options of the user's for the compiler.
        count: how often it is launched alike.
    """

    host: HostLaunch
    source: Source
    flags: tuple[str, ...]
    count: int = 1

    @property
    def launch(self) -> Launch | None:
        """The public noun; ``None`` where grid or block is not known."""
        grid, block = self.host.grid, self.host.block
        if grid is None or block is None:
            return None
        warps = -(-math.prod(block) // _WARP_THREADS)
        constants = {"block": ", ".join(map(str, block))}
        return Launch(self.host.kernel, grid, warps, 1, constants=constants, count=self.count)


@dataclass
class CudaRecording:
    """What was seen between entering and leaving `recording`.

    Attributes:
        launches: each distinct launch once, in the order of their first appearance.
        remarks: what a reader must know; an ordered set of sentences.
    """

    launches: list[CudaLaunch] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)

    def answer(self, extension: fake_cuda.Extension, name: str, args: Sequence[Any]) -> Any:
        """Follow a call of an extension's function.

        Raises:
            UnsupportedError: it cannot be followed, or what it returns is not known.
        """
        source = Source.of(extension.texts)
        call = HostCall()
        for tensor in args:
            if isinstance(tensor, torch.Tensor):
                fake_cuda.forget(tensor)  # a kernel may write to it
        try:
            call_host(source, _bound_to(source, name), args, call)
        except HostError as error:
            raise UnsupportedError(f"{name} of a CUDA extension: {error}") from error
        finally:
            for launch in call.launches:
                self._record(CudaLaunch(launch, source, extension.cuda_flags))
        if is_unknown(call.result):
            missing = ", ".join(list(call.undeclared)[:2])
            why = f": not declared: {missing}" if missing else ""
            raise UnsupportedError(f"{name} of a CUDA extension: its result is not known{why}")
        return call.result

    def _record(self, launch: CudaLaunch) -> None:
        for index, known in enumerate(self.launches):
            if replace(known, count=1) == launch:
                self.launches[index] = replace(known, count=known.count + 1)
                return
        self.launches.append(launch)


@contextlib.contextmanager
def recording() -> Iterator[CudaRecording]:
    """Follow the functions of CUDA extensions that are called within."""
    seen = CudaRecording()
    with fake_cuda.extension_calls(seen.answer):
        yield seen


def _bound_to(source: Source, name: str) -> str:
    """The C++ function that pybind11 gives a name to; the name itself by default."""
    bound = re.search(rf'\.def\(\s*"{re.escape(name)}"\s*,\s*&?\s*(?:\w+::)*(\w+)', source.text)
    return bound[1] if bound else name


# ------------------------------------------------------------------------------- compiling


def compile_launches(
    launches: Sequence[CudaLaunch], device: Device
) -> tuple[tuple[Compiled, ...], tuple[str, ...]]:
    """Compile each source once for a device.

    Returns:
        One result per launch, in their order; and what could not be read, each a sentence.

    Raises:
        UnsupportedError: there is no NVRTC here.
    """
    by_source: dict[tuple[Source, tuple[str, ...]], dict[str, None]] = {}
    for launch in launches:
        names = by_source.setdefault((launch.source, launch.flags), {})
        names.setdefault(launch.host.kernel)
    told: dict[tuple[Source, tuple[str, ...], str], Compiled] = {}
    for (source, flags), kernels in by_source.items():
        for kernel, compiled in _compile(source, flags, list(kernels), device).items():
            told[source, flags, kernel] = compiled
    found = tuple(_loaded(each, told, device) for each in launches)
    unread = dict.fromkeys(each.unread for each in found if each.unread)
    return found, tuple(f"Machine code could not be read: {reason}" for reason in unread)


def _loaded(
    launch: CudaLaunch, told: dict[tuple[Source, tuple[str, ...], str], Compiled], device: Device
) -> Compiled:
    """With the shared memory that this launch asks for, where the device has that much."""
    compiled = told[launch.source, launch.flags, launch.host.kernel]
    dynamic = launch.host.shared_bytes
    if compiled.shared_bytes is None or dynamic is None:
        return replace(compiled, shared_bytes=None)
    shared = compiled.shared_bytes + dynamic
    limit, threads = device.limits.shared_per_block_bytes, math.prod(launch.host.block or (1,))
    error = compiled.error
    if shared > limit:
        error = f"{shared} bytes of shared memory a block; {device.name} has {limit}"
    if not 0 < threads <= _MAX_THREADS:
        error = f"{threads} threads a block; a GPU takes 1 to {_MAX_THREADS}"
    if 0 in (launch.host.grid or ()):
        error = f"a grid of {launch.host.grid} has no block"
    return replace(compiled, shared_bytes=shared, error=error)


def _compile(
    source: Source, flags: Sequence[str], kernels: Sequence[str], device: Device
) -> dict[str, Compiled]:
    start = time.perf_counter()
    text = _PRELUDE + (_CUB if "cub/cub.cuh" in source.text else "") + source.device_text
    options = [f"-arch={_architecture(source, device)}", *_OPTIONS, *filter(_matters, flags)]
    try:
        cubin = compile_cuda(text, "cuda", kernels, options)
    except CudaCompileError as error:
        if len(kernels) > 1:  # one that cannot be instantiated must not cost the others
            return {
                k: v for each in kernels for k, v in _compile(source, flags, [each], device).items()
            }
        return {kernels[0]: Compiled(error=_first_errors(str(error), kernels[0]))}
    return _read(cubin, device, time.perf_counter() - start)


def _read(cubin: Cubin, device: Device, seconds: float) -> dict[str, Compiled]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.binary)
        file.flush()
        usages = resource_usages(Path(file.name))
    try:
        codes, unread = parse(disassemble(cubin.binary)), None
    except UnsupportedError as error:
        codes, unread = {}, str(error)
    told: dict[str, Compiled] = {}
    for kernel, name in cubin.names.items():
        mix = mix_of(codes[name]) if name in codes else None
        told[kernel] = Compiled(
            registers=usages[name]["REG"],
            spills=usages[name]["STACK"] // 4,
            shared_bytes=_static_shared(usages[name]["SHARED"], device),
            tensor_cores=mix.of("tensor") > 0 if mix else None,
            seconds=seconds / len(cubin.names),
            unread=unread,
            instructions=mix,
        )
    return told


def _static_shared(told_bytes: int, device: Device) -> int:
    """What a kernel declares: from sm_90 on cuobjdump adds the system's share where there is any.

    Held against ``nvcc -Xptxas -v``, which does not.
    """
    counted = device.compute_capability >= (9, 0)
    return max(told_bytes - counted * device.limits.reserved_shared_per_block_bytes, 0)


def _architecture(source: Source, device: Device) -> str:
    """As torch would ask nvcc for; with the instructions of one model alone where they are used."""
    major, minor = device.compute_capability
    special = major >= 9 and re.search(r"\b(wgmma|setmaxnreg|tcgen05)\b", source.text)
    return f"sm_{major}{minor}{'a' if special else ''}"


def _matters(flag: str) -> bool:
    """Whether an option of nvcc's changes what NVRTC makes: speed, definitions, registers."""
    return flag.lstrip("-").startswith(("use_fast_math", "D", "U", "maxrregcount", "fmad", "ftz"))


def _first_errors(log: str, kernel: str) -> str:
    """``file:line: message``, the first two; the kernel's name where that is what is at fault."""
    found = re.findall(r"^(.*)\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.MULTILINE)
    told = [
        f"{kernel if file == '__nv_name_map' else f'{file}:{line}'}: {message}"
        for file, line, message in found[:2]
    ]
    return " / ".join(told) or (log.strip().splitlines() or ["NVRTC gave no reason"])[0]


_WARP_THREADS = 32
_MAX_THREADS = 1024  # CUDA C++ Programming Guide, technical specifications
_OPTIONS = (
    *("-std=c++20", "-lineinfo", "-default-device"),
    # as torch.utils.cpp_extension asks nvcc for (COMMON_NVCC_FLAGS)
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"),
    *("-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"),
)

_PRELUDE = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t; typedef unsigned int uint;
namespace c10 {
template <class S> S to(float v);
template <> __half to(float v) { return __float2half(v); }
template <> __nv_bfloat16 to(float v) { return __float2bfloat16(v); }
inline float of(__half v) { return __half2float(v); }
inline float of(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class S, bool E> struct Small {
  S x;
  Small() = default;
  Small(S v) : x(v) {}
  Small(float v) : x(to<S>(v)) {}
  operator float() const { return of(x); }
  explicit(E) operator S() const { return x; }
  Small& operator+=(float v) { return *this = *this + v; }
  Small& operator-=(float v) { return *this = *this - v; }
  Small& operator*=(float v) { return *this = *this * v; }
  Small& operator/=(float v) { return *this = *this / v; }
};
typedef Small<__half, false> Half; typedef Small<__nv_bfloat16, true> BFloat16;
}
namespace at {
using namespace c10;
template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class P, class I> struct TensorAccessor {
  typename P<T>::PtrType data_; const I* sizes_; const I* strides_;
  TensorAccessor<T, N - 1, P, I> operator[](I i) const {
    return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
  I size(I i) const { return sizes_[i]; }
};
template <class T, template <class> class P, class I> struct TensorAccessor<T, 1, P, I> {
  typename P<T>::PtrType data_; const I* sizes_; const I* strides_;
  T& operator[](I i) const { return data_[strides_[0] * i]; }
  I size(I i) const { return sizes_[i]; }
};
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
struct PackedTensorAccessor {
  typename P<T>::PtrType data_; I sizes_[N]; I strides_[N];
  decltype(auto) operator[](I i) const {
    return TensorAccessor<T, N, P, I>{data_, sizes_, strides_}[i];
  }
  I size(I i) const { return sizes_[i]; }
  I stride(I i) const { return strides_[i]; }
  T* data() const { return data_; }
};
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, P, int>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, P, int64_t>;
}
namespace torch { using namespace at; }
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
#define M_1_PI 0.31830988618379067154
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.44269504088896340736
namespace std {
using ::size_t; using ::int64_t; using ::int32_t; using ::uint32_t; using ::uint64_t;
using ::int8_t; using ::uint8_t;
template <class T> constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static float infinity() { return INFINITY; } static constexpr float max() { return FLT_MAX; }
  static constexpr float min() { return FLT_MIN; }
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float epsilon() { return FLT_EPSILON; } static float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<double> {
  static double infinity() { return INFINITY; } static constexpr double max() { return DBL_MAX; }
  static constexpr double lowest() { return -DBL_MAX; }
};
template <> struct numeric_limits<int> {
  static constexpr int max() { return INT_MAX; } static constexpr int min() { return INT_MIN; }
  static constexpr int lowest() { return INT_MIN; }
};
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
}
"""
"""What device code takes from headers that NVRTC has not: <cstdint>, <cfloat>, <climits>, <cmath>'s
constants, of namespace std what is used within kernels, torch's small floats, which compute as
floats, and its packed accessors, laid out as in TensorAccessor.h: a pointer, sizes, strides."""

_CUB = """\
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
"""
"""The part of <cub/cub.cuh>, which NVRTC refuses as a whole, that kernels use."""
