"""The kernel file that Inductor makes of a reference, in a child process without a GPU."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from solkit import kernelfiles
from solkit.adapters import fake_cuda, fake_triton
from solkit.adapters.inductor_program import (
    Caller,
    Reference,
    Returned,
    Written,
    conditions_of,
    module_text,
    program_of,
)
from solkit.analysis.worker import fake_device
from solkit.core import Device, Value
from solkit.core.proposals import EntryPoint
from solkit.errors import InputError, KernelFileError
from solkit.kernelfiles._kernelbench import KernelBenchKernel
from solkit.kernelfiles.seeding import seed_everything
from solkit.processes.priority import lower_priority

__all__ = ["write_program", "write_reference"]


_FRAMES = 3000

Choices = tuple[tuple[Mapping[str, int], ...], ...]


def write_reference(
    path: str,
    device: Device,
    shape: Mapping[str, Value] | None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[str, tuple[str, ...], Choices]:
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
    _prepare(device)
    with FakeTensorMode():
        problem = _Problem.load(path, None, shape)
        if problem.format not in ("native", "kernelbench"):
            raise KernelFileError(
                f"is a {problem.format} file; expected reference() and inputs(), or KernelBench's "
                "Model and get_inputs()",
                path,
            )
        program = _program(problem.reference(device), settings, path)
    return program.text, program.notes, program.choices


def write_program(
    path: str,
    device: Device,
    shape: Mapping[str, Value],
    entry: EntryPoint,
    settings: Mapping[str, Any] | None = None,
) -> tuple[str, tuple[str, str], tuple[str, ...]]:
    """Write a reference's program for an entry point of another kernel.

    Returns:
        The file, whose ``kernel`` serves that entry point; the conditions under which it may, on
        arguments of its object's ``__init__`` and on its own; and operators of PyTorch's that it
        calls.

    Raises:
        InputError: as for `write_reference`; or the entry point cannot be served.
    """
    _prepare(device)
    if device.source == "nvml":  # candidates may be measured meanwhile
        lower_priority()
    with fake_cuda.fake_tensors():
        first = _Problem.load(path, entry, shape)
        returned = _returned(first.workload)
    places = first.places()
    with FakeTensorMode():
        problem = _Problem.load(path, entry, shape)
        with fake_triton.recording_launches({}) as seen:
            program = _program(problem.reference(device, entry, returned, places), settings, path)
        if seen.launches:
            raise InputError(f"the reference of {path} launches kernels itself")
        built = _built_condition(problem, entry)
    return program.text, (built, program.condition), program.libraries


def _built_condition(problem: _Problem, entry: EntryPoint) -> str:
    """Return what must be true of the arguments of ``__init__``; empty without any."""
    if entry.init is None or not isinstance(problem.loaded, KernelBenchKernel):
        return ""
    return " and ".join(conditions_of(entry.init, *problem.loaded.init_arguments()))


def _prepare(device: Device) -> None:
    sys.setrecursionlimit(_FRAMES)  # fake tensors add frames to the user's
    fake_device(device)


def _program(reference: Reference, settings: Mapping[str, Any] | None, path: str) -> Written:
    try:
        return program_of(reference, settings)
    except InputError as error:
        if isinstance(error, KernelFileError):
            raise
        raise InputError(f"{path} cannot be compiled into a kernel file: {error}") from error


def _returned(workload: kernelfiles.Workload) -> Returned | None:
    """Return what the kernel returns; ``None`` if it writes tensors that it gets, or fails here."""
    if workload.destinations is not None or workload.kernel is None:
        return None
    try:
        with fake_triton.recording_launches({}):
            value = workload.kernel(*workload.args, **workload.kwargs)
    except Exception:  # of the user's code: the reference's own results are taken
        return None
    return Returned.of(value, workload.tensors())


@dataclass(frozen=True)
class _Problem:
    """A problem at one shape, on fake tensors.

    Attributes:
        path: the file with the reference.
        name, format: of the problem.
        loaded: its file.
        shape: its sizes.
        workload: the inputs, the reference and the kernel, if there is one.
    """

    path: str
    name: str
    format: str
    loaded: kernelfiles.LoadedKernel
    shape: Mapping[str, Value]
    workload: kernelfiles.Workload

    @staticmethod
    def load(path: str, entry: EntryPoint | None, shape: Mapping[str, Value] | None) -> _Problem:
        """Load it.

        Raises:
            InputError: the file is invalid, or has no reference.
        """
        is_apart = entry is not None and entry.path != path
        loaded = kernelfiles.load(*((entry.path, path) if entry and is_apart else (path,)))
        problem = loaded.description.problem
        sizes = dict(problem.shapes[0] if shape is None else shape)
        seed_everything(0)
        workload = loaded.workload(sizes, {}, "cuda")
        if workload.reference is None:
            raise KernelFileError("has no reference", path)
        return _Problem(path, problem.name, problem.format, loaded, sizes, workload)

    def places(self) -> dict[str, str]:
        """Return where the candidate's model has tensors of the reference's, if elsewhere.

        Both make their weights from one seed: the only tensor of the same values is the same.
        """
        functions = self.workload.reference, self.workload.kernel
        model, module = (getattr(function, "model", None) for function in functions)
        if model is None or module is None or not isinstance(self.loaded, KernelBenchKernel):
            return {}
        state, own = _state(model), _state(module)
        lacking = [name for name, tensor in state.items() if not _alike(own.get(name), tensor)]
        if not lacking or sum(tensor.numel() for tensor in state.values()) > _MOST_WEIGHTS:
            return {}
        try:
            built, new = self.loaded.model("cpu"), self.loaded.candidate_model("cpu")
        except InputError:
            return {}
        return {} if new is None else _same_values(_state(built), _state(new), lacking)

    def reference(
        self,
        device: Device,
        entry: EntryPoint | None = None,
        returned: Returned | None = None,
        places: Mapping[str, str] | None = None,
    ) -> Reference:
        """Return the reference, for the entry point if there is one."""
        workload = self.workload
        model = getattr(workload.reference, "model", None)
        assert workload.reference is not None
        function: Any = workload.reference if model is None else model.forward
        source = ""
        if model is not None and entry is None:
            source = Path(self.path).read_text(encoding="utf-8")
        about = f"At {_listed_sizes(self.shape)}, for {device.name}"
        arguments = workload.args, workload.kwargs
        caller = None if entry is None else self._caller(entry, returned, places or {})
        named = self.name, about
        return Reference(*named, function, *arguments, model, source, self.shape, caller)

    def _caller(
        self, entry: EntryPoint, returned: Returned | None, places: Mapping[str, str]
    ) -> Caller:
        module = getattr(self.workload.kernel, "model", None)
        parameters = list(entry.signature.parameters.values())
        if self.workload.destinations is not None:  # they come after the inputs
            parameters = parameters[: len(self.workload.args)]
        own = module if isinstance(module, torch.nn.Module) else None
        return Caller(inspect.Signature(parameters), returned, own, places)


_MOST_WEIGHTS = 1 << 28
"""Elements of a model's weights that are made to be compared."""


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _alike(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    return one is not None and (one.shape, one.dtype) == (other.shape, other.dtype)


def _same_values(
    state: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], names: Iterable[str]
) -> dict[str, str]:
    """Return the only tensor of the same values, for those of these names."""
    places = {}
    for name in names:
        value = state[name]
        alike = [other for other, tensor in own.items() if _alike(tensor, value)]
        same = [other for other in alike if torch.equal(own[other], value)]
        if len(same) == 1:
            places[module_text(name)] = module_text(same[0])
    return places


def _listed_sizes(shape: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in shape.items()) or "its own shape"
