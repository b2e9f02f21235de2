"""``solkit data tuned``: what tuning found, of every run."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, exit_codes

if TYPE_CHECKING:
    from solkit.core import TimedParams
    from solkit.tuner.tuning_results import Key, TuningResult

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
        from solkit.tuner.tuning_results import agreed_results, results_by_key

        shapes = _options.parse_shapes(shape)
        if place is not None and "://" not in place:
            _base.check_readable(place)
        findings = [
            finding
            for finding in Database(place).findings()
            if shapes is None or any(sizes.items() <= finding.shape.items() for sizes in shapes)
        ]
        taken, _ = agreed_results(findings)
        if json != "-":
            console = _base.rich_console()
            for key, runs in results_by_key(findings).items():
                for line in _lines_of_group(key, runs, taken):
                    console.print(line, soft_wrap=True)
            if not findings:
                console.print("nothing has been tuned yet")
        _base.write_destination(
            json, lambda: jsonlib.dumps(_tuned_json(findings, taken), indent=2, allow_nan=False)
        )


def _lines_of_group(
    key: Key, runs: Sequence[TuningResult], taken: Sequence[TuningResult]
) -> Iterator[str]:
    from solkit.report.units import shape_words

    triton = f"Triton {key.triton_version}" if key.triton_version else "an unknown Triton"
    where = f"{shape_words(runs[0].shape)} on {key.device}, {triton}"
    yield f"{runs[0].kernel} at {where}, {key.protocol or 'unknown'} protocol"
    for run in runs:
        mark = "*" if run in taken else " "
        cost = f"{run.measured} configurations"
        cost += "" if run.gpu_s is None else f", {run.gpu_s:.1f} GPU s"
        yield f"{mark} {run.ended:%Y-%m-%d %H:%M}  {_answer_of_run(run)}; {cost}; run {run.run_id}"
        if run.why:
            yield f"      {run.why}"


def _answer_of_run(run: TuningResult) -> str:
    if run.incumbent is None:
        return f"fastest {_words_of_timing(run.winner)}"
    in_use = _words_of_timing(run.incumbent)
    if not run.confirmed or run.winner is None:
        return f"not confirmed: {_words_of_timing(run.winner)}; in use {in_use}"
    speed = ""
    if (ratio := run.ratio) is not None:
        high = f"{1 / ratio.low:.3f}" if ratio.low > 0 else "∞"
        speed = f" {1 / ratio.value:.3f} times as fast ({1 / ratio.high:.3f} to {high}):"
    return f"{run.verdict.value}:{speed} {_words_of_timing(run.winner)}; in use {in_use}"


def _words_of_timing(timed: TimedParams | None) -> str:
    from solkit.core.quantities import duration
    from solkit.report.units import format_settings

    if timed is None:
        return "nothing"
    time = "" if timed.time_ms is None else f"{duration(timed.time_ms)} "
    return f"{time}({format_settings(timed.params)})"


def _tuned_json(findings: Sequence[TuningResult], taken: Sequence[TuningResult]) -> dict[str, Any]:
    """Write the findings as ``solkit.tuned/1``; times in ms."""
    from solkit.core.codec import json_value, to_json

    return {
        "schema": "solkit.tuned/1",
        "findings": [
            {
                **to_json(finding.key, complete=True),
                "kernel": finding.kernel,
                "shape": dict(finding.shape),
                "run_id": finding.run_id,
                "incumbent": json_value(finding.incumbent) if finding.incumbent else None,
                "winner": json_value(finding.winner) if finding.winner else None,
                "verdict": finding.verdict.value,
                "confirmed": finding.confirmed,
                "ratio": json_value(finding.ratio) if finding.ratio else None,
                "why": finding.why,
                "taken": finding in taken,
                "measured": finding.measured,
                "gpu_s": finding.gpu_s,
                "begun": json_value(finding.begun),
                "ended": json_value(finding.ended),
                "driver_version": finding.row.driver_version if finding.row else None,
                "clock_mhz": finding.row.clock_mhz if finding.row else None,
            }
            for finding in findings
        ],
    }
