"""Forecasters that can be evaluated: the surrogate's trees, and what they must beat.

A forecaster learns from the rows of a fold and forecasts the times of others. It never sees the
times of the rows that it is asked about.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from solkit.core import Depth
from solkit.surrogate.evaluation.splits import Fold, configurations_of
from solkit.surrogate.features import Array, group_of
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Table
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    Forecasts,
    Settings,
    Trees,
    columns_of,
    ensemble,
)

__all__ = [
    "BASELINES",
    "Forecaster",
    "OnTrees",
    "for_fold",
    "forecasters_for",
    "kernel_model",
    "lookup",
    "nearest",
    "on_knobs",
    "random",
    "repeated",
    "transferred",
    "trees",
]

Forecaster = Callable[[Table, Table], Forecasts]
"""From the rows to learn from and the rows to forecast to the times of the latter."""

_ALIKE = 25
"""Repeats of shorter, and of longer times, from which a row's deviation is drawn."""

_MOST_KNOWN = 30_000
_BLOCK = 256
"""Points whose distances to all known ones are held at once."""

_KNOBS = ("device", "tiles", "model", "machine", "requests")


@dataclass(frozen=True)
class OnTrees:
    """A forecaster: trees on what the kernel model leaves unexplained.

    Attributes:
        settings: of the trees.
        seed: of the trees.
        left_out: what `solkit.surrogate.trees.out_of_family` says of the rows that it learns from,
            ``None`` to find out. Intervals rest on it. Finding out takes longer than learning; once
            for the whole table serves all folds.
        points: how many measured rows of each family that is asked about are learned on the job
            first (`solkit.surrogate.model.Surrogate.update`); these have no forecast.
    """

    settings: Settings = DEFAULTS
    seed: int = 0
    left_out: Belief | None = field(default=None, repr=False)
    points: int = 0

    def __call__(self, known: Table, asked: Table) -> Forecasts:
        """Learn, and forecast; if `points` are asked for, after they were measured."""
        grown = self.grown(known)
        return self.informed(grown, asked) if self.points else grown.forecast(asked)

    def grown(self, known: Table) -> Trees:
        """What it learns."""
        return Trees.fit(known, self.settings, self.seed, self.left_out)

    def informed(self, grown: Trees, asked: Table) -> Forecasts:
        """Forecasts after some rows of each family were measured; NaN for these."""
        return _informed(grown, asked, self)

    def among(self, rows: Array) -> OnTrees:
        """The forecaster that learns from some rows of the table that `left_out` is about."""
        return self if self.left_out is None else replace(self, left_out=self.left_out[rows])


def for_fold(forecaster: Forecaster, fold: Fold) -> Forecaster:
    """A forecaster for the rows that a fold learns from."""
    return forecaster.among(fold.train) if isinstance(forecaster, OnTrees) else forecaster


def trees(settings: Settings = DEFAULTS, seed: int = 0) -> OnTrees:
    """Trees on what the kernel model leaves unexplained."""
    return OnTrees(settings, seed)


def _informed(grown: Trees, asked: Table, how: OnTrees) -> Forecasts:
    """Forecasts after some rows of each family were measured; NaN for these."""
    depth = Depth.COMPILED  # a name only: there is but one
    model = Surrogate({"depths": [depth.value]}, {}, lambda _: grown)
    found = Forecasts.of(np.full(len(asked), np.nan))
    random = np.random.default_rng(how.seed)
    families = asked.about["family"]
    for family in np.unique(families):
        rows = random.permutation(np.flatnonzero(families == family))
        known, rest = rows[: how.points], np.sort(rows[how.points :])
        if len(rest):
            told = model.update(asked[known], depth).forecast(asked[rest], depth)
            found = found.with_(rest, told)
    return found


def transferred(settings: Settings = DEFAULTS, seed: int = 0) -> Forecaster:
    """From the same configuration's time on another GPU; trees learn what the models' ratio misses.

    The base is the time there times the ratio of the modelled times. The trees read the features
    here, and how far the time there was from the modelled one. Rows that were not timed elsewhere
    have no forecast.
    """
    return functools.partial(_transferred, settings=settings, seed=seed)


def _transferred(known: Table, asked: Table, settings: Settings, seed: int) -> Forecasts:
    taught, wanted = _beside(known, known), _beside(known, asked)
    rows = np.flatnonzero(~np.isnan(taught.modelled_ms))
    if not len(rows):
        return Forecasts.of(wanted.modelled_ms)
    return trees(settings, seed)(taught[rows], wanted)


def lookup(known: Table, asked: Table) -> Forecasts:
    """The same configuration's time on another GPU, as it was there."""
    return Forecasts.of(_there(known, asked)[0])


def _beside(known: Table, asked: Table) -> Table:
    """Rows with another GPU's time: in the base, and as a feature; NaN where there is none."""
    time_ms, base_ms = _there(known, asked)
    gap = np.log2(time_ms / base_ms)
    return replace(
        asked,
        names=(*asked.names, "model.gap_elsewhere"),
        values=np.column_stack([asked.values, gap.astype(np.float32)]),
        modelled_ms=time_ms * asked.base_ms / base_ms,
    )


def _there(known: Table, asked: Table) -> tuple[Array, Array]:
    """Time and base of the same configuration on another GPU, (rows,) each; NaN if none."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    devices = known.about["device"].astype(str)
    places = dict.fromkeys(devices.tolist())
    rows = zip(configurations_of(known), devices, known.time_ms, known.base_ms, strict=True)
    for name, device, time_ms, base_ms in rows:
        found[str(name), device] = float(time_ms), float(base_ms)
    told = [
        next(
            (
                found[str(name), other]
                for other in places
                if other != device and (str(name), other) in found
            ),
            (np.nan, np.nan),
        )
        for name, device in zip(
            configurations_of(asked), asked.about["device"].astype(str), strict=True
        )
    ]
    times = np.array(told, float).reshape(len(told), 2)
    return times[:, 0], times[:, 1]


def repeated(_: Table, asked: Table) -> Forecasts:
    """The noise ceiling: the times themselves, as far off as repeats of such times were.

    A row that was timed again has its own deviation, another that of a row of about its time.
    """
    known = np.flatnonzero(~np.isnan(asked.repeat_log2))
    if not len(known):
        return Forecasts.of(np.full(len(asked), np.nan))
    order = known[np.argsort(asked.time_ms[known], kind="stable")]
    place = np.searchsorted(asked.time_ms[order], asked.time_ms)
    chance = np.random.default_rng(0).integers(-_ALIKE, _ALIKE + 1, len(asked))
    like = asked.repeat_log2[order[np.clip(place + chance, 0, len(order) - 1)]]
    off = np.where(np.isnan(asked.repeat_log2), like, asked.repeat_log2)
    return Forecasts.of(asked.time_ms * 2.0**off)


def on_knobs(settings: Settings = DEFAULTS, seed: int = 0) -> Forecaster:
    """Trees on parameters and geometry alone, as other tuners have them; times only."""
    bare = replace(settings, leave_out=_KNOBS)
    return functools.partial(_on_knobs, settings=bare, seed=seed)


def _on_knobs(known: Table, asked: Table, settings: Settings, seed: int) -> Forecasts:
    known, asked = _unmodelled(known), _unmodelled(asked)
    if all(group_of(name) in _KNOBS for name in known.names):
        return random(known, asked)  # there are no knobs
    names, members = ensemble(known, settings, seed)
    values = columns_of(asked, names)
    mean = np.mean([each.predict(values) for each in members], axis=0)
    return Forecasts.of(asked.base_ms * 2.0**mean)


def _unmodelled(table: Table) -> Table:
    """Relative to the roofline: without the modelled time, and the rough one."""
    return replace(table, modelled_ms=table.sol_ms)


def kernel_model(_: Table, asked: Table) -> Forecasts:
    """The modelled time; nothing is learned."""
    return Forecasts.of(np.where(np.isnan(asked.modelled_ms), asked.sol_ms, asked.modelled_ms))


def random(known: Table, asked: Table) -> Forecasts:
    """The typical gap, times noise that has nothing to do with the candidate."""
    gaps = np.log2(known.time_ms / known.sol_ms)
    drawn = np.random.default_rng(0).normal(np.median(gaps), 1e-6, len(asked))
    return Forecasts.of(asked.sol_ms * 2.0**drawn)


def nearest(known: Table, asked: Table) -> Forecasts:
    """The gap of the nearest row in standardised features; what is unknown is average.

    Of many known rows it is the nearest of a sample.
    """
    if len(known) > _MOST_KNOWN:
        known = known[np.sort(np.random.default_rng(0).permutation(len(known))[:_MOST_KNOWN])]
    columns = [
        place
        for place, name in enumerate(known.names)
        if not name.startswith("params.") and not np.isnan(known.values[:, place]).all()
    ]
    mean = np.nanmean(known.values[:, columns], axis=0)
    spread = np.nanstd(known.values[:, columns], axis=0) + 1e-6

    def scaled(table: Table) -> Array:
        return np.asarray(np.nan_to_num((table.values[:, columns] - mean) / spread), np.float32)

    place = _nearest(scaled(known), scaled(asked))
    return Forecasts.of(asked.sol_ms * (known.time_ms / known.sol_ms)[place])


def _nearest(known: Array, asked: Array) -> Array:
    """The nearest known point of each asked one, (asked,): trees do not help in so many dimensions.

    Squared distances, less what all known points share, a block at a time.
    """
    sizes = (known.astype(np.float64) ** 2).sum(axis=1)
    blocks = np.array_split(asked, len(asked) // _BLOCK + 1)
    return np.concatenate([np.argmin(sizes - 2 * (each @ known.T), axis=1) for each in blocks])


BASELINES: dict[str, Forecaster] = {
    "kernel_model": kernel_model,
    "knobs": on_knobs(),
    "nearest": nearest,
    "random": random,
    "noise_ceiling": repeated,
}
"""What is shown beside a model."""


def forecasters_for(
    split: str,
    baselines: bool = True,
    seed: int = 0,
    settings: Settings = DEFAULTS,
    left_out: Belief | None = None,
) -> dict[str, Forecaster]:
    """What is evaluated on a split: the surrogate, whose name is empty, and what it must beat."""
    ours: Forecaster = OnTrees(settings, seed, left_out)
    if split == "transfer":
        ours = transferred(settings, seed)
    found = {"": ours}
    if baselines:
        found |= BASELINES | ({"lookup": lookup} if split == "transfer" else {})
    return found
