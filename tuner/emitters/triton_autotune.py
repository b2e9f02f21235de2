"""A list of configurations for ``triton.autotune``, as a Python file to import.

::

    from configs import CONFIGS, KEY

    @triton.autotune(configs=CONFIGS, key=KEY)
    @triton.jit
    def kernel(...): ...

Each configuration stands once, the shapes for which it was chosen beside it. ``KEY`` names the
sizes that differ among these shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from solkit.core import Value, canonical
from solkit.datasets.formats.triton_autotune import OPTIONS
from solkit.errors import InputError
from solkit.tuner.emitters._base import (
    Emitter,
    File,
    Files,
    Request,
    chosen_of,
    gpu_driver_name,
    shape_text,
)
from solkit.tuner.tuning_results import TuningResult


def _autotune_files(findings: Sequence[TuningResult], request: Request) -> Files:
    listed: dict[str, tuple[dict[str, Value], list[TuningResult]]] = {}
    for finding in findings:
        params = _rename_params(finding, request)
        listed.setdefault(canonical(params), (params, []))[1].append(finding)
    lines = [line for params, chosen in listed.values() for line in _config_lines(params, chosen)]
    text = "\n".join(
        [
            f'"""Configurations of {_quotable_text(findings[0].kernel)} that SolKit tuned."""',
            "",
            "import triton",
            "",
            "CONFIGS = [",
            *lines,
            "]",
            "",
            f"KEY = {_varying_sizes(findings)!r}",
            "",
        ]
    )
    return Files((File("", text),))


def _rename_params(finding: TuningResult, request: Request) -> dict[str, Value]:
    """Return the parameters under the names of the user's `--map NAME=KERNEL'S`."""
    params = chosen_of(finding).params
    for name, source in request.names.items():
        if source not in params:
            raise InputError(
                f"{AUTOTUNE.name}: {finding.kernel} has no parameter {source!r}, which --map "
                f"{name}={source} names; it has: {', '.join(params)}"
            )
    named = {source: name for name, source in request.names.items()}
    kept = {named.get(n, n): value for n, value in params.items() if n not in request.drop}
    return {**kept, **request.constants}


def _config_lines(params: dict[str, Value], chosen: Sequence[TuningResult]) -> list[str]:
    constants = {name: value for name, value in params.items() if name not in OPTIONS}
    options = [f"{name}={params[name]!r}" for name in OPTIONS if params.get(name) is not None]
    return [
        *(f"    # {_quotable_text(_describe_result(finding))}" for finding in chosen),
        f"    triton.Config({', '.join([repr(constants), *options])}),",
    ]


def _describe_result(finding: TuningResult) -> str:
    time_ms = chosen_of(finding).time_ms
    timed = "" if time_ms is None else f": {time_ms:.6g} ms"
    return f"{shape_text(finding)} on {gpu_driver_name(finding)}{timed}"


def _quotable_text(text: str) -> str:
    """Return text that ends neither a comment nor a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


def _varying_sizes(findings: Sequence[TuningResult]) -> list[str]:
    """Return the sizes that differ; all numbers if there is one shape."""
    shapes = [finding.shape for finding in findings]
    sizes = [
        name
        for name, value in shapes[0].items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    differing = [n for n in sizes if len({canonical([shape.get(n)]) for shape in shapes}) > 1]
    return differing or sizes


AUTOTUNE = Emitter(
    "triton-autotune",
    "a list of triton.Config: a Python file with CONFIGS and KEY",
    _autotune_files,
)
