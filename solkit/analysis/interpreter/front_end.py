"""Interface of a kernel language, by which the core follows its kernels thread by thread.

The core has the followed threads, their registers and branches, loops and how far they repeat,
counters, sinks of accesses, the choice of blocks to follow, limits, guesses, and what a launch
requests. A language has a reader of its code (`solkit.analysis.interpreter.control_flow.flow_of`
finds the loops) and a `FrontEnd`: what its instructions compute and which memory they access.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.control_flow import ControlFlow, Instruction
from solkit.analysis.interpreter.storages import Storages
from solkit.analysis.interpreter.thread_groups import Active
from solkit.analysis.interpreter.values import Array, Value

if TYPE_CHECKING:
    from solkit.analysis.interpreter.thread_interpreter import ThreadInterpreter

Operand = Union[str, Array, None]
"""A register's name, a value that is the same each time, or ``None`` if unknown."""

SharedAccesses = Iterable[tuple[Instruction, Value, Active]]
"""Accesses of shared memory by a piece of code: what makes each, where, and which threads."""

WINDOWS = {"shared": 1 << 17, "local": (1 << 17) + 1, "const": (1 << 17) + 2}
"""Storage numbers of generic addresses outside global memory; see `ADDRESS_BITS`."""

UNFOLLOWED = {
    "const": "what is read of constant memory is not counted",
    "local": "an array in local memory is counted as spilled registers are",
}
"""Memory whose accesses are not followed, and what is assumed of it."""


class Motion(enum.Enum):
    """Movement of a result while the operands of an instruction move by constant steps."""

    STEADY = enum.auto()
    """By a constant step, or it is a flag."""
    PERIODIC = enum.auto()
    """By a constant step after some iterations; see `FrontEnd.period`."""
    IRREGULAR = enum.auto()


@dataclass(frozen=True, eq=False)
class ValueStep:
    """Computation of an instruction's results.

    Attributes:
        operands: of `compute`.
        compute: gives the result from the operands' values, or a tuple of results. Each value has
            the shape [blocks, threads]. ``None`` if it is not known how.
        takes_unknown: whether it is also called with operands of which some are ``None``.
        comparison: ``"lt"``, ``"eq"`` and the like, if it compares its first two operands, or
            picks one of them in this way.
        compared: gives those two as numbers with signs.
        joins_flags: whether it is true only if both operands are: of two flags, one that is unknown
            is assumed to be set.
    """

    operands: tuple[Operand, ...] = ()
    compute: Callable[..., Value | tuple[Value, ...]] | None = None
    takes_unknown: bool = False
    comparison: str = ""
    compared: Callable[[Array, Array], tuple[Array, Array]] = lambda a, b: (a, b)
    joins_flags: bool = False


@dataclass(frozen=True, eq=False)
class Bulk:
    """Global memory that the bulk copies of some threads touch.

    Attributes:
        corner: where each starts, of shape [blocks, threads].
        pieces: gives for one thread the addresses of its pieces, of `MemoryUse.width_bytes` each,
            and which of them there are, both of shape [blocks, pieces].
    """

    corner: Array
    pieces: Callable[[int], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class AccessStep:
    """Access of memory by an instruction.

    Attributes:
        space: ``"global"``, ``"shared"``, ``"local"``, ``"const"`` or ``"parameter"``; empty if its
            address decides, as `WINDOWS` says.
        address: register or value, without the offset.
        offset: bytes behind it.
        copy_address, copy_offset: the same in shared memory, where data are copied to.
        parameter: gives the value of kernel parameters, or several of a vector's.
        loaded_bits: of the integer that it loads; 0 if it loads none.
        is_partial: whether it may access less than its width says.
        rows: gives the addresses of the requests that it consists of, if these are several.
        bulk: gives what it touches if each thread copies a row or tile alone; ``None`` if that is
            not known.
    """

    space: str = "global"
    address: Operand = None
    offset: int = 0
    copy_address: Operand = None
    copy_offset: int = 0
    is_copy: bool = False
    parameter: Callable[[ThreadInterpreter], Value | tuple[Value, ...]] = lambda _: None
    loaded_bits: int = 0
    is_partial: bool = False
    rows: Callable[[ThreadInterpreter, Array], Iterator[Array]] | None = None
    bulk: Callable[[ThreadInterpreter], Bulk | None] | None = None


@dataclass(frozen=True)
class Cost:
    """Cost of an instruction.

    Attributes:
        lane_operations: of each thread by pipe, under the keys of `solkit.core.Device.ceilings`.
        warp_operations: of each warp, likewise.
        is_issued: whether it becomes an instruction of the machine.
        is_barrier: whether all warps of a block wait for each other.
    """

    lane_operations: Mapping[str, float] = field(default_factory=dict)
    warp_operations: Mapping[str, float] = field(default_factory=dict)
    is_issued: bool = True
    is_barrier: bool = False


class FrontEnd(ABC):
    """A kernel of some language as it is launched.

    Args:
        flow: its code.
        storages: of the tensors and variables in global memory.
    """

    def __init__(self, flow: ControlFlow, storages: Storages) -> None:
        self.flow = flow
        self.storages = storages

    @abstractmethod
    def value_step(self, instruction: Instruction, threads: ThreadInterpreter) -> ValueStep:
        """Return how a relevant result is computed; called once an instruction.

        Args:
            instruction: of the code.
            threads: the followed ones, which say where in the launch they are.
        """

    @abstractmethod
    def access_step(self, instruction: Instruction, threads: ThreadInterpreter) -> AccessStep:
        """Return the access of an instruction that has a `MemoryUse`; likewise."""

    @abstractmethod
    def is_flag(self, register: str) -> bool:
        """Tell whether a register is a predicate."""

    @abstractmethod
    def motion(self, instruction: Instruction, varying: frozenset[str]) -> Motion:
        """Return how a result moves in a loop.

        Args:
            instruction: inside the loop.
            varying: registers that move with its iterations.
        """

    @abstractmethod
    def period(self, instruction: Instruction, values: Sequence[Array]) -> int:
        """Return after which distance of the first operand a periodic result moves by a step."""

    @abstractmethod
    def cost(self, instruction: Instruction) -> Cost:
        """Return what an instruction costs."""

    @abstractmethod
    def chain_cycles(self, instructions: Sequence[Instruction]) -> float:
        """Return SM cycles of the longest chain of dependent instructions, with all pipes free."""

    def unseen(self, instruction: Instruction) -> str:
        """Say what cannot be followed of an instruction; empty if nothing."""
        del instruction
        return ""

    @property
    def needs_first_lanes(self) -> bool:
        """Tell whether threads do what the first of their warp decides, or that one works alone."""
        return False

    def argument_name(self, pointer: str) -> str:
        """Return the user's name of a pointer of `Instruction.pointers`."""
        return pointer

    def pointers_into(self, storage: TensorArgument) -> list[str]:
        """Return the parameters that point into a storage."""
        del storage
        return []

    def is_of_thread(self, register: str) -> bool:
        """Tell whether a register tells threads of a block apart, as their index does."""
        del register
        return True

    def pointer_bytes(self, pointer: str) -> int:
        """Return the bytes of the storage behind a pointer; 0 if unknown."""
        del pointer
        return 0

    def shared_accesses(
        self, accesses: SharedAccesses
    ) -> Iterable[tuple[Instruction, Value, Active, int]]:
        """Return accesses of shared memory as the machine makes them, each with its width."""
        for instruction, addresses, active in accesses:
            assert instruction.memory is not None
            yield instruction, addresses, active, instruction.memory.width_bytes


assert max(WINDOWS.values()) < 1 << (63 - ADDRESS_BITS)
