"""Tunable parameters of a kernel that Inductor made: its ``SPACE`` and its ``valid``."""

from __future__ import annotations

import re

import torch

from solkit.adapters.inductor import CaughtKernel
from solkit.adapters.inductor_text import MOST_BLOCK

_BLOCKS = {
    "XBLOCK": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "YBLOCK": (1, 4, 16, 32, 64, 128, 256, 1024),
    "ZBLOCK": (1, 4, 16, 64),
    "R0_BLOCK": (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
    "R1_BLOCK": (16, 64, 256),
    "BLOCK_K": (16, 32, 64, 128),
    "GROUP_M": (1, 4, 8, 16),
    "NUM_STAGES": (1, 2, 3),
    "RSPLIT": (1, 2, 4, 8, 16, 32, 64),
    "RSPLIT_SIZE": (8, 16, 32, 64, 128),
}
_PRODUCT = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
_TILE = (16, 32, 64, 128, 256)  # of a template's other blocks
_NO_TILE = ("BLOCK_K", "GROUP_M", "NUM_STAGES", "RSPLIT", "RSPLIT_SIZE")
_SHARED_BYTES = 227 << 10
"""A block's most on Hopper: CUDA C++ Programming Guide, compute capability 9.0."""
PROCESSORS = 132
"""Streaming multiprocessors of an H100 SXM and an H200: their data sheets."""
_SPLIT_SCAN_LEAST = 256
"""The workspace is for programs of no fewer: Inductor's ``triton.min_split_scan_rblock``."""
_MOST_PROGRAMS = 1 << 20  # more than that take milliseconds to start


def inductor_space(kernel: CaughtKernel) -> dict[str, tuple[int, ...]]:
    """Return the values of each block, of warps and of stages: a grid that holds Inductor's own."""
    warps, stages = _launch_choices(kernel)
    blocks = {block: _block_choices(block, kernel) for block in kernel.blocks}
    return {**blocks, "num_warps": warps, "num_stages": stages}


def _block_choices(block: str, kernel: CaughtKernel) -> tuple[int, ...]:
    tried = {config[block] for config in kernel.configs if block in config}
    if block in MOST_BLOCK:  # sizes about its axis
        axis = kernel.numels.get(f"{block.removesuffix('BLOCK')}numel".lower(), _MOST_PROGRAMS)
        least = 16 if _multiplies(kernel) else 1  # what tl.dot takes
        if kernel.template == "split_scan":
            least = _SPLIT_SCAN_LEAST
        tried |= {size for size in _BLOCKS[block] if least <= size < 2 * axis}
        return tuple(sorted(size for size in tried if size <= MOST_BLOCK[block]))
    least = max(tried) if block == "RSPLIT_SIZE" else 1  # its workspace is for this one
    if block.startswith("BLOCK"):
        least = 16 if _element_bytes(kernel) > 1 else 32  # what tl.dot takes
    return tuple(sorted(tried | {n for n in _BLOCKS.get(block, _TILE) if n >= least}))


def _launch_choices(kernel: CaughtKernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    warps = {config["num_warps"] for config in kernel.configs}
    stages = {config["num_stages"] for config in kernel.configs}
    if kernel.constants:
        return tuple(sorted(warps | {2, 4, 8})), tuple(sorted(stages | {1, 2, 3, 4}))
    loops = " in tl.range(" in kernel.source or "for r0_offset" in kernel.source
    return (
        tuple(sorted(warps | {1, 2, 4, 8, 16})),
        tuple(sorted(stages | ({1, 2, 3} if loops else set()))),
    )


def _element_bytes(kernel: CaughtKernel) -> int:
    """Return the bytes of an element of the widest input that is no index."""
    dtypes = [b.dtype for b in kernel.inputs if b.dtype not in (torch.int32, torch.int64)]
    return max((dtype.itemsize for dtype in dtypes), default=8)


def _multiplies(kernel: CaughtKernel) -> bool:
    """Tell whether it is a reduction that multiplies matrices."""
    return "tl.dot(" in kernel.source and not kernel.constants


_SHARED_BLOCK = (
    r"^ +R0_BLOCK: tl.constexpr = triton_helpers.constexpr_next_power_of_2\("
    r"\((\d+) \+ RSPLIT - 1\) // RSPLIT\)"
)


def block_values(kernel: CaughtKernel) -> str:
    """Count the values that a program holds at a time, as an expression of ``params``."""
    fixed = re.findall(r"^    R\d_BLOCK: tl.constexpr = (\d+)", kernel.source, re.MULTILINE)
    inner = re.findall(r"^ {5,}R\d_BLOCK\w*: tl.constexpr = (\d+)", kernel.source, re.MULTILINE)
    shared = re.findall(_SHARED_BLOCK, kernel.source, re.MULTILINE)  # among programs of a row
    fixed += [f'triton.next_power_of_2(triton.cdiv({n}, params["RSPLIT"]))' for n in shared]
    fixed += [str(max(map(int, inner)))] if inner else []  # of one part of what is combined
    apart = (*_NO_TILE, "R0_BLOCK") if _multiplies(kernel) else _NO_TILE
    tile = [f'params["{block}"]' for block in kernel.blocks if block not in apart]
    return " * ".join([*tile, *fixed]) or "1"


def launch_tests(kernel: CaughtKernel) -> list[str]:
    """List further conditions on ``params``: CUDA takes the launch, and it is computed right."""
    tests = _grid_tests(kernel) + _template_tests(kernel) + _split_tests(kernel)
    return tests + _advance_tests(kernel)


def _grid_tests(kernel: CaughtKernel) -> list[str]:
    """Return an axis of CUDA's grid but the first has at most 65535 programs."""
    tests = [
        f'{numel} <= 65535 * params["{axis.upper()}BLOCK"]'
        for axis in kernel.axes[1:]
        if (numel := kernel.numels[f"{axis}numel"]) > 65535
    ]
    total = 1
    for axis in kernel.axes:
        total *= kernel.numels[f"{axis}numel"]
    blocks = " * ".join(
        f'params["{axis.upper()}BLOCK"]'
        for axis in kernel.axes
        if f"{axis.upper()}BLOCK" in kernel.blocks
    )
    if total > _MOST_PROGRAMS and blocks:
        tests.append(f"{total} <= {_MOST_PROGRAMS} * {blocks}")
    return tests


def _template_tests(kernel: CaughtKernel) -> list[str]:
    """Whole blocks of K where the text has no mask for them; stages that fit shared memory."""
    names = ("YBLOCK", "XBLOCK", "R0_BLOCK") if _multiplies(kernel) else _PRODUCT
    if not set(names) <= set(kernel.blocks):
        return []
    rows, columns, depth = (f'params["{name}"]' for name in names)
    stage = f"{depth} * {_element_bytes(kernel)} * ({rows} + {columns})"
    tests = [f'params["num_stages"] * {stage} <= {_SHARED_BYTES}']
    length = re.search(r"^    K = (\d+)", kernel.source, re.MULTILINE)
    if kernel.constants.get("EVEN_K") and length:
        tests.append(f'{length[1]} % params["BLOCK_K"] == 0')
    return tests


def _split_tests(kernel: CaughtKernel) -> list[str]:
    """Write tests that programs that wait for one another run at once; a split has whole blocks."""
    tests = []
    if kernel.cooperative:
        programs = f"({' * '.join(kernel.grid)})"
        named = re.sub(r"\b([A-Z]\w+)", r'params["\1"]', programs)
        tests.append(f"{named} <= {PROCESSORS}")
    if "RSPLIT_SIZE" in kernel.blocks:
        tests.append('params["RSPLIT_SIZE"] % params["XBLOCK"] == 0')
    return tests


def _advance_tests(kernel: CaughtKernel) -> list[str]:
    """Write tests that a block pointer carries nothing from one axis into the next."""
    offsets = re.findall(r"tl\.advance\(\w+, \[(.*)\]\)", kernel.source)
    rests = dict.fromkeys(o for line in offsets for o in line.split(", ") if "%" in o)
    return [re.sub(r"\b(R\d_BLOCK)\b", r'params["\1"]', rest) + " == 0" for rest in rests]
