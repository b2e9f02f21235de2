"""A language regressor on the trees: it counts where the text says what numbers do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from few_kernels import SHAPE, table

from solkit.core import Depth
from solkit.errors import InputError
from solkit.surrogate.ensemble import RegressorSettings, stack_regressor, train_on_all_rows
from solkit.surrogate.language.training import Learning, Pretraining
from solkit.surrogate.model import SCHEMA, Surrogate
from solkit.surrogate.trees import Settings

DEPTH = Depth.COMPILED
TREES = Settings(members=2, rounds=10, leaves=4, rate=0.2, columns=1.0)
QUICK = Learning(passes=3, rows=32, piece=4, rate=6e-3, variants=2, most=256)
ENOUGH = replace(QUICK, passes=18)
"""Passes until the text is understood."""
HOW = RegressorSettings(SHAPE, QUICK, Pretraining(steps=4, texts=4, most=64), device="cpu")


@pytest.fixture(scope="module")
def measured_table():
    return table(20)


@pytest.fixture(scope="module")
def trees(measured_table):
    return Surrogate.fit(
        {DEPTH: measured_table}, {"schema": SCHEMA, "depths": [DEPTH.value]}, TREES
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def both(measured_table, trees, folder):
    """Trained in two goes: the first one is interrupted before the third fold."""
    heard = []

    def stop(text):
        if "fold 3" in text and not heard:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stack_regressor(trees, measured_table, DEPTH, HOW, settings=TREES, folder=folder, tell=stop)
    kept = {path.name for path in (folder / "compiled").iterdir()}
    assert kept == {"families-0.npy", "families-1.npy"}
    result = stack_regressor(
        trees, measured_table, DEPTH, HOW, settings=TREES, folder=folder, tell=heard.append
    )
    again = [item for item in heard if "fold" in item]
    assert again == ["families: fold 3", "families: fold 5"]  # no family falls into the fourth
    return result


@pytest.fixture(scope="module")
def learned(measured_table, trees):
    return stack_regressor(
        trees, measured_table, DEPTH, replace(HOW, learning=ENOUGH), settings=TREES
    )


def error(model, result):
    reported_forecast = model.forecast(result, DEPTH)
    return float(np.median(np.abs(np.log2(reported_forecast.time_ms / result.time_ms))))


@pytest.mark.slow
def test_what_the_text_says_counts(trees, learned):
    unseen = table(8, seed=3)
    names = np.char.add("new", unseen.about["kernel_id"].astype(str))
    unseen = replace(
        unseen,
        about={**unseen.about, "kernel_id": names},
        sources={f"new{k}": t.replace("work", "other") for k, t in unseen.sources.items()},
    )
    assert error(trees, unseen) > 0.7
    assert error(learned, unseen) < 0.4
    assert learned.stacked(DEPTH).stack.weights["language"] > 0.5


@pytest.mark.slow
def test_together_they_are_better_than_trees(learned):
    families_left_out = learned.stacked(DEPTH).language.card["families_left_out"]
    assert (
        families_left_out["stacked"]["time_error_median"]
        < families_left_out["trees"]["time_error_median"]
    )


@pytest.mark.slow
def test_the_card_says_what_each_is_worth(both):
    assert both.card["language"] == [DEPTH.value]
    families_left_out = both.stacked(DEPTH).language.card["families_left_out"]
    assert set(families_left_out) == {"trees", "language", "stacked"}
    assert all(item["time_error_median"] > 0 for item in families_left_out.values())


@pytest.mark.slow
def test_it_is_saved_and_read_again(measured_table, both, tmp_path):
    both.save(tmp_path / "both.solkit")
    again = Surrogate.load(tmp_path / "both.solkit")
    want, reported_forecast = (
        both.forecast(measured_table, DEPTH),
        again.forecast(measured_table, DEPTH),
    )
    np.testing.assert_allclose(reported_forecast.time_ms, want.time_ms, rtol=0.03)


@pytest.mark.slow
def test_a_folder_of_another_run_is_refused(measured_table, trees, both, folder):
    assert both.depths == (DEPTH,)
    with pytest.raises(InputError, match=r"families-\d.npy is of another run"):
        stack_regressor(
            trees, measured_table[np.arange(40)], DEPTH, HOW, settings=TREES, folder=folder
        )


@pytest.mark.slow
def test_what_learned_from_all_rows_is_kept_as_well(measured_table, both, folder):
    place = folder / "compiled"
    assert not list(place.glob("*.pt"))
    again = train_on_all_rows(measured_table, HOW, folder=place)
    want = both.stacked(DEPTH).language.forecast(measured_table)
    np.testing.assert_allclose(again.forecast(measured_table).mean, want.mean, atol=0.03)
    with pytest.raises(InputError, match="whole is of another run"):
        train_on_all_rows(measured_table[np.arange(40)], HOW, folder=place)
