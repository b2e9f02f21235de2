"""Host code followed on tensors: what it launches, worked out by hand, and what it returns."""

import pytest
import torch

from solkit.adapters import fake_cuda
from solkit.analysis.cuda.host import UNKNOWN, HostCall, HostError, call_host
from solkit.analysis.cuda.source import Source

KERNELS = """
#define THREADS 128
#define CEIL(a, b) (((a) + (b) - 1) / (b))
constexpr int TILE = 16;
static const int kWarps = TILE / 4;
__global__ void k(const float* x, float* y, int n) {}
template <typename T, int N = 4> __global__ void t(const T* x, T* y) {}
int cdiv(int a, int b = 32) { return (a + b - 1) / b; }
template <typename T> void sized(int n, const T* x, T* y) { t<T, 2><<<n * sizeof(T), 32>>>(x, y); }
template <typename T> void launch(torch::Tensor x, int n) {
  t<T, 8><<<n, 64>>>(x.data_ptr<T>(), 0);
}
"""


def followed(body, *args, signature="torch::Tensor x"):
    source = Source.of([(f"{KERNELS}torch::Tensor f({signature}) {{\n{body}\n}}", "f.cu", 1)])
    call = HostCall()
    call_host(source, "f", args or (torch.zeros(1000, 30),), call)
    return call


def launched(body, *args, **how):
    """Kernel, grid, block and shared memory of the only launch."""
    (launch,) = followed(body, *args, **how).launches
    return launch.kernel, launch.grid, launch.block, launch.shared_bytes


@pytest.mark.parametrize(
    ("body", "grid", "block", "shared"),
    [
        ("k<<<1, 32>>>();", (1, 1, 1), (32, 1, 1), 0),
        ("k<< <1, 32>> >();", (1, 1, 1), (32, 1, 1), 0),
        ("k < < < 1 << 2, 32 >>> ();", (4, 1, 1), (32, 1, 1), 0),
        (
            "int n = x.numel(); const int threads = 256;\n"
            "int blocks = (n + threads - 1) / threads;\nk<<<blocks, threads>>>();",
            (118, 1, 1), (256, 1, 1), 0,
        ),
        (
            "dim3 b(TILE, TILE); dim3 g((x.size(1) + TILE - 1) / TILE, CEIL(x.size(0), TILE));"
            "k<<<g, b, TILE * TILE * sizeof(float), stream>>>();",
            (2, 63, 1), (16, 16, 1), 1024,
        ),
        (
            "k<<<dim3(x.size(0), 2, 3), dim3{THREADS}, 2 * kWarps * sizeof(double)>>>();",
            (1000, 2, 3), (128, 1, 1), 64,
        ),
        ("k<<<std::min<int>(cdiv(x.size(0)), 12), cdiv(500, 7)>>>();", (12, 1, 1), (72, 1, 1), 0),
        ("auto s = x.sizes(); k<<<s[0] % 7, s[1] << 2>>>();", (6, 1, 1), (120, 1, 1), 0),
        ("int n = ceil(x.size(0) / 256.0); k<<<n, 1>>>();", (4, 1, 1), (1, 1, 1), 0),
        ("float* p; cudaMalloc((void**)&p, 4); k<<<1, 2>>>();", (1, 1, 1), (2, 1, 1), 0),
        ("int n = (int)(2.9f * 2); k<<<n, static_cast<int>(3.9)>>>();", (5, 1, 1), (3, 1, 1), 0),
        ("int b = 1; while (b < x.size(1)) b *= 2; k<<<1, b>>>();", (1, 1, 1), (32, 1, 1), 0),
        (
            "int n = 0; for (int i = 0; i < x.dim(); ++i) { if (i == 0) continue; n += x.size(i); }"
            "k<<<n, 1>>>();",
            (30, 1, 1), (1, 1, 1), 0,
        ),
        ("dim3 g; g = dim3(4, 5); k<<<g, x.size(1) > 16 ? 64 : 32>>>();", (4, 5, 1), (64, 1, 1), 0),
        (
            "int t = 8; switch (x.size(1)) { case 30: t = 16; break; default: t = 99; }"
            "k<<<1, t>>>();",
            (1, 1, 1), (16, 1, 1), 0,
        ),
        ("auto go = [&](int n) { k<<<n, 1>>>(); }; go(7);", (7, 1, 1), (1, 1, 1), 0),
        ("const auto [a, b] = std::make_tuple(3, 4); k<<<a, b>>>();", (3, 1, 1), (4, 1, 1), 0),
        ("int n = -7 / 2 + 10; k<<<n, -7 % 3 + 4>>>();", (7, 1, 1), (3, 1, 1), 0),  # as C++ does
    ],
)  # fmt: skip
def test_launches(body, grid, block, shared):
    assert launched(f"{body}\nreturn x;") == ("k", grid, block, shared)


@pytest.mark.parametrize(("offset", "threads"), [(0, 4), (1, 1), (4, 4)])
def test_alignment_of_addresses_is_known(offset, threads):
    body = """const float* p = x.data_ptr<float>();
    bool wide = (reinterpret_cast<uintptr_t>(p) & 0xF) == 0 && ((size_t)(p + 4) % 16) == 0;
    if (wide) k<<<1, 4>>>(); else k<<<1, 1>>>(); return x;"""
    x = torch.zeros(64)
    assert x.data_ptr() % 16 == 0
    assert launched(body, x[offset:])[2] == (threads, 1, 1)


@pytest.mark.parametrize(
    ("body", "kernel"),
    [
        ("t<float><<<1, 1>>>();", "t<float>"),
        ("t<<<1, 1>>>(x.data_ptr<float>(), 0);", "t<float>"),  # deduced; the rest is by default
        ("t<__half, TILE * 2><<<1, 1>>>();", "t<__half, 32>"),
        ("constexpr int n = 3; t<unsigned char, n><<<1, 1>>>();", "t<unsigned char, 3>"),
        ("using S = double; t<S, 2><<<1, 1>>>((S*)0, 0);", "t<double, 2>"),
        ("launch<__half>(x, 2);", "t<__half, 8>"),
        ("cudaFuncSetAttribute(t<float, 2>, 8, 1 << 16); t<float, 2><<<1, 1>>>();", "t<float, 2>"),
        (
            'AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "f", ([&] {\n'
            "t<scalar_t><<<1, 1>>>(x.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(), 0);"
            "}));",
            "t<float>",
        ),
    ],
)
def test_template_arguments(body, kernel):
    assert launched(f"{body}\nreturn x;")[0] == kernel


@pytest.mark.parametrize(
    ("pointer", "kernel", "blocks"),
    [
        ("x.data_ptr<float>()", "t<float, 2>", 12),
        ("(double*)x.data_ptr()", "t<double, 2>", 24),
        ("reinterpret_cast<__half*>(x.data_ptr())", "t<__half, 2>", 6),
    ],
)
def test_template_parameters_of_host_functions_are_deduced(pointer, kernel, blocks):
    launch = launched(f"sized(3, {pointer}, {pointer}); return x;")
    assert launch[:2] == (kernel, (blocks, 1, 1))


@pytest.mark.parametrize(
    ("pointer", "blocks"),
    [
        ("nullptr", 7),
        ("(const float*)nullptr", 7),
        ("(float*)x.data_ptr()", 5),
        ("x.data_ptr<float>()", 5),
    ],
)
def test_absent_pointers_are_known_behind_a_cast(pointer, blocks):
    body = f"const float* p = {pointer}; bool there = (p == nullptr) ? false : true;"
    assert launched(f"{body} k<<<there ? 5 : 7, 1>>>(); return x;")[1] == (blocks, 1, 1)


def test_adjacent_literals_are_one():
    body = 'static_assert(TILE % 8 == 0, "one "\n "and the other"); k<<<1, 1>>>(); return x;'
    assert launched(body)[1] == (1, 1, 1)


def test_dispatch_on_the_type_of_a_tensor():
    body = 'AT_DISPATCH_ALL_TYPES_AND(at::ScalarType::Half, x.scalar_type(), "f", [&] {' \
           "t<scalar_t><<<1, 1>>>(); }); return x;"  # fmt: skip
    assert launched(body, torch.zeros(2, dtype=torch.float64))[0] == "t<double>"
    assert launched(body, torch.zeros(2, dtype=torch.float16))[0] == "t<c10::Half>"


def test_branches_that_are_not_taken_launch_nothing():
    body = "if (x.size(0) > 5000) { k<<<1, 1>>>(); } else if (x.dim() == 2) k<<<2, 2>>>();"
    assert launched(f"{body} else k<<<3, 3>>>(); return x;")[1] == (2, 1, 1)


@pytest.mark.parametrize(
    ("expression", "shape", "dtype"),
    [
        ("torch::empty_like(x)", (1000, 30), torch.float32),
        ("torch::zeros({x.size(1), 5}, x.options())", (30, 5), torch.float32),
        ("at::empty({2}, x.options().dtype(torch::kHalf))", (2,), torch.float16),
        (
            "torch::full({3}, 1, torch::TensorOptions().dtype(torch::kLong).device(x.device()))",
            (3,), torch.int64,
        ),
        ("x.view({10, -1}).transpose(0, 1).contiguous()", (3000, 10), torch.float32),
        ("x.slice(0, 100, 900, 2).narrow(1, 0, 5)", (400, 5), torch.float32),
        ("torch::zeros(x.size(1), x.device())", (30,), torch.float32),
        ("torch::empty(std::vector<int64_t>{2, 7})", (2, 7), torch.float32),
        ("torch::empty(std::vector<int64_t>(2, 7))", (7, 7), torch.float32),
        ("torch::ones({2}, torch::kInt)", (2,), torch.int32),
        ("torch::tensor(x[0][0].item<float>() / 3, x.options())", (), torch.float32),
        ("torch::matmul(x.t(), x)", (30, 30), torch.float32),
        ("x.to(torch::kBFloat16)", (1000, 30), torch.bfloat16),
    ],
)  # fmt: skip
def test_results_are_torchs_own(expression, shape, dtype):
    result = followed(f'TORCH_CHECK(x.is_cuda(), "no"); auto y = {expression}; return y;').result
    assert (tuple(result.shape), result.dtype) == (shape, dtype)


def test_sizes_are_edited_as_vectors_are():
    body = """auto sizes = x.sizes().vec(); auto kept = sizes;
    sizes.erase(sizes.begin() + 1); sizes.push_back(5); sizes.insert(sizes.begin(), 2);
    std::vector<int64_t> tail(kept.begin() + 1, kept.end());
    return {torch::empty(torch::IntArrayRef(sizes)), torch::empty(kept), torch::empty(tail)};"""
    shapes = [tuple(tensor.shape) for tensor in followed(body).result]
    assert shapes == [(2, 1000, 5), (1000, 30), (30,)]


def test_lists_optionals_and_defaults_of_python_calls():
    signature = "torch::Tensor x, c10::optional<torch::Tensor> b, std::vector<int64_t> p, int n = 9"
    body = "if (b.has_value()) { k<<<1, 1>>>(); } k<<<p[1], n>>>(); return {x, x};"
    x = torch.zeros(3)
    call = followed(body, x, None, [4, 5], signature=signature)
    assert [(launch.grid, launch.block) for launch in call.launches] == [((5, 1, 1), (9, 1, 1))]
    assert call.result == [x, x]


def test_what_cannot_be_known_is_said_to_be_unknown():
    body = "int n = x[0].item<int>(); k<<<n, 32, n * 4>>>(); return torch::zeros({n});"
    call = followed(body)
    (launch,) = call.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == (None, (32, 1, 1), None)
    assert call.result is UNKNOWN
    assert not call.undeclared


def test_names_that_nobody_declares_are_told():
    assert list(followed("return torch::zeros({rows, 3});").undeclared) == ["rows (f.cu:14)"]


@pytest.mark.quick("return x.view({7, 7});-f.cu:14: .*shape", "(y.scalar_type")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (x.item<float>() > 0) k<<<1, 1>>>();", "f.cu:14: whether .* holds is not known"),
        ("return x.view({7, 7});", "f.cu:14: .*shape"),
        ("while (true) { int i = 0; }", "more than .* steps"),
        ("AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), \"f\", [&] {});", "AT_DISPATCH"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_followed_names_its_line(body, message):
    with pytest.raises(HostError, match=message):
        followed(body)


def test_launches_before_the_end_are_kept():
    call, source = (
        HostCall(),
        Source.of([(KERNELS + "void f() { k<<<1, 1>>>();\nif (z) ; }", "f", 1)]),
    )
    with pytest.raises(HostError):
        call_host(source, "f", [], call)
    assert len(call.launches) == 1


def test_a_function_that_is_not_there():
    with pytest.raises(HostError, match="no function g"):
        call_host(Source(KERNELS), "g", [], HostCall())


SWITCH = """
#define GO(S) do { t<float, S><<<S, 64>>>(p, p); } while (0)
#define START(K, ...) K<<<1, 64>>>(__VA_ARGS__)
#define BOOL_SWITCH(C, NAME, ...) [&] { if (C) { constexpr static bool NAME = true; \\
    return __VA_ARGS__(); } else { constexpr static bool NAME = false; return __VA_ARGS__(); } }()
struct Params { const float* x; int n; float scale = 1.f; void check() {} };
void run(Params& p) { k<<<p.n, 32>>>(p.x, 0, p.n); }
"""


@pytest.mark.parametrize(
    ("body", "launches"),
    [
        ("auto p = x.data_ptr<float>(); GO(2);", [("t<float, 2>", 2)]),
        ("if (x.dim() == 2) GO(3); else GO(4);", [("t<float, 3>", 3)]),
        ("START((t<float, 8>), x.data_ptr<float>());", [("t<float, 8>", 1)]),
        ("BOOL_SWITCH(x.dim() == 3, F, [&] { t<float, F><<<5, 1>>>(0, 0); });",
         [("t<float, false>", 5)]),
        ("auto f = &t<float, 2>; f<<<x.size(1), 1>>>(0, 0);", [("t<float, 2>", 30)]),
        ("auto f = x.dim() == 2 ? t<float, 2> : t<float, 4>; f<<<1, 1>>>(0, 0);",
         [("t<float, 2>", 1)]),
        ("dim3 g; g.x = 6; void* a[] = {&x}; cudaLaunchKernel((void*)k, g, dim3(32), a, 0, s);",
         [("k", 6)]),
        ("cudaLaunchConfig_t c = {0}; c.gridDim = dim3(7); c.blockDim = 64; int n = 3;"
         "cudaLaunchKernelEx(&c, t<float, 2>, p, q);", [("t<float, 2>", 7)]),
        ("Params p; p.x = x.data_ptr<float>(); p.n = 9; p.n *= 2; run(p);", [("k", 18)]),
        ("Params p{x.data_ptr<float>(), 4}; run(p);", [("k", 4)]),
        ("int i = 1; do { k<<<i, 32>>>(); i *= 2; } while (i < 4);", [("k", 1), ("k", 2)]),
        ("for (int n : {3, 5}) k<<<n, 32>>>();", [("k", 3), ("k", 5)]),
        ("int n = 0; auto set = [&](int m) { n = m; }; set(8); k<<<n, 1>>>();", [("k", 8)]),
        ("auto e = foreign(3); if (e != 0) { throw std::runtime_error(\"x\"); } k<<<2, 1>>>();",
         [("k", 2)]),
        ("if (auto e = cudaGetLastError(); e != 0) return x; k<<<3, 1>>>();", [("k", 3)]),
    ],
)  # fmt: skip
def test_projects_launch_in_many_ways(body, launches):
    source = Source.of([(f"{KERNELS}{SWITCH}void f(torch::Tensor x) {{\n{body}\n}}", "f.cu", 1)])
    call = HostCall()
    call_host(source, "f", [torch.zeros(1000, 30)], call)
    assert [(launch.kernel, launch.grid[0]) for launch in call.launches] == launches
    assert not call.unseen


def test_a_launch_by_addresses_gets_the_numbers_there():
    body = "int n = x.numel(); float scale = 0.5f; void* a[] = {(void*)&x, &n, (void*)&scale,};"
    launch = "cudaLaunchCooperativeKernel((void*)k, dim3(n / 8), dim3(32), a);"
    source = Source.of([(f"{KERNELS}void f(torch::Tensor x) {{ {body} {launch} }}", "f.cu", 1)])
    call = HostCall()
    call_host(source, "f", [torch.zeros(48)], call)
    assert call.launches[0].grid[0] == 6
    assert call.launches[0].arguments[1:] == (48, 0.5)


def test_a_launch_gets_the_numbers_that_are_there_when_it_begins():
    body = "int n; float s = 1; void* a[] = {&n, &s}; s = 0.5f; for (n = x.numel(); n > 12; n /= 2)"
    launch = "{ cudaLaunchKernel((void*)k, dim3(1), dim3(32), a); }"
    source = Source.of([(f"{KERNELS}void f(torch::Tensor x) {{ {body} {launch} }}", "f.cu", 1)])
    call = HostCall()
    call_host(source, "f", [torch.zeros(48)], call)
    assert [launch.arguments for launch in call.launches] == [(48, 0.5), (24, 0.5)]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("cublasSgemm(handle, x.data_ptr<float>(), 3);", "cublasSgemm"),
        ("CHECK(cublasSgemm(handle, 2, x.data_ptr<float>()));", "cublasSgemm"),
        ("cub::DeviceReduce::Sum(t, n, x.data_ptr<float>(), y, 3);", "cub::DeviceReduce::Sum"),
        ("cudaMemsetAsync(x.data_ptr(), 0, 4, stream);", "cudaMemsetAsync"),
        ("Gemm::Arguments a({1, 2}, {x.data_ptr<float>(), 3}); Gemm g; g.run(a);", "run"),
    ],
)
def test_libraries_that_the_host_calls_are_named(call, name):
    macro = "#define CHECK(c) do { auto s = c; if (s != 0) throw 1; } while (0)\n"
    source = Source.of([(f"{macro}void f(torch::Tensor x) {{ {call} }}", "f.cu", 1)])
    seen = HostCall()
    call_host(source, "f", [torch.zeros(8)], seen)
    assert list(seen.unseen) == [f"f.cu:2: calls {name}, which is not analysed."]


def test_numbers_that_are_addresses_of_tensors_are_pointers_into_them():
    x = torch.zeros(8, 4)
    body = "auto p = reinterpret_cast<const float*>(a); k<<<1, 32>>>(p, nullptr, 3); scan(p, n);"
    source = Source.of([(f"{KERNELS}void f(uintptr_t a, int n) {{ {body} }}", "f.cu", 1)])
    seen = HostCall()
    call_host(source, "f", [fake_cuda.data_ptr(x[2:]), 7], seen)
    (launch,) = seen.launches
    assert launch.arguments[0].offset_bytes == 2 * 4 * 4
    assert launch.arguments[0].shape == (6 * 4 * 4,)
    assert list(seen.unseen) == ["f.cu:13: calls scan, which is not analysed."]


def test_an_undefined_tensor_is_no_argument():
    x = torch.randn(2, 3, 5, 5)
    walk = followed("return at::conv2d(x, x, at::Tensor(), at::IntArrayRef({1, 1}));", x)
    torch.testing.assert_close(walk.result, torch.nn.functional.conv2d(x, x))


CUBLAS = {
    "Sgemm": (
        "Sgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, 3, 5, 4, &one, {b}, 4, {a}, 4, &zero, {c}, 3)",
        lambda a, b, _: a[0] @ b.view(2, 3, 4)[0].T,
    ),
    "SgemmStridedBatched": (
        "SgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 3, 5, 4, &one, {b}, 3, 12, {a}, 4, 20,"
        " &zero, {c}, 3, 15, 2)",
        lambda a, b, _: a @ b,
    ),
    "GemmEx": (
        "GemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 3, 5, 4, &one, {b} + 12, CUDA_R_32F, 3, {a},"
        " CUDA_R_32F, 4, &one, {c}, CUDA_R_32F, 3, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)",
        lambda a, b, c: c[0] + a[0] @ b[1],
    ),
}


@pytest.mark.parametrize("form", CUBLAS)
def test_products_of_cublas_are_those_of_its_matrices(form):
    call, expected = CUBLAS[form]
    a, b, c = torch.rand(2, 5, 4), torch.rand(2, 4, 3), torch.rand(2, 5, 3)
    want = expected(a, b, c)
    text = call.format(**{name: f"{name}.data_ptr<float>()" for name in "abc"})
    body = f"float one = 1.0f, zero = 0.0f; cublasHandle_t h; cublasCreate(&h); cublas{text};"
    arguments = "torch::Tensor a, torch::Tensor b, torch::Tensor c"
    seen = HostCall()
    call_host(Source.of([(f"void f({arguments}) {{ {body} }}", "f.cu", 1)]), "f", [a, b, c], seen)
    assert not seen.unseen
    assert torch.allclose(c if want.dim() == 3 else c[0], want)
    assert list(seen.remarks) == [
        f"f.cu:1: cublas{form} is taken for PyTorch's product of the same matrices."
    ]


@pytest.mark.parametrize(
    ("form", "before", "after"),
    [
        ("GemmEx", "COMPUTE_32F", "COMPUTE_32F_FAST_TF32"),
        ("GemmEx", "COMPUTE_32F", "COMPUTE_32F_FAST_16BF"),
        ("GemmEx", "CUDA_R_32F, 3, {a}", "CUDA_R_16F, 3, {a}"),  # halves where floats are
        ("Sgemm", "CUBLAS_OP_T", "n > 3 ? CUBLAS_OP_N : CUBLAS_OP_T"),
        ("Sgemm", "{b}, 4", "{b}, 3"),  # columns that overlap: cuBLAS refuses them
        ("Sgemm", "3, 5, 4", "300, 5, 4"),  # more rows than there is memory
        ("SgemmStridedBatched", "3, 15, 2", "3, 0, 2"),  # results in one place
    ],
)
def test_products_of_cublas_that_are_not_sure_are_not_seen(form, before, after):
    text = CUBLAS[form][0].replace(before, after).format(a="p", b="p", c="p")
    body = f"float one = 1.0f, zero = 0.0f; auto p = a.data_ptr<float>(); cublas{text};"
    seen = HostCall()
    call_host(
        Source.of([(f"void f(torch::Tensor a, int n) {{ {body} }}", "f.cu", 1)]),
        "f",
        [torch.zeros(40), 5],
        seen,
    )
    assert list(seen.unseen) == [f"f.cu:1: calls cublas{form}, which is not analysed."]


def test_options_define_macros_of_host_code():
    source = Source.of([(KERNELS + "void f() { k<<<BLOCKS, 1>>>(); }", "f.cu", 1)], ["-DBLOCKS=12"])
    call = HostCall()
    call_host(source, "f", [], call)
    assert call.launches[0].grid == (12, 1, 1)


@pytest.mark.parametrize(("inputs", "expected"), [(None, 0), (torch.zeros(8), torch.Size([8]))])
def test_the_address_of_an_absent_tensor_is_zero(inputs, expected):
    call = followed(
        "float *y = nullptr; if (z.has_value()) { y = z.value().data_ptr<float>(); }"
        "k<<<1, 32>>>(x.data_ptr<float>(), y, 3);",
        torch.zeros(4),
        inputs,
        signature="torch::Tensor x, std::optional<torch::Tensor> z",
    )
    address = call.launches[0].arguments[1]
    assert address == expected if inputs is None else address.shape == expected
