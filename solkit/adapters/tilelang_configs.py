"""TileLang's configurations as tuning parameters, with and without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from solkit.adapters.listed_configs import ListedTuner, index_of_params
from solkit.core import Value

_PLAIN = (bool, int, float, str)


def tilelang_tuner(configs: Iterable[Mapping[str, Any]]) -> ListedTuner:
    """Return the tuner of configurations as ``tilelang.autotune`` takes them."""
    return ListedTuner.of(map(_plain, configs))


def _plain(config: Mapping[str, Any]) -> dict[str, Value]:
    return {name: value for name, value in config.items() if isinstance(value, _PLAIN)}


def choose_config(
    configs: Sequence[Mapping[str, Any]], params: Mapping[str, Value], name: str
) -> Mapping[str, Any]:
    """Return the first configuration that has the requested values.

    Args:
        configs: of the kernel.
        params: some may be other kernels'.
        name: the kernel's.

    Raises:
        ParamsError: none has them.
    """
    return configs[
        index_of_params(list(map(_plain, configs)), params, f"tilelang.autotune on {name}")
    ]


def uses_tilelang() -> bool:
    """Tell whether TileLang is loaded; imports nothing."""
    return hasattr(sys.modules.get("tilelang"), "autotune")


def restrict_tilelang(modules: Iterable[ModuleType], params: Mapping[str, Value]) -> set[str]:
    """Keep, in each ``tilelang.autotune`` of modules, the configuration that parameters name.

    ``every_config`` keeps all. One without any is left to whoever calls it.

    Returns:
        The parameters that are TileLang's.
    """
    used: set[str] = set()
    for tuned in _tuned_of(modules):
        if callable(tuned.configs):  # they depend on a call's arguments
            continue
        every = vars(tuned).setdefault("every_config", list(tuned.configs))
        own = {key: value for key, value in params.items() if any(key in c for c in every)}
        tuned.configs = list(every)
        used |= own.keys()
        if own:
            tuned.configs = [choose_config(every, own, str(tuned.jit_impl.func))]
        vars(tuned)["_tuner_cache"] = {}  # by a call's arguments: another configuration's kernel
    return used


def _tuned_of(modules: Iterable[ModuleType]) -> list[Any]:
    tuner = sys.modules.get("tilelang.autotuner.tuner")
    if tuner is None or not uses_tilelang():
        return []
    named = [value for module in modules for value in list(vars(module).values())]
    return list(
        {id(value): value for value in named if isinstance(value, tuner.AutoTuneImpl)}.values()
    )
