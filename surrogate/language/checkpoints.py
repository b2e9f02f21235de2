"""Progress of a run of learning, in a file.

Of a backbone from elsewhere only what learns is kept: the rest is where it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from solkit.errors import InputError
from solkit.surrogate.language.model import LanguageModel


def save_checkpoint(
    file: Path, step: int, network: LanguageModel, run: Mapping[str, Any], parts: Mapping[str, Any]
) -> None:
    """Write what a run needs to go on. What is under the file's name is complete.

    Args:
        file: to be written.
        step: how many are done.
        network: that learns.
        run: tells this run from others.
        parts: others that have a state: the optimizer, say.
    """
    draft = file.with_suffix(".tmp")
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save({**run, **states, "step": step, "network": network.learned_states()}, draft)
    draft.replace(file)


def load_checkpoint(
    file: Path | None,
    network: LanguageModel,
    run: Mapping[str, Any],
    parts: Mapping[str, Any],
    device: torch.device,
) -> int:
    """Go on from a file if it is there; how many steps were done before.

    Args:
        file: that `save_checkpoint` wrote.
        network: that learns.
        run: tells this run from others.
        parts: as they were kept.
        device: of the network.

    Raises:
        InputError: the file is of another run.
    """
    if file is None or not file.exists():
        return 0
    kept = torch.load(file, map_location=device, weights_only=True)
    if any(kept[name] != value for name, value in run.items()):
        raise InputError(
            f"{file} is the checkpoint of a run with other settings or rows; remove it"
        )
    network.load_state_dict(kept["network"], strict=not network.config.backbone_path)
    for name, part in parts.items():
        part.load_state_dict(kept[name])
    return int(kept["step"])
