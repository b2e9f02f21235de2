"""Files of the best configuration by batch size, as vLLM and SGLang read them.

vLLM and SGLang look a configuration up by the batch size M that is nearest to the one at hand; of
two that are equally near they take the one that the file has first, which is the smaller here. So
leaving out an M moves its lookups to a neighbour, usually the smaller one.

An M is left out only if every tuned M is still served by its own configuration, or by one that was
measured at that M and took no longer within the noise. The smallest and the largest M stay: they
serve all batches beyond them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from solkit.core import Value, canonical
from solkit.datasets.formats import _tuned_files
from solkit.errors import InputError
from solkit.measure.timing.comparison_statistics import LIKENESS
from solkit.tuner.emitters._base import (
    File,
    Files,
    Request,
    chosen_of,
    gpu_driver_name,
    looked_up,
    shape_text,
    source_of,
)
from solkit.tuner.tuning_results import TuningResult


def nearest_batch_size(size: int, sizes: Sequence[int]) -> int:
    """Return the batch size that a lookup finds; `sizes` in the file's order."""
    return min(sizes, key=lambda other: abs(other - size))


def serves_batch_size(other: TuningResult, finding: TuningResult) -> bool:
    """Tell whether another batch size's parameters are as good at this one, as far as known."""
    own, offered = (canonical(chosen_of(item).params) for item in (finding, other))
    best, taken = (finding.times.get(params) for params in (own, offered))
    if best is None or best.time_ms is None or taken is None or taken.time_ms is None:
        return False
    noise_ms = best.time_ms * (1 + LIKENESS)
    return taken.time_ms <= max(best.high_ms or 0.0, noise_ms)


def needed_batch_sizes(tuned: Mapping[int, TuningResult]) -> list[int]:
    """Return the batch sizes to write, ascending.

    Args:
        tuned: what was found for each.
    """
    sizes = sorted(tuned)
    for size in sizes[1:-1]:
        fewer = [other for other in sizes if other != size]
        if _serve_all(fewer, tuned):
            sizes = fewer
    return sizes


def _serve_all(sizes: Sequence[int], tuned: Mapping[int, TuningResult]) -> bool:
    served = ((size, nearest_batch_size(size, sizes)) for size in tuned)
    return all(size == by or serves_batch_size(tuned[by], tuned[size]) for size, by in served)


ALIASES = {
    "M": ("num_tokens", "tokens", "T", "batch_size", "batch", "B"),
    "E": ("num_experts", "experts", "n_experts"),
    "N": ("intermediate_size", "intermediate", "I"),
    "K": ("hidden_size", "hidden", "H"),
    "BLOCK_SIZE_M": ("BLOCK_M", "BM", "block_m", "block_size_m"),
    "BLOCK_SIZE_N": ("BLOCK_N", "BN", "block_n", "block_size_n"),
    "BLOCK_SIZE_K": ("BLOCK_K", "BK", "block_k", "block_size_k"),
    "GROUP_SIZE_M": ("GROUP_M", "GROUP", "group_m", "group_size_m"),
}
"""Names that kernels have for sizes and parameters, by the format's."""

_BLOCK = (128, 128)
"""Weights that share a scale, if nothing says so."""

_OPTIONS = {
    "nvidia": ("num_ctas", "maxnreg"),
    "amd": ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint"),
    "intel": ("grf_mode", "one_matrix_per_load_for_bt"),
}
"""Options of Triton's compilers by vendor, which each kernel takes beside its own parameters.
Source: ``CUDAOptions``, ``HIPOptions`` and ``XPUOptions`` of Triton's backends."""

_SETTINGS = ("E", "N", "K", "M", "dtype", "block_shape", "per_channel_quant", "projection")
"""What emitters write into a file's name themselves, and the batch size."""

_WORD = re.compile(r"\w+_w\d+a\d+\w*")

_DTYPES: Mapping[str, str | None] = {
    "bfloat16": None,
    "float16": None,
    "float32": "float32",
    "float8_e4m3fn": "fp8_w8a8",
    "int8": "int8_w8a8",
}
"""Names of a kernel's dtype in a file's name, in both formats; 16-bit floats are not named."""


@dataclass(frozen=True)
class Table:
    """One file.

    Attributes:
        path: in the destination.
        version: whether it begins with ``triton_version``.
    """

    path: str
    version: bool = False


def batch_size_files(
    form: str,
    findings: Sequence[TuningResult],
    request: Request,
    place: Callable[[TuningResult], Table],
) -> Files:
    """Return the files of some findings: one for all of a name, a configuration per batch size.

    Args:
        form: the format, for messages.
        findings: what to write.
        request: how names belong together.
        place: which file a finding belongs to.

    Raises:
        InputError: a size or parameter is missing or not a number, there is no place for a
            parameter, or two shapes have the same batch size in one file.
    """
    held: dict[Table, list[TuningResult]] = {}
    for finding in findings:
        held.setdefault(place(finding), []).append(finding)
    files, notes = [], []
    for table, among in held.items():
        newest, older = _one_version(among)
        sizes = _results_by_size(form, newest, table, request)
        kept = needed_batch_sizes(sizes) if request.thin else sorted(sizes)
        configs = {size: _format_config(form, sizes[size], request) for size in kept}
        version = request.constants.get("triton_version", newest[0].key.triton_version)
        files.append(File(table.path, _table_text(table, configs, version)))
        notes += _table_notes(table, older, sizes, kept, configs)
    return Files(tuple(files), tuple(notes))


def _one_version(findings: Sequence[TuningResult]) -> tuple[list[TuningResult], list[TuningResult]]:
    """Split off findings of the newest version of Triton, as a file holds for one, from others."""
    last = max(findings, key=lambda finding: finding.ended).key.triton_version
    return (
        [finding for finding in findings if finding.key.triton_version == last],
        [finding for finding in findings if finding.key.triton_version != last],
    )


def _results_by_size(
    form: str, findings: Sequence[TuningResult], table: Table, request: Request
) -> dict[int, TuningResult]:
    sizes: dict[int, TuningResult] = {}
    for finding in findings:
        size = _integer_size(form, finding, "M", request)
        if size in sizes:
            raise InputError(
                f"{form}: two shapes are M={size} in {table.path}: {shape_text(sizes[size])} and "
                f"{shape_text(finding)}; choose one with --shape"
            )
        sizes[size] = finding
    return sizes


def _format_config(form: str, finding: TuningResult, request: Request) -> dict[str, Value]:
    """Return the configuration under the format's names.

    A project's own choice keeps what its file has, and lacks what that lacks: its kernels differ.
    """
    is_own = is_own_choice(form, finding)
    sources = {
        name: source_of(finding, name, request, ALIASES.get(name, ()))
        for name in _tuned_files.PARAMS
    }
    names = [n for n, source in sources.items() if source or n in request.constants or not is_own]
    config: dict[str, Value] = {n: _integer_size(form, finding, n, request) for n in names}
    others = {
        name: value
        for name, value in chosen_of(finding).params.items()
        if name not in sources.values() and name not in request.drop
    }
    unused = [name for name in others if not _is_taken(name, is_own, finding, request)]
    if unused:
        raise InputError(
            f"{form} has no place for {', '.join(unused)} of {finding.kernel}: its kernel takes "
            f"{', '.join(_tuned_files.PARAMS)}; leave out what it does not need "
            f"({' '.join(f'--drop {name}' for name in unused)})"
        )
    return {**config, **others}


def _is_taken(name: str, is_own: bool, finding: TuningResult, request: Request) -> bool:
    """Tell whether a format's kernels take a further parameter on the GPU that the file is for."""
    vendors = [vendor for vendor, options in _OPTIONS.items() if name in options]
    return _vendor(device_name(finding, request)) in vendors if vendors else is_own


def _vendor(device: str) -> str:
    match = re.match(r"(?P<amd>AMD|MI\d)|(?P<intel>Intel)", device, re.IGNORECASE)
    return "nvidia" if match is None or match.lastgroup is None else match.lastgroup


def is_own_choice(form: str, finding: TuningResult) -> bool:
    """Tell whether a finding is a choice in a file of the project that the format is for."""
    row = finding.row
    return row is not None and row.chosen_by == "tuned" and form.startswith(f"{row.origin}-")


def other_settings(form: str, finding: TuningResult) -> dict[str, str]:
    """Return what else the name of a project's own file says, as ``out_dtype=bfloat16``."""
    if not is_own_choice(form, finding):
        return {}
    return {name: str(value) for name, value in finding.shape.items() if name not in _SETTINGS}


def device_name(finding: TuningResult, request: Request) -> str:
    """Return the GPU that a file is for, as its driver calls it."""
    return str(request.constants.get("device_name", gpu_driver_name(finding)))


def _integer_size(form: str, finding: TuningResult, name: str, request: Request) -> int:
    value = looked_up(form, finding, name, request, ALIASES.get(name, ()))
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"{form}: {name} is {value!r} at {shape_text(finding)}; expected an integer"
        )
    return value


def _table_text(table: Table, configs: Mapping[int, Mapping[str, Value]], version: Value) -> str:
    head: dict[str, object] = {}
    if table.version and version is not None:
        head["triton_version"] = version
    return json.dumps({**head, **{str(size): c for size, c in configs.items()}}, indent=4) + "\n"


def _table_notes(
    table: Table,
    older: Sequence[TuningResult],
    sizes: Mapping[int, TuningResult],
    kept: Sequence[int],
    configs: Mapping[int, Mapping[str, Value]],
) -> list[str]:
    notes = []
    if older:
        versions = sorted({str(finding.key.triton_version) for finding in older})
        notes.append(
            f"{table.path}: results of Triton {', '.join(versions)} are left out ({len(older)})"
        )
    served = [str(size) for size in sorted(sizes) if size not in kept]
    if served:
        notes.append(
            f"{table.path}: M of {', '.join(served)} is left out, as the nearest other M serves it "
            "as well"
        )
    blocks = re.search(r"block_shape=\[\d+, ?(\d+)\]", table.path)
    step = int(blocks[1]) if blocks else 0
    wide = [m for m, c in configs.items() if step % int(c.get("BLOCK_SIZE_K") or 1)]
    if wide:
        notes.append(
            f"{table.path}: at M of {', '.join(map(str, wide))} a step of BLOCK_SIZE_K spans "
            "several scales of block_shape, while the kernels of vLLM and SGLang read one for "
            "each step: check their results"
        )
    return notes


def size_text(form: str, finding: TuningResult, name: str, request: Request) -> str:
    """Return a size in a file's name."""
    return str(_integer_size(form, finding, name, request))


def device_word(name: str) -> str:
    """Return a GPU's name in a file's name."""
    return name.replace(" ", "_")


def dtype_word(form: str, finding: TuningResult, request: Request) -> str | None:
    """Return what a file's name says of the dtype; ``None`` for 16-bit floats, which are not named.

    Raises:
        InputError: the dtype has no word there.
    """
    value = request.constants.get("dtype")
    if value is None:
        value = finding.shape.get(request.names.get("dtype", "dtype"))
    if value is None or value in _DTYPES:
        return None if value is None else _DTYPES[str(value)]
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    valid = ", ".join((*_DTYPES, "or a word such as fp8_w8a8"))
    raise InputError(f"{form}: no file is named after dtype {value!r}; expected {valid}")


def product_settings(
    form: str, finding: TuningResult, request: Request, separator: str
) -> dict[str, str]:
    """Return the settings in the name of a file for a quantised product.

    Args:
        form: the format, for messages.
        finding: what to write.
        request: how names belong together.
        separator: between the numbers of a block.
    """
    value = finding.shape.get(request.names.get("dtype", "dtype"))
    word = _DTYPES.get(str(value), value)
    own = str(word) if _WORD.fullmatch(str(word)) else "fp8_w8a8"
    settings = {
        "N": size_text(form, finding, "N", request),
        "K": size_text(form, finding, "K", request),
        "device_name": device_word(device_name(finding, request)),
        "dtype": str(request.constants.get("dtype", own)),
        **other_settings(form, finding),
    }
    blocks = block_shape(finding, request)
    if blocks is None and not is_own_choice(form, finding):
        blocks = _BLOCK
    if blocks:
        settings["block_shape"] = f"[{blocks[0]}{separator}{blocks[1]}]"
    return settings


def block_shape(finding: TuningResult, request: Request) -> tuple[int, int] | None:
    """Return the block of weights that shares a scale; ``None`` if there is none.

    Raises:
        InputError: it is not two integers.
    """
    value: Value = request.constants.get("block_shape")
    if value is None:
        value = finding.shape.get(request.names.get("block_shape", "block_shape"))
    if value is None:
        return None
    numbers = re.fullmatch(r"\s*[\[(]?\s*(\d+)\s*[,x]\s*(\d+)\s*[\])]?\s*", str(value))
    if numbers is None:
        raise InputError(f"block_shape is {value!r}; expected two integers, as in [128,128]")
    return int(numbers[1]), int(numbers[2])
