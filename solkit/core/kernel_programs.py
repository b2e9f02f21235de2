"""Text of a launched kernel with that of all it calls, and meanings of the names in it.

It says all that a launch says before anything is compiled, so that a kernel can be followed without
its files: where a function is defined, and under which name it is imported, does not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from solkit.core.values import Value

Role = Literal["", "input", "output", "temporary"]
"""Part that a tensor plays in a call; empty if unknown."""


@dataclass(frozen=True)
class TensorLayout:
    """A tensor that a kernel gets, without its place in memory.

    Attributes:
        dtype: of an element, in Triton's notation: ``"bf16"``.
        element_bytes: size of an element.
        shape, strides: in elements; a descriptor's are its own.
        offset_elements: of the first element in its storage.
        storage_bytes: size of the storage.
        alignment_bytes: largest power of two, up to 128, that divides the offset of its first
            element; allocations are aligned to more.
        storage: number of the storage among those of the call, by first appearance; views share it.
        role: part of the storage in the call.
        place: number of the input or output, in order; -1 for others.
        is_written: whether the kernel may write to it.
        block: block shape of a TMA descriptor; empty for a pointer.
        contents: integers of the storage, from its first element, `contents_step` elements apart;
            empty if unknown.
        contents_step: distance between neighbours in `contents`.
    """

    dtype: str
    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset_elements: int = 0
    storage_bytes: int = 0
    alignment_bytes: int = 128
    storage: int = 0
    role: Role = ""
    place: int = -1
    is_written: bool = False
    block: tuple[int, ...] = ()
    contents: tuple[int, ...] = ()
    contents_step: int = 1


@dataclass(frozen=True)
class Binding:
    """Meaning of a name: an argument of a launch, a constant of a module, a function, a type.

    Attributes:
        kind: ``"constant"`` (known to the compiler), ``"scalar"`` (known to the launch),
            ``"tensor"``, ``"function"`` (of the program), ``"library"`` (a function that comes with
            Triton or Python), ``"type"``, ``"items"`` (a tuple or list) or ``"unknown"``.
        value: number, boolean, text or ``None``; of a constant or scalar.
        text: key in `KernelProgram.functions`; qualified name (``"triton.language.core.load"``); or
            type in Triton's notation (``"fp16"``).
        tensor: the tensor.
        items: of a tuple or list.
    """

    kind: Literal[
        "constant", "scalar", "tensor", "function", "library", "type", "items", "unknown"
    ] = "unknown"
    value: Value = None
    text: str = ""
    tensor: TensorLayout | None = None
    items: tuple[Binding, ...] = ()


@dataclass(frozen=True)
class KernelFunction:
    """One function that runs on the GPU.

    Attributes:
        source: its text, from ``def`` on.
        names: meanings of the names that it does not define itself, as they are written, with dots:
            ``"tl.load"``, ``"LOG2E"``.
    """

    source: str
    names: Mapping[str, Binding] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionOrigin:
    """Place of a function in a program; Triton's cache tells functions apart by their line.

    Attributes:
        module: that defines it.
        line: of its file on which it begins, decorators with it.
        key: what Triton knew it by in the recorded process; empty if it was not asked.
    """

    module: str
    line: int
    key: str = ""


@dataclass(frozen=True)
class KernelProgram:
    """Functions that a launch runs.

    Attributes:
        entry: key of the launched function.
        functions: by key: the launched function and all that it calls, but for Triton's own.
    """

    entry: str
    functions: Mapping[str, KernelFunction] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the texts and of all meanings, in hex: it has no paths and no versions."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
