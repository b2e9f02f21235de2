"""States of texts by a frozen backbone: computed once, before anything is learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from solkit.surrogate.features import Array
from solkit.surrogate.language.model import LanguageModel
from solkit.surrogate.language.network import Texts
from solkit.surrogate.language.reading import read_all
from solkit.surrogate.language.tokens import Encoded

__all__ = ["FrozenStates"]

_SHARE = 0.25  # of a GPU's free memory that the states may take


class FrozenStates:
    """The states of each token of some texts, in fp16, one text behind the other.

    They stay on the GPU if they take a quarter of what is free there: 3,000 texts of 850 tokens are
    3 GB of states of SmolLM2-135M. Otherwise they are in the CPU's memory. An H100 encodes so many
    in about 10 s: 2 × 106 M products for a token and 35 M for attention are 0.7 PFLOP.

    Args:
        network: whose backbone is frozen.
        texts: that will be asked for; each distinct one is read once.
        device: of the network.
        tell: receives how far it is.
    """

    def __init__(
        self,
        network: LanguageModel,
        texts: Iterable[Encoded],
        device: torch.device,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        distinct = {text.ids.tobytes(): text.ids for text in texts}
        self._device, self._first = device, dict.fromkeys(distinct, 0)
        tokens = sum(_length(ids) for ids in distinct.values())
        shape = 1 + tokens, network.decoder.sizes.text  # the first, zeros, is padding's
        self._states = torch.zeros(shape, dtype=torch.float16, device=_place(shape, device))
        self._fill(network, distinct, tell)

    def of(self, texts: Sequence[Encoded], tokens: int) -> Tensor:
        """Return states (texts, tokens, width) on the device; zeros where padding is.

        Args:
            texts: of those that were read.
            tokens: of each, padded.
        """
        at = np.zeros((len(texts), tokens), np.int64)
        for row, text in zip(at, texts, strict=True):
            first, length = self._first[text.ids.tobytes()], _length(text.ids)
            row[:length] = np.arange(first, first + length)
        places = torch.from_numpy(at).to(self._states.device)
        return self._states[places].to(self._device).float()

    def _fill(
        self, network: LanguageModel, ids: Mapping[bytes, Array], tell: Callable[[str], None]
    ) -> None:
        keys, filled = list(ids), 1

        def take(part: Sequence[int], texts: Texts, states: Tensor) -> None:
            nonlocal filled
            token_states = states[texts.mask].to(self._states)
            self._states[filled : filled + len(token_states)] = token_states
            for text, length in zip(part, texts.lengths, strict=True):
                self._first[keys[text]] = filled
                filled += length

        nameless = [Encoded(tokens, ()) for tokens in ids.values()]
        read_all(network, nameless, self._device, take, tell)


def _length(ids: Array) -> int:
    """Return the number of tokens that are read: of an empty text one of padding."""
    return max(len(ids), 1)


def _place(shape: tuple[int, int], device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free, _ = torch.cuda.mem_get_info(device)
    return device if 2 * shape[0] * shape[1] <= _SHARE * free else torch.device("cpu")
