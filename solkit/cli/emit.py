"""``solkit emit``: tuned parameters in the forms that others read."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Value
    from solkit.tuner.tuning_results import TuningResult

EPILOG = (
    "Formats: vllm-moe, vllm-fp8, sglang-moe, sglang-fp8 (folders), triton-autotune (Python), "
    "best-config (JSON), flashinfer-bench (JSON Lines): docs/tuning.md."
)

_Result = Annotated[
    str,
    typer.Argument(
        metavar="RESULT",
        help="JSON of `solkit tune`, a log, a tuning database, a tuned folder, or a file that "
        "`solkit data import` reads.",
    ),
]
_Format = Annotated[str, typer.Option("--format", metavar="NAME", help="As listed below.")]
_Out = Annotated[str, typer.Option(metavar="PATH", help="A file; a folder for vllm and sglang.")]
_Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="M=num_tokens", help="The kernel's name of what the format calls M."
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="dtype=fp8_w8a8", help="A value that the kernel's shape does not have."
    ),
]
_Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Leave out a parameter for which the format has no place."),
]
_Kernel = Annotated[
    str | None, typer.Option(metavar="NAME|ID", help="Only this kernel, by its name or its id.")
]
_Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=_options.device_names,
        help="Only results of this GPU; also names it if the file does not.",
    ),
]
_AllSizes = Annotated[
    bool,
    typer.Option("--all-sizes", help="Write also batch sizes that a neighbour serves as well."),
]


def emit(
    result: _Result,
    form: _Format,
    out: _Out,
    names: _Map = None,
    constants: _Set = None,
    drop: _Drop = None,
    kernel: _Kernel = None,
    shape: _options.Shapes = None,
    device: _Device = None,
    all_sizes: _AllSizes = False,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Write tuned parameters as files of vLLM, SGLang, Triton, FlashInfer-Bench or SolKit.

    Without a confirmed win a file holds what was in use before. If several runs tuned the same, the
    fastest confirmed choice is taken, and the others are told.
    """
    with exit_codes.failures_as_exit_codes(verbose, "tune"):
        _base.check_readable(None if "://" in result else result)
        _base.check_writable(json)
        from solkit.roofline.devices import catalogue_key
        from solkit.tuner import emitters
        from solkit.tuner.emitters import logged_results

        chosen = emitters.emitter_named(form)
        labels = None if device is None else catalogue_key(device)
        findings = _select_findings(
            logged_results.read_results(result, labels, kernel, _base.print_complaint),
            *(kernel, shape, labels),
        )
        written = emitters.emit(
            findings,
            chosen.name,
            out,
            names=dict(_options.parse_pair("--map", pair) for pair in names or ()),
            constants={
                name: _parse_param_value(text) for name, text in _parse_pairs("--set", constants)
            },
            drop=drop or (),
            thin=not all_sizes,
        )
        for note in written.notes:
            _base.print_complaint(note)
        if json != "-":
            for path in written.paths:
                _base.rich_console().print(f"wrote {path}", soft_wrap=True)
        report = {
            "schema": "solkit.emit/1",
            "format": chosen.name,
            "files": [str(path) for path in written.paths],
            "notes": list(written.notes),
        }
        _base.write_destination(json, lambda: jsonlib.dumps(report, indent=2))


def _select_findings(
    findings: Sequence[TuningResult],
    kernel: str | None,
    shape: list[str] | None,
    device: str | None,
) -> list[TuningResult]:
    """Return the findings that the options name.

    Raises:
        InputError: there are none; names what there is.
    """
    from solkit.roofline.devices import catalogue_key

    shapes = _options.parse_shapes(shape)
    kept = [
        finding
        for finding in findings
        if kernel in (None, finding.kernel, finding.key.kernel_id, Path(finding.kernel).name)
        and device in (None, finding.key.device, catalogue_key(finding.key.device))
        and (shapes is None or any(s.items() <= finding.shape.items() for s in shapes))
    ]
    if findings and not kept:
        there = sorted(f"{e.kernel}: {e.key.problem_id} on {e.key.device}" for e in findings)
        shown = "; ".join(there[:8]) + (f"; and {len(there) - 8} more" if len(there) > 8 else "")
        raise InputError(f"no result is of that kernel, shape and GPU; there are: {shown}")
    return kept


def _parse_pairs(option: str, texts: Sequence[str] | None) -> list[tuple[str, str]]:
    return [_options.parse_pair(option, text) for text in texts or ()]


def _parse_param_value(text: str) -> Value:
    """Read a value as `--params` has them; ``[128,128]`` stays a word."""
    return text if "," in text else _options.parse_settings(f"value={text}", "--set")["value"]
