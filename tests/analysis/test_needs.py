"""Arguments that every correct implementation reads."""

from __future__ import annotations

import pytest

from solkit.analysis.analyser import Analyser

N = 4096
WHOLE = 4 * N * N
CASES = {
    "a mask decides": (
        "x, mask",
        "torch.randn(n, n, device='cuda'), torch.rand(n, n, device='cuda') > 0.5",
        "x.masked_fill(mask, -1e9).softmax(-1)",
        {"x": WHOLE, "mask": N * N},
    ),
    "a list": (
        "x, others",
        "torch.randn(n, n, device='cuda'), [torch.randn(n, n, device='cuda') for _ in range(2)]",
        "x + others[1]",
        {"x": WHOLE, "others[1]": WHOLE},
    ),
    "a product": (
        "a, b",
        "torch.randn(n, n, device='cuda'), torch.randn(n, n, device='cuda')",
        "a @ b",
        {"a": WHOLE, "b": WHOLE},
    ),
    "one tells the other": (
        "lengths, starts, x",
        "*(lambda l: (l, l.cumsum(0)))(torch.randint(1, 9, (n,), device='cuda')), "
        "torch.randn(n, device='cuda')",
        "x * starts + lengths",
        {"x": 4 * N},
    ),
    "the same in each draw": (
        "x, w",
        "torch.randn(n, n, device='cuda'), torch.ones(n, device='cuda')",
        "x * w",
        {"x": WHOLE},
    ),
    "what is overwritten": (
        "x, cache, at",
        "torch.randn(n, device='cuda'), torch.randn(n, device='cuda'), "
        "torch.randperm(n, device='cuda')",
        "cache.index_put((at,), x)",
        {"x": 4 * N, "at": 8 * N},
    ),
    "times nothing": (
        "x, y",
        "torch.randn(n, device='cuda'), torch.randn(n, device='cuda')",
        "torch.add(x, y, alpha=0)",
        {"x": 4 * N},
    ),
    "the softmax of one score": (
        "x, y",
        "torch.randn(n, 1, device='cuda'), torch.randn(n, 1, device='cuda')",
        "x.softmax(-1) + y",
        {"y": 4 * N},
    ),
    "in the host's memory": (
        "x, scale",
        "torch.randn(n, device='cuda'), torch.randn(1, device='cpu')",
        "x * scale.to('cuda')",
        {"x": 4 * N},
    ),
}


@pytest.fixture(scope="module")
def analyser():
    with Analyser("h100", cache=False, workers=1) as analyser:
        yield analyser


@pytest.mark.parametrize("name", CASES)
def test_needed_arguments(analyser, tmp_path, name):
    names, results, result, expected = CASES[name]
    path = tmp_path / "problem.py"
    path.write_text(
        f"import torch\ndef inputs(n={N}):\n    return {results}\n"
        f"def reference({names}):\n    return {result}\n"
    )
    work = analyser.problem(str(path), None, {}).result().work
    assert {need.name: need.bytes for need in work.needs} == expected
    order = [name.strip() for name in names.split(",")]
    assert all(order[need.position] == need.name for need in work.needs if "[" not in need.name)
