"""Old keywords: they still work, with a `DeprecationWarning`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from solkit.core.settings import MeasureSettings

__all__ = ["moved_to_settings", "renamed"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def moved_to_settings(**moved: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Accept old keywords of a function that now takes ``settings``.

    ``None`` leaves a setting unchanged: it meant the default.

    Args:
        moved: for each old keyword, the `MeasureSettings` fields that replace it, separated by
            spaces.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            found = {name: kwargs.pop(name) for name in moved if name in kwargs}
            if found:
                kwargs["settings"] = _with(found, moved, args, kwargs.get("settings"))
                new = ", ".join(f"{field}=..." for name in found for field in moved[name].split())
                warnings.warn(
                    f"{function.__name__}(): {', '.join(found)} moved: "
                    f"pass settings=MeasureSettings({new})",
                    DeprecationWarning,
                    stacklevel=2,
                )
            return function(*args, **kwargs)

        return wrapper

    return decorate


def renamed(**names: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Accept old names of a function's keywords: ``renamed(old="new")``."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for old in names.keys() & kwargs.keys():
                text = f"{function.__name__}(): {old} is called {names[old]} now"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _with(
    found: dict[str, object], moved: dict[str, str], args: tuple[object, ...], settings: object
) -> MeasureSettings:
    """The call's settings, else those of the method's object, updated by the old keywords."""
    own = getattr(args[0], "settings", None) if args else None
    base = settings if settings is not None else own
    base = base if isinstance(base, MeasureSettings) else MeasureSettings()
    values = {
        field: value
        for name, value in found.items()
        if value is not None
        for field in moved[name].split()
    }
    return replace(base, **values)  # type: ignore[arg-type]
