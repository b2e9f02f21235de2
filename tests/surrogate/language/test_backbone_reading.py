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
def made():
    """Texts of several lengths, the longest in the middle; two kernels have the same."""
    found = table(10)
    for k in range(10):
        found.sources[f"kernel{k}"] += "\nx = 1" * (2 * k * (9 - k) + 1)
    found.sources["kernel9"] = found.sources["kernel0"]
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {k: saved_backbone(k, tmp_path_factory.mktemp(k)) for k in ("bert", "llama")}


def built(kind, folders, made):
    """A regressor whose LoRA, if it has one, says something."""
    if kind == "default":
        found = tiny()
    else:
        name, adapt = kind.split()
        if adapt == "lora":
            pytest.importorskip("peft")
        found = LanguageRegressor(folders[name], adapt=adapt, shape=SHAPE, device="cpu")
    network = found.prepared(made).network
    torch.manual_seed(1)
    for name, each in network.named_parameters():
        if "lora_B" in name:  # zero at first
            torch.nn.init.normal_(each, std=0.1)
    return found


def one_by_one(found, made):
    """What the network says of each text's rows alone, with LoRA beside its weights."""
    parts = found.prepared(made)
    parts.network.train(False)
    corpus = Corpus.from_table(made, parts.tokenizer, parts.scale, parts.most)
    told = np.zeros(len(made))
    for text in range(len(corpus.texts)):
        rows = np.flatnonzero(corpus.text_of == text)
        with torch.no_grad():
            logits, _ = parts.network(corpus.batch(rows))
            told[rows] = parts.network.decoder.expected(logits).numpy()
    return told


def counted(network, monkeypatch):
    """The number of texts of each time that the backbone reads."""
    found, states = [], network._padded_states
    monkeypatch.setattr(
        network, "_padded_states", lambda ids, known: found.append(len(ids)) or states(ids, known)
    )
    return found


@pytest.mark.quick("default", "llama frozen", "llama full")
@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_of_texts_read_together_are_those_of_each_alone(kind, folders, made, monkeypatch):
    found = built(kind, folders, made)
    network = found.prepared(made).network
    wanted = one_by_one(found, made)
    assert np.ptp(wanted) > 1e-3
    monkeypatch.setattr(model, "_CPU_TOKENS", 1024)
    read = counted(network, monkeypatch)
    network.train()
    np.testing.assert_allclose(found.forecast(made).mean, wanted, atol=1e-5)
    assert sum(read) == 9  # two of ten are the same
    assert 1 < len(read) < 9
    found.forecast(made[np.arange(4, 20)])
    assert sum(read) == 9
    assert not network.training


def test_more_texts_than_are_kept_are_read_once_as_well(folders, made, monkeypatch):
    found = built("llama frozen", folders, made)
    read = counted(found.prepared(made).network, monkeypatch)
    wanted = found.forecast(made)
    found._readings.clear()
    read.clear()
    monkeypatch.setattr(regressor, "_READINGS", 3)
    monkeypatch.setattr(regressor, "_ROWS", 7)
    np.testing.assert_allclose(found.forecast(made).mean, wanted.mean, atol=1e-5)
    assert sum(read) == 9
    assert len(found._readings) == 3


def test_how_far_it_is_is_told(folders, made, monkeypatch):
    monkeypatch.setattr(model, "_CPU_TOKENS", 1024)
    monkeypatch.setattr(backbone_reading, "_TOLD_EVERY_S", -1.0)
    found, told = built("llama frozen", folders, made), []
    read = counted(found.prepared(made).network, monkeypatch)
    found.forecast(made, told.append)
    assert told == [f"read {n} of 9 texts" for n in np.cumsum(read)]
    found.forecast(made, told.append)  # nothing is read
    assert len(told) == len(read)


def test_lora_is_merged_only_while_texts_are_read_even_if_that_is_interrupted(
    folders, made, monkeypatch
):
    found = built("llama lora", folders, made)
    network = found.prepared(made).network
    before = {name: each.detach().clone() for name, each in network.named_parameters()}
    layers = [each for each in network.modules() if hasattr(each, "merged_adapters")]
    states, seen = network.states, []

    def watched(texts):
        seen.append(all(each.merged for each in layers))
        if len(seen) == 1:
            raise KeyboardInterrupt
        return states(texts)

    monkeypatch.setattr(network, "states", watched)
    with pytest.raises(KeyboardInterrupt):
        found.forecast(made)
    assert not any(each.merged for each in layers)
    found.forecast(made)
    assert len(layers) == 7
    assert all(seen)
    assert not any(each.merged for each in layers)
    for name, each in network.named_parameters():
        torch.testing.assert_close(each.detach(), before[name], atol=1e-6, rtol=1e-6)
        assert each.requires_grad is ("lora_" in name or name.startswith("decoder."))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "llama lora"])
def test_a_fold_interrupted_in_its_forecasts_is_not_trained_again(
    kind, folders, made, tmp_path, monkeypatch
):
    from solkit.surrogate.evaluation.splits import split_into_folds

    if kind != "default":
        pytest.importorskip("peft")
    path, adapt = (None, "frozen") if kind == "default" else (folders["llama"], "lora")
    how = RegressorSettings(SHAPE, QUICK, backbone=path, adapt=adapt, device="cpu")
    folds = dict(list(enumerate(split_into_folds(made, "families")))[:1])
    taught, teach = [], _Learner._learn_step

    def counting(*asked):
        taught.append(1)
        return teach(*asked)

    def stop(text):
        if text.startswith("read "):
            raise KeyboardInterrupt

    monkeypatch.setattr(_Learner, "_learn_step", counting)
    wanted = forecast_left_out(made, folds, how, "families")
    steps = len(taught)
    assert steps > 0
    with pytest.raises(KeyboardInterrupt):
        forecast_left_out(made, folds, how, "families", folder=tmp_path, tell=stop)
    assert len(taught) == 2 * steps
    again = forecast_left_out(made, folds, how, "families", folder=tmp_path)
    assert len(taught) == 2 * steps
    np.testing.assert_allclose(again, wanted, atol=1e-4)
    assert [each.name for each in tmp_path.iterdir()] == ["families-0.npy"]
