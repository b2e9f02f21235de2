"""Traces built by hand, in the form that Kineto writes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85018279936}
THREAD = {"pid": 100, "tid": 100}


class Builder:
    """A trace; each method adds an event, times are in microseconds."""

    def __init__(self, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.gpus: list[dict[str, Any]] = [H100]
        self._folder = folder
        self._ids = 0

    def op(
        self, name: str, start: float, end: float, *tensors: tuple[str, list[int]], **more: Any
    ) -> int:
        """An op on contiguous tensors ``(type, shape)``; gives its id."""
        args: dict[str, Any] = {"External id": self._next()}
        if tensors or "scalars" in more:
            scalars = more.pop("scalars", ())
            args |= {
                "Input Dims": [*(shape for _, shape in tensors), *([] for _ in scalars)],
                "Input type": [*(kind for kind, _ in tensors), *("Scalar" for _ in scalars)],
                "Input Strides": [*(_strides(s) for _, s in tensors), *([] for _ in scalars)],
                "Concrete Inputs": [*("" for _ in tensors), *map(str, scalars)],
            }
        self._add("cpu_op", name, start, end, args | more.pop("args", {}), **more)
        return args["External id"]

    def kernel(
        self,
        start: float,
        end: float,
        *,
        launch: float | None = None,
        op: int = 0,
        name: str = "void kernel<float>(int)",
        stream: int = 7,
        call: str = "cudaLaunchKernel",
        call_us: float = 1.0,
        category: str = "kernel",
        device: int = 0,
        **more: Any,
    ) -> None:
        """A kernel, and, where `launch` says when, the call that launched it."""
        args = {"device": device, "stream": stream, "correlation": 0}
        if launch is not None:
            args["correlation"] = self._next()
            own = {"correlation": args["correlation"]} | ({"External id": op} if op else {})
            self._add("cuda_runtime", call, launch, launch + call_us, own, **more)
        if op:
            args["External id"] = op
        self._add(category, name, start, end, args, pid=device, tid=stream)

    def wait(self, start: float, end: float, name: str = "cudaDeviceSynchronize") -> None:
        """A call of the host that waits."""
        self._add("cuda_runtime", name, start, end, {"correlation": self._next()})

    def step(self, number: int, start: float, end: float) -> None:
        """A step of the profiler's schedule."""
        self._add("user_annotation", f"ProfilerStep#{number}", start, end, {})

    def write(self, name: str = "trace.json", **more: Any) -> str:
        """The trace as a file; gives its path."""
        text = json.dumps({"deviceProperties": self.gpus, **more, "traceEvents": self.events})
        path = self._folder / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def _add(
        self, category: str, name: str, start: float, end: float, args: Any, **more: Any
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "ts": start, "dur": end - start}
        self.events.append(event | THREAD | {"args": args} | more)


def _strides(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


@pytest.fixture
def trace(tmp_path: Path) -> Builder:
    """An empty trace of an H100."""
    return Builder(tmp_path)
