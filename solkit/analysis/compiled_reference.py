"""The kernel file that Inductor makes of a reference, in a child process without a GPU."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from solkit import kernelfiles
from solkit.adapters import fake_cuda, launch_recording
from solkit.adapters.inductor_program import (
    Caller,
    Reference,
    Returned,
    Written,
    conditions_of,
    module_text,
    program_of,
)
from solkit.adapters.launch_watchers import watching_launches
from solkit.analysis.worker import fake_device
from solkit.core import Device, Value
from solkit.core.proposals import EntryPoint
from solkit.core.quantities import settings_text
from solkit.errors import InputError, KernelFileError
from solkit.kernelfiles._kernelbench import KernelBenchKernel
from solkit.kernelfiles.seeding import seed_everything
from solkit.processes.priority import lower_priority

_FRAMES = 3000

Choices = tuple[tuple[Mapping[str, int], ...], ...]


def warm_up() -> None:
    """Load what these functions need: importing this module does, which takes seconds."""


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
        returned, written = _observed(first.workload)
    places = first.places()
    with FakeTensorMode():
        problem = _Problem.load(path, entry, shape)
        with launch_recording.recording_launches({}) as seen:
            caller = problem.caller(entry, returned, places, written)
            program = _program(problem.reference(device, caller), settings, path)
        if seen.launches:
            raise InputError(f"the reference of {path} launches kernels itself")
        built = _built_condition(problem, entry)
    return program.text, (built, program.condition), program.libraries


def _built_condition(problem: _Problem, entry: EntryPoint) -> str:
    """Return what must be true of the arguments of ``__init__``; empty without any."""
    if entry.init is None or not isinstance(problem.loaded, KernelBenchKernel):
        return ""
    with torch.device("cuda"):  # as where models are built
        arguments = problem.loaded.init_arguments()
    return " and ".join(conditions_of(entry.init, *arguments))


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


def _observed(workload: kernelfiles.Workload) -> tuple[Returned | None, frozenset[int]]:
    """Return what the kernel returns, and places of the arguments that it may write.

    The former is ``None`` if it gets tensors for its results, or fails here.

    Raises:
        InputError: it returns a number that may depend on values.
    """
    arguments = workload.tensors()
    stored = {_memory(tensor) for tensor in workload.written_arguments()}
    versions = [tensor._version for tensor in arguments]
    returned = None

    def note(_: str, launched: Mapping[str, torch.Tensor], names: Set[str], __: Set[str]) -> None:
        stored.update(_memory(launched[name]) for name in names)

    call = getattr(workload.kernel, "returned", workload.kernel)  # of a solution, as it returns it
    if workload.destinations is None and call is not None:
        with (
            fake_cuda.watching_guesses() as guesses,
            contextlib.suppress(Exception),  # of the user's code: what is seen before counts
            launch_recording.recording_launches({}),
            watching_launches(note),
        ):
            returned = Returned.of(call(*workload.args, **workload.kwargs), arguments)
        if returned is not None:
            _refuse_guessed(returned, guesses)
    pairs = zip(arguments, versions, strict=True)
    changed = (_memory(one) in stored or one._version != version for one, version in pairs)
    return returned, frozenset(place for place, is_changed in enumerate(changed) if is_changed)


def _refuse_guessed(returned: Returned, guesses: Iterable[str]) -> None:
    """Refuse numbers among the results that may depend on values: a file would hold them."""
    guess = next(iter(guesses), None)
    if guess is not None and any(isinstance(leaf, (int, float)) for leaf in returned.leaves):
        raise InputError(f"the kernel returns a number that may depend on values: {guess}")


def _memory(tensor: torch.Tensor) -> int:
    memory: int = tensor.untyped_storage()._cdata
    return memory


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

    def reference(self, device: Device, caller: Caller | None = None) -> Reference:
        """Return the reference, for another kernel's entry point if there is one."""
        workload = self.workload
        model = getattr(workload.reference, "model", None)
        assert workload.reference is not None
        function: Any = workload.reference if model is None else model.forward
        source = ""
        if model is not None and caller is None:
            source = Path(self.path).read_text(encoding="utf-8")
        about = f"At {settings_text(self.shape, 'its own shape')}, for {device.name}"
        arguments = workload.args, workload.kwargs
        named = self.name, about
        return Reference(*named, function, *arguments, model, source, self.shape, caller)

    def caller(
        self,
        entry: EntryPoint,
        returned: Returned | None,
        places: Mapping[str, str],
        written: frozenset[int],
    ) -> Caller:
        """Return an entry point in place of the reference's own."""
        module = getattr(self.workload.kernel, "model", None)
        parameters, count = list(entry.signature.parameters.values()), len(self.workload.args)
        destinations: dict[str, torch.Tensor] = {}
        if self.workload.destinations is not None:  # they come after the inputs
            names = [parameter.name for parameter in parameters[count:]]
            destinations = dict(zip(names, self.workload.destinations(), strict=False))
            parameters = parameters[:count]
        own = module if isinstance(module, torch.nn.Module) else None
        signature = inspect.Signature(parameters)
        return Caller(signature, returned, own, places, written, destinations)


_MOST_WEIGHTS = 1 << 28
"""Elements of a model's weights that are made to be compared."""


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _alike(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    return one is not None and (one.shape, one.dtype) == (other.shape, other.dtype)


def _same_values(
    state: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], names: Iterable[str]
) -> dict[str, str]:
    """Return the only tensor of the same values, for those of these names that are alone, too."""
    places = {}
    for name in names:
        same = _same_tensors(own, state[name])
        if len(same) == 1 and len(_same_tensors(state, state[name])) == 1:
            places[module_text(name)] = module_text(same[0])
    return places


def _same_tensors(state: Mapping[str, torch.Tensor], value: torch.Tensor) -> list[str]:
    return [n for n, tensor in state.items() if _alike(tensor, value) and tensor.equal(value)]
