"""`torch.compile` in a candidate, in any spelling: Inductor's kernels and PyTorch's products."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.kernelfiles import Workload
from solkit.roofline import devices

H100 = devices.find("h100-sxm")
N = 2048
SQUARE = 2 * N * N  # bytes, in bf16


@triton.jit
def double_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at))


def square():
    return torch.randn(N, N, dtype=torch.bfloat16, device="cuda")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(N, N, device="cuda", dtype=torch.bfloat16)

    def forward(self, x):
        return torch.softmax(torch.relu(self.linear(x)) + 1, -1)


class Part(Layer):
    def __init__(self):
        super().__init__()
        self.body = torch.compile(self.tail, dynamic=False)

    def tail(self, y):
        return torch.softmax(torch.relu(y) + 1, -1)

    def forward(self, x):
        return self.body(self.linear(x))


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.compile(Layer())

    def forward(self, x):
        return self.inner(x)


def decorated():
    class Whole(Layer):
        @torch.compile
        def forward(self, x):
            return super().forward(x)

    return Whole()


def in_place():
    layer = Layer()
    layer.compile()
    return layer


SPELLINGS = (decorated, Part, Nested, in_place, lambda: torch.compile(Layer()))


def analysed(function, *args):
    return analyse(Workload(args, {}, None, function), H100, {}, 1)


@pytest.fixture(scope="module")
def analyses(in_child):
    """Analyses of all, in one child: Inductor takes seconds to import."""
    return in_child(lambda: (in_each_spelling(), by_what_they_do()))


def in_each_spelling():
    return [analysed(make(), square()) for make in SPELLINGS]


@pytest.mark.slow
def test_each_spelling_gives_inductors_kernels(analyses):
    spelled, _ = analyses
    for item in spelled:
        assert item.status is AnalysisStatus.COMPLETE, item
        product, softmax = item.kernels
        assert (product.launch.name, product.launch.library) == ("aten.addmm", True)
        assert product.launch.line.startswith("test_compiled_functions.py:")
        assert "softmax" in softmax.launch.name
        assert not softmax.launch.library
        assert softmax.facts.registers > 0
        # one pass fused, the rows read again from L2
        assert softmax.demand.dram_read_bytes == softmax.demand.dram_write_bytes == SQUARE
        assert item.outputs == f"1 output bfloat16[{N}, {N}]"


def launches_itself(x):
    out = torch.empty_like(x)
    double_kernel[(x.numel() // 1024,)](x, out, BLOCK=1024)
    return torch.relu(out) + 1


def by_what_they_do():
    @torch.compile
    def updates(x, factor):
        return x.add_(factor), factor

    def twice(x):
        a, factor = updates(x, 2)
        return updates(a, factor)[0]

    eager = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")
    tuned = torch.compile(lambda x: torch.relu(x @ x), mode="max-autotune-no-cudagraphs")
    ran = torch.compile(launches_itself)
    return [analysed(item, square()) for item in (twice, ran, eager, tuned)]


@pytest.mark.slow
def test_what_a_compiled_function_does(analyses):
    _, (twice, launching, eager, tuned) = analyses
    # called twice, made once, fused with the update in place
    (update,) = twice.kernels
    assert (update.launch.library, update.launch.count) == (False, 2)
    # nothing is lost where there is no graph, and that is told
    names = [kernel.launch.name for kernel in launching.kernels]
    assert names == ["double_kernel", "aten.relu", "aten.add"]
    assert [kernel.launch.count for kernel in launching.kernels] == [1, 1, 1]
    assert any("torch.compile was ignored" in note for note in launching.notes), launching.notes
    assert [kernel.launch.name for kernel in eager.kernels] == ["aten.relu", "aten.add"]
    (template,) = tuned.kernels
    assert "mm" in template.launch.name
    assert template.demand.operations["tensor.bf16"] == 2 * N**3
    assert any("Inductor would time" in note for note in tuned.notes), tuned.notes


def test_a_reference_is_traced_as_it_is(in_child):
    """Its bound does not depend on who compiles it."""

    def child():
        from solkit.adapters import fake_cuda

        with fake_cuda.fake_tensors():
            return torch.compile(lambda x: x + 1)(torch.zeros(4)).shape, fake_cuda.guesses_so_far()

    assert in_child(child) == ((4,), ())
