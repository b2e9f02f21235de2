"""TileLang kernels: the CUDA C++ that TileLang writes is captured; its configurations rank."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.adapters.tilelang_configs import choose_config, tilelang_tuner
from solkit.analysis.autotuned_configs import find_launched_space
from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles._source import space_of_tuners
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline import devices

ROWS, COLUMNS, DEPTH = 256, 512, 128
FILE = f"""
import torch, tilelang
import tilelang.language as T


@tilelang.autotune(configs=[dict(block=256, threads=64), dict(block=512, threads=128)])
@tilelang.jit(out_idx=[-1])
def doubled(N, block=256, threads=64):
    M = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), M, threads=threads) as (bx, by):
            for i in T.Parallel(block):
                B[by, bx * block + i] = A[by, bx * block + i] * 2

    return main


@tilelang.jit
def product(A, B, block: int = 64):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    C = T.empty([M, N], T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a = T.alloc_shared((block, 32), T.float16)
        b = T.alloc_shared((32, block), T.float16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * block, k * 32], a)
            T.copy(B[k * 32, bx * block], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block, bx * block])
    return C


def reference(x, a, b):
    return x * 2, a @ b


def inputs(device="cuda"):
    make = lambda *sizes: torch.randn(*sizes, device=device, dtype=torch.float16)
    x = torch.randn({ROWS}, {COLUMNS}, device=device)
    return x, make({ROWS}, {DEPTH}), make({DEPTH}, {COLUMNS})


def kernel(x, a, b):
    return doubled(x.shape[1])(x), product(a, b)
"""
CONFIGS = [{"block": 256, "threads": 64, "swizzle": None}, {"block": 512, "threads": 128}]

needs_tilelang = pytest.mark.skipif(
    importlib.util.find_spec("tilelang") is None, reason="TileLang is not installed"
)


def analysis_of(loaded, params):
    return analyse(seeded_workload(loaded, {}, params), devices.find("h100"), params)


def test_configurations_are_parameters_and_the_requested_one_is_chosen():
    tuner = tilelang_tuner(CONFIGS)
    points = list(space_of_tuners([tuner]).points)
    assert points == [{"block": 256, "threads": 64}, {"block": 512, "threads": 128}]
    assert choose_config(CONFIGS, {}, "k") is CONFIGS[0]
    assert choose_config(CONFIGS, {"threads": 128, "of_another": 3}, "k") is CONFIGS[1]
    with pytest.raises(ParamsError, match=r"on k has no configuration with .*96.*; it has: .*256"):
        choose_config(CONFIGS, {"block": 96}, "k")


def test_a_file_whose_language_is_not_installed_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "tiles.py"
    path.write_text(FILE)
    monkeypatch.setitem(sys.modules, "tilelang", None)
    with pytest.raises(KernelFileError, match=r"pip install 'solkit\[tilelang\]'"):
        kernelfiles.load(str(path), None)


@needs_tilelang
@pytest.mark.slow
def test_generated_kernels_are_compiled_and_followed(in_child, tmp_path):
    path = tmp_path / "tiles.py"
    path.write_text(FILE)

    def child():
        with fake_cuda.fake_tensors():
            loaded = kernelfiles.load(str(path), None)
            find_launched_space(loaded)
        points = list(loaded.space({}).shuffled(1))
        first = analysis_of(loaded, loaded.description.candidate.params)
        other = analysis_of(loaded, {"block": 512, "threads": 128})
        with pytest.raises(ParamsError, match="96"):
            analysis_of(loaded, {"block": 96})
        return SimpleNamespace(points=points, first=first, other=other)

    seen = in_child(child)
    assert {point["block"] for point in seen.points} == {256, 512}
    assert seen.first.outputs == f"2 outputs float32[{ROWS}, {COLUMNS}], float16[{ROWS}, {COLUMNS}]"
    for result, block, threads in ((seen.first, 256, 64), (seen.other, 512, 128)):
        assert result.status is AnalysisStatus.COMPLETE, result.notes
        plain, matmul = result.kernels
        assert plain.launch.grid == (COLUMNS // block, ROWS, 1)
        assert plain.launch.num_warps == threads // 32
        assert plain.facts.requests.guesses == ()
        assert plain.demand.dram_read_bytes == plain.demand.dram_write_bytes == 4 * ROWS * COLUMNS
        assert matmul.launch.grid == (COLUMNS // 64, ROWS // 64, 1)
        assert matmul.facts.requests.operations["tensor.fp16"] == 2 * ROWS * COLUMNS * DEPTH
        loads = {a.argument: a for a in matmul.facts.requests.accesses if a.kind == "load"}
        assert {a.path for a in loads.values()} == {"tma"}
        assert loads["A"].requested_bytes == 2 * ROWS * DEPTH * (COLUMNS // 64)
        assert loads["B"].requested_bytes == 2 * DEPTH * COLUMNS * (ROWS // 64)
        assert matmul.facts.instructions.of("tensor") > 0
        assert (matmul.error, matmul.facts.spills) == (None, 0)
