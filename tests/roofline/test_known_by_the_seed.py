"""Sizes that the CPU draws from a seed, and branches that data choose between."""

from __future__ import annotations

import pytest
import torch

PRELUDE = """
import torch
def R(*shape): return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
"""


def work_of(path: str):
    from solkit import kernelfiles
    from solkit.analysis.problem import problem_case

    return problem_case(kernelfiles.load(path), {}, {}, None).work


@pytest.fixture
def traced(tmp_path, in_child):
    def trace(text: str):
        file = tmp_path / "file.py"
        file.write_text(PRELUDE + text)
        return in_child(work_of, str(file))

    return trace


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


DRAWS = {
    "integers of a generator": (
        "torch.randint(16, 128, (8,), generator=g).tolist()",
        lambda g: torch.randint(16, 128, (8,), generator=g).tolist(),
    ),
    "a permutation of the default generator": (
        "(torch.manual_seed(5), torch.randperm(64)[:8] + 1)[1].tolist()",
        lambda _: (torch.manual_seed(5), torch.randperm(64)[:8] + 1)[1].tolist(),
    ),
    "a float": (
        "[int(torch.empty(1).uniform_(10, 200, generator=g).item()) for _ in range(3)]",
        lambda g: [int(torch.empty(1).uniform_(10, 200, generator=g).item()) for _ in range(3)],
    ),
    "choices that are counted": (
        "torch.multinomial(torch.ones(4), 512, True, generator=g).bincount(minlength=4).tolist()",
        lambda g: torch.multinomial(torch.ones(4), 512, True, generator=g).bincount().tolist(),
    ),
    "a mask": (
        "[int(torch.bernoulli(torch.full((512,), 0.25), generator=g).bool().sum())]",
        lambda g: [int(torch.bernoulli(torch.full((512,), 0.25), generator=g).sum())],
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_sizes_that_the_cpu_draws_are_what_a_real_run_draws(traced, name):
    text, draw = DRAWS[name]
    work = traced(
        f"def inputs():\n    g = torch.Generator().manual_seed(3)\n"
        f"    return [[R(n, 64) for n in {text}], R(64, 64)]\n"
        "def reference(xs, w):\n    return torch.cat([x @ w for x in xs])\n"
    )
    rows = sum(draw(generator(3)))
    assert work.operations == {"contraction.bf16": 2 * rows * 64 * 64}
    assert work.guesses == ()


def test_numbers_behind_a_draw_that_was_put_off_are_guesses(traced):
    """A real run would have moved the generator by 2^24 numbers first."""
    work = traced(
        "def inputs():\n    g = torch.Generator().manual_seed(3)\n"
        "    big = torch.randn(4096, 4096, generator=g)\n"
        "    n = int(torch.randint(16, 128, (), generator=g))\n"
        "    return [R(n, 64), R(64, 64), big.cuda()]\n"
        "def reference(x, w, big):\n    return x @ w + big[0, 0]\n"
    )
    assert any("random integers that were drawn" in guess for guess in work.guesses)


BRANCHES = """
def inputs():
    return [R(256, 256), R(256, 256)]
def reference(x, w):
    return torch.cond(x.float().sum() > 0, {one}, {other}, (x, w))
"""
PRODUCT, SUM = "lambda x, w: x @ w", "lambda x, w: x + w"


@pytest.mark.parametrize(("one", "other"), [(PRODUCT, SUM), (SUM, PRODUCT)])
def test_of_branches_that_data_choose_between_the_cheapest_counts(traced, one, other):
    work = traced(BRANCHES.format(one=one, other=other))
    assert work.operations == {"bf16": 256 * 256}
    assert work.dram_bytes == 3 * 2 * 256 * 256
    (guess,) = work.guesses
    assert "0.0336 G operations" in guess  # 2 * 256^3
    assert "6.55e-05 G operations" in guess


def test_a_branch_that_is_known_is_taken(traced):
    text = BRANCHES.format(one=PRODUCT, other=SUM).replace("x.float().sum() > 0", "x.dim() == 2")
    work = traced(text)
    assert work.operations == {"contraction.bf16": 2 * 256**3}
    assert work.guesses == ()
