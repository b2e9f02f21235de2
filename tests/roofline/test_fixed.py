"""Results that do not depend on the inputs read nothing and cost nothing; their likes do."""

from __future__ import annotations

import pytest

A = "torch.randn(64, 32, device=device)"
ALL = 4 * 64 * 32  # bytes of it
LARGEST = "m = a0.amax(1, keepdim=True)\n    "
ZERO = "torch.tensor(0.0, device=a0.device)"

FIXED = {
    "less its mean over one": LARGEST + "return F.gelu(m - m.mean(1, keepdim=True))",
    "less the mean of its sum over one": LARGEST
    + "return m.sum(1, keepdim=True).mean(1, keepdim=True) - m",
    "less its logsumexp over one": LARGEST + "return m.logsumexp(1, keepdim=True) - m",
    "less itself": "return a0 - a0",
    "the variance of one": LARGEST + "return m.var(1, unbiased=False)",
    "the softmax of one": LARGEST + "return m.softmax(1)",
    "a sum of a softmax": "return a0.softmax(1).sum(1)",
    "at most 0, then at least 0": f"return torch.min(a0, {ZERO}).clamp(0.0, 1.0)",
    "at least 2, then at most 1": "return a0.clamp_min(2).clamp_max(1)",
    "negative, then a relu": "return torch.relu(a0.clamp(-3, -1))",
    "beyond a hardtanh": "return F.hardtanh(a0.clamp_min(5))",
    "beyond a hardtanh of whole limits": "return F.hardtanh(a0.clamp_min(5), -1, 1)",
}

DEPENDENT = {
    "less its mean over many": LARGEST + "return m - m.mean(0, keepdim=True)",
    "twice the mean": LARGEST + "return torch.sub(m, m.mean(1, keepdim=True), alpha=2)",
    "less a mean of before it was changed": "m = a0.amax(1, keepdim=True)\n    "
    "n = m.mean(1, keepdim=True)\n    m.mul_(a0[:, :1])\n    return m - n",
    "less a rounded mean": LARGEST + "return m - m.mean(1, keepdim=True, dtype=torch.bfloat16)",
    "at most 0.5, then at least 0": "return a0.clamp_max(0.5).clamp_min(0)",
    "limits that differ": "return torch.maximum(a0.clamp_max(3), "
    "torch.arange(32, device=a0.device)).clamp_max(3)",
    "a relu": "return torch.relu(a0)",
}


@pytest.mark.quick(
    "less its mean over one", "less itself", "at least 2, then at most 1", "negative, then a relu"
)
@pytest.mark.parametrize("name", FIXED)
def test_what_algebra_fixes_reads_nothing(work, name):
    result = work(A, FIXED[name])
    assert (result.dram_read_bytes, sum(result.operations.values())) == (0, 0)
    assert result.dram_write_bytes > 0


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_the_input_reads_it(work, name):
    assert work(A, DEPENDENT[name]).dram_read_bytes == ALL
