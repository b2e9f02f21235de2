"""Triton's autotuner in a live process: its pruning, and the calls that it would tune.

With `solkit.adapters.live_captures` the only module that touches the autotuner's internals where
kernels really run. Nothing here launches or times anything, or imports what ranking needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver

from solkit.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from solkit.core import Value

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


def config_params(config: Any) -> dict[str, Value]:
    """Return a configuration's parameters that are numbers, booleans or texts."""
    params = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {name: value for name, value in params.items() if isinstance(value, _PLAIN)}
