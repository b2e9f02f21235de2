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


def learner(folder, adapt, made):
    if adapt == "lora":
        pytest.importorskip("peft")
    parts = LanguageRegressor(folder, adapt=adapt, shape=SHAPE, device="cpu").prepared(made)
    torch.manual_seed(1)
    for name, each in parts.network.named_parameters():
        if "lora_B" in name:  # zero at first, so that nothing would reach the others
            torch.nn.init.normal_(each, std=0.1)
    found = training._Learner(made, parts, QUICK, None, print)
    found.network.train()
    return found


def gradients(found):
    rows = np.arange(0, 32, 2)
    loss = found._learn_step(rows, 0)
    told = {n: each.grad.clone() for n, each in found.network.named_parameters()
            if each.grad is not None}  # fmt: skip
    return loss, told


@pytest.mark.quick("full")
@pytest.mark.parametrize("adapt", ["lora", "full"])
def test_in_parts_and_computed_again_the_gradients_are_the_same(folder, adapt, monkeypatch):
    made = table(8)
    # texts of several lengths
    made.sources.update(
        {f"kernel{k}": made.sources[f"kernel{k}"] + "\nx = 1" * 9 * k for k in range(8)}
    )
    found = learner(folder, adapt, made)
    layers = [each for each in found.network.modules() if hasattr(each, "gradient_checkpointing")]
    assert layers
    assert all(each.gradient_checkpointing for each in layers)
    read, states = [], found.network._padded_states
    monkeypatch.setattr(
        found.network,
        "_padded_states",
        lambda ids, known: read.append(ids.shape) or states(ids, known),
    )
    monkeypatch.setattr(model, "_CPU_TOKENS", 1 << 20)
    for each in layers:
        each.gradient_checkpointing = False
    loss, whole = gradients(found)
    assert len(read) == 1
    read.clear()
    monkeypatch.setattr(model, "_CPU_TOKENS", 400)
    for each in layers:
        each.gradient_checkpointing = True
    again, parts = gradients(found)
    assert len(read) > 3
    assert all(texts * tokens <= 400 or texts == 1 for texts, tokens in read)
    torch.testing.assert_close(again, loss)
    assert parts.keys() == whole.keys()
    for name, each in parts.items():
        torch.testing.assert_close(each, whole[name], atol=1e-5, rtol=1e-3, msg=name)


def test_gradients_reach_what_learns_and_nothing_else(folder):
    for adapt in ("frozen", "lora", "full"):
        found = learner(folder, adapt, table(8))
        found._frozen = found._encode_frozen(0)
        _, told = gradients(found)
        backbone = {name for name in told if name.startswith("backbone.")}
        learns = {name for name, each in found.network.named_parameters() if each.requires_grad}
        assert told.keys() <= learns
        assert bool(backbone) is (adapt != "frozen")
        if adapt == "lora":
            every = {n for n, _ in found.network.named_parameters() if "lora_" in n}
            assert backbone == every
            assert len(every) == 2 * 7 * 2
            assert all(told[name].abs().max() > 0 for name in every)


@pytest.mark.slow
@pytest.mark.parametrize("adapt", ["frozen", pytest.param("lora", marks=pytest.mark.slow)])
def test_losses_fall(folder, adapt):
    found, losses = learner(folder, adapt, table(16)), []
    found.how = replace(QUICK, passes=18)
    found.steps = 36
    taught = found._learn_step
    found._learn_step = lambda rows, step: losses.append(taught(rows, step)) or losses[-1]
    found.run(None)
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("adapt", ["frozen", pytest.param("lora", marks=pytest.mark.slow)])
def test_a_checkpoint_holds_what_learns_and_a_run_goes_on_from_it(folder, adapt, tmp_path):
    if adapt == "lora":
        pytest.importorskip("peft")
    made, file = table(8), tmp_path / "run.pt"
    how = replace(QUICK, passes=16, variants=2)

    def fitted(**options):
        model = LanguageRegressor(folder, adapt=adapt, shape=SHAPE, device="cpu")
        return model.fit(made, how, **options)

    whole = fitted()
    with interrupted(10):
        fitted(checkpoint=file)
    kept = torch.load(file)["network"]
    assert all(name.startswith("decoder.") or "lora_" in name for name in kept)
    resumed = fitted(checkpoint=file)
    np.testing.assert_allclose(resumed.forecast(made).mean, whole.forecast(made).mean, atol=1e-3)


def test_without_peft_lora_says_so(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[language\]'"):
        LanguageRegressor(folder, adapt="lora", shape=SHAPE, device="cpu").prepared(table(4))
