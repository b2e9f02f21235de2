"""``solkit inductor``: what `torch.compile` would run, as a kernel file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solkit.cli import _base, _options, _project, exit_codes
from solkit.errors import InputError

_Reference = Annotated[
    str,
    typer.Argument(
        metavar="REFERENCE",
        help="The file with `reference` and `inputs`, or KernelBench's `Model`.",
    ),
]
_Out = Annotated[
    str | None, typer.Option(metavar="FILE", help="The kernel file to write; default: stdout.")
]


def inductor(
    reference: _Reference,
    device: _options.Device = None,
    shape: _options.Shape = None,
    out: _Out = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Write the Triton kernels that torch.compile would run as a kernel file, without a GPU.

    The file holds Inductor's kernels for one shape, with their parameters, and a function that
    launches them between PyTorch's own operators. `solkit score`, `tune` and `evolve` take it with
    --reference REFERENCE.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(reference)
        if out is not None and Path(out).exists():
            raise InputError(f"--out: {out} exists, and no Python file is ever overwritten")
        from solkit.pipeline.compiling import first_parent

        device = _project.device_setting(device, reference)
        _project.announce_device(device)
        sizes = _project.one_shape_setting(shape, reference)
        with _base.stdout_kept_for_the_report(), _base.showing_work("compiling"):
            parent = first_parent(reference, device, sizes)
        for note in parent.notes:
            _base.print_complaint(note)
        text = parent.text.removesuffix("\n")
        _base.write_destination(out or "-", lambda: text, "--out")
