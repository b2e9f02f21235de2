"""A recorded program as a batch, and the batch's winners as a tuned folder for `solkit.apply`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from solkit.core import (
    Batch,
    BatchItem,
    Profile,
    ProfiledKernel,
    ProfiledProblem,
    Ratio,
    TuneVerdict,
    canonical,
)
from solkit.core.recordings import RecordedLaunch
from solkit.core.tuned import (
    Speedup,
    TunedEntry,
    TunedFolder,
    applicable_parameters,
    bucket_of_launch,
)
from solkit.datasets.launch_recordings import (
    LaunchRecording,
    RecordedKernel,
    kernels_of_recording,
    launches_as_recorded,
    read_launch_recording,
    write_kernel_files,
)
from solkit.errors import InputError
from solkit.tuner.manifest import Manifest, ManifestEntry, Workload, profiled_manifest


def recorded_manifest(
    folder: str | os.PathLike[str], known_programs: Collection[str] = ()
) -> tuple[Manifest, tuple[RecordedKernel, ...], tuple[str, ...]]:
    """Return the manifest of a recording: each launch with its calls.

    Args:
        folder: of the recording.
        known_programs: digests of programs whose launches are left out.

    Returns:
        The manifest, its kernels, and why others are left out.

    Raises:
        InputError: nothing was recorded, or nothing of it can be launched again.
    """
    recording = _without(read_launch_recording(folder), known_programs)
    kernels = write_kernel_files(recording)
    reasons = kernels_of_recording(recording)[1]
    if not kernels:
        raise InputError(f"{recording.folder}: nothing can be launched again. {' '.join(reasons)}")
    entries = tuple(_entry(kernel, line) for line, kernel in enumerate(kernels, 1))
    return Manifest(recording.folder, entries), kernels, reasons


def _without(recording: LaunchRecording, programs: Collection[str]) -> LaunchRecording:
    kept = (
        e
        for e in recording.launches
        if not e.launch.program or e.launch.program.digest not in programs
    )
    return replace(recording, launches=tuple(kept))


def _entry(kernel: RecordedKernel, line: int) -> ManifestEntry:
    shapes = tuple(
        Workload(sizes, float(max(launch.calls, 1)))
        for sizes, launch in zip(kernel.sizes, kernel.launches, strict=True)
    )
    first = kernel.launches[0]
    varied = applicable_parameters(first.launcher, first.tiles)  # others' winners are of no use
    return ManifestEntry(kernel.path, kernel.name, shapes=shapes, line=line, varied=varied)


def profiled_manifest_of(
    profile: Profile,
    kernels: Sequence[RecordedKernel],
    references: Mapping[ProfiledProblem, Path] | None = None,
) -> str:
    """Return the manifest of a profile, whose Triton kernels have the files of a recording.

    Args:
        profile: of a run.
        kernels: recorded in the same run. A kernel's profiled calls are shared out among its
            launches as the recording counted these.
        references: the file of each problem that has one, in a folder beside the manifest.
    """

    def entries_of_kernel(kernel: ProfiledKernel) -> list[ManifestEntry]:
        files = [file for file in kernels if file.launches[0].launch.name == kernel.name]
        scale = kernel.calls / max(sum(file.calls for file in files), 1)
        return [_profiled_entry(file, scale) for file in files]

    beside = {p: str(Path(file.parent.name) / file.name) for p, file in (references or {}).items()}
    return profiled_manifest(profile, entries_of_kernel, beside)


def _profiled_entry(kernel: RecordedKernel, scale: float) -> ManifestEntry:
    entry = _entry(kernel, 0)
    path = Path(kernel.path)
    shapes = tuple(replace(e, calls=float(f"{scale * e.calls:.4g}")) for e in entry.shapes)
    return replace(entry, path=str(Path(path.parent.name) / path.name), shapes=shapes)


def tuned_folder_of(batch: Batch, kernels: Sequence[RecordedKernel], verified: bool) -> TunedFolder:
    """Return the winners of a batch over a recording, by launch.

    A file whose kernel somebody edited has none: its times say nothing of what the program
    launches. What an autotuner chose and the batch kept is an entry, too: then nothing is timed.

    Args:
        batch: its result.
        kernels: of the recording.
        verified: whether outputs of the winners were compared.
    """
    kernels = [kernel for kernel in kernels if launches_as_recorded(kernel)]
    entries = (entry for item in batch.items for entry in _entries(item, kernels, verified))
    versions = {name: batch.environment.get(name) or "" for name in ("torch", "triton")}
    looked_at = () if batch.interrupted else kernels  # else the next search goes on
    programs = {e.launch.program.digest for k in looked_at for e in k.launches if e.launch.program}
    return TunedFolder(
        *(batch.device, versions["torch"], versions["triton"]), tuple(entries), tuple(programs)
    )


def _entries(
    item: BatchItem, kernels: Sequence[RecordedKernel], verified: bool
) -> Iterator[TunedEntry]:
    tuned = item.tuned
    for kernel in kernels:
        for sizes, record in zip(kernel.sizes, kernel.launches, strict=True):
            own = {name: tuned.shape.get(name) for name in sizes}
            if kernel.path != tuned.kernel or canonical(own) != canonical(sizes):
                continue
            if tuned.verdict is TuneVerdict.FASTER:
                yield _tuned_entry(item, kernel, record, verified)
            elif tuned.measured and record.launcher == "autotuner":
                entry = _tuned_entry(item, kernel, record, verified)
                yield replace(entry, params=record.params, speedup=None)


def _tuned_entry(
    item: BatchItem, kernel: RecordedKernel, record: RecordedLaunch, verified: bool
) -> TunedEntry:
    program = record.launch.program
    assert program is not None  # else it would be no kernel file
    ratio = item.tuned.final.ratio if item.tuned.final is not None else None
    return TunedEntry(
        kernel=record.launch.name,
        program=program.digest,
        launcher=record.launcher,
        bucket=bucket_of_launch(record.launch, {*record.space, *record.heuristics}),
        in_use=record.params,
        params=dict(item.tuned.params),
        speedup=None if ratio is None else _speedup(ratio),
        verified=verified,
        calls=record.calls,
        source=f"{kernel.name}.py",
        tiles=record.tiles,
    )


def _speedup(ratio: Ratio) -> Speedup:
    """Return how much faster it is: `ratio` is the winner's time over that of the one in use."""
    return Speedup(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)
