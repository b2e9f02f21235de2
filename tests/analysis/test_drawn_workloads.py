"""Inputs that take long to draw are drawn once: copies are what drawing them again gives."""

from __future__ import annotations

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.analysis import drawn_workloads
from solkit.analysis.drawn_workloads import DrawnWorkloads
from solkit.kernelfiles.seeding import seeded_workload

FILE = """
import torch

DRAWS = []


def reference(index, tail, x):
    return index.sum() + tail.sum() + x.sum()


def inputs(n=8, device="cuda"):
    DRAWS.append(n)
    index = torch.randint(0, 1000, (n,), device=device)
    return index, index[2:], torch.rand(n, 2, device=device).t()


def kernel(index, tail, x, *, BLOCK=4):
    tail.zero_()
    return index.sum() + BLOCK
"""


def seen(workload):
    """The result; contents, layouts and the next number, and contents after the candidate wrote."""
    index, tail, x = workload.args
    before = fake_cuda.presumed_value(index).tolist(), fake_cuda.presumed_value(x).tolist()
    number = float(torch.rand((), device="cpu"))
    (out,) = workload.run_kernel()
    result = int(fake_cuda.presumed_value(out))
    return result, before, fake_cuda.presumed_value(index).tolist(), x.stride(), tail.shape, number


def test_copies_are_what_drawing_again_gives(tmp_path, in_child, monkeypatch):
    monkeypatch.setattr(drawn_workloads, "_SLOW_S", -1.0)
    path = tmp_path / "k.py"
    path.write_text(FILE)

    def draw_and_copy():
        loaded = kernelfiles.load(str(path), None)
        drawn = seen(seeded_workload(loaded, {}, {}))
        workloads = DrawnWorkloads(loaded)
        copies = [workloads.make({}, {}), workloads.make({}, {"BLOCK": 8})]
        also = copies[0].again()
        draws = len(loaded._module.DRAWS)
        return drawn, [seen(copy) for copy in (*copies, also)], draws

    drawn, copies, draws = in_child(draw_and_copy)
    assert draws == 2  # one of them without copies
    before, after = drawn[1][0], drawn[2]
    assert after == [*before[:2], *[0] * 6]  # the view is one of the whole
    assert [copy[1:] for copy in copies] == [drawn[1:]] * 3
    assert [copy[0] - sum(after) for copy in copies] == [4, 8, 4]
