"""A kernel's source as Inductor writes it, taken apart: constants, configurations and grid."""

# mypy: disable-error-code="no-untyped-call,attr-defined"
# (Inductor's inside is untyped, and exports little)

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from torch._inductor.runtime import hints, triton_heuristics

MOST_BLOCK: Mapping[str, int] = {
    f"{axis}BLOCK": size for axis, size in hints.TRITON_MAX_BLOCK.items()
}
"""Largest blocks. Above them Inductor drops masks, of sizes that they divide, which are needed."""

_TEMPLATES_BY_GRID = {
    "MixOrderReductionGrid": "mix_order_reduction",
    "SequentialComboKernelGrid": "combo",
}
AXES: Mapping[str, tuple[str, ...]] = {
    "Grid1D": ("x",),
    "Grid2D": ("x", "y"),
    "Grid3D": ("x", "y", "z"),
    "BatchMatmulGrid3D": ("z", "y", "x"),
    "SplitScanGrid": ("r0_", "x"),
}


@dataclass(frozen=True)
class KernelText:
    """A kernel's source as Inductor writes it, taken apart.

    Attributes:
        template: as of `CaughtKernel`.
        helpers: the Triton functions that it calls.
        function: itself, from its name on, without comments; block sizes are parameters.
        configs: the configurations that Inductor would try, first choice first.
        written: block sizes that its text gave.
        meta: Inductor's ``inductor_meta``.
        cooperative: whether its programs wait for each other.
    """

    template: str
    helpers: str
    function: str
    configs: tuple[Mapping[str, int], ...]
    written: Mapping[str, int]
    meta: Mapping[str, Any]
    cooperative: bool


def read_kernel(src_code: str) -> KernelText:
    """Take a kernel's source apart."""
    before, decorated = src_code.split("@triton_heuristics.", 1)
    call, function = decorated.split("@triton.jit\n", 1)
    helpers = "".join(before.partition("@triton.jit\n")[1:])  # what a scan combines with
    template, configs, meta = _evaluate_decorator(call)
    function = re.sub(r"^\s*#.*\n", "", function, flags=re.MULTILINE)
    if template != "foreach":
        template = _TEMPLATES_BY_GRID.get(meta["grid_type"], template)
    function, written = _with_blocks(function, meta)
    cooperative = "'launch_cooperative_grid': True" in call
    return KernelText(template, helpers, function, configs, written, meta, cooperative)


def parameters(function: str) -> list[tuple[str, str]]:
    """List each parameter's name, and its annotation if it is a constant."""
    head = function.split(":\n", 1)[0]
    return re.findall(r"(\w+)\s*(?::\s*(tl\.constexpr))?\s*[,)]", head)


_TUNED = r"BLOCK_\w+|GROUP_M|XBLOCK"


def _with_blocks(function: str, meta: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """Turn block sizes in the function's text into parameters; return their values too."""
    combined = meta.get("combo_grid_meta") or {}
    if "config_args" not in meta and not combined.get("default_config"):
        return function, {}
    line = re.compile(rf"^    ({_TUNED}) ?: tl\.constexpr = (\d+)\n", re.MULTILINE)
    written = {name: int(size) for name, size in line.findall(function)}
    parameters = "".join(f", {name} : tl.constexpr" for name in written)
    return line.sub("", function).replace("):\n", f"{parameters}):\n", 1), written


def write_grid(
    meta: Mapping[str, Any], numels: Mapping[str, int], blocks: Sequence[str]
) -> tuple[str, ...]:
    """Write the grid of a kernel without template in terms of `blocks`; empty if unknown.

    Args:
        meta: its ``inductor_meta``.
        numels: sizes along its axes, such as ``xnumel``.
        blocks: the names of its block sizes.
    """
    kind = meta["grid_type"]

    def count_programs(axis: str, numel: int) -> str:
        block = f"{axis}BLOCK".upper()
        return f"triton.cdiv({numel}, {block})" if block in blocks else str(numel)

    if kind in AXES:
        return tuple(count_programs(axis, numels[f"{axis}numel"]) for axis in AXES[kind])
    if kind == "Grid2DWithYZOverflow":
        rows = count_programs("y", numels["ynumel"])
        parts = f"triton.cdiv({rows}, {_MOST_ROWS})"
        return count_programs("x", numels["xnumel"]), f"triton.cdiv({rows}, {parts})", parts
    if kind == "CooperativeReductionGrid":
        return "RSPLIT", count_programs("x", numels["xnumel"])
    if kind == "MixOrderReductionGrid":
        return (f"triton.cdiv({numels['xnumel']}, RSPLIT_SIZE)",)
    sizes = meta.get("combo_grid_meta", {})
    if kind == "SequentialComboKernelGrid" and not any("ynumel" in name for name in sizes):
        parts = " + ".join(
            count_programs("" if sizes[f"no_x_dim_{n}"] else "x", sizes[f"xnumel_{n}"])
            for n in range(sizes["num_kernels"])
        )
        return (parts,)
    return ()


_MOST_ROWS = 65535
"""Programs along the second axis of CUDA's grid: Inductor's ``get_max_y_grid``."""


def _evaluate_decorator(call: str) -> tuple[str, tuple[Mapping[str, int], ...], Mapping[str, Any]]:
    """Template, configurations and ``inductor_meta`` of a decorator's text."""
    template = call[: call.index("(")]
    names = {
        "triton_heuristics": triton_heuristics,
        "__file__": __file__,
        **{n: getattr(hints, n) for n in _HINTS},
    }
    with mock.patch.object(triton_heuristics, "cached_autotune", _configs_alone):
        configs, meta = eval(f"triton_heuristics.{call}", names)
    return template, configs, meta


_HINTS = ("AutotuneHint", "ReductionHint", "TileHint", "DeviceProperties")


def _configs_alone(
    size_hints: Any,  # noqa: ARG001 - Inductor's signature
    configs: Sequence[Any],
    *_: Any,
    inductor_meta: Mapping[str, Any] | None = None,
    **__: Any,
) -> Any:
    """`cached_autotune` that returns its configurations and ``inductor_meta``."""
    listed = tuple(
        {**c.kwargs, "num_warps": c.num_warps, "num_stages": c.num_stages} for c in configs
    )
    return listed, inductor_meta or {}
