"""CUDA C++ within kernel files: captured, followed and compiled for GPUs that are not here."""

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from solkit.adapters import nvrtc
from solkit.analysis.candidate import analyse
from solkit.analysis.cuda import compiling, launches
from solkit.analysis.cuda.source import Source
from solkit.core import AnalysisStatus, Depth
from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.roofline import devices

SOURCE = r"""
#include <torch/extension.h>
#define TILE 32
template <typename scalar_t>
__global__ void transpose(const scalar_t* x, scalar_t* y, int rows, int columns) {
  __shared__ scalar_t tile[TILE][TILE + 1];
  int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  column = blockIdx.y * TILE + threadIdx.x; row = blockIdx.x * TILE + threadIdx.y;
  if (row < columns && column < rows) y[row * rows + column] = tile[threadIdx.x][threadIdx.y];
}
__global__ void triple(float* x, int n) {
  extern __shared__ float spare[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = fmaf(x[i], 2.0f, x[i]);
}
__global__ void mark(float* x, int step) { x[(int)x[threadIdx.x] & 31] = step; }
void marked(torch::Tensor x, int64_t steps) {
  for (int step = 0; step < steps; step++) mark<<<1, 32>>>(x.data_ptr<float>(), step);
}
torch::Tensor transposed(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  const int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty({columns, rows}, x.options());
  dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE), block(TILE, TILE / 2);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "transpose", ([&] {
    transpose<scalar_t><<<grid, block>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), rows, columns);
  }));
  return y;
}
void tripled(torch::Tensor x, int64_t shared) {
  triple<<<(x.numel() + 255) / 256, 256, shared>>>(x.data_ptr<float>(), x.numel());
}
torch::Tensor guessing(torch::Tensor x) {
  tripled(x, 0);
  triple<<<x[0][0].item<int>(), 64>>>(x.data_ptr<float>(), 3);
  return x;
}
"""
BROKEN = """__global__ void k(float* x) {
  x[0] = missing;
}
void f(torch::Tensor x) { k<<<1, 1>>>(0); }
"""


NAME = Path(__file__).name


def line_of(text):
    """The first line of this file that holds a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def analysed(in_child):
    """Analyse a call of an extension, for a device."""

    def run(call, source=SOURCE, device="h100", dtype=torch.float32, flags=()):
        def child():
            from torch.utils.cpp_extension import load_inline

            extension = load_inline("mine", "", cuda_sources=source, extra_cuda_cflags=list(flags))
            x = torch.randn(100, 70, device="cuda", dtype=dtype)
            workload = Workload((x,), {}, None, lambda x: call(extension, x))
            return analyse(workload, devices.find(device), {})

        return in_child(child, device=device)

    return run


@pytest.mark.quick("h100")
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("device", "dtype", "kernel", "shared_bytes"),
    [
        ("h100", torch.float32, "transpose<float>", 32 * 33 * 4),
        ("a100", torch.float16, "transpose<c10::Half>", 32 * 33 * 2),
    ],
)
def test_a_kernel_and_its_launch(analysed, device, dtype, kernel, shared_bytes):
    analysis = analysed(lambda ext, x: ext.transposed(x), device=device, dtype=dtype)
    assert analysis.status is AnalysisStatus.COMPLETE, analysis
    assert analysis.notes == ()  # its result has the shape and the type that were expected
    (reported_kernel,) = analysis.kernels
    assert (
        reported_kernel.launch.name,
        reported_kernel.launch.grid,
        reported_kernel.launch.num_warps,
    ) == (kernel, (3, 4, 1), 16)
    assert reported_kernel.launch.constants == {"block": "32, 16, 1"}
    facts = reported_kernel.facts
    assert (facts.shared_bytes, facts.spills, facts.tensor_cores) == (shared_bytes, 0, False)
    assert 8 <= facts.registers <= 32
    assert (reported_kernel.occupancy.fraction, reported_kernel.occupancy.blocks_per_sm) == (1.0, 4)
    mix = reported_kernel.facts.instructions
    widths = {count.kind: count.width_bytes for count in mix.counts if count.width_bytes}
    assert widths["global_load"] == widths["shared_store"] == dtype.itemsize
    assert (mix.of("global_load"), mix.of("global_store"), mix.of("tensor")) == (1, 1, 0)


@pytest.mark.usefixtures("compiler")
def test_launches_alike_are_counted_and_shared_memory_is_added_up(analysed):
    def call(extension, x):
        for shared in (1024, 1024, 300_000):
            extension.tripled(x, shared)
        return x.t()

    fits, too_much = analysed(call).kernels
    assert (fits.launch.count, fits.facts.shared_bytes, fits.launch.grid) == (2, 1024, (28, 1, 1))
    assert sum(item.count for item in fits.facts.instructions.counts if item.warp_flops == 64) == 1
    assert "300000 bytes of shared memory" in too_much.error
    assert too_much.occupancy is None


@pytest.mark.usefixtures("compiler")
def test_launches_whose_integers_differ_are_told_apart(analysed):
    def call(extension, x):
        for rows in (100, 99, 100):  # 28 blocks each
            extension.tripled(x[:rows], 0)
        return x.t()

    whole, less = analysed(call).kernels
    assert (whole.launch.count, less.launch.count) == (2, 1)
    assert whole.launch.grid == less.launch.grid
    for kernel, rows in ((whole, 100), (less, 99)):
        assert [access.requested_bytes for access in kernel.demand.accesses] == [4 * 70 * rows] * 2


@pytest.mark.usefixtures("compiler")
def test_launches_that_do_the_same_are_one_and_guesses_are_noted(analysed):
    def call(extension, x):
        extension.marked(x, 7)
        return x.t()

    analysis = analysed(call)
    (kernel,) = analysis.kernels
    assert kernel.launch.count == 7
    guess, many = analysis.notes
    assert "places that depend on data" in guess
    assert "mark is launched with more than 4 sets of integers" in many


@pytest.mark.usefixtures("compiler")
def test_a_launch_that_cannot_be_evaluated_is_said(analysed):
    analysis = analysed(lambda ext, x: ext.guessing(x).t())
    assert analysis.status is AnalysisStatus.PARTIAL
    assert [kernel.launch.grid for kernel in analysis.kernels] == [(28, 1, 1)]
    (note,) = analysis.notes
    assert (
        f"{NAME}:{line_of('item<int>()')}: grid or block of triple could not be evaluated" in note
    )
    assert "registers" in note


@pytest.mark.usefixtures("compiler")
def test_what_does_not_compile_names_the_users_line(analysed):
    analysis = analysed(lambda ext, x: ext.f(x), source=BROKEN)
    (kernel,) = analysis.kernels
    assert kernel.error == f'{NAME}:{line_of("= missing")}: identifier "missing" is undefined'


@pytest.mark.usefixtures("compiler")
def test_a_header_that_is_not_there_is_no_fault_of_the_kernels(analysed):
    source = "#include <cub/no_such.cuh>\n" + BROKEN.replace("missing", "1")
    analysis = analysed(lambda ext, x: ext.f(x), source=source)
    assert [kernel.error for kernel in analysis.kernels] == [None]
    assert analysis.status is AnalysisStatus.PARTIAL
    assert "cub/no_such.cuh is not here" in analysis.notes[-1]


@pytest.mark.usefixtures("compiler")
def test_declarations_that_only_host_code_uses_are_no_fault_of_the_kernels(analysed):
    host = "#include <sys/time.h>\nstruct Timer { struct timeval start; };\nnowhere::Map sizes;\n"
    analysis = analysed(lambda ext, x: ext.f(x), source=host + BROKEN.replace("missing", "1"))
    assert analysis.status is AnalysisStatus.COMPLETE
    used = host + BROKEN.replace("missing", "sizeof(Timer)")
    analysis = analysed(lambda ext, x: ext.f(x), source=used)
    assert [kernel.error for kernel in analysis.kernels] == [None]
    assert "sys/time.h is not read here" in analysis.notes[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_options_of_the_users_reach_the_compiler(analysed):
    source = (
        "__global__ void k(float* x) { x[threadIdx.x] = FACTOR * sinf(x[threadIdx.x]); }\n"
        "void f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); }"
    )
    exact, fast = (
        analysed(lambda ext, x: ext.f(x), source, flags=["-DFACTOR=3.0f", *more]).kernels[0]
        for more in ((), ("--use_fast_math", "-O3"))
    )
    assert (
        fast.facts.instructions.total < exact.facts.instructions.total / 2
    )  # MUFU.SIN and little else


@pytest.mark.usefixtures("compiler")
def test_the_value_of_an_option_may_be_the_next_word(analysed):
    """nvcc takes both forms, NVRTC one; without contraction a product and a sum are two."""
    source = (
        "__global__ void k(float* x) "
        "{ x[threadIdx.x] = FACTOR * x[threadIdx.x] + x[threadIdx.x + 32]; }\n"
        "void f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); }"
    )
    flags = ["-D", "FACTOR=3.0f", "--fmad", "false", "-Xptxas", "-v", "-std", "c++17"]
    two, one = (
        analysed(lambda ext, x: ext.f(x), source, flags=flags[:end]).kernels[0]
        for end in (len(flags), 2)
    )
    assert two.facts.instructions.total == one.facts.instructions.total + 1


@pytest.mark.usefixtures("compiler")
def test_constants_of_the_host_are_arguments_of_a_types_template(analysed):
    source = """
        template <typename T, int N> struct Tuple { T of[N]; };
        template <typename V> __global__ void k(V* x) { x[threadIdx.x].of[0] = 1; }
        void f(torch::Tensor x) {
            constexpr int steps = 4;
            using Four = Tuple<float, steps>;
            k<Four><<<1, 32>>>((Four*)x.data_ptr<float>());
        }"""
    (kernel,) = analysed(lambda ext, x: ext.f(x), source).kernels
    assert kernel.launch.name == "k<Tuple<float,4>>"
    (access,) = kernel.demand.accesses
    assert access.sectors == 16  # 32 threads, 16 bytes apart


@pytest.mark.usefixtures("compiler")
def test_threads_that_read_one_number_go_to_one_place_though_nobody_knows_where(analysed):
    source = """
        __global__ void k(const float* x, float* y) {
            __shared__ int places[32];
            places[threadIdx.x & 31] = (int)(100 * x[threadIdx.x]);
            __syncthreads();
            float first = x[places[0]];
            float own = x[places[threadIdx.x & 31]];
            y[blockIdx.x * 256 + threadIdx.x] = first + own;
        }
        void f(torch::Tensor x, torch::Tensor y) {
            k<<<4, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
        }"""
    (kernel,) = analysed(lambda ext, x: ext.f(x, torch.empty_like(x)), source).kernels
    by_argument, first, own = (a for a in kernel.demand.accesses if a.kind == "load")
    assert by_argument.sectors == 4 * 32
    assert (first.requests, first.sectors) == (32, 32)  # 8 warps of 4 blocks
    assert own.sectors > 900  # of 1,024 lanes in 875 sectors, 32 at a time


def test_without_a_compiler_the_analysis_says_what_to_install(analysed, monkeypatch):
    def none():
        raise UnsupportedError("pip install 'solkit[cuda]'")

    monkeypatch.setattr(nvrtc, "find_toolkit", none)
    analysis = analysed(lambda ext, x: ext.transposed(x))
    assert analysis.status is AnalysisStatus.PARTIAL
    assert analysis.notes == ("CUDA C++ was not compiled: pip install 'solkit[cuda]'",)
    (kernel,) = analysis.kernels  # what was captured is known all the same
    assert (kernel.facts.depth, kernel.launch.grid) == (Depth.CAPTURED, (3, 4, 1))
    assert kernel.model is None


def test_a_function_whose_result_is_not_known_costs_the_analysis_alone(analysed):
    source = "torch::Tensor f(torch::Tensor x) { return torch::zeros({rows, 3}); }"
    analysis = analysed(lambda ext, x: ext.f(x), source=source)
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    assert "not declared: rows" in analysis.notes[0]


def test_python_names_follow_pybind():
    for bound in ("&inner::run", "torch::wrap_pybind_function(run)"):
        source = Source.of([(f'm.def("forward", {bound}, "doc"); int run();', "a.cpp", 1)])
        assert launches._bound_to(source, "forward") == "run"
    assert launches._bound_to(source, "other") == "other"


@pytest.mark.parametrize(
    ("text", "flags", "architecture"),
    [
        ("", (), "sm_100"),
        ("tcgen05.mma", (), "sm_100a"),
        ("", ("-O3", "-gencode=arch=compute_100a,code=sm_100a"), "sm_100a"),
        ("", ("-gencode", "arch=compute_100f,code=sm_100f"), "sm_100f"),
        ("", ("-arch=sm_90a",), "sm_100"),
    ],
)
def test_options_name_the_architecture(text, flags, architecture):
    source = Source.of([(text, "a.cu", 1)])
    assert compiling._architecture(source, flags, devices.find("b200")) == architecture


@pytest.mark.usefixtures("compiler")
def test_what_it_asks_for_and_the_time_that_takes(analysed):
    (kernel,) = analysed(lambda ext, x: ext.transposed(x)).kernels
    load, store = kernel.demand.accesses
    line = line_of("= x[row * columns + column]")
    assert (load.kind, load.argument, load.line) == ("load", "x", f"{NAME}:{line}")
    assert (store.kind, store.argument) == ("store", "y")
    # 16 rows of each tile of 32, but for the last four rows of all; each of 70 words
    assert load.requested_bytes == 4 * 70 * (3 * 16 + 4)
    assert kernel.demand.barriers == 1.0
    assert [(access.kind, access.conflicts) for access in kernel.demand.shared] == [
        ("store", 1.0),
        ("load", 1.0),
    ]
    assert kernel.model.time_ms > 0
    assert {"dram", "latency", "launch"} <= {term.name for term in kernel.model.terms}


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def column_sum_kernel(x, out, rows, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * columns + at, at < columns, 0.0)
    tl.store(out + at, total, at < columns)


THE_SAME = r"""
__global__ void add(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
__global__ void column_sum(const float* x, float* out, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (int row = 0; row < rows; row++) sum += x[row * columns + column];
  out[column] = sum;
}
torch::Tensor f(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1), n = x.numel();
  auto out = torch::empty_like(x);
  add<<<(n + 127) / 128, 128>>>(
      x.data_ptr<float>(), x.data_ptr<float>() + 1, out.data_ptr<float>(), n - 1);
  column_sum<<<(columns + 127) / 128, 128>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
  return out;
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_the_same_kernels_in_triton_ask_for_the_same(analysed):
    def call(extension, _):
        x = torch.randn(300, 4100, device="cuda")
        n, columns = x.numel(), x.shape[1]
        out = extension.f(x)
        flat = x.reshape(-1)
        add_kernel[(triton.cdiv(n, 128),)](flat, flat[1:], out, n - 1, BLOCK=128)
        column_sum_kernel[(triton.cdiv(columns, 128),)](x, out, 300, columns, BLOCK=128)
        return out

    kernels = {
        kernel.launch.name: kernel.demand for kernel in analysed(call, source=THE_SAME).kernels
    }
    for name, like in (("add", "add_kernel"), ("column_sum", "column_sum_kernel")):
        mine, other = kernels[name], kernels[like]
        for field in ("requests", "sectors", "requested_bytes", "unique_bytes"):
            for kind in ("load", "store"):
                amounts = [
                    sum(getattr(a, field) for a in item.accesses if a.kind == kind)
                    for item in (mine, other)
                ]
                assert amounts[0] == pytest.approx(amounts[1], rel=0.02), (name, field, kind)
        for field in ("l1_wavefronts", "l2_read_bytes", "dram_read_bytes", "dram_write_bytes"):
            expected = pytest.approx(getattr(other, field), rel=0.03)
            assert getattr(mine, field) == expected, (name, field)
        assert mine.operations == pytest.approx(other.operations, rel=0.05)
        assert mine.unevenness == pytest.approx(other.unevenness)


HEADER = """#pragma once
#define DEVICE __device__ __forceinline__
constexpr int WIDTH = 256;
DEVICE float twice_of(float x) { return 2 * x; }
inline int div_up(int a, int b) { return (a + b - 1) / b; }
"""
INCLUDING = """#include "parts/sizes.h"
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * WIDTH + threadIdx.x;
  if (i < n) y[i] = twice_of(x[i]);
}
torch::Tensor f(torch::Tensor x, int64_t n) {
  auto y = torch::empty_like(x);
  twice<<<div_up(n, WIDTH), WIDTH>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""


@pytest.mark.quick("beside")
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("how", ["paths", "option", "beside"])
def test_headers_of_the_project_are_read(in_child, tmp_path, how):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/sizes.h").write_text(HEADER)
    (tmp_path / "k.cu").write_text(INCLUDING)

    def child():
        from torch.utils.cpp_extension import load, load_inline

        inputs = {
            "paths": {"extra_include_paths": [str(tmp_path)]},
            "option": {"extra_cuda_cflags": [f"-I{tmp_path}"]},
            "beside": {},
        }[how]
        if how == "beside":
            extension = load("mine", [str(tmp_path / "k.cu")])
        else:
            extension = load_inline(
                "mine", "torch::Tensor f(torch::Tensor x);", INCLUDING, **inputs
            )
        x = torch.randn(100, 70, device="cuda")
        workload = Workload((x,), {}, None, lambda x: extension.f(n=x.numel(), x=x))
        return analyse(workload, devices.find("h100"), {})

    analysis = in_child(child, device="h100")
    assert analysis.status is AnalysisStatus.COMPLETE, analysis
    (kernel,) = analysis.kernels
    assert (kernel.launch.name, kernel.launch.grid) == ("twice", (28, 1, 1))
    assert [access.requested_bytes for access in kernel.demand.accesses] == [4 * 7000] * 2


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("cpp", "source", "note"),
    [
        ("", SOURCE, ""),  # the C++ source that binds it does not declare it
        ("void f(torch::Tensor x);", BROKEN, "An extension does not build"),
    ],
)
def test_a_candidate_that_copes_with_an_extension_that_does_not_build(in_child, cpp, source, note):
    def child():
        from torch.utils.cpp_extension import load_inline

        from solkit.analysis.candidate import analyse_all

        def make():
            try:
                extension = load_inline("mine", cpp, cuda_sources=source, functions=["f"])
            except RuntimeError:
                extension = None
            x = torch.randn(64, device="cuda")
            kernel = torch.sin if extension is None else lambda x: extension.f(x)
            return Workload((x,), {}, None, kernel)

        return analyse_all([(make, {})], devices.find("h100"))[0]

    analysis = in_child(child, device="h100")
    assert [kernel.launch.name for kernel in analysis.kernels] == ["aten.sin"]
    assert [kernel.error for kernel in analysis.kernels] == [None]
    assert all(note in item for item in analysis.notes)
    assert bool(analysis.notes) == bool(note)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("include", "expression"),
    [
        ("#include <project/atomics.cuh>", "fastAdd(1)"),
        ("", "at::opmath(1)"),
        ("", "std::osyncstream(4)"),
    ],
)
def test_names_of_headers_that_are_not_read_are_no_fault_of_the_kernels(
    analysed, include, expression
):
    source = f"{include}\n{BROKEN.replace('missing', expression)}"
    analysis = analysed(lambda ext, x: ext.f(x), source=source)
    assert [kernel.error for kernel in analysis.kernels] == [None]
    assert analysis.status is AnalysisStatus.PARTIAL
    assert "k is not analysed: " in analysis.notes[-1]


@pytest.mark.usefixtures("compiler")
def test_pytorchs_halves_take_what_they_take_there(analysed):
    source = """__global__ void k(at::Half* x) {
      c10::Half sum = x[threadIdx.x];
      sum += __shfl_down_sync(0xffffffff, static_cast<__half>(sum), 16);
      sum *= x[0]; sum -= 1.0f; sum /= 2;
      x[threadIdx.x] = sum;
    }
    void f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<at::Half>()); }"""
    (kernel,) = analysed(lambda ext, x: ext.f(x), source=source, dtype=torch.float16).kernels
    assert kernel.error is None


@pytest.mark.usefixtures("compiler")
def test_all_of_namespace_std_is_there_where_kernels_use_more_of_it(analysed):
    source = """__global__ void k(float* x) {
      std::array<float, 2> both = {x[threadIdx.x], 1.0f};
      bool wide = std::isinf(both[0]) || both[0] > __half2float(std::numeric_limits<__half>::max());
      x[threadIdx.x] = std::fabs(wide ? both[1] : both[0]);
    }
    void f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); }"""
    (kernel,) = analysed(lambda ext, x: ext.f(x), source=source).kernels
    assert kernel.error is None
    assert (kernel.demand.dram_read_bytes, kernel.demand.dram_write_bytes) == (128, 128)


def test_a_library_that_the_host_calls_is_named_not_nothing(analysed):
    source = "void f(torch::Tensor x) { cublasSscal(h, 7, &two, x.data_ptr<float>(), 1); }"
    analysis = analysed(lambda ext, x: ext.f(x), source=source)
    assert analysis.status is AnalysisStatus.NOT_ANALYSED
    assert [note.partition(": ")[2] for note in analysis.notes] == [
        "calls cublasSscal, which is not analysed."
    ]
