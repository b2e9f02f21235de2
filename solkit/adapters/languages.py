"""Languages of GPU kernels that are not analysed, by the packages that bring them.

What fails inside such a package on a fake GPU says nothing about the candidate.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

_LANGUAGES = {
    "helion": "Helion",
    "tilelang": "TileLang",
    "tvm": "TVM",
    "cutlass": "CuTe DSL",
    "cuda.tile": "cuTile",
    "cuda.core": "cuda.core",
    "warp": "Warp",
    "numba": "Numba",
    "cupy": "CuPy",
    "pycuda": "PyCUDA",
    "taichi": "Taichi",
    "quack": "CuTe DSL",
    "jax": "JAX",
    "hidet": "Hidet",
    "max": "Mojo",
}
"""By package."""

_CAPTURED = ("CuTe DSL", "Helion", "TileLang", "cuTile")
"""Their code for a fake GPU is that for a real one: an adapter sees to that."""


def language_of(error: BaseException) -> str:
    """Return the language that an error comes from; empty if it comes from none of them.

    It was raised inside its package, or by C code that a line of the user's called, whose file uses
    the package; of a language that is captured, no such C code runs.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [
        name for frame in frames if (name := _language_of_module(frame.f_globals.get("__name__")))
    ]
    if not names and frames:
        names = list(_used_languages(frames[-1]))
    return names[-1] if names else ""


def is_of_language(frame: FrameType) -> bool:
    """Tell if a frame runs code of a language's package."""
    return bool(_language_of_module(frame.f_globals.get("__name__")))


def launching_language() -> str:
    """Return the language whose package is calling now; empty if none is.

    What it generates on a fake GPU may differ from what it generates on a real one.
    """
    frames = (frame for frame, _ in traceback.walk_stack(None))
    names = (_language_of_module(frame.f_globals.get("__name__")) for frame in frames)
    return next((name for name in names if name and name not in _CAPTURED), "")


def _used_languages(frame: FrameType) -> Iterator[str]:
    """Yield languages among the values of a frame's module."""
    for value in list(frame.f_globals.values()):
        name = (
            getattr(value, "__name__", "") if type(value) is type(sys) else _module_of_value(value)
        )
        language = _language_of_module(name)
        if language and language not in _CAPTURED:
            yield language


def _module_of_value(value: Any) -> str:
    return str(getattr(type(value), "__module__", ""))


def _language_of_module(module: Any) -> str:
    """Return the language of a module's package."""
    parts = str(module or "").split(".")
    return _LANGUAGES.get(parts[0]) or _LANGUAGES.get(".".join(parts[:2]), "")
