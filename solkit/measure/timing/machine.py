"""The machine that a candidate is measured on."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from solkit.core import KernelAnalysis
from solkit.errors import UnsupportedError
from solkit.measure.timing.clocks import ConditionSampler
from solkit.measure.timing.protocols import PROTOCOLS, TimingProtocol
from solkit.measure.timing.sampling import Subject, Timer
from solkit.measure.timing.timers import CuptiTimer, EventTimer, FlushBuffer, L2Flush, capture_graph
from solkit.spans import span

COLD = PROTOCOLS["cold"]
_MOST_IDLE_BYTES = 1 << 30  # that a process's allocator may keep to itself
_WARM_UP_SIZE = 64


class Machine:
    """A machine without a GPU: it checks candidates and times nothing."""

    device = "cpu"  # where inputs are created

    def synchronize(self) -> None:
        """Wait for all launched work; raises its errors."""

    def timers(self, protocol: TimingProtocol = COLD) -> tuple[Sequence[Timer], str]:
        """Return a protocol's timers, best first, and how they flush L2, in words.

        Raises:
            UnsupportedError: there are none: a CPU's time is never reported as a GPU's.
        """
        raise UnsupportedError(f"only a CUDA device can be timed ({protocol.name})")

    def capture_graph(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that replays `work`'s launches from a CUDA graph; here `work`.

        Raises:
            ActivityError: it cannot be captured.
        """
        return work

    def occupy(self, seconds: float) -> None:
        """Queue work that keeps the device busy for that long, at most a few milliseconds."""

    def memory_bytes(self) -> int:
        """Device memory of live tensors, without the machine's own; frees the rest."""
        gc.collect()
        return 0

    def idle_bytes(self) -> int:
        """Device memory that this process's allocator keeps for itself."""
        return 0

    def free_bytes(self) -> float:
        """Device memory that nobody uses."""
        return math.inf

    def total_bytes(self) -> float:
        """Return all device memory."""
        return math.inf

    def make_room(self, needed: float = math.inf) -> None:
        """Give back what this process's allocator keeps for itself, if that is much.

        Other processes, and memory that processes share, cannot take it otherwise. Where `needed`
        bytes are free, nothing is given back.
        """
        if self.idle_bytes() > _MOST_IDLE_BYTES and self.free_bytes() < needed:
            self.empty_cache()

    def empty_cache(self) -> None:
        """Give back all that this process's allocator keeps for itself."""

    def conditions(self) -> ConditionSampler:
        """Return a sampler of clocks and throttle reasons.

        Raises:
            UnsupportedError: there is no GPU.
        """
        raise UnsupportedError("only a CUDA device has an SM clock")

    def recording(self) -> contextlib.AbstractContextManager[list[KernelAnalysis]]:
        """List the Triton launches made inside a ``with`` block."""
        return contextlib.nullcontext([])

    def warm_up(self) -> None:
        """Do once what the first timed call would wait for."""


class CudaMachine(Machine):
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

    @functools.cached_property
    def _buffer(self) -> FlushBuffer:
        return FlushBuffer()

    def timers(self, protocol: TimingProtocol = COLD) -> tuple[Sequence[Timer], str]:
        """See `Machine`. New timers measure the host's time per call again."""
        self._buffer.time_pass()
        flush = L2Flush(self._buffer)
        warm = protocol.l2 != "cold"
        timers: dict[str, Timer] = {
            "cupti": CuptiTimer(flush, warm=warm),
            "events": EventTimer(flush, warm=warm),
            "graph replay": EventTimer(flush, warm=warm, calls=protocol.calls),
        }
        before = "; then an untimed call on other inputs and a read of these: L2 is warm"
        before = before if protocol.l2 == "warm" else ""
        return [timers[name] for name in protocol.timers], self._buffer.description + before

    def capture_graph(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """See `Machine`."""
        return capture_graph(work).replay

    def occupy(self, seconds: float) -> None:
        """See `Machine`."""
        self._buffer.occupy(seconds)

    def memory_bytes(self) -> int:
        """See `Machine`."""
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        own = self._buffer.size if "_buffer" in vars(self) else 0
        return torch.cuda.memory_allocated() - own

    def idle_bytes(self) -> int:
        """See `Machine`."""
        return torch.cuda.memory_reserved() - torch.cuda.memory_allocated()

    def free_bytes(self) -> float:
        """See `Machine`."""
        return float(torch.cuda.mem_get_info()[0])

    def total_bytes(self) -> float:
        """See `Machine`."""
        return float(torch.cuda.mem_get_info()[1])

    def empty_cache(self) -> None:
        """See `Machine`."""
        torch.cuda.empty_cache()

    def conditions(self) -> ConditionSampler:
        """See `Machine`."""
        return ConditionSampler(f"GPU-{torch.cuda.get_device_properties().uuid}")

    def recording(self) -> contextlib.AbstractContextManager[list[KernelAnalysis]]:
        """See `Machine`."""
        from solkit.adapters import live_triton  # patches triton: only when needed

        return live_triton.recording()

    def warm_up(self) -> None:
        """Create the context and the flush buffer, attach the profiler, load cuBLAS and Triton.

        In a new process that takes seconds.
        """
        from solkit.adapters.live_triton import start_driver

        square = torch.ones(_WARM_UP_SIZE, _WARM_UP_SIZE, device=self.device)
        timer = self.timers()[0][0]
        timer.start()
        timer.time(Subject("warm-up", lambda: lambda: square @ square))
        timer.stop()
        start_driver()


def warm_up_machine(device: str, process: str) -> None:
    """Warm up the process's machine; the first candidate meets the errors, and reports them.

    Args:
        device: as for `machine_for`.
        process: role of this process, for spans.
    """
    with span("warming up", process), contextlib.suppress(Exception):
        machine_for(device).warm_up()


@functools.cache
def machine_for(device: str) -> Machine:
    """Return the process's machine of a device: ``"cuda"``, or ``"cpu"``, which times nothing."""
    return Machine() if device == "cpu" else CudaMachine()
