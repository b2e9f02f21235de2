"""Manifests: which kernels a batch works on, at which shapes, and how often each is called.

A manifest is TOML::

    [limits]
    gpu_minutes = 30

    [[kernels]]
    path = "kernels/rms_norm.py"          # relative to the manifest
    emit = ["best-config:best.json"]      # FORMAT:PATH, as for `solkit emit`
    choices = ["E=8,N=7168,....json"]     # what vLLM or SGLang chose elsewhere, to start from
    held_out = [{ M = 3000, N = 4096 }]   # default: the file's HELD_OUT_SHAPES
    shapes = [                            # default: the file's SHAPES, one call each
      { sizes = { M = 4096, N = 4096 }, calls = 64 },
      { sizes = { M = 1, N = 4096 }, calls = 6400 },
    ]

`solkit profile --manifest` writes one. A profile knows neither files nor the names of sizes, so it
leaves ``path = ""`` and shapes without ``sizes``. These are left out of a batch, by name, until
somebody fills them in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from solkit.core import Profile, ProfiledKernel, ProfiledOp, ProfiledProblem, Value
from solkit.core.toml import tomllib
from solkit.errors import InputError

HeldOut = Literal["nearest", "all"]


@dataclass(frozen=True)
class Workload:
    """One shape of a kernel.

    Attributes:
        sizes: that override the file's defaults; ``None`` while nobody has filled them in.
        calls: how often the kernel is called at it: its weight.
        tensors: the inputs as a profiler recorded them, e.g. ``"bf16[8944, 1024]"``.
        time_ms: of one call, as profiled; ``None`` if unknown.
        params: in use at it, which override the file's defaults.
    """

    sizes: Mapping[str, Value] | None
    calls: float = 1.0
    tensors: tuple[str, ...] = ()
    time_ms: float | None = None
    params: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class ManifestEntry:
    """One kernel of a manifest.

    Attributes:
        path: its file, or a recorded kernel's name or id; empty while unknown.
        name: of the kernel, for people.
        entry_point: the function to call.
        reference: the file with the reference, if `path` lacks one.
        shapes: empty means those of the file.
        held_out: shapes that only check winners; ``None`` means those of the file.
        emit: forms in which winners are written, ``FORMAT:PATH``.
        choices: files with configurations that another tool chose elsewhere, to start from.
        names: by the name of a size or parameter in these files and forms, the kernel's.
        line: where it begins in the manifest; 0 if it comes from elsewhere.
        varied: names of the parameters that may vary, for recordings; ``None`` for all.
    """

    path: str
    name: str = ""
    entry_point: str = "kernel"
    reference: str | None = None
    shapes: tuple[Workload, ...] = ()
    held_out: tuple[Mapping[str, Value], ...] | None = None
    emit: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    varied: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        """Name of the kernel, else of its file."""
        if self.name or not self.path:
            return self.name or "a kernel without a file"
        return Path(self.path).stem if self.path.endswith(".py") else self.path


@dataclass(frozen=True)
class Limits:
    """Limits that end a batch, and how strictly winners are checked.

    Attributes:
        gpu_minutes: the budget; ``None`` if the command gives it.
        stop_at: share of SOL at which a kernel is fast enough.
        measurements: the most for one kernel and shape; ``None`` for no limit.
        held_out: ``"nearest"``: a winner must not be slower at the held-out shapes that are nearest
            to its own; ``"all"``: at none. It must be correct at all of them either way.
    """

    gpu_minutes: float | None = None
    stop_at: float = 0.95
    measurements: int | None = None
    held_out: HeldOut = "nearest"


@dataclass(frozen=True)
class Manifest:
    """Kernels that a batch works on, and its limits.

    Attributes:
        path: the file, for messages.
        kernels: in its order.
        limits: what ends the batch.
        device: the GPU that it is meant for; ``None`` for this machine's.
    """

    path: str
    kernels: tuple[ManifestEntry, ...]
    limits: Limits = field(default_factory=Limits)
    device: str | None = None

    def tunable_kernels(self) -> tuple[ManifestEntry, ...]:
        """Return the kernels that have a file, each with the shapes whose sizes are known.

        Raises:
            InputError: there are none.
        """
        entries = tuple(
            _with_shapes(entry) for entry in self.kernels if entry.path and _has_sizes(entry)
        )
        if not entries:
            left_out = " ".join(self.left_out())
            raise InputError(f"{self.path}: no kernel can be tuned. {left_out}")
        return entries

    def left_out(self) -> Iterator[str]:
        """Yield what a batch cannot work on yet, a sentence each."""
        for entry in self.kernels:
            place = f"{self.path}:{entry.line}" if entry.line else self.path
            unsized = sum(shape.sizes is None for shape in entry.shapes)
            if not entry.path:
                yield (
                    f"{place}: {entry.title} is left out: its path is empty; "
                    + (
                        f"`solkit evolve {entry.reference}` makes a kernel, or name yours."
                        if entry.reference
                        else "name its kernel file."
                    )
                )
            elif unsized:
                yield (
                    f"{place}: {entry.title}: {unsized} of {len(entry.shapes)} shapes are left "
                    "out: they have no sizes."
                )


def _has_sizes(entry: ManifestEntry) -> bool:
    return not entry.shapes or any(shape.sizes is not None for shape in entry.shapes)


def _with_shapes(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, shapes=tuple(e for e in entry.shapes if e.sizes is not None))


# --------------------------------------------------------------------------------------- reading


_Value = Union[bool, int, float, str]
_Sizes = dict[str, _Value]


class _Record(BaseModel):
    """A table of the file; an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Shape(_Record):
    sizes: Union[_Sizes, None] = None
    calls: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    tensors: list[str] = []
    time_ms: Union[float, None] = Field(default=None, gt=0, allow_inf_nan=False)
    params: _Sizes = {}


class _Kernel(_Record):
    path: str
    name: str = ""
    entry_point: str = Field(default="kernel", min_length=1)
    reference: Union[str, None] = None
    shapes: list[_Shape] = []
    held_out: Union[list[_Sizes], None] = None
    emit: list[str] = []
    choices: list[str] = []
    names: dict[str, str] = {}


class _Limits(_Record):
    gpu_minutes: Union[float, None] = Field(default=None, gt=0, allow_inf_nan=False)
    stop_at: float = Field(default=0.95, gt=0, le=1)
    measurements: Union[int, None] = Field(default=None, gt=0)
    held_out: HeldOut = "nearest"


class _File(_Record):
    kernels: list[_Kernel] = Field(min_length=1)
    limits: _Limits = _Limits()
    device: Union[str, None] = None


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest; files in it are relative to its folder.

    Raises:
        InputError: it cannot be read, is not TOML, or does not fit; names the line and the key.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {file}: {why}") from error
    return parse_manifest(text, str(path), file.parent)


def parse_manifest(text: str, path: str = "manifest", folder: Path = Path()) -> Manifest:
    """Return the manifest in a text; see `read_manifest`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_syntax_message(path, str(error))) from error
    places = _line_numbers(text)
    try:
        file = _File.model_validate(document)
    except ValidationError as error:
        first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
        raise InputError(
            _misfit_message(path, first["loc"], first["msg"], document, places)
        ) from error
    kernels = [_parse_entry(kernel, n, folder, places) for n, kernel in enumerate(file.kernels)]
    _check_distinct(kernels, path)
    limits = Limits(**file.limits.model_dump())
    return Manifest(path, tuple(kernels), limits, file.device)


_Place = tuple[Union[str, int], ...]


def _parse_entry(
    kernel: _Kernel, number: int, folder: Path, places: Mapping[_Place, int]
) -> ManifestEntry:
    return ManifestEntry(
        path=_resolve_path(kernel.path, folder),
        name=kernel.name,
        entry_point=kernel.entry_point,
        reference=None if kernel.reference is None else _resolve_path(kernel.reference, folder),
        shapes=tuple(
            Workload(shape.sizes, shape.calls, tuple(shape.tensors), shape.time_ms, shape.params)
            for shape in kernel.shapes
        ),
        held_out=None if kernel.held_out is None else tuple(kernel.held_out),
        emit=tuple(kernel.emit),
        choices=tuple(str(folder / path) for path in kernel.choices),
        names=kernel.names,
        line=_nearest_line(("kernels", number), places),
    )


def _resolve_path(path: str, folder: Path) -> str:
    """Resolve a file beside the manifest; leave other names, which a recording may know."""
    beside = folder / path
    return str(beside) if path and (beside.exists() or path.endswith(".py")) else path


def _check_distinct(kernels: Sequence[ManifestEntry], path: str) -> None:
    """Raise `InputError` if a kernel has one shape twice, or two entries are alike."""
    seen: dict[tuple[str, str, str], int] = {}
    for kernel in kernels:
        for shape in kernel.shapes or (Workload({}),):
            if not kernel.path or shape.sizes is None:
                continue
            sizes = json.dumps(shape.sizes, sort_keys=True)
            key = kernel.path, kernel.entry_point, sizes
            if key in seen:
                raise InputError(
                    f"{path}:{kernel.line}: {kernel.title} at {sizes} is listed twice, first at "
                    f"line {seen[key]}: add up the calls"
                )
            seen[key] = kernel.line


def _syntax_message(path: str, message: str) -> str:
    """Return a parser's message with the line in front."""
    match = re.search(r"\s*\(at line (\d+), column \d+\)", message)
    if match is None:
        return f"{path}: this is not TOML: {message}"
    return f"{path}:{match[1]}: this is not TOML: {message.replace(match[0], '')}"


def _misfit_message(
    path: str,
    place: _Place,
    message: str,
    document: Mapping[str, Any],
    places: Mapping[_Place, int],
) -> str:
    place = _place_in_file(place, document)
    line = _nearest_line(place, places)
    hint = _valid_keys(place, message)
    return f"{path}:{line or 1}: {_spell_place(place)}: {_lower_first_letter(message)}{hint}"


def _place_in_file(place: _Place, value: Any) -> _Place:
    """Return the part of pydantic's place that the file has, without the branches of unions."""
    kept: list[str | int] = []
    for step in place:
        if isinstance(value, Mapping):
            kept.append(step)
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            kept.append(step)
            value = value[step]
    return tuple(kept)


def _valid_keys(place: _Place, message: str) -> str:
    """Return the valid keys, if the message is about an unknown one."""
    if not message.startswith("Extra inputs"):
        return ""
    tables: dict[Any, type[_Record]] = {"limits": _Limits, "kernels": _Kernel, "shapes": _Shape}
    around = next((step for step in place[-2::-1] if isinstance(step, str)), None)
    record = tables.get(around, _File)
    return f"; the keys here are: {', '.join(record.model_fields)}"


def _spell_place(place: _Place) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "the file"


def _lower_first_letter(message: str) -> str:
    return message[:1].lower() + message[1:]


_HEADER = re.compile(r"\s*\[(\[)?\s*([\w.\s-]+?)\s*\]?\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w-]+)(?:\s*\.\s*[\w-]+)*\s*=")


def _line_numbers(text: str) -> dict[_Place, int]:
    """Return line numbers by place, as far as lines begin with a table's header or a key."""
    lines: dict[_Place, int] = {}
    table: _Place = ()
    counts: dict[_Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _header_place(header[2].split("."), bool(header[1]), counts)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1]), number)
    return lines


def _header_place(names: Sequence[str], in_list: bool, counts: dict[_Place, int]) -> _Place:
    """Return the place of a table's header: lists of tables are counted."""
    place: _Place = ()
    for depth, name in enumerate(names):
        place = (*place, name.strip())
        is_last = depth == len(names) - 1
        if is_last and in_list:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _nearest_line(place: _Place, places: Mapping[_Place, int]) -> int:
    """Return the line of a place, or of the nearest that encloses it; 0 if none is known."""
    while place and place not in places:
        place = place[:-1]
    return places.get(place, 0)


# --------------------------------------------------------------------------------------- writing


def write_manifest(manifest: Manifest, notes: Sequence[str] = ()) -> str:
    """Return a manifest as TOML, with `notes` as comments at the top."""
    lines = [f"# {note}" for note in notes]
    if manifest.device is not None:
        lines += ["", f"device = {_format_toml(manifest.device)}"]
    limits = {
        name: value
        for name, value in vars(manifest.limits).items()
        if value != getattr(Limits(), name)
    }
    if limits:
        lines += [
            "",
            "[limits]",
            *(f"{name} = {_format_toml(value)}" for name, value in limits.items()),
        ]
    for entry in manifest.kernels:
        lines += ["", "[[kernels]]", *_entry_lines(entry)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _entry_lines(entry: ManifestEntry) -> Iterator[str]:
    if entry.name:
        yield f"name = {_format_toml(entry.name)}"
    yield f"path = {_format_toml(entry.path)}"
    if entry.entry_point != "kernel":
        yield f"entry_point = {_format_toml(entry.entry_point)}"
    if entry.reference is not None:
        yield f"reference = {_format_toml(entry.reference)}"
    if entry.emit:
        yield f"emit = {_format_toml(list(entry.emit))}"
    if entry.held_out is not None:
        yield f"held_out = {_format_toml(list(entry.held_out))}"
    if entry.shapes:
        yield "shapes = ["
        yield from (f"  {_format_toml(_shape_fields(shape))}," for shape in entry.shapes)
        yield "]"


def _shape_fields(shape: Workload) -> dict[str, Any]:
    values: dict[str, Any] = {"sizes": shape.sizes, "calls": shape.calls, "time_ms": shape.time_ms}
    values["params"] = dict(shape.params) or None
    values["tensors"] = list(shape.tensors) or None
    return {name: value for name, value in values.items() if value is not None}


def _format_toml(value: Any) -> str:
    """Return a value as TOML; JSON's strings are TOML's, but for the character DEL."""
    if isinstance(value, Mapping):
        inside = ", ".join(
            f"{_format_key(name)} = {_format_toml(item)}" for name, item in value.items()
        )
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_toml, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value)) if abs(value) < 1e15 else repr(value)
    return json.dumps(value).replace("\x7f", "\\u007f")


def _format_key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _format_toml(name)


# ------------------------------------------------------------------------------- of a profile

LEAST_SHARE = 0.005
"""The share of the run that an op must be able to save, or a kernel without a bound must take."""

_NOT_KERNELS = ("a copy that leaves the GPU", "communication between GPUs")

_NOTES = (
    "Of each kernel, fill in `path`: a kernel file that SolKit can run (docs/kernel_files.md).",
    "`reference` is what ops of PyTorch compute: `solkit evolve REFERENCE` makes a kernel of it.",
    "Of each shape, fill in `sizes`: the arguments of the file's inputs() that give these tensors.",
    "`calls` and `time_ms` (of one call) are the profile's. What is not filled in is left out.",
)


def profiled_manifest(
    profile: Profile,
    entries_of_kernel: Callable[[ProfiledKernel], Sequence[ManifestEntry]] = lambda _: (),
    references: Mapping[ProfiledProblem, str] | None = None,
) -> str:
    """Return the manifest as TOML: ops by possible saving, then kernels without a bound by time.

    Args:
        profile: of a run.
        entries_of_kernel: gives the entries of a kernel whose files are at hand.
        references: the file of each problem that has one, relative to the manifest.
    """
    of_ops = _entries_of_problems(profile, references or {}) or _entries_of_ops(profile)
    entries = (*of_ops, *_entries_of_kernels(profile, entries_of_kernel))
    notes = [f"Written by `solkit profile` from {profile.path}, on {profile.device.name}.", *_NOTES]
    if not entries:
        notes.append(f"Nothing in it would save {LEAST_SHARE:.1%} of the run.")
    return write_manifest(Manifest("", entries, device=profile.device.key), notes)


def _entries_of_ops(profile: Profile) -> Iterator[ManifestEntry]:
    """Yield an entry for each op, with a shape for each kind of inputs."""
    worth = [op for op in profile.ops if op.saving_ms >= LEAST_SHARE * profile.span_ms]
    for name in dict.fromkeys(op.name for op in worth):
        yield ManifestEntry(
            "", name, shapes=tuple(_profiled_workload(op) for op in worth if op.name == name)
        )


def _entries_of_problems(
    profile: Profile, references: Mapping[ProfiledProblem, str]
) -> list[ManifestEntry]:
    """Return an entry for each problem, with a shape for each kind of inputs."""
    worth = [p for p in profile.problems if p.saving_ms >= LEAST_SHARE * profile.span_ms]
    return [
        ManifestEntry(
            *("", " + ".join(problem.ops)),
            reference=references.get(problem),
            shapes=tuple(
                Workload(
                    {"case": number} if problem in references else None,
                    *(case.calls, case.inputs, _round_time(case.time_ms / case.calls)),
                )
                for number, case in enumerate(problem.cases)
            ),
        )
        for problem in worth
    ]


def _profiled_workload(op: ProfiledOp) -> Workload:
    return Workload(None, op.calls, op.inputs, _round_time(op.time_ms / op.calls))


def _entries_of_kernels(
    profile: Profile, entries_of_kernel: Callable[[ProfiledKernel], Sequence[ManifestEntry]]
) -> Iterator[ManifestEntry]:
    """Yield an entry for each kernel without a bound, such as a user's: no tensors are recorded."""
    for kernel in profile.unbounded:
        if kernel.time_ms >= LEAST_SHARE * profile.span_ms and _is_kernel(kernel):
            shape = Workload(None, kernel.calls, (), _round_time(kernel.time_ms / kernel.calls))
            yield from entries_of_kernel(kernel) or [
                ManifestEntry("", kernel.name, shapes=(shape,))
            ]


def _is_kernel(kernel: ProfiledKernel) -> bool:
    return kernel.reason not in _NOT_KERNELS and not kernel.name.startswith(("Memcpy", "Memset"))


def _round_time(time_ms: float) -> float | None:
    return float(f"{time_ms:.4g}") or None
