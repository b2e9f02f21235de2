"""A reference is bounded as its later calls: what the first alone does is no part of it."""

from __future__ import annotations

import pytest

from solkit.analysis.analyser import Analyser

N = 256
HEAD = """
import functools
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear({n}, {n}, bias=False)
        self.kept = None
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn({n}, {n})]
def get_init_inputs():
    return []
@functools.lru_cache
def table(n, device):
    return torch.arange(n, device=device).float().cos()
"""
CASES = {
    # x in fp32, the weights in half precision as they were packed, the result
    "packed weights": (
        "self.kept = self.layer.weight.half() if self.kept is None else self.kept\n"
        "        return x.half() @ self.kept",
        (4 + 2) * N * N,
        2 * N * N,
    ),
    # the table may be computed again
    "a table": ("return x * table(x.shape[0], x.device)", 4 * N * N, 4 * N * N),
    "a trace": (
        "self.kept = self.kept or torch.jit.trace(self.layer, (x,))\n        return self.kept(x)",
        8 * N * N,
        4 * N * N,
    ),
    "a flag": (
        "first, self.kept = self.kept is None, 1\n        return self.layer(x) if first else x * 2",
        4 * N * N,
        4 * N * N,
    ),
    # what is added to at each call is an input of each
    "a running sum": (
        "self.kept = torch.zeros_like(x) if self.kept is None else self.kept\n"
        "        self.kept.add_(x)\n        return self.kept * 2",
        8 * N * N,
        4 * N * N,
    ),
}


@pytest.fixture(scope="module")
def analyser():
    with Analyser("h100", cache=False, workers=1) as analyser:
        yield analyser


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_a_later_call(analyser, tmp_path, name):
    body, read, written = CASES[name]
    path = tmp_path / "problem.py"
    path.write_text(HEAD.format(n=N, body=body))
    work = analyser.problem(str(path), None, {}).result().work
    assert (work.dram_read_bytes, work.dram_write_bytes) == (read, written)
    assert sum(op.op == "aten._to_copy" for op in work.ops) <= 1


COUNTED = """
import torch
def inputs(device="cuda"):
    return torch.randn(64, 1024, device=device), torch.tensor([3], device=device)
def reference(x, length):
    with open({calls!r}, "a") as file:
        file.write("x")
    {body}
"""


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("return x[: int(length)] * 2", 1),
        ("length.add_(1)\n    return x[: int(length)] * 2", 2),
    ],
    ids=["stateless", "writes to an input"],
)
def test_a_reference_runs_again_only_if_a_call_leaves_something(analyser, tmp_path, body, calls):
    path = tmp_path / "problem.py"
    path.write_text(COUNTED.format(calls=str(tmp_path / "calls"), body=body))
    work = analyser.problem(str(path), None, {}).result().work
    assert len((tmp_path / "calls").read_text()) == calls
    rows = 3 if calls == 1 else 4  # as the first call has it: the input is as it was made
    assert work.dram_read_bytes - 4 * 1024 * rows in range(0, 17)
