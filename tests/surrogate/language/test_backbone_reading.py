"""Texts that are read for forecasts: together, each once, and with LoRA's matrices merged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, saved_backbone, table, tiny

from solkit.surrogate.ensemble import RegressorSettings, forecast_left_out
from solkit.surrogate.language import backbone_reading, model, regressor
from solkit.surrogate.language.corpus import Corpus
from solkit.surrogate.language.regressor import LanguageRegressor
from solkit.surrogate.language.training import Learning, _Learner

QUICK = Learning(passes=3, rows=32, piece=4, rate=4e-3, variants=2, most=256)
KINDS = ["default", "bert frozen", "llama frozen", "bert lora", "llama lora", "llama full"]


@pytest.fixture(scope="module")
def text_table():
    """Texts of several lengths, the longest in the middle; two kernels have the same."""
    result = table(10)
    for k in range(10):
        result.sources[f"kernel{k}"] += "\nx = 1" * (2 * k * (9 - k) + 1)
    result.sources["kernel9"] = result.sources["kernel0"]
    return result


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {k: saved_backbone(k, tmp_path_factory.mktemp(k)) for k in ("bert", "llama")}


def built(kind, folders, result):
    """A regressor whose LoRA, if it has one, says something."""
    if kind == "default":
        results = tiny()
    else:
        name, adapt = kind.split()
        if adapt == "lora":
            pytest.importorskip("peft")
        results = LanguageRegressor(folders[name], adapt=adapt, shape=SHAPE, device="cpu")
    network = results.prepared(result).network
    torch.manual_seed(1)
    for name, item in network.named_parameters():
        if "lora_B" in name:  # zero at first
            torch.nn.init.normal_(item, std=0.1)
    return results


def one_by_one(result, results):
    """What the network says of each text's rows alone, with LoRA beside its weights."""
    parts = result.prepared(results)
    parts.network.train(False)
    corpus = Corpus.from_table(results, parts.tokenizer, parts.scale, parts.most)
    outcome = np.zeros(len(results))
    for text in range(len(corpus.texts)):
        rows = np.flatnonzero(corpus.text_of == text)
        with torch.no_grad():
            logits, _ = parts.network(corpus.batch(rows))
            outcome[rows] = parts.network.decoder.expected(logits).numpy()
    return outcome


def counted(network, monkeypatch):
    """The number of texts of each time that the backbone reads."""
    results, states = [], network._padded_states
    monkeypatch.setattr(
        network,
        "_padded_states",
        lambda ids, known_value: results.append(len(ids)) or states(ids, known_value),
    )
    return results


@pytest.mark.quick("default", "llama frozen", "llama full")
@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_of_texts_read_together_are_those_of_each_alone(
    kind, folders, text_table, monkeypatch
):
    result = built(kind, folders, text_table)
    network = result.prepared(text_table).network
    expected = one_by_one(result, text_table)
    assert np.ptp(expected) > 1e-3
    monkeypatch.setattr(model, "_CPU_TOKENS", 1024)
    read = counted(network, monkeypatch)
    network.train()
    np.testing.assert_allclose(result.forecast(text_table).mean, expected, atol=1e-5)
    assert sum(read) == 9  # two of ten are the same
    assert 1 < len(read) < 9
    result.forecast(text_table[np.arange(4, 20)])
    assert sum(read) == 9
    assert not network.training


def test_more_texts_than_are_kept_are_read_once_as_well(folders, text_table, monkeypatch):
    result = built("llama frozen", folders, text_table)
    read = counted(result.prepared(text_table).network, monkeypatch)
    expected = result.forecast(text_table)
    result._readings.clear()
    read.clear()
    monkeypatch.setattr(regressor, "_READINGS", 3)
    monkeypatch.setattr(regressor, "_ROWS", 7)
    np.testing.assert_allclose(result.forecast(text_table).mean, expected.mean, atol=1e-5)
    assert sum(read) == 9
    assert len(result._readings) == 3


def test_how_far_it_is_is_told(folders, text_table, monkeypatch):
    monkeypatch.setattr(model, "_CPU_TOKENS", 1024)
    monkeypatch.setattr(backbone_reading, "_TOLD_EVERY_S", -1.0)
    result, results = built("llama frozen", folders, text_table), []
    read = counted(result.prepared(text_table).network, monkeypatch)
    result.forecast(text_table, results.append)
    assert results == [f"read {n} of 9 texts" for n in np.cumsum(read)]
    result.forecast(text_table, results.append)  # nothing is read
    assert len(results) == len(read)


def test_lora_is_merged_only_while_texts_are_read_even_if_that_is_interrupted(
    folders, text_table, monkeypatch
):
    result = built("llama lora", folders, text_table)
    network = result.prepared(text_table).network
    before = {name: items.detach().clone() for name, items in network.named_parameters()}
    layers = [module for module in network.modules() if hasattr(module, "merged_adapters")]
    states, seen = network.states, []

    def watched(texts):
        seen.append(all(layer.merged for layer in layers))
        if len(seen) == 1:
            raise KeyboardInterrupt
        return states(texts)

    monkeypatch.setattr(network, "states", watched)
    with pytest.raises(KeyboardInterrupt):
        result.forecast(text_table)
    assert not any(layer.merged for layer in layers)
    result.forecast(text_table)
    assert len(layers) == 7
    assert all(seen)
    assert not any(layer.merged for layer in layers)
    for name, item in network.named_parameters():
        torch.testing.assert_close(item.detach(), before[name], atol=1e-6, rtol=1e-6)
        assert item.requires_grad is ("lora_" in name or name.startswith("decoder."))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "llama lora"])
def test_a_fold_interrupted_in_its_forecasts_is_not_trained_again(
    kind, folders, text_table, tmp_path, monkeypatch
):
    from solkit.surrogate.evaluation.splits import split_into_folds

    if kind != "default":
        pytest.importorskip("peft")
    path, adapt = (None, "frozen") if kind == "default" else (folders["llama"], "lora")
    how = RegressorSettings(SHAPE, QUICK, backbone=path, adapt=adapt, device="cpu")
    folds = dict(list(enumerate(split_into_folds(text_table, "families")))[:1])
    taught, teach = [], _Learner._learn_step

    def counting(*arguments):
        taught.append(1)
        return teach(*arguments)

    def stop(text):
        if text.startswith("read "):
            raise KeyboardInterrupt

    monkeypatch.setattr(_Learner, "_learn_step", counting)
    expected = forecast_left_out(text_table, folds, how, "families")
    steps = len(taught)
    assert steps > 0
    with pytest.raises(KeyboardInterrupt):
        forecast_left_out(text_table, folds, how, "families", folder=tmp_path, tell=stop)
    assert len(taught) == 2 * steps
    again = forecast_left_out(text_table, folds, how, "families", folder=tmp_path)
    assert len(taught) == 2 * steps
    np.testing.assert_allclose(again, expected, atol=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["families-0.npy"]
