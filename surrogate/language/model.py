"""A backbone that reads text and a decoder that reads rows, as one model of `transformers`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from solkit.surrogate.language.network import (
    Batch,
    Decoder,
    Reading,
    Rows,
    Sizes,
    Texts,
    aligned_length,
    group_by_length,
)
from solkit.surrogate.language.packed_attention import ATTENTION, is_packable, packed_states

_CPU_TOKENS = 4096  # a CPU gains nothing from more, and loses to padding
_GPU_TOKENS = 32_768  # a layer of 576 takes 4 GB for them while it learns: see `adapted`


def small_backbone(vocabulary: int, width: int = 192, layers: int = 6) -> PreTrainedModel:
    """Return the default backbone: an encoder that is trained here from nothing.

    ModernBERT's architecture (Warner et al., "Smarter, better, faster, longer", 2024): rotary
    positions, two layers that look 64 tokens around for each that sees all.
    """
    config = AutoConfig.for_model(
        "modernbert",
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(width // 64, 1),
        intermediate_size=3 * width // 2,
        max_position_embeddings=4096,
        global_attn_every_n_layers=3,
        local_attention=128,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
        attention_dropout=0.0,
        mlp_dropout=0.1,
    )
    return _build_backbone(config)


def _build_backbone(config: PretrainedConfig) -> PreTrainedModel:
    attention = ATTENTION if config.model_type == "modernbert" else None
    return AutoModel.from_config(  # type: ignore[no-untyped-call, no-any-return]
        config, attn_implementation=attention
    )


class LanguageConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """Configuration to build a `LanguageModel`.

    Attributes:
        backbone: the configuration of the backbone, as JSON values.
        sizes: of the decoder, as `Sizes` has them.
        adapt: what of the backbone learns, of `solkit.surrogate.language.backbones.Adapt`.
        backbone_path: where the backbone's own weights are; empty if they are among the model's.
    """

    model_type = "solkit-language"

    def __init__(
        self,
        backbone: dict[str, Any] | None = None,
        sizes: dict[str, Any] | None = None,
        adapt: str = "full",
        backbone_path: str = "",
        **rest: Any,
    ) -> None:
        self.backbone = backbone or {}
        self.sizes = sizes or {}
        self.adapt = adapt
        self.backbone_path = backbone_path
        super().__init__(**rest)


class LanguageModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Forecasts log2(time / base) of rows, and facts that a compiler would tell."""

    config_class = LanguageConfig
    base_model_prefix = "backbone"
    main_input_name = "ids"
    backbone: Any
    decoder: Decoder

    def __init__(self, config: LanguageConfig, backbone: nn.Module | None = None) -> None:
        super().__init__(config)
        if backbone is None:
            options = dict(config.backbone)
            backbone = _build_backbone(AutoConfig.for_model(options.pop("model_type"), **options))
        self.backbone = backbone
        self.decoder = Decoder(Sizes(**config.sizes))
        self.post_init()  # type: ignore[no-untyped-call]

    @staticmethod
    def configured(
        backbone: PretrainedConfig, sizes: Sizes, adapt: str = "full", path: str = ""
    ) -> LanguageConfig:
        """Return a configuration."""
        return LanguageConfig(backbone.to_dict(), asdict(sizes), adapt, path)

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: parts initialise themselves."""

    def learned_states(self) -> dict[str, Tensor]:
        """Return the state of the parts that learn; of a backbone trained here, of all parts."""
        states: dict[str, Tensor] = self.state_dict()
        if not self.config.backbone_path:
            return states
        learns = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        return {name: state for name, state in states.items() if name in learns}

    def states(self, texts: Texts) -> Tensor:
        """Return what the backbone makes of each token, (texts, tokens, width).

        A CPU reads texts of about the same length together. A GPU reads all at once, end to end
        where it can: to launch more kernels costs it more than padding does. A backbone from
        elsewhere is larger, so that what it reads together is bounded.
        """
        if is_packable(self.backbone, texts.ids.device):
            return packed_states(self.backbone, texts)
        parts, order = self._group_texts(texts), []
        if len(parts) == 1:
            return self._padded_states(texts.ids, texts.mask)
        read: list[Tensor] = []
        for part in parts:
            longest = min(
                aligned_length(max(texts.lengths[text] for text in part)), texts.ids.shape[1]
            )
            at = torch.tensor(part, device=texts.ids.device)
            ids, mask = texts.ids[at, :longest], texts.mask[at, :longest]
            read.append(
                F.pad(self._padded_states(ids, mask), (0, 0, 0, texts.ids.shape[1] - longest))
            )
            order += part
        back = torch.tensor(order, device=texts.ids.device).argsort()
        return torch.cat(read)[back]

    def _group_texts(self, texts: Texts) -> list[list[int]]:
        device = texts.ids.device
        if self.config.backbone_path:
            return group_by_length(texts.lengths, self.together(device))
        return texts.alike() if device.type == "cpu" else [list(range(len(texts.ids)))]

    def together(self, device: torch.device) -> int:
        """Return tokens that a backbone from elsewhere reads at once, padding included."""
        return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS

    def _padded_states(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        # what attention makes of padding is not defined where all that it sees is padding
        states = states.masked_fill(~mask[..., None], 0.0)
        return states.detach() if self.config.adapt == "frozen" else states  # type: ignore[no-any-return]

    def read(self, texts: Texts) -> Reading:
        """Return what texts say."""
        return self.decoder.reading(self.states(texts), texts.mask, texts.names)

    def words(self, rows: Rows) -> Tensor:
        """Return a vector of each value that is a word: the mean of its tokens' embeddings."""
        there = (rows.word > 0).to(self.dtype)[..., None]
        spelled = self.backbone.get_input_embeddings()(rows.word)
        return (spelled * there).sum(-2) / there.sum(-2).clamp(min=1)  # type: ignore[no-any-return]

    def predictions(self, reading: Reading, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return logits of bins and guesses of facts: see `Decoder.forward`."""
        return self.decoder(reading, rows, self.words(rows))  # type: ignore[no-any-return]

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Predict as `predictions` does, from texts that are read first."""
        return self.predictions(self.read(batch.texts), batch.rows)

    def spelled(self, states: Tensor) -> Tensor:
        """Return logits of the token at each state: what masked tokens are learned by."""
        return F.linear(states, self.backbone.get_input_embeddings().weight)
