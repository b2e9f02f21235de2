"""Every error that SolKit raises on purpose, in one tree.

::

    SolkitError
    ├── InputError                  the user's input is at fault (exit code 2)
    │   ├── KernelFileError         a kernel file: names the file, the line and what was expected
    │   ├── UnknownDeviceError      a GPU that the catalogue lacks: names similar ones
    │   ├── ShapeError              a --shape that does not fit the problem
    │   ├── ParamsError             --params that do not fit the kernel
    │   └── NotRecordedError        a configuration that a recorded bench does not have
    ├── UnsupportedError            valid input that SolKit cannot handle on this machine
    │   ├── MissingLibraryError     a library of an extra is not installed: names the extra
    │   ├── CountersError           Nsight Compute failed: says why and what helps
    │   ├── MemoryLimitError        a problem does not fit into the GPU's memory: what it needs
    │   └── GpuBusyError            another SolKit process is measuring on the GPU: names it
    ├── ProposerError               a proposer cannot go on
    │   ├── BudgetSpentError        what a model may cost is spent
    │   └── ModelGoneError          a model gives no text, however often it is asked
    ├── TraceError                  a measurement could not be saved: names the file
    │   └── StorageError            a database of studies does not answer: names it
    └── WorkerError                 a child process of SolKit failed
        ├── ClusterLostError        the head of a Ray cluster is gone: names its address
        └── JobDiedError            user code exited, crashed its process, or ran out of time

A message names the bad value, its place, and the valid choices.
"""

from __future__ import annotations


class SolkitError(Exception):
    """Base of every error that SolKit raises on purpose."""


class InputError(SolkitError):
    """The user's input is at fault; the command line exits with 2."""


class KernelFileError(InputError):
    """A kernel file that cannot be used.

    Args:
        message: what is wrong and what was expected.
        path: the file.
        line: the faulty line, if known.
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
    """A configuration that a recorded bench does not have; names it and what is recorded."""


class UnsupportedError(SolkitError):
    """Valid input that SolKit cannot handle on this machine."""


class MissingLibraryError(UnsupportedError):
    """A library of one of SolKit's extras is not installed.

    Args:
        message: which extra brings it.
        module: its module.
    """

    def __init__(self, message: str, module: str) -> None:
        self.message, self.module = message, module
        super().__init__(message, module)

    def __str__(self) -> str:
        return self.message


class CountersError(UnsupportedError):
    """Nsight Compute is missing, lacks permission to read the GPU's counters, or failed."""


class MemoryLimitError(UnsupportedError):
    """A problem does not fit into the GPU's memory; says what it needs and what there is."""


class GpuBusyError(UnsupportedError):
    """Another SolKit process kept the GPU for longer than this one waits."""


class ProposerError(SolkitError):
    """A proposer cannot go on: `solkit.tuner.proposers`."""


class BudgetSpentError(ProposerError):
    """The budget of a model is spent, or the next call might exceed it."""


class ModelGoneError(ProposerError):
    """The model gives no text, however often it is asked."""


class TraceError(SolkitError):
    """A measurement could not be saved; earlier ones are intact."""


class StorageError(TraceError):
    """A database of studies does not answer, or cannot be written; what it holds is intact."""


class WorkerError(SolkitError):
    """A child process of SolKit failed or gave an invalid answer."""


class ClusterLostError(WorkerError):
    """The head of a Ray cluster is gone, and all of its GPUs with it."""


class JobDiedError(WorkerError):
    """A job's process ended without an answer: its user code crashed, exited or hung.

    Args:
        message: how it ended.
        timed_out: whether it was killed at its time limit.
        ran_out_of_cpu: whether that was a limit of CPU time, which it had set itself.
    """

    def __init__(self, message: str, timed_out: bool = False, ran_out_of_cpu: bool = False) -> None:
        self.message, self.timed_out = message, timed_out
        self.ran_out_of_cpu = ran_out_of_cpu
        super().__init__(message, timed_out, ran_out_of_cpu)

    def __str__(self) -> str:
        return self.message
