"""What the tests of rewrites share."""

from __future__ import annotations

from dataclasses import replace

from solkit.core import Brief, Device
from solkit.roofline import devices
from solkit.tuner.proposers.rewriter._mutation import Facts, Rewrite
from solkit.tuner.proposers.rewriter._parse import parse_kernel

H100 = devices.find("h100")
FEW_SMS = replace(H100, sm_count=4)
"""Few multiprocessors: with 132, a split loop has 64 parts of few rows to interpret."""
HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n"


def brief(source: str, device: Device = H100, **shape: int) -> Brief:
    return Brief(HEADER + source, "naive.py", device, shape)


def variants(rewrite: Rewrite, source: str, device: Device = H100, **shape: int) -> list[str]:
    text = parse_kernel(HEADER + source)
    assert text is not None
    facts = Facts(brief(source, device, **shape))
    return [variant.source for variant in rewrite.variants(text, facts)]


def rewritten(rewrite: Rewrite, source: str, device: Device = H100, **shape: int) -> str:
    """The first variant without the header: a source for another rewrite."""
    return variants(rewrite, source, device, **shape)[0].removeprefix(HEADER)
