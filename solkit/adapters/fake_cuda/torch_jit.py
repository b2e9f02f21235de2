"""TorchScript without a trace: a tracer reads the memory of its tensors, which fake ones lack.

What `torch.jit.trace` gives does the same as the function, for the inputs that it was traced with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def _trace_function(func: Any, example_inputs: Any = None, *_: Any, **options: Any) -> Any:
    """`torch.jit.trace`: the function, called once as the tracer does."""
    named = options.get("example_kwarg_inputs")
    if isinstance(example_inputs, Mapping) or named is not None:
        func(**(named or example_inputs))
    else:
        alone = not isinstance(example_inputs, (tuple, list))
        func(*((example_inputs,) if alone else example_inputs))
    return func


def _trace_module(mod: torch.nn.Module, inputs: Mapping[str, Any], *_: Any, **__: Any) -> Any:
    """`torch.jit.trace_module`: the module, its methods called once."""
    for name, args in inputs.items():
        getattr(mod, name)(*(args if isinstance(args, tuple) else (args,)))
    return mod


def _unless_scripted(original: Any) -> Any:
    """Return a function of TorchScript that leaves alone what was never traced."""

    def function(mod: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(mod, torch.jit.ScriptModule):
            return original(mod, *args, **kwargs)
        return mod.eval() if isinstance(mod, torch.nn.Module) else mod

    return function


def fake_tracing() -> None:
    """Replace the tracer of `torch.jit`, and what takes its results."""
    for name, fake in (
        ("trace", _trace_function),
        ("trace_module", _trace_module),
        ("freeze", _unless_scripted(torch.jit.freeze)),
        ("optimize_for_inference", _unless_scripted(torch.jit.optimize_for_inference)),
    ):
        setattr(torch.jit, name, fake)
