"""Kernel text as tokens: a byte-level BPE trained on kernels, and where names stand in a text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.adapters.versions import warn_if_untested
from solkit.extras import library
from solkit.surrogate.features import Array
from solkit.surrogate.language.kernel_text import find_name_spans

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAD, MASK = "<pad>", "<mask>"


@dataclass(frozen=True)
class Encoded:
    """A text as tokens.

    Attributes:
        ids: of its tokens, (tokens,).
        places: for each name that was asked for, the tokens that it stands in; may be empty.
    """

    ids: Array
    places: tuple[Array, ...]


def train_tokenizer(texts: Iterable[str], size: int = 4096) -> PreTrainedTokenizerBase:
    """Return a byte-level BPE of at most `size` tokens: white space is kept, digits stand alone.

    Nothing is downloaded. The same texts give the same tokenizer.

    Raises:
        UnsupportedError: transformers is not installed.
    """
    package = transformers()
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    made_fast: PreTrainedTokenizerBase = package.PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=PAD, mask_token=MASK, clean_up_tokenization_spaces=False
    )
    return made_fast


def encode_text(
    tokenizer: PreTrainedTokenizerBase, text: str, names: Sequence[str], most: int
) -> Encoded:
    """Return a text's tokens, `most` at most, and where names stand among them.

    Args:
        tokenizer: a fast one: it tells where tokens come from.
        text: of a kernel.
        names: to be found.
        most: tokens; the rest is cut off.
    """
    return encode_texts(tokenizer, [text], [names], most)[0]


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    names: Sequence[Sequence[str]],
    most: int,
) -> list[Encoded]:
    """Encode as `encode_text` does, many texts at once, on all cores.

    Args:
        tokenizer: a fast one.
        texts: of kernels.
        names: to be found in each.
        most: tokens of each; the rest is cut off.
    """
    if not texts:
        return []
    encoding = tokenizer(
        list(texts),
        return_offsets_mapping=True,
        add_special_tokens=False,
        truncation=True,
        max_length=most,
        verbose=False,
    )
    parts = zip(texts, names, encoding["input_ids"], encoding["offset_mapping"], strict=True)
    return [
        Encoded(np.array(ids, np.int64), _tokens_of_names(text, own_names, offsets))
        for text, own_names, ids, offsets in parts
    ]


def _tokens_of_names(
    text: str, names: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> tuple[Array, ...]:
    """Return the tokens that each name stands in."""
    starts, ends = [first for first, _ in offsets], [end for _, end in offsets]
    spans = find_name_spans(text, names)
    places = (
        dict.fromkeys(
            place
            for first, end in spans[name]
            for place in range(bisect_right(ends, first), bisect_left(starts, end))
        )
        for name in names
    )
    return tuple(np.array([*tokens], np.int64) for tokens in places)


def transformers() -> Any:
    """Return the module.

    Raises:
        UnsupportedError: it is not installed.
    """
    package = library("transformers", "language")
    warn_if_untested("transformers", package.__version__)
    return package
