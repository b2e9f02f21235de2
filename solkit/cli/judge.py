"""``solkit judge``: whether times that somebody reports can be true. Needs no GPU."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from solkit.cli import _base, _options, _outputs, exit_codes
from solkit.cli.exit_codes import Exit
from solkit.errors import InputError

EPILOG = (
    "Reads KernelBench's timings and evaluations, traces of SOL-ExecBench and FlashInfer-Bench, "
    "kernelbench.com's run details, CUDA-L1's JSON, SolKit's logs, and a plain CSV or JSON: "
    "problem, sizes, device, time_us, l2 (cold or warm). Exit code 4: a time is impossible."
)

_Results = Annotated[
    list[str],
    typer.Argument(metavar="RESULTS...", help="Files with times; with --time the problem's file."),
]
_Problems = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Where the problems' files are.")
]
_Time = Annotated[
    str | None, typer.Option(metavar="12us", help="Judge this one time of the problem RESULTS.")
]
_Baseline = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Times of the references, where RESULTS has speed-ups."),
]
_Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The file's format. Default: recognised."),
]
_Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=_options.device_names,
        help="The GPU of the times, as in `solkit devices`. Default: the one that each row names; "
        "with --time this machine's, else an H100.",
    ),
]
_Explain = Annotated[bool, typer.Option("--explain", help="Show every row, with its reasons.")]


def judge(
    results: _Results,
    problems: _Problems = None,
    device: _Device = None,
    time: _Time = None,
    shape: _options.Shape = None,
    baseline: _Baseline = None,
    format: _Format = None,  # noqa: A002 - the option's name
    explain: _Explain = False,
    json: _options.Json = None,
    html: _outputs.Html = None,
    study_limit: _options.StudyLimit = 180.0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Say whether reported times can be true, and what they would need. Needs no GPU."""
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(*results, problems, baseline)
        _outputs.Outputs(json, html).check(*results, problems, baseline)
        with _base.stdout_kept_for_the_report(), _base.showing_work(f"judging {results[0]}"):
            from solkit.core.judging import Plausibility
            from solkit.core.quantities import milliseconds
            from solkit.pipeline import judging

            if time is not None:
                _refuse({"--problems": problems, "--baseline": baseline, "--format": format})
                if len(results) > 1:
                    raise InputError(f"--time judges one problem, not {len(results)}: {results}")
                try:
                    time_ms, resolution_ms = milliseconds(time)
                except ValueError as error:
                    raise InputError(f"--time: {error}") from error
                report = judging.judge_time(
                    results[0],
                    time_ms,
                    shape=None if shape is None else _options.parse_settings(shape, "--shape"),
                    device=device,
                    resolution_ms=resolution_ms,
                    time_limit_s=study_limit,
                )
            else:
                _refuse({"--shape": shape}, "goes with --time: the file has the shapes")
                for folder in filter(os.path.isdir, results):
                    raise InputError(f"{folder} is a folder: RESULTS are files with times")
                report = judging.judge(
                    results,
                    problems=problems,
                    device=device,
                    baseline=baseline,
                    format_name=format,
                    time_limit_s=study_limit,
                )
        from solkit.report import judging as page

        _base.show_page_or_json(
            json,
            partial(page.render, report, explained=explain or time is not None),
            lambda: page.dumps(report),
        )
        if html is not None:
            from solkit.report.html import judging_page

            text = judging_page(report, written=_outputs.local_time_now())
            _base.write_destination(html, lambda: text, "--html")
    verdicts = {judgement.plausibility for judgement in report.judgements}
    if Plausibility.IMPOSSIBLE in verdicts:
        raise typer.Exit(Exit.IMPOSSIBLE)
    raise typer.Exit(Exit.BAD_INPUT if verdicts <= {Plausibility.NOT_JUDGED} else Exit.REPORTED)


def _refuse(options: dict[str, str | None], why: str = "does not go with --time") -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} {value}: {why}")
