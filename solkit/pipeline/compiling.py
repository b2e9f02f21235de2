"""A first kernel for a problem that has none: what `torch.compile` would run, as a kernel file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solkit.core import Depth, Device, Value, canonical
from solkit.errors import InputError
from solkit.pipeline.studying import Shape
from solkit.pipeline.target import target_device
from solkit.processes import jobs

if TYPE_CHECKING:
    from solkit.analysis.analyser import Analyser

_LIMIT_S = 900.0


@dataclass(frozen=True)
class FirstParent:
    """A kernel file that Inductor's program of a reference gave.

    Attributes:
        text: the file; the reference stays in its own.
        notes: what to know of it, each a sentence.
        choices: for each kernel of which Inductor would time several configurations, their
            parameters, its first choice, the file's default, first.
    """

    text: str
    notes: tuple[str, ...]
    choices: tuple[tuple[Mapping[str, int], ...], ...] = ()


def first_parent(
    path: str | os.PathLike[str],
    device: str | Device | None = None,
    shape: Shape | None = None,
    settings: Mapping[str, Any] | None = None,
) -> FirstParent:
    """Return the Triton kernels and library calls that `torch.compile` would run, without a GPU.

    Args:
        path: the file with the reference: `reference` and `inputs`, or KernelBench's ``Model``.
        device: the target; by default this machine's GPU, else an H100.
        shape: sizes to override; the file's first shape by default. The kernels fit no other.
        settings: of ``torch._inductor.config``, besides its defaults.

    Raises:
        InputError: the file is invalid, or holds an operation that cannot be written; says which.
        WorkerError: SolKit's own part failed.
    """
    sizes = None if shape is None else dict(shape)
    text, notes, choices = jobs.call(
        "solkit.analysis.compiled_reference:write_reference",
        os.fspath(path),
        target_device(device),
        sizes,
        dict(settings or {}),
        timeout_s=_LIMIT_S,
    )
    return FirstParent(text, tuple(notes), tuple(map(tuple, choices)))


def choose_configurations(
    choices: Sequence[Sequence[Mapping[str, int]]],
    params: Mapping[str, Value],
    kernel_file: tuple[str, str, Shape],
    analyser: Analyser,
) -> dict[str, Value]:
    """Choose the configurations that the kernel model finds fastest, of those that Inductor times.

    Args:
        choices: of each kernel.
        params: the file's defaults.
        kernel_file: its path, its reference and the shape.
        analyser: for the device.
    """
    from solkit.surrogate.ranking import RankSettings, Request, rank

    path, reference, shape = kernel_file
    points = [{**params, **choice} for kernel in choices for choice in kernel]
    if not points:
        return {}
    settings = RankSettings(Depth.LOWERED, everything=True, explained=0)
    request = Request([path], reference, [shape], {path: points}, 1, settings, in_use=False)
    try:
        (plan,) = rank(request, analyser, None)
    except InputError:  # none can be analysed: Inductor's first choices stay
        return {}
    times_ms = {canonical(e.configuration.params): e.forecast.time_ms for e in plan.ranked}

    def modelled_time_ms(choice: dict[str, int]) -> float:
        return times_ms.get(canonical({**params, **choice})) or math.inf

    fastest = [min(map(dict, kernel), key=modelled_time_ms) for kernel in choices]
    return {name: value for choice in fastest for name, value in choice.items()}


_MODEL = """

import torch


class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.compiled = torch.compile(super().forward)

    def forward(self, *args, **kwargs):
        return self.compiled(*args, **kwargs)
"""
_FUNCTION = """

import torch

_compiled = torch.compile(reference)


def kernel(*args, **kwargs):
    return _compiled(*args, **kwargs)
"""


def write_compile_peer(path: str | os.PathLike[str], kind: str) -> str:
    """Return a kernel file in which `torch.compile` itself runs the reference, on a real GPU.

    Args:
        path: the file with the reference.
        kind: the problem's format, ``"native"`` or ``"kernelbench"``.
    """
    text = Path(path).read_text(encoding="utf-8")
    return text + (_MODEL if kind == "kernelbench" else _FUNCTION)
