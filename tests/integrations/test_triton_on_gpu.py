"""Triton's autotuner on a real GPU, with the surrogate's pruning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
import triton
import triton.language as tl

from solkit.integrations import triton as integration
from solkit.surrogate.model import Surrogate
from solkit.surrogate.trees import Forecasts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@dataclass(frozen=True)
class FewBlocks(Surrogate):
    """A model that expects launches of few blocks to be fast: no trees, no xgboost."""

    def forecast(self, table, depth):  # noqa: ARG002 - the surrogate's
        return Forecasts.from_times(1.5 ** table.column("geometry.blocks"))


@triton.autotune([triton.Config({"BLOCK": 2**n}) for n in range(5, 12)], key=["n"])
@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def test_a_real_kernel_is_tuned_over_few_configurations_and_computes_the_same(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    integration.attach(scale_kernel, top_k=3, surrogate=FewBlocks({}))
    x = torch.randn(100_000, device="cuda")
    out = torch.empty_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    tried = [config.kwargs["BLOCK"] for config in scale_kernel.configs_timings]
    assert tried == [32, 1024, 2048]
    assert torch.equal(out, 2 * x)
