"""Kernel text as tokens: a byte-level BPE trained on kernels, and where names stand in a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solkit.errors import UnsupportedError
from solkit.surrogate.language.text import places_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["MASK", "PAD", "Encoded", "encode", "train_tokenizer", "transformers"]

PAD, MASK = "<pad>", "<mask>"


@dataclass(frozen=True)
class Encoded:
    """A text as tokens.

    Attributes:
        ids: of its tokens.
        places: for each name that was asked for, the tokens that it stands in; may be empty.
    """

    ids: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


def train_tokenizer(texts: Iterable[str], size: int = 4096) -> PreTrainedTokenizerBase:
    """A byte-level BPE of at most `size` tokens: white space is kept, digits stand alone.

    Nothing is downloaded. The same texts give the same tokenizer.

    Raises:
        UnsupportedError: transformers is not installed.
    """
    found = transformers()
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    made_fast: PreTrainedTokenizerBase = found.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, mask_token=MASK, clean_up_tokenization_spaces=False
    )
    return made_fast


def encode(
    tokenizer: PreTrainedTokenizerBase, text: str, names: Sequence[str], most: int
) -> Encoded:
    """A text's tokens, `most` at most, and where names stand among them.

    Args:
        tokenizer: a fast one: it tells where tokens come from.
        text: of a kernel.
        names: to be found.
        most: tokens; the rest is cut off.
    """
    told = tokenizer(
        text,
        return_offsets_mapping=True,
        add_special_tokens=False,
        truncation=True,
        max_length=most,
        verbose=False,
    )
    ids: list[int] = told["input_ids"]
    spans = places_of(text, names)
    token_at = _by_character(told["offset_mapping"])
    places = tuple(
        tuple(
            sorted(
                {
                    token_at[at]
                    for first, end in spans[name]
                    for at in range(first, end)
                    if at in token_at
                }
            )
        )
        for name in names
    )
    return Encoded(tuple(ids), places)


def _by_character(offsets: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {at: place for place, (first, end) in enumerate(offsets) for at in range(first, end)}


def transformers() -> Any:
    """The module.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import transformers as found
    except ImportError as error:
        raise UnsupportedError(
            "the language regressor needs transformers: pip install 'solkit[language]'"
        ) from error
    return found
