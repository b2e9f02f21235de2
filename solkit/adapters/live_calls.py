"""Triton launches of unmodified code as they are asked for: kernel, grid, arguments.

The only module that touches `JITFunction.run` where kernels may really run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from solkit.adapters.triton_compiler import warn_if_untested
from solkit.adapters.triton_writes import may_write

__all__ = ["RequestedLaunch", "asked_launches"]

_NUM_WARPS, _NUM_STAGES = 4, 3
"""Triton's defaults on NVIDIA GPUs."""


@dataclass(frozen=True)
class RequestedLaunch:
    """One call of a ``@triton.jit`` kernel.

    Attributes:
        kernel: the `JITFunction`.
        grid: as given: a tuple, or a function of the parameters.
        values: every parameter of the kernel with its value, in the order declared.
        constants: names of those that are ``tl.constexpr``.
        options: ``num_warps``, ``num_stages`` and other options of the compiler.
    """

    kernel: Any
    grid: Any
    values: Mapping[str, Any]
    constants: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.fn.__name__)

    def may_write(self, parameter: str) -> bool:
        """Tell whether the kernel may write to what a parameter points to."""
        return may_write(self.kernel, parameter)


@contextlib.contextmanager
def asked_launches(runs: bool) -> Iterator[list[RequestedLaunch]]:
    """Note every launch within the ``with`` block, except timing ones of Triton's autotuner.

    Args:
        runs: whether they are launched as well. Without a GPU they cannot be.

    Yields:
        The launches so far.
    """
    warn_if_untested()
    launches: list[RequestedLaunch] = []
    run, bench = JITFunction.run, Autotuner._bench
    JITFunction.run = _note_launches(launches, run if runs else None)
    Autotuner._bench = _hide_benchmarks(launches, bench, runs)
    try:
        yield launches
    finally:
        JITFunction.run, Autotuner._bench = run, bench


def _note_launches(launches: list[RequestedLaunch], original: Callable[..., Any] | None) -> Any:
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            launches.append(_requested_launch(self, grid, args, kwargs))
        return (
            None if original is None else original(self, *args, grid=grid, warmup=warmup, **kwargs)
        )

    return run


def _hide_benchmarks(launches: list[RequestedLaunch], original: Any, runs: bool) -> Any:
    def bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not runs:
            return [1.0, 1.0, 1.0]  # the first configuration is as good as any
        before = len(launches)
        try:
            return original(self, *args, **kwargs)
        finally:
            del launches[before:]

    return bench


def _requested_launch(
    kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> RequestedLaunch:
    names = {param.name for param in kernel.params}
    bound = kernel.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
    bound.apply_defaults()
    options = {k: v for k, v in kwargs.items() if k not in names}
    options = {"num_warps": _NUM_WARPS, "num_stages": _NUM_STAGES, **options}
    constants = tuple(param.name for param in kernel.params if param.is_constexpr)
    return RequestedLaunch(kernel, grid, dict(bound.arguments), constants, options)
