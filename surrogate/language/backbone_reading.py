"""Reading of many texts by a backbone: some at once, as fast as it can, in the precision that fits.

Of a frozen backbone, states of texts are computed once, before anything is learned.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from solkit.surrogate.features import Array
from solkit.surrogate.language.backbones import merged_adapters
from solkit.surrogate.language.corpus import texts_side_by_side
from solkit.surrogate.language.model import LanguageModel
from solkit.surrogate.language.network import Texts, group_by_length
from solkit.surrogate.language.tokens import Encoded

if TYPE_CHECKING:
    from solkit.surrogate.language.model import LanguageModel
    from solkit.surrogate.language.tokens import Encoded


def autocast_precision(device: torch.device, *, is_foreign: bool = False) -> contextlib.ExitStack:
    """Compute in bf16 on a GPU; a CPU computes in fp32.

    Args:
        device: that computes.
        is_foreign: see `allowed_attention`.
    """
    stack = contextlib.ExitStack()
    if device.type == "cuda":
        stack.enter_context(torch.autocast("cuda", torch.bfloat16))
        stack.enter_context(allowed_attention(device, is_foreign=is_foreign))
    return stack


def allowed_attention(
    device: torch.device, *, is_foreign: bool = False
) -> contextlib.AbstractContextManager[Any]:
    """Return the kernels of attention that a GPU may use.

    That of cuDNN is left out: it prepares itself anew for each number and length of texts. Layers
    that are computed again for their gradients must find the kernels that they had before.

    Args:
        device: that computes.
        is_foreign: whether the backbone is from elsewhere. It may have fewer heads of
            keys than of queries, which without a mask only the flash kernel knows: all others
            would write down what each token makes of each other.
    """
    if device.type != "cuda":
        return contextlib.nullcontext()
    flash = [SDPBackend.FLASH_ATTENTION] if is_foreign else []
    return sdpa_kernel([*flash, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


_TOLD_EVERY_S = 5.0


def read_all_texts(
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
    with merged_adapters(network.backbone):
        for part in group_by_length(lengths, network.together(device)):
            with torch.inference_mode():
                some = texts_side_by_side([texts[text] for text in part]).to(device)
                with _reading_precision(network, device):
                    states = network.states(some)
                take(part, some, states)
            read += len(part)
            if read == len(texts) or time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                tell(f"read {read:,} of {len(texts):,} texts")


def _reading_precision(
    network: LanguageModel, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    if network.config.backbone_path:
        return autocast_precision(device, is_foreign=True)
    return allowed_attention(device)


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
        tokens = sum(_read_length(ids) for ids in distinct.values())
        shape = 1 + tokens, network.decoder.sizes.text  # the first, zeros, is padding's
        self._states = torch.zeros(
            shape, dtype=torch.float16, device=_device_of_states(shape, device)
        )
        self._compute_states(network, distinct, tell)

    def of(self, texts: Sequence[Encoded], tokens: int) -> Tensor:
        """Return states (texts, tokens, width) on the device; zeros where padding is.

        Args:
            texts: of those that were read.
            tokens: of each, padded.
        """
        at = np.zeros((len(texts), tokens), np.int64)
        for row, text in zip(at, texts, strict=True):
            first, length = self._first[text.ids.tobytes()], _read_length(text.ids)
            row[:length] = np.arange(first, first + length)
        places = torch.from_numpy(at).to(self._states.device)
        return self._states[places].to(self._device).float()

    def _compute_states(
        self, network: LanguageModel, ids: Mapping[bytes, Array], tell: Callable[[str], None]
    ) -> None:
        keys, filled = list(ids), 1

        def store_states(part: Sequence[int], texts: Texts, states: Tensor) -> None:
            nonlocal filled
            token_states = states[texts.mask].to(self._states)
            self._states[filled : filled + len(token_states)] = token_states
            for text, length in zip(part, texts.lengths, strict=True):
                self._first[keys[text]] = filled
                filled += length

        nameless = [Encoded(tokens, ()) for tokens in ids.values()]
        read_all_texts(network, nameless, self._device, store_states, tell)


def _read_length(ids: Array) -> int:
    """Return the number of tokens that are read: of an empty text one of padding."""
    return max(len(ids), 1)


def _device_of_states(shape: tuple[int, int], device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free, _ = torch.cuda.mem_get_info(device)
    return device if 2 * shape[0] * shape[1] <= _SHARE * free else torch.device("cpu")
