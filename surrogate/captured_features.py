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
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from solkit.core import Device
from solkit.surrogate.ast_interpreter import Call, interpret_blocks
from solkit.surrogate.block_events import Block, Event
from solkit.surrogate.program_values import Array, Number

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
_RATES = ("l2", "fp32", "sfu", "tensor.fp8", "tensor.bf16", "tensor.tf32")
_SPARE_REGISTERS = 24.0
_MOST_TRIPS = 1e6
_SMALL = 2.0**-20


@dataclass(frozen=True)
class Setting:
    """Base of a block's features, (candidates,) each.

    Attributes:
        sol_s: speed of light.
        read_bytes, write_bytes: compulsory.
        blocks, warps, stages: of the launch.
        sm_count: of the GPU, and so are the following.
        most_threads, most_blocks: of an SM.
        registers: of an SM.
        shared_bytes: of an SM.
        rates: by resource, a second; infinite where the GPU has none.
    """

    sol_s: Array
    read_bytes: Array
    write_bytes: Array
    blocks: Array
    warps: Array
    stages: Array
    sm_count: Array
    most_threads: Array
    most_blocks: Array
    registers: Array
    shared_bytes: Array
    rates: Mapping[str, Array]

    @staticmethod
    def on_device(
        device: Device, work: tuple[float, float, float], geometry: tuple[Array, Array, Array]
    ) -> Setting:
        """Return the setting of candidates for one problem.

        Args:
            device: the GPU.
            work: seconds at the speed of light, bytes that must be read and written.
            geometry: blocks, warps and stages of each.
        """
        limits, number = device.limits, len(geometry[0])
        ceilings = {name: ceiling.value for name, ceiling in device.ceilings.items()}
        rates = {name: np.full(number, ceilings.get(name, np.inf)) for name in _RATES}
        shared = {
            **dict(zip(("sol_s", "read_bytes", "write_bytes"), work, strict=True)),
            "sm_count": device.sm_count,
            "most_threads": limits.threads,
            "most_blocks": limits.blocks,
            "registers": limits.registers,
            "shared_bytes": limits.shared_bytes,
        }
        columns: dict[str, Array] = {
            name: np.full(number, float(value)) for name, value in shared.items()
        }
        columns |= dict(zip(("blocks", "warps", "stages"), geometry, strict=True))
        return Setting(rates=rates, **columns)

    @staticmethod
    def joined(parts: Sequence[Setting]) -> Setting:
        """Return the settings of the candidates of several problems, one after the other."""
        names = parts[0]._columns()
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        rates = {name: np.concatenate([part.rates[name] for part in parts]) for name in _RATES}
        return Setting(rates=rates, **columns)

    def __getitem__(self, rows: Array) -> Setting:
        """Select the settings of some candidates."""
        rates = {name: rate[rows] for name, rate in self.rates.items()}
        columns = {name: column[rows] for name, column in self._columns().items()}
        return Setting(rates=rates, **columns)

    def _columns(self) -> dict[str, Array]:
        names = (entry.name for entry in fields(self) if entry.name != "rates")
        return {name: getattr(self, name) for name in names}


def tile_features(setting: Setting, call: Call) -> dict[str, Array]:
    """Return columns by name, (candidates,) each; none if the program cannot be followed.

    Args:
        setting: device, work and launches.
        call: of one program.
    """
    number = len(setting.blocks)
    columns: dict[str, Array] = {}
    for rows, block in interpret_blocks(call, number):
        with np.errstate(all="ignore"):
            counted = _BlockCounts.count_block(setting[rows], block).columns()
        for name, value in counted.items():
            columns.setdefault(f"tiles.{name}", np.full(number, np.nan))[rows] = value
    return columns


def combine_launches(
    columns: Sequence[Mapping[str, Array]], counts: Sequence[Array], setting: Setting
) -> dict[str, Array]:
    """Combine what the launches of a call do, of what is known of them, (candidates,) each.

    Args:
        columns: `tile_features` of each launch, the largest first.
        counts: how often a call makes it, (candidates,) each; 0 where a candidate lacks it.
        setting: of the largest launch.
    """
    further = _sum_arrays(counts) - 1
    rough_s, moved = (
        _sum_arrays(
            [np.nan_to_num(launch[name]) * n for launch, n in zip(columns, counts, strict=True)]
        )
        for name in (ROUGH, MOVED)
    )
    is_known = ~np.isnan(columns[0][ROUGH])
    least = np.maximum(setting.read_bytes + setting.write_bytes, 1)
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
        loop = _sum_of_events(loads, lambda e: _bytes_of_all_trips(e) * e.unknown)
        rest = _sum_of_events(loads, lambda e: _bytes_of_all_trips(e) * (1 - np.asarray(e.unknown)))
        loop_bytes = setting.read_bytes / np.maximum(setting.blocks, 1) - rest
        trips = np.where(loop > 0, np.clip(loop_bytes / loop, 1, _MOST_TRIPS), 1.0)
        return _BlockCounts(setting, block, trips)

    def all(self, kind: str, measure: Callable[[Event], Number]) -> Number:
        """Return the sum over events of a kind, in all trips of a block; NaN if there are none."""
        events = [event for event in self.block.events if event.kind == kind]
        total = _sum_of_events(
            events, lambda e: measure(e) * e.times * self._guessed_trips(e.unknown)
        )
        return np.where(self._number_of_events(kind) > 0, total, np.nan)

    def _number_of_events(self, kind: str) -> Number:
        """Return at how many places of its text a block does something."""
        return _sum_arrays([event.happens for event in self.block.events if event.kind == kind])

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
            by_data = self.all(kind, lambda e: _bytes_per_trip(e) * np.isnan(e.details.run))
            columns |= {
                f"{kind}_traffic": _bounded_log2(moved / np.maximum(least, 1)),
                f"{kind}_sectors": _bounded_log2(sectors / np.maximum(moved, 1)),
                f"{kind}_run": _bounded_log2(here.blocks * runs / moved),
                f"{kind}_lost": here.blocks * by_data / moved,
                f"{kind}s": self._number_of_events(kind),
            }
            columns |= {
                f"{kind}_{hint}": here.blocks * self._hinted_bytes(kind, word) / moved
                for hint, word in _HINTS.items()
            }
        atomics = here.blocks * self.all("atomic", lambda e: e.elements)
        columns["atomics"] = _bounded_log2(atomics)
        columns["atomics_per_written"] = _bounded_log2(atomics / np.maximum(here.write_bytes, 1))
        return columns

    def _sector_bytes(self, event: Event) -> Number:
        """Return bytes of the sectors that an access touches; spare warps load what others load."""
        if event.kind != "load":
            return _bytes_per_trip(event) * event.details.sectors
        warps = np.maximum(self.setting.warps, 1)
        busy = np.clip(np.ceil(event.details.lanes / _WARP), 1, warps)
        return _bytes_per_trip(event) * event.details.sectors * warps / busy

    def _hinted_bytes(self, kind: str, word: str) -> Number:
        """Return bytes of a block's accesses that give the cache a word."""
        hinted = self.all(kind, lambda e: _bytes_per_trip(e) * (word in e.details.hint.split()))
        return np.nan_to_num(hinted)

    def _product_columns(self) -> dict[str, Number]:
        here = self.setting
        dots = [event for event in self.block.events if event.kind == "dot"]
        products: dict[str, Number] = {"dots": self._number_of_events("dot")}
        if not dots:
            return products
        threads = here.warps * _WARP
        largest = _largest_where(dots, [e.details.sizes[0] * e.details.sizes[1] for e in dots])
        staged = _largest_where(dots, [e.details.staged for e in dots])
        rows, columns, depth = (
            _largest_where(dots, [e.details.sizes[at] for e in dots]) for at in range(3)
        )
        limit = here.shared_bytes
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
            "depth": _deepest_loop(self.block.events),
            "branches": self.block.branches,
            "stages": self._stages(),
            **{name: self.block.options.get(name, 0.0) for name in _OPTIONS},
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
                groups[event.loop].append(_bytes_per_trip(event) * event.happens)
        return _largest_of([0.0, *map(_sum_arrays, groups.values())])

    def _innermost_load_bytes(self) -> Number:
        """Return bytes that the innermost loads of a block ask for together."""
        loads = [event for event in self.block.events if event.kind == "load"]
        deepest = _deepest_loop(loads)
        return _sum_arrays(
            [_bytes_per_trip(load) * load.happens * (load.loops == deepest) for load in loads]
        )

    def _arithmetic_columns(self) -> dict[str, Number]:
        here, rates = self.setting, self.setting.rates
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
        waves = here.blocks / (here.sm_count * resident)
        even = np.ceil(waves) / waves
        stages = np.where(columns["dots"] > 0, np.maximum(self._stages() - 1, 1), 1.0)
        terms = self._resource_seconds(even, waves, stages)
        arithmetic = [here.sol_s * 2.0 ** np.asarray(columns[name]) for name in ("fast", "slow")]
        total = _largest_of([*terms.values(), *arithmetic])
        of_sm = np.minimum(resident, np.ceil(here.blocks / here.sm_count))
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
        here = self.setting
        threads = here.warps * _WARP
        loaded = np.where(
            columns["dots"] > 0, 0.0, self._innermost_load_bytes()
        )  # products read shared memory
        alive = np.fmax(self._carried_bytes() + loaded, 4 * self.block.largest)
        registers = np.clip(_SPARE_REGISTERS + alive / 4 / threads, 32, 512)
        shared = np.nan_to_num(np.asarray(columns.get("staged", 0.0), float)) * here.shared_bytes
        blocks = np.minimum(here.most_threads // threads, here.most_blocks)
        blocks = np.fmin(blocks, here.registers / np.minimum(registers, 255) // threads)
        blocks = np.fmin(blocks, here.shared_bytes // np.maximum(shared, 1024))
        return registers, np.maximum(blocks, 1), blocks >= 1

    def _resource_seconds(self, even: Number, waves: Number, stages: Number) -> dict[str, Number]:
        """Return seconds by resource."""
        here, rates = self.setting, self.setting.rates
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

    def _tensor_rate(self, rates: Mapping[str, Array]) -> Number:
        """Return FLOP/s of the tensor cores at the width of the operands."""
        dots = [event for event in self.block.events if event.kind == "dot"]
        width = _largest_of([0.0, *(e.width * e.happens for e in dots)])
        exact = _sum_arrays([event.happens for event in dots if event.details.is_exact])
        fp8, bf16, tf32 = (rates[f"tensor.{name}"] for name in ("fp8", "bf16", "tf32"))
        widest = np.where(np.asarray(exact) > 0, rates["fp32"], tf32)
        return np.select([width <= 1, width <= 2], [fp8, bf16], widest)

    def _guessed_trips(self, unknown: Number) -> Number:
        return np.where(np.asarray(unknown) > 0, self.guessed, 1.0)

    def _loops_with_loads(self) -> list[tuple[Number, Number]]:
        """Return how often each loop with loads goes round, and 1 where that is unknown."""
        loads = [event for event in self.block.events if event.kind == "load"]
        waits: dict[int, tuple[Number, Number]] = {}
        for event in loads:
            often, unknown = waits.get(event.loop, (0.0, 0.0))
            unknown = np.fmax(unknown, event.unknown * event.happens)
            waits[event.loop] = np.fmax(often, event.times), unknown
        return list(waits.values())


def _bytes_per_trip(event: Event) -> Number:
    return event.elements * event.width


def _bytes_of_all_trips(event: Event) -> Number:
    return _bytes_per_trip(event) * event.times


def _contiguous_bytes(event: Event) -> Number:
    """Return bytes that lie together, up to a warp's widest access."""
    return np.clip(np.nan_to_num(event.details.run, nan=1.0) * event.width, 1, 512)


def _padded_products(event: Event) -> Number:
    rows, columns, depth = event.details.sizes
    whole = np.maximum(rows, 16) * np.maximum(columns, 8) * np.maximum(depth, 8)
    return event.elements * whole / (rows * columns * depth)


def _sum_of_events(events: Sequence[Event], measure: Callable[[Event], Number]) -> Number:
    return _sum_arrays([measure(event) for event in events])


def _sum_arrays(values: Sequence[Number]) -> Number:
    return functools.reduce(operator.add, values, 0.0)


def _largest_of(values: Sequence[Number]) -> Number:
    return functools.reduce(lambda one, other: np.fmax(one, other), values)


def _largest_where(events: Sequence[Event], values: Sequence[Number]) -> Number:
    """Return the largest value of the events that happen; NaN where none does."""
    pairs = zip(events, values, strict=True)
    return _largest_of([np.where(event.happens, value, np.nan) for event, value in pairs])


def _deepest_loop(events: Sequence[Event]) -> Number:
    return _largest_of([0.0, *(event.loops * event.happens for event in events)])


def _bounded_log2(value: Any) -> Array:
    return np.asarray(np.log2(np.maximum(value, _SMALL)))
