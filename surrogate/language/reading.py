"""A backbone reads many texts, of which nothing is learned: some at once, and as fast as it can."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from solkit.surrogate.language.backbones import merged
from solkit.surrogate.language.corpus import together
from solkit.surrogate.language.network import Texts, grouped
from solkit.surrogate.language.precision import attention, precision

if TYPE_CHECKING:
    from solkit.surrogate.language.model import LanguageModel
    from solkit.surrogate.language.tokens import Encoded

__all__ = ["read_all"]

_TOLD_EVERY_S = 5.0


def read_all(
    network: LanguageModel,
    texts: Sequence[Encoded],
    device: torch.device,
    take: Callable[[Sequence[int], Texts, Tensor], None],
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Read each text once, the longest first, as many together as `LanguageModel.together` allows.

    A backbone from elsewhere computes in bf16 on a GPU, the default one in fp32. Nothing is dropped
    at random: the network is left as one that does not learn.

    Args:
        network: whose backbone reads.
        texts: to be read.
        device: of the network.
        take: receives the places of some texts, these as tensors, and their states (texts, tokens,
            width), in inference mode.
        tell: receives how far it is.
    """
    if not texts:
        return
    network.train(False)
    read, told_s = 0, time.monotonic()
    lengths = [max(len(text.ids), 1) for text in texts]
    with merged(network.backbone):
        for part in grouped(lengths, network.together(device)):
            with torch.inference_mode():
                some = together([texts[text] for text in part]).to(device)
                with _computing(network, device):
                    states = network.states(some)
                take(part, some, states)
            read += len(part)
            if read == len(texts) or time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                tell(f"read {read:,} of {len(texts):,} texts")


def _computing(
    network: LanguageModel, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    if network.config.backbone_path:
        return precision(device, is_foreign=True)
    return attention(device)
