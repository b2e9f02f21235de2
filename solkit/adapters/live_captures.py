"""Launches that Triton's autotuner would try in a live process; none is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from triton import knobs
from triton.runtime.autotuner import Heuristics
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from solkit.adapters.launch_recording import Argument, CapturedLaunch, tensor_argument
from solkit.adapters.launch_records import with_records
from solkit.adapters.live_autotuner import Call
from solkit.adapters.triton_compiler import Specialisation, describe_launch
from solkit.adapters.triton_writes import may_write
from solkit.errors import UnsupportedError


def capture_launch(call: Call, config: Any) -> CapturedLaunch:
    """Return the launch of one configuration, as Triton's binder specialises it.

    Contents of tensors are not read: that would wait for the GPU. The configuration's own
    ``pre_hook`` runs, as it does before each timing: it may set the blocks of TMA descriptors.

    Raises:
        Exception: whatever Triton, the grid or a hook raises.
    """
    named, kernel, kwargs = _bind_arguments(call, config)
    grid = kwargs.pop("grid")
    kwargs.pop("warmup", None)
    made_from, bound = specialise(kernel, tuple(named.values()), kwargs)
    x, y, z = (*(grid(bound) if callable(grid) else grid), 1, 1)[:3]
    arguments: dict[str, Argument] = {name: _describe_argument(arg) for name, arg in bound.items()}
    launch = describe_launch(made_from, (int(x), int(y), int(z)))
    (recorded,) = with_records([CapturedLaunch(launch, made_from, arguments)])
    return recorded


def specialise(
    kernel: JITFunction[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Specialisation, dict[str, Any]]:
    """Return what `JITFunction.run` would compile, and its arguments by parameter.

    Args:
        kernel: the function.
        args: by position.
        kwargs: by name, with the compiler's options; neither ``grid`` nor ``warmup``.
    """
    options = dict(kwargs)
    options["debug"] = options.get("debug", kernel.debug) or knobs.runtime.debug
    options["instrumentation_mode"] = knobs.compilation.instrumentation_mode
    *_, backend, binder = kernel.device_caches[driver.active.get_current_device()]
    bound, specialisation, parsed = binder(*args, **options)
    packed = kernel._pack_args(backend, options, bound, specialisation, parsed)
    kernel.cache_key  # noqa: B018 - fills `used_global_vals`, which a compile would have done
    parsed, signature, constexprs, attrs = packed
    return Specialisation(kernel, signature, constexprs, attrs, dict(parsed.__dict__)), bound


def _bind_arguments(
    call: Call, config: Any
) -> tuple[Mapping[str, Any], JITFunction[Any], dict[str, Any]]:
    """Positional arguments, the kernel, and keyword arguments with what heuristics add."""
    kernel, named = call.tuner.fn, call.arguments
    kwargs = {**call.kwargs, **config.all_kwargs()}
    if config.pre_hook is not None:
        config.pre_hook({**named, **kwargs})
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Heuristics):
            for name, value in kernel.values.items():
                kwargs[name] = value({**named, **kwargs})
        if not hasattr(kernel, "fn"):
            raise UnsupportedError(f"{call.kernel} is no kernel of triton.jit")
        kernel = kernel.fn
    return named, kernel, kwargs


def _describe_argument(arg: Any) -> Argument:
    """Return an argument without its contents, which only the GPU knows."""
    if isinstance(arg, bool | int | float):
        return arg
    tensor = getattr(arg, "base", arg)  # a TMA descriptor's tensor
    return tensor_argument(arg, tensor, None) if isinstance(tensor, torch.Tensor) else None


def may_write_tensor(launch: CapturedLaunch, name: str) -> bool:
    """Tell whether a launch may write to a tensor argument."""
    return may_write(launch.kernel.function, name)
