"""The network: what it reads does not depend on what else is in the batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, TINY, table, tiny

from solkit.surrogate.language.corpus import Corpus
from solkit.surrogate.language.network import Texts, group_by_length, pad_token_ids, weighted_means
from solkit.surrogate.language.regressor import LanguageRegressor


@pytest.fixture(scope="module")
def small_table():
    return table(6)


@pytest.fixture(scope="module")
def corpus(small_table):
    parts = tiny().prepared(small_table)
    parts.network.train(False)
    return parts, Corpus.from_table(small_table, parts.tokenizer, parts.scale)


def predicted(parts, batch):
    with torch.inference_mode():
        return parts.network(batch)[0]


def test_means_of_states_are_of_the_tokens_named():
    states = torch.arange(12.0).view(1, 4, 3)
    weights = torch.tensor([[[1.0, 0, 1, 0], [0, 0, 0, 0]]])
    np.testing.assert_allclose(weighted_means(states, weights)[0], [[3, 4, 5], [0, 0, 0]])


def test_padding_is_marked():
    ids, known_value = pad_token_ids([[5, 6], [7], []])
    assert ids[:, :2].tolist() == [[5, 6], [7, 0], [0, 0]]
    assert ids.shape == (3, 16)
    assert not ids[:, 2:].any()
    assert known_value[:, :2].tolist() == [[True, True], [True, False], [True, False]]
    assert not known_value[:, 2:].any()


def test_texts_of_about_the_same_length_are_read_together():
    lengths = tuple(np.random.default_rng(0).permutation(64).tolist())
    texts = Texts(torch.zeros(64, 64), torch.zeros(64, 64), torch.zeros(64, 1, 64), lengths)
    parts = texts.alike(most=4, least=8)
    assert sorted(np.concatenate(parts)) == list(range(64))
    assert [max(lengths[at] for at in part) for part in parts] == [15, 31, 47, 63]
    assert len(texts.alike(most=4, least=40)) == 1


def test_groups_hold_a_bounded_number_of_tokens_and_the_longest_come_first():
    lengths = np.random.default_rng(0).integers(1, 300, 60).tolist()
    groups = group_by_length(lengths, 640)
    assert sorted(np.concatenate(groups)) == list(range(60))
    longest = [max(lengths[text] for text in group) for group in groups]
    assert longest == sorted(longest, reverse=True)
    assert all(-(-n // 16) * 16 * len(group) <= 640 for n, group in zip(longest, groups))
    assert len(groups) < 1.5 * sum(lengths) / 640
    assert group_by_length([2000, 5], 640) == [[0], [1]]
    assert group_by_length([], 640) == []


def test_a_row_alone_gets_what_it_gets_among_others(corpus):
    parts, rows = corpus
    long = rows.texts[0] + "\nx = 1" * 40  # others are padded beside it
    rows.texts.append(long)
    rows.names.append(rows.names[0])
    everything = predicted(parts, rows.batch(np.arange(24)))
    for row in (0, 7, 23):
        alone = predicted(parts, rows.batch(np.array([row])))
        torch.testing.assert_close(alone[0], everything[row], atol=1e-4, rtol=1e-4)


def test_a_parameters_value_counts(corpus):
    parts, rows = corpus
    batch = rows.batch(np.array([0, 1]))  # of one kernel, PART is 1 and 2
    batch.rows.features[1] = batch.rows.features[0]
    result = predicted(parts, batch)
    assert (result[0] - result[1]).abs().max() > 1e-4
    batch.rows.value[1] = batch.rows.value[0]
    same = predicted(parts, batch)
    torch.testing.assert_close(same[0], same[1])


def test_an_unread_text_says_nothing(corpus):
    parts, rows = corpus
    batch = rows.batch(np.arange(8))
    reading = parts.network.read(batch.texts)
    none = reading.without(1.0)
    assert none.latents.abs().max() == none.names.abs().max() == 0
    torch.testing.assert_close(reading.without(0.0).latents, reading.latents)


def test_the_mean_is_that_of_the_distribution(corpus):
    parts, _ = corpus
    decoder = parts.network.decoder
    logits = torch.full((1, len(decoder.bins)), -1e9)
    logits[0, 3] = logits[0, 5] = 0.0
    expected = (decoder.bins[3] + decoder.bins[5]) / 2
    torch.testing.assert_close(decoder.expected(logits)[0], expected)


@pytest.mark.parametrize(("latents", "narrow"), [(0, 0), (2, 3), (0, 3)])
def test_a_text_may_be_read_through_names_alone_or_narrowly(small_table, latents, narrow):
    shape = replace(SHAPE, decoder={**TINY, "latents": latents, "narrow": narrow})
    parts = LanguageRegressor(shape=shape, device="cpu").prepared(small_table)
    parts.network.train(False)
    rows = Corpus.from_table(small_table, parts.tokenizer, parts.scale)
    batch = rows.batch(np.arange(4))
    before = predicted(parts, batch)
    batch.texts.names[:] = 0
    assert not torch.allclose(predicted(parts, batch), before)  # the parameters' names count
    if not latents:
        batch.texts.ids[:] = 5
        unnamed = predicted(parts, batch)
        batch.texts.ids[:] = 7
        torch.testing.assert_close(predicted(parts, batch), unnamed)  # and nothing else of the text
