"""Device code told from host code."""

import pytest

from solkit.analysis.cuda.source import Source, split_arguments, tokens_of

SOURCE = r"""#include <torch/extension.h>
#include <cuda_fp16.h>
#include <vector>
#define BLOCK 256
#define CEIL(a, b) \
    (((a) + (b) - 1) / (b))
using namespace nvcuda;
namespace F = torch::nn::functional;
typedef at::BFloat16 bf16;
using Batch = torch::PackedTensorAccessor32<float, 2>;
using Names = std::vector<torch::Tensor>;
constexpr int WIDTH = 4;  // torch::Tensor in a comment
__constant__ float weights[3] = {1, 2, 3};
struct Pair { float a; float b; __device__ float sum() const { return a + b; } };
struct Args { torch::Tensor x; };
void launch(const float* x, int n);
int cdiv(int a, int b) { return (a + b - 1) / b; }
constexpr int twice(int a) { return 2 * a; }
template <typename T, int N = 4> __device__ __forceinline__ T half_of(T x) { return x / T(2); }
namespace inner {
template <typename T>
__global__ void __launch_bounds__(256, 2) scale(const T* __restrict__ x, T* y, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) y[i] = half_of<T>(x[i]) * "\"}"[0];
}
}  // namespace inner
extern "C" __global__ void plain(float* x) { x[threadIdx.x] = 1; }
torch::Tensor run(torch::Tensor x) {
  inner::scale<float><<<CEIL(x.numel(), BLOCK), BLOCK>>>(x.data_ptr<float>(), nullptr, 3);
  return x;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &run, "runs"); }
"""


@pytest.fixture(scope="module")
def source():
    return Source(SOURCE)


def test_lines_stay_where_they_were(source):
    kept = source.device_text(900).split("\n")
    for before, after in zip(SOURCE.split("\n"), kept, strict=True):
        expanded = before.replace("BLOCK + threadIdx", "256 + threadIdx").split("//")[0]
        assert after.strip() in ("", before.strip(), expanded.strip())


@pytest.mark.parametrize(
    "kept",
    [
        "#include <cuda_fp16.h>", "#define BLOCK 256", "using namespace nvcuda;",
        "typedef at::BFloat16 bf16;", "using Batch =", "constexpr int WIDTH = 4;",
        "__constant__ float weights[3]", "struct Pair",
        "constexpr int twice", "half_of(T x)", "void __launch_bounds__(256, 2) scale",
        "namespace inner {", 'extern "C" __global__ void plain',
    ],
)  # fmt: skip
def test_device_code_is_kept(source, kept):
    assert kept in source.device_text(900)


@pytest.mark.parametrize(
    "blanked",
    [
        "torch/",
        "<vector>",
        "functional",
        "Names",
        "struct Args",
        "launch(const",
        "cdiv",
        "<<<",
        "PYBIND11",
    ],
)
def test_host_code_is_blanked(source, blanked):
    assert blanked not in source.device_text(900).replace("// torch::Tensor in a comment", "")


def test_functions(source):
    kernels = [name for name, function in source.functions.items() if function.is_kernel]
    assert kernels == ["scale", "plain"]
    assert {"cdiv", "twice", "run", "half_of"} < source.functions.keys()
    scale = source.functions["scale"]
    assert [parameter[-1].text for parameter in scale.parameters] == ["x", "y", "n"]
    assert [token.text for token in scale.template] == ["typename", "T"]
    assert len(split_arguments(source.functions["half_of"].template, angles=True)) == 2


def test_constants(source):
    assert any(token.text == "WIDTH" for tokens in source.constants for token in tokens)


def test_places_follow_the_files():
    joined = Source.of([("int a;\nint b;", "one.py", 12), ("int c;", "two.cu", 1)])
    assert [joined.place(joined.text.index(name)) for name in ("int a", "int b", "int c")] == [
        "one.py:12", "one.py:13", "two.cu:1",
    ]  # fmt: skip


def test_tokens():
    text = "a<<<1, 2>>>(R\"x(\")x\", 1e-5f, 0x1F, '\\'', x->y); // end\n/* a\n */ b >>= 2"
    assert [token.text for token in tokens_of(text)] == [
        "a", "<<<", "1", ",", "2", ">", ">", ">", "(", 'R"x(")x"', ",", "1e-5f", ",", "0x1F", ",",
        "'\\''", ",", "x", "->", "y", ")", ";", "b", ">", ">=", "2",
    ]  # fmt: skip


def test_words_that_are_operators():
    text = 'static_assert((a and not b) or "and" not_eq android)'
    assert [(token.kind, token.text) for token in tokens_of(text)][3:] == [
        ("name", "a"), ("mark", "&&"), ("mark", "!"), ("name", "b"), ("mark", ")"), ("mark", "||"),
        ("string", '"and"'), ("mark", "!="), ("name", "android"), ("mark", ")"),
    ]  # fmt: skip
