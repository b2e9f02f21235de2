"""Whose code it is: the candidate's or an installed library's."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import solkit

__all__ = ["is_library", "is_standard", "owner_of", "responsible", "where"]


@functools.cache
def _standard_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "platstdlib")})


@functools.cache
def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    beside = importlib.metadata.distribution("pydantic").locate_file("")  # `pip install --target`
    installed = [paths["purelib"], paths["platlib"], str(beside)]
    packages = [str(Path(str(module.__file__)).parent) for module in (torch, solkit)]
    return tuple({os.path.realpath(path) + os.sep for path in (*installed, *packages)})


@functools.cache
def is_library(file: str) -> bool:
    """Tell whether a file belongs to an installed package, SolKit or Python's standard library."""
    return is_standard(file) or os.path.realpath(file).startswith(_library_roots())


@functools.cache
def is_standard(file: str) -> bool:
    """Tell whether a file belongs to Python's standard library."""
    if file.startswith("<frozen "):
        return True
    path = os.path.realpath(file)
    return path.startswith(_standard_roots()) and not path.startswith(_library_roots())


def owner_of(value: Any) -> str | None:
    """Return the file that defines a function or class; ``None`` if there is none."""
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        return code.co_filename
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def responsible(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside the standard library, on whose behalf the library acts."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def where(frame: FrameType) -> str:
    """``file:line`` of a frame."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
