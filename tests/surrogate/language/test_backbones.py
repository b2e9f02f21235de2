"""A backbone that learns, a few tokens at a time: the gradients are those of all at once."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, interrupted, saved_backbone, table

from solkit.errors import UnsupportedError
from solkit.surrogate.language import model, training
from solkit.surrogate.language.regressor import LanguageRegressor
from solkit.surrogate.language.training import Learning

QUICK = Learning(passes=2, rows=32, piece=4, rate=4e-3, variants=0, unread=0.0, most=256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Fewer keys than queries, as SmolLM2 has them."""
    more = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return saved_backbone("llama", tmp_path_factory.mktemp("llama"), **more)


def learner(folder, adapt, result):
    if adapt == "lora":
        pytest.importorskip("peft")
    parts = LanguageRegressor(folder, adapt=adapt, shape=SHAPE, device="cpu").prepared(result)
    torch.manual_seed(1)
    for name, item in parts.network.named_parameters():
        if "lora_B" in name:  # zero at first, so that nothing would reach the others
            torch.nn.init.normal_(item, std=0.1)
    learner = training._Learner(result, parts, QUICK, None, print)
    learner.network.train()
    return learner


def gradients(result):
    rows = np.arange(0, 32, 2)
    loss = result._learn_step(rows, 0)
    results = {n: item.grad.clone() for n, item in result.network.named_parameters()
            if item.grad is not None}  # fmt: skip
    return loss, results


@pytest.mark.quick("full")
@pytest.mark.parametrize("adapt", ["lora", "full"])
def test_in_parts_and_computed_again_the_gradients_are_the_same(folder, adapt, monkeypatch):
    result = table(8)
    # texts of several lengths
    result.sources.update(
        {f"kernel{k}": result.sources[f"kernel{k}"] + "\nx = 1" * 9 * k for k in range(8)}
    )
    results = learner(folder, adapt, result)
    layers = [
        module for module in results.network.modules() if hasattr(module, "gradient_checkpointing")
    ]
    assert layers
    assert all(item.gradient_checkpointing for item in layers)
    read, states = [], results.network._padded_states
    monkeypatch.setattr(
        results.network,
        "_padded_states",
        lambda ids, known_value: read.append(ids.shape) or states(ids, known_value),
    )
    monkeypatch.setattr(model, "_CPU_TOKENS", 1 << 20)
    for layer in layers:
        layer.gradient_checkpointing = False
    loss, whole = gradients(results)
    assert len(read) == 1
    read.clear()
    monkeypatch.setattr(model, "_CPU_TOKENS", 400)
    for layer in layers:
        layer.gradient_checkpointing = True
    again, parts = gradients(results)
    assert len(read) > 3
    assert all(texts * tokens <= 400 or texts == 1 for texts, tokens in read)
    torch.testing.assert_close(again, loss)
    assert parts.keys() == whole.keys()
    for name, layer in parts.items():
        torch.testing.assert_close(layer, whole[name], atol=1e-5, rtol=1e-3, msg=name)


def test_gradients_reach_what_learns_and_nothing_else(folder):
    for adapt in ("frozen", "lora", "full"):
        result = learner(folder, adapt, table(8))
        result._frozen = result._encode_frozen(0)
        _, results = gradients(result)
        backbone = {name for name in results if name.startswith("backbone.")}
        learns = {name for name, item in result.network.named_parameters() if item.requires_grad}
        assert results.keys() <= learns
        assert bool(backbone) is (adapt != "frozen")
        if adapt == "lora":
            every = {n for n, _ in result.network.named_parameters() if "lora_" in n}
            assert backbone == every
            assert len(every) == 2 * 7 * 2
            assert all(results[name].abs().max() > 0 for name in every)


@pytest.mark.slow
@pytest.mark.parametrize("adapt", ["frozen", pytest.param("lora", marks=pytest.mark.slow)])
def test_losses_fall(folder, adapt):
    result, losses = learner(folder, adapt, table(16)), []
    result.how = replace(QUICK, passes=18)
    result.steps = 36
    taught = result._learn_step
    result._learn_step = lambda rows, step: losses.append(taught(rows, step)) or losses[-1]
    result.run(None)
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("adapt", ["frozen", pytest.param("lora", marks=pytest.mark.slow)])
def test_a_checkpoint_holds_what_learns_and_a_run_goes_on_from_it(folder, adapt, tmp_path):
    if adapt == "lora":
        pytest.importorskip("peft")
    result, file = table(8), tmp_path / "run.pt"
    how = replace(QUICK, passes=16, variants=2)

    def fitted(**options):
        model = LanguageRegressor(folder, adapt=adapt, shape=SHAPE, device="cpu")
        return model.fit(result, how, **options)

    whole = fitted()
    with interrupted(10):
        fitted(checkpoint=file)
    kept = torch.load(file)["network"]
    assert all(name.startswith("decoder.") or "lora_" in name for name in kept)
    resumed = fitted(checkpoint=file)
    np.testing.assert_allclose(
        resumed.forecast(result).mean, whole.forecast(result).mean, atol=1e-3
    )


def test_without_peft_lora_says_so(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[language\]'"):
        LanguageRegressor(folder, adapt="lora", shape=SHAPE, device="cpu").prepared(table(4))
