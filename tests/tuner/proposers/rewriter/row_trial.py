"""Runs kernels of rows in Triton's interpreter on views of many widths, and compares them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTHS = (1, 15, 17, 64, 100)
OFFSETS = (0, 5, 16)
ROWS = 3


def wrong(path: str, oracle: str, device: str = "cpu") -> list[str]:
    """Return the views for which a file's kernel differs from an oracle, or writes elsewhere."""
    import torch

    kernel = _kernel(Path(path))
    expected: Callable[[Any], Any] = eval(oracle, {"torch": torch})
    generator = torch.Generator().manual_seed(0)
    lines = []
    for width in WIDTHS:
        for offset in OFFSETS:
            for gap in (0, 3):
                size = (ROWS, offset + width + gap)
                whole = torch.full(size, float("nan"), device=device)
                view = whole[:, offset : offset + width]
                view.copy_(torch.randn(ROWS, width, generator=generator).round(decimals=1))
                right = expected(view.double().cpu())
                result = kernel(view).cpu()
                if not torch.allclose(result.double(), right.double(), rtol=1e-4, atol=1e-5):
                    lines.append(f"{width=} {offset=} {gap=}")
                outside = torch.cat([whole[:, :offset], whole[:, offset + width :]], 1)
                if not outside.isnan().all():
                    lines.append(f"{width=} {offset=} {gap=}: written outside")
    return lines


def vector_loads(path: str, function: str, signature: dict[str, str]) -> dict[str, int]:
    """Return how often each form of a global access is in the PTX of a function for an H100.

    Pointers begin at multiples of 16 bytes, and integers are of any value.
    """
    import re
    from collections import Counter

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module = _module(Path(path))
    constants = {name: 1024 for name, kind in signature.items() if kind == "constexpr"}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, kind in enumerate(signature.values())
        if kind.startswith("*")
    }
    source = ASTSource(getattr(module, function), signature, constants, aligned)
    compiled = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": 4})
    return dict(Counter(re.findall(r"(?:ld|st)\.global[\w.]*", compiled.asm["ptx"])))


def _kernel(path: Path) -> Callable[[Any], Any]:
    kernel: Callable[[Any], Any] = _module(path).kernel
    return kernel


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
