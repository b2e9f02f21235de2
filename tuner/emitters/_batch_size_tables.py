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
    looked_up,
    shape_text,
    source_of,
)
from solkit.tuner.tuning_results import TuningResult

__all__ = [
    "ALIASES",
    "Table",
    "batch_size_files",
    "block_shape",
    "device_word",
    "dtype_word",
    "nearest_batch_size",
    "needed_batch_sizes",
    "serves_batch_size",
    "size_text",
]


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


def _format_config(form: str, finding: TuningResult, request: Request) -> dict[str, int]:
    """Return the configuration under the format's names."""
    config = {name: _integer_size(form, finding, name, request) for name in _tuned_files.PARAMS}
    used = {source_of(finding, name, request, ALIASES.get(name, ())) for name in config}
    unused = [n for n in chosen_of(finding).params if n not in used and n not in request.drop]
    if unused:
        raise InputError(
            f"{form} has no place for {', '.join(unused)} of {finding.kernel}: its kernel takes "
            f"{', '.join(_tuned_files.PARAMS)}; leave out what it does not need "
            f"(--drop {unused[0]})"
        )
    return config


def _integer_size(form: str, finding: TuningResult, name: str, request: Request) -> int:
    value = looked_up(form, finding, name, request, ALIASES.get(name, ()))
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"{form}: {name} is {value!r} at {shape_text(finding)}; expected an integer"
        )
    return value


def _table_text(table: Table, configs: Mapping[int, Mapping[str, int]], version: Value) -> str:
    head: dict[str, object] = {}
    if table.version and version is not None:
        head["triton_version"] = version
    return json.dumps({**head, **{str(size): c for size, c in configs.items()}}, indent=4) + "\n"


def _table_notes(
    table: Table,
    older: Sequence[TuningResult],
    sizes: Mapping[int, TuningResult],
    kept: Sequence[int],
    configs: Mapping[int, Mapping[str, int]],
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
    wide = [m for m, c in configs.items() if blocks and int(blocks[1]) % c["BLOCK_SIZE_K"]]
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
    if isinstance(value, str) and re.fullmatch(r"\w+_w\d+a\d+\w*", value):
        return value
    valid = ", ".join((*_DTYPES, "or a word such as fp8_w8a8"))
    raise InputError(f"{form}: no file is named after dtype {value!r}; expected {valid}")


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
