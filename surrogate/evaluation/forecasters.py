"""Forecasters that can be evaluated: the surrogate's trees, and what they must beat.

A forecaster learns from the rows of a fold and forecasts the times of others. It never sees the
times of the rows that it is asked about.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solkit.core import Depth
from solkit.surrogate.evaluation.splits import Fold, configurations_of
from solkit.surrogate.features import Array, feature_group
from solkit.surrogate.gaussian_process import GaussianProcess
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Table
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    BoostedTrees,
    Forecasts,
    Settings,
    Trees,
    columns_of,
    grow_ensemble,
)

Forecaster = Callable[[Table, Table], Forecasts]
"""Function of the rows to learn from and the rows to forecast, to the times of the latter."""

_ALIKE = 25
"""Repeats of shorter, and of longer times, from which a row's deviation is drawn."""

_MOST_KNOWN = 30_000
_BLOCK = 256
"""Points whose distances to all known ones are held at once."""

_KNOBS = ("device", "tiles", "model", "machine", "requests")

_TILEWISE = (
    *("geometry.blocks", "geometry.blocks_per_sm", "geometry.least_waves", "geometry.busy"),
    *("geometry.bytes_per_block", "geometry.operations_per_thread", "geometry.threads_per_sm"),
)
"""Features that NeuSight (Lee et al., ASPLOS 2025) reads: work of a tile, tiles, waves."""
_PLAIN_KNOBS = ("geometry.warps", "geometry.stages", "geometry.clusters")
_NOISE = 0.05
"""Variance of a measured gap in a process over knobs, where gaps vary by 1."""


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

    def __call__(self, train: Table, test: Table) -> Forecasts:
        """Learn, and forecast; if `points` are asked for, after they were measured."""
        grown = self.grown(train)
        return self.forecast_after_update(grown, test) if self.points else grown.forecast(test)

    def grown(self, train: Table) -> Trees:
        """Learn from rows."""
        return Trees.fit(train, self.settings, self.seed, self.left_out)

    def forecast_after_update(self, grown: Trees, test: Table) -> Forecasts:
        """Forecast after some rows of each family were measured; NaN for these."""
        return _forecast_after_update(grown, test, self)

    def restrict_to_rows(self, rows: Array) -> OnTrees:
        """Return the forecaster that learns from some rows of `left_out`'s table."""
        return self if self.left_out is None else replace(self, left_out=self.left_out[rows])


def forecaster_of_fold(forecaster: Forecaster, fold: Fold) -> Forecaster:
    """Return a forecaster for the rows that a fold learns from."""
    return (
        forecaster.restrict_to_rows(fold.train) if isinstance(forecaster, OnTrees) else forecaster
    )


def _forecast_after_update(grown: Trees, test: Table, how: OnTrees) -> Forecasts:
    """Forecast after some rows of each family were measured; NaN for these."""
    depth = Depth.COMPILED  # a name only: there is but one
    model = Surrogate({"depths": [depth.value]}, {}, lambda _: grown)
    forecasts = Forecasts.from_times(np.full(len(test), np.nan))
    for measured, rest in split_by_measured(test, how.points, how.seed):
        if len(rest):
            rest_forecasts = model.update(test[measured], depth).forecast(test[rest], depth)
            forecasts = forecasts.with_(rest, rest_forecasts)
    return forecasts


def transfer_forecaster(settings: Settings = DEFAULTS, seed: int = 0) -> Forecaster:
    """Forecast from the time on another GPU; trees learn what the models' ratio misses.

    The base is the time there times the ratio of the modelled times. The trees read the features
    here, and how far the time there was from the modelled one. Rows that were not timed elsewhere
    have no forecast.
    """
    return functools.partial(_forecast_by_transfer, settings=settings, seed=seed)


def _forecast_by_transfer(train: Table, test: Table, settings: Settings, seed: int) -> Forecasts:
    train_beside, test_beside = (
        _with_other_gpu_times(train, train),
        _with_other_gpu_times(train, test),
    )
    rows = np.flatnonzero(~np.isnan(train_beside.modelled_ms))
    if not len(rows):
        return Forecasts.from_times(test_beside.modelled_ms)
    return OnTrees(settings, seed)(train_beside[rows], test_beside)


def forecast_by_lookup(train: Table, test: Table) -> Forecasts:
    """Return the same configuration's time on another GPU, as it was there."""
    return Forecasts.from_times(_times_on_other_gpu(train, test)[0])


def _with_other_gpu_times(train: Table, test: Table) -> Table:
    """Return rows with another GPU's time: in the base, and as a feature; NaN without one."""
    time_ms, base_ms = _times_on_other_gpu(train, test)
    gap = np.log2(time_ms / base_ms)
    return replace(
        test,
        names=(*test.names, "model.gap_elsewhere"),
        values=np.column_stack([test.values, gap.astype(np.float32)]),
        modelled_ms=time_ms * test.base_ms / base_ms,
    )


def _times_on_other_gpu(train: Table, test: Table) -> tuple[Array, Array]:
    """Return time and base of the same configuration on another GPU, (rows,) each; NaN if none."""
    timed: dict[tuple[str, str], tuple[float, float]] = {}
    devices = train.about["device"].astype(str)
    places = dict.fromkeys(devices.tolist())
    rows = zip(configurations_of(train), devices, train.time_ms, train.base_ms, strict=True)
    for name, device, time_ms, base_ms in rows:
        timed[str(name), device] = float(time_ms), float(base_ms)
    pairs = [
        next(
            (
                timed[str(name), other]
                for other in places
                if other != device and (str(name), other) in timed
            ),
            (np.nan, np.nan),
        )
        for name, device in zip(
            configurations_of(test), test.about["device"].astype(str), strict=True
        )
    ]
    times = np.array(pairs, float).reshape(len(pairs), 2)
    return times[:, 0], times[:, 1]


def forecast_noise_ceiling(_: Table, test: Table) -> Forecasts:
    """Return the noise ceiling: the times themselves, as far off as repeats of such times were.

    A row that was timed again has its own deviation, another that of a row of about its time.
    """
    timed_again = np.flatnonzero(~np.isnan(test.repeat_log2))
    if not len(timed_again):
        return Forecasts.from_times(np.full(len(test), np.nan))
    order = timed_again[np.argsort(test.time_ms[timed_again], kind="stable")]
    place = np.searchsorted(test.time_ms[order], test.time_ms)
    chance = np.random.default_rng(0).integers(-_ALIKE, _ALIKE + 1, len(test))
    like = test.repeat_log2[order[np.clip(place + chance, 0, len(order) - 1)]]
    off = np.where(np.isnan(test.repeat_log2), like, test.repeat_log2)
    return Forecasts.from_times(test.time_ms * 2.0**off)


def forecast_on_knobs(train: Table, test: Table) -> Forecasts:
    """Forecast by trees on named parameters and geometry, as other tuners have them; times only."""
    train, test = (_with_named_parameters(_unmodelled(table)) for table in (train, test))
    if all(feature_group(name) in _KNOBS for name in train.names):
        return forecast_at_random(train, test)  # there are no knobs
    names, members = grow_ensemble(train, replace(DEFAULTS, leave_out=_KNOBS))
    return _forecast_of_members(members, test, names, test.base_ms)


def forecast_as_neusight(train: Table, test: Table) -> Forecasts:
    """Forecast by trees on what NeuSight reads: a tile's work, tiles, waves and the device.

    NeuSight learns the share of the roofline that tiles reach; so the base is the roofline.
    """
    places = [
        place
        for place, name in enumerate(train.names)
        if name in _TILEWISE or feature_group(name) in ("problem", "device")
    ]
    if not places:
        return forecast_at_random(train, test)
    names = tuple(train.names[place] for place in places)
    bare = replace(_unmodelled(train), names=names, values=train.values[:, places])
    members = grow_ensemble(bare)[1]
    return _forecast_of_members(members, test, names, test.sol_ms)


def _forecast_of_members(
    members: Sequence[BoostedTrees], test: Table, names: tuple[str, ...], base_ms: Array
) -> Forecasts:
    """Return the mean of an ensemble's forecasts, each a factor of a base."""
    values = columns_of(test, names)
    mean = np.mean([member.predict(values) for member in members], axis=0)
    return Forecasts.from_times(base_ms * 2.0**mean)


@dataclass(frozen=True)
class OnKnobs:
    """A forecaster: a Gaussian process on parameters, as a tuner without a model has it.

    Attributes:
        points: how many rows of each family are measured first, the same as `OnTrees` measures;
            these have no forecast.
        seed: of their choice.
    """

    points: int
    seed: int = 0

    def __call__(self, _: Table, test: Table) -> Forecasts:
        """Learn from some rows of each family, and forecast the rest."""
        test = _with_named_parameters(test)
        forecasts = np.full(len(test), np.nan)
        for measured, rest in split_by_measured(test, self.points, self.seed):
            if len(rest):
                forecasts[rest] = _forecast_on_process(test, measured, rest)
        return Forecasts.from_times(forecasts)


def split_by_measured(test: Table, points: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of each family that are measured first, and the rest."""
    random = np.random.default_rng(seed)
    families = test.about["family"]
    for family in np.unique(families):
        rows = random.permutation(np.flatnonzero(families == family))
        yield rows[:points], np.sort(rows[points:])


def _forecast_on_process(test: Table, measured: Array, rest: Array) -> Array:
    """Return times of rows, from the gaps of measured rows and their distance in knobs."""
    places = [
        place
        for place, name in enumerate(test.names)
        if name in _PLAIN_KNOBS or feature_group(name) == "params"
    ]
    values = test.values[:, places].astype(np.float64)
    values = values[:, ~np.isnan(values[measured]).any(axis=0)]
    values = np.nan_to_num((values - values[measured].mean(axis=0)) / (np.nanstd(values, 0) + 1e-6))
    gaps = np.log2(test.time_ms[measured] / test.sol_ms[measured])
    centre, spread = float(np.mean(gaps)), float(np.std(gaps)) + 1e-6

    def covariance(one: Array, other: Array) -> Array:
        distances = ((one[:, None] - other) ** 2).sum(axis=-1) / max(values.shape[1], 1)
        return np.asarray(np.exp(-0.5 * distances))

    inputs, others = values[measured], values[rest]
    process = GaussianProcess(covariance(inputs, inputs), _NOISE)
    mean, _ = process.posterior(
        (gaps - centre) / spread, covariance(inputs, others), np.ones(len(rest))
    )
    return np.asarray(test.sol_ms[rest] * 2.0 ** (centre + spread * mean))


def _with_named_parameters(table: Table) -> Table:
    """Add each row's parameters by their names, which no feature of the surrogate has."""
    columns: dict[str, Array] = {}
    for row, text in enumerate(table.about["params"]):
        for name, value in json.loads(str(text) or "{}").items():
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            if isinstance(value, (int, float)):
                column = columns.setdefault(f"params.{name}", np.full(len(table), np.nan))
                column[row] = np.log2(value) if value > 0 and value is not True else value
    names = sorted(columns.keys() - set(table.names))
    added = np.stack([columns[name] for name in names], axis=1) if names else table.values[:, :0]
    values = np.concatenate([table.values, added.astype(np.float32)], axis=1)
    return replace(table, names=(*table.names, *names), values=values)


def _unmodelled(table: Table) -> Table:
    """Make a table relative to the roofline: without the modelled time, and the rough one."""
    return replace(table, modelled_ms=table.sol_ms)


def forecast_by_kernel_model(_: Table, test: Table) -> Forecasts:
    """Return the modelled time; nothing is learned."""
    return Forecasts.from_times(np.where(np.isnan(test.modelled_ms), test.sol_ms, test.modelled_ms))


def forecast_at_random(train: Table, test: Table) -> Forecasts:
    """Return the typical gap, times noise that has nothing to do with the candidate."""
    gaps = np.log2(train.time_ms / train.sol_ms)
    drawn = np.random.default_rng(0).normal(np.median(gaps), 1e-6, len(test))
    return Forecasts.from_times(test.sol_ms * 2.0**drawn)


def forecast_by_nearest(train: Table, test: Table) -> Forecasts:
    """Return the gap of the nearest row in standardised features; what is unknown is average.

    Of many known rows it is the nearest of a sample.
    """
    if len(train) > _MOST_KNOWN:
        train = train[np.sort(np.random.default_rng(0).permutation(len(train))[:_MOST_KNOWN])]
    columns = [
        place
        for place, name in enumerate(train.names)
        if not name.startswith("params.") and not np.isnan(train.values[:, place]).all()
    ]
    mean = np.nanmean(train.values[:, columns], axis=0)
    spread = np.nanstd(train.values[:, columns], axis=0) + 1e-6

    def standardise(table: Table) -> Array:
        return np.asarray(np.nan_to_num((table.values[:, columns] - mean) / spread), np.float32)

    place = _nearest_rows(standardise(train), standardise(test))
    return Forecasts.from_times(test.sol_ms * (train.time_ms / train.sol_ms)[place])


def _nearest_rows(train: Array, test: Array) -> Array:
    """Return the nearest known point of each, (asked,): trees do not help in so many dimensions.

    Squared distances, less what all known points share, a block at a time.
    """
    sizes = (train.astype(np.float64) ** 2).sum(axis=1)
    blocks = np.array_split(test, len(test) // _BLOCK + 1)
    return np.concatenate([np.argmin(sizes - 2 * (block @ train.T), axis=1) for block in blocks])


BASELINES: dict[str, Forecaster] = {
    "kernel_model": forecast_by_kernel_model,
    "knobs": forecast_on_knobs,
    "neusight": forecast_as_neusight,
    "nearest": forecast_by_nearest,
    "random": forecast_at_random,
    "noise_ceiling": forecast_noise_ceiling,
}
"""Forecasters that are shown next to a model."""


def forecasters_for(
    split: str,
    baselines: bool = True,
    seed: int = 0,
    settings: Settings = DEFAULTS,
    left_out: Belief | None = None,
) -> dict[str, Forecaster]:
    """Return the forecasters of a split: the surrogate, with an empty name, and its rivals."""
    ours: Forecaster = OnTrees(settings, seed, left_out)
    if split == "transfer":
        ours = transfer_forecaster(settings, seed)
    forecasters = {"": ours}
    if baselines:
        forecasters |= BASELINES | ({"lookup": forecast_by_lookup} if split == "transfer" else {})
    return forecasters
