"""Records of launches as `solkit.core.Launch` keeps them, from what a launch is made with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from triton.runtime.jit import JITFunction

from solkit.adapters.foreign_kernels import ForeignKernel
from solkit.adapters.kernel_programs import binding_of_value, program_of_kernel
from solkit.adapters.launch_recording import (
    Argument,
    CapturedLaunch,
    TensorArgument,
    tensors_of,
)
from solkit.adapters.triton_writes import may_write
from solkit.core.kernel_programs import Binding, Role, TensorLayout

Roles = Mapping[int, tuple[Role, int]]
"""Role and place of storages, by their identity."""

_MOST_CONTENTS = 512
_ALIGNED_BYTES = 128
_NO_ROLES: Roles = {}


@lru_cache(maxsize=4096)
def program_digest(function: JITFunction[Any], passed: tuple[JITFunction[Any], ...] = ()) -> str:
    """Return the digest of a kernel's program: the same in every process that has the same texts.

    Args:
        function: the function under any autotuner and heuristics.
        passed: functions that it gets as compile-time constants, in the order of its parameters.
    """
    return program_of_kernel(function, passed).digest


def roles_of_storages(inputs: Iterable[int], outputs: Iterable[int]) -> Roles:
    """Return the roles of the storages of a call.

    Args:
        inputs: storage of each input, in order; one that is updated in place is an input.
        outputs: storage of each output, in order.
    """
    roles: dict[int, tuple[Role, int]] = {}
    for place, storage in enumerate(inputs):
        roles.setdefault(storage, ("input", place))
    for place, storage in enumerate(outputs):
        roles.setdefault(storage, ("output", place))
    return roles


def with_records(
    launches: Sequence[CapturedLaunch], roles: Roles = _NO_ROLES
) -> tuple[CapturedLaunch, ...]:
    """Return the launches of a call, each with its arguments and its program in its `Launch`.

    Args:
        launches: as captured.
        roles: of storages; with some, storages without one are temporary.
    """
    recorder = _Recorder(roles)
    recorded = [recorder.recorded(launch) for launch in launches]
    numbers = recorder.number_storages(launches)
    return tuple(
        replace(launch, launch=replace(launch.launch, storages=_numbered(launch, numbers)))
        for launch in recorded
    )


class _Recorder:
    """Records the launches of one call, whose tensors share numbers of storages."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._storages: dict[int, int] = {}
        self._contents: dict[int, tuple[tuple[int, ...], int]] = {}

    def number_storages(self, launches: Sequence[CapturedLaunch]) -> dict[int, int]:
        """Return the numbers of all storages, after those of the recorded arguments.

        Further ones belong to launches that count among equal ones. They are numbered by the
        parameters that get them: identities differ from one process to the next.
        """
        users: dict[int, list[tuple[int, str]]] = {}
        for place, launch in enumerate(launches):
            for name, storages in sorted(launch.by_parameter.items()):
                for storage in storages:
                    users.setdefault(storage, []).append((place, name))
        for storage in sorted(users, key=users.__getitem__):
            self._storages.setdefault(storage, len(self._storages))
        return self._storages

    def recorded(self, captured: CapturedLaunch) -> CapturedLaunch:
        """Return a launch with its record."""
        kernel = captured.kernel
        names = list(kernel.signature)
        constants = {names[path[0]]: v for path, v in kernel.constexprs.items() if len(path) == 1}
        inner = {(names[path[0]], *path[1:]): value for path, value in kernel.constexprs.items()}
        passed = [value for value in constants.values() if isinstance(value, JITFunction)]
        if isinstance(kernel.function, ForeignKernel):
            program = kernel.function.program()
        else:
            program = program_of_kernel(kernel.function, tuple(passed))

        def binding(name: str) -> Binding:
            kind = kernel.signature[name]
            if name in constants:
                return binding_of_value(constants[name], program)
            if name not in captured.parts:
                return self._argument(captured, name, str(kind), captured.arguments.get(name))
            items = tuple(
                binding_of_value(inner[name, place], program)
                if (name, place) in inner
                else self._argument(captured, name, str(part_kind), part)
                for place, (part, part_kind) in enumerate(
                    zip(captured.parts[name], kind, strict=False)
                )
            )
            return Binding("items", items=items)

        arguments = {name: binding(name) for name in names}
        launch = replace(captured.launch, arguments=arguments, program=program)
        return replace(captured, launch=launch)

    def _argument(
        self, captured: CapturedLaunch, name: str, kind: str, argument: Argument
    ) -> Binding:
        if isinstance(argument, TensorArgument):
            is_written = may_write(captured.kernel.function, name)
            return self._tensor(argument, kind, is_written)
        return Binding() if argument is None else _scalar_binding(argument)

    def _tensor(self, tensor: TensorArgument, kind: str, is_written: bool) -> Binding:
        unknown: tuple[Role, int] = ("temporary" if self._roles else "", -1)
        role, place = self._roles.get(tensor.storage, unknown)
        contents, step = self._known_integers(tensor)
        offset = tensor.offset_bytes
        return _tensor_binding(
            dtype=_element_type(kind),
            element_bytes=tensor.element_bytes,
            shape=tensor.shape,
            strides=tensor.strides,
            offset_elements=offset // max(tensor.element_bytes, 1),
            storage_bytes=tensor.storage_bytes,
            alignment_bytes=min(offset & -offset, _ALIGNED_BYTES) if offset else _ALIGNED_BYTES,
            storage=self._storages.setdefault(tensor.storage, len(self._storages)),
            role=role,
            place=place,
            is_written=is_written,
            block=tensor.block,
            contents=contents,
            contents_step=step,
        )

    def _known_integers(self, tensor: TensorArgument) -> tuple[tuple[int, ...], int]:
        """Return integers of a storage, of many some at equal distances; and their distance."""
        values = tensor.contents
        if values is None or values.dtype.kind not in "iub":
            return (), 1
        if id(values) not in self._contents:
            step = -(-values.size // _MOST_CONTENTS) or 1
            self._contents[id(values)] = tuple(map(int, values[::step])), step
        return self._contents[id(values)]


def _numbered(captured: CapturedLaunch, numbers: Mapping[int, int]) -> dict[str, tuple[int, ...]]:
    numbered = {}
    for name, storages in captured.by_parameter.items():
        first = {numbers[tensor.storage] for tensor in tensors_of(captured.arguments.get(name))}
        others = {numbers[storage] for storage in storages} - first
        if first or others:
            numbered[name] = (*sorted(first), *sorted(others))
    return numbered


# Thousands of candidates get the same arguments: as one object they cost a message nothing.


@lru_cache(maxsize=4096, typed=True)
def _scalar_binding(value: float) -> Binding:
    return Binding("scalar", value)


@lru_cache(maxsize=4096)
def _tensor_binding(**layout: Any) -> Binding:
    return Binding("tensor", tensor=TensorLayout(**layout))


def _element_type(kind: str) -> str:
    """Return ``"bf16"`` of ``"*bf16"`` or ``"tensordesc<bf16[64, 32]>"``."""
    return kind.removeprefix("tensordesc<").partition("[")[0].lstrip("*k")
