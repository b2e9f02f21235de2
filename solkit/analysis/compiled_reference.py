"""The kernel file that Inductor makes of a reference, in a child process without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from solkit import kernelfiles
from solkit.adapters.inductor_program import Reference, program_of
from solkit.analysis.worker import fake_device
from solkit.core import Device, Value
from solkit.errors import InputError, KernelFileError
from solkit.kernelfiles.seeding import seed_everything

__all__ = ["write_reference"]


_FRAMES = 3000


def write_reference(
    path: str,
    device: Device,
    shape: Mapping[str, Value] | None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[str, tuple[str, ...], tuple[tuple[Mapping[str, int], ...], ...]]:
    """Write the file's text; return it with notes, each a sentence, and Inductor's options.

    The options are what Inductor would choose between by timing.

    Args:
        path: the file with the reference.
        device: for which Inductor compiles.
        shape: sizes to override; the file's first shape by default.
        settings: of ``torch._inductor.config``, besides its defaults.

    Raises:
        InputError: the file is invalid, or there is no such program; says why.
    """
    sys.setrecursionlimit(_FRAMES)  # fake tensors add frames to the user's
    fake_device(device)
    with FakeTensorMode():
        loaded = kernelfiles.load(path)
        problem = loaded.description.problem
        sizes = dict(problem.shapes[0] if shape is None else shape)
        seed_everything(0)
        workload = loaded.workload(sizes, {}, "cuda")
        if problem.format not in ("native", "kernelbench") or workload.reference is None:
            raise KernelFileError(
                f"is a {problem.format} file; expected reference() and inputs(), or KernelBench's "
                "Model and get_inputs()",
                path,
            )
        about = f"At {_listed_sizes(sizes)}, for {device.name}"
        reference = _reference((problem.name, about), workload, path, sizes)
        try:
            program = program_of(reference, settings)
        except InputError as error:
            if isinstance(error, KernelFileError):
                raise
            raise InputError(f"{path} cannot be compiled into a kernel file: {error}") from error
    return program.text, program.notes, program.choices


def _listed_sizes(shape: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in shape.items()) or "its own shape"


def _reference(
    named: tuple[str, str], workload: kernelfiles.Workload, path: str, shape: Mapping[str, Value]
) -> Reference:
    model = getattr(workload.reference, "model", None)
    assert workload.reference is not None
    function: Any = workload.reference if model is None else model.forward
    source = "" if model is None else Path(path).read_text(encoding="utf-8")
    return Reference(*named, function, workload.args, workload.kwargs, model, source, shape)
