"""A trained language regressor: it forecasts, it is saved and read again.

A folder of it holds what `transformers` writes of a model and a tokenizer (``config.json``,
``model.safetensors`` in fp16, ``tokenizer.json``), and ``solkit.json``: the scale of the features
and what it learned from.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from solkit.errors import InputError
from solkit.surrogate.features import Array
from solkit.surrogate.language.corpus import Corpus
from solkit.surrogate.language.model import LanguageConfig, LanguageModel
from solkit.surrogate.language.network import Reading, Sizes
from solkit.surrogate.language.numbers import FACTS, VALUE_SIZE, Scale
from solkit.surrogate.language.tokens import transformers
from solkit.surrogate.table import Table

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

__all__ = ["SCHEMA", "LanguageRegressor", "Told"]

SCHEMA = "solkit.language/1"
_ABOUT, _WEIGHTS = "solkit.json", "model.safetensors"
_READINGS = 512  # texts whose readings are kept
_ROWS = 1024  # that are asked at once


@dataclass(frozen=True)
class Told:
    """What the model says of log2(time / base).

    Attributes:
        mean: (rows,).
        spread: the standard deviation of its distribution, (rows,).
    """

    mean: Array
    spread: Array


@dataclass
class LanguageRegressor:
    """Reads a kernel's text once, and forecasts any number of its configurations.

    Attributes:
        network: the model.
        tokenizer: of kernel text.
        scale: of the features.
        card: what it learned from, and figures, as JSON values.
        most: tokens of a text that are read.
    """

    network: LanguageModel
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    scale: Scale = field(repr=False)
    card: dict[str, Any] = field(default_factory=dict)
    most: int = 1024
    _readings: OrderedDict[tuple[str, tuple[str, ...]], Reading] = field(
        default_factory=OrderedDict, repr=False
    )

    @staticmethod
    def around(
        backbone: PretrainedConfig,
        tokenizer: PreTrainedTokenizerBase,
        scale: Scale,
        sizes: Mapping[str, Any] | None = None,
        device: str = "cpu",
        module: torch.nn.Module | None = None,
        frozen: bool = False,
    ) -> LanguageRegressor:
        """A regressor that has not learned.

        Args:
            backbone: the configuration of what reads text.
            tokenizer: of the backbone.
            scale: of the features.
            sizes: of the decoder, where they differ from `Sizes`.
            device: where it computes.
            module: the backbone with its weights; built from the configuration by default.
            frozen: whether the backbone stays as it is.
        """
        told = Sizes(
            text=int(backbone.hidden_size),
            features=len(scale.names),
            value=VALUE_SIZE,
            facts=len(FACTS),
            **(sizes or {}),
        )
        network = LanguageModel(LanguageModel.sized(backbone, told, frozen), module)
        return LanguageRegressor(_moved(network, device), tokenizer, scale)

    @property
    def range(self) -> tuple[float, float]:
        """Of log2(time / base) that it can tell."""
        sizes = self.network.decoder.sizes
        return sizes.low, sizes.high

    def forget(self) -> None:
        """Forget what texts said: the network has changed."""
        self._readings.clear()

    def forecast(self, table: Table) -> Told:
        """What it expects of a table's rows, whose own times are not read."""
        mean, spread = np.full((2, len(table)), np.nan)
        if not len(table):
            return Told(mean, spread)
        device = next(self.network.parameters()).device
        corpus = Corpus.of(table, self.tokenizer, self.scale, self.most).to(device)
        self.network.train(False)
        with torch.inference_mode():
            for text, rows in _by_text(corpus.text_of):
                reading = self._read(corpus, text)
                for part in np.array_split(rows, -(-len(rows) // _ROWS)):
                    asked = corpus.rows(part, np.zeros(len(part), int))
                    logits, _ = self.network.told(reading, asked)
                    share = logits.float().softmax(-1)
                    bins = self.network.decoder.bins
                    expected = (share * bins).sum(-1)
                    off = (share * (bins - expected[:, None]).square()).sum(-1).sqrt()
                    mean[part], spread[part] = expected.cpu().numpy(), off.cpu().numpy()
        return Told(mean, spread)

    def _read(self, corpus: Corpus, text: int) -> Reading:
        key = corpus.texts[text], corpus.names[text]
        if key not in self._readings:
            read = self.network.read(corpus.together([corpus.encoded(text)]))
            self._readings[key] = read
            if len(self._readings) > _READINGS:
                self._readings.popitem(last=False)
        self._readings.move_to_end(key)
        return self._readings[key]

    # ------------------------------------------------------------------------------------ files

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a folder.

        Raises:
            InputError: the folder cannot be written.
        """
        path = Path(folder)
        about = {
            "schema": SCHEMA,
            "card": self.card,
            "most": self.most,
            "features": list(self.scale.names),
            "levels": [[float(f"{v:.5g}") for v in row] for row in self.scale.levels],
            "mean": [float(f"{v:.5g}") for v in self.scale.mean],
            "spread": [float(f"{v:.5g}") for v in self.scale.spread],
        }
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / _ABOUT).write_text(json.dumps(about, indent=None, sort_keys=True))
            self.network.config.save_pretrained(path)
            self.tokenizer.save_pretrained(path)
            weights = {k: v.to("cpu", torch.float16) for k, v in self.network.state_dict().items()}
            save_file(weights, path / _WEIGHTS)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error

    @staticmethod
    def load(folder: str | os.PathLike[str], device: str = "cpu") -> LanguageRegressor:
        """Read one that `save` wrote.

        Raises:
            InputError: the folder is missing, or holds no regressor of this format.
            UnsupportedError: transformers is not installed.
        """
        found, path = transformers(), Path(folder)
        try:
            about = json.loads((path / _ABOUT).read_text())
            if about.get("schema") != SCHEMA:
                raise InputError(f"{path} holds {about.get('schema')!r}, not {SCHEMA!r}")
            network = LanguageModel(LanguageConfig.from_pretrained(path))
            weights = load_file(path / _WEIGHTS)
            network.load_state_dict({name: each.float() for name, each in weights.items()})
            tokenizer = found.PreTrainedTokenizerFast.from_pretrained(path)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise InputError(f"{path} holds no language regressor: {error}") from error
        levels, mean, spread = (np.array(about[name]) for name in ("levels", "mean", "spread"))
        scale = Scale(tuple(about["features"]), levels, mean, spread)
        network = _moved(network, device)
        network.train(False)
        return LanguageRegressor(network, tokenizer, scale, about["card"], about["most"])


def _moved(network: LanguageModel, device: str) -> LanguageModel:
    """On a device, in place."""
    return network.to(device)  # type: ignore[arg-type, no-any-return]


def _by_text(text_of: Array) -> Iterator[tuple[int, Array]]:
    order = np.argsort(text_of, kind="stable")
    starts = np.flatnonzero(np.r_[True, text_of[order][1:] != text_of[order][:-1]])
    for rows in np.split(order, starts[1:]):
        yield int(text_of[rows[0]]), rows
