"""Records of `fake_triton`: launches, autotuned kernels and remarks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

import numpy.typing as npt

from solkit.adapters.triton_compiler import Specialisation
from solkit.core import Launch, Value
from solkit.core.quantities import settings_text
from solkit.core.stack import Stack

if TYPE_CHECKING:
    from solkit.adapters.recipes import Steps  # imports all that stands in for CUDA


@dataclass(frozen=True)
class Choice:
    """A configuration that an autotuner may use at a call.

    Attributes:
        kernel: the kernel's name.
        key: what the autotuner tells calls apart by: sizes and dtypes.
        config: the configuration, as text.
    """

    kernel: str
    key: tuple[str, ...]
    config: str


@dataclass(frozen=True, eq=False)
class TensorArgument:
    """A tensor that a kernel gets as a pointer or a TMA descriptor.

    Attributes:
        storage: identifies the storage; views share it.
        storage_bytes: the storage's size.
        offset_bytes: of the first element in the storage.
        shape, strides: in elements.
        element_bytes: size of an element.
        contents: the storage's elements, in the tensor's dtype; ``None`` if unknown.
        block: the descriptor's block shape.
    """

    storage: int
    storage_bytes: int
    offset_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    contents: npt.NDArray[Any] | None = None
    block: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class PackedArgument:
    """A kernel's parameter as the bytes that a launcher packed.

    Attributes:
        data: the bytes.
        tensors: what pointers and TMA descriptors among them are, by their offset.
    """

    data: bytes
    tensors: Mapping[int, TensorArgument] = field(default_factory=dict)


def tensors_of(argument: Any) -> tuple[TensorArgument, ...]:
    """Return the tensors that an argument of a launch points to."""
    if isinstance(argument, TensorArgument):
        return (argument,)
    return tuple(argument.tensors.values()) if isinstance(argument, PackedArgument) else ()


Contents = Union[npt.NDArray[Any], None]
Argument = Union[TensorArgument, PackedArgument, int, float, bool, None]
"""An argument of a launch; ``None`` if it is neither tensor nor scalar."""


def tensor_argument(arg: Any, tensor: Any, contents: Contents) -> TensorArgument:
    """Return a tensor, or a TMA descriptor of it, as an argument of a launch."""
    block = tuple(map(int, arg.block_shape)) if hasattr(arg, "block_shape") else ()
    shape, strides = (arg.shape, arg.strides) if block else (tensor.shape, tensor.stride())
    storage = tensor.untyped_storage()
    return TensorArgument(
        storage=storage._cdata,
        storage_bytes=int(storage.nbytes()),
        offset_bytes=int(tensor.storage_offset()) * tensor.element_size(),
        shape=tuple(map(int, shape)),
        strides=tuple(map(int, strides)),
        element_bytes=tensor.element_size(),
        contents=contents,
        block=block,
    )


_CONSTANT = "constexpr"  # among the types of Triton's signatures


@dataclass(frozen=True, eq=False)
class CapturedLaunch:
    """A launch, with the compiler's input.

    Attributes:
        launch: the public record.
        kernel: the launched specialisation; equal launches share the object.
        arguments: by parameter, from the first of equal launches.
        by_parameter: the storages of all of their tensors, by parameter.
        choice: the configuration, if the kernel is autotuned.
        parts: of arguments that are tuples, by parameter.
    """

    launch: Launch
    kernel: Specialisation
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    by_parameter: Mapping[str, frozenset[int]] = field(default_factory=dict)
    choice: Choice | None = None
    parts: Mapping[str, tuple[Argument, ...]] = field(default_factory=dict)

    @property
    def storages(self) -> frozenset[int]:
        """The storages of all of their tensors."""
        return frozenset().union(*self.by_parameter.values())

    @property
    def passed(self) -> dict[str, Argument]:
        """The arguments that compiled code gets, in order: no constants, and tuples in parts."""
        passed: dict[str, Argument] = {}
        for name, argument in self.arguments.items():
            kind = self.kernel.signature.get(name)
            if name in self.parts and isinstance(kind, (tuple, list)):
                items = enumerate(zip(self.parts[name], kind, strict=False))
                passed |= {f"{name}[{n}]": part for n, (part, k) in items if str(k) != _CONSTANT}
            elif str(kind) != _CONSTANT:
                passed[name] = argument
        return passed


@dataclass(frozen=True)
class AutotuneSpace:
    """The configurations of an autotuned kernel.

    Attributes:
        kernel: the kernel's name.
        configs: the configurations after pruning.
        chosen: the one that ran.
        skipped: how many before it cannot run on the device.
    """

    kernel: str
    configs: tuple[Mapping[str, Value], ...]
    chosen: Mapping[str, Value]
    skipped: int = 0

    def sentence(self) -> str:
        """Return the space and the choice as a sentence."""
        which = "the first" if self.chosen == self.configs[0] else "the one asked for"
        if self.skipped:
            which = "the first that this GPU can run"
        values = settings_text(self.chosen)
        return (
            f"triton.autotune on {self.kernel}: {len(self.configs)} configurations, "
            f"showing {which}: {values}"
        )


@dataclass
class Recording:
    """The record of one `recording_launches`.

    Attributes:
        params: values that an autotuned kernel's configuration must match.
        skipped: choices that cannot run on the device, which an autotuner passes over.
        launches: each distinct launch once, in order of first appearance.
        spaces: the autotuned kernels, by name.
        tuners: Triton's objects for these.
        kept: the configurations that pruning left in any call, by kernel, then identity.
        choice: of the autotuner that is launching.
        unanalysed: kernels that are not analysed, an ordered set of sentences.
        remarks: an ordered set of sentences for the reader.
        steps: records uses of the parameters, if wanted.
        arguments: those of some tensors by identity, regardless of later launches.
        is_repeating: whether a step of an earlier run launches now.
        every_choice: whether autotuners launch each configuration that they would time, and each
            launch stands on its own.
        autotuning: how they choose among these, an ordered set of texts.
    """

    params: Mapping[str, Value]
    skipped: frozenset[Choice] = frozenset()
    launches: list[CapturedLaunch] = field(default_factory=list)
    spaces: dict[str, AutotuneSpace] = field(default_factory=dict)
    tuners: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, dict[int, Any]] = field(default_factory=dict)
    choice: Choice | None = None
    unanalysed: dict[str, None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    steps: Steps | None = None
    arguments: Mapping[int, TensorArgument] = field(default_factory=dict)
    is_repeating: bool = False
    every_choice: bool = False
    autotuning: dict[str, None] = field(default_factory=dict)

    def counts_again(
        self,
        kernel: Specialisation,
        grid: tuple[int, int, int],
        storages: Mapping[str, frozenset[int]],
        count: int = 1,
    ) -> bool:
        """Count launches among equal ones; tell whether there are any."""
        if self.every_choice:  # equal ones may have other arguments, which loops go by
            return False
        for index, same in enumerate(self.launches):
            if same.kernel is kernel and same.launch.grid == grid:
                both = {name: same.by_parameter[name] | ids for name, ids in storages.items()}
                counted = replace(same.launch, count=same.launch.count + count)
                self.launches[index] = replace(same, launch=counted, by_parameter=both)
                return True
        return False

    def add(self, launch: CapturedLaunch) -> None:
        """Count a launch as often as it says."""
        counted = launch.launch
        if not self.counts_again(launch.kernel, counted.grid, launch.by_parameter, counted.count):
            self.launches.append(launch)

    def inside_graph(self) -> Recording:
        """Return a record of what a CUDA graph captures; all but the launches is this one's."""
        return replace(self, launches=[], arguments={})

    def notes(self) -> tuple[str, ...]:
        """`spaces` and `remarks` as sentences."""
        tuned = [space.sentence() for space in self.spaces.values() if len(space.configs) > 1]
        return (*self.unanalysed, *tuned, *self.remarks)


_recordings = Stack[Recording]()


def current_recording() -> Recording | None:
    """Return the innermost recording."""
    return _recordings[-1] if _recordings else None


def current_steps() -> Steps | None:
    """Return the steps of the innermost recording, if it wants them."""
    return _recordings[-1].steps if _recordings else None


@contextlib.contextmanager
def recording_launches(
    params: Mapping[str, Value],
    steps: Steps | None = None,
    skipped: frozenset[Choice] = frozenset(),
    every_choice: bool = False,
) -> Iterator[Recording]:
    """Record launches.

    Args:
        params: values that an autotuned kernel's configuration must match, as far as it tunes them;
            empty takes the first configuration.
        steps: also records launches and autotuners that take stand-ins.
        skipped: choices that autotuners pass over.
        every_choice: as in `Recording`.

    Yields:
        The record so far.
    """
    record = Recording(params, skipped, steps=steps, every_choice=every_choice)
    with recording_into(record):
        yield record


def recording_into(record: Recording) -> contextlib.AbstractContextManager[Recording]:
    """Record launches into a record."""
    return _recordings.holding(record)


def add_remark(sentence: str) -> None:
    """Add a sentence for the reader to the current recording."""
    if _recordings:
        _recordings[-1].remarks.setdefault(sentence)
