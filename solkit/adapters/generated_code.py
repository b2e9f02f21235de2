"""Launches of kernels whose language makes the device code itself, and who is told of them.

TileLang writes CUDA C++ and CuTe DSL writes PTX and a cubin, each for one device. Their adapters
give `GeneratedLaunch` records; `solkit.analysis.cuda` takes them as launches of extensions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from solkit.adapters.launch_recording import Argument
from solkit.core.stack import Stack


@dataclass(frozen=True)
class GeneratedCode:
    """Device code that a language made for the device at hand.

    Attributes:
        language: its name, for people.
        text: CUDA C++ for NVRTC; empty if the language compiles by itself.
        options: NVRTC's, without the architecture.
        ptx, cubin: of a language that compiles by itself.
    """

    language: str
    text: str = field(default="", repr=False)
    options: tuple[str, ...] = ()
    ptx: str = field(default="", repr=False)
    cubin: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class GeneratedLaunch:
    """A launch of generated code.

    Attributes:
        kernel: its name in the code.
        name: its name for people.
        code: the code.
        grid, block, cluster: blocks, threads of a block, blocks of a cluster, each in x, y and z.
        shared_bytes: dynamic shared memory.
        line: ``file:line`` of the user's that launches it.
        parameters: names, as far as they are known.
        arguments: in the order of the kernel's parameters.
        encodings: what ``cuTensorMapEncodeTiled`` gets behind the descriptor, by parameter: type,
            rank, then sizes, strides in bytes, box and steps, then four settings. Only of
            descriptors that are not bytes among the arguments.
    """

    kernel: str
    name: str
    code: GeneratedCode
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    line: str
    parameters: tuple[str, ...]
    arguments: tuple[Argument, ...]
    encodings: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


_receivers = Stack[Callable[[GeneratedLaunch], None]]()


def generated_launches(
    receiver: Callable[[GeneratedLaunch], None],
) -> contextlib.AbstractContextManager[object]:
    """Tell `receiver` of the launches of generated code that are made inside."""
    return _receivers.holding(receiver)


def launch_generated(launch: GeneratedLaunch) -> None:
    """Tell the innermost receiver of a launch; without one, nothing is recorded."""
    if _receivers:
        _receivers[-1](launch)
