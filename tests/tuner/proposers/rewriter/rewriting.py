"""What the tests of rewrites share."""

from __future__ import annotations

from solkit.core import Brief
from solkit.roofline import devices
from solkit.tuner.proposers.rewriter._mutation import Facts, Rewrite
from solkit.tuner.proposers.rewriter._parse import parse_kernel

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n"


def brief(source: str, **shape: int) -> Brief:
    return Brief(HEADER + source, "naive.py", devices.find("h100"), shape)


def variants(rewrite: Rewrite, source: str, **shape: int) -> list[str]:
    text = parse_kernel(HEADER + source)
    assert text is not None
    return [variant.source for variant in rewrite.variants(text, Facts(brief(source, **shape)))]


def rewritten(rewrite: Rewrite, source: str, **shape: int) -> str:
    """The first variant without the header: a source for another rewrite."""
    return variants(rewrite, source, **shape)[0].removeprefix(HEADER)
