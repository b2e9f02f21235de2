"""Every error that SolKit raises on purpose, in one tree.

::

    SolkitError
    ├── InputError                  the user's input is at fault (exit code 2)
    │   ├── KernelFileError         a kernel file: names the file, the line and what was expected
    │   ├── UnknownDeviceError      a GPU that the catalogue lacks: names the near matches
    │   ├── ShapeError              a --shape that does not fit the problem
    │   ├── ParamsError             --params that do not fit the kernel
    │   └── NotRecordedError        a configuration that a recorded bench does not hold
    ├── UnsupportedError            well-formed input that SolKit cannot do on this machine
    │   ├── CountersError           Nsight Compute could not count: says why and what helps
    │   └── GpuBusyError            another SolKit measures on the GPU: names it
    ├── TraceError                  a measurement could not be written down: names the file
    └── WorkerError                 a child process of SolKit failed
        └── JobDiedError            user code ended its process, crashed it, or ran out of time

A message names the bad value, where it stands, and the valid choices.
"""

from __future__ import annotations

__all__ = [
    "CountersError",
    "GpuBusyError",
    "InputError",
    "JobDiedError",
    "KernelFileError",
    "NotRecordedError",
    "ParamsError",
    "ShapeError",
    "SolkitError",
    "TraceError",
    "UnknownDeviceError",
    "UnsupportedError",
    "WorkerError",
]


class SolkitError(Exception):
    """Base of every error that SolKit raises on purpose."""


class InputError(SolkitError):
    """The user's input is at fault; the command line exits with 2."""


class KernelFileError(InputError):
    """A kernel file that cannot be used.

    Args:
        message: what is wrong and what was expected.
        path: the file.
        line: the line in that file, where one is to blame.
    """

    def __init__(self, message: str, path: str, line: int | None = None) -> None:
        self.message, self.path, self.line = message, path, line
        super().__init__(message, path, line)

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


class UnknownDeviceError(InputError):
    """No such GPU in the catalogue."""


class ShapeError(InputError):
    """A shape override that names no size of the problem, or has a bad value."""


class ParamsError(InputError):
    """Candidate parameters that the kernel does not take."""


class NotRecordedError(InputError):
    """A configuration that a recorded bench does not hold; names it and what is recorded."""


class UnsupportedError(SolkitError):
    """Well-formed input that SolKit cannot handle on this machine."""


class CountersError(UnsupportedError):
    """Nsight Compute is not here, may not read the GPU's counters, or failed to."""


class GpuBusyError(UnsupportedError):
    """Another SolKit measured on the GPU for longer than this one would wait."""


class TraceError(SolkitError):
    """A measurement could not be written down; what was written before is intact."""


class WorkerError(SolkitError):
    """A child process of SolKit failed or answered nonsense."""


class JobDiedError(WorkerError):
    """A job's process ended with no answer: the user code in it crashed, left, or hung.

    Args:
        message: how it ended.
        timed_out: whether it was killed because its time was up.
    """

    def __init__(self, message: str, timed_out: bool = False) -> None:
        self.message, self.timed_out = message, timed_out
        super().__init__(message, timed_out)

    def __str__(self) -> str:
        return self.message
