"""Facts of a launch follow from its code, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from solkit.adapters import fake_cuda
from solkit.analysis.analyser import Analyser
from solkit.core import Configuration
from solkit.kernelfiles.seeding import seed_everything
from solkit.roofline import devices
from solkit.roofline.kernel.evaluate import described

GATHER = """
import torch
import triton
import triton.language as tl

def inputs(N=4096, device="cuda"):
    return torch.randn(N, 64, device=device), torch.randint(0, N, (N // 2,), device=device)

def reference(x, rows):
    return x[rows] * torch.randint(1, 3, (1,), device=x.device)

@triton.jit
def gather(x, rows, out, BLOCK: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    at = tl.arange(0, 64)
    tl.store(out + tl.program_id(0) * 64 + at, tl.load(x + row * 64 + at))

def kernel(x, rows, *, BLOCK=1):
    out = torch.empty(len(rows), 64, device=x.device)
    gather[(len(rows),)](x, rows, out, BLOCK)
    return out
"""


@pytest.fixture
def path(write):
    return write(GATHER)


def facts_at(analyser, path, *sizes):
    configurations = [Configuration(path, "kernel", {"N": size}, {}) for size in sizes]
    results = [analyser.submit(configuration).result() for configuration in configurations]
    assert all(result.analysis for result in results), results
    return [result.analysis.kernels[0].facts for result in results]


@pytest.mark.slow
def test_an_h200_has_the_facts_of_an_h100_and_a_time_of_its_own(path):
    results = []
    for name in ("h100-sxm", "h200"):
        with Analyser(name, workers=1, cache=False) as analyser:
            results += facts_at(analyser, path, 1 << 20)
    assert results[0] == results[1]
    assert results[0].requests.guesses == ()
    h100, h200 = (described(results[0], devices.find(name)) for name in ("h100-sxm", "h200"))
    assert h100.demand.dram_read_bytes == h200.demand.dram_read_bytes
    slow, fast = (
        next(term.time_ms for term in item.model.terms if term.name == "dram")
        for item in (h100, h200)
    )
    assert slow > 1.3 * fast  # 3.35 and 4.8 TB/s


def test_an_l2_of_another_size_changes_what_dram_moves_and_no_fact(path):
    whole = devices.find("h100-sxm")
    part = replace(whole, l2_bytes=whole.l2_bytes // 16)
    read = []
    for device in (whole, part):
        with Analyser(device, workers=1, cache=False) as analyser:
            read.append(facts_at(analyser, path, 1 << 16)[0])
    assert read[0] == read[1]
    once, again = (described(read[0], item).demand.dram_read_bytes for item in (whole, part))
    assert once < again


def test_they_do_not_depend_on_what_was_analysed_before(path):
    """Indices are drawn anew for each, and the reference draws numbers as well."""
    with Analyser("h100-sxm", workers=1, cache=False) as analyser:
        first, other, again = facts_at(analyser, path, 4096, 2048, 4096)
        analyser.problem(path, None, {"N": 4096}).result()
        last = facts_at(analyser, path, 4096)[0]
    assert first == again == last != other
    (index, row, _) = first.requests.accesses
    assert index.unique_bytes == 2048 * 8
    # of 4,096 rows, 2,048 draws reach 1 - exp(-1/2)
    assert row.unique_bytes == pytest.approx(0.393 * 4096 * 256, rel=0.05)


def test_indices_are_drawn_on_the_cpu(in_child):
    def drawn():
        seed_everything(0)
        return fake_cuda.known_value(torch.randint(0, 1000, (8,), device="cuda")).tolist()

    torch.manual_seed(0)
    assert in_child(drawn) == torch.randint(0, 1000, (8,)).tolist()
