"""A command whose help shows square brackets as they are written, and whose errors help."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
import typer.core

_F = TypeVar("_F", bound=Callable[..., Any])
_TAG = re.compile(r"\[(?=[a-zA-Z#/@^])")  # what Rich would take for markup


def _without_markup(text: str | None) -> str | None:
    """Return a text in which Rich finds no markup: it would swallow ``[surrogate]``."""
    return None if text is None else _TAG.sub(r"\\[", text)


class Command(typer.core.TyperCommand):
    """A command, with its texts as they are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("help", "short_help", "epilog"):
            setattr(self, name, _without_markup(getattr(self, name)))
        for param in self.params:
            if getattr(param, "help", None):
                param.help = _without_markup(param.help)  # type: ignore[attr-defined]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; a command that runs a program says how it runs a module."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # `NoSuchOption` is click's own, or that of typer's copy
            if ctx.allow_interspersed_args or getattr(error, "option_name", None) != "-m":
                raise
            raise typer.BadParameter(_advice_on_module(ctx, words), ctx) from None


def _advice_on_module(ctx: Any, words: list[str]) -> str:
    place = next(place for place, word in enumerate(words) if word.startswith("-m"))
    command = " ".join([ctx.command_path, *words[:place], "python", *words[place:]])
    return f"-m is Python's option, so name Python before it: {command}"


class App(typer.Typer):
    """An app of such commands."""

    def command(self, name: str | None = None, **kwargs: Any) -> Callable[[_F], _F]:
        """Register a function as a command."""
        registered: Callable[[_F], _F] = super().command(name, cls=Command, **kwargs)
        return registered
