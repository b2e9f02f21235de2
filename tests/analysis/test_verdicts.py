"""Verdicts are about candidates: what SolKit cannot do, and what a first call does, is none."""

import importlib
import sys

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.kernelfiles import Workload
from solkit.roofline import devices

N = 4096


@triton.autotune(
    [
        triton.Config({"BN": 256}, num_warps=8, num_stages=4),
        triton.Config({"BN": 128}, num_warps=8, num_stages=2),
    ],
    key=["K"],
)
@triton.jit
def product(a, b, c, K, BN: tl.constexpr):
    m, k, n = tl.arange(0, 128), tl.arange(0, 128), tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros([128, BN], tl.float32)
    for at in range(0, K, 128):
        x = tl.load(a + m[:, None] * K + at + k)
        acc += tl.dot(x, tl.load(b + (at + k)[:, None] * 256 + n))
    tl.store(c + m[:, None] * 256 + n, acc)


@triton.jit
def double(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) * 2)


@gluon.jit
def gluon_double(x, y, B: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    gl.store(y + at, gl.load(x + at) * 2)


def cuda(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, device="cuda")


@pytest.fixture
def analysed(in_child):
    """Analyse a launcher for an H100; it has other inputs at its first call."""

    def run(kernel, make=lambda: (cuda(N),), **params):
        def child():
            workload = Workload(make(), {}, None, kernel, again=lambda: again())

            def again():
                return workload.with_inputs(make(), {})

            return analyse(workload, devices.find("h100"), params)

        return in_child(child, device="h100")

    return run


def doubled(x):
    y = torch.empty_like(x)
    double[(x.numel() // 1024,)](x, y, B=1024)
    return y


def multiplied(a, b):
    c = torch.empty(128, 256, device="cuda")
    product[lambda meta: (256 // meta["BN"],)](a, b, c, a.shape[1])
    return c


def operands():
    return cuda(128, 1024, dtype=torch.float16), cuda(1024, 256, dtype=torch.float16)


@pytest.mark.slow
def test_an_autotuned_kernel_passes_over_a_configuration_that_does_not_fit(analysed):
    # four stages of 128 x 128 and 128 x 256 halves take 384 KiB; an H100 has 227 KiB
    analysis = analysed(multiplied, operands)
    assert analysis.status is AnalysisStatus.COMPLETE, analysis
    assert analysis.kernels[0].launch.constants["BN"] == 128
    assert "the first that this GPU can run: BN=128" in analysis.notes[0]


def test_a_configuration_that_is_asked_for_fails_if_it_does_not_fit(analysed):
    analysis = analysed(multiplied, operands, BN=256)
    assert "shared memory" in analysis.kernels[0].error


def test_gluon_is_analysed(analysed):
    def launch(x):
        y = torch.empty_like(x)
        gluon_double[(N // 1024,)](x, y, B=1024)
        return y

    result = analysed(launch)
    (kernel,) = result.kernels
    assert (result.status, result.failure) == (AnalysisStatus.COMPLETE, "")
    assert (kernel.launch.name, kernel.launch.num_warps, kernel.error) == ("gluon_double", 4, None)
    assert (kernel.demand.dram_read_bytes, kernel.demand.dram_write_bytes) == (4 * N, 4 * N)


def test_what_the_first_call_sets_up_does_not_count(analysed):
    tables = []

    def launch(x):
        if not tables:
            tables.append(x.new_ones(N).cos())
        return doubled(x)

    analysis = analysed(launch)
    assert [kernel.launch.name for kernel in analysis.kernels] == ["double"]
    assert (
        "The first call makes 3 launches, later ones 1: a later call is analysed." in analysis.notes
    )


def test_a_candidate_that_launches_nothing_later_is_shown_at_its_first_call(analysed):
    kept = []

    def launch(x):
        if not kept:
            kept.append(doubled(x))
        return kept[0]

    assert [kernel.launch.name for kernel in analysed(launch).kernels] == ["double"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_operators_under_inference_mode_are_those_without_it(analysed, mode):
    @mode()
    def launch(x, flag):
        return x if flag.item() else (x.to(torch.bfloat16).view(64, 64) @ cuda(64, 64).bfloat16())

    analysis = analysed(launch, lambda: (cuda(N), torch.tensor([False])))
    names = [kernel.launch.name for kernel in analysis.kernels]
    assert names == ["aten._to_copy", "aten.randn", "aten.mm"]


def test_a_conversion_inside_a_triton_op_is_a_launch(analysed):
    @torch.library.triton_op("solkit_tests::narrow", mutates_args={})
    def narrow(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0).to(torch.bfloat16)

    analysis = analysed(lambda x: narrow(x), lambda: (cuda(64, 64),))
    assert [kernel.launch.name for kernel in analysis.kernels] == ["aten.sum", "aten._to_copy"]
    assert analysis.kernels[1].demand.dram_write_bytes == 64 * 2


def test_an_error_in_a_languages_package_is_told_at_the_users_line(analysed, tmp_path):
    (tmp_path / "warp.py").write_text(
        "def launch():\n    raise OSError('\\x1b[91mno\\x1b[0m GPU')\n"
    )

    def kernel(_):
        sys.path.insert(0, str(tmp_path))
        importlib.import_module("warp").launch()

    analysis = analysed(kernel)
    assert analysis.status is AnalysisStatus.NOT_ANALYSED
    line = kernel.__code__.co_firstlineno + 2
    expected = f"not analysed: it uses Warp ({__file__}:{line}: OSError: no GPU)"
    assert expected in analysis.notes


@pytest.mark.parametrize(("library", "failure"), [("no_such_library", ""), ("json", "crashed")])
def test_an_error_of_a_file_that_lacks_a_library_is_no_verdict(
    analysed, tmp_path, monkeypatch, library, failure
):
    """The host of a GPU may have what the file asks for."""
    (tmp_path / "needy.py").write_text(
        f"from importlib.util import find_spec\nhas = find_spec('{library}')\n"
        "def kernel(x):\n    assert False, 'a library is missing'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert analysed(lambda x: importlib.import_module("needy").kernel(x)).failure == failure
