"""Guesses, each a sentence with the user's line."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path

import torch

from solkit.core.stack import Stack

_guessed = Stack[dict[str, None]]([{}])  # ordered sets: all, then one per `watching_guesses`
_always: dict[str, None] = {}  # what every one of them starts with


def guesses_so_far() -> tuple[str, ...]:
    """Return the guesses so far in this process."""
    return tuple(_guessed[0])


def watching_guesses() -> contextlib.AbstractContextManager[Mapping[str, None]]:
    """Collect guesses, as an ordered set that fills up."""
    return _guessed.holding(dict.fromkeys(_always))


def guess_always(sentence: str) -> None:
    """Report a guess that everything in this process relies on."""
    _always.setdefault(sentence)
    _guessed[0].setdefault(sentence)


def report_guess(sentence: str) -> None:
    """Report a guess for the user's current line."""
    report_earlier_guesses(locate_sentence(sentence))


def locate_sentence(sentence: str) -> str:
    """Return a sentence with the user's current line."""
    return f"{user_line()}: {sentence}"


def report_earlier_guesses(*sentences: str) -> None:
    """Report earlier guesses, once something relies on them."""
    for guessed in _guessed:
        for sentence in sentences:
            guessed.setdefault(sentence)


def _folders_of_others() -> tuple[str, ...]:
    """Return the folders of torch, Triton, SolKit and Python, whose code is not the user's.

    Nor is that of the packages with which these compute while a call is recorded.
    """
    specs = map(importlib.util.find_spec, ("triton", "numpy", "sympy", "mpmath"))
    packages = (spec.origin for spec in specs if spec)
    files = (torch.__file__, __file__, contextlib.__file__, *packages)
    torch_, package, *others = (Path(file).parent for file in files if file)
    return tuple(f"{folder}{os.sep}" for folder in (torch_, package.parent.parent, *others))


_NOT_USERS = _folders_of_others()


@functools.cache
def is_user_file(path: str) -> bool:
    """Tell whether a file holds the user's code."""
    return not path.startswith("<") and not any(
        path.startswith(folder) and "site-packages" not in path[len(folder) :]
        for folder in _NOT_USERS
    )


_places = Stack[str]()


def placing_line(line: str) -> contextlib.AbstractContextManager[str]:
    """Let a line of the user's be the current one: a recorded call is made again elsewhere."""
    return _places.holding(line)


def user_line(frame: types.FrameType | None = None) -> str:
    """``file:line`` of the innermost frame of the user's, from the caller's or a given frame."""
    if _places and frame is None:
        return _places[-1]
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"
