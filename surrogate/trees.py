"""Gradient-boosted trees over the features: what the kernel model leaves unexplained.

The target is log2(time / modelled), or log2(time / rough time) where there is no modelled time.
Rows near their problem's best weigh more, since that is where a choice is made; those of a kernel
with many less, or the others would hardly count.

Each model of the ensemble learns from all families but a fold of its own. Where a kernel is like
known ones they agree. Where they differ, their mean is drawn towards the kernel model, which has
learned nothing and so extrapolates better::

    mean = m / (1 + (s / c)²)      m, s: the members' mean and standard deviation, c: `_UNSURE_LOG2`

What was only captured has no modelled time, and a rough one is worse than members that differ.

What the ensemble is worth is learned from rows of families that its models did not know
(cross-validation by family): how wide its intervals must be
(`solkit.surrogate.conformal_intervals`), where it abstains, and how many candidates must be
measured to find a good one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from solkit.extras import library
from solkit.surrogate.conformal_intervals import GROUPS, Interval, fit_interval, group_folds
from solkit.surrogate.features import Array, feature_group
from solkit.surrogate.out_of_distribution import (
    CandidateBudget,
    OODDetector,
    VarianceComponents,
    fit_candidate_budget,
    fit_ood_detector,
    fit_variance_components,
    rows_by_cell,
)
from solkit.surrogate.stored_trees import StoredTrees
from solkit.surrogate.table import Table

_LEAST_FAMILIES = 3
"""A named parameter counts as a feature if as many families have it: others teach nothing about
kernels that were never seen."""


@dataclass(frozen=True)
class Settings:
    """Settings of growing trees.

    Attributes:
        members: models in the ensemble, each without a fold of the families; 1 for a single model
            that learns from all.
        rounds: trees of each.
        leaves: of a tree, at most; the leaf that gains most is split first.
        bins: of a feature.
        rate: learning rate.
        rows, columns: share that each tree sees.
        least_weight: hessian of a leaf, at least.
        focus: exponent of the weight of slow rows: (best / time) ** focus.
        crowd: exponent of the weight of rows of one kernel at one shape on one GPU: 1 / rows **
            crowd; 0 lets kernels count by their rows, 1 all kernels alike.
        most: rows of one kernel at one shape on one GPU that are learned from, drawn by hash.
        threads: of XGBoost; 0 for all cores. With one, the same rows give the same trees anywhere.
        leave_out: groups of features that are not used.
    """

    members: int = 5
    rounds: int = 200
    leaves: int = 64
    bins: int = 64
    rate: float = 0.1
    rows: float = 0.7
    columns: float = 0.4
    least_weight: float = 2.0
    focus: float = 0.5
    crowd: float = 0.5
    most: int = 16
    threads: int = 1
    leave_out: tuple[str, ...] = ()


DEFAULTS = Settings()

_UNSURE_LOG2 = 0.4
"""Members' standard deviation at which half of what they say counts. Chosen on kinds and families
left out; 0.3 to 0.6 do as well (docs/lab/surrogate.md)."""

_SIZES = Settings(rounds=80, leaves=24)
"""Settings of the model of residuals' sizes, which need less detail."""


@dataclass(frozen=True)
class Belief:
    """Expectation of an ensemble's members of log2(time / base).

    Attributes:
        member_mean: the mean of the members, (rows,).
        spread: their standard deviation, (rows,).
        modelled: where the base is a modelled time, (rows,).
    """

    member_mean: Array
    spread: Array
    modelled: Array

    @staticmethod
    def from_members(parts: Array, modelled: Array) -> Belief:
        """Average what each member says, (members, rows)."""
        spread = parts.std(axis=0, ddof=1) if len(parts) > 1 else np.zeros(parts.shape[1])
        return Belief(parts.mean(axis=0), np.asarray(spread), modelled)

    def __getitem__(self, rows: Array) -> Belief:
        """Select the beliefs of some rows."""
        return Belief(self.member_mean[rows], self.spread[rows], self.modelled[rows])

    @property
    def trust(self) -> Array:
        """Share of what the members say that counts, 0 to 1, (rows,)."""
        return np.where(self.modelled, 1 / (1 + np.square(self.spread / _UNSURE_LOG2)), 1.0)

    @property
    def mean(self) -> Array:
        """Expectation, drawn towards a modelled time where the members differ, (rows,)."""
        return np.asarray(self.member_mean * self.trust)

    def beside(self, values: Array) -> Array:
        """Return features (rows, names) with the spread as one more, for models of errors."""
        return np.column_stack([values, self.spread]).astype(np.float32)


@dataclass(frozen=True)
class Forecasts:
    """Expectation of a model of some candidates.

    Attributes:
        time_ms: (rows,).
        low_ms, high_ms: 90 % interval, (rows,) each; NaN if the model has none.
        size: of a typical error, in log2, (rows,); NaN likewise.
        abstains: whether the model does not trust itself, (rows,): the time is the kernel model's
            then, if it has one.
    """

    time_ms: Array
    low_ms: Array
    high_ms: Array
    size: Array
    abstains: Array

    @staticmethod
    def from_times(time_ms: Array) -> Forecasts:
        """Make forecasts of times without intervals."""
        nothing = np.full(len(time_ms), np.nan)
        trusted = np.zeros(len(time_ms), bool)
        return Forecasts(np.asarray(time_ms, float), nothing, nothing, nothing, trusted)

    def __getitem__(self, rows: Array) -> Forecasts:
        """Select the forecasts of some rows."""
        return Forecasts(*(column[rows] for column in self._columns()))

    def with_(self, rows: Array, other: Forecasts) -> Forecasts:
        """Replace the forecasts of some rows by another's."""
        columns = [np.array(column) for column in self._columns()]
        for mine, theirs in zip(columns, other._columns(), strict=True):
            mine[rows] = theirs
        return Forecasts(*columns)

    def _columns(self) -> tuple[Array, ...]:
        return self.time_ms, self.low_ms, self.high_ms, self.size, self.abstains


@dataclass(frozen=True)
class Calibration:
    """Worth of forecasts, learned from those of rows that were left out.

    Attributes:
        interval: around what the models expect.
        doubt: where they abstain.
        reach: how far below the best forecast the best candidate may hide.
        scatter: how residuals of rows that have something in common resemble each other.
        fallback: interval around the kernel model where the models abstain, in log2.
    """

    interval: Interval
    doubt: OODDetector
    reach: CandidateBudget
    scatter: VarianceComponents
    fallback: tuple[float, float] = (-np.inf, np.inf)

    @staticmethod
    def from_left_out(
        table: Table, values: Array, belief: Belief, settings: Settings = DEFAULTS, seed: int = 0
    ) -> Calibration:
        """Learn it.

        Args:
            table: with times.
            values: features of its rows, (rows, names).
            belief: what was expected of each row by models that did not know its family.
            settings: `Settings.threads` counts.
            seed: of the model of sizes.
        """
        targets, families = log2_target(table), table.about["family"]
        folds = group_folds(families)
        sizes = replace(_SIZES, threads=settings.threads)

        def fit_sizes(inputs: Array, sized: Array) -> BoostedTrees:
            return _grow_trees(inputs, sized, None, sizes, seed)

        residual = targets - belief.mean
        interval, size = fit_interval(belief.beside(values), residual, families, fit_sizes)
        doubt, abstains = fit_ood_detector(values, size, folds)
        fallback = -np.inf, np.inf
        if abstains.any():
            low, high = np.quantile(targets[abstains], (0.05, 0.95))
            fallback = float(low), float(high)
        forecast = np.log2(table.base_ms) + belief.mean
        reach, scatter = (
            fit_candidate_budget(table, forecast, size),
            fit_variance_components(table, residual, size),
        )
        return Calibration(interval, doubt, reach, scatter, fallback)


@dataclass(frozen=True)
class Trees:
    """A fitted ensemble.

    Attributes:
        names: of the features, in the order of the columns.
        members: the models.
        calibration: what its forecasts are worth.
        kernels: ids of those that it learned from, shortened (`_shortened_kernel_ids`); it never
            abstains on them.
        left_out_ms: each row of the table as models forecast it that did not know its family,
            (rows,); empty if the ensemble was read from a file.
    """

    names: tuple[str, ...]
    members: tuple[BoostedTrees, ...]
    calibration: Calibration
    kernels: frozenset[str] = frozenset()
    left_out_ms: Array = field(default_factory=lambda: np.empty(0), repr=False)

    @staticmethod
    def fit(
        table: Table,
        settings: Settings = DEFAULTS,
        seed: int = 0,
        left_out: Belief | None = None,
        workers: int = 1,
    ) -> Trees:
        """Grow an ensemble on all rows of a table.

        Args:
            table: with times.
            settings: of the trees.
            seed: of the trees.
            left_out: what `expect_out_of_family` found for these rows, if that is at hand.
            workers: models that grow at a time; the trees do not depend on it.
        """
        names, members = grow_ensemble(table, settings, seed, workers)
        values = columns_of(table, names)
        if left_out is None:
            left_out = expect_out_of_family(table, settings, seed, workers)
        calibration = Calibration.from_left_out(table, values, left_out, settings, seed)
        left_out_ms = table.base_ms * 2.0**left_out.mean
        kernels = frozenset(_shortened_kernel_ids(table))
        return Trees(names, members, calibration, kernels, left_out_ms)

    def forecast(self, table: Table) -> Forecasts:
        """Forecast times and intervals of a table's rows, whose own times are not read."""
        values = columns_of(table, self.names)
        belief = self.believed(values, is_modelled(table))
        return self.forecasts_of(values, belief, table.base_ms, familiar=self.knows_kernels(table))

    def knows_kernels(self, table: Table) -> Array:
        """Tell for each row whether it is of a kernel that it learned from, (rows,)."""
        return np.isin(_shortened_kernel_ids(table), sorted(self.kernels))

    def believed(self, values: Array, modelled: Array) -> Belief:
        """Return what the ensemble expects.

        Args:
            values: features, (rows, names).
            modelled: where the base is a modelled time, (rows,).
        """
        return _expect_by_members(self.members, values, modelled)

    def size(self, values: Array, belief: Belief) -> Array:
        """Return the size of a typical error, in log2, (rows,)."""
        return self.calibration.interval.size(belief.beside(values))

    def forecasts_of(
        self,
        values: Array,
        belief: Belief,
        base_ms: Array,
        shift: Array | float = 0.0,
        narrower: Array | float = 1.0,
        familiar: Array | bool = False,
    ) -> Forecasts:
        """Make forecasts around a mean.

        Args:
            values: features, (rows, names).
            belief: of log2(time / base).
            base_ms: the modelled time, or a rough one, (rows,).
            shift: what measured points add to the mean, (rows,).
            narrower: how much smaller errors are than of an unknown kernel, (rows,).
            familiar: whether the kernel is known, (rows,): it abstains on none of these.
        """
        size, mean = self.size(values, belief) * narrower, belief.mean + shift
        interval, fallback = self.calibration.interval, self.calibration.fallback
        low, high = mean + interval.low * size, mean + interval.high * size
        abstains = self.calibration.doubt.abstains(values, size) & ~np.asarray(familiar)
        trusted = ~(abstains & belief.modelled)
        mean = np.where(trusted, mean, 0.0)
        low = np.where(trusted, low, fallback[0])
        high = np.where(trusted, high, fallback[1])
        return Forecasts(
            base_ms * 2.0**mean, base_ms * 2.0**low, base_ms * 2.0**high, size, abstains
        )


_FEW_ROWS = 1000
"""Rows that a model forecasts without XGBoost: that takes as long as to import it."""


@dataclass(frozen=True)
class BoostedTrees:
    """One XGBoost model, as it was grown or as it is stored.

    Attributes:
        grown: XGBoost's object; ``None`` if there is a file.
        content: the file's.
    """

    grown: Any = field(default=None, repr=False)
    content: bytes = field(default=b"", repr=False)
    _rows: list[int] = field(default_factory=lambda: [0], init=False, repr=False, compare=False)

    @cached_property
    def booster(self) -> Any:
        """XGBoost's object, loaded if it is needed."""
        if self.grown is not None:
            return self.grown
        booster = xgboost().Booster()
        booster.load_model(bytearray(self.content))
        # more threads cost more than they save: 20 rows took 50 ms on two busy cores, not 2
        booster.set_param({"nthread": 1})
        return booster

    @cached_property
    def stored(self) -> StoredTrees:
        """The file's nodes; raises ValueError if it holds none."""
        return StoredTrees.parse(self.content)

    def _is_few(self, values: Array) -> bool:
        """Tell whether these rows and those before are few; both ways give the same bits."""
        self._rows[0] += len(values)
        return bool(self.content) and self._rows[0] <= _FEW_ROWS

    def predict(self, values: Array) -> Array:
        """Predict (rows,) from features (rows, names)."""
        if "booster" not in vars(self) and self._is_few(values):
            return self.stored.predict(values)
        return np.asarray(self.booster.inplace_predict(values))

    def leaves(self, values: Array) -> Array:
        """Return the leaf of each tree that a row is in, (rows, trees)."""
        if "booster" not in vars(self) and self._is_few(values):
            return self.stored.leaves(values)
        return np.asarray(self.booster.predict(_data_matrix(values), pred_leaf=True))

    def contributions(self, values: Array) -> Array:
        """Return SHAP values by feature, and the mean in the last column, (rows, names + 1)."""
        return np.asarray(self.booster.predict(_data_matrix(values), pred_contribs=True))


def _data_matrix(values: Array) -> Any:
    return xgboost().DMatrix(values, nthread=1)  # small ones: see `solkit.surrogate.model`


def useful_features(table: Table, settings: Settings) -> list[str]:
    """Return names of features that vary; of parameters those that several families have."""
    families = np.unique(table.about["family"], return_inverse=True)[1]
    useful_names = []
    for name in table.names:
        if feature_group(name) in settings.leave_out:
            continue
        column = table.column(name)
        present = ~np.isnan(column)
        is_named = name.startswith("params.") and not name.startswith("params.constant_")
        if is_named and len(np.unique(families[present])) < _LEAST_FAMILIES:
            continue
        if present.any() and (not present.all() or column.min() < column.max()):
            useful_names.append(name)
    return useful_names


def _grow_trees(
    values: Array, targets: Array, weight: Array | None, settings: Settings, seed: int
) -> BoostedTrees:
    xgb = xgboost()
    threads = settings.threads or None
    options = {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": settings.leaves,
        "max_bin": settings.bins,
        "eta": settings.rate,
        "subsample": settings.rows,
        "colsample_bynode": settings.columns,
        "min_child_weight": settings.least_weight,
        "seed": seed,
        "nthread": threads,
    }
    data = xgb.QuantileDMatrix(
        values, targets, weight=weight, nthread=threads, max_bin=settings.bins
    )
    return BoostedTrees(xgb.train(options, data, settings.rounds))


def grow_ensemble(
    table: Table, settings: Settings = DEFAULTS, seed: int = 0, workers: int = 1
) -> tuple[tuple[str, ...], tuple[BoostedTrees, ...]]:
    """Return the features that are worth using, and models that learned a table's rows by them."""
    table = table[drawn_rows(table, settings.most)]
    names = tuple(useful_features(table, settings))
    grow = _TreeGrower(table, names, settings, 1000 * seed)
    folds = group_folds(table.about["family"], settings.members)
    masks = [folds != fold for fold in range(settings.members)]
    masks = [train if train.any() else ~train for train in masks]  # all, if it has all
    return names, tuple(grow.grow_models(masks, range(settings.members), workers))


def expect_out_of_family(
    table: Table, settings: Settings = DEFAULTS, seed: int = 0, workers: int = 1
) -> Belief:
    """Return what models expect of each row that did not learn from its family.

    Each model leaves out two folds of the families, so that a row has several that do not know it,
    which differ as members differ on what none of them knows; with one member a single one. Where
    there are no other families, 0 is expected.
    """
    names = tuple(useful_features(table, settings))
    folds = group_folds(table.about["family"])
    learned = np.flatnonzero(drawn_rows(table, settings.most))
    grow = _TreeGrower(table[learned], names, settings, 1000 * seed)
    values = columns_of(table, names)
    if settings.members > 1:
        pairs = list(itertools.combinations(range(GROUPS), 2))
    else:
        pairs = [(fold, fold) for fold in range(GROUPS)]
    parts: defaultdict[int, list[Array]] = defaultdict(list)
    masks = [~np.isin(folds[learned], pair) for pair in pairs]
    places = [place for place, train in enumerate(masks) if train.any()]
    models = grow.grow_models([masks[place] for place in places], places, workers)
    for place, grown in zip(places, models, strict=True):
        for fold in dict.fromkeys(pairs[place]):
            parts[fold].append(grown.predict(values[folds == fold]))
    overall = Belief(np.zeros(len(table)), np.zeros(len(table)), is_modelled(table))
    for fold, predictions in parts.items():
        rows = folds == fold
        belief = Belief.from_members(np.array(predictions), overall.modelled[rows])
        overall.member_mean[rows] = belief.member_mean
        overall.spread[rows] = belief.spread
    return overall


@dataclass
class _TreeGrower:
    """Grows models on some rows of a table."""

    table: Table
    names: tuple[str, ...]
    settings: Settings
    seed: int

    def __post_init__(self) -> None:
        self.values, self.wanted = columns_of(self.table, self.names), log2_target(self.table)
        self.weight = row_weights(self.table, self.settings.focus, self.settings.crowd)

    def __call__(self, rows: Array, place: int) -> BoostedTrees:
        """Return a model of the rows of a mask."""
        return _grow_trees(
            self.values[rows],
            self.wanted[rows],
            self.weight[rows],
            self.settings,
            self.seed + place,
        )

    def grow_models(
        self, masks: Sequence[Array], places: Sequence[int], workers: int
    ) -> list[BoostedTrees]:
        """Return a model of the rows of each mask; several grow at a time, each on its threads."""
        with ThreadPoolExecutor(workers) as threads:  # XGBoost holds no lock of Python's
            return list(threads.map(self, masks, places))


def _expect_by_members(members: Sequence[BoostedTrees], values: Array, modelled: Array) -> Belief:
    return Belief.from_members(np.array([member.predict(values) for member in members]), modelled)


def _shortened_kernel_ids(table: Table) -> Array:
    """Return eight digits of each row's kernel id, (rows,): enough for thousands of kernels."""
    return table.about["kernel_id"].astype(str).astype("U8")


def is_modelled(table: Table) -> Array:
    """Tell for each row whether it has a modelled time, (rows,)."""
    return ~np.isnan(table.modelled_ms)


def drawn_rows(table: Table, most: int) -> Array:
    """Tell for each row whether it is learned from, (rows,): at most `most` of a cell."""
    kept = np.ones(len(table), bool)
    for rows in rows_by_cell(table):
        if len(rows) > most:
            params = table.about["params"][rows]
            chance = [hashlib.sha256(str(param).encode()).digest() for param in params]
            order = sorted(range(len(rows)), key=chance.__getitem__)
            kept[rows[order[most:]]] = False
    return kept


def log2_target(table: Table) -> Array:
    """Return what is learned, (rows,)."""
    return np.asarray(np.log2(table.time_ms / table.base_ms))


def row_weights(table: Table, focus: float, crowd: float = 0.0) -> Array:
    """Return (best on the GPU / time) ** focus, less where a kernel has many rows, (rows,).

    Args:
        table: with times.
        focus: see `Settings`.
        crowd: see `Settings`.
    """
    pairs = np.char.add(np.char.add(table.about["problem_id"], " "), table.about["device"])
    _, place = np.unique(pairs, return_inverse=True)
    best = np.full(place.max() + 1, np.inf)
    np.minimum.at(best, place, table.time_ms)
    return np.asarray((best[place] / table.time_ms) ** focus * _crowding_weights(table, crowd))


def _crowding_weights(table: Table, crowd: float) -> Array:
    """Return 1 / (rows of a kernel at a shape on a GPU) ** crowd, 1 in the mean, (rows,)."""
    crowding = np.empty(len(table))
    for rows in rows_by_cell(table):
        crowding[rows] = len(rows) ** -crowd
    return np.asarray(crowding / crowding.mean())


def columns_of(table: Table, names: Sequence[str]) -> Array:
    """Return features by name, (rows, names); NaN where the table lacks one."""
    place_of = {name: place for place, name in enumerate(table.names)}
    values = np.full((len(table), len(names)), np.nan, np.float32)
    for place, name in enumerate(names):
        if name in place_of:
            values[:, place] = table.values[:, place_of[name]]
    return values


def xgboost() -> Any:
    """Return the module.

    Raises:
        UnsupportedError: it is not installed.
    """
    return library("xgboost")
