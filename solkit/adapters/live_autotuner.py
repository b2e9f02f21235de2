"""Triton's autotuner in a live process: its pruning, and the launches that it would try.

The only module that touches the autotuner's internals where kernels really run. Nothing here
launches or times anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from triton import knobs
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from solkit.adapters.fake_triton import Argument, CapturedLaunch, tensor_argument
from solkit.adapters.launch_records import with_records
from solkit.adapters.triton_compiler import Specialisation, describe_launch
from solkit.adapters.triton_writes import may_write
from solkit.core import Value
from solkit.errors import InputError, UnsupportedError

__all__ = [
    "Call",
    "Prune",
    "capture_launch",
    "config_params",
    "device_index",
    "may_write_tensor",
    "specialise",
    "unwrap_all",
    "unwrap_tuner",
    "wrap_all_tuners",
    "wrap_tuner",
]

_MARK = "solkit_original"
_PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Call:
    """A launch that an autotuner is about to tune.

    Attributes:
        tuner: the autotuner.
        arguments: positional arguments by parameter.
        kwargs: keyword arguments, and ``grid`` and ``warmup``.
    """

    tuner: Autotuner
    arguments: Mapping[str, Any]
    kwargs: Mapping[str, Any]

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return str(self.tuner.base_fn.__name__)


Prune = Callable[[Call, Sequence[Any]], Sequence[Any]]
"""Gets a call and the configurations that the user's own pruning left; returns those to time."""


def wrap_all_tuners(prune: Prune) -> None:
    """Prune further in every autotuner of this process, also in those defined later."""
    unwrap_all()
    Autotuner.prune_configs = _prune_further(Autotuner.prune_configs, prune)


def unwrap_all() -> None:
    """Undo `wrap_all_tuners`."""
    Autotuner.prune_configs = getattr(Autotuner.prune_configs, _MARK, Autotuner.prune_configs)


def wrap_tuner(kernel: Any, prune: Prune) -> None:
    """Prune further in one kernel's autotuner, whatever `wrap_all_tuners` was told.

    Raises:
        InputError: the kernel is not autotuned.
    """
    tuner = _find_tuner(kernel)
    original = getattr(Autotuner.prune_configs, _MARK, Autotuner.prune_configs)
    bound = _prune_further(original, prune).__get__(tuner)
    vars(tuner)["prune_configs"] = bound


def unwrap_tuner(kernel: Any) -> None:
    """Undo `wrap_tuner`."""
    vars(_find_tuner(kernel)).pop("prune_configs", None)


def _prune_further(original: Any, prune: Prune) -> Any:
    def prune_configs(self: Autotuner, kwargs: dict[str, Any]) -> list[Any]:
        remaining = original(self, kwargs)
        return list(prune(Call(self, dict(self.nargs), kwargs), remaining))

    setattr(prune_configs, _MARK, original)
    return prune_configs


def _find_tuner(kernel: Any) -> Autotuner:
    tuner = kernel
    while not isinstance(tuner, Autotuner) and hasattr(tuner, "fn"):
        tuner = tuner.fn
    if not isinstance(tuner, Autotuner):
        name = getattr(kernel, "__name__", repr(kernel))
        raise InputError(f"{name} is not autotuned: expected a kernel under @triton.autotune")
    return tuner


def device_index() -> int:
    """Return the number of CUDA's current device.

    Raises:
        UnsupportedError: Triton's kernels run on no NVIDIA GPU here.
    """
    backend = driver.active.get_current_target().backend
    if backend != "cuda":
        raise UnsupportedError(f"Triton's backend is {backend}: only cuda's kernels can be ranked")
    return int(driver.active.get_current_device())


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


def config_params(config: Any) -> dict[str, Value]:
    """Return a configuration's parameters that are numbers, booleans or texts."""
    params = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {name: value for name, value in params.items() if isinstance(value, _PLAIN)}
