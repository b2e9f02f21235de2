"""Features of the tiles that a block of a Triton kernel works on, and a rough model of its time.

They follow from the program of a launch and its arguments (`solkit.surrogate.ast_interpreter`), for
all candidates at once. The model knows no machine code: registers are guessed from the tensors
that are alive, and all loads of one trip of a loop count as one wait for memory::

    memory_s   bytes in sectors of 32 / rate of L2
    tensor_s   multiply-adds, in tiles of at least 16 x 8 / rate of the tensor cores
    fast_s     arithmetic / rate of fp32; slow_s: special functions / rate of their pipe
    wait_s     waves x (trips of each loop with loads) x latency
    rough_s    largest of these, in whole waves
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.core import Device
from solkit.surrogate.ast_interpreter import Call, interpret_block
from solkit.surrogate.block_events import Block, Event
from solkit.surrogate.program_values import Array, Number

__all__ = ["MOVED", "ROUGH", "Setting", "combine_launches", "tile_features"]

_WARP = 32
_WAIT_S = 0.7e-6
"""Wait for a load that DRAM answers, about; Luo et al., "Benchmarking and Dissecting the Nvidia
Hopper GPU Architecture via Microbenchmarking" (2024): 478 cycles and more."""
_LAUNCH_S = 2e-6
"""Seconds from the end of a launch to the start of the next, about."""
ROUGH, MOVED = "tiles.rough_s", "tiles.moved_bytes"
"""Columns that serve `combine_launches` alone: seconds, bytes."""
_HINTS = {
    "first": "evict_first",
    "last": "evict_last",
    "cg": ".cg",
    "ca": ".ca",
    "cs": ".cs",
    "cv": ".cv",
    "wt": ".wt",
}
"""Words for the cache, by the end of their columns' names."""
_OPTIONS = ("warp_specialize", "flatten", "loop_unroll_factor")
_SPARE_REGISTERS = 24.0
_MOST_TRIPS = 1e6
_SMALL = 2.0**-20


@dataclass(frozen=True)
class Setting:
    """Base of a block's features.

    Attributes:
        device: the GPU.
        sol_s: speed of light.
        read_bytes, write_bytes: compulsory.
        blocks, warps, stages: of the launch, (candidates,).
    """

    device: Device
    sol_s: float
    read_bytes: float
    write_bytes: float
    blocks: Array
    warps: Array
    stages: Array

    def __getitem__(self, rows: Array) -> Setting:
        """Select the settings of some candidates."""
        columns = (self.blocks[rows], self.warps[rows], self.stages[rows])
        return Setting(self.device, self.sol_s, self.read_bytes, self.write_bytes, *columns)


def tile_features(setting: Setting, call: Call) -> dict[str, Array]:
    """Return columns by name, (candidates,) each; none if the program cannot be followed.

    Args:
        setting: device, work and launches.
        call: of one program.
    """
    block = interpret_block(call)
    if block is None:
        return {}
    with np.errstate(all="ignore"):
        counted = _BlockCounts.count_block(setting, block).columns()
    number = len(setting.blocks)
    return {
        f"tiles.{key}": np.broadcast_to(np.asarray(value, float), number)
        for key, value in counted.items()
    }


def combine_launches(
    columns: Sequence[Mapping[str, Array]], counts: Sequence[Array], setting: Setting
) -> dict[str, Array]:
    """Combine what the launches of a call do, of what is known of them, (candidates,) each.

    Args:
        columns: `tile_features` of each launch, the main one first.
        counts: how often a call makes it, (candidates,) each; 0 where a candidate lacks it.
        setting: of the main launch.
    """
    further = _sum_arrays(counts) - 1
    rough_s, moved = (
        _sum_arrays(
            [np.nan_to_num(launch[name]) * n for launch, n in zip(columns, counts, strict=True)]
        )
        for name in (ROUGH, MOVED)
    )
    is_known = ~np.isnan(columns[0][ROUGH])
    least = max(setting.read_bytes + setting.write_bytes, 1)
    totals = {
        "tiles.all_gap": _bounded_log2(np.fmax((rough_s + further * _LAUNCH_S) / setting.sol_s, 1)),
        "tiles.all_traffic": _bounded_log2(moved / least),
    }
    return {name: np.where(is_known, column, np.nan) for name, column in totals.items()}


@dataclass(frozen=True)
class _BlockCounts:
    """A block's events with their trips."""

    setting: Setting
    block: Block
    guessed: Array

    @staticmethod
    def count_block(setting: Setting, block: Block) -> _BlockCounts:
        """Count a block; loops of unknown length take as long as to read all that must be read."""
        loads = [event for event in block.events if event.kind == "load"]
        loop = _sum_of_events(loads, lambda e: _bytes_of_all_trips(e) if e.unknown else 0.0)
        rest = _sum_of_events(loads, lambda e: 0.0 if e.unknown else _bytes_of_all_trips(e))
        loop_bytes = setting.read_bytes / np.maximum(setting.blocks, 1) - rest
        trips = np.where(loop > 0, np.clip(loop_bytes / loop, 1, _MOST_TRIPS), 1.0)
        return _BlockCounts(setting, block, trips)

    def all(self, kind: str, measure: Callable[[Event], Number]) -> Number:
        """Return the sum over events of a kind, in all trips of a block; NaN if there are none."""
        events = [event for event in self.block.events if event.kind == kind]
        if not events:
            return np.nan
        return _sum_of_events(
            events, lambda e: measure(e) * e.times * self._guessed_trips(bool(e.unknown))
        )

    def columns(self) -> dict[str, Number]:
        """Return all features."""
        columns = (
            self._memory_columns()
            | self._product_columns()
            | self._thread_columns()
            | self._arithmetic_columns()
        )
        return columns | self._time_model_columns(columns)

    def _memory_columns(self) -> dict[str, Number]:
        here = self.setting
        columns: dict[str, Number] = {}
        for kind, least in (("load", here.read_bytes), ("store", here.write_bytes)):
            moved = here.blocks * self.all(kind, _bytes_per_trip)
            sectors = here.blocks * self.all(kind, self._sector_bytes)
            runs = self.all(kind, lambda e: _bytes_per_trip(e) * _contiguous_bytes(e))
            by_data = self.all(kind, lambda e: _bytes_per_trip(e) * np.isnan(e.run))
            columns |= {
                f"{kind}_traffic": _bounded_log2(moved / max(least, 1)),
                f"{kind}_sectors": _bounded_log2(sectors / np.maximum(moved, 1)),
                f"{kind}_run": _bounded_log2(here.blocks * runs / moved),
                f"{kind}_lost": here.blocks * by_data / moved,
                f"{kind}s": float(sum(e.kind == kind for e in self.block.events)),
            }
            columns |= {
                f"{kind}_{hint}": here.blocks * self._hinted_bytes(kind, word) / moved
                for hint, word in _HINTS.items()
            }
        atomics = here.blocks * self.all("atomic", lambda e: e.elements)
        columns["atomics"] = _bounded_log2(atomics)
        columns["atomics_per_written"] = _bounded_log2(atomics / max(here.write_bytes, 1))
        return columns

    def _sector_bytes(self, event: Event) -> Number:
        """Return bytes of the sectors that an access touches; spare warps load what others load."""
        if event.kind != "load":
            return _bytes_per_trip(event) * event.sectors
        warps = np.maximum(self.setting.warps, 1)
        busy = np.clip(np.ceil(event.lanes / _WARP), 1, warps)
        return _bytes_per_trip(event) * event.sectors * warps / busy

    def _hinted_bytes(self, kind: str, word: str) -> Number:
        """Return bytes of a block's accesses that give the cache a word."""
        hinted = self.all(kind, lambda e: _bytes_per_trip(e) * (word in e.hint.split()))
        return np.nan_to_num(hinted)

    def _product_columns(self) -> dict[str, Number]:
        here = self.setting
        dots = [event for event in self.block.events if event.kind == "dot"]
        products: dict[str, Number] = {"dots": float(len(dots))}
        if not dots:
            return products
        threads = here.warps * _WARP
        largest = _largest_of([e.sizes[0] * e.sizes[1] for e in dots])
        staged = _largest_of([e.staged for e in dots])
        rows, columns, depth = (_largest_of([e.sizes[at] for e in dots]) for at in range(3))
        limit = here.device.limits.shared_bytes
        return products | {
            "dot_rows": _bounded_log2(rows),
            "dot_columns": _bounded_log2(columns),
            "dot_depth": _bounded_log2(depth),
            "dot_rows_per_warp": _bounded_log2(rows / here.warps),
            "sums_per_thread": _bounded_log2(largest / threads),
            "staged": staged * np.maximum(self._stages(), 1) / limit,
            "staged_once": staged / limit,
            "dot_intensity": _bounded_log2(largest / (rows + columns)),
        }

    def _thread_columns(self) -> dict[str, Number]:
        threads = self.setting.warps * _WARP
        kept = self._carried_bytes() / threads
        return {
            "largest_per_thread": _bounded_log2(self.block.largest / threads),
            "carried_per_thread": _bounded_log2(kept),
            "loaded_per_trip": _bounded_log2(self._innermost_load_bytes() / threads),
            "trips": _bounded_log2(self.block.trips * self.guessed),
            "guessed": _bounded_log2(self.guessed),
            "depth": float(max((e.loops for e in self.block.events), default=0)),
            "branches": float(self.block.branches),
            "stages": self._stages(),
            **{name: float(name in self.block.options) for name in _OPTIONS},
            "reductions": _bounded_log2(self.all("reduce", lambda _: 1.0)),
            "reduced_per_thread": _bounded_log2(self.all("reduce", lambda e: e.elements) / threads),
            "scanned_per_thread": _bounded_log2(self.all("scan", lambda e: e.elements) / threads),
        }

    def _stages(self) -> Number:
        """Return software stages: those of the loops themselves, else the launch's."""
        return np.where(self.block.stages > 0, self.block.stages, self.setting.stages)

    def _carried_bytes(self) -> Number:
        """Return bytes of the tensors that the largest loop carries."""
        groups: defaultdict[int, list[Number]] = defaultdict(list)
        for event in self.block.events:
            if event.kind == "carried":
                groups[event.loop].append(_bytes_per_trip(event))
        return _largest_of([0.0, *map(_sum_arrays, groups.values())])

    def _innermost_load_bytes(self) -> Number:
        """Return bytes that the innermost loads of a block ask for together."""
        loads = [event for event in self.block.events if event.kind == "load"]
        deepest = max((load.loops for load in loads), default=0)
        return _sum_arrays([_bytes_per_trip(load) for load in loads if load.loops == deepest])

    def _arithmetic_columns(self) -> dict[str, Number]:
        here = self.setting
        rates = {name: ceiling.value for name, ceiling in here.device.ceilings.items()}
        fast = here.blocks * self.all("fast", lambda e: e.elements)
        slow = here.blocks * self.all("slow", lambda e: e.elements)
        integer = here.blocks * self.all("integer", lambda e: e.elements)
        return {
            "integer": _bounded_log2(integer / rates["fp32"] / here.sol_s),
            "fast": _bounded_log2(2 * fast / rates["fp32"] / here.sol_s),
            "slow": _bounded_log2(slow / rates["sfu"] / here.sol_s),
        }

    def _time_model_columns(self, columns: Mapping[str, Number]) -> dict[str, Number]:
        here = self.setting
        registers, resident, fits = self._resident_blocks(columns)
        waves = here.blocks / (here.device.sm_count * resident)
        even = np.ceil(waves) / waves
        stages = np.where(columns["dots"] > 0, np.maximum(self._stages() - 1, 1), 1.0)
        terms = self._resource_seconds(even, waves, stages)
        arithmetic = [here.sol_s * 2.0 ** np.asarray(columns[name]) for name in ("fast", "slow")]
        total = _largest_of([*terms.values(), *arithmetic])
        of_sm = np.minimum(resident, np.ceil(here.blocks / here.device.sm_count))
        return {
            **{f"{name}_s": _bounded_log2(value / here.sol_s) for name, value in terms.items()},
            "gap": _bounded_log2(np.fmax(total / here.sol_s, 1)),
            "rough_s": total,
            "moved_bytes": here.blocks * self._sum_over_accesses(_bytes_per_trip),
            "registers": _bounded_log2(registers),
            "resident": _bounded_log2(resident),
            "warps_per_sm": _bounded_log2(resident * here.warps),
            "fits": np.asarray(fits, float),
            "waves": _bounded_log2(waves),
            "tail": 1 / even,
            "in_flight": _bounded_log2(self._innermost_load_bytes() * stages * of_sm),
        }

    def _resident_blocks(self, columns: Mapping[str, Number]) -> tuple[Number, Number, Number]:
        """Return registers of a thread, blocks that an SM holds (at least one), and if it does."""
        here, limits = self.setting, self.setting.device.limits
        threads = here.warps * _WARP
        loaded = np.where(
            columns["dots"] > 0, 0.0, self._innermost_load_bytes()
        )  # products read shared memory
        alive = np.fmax(self._carried_bytes() + loaded, 4 * self.block.largest)
        registers = np.clip(_SPARE_REGISTERS + alive / 4 / threads, 32, 512)
        shared = np.nan_to_num(np.asarray(columns.get("staged", 0.0), float)) * limits.shared_bytes
        blocks = np.minimum(limits.threads // threads, limits.blocks)
        blocks = np.fmin(blocks, limits.registers / np.minimum(registers, 255) // threads)
        blocks = np.fmin(blocks, limits.shared_bytes // np.maximum(shared, 1024))
        return registers, np.maximum(blocks, 1), blocks >= 1

    def _resource_seconds(self, even: Number, waves: Number, stages: Number) -> dict[str, Number]:
        """Return seconds by resource."""
        here = self.setting
        rates = {name: ceiling.value for name, ceiling in here.device.ceilings.items()}
        products = 2 * np.nan_to_num(self.all("dot", _padded_products))
        waits = _sum_arrays(
            [times * self._guessed_trips(unknown) for times, unknown in self._loops_with_loads()]
        )
        return {
            "memory": here.blocks * self._sum_over_accesses(self._sector_bytes) / rates["l2"],
            "tensor": here.blocks * products / self._tensor_rate(rates) * even,
            "wait": np.ceil(waves) * waits * _WAIT_S / stages,
        }

    def _sum_over_accesses(self, measure: Callable[[Event], Number]) -> Number:
        return _sum_arrays(
            [np.nan_to_num(self.all(kind, measure)) for kind in ("load", "store", "atomic")]
        )

    def _tensor_rate(self, rates: Mapping[str, float]) -> Number:
        """Return FLOP/s of the tensor cores at the width of the operands."""
        width = _largest_of([0.0, *(e.width for e in self.block.events if e.kind == "dot")])
        fp8, bf16, tf32 = (rates.get(f"tensor.{name}", np.inf) for name in ("fp8", "bf16", "tf32"))
        is_exact = any(event.is_exact for event in self.block.events if event.kind == "dot")
        widest = rates["fp32"] if is_exact else tf32
        return np.select([width <= 1, width <= 2], [fp8, bf16], widest)

    def _guessed_trips(self, unknown: bool) -> Number:
        return self.guessed if unknown else 1.0

    def _loops_with_loads(self) -> list[tuple[Number, bool]]:
        """Return how often each loop with loads goes round, and whether that is unknown."""
        loads = [event for event in self.block.events if event.kind == "load"]
        waits: dict[int, tuple[Number, bool]] = {}
        for event in loads:
            often = np.fmax(event.times, waits[event.loop][0] if event.loop in waits else 0.0)
            waits[event.loop] = often, bool(event.unknown)
        return list(waits.values())


def _bytes_per_trip(event: Event) -> Number:
    return event.elements * event.width


def _bytes_of_all_trips(event: Event) -> Number:
    return _bytes_per_trip(event) * event.times


def _contiguous_bytes(event: Event) -> Number:
    """Return bytes that lie together, up to a warp's widest access."""
    return np.clip(np.nan_to_num(event.run, nan=1.0) * event.width, 1, 512)


def _padded_products(event: Event) -> Number:
    rows, columns, depth = event.sizes
    whole = np.maximum(rows, 16) * np.maximum(columns, 8) * np.maximum(depth, 8)
    return event.elements * whole / (rows * columns * depth)


def _sum_of_events(events: Sequence[Event], measure: Callable[[Event], Number]) -> Number:
    return _sum_arrays([measure(event) for event in events])


def _sum_arrays(values: Sequence[Number]) -> Number:
    return functools.reduce(operator.add, values, 0.0)


def _largest_of(values: Sequence[Number]) -> Number:
    return functools.reduce(lambda one, other: np.fmax(one, other), values)


def _bounded_log2(value: Any) -> Array:
    return np.asarray(np.log2(np.maximum(value, _SMALL)))
