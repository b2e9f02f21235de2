"""Recordings of programs: the launches of each process, merged, and their kernel files.

A folder holds a file ``launches-*.jsonl`` per process, which only that process appends to. A line
is the head (``solkit.recording/1``: process, rank, versions, GPU), a launch with its number, the
counts so far by number, or how far back a launch's tensors were used. So a process may end at any
line. `write_kernel_files` makes a kernel file of each kernel and configuration in use, with its
launches as shapes.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from solkit.core import Value
from solkit.core.codec import from_json
from solkit.core.recordings import RecordedLaunch
from solkit.datasets.launch_files import file_group, kernel_file_text, launch_sizes
from solkit.errors import InputError, UnsupportedError

SCHEMA = "solkit.recording/1"
_PATTERN = "launches-*.jsonl"
_INDEX = "kernels.json"
_HOW = "launched by a recorded program"


@dataclass(frozen=True)
class LaunchRecording:
    """Launches of a program's processes.

    Attributes:
        folder: of the recording.
        launches: each distinct one once, those that took most calls first.
        heads: of the processes: rank, versions, GPU.
        notes: what limits it, each a sentence.
    """

    folder: str
    launches: tuple[RecordedLaunch, ...]
    heads: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel file of a recording.

    Attributes:
        name: of the file, without its ending: the function's, and a digest of what its
            launches have in common.
        path: of the file.
        launches: its shapes' launches.
        sizes: of these, as the file names them.
    """

    name: str
    path: str
    launches: tuple[RecordedLaunch, ...]
    sizes: tuple[Mapping[str, Value], ...]

    @property
    def launch_name(self) -> str:
        """Name of the launched function."""
        return self.launches[0].launch.name

    @property
    def calls(self) -> int:
        """Calls of all launches."""
        return sum(launch.calls for launch in self.launches)


def is_recording(folder: str | os.PathLike[str]) -> bool:
    """Tell whether a folder holds recorded launches."""
    return any(Path(folder).glob(_PATTERN))


@dataclass
class _Merged:
    """Launches of several processes."""

    launches: dict[str, RecordedLaunch] = field(default_factory=dict)
    heads: list[Mapping[str, Any]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)


def read_launch_recording(folder: str | os.PathLike[str]) -> LaunchRecording:
    """Read a recording. Lines that a process did not finish are left out.

    Raises:
        InputError: there is none, or a line is of another kind.
    """
    files = sorted(Path(folder).glob(_PATTERN))
    if not files:
        raise InputError(
            f"{os.fspath(folder)} holds no recorded launches; expected a folder that "
            "`solkit record` wrote"
        )
    merged = _Merged()
    for file in files:
        _merge_file(file, merged)
    ordered = sorted(merged.launches.items(), key=lambda pair: (-pair[1].calls, pair[0]))
    launches = tuple(launch for _, launch in ordered)
    return LaunchRecording(os.fspath(folder), launches, tuple(merged.heads), tuple(merged.notes))


def _merge_file(file: Path, merged: _Merged) -> None:
    records: dict[int, RecordedLaunch] = {}
    counts: dict[int, tuple[int, int, float]] = {}
    reuses: dict[int, Mapping[str, int | None]] = {}
    for number, document in _documents(file):
        if "schema" in document:
            if document["schema"] != SCHEMA:
                raise InputError(
                    f"{file}:{number}: the schema {document['schema']!r}; expected {SCHEMA!r}"
                )
            merged.heads.append(document)
        elif "launch" in document:
            with _faults_named(file, number, "no recorded launch"):
                records[int(document["number"])] = from_json(RecordedLaunch, document["launch"])
        elif "counts" in document:
            with _faults_named(file, number, "no counts, as in [[number, calls, in graphs, ms]]"):
                rows = [(int(n), int(c), int(g), float(ms)) for n, c, g, ms in document["counts"]]
                counts.update({n: (c, g, ms) for n, c, g, ms in rows})
        elif "reuse_bytes" in document:
            with _faults_named(file, number, "no bytes between uses"):
                reuses[int(document["number"])] = document["reuse_bytes"]
        elif "note" in document:
            merged.notes.setdefault(str(document["note"]))
    for number, record in records.items():
        digest = record.digest
        first = merged.launches.get(digest, record)
        drawn = min(first, record, key=_contents_key)  # of several ranks always the same
        first = replace(first, recipes=drawn.recipes)
        reuse = first.reuse_bytes or reuses.get(number, {})
        counted = first.counted(*counts.get(number, (0, 0, 0.0)))
        merged.launches[digest] = replace(counted, reuse_bytes=reuse)


def _contents_key(launch: RecordedLaunch) -> tuple[bool, str]:
    """Return a key that puts a launch first whose contents are known."""
    return not launch.recipes, repr(sorted(launch.recipes.items()))


@contextlib.contextmanager
def _faults_named(file: Path, number: int, what: str) -> Iterator[None]:
    """Raise `InputError` with the place of a line that is of another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}:{number}: {what}: {error}") from error


def _documents(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
            except ValueError:  # the process ended, or its disk was full
                continue
            if isinstance(document, dict):
                yield number, document


# ----------------------------------------------------------------------------------- kernel files


def kernels_of_recording(
    recording: LaunchRecording,
) -> tuple[tuple[RecordedKernel, ...], tuple[str, ...]]:
    """Return the kernels that can be launched again, most calls first, and why others cannot."""
    groups: dict[tuple[object, ...], list[RecordedLaunch]] = {}
    for launch in recording.launches:
        groups.setdefault(file_group(launch), []).append(launch)
    kernels: list[RecordedKernel] = []
    reasons: dict[str, None] = {}
    for group, launches in sorted(groups.items(), key=lambda g: -sum(e.calls for e in g[1])):
        members = sorted(launches, key=_by_content)
        try:
            kernel_file_text(members, "")
        except UnsupportedError as error:
            reasons.setdefault(f"{members[0].launch.name} cannot be launched again: {error}")
            continue
        name = _file_name(group, members[0].launch.name)
        sizes = tuple(launch_sizes(members)) if len(members) > 1 else ({},)
        path = str(Path(recording.folder) / f"{name}.py")
        kernels.append(RecordedKernel(name, path, tuple(members), sizes))
    return tuple(kernels), tuple(reasons)


def _file_name(group: tuple[object, ...], kernel: str) -> str:
    """Return a name that follows from the group alone: other runs and ranks give it the same."""
    return f"{kernel}_{hashlib.sha256(repr(group).encode()).hexdigest()[:8]}"


def _by_content(launch: RecordedLaunch) -> tuple[int, str]:
    """Return a key that puts the largest launch first, whatever the order and number of calls."""
    tensors = [arg.tensor for arg in launch.launch.arguments.values() if arg.tensor is not None]
    return -sum(math.prod(tensor.shape) for tensor in tensors), launch.digest


def write_kernel_files(recording: LaunchRecording) -> tuple[RecordedKernel, ...]:
    """Write the kernel files of a recording next to it; files that somebody edited stay.

    Raises:
        InputError: they cannot be written.
    """
    kernels, _ = kernels_of_recording(recording)
    texts = {kernel.name: kernel_file_text(kernel.launches, _HOW) for kernel in kernels}
    write_generated_files(Path(recording.folder), texts)
    return kernels


def write_generated_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files ``NAME.py`` into a folder; those that somebody edited since stay.

    Raises:
        InputError: they cannot be written.
    """
    index = _read_index(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            file = folder / f"{name}.py"
            if not file.exists() or _sha256(file.read_bytes()) == index.get(name):
                file.write_text(text, encoding="utf-8")
                index[name] = _sha256(text.encode())
        (folder / _INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}") from error


_USERS = {"CONFIGS", "OUTPUTS", "SHAPES", "SPACE", "deployed", "fill", "inputs", "reference"}
"""Names of a kernel file that a user may change; the same kernel is launched."""


def launches_as_recorded(kernel: RecordedKernel) -> bool:
    """Tell whether a kernel's file still launches what was recorded."""
    try:
        own = _launching_statements(Path(kernel.path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False
    return _launching_statements(kernel_file_text(kernel.launches, _HOW)) <= own


def _launching_statements(text: str) -> set[str]:
    statements = ast.parse(text).body
    return {ast.dump(node) for node in statements if not _defined_names(node) & _USERS}


def _defined_names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _read_index(folder: Path) -> dict[str, str]:
    """Return the digest of each file as it was written."""
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kernel_file_in(place: str) -> str:
    """Return the kernel file that ``FOLDER`` or ``FOLDER/KERNEL`` of a recording means.

    Any other place is returned as it is.

    Raises:
        InputError: the folder has several kernels, or none of that name; names them.
    """
    path = Path(place)
    if path.is_dir() and is_recording(path):
        return _chosen_kernel(place, write_kernel_files(read_launch_recording(path)), "")
    if not path.exists() and not path.suffix and is_recording(path.parent):
        kernels = write_kernel_files(read_launch_recording(path.parent))
        return _chosen_kernel(str(path.parent), kernels, path.name)
    return place


def _chosen_kernel(folder: str, kernels: Sequence[RecordedKernel], name: str) -> str:
    if not kernels:
        raise InputError(f"{folder}: no recorded kernel can be launched again")
    fitting = [kernel for kernel in kernels if name in ("", kernel.name, kernel.launch_name)]
    if len(fitting) == 1:
        return fitting[0].path
    listed = ", ".join(f"{kernel.name} ({kernel.calls} calls)" for kernel in kernels)
    which = f" called {name!r}" if name and fitting else ""
    why = f"has several kernels{which}" if fitting else f"has no kernel {name!r}"
    raise InputError(f"{folder} {why}; name one as {folder}/KERNEL: {listed}")
