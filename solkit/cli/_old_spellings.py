"""Old spellings of options: they still work, with a warning on stderr that names the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer

from solkit.cli._commands import Command

__all__ = ["understanding"]

_Rewrite = Callable[[str], Sequence[str]]


def _now(option: str) -> _Rewrite:
    return lambda value: (option, value)


def _place_by_index(value: str) -> Sequence[str]:
    """``--device 1`` is ``--on cuda:1`` now; ``--device h100`` is not an old spelling."""
    return ("--on", f"cuda:{value}") if value.isdecimal() else ()


_OLD: dict[str, dict[str, _Rewrite]] = {
    "score": {"--trace": _now("--log")},
    "compare": {"--trace": _now("--log")},
    "rank": {"--candidates": _now("--params-file")},
    "bound": {"--time-limit": _now("--study-limit")},
    "profile": {"--time-limit": _now("--script-limit")},
    "calibrate": {"--device": _place_by_index},
    "collect": {"--device": _place_by_index, "--out": _now("--log")},
}
"""By command and option: the new spelling of a value; empty if the value is not an old one."""


def understanding(command: str) -> type[Command]:
    """Return a command that understands the old spellings of its options."""
    old = _OLD[command]

    class Understanding(Command):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _rewritten(args, old, ctx.resilient_parsing))

    return Understanding


def _rewritten(args: Sequence[str], old: dict[str, _Rewrite], silent: bool) -> list[str]:
    end = args.index("--") if "--" in args else len(args)
    remaining, new_args = list(args[:end]), list[str]()
    while remaining:
        name, equals, value = remaining[0].partition("=")
        if name not in old or not (equals or remaining[1:]):
            new_args.append(remaining.pop(0))
            continue
        words = [remaining.pop(0)] if equals else [remaining.pop(0), remaining.pop(0)]
        new = old[name](value if equals else words[1])
        if new and not silent:
            typer.echo(f"solkit: {' '.join(words)}: now {' '.join(new)}", err=True)
        new_args += new or words
    return [*new_args, *args[end:]]
