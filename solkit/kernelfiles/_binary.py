"""A kernel as a ``.cubin`` or ``.ptx``, and a small description of how to launch it.

The description is that of a Triton kernel (`solkit.kernelfiles._triton`) with threads::

    # k.launch.toml, beside k.cubin
    sizes = { N = 1048576 }
    args = { x = "fp32[N]", out = "fp32[N]", n = "N" }     # in the order of the parameters
    outputs = ["out"]
    grid = ["cdiv(N, 1024)"]
    block = [256]
    kernel = "add"                                         # where the file has several
    cluster = [2]                                          # optional
    shared_bytes = 0                                       # optional: besides what it declares

The parameter ``launch`` (``--launch`` of the command line) has the same in one line, with arguments
by their places::

    grid=1024; block=256; args=fp32[1048576], fp32[1048576], 1048576; outputs=1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from solkit.adapters.binary_kernels import BinaryLaunch, launch, read_binary
from solkit.core import Value
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles._base import Workload
from solkit.kernelfiles._source import import_file, import_text
from solkit.kernelfiles._triton import LAUNCH_KEYS, TritonKernel

_KEYS = LAUNCH_KEYS | {"block", "cluster", "shared_bytes"}
_IN_A_LINE = ("args", "block", "cluster", "grid", "kernel", "outputs", "shared_bytes")
_COMMA = re.compile(r",(?![^\[]*\])")
_PARAMETER = "launch"
_POINTER_BYTES, _AXES = 8, 3
_UNDESCRIBED: dict[str, Any] = {
    "args": {},
    "grid": [1],
    "outputs": (),
    "constants": {_PARAMETER: ""},
}
"""The description of a binary whose launch is not known until `_PARAMETER` says it."""


def load_binary(path: str, reference: str | None = None) -> BinaryFile:
    """Read a binary, and the file with its reference, if any.

    Raises:
        KernelFileError: either cannot be used.
    """
    module = import_text("", path)
    return BinaryFile(module, import_file(reference) if reference is not None else module)


def parse_launch(text: str, path: str) -> dict[str, Any]:
    """Return a launch in one line as a description.

    Args:
        text: parts ``name=value``, a semicolon between them.
        path: of the binary, for messages.

    Raises:
        KernelFileError: a part is not understood, or is missing; names the valid ones.
    """
    parts: dict[str, str] = {}
    for part in filter(str.strip, re.split(r"[;\n]", text)):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in _IN_A_LINE or not equals:
            valid = f"expected NAME=VALUE of: {', '.join(_IN_A_LINE)}"
            raise KernelFileError(f"--launch has {part.strip()!r}; {valid}", path)
        parts[name] = value
    listed = [value.strip() for value in _COMMA.split(parts.get("args", "")) if value.strip()]
    written = [value.strip() for value in parts.get("outputs", "").split(",") if value.strip()]
    described: dict[str, Any] = {
        "args": {f"p{place}": value for place, value in enumerate(listed)},
        "outputs": [f"p{value}" if value.isdigit() else value for value in written],
        "grid": _numbers(parts.get("grid", "1")),
    }
    for name in ("kernel", "shared_bytes", "cluster", "block"):
        if name in parts:
            described[name] = parts[name] if name == "kernel" else _numbers(parts[name])
    return described


def _numbers(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,x]", text)]


class BinaryFile(TritonKernel):
    """One kernel of a binary with its launch description."""

    keys = _KEYS
    form = "binary"

    def _description(self) -> dict[str, Any]:
        if not self._description_path().is_file():
            return _UNDESCRIBED
        return super()._description()

    def _find_kernel(self) -> tuple[str, Any]:
        is_described = self._launch is not _UNDESCRIBED
        binary = read_binary(self._path, self._launch.get("kernel"), any_entry=not is_described)
        return binary.entry, binary

    def _check_names(self) -> None:
        """Check that as many arguments are described as the kernel takes, and which it writes."""
        described, sizes = self._launch["args"], self._jit.parameter_sizes()
        if described and len(sizes) != len(described):
            raise KernelFileError(
                f"{self._name} takes {self._taken()}, the launch description has {len(described)}",
                self._path,
            )
        for (name, spec), size in zip(described.items(), sizes):
            if "[" in str(spec) and size < _POINTER_BYTES:
                taken = f"{self._name} takes {size} bytes there, and a tensor's address has 8"
                raise KernelFileError(f"argument {name} is {spec!r}; {taken}", self._path)
        for name in self._outputs:
            if name not in described:
                valid = ", ".join(described) or "none"
                message = f"the output {name!r} is no argument; they are: {valid}"
                raise KernelFileError(message, self._path)

    def _taken(self) -> str:
        sizes = self._jit.parameter_sizes()
        return f"{len(sizes)} arguments (of {', '.join(map(str, sizes))} bytes)"

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`."""
        own = dict(params or {})
        text = str(own.pop(_PARAMETER, "") or "")
        if text:
            self._launch = parse_launch(text, self._path)
            self._outputs = tuple(self._launch["outputs"])
            self._name, self._jit = self._find_kernel()
            self._check_names()
        if self._launch is _UNDESCRIBED:
            beside = f"{self._description_path().name} beside it"
            raise ParamsError(
                f"{self._path} needs a launch: {beside}, or of solkit score --launch "
                "'grid=1024; block=256; args=fp32[1048576], fp32[1048576], 1048576; outputs=1'. "
                f"{self._name} takes {self._taken()}"
            )
        return super().workload(shape, own, device)

    def _launcher(
        self, grid: Callable[[Mapping[str, Any]], tuple[int, ...]], constants: Mapping[str, Value]
    ) -> Callable[[Mapping[str, Any]], None]:
        blocks = self._axes("grid", grid({}))
        scope = {**self.description.problem.sizes, **constants}
        block = self._triple("block", scope)
        cluster = self._triple("cluster", scope)
        (shared,) = self._evaluated(self._launch.get("shared_bytes", 0), scope)
        how = BinaryLaunch(blocks, block, cluster, shared)
        order = list(self._launch["args"])
        return lambda arguments: launch(self._jit, how, {name: arguments[name] for name in order})

    def _triple(self, key: str, scope: Mapping[str, Value]) -> tuple[int, int, int]:
        value = self._launch.get(key)
        if value is None:
            value = self._jit.threads() if key == "block" else self._jit.cluster() or (1, 1, 1)
        if value is None:
            raise KernelFileError(
                f"the launch description lacks {key}, and {self._name} takes any number of threads",
                self._path,
            )
        return self._axes(key, tuple(self._evaluated(value, scope)))

    def _axes(self, key: str, sizes: tuple[int, ...]) -> tuple[int, int, int]:
        if not 0 < len(sizes) <= _AXES or min(sizes) < 1:
            listed = ", ".join(map(str, sizes))
            message = f"the launch has {key} = {listed}; expected one to three positive numbers"
            raise KernelFileError(message, self._path)
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def _evaluated(self, value: Any, scope: Mapping[str, Value]) -> Iterator[int]:
        listed = value if isinstance(value, (list, tuple)) else [value]
        return (int(self._evaluate(part, scope)) for part in listed)
