"""The constant of a live launch that only says which program computes an element, if there is one.

Its values are proved one by one, on the IR that the compiler makes of them in this process. That
takes some 30 ms a value for each distinct specialisation, and no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from triton.runtime.driver import driver

from solkit.adapters.argument_overlaps import ArgumentBuffers, argument_buffers
from solkit.adapters.live_calls import RequestedLaunch
from solkit.adapters.live_captures import specialise
from solkit.adapters.tilings import TileProof, retiled_grid, tiled_axis
from solkit.adapters.triton_compiler import Specialisation, ttgir_text
from solkit.core import KernelProgram

_MOST_BLOCK = 65536
_LEAST_ELEMENTS = 32
_REACH = range(-2, 5)  # powers of two from the constant's own value
_TOGETHER = re.compile(
    r"\b(dot|dot_scaled|reduce|sum|max|min|argmax|argmin|cumsum|cumprod|associative_scan|sort|"
    r"histogram|atomic_\w+|gather|trans|\w*descriptor\w*|inline_asm_elementwise|\w+_print)\("
)
"""Functions that join lanes, or print. The list only saves compiling: the IR decides."""


@dataclass(frozen=True)
class Tile:
    """A constant that only says which program computes an element.

    Attributes:
        name: the parameter.
        axis: of the grid that follows from it.
        values: that are proved to do the same with this launch's grid, the one in use first.
    """

    name: str
    axis: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class _Kernel:
    """A specialisation, by a text that tells it from others."""

    key: str
    made_from: Specialisation = field(compare=False)


@dataclass(frozen=True)
class _OwnTile:
    """A launch's IR, its grid and the axis of it that follows from the constant, its buffers."""

    text: str
    grid: tuple[int, ...]
    axis: int
    buffers: ArgumentBuffers


def is_block_size(value: Any) -> bool:
    """Tell whether a value may be the size of a block: a power of two."""
    return type(value) is int and 0 < value <= _MOST_BLOCK and value & (value - 1) == 0


def find_tile(launch: RequestedLaunch, program: KernelProgram | None) -> Tile | None:
    """Return the first constant of a plain launch that is one; ``None`` if there is none.

    Args:
        launch: as it is asked for.
        program: its text, if that is known.
    """
    texts = () if program is None else program.functions.values()
    if launch.launcher != "jit" or any(_TOGETHER.search(part.source) for part in texts):
        return None
    try:
        tiles = (_tile(launch, name) for name in launch.constants)
        return next((tile for tile in tiles if tile is not None), None)
    except Exception:  # what cannot be compiled here, as without a GPU, is not varied
        return None


def _tile(launch: RequestedLaunch, name: str) -> Tile | None:
    own = launch.values[name]
    if not is_block_size(own) or own < _LEAST_ELEMENTS or name in launch.heuristics:
        return None
    buffers = argument_buffers((v, launch.may_write(n)) for n, v in launch.values.items())
    text = _ttgir(_kernel(launch))
    if tiled_axis(text, text, (own, own), buffers.same) is None:
        return None
    grid = launch.grid({**launch.values, **launch.options}) if callable(launch.grid) else None
    full = tuple(map(int, launch.grid if grid is None else grid))
    axis = TileProof(text, text, (own, own)).axis_for(buffers, full, launch.values)
    if axis is None:
        return None
    values = (own, *_proved(launch, name, _OwnTile(text, full, axis, buffers)))
    return Tile(name, axis, values) if len(values) > 1 else None


def _proved(launch: RequestedLaunch, name: str, tile: _OwnTile) -> Iterator[int]:
    """Yield other values, powers of two, for which the compiler makes the same of an element."""
    own = launch.values[name]
    for power in _REACH:
        value = int(own * 2.0**power)
        if value == own or not _LEAST_ELEMENTS <= value <= _MOST_BLOCK:
            continue
        if retiled_grid(tile.grid, tile.axis, own, value) is None:
            continue
        try:
            other = _ttgir(_kernel(replace(launch, values={**launch.values, name: value})))
        except Exception:  # as an assertion about the constant may have it
            continue
        if tiled_axis(tile.text, other, (own, value), tile.buffers.same) != tile.axis:
            return  # another constant, or one that does more
        yield value


def _kernel(launch: RequestedLaunch) -> _Kernel:
    made_from, _ = specialise(launch.kernel, (), {**launch.values, **launch.options})
    parts = (launch.kernel.cache_key, made_from.signature, made_from.constexprs, made_from.attrs)
    return _Kernel(repr((*parts, sorted(made_from.options.items(), key=repr))), made_from)


@lru_cache(maxsize=256)
def _ttgir(kernel: _Kernel) -> str:
    return ttgir_text(kernel.made_from, driver.active.get_current_target())
