"""Tuned parameters in the forms that others read: one module per project, chosen by name.

Each is written as its reader looks it up, and a test loads each back by that reader's rule.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Tuned, Value
from solkit.errors import InputError
from solkit.tuner.emitters import best_config, flashinfer_bench, sglang, triton_autotune, vllm
from solkit.tuner.emitters._base import Emitter, File, Request
from solkit.tuner.emitters._batch_size_tables import ALIASES
from solkit.tuner.emitters.logged_results import logged_rows
from solkit.tuner.tuning_results import TuningResult, agreed_results, finding_of
from solkit.userdata import write_atomically

__all__ = [
    "ALIASES",
    "EMITTERS",
    "Emitted",
    "Emitter",
    "Target",
    "emit",
    "emitter_named",
    "parse_target",
]

EMITTERS: dict[str, Emitter] = {
    form.name: form
    for form in (
        vllm.MOE,
        vllm.FP8,
        sglang.MOE,
        sglang.FP8,
        triton_autotune.AUTOTUNE,
        best_config.BEST_CONFIG,
        flashinfer_bench.TRACES,
    )
}
"""Every form, by name."""


@dataclass(frozen=True)
class Emitted:
    """Files that were written, and notes on them.

    Attributes:
        paths: the files.
        notes: what the user should know, a sentence each: runs that disagree, what is left out.
    """

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """A form and where to write it: ``--emit FORMAT:PATH``."""

    form: str
    path: str


def emitter_named(form: str) -> Emitter:
    """Return a form by its name; ``_`` may stand for ``-``.

    Raises:
        InputError: there is no such form.
    """
    match = EMITTERS.get(form.replace("_", "-"))
    if match is None:
        raise InputError(f"unknown format {form!r}; choose one of: {', '.join(EMITTERS)}")
    return match


def parse_target(text: str) -> Target:
    """Read ``FORMAT:PATH``.

    Raises:
        InputError: it has another form, or names an unknown format.
    """
    form, colon, path = text.partition(":")
    if not (form and colon and path):
        names = ", ".join(EMITTERS)
        raise InputError(
            f"{text!r} is not FORMAT:PATH, as in best-config:best.json; formats: {names}"
        )
    return Target(emitter_named(form).name, path)


def emit(
    results: Iterable[TuningResult | Tuned],
    form: str,
    out: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    constants: Mapping[str, Value] | None = None,
    drop: Collection[str] = (),
    thin: bool = True,
) -> Emitted:
    """Write tuned parameters in a form that others read.

    Where a kernel was tuned several times at one shape on one GPU, one finding is taken
    (`solkit.tuner.tuning_results.agreed`) and `Emitted.notes` tells the others.

    Args:
        results: findings of a database, or results of `solkit.tune`.
        form: one of `EMITTERS`.
        out: a file, or a folder for the files of vLLM and SGLang, whose names their readers expect;
            ``*.json`` there names the only file, and its reader has to be told. An existing file is
            replaced completely or not at all.
        names: by the format's name, the kernel's name of a size or parameter.
        constants: by the format's name, a value that the kernel does not have.
        drop: parameters that are left out, as the format has no place for them.
        thin: leave out batch sizes that a neighbour serves as well (vLLM and SGLang).

    Raises:
        InputError: nothing was found, it is several kernels', a size or parameter is missing, or a
            file cannot be written. No file is written then, or not all.
    """
    chosen, form_of = (
        emitter_named(form),
        Request(names or {}, constants or {}, frozenset(drop), thin),
    )
    held, notes = agreed_results(_collect_results(results))
    if not held:
        raise InputError(f"{chosen.name}: there are no parameters to write")
    kernels = {finding.key.kernel_id: finding.kernel for finding in held}
    if chosen.one_kernel and len(kernels) > 1:
        is_distinct = len(set(kernels.values())) == len(kernels)
        listed = ", ".join(n if is_distinct else f"{n} ({which})" for which, n in kernels.items())
        raise InputError(
            f"{chosen.name} holds one kernel, and there are {len(kernels)}: {listed}; choose one "
            "(solkit emit RESULT --kernel NAME)"
        )
    rendered = chosen.files(held, form_of)
    paths = [
        (_destination_of(Path(out), file, rendered.files), file.text) for file in rendered.files
    ]
    for path, text in paths:
        _write_in_place(path, text)
    notes = (*notes, *rendered.notes, *_renaming_note(Path(out), rendered.files))
    return Emitted(tuple(path for path, _ in paths), notes)


def _collect_results(results: Iterable[TuningResult | Tuned]) -> Iterable[TuningResult]:
    for result in results:
        yield (
            result if isinstance(result, TuningResult) else finding_of(result, logged_rows(result))
        )


def _destination_of(out: Path, file: File, files: Sequence[File]) -> Path:
    """Return the path of a file: in `out`, or `out` itself."""
    if not file.path:
        if out.is_dir():
            raise InputError(f"{out} is a folder; name a file")
        return out
    if out.suffix != ".json" or out.is_dir():
        return out / file.path
    if len(files) > 1:
        listed = ", ".join(file.path for file in files)
        raise InputError(f"{out} is one file, and {len(files)} are needed: {listed}; name a folder")
    return out


def _renaming_note(out: Path, files: Sequence[File]) -> list[str]:
    """Return a sentence if a file has another name than its reader looks for."""
    name = Path(files[0].path).name
    is_other = name and out.is_file() and out.name != name
    return [f"{out}: its reader looks for the name {name}"] if is_other else []


def _write_in_place(path: Path, text: str) -> None:
    """Write a draft beside the file, then move it into place."""
    from solkit.datasets import outcomelog

    if path.is_file() and outcomelog.is_outcome_log(path):
        raise InputError(f"{path} is a log, whose measurements are never overwritten")
    try:
        write_atomically(path, text.encode(), durably=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
