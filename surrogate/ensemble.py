"""Several models' forecasts as one: trees, and a language regressor that is stacked on them.

Members say log2(time / base). The kernel model's own word is 0: what the weights leave of 1 is its
share, so a stack may draw its members towards it (Wolpert, "Stacked generalization", 1992; weights
that are not negative: Breiman, "Stacked regressions", 1996).

What each counts, and what both are worth together, is learned from rows of families that neither
knew: the regressor is trained five times more, each time without a fold of the families. All of it
can be interrupted: a working folder keeps forecasts of finished folds and checkpoints of the one
under way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.core import Depth
from solkit.errors import InputError
from solkit.surrogate.evaluation.splits import Fold, split_into_folds
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    Calibration,
    Settings,
    columns_of,
    expect_out_of_family,
    log2_target,
    row_weights,
)

if TYPE_CHECKING:
    from solkit.surrogate.language.regressor import LanguageRegressor, Shape
    from solkit.surrogate.language.training import Learning, Pretraining
    from solkit.surrogate.model import Surrogate


@dataclass(frozen=True)
class Stack:
    """Weights of the members.

    Attributes:
        weights: by member; none is negative.
    """

    weights: Mapping[str, float]

    @staticmethod
    def fit(targets: Array, forecasts: Mapping[str, Array], weight: Array | None = None) -> Stack:
        """Return the weights with the least squared error.

        Args:
            targets: log2(time / base), (rows,).
            forecasts: of each member, of rows of families that it did not know, (rows,) each;
                rows of which a member says nothing (NaN) do not count.
            weight: of the rows, (rows,); all alike by default.

        Raises:
            InputError: no row has a word of every member.
        """
        from scipy.optimize import nnls

        parts = np.stack(list(forecasts.values()), axis=1)
        complete = ~np.isnan(parts).any(axis=1) & ~np.isnan(targets)
        if not complete.any():
            raise InputError(f"no row was forecast by all of {', '.join(forecasts)}")
        root = np.sqrt(np.ones(len(targets)) if weight is None else weight)[complete]
        solution, _ = nnls(parts[complete] * root[:, None], targets[complete] * root)
        return Stack({name: float(share) for name, share in zip(forecasts, solution, strict=True)})

    def mean(self, forecasts: Mapping[str, Array]) -> Array:
        """Combine what the members say, (rows,).

        Raises:
            KeyError: a member with a weight says nothing.
        """
        return np.asarray(sum(weight * forecasts[name] for name, weight in self.weights.items()))


@dataclass(frozen=True)
class StackedRegressor:
    """Contribution of the language regressor to a depth's trees.

    Attributes:
        language: the regressor.
        stack: what ``"trees"`` and ``"language"`` count.
        calibration: of what both say together.
    """

    language: LanguageRegressor
    stack: Stack
    calibration: Calibration

    def combine_beliefs(self, trees: Belief, language: Array) -> Belief:
        """Return what is expected of rows.

        Args:
            trees: what they expect.
            language: log2(time / base) by the language regressor, (rows,).
        """
        return combine_expectations(self.stack, trees, language)


def combine_expectations(stack: Stack, trees: Belief, language: Array) -> Belief:
    """Combine what trees and language regressor expect: see `StackedRegressor.belief`."""
    mean = stack.mean({"trees": trees.mean, "language": language})
    return replace(
        trees, member_mean=mean / trees.trust
    )  # its own mean is drawn by the trust again


SPLIT = "families"
"""Split that a stack learns from: `solkit.surrogate.evaluation.splits`. `solkit evaluate` trains
the same folds, so a folder serves both."""


@dataclass(frozen=True)
class RegressorSettings:
    """Shape and training of a language regressor.

    Attributes:
        shape: of the model; ``None`` for the default.
        learning: ``None`` for the default.
        pretraining: before it is told any time; ``None`` for none.
        backbone: what reads text, as for `LanguageRegressor`; ``None`` for the default.
        adapt: what of such a backbone learns.
        device: where it learns; a GPU if there is one.
        seed: of the weights.
    """

    shape: Shape | None = None
    learning: Learning | None = None
    pretraining: Pretraining | None = None
    backbone: str | None = None
    adapt: str = "frozen"
    device: str | None = None
    seed: int = 0

    def train_regressor(
        self,
        table: Table,
        facts: Array | None,
        checkpoint: Path | None,
        tell: Callable[[str], None],
    ) -> LanguageRegressor:
        """Return a regressor that has learned a table's rows."""
        from solkit.surrogate.language.regressor import LanguageRegressor

        regressor = LanguageRegressor(
            self.backbone, adapt=self.adapt, shape=self.shape, device=self.device, seed=self.seed
        )
        resumes = checkpoint is not None and checkpoint.exists()
        if self.pretraining is not None and not resumes:
            regressor.pretrain_backbone(table, self.pretraining, tell)
        return regressor.fit(table, self.learning, facts=facts, checkpoint=checkpoint, tell=tell)


def stack_regressor(
    surrogate: Surrogate,
    table: Table,
    depth: Depth,
    how: RegressorSettings,
    *,
    compiled: Table | None = None,
    settings: Settings = DEFAULTS,
    folder: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Surrogate:
    """Return a surrogate whose trees of a depth have a language regressor beside them.

    Args:
        surrogate: knows the depth.
        table: of the rows that it learned from, at that depth.
        depth: where both count.
        how: the regressor learns.
        compiled: the same configurations at the compiled depth, whose facts are learned to be
            guessed; ``None`` if there are none.
        settings: of the trees.
        folder: for what is finished; ``None`` for no such folder.
        tell: receives what is done.

    Raises:
        InputError: there is nothing to learn from; or the folder is of another run.
        UnsupportedError: transformers is not installed.
    """
    from solkit.surrogate.language.training import compiled_facts

    place = None if folder is None else Path(folder, depth.value)
    facts = None if compiled is None else compiled_facts(table, compiled)
    folds = dict(enumerate(split_into_folds(table, SPLIT)))
    unknown = forecast_left_out(table, folds, how, SPLIT, facts=facts, folder=place, tell=tell)
    seed = int(surrogate.card.get("settings", {}).get("seed", 0))
    believed = expect_out_of_family(table, settings, seed)
    weight = row_weights(table, settings.focus, settings.crowd)
    stack = Stack.fit(log2_target(table), {"trees": believed.mean, "language": unknown}, weight)
    tell(f"{depth.value}: " + ", ".join(f"{k} {v:.2f}" for k, v in stack.weights.items()))
    trees = surrogate.trees(depth)
    belief = combine_expectations(stack, believed, unknown)
    values = columns_of(table, trees.names)
    calibration = Calibration.from_left_out(table, values, belief, settings, seed)
    language = train_on_all_rows(table, how, facts=facts, folder=place, tell=tell)
    language.card = _card_of_left_out(table, believed.mean, unknown, belief.mean)
    part = StackedRegressor(language, stack, calibration)
    others = {d: s for d in surrogate.depths if d != depth and (s := surrogate.stacked(d))}
    return surrogate.with_language({**others, depth: part})


def train_on_all_rows(
    table: Table,
    how: RegressorSettings,
    *,
    facts: Array | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> LanguageRegressor:
    """Return a regressor of all rows; that of the folder, if it is there.

    Args:
        table: configurations with their times, and the texts of their kernels.
        how: it learns.
        facts: of the rows, to be guessed.
        folder: for what is finished.
        tell: receives what is done.

    Raises:
        InputError: the folder is of another run.
    """
    from solkit.surrogate.language.regressor import LanguageRegressor

    if folder is None:
        return how.train_regressor(table, facts, None, tell)
    path, checkpoint = folder / "whole", folder / "whole.pt"
    if path.exists():
        finished = LanguageRegressor.load(path)
        if finished.card.get("rows") != len(table):
            raise InputError(f"{path} is of another run; remove it")
        return finished
    folder.mkdir(parents=True, exist_ok=True)
    tell("all rows")
    trained = how.train_regressor(table, facts, checkpoint, tell)
    trained.card = {"rows": len(table)}
    draft = folder / "whole.tmp"  # what is under the final name is complete
    shutil.rmtree(draft, ignore_errors=True)
    trained.save(draft)
    draft.rename(path)
    checkpoint.unlink(missing_ok=True)
    return trained


def forecast_left_out(
    table: Table,
    folds: Mapping[int, Fold],
    how: RegressorSettings,
    name: str,
    *,
    facts: Array | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Array:
    """Return log2(time / base) of each row by regressors that were not told of it, (rows,).

    Args:
        table: configurations with their times, and the texts of their kernels.
        folds: by number; rows of none are NaN.
        how: regressors learn.
        name: of the folds, for files.
        facts: of the rows, to be guessed.
        folder: for what is finished, which is not trained again.
        tell: receives what is done.

    Raises:
        InputError: the folder is of another run.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    means = load_finished_folds(table, folds, name, folder)
    for number, fold in folds.items():
        if not len(fold.test) or not len(fold.train) or not np.isnan(means[fold.test]).all():
            continue
        tell(f"{name}: fold {number + 1}")
        checkpoint = None if folder is None else folder / f"{name}-{number}.pt"
        taught = None if facts is None else facts[fold.train]
        model = how.train_regressor(table[fold.train], taught, checkpoint, tell)
        means[fold.test] = model.forecast(table[fold.test], tell).mean
        if folder is not None and checkpoint is not None:
            np.save(folder / f"{name}-{number}.npy", means[fold.test].astype(np.float32))
            checkpoint.unlink(missing_ok=True)
    return means


def load_finished_folds(
    table: Table, folds: Mapping[int, Fold], name: str, folder: Path | None
) -> Array:
    """Return what a folder holds of finished folds, (rows,); NaN elsewhere.

    Raises:
        InputError: it is of another run.
    """
    means = np.full(len(table), np.nan)
    for number, fold in folds.items() if folder is not None else ():
        path = Path(folder or "", f"{name}-{number}.npy")
        if path.exists():
            stored = np.load(path)
            if len(stored) != len(fold.test):
                raise InputError(f"{path} is of another run; remove it")
            means[fold.test] = stored
    return means


def _card_of_left_out(table: Table, trees: Array, language: Array, both: Array) -> dict[str, Any]:
    """Return figures of families left out, by who forecast them."""
    from solkit.surrogate.training import figures_of_left_out

    by_source = {"trees": trees, "language": language, "stacked": both}
    rows = np.flatnonzero(~np.isnan(language))
    part = table[rows]
    return {
        "families_left_out": {
            name: figures_of_left_out(part, part.base_ms * 2.0 ** mean[rows])
            for name, mean in by_source.items()
        }
    }
