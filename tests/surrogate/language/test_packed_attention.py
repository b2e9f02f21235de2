"""`solkit.surrogate.language.packed_attention`."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, table

from solkit.surrogate.language import model, packed_attention, training
from solkit.surrogate.language.model import small_backbone
from solkit.surrogate.language.network import Texts, pad_token_ids
from solkit.surrogate.language.regressor import LanguageRegressor
from solkit.surrogate.language.training import Learning

LENGTHS = (200, 1, 77, 300)


def texts():
    chance = np.random.default_rng(0)
    ids, known_value = pad_token_ids([chance.integers(1, 50, length) for length in LENGTHS])
    return Texts(ids, known_value, torch.zeros(len(LENGTHS), 1, ids.shape[1]), LENGTHS)


def backbone():
    torch.manual_seed(0)
    return small_backbone(50, width=64, layers=3).eval()


def by_hand(query, key, value, starts, _, longest, __, *, scale, window_size):
    """Each text on its own, each pair of tokens compared, as `varlen_attn` is documented."""
    assert longest >= starts.diff().max()
    result = torch.empty_like(query)
    for first, last in zip(starts.tolist(), starts.tolist()[1:], strict=False):
        here = slice(first, last)
        scores = torch.einsum("qhd,khd->hqk", query[here], key[here]) * scale
        apart = torch.arange(last - first)[:, None] - torch.arange(last - first)
        if window_size != (-1, -1):
            scores = scores.masked_fill((apart > window_size[0]) | (-apart > window_size[1]), -1e9)
        result[here] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), value[here])
    return result


def test_packed_texts_are_read_as_padded_ones(monkeypatch):
    monkeypatch.setattr(packed_attention, "varlen_attn", by_hand)
    some, reads = texts(), backbone()
    with torch.no_grad():
        result = packed_attention.packed_states(reads, some)
        padded = reads(input_ids=some.ids, attention_mask=some.mask.long()).last_hidden_state
    assert result.shape == padded.shape
    torch.testing.assert_close(result[some.mask], padded[some.mask], rtol=1e-4, atol=1e-5)
    assert not result[~some.mask].any()


def test_texts_of_padding_change_nothing(monkeypatch):
    monkeypatch.setattr(packed_attention, "varlen_attn", by_hand)
    some, reads = texts(), backbone()
    how = packed_attention.pack_texts(some, tokens=1000, texts_more=4)
    assert len(how.place) == 1000  # 578 tokens, and a text and a half of padding
    assert len(how.starts) == len(LENGTHS) + 4 + 1
    assert how.starts.diff().tolist() == [*LENGTHS, 304, 118, 0, 0]
    with torch.no_grad():
        alone = packed_attention.packed_states(reads, some)
        filled = packed_attention.packed_states(reads, replace(some, packing=how))
    torch.testing.assert_close(filled, alone)


@pytest.mark.slow
def test_a_packed_step_filled_up_gives_the_gradients_of_a_padded_one(monkeypatch):
    result = table(8)
    read = LanguageRegressor(shape=replace(SHAPE, width=64, layers=3), device="cpu")
    parts = read.prepared(result)
    parts.network.train(False)  # no dropout
    learner = training._Learner(result, parts, Learning(variants=0, unread=0.0), None, print)
    rows = np.array([3, 7, 8, 20, 21])

    def gradients(batch, answers):
        parts.network.zero_grad()
        learner._loss_of_batch(batch, answers).backward()
        return {
            name: items.grad.clone()
            for name, items in parts.network.named_parameters()
            if items.grad is not None
        }

    padded = gradients(learner.corpus.batch(rows), learner._answers_of_rows(rows, 5))
    filled = np.resize(rows, training._round_up(len(rows), 8))
    batch = training._pack_batch(learner.corpus.batch(filled, {}, replace(learner._room, texts=6)))
    monkeypatch.setattr(model, "is_packable", lambda *_: True)
    monkeypatch.setattr(packed_attention, "varlen_attn", by_hand)
    reported_batch = training._batch_to_tensors(batch, learner._answers_of_rows(filled, 5))
    results = gradients(*training._batch_from_tensors(reported_batch))
    assert results.keys() == padded.keys()
    for name, item in results.items():
        torch.testing.assert_close(item, padded[name], atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("width", [64, 100])
def test_a_gpu_packs_where_flash_attention_would(monkeypatch, width):
    reads, gpu = small_backbone(50, width=width, layers=1), torch.device("cuda")
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: True)
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    assert packed_attention.is_packable(reads, gpu) is (
        width == 64
    )  # heads of 100 are no multiple of 8
    for module, name, result in (
        (torch.cuda, "get_device_capability", (7, 5)),
        (torch, "is_autocast_enabled", False),
        (torch.backends.cuda, "is_flash_attention_available", False),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_, results=result: results)
            assert not packed_attention.is_packable(reads, gpu)


def test_a_layer_of_windows_looks_64_tokens_around(monkeypatch):
    seen = []

    def watched(*arguments, window_size, **rest):
        seen.append(window_size)
        return by_hand(*arguments, window_size=window_size, **rest)

    monkeypatch.setattr(packed_attention, "varlen_attn", watched)
    with torch.no_grad():
        packed_attention.packed_states(backbone(), texts())
    assert seen == [(-1, -1), (64, 64), (64, 64)]


def test_a_cpu_reads_padded_texts():
    assert not packed_attention.is_packable(backbone(), torch.device("cpu"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_reads_packed_texts_as_padded_ones():
    some, reads = texts().to("cuda"), backbone().to("cuda")
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        assert packed_attention.is_packable(reads, some.ids.device)
        result = packed_attention.packed_states(reads, some)
        padded = reads(input_ids=some.ids, attention_mask=some.mask.long()).last_hidden_state
    off = (result - padded)[some.mask].abs().mean() / padded[some.mask].abs().mean()
    assert off < 0.02  # bf16
