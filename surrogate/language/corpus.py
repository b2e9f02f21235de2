"""A table's rows and texts as tensors, from which batches are drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from solkit.surrogate.features import Array
from solkit.surrogate.language.kernel_text import Writer, kernel_text
from solkit.surrogate.language.network import Batch, Rows, Texts, pad_token_ids, send_to_device
from solkit.surrogate.language.numbers import MOST_NAMED, VALUE_SIZE, Scale, named_values
from solkit.surrogate.language.tokens import Encoded, encode_text, encode_texts
from solkit.surrogate.table import Table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WORD = 4  # tokens of a value that is a word
_EMPTY = Encoded(np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class Room:
    """Room that a batch has at least, so that batches share a shape.

    Attributes:
        texts: of them.
        tokens: of a text.
        names: of a text.
        named: values of a row.
    """

    texts: int = 0
    tokens: int = 0
    names: int = 0
    named: int = 0


@dataclass
class Corpus:
    """Rows and the texts that they are of.

    Attributes:
        tokenizer: of the texts.
        texts: distinct ones.
        names: of the values that rows of a text have, for each text.
        text_of: the text of each row, (rows,).
        features, unknown: (rows, features) each.
        named_of: which of the distinct sets of named values each row has, (rows,).
        name, value, word, size, present: of the distinct sets: see `Rows`.
        most: tokens of a text that are read.
    """

    tokenizer: PreTrainedTokenizerBase
    texts: list[str]
    names: list[tuple[str, ...]]
    text_of: Array
    features: Tensor
    unknown: Tensor
    named_of: Array
    name: Tensor
    value: Tensor
    word: Tensor
    size: Tensor
    present: Tensor
    most: int
    _encoded: dict[int, Encoded] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._counts = self.present.sum(1).cpu().numpy()

    @property
    def named(self) -> int:
        """Values that a row has, at most."""
        return int(self._counts.max(initial=1))

    @staticmethod
    def from_table(
        table: Table, tokenizer: PreTrainedTokenizerBase, scale: Scale, most: int = 1024
    ) -> Corpus:
        """Read a table's rows.

        Args:
            table: with the texts of its kernels.
            tokenizer: of the texts.
            scale: of the features.
            most: tokens of a text that are read.
        """
        texts, text_of = distinct_texts(table)
        keys = np.char.add(
            np.char.add(table.about["params"].astype(str), "\n"), table.about["shape"]
        )
        keys = np.char.add(np.char.add(text_of.astype(str), "\n"), keys)
        distinct, first, named_of_row = np.unique(keys, return_index=True, return_inverse=True)
        sets = [
            named_values(str(table.about["params"][row]), str(table.about["shape"][row]))
            for row in first
        ]
        names: list[dict[str, int]] = [{} for _ in texts]
        number = len(distinct)
        name = np.zeros((number, MOST_NAMED), np.int64)
        value = np.zeros((number, MOST_NAMED, VALUE_SIZE), np.float32)
        word = np.zeros((number, MOST_NAMED, _WORD), np.int64)
        size, present = np.zeros((2, number, MOST_NAMED), bool)
        spelled: dict[str, list[int]] = {}
        for at, (row, named) in enumerate(zip(first, sets, strict=True)):
            number_of = names[text_of[row]]
            count = len(named.names)
            name[at, :count] = [number_of.setdefault(n, len(number_of)) for n in named.names]
            value[at, :count], size[at, :count], present[at, :count] = (
                named.values,
                named.sizes,
                True,
            )
            for place, text in enumerate(named.words):
                if text and text not in spelled:
                    spelled[text] = _word_token_ids(tokenizer, text)
                if text:
                    word[at, place, : len(spelled[text])] = spelled[text]
        features, unknown = scale.scale_features(table)
        return Corpus(
            tokenizer,
            texts,
            [tuple(mapping) for mapping in names],
            text_of,
            torch.from_numpy(features),
            torch.from_numpy(unknown),
            named_of_row.reshape(-1),
            torch.from_numpy(name),
            torch.from_numpy(value),
            torch.from_numpy(word),
            torch.from_numpy(size),
            torch.from_numpy(present),
            most,
        )

    def to(self, device: torch.device | str) -> Corpus:
        """Return the corpus with its tensors on a device."""
        return replace(
            self,
            features=self.features.to(device),
            unknown=self.unknown.to(device),
            name=self.name.to(device),
            value=self.value.to(device),
            word=self.word.to(device),
            size=self.size.to(device),
            present=self.present.to(device),
        )

    def encoded(self, text: int) -> Encoded:
        """Return a text's tokens."""
        if text not in self._encoded:
            tokens = encode_text(self.tokenizer, self.texts[text], self.names[text], self.most)
            self._encoded[text] = tokens
        return self._encoded[text]

    def encoded_all(self, texts: Sequence[int]) -> list[Encoded]:
        """Encode as `encoded` does, many texts at once."""
        new = [text for text in texts if text not in self._encoded]
        written, names = [self.texts[text] for text in new], [self.names[text] for text in new]
        encoded = encode_texts(self.tokenizer, written, names, self.most)
        self._encoded.update(zip(new, encoded, strict=True))
        return [self._encoded[text] for text in texts]

    def variants(self, count: int, writer: Writer, seed: int) -> list[list[Encoded]]:
        """Return other texts that mean the same, `count` of each text."""
        written, names = [], []
        for place, text in enumerate(self.texts):
            for which in range(count):
                other, renamed = writer.variant(text, random.Random(f"{seed} {place} {which}"))
                written.append(other)
                names.append([renamed.get(name, name) for name in self.names[place]])
        encoded = encode_texts(self.tokenizer, written, names, self.most)
        return [encoded[at : at + count] for at in range(0, len(encoded), max(count, 1))]

    def batch(
        self, rows: Array, variants: Mapping[int, Encoded] | None = None, room: Room | None = None
    ) -> Batch:
        """Return some rows and their texts, on the device of the rows' tensors.

        Args:
            rows: places in the table.
            variants: of texts, in place of them.
            room: that the batch has at least.
        """
        texts, text_of = np.unique(self.text_of[rows], return_inverse=True)
        chosen = [(variants or {}).get(int(text)) or self.encoded(int(text)) for text in texts]
        chosen_rows = self.rows(rows, text_of.reshape(-1), room.named if room else 0)
        return Batch(self.together(chosen, room), chosen_rows)

    def together(self, chosen: Sequence[Encoded], room: Room | None = None) -> Texts:
        """Do as `texts_side_by_side`, on the device of the rows' tensors."""
        return texts_side_by_side(chosen, room).to(self.features.device)

    def rows(self, rows: Array, text_of: Array, named: int = 0) -> Rows:
        """Return some rows, whose texts are at some places.

        Args:
            rows: places in the table.
            text_of: of each.
            named: values that each has room for at least.
        """
        device = self.features.device
        at = send_to_device(torch.as_tensor(rows), device)
        sets = self.named_of[rows]
        longest = max([named, 1, *self._counts[sets].tolist()])
        of_row = send_to_device(torch.as_tensor(sets), device)
        return Rows(
            send_to_device(torch.as_tensor(text_of), device),
            self.features[at],
            self.unknown[at],
            *(column[of_row, :longest] for column in (self.name, self.value, self.word)),
            *(column[of_row, :longest] for column in (self.size, self.present)),
        )


def texts_side_by_side(chosen: Sequence[Encoded], room: Room | None = None) -> Texts:
    """Put texts side by side.

    Args:
        chosen: texts.
        room: that they have at least; texts that fill it up are empty.
    """
    space = room or Room()
    chosen = [*chosen, *(_EMPTY for _ in range(len(chosen), space.texts))]
    ids, mask = pad_token_ids([encoded.ids for encoded in chosen], space.tokens)
    most = max([space.names, 1, *(len(encoded.places) for encoded in chosen)])
    weights = np.zeros((len(chosen), most, ids.shape[1]), np.float32)
    for text, encoded in zip(weights, chosen, strict=True):
        for name, tokens in zip(text, encoded.places, strict=False):
            name[tokens] = 1.0
    lengths = tuple(max(len(encoded.ids), 1) for encoded in chosen)
    return Texts(ids, mask, torch.from_numpy(weights), lengths)


def distinct_texts(table: Table) -> tuple[list[str], Array]:
    """Return the distinct texts of a table's kernels, and which of them each row is of, (rows,)."""
    ids, where = np.unique(table.about["kernel_id"].astype(str), return_inverse=True)
    read = [kernel_text(table.sources.get(kernel_id, "")) for kernel_id in ids]
    places = {text: place for place, text in enumerate(dict.fromkeys(read))}
    return list(places), np.array([places[text] for text in read], int)[where.reshape(-1)]


def _word_token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids[:_WORD]
