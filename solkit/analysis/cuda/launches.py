"""Launches of CUDA extensions, as a candidate makes them on fake tensors."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from solkit.adapters import fake_cuda
from solkit.adapters.generated_code import GeneratedCode, GeneratedLaunch, generated_launches
from solkit.adapters.launch_recording import tensors_of
from solkit.analysis.cuda.host import HostCall, HostError, HostLaunch, call_host, is_unknown
from solkit.analysis.cuda.source import Source, declared_name
from solkit.core import Launch
from solkit.errors import UnsupportedError

_WARP_THREADS = 32
_MOST_ALIKE = 4
"""Launches that differ only in integers and are followed separately, which takes time."""


@dataclass(frozen=True)
class CudaLaunch:
    """A launch of a CUDA C++ kernel, or of code that another language made.

    Attributes:
        host: the launch in the host code.
        source: the kernel's.
        flags: the user's compiler options.
        count: launches with the same integers, whatever the tensors' addresses.
        generated: what the language gave; ``None`` for CUDA C++.
    """

    host: HostLaunch
    source: Source | GeneratedCode
    flags: tuple[str, ...]
    count: int = 1
    generated: GeneratedLaunch | None = field(default=None, compare=False)

    @classmethod
    def of_generated(cls, launch: GeneratedLaunch) -> CudaLaunch:
        """Return a launch of generated code as one of CUDA C++."""
        host = HostLaunch(
            launch.kernel, launch.grid, launch.block, launch.shared_bytes, launch.line,
            launch.arguments,
        )  # fmt: skip
        return cls(host, launch.code, (), generated=launch)

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of a cluster in x, y and z."""
        return self.generated.cluster if self.generated is not None else (1, 1, 1)

    @property
    def integers(self) -> tuple[int | None, ...]:
        """The integer arguments, with ``None`` in place of the others."""
        return tuple(
            argument if isinstance(argument, int) else None for argument in self.host.arguments
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The kernel's parameters by their names in C++; empty if it is not found."""
        if self.generated is not None or isinstance(self.source, GeneratedCode):
            return self.generated.parameters if self.generated is not None else ()
        function = self.source.functions.get(self.host.kernel.partition("<")[0])
        if function is None:
            return ()
        return tuple(map(declared_name, function.parameters))

    @property
    def launch(self) -> Launch | None:
        """The public noun; ``None`` if grid or block is unknown."""
        grid, block = self.host.grid, self.host.block
        if grid is None or block is None:
            return None
        warps = -(-math.prod(block) // _WARP_THREADS)
        constants = {"block": ", ".join(map(str, block))}
        if math.prod(self.cluster) > 1:
            constants["cluster"] = ", ".join(map(str, self.cluster))
        name = self.generated.name if self.generated is not None else self.host.kernel
        return Launch(name, grid, warps, 1, constants=constants, count=self.count)


@dataclass
class CudaRecording:
    """Record of what was seen between entering and leaving `recording`.

    Attributes:
        launches: each distinct launch once, in the order of their first appearance.
        remarks: notes, an ordered set of sentences.
        files: that hold the extensions' sources; likewise.
        unseen: whether host code calls what is not analysed.
        merged: the storages of launches that are counted among others.
    """

    launches: list[CudaLaunch] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    unseen: bool = False
    merged: set[int] = field(default_factory=set)

    def take(self, other: CudaRecording) -> None:
        """Hold what another recording saw, in place of this one's."""
        self.__dict__.update(other.__dict__)

    def answer(
        self,
        extension: fake_cuda.Extension,
        name: str,
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        """Follow a call of an extension's function.

        Args:
            extension: has the function.
            name: Python's.
            args: by position.
            named: by name.

        Raises:
            UnsupportedError: it cannot be followed, or its result is unknown.
        """
        source = Source.of(extension.texts, extension.flags)
        self.files |= dict.fromkeys(file for _, file, _ in extension.texts)
        call = HostCall()
        try:
            function = _bound_to(source, name)
            args = _in_order(source, name, function, args, named)
            call_host(source, function, args, call)
        except HostError as error:
            raise UnsupportedError(f"{name} of a CUDA extension: {error}") from error
        finally:
            self.remarks |= call.unseen | call.remarks
            self.unseen = self.unseen or bool(call.unseen)
            for tensor in args:
                if isinstance(tensor, torch.Tensor):
                    fake_cuda.forget_contents(tensor)  # a kernel may have written to it
            for launch in call.launches:
                self._record(CudaLaunch(launch, source, extension.cuda_flags))
        if is_unknown(call.result):
            missing = ", ".join(list(call.undeclared)[:2])
            why = f": not declared: {missing}" if missing else ""
            raise UnsupportedError(f"{name} of a CUDA extension: its result is not known{why}")
        return call.result

    def answer_generated(self, launch: GeneratedLaunch) -> None:
        """Record a launch of code that a language made."""
        self._record(CudaLaunch.of_generated(launch))

    def _record(self, launch: CudaLaunch) -> None:
        alike = [
            n for n, recorded in enumerate(self.launches) if replace(recorded, count=1) == launch
        ]
        same = [n for n in alike if self.launches[n].integers == launch.integers]
        if not same and len(alike) < _MOST_ALIKE:
            self.launches.append(launch)
            return
        if not same:
            sentence = f"{launch.host.line}: {launch.host.kernel} is launched with more than"
            counted = "sets of integers; the rest is taken to do what the last of them does."
            self.remarks[f"{sentence} {_MOST_ALIKE} {counted}"] = None
        tensors = (t for a in launch.host.arguments for t in tensors_of(a))
        self.merged.update(tensor.storage for tensor in tensors)
        index = (same or alike)[-1]
        self.launches[index] = replace(self.launches[index], count=self.launches[index].count + 1)


def launch_again(launch: CudaLaunch, seen: CudaRecording) -> None:
    """Count a launch in the innermost recording, with the files and remarks of what it is from."""
    if not _recordings:
        return
    into = _recordings[-1]
    into.files |= seen.files
    into.remarks |= seen.remarks
    into.unseen = into.unseen or seen.unseen
    into.merged |= seen.merged
    for _ in range(launch.count):
        into._record(replace(launch, count=1))


_recordings: list[CudaRecording] = []  # a stack


@contextlib.contextmanager
def failing_builds(errors: Mapping[Source, str]) -> Iterator[None]:
    """Let the builds of extensions fail.

    Args:
        errors: the compiler's, by source.
    """
    error_of = lambda extension: errors.get(Source.of(extension.texts, extension.flags), "")  # noqa: E731
    with fake_cuda.failing_builds(error_of):
        yield


@contextlib.contextmanager
def recording(into: CudaRecording | None = None) -> Iterator[CudaRecording]:
    """Follow the functions of CUDA extensions that are called inside; into a new record or one."""
    seen = CudaRecording() if into is None else into
    _recordings.append(seen)
    try:
        with fake_cuda.extension_calls(seen.answer), generated_launches(seen.answer_generated):
            yield seen
    finally:
        _recordings.pop()


_BOUND = r"""\.(?:def|impl)\(\s*"{name}(?:\([^"]*)?"\s*,\s*
    (?:torch::dispatch\([^,]*,\s*|TORCH_FN\(|(?:torch::)?wrap_pybind_function(?:_no_gil)?\(
        |static_cast<.*?>\(|py::overload_cast<.*?>\(|[&(\s])*
    (?:\w+::)*(\w+)"""


def _bound_to(source: Source, name: str) -> str:
    """Return the C++ function behind a name of pybind11; the name itself by default."""
    pattern = _BOUND.replace("{name}", re.escape(name))
    bound = re.search(pattern, source.host_text, re.VERBOSE)
    return bound[1] if bound else name


def _in_order(
    source: Source, name: str, function: str, args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return arguments as C++ gets them: by position.

    Raises:
        HostError: a name is not one of the function's.
    """
    if not named:
        return list(args)
    bound = re.search(rf'\.def\(\s*"{re.escape(name)}"[^;]*', source.host_text)
    listed = re.findall(r'\barg\(\s*"(\w+)"|"(\w+)"_a\b', bound[0] if bound else "")
    names = [first or second for first, second in listed]
    if not names and function in source.functions:
        parameters = source.functions[function].parameters
        names = [declared_name(tokens) for tokens in parameters]
    if unknown := [key for key in named if key not in names[len(args) :]]:
        raise HostError(f"{name} has no argument {unknown[0]}")
    ordered = list(args)
    for key in names[len(args) :]:
        if key not in named:
            break  # the rest has defaults
        ordered.append(named[key])
    return ordered
