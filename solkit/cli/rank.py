"""``solkit rank``: which candidates deserve GPU time."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _declared, _options, _outputs, _project, exit_codes
from solkit.cli._options import Precision, TimingProtocol

if TYPE_CHECKING:
    from solkit.surrogate.model import Surrogate


_EXPLAINED = 5
"""Candidates whose forecasts are explained in a file; a terminal shows the first one's."""


_Kernels = Annotated[list[str], typer.Argument(metavar="KERNEL...", help="Kernel files.")]
_Top = Annotated[int, typer.Option(min=1, metavar="N", help="How many may be measured.")]
_DepthOption = Annotated[
    _options.FactsDepth, typer.Option("--depth", help="The deepest that a candidate may reach.")
]
_ParamsFile = Annotated[
    Path | None,
    _options.advanced(
        "--params-file",
        metavar="FILE",
        help="Parameters to rank, a JSON object a line, in place of the files' spaces. All of "
        "them reach the depth.",
    ),
]
_Model = Annotated[
    str | None, typer.Option(metavar="FILE", help="A model of `solkit train`. Default: shipped.")
]
_Language = Annotated[
    bool, _options.advanced(help="Whether the model's language regressor counts, if it has one.")
]
_Html = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write an HTML page, with what moves the first forecasts: one file that works "
        "offline.",
    ),
]


def rank(
    kernels: _Kernels,
    device: _options.Device = None,
    reference: _options.Reference = None,
    shape: _options.Shapes = None,
    top: _Top = 10,
    depth: _DepthOption = _options.FactsDepth.LOWERED,
    params_file: _ParamsFile = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    model: _Model = None,
    language: _Language = True,
    json: _options.Json = None,
    html: _Html = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Rank a kernel's configurations, or several kernels, without a GPU.

    Each file's SPACE, or the configurations of its triton.autotune, is captured; the promising are
    lowered to Triton's IR, CUDA C++ compiled; with --depth compiled the best of these are compiled.
    The plan says which to measure, in which order, which to explore, and which to skip.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        kernels = list(map(_base.kernel_file, kernels))
        _base.check_readable(*kernels, reference)
        from solkit.processes import jobs

        jobs.start()  # it loads torch while the rest loads here
        outputs = _outputs.Outputs(json, html)
        outputs.check(*kernels, reference)
        device = _project.device_setting(device, kernels[0])
        shapes = _project.shape_settings(shape, kernels[0])
        for kernel in kernels:
            _declared.check_declared_names(kernel, reference, shapes)
        _project.announce_device(device)
        from solkit import pipeline
        from solkit.core import Configuration
        from solkit.report import ranking
        from solkit.surrogate.ranking import RankSettings

        points = None if params_file is None else _read_points(params_file)
        listed: list[Any] = list(kernels)
        if points is not None:
            listed = [
                Configuration(path, "kernel", params=point) for path in kernels for point in points
            ]
        with _base.showing_work("ranking"):
            plans = pipeline.rank(
                listed,
                reference,
                device,
                budget=top,
                shapes=shapes,
                surrogate=None if model is None and language else _load_surrogate(model, language),
                settings=RankSettings(
                    depth=depth.value,
                    everything=points is not None,
                    precision=precision.value,
                    protocol=protocol.value,
                    explained=1 if json is None and html is None else _EXPLAINED,
                ),
            )
        if json != "-":
            ranking.render(plans, top, _base.rich_console())
        _base.write_destination(json, lambda: ranking.dumps(plans))
        if html is not None:
            from solkit.report.html import ranking_page

            document = ranking.as_json(plans)
            text = ranking_page(document, top, written=_outputs.local_time_now())
            _base.write_destination(html, lambda: text, "--html")


def _load_surrogate(path: str | None, language: bool) -> Surrogate:
    from solkit.surrogate.model import Surrogate

    model = Surrogate.load(path)
    return model if language else model.without_language()


def _read_points(path: Path) -> list[dict[str, Any]]:
    """Read the parameters in a file of JSON lines."""
    from solkit.errors import InputError

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    points = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            point = json_module.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: this is not JSON: {error}") from error
        if not isinstance(point, dict) or not all(
            isinstance(value, (bool, int, float, str)) for value in point.values()
        ):
            raise InputError(
                f"{path}, line {number}: expected an object of numbers, booleans and strings; "
                f"got {line.strip()[:80]}"
            )
        points.append(point)
    if not points:
        raise InputError(f"{path} holds no parameters: write a JSON object a line")
    return points
