"""Parts of a regressor, and how it is written to a folder.

A folder holds what `transformers` writes of a model and a tokenizer (``config.json``,
``tokenizer.json``), ``model.safetensors`` in fp16, and ``solkit.json``: the scale of the features
and what was learned from. Of a backbone from elsewhere only what was learned is written, and its
path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from solkit.errors import InputError
from solkit.surrogate.language.backbones import Adapt, Backbone, adapted, opened
from solkit.surrogate.language.model import LanguageConfig, LanguageModel
from solkit.surrogate.language.network import ALIGNED, Sizes
from solkit.surrogate.language.numbers import FACTS, VALUE_SIZE, Scale
from solkit.surrogate.language.tokens import transformers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["SCHEMA", "Parts", "built", "read", "write"]

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


def built(
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
    module = adapted(backbone.module, adapt) if path else backbone.module
    network = LanguageModel(config, module)
    return Parts(_moved(network, device), backbone.tokenizer, scale, min(most, _room(backbone)))


def _room(backbone: Backbone) -> int:
    """Return tokens that a backbone has positions for, in whole steps of padding."""
    places = (
        getattr(backbone.config, "max_position_embeddings", None),
        getattr(backbone.tokenizer, "model_max_length", None),  # some have two positions more
    )
    least = min((place for place in places if place and place > 0), default=sys.maxsize)
    return max(least - least % ALIGNED, ALIGNED)


def write(parts: Parts, folder: Path, card: Mapping[str, Any]) -> None:
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
    learned = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    weights = {
        name: state.to("cpu", torch.float16).contiguous()
        for name, state in network.state_dict().items()
        if name in learned or not network.config.backbone_path
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _ABOUT).write_text(json.dumps(about, sort_keys=True))
        network.config.save_pretrained(folder)
        parts.tokenizer.save_pretrained(folder)
        save_file(weights, folder / _WEIGHTS)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from error


def read(folder: Path, device: str = "cpu") -> tuple[Parts, dict[str, Any]]:
    """Return the parts that `write` wrote, and the card.

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
            module = adapted(opened(config.backbone_path).module, Adapt(config.adapt))
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
    network = _moved(network, device)
    network.train(False)
    return Parts(network, tokenizer, scale, about["most"]), about["card"]


def _moved(network: LanguageModel, device: str) -> LanguageModel:
    """Move a network to a device, in place."""
    return network.to(device)  # type: ignore[arg-type, no-any-return]
