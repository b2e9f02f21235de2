"""What runs where Triton interprets kernels on the CPU: see the fixture `interpreted`."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any

import torch
import triton


def warm_up() -> None:
    """Load what all of them need, once; the language is patched once a launch, not at each call."""
    from solkit.tuner import _interpreter_trial

    assert triton.knobs.runtime.interpret
    _interpreter_trial.warm_up()
    torch.ones(2).sum()


def printed(function: str, *args: Any) -> tuple[Any, str]:
    """What a function returns, and what it prints."""
    module, _, name = function.partition(":")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        value = getattr(importlib.import_module(module), name)(*args)
    return value, text.getvalue()
