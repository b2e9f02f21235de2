"""``solkit diff``: what a compiler, a card, a revision or a parameter changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, _outputs, exit_codes
from solkit.cli.exit_codes import Exit

if TYPE_CHECKING:
    from solkit.core import Diff
    from solkit.pipeline.diff_sides import DiffAxes

EPILOG = (
    "Exit codes: 0 compared; 1 SolKit failed; 2 invalid input, or a file was not compared; "
    "5 with --threshold: something is worse by more than it; 130 interrupted."
)
_THRESHOLD = 0.05

_Kernels = Annotated[
    list[str], typer.Argument(metavar="KERNEL...", help="Kernel files, folders of them, or `zoo`.")
]
_Triton = Annotated[
    list[str] | None,
    typer.Option(
        "--triton",
        metavar="VERSION|FOLDER|PYTHON",
        help="A Triton: this environment's version, a folder of `pip install --target`, a virtual "
        "environment or an interpreter; repeatable, the first is the base.",
    ),
]
_Devices = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME,NAME",
        help="Target GPUs. Two are compared with each other unless something else is compared.",
    ),
]
_Revisions = Annotated[
    list[str] | None,
    typer.Option(
        "--rev",
        metavar="REVISION",
        help="A Git revision of the kernel files, compared with a second one or with the files as "
        "they are.",
    ),
]
_Params = Annotated[
    list[str] | None,
    typer.Option(
        metavar="BLOCK=512,num_warps=4", help="A set of parameters; repeatable, a set each."
    ),
]
_First = Annotated[bool, typer.Option("--first", help="Compare only a file's first shape.")]
_Configs = Annotated[
    int,
    typer.Option(
        "--configs", min=1, metavar="N", help="Configurations of each shape, the own one first."
    ),
]
_Tuned = Annotated[
    list[str] | None,
    typer.Option(
        "--tuned",
        metavar="PLACE",
        help="Compare tuned configurations: of a tuning database, or of vLLM's, SGLang's and other "
        "tools' files; repeatable.",
    ),
]
_Map = Annotated[
    list[str] | None,
    _options.advanced(
        "--map", metavar="NAME=OWN", help="A name in --tuned, and the kernel's own; repeatable."
    ),
]
_Threshold = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="SHARE",
        help="Exit with 5 if a figure is worse by more than this share (0.1 for 10 %). "
        f"Default: {_THRESHOLD:g} for the page, and no such exit.",
    ),
]
_Top = Annotated[int, typer.Option(min=1, metavar="N", help="Candidates to show.")]
_Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write an HTML page that works offline.")
]
_Forecast = Annotated[
    bool, _options.advanced("--forecast/--no-forecast", help="Let the surrogate forecast.")
]


def diff(
    kernels: _Kernels,
    triton: _Triton = None,
    device: _Devices = None,
    rev: _Revisions = None,
    params: _Params = None,
    reference: _options.Reference = None,
    shape: _options.Shapes = None,
    first: _First = False,
    configs: _Configs = 1,
    tuned: _Tuned = None,
    names: _Map = None,
    threshold: _Threshold = None,
    top: _Top = 20,
    forecast: _Forecast = True,
    study_limit: _options.StudyLimit = 180.0,
    json: _options.Json = None,
    html: _Html = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Show what another Triton, GPU, revision or parameter changes, without a GPU.

    Registers, spills, shared memory, pipelines, warp roles, vector widths, sectors, instructions,
    modelled time and forecast of each kernel, the worst first.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(*(name for name in kernels if name != "zoo"), reference)
        outputs = _outputs.Outputs(json, html)
        outputs.check(*kernels, reference)
        from solkit.pipeline.diff_sides import DiffAxes
        from solkit.pipeline.diffing import DiffSettings
        from solkit.pipeline.diffing import diff as compare_sides
        from solkit.report import side_diff as page

        axes = _axes(DiffAxes, triton, device, rev, params)
        settings = DiffSettings(
            shapes=_options.parse_shapes(shape),
            first=first,
            configurations=configs,
            tuned=tuned or (),
            names=_parse_names(names),
            forecasts=forecast,
            limit_s=study_limit,
        )
        with _base.stdout_kept_for_the_report(), _base.showing_work("comparing"):
            diffs = compare_sides(_files(kernels), axes, reference, settings)
        share = _THRESHOLD if threshold is None else threshold
        if json != "-":
            page.render(diffs, share, top, _base.rich_console())
        _base.write_destination(json, lambda: page.dumps(diffs, share))
        if html is not None:
            from solkit.report.html import side_diff_page

            document = page.as_json(diffs, share)
            text = side_diff_page(document, top, written=_outputs.local_time_now())
            _base.write_destination(html, lambda: text, "--html")
    raise typer.Exit(_exit_code(diffs, threshold))


def _axes(
    form: type[DiffAxes],
    triton: list[str] | None,
    device: str | None,
    rev: list[str] | None,
    params: list[str] | None,
) -> DiffAxes:
    sets = [_options.parse_settings(text, "--params") for text in params or ()]
    devices = [name.strip() for name in (device or "").split(",") if name.strip()]
    return form(tuple(triton or ()), tuple(rev or ()), tuple(sets), tuple(devices))


def _parse_names(pairs: list[str] | None) -> dict[str, str]:
    from solkit.errors import InputError

    names = {}
    for pair in pairs or ():
        name, equals, own = pair.partition("=")
        if not (name and equals and own):
            raise InputError(f"--map: {pair!r} is not NAME=OWN, as in M=num_tokens")
        names[name] = own
    return names


def _files(names: list[str]) -> list[str]:
    """Return the kernel files that are named, those of folders and of the zoo too."""
    from solkit.datasets.kernels import select_kernels

    files: list[Any] = []
    for name in names:
        if name == "zoo" or (Path(name).is_dir() and not any(Path(name).glob("*.json"))):
            files += [str(kernel.path) for kernel in select_kernels([name])]
        else:
            files.append(name)
    return list(dict.fromkeys(files))


def _exit_code(diffs: list[Diff], threshold: float | None) -> Exit:
    codes = [Exit.BAD_INPUT for diff in diffs if diff.failed]
    if threshold is not None:
        codes += [Exit.UNDER_THRESHOLD for diff in diffs if diff.exceeding(threshold)]
    return exit_codes.gravest_exit_code([Exit.REPORTED, *codes])
