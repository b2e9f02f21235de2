"""The language regressor as it is used: it learns, forecasts, is saved and read again.

A folder holds what `transformers` writes of a model and a tokenizer (``config.json``,
``tokenizer.json``), ``model.safetensors`` in fp16, and ``solkit.json``: the scale of the features
and what was learned from. Of a backbone from elsewhere only what was learned is written, and its
path.
"""

from __future__ import annotations

import json
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from solkit.errors import InputError, UnsupportedError
from solkit.surrogate.features import Array
from solkit.surrogate.language import training
from solkit.surrogate.language.backbone_reading import read_all_texts
from solkit.surrogate.language.backbones import Adapt, Backbone, adapt_backbone, load_backbone
from solkit.surrogate.language.corpus import Corpus, distinct_texts
from solkit.surrogate.language.model import LanguageConfig, LanguageModel, small_backbone
from solkit.surrogate.language.network import ALIGNED, Reading, Sizes, Texts
from solkit.surrogate.language.numbers import FACTS, VALUE_SIZE, Scale
from solkit.surrogate.language.tokens import train_tokenizer, transformers
from solkit.surrogate.language.training import Learning, Pretraining
from solkit.surrogate.table import Table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA = "solkit.language/1"
_ABOUT, _WEIGHTS = "solkit.json", "model.safetensors"


@dataclass(frozen=True)
class Parts:
    """A network, and what its inputs are made with.

    Attributes:
        network: the model.
        tokenizer: of kernel text.
        scale: of the features.
        most: tokens of a text that are read.
    """

    network: LanguageModel
    tokenizer: PreTrainedTokenizerBase
    scale: Scale
    most: int

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.network.parameters()).device

    @property
    def range(self) -> tuple[float, float]:
        """Range of log2(time / base) that it can tell."""
        sizes = self.network.decoder.sizes
        return sizes.low, sizes.high


def build_parts(
    backbone: Backbone,
    scale: Scale,
    *,
    sizes: Mapping[str, Any] | None = None,
    most: int = 1024,
    adapt: Adapt = Adapt.FULL,
    path: str = "",
    device: str = "cpu",
) -> Parts:
    """Build parts around a backbone, of which the decoder has learned nothing.

    Args:
        backbone: reads text.
        scale: of the features.
        sizes: of the decoder, where they differ from `Sizes`.
        most: tokens of a text that are read; fewer if the backbone has fewer positions.
        adapt: what of the backbone learns.
        path: where the backbone is from; empty if it is trained here.
        device: where the network computes.
    """
    dimensions = Sizes(
        text=int(backbone.config.hidden_size),
        features=len(scale.names),
        value=VALUE_SIZE,
        facts=len(FACTS),
        **(sizes or {}),
    )
    config = LanguageModel.configured(backbone.config, dimensions, adapt.value, path)
    module = adapt_backbone(backbone.module, adapt) if path else backbone.module
    network = LanguageModel(config, module).to(device)  # type: ignore[arg-type]
    return Parts(network, backbone.tokenizer, scale, min(most, _count_positions(backbone)))


def _count_positions(backbone: Backbone) -> int:
    """Return tokens that a backbone has positions for, in whole steps of padding."""
    places = (
        getattr(backbone.config, "max_position_embeddings", None),
        getattr(backbone.tokenizer, "model_max_length", None),  # some have two positions more
    )
    least = min((place for place in places if place and place > 0), default=sys.maxsize)
    return max(least - least % ALIGNED, ALIGNED)


def write_parts(parts: Parts, folder: Path, card: Mapping[str, Any]) -> None:
    """Write parts to a folder.

    Raises:
        InputError: the folder cannot be written.
    """
    scale, network = parts.scale, parts.network
    about = {
        "schema": SCHEMA,
        "card": card,
        "most": parts.most,
        "features": list(scale.names),
        "levels": [[float(f"{v:.5g}") for v in row] for row in scale.levels],
        "mean": [float(f"{v:.5g}") for v in scale.mean],
        "spread": [float(f"{v:.5g}") for v in scale.spread],
    }
    weights = {
        name: state.to("cpu", torch.float16).contiguous()
        for name, state in network.learned_states().items()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _ABOUT).write_text(json.dumps(about, sort_keys=True))
        network.config.save_pretrained(folder)
        parts.tokenizer.save_pretrained(folder)
        save_file(weights, folder / _WEIGHTS)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from error


def read_parts(folder: Path, device: str = "cpu") -> tuple[Parts, dict[str, Any]]:
    """Return the parts that `write_parts` wrote, and the card.

    Raises:
        InputError: the folder is missing, or holds nothing of this format.
        UnsupportedError: a package is missing.
    """
    package = transformers()
    try:
        about = json.loads((folder / _ABOUT).read_text())
        if about.get("schema") != SCHEMA:
            raise InputError(f"{folder} holds {about.get('schema')!r}, not {SCHEMA!r}")
        config = LanguageConfig.from_pretrained(folder)
        module = None
        if config.backbone_path:
            module = adapt_backbone(load_backbone(config.backbone_path).module, Adapt(config.adapt))
        network = LanguageModel(config, module)
        weights = {k: weight.float() for k, weight in load_file(folder / _WEIGHTS).items()}
        missing, unknown = network.load_state_dict(weights, strict=False)
        if unknown or (missing and not config.backbone_path):
            raise ValueError(f"weights do not fit: {[*missing, *unknown][:3]}")
        tokenizer = package.PreTrainedTokenizerFast.from_pretrained(folder)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder} holds no language regressor: {error}") from error
    levels, mean, spread = (np.array(about[name]) for name in ("levels", "mean", "spread"))
    scale = Scale(tuple(about["features"]), levels, mean, spread)
    network.to(device).train(False)  # type: ignore[arg-type]
    return Parts(network, tokenizer, scale, about["most"]), about["card"]


_READINGS = 512  # texts whose readings are kept
_ROWS = 1024  # that are asked at once


@dataclass(frozen=True)
class LanguageForecast:
    """Expectation of the model of log2(time / base).

    Attributes:
        mean: (rows,).
        spread: the standard deviation of its distribution, (rows,).
    """

    mean: Array
    spread: Array


@dataclass(frozen=True)
class Shape:
    """Sizes of the default model.

    Attributes:
        vocabulary: tokens, at most.
        width: of the backbone's states.
        layers: of the backbone.
        decoder: sizes of the decoder, where they differ from
            `solkit.surrogate.language.network.Sizes`.
        most: tokens of a text that are read; fewer if the backbone has fewer positions.
    """

    vocabulary: int = 4096
    width: int = 192
    layers: int = 6
    decoder: Mapping[str, Any] | None = None
    most: int = 1024


class LanguageRegressor:
    """Reads a kernel's text once, and forecasts any number of its configurations.

    ::

        model = LanguageRegressor().fit(table)                   # the default, from nothing
        model = LanguageRegressor(backbone="folder").fit(table)  # a model of transformers, frozen
        forecasts = model.forecast(other)                        # forecasts.mean: log2(time / base)

    Args:
        backbone: a folder, a GGUF file or a hub id of an encoder or decoder of `transformers`;
            ``None`` for the default model.
        adapt: what of such a backbone learns: ``"frozen"``, ``"lora"`` or ``"full"``.
        shape: of the default model, and of the decoder.
        device: where it computes; a GPU if there is one.
        seed: of the weights.
        local_files_only: whether nothing may be downloaded.

    Raises:
        InputError: there is no such way to adapt.
    """

    def __init__(
        self,
        backbone: str | os.PathLike[str] | None = None,
        *,
        adapt: Adapt | str = Adapt.FROZEN,
        shape: Shape | None = None,
        device: str | None = None,
        seed: int = 0,
        local_files_only: bool = True,
    ) -> None:
        try:
            self._adapt = Adapt(adapt)
        except ValueError:
            valid = ", ".join(choice.value for choice in Adapt)
            raise InputError(f"adapt {adapt!r} is unknown: choose one of {valid}") from None
        self._backbone = None if backbone is None else os.fspath(backbone)
        self._shape, self._seed = shape or Shape(), seed
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._local_files_only = local_files_only
        self._parts: Parts | None = None
        self._readings: OrderedDict[tuple[str, tuple[str, ...]], Reading] = OrderedDict()
        self.card: dict[str, Any] = {}

    # --------------------------------------------------------------------------------- learning

    def fit(
        self,
        table: Table,
        learning: Learning | None = None,
        *,
        facts: Array | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> LanguageRegressor:
        """Learn a table's rows, after what was learned before; returns itself.

        Args:
            table: with times, and the texts of its kernels.
            learning: how.
            facts: what `solkit.surrogate.language.training.facts_of` tells of the rows.
            checkpoint: a file that holds how far it is; if it exists, learning goes on from there.
            tell: receives what is done.

        Raises:
            InputError: there is nothing to learn from, or the backbone cannot be loaded.
            UnsupportedError: a package is missing.
        """
        parts = self.prepared(table)
        training.fit_network(table, parts, learning or Learning(), facts, checkpoint, tell)
        self._readings.clear()
        return self

    def pretrain_backbone(
        self,
        table: Table,
        pretraining: Pretraining | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> LanguageRegressor:
        """Learn to read the kernels of a table, without their times; returns itself."""
        parts, how = self.prepared(table), pretraining or Pretraining()
        training.pretrain_network(distinct_texts(table)[0], parts, how, tell)
        self._readings.clear()
        return self

    def prepared(self, table: Table) -> Parts:
        """Return its parts, made for a table's features and texts if there are none yet."""
        if self._parts is None:
            scale = training.feature_scale(table)
            torch.manual_seed(self._seed)
            if self._backbone is None:
                tokenizer = train_tokenizer(distinct_texts(table)[0], self._shape.vocabulary)
                backbone = small_backbone(len(tokenizer), self._shape.width, self._shape.layers)
                chosen = Backbone(backbone.config, tokenizer, backbone)
                adapt = Adapt.FULL
            else:
                chosen = load_backbone(self._backbone, local_files_only=self._local_files_only)
                adapt = self._adapt
            self._parts = build_parts(
                chosen,
                scale,
                sizes=self._shape.decoder,
                most=self._shape.most,
                adapt=adapt,
                path=self._backbone or "",
                device=self._device,
            )
        return self._parts

    # ------------------------------------------------------------------------------ forecasting

    def forecast(
        self, table: Table, tell: Callable[[str], None] = lambda _: None
    ) -> LanguageForecast:
        """Forecast a table's rows, whose own times are not read.

        Args:
            table: of the rows, with the texts of their kernels.
            tell: receives how many texts are read.

        Raises:
            UnsupportedError: it has learned nothing yet.
        """
        parts = self._require_parts()
        mean, spread = np.full((2, len(table)), np.nan)
        if not len(table):
            return LanguageForecast(mean, spread)
        network = parts.network
        corpus = Corpus.from_table(table, parts.tokenizer, parts.scale, parts.most).to(parts.device)
        network.train(False)
        readings = self._read_texts(parts, corpus, tell)
        order = np.argsort(corpus.text_of, kind="stable")
        with torch.inference_mode():
            for rows in np.array_split(order, -(-len(order) // _ROWS)):
                texts, text_of = np.unique(corpus.text_of[rows], return_inverse=True)
                reading = Reading.join_readings([readings[text] for text in texts])
                logits, _ = network.predictions(reading, corpus.rows(rows, text_of.reshape(-1)))
                share, bins = logits.float().softmax(-1), network.decoder.bins
                expected = (share * bins).sum(-1)
                off = (share * (bins - expected[:, None]).square()).sum(-1).sqrt()
                mean[rows], spread[rows] = expected.cpu().numpy(), off.cpu().numpy()
        return LanguageForecast(mean, spread)

    def _read_texts(
        self, parts: Parts, corpus: Corpus, tell: Callable[[str], None]
    ) -> list[Reading]:
        """Return what each text of a corpus says; those not known yet are read together."""
        keys = list(zip(corpus.texts, corpus.names, strict=True))
        readings = {key: self._readings[key] for key in keys if key in self._readings}
        new = [text for text, key in enumerate(keys) if key not in readings]

        def keep_readings(part: Sequence[int], texts: Texts, states: Tensor) -> None:
            batch_readings = parts.network.decoder.reading(states.float(), texts.mask, texts.names)
            for place, text in enumerate(part):
                key = keys[new[text]]
                readings[key] = batch_readings.of(place, len(key[1]))

        read_all_texts(parts.network, corpus.encoded_all(new), parts.device, keep_readings, tell)
        for key in keys:
            self._readings[key] = readings[key]
            self._readings.move_to_end(key)
        while len(self._readings) > _READINGS:
            self._readings.popitem(last=False)
        return [readings[key] for key in keys]

    def _require_parts(self) -> Parts:
        if self._parts is None:
            raise UnsupportedError("this language regressor has learned nothing: call fit")
        return self._parts

    # ------------------------------------------------------------------------------------ files

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a folder: see the module.

        Raises:
            InputError: the folder cannot be written.
            UnsupportedError: it has learned nothing yet.
        """
        write_parts(self._require_parts(), Path(folder), self.card)

    @staticmethod
    def load(folder: str | os.PathLike[str], device: str = "cpu") -> LanguageRegressor:
        """Read one that `save` wrote.

        Raises:
            InputError: the folder is missing, or holds no regressor of this format.
            UnsupportedError: a package is missing.
        """
        regressor = LanguageRegressor(device=device)
        regressor._parts, regressor.card = read_parts(Path(folder), device)
        return regressor
