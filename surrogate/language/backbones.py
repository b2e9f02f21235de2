"""Backbones from elsewhere: any encoder or decoder of `transformers`.

Nothing is downloaded unless that is asked for, and code that comes with a model is never run.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from solkit.errors import InputError, UnsupportedError
from solkit.extras import library
from solkit.llm.files import check_path, is_gguf_file, read_once, source_of
from solkit.surrogate.language.tokens import transformers

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_RANK = 8  # of LoRA's matrices
_MERGING = threading.RLock()  # the weights are those of one reader then


class Adapt(str, enum.Enum):
    """Part of a backbone that learns."""

    FULL = "full"
    FROZEN = "frozen"
    """Nothing: what it makes of a text is computed once."""
    LORA = "lora"
    """Small matrices beside its own: Hu et al., "LoRA" (2021)."""


@dataclass(frozen=True)
class Backbone:
    """A model that reads text.

    Attributes:
        config: of the architecture.
        tokenizer: of its texts; a fast one, which tells where tokens come from.
        module: with its weights.
    """

    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerBase
    module: nn.Module


def load_backbone(path: str, *, local_files_only: bool = True) -> Backbone:
    """Return a backbone with its weights, in fp32.

    Args:
        path: a folder as `save_pretrained` writes it, a GGUF file, or a hub id.
        local_files_only: whether nothing may be downloaded; a hub id must then be in the cache.

    Raises:
        InputError: there is no such model here, or it has no fast tokenizer.
        UnsupportedError: a package is missing.
    """
    package = transformers()
    check_path(path)
    name, options = source_of(path, local_files_only=local_files_only)
    try:
        with _without_progress_bars(package), read_once(path):
            tokenizer = package.AutoTokenizer.from_pretrained(name, **options)
            module = package.AutoModel.from_pretrained(name, dtype=torch.float32, **options)
    except ImportError as error:
        raise UnsupportedError(f"{path} needs a package: {error}") from error
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be loaded: {error}") from error
    if not tokenizer.is_fast:
        raise InputError(f"{path} has no fast tokenizer, which tells where tokens come from")
    if is_gguf_file(path):
        module = _copy_unquantised(module)
    if getattr(module.config, "use_cache", False):
        module.config.use_cache = False  # no text goes on: keys and values are of no use later
    return Backbone(module.config, tokenizer, module)


def adapt_backbone(module: nn.Module, adapt: Adapt) -> nn.Module:
    """Return a backbone of which the right parts learn.

    Of one that learns, each layer keeps its input alone, and computes the rest again for the
    gradients, a third more work. A layer of SmolLM2-135M (576 wide) keeps 2.3 kB of a token in
    place of about 60. A step of 768 rows reads up to 80 texts of 1,024 tokens: 30 layers × 81,920 ×
    2.3 kB = 5.7 GB in place of 147. The layer at hand takes 60 kB of each token that is read
    together (32,768: see `LanguageModel.states`), and as much for gradients: 4 GB. With weights and
    states that is about 12 GB.

    Raises:
        UnsupportedError: peft is missing.
    """
    if adapt is Adapt.FROZEN:
        return module.requires_grad_(False)
    if adapt is Adapt.FULL:
        return _enable_checkpointing(module)
    peft = library("peft", "language")
    lora = peft.LoraConfig(r=_RANK, lora_alpha=2 * _RANK, target_modules="all-linear")
    wrapped: nn.Module = peft.get_peft_model(module, lora)
    _enable_checkpointing(
        module
    )  # after peft, which would have the gradients of the embeddings as well
    return wrapped


def _enable_checkpointing(module: Any) -> nn.Module:
    """Let layers keep their inputs alone, if the module can; only while it learns."""
    if getattr(module, "supports_gradient_checkpointing", False):
        # older versions of transformers know the second name alone
        names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
        enable = next(getattr(module, name) for name in names if hasattr(module, name))
        enable({"use_reentrant": False})
    return module  # type: ignore[no-any-return]


@contextlib.contextmanager
def merged_adapters(backbone: Any) -> Iterator[None]:
    """Add LoRA's matrices to the weights that they stand beside, and take them off at the end.

    A text then costs what it costs without LoRA. Any other backbone stays as it is.
    """
    if not hasattr(backbone, "merge_adapter"):
        yield
        return
    with _MERGING:
        try:
            with torch.no_grad():
                backbone.merge_adapter()
            yield
        finally:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what an interruption left unmerged
                backbone.unmerge_adapter()


@contextlib.contextmanager
def _without_progress_bars(library: Any) -> Iterator[None]:
    """Run without progress bars."""
    logging = library.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _copy_unquantised(module: Any) -> nn.Module:
    """Copy a model without the GGUF that it came from: LoRA refuses those as quantised."""
    config = module.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    copy: nn.Module = type(module)(config)
    copy.load_state_dict(module.state_dict())
    return copy
