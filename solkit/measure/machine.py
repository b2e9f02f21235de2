"""What a candidate runs on, as far as measuring it is concerned."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

import torch

from solkit.core import KernelAnalysis
from solkit.errors import UnsupportedError
from solkit.measure.clocks import ClockSampler
from solkit.measure.sampling import Timer
from solkit.measure.timing import CuptiTimer, EventTimer, L2Flush

__all__ = ["CpuMachine", "CudaMachine", "Machine"]


class Machine(Protocol):
    """What a candidate runs on.

    Attributes:
        device: where its inputs are made.
    """

    device: str

    def synchronize(self) -> None:
        """Wait for all that was launched; raises what went wrong in it."""
        ...

    def timers(self) -> tuple[Sequence[Timer], str]:
        """Ways of timing, best first, and how they flush L2, in words.

        Raises:
            UnsupportedError: there are none.
        """
        ...

    def clock(self) -> ClockSampler:
        """A sampler of the SM clock."""
        ...

    def recording(self) -> contextlib.AbstractContextManager[list[KernelAnalysis]]:
        """Lists the Triton launches made inside a ``with`` block."""
        ...


class CudaMachine:
    """The one GPU that this process sees.

    Raises:
        UnsupportedError: it sees none.
    """

    device = "cuda"

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
            raise UnsupportedError(
                f"torch {torch.__version__} ({built}) sees no CUDA device to measure on"
            )

    def synchronize(self) -> None:
        """See `Machine`."""
        torch.cuda.synchronize()

    def timers(self) -> tuple[Sequence[Timer], str]:
        """See `Machine`."""
        flush = L2Flush()
        return (CuptiTimer(flush), EventTimer(flush)), flush.description

    def clock(self) -> ClockSampler:
        """See `Machine`."""
        return ClockSampler(f"GPU-{torch.cuda.get_device_properties().uuid}")

    def recording(self) -> contextlib.AbstractContextManager[list[KernelAnalysis]]:
        """See `Machine`."""
        from solkit.adapters import live_triton  # patches triton: only where it is wanted

        return live_triton.recording()


class CpuMachine:
    """No GPU: candidates can be checked, but a CPU's time is never passed off as a GPU's."""

    device = "cpu"

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def timers(self) -> tuple[Sequence[Timer], str]:
        """There are none; raises `UnsupportedError`."""
        raise UnsupportedError("only a CUDA device can be timed")

    def clock(self) -> ClockSampler:
        """There is none; raises `UnsupportedError`."""
        raise UnsupportedError("only a CUDA device has an SM clock")

    def recording(self) -> contextlib.AbstractContextManager[list[KernelAnalysis]]:
        """Nothing is launched."""
        return contextlib.nullcontext([])
