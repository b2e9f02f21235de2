"""Configurations of ``cuda.tile.tune`` as tuning parameters, with and without a GPU.

A search takes any objects as configurations. A namespace's or a dataclass's attributes, a
dictionary's items and a named tuple's fields are parameters by their names; other values are
``config``, and a tuple's are ``config_0``, ``config_1`` ...
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from solkit.adapters.helion_configs import params_of_config
from solkit.adapters.listed_configs import ListedTuner, index_of_params
from solkit.core import Value

_TUNE = "cuda.tile.tune"
_SEARCH = "exhaustive_search"

_dictionaries: dict[tuple[str, str], dict[Any, Any]] = {}
"""Contents of modules' dictionaries before any call, by module and name."""


def cutile_tuner(configs: Sequence[Any]) -> ListedTuner:
    """Return the tuner of configurations as ``cuda.tile.tune`` takes them."""
    return ListedTuner.of({tuple(point.items()): point for point in _points(configs)}.values())


def choose_config(configs: Sequence[Any], params: Mapping[str, Value], name: str) -> Any:
    """Return the first configuration that has the requested values.

    Args:
        configs: of a search.
        params: some may be other kernels'.
        name: the kernel's.

    Raises:
        ParamsError: none has them.
    """
    return configs[index_of_params(_points(configs), params, f"cuda.tile.tune on {name}")]


def _points(configs: Sequence[Any]) -> list[dict[str, Value]]:
    named = [_by_name(config) for config in configs]
    names = list(dict.fromkeys(name for config in named for name in config))
    return [params_of_config(config, names) for config in named]


def _by_name(config: Any) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return {str(name): value for name, value in config.items()}
    if dataclasses.is_dataclass(config):
        fields = dataclasses.fields(config)
        return {field.name: getattr(config, field.name) for field in fields}
    if hasattr(config, "_asdict"):
        return dict(config._asdict())
    return dict(vars(config)) if hasattr(config, "__dict__") else {"config": config}


def uses_cutile_search() -> bool:
    """Tell whether ``cuda.tile.tune`` is loaded; imports nothing."""
    return hasattr(sys.modules.get(_TUNE), _SEARCH)


def restrict_cutile(modules: Iterable[ModuleType], params: Mapping[str, Value]) -> set[str]:
    """Let searches take the configuration that parameters name, and time nothing.

    Which parameters a search has shows when it is called, with the arguments of a launch. Modules
    often keep what it chose in a dictionary: these are emptied, or a parameter had no effect.

    Args:
        modules: of a file; packages that search count, too.
        params: those that its launcher does not take itself.

    Returns:
        The parameters, if a module searches: a search that has others says which it has.
    """
    if not uses_cutile_search():
        return set()
    tune: Any = sys.modules[_TUNE]
    original = vars(tune).setdefault("every_search", tune.exhaustive_search)
    search = functools.partial(_chosen, params) if params and not is_faked(tune) else original
    holders = _holders_of_search()
    for module in (tune, *holders):
        for name, value in list(vars(module).items()):
            if name != "every_search" and _is_search(value):
                setattr(module, name, search)
    users = {id(module): module for module in (*holders, *filter(_names_search, modules))}
    for module in users.values():
        _forget_choices(module)
    return set(params) if users else set()


def is_faked(tune: Any) -> bool:
    """Tell whether the search itself chooses by the parameters of a recording."""
    return bool(getattr(tune, "is_faked", False))


def _is_search(value: Any) -> bool:
    every = getattr(sys.modules[_TUNE], "every_search", None)
    return value is every or (isinstance(value, functools.partial) and value.func is _chosen)


def _holders_of_search() -> tuple[ModuleType, ...]:
    """Return modules that hold the search by name."""
    own = ("cuda", "torch", "triton", "solkit")
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in own
        and any(map(_is_search, list(getattr(module, "__dict__", {}).values())))
    )


def _names_search(module: ModuleType) -> bool:
    try:
        return _SEARCH in inspect.getsource(module)
    except (OSError, TypeError):
        return False


def _forget_choices(module: ModuleType) -> None:
    """Give a module's dictionaries what they held before any call; memoised functions forget."""
    for name, value in list(vars(module).items()):
        if type(value) is dict and not name.startswith("__"):
            before = _dictionaries.setdefault((module.__name__, name), dict(value))
            if value.keys() != before.keys():
                value.clear()
                value.update(before)
        elif callable(clear := getattr(value, "cache_clear", None)) and hasattr(
            value, "__wrapped__"
        ):
            clear()


def _chosen(
    params: Mapping[str, Value],
    search_space: Sequence[Any],
    stream: Any,
    grid_fn: Any,
    kernel: Any,
    *_: Any,
    **__: Any,
) -> Any:
    """``exhaustive_search`` that chooses by parameters."""
    del stream, grid_fn
    config = choose_config(list(search_space), params, kernel_name(kernel))
    return result_of(config)


def kernel_name(kernel: Any) -> str:
    """Return the name of a kernel, or of the function that gives one for a configuration."""
    return str(getattr(getattr(kernel, "_pyfunc", kernel), "__name__", "kernel"))


def result_of(config: Any) -> Any:
    """Return a search's result in which a configuration is the best; its time is not known."""
    tune: Any = sys.modules[_TUNE]
    best = tune.Measurement(config=config, mean_us=1.0, num_samples=1, error_margin_us=0.0)
    return tune.TuningResult(best=best, successes=(best,), failures=())
