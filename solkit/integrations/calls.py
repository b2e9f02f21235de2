"""Tune any Triton call, without editing it.

::

    found = solkit.tune_call(add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)], x, y, n,
                             BLOCK=1024)
    found.params                        # {"BLOCK": 2048, "num_warps": 8, "num_stages": 3}

The call is made once, to see what it launches. The launch becomes a kernel file
(docs/kernel_files.md) whose reference is the launch with its own parameters, and that file is tuned
like any other: each candidate's outputs are verified against the call's own. The grid, a function
of the parameters, is called for each choice of those that it reads, and its answers are written
into the file. Inputs are drawn anew, in the layouts of the call's own tensors: floating values with
their mean and deviation, integers as they are, or within their range if there are many.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from solkit.adapters.live_calls import RequestedLaunch, asked_launches
from solkit.core import Tuned, TuneSettings, TuneStatus
from solkit.errors import InputError
from solkit.integrations._call_file import Grids, kernel_file_text
from solkit.measure.benches import Bench
from solkit.pipeline.tuning import tune

__all__ = ["CallSettings", "call_file", "tune_call"]

_BLOCK = re.compile(r"(BLOCK|TILE|CHUNK|SPLIT|GROUP|UNROLL|ROWS|COLS)", re.IGNORECASE)
_WARPS, _STAGES = (1, 2, 4, 8, 16), (1, 2, 3, 4, 5)
_REACH = 2  # powers of two to either side of a block constant's own value
_MOST_BLOCK = 65536


@dataclass(frozen=True)
class CallSettings:
    """Options of tuning a call.

    Attributes:
        gpu_seconds: for the search.
        kernel: the name of the kernel to tune, if the call launches several.
        path: where the kernel file goes; by default into a temporary folder.
        bench: as for `solkit.tune`.
        settings: likewise.
        show: likewise.
    """

    gpu_seconds: float = 60.0
    kernel: str | None = None
    path: str | os.PathLike[str] | None = None
    bench: Bench | None = None
    settings: TuneSettings = field(default_factory=lambda: TuneSettings(final="turns"))
    show: Callable[[TuneStatus], None] = lambda _: None


def tune_call(
    launch: Callable[..., Any], /, *args: Any, tuning: CallSettings | None = None, **kwargs: Any
) -> Tuned:
    """Search faster parameters for a Triton call, as `solkit.tune` does for a kernel file.

    Varied are ``num_warps``, ``num_stages`` and, if the grid is a function, the block constants:
    powers of two near their own values, of those ``tl.constexpr`` that the grid reads, or that are
    named like blocks and do not follow from the data's sizes.

    Args:
        launch: ``kernel[grid]``, or any function that launches.
        args: of the call.
        tuning: how to tune.
        kwargs: of the call.

    Raises:
        InputError: nothing is launched, or several kernels are and none is named.
        UnsupportedError: an argument or the kernel's module cannot be written into a file; or as
            for `solkit.tune`.
    """
    how = tuning or CallSettings()
    with tempfile.TemporaryDirectory(prefix="solkit-call-") as folder:
        path = Path(folder) / "call.py" if how.path is None else Path(how.path)
        call_file(launch, path, args, kwargs, how.kernel)
        return tune(
            path,
            gpu_seconds=how.gpu_seconds,
            bench=how.bench,
            settings=how.settings,
            show=how.show,
        )


def call_file(
    launch: Callable[..., Any],
    path: str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    kernel: str | None = None,
) -> RequestedLaunch:
    """Write the kernel file of a call.

    Args:
        launch: as for `tune_call`.
        path: the file to write.
        args: as for `tune_call`.
        kwargs: likewise.
        kernel: the name of the kernel, if the call launches several.

    Returns:
        The launch.

    Raises:
        InputError, UnsupportedError: as for `tune_call`.
    """
    with asked_launches(runs=torch.cuda.is_available()) as launches:
        launch(*args, **(kwargs or {}))
    chosen = _choose_launch(launches, kernel)
    space = _launch_space(chosen)
    text = kernel_file_text(chosen, space, _grids_of_launch(chosen, space))
    Path(path).write_text(text, encoding="utf-8")
    return chosen


def _choose_launch(launches: Sequence[RequestedLaunch], kernel: str | None) -> RequestedLaunch:
    """Return the last launch of the kernel that is meant: after any autotuning."""
    by_name = {launch.name: launch for launch in launches}
    if not by_name:
        raise InputError("the call launches no Triton kernel: expected kernel[grid], or a function")
    if kernel is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if kernel not in by_name:
        why = f"it launches no {kernel!r}" if kernel else "it launches several kernels"
        raise InputError(f"{why}; name one with CallSettings(kernel=...): {', '.join(by_name)}")
    return by_name[kernel]


# -------------------------------------------------------------------------------------- the space


def _launch_space(launch: RequestedLaunch) -> dict[str, list[int]]:
    """Return the parameters that may vary, with their values, the launch's own first."""
    varied = {
        "num_warps": _own_value_first(launch.options["num_warps"], _WARPS),
        "num_stages": _own_value_first(launch.options["num_stages"], _STAGES),
    }
    if callable(launch.grid):
        read = _read_by_grid(launch)
        for name in launch.constants:
            value = launch.values[name]
            if _is_block_size(value) and (name in read or _is_free_parameter(name, value, launch)):
                varied[name] = _own_value_first(value, _powers_of_two(value))
    return varied


def _own_value_first(own: int, others: Sequence[int]) -> list[int]:
    return [own, *(other for other in others if other != own)]


def _is_block_size(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MOST_BLOCK and value & (value - 1) == 0


def _is_free_parameter(name: str, value: int, launch: RequestedLaunch) -> bool:
    """Tell whether it is named like a block and does not follow from the data's sizes."""
    sizes = {size for value in launch.values.values() for size in getattr(value, "shape", ())}
    covering = {1 << (size - 1).bit_length() for size in sizes if size > 0}
    return _BLOCK.search(name) is not None and (value not in covering or value <= 1)


def _powers_of_two(value: int) -> list[int]:
    least = min(value, 16) if value > 1 else 1
    near = [value * 2**step for step in range(-_REACH, _REACH + 1)] if value > 1 else [1, 2, 4, 8]
    powers = (math.floor(power) for power in near)
    return [power for power in powers if least <= power <= _MOST_BLOCK]


class _Meta(dict[str, Any]):
    """Notes which parameters a grid reads."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As for a dict."""
        self.read.add(name)
        return super().get(name, default)


def _read_by_grid(launch: RequestedLaunch) -> set[str]:
    meta = _Meta({**launch.values, **launch.options})
    launch.grid(meta)
    return meta.read


def _grids_of_launch(launch: RequestedLaunch, space: Mapping[str, Sequence[int]]) -> Grids:
    if not callable(launch.grid):
        return Grids((), {(): _whole_grid(launch.grid)})
    read = _read_by_grid(launch)
    names = tuple(name for name in space if name in read)
    return Grids(names, dict(_grid_answers(launch, names, space)))


def _grid_answers(
    launch: RequestedLaunch, names: tuple[str, ...], space: Mapping[str, Sequence[int]]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield a grid that raises leaves its choice out."""
    for chosen in itertools.product(*(space[name] for name in names)):
        meta = {**launch.values, **launch.options, **dict(zip(names, chosen, strict=True))}
        try:
            yield chosen, _whole_grid(launch.grid(meta))
        except (ArithmeticError, AssertionError, LookupError, ValueError):
            continue


def _whole_grid(grid: Any) -> tuple[int, ...]:
    listed = (grid,) if isinstance(grid, int) else tuple(grid)
    return tuple(map(int, listed))
