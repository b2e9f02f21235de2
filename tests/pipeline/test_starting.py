"""`solkit init`: what a file holds is found in its text, and what is written loads."""

from __future__ import annotations

import ast

import pytest

import solkit
from solkit.errors import KernelFileError
from solkit.pipeline.starting import start

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
ADD = """
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, NEGATE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
    if NEGATE:
        total = -total
    tl.store(out_ptr + offsets, total, mask=offsets < n)
"""
LAUNCHER = """
def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    BLOCK = 1024
    grid = (triton.cdiv(n, BLOCK),)
    add_kernel[grid](x, y, out, n, BLOCK, NEGATE=False)  # both are contiguous
    return out


def benchmark(size):
    return add(torch.rand(size), torch.rand(size))
"""
MATMUL = """
@triton.autotune([triton.Config({"BM": 64, "BK": 32}), triton.Config({"BM": 128, "BK": 32})], ["K"])
@triton.heuristics({"EVEN": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def mm(a, b, c, M, N, K, BM: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(c + tl.arange(0, BM), tl.dot(tl.load(a + tl.arange(0, BM)), tl.load(b)))


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        assert a.shape[1] == b.shape[0] and a.dtype == torch.float16
        M, K = a.shape
        _, N = b.shape
        c = torch.empty(M, N, device=a.device)
        mm[(M,)](a, b, c, M, N, K)
        return c


product = Product.apply


class Linear(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()

    def forward(self, x):
        return product(x, self.weight)
"""


def started(folder, text, function=None, name="mine.py", out="mine_solkit.py"):
    """What is made of a file, as it would be beside it, and there is."""
    (folder / name).write_text(text)
    result = start(str(folder / name), str(folder / out), function)
    if result.text:
        ast.parse(result.text)
        (folder / out).write_text(result.text)
    return result


def constant(text, name):
    """The value of a top-level constant."""
    for item in ast.parse(text).body:
        if isinstance(item, ast.Assign) and item.targets[0].id == name:
            return ast.literal_eval(item.value)
    return None


def test_the_constants_of_a_launcher_become_parameters_and_a_space(tmp_path):
    result = started(tmp_path, HEAD + ADD + LAUNCHER)
    assert result.chosen == "add"  # benchmark() takes no tensor
    assert constant(result.text, "SPACE") == {"BLOCK": [512, 1024, 2048], "num_warps": [2, 4, 8]}
    assert "def kernel(x, y, *, BLOCK=1024, num_warps=4):" in result.text
    assert "NEGATE=False, num_warps=num_warps)  # both are contiguous" in result.text
    assert "BLOCK = 1024" not in result.text


def test_what_is_written_loads_and_says_what_is_open(tmp_path):
    started(tmp_path, HEAD + ADD + LAUNCHER)
    path = str(tmp_path / "mine_solkit.py")
    assert solkit.load(path).candidate.params == {"BLOCK": 1024, "num_warps": 4}
    with pytest.raises(KernelFileError, match=r"mine_solkit\.py:\d+: .*TODO: reference\(\)"):
        solkit.bound(path, device="h100")


def test_sizes_that_the_text_equates_have_one_name(tmp_path):
    result = started(tmp_path, HEAD + MATMUL, "Product")
    assert "def inputs(M=4096, K=4096, N=4096, dtype=torch.float16, device" in result.text
    assert "a = torch.randn(M, K, " in result.text
    assert "b = torch.randn(K, N, " in result.text
    assert "return Product.apply(a, b)" in result.text
    assert result.others == ("Linear",)


def test_an_autotuned_kernel_keeps_its_own_space(tmp_path):
    result = started(tmp_path, HEAD + MATMUL)
    assert constant(result.text, "SPACE") is None
    space = solkit.load(str(tmp_path / "mine_solkit.py")).candidate.space
    assert {point["BM"] for point in space.walk()} == {64, 128}


def test_a_module_becomes_a_kernelbench_candidate(tmp_path):
    result = started(tmp_path, HEAD + MATMUL, "Linear")
    assert "from mine import Linear as ModelNew" in result.text
    described = solkit.load(str(tmp_path / "mine_solkit.py"))
    assert (described.problem.format, described.candidate.name) == ("kernelbench", "ModelNew")


def test_a_bare_kernel_of_one_size_is_described_in_full(tmp_path):
    bare = ADD.replace(", NEGATE: tl.constexpr", "").replace("if NEGATE", "if n")
    started(tmp_path, HEAD + bare)
    loaded = solkit.load(str(tmp_path / "mine_solkit.py"))
    assert dict(loaded.problem.sizes) == {"N": 1048576}
    assert loaded.candidate.params == {"BLOCK": 1024, "num_warps": 4}


def test_a_kernel_whose_launchers_make_their_tensors_is_described_bare(tmp_path):
    text = HEAD + ADD + "\ndef run(n):\n    x = torch.rand(n)\n"
    text += "    add_kernel[(1,)](x, x, torch.empty_like(x), n, 64, NEGATE=False)\n"
    path = tmp_path / "demo.py"
    path.write_text(text)
    started = start(str(path), str(tmp_path / "demo_solkit.py"))
    assert started.chosen == "add_kernel"
    assert "LAUNCH = {" in started.text


def test_an_open_place_of_a_launch_description_is_named(tmp_path):
    result = started(tmp_path, HEAD + ADD.replace("n, BLOCK", "n, m, BLOCK"))
    assert result.todos
    with pytest.raises(KernelFileError, match=r"TODO left: LAUNCH\['args'\]\['x_ptr'\]: TODO"):
        solkit.load(str(tmp_path / "mine_solkit.py"))


def test_axes_that_a_kernel_goes_along_give_the_shapes_that_the_host_does_not(tmp_path):
    norm = """
@triton.jit
def norm(x, w, s, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    cols = tl.arange(0, BLOCK)
    y = tl.load(x + cols, mask=cols < N) * tl.load(w + cols) * tl.load(s + row)
    tl.store(out + row * stride + cols, y, mask=cols < N)


def normalise(x, w, s):
    M, N = x.shape
    norm[(M,)](x, w, s, torch.empty_like(x), x.stride(0), N, BLOCK=1024)
"""
    written = started(tmp_path, HEAD + norm).text
    assert "x = torch.randn(M, N, dtype" in written
    assert "w = torch.randn(N, dtype" in written
    assert "s = torch.randn(M, dtype" in written
    product = """
@triton.jit
def mm(a, b, c, M, N, K, am, ak, bk, BM: tl.constexpr, BK: tl.constexpr):
    i = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    j, k = tl.program_id(1) * BM + tl.arange(0, BM), tl.arange(0, BK)
    a_at, b_at = a + i[:, None] * am + k[None, :] * ak, b + k[:, None] * bk + j[None, :]
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(a_at, mask=k[None, :] < K - step * BK)
        right = tl.load(b_at, mask=j[None, :] < N)
        a_at += BK * ak
    tl.store(c + i[:, None] * N + j[None, :], tl.dot(left, right), mask=j[None, :] < N)


def product(a, b, c, M, N, K):
    mm[(M, N)](a, b, c, M, N, K, K, 1, N, BM=64, BK=32)
"""
    written = started(tmp_path, HEAD + product).text
    assert "a = torch.randn(M, K, " in written
    assert "b = torch.randn(K, N, " in written
    assert "c = torch.empty(M, N, " in written


def test_a_slice_of_a_shape_gives_another_tensors(tmp_path):
    scan = """
def scan(x, first, K):
    assert tuple(first.shape) == tuple(x.shape[1:]) and K.device == x.device
    T, N, C = x.shape
    add_kernel[(1,)](x, first, K.data, T, 1024, NEGATE=False)
"""
    written = started(tmp_path, HEAD + ADD + scan).text
    assert "first = torch.randn(N, C, dtype" in written
    assert "K = torch." in written  # a tensor, whose name no size takes


def test_an_index_is_an_integer_and_an_output_is_named(tmp_path):
    text = """
@triton.jit
def pick(src, idx, dst, N: tl.constexpr):
    row = tl.load(idx + tl.program_id(0))
    cols = tl.arange(0, N)
    tl.store(dst + tl.program_id(0) * N + cols, tl.load(src + row * N + cols))


def pick_into(dst, src, idx):
    pick[(idx.numel(),)](src, idx, dst, src.shape[1])
"""
    result = started(tmp_path, HEAD + text)
    assert constant(result.text, "OUTPUTS") == ("dst",)
    grid = "    def grid(meta):\n        return (idx.numel(),)\n\n    pick[grid]("
    nested = started(tmp_path, HEAD + text.replace("    pick[(idx.numel(),)](", grid))
    assert constant(nested.text, "OUTPUTS") == ("dst",)
    assert "idx = torch.randint(" in result.text
    assert "dst = torch.empty(" in result.text


def test_comments_beside_parameters_name_the_dimensions(tmp_path):
    head = """def pool(
    x: torch.Tensor,  # [total, heads, 64]
    w: torch.Tensor,  # weights (heads, window)
    y: torch.Tensor,  # (optional)
    z: torch.Tensor, s: torch.Tensor, window: int,
):
    '''Pool.

        z (Tensor, optional): what is added, of shape [heads, window,]
        s: scales
    '''
    assert y.shape == (heads, total) and len(s.shape) == 1
    assert x.dtype == w.dtype
    pick[(1,)](x, w, y, z, s, 8)
"""
    result = started(tmp_path, HEAD + "@triton.jit\ndef pick(x, w, y, z, s, n): ...\n" + head)
    assert "x = torch.randn(total, heads, 64, dtype=dtype" in result.text
    assert "w = torch.randn(heads, window, dtype=dtype" in result.text
    assert "y = torch.randn(heads, total, dtype" in result.text
    assert "z = torch.randn(heads, window, dtype" in result.text
    assert "s = torch.randn(M, dtype" in result.text
    assert "dtype=torch.float32, device" in result.text
    assert "window = " not in result.text  # it is a size
    assert "return (x, w, y, z, s, window)" in result.text


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("BLOCK = 1024\n", "BLOCK = 1024\n    if n < 9: BLOCK = 64\n", "it depends on a size"),
        ("BLOCK, NEGATE", "BLOCK * 2, NEGATE", "it is computed"),
        ("BLOCK = 1024", "BLOCK = triton.next_power_of_2(n)", "it follows a size"),
    ],
)
def test_what_a_size_decides_is_no_parameter(tmp_path, before, after, reason):
    result = started(tmp_path, HEAD + ADD + LAUNCHER.replace(before, after))
    assert constant(result.text, "SPACE") == {"num_warps": [2, 4, 8]}, reason


def test_a_number_that_stands_elsewhere_too_is_no_parameter(tmp_path):
    one = LAUNCHER.replace("    BLOCK = 1024\n", "").replace("n, BLOCK)", "n, 1024)")
    result = started(tmp_path, HEAD + ADD + one.replace("n, BLOCK, ", "n, BLOCK=1024, "))
    assert constant(result.text, "SPACE") == {"num_warps": [2, 4, 8]}


def test_a_decorated_launcher_is_called_as_it_is(tmp_path):
    text = LAUNCHER.replace(
        "def add(", '@torch.library.custom_op("a::b", mutates_args=())\ndef add('
    )
    result = started(tmp_path, HEAD + ADD + text)
    assert "return add(x, y)" in result.text


def test_a_jit_by_assignment_and_a_name_of_the_form_are_told_apart(tmp_path):
    text = ADD.replace("@triton.jit\n", "").replace("def add_kernel", "def _add")
    text += "\nkernel = triton.jit(_add)\n" + LAUNCHER.replace("add_kernel[", "kernel[")
    result = started(tmp_path, HEAD + text)
    assert result.chosen == "add"
    assert "from mine import add" in result.text  # `kernel` is the candidate of the new file


def test_what_is_there_is_imported(tmp_path):
    text = HEAD + ADD + LAUNCHER + "\ndef reference(x, y):\n    return x + y\n"
    result = started(tmp_path, text)
    assert "from mine import reference, add_kernel" in result.text
    assert "def reference" not in result.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def reference(x): ...\ndef inputs(): ...\ndef kernel(x): ...", "has reference()"),
        ("LAUNCH = {}", "has a launch description"),
        ("class Model: ...\ndef get_inputs(): ...", "is a problem in KernelBench's form"),
        ("class Model: ...\nclass ModelNew: ...\ndef get_inputs(): ...", "with Model and ModelNew"),
        ("class ModelNew: ...", "is a candidate in KernelBench's form"),
    ],
)
def test_a_kernel_file_lacks_nothing(tmp_path, text, why):
    result = started(tmp_path, text)
    assert not result.text
    assert why in result.why


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "x = 1", "no function or class that launches a kernel"),
        ("a.py", "def f(:", r"a\.py:1: is not valid Python"),
        ("a.cu", "", "a.cu: has no __global__ function"),
    ],
)
def test_a_file_without_kernels_is_refused(tmp_path, name, text, expected):
    with pytest.raises(KernelFileError, match=expected):
        started(tmp_path, text, name=name)


def test_what_a_cpp_function_takes_says_what_its_callers_parameters_are(tmp_path):
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "scale.cpp").write_text("""
torch::Tensor scale_cuda(torch::Tensor x, at::Tensor rows, double by, int64_t n) {
    run(x.data_ptr<at::Half>(), rows.data_ptr<int>(), x.size(1), by, n);  // rows.size(2)
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale_cuda); }
""")
    text = """
import os
from torch.utils.cpp_extension import load
here = os.path.dirname(__file__)
ext = load(name="scale", sources=[os.path.join(here, "csrc", "scale.cpp")])


def apply(x, rows, by, n):
    return ext.scale(x.contiguous(), rows, by, n)
"""
    written = started(tmp_path, text).text
    assert "x = torch.randn(M, N, dtype" in written
    assert "dtype=torch.float16, device" in written
    assert "rows = torch.randint(0, 1, (M, N,), dtype=torch.int32" in written
    assert "by = 1.0  #" in written
    assert "n = 1  #" in written


def test_a_cu_file_gets_a_function_of_tensors_that_launches_its_kernel(tmp_path):
    (tmp_path / "scale.cuh").write_text("""
template <typename T, int WIDTH>
__global__ void __launch_bounds__(256) scale(const T* __restrict__ x, T* out, float by, int n) {
    /* out[0] = x[0]; */
}
__global__ void unused(unsigned char* flags) {}
void run(const float* x, float* out, int n) {
    dim3 blocks((n + 255) / 256);
    constexpr int W = 4;
    scale<float, W><<<blocks, 256>>>(x, out, 2.0f, n);
}
""")
    text = '#include "scale.cuh"\nint main() { return 0; }\n'
    result = started(tmp_path, text, name="main.cu")
    assert (result.chosen, result.others) == ("scale", ("unused",))
    assert "launch(torch::Tensor x, torch::Tensor out, double by, int64_t n)" in result.text
    assert "    constexpr int W = 4;\n    // dim3 blocks((n + 255) / 256);" in result.text
    launch = (
        "scale<float, W><<<grid, block>>>((float*)x.data_ptr(), (float*)out.data_ptr(), by, n);"
    )
    assert launch in result.text
    assert constant(result.text, "OUTPUTS") == ("out",)
    assert "as scale.cuh:10 has <<<blocks, 256>>>" in result.todos[-1].text
    flags = started(tmp_path, text, "unused", name="main.cu").text
    assert "flags = torch.zeros(N, dtype=torch.uint8, device=device)" in flags
    with pytest.raises(KernelFileError, match=r"no kernel named 'run'; it has: scale, unused"):
        started(tmp_path, text, "run", name="main.cu")


def test_kernels_that_a_package_launches_are_told_what_reads_them(tmp_path):
    with pytest.raises(KernelFileError, match=r"launches by CuPy: .*load_inline"):
        started(tmp_path, "import cupy as cp\nscale = cp.RawKernel('...', 'scale')\n")
    with pytest.raises(KernelFileError, match=r"put k\.launch\.toml beside it, or .*--launch"):
        started(tmp_path, ".version 8.0", name="k.ptx")


def test_nothing_of_the_file_runs(tmp_path):
    assert started(tmp_path, "raise SystemExit(1)\n" + HEAD + ADD + LAUNCHER).text


@pytest.mark.parametrize("name", ["01-add.py", "copy.py", "a.b.py"])
def test_a_file_is_imported_whatever_its_name(tmp_path, name):
    started(tmp_path, HEAD + ADD + LAUNCHER, name=name)
    assert solkit.load(str(tmp_path / "mine_solkit.py")).candidate.params["BLOCK"] == 1024


OTHERS = {
    "cutile": """
import cuda.tile as ct

@ct.kernel
def body(x, out, N: ct.Constant[int]):
    ct.store(out, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(N,)))

def scale(x):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (x.shape[0] // 64,), body, (x, out, 64))
    return out
""",
    "cute": """
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def body(x: cute.Tensor): ...

@cute.jit
def host(x: cute.Tensor):
    body(x).launch(grid=[1, 1, 1], block=[32, 1, 1])

def scale(x: torch.Tensor):
    host(from_dlpack(x))
""",
    "tilelang": """
import tilelang

@tilelang.jit(out_idx=[1])
def build(n): ...

def scale(x: torch.Tensor):
    return build(x.numel())(x)
""",
    "helion": """
import helion

@helion.kernel()
def scale(x: torch.Tensor):
    return x
""",
    "cuda": """
from torch.utils.cpp_extension import load_inline

module = load_inline("scale", cpp_sources=[], cuda_sources=[], functions=["scale"])

def scale(x: torch.Tensor):
    return module.scale(x)
""",
}


OPERATORS = """
from torch.utils.cpp_extension import load_inline

load_inline("mine", cpp_sources=[], cuda_sources=[], is_python_module=False)
scaled = torch.ops.mine.scale

def scale(x: torch.Tensor):
    assert x.dtype == torch.int32
    return scaled(x)
"""


def test_operators_that_an_extension_registers_launch(tmp_path):
    text = started(tmp_path, "import torch\n" + OPERATORS).text
    assert "def kernel(x):\n    return scale(x)" in text
    assert "torch.randint(0, 1, (M,), dtype=torch.int32, device" in text
    script = OPERATORS.partition("def ")[0] + "scaled(torch.ones(8))"
    with pytest.raises(KernelFileError, match="launches kernels only outside functions: write a"):
        started(tmp_path, "import torch\n" + script)


@pytest.mark.parametrize("language", OTHERS)
def test_launchers_of_every_language_are_found(tmp_path, language):
    around = (
        "import torch\ndef plain(x: torch.Tensor): ...\ndef main():\n    scale(torch.rand(64))\n"
    )
    result = started(tmp_path, around + OTHERS[language])
    assert (result.chosen, result.others) == ("scale", ())
    assert "Launching nothing, with as many arguments: plain" in result.text


def test_cutile_says_what_a_launch_writes(tmp_path):
    text = OTHERS["cutile"].replace("scale(x):\n    out = torch.empty_like(x)", "scale(x, out):")
    result = started(tmp_path, "import torch" + text.replace("    return out\n", ""))
    assert constant(result.text, "OUTPUTS") == ("out",)
    assert "out = torch.empty(" in result.text


@pytest.mark.parametrize("language", ["cutile", "cute", "tilelang"])
def test_code_for_the_gpu_alone_is_told_what_is_missing(tmp_path, language):
    text = OTHERS[language].partition("def scale")[0]
    with pytest.raises(KernelFileError, match=r"has code for the GPU \(\w+.*\), which a function"):
        started(tmp_path, text)
    with pytest.raises(KernelFileError, match="write one that takes PyTorch's tensors"):
        started(tmp_path, OTHERS[language], "build" if language == "tilelang" else "body")


def test_functions_named_like_those_of_a_kernel_file_are_told_apart(tmp_path):
    text = "def check(sizes): ...\ndef valid(params, shape): return True\n"
    result = started(tmp_path, HEAD + ADD + LAUNCHER + text)
    assert "import valid, add_kernel" in result.text


def test_a_file_whose_launchers_take_no_tensors_is_told_what_is_missing(tmp_path):
    text = OTHERS["tilelang"].replace("x: torch.Tensor", "").replace("x.numel()", "1")
    with pytest.raises(KernelFileError, match=r"only where the tensors are made \(scale\)"):
        started(tmp_path, text)


def test_a_file_that_needs_nothing_of_its_package_is_imported_without(tmp_path):
    (tmp_path / "__init__.py").write_text("raise ImportError('not built here')\n")
    started(tmp_path, HEAD + ADD + LAUNCHER)
    assert solkit.load(str(tmp_path / "mine_solkit.py")).candidate.params["BLOCK"] == 1024


def test_a_file_of_a_package_is_imported_from_another_folder(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("BLOCK = 512\n")
    text = HEAD + "from .sizes import BLOCK\n" + ADD + LAUNCHER.replace("    BLOCK = 1024\n", "")
    (package / "mine.py").write_text(text)
    for out in (tmp_path / "other" / "mine_solkit.py", package / "mine_solkit.py"):
        out.parent.mkdir(exist_ok=True)
        out.write_text(start(str(package / "mine.py"), str(out)).text)
        assert solkit.load(str(out)).candidate.params == {"num_warps": 4}


TILED = """
import tilelang
import tilelang.language as T
M = 512
WIDTH = 64

@tilelang.jit(pass_configs={})
def scaled(x, w, scale, threads=128, kind: T.dtype = T.float16):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), kind)
    w: T.Tensor([N, WIDTH], kind)
    y = T.empty((M, N), kind)
    with T.Kernel(M, threads=threads) as row:
        ...
    return y

def main():
    scaled.compile(M=4, N=8)
"""


def test_a_function_of_tilelang_that_takes_tensors_is_a_launcher(tmp_path):
    path = tmp_path / "tiled.py"
    path.write_text(TILED)
    started = start(str(path), str(tmp_path / "out.py"))
    assert started.chosen == "scaled"
    assert "def inputs(M=4096, N=4096, dtype=torch.float16," in started.text
    assert "w = torch.randn(N, 64, dtype=dtype, device=device)" in started.text
    assert '"threads": [64, 128, 256]' in started.text
    assert "def kernel(x, w, scale, *, threads=128):" in started.text
    assert "return scaled(x, w, scale, threads=threads)" in started.text


FACTORY = """
import tilelang
import tilelang.language as T
GROUP = 32

{}
def gemm(M, N, K, tile, dtype, stages=2, wide=False):
    shape = (N, K // GROUP)
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), S: T.Tensor(shape, "int32"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
            part = T.alloc_shared((tile, K), dtype)
            T.copy(part, C[by * tile, bx * tile])
    return main
"""


def test_a_function_of_tilelang_that_makes_a_kernel_is_called_for_its_sizes(tmp_path):
    result = started(tmp_path, FACTORY.format("@tilelang.jit(out_idx=[-1])"))
    assert result.chosen == "gemm"
    assert "def inputs(M=4096, K=4096, N=4096, dtype=torch.float16, device" in result.text
    assert "A = torch.randn(M, K, dtype" in result.text
    assert "S = torch.randint(0, 1, (N, K // 32,), dtype=torch.int32" in result.text
    assert (
        "C" not in result.text.partition("def inputs")[2].partition("return")[0]
    )  # it is returned
    assert "N = S.shape[0]" in result.text
    assert constant(result.text, "SPACE") == {"tile": [32, 64, 128], "stages": [1, 2, 4]}
    call = 'gemm(M=M, N=N, K=K, tile=tile, dtype="float16", stages=stages)'
    assert f"return {call}(A, S)" in result.text
    compiled = started(tmp_path, FACTORY.format("")).text
    assert f"return tilelang.compile({call})(A, S, C)" in compiled
    assert constant(compiled, "OUTPUTS") == ("C",)


def test_a_launcher_takes_the_tensors_of_the_kernel_that_it_makes(tmp_path):
    launcher = """
def run(left, scales):
    m, k = left.shape
    n = scales.size(0)
    compiled = gemm(m, n, K=k, tile=64, dtype="float16")
    return compiled(left.contiguous(), scales)
"""
    result = started(tmp_path, FACTORY.format("@tilelang.jit(out_idx=[-1])") + launcher)
    assert (result.chosen, result.others) == ("run", ("gemm",))
    assert "left = torch.randn(m, k, dtype" in result.text
    assert "scales = torch.randint(0, 1, (n, M,), dtype=torch.int32" in result.text


def test_an_output_that_may_be_left_out_is_none_of_the_references(tmp_path):
    path = tmp_path / "optional.py"
    path.write_text("""
import torch, triton
import triton.language as tl

@triton.jit
def double(x, y, log):
    i = tl.program_id(0)
    tl.store(y + i, tl.load(x + i) * 2)
    tl.store(log + i, 1)

def run(x: torch.Tensor, y: torch.Tensor, log: torch.Tensor = None):
    double[(x.numel(),)](x, y, log)
""")
    text = start(str(path), str(tmp_path / "out.py")).text
    assert 'OUTPUTS = ("y",)' in text


def test_a_forward_that_is_a_class_method_takes_neither_class_nor_context(tmp_path):
    path = tmp_path / "autograd.py"
    path.write_text("""
import torch, triton

@triton.jit
def double(x, y):
    pass

class Double(torch.autograd.Function):
    @classmethod
    def forward(cls, ctx, x):
        y = torch.empty_like(x)
        double[(x.numel(),)](x, y)
        return y
""")
    assert "def kernel(x):" in start(str(path), str(tmp_path / "out.py")).text
