"""Attention that is written out, as one call: the same values, and what stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from solkit.processes import jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler_loaded")]

SIZES = {  # queries, keys and mask of the calls
    "plain": ((6, 1, 5, 16), (6, 1, 8, 16), None),
    "by_hand": ((6, 1, 5, 16), (6, 1, 8, 16), None),
    "reciprocal": ((6, 1, 5, 16), (6, 1, 8, 16), None),
    "columns": ((6, 1, 5, 16), (6, 1, 8, 16), None),
    "matrices": ((1, 1, 5, 16), (1, 1, 8, 16), None),
    "triangle": ((6, 1, 8, 16), (6, 1, 8, 16), None),
    "added": ((6, 1, 8, 16), (6, 1, 8, 16), None),
    "compared": ((6, 1, 8, 16), (6, 1, 8, 16), None),
    "window": ((6, 1, 8, 16), (6, 1, 8, 16), (1, 1, 8, 8)),
    "biased": ((6, 1, 5, 16), (6, 1, 8, 16), (6, 1, 5, 8)),
    "baddbmm": ((6, 1, 5, 16), (6, 1, 8, 16), (1, 1, 5, 8)),
    "grouped": ((3, 2, 3, 16), (3, 2, 9, 16), (3, 1, 1, 9)),
    "grouped_causal": ((4, 3, 8, 16), (4, 1, 8, 16), None),
    "grouped_window": ((4, 1, 24, 16), (4, 1, 8, 16), (1, 1, 24, 8)),
    "tiled": ((12, 1, 8, 16), (12, 1, 8, 16), None),
    "rows_of_a_product": ((1, 1, 8, 16), (1, 1, 8, 16), None),
}
CAUSAL = ("triangle", "added", "compared", "grouped_causal")
NARROW = {"plain", "by_hand", "triangle", "added", "compared", "grouped", "grouped_causal", "tiled"}


@pytest.fixture(scope="module")
def outcomes():
    """By function whether it changed, what is called, and the largest error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        return jobs.call("attention_forms:fused")


@pytest.mark.parametrize("name", SIZES)
def test_what_computes_attention_is_one_call(name, outcomes):
    changed, called, error = outcomes[name]
    assert changed
    assert (called["query"], called["key"], called["mask"]) == SIZES[name]
    assert called["causal"] == (name in CAUSAL)
    assert called["grouped"] == (name == "grouped_causal")
    assert (called["dtype"] != "torch.float32") == (name in NARROW)
    assert error < (2e-2 if name in NARROW else 1e-5)  # values of up to 3 in bf16


def test_nothing_else_is(outcomes):
    others = {name: outcome for name, outcome in outcomes.items() if name not in SIZES}
    assert len(others) == 17
    assert all(not changed and called is None for changed, called, _ in others.values())
    assert max(error for _, _, error in others.values()) < 1e-5


def test_a_program_calls_it(tmp_path):
    reference = tmp_path / "reference.py"
    reference.write_text(
        "import torch\n\n\ndef reference(q, k, v):\n"
        "    s = q.float() @ k.float().transpose(1, 2) * 0.125\n"
        "    return (torch.softmax(s, -1) @ v.float()).half()\n\n\n"
        "SHAPES = [{'n': 4}]\n\n\ndef inputs(n=4, device='cuda'):\n"
        "    return [torch.randn(n, 32, 64, device=device).half() for _ in range(3)]\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        paths, settings = [str(reference)], {"solkit.fused_attention": True}
        ((text, why),) = jobs.call("inductor_programs:written", paths, settings)
    assert why == ""
    assert "scaled_dot_product_attention(" in text
    assert "@triton.jit" not in text
