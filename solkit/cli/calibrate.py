"""``solkit calibrate``: what the GPU at hand can do at most, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solkit.cli import _base, _options
from solkit.errors import InputError

__all__ = ["calibrate"]

_Index = Annotated[
    int, typer.Option("--device", min=0, metavar="INDEX", help="Which GPU, as CUDA counts.")
]
_Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Keep it there instead of in your data folder."),
]
_Quick = Annotated[bool, typer.Option("--quick", help="Fewer sizes and samples: 30 s.")]


def calibrate(
    device: _Index = 0,
    out: _Out = None,
    quick: _Quick = False,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Measure what a GPU of this machine can do at most; `solkit score` and `bound` use it.

    It takes up to 90 s, in which nothing else should run on that GPU.
    """
    with _base.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        path = None if out is None else Path(out)
        if path is not None and path.exists():
            raise InputError(f"--out: {out} exists: a calibration is never overwritten")
        with _base.stdout_kept_for_the_report():
            from solkit import calibrate as measuring
            from solkit.roofline import calibration
            from solkit.roofline.nvml import live_device

            gpu = live_device(device)
            found = measuring.calibrate(gpu, quick=quick)
            kept = calibration.save(found, path)
        from solkit.report import calibration as page

        if json != "-":
            page.render(found, gpu, _base.console())
        _base.complain(f"kept in {kept}")
        _base.write(json, lambda: found.model_dump_json(by_alias=True, indent=2))
