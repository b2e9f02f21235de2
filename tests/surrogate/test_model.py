"""The surrogate as one object: its file, learning on the job, explanations."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import table

from solkit.core import Depth
from solkit.errors import InputError, UnsupportedError
from solkit.surrogate.ensemble import Stack, StackedRegressor, combine_expectations
from solkit.surrogate.model import SCHEMA, Surrogate
from solkit.surrogate.out_of_distribution import VarianceComponents
from solkit.surrogate.trees import Calibration, Settings, log2_target

QUICK = Settings(members=2, rounds=40, leaves=8, rate=0.2, columns=1.0)
DEPTH = Depth.COMPILED
CARD = {"schema": SCHEMA, "depths": [DEPTH.value]}


@pytest.fixture(scope="module")
def measured_table():
    return table(1200)


@pytest.fixture(scope="module")
def model(measured_table):
    return Surrogate.fit({DEPTH: measured_table}, CARD, QUICK)


@pytest.mark.slow
def test_a_file_gives_the_same_forecasts(model, measured_table, tmp_path):
    model.save(tmp_path / "it.solkit")
    again = Surrogate.load(tmp_path / "it.solkit")
    reported_forecast, want = (
        again.forecast(measured_table, DEPTH),
        model.forecast(measured_table, DEPTH),
    )
    same = (
        reported_forecast.abstains == want.abstains
    )  # rounded leaves may move one across a threshold
    assert same.mean() > 0.99
    np.testing.assert_allclose(reported_forecast.time_ms[same], want.time_ms[same], rtol=1e-3)
    np.testing.assert_allclose(reported_forecast.low_ms[same], want.low_ms[same], rtol=2e-2)
    model.save(tmp_path / "once more.solkit")
    both = [(tmp_path / name).read_bytes() for name in ("it.solkit", "once more.solkit")]
    assert both[0] == both[1]


@pytest.mark.slow
def test_a_depth_that_was_not_learned(model, measured_table, tmp_path):
    model.save(tmp_path / "it.solkit")
    with pytest.raises(UnsupportedError, match="captured"):
        Surrogate.load(tmp_path / "it.solkit").forecast(measured_table, Depth.CAPTURED)


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_a_file_that_is_no_surrogate(tmp_path, content):
    path = tmp_path / "other.solkit"
    if content is None:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("card.json", json.dumps({"schema": "solkit.surrogate/9"}))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"other\.solkit"):
        Surrogate.load(path)


def test_a_few_points_of_a_new_kernel_correct_the_others(model, measured_table):
    random = np.random.default_rng(0)  # this kernel takes 1.6 times as long, more or less
    slower = measured_table.time_ms * 2.0 ** (0.7 + 0.1 * random.normal(size=len(measured_table)))
    slow = replace(measured_table, time_ms=slower)
    rows = np.flatnonzero(measured_table.about["kernel_id"] == measured_table.about["kernel_id"][0])
    points, others = rows[:10], rows[10:]
    trees = model.trees(DEPTH)
    scatter = VarianceComponents(9.0, 9.0, 9.0, 1.0)
    usual = replace(trees, calibration=replace(trees.calibration, scatter=scatter))
    updated = Surrogate(model.card, {}, {DEPTH: usual}.__getitem__).update(slow[points], DEPTH)

    def error(surrogate):
        reported_forecast = surrogate.forecast(measured_table[others], DEPTH)
        return np.median(np.abs(np.log2(reported_forecast.time_ms / slow.time_ms[others])))

    assert error(updated) < 0.3 < 0.5 < error(model)
    elsewhere = np.flatnonzero(measured_table.about["family"] != measured_table.about["family"][0])
    before, after = (item.forecast(measured_table[elsewhere], DEPTH) for item in (model, updated))
    moved = np.abs(np.log2(after.time_ms / before.time_ms))
    assert np.median(moved) < 0.35  # other kernels move less


def test_updates_are_the_same_each_time_and_leave_the_old_one_alone(model, measured_table):
    before = model.forecast(measured_table[np.arange(50)], DEPTH).time_ms
    first, again = (model.update(measured_table[np.arange(20)], DEPTH) for _ in range(2))
    request = measured_table[np.arange(50)]
    results = [item.forecast(request, DEPTH).time_ms for item in (first, again)]
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(
        model.forecast(measured_table[np.arange(50)], DEPTH).time_ms, before
    )


def test_rows_without_a_time_teach_nothing(model, measured_table):
    untimed = replace(measured_table, time_ms=np.full(len(measured_table), np.nan))
    assert model.update(untimed, DEPTH) is model


def test_pushes_multiply_to_the_forecast(model, measured_table):
    many = measured_table[np.arange(400)]
    explained = model.explain(many, DEPTH, most=99)
    pushed = np.array([np.sum(np.log2([push.factor for push in items])) for items in explained])
    belief = model.trees(DEPTH).believed(many.values, np.ones(400, bool))
    rest = (belief.mean - pushed) / belief.trust
    assert np.ptp(rest) < 1e-3  # what is left is the same for all: the trees' mean
    pushes = explained[0]
    assert pushes[0].feature == "model.a"  # the one that times depend on


@pytest.fixture(scope="module")
def strange(measured_table):
    """Rows unlike any known, of a family and a kernel that nobody knows."""
    rows = measured_table[np.arange(40)]
    names = {"kernel_id": "unknown", "family": "unknown", "problem_id": "unknown"}
    about = {**rows.about, **{name: np.full(40, word) for name, word in names.items()}}
    return replace(rows, values=rows.values * np.float32(1e3), about=about)


def test_it_abstains_on_unknown_kernels_alone(model, measured_table, strange):
    reported_forecast = model.forecast(strange, DEPTH)
    assert reported_forecast.abstains.all()
    np.testing.assert_allclose(reported_forecast.time_ms, strange.modelled_ms)
    named = replace(strange, about=measured_table[np.arange(40)].about)
    assert not model.forecast(named, DEPTH).abstains.any()


def test_what_it_learned_from_is_known_to_a_file(model, measured_table, tmp_path):
    model.save(tmp_path / "it.solkit")
    again = Surrogate.load(tmp_path / "it.solkit").trees(DEPTH)
    assert again.kernels == model.trees(DEPTH).kernels
    assert again.knows_kernels(measured_table).all()


def test_it_no_longer_abstains_once_points_of_the_family_were_measured(model, strange):
    taught = model.update(strange[np.arange(10)], DEPTH)
    reported_forecast = taught.forecast(strange[np.arange(10, 40)], DEPTH)
    assert not reported_forecast.abstains.any()


# ------------------------------------------------------------------------- the language regressor


class Reader:
    """Says how far each row's time is from the trees' forecast, as a language regressor might."""

    def __init__(self, known_value, spread=0.05):
        self.truth = dict(zip(known_value.values[:, 0].tolist(), log2_target(known_value).tolist()))
        self.spread = spread

    def forecast(self, table):
        chance = np.random.default_rng(0)
        mean = np.array([self.truth[value] for value in table.values[:, 0].tolist()])
        return SimpleNamespace(mean=mean + self.spread * chance.normal(size=len(mean)))


def stacked(model, known_values, reader, weights):
    trees = model.trees(DEPTH)
    values = known_values.values
    result = trees.believed(values, np.ones(len(known_values), bool))
    belief = combine_expectations(Stack(weights), result, reader.forecast(known_values).mean)
    calibration = Calibration.from_left_out(known_values, values, belief, QUICK)
    return model.with_language({DEPTH: StackedRegressor(reader, Stack(weights), calibration)})


def test_a_language_regressor_counts_by_its_weight(model, measured_table):
    reader = Reader(measured_table)
    both = stacked(model, measured_table, reader, {"trees": 0.25, "language": 0.75})
    reported_forecast, alone = (
        both.forecast(measured_table, DEPTH),
        model.forecast(measured_table, DEPTH),
    )
    belief = model.trees(DEPTH).believed(measured_table.values, np.ones(len(measured_table), bool))
    mean = 0.25 * belief.mean + 0.75 * reader.forecast(measured_table).mean
    sure = ~reported_forecast.abstains
    np.testing.assert_allclose(
        reported_forecast.time_ms[sure], (measured_table.base_ms * 2.0**mean)[sure], rtol=1e-5
    )
    widths = [np.median(np.log2(item.high_ms / item.low_ms)) for item in (reported_forecast, alone)]
    assert widths[0] < widths[1]  # intervals are those of both together
    back = both.without_language().forecast(measured_table, DEPTH)
    np.testing.assert_array_equal(back.time_ms, alone.time_ms)


def test_what_is_learned_on_the_job_is_what_both_missed(model, measured_table):
    rows = np.arange(20)
    both = stacked(
        model, measured_table, Reader(measured_table, 0.0), {"trees": 0.0, "language": 1.0}
    )
    updated = both.update(measured_table[rows], DEPTH)
    np.testing.assert_allclose(
        updated.forecast(measured_table, DEPTH).time_ms,
        both.forecast(measured_table, DEPTH).time_ms,
        rtol=0.02,
    )


@pytest.mark.slow
def test_a_file_holds_both_and_the_trees_do_without(model, measured_table, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from solkit.surrogate.language.regressor import LanguageRegressor, Shape

    tiny = Shape(vocabulary=300, width=32, layers=1, decoder={"width": 16, "layers": 1, "heads": 2})
    texts = {name: f"def {name}(x): return x" for name in set(measured_table.about["kernel_id"])}
    params = np.array([f'{{"BLOCK": {n}}}' for n in range(len(measured_table))])
    measured_table = replace(
        measured_table, sources=texts, about={**measured_table.about, "params": params}
    )
    language = LanguageRegressor(shape=tiny, device="cpu")
    language.prepared(measured_table)
    calibration = model.trees(DEPTH).calibration
    stack = Stack({"trees": 0.5, "language": 0.5})
    both = model.with_language({DEPTH: StackedRegressor(language, stack, calibration)})
    both.save(tmp_path / "both.solkit")
    again = Surrogate.load(tmp_path / "both.solkit")
    want, reported_forecast = (
        both.forecast(measured_table, DEPTH),
        again.forecast(measured_table, DEPTH),
    )
    sure = ~want.abstains & ~reported_forecast.abstains
    np.testing.assert_allclose(reported_forecast.time_ms[sure], want.time_ms[sure], rtol=0.03)
    trees_ms = model.forecast(measured_table, DEPTH).time_ms

    def absent(name):
        raise PackageNotFoundError(name)

    for result in (absent, lambda _: "4.57.1", lambda _: "5.0.0"):
        monkeypatch.setattr("solkit.surrogate.model.version", result)
        alone = Surrogate.load(tmp_path / "both.solkit").forecast(measured_table, DEPTH)
        np.testing.assert_allclose(alone.time_ms, trees_ms, rtol=1e-3)


@pytest.mark.slow
def test_the_shipped_model_is_read_once_until_it_is_another(model, tmp_path, monkeypatch):
    path = tmp_path / "surrogate.solkit"
    model.save(path)
    os.utime(path, ns=(0, 0))
    monkeypatch.setattr("solkit.surrogate.shipped.shipped_trees_file", lambda: path)
    first = Surrogate.load()
    assert Surrogate.load() is first
    assert Surrogate.load(path) is not first  # a file that is named may be any
    replace(model, card={**model.card, "about": "another"}).save(path)
    os.utime(path, ns=(1, 1))
    assert Surrogate.load().card["about"] == "another"
