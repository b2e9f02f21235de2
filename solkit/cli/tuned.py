"""``solkit data tuned``: what tuning found, of every run."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, exit_codes

if TYPE_CHECKING:
    from solkit.core import TimedParams
    from solkit.tuner.findings import Finding, Key

__all__ = ["tuned"]

_Place = Annotated[
    str | None,
    typer.Argument(
        metavar="[PLACE]",
        help="A tuning database: a folder, or a server's URL. Default: the user's own.",
    ),
]


def tuned(
    place: _Place = None,
    shape: _options.Shapes = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Show what each tuning run found, by kernel, shape, GPU and versions.

    Runs that disagree stand one below the other. A star marks what `solkit emit` takes.
    """
    with exit_codes.failures_as_exit_codes(verbose, "tune"):
        _base.check_writable(json)
        from solkit.tuner.database import Database
        from solkit.tuner.findings import agreed, by_key

        shapes = _options.parse_shapes(shape)
        if place is not None and "://" not in place:
            _base.check_readable(place)
        found = [
            each
            for each in Database(place).findings()
            if shapes is None or any(sizes.items() <= each.shape.items() for sizes in shapes)
        ]
        taken, _ = agreed(found)
        if json != "-":
            console = _base.console()
            for key, runs in by_key(found).items():
                for line in _lines(key, runs, taken):
                    console.print(line, soft_wrap=True)
            if not found:
                console.print("nothing has been tuned yet")
        _base.write(json, lambda: jsonlib.dumps(_told(found, taken), indent=2, allow_nan=False))


def _lines(key: Key, runs: Sequence[Finding], taken: Sequence[Finding]) -> Iterator[str]:
    from solkit.report.units import shape_words

    triton = f"Triton {key.triton_version}" if key.triton_version else "an unknown Triton"
    where = f"{shape_words(runs[0].shape)} on {key.device}, {triton}"
    yield f"{runs[0].kernel} at {where}, {key.protocol or 'unknown'} protocol"
    for each in runs:
        mark = "*" if each in taken else " "
        cost = f"{each.measured} configurations"
        cost += "" if each.gpu_s is None else f", {each.gpu_s:.1f} GPU s"
        yield f"{mark} {each.ended:%Y-%m-%d %H:%M}  {_answer(each)}; {cost}; run {each.run_id}"
        if each.why:
            yield f"      {each.why}"


def _answer(found: Finding) -> str:
    if found.incumbent is None:
        return f"fastest {_words(found.winner)}"
    if not found.confirmed or found.winner is None:
        return f"not confirmed: {_words(found.winner)}; in use {_words(found.incumbent)}"
    speed = ""
    if (ratio := found.ratio) is not None:
        high = f"{1 / ratio.low:.3f}" if ratio.low > 0 else "∞"
        speed = f" {1 / ratio.value:.3f} times as fast ({1 / ratio.high:.3f} to {high}):"
    return f"{found.verdict.value}:{speed} {_words(found.winner)}; in use {_words(found.incumbent)}"


def _words(each: TimedParams | None) -> str:
    from solkit.report.units import duration, settings

    if each is None:
        return "nothing"
    time = "" if each.time_ms is None else f"{duration(each.time_ms)} "
    return f"{time}({settings(each.params)})"


def _told(found: Sequence[Finding], taken: Sequence[Finding]) -> dict[str, Any]:
    """The findings as ``solkit.tuned/1``; times in ms."""
    from dataclasses import asdict

    from solkit.datasets.record import plain

    return {
        "schema": "solkit.tuned/1",
        "findings": [
            {
                **asdict(each.key),
                "kernel": each.kernel,
                "shape": dict(each.shape),
                "run_id": each.run_id,
                "incumbent": plain(each.incumbent) if each.incumbent else None,
                "winner": plain(each.winner) if each.winner else None,
                "verdict": each.verdict.value,
                "confirmed": each.confirmed,
                "ratio": plain(each.ratio) if each.ratio else None,
                "why": each.why,
                "taken": each in taken,
                "measured": each.measured,
                "gpu_s": each.gpu_s,
                "begun": plain(each.begun),
                "ended": plain(each.ended),
                "driver_version": each.row.driver_version if each.row else None,
                "clock_mhz": each.row.clock_mhz if each.row else None,
            }
            for each in found
        ],
    }
