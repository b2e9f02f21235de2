"""A regressor as it is used: forecasts, files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, saved_backbone, table, tiny
from safetensors.torch import load_file

from solkit.errors import InputError, UnsupportedError
from solkit.surrogate.language.regressor import LanguageRegressor
from solkit.surrogate.language.training import Learning

QUICK = Learning(passes=2, rows=32, piece=4, rate=4e-3, variants=0, most=256)


@pytest.fixture(scope="module")
def small_table():
    return table(8)


def learned(result):
    model = tiny()
    model.prepared(result)
    return model


def test_a_forecast_does_not_depend_on_the_other_rows(small_table):
    model = learned(small_table)
    whole = model.forecast(small_table)
    order = np.random.default_rng(0).permutation(len(small_table))
    mixed = model.forecast(small_table[order])
    np.testing.assert_allclose(mixed.mean, whole.mean[order], atol=1e-4)
    np.testing.assert_allclose(model.forecast(small_table[[5]]).mean, whole.mean[[5]], atol=1e-4)
    assert len(model.forecast(small_table[np.arange(0)]).mean) == 0


def test_a_text_is_read_once(small_table, monkeypatch):
    model = learned(small_table)
    network, texts = model.prepared(small_table).network, []
    states = network.states
    monkeypatch.setattr(network, "states", lambda item: texts.extend(item.lengths) or states(item))
    for _ in range(3):
        model.forecast(small_table)
    assert len(texts) == 8
    model.fit(small_table, replace(QUICK, passes=1))  # it reads otherwise now
    texts.clear()
    model.forecast(small_table[np.arange(4)])
    assert len(texts) == 1


def test_a_saved_one_forecasts_the_same(small_table, tmp_path):
    model = learned(small_table)
    model.card["trained_on"] = "kernels"
    model.save(tmp_path / "saved")
    again = LanguageRegressor.load(tmp_path / "saved")
    np.testing.assert_allclose(
        again.forecast(small_table).mean, model.forecast(small_table).mean, atol=0.02
    )
    assert again.card == {"trained_on": "kernels"}
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "solkit.json"} <= names


def test_what_is_no_regressor_is_refused(small_table, tmp_path):
    with pytest.raises(InputError, match="holds no language regressor"):
        LanguageRegressor.load(tmp_path / "nothing")
    model = learned(small_table)
    model.save(tmp_path)
    about = json.loads((tmp_path / "solkit.json").read_text())
    (tmp_path / "solkit.json").write_text(json.dumps(about | {"schema": "solkit.language/9"}))
    with pytest.raises(InputError, match=r"'solkit\.language/9', not 'solkit\.language/1'"):
        LanguageRegressor.load(tmp_path)
    (tmp_path / "solkit.json").write_text(json.dumps(about))
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match="holds no language regressor"):
        LanguageRegressor.load(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(small_table, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*file"):
        learned(small_table).save(tmp_path / "file")


def test_what_has_not_learned_says_so(small_table, tmp_path):
    for use in (lambda: tiny().forecast(small_table), lambda: tiny().save(tmp_path)):
        with pytest.raises(UnsupportedError, match="has learned nothing: call fit"):
            use()


# ---------------------------------------------------------------------- backbones from elsewhere


@pytest.fixture(scope="module", params=["bert", "llama"])
def folder(request, tmp_path_factory):
    return saved_backbone(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.quick("llama-frozen")
@pytest.mark.parametrize("adapt", ["frozen", "lora", "full"])
def test_any_backbone_is_adapted_saved_and_read_again(folder, adapt, small_table, tmp_path):
    if adapt == "lora":
        pytest.importorskip("peft")
    model = LanguageRegressor(folder, adapt=adapt, shape=SHAPE, device="cpu")
    network = model.prepared(small_table).network
    before = {name: item.clone() for name, item in network.backbone.named_parameters()}
    model.fit(small_table, replace(QUICK, passes=4))
    changed = {
        name for name, item in network.backbone.named_parameters()
        if not torch.equal(item, before[name])
    }  # fmt: skip
    assert bool(changed) is (adapt != "frozen")
    assert all("lora" in name for name in changed) or adapt == "full"
    model.save(tmp_path)
    again = LanguageRegressor.load(tmp_path)
    np.testing.assert_allclose(
        again.forecast(small_table).mean, model.forecast(small_table).mean, atol=0.02
    )
    kept = load_file(tmp_path / "model.safetensors")
    assert any(name.startswith("backbone.") for name in kept) is (adapt != "frozen")


def test_a_frozen_backbone_reads_each_text_once(folder, small_table, monkeypatch):
    model = LanguageRegressor(folder, shape=SHAPE, device="cpu")
    network, read = model.prepared(small_table).network, []
    states = network.states
    monkeypatch.setattr(
        network, "states", lambda texts: read.append(len(texts.ids)) or states(texts)
    )
    model.fit(small_table, replace(QUICK, passes=6))
    assert sum(read) == 8


def test_what_cannot_be_loaded_is_named(tmp_path, small_table):
    with pytest.raises(InputError, match=r"nowhere: no such model"):
        LanguageRegressor(tmp_path / "nowhere").prepared(small_table)
    with pytest.raises(InputError, match=r"cannot be loaded"):
        LanguageRegressor(tmp_path).prepared(small_table)
    with pytest.raises(InputError, match=r"adapt 'some' is unknown: choose one of full, frozen"):
        LanguageRegressor(tmp_path, adapt="some")


def test_a_text_longer_than_a_backbone_has_positions_is_cut_off(tmp_path):
    path = saved_backbone("bert", tmp_path, max_position_embeddings=40)  # 32 and a rest
    result = table(8)
    reported_forecast = (
        LanguageRegressor(path, shape=SHAPE, device="cpu").fit(result, QUICK).forecast(result)
    )
    assert np.isfinite(reported_forecast.mean).all()
    result.sources.update({name: text + "\nx = 1" * 99 for name, text in result.sources.items()})
    again = LanguageRegressor(path, shape=SHAPE, device="cpu").fit(result, QUICK).forecast(result)
    np.testing.assert_array_equal(again.mean, reported_forecast.mean)
