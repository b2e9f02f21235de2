"""The surrogate: one object that forecasts at every depth, learns on the job, and explains itself.

::

    model = Surrogate.load()                      # the shipped one
    forecasts = model.forecast(table, Depth.LOWERED)   # times, intervals, where it abstains
    model = model.update(table, Depth.LOWERED)    # with times measured since; a new object

A file of a surrogate is a zip archive: ``card.json`` says what it learned from and how well it
does, ``<depth>/about.json`` holds what goes with the trees, ``<depth>/*.ubj`` the trees, and
``<depth>/compile_s.json`` and ``gpu_s.json`` what goes with those of costs. If a language regressor
was trained for a depth, it is in ``<depth>/language/``, and ``<depth>/stacked.json`` says what it
counts beside the trees. A depth is read when it is first asked for.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from solkit import extras
from solkit.core import Depth, Device
from solkit.errors import InputError, UnsupportedError
from solkit.roofline.devices import find
from solkit.roofline.kernel.machines import unvalidated
from solkit.surrogate import shipped
from solkit.surrogate.conformal_intervals import Interval
from solkit.surrogate.costs import FIELDS, CostModel, Costs, CostTrees
from solkit.surrogate.ensemble import Stack, StackedRegressor
from solkit.surrogate.features import Array
from solkit.surrogate.online_gp import ObservedResiduals, ResidualGP
from solkit.surrogate.out_of_distribution import CandidateBudget, OODDetector, VarianceComponents
from solkit.surrogate.table import Table
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    BoostedTrees,
    Calibration,
    Forecasts,
    Settings,
    Trees,
    columns_of,
    is_modelled,
    xgboost,
)

SCHEMA = "solkit.surrogate/2"
_TRANSFORMERS = 5, 1  # the least release, as in pyproject.toml

_LEAF_DIGITS = 4
"""Significant digits of leaves: 0.01 %, far below what forecasts are off by."""
_ZEROED = ("base_weights", "loss_changes")
"""Parts of XGBoost's files on nodes beyond what forecasts and SHAP values need."""


@dataclass(frozen=True)
class Contribution:
    """Effect of one feature on a forecast.

    Attributes:
        feature: its name.
        value: of the candidate; ``None`` if unknown.
        factor: of the time: 1.2 means 20 % slower than without knowing it.
    """

    feature: str
    value: float | None
    factor: float


@dataclass(frozen=True)
class Surrogate:
    """A model of what kernels take beyond what the kernel model explains.

    Attributes:
        card: what it learned from, and figures, as JSON values.
        memories: what it learned on the job, by depth.
    """

    card: Mapping[str, Any]
    memories: Mapping[Depth, ResidualGP] = field(default_factory=dict)
    _trees: Callable[[Depth], Trees] = field(
        repr=False, default=lambda depth: _raise_unknown_depth(depth)
    )
    _costs: Callable[[Depth], CostModel] = field(repr=False, default=lambda _: CostModel({}))
    _stacked: Callable[[Depth], StackedRegressor | None] = field(repr=False, default=lambda _: None)

    @staticmethod
    def fit(
        tables: Mapping[Depth, Table],
        card: Mapping[str, Any],
        settings: Settings = DEFAULTS,
        seed: int = 0,
    ) -> Surrogate:
        """Learn from tables of each depth."""
        trees = {depth: Trees.fit(table, settings, seed) for depth, table in tables.items()}
        return Surrogate(dict(card), {}, trees.__getitem__)

    @property
    def depths(self) -> tuple[Depth, ...]:
        """The depths at which it can forecast."""
        return tuple(Depth(name) for name in self.card["depths"])

    def trees(self, depth: Depth) -> Trees:
        """Return the ensemble of a depth."""
        return self._trees(depth)

    def stacked(self, depth: Depth) -> StackedRegressor | None:
        """Return what the language regressor adds at a depth; ``None`` if nothing."""
        return self._stacked(depth)

    def with_language(self, stacked: Mapping[Depth, StackedRegressor]) -> Surrogate:
        """Return the surrogate with language regressors at some depths."""
        card = {**self.card, "language": [depth.value for depth in stacked]}
        return replace(self, card=card, _stacked=stacked.get)

    def without_language(self) -> Surrogate:
        """Return the trees alone."""
        return replace(self, _stacked=lambda _: None)

    def cost_model(self, depth: Depth) -> CostModel:
        """Return the cost model of candidates known to a depth; without parts if there is none."""
        return self._costs(depth)

    # ------------------------------------------------------------------------------ forecasting

    def forecast(self, table: Table, depth: Depth) -> Forecasts:
        """Forecast times of candidates, with 90 % intervals; the table's times are not read.

        Raises:
            UnsupportedError: nothing was ever timed on such a GPU.
        """
        if not len(table):
            return Forecasts.from_times(np.empty(0))
        for key in sorted(set(map(str, table.about["device"]))):
            _check_device(find(key))
        trees, values, belief = self._expect_rows(table, depth)
        base_ms = table.base_ms
        shift: Array | float = 0.0
        narrower: Array | float = 1.0
        familiar = trees.knows_kernels(table)
        if (memory := self.memories.get(depth)) is not None:
            queried = ObservedResiduals.from_table(table, trees.members[0].leaves(values))
            shift, narrower = memory.predict_residuals(queried, trees.size(values, belief))
            familiar |= memory.holds(queried)
        return trees.forecasts_of(values, belief, base_ms, shift, narrower, familiar)

    def _expect_rows(self, table: Table, depth: Depth) -> tuple[Trees, Array, Belief]:
        """Return a depth's trees, a table's features, and the belief on log2(time / base)."""
        trees, stacked = self._calibrated_trees(depth), self.stacked(depth)
        values = columns_of(table, trees.names)
        belief = trees.believed(values, is_modelled(table))
        if stacked is not None:
            belief = stacked.combine_beliefs(belief, stacked.language.forecast(table).mean)
        return trees, values, belief

    def _calibrated_trees(self, depth: Depth) -> Trees:
        """Return the trees, calibrated for what is asked beside them."""
        trees, stacked = self.trees(depth), self.stacked(depth)
        return trees if stacked is None else replace(trees, calibration=stacked.calibration)

    def update(self, table: Table, depth: Depth, stale: Array | float = 0.0) -> Surrogate:
        """Learn from measured candidates, which may be of a new kernel, shape, device or compiler.

        Args:
            table: with times; rows without are left out.
            depth: at which they were analysed.
            stale: how far a time may have drifted since, as a standard deviation in log2, (rows,).

        Returns:
            A surrogate that also knows these; the same points in the same order give the same one.
        """
        rows = np.flatnonzero(~np.isnan(table.time_ms))
        if not len(rows):
            return self
        stale = np.broadcast_to(stale, len(table))[rows]
        table = table[rows]
        trees, values, belief = self._expect_rows(table, depth)
        residual = np.log2(table.time_ms / table.base_ms) - belief.mean
        measured = ObservedResiduals.from_table(table, trees.members[0].leaves(values))
        memory = ResidualGP.from_residuals(
            trees.calibration.scatter, measured, residual, trees.size(values, belief), stale
        )
        if depth in self.memories:
            memory = self.memories[depth].and_(memory)
        return replace(self, memories={**self.memories, depth: memory})

    def number(self, forecasts: Forecasts, depth: Depth) -> int:
        """Return how many candidates must be measured, in the order of their forecasts.

        With 90 %, one within 2 % of the best is among them.
        """
        reach = self._calibrated_trees(depth).calibration.reach
        return reach.number(np.log2(forecasts.time_ms), forecasts.size)

    def costs(self, table: Table, depth: Depth) -> Costs:
        """Return seconds to compile and to measure each candidate; NaN if the model cannot tell."""
        return self.cost_model(depth).costs(table)

    def explain(self, table: Table, depth: Depth, most: int = 6) -> list[list[Contribution]]:
        """Explain what pushes each candidate's time most: SHAP values, as far as they count.

        Lundberg et al., "From local explanations to global understanding with explainable AI for
        trees" (2020), as XGBoost computes them.
        """
        trees = self.trees(depth)
        values = columns_of(table, trees.names)
        contributions = np.mean([member.contributions(values) for member in trees.members], axis=0)
        contributions *= trees.believed(values, is_modelled(table)).trust[:, None]
        return [
            [
                Contribution(
                    trees.names[place],
                    None if np.isnan(row[place]) else float(row[place]),
                    float(2.0 ** pushes[place]),
                )
                for place in np.argsort(-np.abs(pushes[:-1]), kind="stable")[:most]
            ]
            for row, pushes in zip(values, contributions, strict=True)
        ]

    # ------------------------------------------------------------------------------------ files

    @staticmethod
    def load(path: str | os.PathLike[str] | None = None) -> Surrogate:
        """Read a surrogate.

        Args:
            path: a file that `save` wrote; ``None`` for the shipped one.

        Raises:
            InputError: the file is missing, damaged or of another format.
            UnsupportedError: no model is installed, or no xgboost.
        """
        file = shipped.shipped_trees_file() if path is None else Path(path)
        extras.check("xgboost")
        return (
            _load_shipped_once(file, file.stat().st_mtime_ns) if path is None else _load_model(file)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the surrogate, without what it learned on the job.

        The same one gives the same bytes.

        Raises:
            InputError: the file cannot be written.
        """
        try:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
                shipped.write_part(file, "card.json", _json_bytes(self.card))
                for depth in self.depths:
                    _write_trees(file, depth, self.trees(depth))
                    _write_costs(file, depth, self.cost_model(depth))
                    _write_stacked(file, depth, self.stacked(depth))
        except OSError as error:
            raise InputError(f"cannot write {os.fspath(path)}: {error.strerror}") from error


def _load_model(path: Path) -> Surrogate:
    try:
        with zipfile.ZipFile(path) as file:
            card = json.loads(file.read("card.json"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} holds no surrogate: {error}") from error
    if card.get("schema") != SCHEMA:
        raise InputError(f"{path} holds {card.get('schema')!r}, not {SCHEMA!r}")
    read = functools.cache(functools.partial(_read_trees, path))
    spent = functools.cache(functools.partial(_read_costs, path))
    surrogate = Surrogate(card, {}, read, spent)
    if not card.get("language") or not _can_load_language():
        return surrogate
    spoken = shipped.language_file_of(path)
    if spoken is None:
        return surrogate
    return replace(surrogate, _stacked=functools.cache(functools.partial(_read_stacked, spoken)))


@functools.lru_cache(maxsize=1)
def _load_shipped_once(path: Path, modified_ns: int) -> Surrogate:  # noqa: ARG001 - another file, another model
    """Load the shipped model once, as nothing changes it: reading a depth takes half a second."""
    return _load_model(path)


def _can_load_language() -> bool:
    """Tell whether this machine loads a language regressor; older versions read no packed texts."""
    try:
        release = version("transformers").split(".")
        return (int(release[0]), int(release[1])) >= _TRANSFORMERS
    except (PackageNotFoundError, ValueError, IndexError):
        return False


def _raise_unknown_depth(depth: Depth) -> Trees:
    raise UnsupportedError(f"this surrogate has not learned the depth {depth.value}")


def _write_trees(file: zipfile.ZipFile, depth: Depth, trees: Trees) -> None:
    about = {
        "names": trees.names,
        "members": len(trees.members),
        **_calibration_json(trees.calibration),
        "known": sorted(trees.kernels),
    }
    shipped.write_part(file, f"{depth.value}/about.json", _json_bytes(about))
    for place, member in enumerate(trees.members):
        shipped.write_part(file, f"{depth.value}/{place}.ubj", _pack_booster(member))
    shipped.write_part(
        file, f"{depth.value}/sizes.ubj", _pack_booster(trees.calibration.interval.sizes)
    )


def _calibration_json(calibration: Calibration) -> dict[str, Any]:
    return {
        "interval": [calibration.interval.low, calibration.interval.high],
        "doubt": {
            "size": calibration.doubt.size,
            "outside": calibration.doubt.outside,
            "low": [float(f"{limit:.5g}") for limit in calibration.doubt.low],
            "high": [float(f"{limit:.5g}") for limit in calibration.doubt.high],
        },
        "reach": calibration.reach.steps,
        "scatter": asdict(calibration.scatter),
        "fallback": calibration.fallback,
    }


def _calibration_from_json(about: Mapping[str, Any], sizes: BoostedTrees) -> Calibration:
    doubt = about["doubt"]
    return Calibration(
        Interval(sizes, *about["interval"]),
        OODDetector(
            doubt["size"],
            np.array(doubt["low"], np.float32),
            np.array(doubt["high"], np.float32),
            doubt["outside"],
        ),
        CandidateBudget(about["reach"]),
        VarianceComponents(**about["scatter"]),
        tuple(about["fallback"]),
    )


def _read_trees(path: Path, depth: Depth) -> Trees:
    with zipfile.ZipFile(path) as file:
        if f"{depth.value}/about.json" not in file.namelist():
            _raise_unknown_depth(depth)
        about = json.loads(file.read(f"{depth.value}/about.json"))

        def read_booster(name: object) -> BoostedTrees:
            return _unpack_booster(file.read(f"{depth.value}/{name}.ubj"))

        return Trees(
            tuple(about["names"]),
            tuple(map(read_booster, range(about["members"]))),
            _calibration_from_json(about, read_booster("sizes")),
            frozenset(about.get("known", ())),
        )


def _write_stacked(file: zipfile.ZipFile, depth: Depth, stacked: StackedRegressor | None) -> None:
    if stacked is None:
        return
    about = {"weights": stacked.stack.weights, **_calibration_json(stacked.calibration)}
    shipped.write_part(file, f"{depth.value}/stacked.json", _json_bytes(about))
    shipped.write_part(
        file, f"{depth.value}/stacked_sizes.ubj", _pack_booster(stacked.calibration.interval.sizes)
    )
    with tempfile.TemporaryDirectory() as folder:
        stacked.language.save(folder)
        for path in sorted(Path(folder).iterdir()):
            shipped.write_part(file, f"{depth.value}/language/{path.name}", path.read_bytes())


def _read_stacked(path: Path, depth: Depth) -> StackedRegressor | None:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as file:
        if f"{depth.value}/stacked.json" not in file.namelist():
            return None
        from solkit.surrogate.language.regressor import LanguageRegressor  # it imports torch

        about = json.loads(file.read(f"{depth.value}/stacked.json"))
        sizes = _unpack_booster(file.read(f"{depth.value}/stacked_sizes.ubj"))
        for name in file.namelist():
            if name.startswith(f"{depth.value}/language/"):
                Path(folder, Path(name).name).write_bytes(file.read(name))
        language = LanguageRegressor.load(folder)
    return StackedRegressor(language, Stack(about["weights"]), _calibration_from_json(about, sizes))


def _write_costs(file: zipfile.ZipFile, depth: Depth, costs: CostModel) -> None:
    for what, part in costs.parts.items():
        about = {"names": part.names, "typical_s": part.typical_s}
        shipped.write_part(file, f"{depth.value}/{what}.json", _json_bytes(about))
        shipped.write_part(file, f"{depth.value}/{what}.ubj", _pack_booster(part.grown))


def _read_costs(path: Path, depth: Depth) -> CostModel:
    """Read what a file holds of costs: older ones hold nothing."""
    parts = {}
    with zipfile.ZipFile(path) as file:
        for what in FIELDS:
            if f"{depth.value}/{what}.json" in file.namelist():
                about = json.loads(file.read(f"{depth.value}/{what}.json"))
                grown = _unpack_booster(file.read(f"{depth.value}/{what}.ubj"))
                parts[what] = CostTrees(tuple(about["names"]), grown, about["typical_s"])
    return CostModel(parts)


def _unpack_booster(content: bytes) -> BoostedTrees:
    trees = BoostedTrees(content=content)
    trees.stored  # noqa: B018 - a damaged file is said here
    return trees


def _pack_booster(grown: BoostedTrees) -> bytes:
    """Return a model's file, with leaves of a few digits and without what forecasts do not read."""
    document = json.loads(grown.booster.save_raw("json"))
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        for name in _ZEROED:
            tree[name] = [0.0] * len(tree[name])
        tree["sum_hessian"] = [float(f"{hessian:.2g}") for hessian in tree["sum_hessian"]]
        tree["split_conditions"] = [
            float(f"{value:.{_LEAF_DIGITS}g}") if left_child < 0 else value
            for value, left_child in zip(
                tree["split_conditions"], tree["left_children"], strict=True
            )
        ]
    booster = xgboost().Booster()
    booster.load_model(bytearray(json.dumps(document).encode()))
    return bytes(booster.save_raw("ubj"))


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _check_device(device: Device) -> None:
    if why := unvalidated(device):
        raise UnsupportedError(why)
