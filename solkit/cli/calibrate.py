"""``solkit calibrate``: the highest rates that a GPU really reaches."""

from __future__ import annotations

import json as jsonlib
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from solkit.cli import _base, _options, exit_codes

_On = Annotated[str, typer.Option("--on", metavar="cuda:N", help="GPU of this machine to measure.")]
_Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the calibration to FILE. Default: your data folder."),
]
_Quick = Annotated[bool, typer.Option("--quick", help="Measure fewer sizes and samples: 30 s.")]


def calibrate(
    on: _On = "cuda:0",
    out: _Out = None,
    quick: _Quick = False,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Measure the highest rates that a GPU of this machine reaches; score and bound use them.

    Takes up to 90 s. Nothing else should run on that GPU meanwhile.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        path = None if out is None else Path(out)
        with _base.stdout_kept_for_the_report(), _base.showing_work("calibrating"):
            from solkit import calibrate as measuring
            from solkit.core import MeasureSettings
            from solkit.roofline import calibration
            from solkit.roofline.nvml import live_device

            calibration.check_room(path)
            gpu = live_device(MeasureSettings(on=on).gpu_index)
            result = measuring.calibrate(gpu, quick=quick)
            kept = calibration.save(result, path)
        from solkit.core.codec import to_json
        from solkit.report import calibration as page

        _base.print_complaint(f"saved to {kept}")
        dumps = partial(jsonlib.dumps, to_json(result, complete=True), indent=2)
        _base.show_page_or_json(json, partial(page.render, result, gpu), dumps)
