"""Helion's configurations as tuning parameters, and back.

A configuration has lists (``block_sizes=[64, 32]``); a parameter is a number, a bool or a string.
So ``block_sizes_0=64, block_sizes_1=32``, and ``"None"`` for what is unset. A point holds all of a
configuration: what was ranked on one machine runs on another.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from solkit.core import Value
from solkit.core.quantities import settings_text
from solkit.errors import ParamsError

_UNSET = "None"
_PLAIN = (bool, int, float, str)


def params_of_config(config: Mapping[str, Any], names: Iterable[str]) -> dict[str, Value]:
    """Return a configuration as parameters; `names` lists the keys of all configurations."""
    return dict(pair for name in names for pair in _flattened(name, config.get(name)))


def _flattened(name: str, value: Any) -> Iterator[tuple[str, Value]]:
    if isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _flattened(f"{name}_{index}", part)
    elif isinstance(value, _PLAIN):
        yield name, value
    else:
        yield name, _UNSET


def with_params(config: Any, params: Mapping[str, Value], spec: Any) -> Any:
    """Return a configuration with the values of parameters that are its own.

    Args:
        config: a ``helion.Config``.
        params: some may be other kernels'.
        spec: the kernel's ``ConfigSpec``, whose default says which keys there are.

    Raises:
        ParamsError: Helion refuses the values.
    """
    keys = {**dict(spec.default_config()), **dict(config)}
    own = {name: value for name, value in params.items() if _key_of(name, keys)}
    if not own:
        return config
    try:
        changed = _changed(dict(config), own, keys)
        spec.normalize(dict(changed))
    except ParamsError:
        raise
    except Exception as error:  # of Helion's, which says what is wrong
        listed = settings_text(own)
        raise ParamsError(f"Helion takes no configuration with {listed}: {error}") from error
    return changed


def _key_of(name: str, keys: Collection[str]) -> str:
    """Return the configuration's key that a parameter belongs to; empty if there is none."""
    stem = re.sub(r"(_\d+)+$", "", name)
    return name if name in keys else stem if stem in keys else ""


def _changed(config: Mapping[str, Any], own: Mapping[str, Value], keys: Mapping[str, Any]) -> Any:
    values = dict(config)
    for name, value in own.items():
        key = _key_of(name, keys)
        part = None if value == _UNSET else value
        places = [int(index) for index in name[len(key) :].split("_")[1:]]
        try:
            values[key] = _placed(values.get(key, keys.get(key)), places, part)
        except IndexError as error:
            raise ParamsError(f"{name}={value}: Helion's {key} has {error} elements") from error
    used = {key: value for key, value in values.items() if value is not None}
    return sys.modules["helion"].Config(**used)


def _placed(value: Any, places: list[int], part: Any) -> Any:
    """Return a nested list with one element changed, or added at its end.

    Raises:
        IndexError: it ends before; with its length.
    """
    if not places:
        return part
    items = list(value) if isinstance(value, (list, tuple)) else []
    if places[0] > len(items):
        raise IndexError(len(items))
    items[places[0] : places[0] + 1] = [
        _placed(items[places[0]] if places[0] < len(items) else None, places[1:], part)
    ]
    return items


def uses_helion() -> bool:
    """Tell whether Helion is loaded; imports nothing."""
    return hasattr(sys.modules.get("helion"), "Kernel")


def restrict_helion(modules: Iterable[ModuleType], params: Mapping[str, Value]) -> set[str]:
    """Give the Helion kernels of modules the configuration that parameters name.

    A kernel with one configuration runs it without timing. ``every_config`` keeps all. One without
    any runs Helion's default: its search takes minutes, which no trial has.

    Returns:
        The parameters that are Helion's.
    """
    used: set[str] = set()
    for kernel in _kernels_of(modules):
        own = vars(kernel).setdefault("every_config", list(kernel.configs))
        kernel.configs = list(own)
        if not own:
            kernel.settings.autotune_effort = "none"
        keys = _keys_of_kernel(own)
        mine = {name: value for name, value in params.items() if _key_of(name, keys)}
        used |= set(mine)
        if mine:
            kernel.configs = [_changed(dict(own[0]) if own else {}, mine, keys)]
        kernel.reset()
    return used


def _kernels_of(modules: Iterable[ModuleType]) -> list[Any]:
    if not uses_helion():
        return []
    kind = sys.modules["helion"].Kernel
    named = [value for module in modules for value in list(vars(module).values())]
    return list({id(value): value for value in named if isinstance(value, kind)}.values())


def _keys_of_kernel(own: list[Any]) -> dict[str, Any]:
    """Return the keys that a configuration may have, with the values of the file's first."""
    names = inspect.signature(sys.modules["helion"].Config.__init__).parameters
    return {**dict.fromkeys(names), **(dict(own[0]) if own else {})}
