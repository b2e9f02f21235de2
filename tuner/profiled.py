"""A manifest of what a profile found worth working on.

A profile knows kernels' names, how often they ran, how long they took, and the tensors of PyTorch's
ops. It knows neither files nor the names of sizes: these are left for somebody to fill in.
"""

from __future__ import annotations

from collections.abc import Iterator

from solkit.core import Profile, ProfiledKernel, ProfiledOp
from solkit.tuner.manifest import Manifest, ManifestEntry, Workload, written

__all__ = ["LEAST_SHARE", "profiled_manifest"]

LEAST_SHARE = 0.005
"""The share of the run that an op must be able to save, or a kernel without a bound must take."""

_NOT_KERNELS = ("a copy that leaves the GPU", "communication between GPUs")

_NOTES = (
    "Of each kernel, fill in `path`: a kernel file that SolKit can run (docs/kernel_files.md).",
    "Of each shape, fill in `sizes`: the arguments of the file's inputs() that give these tensors.",
    "`calls` and `time_ms` (of one call) are the profile's. What is not filled in is left out.",
)


def profiled_manifest(profile: Profile) -> str:
    """Return the manifest as TOML: ops by possible saving, then kernels without a bound by time."""
    entries = (*_of_ops(profile), *_of_kernels(profile))
    notes = [f"Written by `solkit profile` from {profile.path}, on {profile.device.name}.", *_NOTES]
    if not entries:
        notes.append(f"Nothing in it would save {LEAST_SHARE:.1%} of the run.")
    return written(Manifest("", entries, device=profile.device.key), notes)


def _of_ops(profile: Profile) -> Iterator[ManifestEntry]:
    """Yield an entry for each op, with a shape for each kind of inputs."""
    worth = [op for op in profile.ops if op.saving_ms >= LEAST_SHARE * profile.span_ms]
    for name in dict.fromkeys(op.name for op in worth):
        yield ManifestEntry(
            "", name, shapes=tuple(_workload(op) for op in worth if op.name == name)
        )


def _workload(op: ProfiledOp) -> Workload:
    return Workload(None, op.calls, op.inputs, _rounded(op.time_ms / op.calls))


def _of_kernels(profile: Profile) -> Iterator[ManifestEntry]:
    """Yield an entry for each kernel without a bound, such as a user's: no tensors are recorded."""
    for kernel in profile.unbounded:
        if kernel.time_ms >= LEAST_SHARE * profile.span_ms and _is_kernel(kernel):
            shape = Workload(None, kernel.calls, (), _rounded(kernel.time_ms / kernel.calls))
            yield ManifestEntry("", kernel.name, shapes=(shape,))


def _is_kernel(kernel: ProfiledKernel) -> bool:
    return kernel.reason not in _NOT_KERNELS and not kernel.name.startswith(("Memcpy", "Memset"))


def _rounded(time_ms: float) -> float | None:
    return float(f"{time_ms:.4g}") or None
