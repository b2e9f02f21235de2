"""The space of a launch, and what its host code answers for each choice."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from solkit.adapters.live_calls import RequestedLaunch
from solkit.adapters.requested_records import recorded_launch
from solkit.adapters.tilings import retiled_grid
from solkit.core import KernelProgram, Value
from solkit.core.recordings import ChoiceAnswer, RecordedLaunch
from solkit.integrations.launch_tiles import Tile, find_tile, is_block_size

_BLOCK = re.compile(r"(BLOCK|TILE|CHUNK|SPLIT|GROUP|UNROLL|ROWS|COLS)", re.IGNORECASE)
_STAGED = re.compile(r"dot|descriptor")
"""What a function's text has if Triton may make stages of its loads on NVIDIA's GPUs: a product's
operands in a loop. Without one the machine code is the same for any ``num_stages`` (3.6 to 3.9)."""
_WARPS, _STAGES = (1, 2, 4, 8, 16), (1, 2, 3, 4, 5)
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_REACH = 2  # powers of two to either side of a block constant's own value
_MOST_BLOCK = 65536
_MOST_CHOICES = 4096
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class LaunchSpace:
    """The space of a launch; fields as in `solkit.core.recordings.RecordedLaunch`."""

    space: Mapping[str, tuple[Value, ...]]
    configs: tuple[tuple[Value, ...], ...]
    choice_names: tuple[str, ...]
    answers: tuple[ChoiceAnswer, ...]
    tiles: tuple[str, ...] = ()


def record_of_launch(launch: RequestedLaunch) -> RecordedLaunch:
    """Return the record of a launch with its space, without the contents of its tensors."""
    record = recorded_launch(launch)
    if record.obstacle:
        return record
    varied = launch_space(launch, record.launch.program)
    x, y, z = (*_own_grid(varied), 1, 1)[:3]
    return replace(
        record,
        launch=replace(record.launch, grid=(x, y, z)),
        space=varied.space,
        configs=varied.configs,
        choice_names=varied.choice_names,
        heuristics=tuple(launch.heuristics),
        answers=varied.answers,
        tiles=varied.tiles,
    )


def _own_grid(varied: LaunchSpace) -> tuple[int, ...]:
    own = tuple(varied.space[name][0] for name in varied.choice_names)
    return next((e.grid for e in varied.answers if e.choice == own), (0, 0, 0))


def launch_space(launch: RequestedLaunch, program: KernelProgram | None = None) -> LaunchSpace:
    """Return what may vary.

    An autotuner's list is taken as it is; Inductor's own tuner varies more than it lists. Otherwise
    ``num_warps``, ``num_stages`` (only its own value if the program's text shows that others change
    nothing), a constant that only says which program computes an element, and, if the grid is a
    function, the block constants: powers of two near their own values, of those that the grid
    reads, or that are named like blocks and do not follow from the data's sizes.
    """
    listed = _is_closed_list(launch)
    space = _listed_space(launch) if listed else _free_space(launch, _has_stages(program))
    if not listed and launch.configs:
        further = _listed_space(launch)
        space = {n: tuple(dict.fromkeys((*v, *further.get(n, ())))) for n, v in space.items()}
    tile = None if listed else find_tile(launch, program)
    space |= {} if tile is None else {tile.name: tile.values}
    tiles = () if tile is None else (tile.name,)
    names = tuple(name for name in space if name in {*_read_by_host(launch), *tiles})
    configs = _points(launch, space) if listed else ()
    if configs:
        places = [list(space).index(name) for name in names]
        choices = list(dict.fromkeys(tuple(point[n] for n in places) for point in configs))
    else:
        combined = itertools.product(*(space[name] for name in names))
        choices = list(itertools.islice(combined, _MOST_CHOICES))
    computed = {n: h for n, h in launch.heuristics.items() if n not in space}
    answers = tuple(_host_answers(replace(launch, heuristics=computed), names, choices, tile))
    _read_by_host(launch)  # last: what a grid sets for the host is that of the launch again
    return LaunchSpace(space, configs, names, _without_constant_answers(launch, answers), tiles)


# ------------------------------------------------------------------------------------- parameters


def _is_closed_list(launch: RequestedLaunch) -> bool:
    """Tell whether the launcher has a list, and tries nothing else.

    Inductor's tuner goes on from what it lists, unless these are parameters of a user's kernel or
    of a template, whose grid is computed already.
    """
    if len(launch.configs) < 2 or launch.launcher != "inductor":
        return len(launch.configs) > 1
    open_names = {*_largest_blocks(launch), *_OPTIONS}
    return any(not set(config) <= open_names for config in launch.configs)


def _listed_space(launch: RequestedLaunch) -> dict[str, tuple[Value, ...]]:
    """Return the values in an autotuner's list, those in use first."""
    in_use = {**launch.values, **launch.options}
    names = [
        name
        for name in dict.fromkeys(itertools.chain(*launch.configs))
        if all(name in config for config in launch.configs) and isinstance(in_use.get(name), _PLAIN)
    ]
    return {
        name: tuple(dict.fromkeys([in_use[name], *(config[name] for config in launch.configs)]))
        for name in names
    }


def _points(
    launch: RequestedLaunch, space: Mapping[str, tuple[Value, ...]]
) -> tuple[tuple[Value, ...], ...]:
    own = tuple(values[0] for values in space.values())
    listed = (tuple(config[name] for name in space) for config in launch.configs)
    return tuple(dict.fromkeys([own, *listed]))


def _has_stages(program: KernelProgram | None) -> bool:
    """Tell whether ``num_stages`` may change the machine code; on other vendors' any loop's may."""
    if program is None:
        return True
    texts = [function.source for function in program.functions.values()]
    if any(map(_STAGED.search, texts)):
        return True
    return torch.version.hip is not None and any("for " in text for text in texts)


def _free_space(launch: RequestedLaunch, has_stages: bool) -> dict[str, tuple[Value, ...]]:
    options = (("num_warps", _WARPS), ("num_stages", _STAGES if has_stages else ()))
    varied: dict[str, tuple[Value, ...]] = {
        name: _own_value_first(launch.options[name], values)
        for name, values in options
        if type(launch.options.get(name)) is int
    }
    if callable(launch.grid):
        read = _read_by_host(launch)
        for name in launch.constants:
            value = launch.values[name]
            if _may_vary(launch, name, value, read):
                most = _largest_blocks(launch).get(name, _MOST_BLOCK)
                least = launch.least.get(name, 1)
                varied[name] = _own_value_first(value, _powers_of_two(value, least, most))
    return varied


def _may_vary(launch: RequestedLaunch, name: str, value: Any, read: set[str]) -> bool:
    if not is_block_size(value) or name in launch.heuristics:
        return False
    if launch.launcher == "inductor":
        return name in _largest_blocks(launch)
    return name in read or _is_free_parameter(name, value, launch)


def _largest_blocks(launch: RequestedLaunch) -> Mapping[str, int]:
    """Return the largest blocks for which Inductor made the text; none for others' kernels.

    Its own tuner takes none that is longer than its axis, rounded up to a power of two.
    """
    if launch.launcher != "inductor":
        return {}
    from solkit.adapters.inductor_text import MOST_BLOCK  # with Inductor, which is loaded then

    lengths = {
        name: launch.values.get(f"{name.removesuffix('BLOCK').lower()}numel") for name in MOST_BLOCK
    }
    return {
        name: min(most, 1 << (size - 1).bit_length()) if type(size) is int and size > 0 else most
        for (name, most), size in zip(MOST_BLOCK.items(), lengths.values(), strict=True)
    }


def _own_value_first(own: int, others: Sequence[int]) -> tuple[int, ...]:
    return (own, *(other for other in others if other != own))


def _is_free_parameter(name: str, value: int, launch: RequestedLaunch) -> bool:
    """Tell whether it is named like a block and does not follow from the data's sizes."""
    sizes = {size for value in launch.values.values() for size in getattr(value, "shape", ())}
    covering = {1 << (size - 1).bit_length() for size in sizes if size > 0}
    return _BLOCK.search(name) is not None and (value not in covering or value <= 1)


def _powers_of_two(value: int, least: int, most: int) -> list[int]:
    least = max(least, min(value, 16) if value > 1 else 1)
    near = [value * 2**step for step in range(-_REACH, _REACH + 1)] if value > 1 else [1, 2, 4, 8]
    powers = (math.floor(power) for power in near)
    return [power for power in powers if least <= power <= most]


# -------------------------------------------------------------------------------------- host code


class _Meta(dict[str, Any]):
    """Notes which parameters host code reads."""

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


def _read_by_host(launch: RequestedLaunch) -> set[str]:
    """Return the parameters that the grid and the heuristics read."""
    meta = _Meta({**launch.values, **launch.options})
    for heuristic in launch.heuristics.values():
        heuristic(meta)
    if callable(launch.grid):
        launch.grid(meta)
    return meta.read


def _host_answers(
    launch: RequestedLaunch,
    names: tuple[str, ...],
    choices: Sequence[tuple[Value, ...]],
    tile: Tile | None,
) -> Iterator[ChoiceAnswer]:
    """Yield the answers; host code that raises leaves its choice out.

    Host code never sees another value of a tile: its grid follows from the answer for its own.
    """
    for choice in choices:
        chosen = dict(zip(names, choice, strict=True))
        value = chosen.pop(tile.name) if tile else None
        meta = {**launch.values, **launch.options, **chosen}
        derived: dict[str, Value] = {}
        try:
            for name, heuristic in launch.heuristics.items():
                derived[name] = meta[name] = heuristic(meta)
            grid = launch.grid(meta) if callable(launch.grid) else launch.grid
        except (ArithmeticError, AssertionError, LookupError, ValueError):
            continue
        grid = _whole_grid(grid)
        if tile is not None and isinstance(value, int):
            grid = retiled_grid(grid, tile.axis, tile.values[0], value)
        if grid is not None:
            yield ChoiceAnswer(choice, grid, derived)


def _whole_grid(grid: Any) -> tuple[int, ...]:
    listed = (grid,) if isinstance(grid, int) else tuple(grid)
    return tuple(map(int, listed))


def _without_constant_answers(
    launch: RequestedLaunch, answers: tuple[ChoiceAnswer, ...]
) -> tuple[ChoiceAnswer, ...]:
    """Leave out what heuristics answer for every choice as for the one in use."""
    in_use = {**launch.options, **launch.values}
    varied = {
        name
        for answer in answers
        for name, value in answer.derived.items()
        if isinstance(value, _PLAIN) and value != in_use.get(name)
    }
    return tuple(
        ChoiceAnswer(e.choice, e.grid, {n: v for n, v in e.derived.items() if n in varied})
        for e in answers
    )
