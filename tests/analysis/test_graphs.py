"""CUDA graphs launch what they hold at each replay, not when they are captured."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.candidate import analyse
from solkit.kernelfiles import Workload
from solkit.roofline import devices

N = 1 << 16


@triton.jit
def twice_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at))


def twice(x):
    out = torch.empty_like(x)
    twice_kernel[(N // 1024,)](x, out, BLOCK=1024)
    return out


class Graphed:
    """Warms up and captures at the first call, as torch's documentation does."""

    graph = None

    def __call__(self, x):
        if self.graph is None:
            self.x = x.clone()
            for _ in range(3):
                twice(self.x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = torch.relu(twice(twice(self.x)))
        self.x.copy_(x)
        self.graph.replay()
        self.graph.replay()
        return self.out


class Begun(Graphed):
    """Captures before it is called."""

    def __init__(self):
        self.x = torch.empty(N, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.graph.capture_begin()
        self.out = torch.relu(twice(twice(self.x)))
        self.graph.capture_end()


def graphed_by_torch():
    return torch.cuda.make_graphed_callables(twice, (torch.empty(N, device="cuda"),))


CASES = {
    "at the first call": (
        Graphed,
        [("aten.copy_", 1), ("twice_kernel", 4), ("aten.relu", 2)],
    ),
    "before": (Begun, [("aten.copy_", 1), ("twice_kernel", 4), ("aten.relu", 2)]),
    "by torch": (graphed_by_torch, [("twice_kernel", 1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_later_call_launches_what_its_graph_holds(in_child, name):
    make, expected = CASES[name]

    def child():
        from solkit.analysis.graphs import seeing_graphs

        with seeing_graphs({}):
            kernel = make()

        def drawn():
            return Workload((torch.randn(N, device="cuda"),), {}, None, kernel, again=drawn)

        return analyse(drawn(), devices.find("h100"), {}, 1)

    result = in_child(child)
    assert [(kernel.launch.name, kernel.launch.count) for kernel in result.kernels] == expected
    assert result.is_whole
