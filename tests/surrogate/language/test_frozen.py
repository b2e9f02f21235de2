"""States of a frozen backbone: computed once, and those that it would give each time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from few_kernels import SHAPE, saved_backbone, table

from solkit.surrogate.language import backbone_reading, model
from solkit.surrogate.language.backbone_reading import FrozenStates
from solkit.surrogate.language.corpus import Corpus
from solkit.surrogate.language.regressor import LanguageRegressor
from solkit.surrogate.language.tokens import Encoded

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["bert", "llama"])
def frozen_parts(request, tmp_path_factory):
    path = saved_backbone(request.param, tmp_path_factory.mktemp(request.param))
    parts = LanguageRegressor(path, shape=SHAPE, device="cpu").prepared(table(8))
    corpus = Corpus.from_table(table(8), parts.tokenizer, parts.scale)
    whole = [corpus.encoded(text) for text in range(8)]
    cut = [Encoded(item.ids[: 10 + 20 * n], ()) for n, item in enumerate(whole)]
    return parts.network, corpus, [*cut, Encoded(np.zeros(0, np.int64), ())]


def test_they_are_those_of_the_backbone_itself(frozen_parts, monkeypatch):
    network, corpus, texts = frozen_parts
    monkeypatch.setattr(model, "_CPU_TOKENS", 200)  # some texts a group
    network.train()  # BERT would drop some
    kept = FrozenStates(network, texts, CPU)
    for chosen in (texts, texts[::-2], texts[-1:]):
        batch = corpus.together(chosen)
        with torch.no_grad():
            direct = network.states(batch)
        result = kept.of(chosen, batch.ids.shape[1])
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, direct, atol=2e-3, rtol=2e-3)
        assert not result[~batch.mask].any()


def test_each_distinct_text_is_read_once_and_that_is_told(frozen_parts, monkeypatch):
    network, _, texts = frozen_parts
    monkeypatch.setattr(model, "_CPU_TOKENS", 200)
    monkeypatch.setattr(backbone_reading, "_TOLD_EVERY_S", -1.0)
    read, results, states = [], [], network.states
    monkeypatch.setattr(network, "states", lambda item: read.append(len(item.ids)) or states(item))
    FrozenStates(network, texts * 3, CPU, results.append)
    assert sum(read) == 9
    assert len(results) == len(read) > 2
    assert results[0] == f"read {read[0]} of 9 texts"
    assert results[-1] == "read 9 of 9 texts"


def test_no_texts_need_no_backbone(frozen_parts):
    assert FrozenStates(frozen_parts[0], [], CPU).of([], 16).shape == (0, 16, 32)
