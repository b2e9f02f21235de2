"""`triton.autotune` that times only promising configurations.

::

    from solkit.integrations import triton as solkit_triton

    solkit_triton.install()                     # every autotuned kernel of this process
    solkit_triton.attach(kernel, top_k=4)       # or one

The surrogate ranks what the user's own ``prune_configs_by`` left; 5 to 8 configurations go on to
Triton's own timing. The first of the list is always among them, and a share explores. If anything
fails, tuning goes on with all configurations, after one warning. What is timed is compiled before,
at once on several cores. Of lists under 16 all is timed: to rank them would take as long.

The choice depends on the kernel, its arguments, the device, the compiler and the model alone, and
keeps the list's order. Triton's disk cache (``cache_results``) is keyed by the list that is left:
another model finds its own results where its choice differs, and shares them where it does not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from solkit.adapters import live_autotuner
from solkit.adapters.triton_startup import hash_meanwhile
from solkit.errors import InputError
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.core import Device
    from solkit.integrations.launches import Launch
    from solkit.surrogate.model import Surrogate

TOP_K = 8
"""Configurations of a long list that are timed unless told otherwise."""
LEAST_RANKED = 16
"""Length of a list from which on it is ranked unless told otherwise."""

_Model = Union["Surrogate", str, os.PathLike[str], None]


def attach(kernel: Any, top_k: int | None = None, surrogate: _Model = None) -> Any:
    """Let the surrogate prune the configurations of one autotuned kernel.

    Args:
        kernel: a kernel under ``triton.autotune``; other decorators may be around it.
        top_k: how many configurations are timed, if there are as many; by default a
            fourth of lists of at least `LEAST_RANKED`, from 5 to `TOP_K`, and all of shorter ones.
        surrogate: the model, or its file; the shipped one by default.

    Returns:
        The kernel.

    Raises:
        InputError: the kernel is not autotuned, or `top_k` is not a positive number.
    """
    live_autotuner.wrap_tuner(kernel, _Pruner(_check_top_k(top_k), surrogate))
    hash_meanwhile()
    return kernel


def detach(kernel: Any) -> None:
    """Undo `attach`; what `install` did stays.

    Raises:
        InputError: the kernel is not autotuned.
    """
    live_autotuner.unwrap_tuner(kernel)


def install(top_k: int | None = None, surrogate: _Model = None) -> None:
    """Do so for every autotuned kernel of this process, also for those defined later.

    Args:
        top_k: as for `attach`.
        surrogate: likewise.

    Raises:
        InputError: `top_k` is not a positive number.
    """
    live_autotuner.wrap_all_tuners(_Pruner(_check_top_k(top_k), surrogate))
    hash_meanwhile()


def uninstall() -> None:
    """Undo `install`; what `attach` did stays."""
    live_autotuner.unwrap_all()


def _check_top_k(top_k: int | None) -> int | None:
    if top_k is None:
        return None
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise InputError(f"top_k is {top_k!r}; expected how many to time, at least 1")
    return top_k


def _number_of(length: int) -> int:
    """Return how many of a list are timed: on kernels left out the best of five is 1 % slower."""
    return length if length < LEAST_RANKED else min(max(length // 4, 5), TOP_K)


@dataclass
class _Pruner:
    """Keeps promising configurations; all of them if anything fails.

    Attributes:
        top_k: how many; ``None`` for what suits the list.
        model: the surrogate, its file, or ``None`` for the shipped one.
        warned: kernels about which a warning was given; ``""`` for all.
    """

    top_k: int | None
    model: _Model
    warned: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held again where a hook or a grid of the kernel launches another autotuned one."""

    def __call__(self, call: live_autotuner.Call, configs: Sequence[Any]) -> Sequence[Any]:
        number = self.top_k or _number_of(len(configs))
        if len(configs) <= number:
            self._compile_all(call, configs)
            return configs
        try:
            with self.lock:
                return self._keep_promising(call, configs, number)
        except Exception as error:  # the user's tuning goes on, whatever went wrong
            if not self.warned & {"", call.kernel}:
                self.warned.add("" if self._is_unread() else call.kernel)
                warnings.warn(
                    f"SolKit ranked nothing, all {len(configs)} configurations of {call.kernel} "
                    f"are timed: {type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return configs

    def _is_unread(self) -> bool:
        return self.model is None or isinstance(self.model, str | os.PathLike)

    def _load_model(self) -> Surrogate:
        from solkit.surrogate.model import Surrogate

        if not isinstance(self.model, Surrogate):
            self.model = Surrogate.load(self.model)
        return self.model

    def _compile_all(self, call: live_autotuner.Call, configs: Sequence[Any]) -> None:
        """Compile what Triton will time; where that fails, Triton does it as ever."""
        if min(len(configs), len(os.sched_getaffinity(0))) > 1:
            with self.lock, contextlib.suppress(Exception):
                launches, device = _captured_launches(call, configs)
                from solkit.integrations.launches import compile_ahead

                compile_ahead(launches, device)

    def _keep_promising(
        self, call: live_autotuner.Call, configs: Sequence[Any], number: int
    ) -> Sequence[Any]:
        launches, device = _captured_launches(call, configs)
        from solkit.integrations.launches import compile_ahead, promising_launches

        kept = promising_launches(launches, device, self._load_model, number)
        compile_ahead([launches[place] for place in kept], device)
        return [configs[place] for place in kept]


def _captured_launches(
    call: live_autotuner.Call, configs: Sequence[Any]
) -> tuple[list[Launch], Device]:
    """Return the launch of each configuration, and where it would run."""
    with span("captures", "tuner"):
        device = _live_device(live_autotuner.device_index())
        return [_config_launch(call, config) for config in configs], device


def _config_launch(call: live_autotuner.Call, config: Any) -> Launch:
    """Return a configuration's launch; Triton will tell why if it cannot be captured."""
    from solkit.adapters.live_captures import capture_launch
    from solkit.integrations.launches import Launch

    params = live_autotuner.config_params(config)
    try:
        return Launch(capture_launch(call, config), params)
    except Exception:
        return Launch(None, params)


@functools.cache
def _live_device(index: int) -> Device:
    from solkit.roofline import nvml

    return nvml.live_device(index)
