"""Sizes that a launcher chooses by branches."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rewriting import HEADER, brief

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import launcher_definition, parse_kernel
from solkit.tuner.proposers.rewriter.tile_constants import Retile

SCALED = """
@triton.jit
def scaled(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) * 2, mask=at < N)


def kernel(x):
    y = torch.empty_like(x)
    if x.numel() <= 4096:
        block, warps = 64, 1
    elif x.numel() <= 1000000:
        block, warps = 128, 2
    else:
        block, warps = 256, 4
    scaled[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block, num_warps=warps)
    return y
"""
WHOLE_ROW = (
    SCALED.replace("tl.program_id(0) * BLOCK +", "tl.program_id(0) * N +")
    .replace("at < N", "at < (tl.program_id(0) + 1) * N")
    .replace("triton.cdiv(x.numel(), block),", "x.shape[0],")
    .replace("x, y, x.numel()", "x, y, x.shape[1]")
)


def retiled(source, block=128):
    launch = SimpleNamespace(
        name="scaled", grid=(1 << 14,), arguments={}, constants={"BLOCK": block}
    )
    analysis = SimpleNamespace(own=[SimpleNamespace(launch=launch)])
    result = SimpleNamespace(analysis=analysis, gap=None)
    text = parse_kernel(HEADER + source)
    facts = Facts(replace(brief(source), result=result))
    return next((variant.source for variant in Retile().variants(text, facts)), "")


def parameters(source):
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    args = next(node.args for node in functions if node.name == "kernel")
    values = map(ast.literal_eval, args.kw_defaults)
    return dict(zip((arg.arg for arg in args.kwonlyargs), values, strict=True))


def test_a_block_and_its_warps_become_parameters():
    variant = retiled(SCALED)
    assert "if x.numel()" not in variant
    assert parameters(variant) == {"block": 1024, "warps": 2}


@pytest.mark.parametrize(
    ("source", "block"),
    [
        (WHOLE_ROW, 128),  # it holds a row: which one is taken must follow from the shape
        (SCALED, 512),  # no branch has it
        (SCALED.replace("block, warps = 64, 1", "block, warps = 64, x.dim()"), 128),
        (SCALED.replace("block, warps = 64, 1", "block, warps, x = 64, 1, x"), 128),
        (SCALED.replace("    else:\n        block, warps = 256, 4\n", ""), 128),
        (SCALED.replace("    return y", "    return y[:block]"), 128),
    ],
)  # fmt: skip
def test_other_choices_stay(source, block):
    variant = retiled(source, block)
    assert "block" not in (parameters(variant) if variant else {})


def test_a_name_that_branches_choose_has_no_one_definition():
    text = parse_kernel(HEADER + SCALED)
    assert launcher_definition("block", text.launcher) is None
    assert launcher_definition("y", text.launcher) is not None
