"""The network: a text is read once, and its rows ask it.

An encoder reads the kernel's text. What it says goes two ways: a few latent vectors that learned
queries draw from it (Jaegle et al., "Perceiver IO", 2021), and a vector for each name that a row
gives a value to: the mean of the encoder's states where the name stands. So a parameter that was
never seen is known by what the text does with it.

A row's tokens are one of all features together, and one of each named value. They attend to each
other and to the latents. The first of them answers: a distribution over bins of the target (Imani
and White, "Improving regression performance with distributional losses", 2018), and guesses of
facts that only a compiler knows, which are asked for in training alone. Features enter through
sines and cosines (Gorishniy et al., "On embeddings for numerical features in tabular deep
learning", 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solkit.surrogate.features import Array

if TYPE_CHECKING:
    from collections.abc import Sequence


ALIGNED = 16
"""Tokens: lengths of texts are padded to multiples of it."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the part that reads rows.

    Attributes:
        text: width of the encoder's states.
        features: numbers of a row.
        value: numbers that tell a named value.
        facts: that are guessed.
        width: of the tokens.
        layers, heads: of the attention.
        latents: vectors that a text is summed up in; 0 for none, so that only names are read.
        narrow: numbers that a vector of a text has at its narrowest, so that kernels are not simply
            recognised; 0 for no such limit.
        waves, feature: frequencies, and width, of a feature's embedding.
        bins: of the target, from `low` to `high`, in log2.
        dropout: in training.
    """

    text: int
    features: int
    value: int
    facts: int
    width: int = 192
    layers: int = 2
    heads: int = 4
    latents: int = 8
    narrow: int = 0
    waves: int = 12
    feature: int = 12
    bins: int = 67
    low: float = -5.0
    high: float = 6.0
    dropout: float = 0.1


@dataclass(frozen=True)
class Packing:
    """Layout of texts end to end: see `solkit.surrogate.language.packed_attention`.

    Attributes:
        position: of each token in its text, (packed tokens,).
        place: of each token among the padded texts' tokens, one text after the other, (packed
            tokens,).
        starts: where each text starts, and where the last one ends, (texts + 1,).
        longest: tokens of a text at most.
    """

    position: Tensor
    place: Tensor
    starts: Tensor
    longest: int

    def to(self, device: torch.device | str) -> Packing:
        """Move to a device."""
        position, place, starts = (
            send_to_device(tensor, device) for tensor in (self.position, self.place, self.starts)
        )
        return Packing(position, place, starts, self.longest)


@dataclass(frozen=True)
class Texts:
    """Some texts as tensors.

    Attributes:
        ids: (texts, tokens).
        mask: which tokens are no padding, (texts, tokens).
        names: weights of the tokens that each name's vector is the mean of, (texts, names, tokens);
            0 where a name does not occur.
        lengths: tokens of each text.
        packing: how they lie end to end; ``None`` where nobody asked.
    """

    ids: Tensor
    mask: Tensor
    names: Tensor
    lengths: tuple[int, ...]
    packing: Packing | None = None

    def to(self, device: torch.device | str) -> Texts:
        """Move to a device."""
        ids, mask, names = (
            send_to_device(tensor, device) for tensor in (self.ids, self.mask, self.names)
        )
        return Texts(ids, mask, names, self.lengths, self.packing and self.packing.to(device))

    def alike(self, most: int = 4, least: int = 8) -> list[list[int]]:
        """Return places of texts of about the same length, so that few tokens are padding.

        Args:
            most: groups.
            least: texts of a group, about.
        """
        order = sorted(range(len(self.lengths)), key=lambda text: self.lengths[text])
        size = -(-len(order) // max(min(most, len(order) // least), 1))
        return [order[at : at + size] for at in range(0, len(order), max(size, 1))]


@dataclass(frozen=True)
class Rows:
    """Some rows as tensors.

    Attributes:
        text: which text each is of, (rows,).
        features, unknown: (rows, features) each.
        name: the name of each value, a place in its text's names, (rows, named).
        value: (rows, named, numbers).
        word: tokens of a value that is a word, (rows, named, tokens); padded with 0.
        size: which are sizes of the problem, (rows, named).
        present: which places hold a value, (rows, named).
    """

    text: Tensor
    features: Tensor
    unknown: Tensor
    name: Tensor
    value: Tensor
    word: Tensor
    size: Tensor
    present: Tensor

    def to(self, device: torch.device | str) -> Rows:
        """Move to a device."""
        return Rows(*(send_to_device(tensor, device) for tensor in vars(self).values()))


@dataclass(frozen=True)
class Batch:
    """Texts and their rows.

    Attributes:
        texts: of the rows.
        rows: to be asked.
        states: of the texts' tokens, where they are known already: (texts, tokens, width).
    """

    texts: Texts
    rows: Rows
    states: Tensor | None = None


@dataclass(frozen=True)
class Reading:
    """Reading of texts.

    Attributes:
        latents: (texts, latents, width).
        names: (texts, names, width).
    """

    latents: Tensor
    names: Tensor

    @staticmethod
    def join_readings(readings: Sequence[Reading]) -> Reading:
        """Join the readings of some texts in order; names that one lacks are zeros."""
        most = max(reading.names.shape[1] for reading in readings)
        names = [
            F.pad(reading.names, (0, 0, 0, most - reading.names.shape[1])) for reading in readings
        ]
        return Reading(torch.cat([reading.latents for reading in readings]), torch.cat(names))

    def of(self, text: int, names: int) -> Reading:
        """Return the reading of one text, which has so many names."""
        here = slice(text, text + 1)
        return Reading(self.latents[here], self.names[here, : max(names, 1)])

    def without(self, share: float) -> Reading:
        """Leave a share of the texts unread, drawn anew."""
        shape = (len(self.latents), 1, 1)
        kept = (torch.rand(shape, device=self.latents.device) >= share).to(self.latents.dtype)
        return Reading(self.latents * kept, self.names * kept)


def send_to_device(values: Tensor, device: torch.device | str) -> Tensor:
    """Send values to a device. The CPU does not wait until they are there."""
    is_far = torch.device(device).type == "cuda" and values.device.type == "cpu"
    return (values.pin_memory() if is_far else values).to(device, non_blocking=True)


def weighted_means(states: Tensor, weights: Tensor) -> Tensor:
    """Return means of states (texts, tokens, width) by weights (texts, names, tokens)."""
    total = weights.sum(-1, keepdim=True).clamp(min=1.0)
    return torch.bmm(weights.to(states.dtype), states) / total.to(states.dtype)


_SPREAD = 0.3  # of the waves' frequencies at first


class _FeatureEncoder(nn.Module):
    """Encoding of each feature by its own sines and cosines; an unknown one has its own vector."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        number, waves, width = sizes.features, sizes.waves, sizes.feature
        self.waves = nn.Parameter(torch.randn(number, waves) * _SPREAD)
        self.weight = nn.Parameter(torch.randn(number, 2 * waves + 1, width) / math.sqrt(2 * waves))
        self.bias = nn.Parameter(torch.zeros(number, width))
        self.unknown = nn.Parameter(torch.randn(number, width) * 0.02)

    def forward(self, features: Tensor, unknown: Tensor) -> Tensor:
        angles = 2 * math.pi * features[..., None] * self.waves
        parts = torch.cat([angles.sin(), angles.cos(), features[..., None]], -1)
        activations = F.relu(torch.einsum("rfp,fpw->rfw", parts, self.weight) + self.bias)
        return torch.where(unknown[..., None], self.unknown, activations).flatten(1)


class _Block(nn.Module):
    """Tokens attend to each other, then to what the text says, then each is thought over."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.own = _Attention(sizes)
        self.text = _Attention(sizes)
        self.think = _FeedForward(sizes)

    def forward(self, tokens: Tensor, present: Tensor, latents: Tensor) -> Tensor:
        tokens = tokens + self.own(tokens, tokens, present)
        if latents.shape[1]:
            tokens = tokens + self.text(tokens, latents, None)
        return self.think(tokens)  # type: ignore[no-any-return]


class _FeedForward(nn.Module):
    """Two layers, added to what they get."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.inner = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(sizes.dropout),
            nn.Linear(2 * width, width),
            nn.Dropout(sizes.dropout),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.inner(tokens)  # type: ignore[no-any-return]


class _Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.heads, self.dropout = sizes.heads, sizes.dropout
        self.norm, self.norm_of = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask, self.tell = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor, source: Tensor, present: Tensor | None) -> Tensor:
        rows, number, width = tokens.shape
        ask = self.ask(self.norm(tokens)).view(rows, number, self.heads, -1).transpose(1, 2)
        keys, values = self.tell(self.norm_of(source)).chunk(2, -1)
        keys = keys.view(rows, source.shape[1], self.heads, -1).transpose(1, 2)
        values = values.view(rows, source.shape[1], self.heads, -1).transpose(1, 2)
        mask = None if present is None else present[:, None, None, :]
        attended = F.scaled_dot_product_attention(
            ask, keys, values, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
        return self.out(attended.transpose(1, 2).reshape(rows, number, width))  # type: ignore[no-any-return]


def _narrowing_layers(sizes: Sizes) -> nn.Module:
    """Make the layers from a text's states to the width of tokens."""
    if not sizes.narrow:
        return nn.Linear(sizes.text, sizes.width)
    return nn.Sequential(
        nn.Linear(sizes.text, sizes.narrow), nn.Tanh(), nn.Linear(sizes.narrow, sizes.width)
    )


class Decoder(nn.Module):
    """Reads rows: their features, their named values, and what their text says."""

    bins: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.sizes = sizes
        self.queries = nn.Parameter(torch.randn(sizes.latents, width) * 0.02)
        self.from_text = _narrowing_layers(sizes)
        self.draw = _Attention(sizes)
        self.from_name = _narrowing_layers(sizes)
        self.features = _FeatureEncoder(sizes)
        self.together = nn.Sequential(
            nn.Linear(sizes.features * sizes.feature, width),
            _FeedForward(sizes),
            _FeedForward(sizes),
        )
        self.from_value = nn.Sequential(
            nn.Linear(sizes.value, width), nn.GELU(), nn.Linear(width, width)
        )
        self.from_word = nn.Linear(sizes.text, width)
        self.kinds = nn.Embedding(2, width)
        self.blocks = nn.ModuleList(_Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(width)
        self.answer = nn.Linear(width, sizes.bins)
        self.facts = nn.Linear(width, sizes.facts)
        bins = torch.linspace(sizes.low, sizes.high, sizes.bins)
        self.register_buffer("bins", bins, persistent=False)

    def reading(self, states: Tensor, mask: Tensor, names: Tensor) -> Reading:
        """Return what texts say, from their states (texts, tokens, width)."""
        latents = self.queries.expand(len(states), -1, -1)
        if self.sizes.latents:
            latents = latents + self.draw(latents, self.from_text(states), mask)
        return Reading(latents, self.from_name(weighted_means(states, names)))

    def forward(self, reading: Reading, rows: Rows, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of bins (rows, bins) and guesses of facts (rows, facts).

        Args:
            reading: of the rows' texts.
            rows: to read.
            words: a vector of each named value that is a word, (rows, named, text width).
        """
        first = self.together(self.features(rows.features, rows.unknown))
        of_name = reading.names[rows.text[:, None], rows.name]
        named = of_name + self.from_value(rows.value) + self.kinds(rows.size.long())
        named = named + self.from_word(words)
        tokens = torch.cat([first[:, None], named], 1)
        present = torch.cat([torch.ones_like(rows.present[:, :1]), rows.present], 1)
        latents = reading.latents[rows.text]
        for block in self.blocks:
            tokens = block(tokens, present, latents)
        normed = self.norm(tokens[:, 0])
        return self.answer(normed), self.facts(normed)

    def expected(self, logits: Tensor) -> Tensor:
        """Return the mean of the distribution, (rows,)."""
        return (logits.float().softmax(-1) * self.bins).sum(-1)


def aligned_length(tokens: int) -> int:
    """Return a length of at least so many tokens that attention on a GPU takes without copies."""
    return -(-max(tokens, 1) // ALIGNED) * ALIGNED


def group_by_length(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Return places of texts that are read together, longest first, so that little is padding.

    Args:
        lengths: of the texts.
        tokens: of a group at most, padding included; a longer text is alone.
    """
    groups: list[list[int]] = []
    room = 0
    for text in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if not room:
            groups.append([])
            room = max(tokens // aligned_length(lengths[text]), 1)
        groups[-1].append(text)
        room -= 1
    return groups


def pad_token_ids(sequences: Sequence[Array], tokens: int = 1) -> tuple[Tensor, Tensor]:
    """Return token ids padded with 0, and which are known, (texts, tokens) each.

    Of an empty text one token of padding is known: attention to nothing is not defined.

    Args:
        sequences: ids of each text.
        tokens: that each gets at least.
    """
    longest = aligned_length(max((len(sequence) for sequence in sequences), default=1))
    ids = np.zeros((len(sequences), max(longest, aligned_length(tokens))), np.int64)
    mask = np.zeros(ids.shape, bool)
    for place, sequence in enumerate(sequences):
        ids[place, : len(sequence)] = sequence
        mask[place, : max(len(sequence), 1)] = True
    return torch.from_numpy(ids), torch.from_numpy(mask)
