"""Events of a block of a kernel, each with its count: the mean over sampled programs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from solkit.surrogate.program_values import Array, Number, Value


@dataclass(frozen=True)
class Details:
    """Particulars of accesses and products.

    Attributes:
        lanes: elements with those that are masked; of accesses.
        run: elements that lie next to each other in memory; NaN if data decide.
        sectors: bytes of memory's sectors for each byte.
        staged: bytes of operands that come from memory; of products.
        sizes: of a product: rows, columns and depth.
        hint: words for the cache that an access is given, in alphabetical order.
        is_exact: whether a product of 32-bit numbers is not rounded to TF32.
    """

    lanes: Number = 0.0
    run: Number = 1.0
    sectors: Number = 1.0
    staged: Number = 0.0
    sizes: tuple[Number, ...] = ()
    hint: str = ""
    is_exact: bool = False

    def over_samples(self, weights: Number) -> Details:
        """Return means over samples; of what a mask decides, over those that count."""
        return replace(
            self,
            lanes=_mean(self.lanes),
            run=_weighted_mean(self.run, weights),
            sectors=_weighted_mean(self.sectors, weights),
            staged=_mean(self.staged),
            sizes=tuple(map(_mean, self.sizes)),
        )


_PLAIN = Details()


@dataclass(frozen=True)
class Event:
    """Something that a block does.

    Attributes:
        kind: ``"load"``, ``"store"``, ``"atomic"``, ``"dot"``, ``"reduce"``, ``"scan"``,
            ``"slow"`` (special functions), ``"fast"`` (other arithmetic), ``"integer"`` (that of
            indices), ``"carried"`` (tensors that a loop keeps from one trip to the next).
        elements: that a block handles each time, without masked ones; of a product its
            multiply-adds.
        times: how often a block does it, on average.
        unknown: 1 where the number of trips of a loop around it is unknown, else 0.
        loops: loops around it.
        loop: number of the innermost loop around it; 0 without one.
        width: bytes of an element.
        details: of accesses and products.
    """

    kind: str
    elements: Number
    times: Number
    unknown: Number
    loops: int
    loop: int = 0
    width: Number = 4.0
    details: Details = _PLAIN

    @functools.cached_property
    def happens(self) -> Number:
        """1 for candidates whose blocks do it at all, else 0."""
        return np.asarray(np.asarray(self.times) > 0, float)


@dataclass
class Block:
    """Work of one block, (candidates,) each: a candidate's own, whatever the others do.

    Attributes:
        events: in the order of the text.
        largest: elements of its largest tensor.
        trips: of its longest nest of loops, of those that are known.
        branches: conditions that are not known before it runs.
        stages: software stages that its loops ask for themselves; 0 if they leave them to the
            launch.
        options: 1 where its loops ask for an option: ``"warp_specialize"``, ``"flatten"``, ...
    """

    events: list[Event] = field(default_factory=list)
    largest: Number = 1.0
    trips: Number = 1.0
    branches: Number = 0.0
    stages: Number = 0.0
    options: dict[str, Number] = field(default_factory=dict)


class EventRecorder:
    """Records the events of a block at the place where it is.

    Attributes:
        block: of the events.
        times: trips of all loops around this place, (candidates, samples).
        weight: share in which this place is reached.
        unknown: 1 where the number of trips of a loop around it is unknown, else 0.
        loops: loops around it.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.times: Number = 1.0
        self.weight: Number = 1.0
        self.unknown: Number = 0.0
        self.loops = 0
        self._loop = 0
        self._last_loop = 0
        self._is_silent = False

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Record nothing: this is a trial."""
        before, block = self._is_silent, self.block
        self._is_silent, self.block = True, Block()
        try:
            yield
        finally:
            self._is_silent, self.block = before, block

    @contextmanager
    def inside_loop(self, trips: Number) -> Iterator[None]:
        """Record events of a loop's body; NaN for trips that are unknown."""
        before = self.times, self.unknown, self._loop
        self.times = self.times * np.where(np.isnan(trips), 1.0, trips)
        self.unknown = np.fmax(self.unknown, np.isnan(trips))
        self.loops += 1
        self._last_loop += 1
        self._loop = self._last_loop
        self.block.trips = np.fmax(self.block.trips, _mean(self.times * self.weight))
        try:
            yield
        finally:
            self.times, self.unknown, self._loop = before
            self.loops -= 1

    @property
    def is_reached(self) -> Array:
        """Candidates whose blocks come to this place, (candidates,)."""
        return np.asarray(_mean(self.weight)) > 0

    def note_branch(self, share: Number) -> None:
        """Count a condition; NaN where it is not known before the kernel runs."""
        is_unsure = np.asarray(_mean(np.isnan(share))) > 0
        self.block.branches = self.block.branches + (is_unsure & self.is_reached)

    def note_loop(self, stages: Number, options: Mapping[str, Number]) -> None:
        """Note the stages, 0 for none, and the options, 1 if set, that a loop asks for."""
        block = self.block
        block.stages = np.fmax(block.stages, self.is_reached * np.nan_to_num(_mean(stages)))
        for name, value in options.items():
            is_set = self.is_reached & (np.asarray(_mean(value)) == 1)
            block.options[name] = np.fmax(block.options.get(name, 0.0), is_set)

    def note_size(self, value: Value) -> Value:
        """Return a value, after a look at its size."""
        if not value.points and value.sizes:
            size = np.where(self.is_reached, _mean(value.elements), 1.0)
            self.block.largest = np.fmax(self.block.largest, size)
        return value

    def record(
        self, kind: str, elements: Number, *, width: Number = 4.0, details: Details = _PLAIN
    ) -> None:
        """Add an event."""
        if self._is_silent:
            return
        often = np.asarray(self.times * self.weight, float)
        event = Event(
            kind,
            _weighted_mean(elements, often),
            _mean(often),
            np.asarray(np.asarray(_mean(self.unknown)) > 0, float),
            self.loops,
            self._loop,
            _mean(width),
            details if details is _PLAIN else details.over_samples(often),
        )
        self.block.events.append(event)


def _mean(number: Number) -> Number:
    """Return the mean over samples: a float, or (candidates,)."""
    if isinstance(number, float):
        return number
    values = np.asarray(number, float)
    if values.ndim == 2:
        values = np.add.reduce(values, axis=1) / values.shape[1]
    return float(values.reshape(-1)[0]) if values.size == 1 else values


def _weighted_mean(number: Number, weights: Number) -> Number:
    """Return the mean over samples that count; over all where none does."""
    if isinstance(number, float):
        return number
    values = np.asarray(number, float)
    if values.ndim < 2:
        return _mean(values)
    total = _mean(weights)
    weighted = _mean(values * weights) / np.where(np.asarray(total) > 0, total, 1.0)
    return _mean(np.where(np.asarray(total) > 0, weighted, _mean(values)))
