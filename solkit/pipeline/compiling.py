"""A first kernel for a problem that has none: what `torch.compile` would run, as a kernel file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solkit.core import Device
from solkit.pipeline.studying import Shape
from solkit.pipeline.target import target
from solkit.processes import jobs

__all__ = ["FirstParent", "first_parent"]

_LIMIT_S = 900.0


@dataclass(frozen=True)
class FirstParent:
    """A kernel file that Inductor's program of a reference gave.

    Attributes:
        text: the file; the reference stays in its own.
        notes: what to know of it, each a sentence.
    """

    text: str
    notes: tuple[str, ...]


def first_parent(
    path: str | os.PathLike[str],
    device: str | Device | None = None,
    shape: Shape | None = None,
    settings: Mapping[str, Any] | None = None,
) -> FirstParent:
    """The Triton kernels and library calls that `torch.compile` would run, without a GPU.

    Args:
        path: the file with the reference: `reference` and `inputs`, or KernelBench's ``Model``.
        device: the target; by default this machine's GPU, else an H100.
        shape: sizes to override; the file's first shape by default. The kernels fit no other.
        settings: of ``torch._inductor.config``, besides its defaults.

    Raises:
        InputError: the file is invalid, or holds an operation that cannot be written; says which.
        WorkerError: SolKit's own part failed.
    """
    asked = None if shape is None else dict(shape)
    text, notes = jobs.call(
        "solkit.analysis.compiled_reference:written",
        os.fspath(path),
        target(device),
        asked,
        dict(settings or {}),
        timeout_s=_LIMIT_S,
    )
    return FirstParent(text, tuple(notes))
