"""Kernels that Triton does not compile, in the place of Triton's functions.

A language with a compiler of its own supplies a `ForeignKernel` as `Specialisation.function`. Its
launches are then recorded, compiled, followed and measured like Triton's: it says what its compiler
makes, and that as Triton's GPU IR, so that no second follower is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from solkit.core import Device
from solkit.core.kernel_programs import KernelProgram

if TYPE_CHECKING:
    from solkit.adapters.triton_compiler import Compiled, Specialisation


class ForeignKernel(ABC):
    """One kernel function of another language.

    Attributes:
        fn: the Python function.
        language: its name, for a reader.
    """

    fn: Any
    language: str

    @property
    def __name__(self) -> str:
        """The function's name."""
        return str(self.fn.__name__)

    @abstractmethod
    def compile(self, kernel: Specialisation, device: Device) -> Compiled:
        """Compile one specialisation of it for a device.

        A compiler that is not here, or makes no code for the device, is `Compiled.unread`: that is
        no error of the kernel's.
        """

    @abstractmethod
    def program(self) -> KernelProgram:
        """Return its text."""

    @abstractmethod
    def may_write(self, parameter: str) -> bool:
        """Tell whether it may write through a parameter; True if that is not understood."""
