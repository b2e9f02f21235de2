"""Tokens of kernel text."""

from __future__ import annotations

import pytest
from few_kernels import source

from solkit.surrogate.language.kernel_text import kernel_text
from solkit.surrogate.language.tokens import encode_text, train_tokenizer

TEXTS = [kernel_text(source(number, number % 2 == 1)) for number in range(8)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 400)


@pytest.mark.parametrize("text", [*TEXTS[:2], "\tπ  = 'é'\n\n   x", "12345"])
def test_nothing_is_lost(tokenizer, text):
    assert tokenizer.decode(encode_text(tokenizer, text, (), 4096).ids) == text


def test_digits_stand_alone(tokenizer):
    assert [tokenizer.decode([item]) for item in encode_text(tokenizer, "4096", (), 9).ids] == list(
        "4096"
    )


def test_the_vocabulary_is_as_large_as_asked_for(tokenizer):
    assert 256 < len(tokenizer) <= 400
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 1)


def test_names_are_found_where_they_stand(tokenizer):
    text = "PART3 = 1\nx = PART3 + PART33"
    result = encode_text(tokenizer, text, ("PART3", "absent", "x"), 4096)
    words = ["".join(tokenizer.decode([result.ids[at]]) for at in place) for place in result.places]
    assert words[0].replace(" ", "") == "PART3PART3"
    assert (words[1], words[2].strip()) == ("", "x")


def test_what_is_cut_off_is_no_place(tokenizer):
    text = encode_text(tokenizer, "a = b\n" * 50 + "LAST", ("LAST", "a"), 20)
    assert len(text.ids) == 20
    assert len(text.places[0]) == 0
    assert max(text.places[1]) < 20


def test_the_same_texts_give_the_same_tokens(tokenizer):
    again = train_tokenizer(TEXTS, 400)
    assert again.get_vocab() == tokenizer.get_vocab()
